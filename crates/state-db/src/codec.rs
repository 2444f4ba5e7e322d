//! Keys and values as bytes, in reth's v1 layout.
//!
//! Integers in keys are big-endian, so that byte order is number order. Values are `reth-codecs`
//! Compact, except bare integers and byte strings, which reth stores as SCALE (little-endian).
//! Decoders never panic: what does not fit is [`None`].

use crate::{contain::contained, types::Receipt};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use alloy_trie::{BranchNodeCompact, Nibbles};
use reth_codecs::{Compact, Compress, Decompress};
use reth_primitives_traits::Account as StoredAccount;
use reth_zstd_compressors::with_receipt_decompressor;
use state_root::{StoredBranch, updates::Account};

/// Highest block in the key of a history's last shard, which is still being filled.
pub(crate) const LAST_SHARD: u64 = u64::MAX;

/// Number of blocks in a full history shard.
pub(crate) const SHARD_BLOCKS: usize = 2000;

/// Length of a padded nibble path followed by its length.
pub(crate) const PATH_SUBKEY_LEN: usize = 65;

/// Joins parts whose lengths add up to `LEN`.
fn join<const LEN: usize>(parts: [&[u8]; 2]) -> [u8; LEN] {
    let mut key = [0; LEN];
    let (start, end) = key.split_at_mut(parts[0].len());
    start.copy_from_slice(parts[0]);
    end.copy_from_slice(parts[1]);
    key
}

/// Key of one account's storage changes in one block.
pub(crate) fn storage_change_key(block: u64, address: &Address) -> [u8; 28] {
    join([&block.to_be_bytes(), address.as_slice()])
}

/// Key of a shard of an account's history.
pub(crate) fn account_shard_key(address: &Address, highest: u64) -> [u8; 28] {
    join([address.as_slice(), &highest.to_be_bytes()])
}

/// Key of a shard of a slot's history.
pub(crate) fn storage_shard_key(address: &Address, slot: &B256, highest: u64) -> [u8; 60] {
    let place: [u8; 52] = join([address.as_slice(), slot.as_slice()]);
    join([&place, &highest.to_be_bytes()])
}

/// Subkey of a storage trie node: 64 nibbles, a byte each, padded with zeros, and their number.
///
/// Its first `path.len()` bytes are the account trie's key.
pub(crate) fn path_subkey(path: &Nibbles) -> [u8; PATH_SUBKEY_LEN] {
    let mut subkey = [0u8; PATH_SUBKEY_LEN];
    for (to, nibble) in subkey.iter_mut().zip(path.iter()) {
        *to = nibble;
    }
    subkey[PATH_SUBKEY_LEN - 1] = path.len() as u8;
    subkey
}

/// The path of an account trie key.
pub(crate) fn decode_path(key: &[u8]) -> Option<Nibbles> {
    (key.len() <= 64 && key.iter().all(|nibble| *nibble < 16))
        .then(|| Nibbles::from_nibbles_unchecked(key))
}

/// A storage trie row: its path and its node.
pub(crate) fn decode_storage_node(value: &[u8]) -> Option<(Nibbles, BranchNodeCompact)> {
    let (subkey, node) = value.split_at_checked(PATH_SUBKEY_LEN)?;
    let path = decode_path(subkey.get(..usize::from(subkey[PATH_SUBKEY_LEN - 1]))?)?;
    Some((path, decode_node(node)?))
}

/// A branch node: three masks, then its hashes.
pub(crate) fn decode_node(value: &[u8]) -> Option<BranchNodeCompact> {
    let (masks, _) = value.split_first_chunk::<6>()?;
    let mask = |at: usize| u16::from_be_bytes([masks[at], masks[at + 1]]);
    let (state_mask, hash_mask) = (mask(0), mask(4));
    let subsets = (mask(2) | hash_mask) & !state_mask == 0;
    let hashes = hash_mask.count_ones() as usize;
    let fits = |count: usize| value.len() == 6 + 32 * count;
    (subsets && (fits(hashes) || fits(hashes + 1)))
        .then(|| BranchNodeCompact::from_compact(value, value.len()).0)
}

/// Appends a branch node.
pub(crate) fn encode_node(node: &BranchNodeCompact, buf: &mut Vec<u8>) {
    node.to_compact(buf);
}

/// The same without the root hash, which no branch but a root can have.
pub(crate) fn decode_branch(value: &[u8]) -> Option<StoredBranch> {
    decode_node(value).map(StoredBranch::from)
}

