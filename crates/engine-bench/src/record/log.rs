//! What an engine's log says about each block: its own time, and how the state root was made.
//!
//! The lines are reth's (v1.11 and 2.x): `State root task finished`, `State root job finished` or `Regular
//! root task finished`, then `Block added to canonical chain`. bench-reth adds counters to the first. geth's is `Imported
//! new potential chain segment`, of one block each when blocks come through the Engine API. ethrex' (24) is `[METRIC] BLOCK`
//! with number, hash and milliseconds between bars.
//!
//! Invariant: an unknown or damaged line is passed over; it never stops a report.

use super::{
    Sample,
    column::{Column, Line, Source, Unit},
};
use crate::sweep::EngineKind;
use alloy_primitives::B256;
use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
};

/// The last is what reth 1.11 to 2.2 says where it runs no root task, as on fewer than five CPUs.
const ROOT_MESSAGES: [&str; 3] = [
    "State root task finished",
    "State root job finished",
    "Regular root task finished",
];
/// What such a line holds where no task that streams proofs made the root: of reth up to 2.2, and from 2.3 on.
const WITHOUT_TASK: [&str; 2] = ["Regular root task finished", "strategy=\"synchronous\""];
const BLOCK_MESSAGE: &str = "Block added to canonical chain";
const GETH_BLOCK_MESSAGE: &str = "Imported new potential chain segment";
const ETHREX_BLOCK_MESSAGE: &str = "[METRIC] BLOCK ";
/// The key that other engines tell the time of a block behind; ethrex names none.
const BLOCK_TIME_KEY: &str = "elapsed";

/// Where `engine_ns` of a kind of engine comes from, as reports name it.
pub fn engine_time_source(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::BenchReth | EngineKind::Reth => {
            "engine log: elapsed of `Block added to canonical chain`"
        }
        EngineKind::Geth => "engine log: elapsed of `Imported new potential chain segment`",
        EngineKind::Ethrex => "engine log: milliseconds of `[METRIC] BLOCK`",
    }
}

/// What a log says about one block: columns and their values.
pub type BlockFacts = Vec<(&'static Column<Sample>, u64)>;

/// What a log says about a pass.
#[derive(Debug, Default)]
pub struct EngineLog {
    /// By block hash.
    pub blocks: HashMap<B256, BlockFacts>,
    /// That the engine gave up on what it was asked to do, if it did.
    pub fallback: Option<Fallback>,
    /// State roots that were made without the task whose proofs a chunk size cuts.
    pub roots_without_task: u64,
}

/// An engine's own word that it left the path that was to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The first line that says so.
    pub line: String,
    /// How many lines say so.
    pub lines: u64,
    /// What helps against it.
    pub advice: &'static str,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            lines,
            advice,
        } = self;
        write!(
            f,
            "the engine left the path that was to be measured, {lines} times in this pass; {advice}\n{line}"
        )
    }
}

const ROOT_TASK_ADVICE: &str = "give its state-root task more time (--set \
    engine.state-root-task-timeout=60s, where it has the flag), or look for what makes the task slow";
const SERIAL_ROOT_ADVICE: &str =
    "it computed state roots serially: look into its log for why, and report it to its authors";

/// What reth (v1.10 to 2.5) says when it leaves the path that was to be measured, and what helps. A pass with such
/// a line is a measurement of something else.
const FALLBACKS: [(&str, &str); 5] = [
    ("State root task timed out", ROOT_TASK_ADVICE),
    ("State root task dropped", SERIAL_ROOT_ADVICE),
    (
        "State root task returned incorrect state root",
        SERIAL_ROOT_ADVICE,
    ),
    (
        "Failed to compute state root in parallel",
        SERIAL_ROOT_ADVICE,
    ),
    (
        "Preparing stage",
        "its pipeline ran, as after an unwind that was cut short: give a datadir that is whole, or --reset copy",
    ),
];

