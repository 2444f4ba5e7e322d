//! One payload timed in a pass, and the files that hold samples.
//!
//! Invariant: samples are integers, nanoseconds unless the name says otherwise, so that reading
//! a file gives exactly what was measured.

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

/// Raw samples of a pass.
pub const SAMPLES_FILE: &str = "samples.csv";
/// reth-bench's latencies of a pass.
pub const LATENCY_FILE: &str = "combined_latency.csv";
/// reth-bench's gas over time of a pass.
pub const GAS_FILE: &str = "total_gas.csv";

/// One row of `samples.csv`. The optional columns are what the engine told about the block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Sample {
    /// Block number.
    pub block_number: u64,
    /// Block hash.
    pub block_hash: B256,
    /// Gas the block used.
    pub gas_used: u64,
    /// Number of transactions.
    pub transaction_count: u64,
    /// Client time of newPayload.
    pub new_payload_ns: u64,
    /// Client time of forkchoiceUpdated.
    pub forkchoice_updated_ns: u64,
    /// The engine's own time for the block.
    pub engine_ns: Option<u64>,
    /// Gas the block may use.
    pub gas_limit: u64,
    /// When newPayload began, since the pass began.
    pub start_ns: u64,
    /// When forkchoiceUpdated had been answered, since the pass began.
    pub answered_ns: u64,
    /// When the next payload could begin, since the pass began: after deliberate waiting.
    pub end_ns: u64,
    /// Deliberate waiting after the payload.
    pub wait_ns: u64,
    /// How long the engine waited for the state root after execution.
    pub state_root_ns: Option<u64>,
    /// Accounts fetched for the state root.
    pub account_targets: Option<u64>,
    /// Slots fetched for the state root.
    pub storage_targets: Option<u64>,
    /// Batches of targets.
    pub batches: Option<u64>,
    /// Jobs the batches were cut into.
    pub jobs: Option<u64>,
    /// Batches that were not cut.
    pub unsplit_batches: Option<u64>,
    /// Trie nodes that the jobs revealed.
    pub nodes_revealed: Option<u64>,
    /// Revealed nodes that another job had revealed before.
    pub nodes_reread: Option<u64>,
    /// Targets that needed no job, because their path was known.
    pub known_paths: Option<u64>,
    /// Trie nodes hashed.
    pub nodes_hashed: Option<u64>,
    /// Nodes that had to be worked on one after the other.
    pub longest_chain: Option<u64>,
    /// When the payload's turn began, since the first turn of all cells that were replayed in turn; absent
    /// where the cell had the machine to itself. Its other times stand still during the turns of others.
    pub turn_start_ns: Option<u64>,
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
    write_rows(&dir.join(SAMPLES_FILE), samples)?;
    write_rows(&dir.join(LATENCY_FILE), samples.iter().map(LatencyRow::of))?;
    write_rows(&dir.join(GAS_FILE), samples.iter().map(GasRow::of))
}

/// SHA-256 of `samples.csv` of a pass, in hexadecimal.
///
/// # Errors
/// When there is none.
pub fn sum_of(dir: &Path) -> Result<String, SampleError> {
    let path = dir.join(SAMPLES_FILE);
    let bytes = std::fs::read(&path).map_err(|reason| SampleError {
        action: "read",
        path,
        reason: reason.into(),
    })?;
    Ok(super::sum(&bytes))
}

/// Reads `samples.csv` of a pass.
///
/// # Errors
/// When there is none, or a row is not a sample.
pub fn read_samples(dir: &Path) -> Result<Vec<Sample>, SampleError> {
    let path = dir.join(SAMPLES_FILE);
    let read = || -> Result<Vec<Sample>, csv::Error> {
        csv::Reader::from_path(&path)?.deserialize().collect()
    };
    read().map_err(|reason| SampleError {
        action: "read",
        path: path.clone(),
        reason,
    })
}

/// Whether reth-bench's files of a pass hold what its samples give; a sentence for each that does not.
///
/// # Errors
/// When rows cannot be made.
pub(crate) fn verify_pass(dir: &Path, samples: &[Sample]) -> Result<Vec<String>, SampleError> {
    let mut findings = Vec::new();
    let latencies = rows(samples.iter().map(LatencyRow::of));
    let gas = rows(samples.iter().map(GasRow::of));
    for (name, computed) in [(LATENCY_FILE, latencies), (GAS_FILE, gas)] {
        let path = dir.join(name);
        let computed = computed.map_err(|reason| SampleError {
            action: "compute",
            path: path.clone(),
            reason,
        })?;
        // Folders that were cut down to their raw samples have none.
        match std::fs::read(&path) {
            Ok(found) if found != computed => {
                findings.push(format!("{} is not what samples.csv gives", path.display()));
            }
            _ => {}
        }
    }
    Ok(findings)
}

fn rows<R: Serialize>(rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>, csv::Error> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for row in rows {
        csv.serialize(row)?;
    }
    csv.into_inner()
        .map_err(|error| io::Error::from(error.error().kind()).into())
}

/// A row of reth-bench's `combined_latency.csv`, in microseconds.
#[derive(Serialize)]
struct LatencyRow {
    block_number: u64,
    gas_limit: u64,
    transaction_count: u64,
    gas_used: u64,
    new_payload_latency: u64,
    fcu_latency: u64,
    total_latency: u64,
}

impl LatencyRow {
    fn of(sample: &Sample) -> Self {
        Self {
            block_number: sample.block_number,
            gas_limit: sample.gas_limit,
            transaction_count: sample.transaction_count,
            gas_used: sample.gas_used,
            new_payload_latency: sample.new_payload_ns / 1000,
            fcu_latency: sample.forkchoice_updated_ns / 1000,
            total_latency: sample.total_ns() / 1000,
        }
    }
}

/// A row of reth-bench's `total_gas.csv`: `time` is in microseconds since the pass began, read
/// before the wait that follows the block.
#[derive(Serialize)]
struct GasRow {
    block_number: u64,
    transaction_count: u64,
    gas_used: u64,
    time: u64,
}

impl GasRow {
    fn of(sample: &Sample) -> Self {
        Self {
            block_number: sample.block_number,
            transaction_count: sample.transaction_count,
            gas_used: sample.gas_used,
            time: sample.answered_ns / 1000,
        }
    }
}

fn write_rows<R: Serialize>(
    path: &Path,
    rows: impl IntoIterator<Item = R>,
) -> Result<(), SampleError> {
    let write = || -> Result<(), csv::Error> {
        let mut csv = csv::Writer::from_writer(BufWriter::new(File::create(path)?));
        for row in rows {
            csv.serialize(row)?;
        }
        let mut buffer = csv
            .into_inner()
            .map_err(|error| io::Error::from(error.error().kind()))?;
        buffer.flush()?;
        buffer.get_ref().sync_all()?;
        Ok(())
    };
    write().map_err(|reason| SampleError {
        action: "write",
        path: path.to_owned(),
        reason,
    })
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
        assert!(read(SAMPLES_FILE).starts_with(begins));
        assert_eq!(
            read(LATENCY_FILE),
            "block_number,gas_limit,transaction_count,gas_used,new_payload_latency,fcu_latency,\
             total_latency\n3,1000000000,7,21000,5432,1,5434\n"
        );
        assert_eq!(
            read(GAS_FILE),
            "block_number,transaction_count,gas_used,time\n3,7,21000,5434\n"
        );
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
