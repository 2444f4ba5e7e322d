//! What the machine did during a pass: the difference of two looks, and what the sampler saw
//! between them.
//!
//! Invariant: looks are taken before the first request and after the last answer.

use super::{
    proc::{Cpus, ProcessTicks, System, TICKS_PER_SECOND},
    sampler::{Frequency, Sampler},
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::HashMap,
    time::{Duration, Instant},
};

/// Other programs that are named.
const NAMED: usize = 3;

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
    /// The busiest of them; none where there are too many to look at each.
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
    /// Times that the CPU was taken from a thread of the engine that still lives; absent for an engine of
    /// more than 128 threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_preemptions: Option<u64>,
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
    system: System,
    engines: Vec<u32>,
    before: Look,
    began: Instant,
    sampler: Sampler,
}

impl Watch {
    /// Begins to watch. `engines` are the pids of their processes.
    pub fn begin(engines: &[u32]) -> Self {
        let system = System::this();
        let sampler = Sampler::start(system.clone(), engines);
        let before = Look::take(&system, engines);
        Self {
            system,
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
        let after = Look::take(&self.system, &self.engines);
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
    cpus: Cpus,
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
    preemptions: Option<u64>,
}

impl EngineLook {
    fn take(system: &System, pid: u32) -> Self {
        let process = system.process(pid);
        let threads = process.as_ref().map(|process| process.threads);
        Self {
            pid,
            process,
            disk: system.io_bytes(pid),
            preemptions: threads.and_then(|threads| system.preemptions(pid, threads)),
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
    fn take(system: &System, engines: &[u32]) -> Self {
        let began = Instant::now();
        let cpus = system.cpus().unwrap_or_default();
        let engines = engines.iter().map(|pid| EngineLook::take(system, *pid));
        let mut look = Self {
            cpus,
            pressure_us: system.pressure_us(),
            throttled_us: system.throttled_us(),
            heat_ms: system.heat_ms(cpus.count),
            disk: system.disk_bytes(),
            engines: engines.collect(),
            harness: system.own,
            processes: system.processes(),
            took: Duration::ZERO,
        };
        look.took = began.elapsed();
        look
    }

    /// What is counted of this program.
    fn own(&self, of: fn(&ProcessTicks) -> u64) -> u64 {
        self.processes.get(&self.harness).map_or(0, of)
    }
}

/// CPU time of all engines between two looks, in ticks. That of one that ended meanwhile has become that
/// of its parent's children; while all live, children that ended were others.
fn ticks_of_engines(before: &Look, after: &Look) -> u64 {
    let one_ended = after.engines.iter().any(|engine| engine.process.is_none());
    let ended = |look: &Look| {
        if one_ended {
            look.own(|own| own.children_ticks)
        } else {
            0
        }
    };
    let all = |look: &Look| ended(look) + look.engines.iter().map(EngineLook::ticks).sum::<u64>();
    all(after).saturating_sub(all(before))
}

/// What happened between two looks, as the engine at `index` is concerned.
fn readings(before: &Look, after: &Look, wall: Duration, index: usize) -> Readings {
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let grown = |of: fn(&Look) -> u64| of(after).saturating_sub(of(before));
    let busy = grown(|look| look.cpus.busy);
    let of_engine = |of: fn(&EngineLook) -> u64| {
        of(&after.engines[index]).saturating_sub(of(&before.engines[index]))
    };
    let engine = of_engine(EngineLook::ticks);
    let engines = ticks_of_engines(before, after).max(engine);
    let own = grown(|look| look.own(|own| own.ticks));
    let (kernel, culprits) = others(before, after);
    let microseconds = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e6;
    let pressure = after.pressure_us.zip(before.pressure_us);
    let throttled = after.throttled_us.zip(before.throttled_us);
    let heat = after.heat_ms.iter().zip(&before.heat_ms);
    let heat = heat.map(|(now, then)| now.saturating_sub(*then)).max();
    let (engine_now, engine_then) = (&after.engines[index], &before.engines[index]);
    let engine_disk = engine_now.disk.zip(engine_then.disk);
    let preemptions = engine_now.preemptions.zip(engine_then.preemptions);
    Readings {
        wall_s: wall.as_secs_f64(),
        cpus: after.cpus.count,
        busy_s: seconds(busy),
        engine_cpu_s: seconds(engine),
        peers_cpu_s: seconds(engines - engine),
        harness_cpu_s: seconds(own),
        kernel_cpu_s: seconds(kernel),
        foreign_cpu_s: seconds(busy.saturating_sub(engines + own + kernel)),
        foreign_peak: None,
        culprits,
        interrupts_s: seconds(grown(|look| look.cpus.interrupts)),
        steal_s: seconds(grown(|look| look.cpus.steal)),
        pressure: pressure.map(|(now, then)| Pressure {
            cpu_s: microseconds(now[0], then[0]),
            io_s: microseconds(now[1], then[1]),
            memory_s: microseconds(now[2], then[2]),
        }),
        throttled_s: throttled.map(|(now, then)| microseconds(now, then)),
        heat_throttled_s: heat.map(|ms| ms as f64 / 1e3),
        frequency: None,
        engine_major_faults: of_engine(EngineLook::major_faults),
        engine_preemptions: preemptions.map(|(now, then)| now.saturating_sub(then)),
        context_switches: grown(|look| look.cpus.context_switches),
        disk: DiskTraffic::between(after.disk, before.disk),
        engine_disk: engine_disk.map(|(now, then)| DiskTraffic::between(now, then)),
        guard_s: (before.took + after.took).as_secs_f64(),
    }
}

/// Ticks of the kernel's threads, and the busiest of processes that are neither engines nor this program.
fn others(before: &Look, after: &Look) -> (u64, Vec<Culprit>) {
    let mut kernel = 0;
    let mut by_name: HashMap<&str, u64> = HashMap::new();
    let is_engine = |pid| after.engines.iter().any(|engine| engine.pid == pid);
    let known = |pid| pid == after.harness || is_engine(pid);
    for (pid, now) in &after.processes {
        let then = before.processes.get(pid);
        // One that started meanwhile has all its time from then.
        let then = then.filter(|then| then.started == now.started);
        let ticks = now.ticks.saturating_sub(then.map_or(0, |then| then.ticks));
        if now.is_kernel {
            kernel += ticks;
        } else if !known(*pid) && ticks > 0 {
            *by_name.entry(&now.name).or_default() += ticks;
        }
    }
    let mut busiest: Vec<(&str, u64)> = by_name.into_iter().collect();
    busiest.sort_by_key(|(name, ticks)| (Reverse(*ticks), *name));
    let culprits = busiest
        .into_iter()
        .take(NAMED)
        .map(|(name, ticks)| Culprit {
            name: name.to_owned(),
            cpu_s: ticks as f64 / TICKS_PER_SECOND,
        });
    (kernel, culprits.collect())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            proc::{
                HEAT_FILE,
                tests::{made_up, stat_line},
            },
            sampler::Samples,
        },
        *,
    };
    use std::{fs, ops::Range, os::unix::fs::symlink, path::Path, process::Command};

    /// A process whose name says after `@` when it started; those of the kernel are in brackets.
    fn process(name: &str, ticks: u64) -> ProcessTicks {
        let (name, started) = name.split_once('@').unwrap_or((name, "0"));
        ProcessTicks {
            name: name.into(),
            started: started.parse().unwrap(),
            ticks,
            major_faults: ticks / 10,
            threads: 1,
            is_kernel: name.starts_with('['),
            ..ProcessTicks::default()
        }
    }

    /// A machine of two CPUs where these processes have run for so many ticks; the engine is 10, this
    /// program is 20.
    fn look(busy: u64, processes: &[(u32, &str, u64)]) -> Look {
        let processes = processes.iter();
        let processes: HashMap<_, _> = processes
            .map(|(pid, name, ticks)| (*pid, process(name, *ticks)))
            .collect();
        Look {
            cpus: Cpus {
                count: 2,
                busy,
                interrupts: busy / 100,
                steal: busy / 50,
                context_switches: 0,
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
                (10, "engine", 100),
                (20, "engine-bench", 50),
                (30, "[kworker/0:1-events]", 10),
                (40, "cc", 500),
                (50, "bash", 70),
            ],
        );
        let after = look(
            1600,
            &[
                (10, "engine", 400),
                (20, "engine-bench", 60),
                // The kernel's workers are called after what they do, programs as they please.
                (30, "[kworker/0:1-mm_percpu_wq]", 15),
                // The pid of one that ended and was given to another.
                (40, "ld@1200", 30),
                (50, "sh", 75),
                (60, "cc@1300", 100),
                (61, "cc@1300", 60),
                (62, "idle", 0),
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
        let culprits = found.culprits.iter();
        let names: Vec<_> = culprits.map(|found| (&*found.name, found.cpu_s)).collect();
        assert_eq!(names, [("cc", 1.6), ("ld", 0.3), ("sh", 0.05)]);
        assert_eq!((found.interrupts_s, found.steal_s), (0.06, 0.12));
        assert_eq!(found.engine_major_faults, 30);
        assert_eq!((found.guard_s, found.pressure), (0.004, None));
        assert_eq!(found.heat_throttled_s, None);
    }

    #[test]
    fn engines_that_take_turns_are_foreign_to_none_of_them() {
        let with = |busy, engines: &[(u32, u64)], own, ended| {
            let mut look = look(busy, &[(20, "engine-bench", own)]);
            look.processes.get_mut(&20).unwrap().children_ticks = ended;
            let engine = |(pid, ticks): &(u32, u64)| EngineLook {
                pid: *pid,
                process: (*ticks > 0).then(|| process("engine", *ticks)),
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
            look.pressure_us = Some([1_000_000, 2_000_000, 500_000].map(|us| factor * us));
            look.throttled_us = Some(factor * 250_000);
            look.heat_ms = vec![0, factor * 40, factor * 30];
            look.disk = (factor * 4096, factor * 8192);
            look
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
    }

    /// Of a machine with 256 CPUs and 10,000 processes.
    const CPUS: u64 = 256;
    const KERNEL_THREADS: u32 = 2100;
    const PROCESSES: u32 = 10_000;

    /// Its `/proc/stat`.
    fn stat_of_cpus(busy: u64) -> String {
        let each = |cpu| format!("cpu{cpu} 1 1 1 1 1 1 1 1 0 0\n");
        let cpus: String = (0..CPUS).map(each).collect();
        format!("cpu  {busy} 0 0 0 0 0 0 0 0 0\n{cpus}ctxt 1\nbtime 1\nprocesses 1\n")
    }

    /// The engine, a program like this one.
    const ENGINE: u32 = 3000;

    /// Such a machine.
    struct Large {
        dir: tempfile::TempDir,
        system: System,
    }

    impl Large {
        fn new() -> Self {
            let threads: Vec<String> = (3..KERNEL_THREADS).map(|pid| pid.to_string()).collect();
            let of_cpu = |cpu| {
                let file = |name| (format!("sys/devices/system/cpu/cpu{cpu}/{name}"), "7");
                [HEAT_FILE, "cpufreq/scaling_cur_freq"].map(file)
            };
            let mut files: Vec<_> = (0..CPUS).flat_map(of_cpu).collect();
            let threads = threads.join(" ");
            files.push(("proc/2/task/2/children".into(), &threads));
            let (dir, mut system) = made_up(&files);
            system.own = ENGINE - 1;
            let large = Self { dir, system };
            large.used(0, 2..PROCESSES, 1000);
            large
        }

        /// Has all CPUs been busy for so many ticks, and these processes for these.
        fn used(&self, busy: u64, pids: Range<u32>, ticks: u64) {
            let proc = self.dir.path().join("proc");
            for pid in pids {
                let is_kernel = pid < KERNEL_THREADS;
                let flags = if is_kernel { 0x20_8040 } else { 0x40_0000 };
                let folder = proc.join(pid.to_string());
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("stat"), stat_line(pid, "x", flags, ticks, 7)).unwrap();
                let times = format!("{} 5 5\n", ticks * 10_000_000);
                fs::write(folder.join("schedstat"), times).unwrap();
            }
            fs::write(proc.join("stat"), stat_of_cpus(busy)).unwrap();
        }
    }

    #[test]
    fn threads_of_the_kernel_are_no_other_programs_on_a_large_machine() {
        let large = Large::new();
        let before = Look::take(&large.system, &[ENGINE]);
        let opened = large.system.opened.get() - KERNEL_THREADS as usize - CPUS as usize;
        assert!(opened < 20, "{opened} files beside one a thread or CPU");
        // A thousand of them, the engine, and another program.
        large.used(0, 3..1003, 1001);
        large.used(5000, ENGINE..ENGINE + 2, 3000);
        let after = Look::take(&large.system, &[ENGINE]);
        let found = readings(&before, &after, Duration::from_secs(4), 0);
        assert_eq!((found.cpus, found.busy_s), (CPUS, 50.0));
        assert_eq!((found.kernel_cpu_s, found.engine_cpu_s), (10.0, 20.0));
        assert_eq!((found.foreign_cpu_s, found.culprits.len()), (20.0, 0));

        // Where the kernel lists no children, all are looked at.
        fs::remove_file(large.dir.path().join("proc/2/task/2/children")).unwrap();
        let all = large.system.processes();
        let kernel = all.values().filter(|process| process.is_kernel);
        let counts = [all.len(), kernel.count()].map(|count| count as u32 + 2);
        assert_eq!(counts, [PROCESSES, KERNEL_THREADS]);
    }

    #[test]
    fn while_a_pass_runs_no_process_is_looked_at_but_the_engine_and_this() {
        let large = Large::new();
        let mut samples = Samples::new(large.system.clone(), vec![ENGINE]);
        let before = samples.system.opened.get();
        samples.look();
        assert_eq!(samples.system.opened.get() - before, 3 + 8);
    }

    /// CPU time of this thread, in microseconds.
    fn cpu_us() -> u64 {
        let times = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        times.split(' ').next().unwrap().parse::<u64>().unwrap() / 1000
    }

    #[test]
    #[ignore = "a measurement, which starts 10,000 processes; it prints and asserts nothing"]
    fn what_looking_costs() {
        let sleep = |_| Command::new("sleep").arg("3600").spawn().unwrap();
        let mut sleeping: Vec<_> = (0..PROCESSES).map(sleep).collect();
        // This machine with more CPUs, and some of them in the place of the threads of its kernel.
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/2/task/2")).unwrap();
        symlink("/sys", dir.path().join("sys")).unwrap();
        fs::write(dir.path().join("proc/stat"), stat_of_cpus(0)).unwrap();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            // All but what is there already.
            let _ = symlink(
                entry.path(),
                dir.path().join("proc").join(entry.file_name()),
            );
        }
        fs::copy("/proc/2/stat", dir.path().join("proc/2/stat")).unwrap();
        let posing = sleeping.iter().take(KERNEL_THREADS as usize);
        let posing: Vec<String> = posing.map(|child| child.id().to_string()).collect();
        fs::write(dir.path().join("proc/2/task/2/children"), posing.join(" ")).unwrap();
        for (name, root) in [("as it is", Path::new("/")), ("large", dir.path())] {
            let system = System::at(root, std::process::id());
            let engine = [sleeping[0].id()];
            let mut samples = Samples::new(system.clone(), engine.to_vec());
            let began = cpu_us();
            (0..50).for_each(|_| drop(Look::take(&system, &engine)));
            let looked = cpu_us();
            (0..1000).for_each(|_| samples.look());
            let (look, sample) = ((looked - began) / 50, (cpu_us() - looked) / 1000);
            println!("{name}: a look takes {look} µs of CPU time, a sample {sample} µs");
        }
        for child in &mut sleeping {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
