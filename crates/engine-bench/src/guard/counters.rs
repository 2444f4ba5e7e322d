//! What the machine has done since it booted, for whoever draws it over time.
//!
//! Invariant: a handful of short files is read, and no process is looked at.

use super::{
    proc::{self, CpuTicks, TICKS_PER_SECOND},
    reading::text,
};
use std::fs;

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
        let stat = text("/proc/stat");
        Self::parse(&stat, &text("/proc/meminfo"), &text("/proc/diskstats"))
    }

    fn parse(stat: &str, memory: &str, disks: &str) -> Self {
        let CpuTicks {
            busy,
            interrupts,
            steal,
        } = proc::cpu_ticks(stat).unwrap_or_default();
        let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
        let (read_bytes, written_bytes) = proc::disk_bytes(disks);
        Self {
            busy_s: seconds(busy),
            interrupts_s: seconds(interrupts),
            steal_s: seconds(steal),
            context_switches: proc::context_switches(stat).unwrap_or(0),
            available_bytes: proc::bytes(memory, "MemAvailable:").unwrap_or(0),
            read_bytes,
            written_bytes,
        }
    }
}

/// Memory that new programs can have, in bytes.
pub(crate) fn memory_available_bytes() -> Option<u64> {
    proc::bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// Memory that a process has for itself, without pages of files, in bytes.
pub(crate) fn own_memory_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    proc::bytes(&status, "RssAnon:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_in_seconds_and_bytes() {
        let found = Counters::parse(
            "cpu  100 0 50 900 7 3 2 40 0 0\ncpu0 1 1 1 1 1 1 1 1\nctxt 77\n",
            "MemTotal: 9 kB\nMemAvailable:   2048 kB\n",
            "259 0 nvme0n1 1 0 4 0 1 0 6 0\n259 1 nvme0n1p1 1 0 4 0 1 0 6 0\n",
        );
        let expected = Counters {
            busy_s: 1.5,
            interrupts_s: 0.05,
            steal_s: 0.4,
            context_switches: 77,
            available_bytes: 2 << 20,
            read_bytes: 4 * 512,
            written_bytes: 6 * 512,
        };
        assert_eq!(found, expected);
        assert_eq!(Counters::parse("", "", ""), Counters::default());
    }
}
