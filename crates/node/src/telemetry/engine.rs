//! The metrics of the engine thread and of persistence.
//!
//! Invariant: everything about a block is recorded at once, after its answer was sent.

use super::{
    recorder::{counter, gauge, is_installed, summary},
    workers::Workers,
};
use alloy_rpc_types_engine::PayloadStatusEnum;
use engine_api::metric;
use metrics::{Counter, Gauge, Histogram};
use state_root::RootCounters;
use std::time::Duration;

/// How long the parts of a block's execution took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExecutionTimes {
    /// System calls before the first transaction.
    pub(crate) pre: Duration,
    /// Waiting for senders, or recovering them.
    pub(crate) sender_wait: Duration,
    /// Transactions, without that wait.
    pub(crate) transactions: Duration,
    /// System calls and withdrawals at the end.
    pub(crate) post: Duration,
}

impl ExecutionTimes {
    /// All of it.
    pub(crate) fn total(&self) -> Duration {
        self.pre + self.sender_wait + self.transactions + self.post
    }
}

/// How long the steps of a block took, one after another on the engine thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockTimes {
    /// Header check, start of the root's job, opening the parent's state.
    pub(crate) prepare: Duration,
    /// Execution.
    pub(crate) execution: ExecutionTimes,
    /// Putting the changes together.
    pub(crate) bundle: Duration,
    /// Waiting for the root.
    pub(crate) root_wait: Duration,
    /// Comparing results with the header.
    pub(crate) checks: Duration,
    /// The root's job from its start to its root, beside all of the above.
    pub(crate) root_total: Duration,
}

/// What is recorded about a block that was added.
pub(crate) struct BlockFigures<'a> {
    /// How long its steps took.
    pub(crate) times: &'a BlockTimes,
    /// From its header check to its place in memory.
    pub(crate) elapsed: Duration,
    /// How its root was made.
    pub(crate) root: &'a RootCounters,
    /// Gas it used.
    pub(crate) gas: u64,
    /// Accounts it changed.
    pub(crate) accounts: usize,
}

/// Handles of the engine's metrics; they do nothing when no recorder was installed.
pub(crate) struct EngineMetrics {
    payloads: Payloads,
    block: Block,
    root: Root,
    forkchoices: Forkchoices,
    persistence: Persistence,
    /// Found at the first block: threads name themselves after they have started.
    workers: Option<Workers>,
}

impl EngineMetrics {
    pub(crate) fn new() -> Self {
        Self {
            payloads: Payloads::new(),
            block: Block::new(),
            root: Root::new(),
            forkchoices: Forkchoices::new(),
            persistence: Persistence::new(),
            workers: None,
        }
    }

    /// A payload was answered, `waited` after it came and `latency` after it was taken.
    pub(crate) fn payload(
        &self,
        status: &PayloadStatusEnum,
        gas: u64,
        waited: Duration,
        latency: Duration,
    ) {
        let payloads = &self.payloads;
        payloads.messages.increment(1);
        payloads.queue.record(waited);
        payloads.latency.record(latency);
        payloads.last.set(latency);
        match status {
            PayloadStatusEnum::Valid => {
                payloads.valid.increment(1);
                let rate = gas as f64 / latency.as_secs_f64().max(f64::MIN_POSITIVE);
                payloads.gas.record(gas as f64);
                payloads.gas_last.set(gas as f64);
                payloads.rate.record(rate);
                payloads.rate_last.set(rate);
            }
            PayloadStatusEnum::Invalid { .. } => payloads.invalid.increment(1),
            PayloadStatusEnum::Syncing => payloads.syncing.increment(1),
            PayloadStatusEnum::Accepted => payloads.accepted.increment(1),
        }
    }

    /// A payload failed for a reason of the engine's own.
    pub(crate) fn payload_failed(&self) {
        self.payloads.messages.increment(1);
        self.payloads.error.increment(1);
    }

    /// Nobody waited for an answer any more.
    pub(crate) fn undelivered(&self) {
        self.payloads.undelivered.increment(1);
    }

    /// What there was to do after a payload's answer is done.
    pub(crate) fn after_answer(&self, elapsed: Duration) {
        self.payloads.after.record(elapsed);
    }

    /// A block was added.
    pub(crate) fn block(&mut self, figures: &BlockFigures<'_>) {
        self.block.record(figures);
        self.root.record(figures.times, figures.root);
        if !is_installed() {
            return;
        }
        match &mut self.workers {
            Some(workers) => {
                let busy = workers.lap();
                let threads = u32::try_from(workers.count()).unwrap_or(u32::MAX);
                let available = figures.times.root_total * threads;
                self.root.busy.record(busy);
                self.root.idle.record(available.saturating_sub(busy));
            }
            none => {
                let workers = none.insert(Workers::find());
                self.root.workers.set(workers.count() as f64);
            }
        }
    }

