//! Files that name engines: TOML with a table for each, its program and what it is always started with.
//!
//! Invariant: an engine of such a file is one that could be typed with `--engine NAME=PATH` and `--set`; a path in
//! it is relative to the file.

use super::{check_free, file::scalar};
use crate::sweep::{EMBEDDED_ENGINE, Setting};
use etcetera::BaseStrategy as _;
use eyre::{Report, Result, ensure, eyre};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use toml::Value;

/// Where the user's own file is, inside the folder of configurations.
const USERS_FILE: &str = "engine-bench/engines.toml";

/// What a file says of an engine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    #[serde(default)]
    set: BTreeMap<String, Value>,
}

/// An engine that has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedEngine {
    /// Its program, as it could be typed.
    pub(super) place: String,
    /// What it is always started with.
    pub(super) set: Vec<Setting>,
}

/// The engines that have names.
pub(super) type NamedEngines = BTreeMap<String, NamedEngine>;

/// Reads the file that was asked for, or the user's own where there is one.
///
/// # Errors
/// When it cannot be read, is no TOML, or says what no engine can be.
pub(super) fn read(asked: Option<&Path>) -> Result<NamedEngines> {
    let users = || {
        let folder = etcetera::choose_base_strategy().ok()?.config_dir();
        Some(folder.join(USERS_FILE)).filter(|file| file.is_file())
    };
    let Some(path) = asked.map(PathBuf::from).or_else(users) else {
        return Ok(NamedEngines::new());
    };
    let shown = path.display();
    let text = fs::read_to_string(&path).map_err(|reason| {
        eyre!("failed to read the engines of {shown}: {reason}; check the path of --engines")
    })?;
    let entries: BTreeMap<String, Entry> = toml::from_str(&text).map_err(|error| {
        let reason = error.to_string();
        eyre!(
            "{shown} is no file of engines: {}\ngive a table for each, as in [old] with path = \"../old/reth\" and, where \
             it needs any, [old.set] with its flags and env:NAME",
            reason.trim_end()
        )
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let engine = |(name, entry): (String, Entry)| {
        let found = named(&name, entry, folder);
        let found = found.map_err(|error| eyre!("{shown}: the engine `{name}`: {error}"))?;
        Ok((name, found))
    };
    entries.into_iter().map(engine).collect()
}

fn named(name: &str, entry: Entry, folder: &Path) -> Result<NamedEngine> {
    ensure!(
        name != EMBEDDED_ENGINE && !name.is_empty() && !name.contains(['=', '/']),
        "the name is taken or holds = or /; give it another"
    );
    let setting = |(flag, value): (String, Value)| {
        let value = scalar(&value)
            .ok_or_else(|| eyre!("`{flag}` needs one value, without commas in it"))?;
        let setting: Setting = format!("{flag}={value}").parse().map_err(Report::msg)?;
        check_free(&setting.flag)?;
        Ok(setting)
    };
    let set: Result<Vec<Setting>> = entry.set.into_iter().map(setting).collect();
    Ok(NamedEngine {
        place: placed(&entry.path, folder),
        set: set?,
    })
}

/// A program as it could be typed: names stay, paths are relative to the file or to the home folder.
fn placed(path: &str, folder: &Path) -> String {
    let home = path.strip_prefix("~/");
    let home = home.and_then(|rest| Some(etcetera::home_dir().ok()?.join(rest)));
    let place = home.unwrap_or_else(|| match path.contains('/') {
        true => folder.join(path),
        false => PathBuf::from(path),
    });
    place.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(text: &str) -> Result<NamedEngines, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engines.toml");
        fs::write(&path, text).unwrap();
        let folder = dir.path().to_str().unwrap();
        let mut found =
            read(Some(&path)).map_err(|error| error.to_string().replace(folder, "DIR"))?;
        for engine in found.values_mut() {
            engine.place = engine.place.replace(folder, "DIR");
        }
        Ok(found)
    }

    #[test]
    fn engines_have_a_program_and_what_they_are_started_with() {
        let found = engines(
            "[old]\npath = \"builds/reth\"\n[old.set]\n\"engine.x\" = 60\n\"env:A\" = \"b\"\n[g]\npath = \"geth\"\n",
        )
        .unwrap();
        let set = found["old"].set.iter().map(Setting::to_string);
        assert_eq!(set.collect::<Vec<_>>(), ["engine.x=60", "env:A=b"]);
        let places: Vec<&str> = found.values().map(|found| found.place.as_str()).collect();
        assert_eq!(places, ["geth", "DIR/builds/reth"]);
        let at_home = placed("~/reth", Path::new("elsewhere"));
        assert!(
            at_home.ends_with("/reth") && !at_home.contains("elsewhere"),
            "{at_home}"
        );
    }

    #[test]
    fn what_no_engine_can_be_is_refused_by_name() {
        for (text, said) in [
            ("[a", "DIR/engines.toml is no file of engines"),
            ("[a]\n", "missing field `path`"),
            ("[a]\npath = \"x\"\nflags = 1\n", "unknown field `flags`"),
            (
                "[bench-reth]\npath = \"x\"\n",
                "the engine `bench-reth`: the name is taken",
            ),
            (
                "[a]\npath = \"x\"\n[a.set]\ndatadir = \"y\"\n",
                "--datadir is set by the sweep itself",
            ),
            (
                "[a]\npath = \"x\"\n[a.set]\n\"engine.x\" = [1]\n",
                "`engine.x` needs one value",
            ),
        ] {
            let told = engines(text).unwrap_err();
            assert!(told.contains(said), "{text}: {told}");
        }
        let told = read(Some(Path::new("/no/such/file")))
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("/no/such/file") && told.contains("--engines"),
            "{told}"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z\\[\\]=\"'./, \n0-9-]{0,60}") {
            let _ = engines(&text);
        }
    }
}
