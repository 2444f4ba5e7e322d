//! What the machine did during a pass: the difference of two looks, and what the sampler saw
//! between them.
//!
//! Invariant: looks are taken before the first request and after the last answer.

use super::{
    proc::{self, CpuTicks, ProcessTicks, TICKS_PER_SECOND},
    sampler::{Frequency, Sampler},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Processes beyond which only their sum is looked at: looking at each takes some 15 µs.
const MOST_PROCESSES: usize = 2000;

/// Other programs that are named.
const NAMED: usize = 3;

/// In a CPU's folder: for how long heat held it back.
const HEAT_FILE: &str = "thermal_throttle/core_throttle_total_time_ms";

/// What the machine did during a pass. Times of CPUs are summed over all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Readings {
    /// Length of the pass, in seconds.
    pub wall_s: f64,
    /// CPUs that are online.
    pub cpus: u64,
    /// CPU time of everything but interrupts, in seconds.
    pub busy_s: f64,
    /// Of the engine.
    pub engine_cpu_s: f64,
    /// Of the engines of other cells that were replayed in turn with it.
    #[serde(skip_serializing_if = "is_zero")]
    pub peers_cpu_s: f64,
    /// Of this program.
    pub harness_cpu_s: f64,
    /// Of threads of the kernel.
    pub kernel_cpu_s: f64,
    /// Of the rest: other programs.
    pub foreign_cpu_s: f64,
    /// The largest part of all CPUs that other programs had for a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_peak: Option<f64>,
    /// The busiest of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<Culprit>,
    /// CPU time of interrupts, in seconds.
    pub interrupts_s: f64,
    /// CPU time taken by the host of this virtual machine, in seconds.
    pub steal_s: f64,
    /// Time in which some task waited; absent where the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Time for which a CPU quota held this program's group back, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
    /// Time for which heat held a CPU back, in seconds: the largest of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat_throttled_s: Option<f64>,
    /// Clock of the CPUs; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// Pages that the engine had to wait for the disk for.
    pub engine_major_faults: u64,
    /// Times that the CPU was taken from a thread of the engine that still lives.
    pub engine_preemptions: u64,
    /// Context switches of the whole machine.
    pub context_switches: u64,
    /// Traffic of all disks.
    pub disk: DiskTraffic,
    /// Traffic that the engine caused; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_disk: Option<DiskTraffic>,
    /// Time the guard took, in seconds: both looks, and the sampler's CPU.
    pub guard_s: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Time in which at least one task had to wait for something, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// For a CPU.
    pub cpu_s: f64,
    /// For a disk.
    pub io_s: f64,
    /// For memory.
    pub memory_s: f64,
}

/// Bytes from and to disks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTraffic {
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub written_bytes: u64,
}

impl DiskTraffic {
    fn between((read, written): (u64, u64), (read_then, written_then): (u64, u64)) -> Self {
        Self {
            read_bytes: read.saturating_sub(read_then),
            written_bytes: written.saturating_sub(written_then),
        }
    }
}

/// Another program that used a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// Its name.
    pub name: String,
    /// CPU time of all processes of that name, in seconds.
    pub cpu_s: f64,
}

/// A pass that is being watched, or those of several engines that take turns.
#[derive(Debug)]
pub struct Watch {
    engines: Vec<u32>,
    before: Look,
    began: Instant,
    sampler: Sampler,
}

impl Watch {
    /// Begins to watch. `engines` are the pids of their processes.
    pub fn begin(engines: &[u32]) -> Self {
        let sampler = Sampler::start(engines);
        let before = Look::take(engines);
        Self {
            engines: engines.to_vec(),
            before,
            began: Instant::now(),
            sampler,
        }
    }

