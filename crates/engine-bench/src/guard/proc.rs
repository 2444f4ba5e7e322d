//! What the files of `/proc` and `/sys` say, from their text.
//!
//! Invariant: pure functions; a text of another shape gives `None`.

/// Ticks of `/proc` in a second (`USER_HZ`, 100 wherever this program is built).
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Bit of a process's flags that says it is a thread of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Time of all CPUs since boot, in ticks: the first line of `/proc/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuTicks {
    /// Programs, niced ones and guests included, and the kernel on their behalf.
    pub(super) busy: u64,
    /// Interrupts.
    pub(super) interrupts: u64,
    /// Taken by the machine that this one is a guest of.
    pub(super) steal: u64,
}

pub(super) fn cpu_ticks(stat: &str) -> Option<CpuTicks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let of = |index: usize| ticks.get(index).copied();
    Some(CpuTicks {
        busy: of(0)? + of(1)? + of(2)?,
        interrupts: of(5)? + of(6)?,
        steal: of(7).unwrap_or(0),
    })
}

/// Context switches since boot, from `/proc/stat`.
pub(super) fn context_switches(stat: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("ctxt "))?
        .trim()
        .parse()
        .ok()
}

/// A process since it started: `/proc/<pid>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessTicks {
    pub(super) name: String,
    /// When it started, in ticks since boot: with the pid, what makes it this process. Names change, those
    /// of the kernel's workers with every piece of work.
    pub(super) started: u64,
    /// All its threads, its own code and the kernel's.
    pub(super) ticks: u64,
    /// Of children that have ended and were waited for.
    pub(super) children_ticks: u64,
    /// Pages that had to come from the disk.
    pub(super) major_faults: u64,
    pub(super) is_kernel: bool,
}

pub(super) fn process_ticks(stat: &str) -> Option<ProcessTicks> {
    // A name may hold spaces and parentheses: the fields begin behind the last one.
    let (head, fields) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // `man proc_pid_stat` counts from 1, and the state behind the name is field 3.
    let of = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessTicks {
        name,
        started: of(22)?,
        ticks: of(14)? + of(15)?,
        children_ticks: of(16)? + of(17)?,
        major_faults: of(12)?,
        is_kernel: of(9)? & KERNEL_THREAD != 0,
    })
}

/// Times that the scheduler took the CPU from a thread: `/proc/<pid>/task/<tid>/status`.
pub(super) fn preemptions(status: &str) -> Option<u64> {
    value(status, "nonvoluntary_ctxt_switches:")
}

/// Microseconds in which some task had to wait: a file of `/proc/pressure`.
pub(super) fn pressure_us(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Microseconds for which a group's CPU quota held it back: cgroup's `cpu.stat`, version 2 or 1.
pub(super) fn throttled_us(cpu_stat: &str) -> Option<u64> {
    value(cpu_stat, "throttled_usec")
        .or_else(|| value(cpu_stat, "throttled_time").map(|nanoseconds| nanoseconds / 1000))
}

/// Bytes read from and written to disks since boot: `/proc/diskstats`.
pub(super) fn disk_bytes(diskstats: &str) -> (u64, u64) {
    let rows: Vec<Vec<&str>> = diskstats
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.get(2).copied()).collect();
    let sectors = |row: &Vec<&str>, index: usize| {
        row.get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    rows.iter()
        .filter(|row| row.get(2).is_some_and(|name| is_whole_disk(name, &names)))
        .fold((0, 0), |(read, written), row| {
            (
                read + SECTOR_BYTES * sectors(row, 5),
                written + SECTOR_BYTES * sectors(row, 9),
            )
        })
}

/// Neither memory nor made of other disks nor a part of one: nothing is counted twice.
fn is_whole_disk(name: &str, all: &[&str]) -> bool {
    let virtual_disk = ["loop", "ram", "zram", "dm-", "md"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let part_of = |disk: &&str| {
        let rest = name.strip_prefix(*disk);
        let number = rest.map(|rest| rest.strip_prefix('p').unwrap_or(rest));
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    !virtual_disk && !all.iter().any(part_of)
}

/// Bytes a process had read from and written to disks: `/proc/<pid>/io`.
pub(super) fn io_bytes(io: &str) -> Option<(u64, u64)> {
    Some((value(io, "read_bytes:")?, value(io, "write_bytes:")?))
}

/// The number behind a key at the beginning of a line.
pub(super) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// The amount of memory behind a key, in bytes: files of `/proc` count it in KiB.
pub(super) fn bytes(text: &str, key: &str) -> Option<u64> {
    value(text, key).map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_busy_idle_or_stolen() {
        let stat = "cpu  100 20 30 4000 50 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nctxt 1234\n";
        let expected = CpuTicks {
            busy: 150,
            interrupts: 13,
            steal: 8,
        };
        assert_eq!(cpu_ticks(stat), Some(expected));
        assert_eq!(context_switches(stat), Some(1234));
        assert_eq!(cpu_ticks("cpu  1 2 x 4 5 6 7 8"), None);
        assert_eq!(cpu_ticks("cpu0 1 2 3 4 5 6 7 8"), None);
        let without_steal = cpu_ticks("cpu  1 2 3 4 5 6 7").unwrap();
        assert_eq!(without_steal.steal, 0);
    }

    #[test]
    fn names_of_processes_may_hold_anything() {
        let stat = |name: &str, flags: u64| {
            format!("7 ({name}) S 1 7 7 0 -1 {flags} 11 12 13 14 15 16 17 18 20 0 1 0 100")
        };
        let plain = process_ticks(&stat("engine", 0x400)).unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.ticks, plain.major_faults),
            ("engine", 15 + 16, 13)
        );
        assert_eq!((plain.started, plain.children_ticks), (100, 17 + 18));
        assert!(!plain.is_kernel);
        let odd = process_ticks(&stat("a) R 9 (b", 0x0020_8040)).unwrap();
        assert_eq!((odd.name.as_str(), odd.ticks), ("a) R 9 (b", 31));
        assert!(odd.is_kernel);
        assert_eq!(process_ticks("7 (cut) S 1 7"), None);
        assert_eq!(process_ticks(""), None);
    }

    #[test]
    fn pressure_and_quotas_are_totals() {
        let cpu = "some avg10=1.53 avg60=0.87 avg300=0.72 total=158761459\nfull avg10=0.00 total=9";
        assert_eq!(pressure_us(cpu), Some(158_761_459));
        assert_eq!(pressure_us("full avg10=0.00 total=9"), None);
        let second = "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n";
        let first = "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000\n";
        assert_eq!(throttled_us(second), Some(1500));
        assert_eq!(throttled_us(first), Some(1500));
        assert_eq!(throttled_us("usage_usec 5\n"), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(preemptions(status), Some(4));
    }

    #[test]
    fn a_sector_is_counted_once() {
        let row = |name: &str, read: u64, written: u64| {
            format!("   8 0 {name} 1 2 {read} 4 5 6 {written} 8 9 10 11\n")
        };
        let text = row("sda", 10, 20)
            + &row("sda1", 10, 20)
            + &row("nvme0n1", 100, 200)
            + &row("nvme0n1p2", 100, 200)
            + &row("dm-0", 10, 20)
            + &row("loop3", 10, 20)
            + &row("vdaa", 1, 2)
            + "\ncut\n";
        assert_eq!(disk_bytes(&text), (111 * 512, 222 * 512));
        let io = "rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n";
        assert_eq!(io_bytes(io), Some((4096, 8192)));
        assert_eq!(io_bytes("rchar: 5\n"), None);
    }
}
