//! Values as they are typed: lists, gas amounts, durations, axes.
//!
//! Invariant: what parses is usable. Zero, empty items and unknown suffixes are refused here, with
//! the text that was typed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// Why a typed value was refused. Reads after "invalid value '…' for '--flag': ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Two commas in a row, a comma at an end, or nothing at all.
    #[error(
        "item {position} of the list `{list}` is empty; separate values with single commas, as in 15,30,60"
    )]
    EmptyItem {
        /// The whole list.
        list: String,
        /// Counted from one.
        position: usize,
    },
    /// The same value twice: two cells would have the same name.
    #[error("`{0}` is in the list twice; name each value once and use --rounds to repeat cells")]
    Duplicate(String),
    /// Not a chunk size.
    #[error("`{0}` is not a chunk size; give whole numbers of at least 1, as in 15,30,60")]
    ChunkSize(String),
    /// Not an amount of gas.
    #[error(
        "`{0}` is not an amount of gas; give a number of at least 1 with an optional K, M or G, as in 10M"
    )]
    Gas(String),
    /// Not a duration.
    #[error("`{typed}` is not a duration that fits here; {advice}")]
    Duration {
        /// What was typed.
        typed: String,
        /// What makes sense there.
        advice: String,
    },
    /// Not a percentage.
    #[error(
        "`{0}` is not a percentage above 0; give a number with a percent sign, as in 1% or 0.5%"
    )]
    Percent(String),
    /// Not a knob with values.
    #[error(
        "`{0}` is not an axis; give a flag of the engine and its values, as in engine.storage-worker-count=2,4, or env:NAME=V1,V2"
    )]
    Axis(String),
    /// Not a knob with one value.
    #[error(
        "`{0}` is not a knob with a value; give a flag of the engine and its value, as in engine.storage-worker-count=4"
    )]
    Setting(String),
    /// Not the name of an environment variable.
    #[error(
        "`{0}` is not the name of an environment variable; give letters, digits and _, as in env:MALLOC_CONF=a,b"
    )]
    Variable(String),
    /// Not a kind of warm-up.
    #[error("`{0}` is not a warm-up; give full, none, or a number of payloads")]
    WarmUp(String),
}

/// An amount of gas. Written with K, M or G where that is exact: `10M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gas(pub u64);

impl FromStr for Gas {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::Gas(text.to_owned());
        let (digits, scale) = match text.as_bytes().last() {
            Some(b'K' | b'k') => (&text[..text.len() - 1], 1_000),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
            Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
            _ => (text, 1),
        };
        let amount = whole_number(digits).and_then(|number| number.checked_mul(scale));
        amount.filter(|gas| *gas > 0).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for Gas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (scale, suffix) in [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")] {
            if self.0.is_multiple_of(scale) {
                return write!(f, "{}{suffix}", self.0 / scale);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// Gas levels of a sweep: `10M,40M`, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GasList(pub Vec<Gas>);

impl FromStr for GasList {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut levels = list(text, str::parse::<Gas>)?;
        levels.sort_unstable();
        Ok(Self(levels))
    }
}

/// Chunk sizes of a sweep: `15,30,60`, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkList(pub Vec<u64>);

impl FromStr for ChunkList {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut sizes = list(text, |item| {
            let size = whole_number(item).filter(|size| *size > 0);
            size.ok_or_else(|| ValueError::ChunkSize(item.to_owned()))
        })?;
        sizes.sort_unstable();
        Ok(Self(sizes))
    }
}

/// What the name of an axis begins with when it is an environment variable of the engine.
pub const VARIABLE_PREFIX: &str = "env:";

/// The axis of sweeps over several mixes of transactions: `--mix` with a list.
pub const MIX_AXIS: &str = "mix";

/// The value with which a flag is given without one.
pub const SWITCH_ON: &str = "on";

/// The value with which a flag is not given at all.
pub const SWITCH_OFF: &str = "off";

/// A knob of the engine and the values it takes: a flag without its dashes, or a variable of its
/// environment. A flag's value `on` is the flag alone, `off` is no flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The engine's flag without leading dashes, for example `engine.multiproof-chunk-size`, or
    /// `env:NAME`.
    pub flag: String,
    /// Its values, in the order they were given.
    pub values: Vec<String>,
}

