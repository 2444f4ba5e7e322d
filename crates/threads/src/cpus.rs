//! CPUs of their own for threads, where CPUs are few.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// With so many a scheduler finds an idle one for whoever wakes.
const MANY: usize = 5;

/// The two to four CPUs on which the threads of a process may run.
///
/// A scheduler may have threads share a CPU while another is idle. Threads that are tied to different
/// CPUs never wait for each other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FewCpus(Vec<usize>);

impl FewCpus {
    /// Those that the calling thread may use, unless there is one or are many.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn of_this_thread() -> io::Result<Option<Self>> {
        let allowed = sched_getaffinity(None)?;
        let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
            .filter(|cpu| allowed.is_set(*cpu))
            .collect();
        Ok((2..MANY).contains(&cpus.len()).then_some(Self(cpus)))
    }

    /// Ties the calling thread to the first CPU.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub fn tie_to_first(&self) -> io::Result<()> {
        tie(&self.0[..1])
    }

    /// Ties the calling thread to a CPU, counted from the last; one whose number is beyond the first is
    /// not tied.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub fn tie_from_last(&self, number: usize) -> io::Result<()> {
        match self.0.iter().rev().nth(number) {
            Some(cpu) => tie(&[*cpu]),
            None => Ok(()),
        }
    }

    /// Lets the calling thread use all of them again.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub fn untie(&self) -> io::Result<()> {
        tie(&self.0)
    }
}

fn tie(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn allowed() -> Option<FewCpus> {
        FewCpus::of_this_thread().unwrap()
    }

    /// The CPUs that are left to a thread once it is tied.
    fn after(tie: impl FnOnce() + Send) -> Vec<usize> {
        let own = || {
            tie();
            let set = sched_getaffinity(None).unwrap();
            let cpus = 0..CpuSet::MAX_CPU;
            cpus.filter(|cpu| set.is_set(*cpu)).collect()
        };
        thread::scope(|scope| scope.spawn(own).join().unwrap())
    }

    #[test]
    fn threads_are_tied_to_the_cpu_that_is_meant_and_let_loose_again() {
        // Of a machine with many CPUs the first two will do.
        let all = after(|| ());
        let Some(two) = all.get(..2).map(<[usize]>::to_vec) else {
            return;
        };
        let cpus = &FewCpus(two.clone());
        assert_eq!(after(|| cpus.tie_to_first().unwrap()), two[..1]);
        assert_eq!(after(|| cpus.tie_from_last(0).unwrap()), two[1..]);
        assert_eq!(after(|| cpus.tie_from_last(1).unwrap()), two[..1]);
        assert_eq!(after(|| cpus.tie_from_last(2).unwrap()), all);
        let there_and_back = || {
            cpus.tie_to_first().unwrap();
            assert_eq!(allowed(), None, "one is not few");
            cpus.untie().unwrap();
            assert_eq!(allowed().as_ref(), Some(cpus));
        };
        assert_eq!(after(there_and_back), two);
    }
}