/// Appends a branch as [`encode_node`] does.
pub(crate) fn encode_branch(branch: &StoredBranch, buf: &mut Vec<u8>) {
    let masks = branch.masks();
    for mask in [masks.state, masks.tree, masks.hash] {
        buf.extend_from_slice(&mask.get().to_be_bytes());
    }
    for hash in branch.hashes() {
        buf.extend_from_slice(hash.as_slice());
    }
}

/// Appends an account. No code is stored as an absent hash.
pub(crate) fn encode_account(account: &Account, buf: &mut Vec<u8>) {
    let hash = (account.code_hash != KECCAK256_EMPTY).then_some(account.code_hash);
    StoredAccount::new(account.nonce, account.balance, hash).to_compact(buf);
}

/// An account. Its two flag bytes hold, from the lowest bit, the nonce's length (4 bits), the
/// balance's length (6 bits) and whether there is a code hash.
pub(crate) fn decode_account(value: &[u8]) -> Option<Account> {
    let flags = u16::from_le_bytes([*value.first()?, *value.get(1)?]);
    let (nonce, balance) = (usize::from(flags & 0xf), usize::from(flags >> 4 & 0x3f));
    let code = if flags >> 10 & 1 == 1 { 32 } else { 0 };
    if nonce > 8 || balance > 32 || value.len() != 2 + nonce + balance + code {
        return None;
    }
    let (stored, _) = StoredAccount::from_compact(value, value.len());
    Some(Account {
        nonce: stored.nonce,
        balance: stored.balance,
        code_hash: stored.get_bytecode_hash(),
    })
}

/// Appends a slot's value to a buffer that holds its key.
pub(crate) fn encode_slot(slot: &B256, value: &U256, buf: &mut Vec<u8>) {
    buf.extend_from_slice(slot.as_slice());
    value.to_compact(buf);
}

/// A slot (hashed or not) and its value.
pub(crate) fn decode_slot(value: &[u8]) -> Option<(B256, U256)> {
    let (slot, value) = value.split_at_checked(32)?;
    Some((B256::from_slice(slot), U256::try_from_be_slice(value)?))
}

/// A row of the account changesets: an address and its account before the block.
pub(crate) fn decode_account_change(value: &[u8]) -> Option<(Address, Option<Account>)> {
    let (address, before) = value.split_at_checked(20)?;
    let before = if before.is_empty() {
        None
    } else {
        Some(decode_account(before)?)
    };
    Some((Address::from_slice(address), before))
}

/// A bare integer value.
pub(crate) fn encode_u64(value: u64) -> Vec<u8> {
    value.compress()
}

/// A bare integer value.
pub(crate) fn decode_u64(value: &[u8]) -> Option<u64> {
    u64::decompress(value).ok()
}

/// A byte string value.
pub(crate) fn encode_bytes(value: Vec<u8>) -> Vec<u8> {
    value.compress()
}

/// A byte string value.
pub(crate) fn decode_bytes(value: &[u8]) -> Option<Vec<u8>> {
    Vec::decompress(value).ok()
}

/// A block number in a key.
pub(crate) fn decode_block_key(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(..8)?.try_into().ok()?))
}

/// A whole Compact value.
pub(crate) fn decode_compact<T: Compact>(value: &[u8]) -> Option<T> {
    contained(|| T::from_compact(value, value.len()).0)
}

/// A Compact list, which begins with its length. Every element takes a byte at least.
pub(crate) fn decode_list<T: Compact>(value: &[u8]) -> Option<T> {
    let (length, elements) = split_length(value)?;
    (length <= elements.len()).then(|| decode_compact(value))?
}

/// A receipt. Its decoder makes room for as many logs and topics as the row claims, so the claims
/// are looked at first.
///
/// The flag byte holds, from the lowest bit, the type (2 bits, 3 for one in a byte of its own),
/// whether it succeeded, the length of the gas (4 bits), and whether the rest is compressed.
pub(crate) fn decode_receipt(value: &[u8]) -> Option<Receipt> {
    let (&flags, rest) = value.split_first()?;
    let before_logs = usize::from(flags & 3 == 3) + usize::from(flags >> 3 & 0xf);
    let fit = |fields: &[u8]| fields.get(before_logs..).and_then(logs_fit);
    let fits = if flags & 0x80 == 0 {
        fit(rest)
    } else {
        contained(|| with_receipt_decompressor(|zstd| fit(zstd.decompress(rest))))?
    };
    fits.and_then(|()| decode_compact(value))
}

/// Whether a Compact list of logs and the topics in it claim no more elements than there are bytes
/// for. A log has its own length before it; in it are the address, the topics and the data.
fn logs_fit(logs: &[u8]) -> Option<()> {
    let (count, mut rest) = split_length(logs)?;
    for _ in 0..count {
        let (length, log) = split_length(rest)?;
        let (log, after) = log.split_at_checked(length)?;
        let (topics, data) = split_length(log.get(20..)?)?;
        if topics > data.len() / 32 {
            return None;
        }
        rest = after;
    }
    Some(())
}

