//! The engine's log lines, in reth's words. Written after the caller has its answer.

use super::tree::ExecutedBlock;
use crate::telemetry::BlockTimes;
use alloy_consensus::BlockHeader;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::B256;
use alloy_rpc_types_engine::PayloadStatusEnum;
use reth_primitives_traits::{format_gas, format_gas_throughput};
use state_root::RootCounters;
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};

/// How the state root of a block was computed.
pub(super) struct RootReport {
    /// The root; `None` when the header's was taken on trust.
    pub(super) root: Option<B256>,
    pub(super) counters: RootCounters,
    /// Time the engine had nothing else to do for the block.
    pub(super) elapsed: Duration,
    /// Time execution was over and the root was not.
    pub(super) after_execution: Duration,
}

/// A block that was added to the tree.
pub(super) struct Added {
    pub(super) block: Arc<ExecutedBlock>,
    /// Whether its parent was the head.
    pub(super) canonical: bool,
    pub(super) root: RootReport,
    /// How long the steps of its validation took.
    pub(super) times: BlockTimes,
    /// Time from taking the payload apart until the block was in the tree.
    pub(super) elapsed: Duration,
}

/// A payload came in.
pub(super) fn received(number: u64, hash: B256) {
    info!(
        target: "reth_node_events::node",
        number,
        ?hash,
        "Received new payload from consensus engine"
    );
}

/// What became of it.
pub(super) fn outcome(number: u64, hash: B256, status: &PayloadStatusEnum, added: Option<&Added>) {
    if let PayloadStatusEnum::Invalid { validation_error } = status {
        warn!(
            target: "engine::tree",
            number,
            ?hash,
            error = %validation_error,
            "Encountered invalid block"
        );
    }
    if let Some(added) = added {
        state_root(&added.root);
        block_added(added);
    }
}

fn state_root(report: &RootReport) {
    let Some(root) = report.root else {
        return;
    };
    let counters = &report.counters;
    info!(
        target: "engine::tree::payload_validator",
        state_root = ?root,
        elapsed = ?report.elapsed,
        account_targets = counters.account_targets,
        storage_targets = counters.storage_targets,
        batches = counters.batches,
        jobs = counters.jobs,
        unsplit_batches = counters.unsplit_batches,
        nodes_revealed = counters.nodes_revealed,
        nodes_reread = counters.nodes_reread,
        known_paths = counters.known_paths,
        nodes_hashed = counters.nodes_hashed,
        longest_chain = counters.longest_chain,
        after_execution = ?report.after_execution,
        "State root task finished"
    );
}

fn block_added(added: &Added) {
    let header = added.block.header();
    if !added.canonical {
        info!(
            target: "reth_node_events::node",
            number = header.number,
            hash = ?added.block.hash(),
            elapsed = ?added.elapsed,
            "Block added to fork chain"
        );
        return;
    }
    let full = header.gas_used as f64 * 100.0 / header.gas_limit as f64;
    let base_fee_gwei = header.base_fee_per_gas.unwrap_or_default() as f64 / 1e9;
    info!(
        target: "reth_node_events::node",
        number = header.number,
        hash = ?added.block.hash(),
        peers = 0,
        txs = added.block.chain_block.block.transactions.len(),
        gas_used = %format_gas(header.gas_used),
        gas_throughput = %format_gas_throughput(header.gas_used, added.elapsed),
        gas_limit = %format_gas(header.gas_limit),
        full = %format_args!("{full:.1}%"),
        base_fee = %format_args!("{base_fee_gwei:.2}Gwei"),
        blobs = header.blob_gas_used().unwrap_or_default() / DATA_GAS_PER_BLOB,
        excess_blobs = header.excess_blob_gas().unwrap_or_default() / DATA_GAS_PER_BLOB,
        elapsed = ?added.elapsed,
        "Block added to canonical chain"
    );
}

/// The head moved.
pub(super) fn committed(number: u64, hash: B256, elapsed: Duration) {
    info!(
        target: "reth_node_events::node",
        number,
        ?hash,
        ?elapsed,
        "Canonical chain committed"
    );
}

/// Safe and finalized block both moved.
pub(super) fn forkchoice(head: B256, safe: B256, finalized: B256) {
    info!(
        target: "reth_node_events::node",
        head_block_hash = ?head,
        safe_block_hash = ?safe,
        finalized_block_hash = ?finalized,
        "Forkchoice updated"
    );
}
