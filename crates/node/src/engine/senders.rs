//! Decodes transactions and recovers their senders on the rayon pool, streamed in block order.
//!
//! Execution starts with the first batch while later ones are still recovered. The consumer never
//! idles while work is unclaimed: it takes the next batch itself.

use crate::primitives::TransactionSigned;
use alloy_consensus::transaction::{Recovered, SignerRecoverable};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::Bytes;
use crossbeam_channel::{Receiver, Sender};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Transactions per unit of work: small enough that execution starts at once, big enough that
/// claiming and sending cost nothing beside a recovery (tens of microseconds each).
const BATCH_TRANSACTIONS: usize = 8;

/// A transaction that cannot be executed at all.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum SenderError {
    /// Not an EIP-2718 transaction.
    #[error("transaction {index} cannot be decoded: {reason}")]
    Decode {
        /// Position in the block.
        index: usize,
        /// The decoder's words.
        reason: String,
    },
    /// No key could have made the signature.
    #[error("transaction {index} has an invalid signature")]
    Signature {
        /// Position in the block.
        index: usize,
    },
}

type Item = Result<Recovered<TransactionSigned>, SenderError>;

/// What workers and consumer share.
struct Work {
    encoded: Arc<Vec<Bytes>>,
    next_batch: AtomicUsize,
}

impl Work {
    fn batches(&self) -> usize {
        self.encoded.len().div_ceil(BATCH_TRANSACTIONS)
    }

    fn claim(&self) -> Option<usize> {
        let batch = self.next_batch.fetch_add(1, Ordering::Relaxed);
        (batch < self.batches()).then_some(batch)
    }

    fn recover(&self, batch: usize) -> Vec<Item> {
        let start = batch * BATCH_TRANSACTIONS;
        let end = (start + BATCH_TRANSACTIONS).min(self.encoded.len());
        (start..end)
            .map(|index| recover(index, &self.encoded[index]))
            .collect()
    }
}

/// Decodes one transaction and recovers its sender.
pub(super) fn recover(index: usize, encoded: &[u8]) -> Item {
    let transaction =
        TransactionSigned::decode_2718_exact(encoded).map_err(|error| SenderError::Decode {
            index,
            reason: error.to_string(),
        })?;
    let sender = transaction
        .recover_signer()
        .map_err(|_| SenderError::Signature { index })?;
    Ok(Recovered::new_unchecked(transaction, sender))
}

/// The recovered transactions of one block, in order.
pub(super) struct SenderStream {
    work: Arc<Work>,
    done: Receiver<(usize, Vec<Item>)>,
    early: HashMap<usize, Vec<Item>>,
    current: std::vec::IntoIter<Item>,
    next: usize,
}

impl SenderStream {
    /// Starts recovering `encoded` on the rayon pool.
    pub(super) fn start(encoded: Arc<Vec<Bytes>>) -> Self {
        let work = Arc::new(Work {
            encoded,
            next_batch: AtomicUsize::new(0),
        });
        let (sender, done) = crossbeam_channel::unbounded();
        for _ in 0..rayon::current_num_threads().min(work.batches()) {
            let (work, sender) = (work.clone(), sender.clone());
            rayon::spawn(move || work_off(&work, &sender));
        }
        Self {
            work,
            done,
            early: HashMap::new(),
            current: Vec::new().into_iter(),
            next: 0,
        }
    }

    /// The batch `self.next`, from whoever made it.
    fn take_batch(&mut self) -> Option<Vec<Item>> {
        loop {
            if let Some(items) = self.early.remove(&self.next) {
                return Some(items);
            }
            if let Ok((batch, items)) = self.done.try_recv() {
                self.early.insert(batch, items);
            } else if let Some(batch) = self.work.claim() {
                let items = self.work.recover(batch);
                self.early.insert(batch, items);
            } else {
                let (batch, items) = self.done.recv().ok()?;
                self.early.insert(batch, items);
            }
        }
    }
}

impl Iterator for SenderStream {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(item) = self.current.next() {
            return Some(item);
        }
        if self.next >= self.work.batches() {
            return None;
        }
        self.current = self.take_batch()?.into_iter();
        self.next += 1;
        self.current.next()
    }
}

impl Drop for SenderStream {
    /// A block that turned out invalid early leaves no work behind.
    fn drop(&mut self) {
        self.work
            .next_batch
            .store(self.work.batches(), Ordering::Relaxed);
    }
}

fn work_off(work: &Work, done: &Sender<(usize, Vec<Item>)>) {
    while let Some(batch) = work.claim() {
        if done.send((batch, work.recover(batch))).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxLegacy, crypto::secp256k1};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::B256;

    fn signed(nonce: u64) -> Bytes {
        let transaction = TxLegacy {
            chain_id: Some(1),
            nonce,
            ..Default::default()
        };
        let key = B256::repeat_byte(1 + (nonce % 3) as u8);
        let signature =
            secp256k1::sign_message(key, transaction.signature_hash()).expect("a valid key");
        TransactionSigned::from(transaction.into_signed(signature))
            .encoded_2718()
            .into()
    }

    #[test]
    fn transactions_come_out_in_order_with_their_senders() {
        for count in [0, 1, BATCH_TRANSACTIONS, BATCH_TRANSACTIONS + 1, 100] {
            let encoded: Vec<_> = (0..count as u64).map(signed).collect();
            let expected: Vec<_> = encoded
                .iter()
                .enumerate()
                .map(|(n, raw)| recover(n, raw).unwrap())
                .collect();
            let streamed: Result<Vec<_>, _> = SenderStream::start(Arc::new(encoded)).collect();
            assert_eq!(streamed.unwrap(), expected, "{count} transactions");
        }
    }

    #[test]
    fn a_bad_transaction_fails_at_its_place() {
        let mut encoded: Vec<_> = (0..20).map(signed).collect();
        encoded[13] = Bytes::from_static(b"\x02nonsense");
        let items: Vec<_> = SenderStream::start(Arc::new(encoded)).collect();
        assert_eq!(items.len(), 20);
        for (index, item) in items.iter().enumerate() {
            let failed_here = matches!(item, Err(SenderError::Decode { index: 13, .. }));
            assert_eq!(failed_here, index == 13, "transaction {index}");
            assert_eq!(item.is_ok(), index != 13, "transaction {index}");
        }
    }
}