/// The number a Compact list begins with (seven bits a byte, lowest first), and what follows it.
fn split_length(value: &[u8]) -> Option<(usize, &[u8])> {
    let end = value.iter().take(9).position(|byte| *byte < 0x80)?;
    let (digits, rest) = value.split_at(end + 1);
    let number = digits
        .iter()
        .rev()
        .fold(0, |n, byte| n << 7 | usize::from(byte & 0x7f));
    Some((number, rest))
}

/// The transaction numbers of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyIndices {
    /// Number of its first transaction (or of the next one, when it has none).
    pub(crate) first: u64,
    /// How many transactions it has.
    pub(crate) count: u64,
}

impl BodyIndices {
    /// Number of the first transaction after the block.
    pub(crate) fn next(self) -> u64 {
        self.first + self.count
    }

    /// One byte with both lengths (first in the low half), then both numbers, trimmed.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut buf = vec![0];
        let first = self.first.to_compact(&mut buf);
        let count = self.count.to_compact(&mut buf);
        buf[0] = (first | count << 4) as u8;
        buf
    }

    /// The reverse of [`Self::encode`].
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (&flags, rest) = value.split_first()?;
        let (first_len, count_len) = (usize::from(flags & 0xf), usize::from(flags >> 4));
        if first_len > 8 || count_len > 8 || rest.len() != first_len + count_len {
            return None;
        }
        let (first, rest) = u64::from_compact(rest, first_len);
        let (count, _) = u64::from_compact(rest, count_len);
        Some(Self { first, count })
    }
}

/// A stage checkpoint without stage-specific data: the block number's length, then the number.
pub(crate) fn encode_checkpoint(block: u64) -> Vec<u8> {
    let mut buf = vec![0];
    buf[0] = block.to_compact(&mut buf) as u8;
    buf
}

