//! Filters that are installed and then asked what is new.
//!
//! A filter remembers the head up to which it has told everything; what came since is found when it
//! is asked. Filters nobody asks are dropped after [`LIFETIME`], and there are at most
//! [`MAX_FILTERS`]. Source: execution-apis, `eth/filter.yaml`.

use super::{
    Answer, Module, Registered, follow,
    logs::{self, LogFilter},
    reading,
};
use crate::{
    primitives::BlockNumHash,
    rpc::{
        Context,
        args::Arguments,
        error::{LIMIT_EXCEEDED, SERVER_ERROR, error, from_read},
    },
};
use alloy_primitives::{B256, U64};
use alloy_rpc_types_eth::Log;
use jsonrpsee::types::{ErrorObjectOwned, Params};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a filter lives without being asked: geth's and reth's default.
const LIFETIME: Duration = Duration::from_secs(300);

/// Most filters at a time, of all callers together.
const MAX_FILTERS: usize = 1024;

/// All installed filters.
#[derive(Default)]
pub(in crate::rpc) struct Filters {
    installed: Mutex<HashMap<u64, Filter>>,
    /// Makes ids that cannot be guessed from others.
    ids: RandomState,
}

/// One installed filter.
struct Filter {
    kind: Kind,
    /// The head up to which everything has been told.
    told: BlockNumHash,
    asked: Instant,
}

/// What a filter collects.
#[derive(Clone)]
enum Kind {
    Logs(LogFilter),
    Blocks,
    /// Transactions that can be mined, and those of them that have been told. One that came and
    /// was mined between two requests is not told.
    Transactions(HashSet<B256>),
}

/// What is new.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Changes {
    Logs(Vec<Log>),
    Hashes(Vec<B256>),
}

/// The methods of the public port.
pub(super) fn register(module: &mut Module) -> Registered {
    reading(module, "eth_newFilter", new_log_filter)?;
    reading(module, "eth_newBlockFilter", |params, context| {
        Arguments::new(params).end()?;
        context.filters.install(Kind::Blocks, context)
    })?;
    reading(
        module,
        "eth_newPendingTransactionFilter",
        |params, context| {
            Arguments::new(params).end()?;
            context
                .filters
                .install(Kind::Transactions(waiting(context)), context)
        },
    )?;
    reading(module, "eth_getFilterChanges", changes)?;
    reading(module, "eth_getFilterLogs", filter_logs)?;
    reading(module, "eth_uninstallFilter", |params, context| {
        let id = id_argument(params)?;
        Ok(id.is_some_and(|id| context.filters.installed().remove(&id).is_some()))
    })
}

impl Filters {
    fn installed(&self) -> MutexGuard<'_, HashMap<u64, Filter>> {
        self.installed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops filters nobody asks, then adds one.
    fn install(&self, kind: Kind, context: &Context) -> Answer<U64> {
        let asked = Instant::now();
        let told = context.chain.head();
        let mut installed = self.installed();
        installed.retain(|_, filter| filter.asked.elapsed() < LIFETIME);
        if installed.len() >= MAX_FILTERS {
            let problem = format!("{MAX_FILTERS} filters are installed; uninstall one");
            return Err(error(LIMIT_EXCEEDED, problem));
        }
        let mut id = self.ids.hash_one(asked);
        while installed.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        installed.insert(id, Filter { kind, told, asked });
        Ok(U64::from(id))
    }

    /// The filter's kind and the head it has told; from now on it has told `head`.
    fn advance(&self, id: u64, head: BlockNumHash) -> Option<(Kind, BlockNumHash)> {
        let mut installed = self.installed();
        let filter = installed.get_mut(&id)?;
        if filter.asked.elapsed() >= LIFETIME {
            installed.remove(&id);
            return None;
        }
        filter.asked = Instant::now();
        let told = std::mem::replace(&mut filter.told, head);
        Some((filter.kind.clone(), told))
    }

    /// Changes what a filter remembers, if it is still there.
    fn set_kind(&self, id: u64, kind: Kind) {
        if let Some(filter) = self.installed().get_mut(&id) {
            filter.kind = kind;
        }
    }

    /// The filter's kind.
    fn kind(&self, id: u64) -> Option<Kind> {
        let mut installed = self.installed();
        let filter = installed.get_mut(&id)?;
        filter.asked = Instant::now();
        Some(filter.kind.clone())
    }
}

/// Hashes of the pool's transactions that can be mined.
fn waiting(context: &Context) -> HashSet<B256> {
    let senders = context.chain.pool().all(&context.chain).into_values();
    senders
        .flat_map(|content| content.pending.into_values())
        .map(|entry| entry.hash())
        .collect()
}

fn new_log_filter(params: &Params<'_>, context: &Context) -> Answer<U64> {
    let mut arguments = Arguments::new(params);
    let filter: LogFilter = arguments.next("filter")?;
    arguments.end()?;
    filter.check_range()?;
    context.filters.install(Kind::Logs(filter), context)
}

/// The id that is the only parameter. A text that is no id names no filter.
fn id_argument(params: &Params<'_>) -> Answer<Option<u64>> {
    let mut arguments = Arguments::new(params);
    let id: String = arguments.next("filter")?;
    arguments.end()?;
    let digits = id.strip_prefix("0x");
    Ok(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()))
}

fn unknown() -> ErrorObjectOwned {
    error(SERVER_ERROR, "filter not found")
}

fn changes(params: &Params<'_>, context: &Context) -> Answer<Changes> {
    let id = id_argument(params)?.ok_or_else(unknown)?;
    let head = context.chain.head();
    let (kind, told) = context.filters.advance(id, head).ok_or_else(unknown)?;
    let way = follow::way(context, told, head)?;
    match kind {
        Kind::Transactions(known) => {
            let waiting = waiting(context);
            let new = waiting.difference(&known).copied().collect();
            context.filters.set_kind(id, Kind::Transactions(waiting));
            Ok(Changes::Hashes(new))
        }
        Kind::Blocks => {
            let hashes = way.came.map(|number| context.chain.canonical_hash(number));
            let hashes = hashes
                .filter_map(Result::transpose)
                .collect::<Result<_, _>>();
            Ok(Changes::Hashes(hashes.map_err(from_read)?))
        }
        Kind::Logs(filter) => logs::on_way(context, &filter, way).map(Changes::Logs),
    }
}

/// All logs that fit, new or not.
fn filter_logs(params: &Params<'_>, context: &Context) -> Answer<Vec<Log>> {
    let id = id_argument(params)?.ok_or_else(unknown)?;
    match context.filters.kind(id) {
        Some(Kind::Logs(filter)) => logs::matching(context, &filter),
        _ => Err(unknown()),
    }
}
