//! A thread that looks at the CPUs four times a second while a pass runs.
//!
//! Invariant: it reads three short files and the clocks of a few CPUs, however many processes there are,
//! writes nothing, and ends when it is told to.

use super::proc::{System, TICKS_PER_SECOND};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Pause between two samples.
const INTERVAL: Duration = Duration::from_millis(250);

/// Samples of a window that a peak is taken of: over less, the kernel's 10 ms steps are too coarse.
const WINDOW: usize = 4;

/// CPUs whose clock is read: enough to see a machine slow down.
const MOST_CLOCKS: usize = 8;

/// Clock of the CPUs during a pass, in MHz.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequency {
    /// The lowest seen on any CPU.
    pub low_mhz: f64,
    /// Mean of all samples.
    pub mean_mhz: f64,
}

/// What was seen.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sampled {
    pub(super) foreign_peak: Option<f64>,
    pub(super) frequency: Option<Frequency>,
    /// Time spent looking.
    pub(super) took: Duration,
}

/// The running thread. Dropping it lets the thread end by itself.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Sender<()>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Starts it; without a thread nothing is sampled.
    pub(super) fn start(system: System, engines: &[u32]) -> Self {
        let (stop, stopped) = mpsc::channel();
        let engines = engines.to_vec();
        let sample = move || {
            let mut samples = Samples::new(system, engines);
            loop {
                samples.look();
                match stopped.recv_timeout(INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return samples.end(),
                }
            }
        };
        let thread = thread::Builder::new()
            .name("guard".to_owned())
            .spawn(sample);
        Self {
            stop,
            thread: thread.ok(),
        }
    }

    pub(super) fn stop(self) -> Sampled {
        // Fails when the thread could not be started, which gives nothing anyway.
        let _ = self.stop.send(());
        let ended = self.thread.map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

/// Counters at one sample.
#[derive(Debug, Clone, Copy)]
struct Instantaneous {
    at: Instant,
    /// Ticks of everything but the engines and this program.
    others: u64,
}

pub(super) struct Samples {
    pub(super) system: System,
    engines: Vec<u32>,
    /// CPUs whose clock can be read.
    clocks: usize,
    window: VecDeque<Instantaneous>,
    peak: Option<f64>,
    mhz: Vec<f64>,
    took: Duration,
}

impl Samples {
    pub(super) fn new(system: System, engines: Vec<u32>) -> Self {
        let clocks = (0..MOST_CLOCKS).take_while(|cpu| system.clock_mhz(*cpu).is_some());
        Self {
            clocks: clocks.count(),
            system,
            engines,
            window: VecDeque::new(),
            peak: None,
            mhz: Vec::new(),
            took: Duration::ZERO,
        }
    }

    pub(super) fn look(&mut self) {
        let began = Instant::now();
        let cpus = self.system.cpus();
        let ticks = |pid| {
            let found = self.system.process(pid);
            found.map_or((0, 0), |found| (found.ticks, found.children_ticks))
        };
        let of_engines: u64 = self.engines.iter().map(|pid| ticks(*pid).0).sum();
        // An engine that ended is one of the children that have.
        let (own, ended) = ticks(self.system.own);
        let known = of_engines + own + ended;
        if let Some(all) = cpus {
            let now = Instantaneous {
                at: began,
                others: all.busy.saturating_sub(known),
            };
            self.add(now, all.count);
        }
        let clocks = (0..self.clocks).filter_map(|cpu| self.system.clock_mhz(cpu));
        self.mhz.extend(clocks);
        self.took += began.elapsed();
    }

    fn add(&mut self, now: Instantaneous, cpus: u64) {
        self.window.push_back(now);
        if self.window.len() <= WINDOW {
            return;
        }
        let Some(then) = self.window.pop_front() else {
            return;
        };
        let all_s = (now.at - then.at).as_secs_f64() * cpus as f64;
        let part = now.others.saturating_sub(then.others) as f64 / TICKS_PER_SECOND / all_s;
        self.peak = Some(self.peak.map_or(part, |peak| peak.max(part)));
    }

    fn end(self) -> Sampled {
        let count = self.mhz.len() as f64;
        let frequency = (!self.mhz.is_empty()).then(|| Frequency {
            low_mhz: self.mhz.iter().copied().fold(f64::INFINITY, f64::min),
            mean_mhz: self.mhz.iter().sum::<f64>() / count,
        });
        Sampled {
            foreign_peak: self.peak,
            frequency,
            took: self.took,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_that_of_a_whole_window() {
        let mut samples = Samples::new(System::this(), vec![1]);
        let start = Instant::now();
        // Idle, then a second of one busy CPU of two, then idle again.
        let ticks = [0, 0, 0, 0, 25, 50, 75, 100, 100, 100];
        for (index, others) in ticks.into_iter().enumerate() {
            assert_eq!(samples.peak.is_some(), index > WINDOW, "{index}");
            let at = start + INTERVAL * index as u32;
            samples.add(Instantaneous { at, others }, 2);
        }
        assert!((samples.peak.unwrap() - 0.5).abs() < 1e-9);
        samples.mhz = vec![3000.0, 2000.0, 4000.0];
        let frequency = samples.end().frequency.unwrap();
        assert_eq!((frequency.low_mhz, frequency.mean_mhz), (2000.0, 3000.0));
    }

    #[test]
    fn a_sampler_ends_when_told() {
        let sampled = Sampler::start(System::this(), &[std::process::id()]).stop();
        assert!(sampled.took > Duration::ZERO);
    }
}
