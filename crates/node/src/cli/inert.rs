//! Flags of reth that mean nothing to this engine: accepted, so that one command line drives both
//! engines, and answered with one note each.
//!
//! Invariant: a flag listed here changes nothing at all. A flag that should restrict something
//! (access, memory, history) is never listed unless ignoring it is harmless.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

/// Flags that are ignored for the same reason.
struct InertFlags {
    /// Why, fitting `has no effect: bench-reth ...`.
    reason: &'static str,
    /// Flags without a value.
    switches: &'static [&'static str],
    /// Flags with one value.
    options: &'static [&'static str],
    /// Flags whose value, if any, follows an equals sign.
    optional: &'static [&'static str],
}

const NONE: InertFlags = InertFlags {
    reason: "",
    switches: &[],
    options: &[],
    optional: &[],
};

const INERT_NODE_FLAGS: &[InertFlags] = &[
    InertFlags {
        reason: "has no networking",
        switches: &[
            "disable-discovery",
            "disable-dns-discovery",
            "disable-discv4-discovery",
            "enable-discv5-discovery",
            "disable-nat",
            "disable-tx-gossip",
            "no-persist-peers",
            "trusted-only",
            "enforce-enr-fork-id",
            "net-if.experimental",
        ],
        options: &[
            "addr",
            "bootnodes",
            "discovery.addr",
            "discovery.port",
            "discovery.v5.addr",
            "discovery.v5.addr.ipv6",
            "discovery.v5.port",
            "discovery.v5.port.ipv6",
            "dns-retries",
            "identity",
            "max-inbound-peers",
            "max-outbound-peers",
            "max-peers",
            "max-pending-imports",
            "max-seen-tx-history",
            "max-tx-reqs",
            "max-tx-reqs-peer",
            "nat",
            "netrestrict",
            "network-id",
            "p2p-secret-key",
            "p2p-secret-key-hex",
            "peers-file",
            "pooled-tx-pack-soft-limit",
            "pooled-tx-response-soft-limit",
            "port",
            "required-block-hashes",
            "trusted-peers",
            "tx-ingress-policy",
            "tx-propagation-policy",
        ],
        ..NONE
    },
    InertFlags {
        reason: "keeps the whole history",
        switches: &[
            "full",
            "minimal",
            "prune.bodies.pre-merge",
            "prune.receipts.full",
            "prune.receipts.pre-merge",
            "prune.sender-recovery.full",
            "prune.transaction-lookup.full",
            "prune.account-history.full",
            "prune.storage-history.full",
        ],
        options: &[
            "block-interval",
            "prune.block-interval",
            "prune.minimum-distance",
            "prune.bodies.before",
            "prune.bodies.distance",
            "prune.receipts.before",
            "prune.receipts.distance",
            "prune.receiptslogfilter",
            "prune.sender-recovery.before",
            "prune.sender-recovery.distance",
            "prune.transaction-lookup.before",
            "prune.transaction-lookup.distance",
            "prune.account-history.before",
            "prune.account-history.distance",
            "prune.storage-history.before",
            "prune.storage-history.distance",
        ],
        ..NONE
    },
    InertFlags {
        reason: "has a small transaction pool of fixed bounds that nobody else sees",
        switches: &[
            "txpool.nolocals",
            "txpool.no-local-transactions-propagation",
        ],
        options: &[
            "blobpool.pricebump",
            "txpool.additional-validation-tasks",
            "txpool.basefee-max-count",
            "txpool.basefee-max-size",
            "txpool.blob-cache-size",
            "txpool.gas-limit",
            "txpool.lifetime",
            "txpool.locals",
            "txpool.max-account-slots",
            "txpool.max-batch-size",
            "txpool.max-cached-entries",
            "txpool.max-new-pending-txs-notifications",
            "txpool.max-new-txns",
            "txpool.max-pending-txns",
            "txpool.max-tx-gas",
            "txpool.max-tx-input-bytes",
            "txpool.minimal-protocol-fee",
            "txpool.minimum-priority-fee",
            "txpool.pending-max-count",
            "txpool.pending-max-size",
            "txpool.pricebump",
            "txpool.queued-max-count",
            "txpool.queued-max-size",
            "txpool.transactions-backup",
        ],
        ..NONE
    },
    InertFlags {
        reason: "builds a block at once when it is asked for one",
        options: &[
            "builder.deadline",
            "builder.interval",
            "builder.max-blobs",
            "builder.max-tasks",
        ],
        ..NONE
    },
    InertFlags {
        reason: "serves no IPC",
        switches: &["auth-ipc", "ipcdisable"],
        options: &["auth-ipc.path", "ipcpath"],
        ..NONE
    },
    InertFlags {
        reason: "offers none of the RPC services it configures",
        switches: &["http.disable-compression", "rpc.allow-tx-replacement"],
        options: &[
            "gpo.blocks",
            "gpo.default-suggested-fee",
            "gpo.ignoreprice",
            "gpo.maxprice",
            "gpo.percentile",
            "http.corsdomain",
            "rpc-cache.max-blocks",
            "rpc-cache.max-concurrent-db-requests",
            "rpc-cache.max-headers",
            "rpc-cache.max-receipts",
            "rpc.eth-proof-window",
            "rpc.evm-memory-limit",
            "rpc.max-blocking-io-requests",
            "rpc.max-blocks-per-filter",
            "rpc.max-logs-per-response",
            "rpc.max-simulate-blocks",
            "rpc.max-trace-filter-blocks",
            "rpc.max-tracing-requests",
            "rpc.pending-block",
            "rpc.proof-permits",
            "rpc.send-raw-transaction-sync-timeout",
        ],
        ..NONE
    },
    InertFlags {
        reason: "computes state roots as --bench.root-strategy and --bench.chunk-policy say",
        switches: &[
            "bench.force-state-root-task",
            "engine.disable-proof-v2",
            "engine.disable-trie-cache",
            "engine.legacy-state-root",
            "engine.multiproof-chunking",
            "engine.parallel-sparse-trie",
            "engine.disable-parallel-sparse-trie",
            "engine.state-root-fallback",
            "engine.state-root-task-compare-updates",
        ],
        options: &[
            "engine.num-state-masking-blocks",
            "engine.state-root-task-timeout",
        ],
        ..NONE
    },
    InertFlags {
        reason: "bounds the trie nodes that it keeps by --bench.kept-blocks and --bench.root-arena-mb",
        switches: &[
            "engine.disable-sparse-trie-cache-pruning",
            "engine.share-sparse-trie-with-payload-builder",
        ],
        options: &[
            "engine.sparse-trie-max-hot-accounts",
            "engine.sparse-trie-max-hot-slots",
            "engine.sparse-trie-max-storage-tries",
            "engine.sparse-trie-prune-depth",
        ],
        ..NONE
    },
    InertFlags {
        reason: "does not pre-execute transactions, and has no cache of precompiles or senders",
        switches: &[
            "engine.caching-and-prewarming",
            "engine.disable-cache-metrics",
            "engine.disable-caching-and-prewarming",
            "engine.disable-precompile-cache",
            "engine.disable-prewarming",
            "engine.precompile-cache",
            "engine.sender-recovery-cache",
            "engine.share-execution-cache-with-payload-builder",
            "engine.txpool-prewarming",
        ],
        options: &["engine.prewarming-threads"],
        ..NONE
    },
    InertFlags {
        reason: "always follows a fork choice back to an ancestor that is not finalized",
        switches: &["engine.allow-unwind-canonical-header"],
        ..NONE
    },
    InertFlags {
        reason: "does not implement this part of the engine",
        switches: &[
            "engine.always-process-payload-attributes-on-canonical-head",
            "engine.disable-bal-batch-io",
            "engine.disable-bal-parallel-execution",
            "engine.disable-bal-parallel-state-root",
            "engine.state-provider-metrics",
            "engine.suppress-persistence-during-build",
        ],
        options: &[
            "engine.invalid-header-cache-hit-eviction-threshold",
            "engine.slow-block-threshold",
        ],
        ..NONE
    },
    InertFlags {
        reason: "keeps everything in one MDBX environment",
        switches: &["storage.v2"],
        options: &[
            "datadir.rocksdb",
            "datadir.static-files",
            "static-files.blocks-per-file.headers",
            "static-files.blocks-per-file.receipts",
            "static-files.blocks-per-file.transactions",
            "static-files.blocks-per-file.transaction-senders",
        ],
        ..NONE
    },
    InertFlags {
        reason: "fixes this property of its database",
        switches: &["db.disable-metrics"],
        options: &[
            "db.log-level",
            "db.max-readers",
            "db.page-size",
            "db.read-transaction-timeout",
        ],
        ..NONE
    },
    InertFlags {
        reason: "pushes no metrics and exports no logs",
        options: &[
            "metrics.prometheus.push.interval",
            "metrics.prometheus.push.url",
            "logs-otlp.filter",
        ],
        optional: &["logs-otlp"],
        ..NONE
    },
    InertFlags {
        reason: "has no configuration file and no debug consensus client",
        switches: &["debug.skip-genesis-validation", "debug.terminate"],
        options: &["config", "debug.max-block", "debug.tip", "ethstats"],
        ..NONE
    },
];

