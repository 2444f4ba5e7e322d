//! What a run was made of.

use crate::chain::Fork;
use alloy_primitives::Bytes;
use std::{collections::BTreeMap, fmt};

/// Counted over a run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) blocks: u64,
    /// Fork choices that left the branch of the head.
    pub(crate) reorgs: u64,
    /// Payloads with something changed.
    pub(crate) mutated: u64,
    /// Transactions that both refused to put into a block.
    pub(crate) refused: u64,
    /// Transactions taken by a pool.
    pub(crate) pooled: u64,
    gas: u64,
    by_fork: BTreeMap<Fork, u64>,
    /// Transactions in blocks by their type, 0 to 4.
    by_type: [u64; 5],
}

impl Counts {
    pub(crate) fn block(&mut self, fork: Fork, transactions: &[Bytes], gas: u64) {
        self.blocks += 1;
        self.gas += gas;
        *self.by_fork.entry(fork).or_default() += 1;
        for transaction in transactions {
            // A legacy transaction begins with the prefix of a list.
            let first = usize::from(transaction[0]);
            self.by_type[if first < 5 { first } else { 0 }] += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.reorgs += other.reorgs;
        self.mutated += other.mutated;
        self.refused += other.refused;
        self.pooled += other.pooled;
        self.gas += other.gas;
        for (fork, blocks) in &other.by_fork {
            *self.by_fork.entry(*fork).or_default() += blocks;
        }
        for (ours, theirs) in self.by_type.iter_mut().zip(other.by_type) {
            *ours += theirs;
        }
    }

    /// Forks that had at least one block.
    pub(crate) fn forks(&self) -> Vec<Fork> {
        self.by_fork.keys().copied().collect()
    }

    /// The types of transactions seen in blocks.
    pub(crate) fn types(&self) -> Vec<usize> {
        (0..5).filter(|kind| self.by_type[*kind] > 0).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "blocks             {}", self.blocks)?;
        writeln!(f, "  by fork          {:?}", self.by_fork)?;
        writeln!(f, "transactions       {}", self.by_type.iter().sum::<u64>())?;
        writeln!(f, "  by type 0-4      {:?}", self.by_type)?;
        writeln!(f, "  refused by both  {}", self.refused)?;
        writeln!(f, "  taken by a pool  {}", self.pooled)?;
        writeln!(f, "gas                {}", self.gas)?;
        writeln!(f, "mutated payloads   {}", self.mutated)?;
        write!(f, "reorgs             {}", self.reorgs)
    }
}
