//! When a block's root is computed, and from what.

use std::{fmt, str::FromStr};

/// When the root of a block is computed, and from what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RootStrategy {
    /// During execution, as changes are handed over; how is the matter of
    /// [`ChunkPolicy`](crate::ChunkPolicy).
    #[default]
    Task,
    /// After execution: the changed storage tries side by side, then the account trie, each from
    /// what is stored. What reth 1.11 calls the parallel root.
    Parallel,
    /// After execution, on one thread: the reference.
    Serial,
    /// Not at all: there is no root and there are no stored branches to change, so the stored tries
    /// are those of an earlier block from then on. For measuring what is left without a root, on a
    /// data directory that is thrown away.
    Skip,
}

impl RootStrategy {
    /// Every strategy, for help texts.
    pub const ALL: [Self; 4] = [Self::Task, Self::Parallel, Self::Serial, Self::Skip];

    /// The name the command line uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Parallel => "parallel",
            Self::Serial => "serial",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for RootStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no root strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown root strategy {0:?}: use task, parallel, serial or skip")]
pub struct UnknownRootStrategy(String);

impl FromStr for RootStrategy {
    type Err = UnknownRootStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| UnknownRootStrategy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_written_as_they_are_read() {
        for strategy in RootStrategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        let unknown = UnknownRootStrategy("Task".to_owned());
        assert_eq!("Task".parse::<RootStrategy>(), Err(unknown));
    }
}
