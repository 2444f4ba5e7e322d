//! What an engine's help says about its flags.

use super::process::answer_of;
use crate::sweep::{EngineKind, EngineSpec};
use std::collections::BTreeMap;

/// The help text of the command that starts a node; empty when there is none, as where asking for it fails.
pub(crate) fn help(engine: &EngineSpec) -> String {
    let words = node_words(engine.kind).iter().chain(&["--help"]);
    let words: Vec<&str> = words.copied().collect();
    let answer = answer_of(&engine.program, &words).ok();
    let answer = answer.filter(|answer| answer.succeeded);
    answer.map_or(String::new(), |answer| answer.output)
}

/// The words before the flags of the command that starts a node.
pub(super) fn node_words(kind: EngineKind) -> &'static [&'static str] {
    match kind {
        EngineKind::BenchReth | EngineKind::Reth => &["node"],
        EngineKind::Geth | EngineKind::Ethrex => &[],
    }
}

/// How a person asks for that help.
pub(crate) fn help_command(engine: &EngineSpec) -> String {
    let program = engine.program.display();
    let words = node_words(engine.kind)
        .iter()
        .map(|word| format!("{word} "));
    format!("{program} {}--help", words.collect::<String>())
}

/// Whether a help text has the flag as a whole word.
pub(crate) fn names_flag(help: &str, flag: &str) -> bool {
    !mentions(help, flag).is_empty()
}

/// What stands before and behind each mention of a flag as a whole word.
fn mentions<'h>(help: &'h str, flag: &str) -> Vec<(&'h str, &'h str)> {
    let ends_word = |(_, rest): &(&str, &str)| {
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    let spelled = format!("--{flag}");
    let found = help.match_indices(&spelled);
    let around = found.map(|(at, _)| (&help[..at], &help[at + spelled.len()..]));
    around.filter(ends_word).collect()
}

/// What an engine's help calls the defaults of flags; those of which it names none are left out.
pub(crate) fn defaults(engine: &EngineSpec, flags: &[&str]) -> BTreeMap<String, String> {
    let help = help(engine);
    let found = |flag: &&str| Some(((*flag).to_owned(), default_of(&help, flag)?));
    flags.iter().filter_map(found).collect()
}

/// The value behind `default: ` in the entry of a flag, which begins a line and ends where the next one begins.
fn default_of(help: &str, flag: &str) -> Option<String> {
    let begins_line = |before: &str| {
        let line = before.rsplit('\n').next().unwrap_or_default().trim();
        line.is_empty() || line.starts_with('-')
    };
    let entries = mentions(help, flag).into_iter();
    let mut entries = entries.filter(|(before, _)| begins_line(before));
    entries.find_map(|(_, rest)| {
        let lines = rest.match_indices('\n').map(|(at, _)| at);
        let mut next = lines.filter(|at| rest[at + 1..].trim_start().starts_with('-'));
        let entry = &rest[..next.next().unwrap_or(rest.len())];
        let (_, value) = entry.split_once("default: ")?;
        let end = value.find([']', ')', '\n'])?;
        Some(value[..end].trim_matches('"').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_what_the_entry_of_a_flag_says() {
        let help = "  -a, --a.b <N>\n          As --a.c does\n\n          [default: 60]\n\n      --a.c <N>\n\
                    \n      --d value     (default: \"x y\")\n   --a.b-e <N>  [default: 1]\n";
        for (flag, expected) in [
            ("a.b", Some("60")),
            ("a.c", None),
            ("d", Some("x y")),
            ("a", None),
        ] {
            assert_eq!(default_of(help, flag).as_deref(), expected, "{flag}");
        }
    }
}
