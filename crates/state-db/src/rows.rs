//! Single rows outside a database: what a table's decoder makes of bytes.

use crate::{
    codec::{self, BodyIndices, decode_compact, decode_list},
    history,
    tables::Table,
    types::TransactionSigned,
};
use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawals;
use reth_codecs::Compact;

/// Decodes a value of `table` and encodes what came out. `None` when the value does not decode.
///
/// A row that the node wrote comes back as it was. Keys, which are fixed bytes, are not looked at.
pub fn reencode(table: Table, value: &[u8]) -> Option<Vec<u8>> {
    let fixed = |length: usize| (value.len() == length).then(|| value.to_vec());
    match table {
        Table::CanonicalHeaders => fixed(32),
        Table::TransactionSenders => fixed(20),
        Table::Headers => decode_compact::<Header>(value).map(compact),
        Table::BlockBodyIndices => BodyIndices::decode(value).map(BodyIndices::encode),
        Table::BlockOmmers => decode_list::<Vec<Header>>(value).map(compact),
        Table::BlockWithdrawals => decode_list::<Withdrawals>(value).map(compact),
        Table::Transactions => decode_compact::<TransactionSigned>(value).map(compact),
        Table::Receipts => codec::decode_receipt(value).map(compact),
        Table::HeaderNumbers
        | Table::TransactionHashNumbers
        | Table::TransactionBlocks
        | Table::ChainState => codec::decode_u64(value).map(codec::encode_u64),
        Table::Bytecodes | Table::Metadata => codec::decode_bytes(value).map(codec::encode_bytes),
        Table::PlainAccountState | Table::HashedAccounts => codec::decode_account(value)
            .map(|account| filled(|buf| codec::encode_account(&account, buf))),
        Table::PlainStorageState | Table::HashedStorages => reencode_slot(value),
        // The address before the slot is in the key.
        Table::StorageChangeSets => reencode_slot(value),
        Table::AccountsTrie => {
            codec::decode_node(value).map(|node| filled(|buf| codec::encode_node(&node, buf)))
        }
        Table::StoragesTrie => codec::decode_storage_node(value).map(|(path, node)| {
            let mut row = codec::path_subkey(&path).to_vec();
            codec::encode_node(&node, &mut row);
            row
        }),
        Table::AccountChangeSets => codec::decode_account_change(value).map(|(address, before)| {
            let mut row = address.to_vec();
            if let Some(before) = before {
                codec::encode_account(&before, &mut row);
            }
            row
        }),
        Table::AccountsHistory | Table::StoragesHistory => history::reencode_shard(value),
        Table::StageCheckpoints => codec::decode_checkpoint(value).map(codec::encode_checkpoint),
    }
}

fn reencode_slot(value: &[u8]) -> Option<Vec<u8>> {
    codec::decode_slot(value)
        .map(|(slot, value)| filled(|buf| codec::encode_slot(&slot, &value, buf)))
}

fn compact<T: Compact>(value: T) -> Vec<u8> {
    filled(|buf| {
        value.to_compact(buf);
    })
}

fn filled(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buf = Vec::new();
    fill(&mut buf);
    buf
}
