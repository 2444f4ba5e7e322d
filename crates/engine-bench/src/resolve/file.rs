//! Sweep files: TOML whose keys are flags of `sweep`, without their dashes.
//!
//! Invariant: a file becomes the words that would be typed for it, so what a value may be is said in
//! one place, the flag. A key that is no flag is refused with the nearest one that is. Paths are
//! relative to the folder of the file.

use super::{
    merge::said,
    schema::{KEYS, Shape, flag},
};
use crate::cli::SweepArgs;
use eyre::{Report, Result, eyre};
use std::{fs, path::Path};
use toml::{Table, Value};

/// What a sweep file says.
#[derive(Debug)]
pub(super) struct SweepFile {
    /// The words that it stands for, each a flag with its value.
    pub(super) words: Vec<Word>,
    /// What the sweep is to answer.
    pub(super) question: Option<String>,
}

/// A word that would be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The flag without dashes.
    pub(super) flag: &'static str,
    /// The knob that the value begins with, for flags that are given once for each knob.
    pub(super) knob: Option<String>,
    /// The word.
    pub(super) text: String,
}

impl Word {
    fn new(flag: &'static str, value: &str) -> Self {
        Self {
            flag,
            knob: None,
            text: format!("--{flag}={value}"),
        }
    }
}

/// Reads a sweep file. Every value was accepted by its flag on its own.
pub(super) fn read(path: &Path) -> Result<SweepFile> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|reason| {
        eyre!("failed to read the sweep file {shown}: {reason}; check the path")
    })?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let reason = error.to_string();
        eyre!("the sweep file {shown} is not TOML: {}", reason.trim_end())
    })?;
    let reading = Reading { path };
    let mut words = Vec::new();
    for (name, value) in &table {
        let key = KEYS.into_iter().find(|(key, _)| key == name);
        let key = key.ok_or_else(|| {
            let advice = advice(name);
            eyre!("the sweep file {shown} has the unknown key `{name}`; {advice}")
        })?;
        words.extend(reading.words(key, value)?);
    }
    for word in &words {
        reading.check(word)?;
    }
    let question = table.get("question").and_then(Value::as_str);
    Ok(SweepFile {
        words,
        question: question.map(|text| text.trim().to_owned()),
    })
}

/// A file being turned into words.
struct Reading<'a> {
    path: &'a Path,
}

impl Reading<'_> {
    /// The words that a key stands for.
    fn words(&self, (name, shape): (&'static str, Shape), value: &Value) -> Result<Vec<Word>> {
        let one = |text: String| vec![Word::new(name, &text)];
        let needs = || self.needs(name, shape.needed());
        Ok(match (shape, value) {
            (Shape::Question, Value::String(_)) => Vec::new(),
            (Shape::Text, Value::String(text)) => one(text.clone()),
            (Shape::Number, Value::Integer(_)) | (Shape::TextOrNumber, _) => {
                one(scalar(value).ok_or_else(needs)?)
            }
            (Shape::Switch, Value::Boolean(false)) => Vec::new(),
            (Shape::Switch, Value::Boolean(true)) => vec![Word {
                text: format!("--{name}"),
                ..Word::new(name, "")
            }],
            (Shape::Path, Value::String(text)) => one(self.resolved(text)),
            (Shape::List, _) => one(list(value).ok_or_else(needs)?),
            (Shape::Engines, _) => {
                let names = items(value).ok_or_else(needs)?;
                let engine = |text: String| Word::new(name, &self.engine(&text));
                names.into_iter().map(engine).collect()
            }
            (Shape::Axes | Shape::Values, Value::Table(knobs)) => {
                let (of, needed): (fn(&Value) -> _, _) = match shape {
                    Shape::Axes => (list, Shape::List.needed()),
                    _ => (scalar, "one value, without commas in it"),
                };
                let knob = |(flag, value): (&String, &Value)| {
                    let text = of(value).ok_or_else(|| self.needs(flag, needed))?;
                    Ok::<_, Report>(Word {
                        knob: Some(flag.trim_start_matches('-').to_owned()),
                        ..Word::new(name, &format!("{flag}={text}"))
                    })
                };
                knobs.iter().map(knob).collect::<Result<_, _>>()?
            }
            (Shape::Exclusions, Value::Array(tables)) => {
                let exclusion = |table: &Value| Some(Word::new(name, &exclusion(table)?));
                let words: Option<Vec<Word>> = tables.iter().map(exclusion).collect();
                words.ok_or_else(needs)?
            }
            _ => return Err(needs()),
        })
    }

    fn refused(&self, reason: &str) -> Report {
        eyre!("the sweep file {}: {reason}", self.path.display())
    }

    fn needs(&self, key: &str, needed: &str) -> Report {
        self.refused(&format!("`{key}` needs {needed}"))
    }

    /// An engine of the file: names stay, paths are relative to the file.
    fn engine(&self, text: &str) -> String {
        let place = text.find('=').map_or(0, |equals| equals + 1);
        let (name, place) = text.split_at(place);
        if !place.contains('/') {
            return text.to_owned();
        }
        format!("{name}{}", self.resolved(place))
    }

    fn resolved(&self, path: &str) -> String {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        folder.join(path).to_string_lossy().into_owned()
    }

    /// Has the flag judge its value, apart from all others.
    fn check(&self, word: &Word) -> Result<()> {
        // What a flag needs beside it is looked at when all are together.
        if word.text == format!("--{}", word.flag) {
            return Ok(());
        }
        let parsed = SweepArgs::alone(&[&word.text]);
        parsed
            .map(drop)
            .map_err(|error| self.refused(&said(&error)))
    }
}

