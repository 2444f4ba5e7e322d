//! The engines of a sweep: from a name or a path to a program whose kind is known.
//!
//! Invariant: what an engine is, it says itself (`--version`); which flags of the axes it has, its
//! own help says. Names of engines are unique in a sweep.

use super::named::NamedEngines;
use crate::{
    engine::{self, Answer, answer_of, help, names_flag},
    sweep::{EMBEDDED_ENGINE, EngineKind, EngineSpec, Version, is_engine_flag, releases_with},
};
use eyre::{Result, ensure, eyre};
use nix::unistd::{AccessFlags, access};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The engine this program carries: itself.
///
/// # Errors
/// When the path of the running program is unknown.
pub(crate) fn embedded_engine() -> Result<EngineSpec> {
    let program = std::env::current_exe().map_err(|reason| {
        eyre!("failed to open the running program {EMBEDDED_ENGINE}: {reason}; check the path")
    })?;
    Ok(EngineSpec {
        name: EMBEDDED_ENGINE.to_owned(),
        program,
        ..EngineSpec::default()
    })
}

/// The engines as typed, each `bench-reth`, one that has a name in a file, a program's name on the PATH, a path, or
/// one of these behind `NAME=`.
///
/// # Errors
/// When one is no program, two have the same name, or none has a flag of the knobs.
pub(super) fn engines(
    typed: &[String],
    named: &NamedEngines,
    knobs: &[&str],
) -> Result<Vec<EngineSpec>> {
    if typed.is_empty() {
        return Ok(vec![embedded_engine()?]);
    }
    let engines = typed.iter().map(|text| engine(text, named));
    let mut engines: Vec<EngineSpec> = engines.collect::<Result<_>>()?;
    let mut names = BTreeSet::new();
    for EngineSpec { name, .. } in &engines {
        ensure!(
            names.insert(name),
            "two engines have the name `{name}`, and results are listed by name; give one of them another, as in \
             --engine old=PATH"
        );
    }
    let helps: Vec<String> = engines.iter().map(help).collect();
    find_missing_flags(&mut engines, &helps, knobs)?;
    let told = engines.iter_mut().zip(&helps);
    for (engine, help) in told.filter(|(engine, _)| engine.kind == EngineKind::Reth) {
        let fixed = engine::missing_fixed_flags(engine, help);
        engine.lacks.extend(fixed);
    }
    Ok(engines)
}

fn engine(typed: &str, named: &NamedEngines) -> Result<EngineSpec> {
    let unknown = || {
        eyre!(
            "--engine `{typed}` is neither bench-reth, nor an engine of --engines, nor a program; give the path of an executable or its name on \
             the PATH, as in ./target/release/reth, geth or old=./bench-reth"
        )
    };
    let (name, place) = match typed.split_once('=') {
        Some((name, place)) => (Some(name.to_owned()), place),
        None => (None, typed),
    };
    let known = named.get(place);
    let name = name.or_else(|| known.map(|_| place.to_owned()));
    let place = known.map_or(place, |known| &known.place);
    let mut engine = if place == EMBEDDED_ENGINE {
        embedded_engine()?
    } else {
        let program = find_program(place).ok_or_else(unknown)?;
        let stem = program.file_stem().unwrap_or_default();
        let told = answer_of(&program, &["--version"])
            .map(first_line)
            .map_err(|reason| eyre!("--engine `{typed}` is no engine: {reason}; {ENGINES}"))?;
        let engine = EngineSpec {
            name: stem.to_string_lossy().into_owned(),
            kind: EngineKind::of_version(&told),
            version: Version::of_line(&told),
            program,
            ..EngineSpec::default()
        };
        ensure!(
            is_one(&engine, &told),
            "--engine `{typed}` is no engine: its --version says `{told}`, and its node --help names no \
             --authrpc.jwtsecret; {ENGINES}"
        );
        engine
    };
    engine.name = name.unwrap_or(engine.name);
    engine.set = known.map_or_else(Vec::new, |known| known.set.clone());
    ensure!(!engine.name.is_empty(), unknown());
    Ok(engine)
}

/// What may be given instead of a program that is no engine.
const ENGINES: &str =
    "give the path of reth, geth or ethrex, or bench-reth for the one that is built in";

