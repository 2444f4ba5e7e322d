//! When a pass counts as disturbed: the rule that docs/decisions/0013-when-a-visit-is-void.md states.
//!
//! Invariant: a pure function of the readings, so that a journal can be judged again.

use super::Readings;
use serde::{Deserialize, Serialize};

/// CPU time of other programs, as a part of all CPUs' time.
const FOREIGN_LIMIT: f64 = 0.05;

/// The same in CPUs: a large machine does not get to hide several busy programs.
const FOREIGN_LIMIT_CPUS: f64 = 0.5;

/// CPU time taken by the machine that this one is a guest of, as a part of all CPUs' time.
const STEAL_LIMIT: f64 = 0.03;

/// Time in which some task waited for memory, as a part of the pass.
const MEMORY_LIMIT: f64 = 0.02;

/// Time in which a CPU quota or heat held the CPUs back, as a part of the pass.
const THROTTLED_LIMIT: f64 = 0.02;

/// Passes shorter than this are not judged: the kernel counts CPU time in steps of 10 ms.
const SHORTEST_JUDGED_S: f64 = 0.5;

/// CPU time below which nothing is concluded from a part, in seconds: ten steps.
const LEAST_CPU_S: f64 = 0.1;

/// One way in which a pass was disturbed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Contamination {
    /// `foreign-cpu`, `steal`, `memory`, `quota` or `heat`.
    pub rule: String,
    /// What was found, as a part: of all CPUs' time for the first two, else of the pass.
    pub found: f64,
    /// What is tolerated.
    pub limit: f64,
    /// A sentence for people.
    pub detail: String,
}

impl Contamination {
    /// Whether it slows all cells that take turns in the pass alike, and so cancels in their ratios: what
    /// is taken from the machine as a whole is, a program that runs now and then is not.
    pub fn is_shared(&self) -> bool {
        ["steal", "quota", "heat"].contains(&self.rule.as_str())
    }
}

/// What disturbed a pass; nothing when it was left alone, or was too short to say.
pub fn contaminations(readings: &Readings) -> Vec<Contamination> {
    if readings.wall_s < SHORTEST_JUDGED_S || readings.cpus == 0 {
        return Vec::new();
    }
    let all_cpus_s = readings.wall_s * readings.cpus as f64;
    let of_cpus = |cpu_s: f64| {
        if cpu_s < LEAST_CPU_S {
            0.0
        } else {
            cpu_s / all_cpus_s
        }
    };
    let of_pass = |seconds: Option<f64>| seconds.unwrap_or(0.0) / readings.wall_s;
    let foreign_limit = FOREIGN_LIMIT.min(FOREIGN_LIMIT_CPUS / readings.cpus as f64);
    let memory_s = readings.pressure.map(|pressure| pressure.memory_s);
    let judged = [
        (
            "foreign-cpu",
            of_cpus(readings.foreign_cpu_s),
            foreign_limit,
        ),
        ("steal", of_cpus(readings.steal_s), STEAL_LIMIT),
        ("memory", of_pass(memory_s), MEMORY_LIMIT),
        ("quota", of_pass(readings.throttled_s), THROTTLED_LIMIT),
        ("heat", of_pass(readings.heat_throttled_s), THROTTLED_LIMIT),
    ];
    judged
        .into_iter()
        .filter(|(_, found, limit)| found > limit)
        .map(|(rule, found, limit)| Contamination {
            rule: rule.to_owned(),
            found,
            limit,
            detail: detail(rule, found, readings),
        })
        .collect()
}

