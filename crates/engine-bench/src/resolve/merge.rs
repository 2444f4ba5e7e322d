//! A sweep file and the flags typed beside it, as one list of words.
//!
//! Invariant: a flag that is typed replaces the file's value of it; an axis, a `--set` or a `--base`
//! replaces the one of the same knob only. What contradicts then is refused by the flags' own rules.

use super::{
    file::{self, Word},
    schema,
};
use crate::{
    cli::{Cli, SweepArgs, Verb},
    sweep::{Axis, CHUNK_SIZE_FLAG, Setting},
};
use clap::{ArgMatches, CommandFactory as _, Parser as _, parser::ValueSource};
use eyre::{Result, eyre};
use std::{collections::BTreeMap, ffi::OsString, path::Path};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was typed.
    Flag,
    /// The sweep file says so.
    File,
}

/// Where the values come from that are not defaults, by name of the flag; `axis`, `set` and `base`
/// also by the knob, as in `axis engine.x`.
pub type Origins = BTreeMap<String, Origin>;

/// The flags of a sweep with what its file says, and where each value comes from. `typed` are the
/// words of the command line from the program's name on.
///
/// # Errors
/// When the file is refused, or contradicts what is typed.
pub fn merge(args: SweepArgs, typed: &[OsString]) -> Result<(SweepArgs, Origins, Option<String>)> {
    let all = Cli::command().try_get_matches_from(typed).ok();
    let matches = all.as_ref().and_then(|all| all.subcommand_matches("sweep"));
    let Some(path) = args.file.clone() else {
        let origins = origins(&args, matches, &[]);
        return Ok((args, origins, None));
    };
    let file = file::read(&path)?;
    let mut kept = file.words;
    kept.retain(|word| !is_replaced(word, &args, matches));
    let merged = parse(typed, &kept, &path)?;
    Ok((merged, origins(&args, matches, &kept), file.question))
}

/// Whether a word of the file gives way to what was typed.
fn is_replaced(word: &Word, args: &SweepArgs, matches: Option<&ArgMatches>) -> bool {
    let Some(knob) = &word.knob else {
        let chunks_as_axis = word.flag == "chunks" && sweeps(&args.axes, CHUNK_SIZE_FLAG);
        return was_typed(matches, word.flag) || chunks_as_axis;
    };
    let set = |settings: &[Setting]| settings.iter().any(|setting| setting.flag == *knob);
    let axis = sweeps(&args.axes, knob) || (knob == CHUNK_SIZE_FLAG && args.chunks.is_some());
    match word.flag {
        // A knob that is typed as an axis is no longer one that stays, and the other way round.
        "axis" | "set" => axis || set(&args.set),
        _ => set(&args.standing),
    }
}

fn sweeps(axes: &[Axis], knob: &str) -> bool {
    axes.iter().any(|axis| axis.flag == knob)
}

fn was_typed(matches: Option<&ArgMatches>, flag: &str) -> bool {
    let source = || {
        // Arguments that hold several values are named by the plural.
        let (matches, argument) = (matches?, schema::flag(flag)?);
        let id = argument.get_id().as_str();
        matches.try_contains_id(id).ok()?;
        matches.value_source(id)
    };
    source() == Some(ValueSource::CommandLine)
}

fn parse(typed: &[OsString], kept: &[Word], path: &Path) -> Result<SweepArgs> {
    let kept = kept.iter().map(|word| OsString::from(&word.text));
    let reason = match Cli::try_parse_from(typed.iter().cloned().chain(kept)) {
        Ok(Cli {
            verb: Verb::Sweep(args),
        }) => return Ok(*args),
        Ok(_) => "no sweep".to_owned(),
        Err(error) => format!("{} ({})", said(&error), path.display()),
    };
    let what = "the flags and the sweep file contradict each other";
    Err(eyre!("{what}: {reason}; omit one of them"))
}

/// The origins of what was typed, as `args` and `matches` say, and of the words kept of a file.
fn origins(args: &SweepArgs, matches: Option<&ArgMatches>, kept: &[Word]) -> Origins {
    let of_file = kept.iter().map(|word| match &word.knob {
        Some(knob) => (format!("{} {knob}", word.flag), Origin::File),
        None => (word.flag.to_owned(), Origin::File),
    });
    let flags = schema::flags();
    let flags = flags.iter().filter_map(|argument| argument.get_long());
    let typed = flags
        .filter(|flag| was_typed(matches, flag))
        .map(str::to_owned);
    let axes = args.axes.iter().map(|axis| format!("axis {}", axis.flag));
    let set = args.set.iter().map(|set| format!("set {}", set.flag));
    let standing = args.standing.iter().map(|set| format!("base {}", set.flag));
    let typed = typed.chain(axes).chain(set).chain(standing);
    of_file
        .chain(typed.map(|name| (name, Origin::Flag)))
        .collect()
}

/// What is wrong, in one line.
pub(super) fn said(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let lines: Vec<&str> = lines.map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The flags after merging what is typed with a file of this text.
    fn merged(text: &str, typed: &str) -> Result<(SweepArgs, Origins), String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.toml");
        fs::write(&path, text).unwrap();
        let line = format!("engine-bench sweep {} {typed}", path.display());
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Verb::Sweep(args) = Cli::try_parse_from(&words).unwrap().verb else {
            panic!("not a sweep")
        };
        let merged = merge(*args, &words).map_err(|error| error.to_string());
        merged.map(|(args, origins, _)| (args, origins))
    }

    #[test]
    fn what_is_typed_replaces_what_the_file_says() {
        let text = "chunks = [15, 30]\ngas = [\"10M\", \"40M\"]\nseed = 7\nengine = \"bench-reth\"\n\
                    [axis]\n\"engine.x\" = [1, 2]\n\"engine.y\" = [1, 2]\n[set]\n\"engine.z\" = 1\n";
        let (args, origins) = merged(
            text,
            "--gas 2M --axis engine.x=8,9 --axis engine.z=1,2 --engine a=x --set engine.y=5",
        )
        .unwrap();
        assert_eq!(args.chunks.unwrap().0, [15, 30]);
        assert_eq!((args.gas.unwrap().0.len(), args.state.seed), (1, 7));
        assert_eq!(args.engines, ["a=x"]);
        let axes: Vec<_> = args
            .axes
            .iter()
            .map(|axis| (&*axis.flag, &*axis.values[0]))
            .collect();
        assert_eq!(axes, [("engine.x", "8"), ("engine.z", "1")]);
        assert_eq!(args.set.len(), 1);
        for (flag, origin) in [
            ("chunks", Some(Origin::File)),
            ("gas", Some(Origin::Flag)),
            ("seed", Some(Origin::File)),
            ("axis engine.x", Some(Origin::Flag)),
            ("axis engine.y", None),
            ("set engine.y", Some(Origin::Flag)),
            ("mix", None),
        ] {
            assert_eq!(origins.get(flag).copied(), origin, "{flag}");
        }
        let (args, _) = merged(text, "--axis engine.multiproof-chunk-size=1,2").unwrap();
        assert!(args.chunks.is_none() && args.axes.len() == 3);
    }

    #[test]
    fn what_cannot_be_together_is_refused() {
        let told = merged("in-place = true\n", "").unwrap_err();
        for part in ["contradict", "--datadir", "sweep.toml"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
