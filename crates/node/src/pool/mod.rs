//! The pool: transactions that were sent and wait for a block.
//!
//! ```text
//!   eth_sendRawTransaction ─► validate ─► content ─► best ─► block builder
//!                                            │
//!                     a new head: mined ones ▼ wait in limbo, in case of a reorg
//! ```
//!
//! Invariants: bounded in count and bytes; it never works on the engine thread unless that builds a
//! block; it looks at the head when it is used, so a chain that moves costs nothing.

mod blobs;
mod content;
mod error;
mod validate;

use crate::{
    engine::{ChainReader, StateReader},
    primitives::BlockNumHash,
};
use alloy_consensus::Transaction;
use alloy_eips::{
    BlockId, eip4844::Blob, eip4844::Bytes48, eip7594::BlobTransactionSidecarVariant,
};
use alloy_primitives::{Address, B256, U256, map::B256Map};
pub use content::{Best, Entry, SenderContent};
use content::{Content, Limits};
pub use error::PoolError;
use revm::DatabaseRef;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};
use validate::Rules;

/// How much waits at most. Blobs weigh 140 KB each with their cell proofs.
const LIMITS: Limits = Limits {
    transactions: 10_000,
    bytes: 128 << 20,
    per_sender: 1_000,
};
/// How many mined transactions are remembered for a reorg, and for how many blocks.
const LIMBO_TRANSACTIONS: usize = 2_000;
const LIMBO_BYTES: usize = 64 << 20;
const LIMBO_BLOCKS: u64 = 64;

/// Transactions that wait for a block.
#[derive(Debug)]
pub struct Pool {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    content: Content,
    /// The head that `content` fits.
    head: Option<B256>,
    limbo: Limbo,
}

/// Transactions that left the pool because they were mined, oldest first.
#[derive(Debug, Default)]
struct Limbo {
    mined: VecDeque<(u64, Arc<Entry>)>,
    bytes: usize,
}

impl Limbo {
    fn push(&mut self, number: u64, entry: Arc<Entry>) {
        self.bytes += entry.bytes;
        self.mined.push_back((number, entry));
        while self.mined.len() > LIMBO_TRANSACTIONS
            || self.bytes > LIMBO_BYTES
            || self
                .mined
                .front()
                .is_some_and(|(mined_at, _)| mined_at + LIMBO_BLOCKS < number)
        {
            let Some((_, oldest)) = self.mined.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes;
        }
    }

    /// Takes out those whose nonce is open again.
    fn reopened(&mut self, state: &StateReader) -> Result<Vec<Arc<Entry>>, PoolError> {
        let mut reopened = Vec::new();
        let mut kept = VecDeque::with_capacity(self.mined.len());
        for (number, entry) in self.mined.drain(..) {
            let account = state.basic_ref(entry.sender())?.unwrap_or_default();
            if entry.transaction.nonce() >= account.nonce {
                self.bytes -= entry.bytes;
                reopened.push(entry);
            } else {
                kept.push_back((number, entry));
            }
        }
        self.mined = kept;
        Ok(reopened)
    }
}

impl Default for Pool {
    fn default() -> Self {
        let inner = Inner {
            content: Content::new(LIMITS),
            head: None,
            limbo: Limbo::default(),
        };
        Self {
            inner: Mutex::new(inner),
        }
    }
}

impl Pool {
    /// Takes a transaction as it is sent (EIP-2718, blobs included); its hash. `fee_cap` is the
    /// most that its fees may be, in wei; zero for no cap.
    ///
    /// # Errors
    /// When it cannot be mined now or later, pays too little, or state cannot be read.
    pub fn add(
        &self,
        chain: &ChainReader,
        encoded: &[u8],
        fee_cap: U256,
    ) -> Result<B256, PoolError> {
        let sent = validate::decode(encoded)?;
        if self.lock().content.get(*sent.tx_hash()).is_some() {
            return Err(PoolError::AlreadyKnown);
        }
        let head = chain.head_header();
        let env = chain.evm_env_for(&head);
        let rules = Rules {
            chain: chain.chain_spec(),
            head: &head,
            cfg: &env.cfg_env,
            fee_cap,
        };
        let candidate = validate::check(sent, encoded.len(), &rules)?;
        let (_, state) = head_state(chain)?;
        let account = validate::sender_account(&state, candidate.transaction.signer())?;
        validate::check_account(&candidate, &account)?;
        let entry = validate::finish(candidate, env.cfg_env.spec)?;
        let mut inner = self.synced(chain)?;
        let base_fee = chain.chain_spec().next_base_fee(&head);
        inner
            .content
            .insert(entry, account.nonce, account.balance, base_fee)
    }

    /// A transaction that waits.
    pub fn get(&self, chain: &ChainReader, hash: B256) -> Option<Arc<Entry>> {
        self.fitting(chain).content.get(hash)
    }

    /// The nonce after a sender's pending transactions, if it has any.
    pub fn next_nonce(&self, chain: &ChainReader, sender: Address) -> Option<u64> {
        self.fitting(chain).content.next_nonce(sender)
    }

    /// What waits of one sender.
    pub fn of_sender(&self, chain: &ChainReader, sender: Address) -> SenderContent {
        self.fitting(chain).content.of_sender(sender)
    }