fn detail(rule: &str, found: f64, readings: &Readings) -> String {
    let percent = format!("{:.1} %", 100.0 * found);
    match rule {
        "foreign-cpu" => {
            let culprits = readings.culprits.iter();
            let names = culprits.map(|culprit| format!("{} {:.1} s", culprit.name, culprit.cpu_s));
            let names = match names.collect::<Vec<_>>().join(", ") {
                names if names.is_empty() => names,
                names => format!(" ({names})"),
            };
            format!("other programs used {percent} of the CPUs{names}")
        }
        "steal" => format!("the host took {percent} of the CPUs"),
        "memory" => format!("tasks waited for memory {percent} of the time"),
        "quota" => format!("a CPU quota held the machine back {percent} of the time"),
        _ => format!("heat held the CPUs back {percent} of the time"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Culprit, Pressure,
        calibrate::{HASHES, STEPS},
        proc::MOST_PROGRAMS,
    };
    use super::*;

    /// Four seconds on two CPUs, of which others did nothing.
    fn quiet() -> Readings {
        Readings {
            wall_s: 4.0,
            cpus: 2,
            busy_s: 7.0,
            engine_cpu_s: 6.5,
            ..Readings::default()
        }
    }

    /// What the engine itself does to CPUs and disk is no disturbance.
    fn pressure(memory_s: f64) -> Pressure {
        Pressure {
            memory_s,
            cpu_s: 4.0,
            io_s: 4.0,
        }
    }

    fn rules(readings: &Readings) -> Vec<String> {
        let found = contaminations(readings).into_iter();
        found.map(|found| found.rule).collect()
    }

    #[test]
    fn the_decision_states_these_figures() {
        let decision = include_str!("../../../../docs/decisions/0013-when-a-visit-is-void.md");
        let percent = |limit: f64| format!("| {} % of", (100.0 * limit).round());
        for (rule, limit) in [
            ("foreign-cpu", FOREIGN_LIMIT),
            ("steal", STEAL_LIMIT),
            ("memory", MEMORY_LIMIT),
            ("quota", THROTTLED_LIMIT),
            ("heat", THROTTLED_LIMIT),
        ] {
            let row = format!("| `{rule}` {}", percent(limit));
            assert!(decision.contains(&row), "{row}");
        }
        let thousands = |count: u32| format!("{},{:03} ", count / 1000, count % 1000);
        for (count, what) in [(HASHES, "hashes"), (STEPS, "reads")] {
            let stated = thousands(count) + what;
            assert!(decision.contains(&stated), "{stated}");
        }
        let stated = format!("more than {MOST_PROGRAMS} programs");
        assert!(decision.contains(&stated), "{stated}");
        assert_eq!(
            (FOREIGN_LIMIT_CPUS, SHORTEST_JUDGED_S, LEAST_CPU_S),
            (0.5, 0.5, 0.1)
        );
    }

    #[test]
    fn what_is_taken_from_the_whole_machine_is_shared() {
        let shared = |rule: &str| {
            let rule = rule.to_owned();
            let found = Contamination {
                rule,
                ..Contamination::default()
            };
            found.is_shared()
        };
        assert!(["steal", "quota", "heat"].into_iter().all(shared));
        assert!(!["foreign-cpu", "memory"].into_iter().any(shared));
    }

    #[test]
    fn each_limit_is_passed_on_its_own() {
        type Disturb = fn(&mut Readings, f64);
        let cases: [(&str, Disturb, f64); 5] = [
            ("foreign-cpu", |r, s| r.foreign_cpu_s = s, 0.05 * 8.0),
            ("steal", |r, s| r.steal_s = s, 0.03 * 8.0),
            ("memory", |r, s| r.pressure = Some(pressure(s)), 0.02 * 4.0),
            ("quota", |r, s| r.throttled_s = Some(s), 0.02 * 4.0),
            ("heat", |r, s| r.heat_throttled_s = Some(s), 0.02 * 4.0),
        ];
        assert!(rules(&quiet()).is_empty());
        for (rule, disturb, limit_s) in cases {
            let mut readings = quiet();
            disturb(&mut readings, 0.98 * limit_s);
            assert!(rules(&readings).is_empty(), "{rule} below its limit");
            disturb(&mut readings, 1.02 * limit_s);
            assert_eq!(rules(&readings), [rule]);
        }
    }

    #[test]
    fn a_large_machine_tolerates_half_a_cpu_and_a_short_pass_anything() {
        let of = |cpus, wall_s, foreign_cpu_s| {
            rules(&Readings {
                cpus,
                wall_s,
                foreign_cpu_s,
                ..quiet()
            })
        };
        assert!(of(64, 4.0, 0.45 * 4.0).is_empty());
        assert_eq!(of(64, 4.0, 0.55 * 4.0), ["foreign-cpu"]);
        assert!(of(2, 0.4, 0.8).is_empty());
        // Of a pass just long enough, a few ticks say nothing.
        assert!(of(2, 0.6, 0.09).is_empty());
    }

    #[test]
    fn the_busiest_programs_are_named() {
        let culprits = [("rustc", 2.5), ("sh", 0.4)].map(|(name, cpu_s)| {
            let name = name.into();
            Culprit { name, cpu_s }
        });
        let readings = Readings {
            foreign_cpu_s: 3.0,
            culprits: culprits.into(),
            ..quiet()
        };
        let [found] = &contaminations(&readings)[..] else {
            panic!("one reason")
        };
        assert_eq!(
            found.detail,
            "other programs used 37.5 % of the CPUs (rustc 2.5 s, sh 0.4 s)"
        );
        assert_eq!((found.found, found.limit), (0.375, 0.05));
    }
}
