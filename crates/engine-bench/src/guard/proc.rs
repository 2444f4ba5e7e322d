//! The files of `/proc` and `/sys`, below any root.
//!
//! Invariant: what cannot be read, or has another shape, is `None`. How many files are opened is bounded
//! whatever runs on the machine, but for one a thread of the kernel.

use crate::owner;
use procfs_core::{
    DiskStat, ExplicitSystemInfo, FromBufRead as _, FromBufReadSI as _, FromRead, KernelStats,
    ProcessCGroups, parse_pressure_record,
    process::{Io, Schedstat, Stat, StatFlags},
};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// Ticks of `/proc` in a second.
pub(super) const TICKS_PER_SECOND: f64 = owner::TICKS_PER_SECOND as f64;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// The ancestor of all threads of the kernel.
const KTHREADD: u32 = 2;

/// Programs beyond which none is looked at: looking at each takes some 10 µs.
pub(super) const MOST_PROGRAMS: usize = 500;

/// Threads beyond which those of a process are not looked at one by one.
const MOST_THREADS: u64 = 128;

/// Nanoseconds of a tick.
const TICK_NS: u64 = 1_000_000_000 / owner::TICKS_PER_SECOND;

/// More than a process's line in `/proc` can have.
const LINE_BYTES: usize = 4096;

/// In a CPU's folder: for how long heat held it back.
pub(super) const HEAT_FILE: &str = "thermal_throttle/core_throttle_total_time_ms";

/// The CPUs since boot, times in ticks and summed over all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cpus {
    /// How many are online: the machine's, whatever this program may use of it.
    pub(super) count: u64,
    /// Programs, niced ones and guests included, and the kernel on their behalf.
    pub(super) busy: u64,
    /// Interrupts.
    pub(super) interrupts: u64,
    /// Taken by the machine that this one is a guest of.
    pub(super) steal: u64,
    pub(super) context_switches: u64,
}

/// A process since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    pub(super) threads: u64,
    pub(super) is_kernel: bool,
}

impl From<Stat> for ProcessTicks {
    fn from(stat: Stat) -> Self {
        let flags = StatFlags::from_bits_truncate(stat.flags);
        Self {
            name: stat.comm,
            started: stat.starttime,
            ticks: stat.utime + stat.stime,
            children_ticks: (stat.cutime + stat.cstime).cast_unsigned(),
            major_faults: stat.majflt,
            threads: stat.num_threads.cast_unsigned(),
            is_kernel: flags.contains(StatFlags::PF_KTHREAD),
        }
    }
}

/// The files, as this program or a made-up one sees them.
#[derive(Debug, Clone)]
pub(super) struct System {
    root: PathBuf,
    /// The pid of this program.
    pub(super) own: u32,
    /// Files opened so far.
    #[cfg(test)]
    pub(super) opened: std::cell::Cell<usize>,
}

impl System {
    /// This machine's.
    pub(super) fn this() -> Self {
        Self::at(Path::new("/"), std::process::id())
    }

    /// Those below a folder, in which the pid of this program is `own`.
    pub(super) fn at(root: &Path, own: u32) -> Self {
        Self {
            root: root.to_owned(),
            own,
            #[cfg(test)]
            opened: std::cell::Cell::default(),
        }
    }

    fn open(&self, path: impl AsRef<Path>) -> Option<File> {
        #[cfg(test)]
        self.opened.set(self.opened.get() + 1);
        File::open(self.root.join(path)).ok()
    }

