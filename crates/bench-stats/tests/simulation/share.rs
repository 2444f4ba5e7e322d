//! How far the share of a few thousand simulated sweeps may be from the true one.

use statrs::distribution::{Beta, ContinuousCDF as _};

/// So many of so many sweeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) count: u64,
    pub(crate) of: u64,
}

impl Share {
    /// Of those sweeps, by number, for which `holds` says so; on all processors.
    pub(crate) fn of(sweeps: u64, holds: impl Fn(u64) -> bool + Sync) -> Self {
        let threads =
            std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
        let count = |thread: u64| {
            let own = (0..sweeps).filter(|sweep| sweep % threads == thread);
            own.filter(|sweep| holds(*sweep)).count() as u64
        };
        let count = &count;
        let count = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || count(thread)))
                .collect();
            let counts = started.into_iter().map(|thread| thread.join());
            counts
                .map(|count| count.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .sum()
        });
        Self { count, of: sweeps }
    }

    pub(crate) fn percent(self) -> f64 {
        100.0 * self.count as f64 / self.of as f64
    }

    /// The ends of the 95 % interval of the true share, in percent (Clopper and Pearson, 1934).
    pub(crate) fn limits(self) -> (f64, f64) {
        let (count, left) = (self.count as f64, (self.of - self.count) as f64);
        let end = |a: f64, b: f64, probability| {
            Beta::new(a, b).map_or(f64::NAN, |beta| 100.0 * beta.inverse_cdf(probability))
        };
        let low = match self.count {
            0 => 0.0,
            _ => end(count, left + 1.0, 0.025),
        };
        let high = match self.count == self.of {
            true => 100.0,
            false => end(count + 1.0, left, 0.975),
        };
        (low, high)
    }
}