    /// What waits, by sender.
    pub fn all(&self, chain: &ChainReader) -> BTreeMap<Address, SenderContent> {
        let inner = self.fitting(chain);
        let senders = inner.content.senders().into_iter();
        senders
            .map(|sender| (sender, inner.content.of_sender(sender)))
            .collect()
    }

    /// Pending transactions in the order a block with these fees takes them.
    pub fn best(&self, chain: &ChainReader, base_fee: u64, blob_base_fee: u128) -> Best {
        self.fitting(chain).content.best(base_fee, blob_base_fee)
    }

    /// The blobs of these versioned hashes, with their proofs: one or 128 a blob. `None` for blobs
    /// that no waiting transaction has.
    pub fn blobs(&self, chain: &ChainReader, hashes: &[B256]) -> Vec<Option<(Blob, Vec<Bytes48>)>> {
        let inner = self.fitting(chain);
        let mut held = B256Map::default();
        for entry in inner.content.entries() {
            // Sidecars were verified against the hashes in their transactions: none is computed again.
            let own = entry.transaction.blob_versioned_hashes();
            if let (Some(sidecar), Some(own)) = (&entry.sidecar, own) {
                let blobs = own.iter().enumerate();
                held.extend(blobs.map(|(index, hash)| (*hash, (sidecar.clone(), index))));
            }
        }
        drop(inner);
        let blob = |hash| {
            let (sidecar, index) = held.get(hash)?;
            Some((*sidecar.blobs().get(*index)?, proofs(sidecar, *index)))
        };
        hashes.iter().map(blob).collect()
    }

    /// The pool after it has taken note of the head; as it is when state cannot be read.
    fn fitting(&self, chain: &ChainReader) -> MutexGuard<'_, Inner> {
        self.synced(chain).unwrap_or_else(|problem| {
            tracing::warn!(target: "txpool", %problem, "The pool does not know the head");
            self.lock()
        })
    }

    /// The pool after it has taken note of the head.
    fn synced(&self, chain: &ChainReader) -> Result<MutexGuard<'_, Inner>, PoolError> {
        let mut inner = self.lock();
        if inner.head == Some(chain.head().hash) {
            return Ok(inner);
        }
        if inner.content.is_empty() && inner.limbo.mined.is_empty() {
            inner.head = Some(chain.head().hash);
            return Ok(inner);
        }
        inner.take_note(chain)?;
        Ok(inner)
    }

    /// Whether nothing waits, and nothing could wait again after a reorg. A pool at work is not idle,
    /// and is not waited for: it may be reading the accounts of all senders.
    pub fn is_idle(&self) -> bool {
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(inner)) => inner.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        inner.content.is_empty() && inner.limbo.mined.is_empty()
    }

    /// Takes note of the head, when anything waits.
    pub fn follow(&self, chain: &ChainReader) {
        drop(self.fitting(chain));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take_note(&mut self, chain: &ChainReader) -> Result<(), PoolError> {
        let (head, state) = head_state(chain)?;
        for sender in self.content.senders() {
            let account = state.basic_ref(sender)?.unwrap_or_default();
            let mined = self
                .content
                .update_sender(sender, account.nonce, account.balance);
            for entry in mined {
                self.limbo.push(head.number, entry);
            }
        }
        let base_fee = chain.chain_spec().next_base_fee(&chain.head_header());
        for entry in self.limbo.reopened(&state)? {
            let account = state.basic_ref(entry.sender())?.unwrap_or_default();
            let again = Entry::new(
                entry.transaction.clone(),
                entry.sidecar.clone(),
                entry.bytes,
                entry.cost,
            );
            if let Err(problem) =
                self.content
                    .insert(again, account.nonce, account.balance, base_fee)
            {
                tracing::debug!(target: "txpool", hash = %entry.hash(), %problem, "Dropped after a reorg");
            }
        }
        self.head = Some(head.hash);
        Ok(())
    }
}

fn head_state(chain: &ChainReader) -> Result<(BlockNumHash, StateReader), PoolError> {
    let head = chain.head();
    let state = chain.state_at(BlockId::from(head.hash))?;
    let state = state.ok_or_else(|| PoolError::Read("read the state of the head".into()))?;
    Ok((head, state))
}

/// The proofs of one blob.
fn proofs(sidecar: &BlobTransactionSidecarVariant, blob: usize) -> Vec<Bytes48> {
    let (all, each) = match sidecar {
        BlobTransactionSidecarVariant::Eip4844(sidecar) => (&sidecar.proofs, 1),
        BlobTransactionSidecarVariant::Eip7594(sidecar) => (
            &sidecar.cell_proofs,
            alloy_eips::eip7594::CELLS_PER_EXT_BLOB,
        ),
    };
    all.iter().skip(blob * each).take(each).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread, time::Duration};

    #[test]
    fn a_pool_at_work_is_not_waited_for() {
        let pool = Arc::new(Pool::default());
        assert!(pool.is_idle());
        let at_work = pool.lock();
        let (sender, answer) = mpsc::channel();
        let asked = Arc::clone(&pool);
        thread::spawn(move || sender.send(asked.is_idle()));
        assert_eq!(answer.recv_timeout(Duration::from_secs(60)), Ok(false));
        drop(at_work);
    }
}
