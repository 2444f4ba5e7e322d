//! Work beside the engine thread: what it needs later, or not at all.

use super::insert::TARGET;
use crossbeam_channel::Receiver;
use std::{num::NonZeroUsize, sync::LazyLock};
use threads::Threads;
use tracing::{Span, debug_span};

/// The process's threads for such work, with the priority of the thread that starts them. They are
/// not rayon's, which yield before they sleep and so are in the way of execution, but as many, so
/// that `RAYON_NUM_THREADS` counts. `None` when the system grants none.
static THREADS: LazyLock<Option<Threads>> = LazyLock::new(|| {
    let count = NonZeroUsize::new(rayon::current_num_threads())?;
    let started = Threads::start("beside", count);
    let refused = |error: &_| tracing::warn!(target: TARGET, %error, "No threads beside execution");
    started.inspect_err(refused).ok()
});

/// Starts the threads, unless some engine of this process has.
pub(super) fn start() {
    LazyLock::force(&THREADS);
}

/// How many threads do such work: without any of their own, the caller.
pub(super) fn thread_count() -> usize {
    THREADS
        .as_ref()
        .map_or(1, |threads| threads.board().count())
}

/// Has one of the threads do this, or does it at once when there are none.
pub(super) fn spawn(work: impl FnOnce() + Send + 'static) {
    match &*THREADS {
        Some(threads) => threads.board().spawn(work),
        None => work(),
    }
}

/// Does this beside the caller, as a span of this name.
pub(super) fn beside<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let parent = Span::current();
    spawn(move || {
        let _span =
            debug_span!(target: TARGET, parent: &parent, "beside", otel.name = name).entered();
        // A block refused meanwhile has no use for the result.
        let _ = sender.send(work());
    });
    receiver
}
