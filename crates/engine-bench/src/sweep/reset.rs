//! How a datadir is reset to the base block, as it is typed.
//!
//! Invariant: what parses reads back as it was typed.

use super::ValueError;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How the datadir is reset to the base block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ResetMethod {
    /// `stage unwind` of the engine that wrote it.
    #[default]
    Unwind,
    /// A new copy of a pristine datadir.
    Copy,
    /// A new copy that shares its extents with the pristine datadir, on file systems that can.
    Reflink,
    /// The pristine datadir under an empty layer of an overlay file system.
    Overlay,
    /// A program of the user's, with its arguments.
    Command(Vec<String>),
}

/// The methods that are one word.
const WORDS: [(&str, ResetMethod); 4] = [
    ("unwind", ResetMethod::Unwind),
    ("copy", ResetMethod::Copy),
    ("reflink", ResetMethod::Reflink),
    ("overlay", ResetMethod::Overlay),
];

/// What the name of a program of the user's follows.
const COMMAND_PREFIX: &str = "command:";

impl ResetMethod {
    /// Whether the datadir is brought back to what the pristine one is, rather than worked on as it stands.
    pub fn starts_afresh(&self) -> bool {
        matches!(self, Self::Copy | Self::Reflink | Self::Overlay)
    }

    /// What it is called without what a command is made of.
    pub fn name(&self) -> &'static str {
        let mut words = WORDS.iter();
        words
            .find(|(_, method)| method == self)
            .map_or("command", |(word, _)| word)
    }
}

impl FromStr for ResetMethod {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some((_, method)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(method.clone());
        }
        let command = text.strip_prefix(COMMAND_PREFIX).and_then(shlex::split);
        let needed = "a way to reset a datadir; give unwind, copy, reflink, overlay, or command: and a program with \
                      its arguments, as in 'command:zfs rollback tank/reth@base'";
        let command = command.filter(|words| !words.is_empty());
        command
            .map(Self::Command)
            .ok_or_else(|| ValueError::not(text, needed))
    }
}

impl TryFrom<String> for ResetMethod {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        text.parse()
    }
}

impl From<ResetMethod> for String {
    fn from(method: ResetMethod) -> Self {
        method.to_string()
    }
}

impl fmt::Display for ResetMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Command(words) = self else {
            return f.write_str(self.name());
        };
        // What was typed holds no byte that cannot be quoted.
        let words = words.iter().map(String::as_str);
        let line = shlex::try_join(words).map_err(|_| fmt::Error)?;
        write!(f, "{COMMAND_PREFIX}{line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_method_reads_back_and_others_are_refused() {
        for text in [
            "unwind",
            "copy",
            "reflink",
            "overlay",
            "command:zfs rollback tank/reth@base",
            "command:./reset 'two words'",
        ] {
            let method: ResetMethod = text.parse().unwrap();
            assert_eq!(method.to_string(), text);
        }
        for text in ["", "snapshot", "command:", "command: ", "command:'open"] {
            let refused = text.parse::<ResetMethod>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("`{text}` is not a way to reset")));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "command:[ -~]{0,20}") {
            if let Ok(method) = text.parse::<ResetMethod>() {
                prop_assert_eq!(method.to_string().parse(), Ok(method));
            }
        }
    }
}
