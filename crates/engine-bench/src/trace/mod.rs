//! Traces of single blocks: spans of the engine and of this program on one axis.
//!
//! The engine sends its spans to a [`Collector`] inside this program, which keeps what came and
//! forwards it to Jaeger only when the pass is over, so that a collector elsewhere can neither slow a
//! pass nor lose what the offline file needs.
//!
//! Invariant: nothing here runs during a measured pass.

mod chrome;
mod collector;
mod ids;
mod send;
mod span;

pub use chrome::chrome_trace;
pub use collector::Collector;
pub use ids::{Id, SpanId, TraceId, traceparent};
pub use send::{TRACES_PATH, forward};
pub use span::{Span, decode, encode};

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Folder of the traces in a results folder.
pub const TRACES_DIR: &str = "traces";
/// File that names them all.
pub const INDEX_FILE: &str = "index.json";

/// Where a Jaeger beside a collector shows its traces: its own port on the same host.
pub fn jaeger_pages(collector: &str) -> String {
    let host = collector.trim_start_matches("http://");
    let host = host.split_once('/').map_or(host, |(host, _)| host);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    format!("http://{host}:16686")
}

/// The traces of a results folder; none when there are none.
pub fn read_index(dir: &Path) -> Vec<CellTraces> {
    let index = fs::read(dir.join(TRACES_DIR).join(INDEX_FILE)).ok();
    let traces = index.and_then(|json| serde_json::from_slice(&json).ok());
    traces.unwrap_or_default()
}

/// Which blocks of a cell are traced, and what is known of all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    /// Numbers of the blocks to trace.
    pub blocks: BTreeSet<u64>,
    /// Mean client time of every block in measured passes, in milliseconds.
    pub measured_ms: BTreeMap<u64, f64>,
}

/// Which blocks of a cell are replayed once more to be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// None.
    #[default]
    None,
    /// The slowest.
    Worst(usize),
    /// Every block.
    All,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "all" => Ok(Self::All),
            Some(("worst", count)) => match count.parse() {
                Ok(count) if count > 0 => Ok(Self::Worst(count)),
                _ => Err("give a number of blocks, as in worst:3".to_owned()),
            },
            _ => Err("give worst:N, all or none".to_owned()),
        }
    }
}

/// The traces of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellTraces {
    /// The cell.
    pub cell: String,
    /// What the engine is called in traces.
    pub service: String,
    /// Its traced blocks, in their order.
    pub blocks: Vec<BlockTrace>,
    /// How much longer traced blocks took than the same blocks measured, beyond what untraced blocks of
    /// the same pass did. From every fourth block, not from those that were chosen for being slow;
    /// `None` when those are too few, or every block was chosen.
    pub overhead: Option<f64>,
    /// Spans that the engine could not deliver, as its log tells.
    pub lost_spans: u64,
    /// Why there is no trace, or why traces were not forwarded.
    pub problem: Option<String>,
}

/// The trace of one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockTrace {
    /// Block number.
    pub block: u64,
    /// Trace id, 32 hexadecimal digits.
    pub trace_id: String,
    /// Spans of the engine and of this program.
    pub spans: usize,
    /// Mean client time of the block in measured passes.
    pub measured_ms: f64,
    /// Client time of the block when it was traced.
    pub traced_ms: f64,
    /// The Chrome trace file, below the results folder.
    pub file: String,
    /// Its page in Jaeger; `None` when the spans were not forwarded.
    pub link: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_on_the_collectors_host() {
        for (collector, pages) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:16686"),
            ("http://jaeger:4318/v1/traces", "http://jaeger:16686"),
            ("http://jaeger", "http://jaeger:16686"),
            ("http://[::1]:4318", "http://[::1]:16686"),
        ] {
            assert_eq!(jaeger_pages(collector), pages, "{collector}");
        }
    }

    #[test]
    fn what_is_wanted_is_said_in_a_word() {
        for (text, expected) in [
            ("none", Some(Wanted::None)),
            ("all", Some(Wanted::All)),
            ("worst:3", Some(Wanted::Worst(3))),
            ("worst:0", None),
            ("worst", None),
            ("best:3", None),
            ("worst:-1", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
