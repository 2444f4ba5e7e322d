//! Decodes transactions and recovers their senders beside execution, streamed in block order.
//!
//! Execution starts with the first batch while later ones are still recovered. The consumer never
//! idles while work is unclaimed: it takes the next batch itself. The signers of a batch are found
//! side by side ([`ecrecover`]); where that has no answer, and about every signature that is refused, the
//! library decides.

use super::beside::{spawn, thread_count};
use crate::{chainspec::ChainSpec, primitives::TransactionSigned};
use alloy_consensus::{
    Transaction as _,
    crypto::SECP256K1N_HALF,
    transaction::{Recovered, SignerRecoverable},
};
use alloy_eips::eip2718::Decodable2718;
use alloy_hardforks::EthereumHardforks;
use alloy_primitives::Bytes;
use crossbeam_channel::{Receiver, Sender};
use ecrecover::{LANES, Signed};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tracing::{Span, debug_span};

/// Transactions per unit of work: as many as are recovered side by side, few enough that execution
/// starts at once, and enough that claiming and sending cost nothing beside a recovery (microseconds
/// each).
const BATCH_TRANSACTIONS: usize = LANES;

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
    /// The signature names a chain before EIP-155 allowed that.
    #[error("transaction {index} is signed for one chain, which is not allowed before EIP-155")]
    Protected {
        /// Position in the block.
        index: usize,
    },
    /// No key could have made the signature, or not in this form.
    #[error("transaction {index} has an invalid signature")]
    Signature {
        /// Position in the block.
        index: usize,
    },
}

/// Which signatures a fork accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SignatureRules {
    /// The s value is at most half the curve's order (EIP-2, Homestead).
    pub(super) low_s: bool,
    /// A legacy signature may name its chain (EIP-155, Spurious Dragon).
    pub(super) protected: bool,
}

impl SignatureRules {
    /// Those of Spurious Dragon and all later forks.
    pub(super) const LATEST: Self = Self {
        low_s: true,
        protected: true,
    };

    /// Those of block `number`.
    pub(super) fn at(chain: &ChainSpec, number: u64) -> Self {
        Self {
            low_s: chain.is_homestead_active_at_block(number),
            protected: chain.is_spurious_dragon_active_at_block(number),
        }
    }
}

/// How senders are recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SenderRecovery {
    /// Several side by side, where the processor can.
    #[default]
    SideBySide,
    /// One after another, by the library that reth uses.
    OneByOne,
}

type Item = Result<Recovered<TransactionSigned>, SenderError>;

/// What workers and consumer share.
struct Work {
    encoded: Arc<Vec<Bytes>>,
    rules: SignatureRules,
    recovery: SenderRecovery,
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
        recover(start, &self.encoded[start..end], self.rules, self.recovery)
    }
}

/// Decodes transactions, the first of which has this index in its block, and recovers their senders.
fn recover(
    start: usize,
    encoded: &[Bytes],
    rules: SignatureRules,
    recovery: SenderRecovery,
) -> Vec<Item> {
    let decoded = encoded.iter().zip(start..);
    let decoded: Vec<_> = decoded
        .map(|(encoded, index)| decode(index, encoded, rules))
        .collect();
    let mut signers = match recovery {
        SenderRecovery::SideBySide => {
            let signed: Vec<_> = decoded.iter().flatten().map(signed).collect();
            ecrecover::signers(&signed)
        }
        SenderRecovery::OneByOne => Vec::new(),
    }
    .into_iter();
    let items = decoded.into_iter().zip(start..).map(|(decoded, index)| {
        let transaction = decoded?;
        let signer = signers.next().flatten();
        let is_high = transaction.signature().s() > SECP256K1N_HALF;
        let signer = signer.filter(|_| !(rules.low_s && is_high));
        match signer {
            Some(signer) => Ok(Recovered::new_unchecked(transaction, signer)),
            None => recover_by_library(index, transaction, rules),
        }
    });
    items.collect()
}