    /// Ends it: readings for each engine, in their order, which differ in what is the engine's own. The
    /// engines must still be running; one that ended and was waited for counts among the peers.
    pub fn end(self) -> Vec<Readings> {
        let wall = self.began.elapsed();
        let after = Look::take(&self.engines);
        let sampled = self.sampler.stop();
        let of_engine = |index: usize| {
            let mut readings = readings(&self.before, &after, wall, index);
            readings.foreign_peak = sampled.foreign_peak;
            readings.frequency = sampled.frequency;
            readings.guard_s += sampled.took.as_secs_f64();
            // Looked at once for all of them.
            readings.guard_s /= self.engines.len() as f64;
            readings
        };
        (0..self.engines.len()).map(of_engine).collect()
    }
}

/// Counters at an instant; all grow.
#[derive(Debug, Default)]
struct Look {
    cpus: u64,
    cpu: CpuTicks,
    context_switches: u64,
    pressure_us: Option<[u64; 3]>,
    throttled_us: Option<u64>,
    heat_ms: Vec<u64>,
    disk: (u64, u64),
    engines: Vec<EngineLook>,
    harness: u32,
    processes: HashMap<u32, ProcessTicks>,
    took: Duration,
}

/// What is counted for an engine.
#[derive(Debug, Default)]
struct EngineLook {
    pid: u32,
    process: Option<ProcessTicks>,
    disk: Option<(u64, u64)>,
    preemptions: u64,
}

impl EngineLook {
    fn take(pid: u32) -> Self {
        let file = |name: &str| text(format!("/proc/{pid}/{name}"));
        Self {
            pid,
            process: proc::process_ticks(&file("stat")),
            disk: proc::io_bytes(&file("io")),
            preemptions: preemptions(pid),
        }
    }

    fn ticks(&self) -> u64 {
        self.process.as_ref().map_or(0, |process| process.ticks)
    }

    fn major_faults(&self) -> u64 {
        let process = self.process.as_ref();
        process.map_or(0, |process| process.major_faults)
    }
}

impl Look {
    fn take(engines: &[u32]) -> Self {
        let began = Instant::now();
        let stat = text("/proc/stat");
        let mut look = Self {
            cpus: online_cpus(&stat),
            cpu: proc::cpu_ticks(&stat).unwrap_or_default(),
            context_switches: proc::context_switches(&stat).unwrap_or(0),
            pressure_us: pressure_us(),
            throttled_us: quota_file().and_then(|path| proc::throttled_us(&text(path))),
            heat_ms: heat_ms(),
            disk: proc::disk_bytes(&text("/proc/diskstats")),
            engines: engines.iter().copied().map(EngineLook::take).collect(),
            harness: std::process::id(),
            processes: processes(),
            took: Duration::ZERO,
        };
        look.took = began.elapsed();
        look
    }
}

/// CPU time of all engines between two looks, in ticks. That of one that ended meanwhile has become that
/// of its parent's children; while all live, children that ended were others.
fn ticks_of_engines(before: &Look, after: &Look) -> u64 {
    let one_ended = after.engines.iter().any(|engine| engine.process.is_none());
    let ended = |look: &Look| {
        let own = look.processes.get(&look.harness).filter(|_| one_ended);
        own.map_or(0, |own| own.children_ticks)
    };
    let all = |look: &Look| ended(look) + look.engines.iter().map(EngineLook::ticks).sum::<u64>();
    all(after).saturating_sub(all(before))
}