    /// A fork choice was answered; `None` when it was refused.
    pub(crate) fn forkchoice(&self, status: Option<&PayloadStatusEnum>, latency: Duration) {
        let forkchoices = &self.forkchoices;
        forkchoices.messages.increment(1);
        forkchoices.latency.record(latency);
        forkchoices.last.set(latency);
        let counter = match status {
            Some(PayloadStatusEnum::Valid) => &forkchoices.valid,
            Some(PayloadStatusEnum::Invalid { .. }) => &forkchoices.invalid,
            Some(PayloadStatusEnum::Syncing | PayloadStatusEnum::Accepted) => &forkchoices.syncing,
            None => &forkchoices.error,
        };
        counter.increment(1);
    }

    /// The engine waited because too many blocks were unpersisted.
    pub(crate) fn stalled(&self, waited: Duration) {
        self.persistence.stall.record(waited);
    }

    /// The engine took note of a batch that it had handed over for persistence `elapsed` ago.
    pub(crate) fn persisted(&self, elapsed: Duration) {
        self.persistence.round_trip.record(elapsed);
    }

    /// Where the chain and the database are.
    pub(crate) fn heads(&self, head: u64, persisted: u64) {
        self.persistence.head.set(head as f64);
        let unpersisted = head.saturating_sub(persisted);
        self.persistence.in_memory.set(unpersisted as f64);
    }
}

struct Payloads {
    queue: Histogram,
    latency: Histogram,
    last: Gauge,
    gas: Histogram,
    gas_last: Gauge,
    rate: Histogram,
    rate_last: Gauge,
    messages: Counter,
    valid: Counter,
    invalid: Counter,
    syncing: Counter,
    accepted: Counter,
    error: Counter,
    undelivered: Counter,
    after: Histogram,
}

impl Payloads {
    fn new() -> Self {
        Self {
            queue: summary(metric::QUEUE_WAIT),
            latency: summary(metric::NEW_PAYLOAD_LATENCY),
            last: gauge(metric::NEW_PAYLOAD_LAST),
            gas: summary(metric::NEW_PAYLOAD_GAS),
            gas_last: gauge(metric::NEW_PAYLOAD_GAS_LAST),
            rate: summary(metric::NEW_PAYLOAD_GAS_RATE),
            rate_last: gauge(metric::NEW_PAYLOAD_GAS_RATE_LAST),
            messages: counter(metric::NEW_PAYLOAD_MESSAGES),
            valid: counter(metric::NEW_PAYLOAD_VALID),
            invalid: counter(metric::NEW_PAYLOAD_INVALID),
            syncing: counter(metric::NEW_PAYLOAD_SYNCING),
            accepted: counter(metric::NEW_PAYLOAD_ACCEPTED),
            error: counter(metric::NEW_PAYLOAD_ERROR),
            undelivered: counter(metric::FAILED_DELIVERIES),
            after: summary(metric::AFTER_ANSWER),
        }
    }
}

struct Block {
    prepare: Histogram,
    execution: Histogram,
    execution_last: Gauge,
    pre: Histogram,
    sender_wait: Histogram,
    transactions: Histogram,
    post: Histogram,
    rate: Gauge,
    gas: Counter,
    accounts: Histogram,
    bundle: Histogram,
    root_wait: Histogram,
    root_wait_last: Gauge,
    checks: Histogram,
    validation: Histogram,
    validation_last: Gauge,
    insert: Histogram,
}

impl Block {
    fn new() -> Self {
        Self {
            prepare: summary(metric::BLOCK_PREPARE),
            execution: summary(metric::EXECUTION),
            execution_last: gauge(metric::EXECUTION_LAST),
            pre: summary(metric::PRE_EXECUTION),
            sender_wait: summary(metric::TRANSACTION_WAIT),
            transactions: summary(metric::TRANSACTION_EXECUTION),
            post: summary(metric::POST_EXECUTION),
            rate: gauge(metric::EXECUTION_GAS_RATE),
            gas: counter(metric::EXECUTION_GAS),
            accounts: summary(metric::ACCOUNTS_UPDATED),
            bundle: summary(metric::BUNDLE),
            root_wait: summary(metric::STATE_ROOT),
            root_wait_last: gauge(metric::STATE_ROOT_LAST),
            checks: summary(metric::POST_VALIDATION),
            validation: summary(metric::VALIDATION),
            validation_last: gauge(metric::VALIDATION_LAST),
            insert: summary(metric::INSERT),
        }
    }

