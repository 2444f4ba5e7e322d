//! CPU time of the threads that work on state roots, read from outside.
//!
//! The threads are told apart by their names, so the pipeline itself has nothing to count.

use nix::time::{ClockId, clock_gettime};
use std::{fs, time::Duration};

/// What the names of those threads begin with, as the state root's pools give them.
const NAMES: [&str; 4] = ["proof-acct-", "proof-strg-", "root-range-", "root-late-"];

/// The threads, and what they had used when they were last asked.
#[derive(Debug)]
pub(super) struct Workers {
    clocks: Vec<ClockId>,
    used: Duration,
}

impl Workers {
    /// The threads that run now.
    pub(super) fn find() -> Self {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
        let clocks = threads
            .flatten()
            .filter(|thread| {
                let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
                NAMES.iter().any(|prefix| name.starts_with(prefix))
            })
            .filter_map(|thread| thread.file_name().to_str()?.parse().ok())
            .map(cpu_clock)
            .collect();
        let mut workers = Self {
            clocks,
            used: Duration::ZERO,
        };
        workers.lap();
        workers
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.clocks.len()
    }

    /// CPU time of all of them since the last call. A system call a thread.
    pub(super) fn lap(&mut self) -> Duration {
        let used = self
            .clocks
            .iter()
            .filter_map(|clock| clock_gettime(*clock).ok())
            .map(Duration::from)
            .sum();
        let lap = Duration::saturating_sub(used, self.used);
        self.used = used;
        lap
    }
}

/// The clock that counts a thread's CPU time. Linux makes its number from the thread's: all bits of
/// the number turned, three bits to the left, then `PERTHREAD | SCHED`.
fn cpu_clock(thread: i32) -> ClockId {
    ClockId::from_raw((!thread << 3) | 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn a_thread_is_found_by_its_name_and_its_cpu_time_grows_while_it_works() {
        let (work, started) = mpsc::channel::<()>();
        let (done, finished) = mpsc::channel::<()>();
        let worker = thread::Builder::new()
            .name("root-range-77".into())
            .spawn(move || {
                done.send(()).unwrap();
                started.recv().unwrap();
                let mut x = 1u64;
                for i in 0..20_000_000 {
                    x = std::hint::black_box(x.wrapping_mul(i | 1));
                }
                done.send(()).unwrap();
                started.recv().unwrap_err();
            })
            .unwrap();
        finished.recv().unwrap();
        let mut workers = Workers::find();
        assert!(workers.count() >= 1);
        work.send(()).unwrap();
        finished.recv().unwrap();
        assert!(workers.lap() > Duration::from_micros(100));
        drop(work);
        worker.join().unwrap();
        // Its clock is gone, which is no failure.
        workers.lap();
    }
}
