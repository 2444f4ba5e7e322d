//! Values as they are typed: lists, gas amounts, durations, axes.
//!
//! Invariant: what parses is usable. Zero, empty items and unknown suffixes are refused here, with
//! the text that was typed.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// Why a typed value was refused. Reads after "invalid value '…' for '--flag': ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    /// What was typed is not what is needed, and what to give instead.
    pub(super) fn not(typed: &str, needed: &str) -> Self {
        Self(format!("`{typed}` is not {needed}"))
    }
}

/// An amount of gas. Written with K, M or G where that is exact: `10M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gas(pub u64);

/// Suffixes of amounts of gas.
const SCALES: [(char, u64); 3] = [('G', 1_000_000_000), ('M', 1_000_000), ('K', 1_000)];

impl FromStr for Gas {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let upper = text.to_ascii_uppercase();
        let scaled = |(suffix, scale)| Some((upper.strip_suffix(suffix)?, scale));
        let (digits, scale) = SCALES.into_iter().find_map(scaled).unwrap_or((&upper, 1));
        let amount = whole_number(digits).and_then(|number| number.checked_mul(scale));
        let needed =
            "an amount of gas; give a number of at least 1 with an optional K, M or G, as in 10M";
        let amount = amount.filter(|gas| *gas > 0).map(Self);
        amount.ok_or_else(|| ValueError::not(text, needed))
    }
}

impl fmt::Display for Gas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SCALES
            .iter()
            .find(|(_, scale)| self.0.is_multiple_of(*scale))
        {
            Some((suffix, scale)) => write!(f, "{}{suffix}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
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
            let needed = "a chunk size; give whole numbers of at least 1, as in 15,30,60";
            let size = whole_number(item).filter(|size| *size > 0);
            size.ok_or_else(|| ValueError::not(item, needed))
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
        let needed = "an axis; give a flag of the engine and its values, as in \
                      engine.storage-worker-count=2,4, or env:NAME=V1,V2";
        let refused = || ValueError::not(text, needed);
        let (flag, values) = text.split_once('=').ok_or_else(refused)?;
        Ok(Self {
            flag: knob_name(flag, refused)?,
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

/// The name of a knob without the dashes it may be typed with; `refused` when it is none.
pub(super) fn knob_name(
    typed: &str,
    refused: impl FnOnce() -> ValueError,
) -> Result<String, ValueError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(variable) = typed.strip_prefix(VARIABLE_PREFIX) {
        let needed = "the name of an environment variable; give letters, digits and _, as in \
                      env:MALLOC_CONF=a,b";
        let begins = variable.starts_with(|c: char| plain(c) && !c.is_ascii_digit());
        let fits = begins && variable.chars().all(plain);
        let name = fits.then(|| typed.to_owned());
        return name.ok_or_else(|| ValueError::not(variable, needed));
    }
    let flag = typed.trim_start_matches('-');
    let fits = !flag.is_empty() && flag.chars().all(|c| plain(c) || matches!(c, '.' | '-'));
    fits.then(|| flag.to_owned()).ok_or_else(refused)
}

/// Units of durations: as typed, in words, in milliseconds.
const UNITS: [(&str, &str, u64); 3] = [
    ("ms", "milliseconds", 1),
    ("s", "seconds", 1_000),
    ("m", "minutes", 60_000),
];

/// Parses a duration, as in `400ms`, `5s` or `2m`, of at least one `unit`, or of any length where that is
/// `ms`: one without a unit is refused with this one, which makes sense there.
///
/// # Errors
/// When it is no such duration.
pub fn duration(text: &str, unit: &str) -> Result<Duration, ValueError> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let typed_unit = &text[digits.len()..];
    let of = |unit| UNITS.iter().find(move |(short, ..)| *short == unit);
    let millis = of(typed_unit).and_then(|(.., ms)| whole_number(digits)?.checked_mul(*ms));
    if let Some(ms) = millis.filter(|ms| *ms > 0 || unit == "ms") {
        return Ok(Duration::from_millis(ms));
    }
    let words = of(unit).map_or(unit, |(_, words, _)| words);
    let advice = match whole_number(digits).filter(|_| typed_unit.is_empty()) {
        Some(number) => format!("write {number}{unit} for {number} {words}"),
        None => format!("give a number above 0 with ms, s or m, as in 20{unit}"),
    };
    let needed = format!("a duration that fits here; {advice}");
    Err(ValueError::not(text, &needed))
}

/// Parses a relative difference: `1%` is 0.01.
///
/// # Errors
/// When it is none above 0.
pub fn percent(text: &str) -> Result<f64, ValueError> {
    let plain = |digits: &&str| digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let digits = text.strip_suffix('%').map(str::trim_end).filter(plain);
    let number: Option<f64> = digits.and_then(|digits| digits.parse().ok());
    let part = number
        .filter(|number| *number > 0.0)
        .map(|number| number / 100.0);
    let needed = "a percentage above 0; give a number with a percent sign, as in 1% or 0.5%";
    part.ok_or_else(|| ValueError::not(text, needed))
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
            _ => whole_number(text).map(Self::First).ok_or_else(|| {
                let needed = "a warm-up; give full, none, or a number of payloads";
                ValueError::not(text, needed)
            }),
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
            return Err(ValueError(format!(
                "item {} of the list `{text}` is empty; separate values with single commas, as in 15,30,60",
                index + 1
            )));
        }
        let value = parse(item)?;
        if values.contains(&value) {
            return Err(ValueError(format!(
                "`{item}` is in the list twice; name each value once and use --rounds to repeat cells"
            )));
        }
        values.push(value);
    }
    Ok(values)
}