    /// A file's text; empty when it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> String {
        let text = self
            .open(path)
            .and_then(|file| io::read_to_string(file).ok());
        text.unwrap_or_default()
    }

    /// The number that a file holds.
    fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path).trim().parse().ok()
    }

    pub(super) fn cpus(&self) -> Option<Cpus> {
        let system = ExplicitSystemInfo {
            boot_time_secs: 0,
            ticks_per_second: owner::TICKS_PER_SECOND,
            page_size: 0,
            is_little_endian: true,
        };
        let stat = self.text("proc/stat");
        let stat = KernelStats::from_buf_read(stat.as_bytes(), &system).ok()?;
        let all = stat.total;
        Some(Cpus {
            count: stat.cpu_time.len() as u64,
            // Guest time is part of user time.
            busy: all.user + all.nice + all.system,
            interrupts: all.irq? + all.softirq?,
            steal: all.steal.unwrap_or(0),
            context_switches: stat.ctxt,
        })
    }

    /// What a file of one line tells.
    fn line<T: FromRead>(&self, path: impl AsRef<Path>) -> Option<T> {
        let mut line = [0; LINE_BYTES];
        let length = self.open(path)?.read(&mut line).ok()?;
        T::from_read(&line[..length]).ok()
    }

    pub(super) fn process(&self, pid: u32) -> Option<ProcessTicks> {
        Some(self.line::<Stat>(format!("proc/{pid}/stat"))?.into())
    }

    /// A thread of the kernel, of which nothing is told but its time: half as dear as the whole.
    fn kernel_thread(&self, pid: u32) -> Option<ProcessTicks> {
        let times: Schedstat = self.line(format!("proc/{pid}/schedstat"))?;
        Some(ProcessTicks {
            ticks: times.sum_exec_runtime / TICK_NS,
            is_kernel: true,
            ..ProcessTicks::default()
        })
    }

    /// Every process while there are few programs; else this one and the threads of the kernel, without
    /// which nothing is known of the rest.
    pub(super) fn processes(&self) -> HashMap<u32, ProcessTicks> {
        let kernel = self.kernel_threads();
        let few = MOST_PROGRAMS + kernel.as_ref().map_or(0, Vec::len);
        let mut all = self.pids();
        let mut pids: Vec<u32> = all.by_ref().take(few + 1).collect();
        if let Some(kernel) = kernel.filter(|_| pids.len() > few) {
            let of = |pid| Some((pid, self.kernel_thread(pid)?));
            let own = self.process(self.own).map(|own| (self.own, own));
            return kernel.into_iter().filter_map(of).chain(own).collect();
        }
        pids.extend(all);
        let of = |pid| Some((pid, self.process(pid)?));
        pids.into_iter().filter_map(of).collect()
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(self.root.join("proc"));
        let entries = entries.into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// The kernel's threads, none in a container, which does not see them; `None` where the kernel was built
    /// without a list of children.
    fn kernel_threads(&self) -> Option<Vec<u32>> {
        if !self.process(KTHREADD).is_some_and(|found| found.is_kernel) {
            return Some(Vec::new());
        }
        let listed = self.text(format!("proc/{KTHREADD}/task/{KTHREADD}/children"));
        let children = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
        let threads: Vec<u32> = children.chain([KTHREADD]).collect();
        (threads.len() > 1).then_some(threads)
    }

    /// Times that the scheduler took the CPU from threads of a process that still live; `None` when they
    /// are many.
    pub(super) fn preemptions(&self, pid: u32, threads: u64) -> Option<u64> {
        if threads > MOST_THREADS {
            return None;
        }
        let tasks = fs::read_dir(self.root.join(format!("proc/{pid}/task"))).ok()?;
        let status = tasks
            .flatten()
            .map(|task| self.text(task.path().join("status")));
        let of = |status: String| value(&status, "nonvoluntary_ctxt_switches:");
        Some(status.filter_map(of).sum())
    }

    /// Microseconds in which some task had to wait for a CPU, a disk, and memory.
    pub(super) fn pressure_us(&self) -> Option<[u64; 3]> {
        let of = |what: &str| {
            let text = self.text(format!("proc/pressure/{what}"));
            let some = parse_pressure_record(text.lines().next()?).ok()?;
            Some(some.total)
        };
        Some([of("cpu")?, of("io")?, of("memory")?])
    }

    /// Microseconds for which a CPU quota held the control group of this program back.
    pub(super) fn throttled_us(&self) -> Option<u64> {
        let groups = self.text(format!("proc/{}/cgroup", self.own));
        let groups = ProcessCGroups::from_buf_read(groups.as_bytes()).ok()?;
        groups.into_iter().find_map(|group| {
            let names = group.controllers;
            // None in version 2, which has one folder for all of them.
            if !names.is_empty() && !names.iter().any(|name| name == "cpu") {
                return None;
            }
            let folder = Path::new("sys/fs/cgroup").join(names.join(","));
            let path = group.pathname.trim_start_matches('/');
            throttled_us(&self.text(folder.join(path).join("cpu.stat")))
        })
    }

    /// Milliseconds for which heat held each of the CPUs back; empty where nobody counts.
    pub(super) fn heat_ms(&self, cpus: u64) -> Vec<u64> {
        let of = |cpu| self.number(format!("sys/devices/system/cpu/cpu{cpu}/{HEAT_FILE}"));
        (0..cpus).map_while(of).collect()
    }

    /// The clock of a CPU, in MHz.
    pub(super) fn clock_mhz(&self, cpu: usize) -> Option<f64> {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        self.number(path).map(|khz| khz as f64 / 1e3)
    }

    /// Bytes read from and written to all disks since boot.
    pub(super) fn disk_bytes(&self) -> (u64, u64) {
        let disks = self.text("proc/diskstats");
        let disks: Vec<DiskStat> = disks.lines().flat_map(DiskStat::from_line).collect();
        let whole = disks.iter().filter(|disk| {
            let mut all = disks.iter();
            !is_virtual(&disk.name) && !all.any(|other| is_part(&disk.name, &other.name))
        });
        whole.fold((0, 0), |(read, written), disk| {
            let bytes = |sectors| SECTOR_BYTES * sectors;
            (
                read + bytes(disk.sectors_read),
                written + bytes(disk.sectors_written),
            )
        })
    }

    /// Bytes that a process had read from and written to disks.
    pub(super) fn io_bytes(&self, pid: u32) -> Option<(u64, u64)> {
        let io = Io::from_buf_read(self.text(format!("proc/{pid}/io")).as_bytes()).ok()?;
        Some((io.read_bytes, io.write_bytes))
    }
}

