//! What the machine has done since it booted, for whoever draws it over time.
//!
//! Invariant: a handful of short files is read, and no process is looked at.

use super::proc::{self, System, TICKS_PER_SECOND};
use engine_api::metric::{self, Metric};

/// Counters of the machine since it booted, and its memory, as their metrics say; what cannot be read is zero.
pub(crate) fn counters() -> [(Metric, f64); 7] {
    of(&System::this())
}

fn of(system: &System) -> [(Metric, f64); 7] {
    let cpus = system.cpus().unwrap_or_default();
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let (read_bytes, written_bytes) = system.disk_bytes();
    let available_bytes = available_bytes(system).unwrap_or(0);
    [
        (metric::CPU_BUSY, seconds(cpus.busy)),
        (metric::CPU_INTERRUPTS, seconds(cpus.interrupts)),
        (metric::CPU_STEAL, seconds(cpus.steal)),
        (metric::CONTEXT_SWITCHES, cpus.context_switches as f64),
        (metric::MEMORY_AVAILABLE, available_bytes as f64),
        (metric::DISK_READ, read_bytes as f64),
        (metric::DISK_WRITTEN, written_bytes as f64),
    ]
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
        let stat = format!("{cpus}ctxt 77\nbtime 1\nprocesses 1\n");
        let disks = "259 0 nvme0n1 1 0 4 0 1 0 6 0 0 0 0\n259 1 nvme0n1p1 1 0 4 0 1 0 6 0 0 0 0\n";
        let (_dir, system) = made_up(&[
            ("proc/stat", stat.as_str()),
            ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB\n"),
            ("proc/diskstats", disks),
        ]);
        let expected = [
            1.5,
            0.05,
            0.4,
            77.0,
            f64::from(2 << 20),
            4.0 * 512.0,
            6.0 * 512.0,
        ];
        assert_eq!(of(&system).map(|(_, value)| value), expected);
        let unreadable = of(&made_up::<&str>(&[]).1);
        assert_eq!(unreadable.map(|(_, value)| value), [0.0; 7]);
    }
}
