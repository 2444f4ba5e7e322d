//! Metrics as they go over the wire: what bench-reth and engine-bench export, and how an exposition
//! is read.
//!
//! [`ENGINE`] is the one list of bench-reth's metrics, [`HARNESS`] that of engine-bench's: the programs
//! export exactly these, and the documentation and the dashboards are made from them. [`Scrape`] reads
//! what any engine exports.
//!
//! Invariant: a name that reth exports too means what it means there; what only bench-reth counts
//! begins with `bench_`.

mod engine;
mod fetch;
mod harness;
mod scrape;

pub use engine::*;
pub use fetch::{fetch, get};
pub use harness::*;
pub use scrape::{Difference, Scrape};

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations: `<name>_sum` and `<name>_count` only grow, quantiles are of the last minute.
    Summary,
}

impl Kind {
    /// As the text format spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
        }
    }
}

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Units of gas.
    Gas,
    /// Units of gas per second.
    GasPerSecond,
    /// Numbers of things.
    Count,
}

impl Unit {
    /// In one word, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Gas => "gas",
            Self::GasPerSecond => "gas/s",
            Self::Count => "count",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in an exposition.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What its values are.
    pub unit: Unit,
    /// What it says, in a sentence.
    pub help: &'static str,
}

/// Makes a constant of each metric and the list of them all.
macro_rules! metrics {
    ($list:ident: $list_help:literal;
     $($constant:ident = $name:literal $kind:ident $unit:ident $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: $crate::metric::Metric = $crate::metric::Metric {
                name: $name,
                kind: $crate::metric::Kind::$kind,
                unit: $crate::metric::Unit::$unit,
                help: $help,
            };
        )*
        #[doc = $list_help]
        pub const $list: &[$crate::metric::Metric] = &[$($constant),*];
    };
}
pub(crate) use metrics;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_valid_and_say_whose_they_are() {
        let all = || ENGINE.iter().chain(HARNESS);
        let names: BTreeSet<_> = all().map(|metric| metric.name).collect();
        assert_eq!(names.len(), all().count());
        for metric in all() {
            let name = metric.name;
            assert!(
                name.starts_with("reth_") || name.starts_with("bench_"),
                "{name}"
            );
            let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(valid), "{name}");
            assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        }
    }
}
