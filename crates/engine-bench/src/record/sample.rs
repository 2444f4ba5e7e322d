//! One payload timed in a pass, and the files that hold samples.
//!
//! Invariant: samples are integers, nanoseconds unless the name says otherwise, so that reading
//! a file gives exactly what was measured.

use super::column::{About, Line, Source, Unit, columns};
use alloy_primitives::B256;
use engine_api::metric::{self, Metric};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Raw samples of a pass.
pub const SAMPLES_FILE: &str = "samples.csv";
/// reth-bench's latencies of a pass.
pub const LATENCY_FILE: &str = "combined_latency.csv";
/// reth-bench's gas over time of a pass.
pub const GAS_FILE: &str = "total_gas.csv";

columns! {
    /// One payload timed in a pass: a row of `samples.csv`. What is optional is what the engine told about the
    /// block.
    Sample
    named by {
        /// Block number.
        block_number: u64,
        /// Block hash.
        block_hash: B256,
    }
    with {
        /// Gas the block used.
        gas_used: u64 = payload(Unit::Gas);
        /// Number of transactions.
        transaction_count: u64 = payload(Unit::Count);
        /// Client time of newPayload.
        new_payload_ns: u64 = CLOCK;
        /// Client time of forkchoiceUpdated.
        forkchoice_updated_ns: u64 = CLOCK;
        /// The engine's own time for the block.
        engine_ns: Option<u64> = About {
            source: Source::Log(Line::Block, "elapsed"),
            metric: Some(metric::INSERT),
            ..CLOCK
        };
        /// Gas the block may use.
        gas_limit: u64 = payload(Unit::Gas);
        /// When newPayload began, since the pass began.
        start_ns: u64 = CLOCK;
        /// When forkchoiceUpdated had been answered, since the pass began.
        answered_ns: u64 = CLOCK;
        /// When the next payload could begin, since the pass began: after deliberate waiting.
        end_ns: u64 = CLOCK;
        /// Deliberate waiting after the payload.
        wait_ns: u64 = CLOCK;
        /// How long the engine waited for the state root after execution.
        state_root_ns: Option<u64> = About {
            unit: Unit::Nanoseconds,
            ..root("elapsed", "blocked", Some(metric::STATE_ROOT))
        };
        /// Accounts fetched for the state root.
        account_targets: Option<u64> = root("account_targets", "account targets", Some(metric::ACCOUNT_TARGETS));
        /// Slots fetched for the state root.
        storage_targets: Option<u64> = root("storage_targets", "slot targets", Some(metric::STORAGE_TARGETS));
        /// Batches of targets.
        batches: Option<u64> = root("batches", "batches", Some(metric::DISPATCHES));
        /// Jobs the batches were cut into.
        jobs: Option<u64> = root("jobs", "jobs", Some(metric::CHUNKS));
        /// Batches that were not cut.
        unsplit_batches: Option<u64> = root("unsplit_batches", "uncut batches", None);
        /// Trie nodes that the jobs revealed.
        nodes_revealed: Option<u64> = root("nodes_revealed", "nodes read", Some(metric::NODES_REVEALED));
        /// Revealed nodes that another job had revealed before.
        nodes_reread: Option<u64> = root("nodes_reread", "nodes read again", Some(metric::NODES_REREAD));
        /// Targets that needed no job, because their path was known.
        known_paths: Option<u64> = root("known_paths", "known paths", Some(metric::KNOWN_PATHS));
        /// Trie nodes hashed.
        nodes_hashed: Option<u64> = root("nodes_hashed", "nodes hashed", Some(metric::NODES_HASHED));
        /// Nodes that had to be worked on one after the other.
        longest_chain: Option<u64> = root("longest_chain", "nodes in a row", Some(metric::LONGEST_CHAIN));
        /// When the payload's turn began, since the first turn of all cells that were replayed in turn; absent
        /// where the cell had the machine to itself. Its other times stand still during the turns of others.
        turn_start_ns: Option<u64> = CLOCK;
    }
}

