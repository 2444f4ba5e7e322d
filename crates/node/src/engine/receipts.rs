//! What a header says of receipts, made while transactions are executed.
//!
//! ```text
//!  executing thread                       a thread beside it
//!  ----------------                       ------------------
//!  see(receipts) ──a group, in a queue──▶ bloom, encode, hash, add to the trie
//!  end(receipts) ──the last group───────▶ … until the queue is empty; root ──▶ summary
//! ```
//!
//! No thread waits for receipts: whoever puts a group into an idle queue spawns the work on it.

use super::{beside::spawn, insert::TARGET};
use crate::primitives::Receipt;
use alloy_consensus::{Eip658Value, Receipt as EthereumReceipt, TxReceipt};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Bloom};
use alloy_rlp::Encodable;
use alloy_trie::{HashBuilder, Nibbles};
use crossbeam_channel::{Receiver, Sender};
use std::{
    mem::take,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tracing::{Span, debug_span};

/// Receipts that are sent together, so that there are few wake-ups.
const GROUP: usize = 32;
/// The first index whose key in the trie, its RLP, sorts behind that of index 0, which is 0x80.
const FIRST_BEHIND_ZERO: usize = 128;

/// Fields of a header that depend on the receipts alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceiptSummary {
    /// Root of the trie of receipts.
    pub(super) root: B256,
    /// Union of the receipts' blooms.
    pub(super) bloom: Bloom,
}

impl ReceiptSummary {
    /// Hashes every receipt, which is worth a thread of its own.
    pub(super) fn of(receipts: &[Receipt]) -> Self {
        let mut growing = Growing::default();
        receipts.iter().for_each(|receipt| growing.push(receipt));
        growing.finish()
    }

    /// Before Byzantium (EIP-658) a receipt names the state root after its transaction instead of
    /// the outcome.
    pub(super) fn with_state_roots(receipts: &[Receipt], roots: &[B256]) -> Self {
        let mut growing = Growing::default();
        for (receipt, root) in receipts.iter().zip(roots) {
            let receipt = TxReceipt::into_with_bloom(EthereumReceipt {
                status: Eip658Value::PostState(*root),
                cumulative_gas_used: receipt.cumulative_gas_used,
                logs: receipt.logs.clone(),
            });
            growing.push_with(&receipt.logs_bloom, |out| receipt.encode(out));
        }
        growing.finish()
    }
}

/// The trie of the receipts so far, and the union of their blooms.
///
/// Keys are the RLP of indices (yellow paper, section 4.3.2), which sort like the indices but for
/// the first one.
#[derive(Debug, Default)]
struct Growing {
    trie: HashBuilder,
    /// Index 0, until its turn.
    first: Option<Vec<u8>>,
    count: usize,
    bloom: Bloom,
    encoded: Vec<u8>,
}

impl Growing {
    fn push(&mut self, receipt: &Receipt) {
        let receipt = receipt.with_bloom_ref();
        self.push_with(&receipt.logs_bloom, |out| receipt.encode_2718(out));
    }

    fn push_with(&mut self, bloom: &Bloom, encode: impl FnOnce(&mut Vec<u8>)) {
        self.bloom.accrue_bloom(bloom);
        let mut encoded = take(&mut self.encoded);
        encoded.clear();
        encode(&mut encoded);
        if self.count == FIRST_BEHIND_ZERO {
            self.add_first();
        }
        if self.count == 0 {
            self.first = Some(encoded);
        } else {
            self.add(self.count, &encoded);
            self.encoded = encoded;
        }
        self.count += 1;
    }

    fn add_first(&mut self) {
        if let Some(encoded) = self.first.take() {
            self.add(0, &encoded);
        }
    }

    fn add(&mut self, index: usize, encoded: &[u8]) {
        let key = Nibbles::unpack(alloy_rlp::encode_fixed_size(&index));
        self.trie.add_leaf(key, encoded);
    }

    fn finish(mut self) -> ReceiptSummary {
        self.add_first();
        ReceiptSummary {
            root: self.trie.root(),
            bloom: self.bloom,
        }
    }
}

/// The summary of a block's receipts in the making.
pub(super) struct ReceiptStream {
    line: Arc<Line>,
    /// Receipts that were sent.
    sent: usize,
    summary: Receiver<ReceiptSummary>,
}

/// Receipts on their way into the summary.
struct Line {
    queue: Mutex<Queue>,
    /// Touched by whoever works on the queue.
    growing: Mutex<Growing>,
    summary: Sender<ReceiptSummary>,
    /// What the spans of the work belong to.
    span: Span,
}

#[derive(Default)]
struct Queue {
    receipts: Vec<Receipt>,
    is_ended: bool,
    has_worker: bool,
}

impl ReceiptStream {
    pub(super) fn start() -> Self {
        let (sender, summary) = crossbeam_channel::bounded(1);
        let line = Arc::new(Line {
            queue: Mutex::default(),
            growing: Mutex::default(),
            summary: sender,
            span: Span::current(),
        });
        Self {
            line,
            sent: 0,
            summary,
        }
    }

