//! Threads that run when those that execute blocks leave a CPU free: of persistence, and of exporting
//! spans.

use rustix::{
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};
use tracing::debug;

/// The highest nice value, which is the lowest priority.
const LOWEST: i32 = 19;

/// Gives the calling thread, and those that it starts from now on, the lowest priority.
pub(crate) fn yield_to_blocks() {
    let thread = Some(gettid());
    let nice = getpriority_process(thread).map(|nice| (nice + LOWEST).min(LOWEST));
    if let Err(error) = nice.and_then(|nice| setpriority_process(thread, nice)) {
        debug!(target: "engine", %error, "A thread goes on with its priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        getpriority_process(Some(gettid())).unwrap()
    }

    #[test]
    fn a_thread_yields_with_those_that_it_starts_and_no_others() {
        let own = nice();
        let thread = std::thread::spawn(|| {
            yield_to_blocks();
            [nice(), std::thread::spawn(nice).join().unwrap()]
        });
        assert_eq!(thread.join().unwrap(), [(own + LOWEST).min(LOWEST); 2]);
        assert_eq!(nice(), own);
    }
}
