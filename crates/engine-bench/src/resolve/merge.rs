//! A sweep file and the flags typed beside it, as one list of words.
//!
//! Invariant: a flag that is typed replaces the file's value of it; an axis, a `--set` or a `--base`
//! replaces the one of the same knob only. What contradicts then is refused by the flags' own rules.

use super::{
    FileError,
    file::{self, Word},
};
use crate::{
    cli::{Cli, SweepArgs, Verb},
    sweep::{Axis, CHUNK_SIZE_FLAG, Setting},
};
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, parser::ValueSource};
use std::{collections::BTreeMap, ffi::OsString, path::Path};

/// Flags that may be given once for each knob, which their value begins with.
const BY_KNOB: [&str; 3] = ["axis", "set", "base"];

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

/// Why flags and file do not go together.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The file is refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The words are refused, by flags or by both together.
    #[error("the flags and the sweep file contradict each other: {0}; omit one of them")]
    Contradiction(String),
}

/// The flags of a sweep with what its file says, and where each value comes from. `typed` are the
/// words of the command line from the program's name on.
///
/// # Errors
/// See [`MergeError`].
pub fn merge(
    args: SweepArgs,
    typed: &[OsString],
) -> Result<(SweepArgs, Origins, Option<String>), MergeError> {
    let matches = Cli::command().try_get_matches_from(typed).ok();
    let matches = matches
        .as_ref()
        .and_then(|all| all.subcommand_matches("sweep"));
    let Some(path) = args.file.clone() else {
        let origins = origins(&args, matches, &[]);
        return Ok((args, origins, None));
    };
    let file = file::read(&path)?;
    let kept: Vec<Word> = file
        .words
        .into_iter()
        .filter(|word| !is_replaced(word, &args, matches))
        .collect();
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
    let Some(matches) = matches else { return false };
    let id = flag_id(flag);
    let known = matches.try_contains_id(&id).is_ok();
    known && matches.value_source(&id) == Some(ValueSource::CommandLine)
}

/// The id of a flag's argument: those that hold several values are named by the plural.
fn flag_id(flag: &str) -> String {
    let cli = Cli::command();
    let found = cli.find_subcommand("sweep").and_then(|sweep| {
        let mut flags = sweep.get_arguments();
        flags.find(|argument| argument.get_long() == Some(flag))
    });
    found.map_or_else(String::new, |argument| argument.get_id().to_string())
}

fn parse(typed: &[OsString], kept: &[Word], path: &Path) -> Result<SweepArgs, MergeError> {
    let mut words = typed.to_vec();
    words.extend(kept.iter().map(|word| OsString::from(&word.text)));
    let contradiction = |error: clap::Error| {
        MergeError::Contradiction(format!("{} ({})", said(&error), path.display()))
    };
    let matches = Cli::command().try_get_matches_from(words);
    let cli = Cli::from_arg_matches(&matches.map_err(contradiction)?).map_err(contradiction)?;
    match cli.verb {
        Verb::Sweep(args) => Ok(*args),
        _ => Err(MergeError::Contradiction("no sweep".to_owned())),
    }
}

/// The origins of what was typed, as `args` and `matches` say, and of the words kept of a file.
fn origins(args: &SweepArgs, matches: Option<&ArgMatches>, kept: &[Word]) -> Origins {
    let of_file = kept.iter().map(|word| match &word.knob {
        Some(knob) => (format!("{} {knob}", word.flag), Origin::File),
        None => (word.flag.to_owned(), Origin::File),
    });
    let cli = Cli::command();
    let sweep = cli.find_subcommand("sweep");
    let flags = sweep.into_iter().flat_map(clap::Command::get_arguments);
    let typed = flags
        .filter_map(|argument| argument.get_long())
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

/// Whether a flag may be given once for each knob.
pub(super) fn is_by_knob(flag: &str) -> bool {
    BY_KNOB.contains(&flag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
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