impl Axis {
    /// Whether it is a flag on the engine's command line.
    pub fn is_engine_flag(&self) -> bool {
        is_engine_flag(&self.flag)
    }
}

impl FromStr for Axis {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::Axis(text.to_owned());
        let (flag, values) = text.split_once('=').ok_or_else(refused)?;
        let flag = knob_name(flag).map_err(|error| error.unwrap_or_else(refused))?;
        Ok(Self {
            flag,
            values: list(values, |item| Ok(item.to_owned()))?,
        })
    }
}

/// Whether a knob is a flag on the engine's command line: neither a variable of its environment nor
/// the mix of transactions.
pub(crate) fn is_engine_flag(knob: &str) -> bool {
    !knob.starts_with(VARIABLE_PREFIX) && knob != MIX_AXIS
}

/// A flag with its value, as an engine is given it; `None` when it is not given.
pub(crate) fn flag_text(flag: &str, value: &str) -> Option<String> {
    match value {
        SWITCH_ON => Some(format!("--{flag}")),
        SWITCH_OFF => None,
        value => Some(format!("--{flag}={value}")),
    }
}

/// The name of a knob without the dashes it may be typed with.
///
/// # Errors
/// The refusal, or `None` where only the caller knows the whole text.
pub(super) fn knob_name(typed: &str) -> Result<String, Option<ValueError>> {
    if let Some(variable) = typed.strip_prefix(VARIABLE_PREFIX) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let fits = !variable.is_empty()
            && variable.chars().all(plain)
            && !variable.starts_with(|c: char| c.is_ascii_digit());
        return if fits {
            Ok(typed.to_owned())
        } else {
            Err(Some(ValueError::Variable(variable.to_owned())))
        };
    }
    let flag = typed.trim_start_matches('-');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if flag.is_empty() || !flag.chars().all(plain) {
        return Err(None);
    }
    Ok(flag.to_owned())
}

/// A duration: `400ms`, `5s`, `2m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// Units of durations: as typed, in words, in milliseconds.
const UNITS: [(&str, &str, u64); 3] = [
    ("ms", "milliseconds", 1),
    ("s", "seconds", 1_000),
    ("m", "minutes", 60_000),
];

impl Span {
    /// Parses a duration of at least one `unit`, or of any length where that is `ms`: one without a unit is
    /// refused with this one, which makes sense there.
    ///
    /// # Errors
    /// When it is no such duration.
    pub fn parse(text: &str, unit: &str) -> Result<Self, ValueError> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let typed_unit = &text[digits.len()..];
        let found = UNITS.iter().find(|(short, ..)| *short == typed_unit);
        let millis = found.and_then(|(.., ms)| whole_number(digits)?.checked_mul(*ms));
        let fits = |ms: &u64| *ms > 0 || unit == "ms";
        if let Some(ms) = millis.filter(fits) {
            return Ok(Self(Duration::from_millis(ms)));
        }
        let words = UNITS.iter().find(|(short, ..)| *short == unit);
        let words = words.map_or(unit, |(_, words, _)| words);
        let advice = match whole_number(digits).filter(|_| typed_unit.is_empty()) {
            Some(number) => format!("write {number}{unit} for {number} {words}"),
            None => format!("give a number above 0 with ms, s or m, as in 20{unit}"),
        };
        let typed = text.to_owned();
        Err(ValueError::Duration { typed, advice })
    }
}

/// A relative difference: `1%` is 0.01.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::Percent(text.to_owned());
        let digits = text.strip_suffix('%').ok_or_else(refused)?.trim_end();
        let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = digits.parse().map_err(|_| refused())?;
        (plain && number > 0.0)
            .then(|| Self(number / 100.0))
            .ok_or_else(refused)
    }
}

/// How much of the payload list is replayed and discarded before the measured pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WarmUp {
    /// All of it.
    Full,
    /// Nothing: the measured pass is the first one.
    None,
    /// The first so many payloads.
    First(u64),
}

impl FromStr for WarmUp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "full" => Ok(Self::Full),
            "none" | "0" => Ok(Self::None),
            _ => whole_number(text)
                .map(Self::First)
                .ok_or_else(|| ValueError::WarmUp(text.to_owned())),
        }
    }
}