fn decode(
    index: usize,
    encoded: &[u8],
    rules: SignatureRules,
) -> Result<TransactionSigned, SenderError> {
    let transaction =
        TransactionSigned::decode_2718_exact(encoded).map_err(|error| SenderError::Decode {
            index,
            reason: error.to_string(),
        })?;
    let is_protected = transaction.is_legacy() && transaction.chain_id().is_some();
    if is_protected && !rules.protected {
        return Err(SenderError::Protected { index });
    }
    Ok(transaction)
}

fn signed(transaction: &TransactionSigned) -> Signed {
    let signature = transaction.signature();
    Signed {
        hash: transaction.signature_hash(),
        r: signature.r(),
        s: signature.s(),
        is_y_odd: signature.v(),
    }
}

/// The library's answer, and its refusal.
fn recover_by_library(index: usize, transaction: TransactionSigned, rules: SignatureRules) -> Item {
    let sender = if rules.low_s {
        transaction.recover_signer()
    } else {
        transaction.recover_signer_unchecked()
    };
    let sender = sender.map_err(|_| SenderError::Signature { index })?;
    Ok(Recovered::new_unchecked(transaction, sender))
}

/// The recovered transactions of one block, in order.
pub(super) struct SenderStream {
    work: Arc<Work>,
    done: Receiver<(usize, Vec<Item>)>,
    early: HashMap<usize, Vec<Item>>,
    current: std::vec::IntoIter<Item>,
    next: usize,
    waited: Duration,
}

impl SenderStream {
    /// Starts recovering `encoded` beside the caller.
    pub(super) fn start(
        encoded: Arc<Vec<Bytes>>,
        rules: SignatureRules,
        recovery: SenderRecovery,
    ) -> Self {
        let work = Arc::new(Work {
            encoded,
            rules,
            recovery,
            next_batch: AtomicUsize::new(0),
        });
        let (sender, done) = crossbeam_channel::unbounded();
        for _ in 0..thread_count().min(work.batches()) {
            let (work, sender) = (work.clone(), sender.clone());
            let parent = Span::current();
            spawn(move || {
                let _span = debug_span!(target: "engine::tree", parent: &parent, "recover_senders")
                    .entered();
                work_off(&work, &sender);
            });
        }
        Self::of(work, done)
    }

    /// What comes of `work`, of which others deliver what they have claimed.
    fn of(work: Arc<Work>, done: Receiver<(usize, Vec<Item>)>) -> Self {
        Self {
            work,
            done,
            early: HashMap::new(),
            current: Vec::new().into_iter(),
            next: 0,
            waited: Duration::ZERO,
        }
    }