/// The block number of a stage checkpoint.
pub(crate) fn decode_checkpoint(value: &[u8]) -> Option<u64> {
    let (&flags, rest) = value.split_first()?;
    let len = usize::from(flags & 0xf);
    (len <= 8 && rest.len() >= len).then(|| u64::from_compact(rest, len).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Log, address, b256, hex};
    use alloy_trie::TrieMask;

    const ADDRESS: Address = address!("00112233445566778899aabbccddeeff00112233");
    const SLOT: B256 = b256!("1111111111111111111111111111111111111111111111111111111111111111");

    fn account(nonce: u64, balance: u64, code_hash: B256) -> Vec<u8> {
        let mut buf = Vec::new();
        let account = Account {
            nonce,
            balance: U256::from(balance),
            code_hash,
        };
        encode_account(&account, &mut buf);
        assert_eq!(decode_account(&buf), Some(account));
        buf
    }

    #[test]
    fn accounts_have_reths_flag_bits() {
        assert_eq!(account(0, 0, KECCAK256_EMPTY), hex!("0000"));
        // nonce length 1, balance length 2: 0b0000_0010_0001.
        assert_eq!(account(5, 0x0102, KECCAK256_EMPTY), hex!("2100 05 0102"));
        // Code hash flag is bit 10.
        assert_eq!(
            account(0, 0, SLOT),
            [&hex!("0004")[..], SLOT.as_slice()].concat()
        );
    }

    fn receipt(logs: Vec<Log>) -> (Receipt, Vec<u8>) {
        let receipt = Receipt {
            tx_type: alloy_consensus::TxType::Eip4844,
            success: true,
            cumulative_gas_used: 21_000,
            logs,
        };
        let mut row = Vec::new();
        receipt.to_compact(&mut row);
        (receipt, row)
    }

    #[test]
    fn receipts_claim_no_more_than_they_have_bytes() {
        let (whole, mut row) = receipt(Vec::new());
        assert_eq!(decode_receipt(&row), Some(whole));
        // Two billion logs.
        row.pop();
        row.extend([0xff, 0xff, 0xff, 0xff, 0x07]);
        assert_eq!(decode_receipt(&row), None);
        // One log of 25 bytes with two billion topics.
        row.truncate(row.len() - 5);
        row.extend([1, 25]);
        row.extend([7; 20]);
        row.extend([0xff, 0xff, 0xff, 0xff, 0x07]);
        assert_eq!(decode_receipt(&row), None);

        let log = Log::new_unchecked(ADDRESS, vec![SLOT; 4], vec![7; 100].into());
        let (whole, row) = receipt(vec![log; 3]);
        assert_eq!(row[0] & 0x80, 0x80, "long receipts are compressed");
        assert_eq!(decode_receipt(&row), Some(whole));
    }

    #[test]
    fn compressed_receipts_claim_no_more_than_they_have_bytes() {
        // The type in a byte of its own, no gas, one log of 25 bytes with two billion topics.
        let mut fields = vec![3, 1, 25];
        fields.extend([7; 20]);
        fields.extend([0xff, 0xff, 0xff, 0xff, 0x07]);
        let compressed =
            reth_zstd_compressors::with_receipt_compressor(|zstd| zstd.compress(&fields));
        let row = [vec![0x83], compressed.unwrap()].concat();
        assert_eq!(decode_receipt(&row), None);
    }

    #[test]
    fn accounts_that_do_not_fit_their_flags_are_refused() {
        for bytes in [
            &hex!("")[..],
            &hex!("00"),
            &hex!("0100"),
            &hex!("0900 000000000000000001"),
        ] {
            assert_eq!(decode_account(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn slots_are_the_key_and_the_trimmed_value() {
        let mut buf = Vec::new();
        encode_slot(&SLOT, &U256::from(0x01ff), &mut buf);
        assert_eq!(buf, [SLOT.as_slice(), &hex!("01ff")].concat());
        assert_eq!(decode_slot(&buf), Some((SLOT, U256::from(0x01ff))));
        assert_eq!(decode_slot(SLOT.as_slice()), Some((SLOT, U256::ZERO)));
        assert_eq!(decode_slot(&buf[..31]), None);
    }

    #[test]
    fn trie_paths_are_a_byte_a_nibble() {
        let path = Nibbles::from_nibbles([0xa, 0x0, 0x3]);
        let subkey = path_subkey(&path);
        let mut expected = [0u8; 65];
        expected[0] = 0xa;
        expected[2] = 3;
        expected[64] = 3;
        assert_eq!(subkey, expected);
        assert_eq!(decode_path(&subkey[..3]), Some(path));
        assert_eq!(decode_path(&[0x10]), None);
    }

    #[test]
    fn branch_nodes_are_three_masks_and_hashes() {
        let node = BranchNodeCompact::new(
            TrieMask::new(0x8003),
            TrieMask::new(0x0001),
            TrieMask::new(0x8000),
            vec![SLOT],
            None,
        );
        let mut buf = Vec::new();
        encode_node(&node, &mut buf);
        assert_eq!(buf, [&hex!("8003 0001 8000")[..], SLOT.as_slice()].concat());
        assert_eq!(decode_node(&buf), Some(node.clone()));
        assert_eq!(decode_node(&buf[..20]), None);
        let branch = StoredBranch::from(node);
        let mut same = Vec::new();
        encode_branch(&branch, &mut same);
        assert_eq!(same, buf);
        assert_eq!(decode_branch(&buf), Some(branch));
    }

    #[test]
    fn keys_are_big_endian() {
        assert_eq!(
            storage_change_key(0x0102, &ADDRESS),
            hex!("0000000000000102 00112233445566778899aabbccddeeff00112233")
        );
        assert_eq!(
            account_shard_key(&ADDRESS, LAST_SHARD),
            hex!("00112233445566778899aabbccddeeff00112233 ffffffffffffffff")
        );
        assert_eq!(
            storage_shard_key(&ADDRESS, &SLOT, 2)[..],
            [
                ADDRESS.as_slice(),
                SLOT.as_slice(),
                &hex!("0000000000000002")
            ]
            .concat()
        );
    }

    #[test]
    fn bare_integers_are_little_endian() {
        assert_eq!(encode_u64(0x0102), hex!("0201000000000000"));
        assert_eq!(decode_u64(&hex!("0201000000000000")), Some(0x0102));
        assert_eq!(encode_bytes(vec![7, 8]), hex!("08 0708"));
        assert_eq!(decode_bytes(&hex!("080708")), Some(vec![7, 8]));
    }

    #[test]
    fn small_structs_are_lengths_then_trimmed_numbers() {
        let indices = BodyIndices {
            first: 0x0102,
            count: 3,
        };
        assert_eq!(indices.encode(), hex!("12 0102 03"));
        assert_eq!(BodyIndices::decode(&indices.encode()), Some(indices));
        assert_eq!(BodyIndices { first: 0, count: 0 }.encode(), hex!("00"));
        assert_eq!(encode_checkpoint(0x0102), hex!("02 0102"));
        assert_eq!(decode_checkpoint(&hex!("020102")), Some(0x0102));
    }
}