/// Reads what an engine's log says about blocks, and about leaving the path that was to be measured.
///
/// # Errors
/// When the file cannot be read.
pub fn read_log(path: &Path) -> io::Result<EngineLog> {
    let (mut log, mut root) = (EngineLog::default(), BlockFacts::new());
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let mut fallbacks = FALLBACKS.iter();
        if let Some((_, advice)) = fallbacks.find(|(message, _)| line.contains(message)) {
            let first = || Fallback {
                line: line.trim().to_owned(),
                lines: 0,
                advice,
            };
            log.fallback.get_or_insert_with(first).lines += 1;
        } else if ROOT_MESSAGES.iter().any(|message| line.contains(message)) {
            root = told(Line::Root, &line);
            let without_task = WITHOUT_TASK.iter().any(|mark| line.contains(mark));
            log.roots_without_task += u64::from(without_task);
        } else if line.contains(BLOCK_MESSAGE) || line.contains(GETH_BLOCK_MESSAGE) {
            // The root's line names no block: it is that of the next block that is added.
            let mut block = std::mem::take(&mut root);
            block.append(&mut told(Line::Block, &line));
            if let Some(hash) = field(&line, "hash").and_then(|hash| hash.parse().ok()) {
                log.blocks.insert(hash, block);
            }
        } else if let Some((hash, block)) = told_by_ethrex(&line) {
            log.blocks.insert(hash, block);
        }
    }
    Ok(log)
}

/// Adds what the log says to the samples of a pass.
pub fn join(samples: &mut [Sample], facts: &HashMap<B256, BlockFacts>) {
    for sample in samples {
        for (column, value) in facts.get(&sample.block_hash).into_iter().flatten() {
            (column.set)(sample, *value);
        }
    }
}

/// What a line of this kind tells.
fn told(kind: Line, line: &str) -> BlockFacts {
    let of_column = |column: &'static Column<Sample>| {
        let Source::Log(of, key) = column.about.source else {
            return None;
        };
        let text = field(line, key).filter(|_| of == kind)?;
        let value = match column.about.unit {
            Unit::Nanoseconds => duration_ns(text),
            _ => text.parse().ok(),
        };
        Some((column, value?))
    };
    Sample::COLUMNS.iter().filter_map(of_column).collect()
}

/// What ethrex tells of a block: `[METRIC] BLOCK 3 0x… | 1.234 Ggas/s | 19.90 ms | …`.
fn told_by_ethrex(line: &str) -> Option<(B256, BlockFacts)> {
    let (_, told) = line.split_once(ETHREX_BLOCK_MESSAGE)?;
    let mut parts = told.split('|').map(str::trim);
    let (_, hash) = parts.next()?.split_once(' ')?;
    let milliseconds = parts.find_map(|part| part.strip_suffix(" ms"))?;
    let time_ns = duration_ns(&format!("{milliseconds}ms"))?;
    let is_time =
        |column: &&Column<Sample>| column.about.source == Source::Log(Line::Block, BLOCK_TIME_KEY);
    let column = Sample::COLUMNS.iter().find(is_time)?;
    Some((hash.parse().ok()?, vec![(column, time_ns)]))
}

/// The value of `key=value` in a line, quotes taken off.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .find_map(|(name, value)| (name == key).then(|| value.trim_matches('"')))
}

