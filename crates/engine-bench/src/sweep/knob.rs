//! Knobs with one value: what every cell gets, where one-at-a-time designs stand, what is left out.
//!
//! Invariant: names of knobs are spelled as axes spell them, without leading dashes.

use super::{ValueError, value::knob_name};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A knob and its one value: `engine.storage-worker-count=4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The knob, spelled as an axis.
    pub flag: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Setting {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let needed = "a knob with a value; give a flag of the engine and its value, as in \
                      engine.storage-worker-count=4";
        let refused = || ValueError::not(text, needed);
        let pair = text.split_once('=').filter(|(_, value)| !value.is_empty());
        let (flag, value) = pair.ok_or_else(refused)?;
        Ok(Self {
            flag: knob_name(flag, refused)?,
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.flag, self.value)
    }
}

/// Cells that are not visited: those with all of these values. Names are axes, `gas`, `mix` and
/// `engine`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Exclusion(pub Vec<Setting>);

impl FromStr for Exclusion {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let settings = text.split(',').map(|pair| pair.trim().parse());
        settings.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(Setting::to_string).collect();
        f.write_str(&pairs.join(","))
    }
}

/// Which combinations of axis values become cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// All of them.
    #[default]
    Full,
    /// A base, and every other value of each axis with the rest as in the base.
    OneAtATime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_values_read_back() {
        for text in ["engine.x=1", "env:A=b=c", "gas=10M"] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
        let exclusion: Exclusion = "--engine.x=1, gas=40M".parse().unwrap();
        assert_eq!(exclusion.to_string(), "engine.x=1,gas=40M");
    }

    #[test]
    fn refused_values_name_what_was_typed() {
        for text in ["engine.x", "=1", "engine.x=", "env:2=1", "a b=1", ""] {
            let told = text.parse::<Setting>().unwrap_err().to_string();
            let name = text.strip_prefix("env:2").map_or(text, |_| "2");
            assert!(told.contains(&format!("`{name}`")), "{text}: {told}");
            assert!(text.parse::<Exclusion>().is_err(), "{text}");
        }
    }
}
