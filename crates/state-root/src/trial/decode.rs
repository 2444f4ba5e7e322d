//! Scripts as bytes: every sequence of bytes is a script, so a fuzzer wastes nothing.
//!
//! Keys are made to crowd. A key is one of few patterns with one or two nibbles replaced, so any
//! two share a prefix of any length, down to the last nibble.

use super::{Block, Step, Trial};
use crate::{
    chunk::ChunkPolicy,
    nibbles::KEY_LEN,
    strategy::{LateRoot, ProofConfig, RangeConfig, Strategy},
    updates::{Account, HashedChange},
};
use alloy_primitives::{B256, U256, keccak256};
use std::num::{NonZeroU64, NonZeroUsize};

/// Changes in one script: what a fuzzer's input cannot exceed, so that runs stay short.
const MAX_CHANGES: usize = 400;

impl Trial {
    /// The script that `bytes` spell. Where they end, the script ends.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes);
        let strategy = bytes.strategy();
        let mut steps = Vec::new();
        let mut room = MAX_CHANGES;
        while room > 0
            && let Some(kind) = bytes.take()
        {
            steps.push(match kind {
                0..16 => Step::Back(usize::from(kind % 4)),
                _ => Step::Block(bytes.block(kind, &mut room)),
            });
        }
        Self { strategy, steps }
    }
}

/// What is left of the input.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, or zero at the end.
    fn byte(&mut self) -> u8 {
        self.take().unwrap_or(0)
    }

    fn strategy(&mut self) -> Strategy {
        let count = |byte: u8| NonZeroUsize::MIN.saturating_add(usize::from(byte));
        let (way, workers, size) = (self.byte(), self.byte(), count(self.byte()));
        let accounts = count(workers & 7);
        // From nothing at all to all of it.
        let kept_bytes = 1 << ((workers >> 6) * 8);
        match usize::from(way % 6) {
            rule @ 0..3 => Strategy::Proofs(ProofConfig {
                policy: ChunkPolicy::ALL[rule],
                batch_keys: count(workers & 63),
                chunk_size: size,
                account_workers: accounts,
                storage_workers: count(workers >> 3 & 7),
                kept_blocks: NonZeroU64::new(u64::from(workers & 3)),
                kept_bytes,
            }),
            3 => Strategy::Ranges(RangeConfig {
                grain: size,
                threads: accounts,
                kept_bytes,
            }),
            4 => Strategy::Late(LateRoot::Parallel(accounts)),
            _ => Strategy::Late(LateRoot::Serial),
        }
    }

    fn block(&mut self, kind: u8, room: &mut usize) -> Block {
        let count = (1 + usize::from(kind % 16)).min(*room);
        *room -= count;
        Block {
            changes: (0..count).map(|_| self.change()).collect(),
            per_message: NonZeroUsize::MIN.saturating_add(usize::from(kind >> 4 & 3)),
            rests: kind & 0x80 != 0,
        }
    }

    fn change(&mut self) -> HashedChange {
        let kind = self.byte();
        let account = |nonce: u8| Account {
            nonce: nonce.into(),
            ..Account::default()
        };
        HashedChange {
            address: self.key(),
            account: match kind & 7 {
                0 => None,
                1 => Some(None),
                nonce => Some(Some(account(nonce))),
            },
            storage_wiped: kind >> 6 == 3,
            slots: (0..kind >> 3 & 7)
                .map(|_| (self.key(), self.value()))
                .collect(),
        }
    }

    fn key(&mut self) -> B256 {
        let kind = self.byte();
        let mut key = match kind & 7 {
            pattern @ 0..4 => B256::repeat_byte(pattern * 0x11),
            4 => keccak256([kind]),
            5 => return keccak256([self.byte()]),
            pattern => B256::with_last_byte(pattern),
        };
        for _ in 0..kind >> 3 & 3 {
            let (at, nibble) = (usize::from(self.byte()) % KEY_LEN, self.byte() & 0xf);
            let shift = if at.is_multiple_of(2) { 4 } else { 0 };
            key[at / 2] = key[at / 2] & !(0xf << shift) | nibble << shift;
        }
        key
    }

    fn value(&mut self) -> U256 {
        match self.byte() {
            byte @ 0..0x40 => U256::from(byte % 4),
            byte @ 0x40..0xc0 => U256::from(byte),
            byte => U256::from_be_bytes(B256::repeat_byte(byte).0),
        }
    }
}
