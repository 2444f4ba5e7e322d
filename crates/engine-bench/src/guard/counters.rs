//! What the machine has done since it booted, for whoever draws it over time.
//!
//! Invariant: a handful of short files is read, and no process is looked at.

use super::proc::{self, System, TICKS_PER_SECOND};

/// Counters of the machine; all but the memory only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    /// CPU time of programs and of the kernel, in seconds, as the next two over all CPUs.
    pub(crate) busy_s: f64,
    /// CPU time of interrupts.
    pub(crate) interrupts_s: f64,
    /// CPU time that the host of this virtual machine took.
    pub(crate) steal_s: f64,
    /// Context switches.
    pub(crate) context_switches: u64,
    /// Memory that programs can have without swapping, in bytes.
    pub(crate) available_bytes: u64,
    /// Bytes read from all disks.
    pub(crate) read_bytes: u64,
    /// Bytes written to all disks.
    pub(crate) written_bytes: u64,
}

impl Counters {
    /// Reads them; what cannot be read is zero.
    pub(crate) fn read() -> Self {
        Self::of(&System::this())
    }

    fn of(system: &System) -> Self {
        let cpus = system.cpus().unwrap_or_default();
        let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
        let (read_bytes, written_bytes) = system.disk_bytes();
        Self {
            busy_s: seconds(cpus.busy),
            interrupts_s: seconds(cpus.interrupts),
            steal_s: seconds(cpus.steal),
            context_switches: cpus.context_switches,
            available_bytes: available_bytes(system).unwrap_or(0),
            read_bytes,
            written_bytes,
        }
    }
}

fn available_bytes(system: &System) -> Option<u64> {
    proc::bytes(&system.text("proc/meminfo"), "MemAvailable:")
}

/// Memory that new programs can have, in bytes.
pub(crate) fn memory_available_bytes() -> Option<u64> {
    available_bytes(&System::this())
}

/// Memory that a process has for itself, without pages of files, in bytes.
pub(crate) fn own_memory_bytes(pid: u32) -> Option<u64> {
    let status = System::this().text(format!("proc/{pid}/status"));
    proc::bytes(&status, "RssAnon:")
}

#[cfg(test)]
mod tests {
    use super::{super::proc::tests::made_up, *};

    #[test]
    fn counters_are_read_in_seconds_and_bytes() {
        let cpus = "cpu  100 0 50 900 7 3 2 40 0 0\ncpu0 1 1 1 1 1 1 1 1\n";
        let (_dir, system) = made_up(&[
            (
                "proc/stat",
                &format!("{cpus}ctxt 77\nbtime 1\nprocesses 1\n"),
            ),
            ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"),
            (
                "proc/diskstats",
                "259 0 nvme0n1 1 0 4 0 1 0 6 0 0 0 0\n259 1 nvme0n1p1 1 0 4 0 1 0 6 0 0 0 0\n",
            ),
        ]);
        let expected = Counters {
            busy_s: 1.5,
            interrupts_s: 0.05,
            steal_s: 0.4,
            context_switches: 77,
            available_bytes: 2 << 20,
            read_bytes: 4 * 512,
            written_bytes: 6 * 512,
        };
        assert_eq!(Counters::of(&system), expected);
        assert_eq!(Counters::of(&made_up::<&str>(&[]).1), Counters::default());
    }
}