/// Whether a program is an engine: one that does not know its own name has the flags of one.
fn is_one(engine: &EngineSpec, told: &str) -> bool {
    let named = engine.kind != EngineKind::Reth || told.to_ascii_lowercase().contains("reth");
    named || names_flag(&help(engine), "authrpc.jwtsecret")
}

/// The program at a path, or of that name in a folder of PATH.
pub(super) fn find_program(place: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    let at = |path: PathBuf| path.canonicalize().ok().filter(runs);
    let on_path = || {
        let folders = std::env::var_os("PATH").filter(|_| !place.contains('/'))?;
        std::env::split_paths(&folders).find_map(|folder| at(folder.join(place)))
    };
    at(PathBuf::from(place)).or_else(on_path)
}

/// Notes for each engine which flags of the knobs it lacks. A flag that no engine names in its help
/// may be a hidden one: engines that speak as reth does are left to judge it themselves.
fn find_missing_flags(engines: &mut [EngineSpec], helps: &[String], knobs: &[&str]) -> Result<()> {
    for flag in knobs.iter().copied().filter(|knob| is_engine_flag(knob)) {
        let known: Vec<bool> = helps.iter().map(|help| names_flag(help, flag)).collect();
        let nowhere = !known.contains(&true);
        let mut lacking = 0;
        for (engine, known) in engines.iter_mut().zip(known) {
            let speaks_as_reth = matches!(engine.kind, EngineKind::BenchReth | EngineKind::Reth);
            let hidden = nowhere && speaks_as_reth;
            if !known && !hidden {
                engine.lacks.push(flag.to_owned());
                lacking += 1;
            }
        }
        ensure!(
            lacking < engines.len(),
            "no engine of the sweep has a flag --{flag}{}; the engine's own --help lists its flags",
            releases_with(flag)
        );
    }
    Ok(())
}

/// The first line that a program prints when it is asked for its version.
pub(crate) fn version_line(program: &Path) -> String {
    answer_of(program, &["--version"]).map_or(String::new(), first_line)
}

