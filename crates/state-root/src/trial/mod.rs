//! A trial: a script of blocks, every one of which is computed in every way this crate has, and
//! each answer compared with tries made from nothing but the leaves.
//!
//! ```text
//!  bytes ──decode──▶ Trial ──run──▶ for each block:   model of the leaves ──alloy-trie──▶ expected
//!  (a fuzzer's)        ▲                              serial reference ───────────────▶ = ?
//!                      │                              pipeline ───────────────────────▶ = ?
//!  property tests ─────┘            for each step back: stored branches caught up with ▶ = ?
//! ```
//!
//! A script can go back some blocks and continue from there on another branch. Everything depends
//! on the script alone, except which thread is when where.
//!
//! Invariant: the expected state is derived without any code of the ways that are compared.

mod decode;
mod model;
#[cfg(test)]
pub(crate) mod strategies;
#[cfg(test)]
mod tests;

use crate::{
    cursor::CursorError,
    error::RootError,
    mem::{MemSource, MemState},
    reference::{self, PrefixSets},
    root::{RootJob, RootOutcome, RootPool},
    strategy::Strategy,
    updates::{HashedChange, HashedState, TrieUpdates},
};
use alloy_primitives::B256;
use std::{io, num::NonZeroUsize, sync::Arc, thread, time::Duration};

/// How long a block's sender rests between two messages, when it rests: about as long as a worker
/// needs to answer, so that a message meets a partly revealed trie.
const REST: Duration = Duration::from_micros(50);

/// A script, and the pipeline that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The pipeline.
    pub strategy: Strategy,
    /// What happens, beginning with a state without accounts.
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A block on top of the current state.
    Block(Block),
    /// So many blocks are taken back, or all when there are fewer.
    Back(usize),
}

/// A block of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What its steps change, in order. Slots of an account that this leaves without existence are
    /// left out, and an account whose slots alone change is made when there is none.
    pub changes: Vec<HashedChange>,
    /// Changes handed over at once.
    pub per_message: NonZeroUsize,
    /// Whether the sender rests between messages, so that they meet what earlier ones revealed.
    pub rests: bool,
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The system refused a thread.
    #[error("start the pool's threads")]
    Start(#[source] io::Error),
    /// The pipeline has no answer.
    #[error("compute the root of step {step}")]
    Pool {
        /// Position in the script.
        step: usize,
        /// Why.
        source: RootError,
    },
    /// The reference has no answer.
    #[error("compute the serial root of step {step}")]
    Serial {
        /// Position in the script.
        step: usize,
        /// Why.
        source: CursorError,
    },
    /// Two ways give two answers.
    #[error("agree on step {step}: {way} differs in {what}")]
    Disagreement {
        /// Position in the script.
        step: usize,
        /// The way that differs from what the leaves say.
        way: &'static str,
        /// What differs, with both values.
        what: String,
    },
}

/// A state and its root.
type Rooted = (Arc<MemState>, B256);

impl Trial {
    /// Runs the script to its end, or to the first failure or difference.
    pub fn run(&self) -> Result<(), TrialError> {
        let pool = RootPool::new(self.strategy).map_err(TrialError::Start)?;
        let empty = MemState::from_leaves(Default::default(), Default::default());
        let (empty, root) = empty.map_err(|source| TrialError::Serial { step: 0, source })?;
        let mut chain = vec![(Arc::new(empty), root)];
        for (step, action) in self.steps.iter().enumerate() {
            let tip = chain[chain.len() - 1].clone();
            match action {
                Step::Block(block) => chain.push(check_block(&pool, &tip, block, step)?),
                Step::Back(blocks) => {
                    let height = (chain.len() - 1).saturating_sub(*blocks);
                    check_unwind(&tip, &chain[height], step)?;
                    chain.truncate(height + 1);
                }
            }
        }
        Ok(())
    }
}

/// The state after a block, once every way agrees on it.
fn check_block(
    pool: &RootPool<MemSource>,
    (before, parent_root): &Rooted,
    block: &Block,
    step: usize,
) -> Result<Rooted, TrialError> {
    let serial_failed = |source| TrialError::Serial { step, source };
    let (leaves, changes) = model::leaves_after(before, &block.changes);
    let (after, root) =
        MemState::from_leaves(leaves.accounts, leaves.slots).map_err(serial_failed)?;
    let expected = Expected {
        after: &after,
        root,
        step,
    };
    expected.compare_root("the reference from scratch", model::alloy_root(&after))?;

    let job = pool.prepare(Arc::new(MemSource(Arc::clone(before))), *parent_root);
    let outcome = send(job, block, &changes).map_err(|source| TrialError::Pool { step, source })?;
    let (nodes, changed) = (&outcome.trie_updates, &outcome.hashed_state);
    // A root that is not known is not the right one.
    let found = outcome.root.unwrap_or_default();
    expected.compare("the pipeline", (before, changed), (found, nodes))?;

    let (found, nodes) = reference::incremental_root(&**before, changed).map_err(serial_failed)?;
    expected.compare("the serial reference", (before, changed), (found, &nodes))?;
    Ok((Arc::new(after), root))
}

fn send(job: RootJob, block: &Block, changes: &[HashedChange]) -> Result<RootOutcome, RootError> {
    for message in changes.chunks(block.per_message.get()) {
        job.update_hashed(message.to_vec());
        if block.rests {
            thread::sleep(REST);
        }
    }
    job.finish()
}

/// Takes blocks back the way a database does: first the leaves, then whatever stored branches
/// their keys touch.
fn check_unwind((tip, _): &Rooted, (target, root): &Rooted, step: usize) -> Result<(), TrialError> {
    let changes = model::difference(tip, target);
    let mut written = MemState::clone(tip);
    written.apply(&changes, &TrieUpdates::default());
    let (found, nodes) = reference::root_of_prefixes(&written, &PrefixSets::from(&changes))
        .map_err(|source| TrialError::Serial { step, source })?;
    let expected = Expected {
        after: target,
        root: *root,
        step,
    };
    expected.compare("the unwind", (&written, &changes), (found, &nodes))
}

/// What a step must lead to.
#[derive(Debug, Clone, Copy)]
struct Expected<'a> {
    after: &'a MemState,
    root: B256,
    step: usize,
}

impl Expected<'_> {
    fn compare(
        &self,
        way: &'static str,
        (before, leaves): (&MemState, &HashedState),
        (root, nodes): (B256, &TrieUpdates),
    ) -> Result<(), TrialError> {
        self.compare_root(way, root)?;
        if let Some(disorder) = model::disorder(leaves, nodes) {
            return self.differs(way, disorder);
        }
        let mut after = before.clone();
        after.apply(leaves, nodes);
        match model::first_difference(&after, self.after) {
            None => Ok(()),
            Some(what) => self.differs(way, what),
        }
    }

    fn compare_root(&self, way: &'static str, root: B256) -> Result<(), TrialError> {
        if root == self.root {
            return Ok(());
        }
        self.differs(
            way,
            format!("the root, {root} where {} is right", self.root),
        )
    }

    fn differs(&self, way: &'static str, what: String) -> Result<(), TrialError> {
        let step = self.step;
        Err(TrialError::Disagreement { step, way, what })
    }
}
