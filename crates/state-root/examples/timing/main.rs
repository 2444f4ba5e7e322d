//! Times the roots of a chain of synthetic blocks: the chunk policies block by block in turns, in
//! one run, over a state that costs what a database costs. Changes are handed over in messages as
//! the executing thread does, which is busy between two of them. Ratios are to the faster of the
//! two reth policies, and times are lower quartiles, which other programs on the machine disturb
//! least. `work` is the processor time of all threads but the executing one.
//!
//! `cargo run --release -p state-root --example timing [NAME=VALUE]...` with `mix` (a mix or
//! `all`), `leaves` (of a block), `blocks`, `keys` (of a message), `pause` (µs between messages),
//! `seek` (ns), `threads`.

mod chain;
mod cost;

use alloy_primitives::B256;
use chain::Mix;
use cost::{Cost, CostlySource, spin};
use state_root::{
    ChunkPolicy, LateRoot, ProofConfig, RangeConfig, RootCounters, RootError, RootOutcome,
    RootPool, Strategy, reference,
    updates::{AccountChange, HashedState},
};
use std::{
    collections::HashMap,
    error::Error,
    num::NonZeroUsize,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Blocks that are computed before any is timed.
const WARM_UP: u64 = 3;

/// The command line: names with values.
struct Arguments(HashMap<String, String>);

impl Arguments {
    fn parse() -> Result<Self, String> {
        let pair = |argument: String| {
            let pair = argument.split_once('=');
            let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or(format!("{argument} is not NAME=VALUE"))
        };
        std::env::args()
            .skip(1)
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|_| format!("{name}={text}: not understood"))
        };
        self.0.get(name).map_or(Ok(default), parse)
    }
}

/// How the changes of a block reach the pipeline.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Keys of a message.
    keys: usize,
    /// Execution between two messages.
    pause: Duration,
}

/// One way of computing roots, and its times over the blocks.
struct Contender {
    name: String,
    pool: RootPool<CostlySource>,
    /// From the first change to the root.
    total: Vec<Duration>,
    /// From the last change to the root.
    blocked: Vec<Duration>,
    /// Time all threads worked on it, the executing thread excepted.
    work: Vec<Duration>,
    counters: RootCounters,
}

impl Contender {
    fn new(name: &str, strategy: Strategy) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            name: name.to_owned(),
            pool: RootPool::new(strategy)?,
            total: Vec::new(),
            blocked: Vec::new(),
            work: Vec::new(),
            counters: RootCounters::default(),
        })
    }

    fn run(
        &mut self,
        (source, root): (&Arc<CostlySource>, B256),
        messages: &[Vec<AccountChange>],
        pace: Pace,
    ) -> Result<RootOutcome, RootError> {
        let messages = messages.to_vec();
        let executing = pace.pause * messages.len() as u32;
        let before = work_of_process();
        let started = Instant::now();
        let job = self.pool.prepare(Arc::clone(source), root);
        for message in messages {
            spin(pace.pause);
            job.update(message);
        }
        let sent = Instant::now();
        let outcome = job.finish()?;
        self.blocked.push(sent.elapsed());
        self.total.push(started.elapsed());
        let work = work_of_process().saturating_sub(before);
        self.work.push(work.saturating_sub(executing));
        self.counters = outcome.counters;
        Ok(outcome)
    }

    fn forget(&mut self) {
        self.total.clear();
        self.blocked.clear();
        self.work.clear();
    }

    fn figures(&self, base: Duration) -> String {
        let (total, blocked) = (quartile(&self.total), quartile(&self.blocked));
        format!(
            "{:>22} {:>8.2} ms {:>8.2} ms {:>5.1} % {:>7.2} x {:>8.2} ms {:>6} {:>6} {:>6} {:>6} {:>6}",
            self.name,
            total.as_secs_f64() * 1e3,
            blocked.as_secs_f64() * 1e3,
            blocked.as_secs_f64() / total.as_secs_f64() * 1e2,
            base.as_secs_f64() / total.as_secs_f64(),
            quartile(&self.work).as_secs_f64() * 1e3,
            self.counters.jobs,
            self.counters.nodes_revealed,
            self.counters.nodes_reread,
            self.counters.nodes_hashed,
            self.counters.longest_chain,
        )
    }
}

/// Processor time of all threads so far, or nothing where the system does not tell.
fn work_of_process() -> Duration {
    let read = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    Duration::from_nanos(tasks.flatten().filter_map(read).sum())
}

/// The time that a quarter of the blocks stays below.
fn quartile(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 4).copied().unwrap_or_default()
}

/// The changes of a block, a message whenever enough keys have come together.
fn messages(changes: Vec<AccountChange>, keys: usize) -> Vec<Vec<AccountChange>> {
    let mut messages = vec![Vec::new()];
    let mut open = 0;
    for change in changes {
        if open >= keys {
            messages.push(Vec::new());
            open = 0;
        }
        open += 1 + change.slots.len();
        if let Some(message) = messages.last_mut() {
            message.push(change);
        }
    }
    messages
}

