//! The metrics that bench-reth exports.

use super::metrics;

metrics! {
    ENGINE: "Every metric of bench-reth, in the order of a payload's path.";

    // Requests.
    RPC_NEW_PAYLOAD_V1 = "reth_engine_rpc_new_payload_v1" Summary Seconds "engine_newPayloadV1 from its decoded request to its answer, queueing included.";
    RPC_NEW_PAYLOAD_V2 = "reth_engine_rpc_new_payload_v2" Summary Seconds "engine_newPayloadV2 from its decoded request to its answer, queueing included.";
    RPC_NEW_PAYLOAD_V3 = "reth_engine_rpc_new_payload_v3" Summary Seconds "engine_newPayloadV3 from its decoded request to its answer, queueing included.";
    RPC_NEW_PAYLOAD_V4 = "reth_engine_rpc_new_payload_v4" Summary Seconds "engine_newPayloadV4 from its decoded request to its answer, queueing included.";
    RPC_FORKCHOICE_V1 = "reth_engine_rpc_fork_choice_updated_v1" Summary Seconds "engine_forkchoiceUpdatedV1 from its decoded request to its answer, queueing included.";
    RPC_FORKCHOICE_V2 = "reth_engine_rpc_fork_choice_updated_v2" Summary Seconds "engine_forkchoiceUpdatedV2 from its decoded request to its answer, queueing included.";
    RPC_FORKCHOICE_V3 = "reth_engine_rpc_fork_choice_updated_v3" Summary Seconds "engine_forkchoiceUpdatedV3 from its decoded request to its answer, queueing included.";
    PAYLOAD_DECODE = "bench_rpc_payload_decode_seconds" Summary Seconds "Reading the parameters of a payload.";
    QUEUE_WAIT = "bench_engine_queue_wait_seconds" Summary Seconds "A payload's wait for the engine thread, and for persistence where that was asked for.";

    // A payload on the engine thread.
    NEW_PAYLOAD_LATENCY = "reth_consensus_engine_beacon_new_payload_latency" Summary Seconds "A payload on the engine thread, from being taken to its answer.";
    NEW_PAYLOAD_LAST = "reth_consensus_engine_beacon_new_payload_last" Gauge Seconds "The last payload on the engine thread.";
    NEW_PAYLOAD_GAS = "reth_consensus_engine_beacon_new_payload_total_gas" Summary Gas "Gas used by a valid payload.";
    NEW_PAYLOAD_GAS_LAST = "reth_consensus_engine_beacon_new_payload_total_gas_last" Gauge Gas "Gas used by the last valid payload.";
    NEW_PAYLOAD_GAS_RATE = "reth_consensus_engine_beacon_new_payload_gas_per_second" Summary GasPerSecond "Gas of a valid payload by its time on the engine thread.";
    NEW_PAYLOAD_GAS_RATE_LAST = "reth_consensus_engine_beacon_new_payload_gas_per_second_last" Gauge GasPerSecond "The same of the last valid payload.";
    NEW_PAYLOAD_MESSAGES = "reth_consensus_engine_beacon_new_payload_messages" Counter Count "Payloads taken.";
    NEW_PAYLOAD_VALID = "reth_consensus_engine_beacon_new_payload_valid" Counter Count "Payloads answered VALID.";
    NEW_PAYLOAD_INVALID = "reth_consensus_engine_beacon_new_payload_invalid" Counter Count "Payloads answered INVALID.";
    NEW_PAYLOAD_SYNCING = "reth_consensus_engine_beacon_new_payload_syncing" Counter Count "Payloads answered SYNCING.";
    NEW_PAYLOAD_ACCEPTED = "reth_consensus_engine_beacon_new_payload_accepted" Counter Count "Payloads answered ACCEPTED.";
    NEW_PAYLOAD_ERROR = "reth_consensus_engine_beacon_new_payload_error" Counter Count "Payloads that failed with an error of the engine.";
    FAILED_DELIVERIES = "reth_consensus_engine_beacon_failed_new_payload_response_deliveries" Counter Count "Answers to payloads whose sender no longer waited.";
    BLOCK_PREPARE = "bench_engine_block_prepare_seconds" Summary Seconds "Checking the header, starting the root's job and opening the parent's state.";
    EXECUTION = "reth_sync_execution_execution_histogram" Summary Seconds "Executing a block: system calls, transactions, withdrawals, and waiting for senders.";
    EXECUTION_LAST = "reth_sync_execution_execution_duration" Gauge Seconds "Executing the last block.";
    PRE_EXECUTION = "reth_sync_execution_pre_execution_histogram" Summary Seconds "System calls before the first transaction.";
    TRANSACTION_WAIT = "reth_sync_execution_transaction_wait_histogram" Summary Seconds "Execution without a transaction: waiting for senders, or recovering them itself.";
    TRANSACTION_EXECUTION = "reth_sync_execution_transaction_execution_histogram" Summary Seconds "Executing the transactions of a block.";
    POST_EXECUTION = "reth_sync_execution_post_execution_histogram" Summary Seconds "System calls and withdrawals after the last transaction.";
    EXECUTION_GAS_RATE = "reth_sync_execution_gas_per_second" Gauge GasPerSecond "Gas of the last block by its execution.";
    EXECUTION_GAS = "reth_sync_execution_gas_processed_total" Counter Gas "Gas executed.";
    ACCOUNTS_UPDATED = "reth_sync_execution_accounts_updated_histogram" Summary Count "Accounts a block changed.";
    BUNDLE = "bench_engine_bundle_seconds" Summary Seconds "Putting a block's state changes together, beside the root.";
    STATE_ROOT = "reth_sync_block_validation_state_root_histogram" Summary Seconds "Waiting for the state root once execution is over.";
    STATE_ROOT_LAST = "reth_sync_block_validation_state_root_duration" Gauge Seconds "Waiting for the last block's state root once execution was over.";
    POST_VALIDATION = "reth_sync_block_validation_post_execution_validation_duration" Summary Seconds "Comparing hash, size, receipts, requests and root with the header.";
    VALIDATION = "reth_sync_block_validation_payload_validation_histogram" Summary Seconds "A block from its header check to its place among the blocks in memory.";
    VALIDATION_LAST = "reth_sync_block_validation_payload_validation_duration" Gauge Seconds "The same of the last block.";
    INSERT = "reth_consensus_engine_beacon_block_insert_total_duration" Summary Seconds "The same, for the blocks that were added.";
    AFTER_ANSWER = "bench_engine_after_answer_seconds" Summary Seconds "Bookkeeping after a payload's answer, before the next request is taken.";

    // The state root.
    ROOT_TOTAL = "reth_tree_root_sparse_trie_total_duration_histogram" Summary Seconds "A root's job from its start to its root, execution included.";
    CHUNKS = "bench_multiproof_chunks" Summary Count "Proof jobs of a block: chunks that batches were cut into, and whole batches.";
    DISPATCHES = "bench_multiproof_dispatches" Summary Count "Batches of proof targets of a block.";
    UNSPLIT = "bench_multiproof_unsplit_dispatches" Summary Count "Batches of a block that stayed whole.";
    ACCOUNT_TARGETS = "bench_multiproof_account_targets" Summary Count "Accounts of a block whose path was read.";
    STORAGE_TARGETS = "bench_multiproof_storage_targets" Summary Count "Slots of a block whose path was read.";
    NODES_REVEALED = "bench_multiproof_nodes_revealed" Summary Count "Trie nodes that the proof jobs of a block brought.";
    NODES_REREAD = "bench_multiproof_nodes_reread" Summary Count "Those of them that were known already: what chunks cost.";
    KNOWN_PATHS = "bench_root_known_paths" Summary Count "Changed keys of a block whose path needed no proof.";
    NODES_HASHED = "bench_root_nodes_hashed" Summary Count "Trie nodes of a block that were encoded anew.";
    LONGEST_CHAIN = "bench_root_longest_chain" Summary Count "Trie nodes of a block that come one after another however many threads there are.";
    WORKERS = "bench_root_workers" Gauge Count "Threads that work on state roots.";
    WORKER_BUSY = "bench_root_worker_busy_seconds" Summary Seconds "CPU time of all threads that work on roots, from one block's answer to the next.";
    WORKER_IDLE = "bench_root_worker_idle_seconds" Summary Seconds "What those threads had left of a root's job: threads times its length, less their CPU time.";

    // Fork choice.
    FORKCHOICE_LATENCY = "reth_consensus_engine_beacon_forkchoice_updated_latency" Summary Seconds "A fork choice on the engine thread, from being taken to its answer.";
    FORKCHOICE_LAST = "reth_consensus_engine_beacon_forkchoice_updated_last" Gauge Seconds "The last fork choice on the engine thread.";
    FORKCHOICE_MESSAGES = "reth_consensus_engine_beacon_forkchoice_updated_messages" Counter Count "Fork choices taken.";
    FORKCHOICE_VALID = "reth_consensus_engine_beacon_forkchoice_updated_valid" Counter Count "Fork choices answered VALID.";
    FORKCHOICE_INVALID = "reth_consensus_engine_beacon_forkchoice_updated_invalid" Counter Count "Fork choices answered INVALID.";
    FORKCHOICE_SYNCING = "reth_consensus_engine_beacon_forkchoice_updated_syncing" Counter Count "Fork choices answered SYNCING.";
    FORKCHOICE_ERROR = "reth_consensus_engine_beacon_forkchoice_updated_error" Counter Count "Fork choices that were refused or failed.";

    // Persistence.
    SAVE_DURATION = "reth_consensus_engine_persistence_save_blocks_duration_seconds" Summary Seconds "Writing a batch of blocks, its commit included.";
    SAVE_BLOCKS = "reth_consensus_engine_persistence_save_blocks_batch_size" Summary Count "Blocks of a batch.";
    PERSISTENCE = "reth_consensus_engine_beacon_persistence_duration" Summary Seconds "A batch from being handed over until the engine took note of it.";
    BACKPRESSURE = "reth_consensus_engine_beacon_backpressure_stall_duration" Summary Seconds "Waiting for persistence because too many blocks were not persisted.";
    HEAD = "reth_blockchain_tree_canonical_chain_height" Gauge Count "Number of the canonical chain's head.";
    IN_MEMORY_BLOCKS = "reth_blockchain_tree_in_mem_state_num_blocks" Gauge Count "Canonical blocks that are not persisted yet.";

    // The process, read when it is asked for.
    PROCESS_CPU = "reth_process_cpu_seconds_total" Counter Seconds "CPU time of the process.";
    PROCESS_RESIDENT = "reth_process_resident_memory_bytes" Gauge Bytes "Resident memory.";
    PROCESS_VIRTUAL = "reth_process_virtual_memory_bytes" Gauge Bytes "Virtual memory.";
    PROCESS_THREADS = "reth_process_threads" Gauge Count "Threads.";
    PROCESS_FDS = "reth_process_open_fds" Gauge Count "Open file descriptors.";
    PROCESS_START = "reth_process_start_time_seconds" Gauge Seconds "When the process started, since the epoch.";
    IO_READ_CHARS = "reth_io_rchar" Counter Bytes "Bytes read by system calls.";
    IO_WRITE_CHARS = "reth_io_wchar" Counter Bytes "Bytes written by system calls.";
    IO_READ_BYTES = "reth_io_read_bytes" Counter Bytes "Bytes fetched from storage.";
    IO_WRITE_BYTES = "reth_io_write_bytes" Counter Bytes "Bytes sent to storage.";

    // Traces.
    SPANS_EXPORTED = "bench_otlp_spans_exported_total" Counter Count "Spans that a collector took.";
    SPANS_LOST = "bench_otlp_spans_lost_total" Counter Count "Spans that were dropped because the queue was full, or that no collector took.";
}
