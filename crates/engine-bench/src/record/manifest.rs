//! What a sweep measures, by content: so that it is not continued with something else.
//!
//! Invariant: depends on the bytes of programs and payloads, not on where they are.

use super::{Environment, sum};
use crate::{
    engine::{self, Variables},
    plan::{PLAN_FILE, Plan},
    sweep::{CHUNK_POLICY_FLAG, EngineSpec, Gas},
};
use alloy_primitives::hex;
use engine_api::PreparedPayload;
use eyre::{Result, WrapErr as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::Path,
};

/// What a sweep measures. Sums are SHA-256 in hexadecimal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Sum of `plan.json`, which holds the resolved configuration.
    pub plan_sha256: String,
    /// The engines, in the order of the plan.
    pub engines: Vec<EngineSum>,
    /// The payload lists that could be found.
    pub payloads: Vec<PayloadSum>,
    /// Version of this program.
    pub harness_version: String,
    /// Kernel name and version.
    pub kernel: String,
    /// Model of the processor, and how many of it.
    pub processor: String,
    /// The command line that began the sweep; empty when it was not kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// The environment of the engines; no part of what has to stay the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<Variables>,
}

/// The program of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSum {
    /// Name of the engine.
    pub name: String,
    /// Sum of its program.
    pub sha256: String,
    /// What its help calls the defaults of the axes and of the chunk policy, by flag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, String>,
}

/// A payload list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadSum {
    /// Mix of transactions; empty for payloads that were given.
    pub mix: String,
    /// Gas level.
    pub gas: Gas,
    /// Payloads of a pass.
    pub payloads: u64,
    /// Sum of the requests that are sent, in order.
    pub sha256: String,
}

/// The sum of a plan as it lies in a results folder; empty when there is none.
pub fn plan_sum(out: &Path) -> String {
    fs::read(out.join(PLAN_FILE)).map_or_else(|_| String::new(), |plan| sum(&plan))
}

impl Manifest {
    /// What is known before anything is prepared: all but the payloads.
    ///
    /// # Errors
    /// When a program cannot be read.
    pub fn before(plan: &Plan, out: &Path) -> Result<Self> {
        let machine = Environment::read();
        let axes = plan.settings.axes.iter().map(|axis| axis.flag.as_str());
        let flags: Vec<&str> = axes.chain([CHUNK_POLICY_FLAG]).collect();
        let engines = plan.settings.engines.iter();
        let engines = engines.map(|engine| EngineSum::of(engine, &flags));
        Ok(Self {
            plan_sha256: plan_sum(out),
            engines: engines.collect::<Result<_, _>>()?,
            payloads: Vec::new(),
            harness_version: machine.harness_version,
            kernel: machine.kernel,
            processor: format!("{} × {}", machine.cpus, machine.cpu_model),
            command: command(std::env::args()),
            variables: Some(variables(plan)),
        })
    }

    /// What differs from the earlier manifest, a sentence each. Payloads are looked at when
    /// both have some.
    pub fn differences(&self, earlier: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, now: &str, then: &str| {
            if now != then {
                found.push(format!("{what} was {then} and is {now}"));
            }
        };
        let [now, then] = [self, earlier].map(|manifest| short(&manifest.plan_sha256));
        differ("plan.json", now, then);
        let [now, then] = [self, earlier].map(|manifest| &manifest.harness_version);
        differ("the harness", now, then);
        differ("the processor", &self.processor, &earlier.processor);
        for then in &earlier.engines {
            let now = self.engines.iter().find(|now| now.name == then.name);
            let what = format!("the program of {}", then.name);
            let now = now.map_or("missing", |now| short(&now.sha256));
            differ(&what, now, short(&then.sha256));
        }
        let lists = earlier.payloads.iter();
        for then in lists.filter(|_| !self.payloads.is_empty()) {
            let same = |now: &&PayloadSum| (&now.mix, now.gas) == (&then.mix, then.gas);
            let now = self.payloads.iter().find(same);
            let what = format!("the payload list {} {}", then.mix, then.gas).replace("  ", " ");
            let now = now.map_or("missing", |now| short(&now.sha256));
            differ(&what, now, short(&then.sha256));
        }
        found
    }
}

