//! Every resolved value of a sweep, with where it comes from, for a person.
//!
//! Invariant: a row for every key of a sweep file that has a value, under the name of its flag.

use super::{Origin, Origins};
use crate::sweep::{BaseSource, CHUNK_SIZE_FLAG, MIX_AXIS, PayloadSource, Settings, WarmUp};
use clap::ValueEnum;
use std::fmt::Write as _;

/// The values, a line each: flag, value, origin.
pub fn shown(settings: &Settings, origins: &Origins) -> String {
    let rows = rows(settings);
    let width = |column: fn(&(&str, String)) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let names = width(|(name, _)| name.len());
    let values = width(|(_, value)| value.chars().count());
    let mut text = String::new();
    for (name, value) in &rows {
        let knob = value.split(['=', ' ']).next().unwrap_or_default();
        let own = origins.get(&format!("{name} {knob}"));
        let origin = match own.or_else(|| origins.get(*name)) {
            Some(Origin::Flag) => "flag",
            Some(Origin::File) => "file",
            None => "default",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:names$}  {value:values$}  {origin}");
    }
    text
}

fn rows(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rows = choices(settings);
    rows.extend(workload(settings));
    rows.extend(measuring(settings));
    rows
}

/// What is compared.
fn choices(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for engine in &settings.engines {
        let kind = engine.kind.name();
        rows.push((
            "engine",
            format!("{} = {} ({kind})", engine.name, engine.program.display()),
        ));
    }
    for axis in settings.axes.iter().filter(|axis| axis.flag != MIX_AXIS) {
        let name = if axis.flag == CHUNK_SIZE_FLAG {
            "chunks"
        } else {
            "axis"
        };
        rows.push((name, format!("{} = {}", axis.flag, joined(&axis.values))));
    }
    rows.extend(settings.set.iter().map(|set| ("set", set.to_string())));
    rows.push(("design", word(&settings.design)));
    let standing = settings.standing.iter();
    rows.extend(standing.map(|set| ("base", set.to_string())));
    let excluded = settings.exclude.iter();
    rows.extend(excluded.map(|exclusion| ("exclude", exclusion.to_string())));
    rows
}

/// What is replayed on which state.
fn workload(settings: &Settings) -> Vec<(&'static str, String)> {
    let gas: Vec<String> = settings
        .levels
        .iter()
        .map(|level| level.gas.to_string())
        .collect();
    let counts: Vec<String> = settings
        .levels
        .iter()
        .map(|level| {
            level
                .count
                .map_or("all".to_owned(), |count| count.to_string())
        })
        .collect();
    let mut rows = vec![("gas", joined(&gas)), ("count", joined(&counts))];
    match &settings.payloads {
        PayloadSource::Generated { .. } => rows.push(("mix", settings.mixes().join(", "))),
        PayloadSource::Folder { path } => rows.push(("payloads", path.display().to_string())),
    }
    match &settings.base {
        BaseSource::Generated { profile } => rows.push(("profile", profile.clone())),
        BaseSource::Datadir { path, in_place } => {
            rows.push(("datadir", path.display().to_string()));
            rows.push(("in-place", in_place.to_string()));
        }
    }
    let target = settings.target_block;
    let target = target.map_or("the head of the datadir".to_owned(), |block| {
        block.to_string()
    });
    rows.push(("target-block", target));
    rows.push(("seed", settings.seed.to_string()));
    rows
}

/// How it is measured.
fn measuring(settings: &Settings) -> Vec<(&'static str, String)> {
    let warmup = match settings.warmup {
        WarmUp::Full => "full".to_owned(),
        WarmUp::None => "none".to_owned(),
        WarmUp::First(count) => count.to_string(),
    };
    let ms = |duration_ms: u64| format!("{duration_ms}ms");
    let mut rows = rounds(settings);
    rows.extend([
        ("min-effect", percent(settings.min_effect)),
        (
            "baseline",
            settings
                .baseline
                .clone()
                .unwrap_or_else(|| "the highest".to_owned()),
        ),
        ("no-aa", (!settings.controls).to_string()),
        ("order", word(&settings.order)),
        ("interleave", settings.interleave.to_string()),
        ("guard", word(&settings.guard)),
        ("warmup", warmup),
        ("reset", word(&settings.reset)),
        ("wait-time", ms(settings.wait_time_ms)),
        (
            "wait-for-persistence",
            settings.wait_for_persistence.to_string(),
        ),
        ("ready-timeout", ms(settings.ready_timeout_ms)),
        ("request-timeout", ms(settings.request_timeout_ms)),
        ("cache-dir", settings.cache_dir.display().to_string()),
    ]);
    rows
}

/// How many rounds there are, or what ends them.
fn rounds(settings: &Settings) -> Vec<(&'static str, String)> {
    let Some(adaptive) = settings.adaptive else {
        return vec![("rounds", settings.rounds.to_string())];
    };
    let budget = adaptive.budget_s.map(|budget_s| format!("{budget_s}s"));
    vec![
        ("rounds", format!("at most {}", settings.rounds)),
        ("precision", percent(adaptive.precision)),
        ("budget", budget.unwrap_or_else(|| "none".to_owned())),
    ]
}

fn percent(fraction: f64) -> String {
    format!("{}%", 100.0 * fraction)
}

fn joined(values: &[String]) -> String {
    values.join(", ")
}

/// A value as it is typed.
fn word<T: ValueEnum>(value: &T) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{merge, resolve, schema::KEYS};
    use super::*;
    use crate::cli::{Cli, Verb};
    use clap::Parser as _;
    use std::{ffi::OsString, fs};

    #[test]
    fn every_value_has_a_row_and_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.toml");
        let text = "chunks = [5, 60]\nmix = [\"mainnet\", \"whale\"]\nrounds = 3\n\
                    design = \"one-at-a-time\"\n[axis]\n\"engine.x\" = [1, 2]\n[base]\n\
                    \"engine.x\" = 2\n[[exclude]]\ngas = \"40M\"\n\"engine.x\" = 2\n";
        fs::write(&path, text).unwrap();
        let line = format!(
            "engine-bench sweep {} --cache-dir /cache --gas 10M,40M --seed 3 --set engine.y=on \
             --axis env:A=1,2",
            path.display()
        );
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Verb::Sweep(args) = Cli::try_parse_from(&words).unwrap().verb else {
            panic!("not a sweep")
        };
        let (args, origins, _) = merge(*args, &words).unwrap();
        let mut settings = resolve(&args).unwrap();
        settings.engines[0].program = "/bin/engine-bench".into();
        insta::assert_snapshot!(shown(&settings, &origins));

        let names: Vec<&str> = rows(&settings).iter().map(|(name, _)| *name).collect();
        // A state and payloads that were given have rows instead of these that were made.
        // The same goes for rounds that were asked for instead of found.
        let elsewhere = [
            "question",
            "payloads",
            "datadir",
            "in-place",
            "precision",
            "budget",
            "no-guard",
        ];
        for key in KEYS.iter().filter(|key| !elsewhere.contains(&key.name)) {
            assert!(names.contains(&key.name), "{}", key.name);
        }
    }
}