/// What happened between two looks, as the engine at `index` is concerned.
fn readings(before: &Look, after: &Look, wall: Duration, index: usize) -> Readings {
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let grown = |of: fn(&Look) -> u64| of(after).saturating_sub(of(before));
    let harness = |look: &Look| {
        let own = look.processes.get(&look.harness);
        own.map_or(0, |own| own.ticks)
    };
    let busy = grown(|look| look.cpu.busy);
    let of_engine = |of: fn(&EngineLook) -> u64| {
        of(&after.engines[index]).saturating_sub(of(&before.engines[index]))
    };
    let engine = of_engine(EngineLook::ticks);
    let engines = ticks_of_engines(before, after).max(engine);
    let own = harness(after).saturating_sub(harness(before));
    let others = others(before, after);
    let kernel = others.kernel;
    let microseconds = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e6;
    let pressure = after.pressure_us.zip(before.pressure_us);
    let throttled = after.throttled_us.zip(before.throttled_us);
    let heat = after.heat_ms.iter().zip(&before.heat_ms);
    let heat = heat.map(|(now, then)| now.saturating_sub(*then)).max();
    let engine_disk = after.engines[index].disk.zip(before.engines[index].disk);
    Readings {
        wall_s: wall.as_secs_f64(),
        cpus: after.cpus,
        busy_s: seconds(busy),
        engine_cpu_s: seconds(engine),
        peers_cpu_s: seconds(engines - engine),
        harness_cpu_s: seconds(own),
        kernel_cpu_s: seconds(kernel),
        foreign_cpu_s: seconds(busy.saturating_sub(engines + own + kernel)),
        foreign_peak: None,
        culprits: others.busiest,
        interrupts_s: seconds(grown(|look| look.cpu.interrupts)),
        steal_s: seconds(grown(|look| look.cpu.steal)),
        pressure: pressure.map(|(now, then)| Pressure {
            cpu_s: microseconds(now[0], then[0]),
            io_s: microseconds(now[1], then[1]),
            memory_s: microseconds(now[2], then[2]),
        }),
        throttled_s: throttled.map(|(now, then)| microseconds(now, then)),
        heat_throttled_s: heat.map(|ms| ms as f64 / 1e3),
        frequency: None,
        engine_major_faults: of_engine(EngineLook::major_faults),
        engine_preemptions: of_engine(|engine| engine.preemptions),
        context_switches: grown(|look| look.context_switches),
        disk: DiskTraffic::between(after.disk, before.disk),
        engine_disk: engine_disk.map(|(now, then)| DiskTraffic::between(now, then)),
        guard_s: (before.took + after.took).as_secs_f64(),
    }
}

/// CPU time of processes that are neither the engine nor this program.
struct Others {
    /// Ticks of kernel threads.
    kernel: u64,
    busiest: Vec<Culprit>,
}

fn others(before: &Look, after: &Look) -> Others {
    let mut kernel = 0;
    let mut by_name: HashMap<&str, u64> = HashMap::new();
    let is_engine = |pid| after.engines.iter().any(|engine| engine.pid == pid);
    let known = |pid| pid == after.harness || is_engine(pid);
    for (pid, now) in &after.processes {
        let then = before
            .processes
            .get(pid)
            .filter(|then| then.started == now.started);
        // One that started meanwhile has all its time from then.
        let ticks = now.ticks.saturating_sub(then.map_or(0, |then| then.ticks));
        if now.is_kernel {
            kernel += ticks;
        } else if !known(*pid) && ticks > 0 {
            *by_name.entry(&now.name).or_default() += ticks;
        }
    }
    let mut busiest: Vec<Culprit> = by_name
        .into_iter()
        .map(|(name, ticks)| Culprit {
            name: name.to_owned(),
            cpu_s: ticks as f64 / TICKS_PER_SECOND,
        })
        .collect();
    busiest.sort_by(|a, b| {
        let by_time = b.cpu_s.total_cmp(&a.cpu_s);
        by_time.then_with(|| a.name.cmp(&b.name))
    });
    busiest.truncate(NAMED);
    Others { kernel, busiest }
}

/// A file's text; empty when it cannot be read.
pub(super) fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Lines `cpu0`, `cpu1`, … of `/proc/stat`: the machine's, whatever this program may use of it.
pub(super) fn online_cpus(stat: &str) -> u64 {
    let is_cpu = |line: &&str| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    stat.lines().filter(is_cpu).count() as u64
}

fn pressure_us() -> Option<[u64; 3]> {
    let of = |what: &str| proc::pressure_us(&text(format!("/proc/pressure/{what}")));
    Some([of("cpu")?, of("io")?, of("memory")?])
}

