//! Every resolved value of a sweep, with where it comes from, for a person.
//!
//! Invariant: a row for every key of a sweep file that has a value, under the name of its flag.

use super::{Origin, Origins};
use crate::sweep::{BaseSource, CHUNK_SIZE_FLAG, Level, MIX_AXIS, PayloadSource, Settings, WarmUp};
use clap::ValueEnum;
use std::fmt::Write as _;

/// The values, a line each: flag, value, origin.
pub fn shown(settings: &Settings, origins: &Origins) -> String {
    let rows = rows(settings);
    let width = |column: fn(&Row) -> usize| rows.iter().map(column).max().unwrap_or(0);
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

/// A flag and its value.
type Row = (&'static str, String);

fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows = choices(settings);
    rows.extend(workload(settings));
    rows.extend(rounds(settings));
    rows.extend(measuring(settings));
    rows
}

/// What is compared.
fn choices(settings: &Settings) -> Vec<Row> {
    let engines = settings.engines.iter().map(|engine| {
        let (name, program, kind) = (&engine.name, engine.program.display(), engine.kind.name());
        let own = engine.set.iter().map(|set| format!(", {set}"));
        let own: String = own.collect();
        ("engine", format!("{name} = {program} ({kind}{own})"))
    });
    let axes = settings.axes.iter().filter(|axis| axis.flag != MIX_AXIS);
    let axes = axes.map(|axis| {
        let is_chunks = axis.flag == CHUNK_SIZE_FLAG;
        let name = if is_chunks { "chunks" } else { "axis" };
        (name, format!("{} = {}", axis.flag, axis.values.join(", ")))
    });
    let set = settings.set.iter().map(|set| ("set", set.to_string()));
    let standing = settings.standing.iter();
    let standing = standing.map(|set| ("base", set.to_string()));
    let excluded = settings.exclude.iter();
    let excluded = excluded.map(|exclusion| ("exclude", exclusion.to_string()));
    let design = [("design", word(&settings.design))];
    let knobs = engines.chain(axes).chain(set).chain(design);
    knobs.chain(standing).chain(excluded).collect()
}

/// What is replayed on which state.
fn workload(settings: &Settings) -> Vec<Row> {
    let of_levels = |text: fn(&Level) -> String| {
        let texts: Vec<String> = settings.levels.iter().map(text).collect();
        texts.join(", ")
    };
    let count = |level: &Level| {
        level
            .count
            .map_or("all".to_owned(), |count| count.to_string())
    };
    let mut rows = vec![
        ("gas", of_levels(|level| level.gas.to_string())),
        ("count", of_levels(count)),
    ];
    match &settings.payloads {
        PayloadSource::Generated { .. } => rows.push(("mix", settings.mixes().join(", "))),
        PayloadSource::Folder { path } => rows.push(("payloads", path.display().to_string())),
    }
    match &settings.base {
        BaseSource::Generated { profile } => rows.push(("profile", profile.clone())),
        BaseSource::Datadir { path, in_place } => {
            rows.push(("datadir", path.display().to_string()));
            rows.push(("in-place", in_place.to_string()));
            let chain = settings
                .engines
                .iter()
                .find_map(|engine| engine.chain.clone());
            let of_datadir = || "the chain.json of the datadir, or the engine's own".to_owned();
            rows.push(("chain", chain.unwrap_or_else(of_datadir)));
        }
    }
    let lead_in = settings.lead_in.iter();
    rows.extend(lead_in.map(|folder| ("lead-in", folder.display().to_string())));
    let target = settings.target_block.map(|block| block.to_string());
    let target = target.unwrap_or_else(|| "the head of the datadir".to_owned());
    rows.push(("target-block", target));
    rows.push(("seed", settings.seed.to_string()));
    rows
}

/// How it is measured.
fn measuring(settings: &Settings) -> [Row; 14] {
    let warmup = match settings.warmup {
        WarmUp::Full => "full".to_owned(),
        WarmUp::None => "none".to_owned(),
        WarmUp::First(count) => count.to_string(),
    };
    let baseline = settings.baseline.clone();
    let baseline = baseline.unwrap_or_else(|| "the highest".to_owned());
    let on_disk = settings.wait_for_persistence.to_string();
    let ms = |duration_ms: u64| format!("{duration_ms}ms");
    [
        ("min-effect", percent(settings.min_effect)),
        ("baseline", baseline),
        ("no-aa", (!settings.controls).to_string()),
        ("order", word(&settings.order)),
        ("interleave", settings.interleave.to_string()),
        ("guard", word(&settings.guard)),
        ("allow-fallback", settings.allow_fallback.to_string()),
        ("warmup", warmup),
        ("reset", settings.reset.to_string()),
        ("wait-time", ms(settings.wait_time_ms)),
        ("wait-for-persistence", on_disk),
        ("ready-timeout", ms(settings.ready_timeout_ms)),
        ("request-timeout", ms(settings.request_timeout_ms)),
        ("cache-dir", settings.cache_dir.display().to_string()),
    ]
}

/// How many rounds there are, or what ends them.
fn rounds(settings: &Settings) -> Vec<Row> {
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
        // What a file says of engines is told of each of them.
        let elsewhere =
            "question engines payloads datadir lead-in in-place chain precision budget no-guard";
        let elsewhere: Vec<_> = elsewhere.split(' ').collect();
        for (key, _) in KEYS.iter().filter(|(key, _)| !elsewhere.contains(key)) {
            assert!(names.contains(key), "{key}");
        }
    }
}