/// A time by the clock of this program.
const CLOCK: About = About {
    unit: Unit::Nanoseconds,
    source: Source::Client,
    ..payload(Unit::Gas)
};

/// What the payload is.
const fn payload(unit: Unit) -> About {
    About {
        unit,
        source: Source::Payload,
        metric: None,
        label: "",
    }
}

/// What the engine counted while it made the state root.
const fn root(key: &'static str, label: &'static str, metric: Option<Metric>) -> About {
    About {
        unit: Unit::Count,
        source: Source::Log(Line::Root, key),
        metric,
        label,
    }
}

impl Sample {
    /// Client time of newPayload and forkchoiceUpdated.
    pub fn total_ns(&self) -> u64 {
        self.new_payload_ns + self.forkchoice_updated_ns
    }
}

/// Why samples cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} {path}: {reason}")]
pub struct SampleError {
    action: &'static str,
    path: PathBuf,
    reason: csv::Error,
}

/// Writes `samples.csv`, `combined_latency.csv` and `total_gas.csv` of a pass and waits until
/// they are on disk.
///
/// # Errors
/// When one cannot be written.
pub fn write_pass(dir: &Path, samples: &[Sample]) -> Result<(), SampleError> {
    for (name, rows) in files(samples) {
        let write = || -> Result<(), csv::Error> {
            let mut file = File::create(dir.join(name))?;
            file.write_all(&rows?)?;
            Ok(file.sync_all()?)
        };
        write().map_err(failed("write", dir, name))?;
    }
    Ok(())
}

/// The files of a pass by name, the raw samples first.
fn files(samples: &[Sample]) -> [(&'static str, Result<Vec<u8>, csv::Error>); 3] {
    [
        (SAMPLES_FILE, file(samples)),
        (LATENCY_FILE, derived(LATENCY, samples)),
        (GAS_FILE, derived(GAS, samples)),
    ]
}

fn failed(action: &'static str, dir: &Path, name: &str) -> impl FnOnce(csv::Error) -> SampleError {
    let path = dir.join(name);
    move |reason| SampleError {
        action,
        path,
        reason,
    }
}

/// SHA-256 of `samples.csv` of a pass, in hexadecimal.
///
/// # Errors
/// When there is none.
pub fn sum_of(dir: &Path) -> Result<String, SampleError> {
    let bytes = std::fs::read(dir.join(SAMPLES_FILE));
    let bytes = bytes.map_err(|reason| failed("read", dir, SAMPLES_FILE)(reason.into()))?;
    Ok(super::sum(&bytes))
}

/// Reads `samples.csv` of a pass.
///
/// # Errors
/// When there is none, or a row is not a sample.
pub fn read_samples(dir: &Path) -> Result<Vec<Sample>, SampleError> {
    let read = || -> Result<Vec<Sample>, csv::Error> {
        let mut rows = csv::Reader::from_path(dir.join(SAMPLES_FILE))?;
        rows.deserialize().collect()
    };
    read().map_err(failed("read", dir, SAMPLES_FILE))
}

/// Whether reth-bench's files of a pass hold what its samples give; a sentence for each that does not.
///
/// # Errors
/// When rows cannot be made.
pub(crate) fn verify_pass(dir: &Path, samples: &[Sample]) -> Result<Vec<String>, SampleError> {
    let mut findings = Vec::new();
    let [_, derived @ ..] = files(samples);
    for (name, rows) in derived {
        let rows = rows.map_err(failed("compute", dir, name))?;
        // Folders that were cut down to their raw samples have none.
        if std::fs::read(dir.join(name)).is_ok_and(|found| found != rows) {
            let path = dir.join(name);
            findings.push(format!("{} is not what samples.csv gives", path.display()));
        }
    }
    Ok(findings)
}

/// Columns of a file of reth-bench, and what a sample gives for them.
type Derived = &'static [(&'static str, fn(&Sample) -> u64)];