fn first_line(answer: Answer) -> String {
    answer.output.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::named::NamedEngine;
    use super::*;
    use std::process::Command;

    /// A program that answers `--version` and any help.
    fn program(dir: &Path, name: &str, version: &str, help: &str) -> String {
        let path = dir.join(name);
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in --version) echo '{version}';; *) echo '{help}';; esac\n"
        );
        // Another process writes it: a program that a thread of this one has open cannot be run.
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        path.to_str().unwrap().to_owned()
    }

    /// The engines as typed, with two that have names.
    fn named(typed: &[String], knobs: &[&str]) -> Result<Vec<EngineSpec>> {
        let engine = |place: &str| NamedEngine {
            place: place.to_owned(),
            set: vec!["engine.y=1".parse().unwrap()],
        };
        let named = [("mine", "bench-reth"), ("lost", "/no/such/program")];
        let named = named.map(|(name, place)| (name.to_owned(), engine(place)));
        engines(typed, &named.into(), knobs)
    }

    #[test]
    fn an_engine_of_a_file_keeps_its_name_unless_it_is_given_another() {
        let typed = ["mine", "other=mine", "bench-reth"].map(str::to_owned);
        let found = named(&typed, &[]).unwrap();
        let names: Vec<_> = found.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(names, ["mine", "other", "bench-reth"]);
        let set: Vec<_> = found.iter().map(|engine| engine.set.len()).collect();
        assert_eq!(set, [1, 1, 0]);
        assert!(
            found
                .iter()
                .all(|engine| engine.kind == EngineKind::BenchReth)
        );
        let refused = named(&["lost".to_owned()], &[]).unwrap_err().to_string();
        assert!(
            refused.contains("`lost`") && refused.contains("nor an engine of --engines"),
            "{refused}"
        );
    }

    #[test]
    fn an_engine_says_what_it_is() {
        for (line, kind) in [
            ("geth version 1.17.8-stable", EngineKind::Geth),
            ("Geth", EngineKind::Geth),
            (
                "ethrex ethrex/v24.0.0-HEAD-12ab/x86_64-unknown-linux-gnu/rustc-v1.90.0",
                EngineKind::Ethrex,
            ),
            ("ethrex/v24.0.0", EngineKind::Ethrex),
            ("bench-reth 0.1.0", EngineKind::BenchReth),
            ("engine-bench 0.1.0", EngineKind::BenchReth),
            ("reth Version: 1.11.1", EngineKind::Reth),
            ("reth-ethereum-cli Version: 2.5.1", EngineKind::Reth),
            ("", EngineKind::Reth),
        ] {
            assert_eq!(EngineKind::of_version(line), kind, "{line}");
        }
    }

    #[test]
    fn engines_get_their_own_name_or_the_one_they_are_given() {
        let dir = tempfile::tempdir().unwrap();
        let geth = program(dir.path(), "geth", "geth version 1", "");
        let (old, other) = (format!("old={geth}"), "other=bench-reth".to_owned());
        let typed = [geth.clone(), old, other];
        let found = named(&typed, &[]).unwrap();
        let names: Vec<_> = found.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(names, ["geth", "old", "other"]);
        assert_eq!(found[1].kind, EngineKind::Geth);
        assert_eq!(found[2].kind, EngineKind::BenchReth);
        for refused in [
            vec![geth.clone(), geth.clone()],
            vec!["no-such-engine".to_owned()],
            vec![format!("={geth}")],
            vec![dir.path().to_str().unwrap().to_owned()],
            vec!["/proc/self/status".to_owned()],
        ] {
            assert!(named(&refused, &[]).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn what_is_no_engine_is_refused_with_what_it_says_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let other = program(dir, "other", "ls 9.1", "--authrpc.jwtsecrets");
        let text = program(dir, "text", "", "");
        let run = |script| Command::new("sh").args(["-c", script, &text]).status();
        assert!(run("echo just text > $0").unwrap().success());
        let silent = program(dir, "silent", "", "");
        let hangs = program(dir, "hangs", "'; exec sleep 600; echo '", "");
        for (typed, said) in [
            (&other, "--version says `ls 9.1`"),
            (&silent, "--version says ``"),
            (&text, "is no engine: "),
            (
                &hangs,
                "is no engine: it did not answer --version within 10s",
            ),
            (&"/bin/true".to_owned(), "is no engine: "),
            (
                &dir.join("none").display().to_string(),
                "nor an engine of --engines, nor a program",
            ),
        ] {
            let refused = named(std::slice::from_ref(typed), &[]).unwrap_err();
            let refused = refused.to_string();
            assert!(
                refused.contains(said) && refused.contains(typed),
                "{refused}"
            );
            assert!(refused.contains("; give the path of "), "{refused}");
        }
        // One that is called otherwise is known by its flags.
        let fork = program(dir, "fork", "op-node 1", "--authrpc.jwtsecret <F>");
        assert_eq!(named(&[fork], &[]).unwrap()[0].kind, EngineKind::Reth);
    }

    #[test]
    fn flags_are_looked_for_as_whole_words() {
        let dir = tempfile::tempdir().unwrap();
        let reth = program(dir.path(), "reth", "reth 1", "  --engine.chunk <N>\n --x");
        let geth = program(dir.path(), "geth", "geth version 1", "--cache value");
        let knobs = ["engine.chunk", "cache", "env:A", "mix"];
        let found = named(&[reth.clone(), geth.clone()], &knobs).unwrap();
        assert_eq!(found[0].lacks, ["cache"]);
        assert_eq!(found[1].lacks, ["engine.chunk"]);
        // Part of a flag is another flag: hidden in one engine, nowhere in the other.
        let hidden = named(&[reth, geth.clone()], &["engine.chun"]).unwrap();
        assert!(hidden[0].lacks.is_empty() && hidden[1].lacks == ["engine.chun"]);
        let refused = named(&[geth], &["cach"]).unwrap_err();
        assert!(refused.to_string().contains("--cach"), "{refused}");
    }

    #[test]
    fn fixed_flags_that_a_release_of_reth_lacks_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reth");
        // Its help names none, and its parser refuses one of them.
        let script = "#!/bin/sh\ncase \"$*\" in --version) echo 'reth Version: 1.9.3';; \
                      *--ipcdisable*) exit 2;; 'node --help') echo asked >> $0.asked;; esac; echo help\n";
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        let found = named(&[path.to_str().unwrap().to_owned()], &[]).unwrap();
        assert_eq!(found[0].lacks, ["ipcdisable"]);
        assert_eq!(found[0].version, Some(Version(1, 9, 3)));
        assert!(!found[0].tells_persisted_blocks());
        let asked = std::fs::read_to_string(dir.path().join("reth.asked")).unwrap();
        assert_eq!(asked.lines().count(), 1, "for its help");
    }
}