fn contenders(threads: usize) -> Result<Vec<Contender>, Box<dyn Error>> {
    let threads = NonZeroUsize::new(threads).ok_or("no threads")?;
    let size = |size: u8| NonZeroUsize::MIN.saturating_add(usize::from(size) - 1);
    let proofs = |policy, chunk_size, kept_bytes| {
        Strategy::Proofs(ProofConfig {
            policy,
            batch_keys: size(128),
            chunk_size: size(chunk_size),
            account_workers: threads,
            storage_workers: threads,
            kept_blocks: None,
            kept_bytes,
        })
    };
    let ranges = |kept_bytes| {
        Strategy::Ranges(RangeConfig {
            grain: size(60),
            threads,
            kept_bytes,
        })
    };
    let all = 1 << 30;
    Ok(vec![
        Contender::new("always 60 cold", proofs(ChunkPolicy::Always, 60, 0))?,
        Contender::new("always 60 warm", proofs(ChunkPolicy::Always, 60, all))?,
        Contender::new("reth-1.11 60 warm", proofs(ChunkPolicy::Reth1_11, 60, all))?,
        Contender::new("reth-2.5 5 warm", proofs(ChunkPolicy::Reth2_5, 5, all))?,
        Contender::new("reth-2.5 60 warm", proofs(ChunkPolicy::Reth2_5, 60, all))?,
        Contender::new("range-steal cold", ranges(0))?,
        Contender::new("range-steal warm", ranges(all))?,
        Contender::new("parallel", Strategy::Late(LateRoot::Parallel(threads)))?,
    ])
}

fn run_mix(arguments: &Arguments, mix: Mix) -> Result<(), Box<dyn Error>> {
    let leaves = arguments.get("leaves", 1_000)?;
    let blocks = arguments.get("blocks", 20)?;
    let pace = Pace {
        keys: arguments.get("keys", 128)?,
        pause: Duration::from_micros(arguments.get("pause", 1_000)?),
    };
    let seek = arguments.get("seek", 500)?;
    let cost = Cost {
        open: Duration::from_nanos(6 * seek),
        seek: Duration::from_nanos(seek),
        next: Duration::from_nanos(seek / 4),
    };
    let mut contenders = contenders(arguments.get("threads", 2)?)?;
    let only = arguments.get("only", String::new())?;
    contenders.retain(|contender| contender.name.contains(&only));
    let (state, mut root) = chain::state()?;
    let mut state = Arc::new(state);
    let mut serial = Vec::new();
    for number in 1..=WARM_UP + blocks {
        let changes = chain::block(mix, leaves, number);
        let hashed = HashedState::from_changes(&changes);
        let source = Arc::new(CostlySource {
            state: Arc::clone(&state),
            cost,
        });
        let view = state_root::cursor::StateSource::open(&*source)?;
        let started = Instant::now();
        let (expected, nodes) = reference::incremental_root(&view, &hashed)?;
        serial.push(started.elapsed());
        drop(view);
        let messages = messages(changes, pace.keys);
        // Whoever came first in one block comes last in the next.
        contenders.rotate_left(1);
        for contender in &mut contenders {
            let outcome = contender.run((&source, root), &messages, pace)?;
            assert_eq!(outcome.root, Some(expected), "{}", contender.name);
            if number == WARM_UP {
                contender.forget();
            }
        }
        drop(source);
        // Who has answered may not have let go yet.
        while Arc::get_mut(&mut state).is_none() {
            std::thread::yield_now();
        }
        Arc::make_mut(&mut state).apply(&hashed, &nodes);
        root = expected;
    }
    report((mix, leaves), quartile(&serial), contenders);
    Ok(())
}

fn report((mix, leaves): (Mix, usize), serial: Duration, mut contenders: Vec<Contender>) {
    println!("{mix}, {leaves} leaves; serial root {serial:.2?}");
    println!(
        "{:>22} {:>11} {:>11} {:>7} {:>9} {:>11} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "",
        "block",
        "blocked",
        "share",
        "ratio",
        "work",
        "jobs",
        "read",
        "again",
        "hashed",
        "chain"
    );
    contenders.sort_by(|a, b| a.name.cmp(&b.name));
    let reth = contenders.iter().filter(|one| one.name.starts_with("reth"));
    let base = reth
        .map(|one| quartile(&one.total))
        .min()
        .unwrap_or_default();
    for contender in &contenders {
        println!("{}", contender.figures(base));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    match arguments.get("mix", "all".to_owned())?.as_str() {
        "all" => Mix::ALL
            .into_iter()
            .try_for_each(|mix| run_mix(&arguments, mix)),
        mix => run_mix(&arguments, mix.parse()?),
    }
}