/// `combined_latency.csv`, times in microseconds.
const LATENCY: Derived = &[
    ("block_number", |sample| sample.block_number),
    ("gas_limit", |sample| sample.gas_limit),
    ("transaction_count", |sample| sample.transaction_count),
    ("gas_used", |sample| sample.gas_used),
    ("new_payload_latency", |sample| sample.new_payload_ns / 1000),
    ("fcu_latency", |sample| sample.forkchoice_updated_ns / 1000),
    ("total_latency", |sample| sample.total_ns() / 1000),
];

/// `total_gas.csv`: `time` is in microseconds since the pass began, read before the wait that follows the block.
const GAS: Derived = &[
    ("block_number", |sample| sample.block_number),
    ("transaction_count", |sample| sample.transaction_count),
    ("gas_used", |sample| sample.gas_used),
    ("time", |sample| sample.answered_ns / 1000),
];

/// The rows of a file of reth-bench, below their header.
fn derived(columns: Derived, samples: &[Sample]) -> Result<Vec<u8>, csv::Error> {
    let header = columns.iter().map(|(name, _)| (*name).to_owned());
    let row = |sample| columns.iter().map(move |(_, of)| of(sample).to_string());
    let mut rows = vec![header.collect::<Vec<_>>()];
    rows.extend(samples.iter().map(|sample| row(sample).collect()));
    file(rows)
}

/// A file of these rows, below a header if their type names its fields.
fn file(rows: impl IntoIterator<Item = impl Serialize>) -> Result<Vec<u8>, csv::Error> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for row in rows {
        csv.serialize(row)?;
    }
    csv.into_inner()
        .map_err(|error| io::Error::from(error.error().kind()).into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sample of the given times; everything else follows from the number.
    pub(crate) fn sample(number: u64, gas: u64, new_payload_ns: u64, fcu_ns: u64) -> Sample {
        Sample {
            block_number: number,
            block_hash: B256::with_last_byte(number as u8),
            gas_used: gas,
            transaction_count: 7,
            new_payload_ns,
            forkchoice_updated_ns: fcu_ns,
            engine_ns: Some(new_payload_ns / 2),
            gas_limit: 1_000_000_000,
            answered_ns: new_payload_ns + fcu_ns,
            end_ns: new_payload_ns + fcu_ns + 10,
            ..Sample::default()
        }
    }

    #[test]
    fn files_have_the_agreed_columns() {
        let dir = tempfile::tempdir().unwrap();
        write_pass(dir.path(), &[sample(3, 21_000, 5_432_100, 1_999)]).unwrap();
        let read = |file| std::fs::read_to_string(dir.path().join(file)).unwrap();
        let begins = "block_number,block_hash,gas_used,transaction_count,new_payload_ns,\
                      forkchoice_updated_ns,engine_ns,";
        let columns = Sample::COLUMNS.iter().map(|column| column.name);
        let keys = ["block_number", "block_hash"].into_iter();
        let names: Vec<&str> = keys.chain(columns).collect();
        let header = names.join(",") + "\n";
        assert!(header.starts_with(begins));
        assert!(read(SAMPLES_FILE).starts_with(&header));
        let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FORMATS.md");
        let formats = std::fs::read_to_string(formats).unwrap();
        for name in names {
            let told = formats.contains(&format!("`{name}`"));
            assert!(told, "docs/FORMATS.md does not tell of {name}");
        }
        let latencies = "block_number,gas_limit,transaction_count,gas_used,new_payload_latency,fcu_latency,\
                         total_latency\n3,1000000000,7,21000,5432,1,5434\n";
        assert_eq!(read(LATENCY_FILE), latencies);
        let gas = "block_number,transaction_count,gas_used,time\n3,7,21000,5434\n";
        assert_eq!(read(GAS_FILE), gas);
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(
            times in prop::collection::vec((any::<u32>(), any::<u32>(), any::<Option<u64>>()), 0..20)
        ) {
            let dir = tempfile::tempdir().unwrap();
            let samples: Vec<_> = times
                .into_iter()
                .map(|(np, fcu, jobs)| Sample { jobs, ..sample(9, 1, np.into(), fcu.into()) })
                .collect();
            write_pass(dir.path(), &samples).unwrap();
            prop_assert_eq!(read_samples(dir.path()).unwrap(), samples);
        }
    }
}