impl EngineSum {
    fn of(engine: &EngineSpec, flags: &[&str]) -> Result<Self> {
        let sum = || -> io::Result<String> {
            let mut digest = Sha256::new();
            io::copy(&mut File::open(&engine.program)?, &mut digest)?;
            Ok(hex::encode(digest.finalize()))
        };
        Ok(Self {
            name: engine.name.clone(),
            sha256: sum().wrap_err_with(|| {
                format!("failed to read the program {}", engine.program.display())
            })?,
            defaults: engine::defaults(engine, flags),
        })
    }
}

/// A command line as a shell takes it, the program by its name alone.
fn command(mut words: impl Iterator<Item = String>) -> String {
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words: Vec<String> = [name].into_iter().chain(words).map(quoted).collect();
    words.join(" ")
}

impl PayloadSum {
    /// The sum of a list of this mix and gas level.
    pub fn of(mix: &str, gas: Gas, list: &[PreparedPayload]) -> Self {
        let requests = list.iter().fold(Sha256::new(), |digest, payload| {
            digest
                .chain_update(&payload.new_payload)
                .chain_update(&payload.forkchoice)
        });
        Self {
            mix: mix.to_owned(),
            gas,
            payloads: list.len() as u64,
            sha256: hex::encode(requests.finalize()),
        }
    }
}

fn variables(plan: &Plan) -> Variables {
    let started = plan.cells.iter().filter_map(|cell| {
        let mut engines = plan.settings.engines.iter();
        let engine = engines.find(|engine| engine.name == cell.engine)?;
        let knobs = plan.settings.knobs_of(engine, &cell.flags);
        Some((cell.id.as_str(), engine, knobs))
    });
    Variables::of(started)
}

/// As much of a sum as a person compares.
fn short(sum: &str) -> &str {
    sum.get(..12).unwrap_or(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            plan_sha256: "p".repeat(64),
            engines: vec![EngineSum {
                name: "old".into(),
                sha256: "a".repeat(64),
                ..EngineSum::default()
            }],
            payloads: vec![PayloadSum {
                mix: "whale".into(),
                gas: Gas(10_000_000),
                payloads: 4,
                sha256: "b".repeat(64),
            }],
            harness_version: "1".into(),
            kernel: "Linux 1".into(),
            processor: "2 × X".into(),
            command: "engine-bench sweep".into(),
            variables: None,
        }
    }

    #[test]
    fn a_command_can_be_typed_again() {
        let words = "/usr/bin/engine-bench|sweep|--set|a=b c||it's";
        let found = command(words.split('|').map(str::to_owned));
        assert_eq!(found, r"engine-bench sweep --set 'a=b c' '' 'it'\''s'");
    }

    #[test]
    fn each_difference_is_named() {
        type Change = fn(&mut Manifest);
        let changes: [(Change, &str); 10] = [
            (|_| {}, ""),
            (|m| m.command = "engine-bench sweep --resume x".into(), ""),
            // A reboot into another kernel is told by the environment, and no reason to stop.
            (|m| m.kernel = "Linux 2".into(), ""),
            (|m| m.payloads.clear(), ""),
            (
                |m| m.engines[0].sha256 = "c".repeat(64),
                "the program of old was aaaaaaaaaaaa and is cccccccccccc",
            ),
            (
                |m| m.engines[0].name = "new".into(),
                "the program of old was aaaaaaaaaaaa and is missing",
            ),
            (
                |m| m.payloads[0].sha256 = "d".repeat(64),
                "the payload list whale 10M was bbbbbbbbbbbb and is dddddddddddd",
            ),
            (
                |m| m.plan_sha256 = "q".repeat(64),
                "plan.json was pppppppppppp and is qqqqqqqqqqqq",
            ),
            (
                |m| m.harness_version = "2".into(),
                "the harness was 1 and is 2",
            ),
            (
                |m| m.processor = "4 × X".into(),
                "the processor was 2 × X and is 4 × X",
            ),
        ];
        for (change, expected) in changes {
            let mut now = manifest();
            change(&mut now);
            assert_eq!(now.differences(&manifest()).join("; "), expected);
        }
    }
}