    fn record(&self, figures: &BlockFigures<'_>) {
        let times = figures.times;
        let execution = times.execution.total();
        self.prepare.record(times.prepare);
        self.execution.record(execution);
        self.execution_last.set(execution);
        self.pre.record(times.execution.pre);
        self.sender_wait.record(times.execution.sender_wait);
        self.transactions.record(times.execution.transactions);
        self.post.record(times.execution.post);
        let seconds = execution.as_secs_f64().max(f64::MIN_POSITIVE);
        self.rate.set(figures.gas as f64 / seconds);
        self.gas.increment(figures.gas);
        self.accounts.record(figures.accounts as f64);
        self.bundle.record(times.bundle);
        self.root_wait.record(times.root_wait);
        self.root_wait_last.set(times.root_wait);
        self.checks.record(times.checks);
        self.validation.record(figures.elapsed);
        self.validation_last.set(figures.elapsed);
        self.insert.record(figures.elapsed);
    }
}

struct Root {
    total: Histogram,
    workers: Gauge,
    busy: Histogram,
    idle: Histogram,
    /// What is counted, in the order of [`Root::counted`].
    counts: [Histogram; 10],
}

impl Root {
    fn new() -> Self {
        Self {
            total: summary(metric::ROOT_TOTAL),
            workers: gauge(metric::WORKERS),
            busy: summary(metric::WORKER_BUSY),
            idle: summary(metric::WORKER_IDLE),
            counts: Self::counted(&RootCounters::default()).map(|(metric, _)| summary(metric)),
        }
    }

    fn counted(counters: &RootCounters) -> [(metric::Metric, u64); 10] {
        [
            (metric::CHUNKS, counters.jobs),
            (metric::DISPATCHES, counters.batches),
            (metric::UNSPLIT, counters.unsplit_batches),
            (metric::ACCOUNT_TARGETS, counters.account_targets),
            (metric::STORAGE_TARGETS, counters.storage_targets),
            (metric::NODES_REVEALED, counters.nodes_revealed),
            (metric::NODES_REREAD, counters.nodes_reread),
            (metric::KNOWN_PATHS, counters.known_paths),
            (metric::NODES_HASHED, counters.nodes_hashed),
            (metric::LONGEST_CHAIN, counters.longest_chain),
        ]
    }

    fn record(&self, times: &BlockTimes, counters: &RootCounters) {
        self.total.record(times.root_total);
        for (histogram, (_, count)) in self.counts.iter().zip(Self::counted(counters)) {
            histogram.record(count as f64);
        }
    }
}

struct Forkchoices {
    latency: Histogram,
    last: Gauge,
    messages: Counter,
    valid: Counter,
    invalid: Counter,
    syncing: Counter,
    error: Counter,
}

impl Forkchoices {
    fn new() -> Self {
        Self {
            latency: summary(metric::FORKCHOICE_LATENCY),
            last: gauge(metric::FORKCHOICE_LAST),
            messages: counter(metric::FORKCHOICE_MESSAGES),
            valid: counter(metric::FORKCHOICE_VALID),
            invalid: counter(metric::FORKCHOICE_INVALID),
            syncing: counter(metric::FORKCHOICE_SYNCING),
            error: counter(metric::FORKCHOICE_ERROR),
        }
    }
}

struct Persistence {
    round_trip: Histogram,
    stall: Histogram,
    head: Gauge,
    in_memory: Gauge,
}

impl Persistence {
    fn new() -> Self {
        Self {
            round_trip: summary(metric::PERSISTENCE),
            stall: summary(metric::BACKPRESSURE),
            head: gauge(metric::HEAD),
            in_memory: gauge(metric::IN_MEMORY_BLOCKS),
        }
    }
}

/// The metrics of the persistence thread.
pub(crate) struct PersistenceMetrics {
    duration: Histogram,
    blocks: Histogram,
}

impl PersistenceMetrics {
    pub(crate) fn new() -> Self {
        Self {
            duration: summary(metric::SAVE_DURATION),
            blocks: summary(metric::SAVE_BLOCKS),
        }
    }

    /// A batch was written.
    pub(crate) fn persisted(&self, blocks: usize, elapsed: Duration) {
        self.duration.record(elapsed);
        self.blocks.record(blocks as f64);
    }
}