    /// How long the consumer had no transaction, because it waited or recovered senders itself.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// The batch `self.next`, from whoever made it.
    fn take_batch(&mut self) -> Vec<Item> {
        loop {
            if let Some(items) = self.early.remove(&self.next) {
                return items;
            }
            if let Ok((batch, items)) = self.done.try_recv() {
                self.early.insert(batch, items);
            } else if let Some(batch) = self.work.claim() {
                let items = self.work.recover(batch);
                self.early.insert(batch, items);
            } else if let Ok((batch, items)) = self.done.recv() {
                self.early.insert(batch, items);
            } else {
                // A thread has panicked over it. If it happens again, whoever asks learns of it.
                return self.work.recover(self.next);
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
        let start = Instant::now();
        self.current = self.take_batch().into_iter();
        self.waited += start.elapsed();
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
    use super::{SenderRecovery::*, *};
    use alloy_consensus::{SignableTransaction, TxLegacy, crypto::secp256k1};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::B256;

    fn signed(nonce: u64) -> Bytes {
        let transaction = TxLegacy {
            chain_id: Some(1),
            nonce,
            ..Default::default()
        };
        sign(transaction, 1 + (nonce % 3) as u8)
    }

    fn sign(transaction: TxLegacy, key: u8) -> Bytes {
        let key = B256::repeat_byte(key);
        let signature =
            secp256k1::sign_message(key, transaction.signature_hash()).expect("a valid key");
        TransactionSigned::from(transaction.into_signed(signature))
            .encoded_2718()
            .into()
    }

    fn stream(encoded: Vec<Bytes>) -> SenderStream {
        SenderStream::start(Arc::new(encoded), SignatureRules::LATEST, SideBySide)
    }

    /// What the library says of a transaction.
    fn alone(index: usize, raw: &Bytes, rules: SignatureRules) -> Item {
        let mut items = recover(index, std::slice::from_ref(raw), rules, OneByOne);
        items.remove(0)
    }

    #[test]
    fn transactions_come_out_in_order_with_their_senders() {
        for count in [0, 1, BATCH_TRANSACTIONS, BATCH_TRANSACTIONS + 1, 100] {
            let encoded: Vec<_> = (0..count as u64).map(signed).collect();
            let expected: Vec<_> = encoded
                .iter()
                .enumerate()
                .map(|(n, raw)| alone(n, raw, SignatureRules::LATEST).unwrap())
                .collect();
            let streamed: Result<Vec<_>, _> = stream(encoded).collect();
            assert_eq!(streamed.unwrap(), expected, "{count} transactions");
        }
    }

    #[test]
    fn what_a_thread_did_not_finish_is_recovered_by_the_consumer() {
        let encoded: Vec<_> = (0..30).map(signed).collect();
        let count = encoded.len();
        // All is claimed, one batch is delivered, and nobody is left who could deliver another.
        let work = Work {
            encoded: Arc::new(encoded),
            rules: SignatureRules::LATEST,
            recovery: OneByOne,
            next_batch: AtomicUsize::new(usize::MAX / 2),
        };
        let (sender, done) = crossbeam_channel::unbounded();
        sender.send((2, work.recover(2))).unwrap();
        drop(sender);
        let stream = SenderStream::of(Arc::new(work), done);
        let nonces: Vec<_> = stream.map(|item| item.unwrap().nonce()).collect();
        assert_eq!(nonces, (0..count as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_bad_transaction_fails_at_its_place() {
        let mut encoded: Vec<_> = (0..20).map(signed).collect();
        encoded[13] = Bytes::from_static(b"\x02nonsense");
        let items: Vec<_> = stream(encoded).collect();
        assert_eq!(items.len(), 20);
        for (index, item) in items.iter().enumerate() {
            let failed_here = matches!(item, Err(SenderError::Decode { index: 13, .. }));
            assert_eq!(failed_here, index == 13, "transaction {index}");
            assert_eq!(item.is_ok(), index != 13, "transaction {index}");
        }
    }

    /// The other signature of the same key: s and parity turned around.
    fn with_high_s(encoded: &[u8]) -> Bytes {
        let transaction = TransactionSigned::decode_2718_exact(encoded).unwrap();
        let order = alloy_primitives::uint!(
            0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256
        );
        let signature = transaction.signature();
        let turned =
            alloy_primitives::Signature::new(signature.r(), order - signature.s(), !signature.v());
        let legacy = transaction.as_legacy().unwrap().tx().clone();
        TransactionSigned::from(legacy.into_signed(turned))
            .encoded_2718()
            .into()
    }

    #[test]
    fn forks_accept_the_signatures_of_their_time() {
        let unprotected = sign(TxLegacy::default(), 1);
        let (protected, high) = (signed(0), with_high_s(&unprotected));
        let frontier = SignatureRules {
            low_s: false,
            protected: false,
        };
        let homestead = SignatureRules {
            low_s: true,
            ..frontier
        };
        let accepts = |rules, raw: &Bytes| alone(0, raw, rules).is_ok();
        for (rules, expected) in [
            (frontier, [true, true, false]),
            (homestead, [true, false, false]),
            (SignatureRules::LATEST, [true, false, true]),
        ] {
            let found = [&unprotected, &high, &protected].map(|raw| accepts(rules, raw));
            assert_eq!(found, expected, "{rules:?}");
            let batch = [&protected, &unprotected, &high].map(Bytes::clone);
            for (raw, item) in batch.iter().zip(recover(0, &batch, rules, SideBySide)) {
                let [found, expected] = [item, alone(0, raw, rules)].map(Result::ok);
                assert_eq!(found, expected, "{rules:?}");
            }
        }
        let sender = |raw| alone(0, raw, frontier).unwrap().signer();
        assert_eq!(sender(&high), sender(&unprotected));
    }
}
