//! Which threads get a CPU first, where fewer CPUs than threads have work to do.
//!
//! | threads | nice value, above the process's |
//! |---|---|
//! | state root, RPC | 0 |
//! | executing, and those beside it | 3 with `range-steal`, else 0 (`--bench.execution-nice`) |
//! | persistence, exporting spans | 19 |
//!
//! What a block's root reads while the block is executed need not be read when execution waits for
//! it. With equal priorities the threads of the root are as late as their share of the CPUs is small.

use rustix::{
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};
use tracing::debug;

/// The highest nice value, of threads that run when nothing else does.
const LOWEST: u8 = 19;

/// Raises the nice value of the calling thread, and of those that it starts from now on.
pub(crate) fn yield_by(steps: u8) {
    let thread = Some(gettid());
    let nice = getpriority_process(thread).map(|nice| (nice + i32::from(steps)).min(LOWEST.into()));
    if let Err(error) = nice.and_then(|nice| setpriority_process(thread, nice)) {
        debug!(target: "engine", steps, %error, "A thread goes on with its priority");
    }
}

/// Lets the calling thread run when the threads that execute blocks leave a CPU free.
pub(crate) fn yield_to_blocks() {
    yield_by(LOWEST);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        getpriority_process(Some(gettid())).unwrap()
    }

    /// The nice values of a thread that yields, and of one that it starts then.
    fn after(steps: u8) -> [i32; 2] {
        let thread = std::thread::spawn(move || {
            yield_by(steps);
            [nice(), std::thread::spawn(nice).join().unwrap()]
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_thread_yields_with_those_that_it_starts_and_no_others() {
        let own = nice();
        assert_eq!(after(0), [own; 2]);
        assert_eq!(after(3), [(own + 3).min(19); 2]);
        assert_eq!(after(LOWEST), [19; 2]);
        assert_eq!(nice(), own);
    }
}
