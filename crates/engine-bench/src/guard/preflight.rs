//! What about this machine makes measurements worse, before anything is measured.
//!
//! Invariant: a check judges only what could be read; what is unknown costs no points and says so.

use super::proc::{self, System, TICKS_PER_SECOND};
use nix::sys::{stat::stat, statvfs::statvfs};
use procfs_core::process::MountInfo;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How long the machine is watched for what others do.
const LOOK: Duration = Duration::from_millis(200);

/// Memory that should be free, in bytes: engine, database pages and payloads of a small state.
const COMFORTABLE_MEMORY: u64 = 4 << 30;

/// Space that should be free on the disk, in bytes.
const COMFORTABLE_DISK: u64 = 10 << 30;

/// CPUs that others may use while nothing is measured.
const COMFORTABLE_LOAD: f64 = 0.1;

/// Clock sources that are read without entering the kernel.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
];

/// The check that tells whether the machine has a host.
pub(crate) const VIRTUAL_MACHINE: &str = "virtual machine";

/// The machine before a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    /// 100 less the points of every check; 0 at least.
    pub score: u32,
    /// Every check.
    pub checks: Vec<Check>,
}

/// One property of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// What was found.
    pub found: String,
    /// Points it costs; 0 is fine.
    pub points: u32,
    /// What to do about it; empty when it is fine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

impl Preflight {
    /// Looks at this machine; `dir` is where the sweep will work. Takes a fifth of a second.
    pub fn read(dir: &Path) -> Self {
        Self::of(&Machine::read(dir))
    }

    fn of(machine: &Machine) -> Self {
        let checks = machine.checks();
        let points: u32 = checks.iter().map(|check| check.points).sum();
        Self {
            score: 100_u32.saturating_sub(points),
            checks,
        }
    }

    /// The score, and a line for each check that costs points, or for all.
    pub fn lines(&self, all: bool) -> Vec<String> {
        let mut lines = vec![format!("machine: {} of 100 points", self.score)];
        let shown = self.checks.iter().filter(|check| all || check.points > 0);
        lines.extend(shown.map(|check| {
            let Check {
                name,
                found,
                points,
                advice,
            } = check;
            match points {
                0 => format!("  {name}: {found}"),
                _ => format!("  {name}: {found} (-{points}); {advice}"),
            }
        }));
        lines
    }
}

/// What the checks are made of, as the system spells it; `None` where it says nothing.
#[derive(Debug, Clone, Default)]
struct Machine {
    governor: Option<String>,
    /// Whether clocks may rise above the nominal one.
    turbo: Option<bool>,
    /// Whether CPUs share cores.
    smt: Option<bool>,
    /// `always [madvise] never`.
    huge_pages: Option<String>,
    meminfo: String,
    /// CPUs that programs use at the moment.
    load: Option<f64>,
    cpus: u64,
    disk_free: Option<u64>,
    /// Whether the disk turns; `None` for file systems that are no disk.
    rotational: Option<bool>,
    file_system: Option<String>,
    clock: Option<String>,
    hypervisor: bool,
}

impl Machine {
    fn read(dir: &Path) -> Self {
        let line = |path: &str| {
            let text = fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        };
        let cpu = "/sys/devices/system/cpu";
        let no_turbo = line(&format!("{cpu}/intel_pstate/no_turbo")).map(|off| off == "0");
        let boost = line(&format!("{cpu}/cpufreq/boost")).map(|on| on == "1");
        let system = System::this();
        let cpuinfo = system.text("proc/cpuinfo");
        let dir = nearest(dir);
        Self {
            governor: line(&format!("{cpu}/cpu0/cpufreq/scaling_governor")),
            turbo: no_turbo.or(boost),
            smt: line(&format!("{cpu}/smt/active")).map(|active| active == "1"),
            huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            meminfo: system.text("proc/meminfo"),
            load: load(&system),
            cpus: system.cpus().map_or(0, |cpus| cpus.count),
            disk_free: free_bytes(dir),
            rotational: rotational(dir),
            file_system: file_system(dir, &system),
            clock: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            hypervisor: cpuinfo
                .lines()
                .find(|line| line.starts_with("flags"))
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        }
    }

    fn checks(&self) -> Vec<Check> {
        let mut checks = self.of_cpus().to_vec();
        checks.extend(self.of_memory());
        checks.extend(self.of_disk());
        checks.push(check("clock source", self.clock.as_deref(), |clock| {
            let points = if FAST_CLOCKS.contains(&clock) { 0 } else { 10 };
            let advice =
                "reading it enters the kernel; boot with clocksource=tsc where that is stable";
            (clock.into(), points, advice)
        }));
        checks.push(check(VIRTUAL_MACHINE, Some(self.hypervisor), |is_one| {
            let advice = "its host may take CPUs away (the guard watches steal); use a machine of your own for \
                          fine differences";
            let (found, points) = if is_one { ("yes", 5) } else { ("no", 0) };
            (found.into(), points, advice)
        }));
        checks
    }

