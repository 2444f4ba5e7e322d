//! What is known of the engines of a sweep before the first visit that makes its answer doubtful.
//!
//! Invariant: nothing is refused here; a person decides.

use crate::sweep::{CHUNK_SIZE_FLAG, EngineSpec, Settings, doubt};
use std::thread;

/// With a library of its own preloaded, how many CPUs an engine sees is not known here.
const PRELOAD: &str = "env:LD_PRELOAD";

/// Knobs of the sweep that no cell of an engine can show to act, a sentence for each engine that has some.
pub fn inert(settings: &Settings) -> Vec<String> {
    // Affinity and a quota of the control group count, and an engine inherits both.
    let cpus = thread::available_parallelism().map_or(usize::MAX, usize::from);
    inert_on(settings, cpus)
}

fn inert_on(settings: &Settings, cpus: usize) -> Vec<String> {
    let mut axes = settings.axes.iter();
    let Some(axis) = axes.find(|axis| axis.flag == CHUNK_SIZE_FLAG) else {
        return Vec::new();
    };
    let swept = settings.axes.iter().map(|axis| &axis.flag);
    let set = settings.set.iter().map(|set| &set.flag);
    if swept.chain(set).any(|knob| knob == PRELOAD) {
        return Vec::new();
    }
    let engines = settings.engines.iter();
    let preloads = |engine: &&EngineSpec| engine.set.iter().any(|set| set.flag == PRELOAD);
    let engines = engines.filter(|engine| !preloads(engine));
    let engines = engines.filter(|engine| engine.has(axis) && engine.kind.root_task_cpus() > cpus);
    let told = engines.map(|EngineSpec { name, kind, .. }| {
        let needed = kind.root_task_cpus();
        format!(
            "--{CHUNK_SIZE_FLAG} is inert in {name}: it needs {needed} CPUs, the engine sees {cpus}; sweep it on \
             another machine, or sweep another flag"
        )
    });
    told.collect()
}

/// Releases that this program was not written for, a sentence each.
pub fn unknown_releases(settings: &Settings) -> Vec<String> {
    let engines = settings.engines.iter();
    engines.filter_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::tests::engine,
        plan::tests::settings,
        sweep::{EngineKind, Setting, Version},
    };

    fn of(kind: EngineKind, flags: &str) -> Settings {
        let mut settings = settings(flags);
        settings.engines = vec![engine(kind)];
        settings
    }

    #[test]
    fn a_chunk_size_that_cannot_act_is_said_before_the_first_visit() {
        let reth = of(EngineKind::Reth, "--chunks 15,60");
        let said = inert_on(&reth, 2).concat();
        assert!(
            said.contains("inert in e: it needs 5 CPUs, the engine sees 2"),
            "{said}"
        );
        assert_eq!(inert_on(&reth, 5), [""; 0]);
        assert_eq!(
            inert_on(&of(EngineKind::BenchReth, "--chunks 15,60"), 2),
            [""; 0]
        );
        assert_eq!(
            inert_on(&of(EngineKind::Reth, "--axis a.b=1,2"), 2),
            [""; 0]
        );
        let (flag, value) = ("env:LD_PRELOAD".to_owned(), "x.so".to_owned());
        let set = vec![Setting { flag, value }];
        assert_eq!(inert_on(&Settings { set, ..reth }, 2), [""; 0]);
    }

    #[test]
    fn releases_that_are_not_known_are_named() {
        let told = |kind, version| {
            let mut settings = of(kind, "--chunks 15,60");
            settings.engines[0].version = version;
            unknown_releases(&settings).concat()
        };
        let reth = |version| told(EngineKind::Reth, version);
        assert_eq!(reth(Some(Version(1, 11, 4))), "");
        assert_eq!(reth(Some(Version(2, 5, 1))), "");
        assert!(reth(Some(Version(1, 8, 4))).contains("e is reth 1.8.4"));
        assert!(reth(Some(Version(3, 0, 0))).contains("below 2.6.0"));
        assert!(reth(None).contains("does not tell"));
        assert_eq!(told(EngineKind::BenchReth, None), "");
    }
}