/// The file that counts how long the CPU quota of this program's control group held it back.
fn quota_file() -> Option<PathBuf> {
    let groups = text("/proc/self/cgroup");
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let folder = match controllers {
            "" => "/sys/fs/cgroup".to_owned(),
            names if names.split(',').any(|name| name == "cpu") => {
                format!("/sys/fs/cgroup/{names}")
            }
            _ => return None,
        };
        let file = Path::new(&folder)
            .join(path.trim_start_matches('/'))
            .join("cpu.stat");
        file.exists().then_some(file)
    };
    groups.lines().find_map(of)
}

/// Milliseconds for which heat held each CPU back; empty where nobody counts.
fn heat_ms() -> Vec<u64> {
    let of = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/{HEAT_FILE}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    (0..).map_while(of).collect()
}

fn preemptions(engine: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{engine}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads
        .filter_map(|thread| proc::preemptions(&text(thread.path().join("status"))))
        .sum()
}

fn processes() -> HashMap<u32, ProcessTicks> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    if pids.len() > MOST_PROCESSES {
        let own = std::process::id();
        let ticks = proc::process_ticks(&text("/proc/self/stat"));
        return ticks.map(|ticks| (own, ticks)).into_iter().collect();
    }
    let of = |pid: u32| {
        let ticks = proc::process_ticks(&text(format!("/proc/{pid}/stat")))?;
        Some((pid, ticks))
    };
    pids.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose name says after `@` when it started.
    fn process(name: &str, ticks: u64, is_kernel: bool) -> ProcessTicks {
        let (name, started) = name.split_once('@').unwrap_or((name, "0"));
        ProcessTicks {
            name: name.into(),
            started: started.parse().unwrap(),
            ticks,
            children_ticks: 0,
            major_faults: ticks / 10,
            is_kernel,
        }
    }

    /// A machine of two CPUs where these processes have run for so many ticks; the engine is 10, this
    /// program is 20.
    fn look(busy: u64, processes: &[(u32, &str, u64, bool)]) -> Look {
        let processes: HashMap<_, _> = processes
            .iter()
            .map(|(pid, name, ticks, kernel)| (*pid, process(name, *ticks, *kernel)))
            .collect();
        Look {
            cpus: 2,
            cpu: CpuTicks {
                busy,
                interrupts: busy / 100,
                steal: busy / 50,
            },
            engines: vec![EngineLook {
                pid: 10,
                process: processes.get(&10).cloned(),
                ..EngineLook::default()
            }],
            harness: 20,
            processes,
            took: Duration::from_millis(2),
            ..Look::default()
        }
    }

    #[test]
    fn what_nobody_known_used_is_foreign() {
        let before = look(
            1000,
            &[
                (10, "engine", 100, false),
                (20, "engine-bench", 50, false),
                (30, "kworker/0:1-events", 10, true),
                (40, "cc", 500, false),
                (50, "bash", 70, false),
            ],
        );
        let after = look(
            1600,
            &[
                (10, "engine", 400, false),
                (20, "engine-bench", 60, false),
                // The kernel's workers are called after what they do, programs as they please.
                (30, "kworker/0:1-mm_percpu_wq", 15, true),
                // The pid of one that ended and was given to another.
                (40, "ld@1200", 30, false),
                (50, "sh", 75, false),
                (60, "cc@1300", 100, false),
                (61, "cc@1300", 60, false),
                (62, "idle", 0, false),
            ],
        );
        let found = readings(&before, &after, Duration::from_secs(4), 0);
        assert_eq!(
            (found.busy_s, found.engine_cpu_s, found.harness_cpu_s),
            (6.0, 3.0, 0.1)
        );
        assert_eq!(found.kernel_cpu_s, 0.05);
        // 600 - 300 - 10 - 5 ticks; processes that came and went are in it.
        assert_eq!(found.foreign_cpu_s, 2.85);
        let names: Vec<_> = found
            .culprits
            .iter()
            .map(|culprit| (culprit.name.as_str(), culprit.cpu_s))
            .collect();
        assert_eq!(names, [("cc", 1.6), ("ld", 0.3), ("sh", 0.05)]);
        assert_eq!((found.interrupts_s, found.steal_s), (0.06, 0.12));
        assert_eq!(found.engine_major_faults, 30);
        assert_eq!((found.guard_s, found.pressure), (0.004, None));
        assert_eq!(found.heat_throttled_s, None);
    }

    #[test]
    fn engines_that_take_turns_are_foreign_to_none_of_them() {
        let with = |busy, engines: &[(u32, u64)], own, ended| {
            let mut look = look(busy, &[(20, "engine-bench", own, false)]);
            look.processes.get_mut(&20).unwrap().children_ticks = ended;
            let engine = |(pid, ticks): &(u32, u64)| EngineLook {
                pid: *pid,
                process: (*ticks > 0).then(|| process("engine", *ticks, false)),
                ..EngineLook::default()
            };
            look.engines = engines.iter().map(engine).collect();
            look
        };
        let before = with(1000, &[(10, 100), (11, 100), (12, 100)], 50, 7);
        // The last one used 60 ticks more, died, and was waited for.
        let after = with(1500, &[(10, 300), (11, 250), (12, 0)], 60, 7 + 160);
        let found = [0, 1, 2].map(|index| readings(&before, &after, Duration::from_secs(4), index));
        let own = found.each_ref().map(|found| found.engine_cpu_s);
        assert_eq!(own, [2.0, 1.5, 0.0]);
        let peers = found.each_ref().map(|found| found.peers_cpu_s);
        assert_eq!(peers, [2.1, 2.6, 4.1]);
        // 500 ticks less 200, 150 and 60 of engines and 10 of this program.
        assert!(found.iter().all(|found| found.foreign_cpu_s == 0.8));
        // All live: the child that was waited for was none of them.
        let after = with(1500, &[(10, 300), (11, 250), (12, 160)], 60, 7 + 90);
        let found = readings(&before, &after, Duration::from_secs(4), 0);
        assert_eq!((found.peers_cpu_s, found.foreign_cpu_s), (2.1, 0.8));
    }

    #[test]
    fn counters_that_are_there_become_seconds() {
        let with = |factor: u64| {
            let mut look = look(factor * 100, &[]);
            look.engines[0].disk = Some((0, factor * 100));
            look
        };
        let with = |factor: u64| Look {
            pressure_us: Some([factor * 1_000_000, factor * 2_000_000, factor * 500_000]),
            throttled_us: Some(factor * 250_000),
            heat_ms: vec![0, factor * 40, factor * 30],
            disk: (factor * 4096, factor * 8192),
            ..with(factor)
        };
        let found = readings(&with(1), &with(3), Duration::from_secs(1), 0);
        let pressure = found.pressure.unwrap();
        assert_eq!(
            (pressure.cpu_s, pressure.io_s, pressure.memory_s),
            (2.0, 4.0, 1.0)
        );
        assert_eq!(found.throttled_s, Some(0.5));
        assert_eq!(found.heat_throttled_s, Some(0.08));
        assert_eq!(
            (found.disk.read_bytes, found.disk.written_bytes),
            (8192, 16384)
        );
        assert_eq!(found.engine_disk.unwrap().written_bytes, 200);
    }

    #[test]
    fn this_machine_can_be_watched() {
        let [found] = &Watch::begin(&[std::process::id()]).end()[..] else {
            panic!("one engine")
        };
        assert!(found.cpus > 0 && found.wall_s >= 0.0 && found.guard_s > 0.0);
        assert_eq!(
            online_cpus("cpu  1\ncpu0 1\ncpu11 1\nctxt 3\ncpufreq 1\n"),
            2
        );
    }
}
