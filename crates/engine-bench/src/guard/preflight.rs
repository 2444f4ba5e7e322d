//! What about this machine makes measurements worse, before anything is measured.
//!
//! Invariant: a check judges only what could be read; what is unknown costs no points and says so.

use super::proc::{self, System, TICKS_PER_SECOND};
use nix::sys::{stat::stat, statvfs::statvfs};
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
        // The folder may not exist yet: its disk is that of the nearest one above.
        let dir = dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir);
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
        vec![
            self.governor(),
            self.turbo(),
            self.smt(),
            self.huge_pages(),
            self.swap(),
            self.load(),
            self.memory(),
            self.disk_space(),
            self.disk_kind(),
            self.clock(),
            self.virtual_machine(),
        ]
    }

    fn governor(&self) -> Check {
        match self.governor.as_deref() {
            None => unknown("governor"),
            Some("performance") => fine("governor", "performance"),
            Some(other) => costs(
                ("governor", other, 15),
                "set it to performance (cpupower frequency-set -g performance)",
            ),
        }
    }

    fn turbo(&self) -> Check {
        match self.turbo {
            None => unknown("turbo"),
            Some(false) => fine("turbo", "off"),
            Some(true) => costs(
                ("turbo", "on", 5),
                "clocks follow heat and load; switch it off for the steadiest figures",
            ),
        }
    }

    fn smt(&self) -> Check {
        match self.smt {
            None => unknown("SMT"),
            Some(false) => fine("SMT", "off"),
            Some(true) => costs(
                ("SMT", "on", 5),
                "two CPUs share a core; switch it off (echo off > /sys/devices/system/cpu/smt/control)",
            ),
        }
    }

    fn huge_pages(&self) -> Check {
        let chosen = self.huge_pages.as_deref().and_then(|all| {
            let (_, rest) = all.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        });
        match chosen.as_deref() {
            None => unknown("huge pages"),
            Some("always") => costs(
                ("huge pages", "always", 3),
                "the kernel merges pages when it likes; madvise leaves that to programs",
            ),
            Some(other) => fine("huge pages", other),
        }
    }

    fn swap(&self) -> Check {
        let kib = |key: &str| proc::value(&self.meminfo, key);
        let used = kib("SwapTotal:").zip(kib("SwapFree:"));
        match used.map(|(total, free)| (total, total.saturating_sub(free))) {
            None => unknown("swap"),
            Some((0, _)) => fine("swap", "none"),
            Some((_, 0)) => fine("swap", "unused"),
            Some((_, used)) => costs(
                ("swap", &format!("{} MiB in use", used >> 10), 10),
                "free memory, or switch it off (swapoff -a)",
            ),
        }
    }

    fn load(&self) -> Check {
        let Some(load) = self.load else {
            return unknown("other programs");
        };
        let found = format!("{load:.2} of {} CPUs in use", self.cpus);
        if load <= COMFORTABLE_LOAD {
            return fine("other programs", &found);
        }
        let points = if load > 0.5 { 30 } else { 15 };
        costs(("other programs", &found, points), "stop what else runs")
    }

    fn memory(&self) -> Check {
        let Some(kib) = proc::value(&self.meminfo, "MemAvailable:") else {
            return unknown("free memory");
        };
        let found = gib(kib << 10);
        if kib << 10 >= COMFORTABLE_MEMORY {
            return fine("free memory", &found);
        }
        costs(
            ("free memory", &found, 15),
            "the database's pages may not stay in memory; free some",
        )
    }

    fn disk_space(&self) -> Check {
        let Some(free) = self.disk_free else {
            return unknown("free disk");
        };
        if free >= COMFORTABLE_DISK {
            return fine("free disk", &gib(free));
        }
        costs(
            ("free disk", &gib(free), 10),
            "copies of the state and the results have to fit; free some, or give --cache-dir",
        )
    }

    fn disk_kind(&self) -> Check {
        let system = self.file_system.as_deref().unwrap_or("unknown");
        match (system, self.rotational) {
            ("tmpfs" | "ramfs", _) => costs(
                ("disk", system, 10),
                "nothing is written to a disk, so persistence costs nothing; give --cache-dir a folder on one",
            ),
            ("overlay", _) => costs(
                ("disk", system, 5),
                "layers of a container cost writes; give --cache-dir a folder of a volume",
            ),
            // Virtual disks say that they turn whatever they are.
            (_, Some(true)) if !self.hypervisor => costs(
                ("disk", &format!("{system} on a turning disk"), 15),
                "persistence waits for seeks; give --cache-dir a folder on a solid-state disk",
            ),
            (_, Some(false)) => fine("disk", &format!("{system} on a solid-state disk")),
            (_, _) => fine("disk", &format!("{system}, kind unknown")),
        }
    }

    fn clock(&self) -> Check {
        match self.clock.as_deref() {
            None => unknown("clock source"),
            Some(fast) if FAST_CLOCKS.contains(&fast) => fine("clock source", fast),
            Some(slow) => costs(
                ("clock source", slow, 10),
                "reading it enters the kernel; boot with clocksource=tsc where that is stable",
            ),
        }
    }

    fn virtual_machine(&self) -> Check {
        if !self.hypervisor {
            return fine("virtual machine", "no");
        }
        costs(
            ("virtual machine", "yes", 5),
            "its host may take CPUs away (the guard watches steal); use a machine of your own for \
             fine differences",
        )
    }
}

