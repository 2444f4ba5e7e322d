//! The keys of a sweep file, and their JSON schema for editors.
//!
//! Invariant: a key has the name of a flag of `sweep`, and is described by that flag's own help.

use crate::cli::Cli;
use clap::{Arg, CommandFactory as _};
use serde_json::{Map, Value, json};

/// What the value of a key looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A sentence for readers; no flag.
    Question,
    Text,
    Number,
    TextOrNumber,
    Switch,
    Path,
    /// Values of one flag, separated by commas there.
    List,
    /// Engines: a flag each.
    Engines,
    /// Knobs with several values each.
    Axes,
    /// Knobs with one value each.
    Values,
    /// Combinations of values.
    Exclusions,
}

/// Every key. What says where to write or how to print is not the sweep's own and has none.
pub(super) const KEYS: [(&str, Shape); 37] = [
    ("question", Shape::Question),
    ("chunks", Shape::List),
    ("gas", Shape::List),
    ("axis", Shape::Axes),
    ("set", Shape::Values),
    ("design", Shape::Text),
    ("base", Shape::Values),
    ("exclude", Shape::Exclusions),
    ("engine", Shape::Engines),
    ("engines", Shape::Path),
    ("profile", Shape::Text),
    ("seed", Shape::Number),
    ("mix", Shape::List),
    ("count", Shape::Number),
    ("datadir", Shape::Path),
    ("in-place", Shape::Switch),
    ("chain", Shape::Text),
    ("payloads", Shape::Path),
    ("lead-in", Shape::Path),
    ("target-block", Shape::Number),
    ("rounds", Shape::Number),
    ("precision", Shape::Text),
    ("budget", Shape::Text),
    ("min-effect", Shape::Text),
    ("baseline", Shape::Text),
    ("no-aa", Shape::Switch),
    ("order", Shape::Text),
    ("interleave", Shape::Switch),
    ("guard", Shape::Text),
    ("no-guard", Shape::Switch),
    ("allow-fallback", Shape::Switch),
    ("warmup", Shape::TextOrNumber),
    ("reset", Shape::Text),
    ("wait-time", Shape::Text),
    ("wait-for-persistence", Shape::Switch),
    ("ready-timeout", Shape::Text),
    ("request-timeout", Shape::Text),
];

impl Shape {
    /// What a value must be, for a person.
    pub(super) fn needed(self) -> &'static str {
        match self {
            Self::Question | Self::Text | Self::Path => "a text in quotes",
            Self::Number => "a whole number",
            Self::TextOrNumber => "a text in quotes or a number",
            Self::Switch => "true or false",
            Self::List => "a value or a list of values, without commas in them",
            Self::Engines => "an engine or a list of engines, each a text in quotes",
            Self::Axes => "a table of flags, each with a list of values without commas in them",
            Self::Values => "a table of flags, each with one value",
            Self::Exclusions => "an array of tables, each with values of axes ([[exclude]])",
        }
    }

    fn schema(self) -> Value {
        let scalar = json!({ "type": ["string", "number", "boolean"] });
        let several =
            json!({ "type": "array", "items": scalar, "minItems": 1, "uniqueItems": true });
        let either = |one: Value, many: &Value| json!({ "anyOf": [one, many] });
        match self {
            Self::Question | Self::Text | Self::Path => json!({ "type": "string" }),
            Self::Number => json!({ "type": "integer", "minimum": 0 }),
            Self::TextOrNumber => json!({ "type": ["string", "integer"] }),
            Self::Switch => json!({ "type": "boolean" }),
            Self::List | Self::Engines => either(scalar.clone(), &several),
            Self::Axes => json!({ "type": "object", "additionalProperties": several }),
            Self::Values => json!({ "type": "object", "additionalProperties": scalar }),
            Self::Exclusions => json!({
                "type": "array",
                "items": { "type": "object", "additionalProperties": scalar, "minProperties": 1 },
            }),
        }
    }
}

/// The JSON schema (draft 2020-12) of a sweep file.
pub fn schema() -> Value {
    let mut properties = Map::new();
    for (name, shape) in KEYS {
        let mut property = shape.schema();
        property["description"] = description(name).into();
        let words = words(name);
        if shape == Shape::Text && !words.is_empty() {
            property["enum"] = words.into();
        }
        properties.insert(name.to_owned(), property);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of engine-bench",
        "description": "Keys are flags of `engine-bench sweep` without their dashes.",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Every flag of `sweep`.
pub(super) fn flags() -> Vec<Arg> {
    let cli = Cli::command();
    let flags = cli
        .find_subcommand("sweep")
        .map(clap::Command::get_arguments);
    flags.into_iter().flatten().cloned().collect()
}

/// The flag of `sweep` of that name.
pub(super) fn flag(name: &str) -> Option<Arg> {
    let mut flags = flags().into_iter();
    flags.find(|flag| flag.get_long() == Some(name))
}

/// The words that a flag takes, where they can be listed.
fn words(name: &str) -> Vec<String> {
    let words = flag(name).map(|flag| flag.get_possible_values());
    let words = words.into_iter().flatten();
    words.map(|word| word.get_name().to_owned()).collect()
}

/// All help of the flag of that name, as one paragraph.
fn description(name: &str) -> String {
    let help = |flag: Arg| {
        let help = flag.get_long_help().or_else(|| flag.get_help())?;
        Some(help.to_string().replace("\n\n", ". "))
    };
    let found = flag(name).and_then(help);
    found.unwrap_or_else(|| "What the sweep is to answer, for its readers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_flag_takes_are_listed() {
        let schema = schema();
        let words = |key: &str| &schema["properties"][key]["enum"];
        assert_eq!(words("guard"), &json!(["warn", "void", "off"]));
        assert_eq!(
            words("order"),
            &json!(["random", "williams", "abba", "sequential"])
        );
        for key in ["profile", "budget", "in-place", "warmup"] {
            assert!(words(key).is_null(), "{key}");
        }
    }

    #[test]
    fn every_key_is_a_flag() {
        let flags = flags();
        let flags: Vec<_> = flags.iter().filter_map(Arg::get_long).collect();
        for (name, shape) in KEYS {
            assert!(shape == Shape::Question || flags.contains(&name), "{name}");
        }
        // What is left has no place in a file.
        let kept_out = "cache-dir out resume trace trace-to trace-pages profiler metrics dry-run json \
                        quiet yes help";
        let kept_out: Vec<_> = kept_out.split(' ').collect();
        let known =
            |flag: &&str| KEYS.iter().any(|(key, _)| key == flag) || kept_out.contains(flag);
        let left: Vec<_> = flags.iter().filter(|flag| !known(flag)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
