//! Which threads have a CPU of their own with range-steal, on a machine with two to four.
//!
//! | threads | CPU |
//! |---|---|
//! | state root, in the order in which they are woken | the last, the one before it, … |
//! | executing, while a cold block is executed | the first |
//! | persistence | the first |
//! | all others | any |
//!
//! A scheduler that has a thread wait while a CPU is idle costs little where there are many, and up to
//! a quarter of a block's time on two (decision 0018).

use threads::FewCpus;
use tracing::debug;

/// Ties the calling thread to the first CPU for good.
pub(crate) fn stay_on_first(cpus: Option<&FewCpus>) {
    if let Some(Err(error)) = cpus.map(FewCpus::tie_to_first) {
        debug!(target: "engine", %error, "A thread goes on with any CPU");
    }
}

/// While this lives, the calling thread is tied to the first CPU.
#[derive(Debug)]
pub(crate) struct OnFirst<'a>(Option<&'a FewCpus>);

impl<'a> OnFirst<'a> {
    pub(crate) fn begin(cpus: Option<&'a FewCpus>) -> Self {
        stay_on_first(cpus);
        Self(cpus)
    }
}

impl Drop for OnFirst<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.map(FewCpus::untie) {
            debug!(target: "engine", %error, "A thread stays on its CPU");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPUs that the calling thread may use, where they are few.
    fn cpus() -> Option<FewCpus> {
        FewCpus::of_this_thread().unwrap()
    }

    #[test]
    fn a_thread_is_on_the_first_cpu_as_long_as_it_is_meant_to_be() {
        let before = cpus();
        let on_first = OnFirst::begin(before.as_ref());
        assert_eq!(cpus(), None, "it has one, or all of many");
        drop(on_first);
        assert_eq!(cpus(), before);
        let for_good = std::thread::spawn(move || {
            stay_on_first(before.as_ref());
            cpus()
        });
        assert_eq!(for_good.join().unwrap(), None);
    }
}