/// Nanoseconds of a duration as Rust's `Debug` writes it: `870.1µs`, `19.9ms`, `1.02s`.
fn duration_ns(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ns" => 1.0,
        "µs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::tests::sample;
    use proptest::prelude::*;
    use std::time::Duration;

    const LOG: &str = "\
2026-11-21T03:00:00Z INFO State root task finished state_root=0x01 elapsed=870.1µs \
account_targets=410 storage_targets=600 batches=9 jobs=41 unsplit_batches=2 nodes_revealed=1200 \
nodes_reread=7 known_paths=12 nodes_hashed=900 longest_chain=33
2026-11-21T03:00:00Z INFO Block added to canonical chain number=3 \
hash=0x0000000000000000000000000000000000000000000000000000000000000003 peers=0 txs=180 \
gas_used=24.53Mgas gas_throughput=1.23Ggas/second full=68.1% elapsed=19.9ms
\u{fffd} Block added to canonical chain hash=0x12 elapsed=soon
2026-11-21T03:00:01Z INFO State root job finished strategy=\"sparse-trie\" elapsed=1.02s
2026-11-21T03:00:01Z INFO Block added to canonical chain number=4 \
hash=0x0000000000000000000000000000000000000000000000000000000000000004 elapsed=1.5s
t=2026-11-21T03:00:02+0000 lvl=info msg=\"Imported new potential chain segment\" number=6 \
hash=0x0000000000000000000000000000000000000000000000000000000000000006 blocks=1 txs=180 \
mgas=24.53 elapsed=300.093ms mgasps=81.7 triediffs=\"1.57 MiB\"
2026-11-21T03:00:03.000000Z  INFO ethrex_blockchain::blockchain: [METRIC] BLOCK 7 \
0x0000000000000000000000000000000000000000000000000000000000000007 | 0.082 Ggas/s | 300.10 ms | 180 txs | 25 Mgas (68%)
2026-11-21T03:00:03.000001Z  INFO ethrex_blockchain::blockchain:   |- exec:      199.99 ms  (67%) << BOTTLENECK
2026-11-21T03:00:04.000000Z  INFO ethrex_blockchain::blockchain: [METRIC] BLOCK 8 0x12 | soon
";

    #[test]
    fn facts_join_their_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.log");
        std::fs::write(&path, LOG).unwrap();
        let unknown = |number| Sample {
            engine_ns: None,
            ..sample(number, 1, 2, 3)
        };
        let mut samples = [3, 4, 5, 6, 7].map(unknown);
        let log = read_log(&path).unwrap();
        join(&mut samples, &log.blocks);
        assert_eq!((log.fallback, log.roots_without_task), (None, 0));
        let told = |sample: &Sample| {
            let columns = Sample::COLUMNS.iter();
            let of_log = columns.filter(|column| matches!(column.about.source, Source::Log(..)));
            let told = of_log.filter_map(|column| Some((column.name, (column.get)(sample)?)));
            let told = told.map(|(name, value)| format!("{name}={value}"));
            told.collect::<Vec<_>>().join(" ")
        };
        let third = "engine_ns=19900000 state_root_ns=870100 account_targets=410 storage_targets=600 batches=9 \
                     jobs=41 unsplit_batches=2 nodes_revealed=1200 nodes_reread=7 known_paths=12 \
                     nodes_hashed=900 longest_chain=33";
        let fourth = "engine_ns=1500000000 state_root_ns=1020000000";
        let expected = [
            third,
            fourth,
            "",
            "engine_ns=300093000",
            "engine_ns=300100000",
        ];
        assert_eq!(samples.each_ref().map(told), expected);
        assert_eq!(samples[2], unknown(5));
    }

    #[test]
    fn roots_that_no_task_made_are_counted_with_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.log");
        let block = "INFO Block added to canonical chain hash=";
        for line in [
            "Regular root task finished regular_state_root=0x01 elapsed=3ms",
            "State root job finished strategy=\"synchronous\" elapsed=3ms",
        ] {
            let hash = B256::repeat_byte(7);
            std::fs::write(
                &path,
                format!("{LOG}INFO {line}\n{block}{hash} elapsed=4ms\n"),
            )
            .unwrap();
            let log = read_log(&path).unwrap();
            assert_eq!(log.roots_without_task, 1);
            let mut samples = [sample(1, 1, 2, 3)];
            samples[0].block_hash = hash;
            join(&mut samples, &log.blocks);
            assert_eq!(samples[0].state_root_ns, Some(3_000_000));
        }
    }

    #[test]
    fn an_engine_that_left_the_path_says_how_often() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.log");
        for (message, advised) in [
            (
                "State root task timed out, spawning sequential fallback timeout=1s",
                "timeout=60s",
            ),
            (
                "State root task timed out, racing serial fallback timeout=1s",
                "timeout=60s",
            ),
            (
                "State root task returned incorrect state root state_root=0x01",
                "serially",
            ),
            (
                "State root task dropped, waiting for sequential fallback",
                "serially",
            ),
            ("Failed to compute state root in parallel", "serially"),
            (
                "Preparing stage pipeline_stages=1/12 stage=Headers",
                "--reset copy",
            ),
        ] {
            let line = format!("2026-11-21T03:00:00Z  WARN {message}");
            std::fs::write(&path, format!("{LOG}{line}\n{LOG}{line}\n")).unwrap();
            let log = read_log(&path).unwrap();
            let fallback = log.fallback.unwrap();
            assert_eq!((&*fallback.line, fallback.lines), (&*line, 2));
            assert!(fallback.advice.contains(advised), "{fallback}");
            assert_eq!(log.blocks.len(), 4);
        }
    }

    proptest! {
        #[test]
        fn reads_every_duration_that_rust_writes(ns in 0u64..1 << 40) {
            let text = format!("{:?}", Duration::from_nanos(ns));
            prop_assert_eq!(duration_ns(&text), Some(ns), "{}", text);
        }
    }
}