/// Logging flags are global: they may stand before or after the command.
const INERT_LOG_FLAGS: &[InertFlags] = &[InertFlags {
    reason: "logs to standard output only",
    switches: &["log.journald"],
    options: &[
        "log.file.directory",
        "log.file.filter",
        "log.file.format",
        "log.file.max-files",
        "log.file.max-size",
        "log.file.name",
        "log.journald.filter",
    ],
    ..NONE
}];

/// The ignored flags of `node` that were typed, as notes ready to print.
#[derive(Debug, Clone, Default)]
pub struct InertNodeFlags(pub Vec<String>);

/// The ignored logging flags that were typed, as notes ready to print.
#[derive(Debug, Clone, Default)]
pub struct InertLogFlags(pub Vec<String>);

/// Adds the flags of `groups` to `command`.
fn augment(mut command: Command, groups: &'static [InertFlags], global: bool) -> Command {
    for group in groups {
        let help = format!("Accepted without effect: bench-reth {}", group.reason);
        let base = |name: &'static str| {
            Arg::new(name)
                .long(name)
                .help(help.clone())
                .help_heading("Accepted without effect")
                .hide_short_help(true)
                .global(global)
        };
        for name in group.switches {
            command = command.arg(base(name).action(ArgAction::SetTrue));
        }
        for name in group.optional {
            let optional = base(name)
                .value_name("VALUE")
                .num_args(0..=1)
                .require_equals(true);
            command = command.arg(optional);
        }
        for name in group.options {
            command = command.arg(base(name).value_name("VALUE").action(ArgAction::Append));
        }
    }
    command
}