fn fine(name: &str, found: &str) -> Check {
    costs((name, found, 0), "")
}

fn unknown(name: &str) -> Check {
    fine(name, "unknown")
}

fn costs((name, found, points): (&str, &str, u32), advice: &str) -> Check {
    Check {
        name: name.to_owned(),
        found: found.to_owned(),
        points,
        advice: advice.to_owned(),
    }
}

fn gib(bytes: u64) -> String {
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

fn free_bytes(dir: &Path) -> Option<u64> {
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
    // Later mounts hide earlier ones of the same place.
    let mounts = mounts.lines().filter_map(|line| {
        let point = Path::new(line.split(' ').nth(4)?);
        let kind = line.split_once(" - ")?.1.split(' ').next()?;
        dir.starts_with(point)
            .then(|| (point.components().count(), kind.to_owned()))
    });
    let (_, kind) = mounts.max_by_key(|(depth, _)| *depth)?;
    Some(kind)
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
        let faults: [(&str, &str, Spoil); 13] = [
            ("governor", "powersave", |m| {
                m.governor = Some("powersave".into())
            }),
            ("turbo", "on", |m| m.turbo = Some(true)),
            ("SMT", "on", |m| m.smt = Some(true)),
            ("huge pages", "always", |m| {
                m.huge_pages = Some("[always] madvise never".into());
            }),
            ("swap", "3 MiB in use", |m| {
                m.meminfo =
                    "MemAvailable: 20000000 kB\nSwapTotal: 5120 kB\nSwapFree: 2048 kB".into();
            }),
            ("other programs", "0.30 of 8 CPUs in use", |m| {
                m.load = Some(0.3)
            }),
            ("free memory", "1.0 GiB", |m| {
                m.meminfo = "MemAvailable: 1048576 kB".into()
            }),
            ("free disk", "2.0 GiB", |m| m.disk_free = Some(2 << 30)),
            ("disk", "tmpfs", |m| m.file_system = Some("tmpfs".into())),
            ("disk", "overlay", |m| {
                m.file_system = Some("overlay".into())
            }),
            ("disk", "ext4 on a turning disk", |m| {
                m.rotational = Some(true)
            }),
            ("clock source", "hpet", |m| m.clock = Some("hpet".into())),
            ("virtual machine", "yes", |m| m.hypervisor = true),
        ];
        let mut worst = ideal();
        for (name, found, spoil) in faults {
            let mut machine = ideal();
            spoil(&mut machine);
            spoil(&mut worst);
            let preflight = Preflight::of(&machine);
            let costly: Vec<_> = preflight.checks.iter().filter(|c| c.points > 0).collect();
            let [check] = costly.as_slice() else {
                panic!("{name}: {costly:?}")
            };
            assert_eq!((check.name.as_str(), check.found.as_str()), (name, found));
            assert!(!check.advice.is_empty(), "{name}");
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
        for (dir, expected) in [
            ("/var", "ext4"),
            ("/tmp/x", "tmpfs"),
            ("/tmp/deep/x", "xfs"),
            ("/tmpfoo", "overlay"),
        ] {
            let found = file_system_of(Path::new(dir), mounts);
            assert_eq!(found.as_deref(), Some(expected), "{dir}");
        }
        assert_eq!(file_system_of(Path::new("/var"), "cut\n"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let preflight = Preflight::read(Path::new("/no/such/folder"));
        assert!(preflight.score <= 100 && preflight.checks.len() == 11);
    }
}