    /// Sends what is new in `receipts`, which are all so far, when it is worth it.
    pub(super) fn see(&mut self, receipts: &[Receipt]) {
        if receipts.len() >= self.sent + GROUP {
            self.send(receipts, false);
        }
    }

    /// Says that these are all receipts; answers where their summary comes out.
    pub(super) fn end(mut self, receipts: &[Receipt]) -> Receiver<ReceiptSummary> {
        self.send(receipts, true);
        self.summary
    }

    fn send(&mut self, receipts: &[Receipt], is_ended: bool) {
        let mut queue = lock(&self.line.queue);
        queue.receipts.extend_from_slice(&receipts[self.sent..]);
        queue.is_ended = is_ended;
        let is_idle = !std::mem::replace(&mut queue.has_worker, true);
        drop(queue);
        self.sent = receipts.len();
        if is_idle {
            let line = Arc::clone(&self.line);
            spawn(move || line.work());
        }
    }
}

impl Line {
    /// Works on the queue until it is empty.
    fn work(&self) {
        let _span =
            debug_span!(target: TARGET, parent: &self.span, "beside", otel.name = "receipt_root")
                .entered();
        let mut growing = lock(&self.growing);
        loop {
            let (receipts, is_ended) = {
                let mut queue = lock(&self.queue);
                queue.has_worker = !queue.receipts.is_empty() || queue.is_ended;
                if !queue.has_worker {
                    return;
                }
                (take(&mut queue.receipts), queue.is_ended)
            };
            receipts.iter().for_each(|receipt| growing.push(receipt));
            if is_ended {
                // A block refused meanwhile has no use for it.
                let _ = self.summary.send(take(&mut *growing).finish());
                return;
            }
        }
    }
}

/// A panic while a lock is held drops the line, and who waits for the summary hears of it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{
        TxType,
        proofs::{calculate_receipt_root, ordered_trie_root_encoded},
    };
    use alloy_primitives::{Address, Bytes, Log, LogData};
    use proptest::prelude::*;

    /// Receipts of all types, some with logs, some failed.
    fn receipts(count: usize) -> Vec<Receipt> {
        let types = [
            TxType::Legacy,
            TxType::Eip2930,
            TxType::Eip1559,
            TxType::Eip4844,
            TxType::Eip7702,
        ];
        let receipt = |index: usize| Receipt {
            tx_type: types[index % types.len()],
            success: !index.is_multiple_of(7),
            cumulative_gas_used: 21_000 * (index as u64 + 1),
            logs: (0..index % 4).map(|log| note(index, log)).collect(),
        };
        (0..count).map(receipt).collect()
    }

    fn note(index: usize, log: usize) -> Log {
        let topics = (0..log).map(|topic| B256::with_last_byte((index + topic) as u8));
        Log {
            address: Address::with_last_byte(index as u8),
            data: LogData::new_unchecked(
                topics.collect(),
                Bytes::from(vec![log as u8; index % 90]),
            ),
        }
    }

    /// What the library says of them.
    fn reference(receipts: &[Receipt]) -> ReceiptSummary {
        let with_bloom: Vec<_> = receipts.iter().map(TxReceipt::with_bloom_ref).collect();
        let mut bloom = Bloom::ZERO;
        for receipt in &with_bloom {
            bloom.accrue_bloom(&receipt.logs_bloom);
        }
        ReceiptSummary {
            root: calculate_receipt_root(&with_bloom),
            bloom,
        }
    }

    #[test]
    fn any_number_of_receipts_has_the_root_of_the_library() {
        let all = receipts(300);
        for count in (0..=130).chain([199, 255, 256, 257, 300]) {
            let (found, expected) = (ReceiptSummary::of(&all[..count]), reference(&all[..count]));
            assert_eq!(found, expected, "{count} receipts");
        }
    }

    #[test]
    fn receipts_with_state_roots_are_those_without_a_type() {
        let receipts = receipts(140);
        let roots: Vec<_> = (0..140).map(B256::with_last_byte).collect();
        let encoded: Vec<Bytes> = receipts
            .iter()
            .zip(&roots)
            .map(|(receipt, root)| {
                let old = TxReceipt::into_with_bloom(EthereumReceipt {
                    status: Eip658Value::PostState(*root),
                    cumulative_gas_used: receipt.cumulative_gas_used,
                    logs: receipt.logs.clone(),
                });
                alloy_rlp::encode(old).into()
            })
            .collect();
        let found = ReceiptSummary::with_state_roots(&receipts, &roots);
        assert_eq!(found.root, ordered_trie_root_encoded(&encoded));
        assert_eq!(found.bloom, reference(&receipts).bloom);
    }

    proptest! {
        /// However many receipts are there whenever somebody looks.
        #[test]
        fn a_stream_has_the_summary_of_all(steps in prop::collection::vec(0_usize..70, 0..12)) {
            let all = receipts(steps.iter().sum());
            let mut stream = ReceiptStream::start();
            let mut seen = 0;
            for step in steps {
                seen += step;
                stream.see(&all[..seen]);
            }
            let summary = stream.end(&all).recv().unwrap();
            prop_assert_eq!(summary, reference(&all));
        }
    }
}