/// Splits at commas and refuses empty items and repeated values.
fn list<T: PartialEq>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Vec<T>, ValueError> {
    let mut values = Vec::new();
    for (index, item) in text.split(',').map(str::trim).enumerate() {
        if item.is_empty() {
            return Err(ValueError::EmptyItem {
                list: text.to_owned(),
                position: index + 1,
            });
        }
        let value = parse(item)?;
        if values.contains(&value) {
            return Err(ValueError::Duplicate(item.to_owned()));
        }
        values.push(value);
    }
    Ok(values)
}

/// Digits only: `u64::from_str` alone would take a leading plus.
fn whole_number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal<T: FromStr<Err = ValueError> + fmt::Debug>(text: &str) -> String {
        text.parse::<T>().unwrap_err().to_string()
    }

    #[test]
    fn good_values() {
        assert_eq!("15,30,60".parse(), Ok(ChunkList(vec![15, 30, 60])));
        assert_eq!("60, 15".parse(), Ok(ChunkList(vec![15, 60])));
        assert_eq!(
            "10M,1G,5k,7".parse(),
            Ok(GasList(
                [7, 5000, 10_000_000, 1_000_000_000].map(Gas).to_vec()
            ))
        );
        assert_eq!(
            Span::parse("400ms", "m"),
            Ok(Span(Duration::from_millis(400)))
        );
        assert_eq!(Span::parse("2m", "s"), Ok(Span(Duration::from_secs(120))));
        assert_eq!("5".parse(), Ok(WarmUp::First(5)));
        assert_eq!(
            "--engine.x=a,b".parse(),
            Ok(Axis {
                flag: "engine.x".into(),
                values: vec!["a".into(), "b".into()]
            })
        );
        let variable: Axis = "env:RAYON_NUM_THREADS=1,2".parse().unwrap();
        assert_eq!(variable.flag, "env:RAYON_NUM_THREADS");
        assert!(!variable.is_engine_flag());
    }

    #[test]
    fn refused_values_name_what_was_typed() {
        let refusals = [
            refusal::<ChunkList>("0"),
            refusal::<ChunkList>("15,,30"),
            refusal::<ChunkList>("abc"),
            refusal::<ChunkList>("15,15"),
            refusal::<ChunkList>("+5"),
            refusal::<ChunkList>(""),
            refusal::<GasList>("10X"),
            refusal::<GasList>("0"),
            refusal::<GasList>("M"),
            refusal::<GasList>("99999999999G"),
            refusal::<WarmUp>("half"),
            refusal::<Percent>("1"),
            refusal::<Percent>("0%"),
            refusal::<Percent>("-1%"),
            refusal::<Percent>("inf%"),
            refusal::<Axis>("engine.x"),
            refusal::<Axis>("=1"),
            refusal::<Axis>("env:=1"),
            refusal::<Axis>("env:2A=1"),
            refusal::<Axis>("env:A B=1,2"),
        ];
        insta::assert_snapshot!(refusals.join("\n"));
    }

    #[test]
    fn a_duration_without_a_unit_is_told_the_one_that_makes_sense_there() {
        for (typed, unit, advice) in [
            ("20", "m", "write 20m for 20 minutes"),
            ("90", "s", "write 90s for 90 seconds"),
            ("400", "ms", "write 400ms for 400 milliseconds"),
            ("5h", "m", "as in 20m"),
            ("0s", "m", "above 0"),
            ("0s", "s", "above 0"),
            ("soon", "s", "as in 20s"),
            ("-5s", "s", "as in 20s"),
            ("", "ms", "as in 20ms"),
        ] {
            let refused = Span::parse(typed, unit).unwrap_err().to_string();
            let begins = refused.starts_with(&format!("`{typed}` is not a duration"));
            assert!(begins && refused.contains(advice), "{refused}");
        }
        assert_eq!(Span::parse("0s", "ms"), Ok(Span(Duration::ZERO)));
    }

    proptest! {
        #[test]
        fn gas_reads_back_what_it_writes(gas in 1u64..u64::MAX) {
            prop_assert_eq!(Gas(gas).to_string().parse(), Ok(Gas(gas)));
        }

        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = text.parse::<GasList>();
            let _ = text.parse::<ChunkList>();
            let _ = Span::parse(&text, "m");
            let _ = text.parse::<Axis>();
            let _ = text.parse::<WarmUp>();
        }
    }
}