    fn of_cpus(&self) -> [Check; 3] {
        let governor = |governor: &str| {
            let points = if governor == "performance" { 0 } else { 15 };
            let advice = "set it to performance (cpupower frequency-set -g performance)";
            (governor.into(), points, advice)
        };
        let switch = |on: bool, advice| {
            let (found, points) = if on { ("on", 5) } else { ("off", 0) };
            (found.into(), points, advice)
        };
        let turbo = "clocks follow heat and load; switch it off for the steadiest figures";
        let smt =
            "two CPUs share a core; switch it off (echo off > /sys/devices/system/cpu/smt/control)";
        [
            check("governor", self.governor.as_deref(), governor),
            check("turbo", self.turbo, |on| switch(on, turbo)),
            check("SMT", self.smt, |on| switch(on, smt)),
        ]
    }

    fn of_memory(&self) -> [Check; 4] {
        let chosen = self.huge_pages.as_deref().and_then(|all| {
            let (_, rest) = all.split_once('[')?;
            Some(rest.split_once(']')?.0)
        });
        let kib = |key: &str| proc::value(&self.meminfo, key);
        let swap = kib("SwapTotal:").zip(kib("SwapFree:"));
        [
            check("huge pages", chosen, |chosen| {
                let points = if chosen == "always" { 3 } else { 0 };
                let advice =
                    "the kernel merges pages when it likes; madvise leaves that to programs";
                (chosen.into(), points, advice)
            }),
            check("swap", swap, |(total, free)| {
                let (found, points) = match (total, total.saturating_sub(free)) {
                    (0, _) => ("none".into(), 0),
                    (_, 0) => ("unused".into(), 0),
                    (_, used) => (format!("{} MiB in use", used >> 10), 10),
                };
                (found, points, "free memory, or switch it off (swapoff -a)")
            }),
            check("other programs", self.load, |load| {
                let points = match load {
                    load if load <= COMFORTABLE_LOAD => 0,
                    load if load <= 0.5 => 15,
                    _ => 30,
                };
                let found = format!("{load:.2} of {} CPUs in use", self.cpus);
                (found, points, "stop what else runs")
            }),
            check("free memory", kib("MemAvailable:"), |kib| {
                let points = if kib << 10 < COMFORTABLE_MEMORY {
                    15
                } else {
                    0
                };
                let advice = "the database's pages may not stay in memory; free some";
                (gib(kib << 10), points, advice)
            }),
        ]
    }

    fn of_disk(&self) -> [Check; 2] {
        let system = self.file_system.as_deref().unwrap_or("unknown");
        let kind = match (system, self.rotational) {
            ("tmpfs" | "ramfs", _) => (
                system.into(),
                10,
                "nothing is written to a disk, so persistence costs nothing; use --cache-dir on one",
            ),
            ("overlay", _) => (
                system.into(),
                5,
                "layers of a container cost writes; give --cache-dir a folder of a volume",
            ),
            // Virtual disks claim to rotate whatever they are.
            (_, Some(true)) if !self.hypervisor => (
                format!("{system} on a rotating disk"),
                15,
                "persistence waits for seeks; give --cache-dir a folder on a solid-state disk",
            ),
            (_, Some(false)) => (format!("{system} on a solid-state disk"), 0, ""),
            (_, _) => (format!("{system}, kind unknown"), 0, ""),
        };
        [
            check("free disk", self.disk_free, |free| {
                let points = if free < COMFORTABLE_DISK { 10 } else { 0 };
                let advice = "copies of the state and the results have to fit; free some, or give --cache-dir";
                (gib(free), points, advice)
            }),
            check("disk", Some(kind), |kind| kind),
        ]
    }
}

/// What was found of a property, judged: in words, the points it costs, and what to do if it does.
fn check<T>(
    name: &str,
    found: Option<T>,
    judge: impl FnOnce(T) -> (String, u32, &'static str),
) -> Check {
    let (found, points, advice) = found.map_or(("unknown".to_owned(), 0, ""), judge);
    let advice = if points > 0 { advice } else { "" };
    Check {
        name: name.to_owned(),
        found,
        points,
        advice: advice.to_owned(),
    }
}

pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// CPUs that other programs use, watched for a moment; this one sleeps meanwhile.
fn load(system: &System) -> Option<f64> {
    let look = || Some((Instant::now(), system.cpus()?.busy));
    let (began, before) = look()?;
    thread::sleep(LOOK);
    let (ended, after) = look()?;
    let busy_s = after.saturating_sub(before) as f64 / TICKS_PER_SECOND;
    Some(busy_s / (ended - began).as_secs_f64())
}

/// The folder, or the nearest one above it that exists: its disk is the one that the folder will be on.
pub(crate) fn nearest(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir)
}

/// Space left to this user on the disk that holds `dir`; `None` when it cannot be told.
pub(crate) fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = statvfs(dir).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

/// Whether the disk under a folder turns: of the partition's disk where it is one.
fn rotational(dir: &Path) -> Option<bool> {
    let device = stat(dir).ok()?.st_dev;
    let (major, minor) = (nix::libc::major(device), nix::libc::minor(device));
    let block = format!("/sys/dev/block/{major}:{minor}");
    let flag = ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|file| fs::read_to_string(Path::new(&block).join(file)).ok())?;
    Some(flag.trim() == "1")
}