/// One note for each flag of `groups` that was given on the command line.
fn notes(matches: &ArgMatches, groups: &[InertFlags]) -> Vec<String> {
    let typed = |name: &&&str| {
        matches
            .value_source(name)
            .is_some_and(|source| source == ValueSource::CommandLine)
    };
    groups
        .iter()
        .flat_map(|group| {
            let all = group
                .switches
                .iter()
                .chain(group.options)
                .chain(group.optional);
            let names = all.filter(typed);
            names.map(|name| format!("--{name} has no effect: bench-reth {}", group.reason))
        })
        .collect()
}

/// Makes a table of ignored flags usable with `#[command(flatten)]`.
macro_rules! impl_clap_for_inert {
    ($flags:ident, $groups:ident, global: $global:literal) => {
        impl clap::FromArgMatches for $flags {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(notes(matches, $groups)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.0 = notes(matches, $groups);
                Ok(())
            }
        }

        impl clap::Args for $flags {
            fn augment_args(command: Command) -> Command {
                augment(command, $groups, $global)
            }

            fn augment_args_for_update(command: Command) -> Command {
                augment(command, $groups, $global)
            }
        }
    };
}

impl_clap_for_inert!(InertNodeFlags, INERT_NODE_FLAGS, global: false);
impl_clap_for_inert!(InertLogFlags, INERT_LOG_FLAGS, global: true);