/// The nearest key, or all of them.
fn advice(key: &str) -> String {
    if flag(key).is_some() {
        return format!("it is not part of a sweep; give --{key} as a flag");
    }
    let names = KEYS.map(|(name, _)| name);
    let distance = |known: &&str| strsim::damerau_levenshtein(key, known);
    let near = names.iter().copied().min_by_key(distance);
    match near.filter(|near| distance(near) <= key.len() / 3) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys are {}", names.join(", ")),
    }
}

/// A value that is one word; `None` when it is none, or would be read as several.
pub(super) fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(set) => set.to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => return None,
    };
    (!text.contains(',')).then_some(text)
}

/// One value or several.
fn items(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        one => Some(vec![scalar(one)?]),
    }
}

fn list(value: &Value) -> Option<String> {
    items(value).map(|items| items.join(","))
}

fn exclusion(table: &Value) -> Option<String> {
    let pair = |(axis, value): (&String, &Value)| Some(format!("{axis}={}", scalar(value)?));
    let pairs: Option<Vec<String>> = table.as_table()?.iter().map(pair).collect();
    pairs.map(|pairs| pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SweepFile, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sweep.toml");
        fs::write(&path, text).unwrap();
        let shown = |text: String| text.replace(dir.path().to_str().unwrap(), "DIR");
        let mut file = read(&path).map_err(|error| shown(error.to_string()))?;
        for word in &mut file.words {
            word.text = shown(std::mem::take(&mut word.text));
        }
        Ok(file)
    }

    #[test]
    fn every_key_becomes_its_flag() {
        let file = parse(
            "question = \" Which? \"\nchunks = [15, 30]\ngas = \"10M\"\nmix = [\"mainnet\", \"whale\"]\n\
             engine = [\"bench-reth\", \"old=./reth\"]\nrounds = 3\nwarmup = 5\nin-place = false\n\
             wait-time = \"400ms\"\ndatadir = \"state\"\n[axis]\n\"env:A\" = [\"x\", 2]\n\
             [set]\n\"engine.y\" = true\n[[exclude]]\n\"env:A\" = 2\ngas = \"10M\"\n",
        )
        .unwrap();
        assert_eq!(file.question.as_deref(), Some("Which?"));
        let words: Vec<&str> = file.words.iter().map(|word| word.text.as_str()).collect();
        insta::assert_snapshot!(words.join("\n"));
        let knobs: Vec<_> = file
            .words
            .iter()
            .filter_map(|word| word.knob.clone())
            .collect();
        assert_eq!(knobs, ["env:A", "engine.y"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusals = [
            "chunk = [1, 2]",
            "wait_time = \"400ms\"",
            "complete-nonsense = 1",
            "chunks = [0]",
            "chunks = [[1]]",
            "gas = \"10X\"",
            "rounds = \"three\"",
            "question = 3",
            "[axis]\n\"engine.x\" = [\"a,b\"]",
            "[set]\n\"engine.x\" = [1]",
            "exclude = [1]",
            "gas = 10M",
            "out = \"somewhere\"",
        ];
        let told = refusals.map(|text| parse(text).unwrap_err());
        insta::assert_snapshot!(told.join("\n"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z\\[\\]=\"'., \n0-9-]{0,60}") {
            let _ = parse(&text);
        }
    }
}