/// Digits only: `u64::from_str` alone would take a leading plus.
fn whole_number(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_values() {
        assert_eq!("15,30,60".parse(), Ok(ChunkList(vec![15, 30, 60])));
        assert_eq!("60, 15".parse(), Ok(ChunkList(vec![15, 60])));
        let gas = [7, 5000, 10_000_000, 1_000_000_000].map(Gas);
        assert_eq!("10M,1G,5k,7".parse(), Ok(GasList(gas.to_vec())));
        assert_eq!(duration("400ms", "m"), Ok(Duration::from_millis(400)));
        assert_eq!(duration("2m", "s"), Ok(Duration::from_secs(120)));
        assert_eq!("5".parse(), Ok(WarmUp::First(5)));
        let axis: Axis = "--engine.x=a,b".parse().unwrap();
        assert_eq!(
            (&*axis.flag, axis.values.join(",")),
            ("engine.x", "a,b".into())
        );
        let variable: Axis = "env:RAYON_NUM_THREADS=1,2".parse().unwrap();
        assert_eq!(variable.flag, "env:RAYON_NUM_THREADS");
        assert!(!variable.is_engine_flag());
    }

    #[test]
    fn refused_values_name_what_was_typed() {
        type Parse = fn(&str) -> Option<ValueError>;
        let refusals: [(Parse, &[&str]); 5] = [
            (
                |text| text.parse::<ChunkList>().err(),
                &["0", "15,,30", "abc", "15,15", "+5", ""],
            ),
            (
                |text| text.parse::<GasList>().err(),
                &["10X", "0", "M", "99999999999G"],
            ),
            (|text| text.parse::<WarmUp>().err(), &["half"]),
            (|text| percent(text).err(), &["1", "0%", "-1%", "inf%"]),
            (
                |text| text.parse::<Axis>().err(),
                &["engine.x", "=1", "env:=1", "env:2A=1", "env:A B=1,2"],
            ),
        ];
        let told = refusals.into_iter().flat_map(|(parse, texts)| {
            let told = texts
                .iter()
                .map(move |text| parse(text).unwrap().to_string());
            told.collect::<Vec<_>>()
        });
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"));
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
            let refused = duration(typed, unit).unwrap_err().to_string();
            let begins = refused.starts_with(&format!("`{typed}` is not a duration"));
            assert!(begins && refused.contains(advice), "{refused}");
        }
        assert_eq!(duration("0s", "ms"), Ok(Duration::ZERO));
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
            let _ = duration(&text, "m");
            let _ = text.parse::<Axis>();
            let _ = text.parse::<WarmUp>();
        }
    }
}