/// Of a control group's `cpu.stat`, version 2 or 1.
fn throttled_us(cpu_stat: &str) -> Option<u64> {
    value(cpu_stat, "throttled_usec")
        .or_else(|| value(cpu_stat, "throttled_time").map(|nanoseconds| nanoseconds / 1000))
}

/// Memory, or made of other disks.
fn is_virtual(name: &str) -> bool {
    let mut kinds = ["loop", "ram", "zram", "dm-", "md"].iter();
    kinds.any(|kind| name.starts_with(kind))
}

fn is_part(name: &str, disk: &str) -> bool {
    let rest = name.strip_prefix(disk).unwrap_or_default();
    let number = rest.strip_prefix('p').unwrap_or(rest);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
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
pub(super) mod tests {
    use super::*;

    /// A made-up machine of these files, this program being process 20 of it.
    pub(crate) fn made_up<P: AsRef<Path>>(files: &[(P, &str)]) -> (tempfile::TempDir, System) {
        // In memory, where that can be had: there may be many files.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::at(dir.path(), 20);
        (dir, system)
    }

    /// The line of a process: all but its name and these are made up.
    pub(crate) fn stat_line(pid: u32, name: &str, flags: u64, ticks: u64, started: u64) -> String {
        let zeros = "0 ".repeat(30);
        format!(
            "{pid} ({name}) S 1 7 7 0 -1 {flags} 11 12 13 14 0 {ticks} 17 18 20 0 1 0 {started} {zeros}\n"
        )
    }

    #[test]
    fn cpus_are_busy_idle_or_stolen() {
        let of = |lines: &str| {
            let stat = format!("{lines}intr 9 9 9\nctxt 1234\nbtime 1\nprocesses 7\n");
            let (_dir, system) = made_up(&[("proc/stat", &stat)]);
            system.cpus()
        };
        let each = "cpu0 1 2 3 4 5 6 7 8 9 0\ncpu11 1 2 3 4 5 6 7 8 9 0\n";
        let expected = Cpus {
            count: 2,
            busy: 150,
            interrupts: 13,
            steal: 8,
            context_switches: 1234,
        };
        let found = of(&format!("cpu  100 20 30 4000 50 6 7 8 90 0\n{each}"));
        assert_eq!(found, Some(expected));
        assert_eq!(of("cpu  1 2 3 4 5 6 7\n").unwrap().steal, 0);
        assert_eq!(of("cpu  1 2 x 4 5 6 7 8\n"), None);
        assert_eq!(of(each), None);
    }

    #[test]
    fn names_of_processes_may_hold_anything() {
        let of = |line: &str| {
            let (_dir, system) = made_up(&[("proc/7/stat", line)]);
            system.process(7)
        };
        let plain = of(&stat_line(7, "engine", 0x400, 31, 100)).unwrap();
        assert_eq!((plain.name.as_str(), plain.ticks), ("engine", 31));
        assert_eq!((plain.started, plain.children_ticks), (100, 17 + 18));
        assert_eq!((plain.major_faults, plain.threads), (13, 1));
        assert!(!plain.is_kernel);
        let odd = of(&stat_line(7, "a) R 9 (b", 0x0020_8040, 31, 100)).unwrap();
        assert_eq!((odd.name.as_str(), odd.ticks), ("a) R 9 (b", 31));
        assert!(odd.is_kernel);
        assert_eq!(of("7 (cut) S 1 7"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn pressure_and_quotas_are_totals() {
        let some = "some avg10=1.53 avg60=0.87 avg300=0.72 total=158761459\n";
        let stall = ["cpu", "io", "memory"].map(|what| format!("proc/pressure/{what}"));
        let stall = stall.each_ref().map(|path| (path.as_str(), some));
        let (_dir, without_memory) = made_up(&stall[..2]);
        assert_eq!(without_memory.pressure_us(), None);
        let (_dir, system) = made_up(&stall);
        assert_eq!(system.pressure_us(), Some([158_761_459; 3]));
        let second = "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n";
        let first = "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000\n";
        for (groups, file, stat, expected) in [
            ("0::/a/b\n", "a/b/cpu.stat", second, Some(1500)),
            (
                "4:cpuset:/\n3:cpu,cpuacct:/a\n0::/\n",
                "cpu,cpuacct/a/cpu.stat",
                first,
                Some(1500),
            ),
            ("0::/\n", "cpu.stat", "usage_usec 5\n", None),
            ("0::/\n", "a/cpu.stat", second, None),
        ] {
            let file = format!("sys/fs/cgroup/{file}");
            let (_dir, system) = made_up(&[("proc/20/cgroup", groups), (&file, stat)]);
            assert_eq!(system.throttled_us(), expected, "{groups}");
        }
    }

    #[test]
    fn threads_are_asked_one_by_one_while_they_are_few() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n";
        let tasks = ["proc/7/task/7/status", "proc/7/task/8/status"].map(|path| (path, status));
        let (_dir, system) = made_up(&tasks);
        assert_eq!(system.preemptions(7, 2), Some(8));
        assert_eq!(system.preemptions(7, MOST_THREADS + 1), None);
        assert_eq!(system.preemptions(8, 1), None);
    }

    #[test]
    fn a_sector_is_counted_once() {
        let disks = [
            ("sda", 10, 20),
            ("sda1", 10, 20),
            ("nvme0n1", 100, 200),
            ("nvme0n1p2", 100, 200),
            ("dm-0", 10, 20),
            ("loop3", 10, 20),
            ("vdaa", 1, 2),
        ];
        let row =
            |(name, read, written)| format!("   8 0 {name} 1 2 {read} 4 5 6 {written} 8 9 10 11\n");
        let text = disks.map(row).concat() + "\ncut\n";
        let (_dir, system) = made_up(&[("proc/diskstats", &text)]);
        assert_eq!(system.disk_bytes(), (111 * 512, 222 * 512));
    }
}
