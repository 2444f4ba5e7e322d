//! What the engine counted while it made the state roots of a cell, as means over blocks.
//!
//! Invariant: a count that one block lacks is unknown for the cell.

use crate::record::{Sample, column::Column};
use serde::Serialize;
use std::collections::BTreeMap;

/// Means per block over all measured passes of a cell, rounded to hundredths, by name of the column.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Work(BTreeMap<String, f64>);

impl Work {
    /// Columns of which cells have means.
    pub fn columns() -> impl Iterator<Item = &'static Column<Sample>> {
        let all = Sample::COLUMNS.iter();
        all.filter(|column| !column.about.label.is_empty())
    }

    /// Means over samples; `None` when a sample has no job count.
    pub(super) fn of(samples: &[&Sample]) -> Option<Self> {
        let mean = |column: &Column<Sample>| {
            let mean = column.mean(samples.iter().copied())?;
            Some((column.name.to_owned(), (100.0 * mean).round() / 100.0))
        };
        let work = Self(Self::columns().filter_map(mean).collect());
        work.mean("jobs").is_some().then_some(work)
    }

    /// The mean of a column, where it is known.
    pub fn mean(&self, column: &str) -> Option<f64> {
        self.0.get(column).copied()
    }

    /// The mean of a column, or nothing where it is not known.
    pub(super) fn count(&self, column: &str) -> f64 {
        self.mean(column).unwrap_or(0.0)
    }

    /// Accounts and slots fetched.
    pub(super) fn targets(&self) -> Option<f64> {
        Some(self.mean("account_targets")? + self.mean("storage_targets")?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::sample::tests::sample;

    /// What an engine that counted this did.
    pub(in super::super) fn work(means: &[(&str, f64)]) -> Work {
        let owned = means.iter().map(|(name, mean)| ((*name).to_owned(), *mean));
        Work(owned.collect())
    }

    #[test]
    fn means_are_of_blocks_and_unknown_when_one_is() {
        let with = |jobs, reread| Sample {
            jobs,
            nodes_reread: reread,
            account_targets: Some(3),
            storage_targets: Some(4),
            ..sample(1, 1, 2, 3)
        };
        let of = |samples: &[Sample]| Work::of(&samples.iter().collect::<Vec<_>>());
        let found = of(&[with(Some(1), Some(10)), with(Some(4), Some(20))]).unwrap();
        let (targets, slots) = (("account_targets", 3.0), ("storage_targets", 4.0));
        let expected = [targets, ("jobs", 2.5), ("nodes_reread", 15.0), slots];
        assert_eq!((&found, found.targets()), (&work(&expected), Some(7.0)));
        let partly = of(&[with(Some(1), None), with(Some(4), Some(20))]).unwrap();
        assert_eq!(partly.mean("nodes_reread"), None);
        assert_eq!(of(&[with(Some(1), None), with(None, None)]), None);
        assert_eq!(of(&[]), None);
    }
}