/// The kind of file system a folder is on: of the longest mount point above it.
fn file_system(dir: &Path, system: &System) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    file_system_of(&dir, &system.text("proc/self/mountinfo"))
}

fn file_system_of(dir: &Path, mounts: &str) -> Option<String> {
    let mounts = mounts.lines().map(MountInfo::from_line);
    let above = mounts
        .flatten()
        .filter(|mount| dir.starts_with(&mount.mount_point));
    // Later mounts hide earlier ones of the same place.
    let nearest = above.max_by_key(|mount| mount.mount_point.components().count());
    Some(nearest?.fs_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ideal() -> Machine {
        Machine {
            governor: Some("performance".into()),
            turbo: Some(false),
            smt: Some(false),
            huge_pages: Some("always [madvise] never".into()),
            meminfo: "MemTotal: 99999999 kB\nMemAvailable: 20000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
                .into(),
            load: Some(0.01),
            cpus: 8,
            disk_free: Some(100 << 30),
            rotational: Some(false),
            file_system: Some("ext4".into()),
            clock: Some("tsc".into()),
            hypervisor: false,
        }
    }

    #[test]
    fn an_ideal_machine_has_all_points_and_an_unreadable_one_loses_none() {
        for machine in [ideal(), Machine::default()] {
            let preflight = Preflight::of(&machine);
            assert_eq!(preflight.score, 100, "{preflight:?}");
            assert_eq!(preflight.lines(false), ["machine: 100 of 100 points"]);
            assert_eq!(preflight.lines(true).len(), 12);
        }
    }

    #[test]
    fn each_fault_costs_its_points_and_is_advised_about() {
        type Spoil = fn(&mut Machine);
        let faults: [(&str, Spoil); 13] = [
            ("governor: powersave", |m| {
                m.governor = Some("powersave".into())
            }),
            ("turbo: on", |m| m.turbo = Some(true)),
            ("SMT: on", |m| m.smt = Some(true)),
            ("huge pages: always", |m| {
                m.huge_pages = Some("[always] never".into())
            }),
            ("swap: 3 MiB in use", |m| {
                m.meminfo =
                    "MemAvailable: 20000000 kB\nSwapTotal: 5120 kB\nSwapFree: 2048 kB".into();
            }),
            ("other programs: 0.30 of 8 CPUs in use", |m| {
                m.load = Some(0.3)
            }),
            ("free memory: 1.0 GiB", |m| {
                m.meminfo = "MemAvailable: 1048576 kB".into();
            }),
            ("free disk: 2.0 GiB", |m| m.disk_free = Some(2 << 30)),
            ("disk: tmpfs", |m| m.file_system = Some("tmpfs".into())),
            ("disk: overlay", |m| m.file_system = Some("overlay".into())),
            ("disk: ext4 on a rotating disk", |m| {
                m.rotational = Some(true)
            }),
            ("clock source: hpet", |m| m.clock = Some("hpet".into())),
            ("virtual machine: yes", |m| m.hypervisor = true),
        ];
        let mut worst = ideal();
        for (fault, spoil) in faults {
            let mut machine = ideal();
            spoil(&mut machine);
            spoil(&mut worst);
            let preflight = Preflight::of(&machine);
            let costly: Vec<_> = preflight.checks.iter().filter(|c| c.points > 0).collect();
            let [check] = costly.as_slice() else {
                panic!("{fault}: {costly:?}")
            };
            assert_eq!(format!("{}: {}", check.name, check.found), fault);
            assert!(!check.advice.is_empty(), "{fault}");
            assert_eq!(preflight.score + check.points, 100);
            assert_eq!(preflight.lines(false).len(), 2);
        }
        let virtual_disk = Preflight::of(&Machine {
            rotational: Some(true),
            hypervisor: true,
            ..ideal()
        });
        assert_eq!(virtual_disk.score, 95, "only for being virtual");
        worst.load = Some(2.0);
        assert_eq!(Preflight::of(&worst).score, 0, "no score below 0");
    }

    #[test]
    fn a_folder_is_on_the_nearest_mount() {
        let mounts = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                      2 1 0:5 / /tmp rw shared:1 - tmpfs tmpfs rw\n\
                      3 1 8:2 / /tmp/deep rw - xfs /dev/sdb rw\n\
                      4 1 0:9 / /tmpfoo rw - overlay overlay rw\n";
        let of = |dir: &&str| file_system_of(Path::new(dir), mounts).unwrap();
        let found = ["/var", "/tmp/x", "/tmp/deep/x", "/tmpfoo"]
            .each_ref()
            .map(of);
        assert_eq!(found, ["ext4", "tmpfs", "xfs", "overlay"]);
        assert_eq!(file_system_of(Path::new("/var"), "cut\n"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let preflight = Preflight::read(Path::new("/no/such/folder"));
        assert!(preflight.score <= 100 && preflight.checks.len() == 11);
    }
}
