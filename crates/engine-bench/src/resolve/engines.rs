//! The engines of a sweep: from a name or a path to a program whose kind is known.
//!
//! Invariant: what an engine is, it says itself (`--version`); which flags of the axes it has, its
//! own help says. Names of engines are unique in a sweep.

use crate::{
    engine::{self, help, names_flag, output_of},
    sweep::{EMBEDDED_ENGINE, EngineKind, EngineSpec, Version, is_engine_flag},
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

/// The engines as typed, each `bench-reth`, a name on the PATH, a path, or `NAME=PATH`.
///
/// # Errors
/// When one is no program, two have the same name, or none has a flag of the knobs.
pub(super) fn engines(typed: &[String], knobs: &[&str]) -> Result<Vec<EngineSpec>> {
    if typed.is_empty() {
        return Ok(vec![embedded_engine()?]);
    }
    let engines = typed.iter().map(|text| engine(text));
    let mut engines: Vec<EngineSpec> = engines.collect::<Result<_>>()?;
    let mut names = BTreeSet::new();
    for EngineSpec { name, .. } in &engines {
        ensure!(
            names.insert(name),
            "two engines have the name `{name}`, and results are listed by name; give one of them another, as in \
             --engine old=PATH"
        );
    }
    find_missing_flags(&mut engines, knobs)?;
    for engine in engines
        .iter_mut()
        .filter(|engine| engine.kind == EngineKind::Reth)
    {
        let fixed = engine::missing_fixed_flags(engine);
        engine.lacks.extend(fixed);
    }
    Ok(engines)
}

fn engine(typed: &str) -> Result<EngineSpec> {
    let unknown = || {
        eyre!(
            "--engine `{typed}` is neither bench-reth nor a program; give the path of an executable or its name on \
             the PATH, as in ./target/release/reth, geth or old=./bench-reth"
        )
    };
    let (name, place) = match typed.split_once('=') {
        Some((name, place)) => (Some(name.to_owned()), place),
        None => (None, typed),
    };
    let mut engine = if place == EMBEDDED_ENGINE {
        embedded_engine()?
    } else {
        let program = find_program(place).ok_or_else(unknown)?;
        let stem = program.file_stem().unwrap_or_default();
        let told = version_line(&program);
        EngineSpec {
            name: stem.to_string_lossy().into_owned(),
            kind: EngineKind::of_version(&told),
            version: Version::of_line(&told),
            program,
            ..EngineSpec::default()
        }
    };
    engine.name = name.unwrap_or(engine.name);
    ensure!(!engine.name.is_empty(), unknown());
    Ok(engine)
}

/// The program at a path, or of that name in a folder of PATH.
fn find_program(place: &str) -> Option<PathBuf> {
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
fn find_missing_flags(engines: &mut [EngineSpec], knobs: &[&str]) -> Result<()> {
    let flags = knobs.iter().filter(|knob| is_engine_flag(knob));
    let flags: Vec<&str> = flags.copied().collect();
    if flags.is_empty() {
        return Ok(());
    }
    let helps: Vec<String> = engines.iter().map(help).collect();
    for flag in flags {
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
            "no engine of the sweep has a flag --{flag}; the engine's own --help lists its flags"
        );
    }
    Ok(())
}

/// The first line that a program prints when it is asked for its version.
pub(crate) fn version_line(program: &Path) -> String {
    let text = output_of(program, &["--version"]);
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
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
        let found = engines(&typed, &[]).unwrap();
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
            assert!(engines(&refused, &[]).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn flags_are_looked_for_as_whole_words() {
        let dir = tempfile::tempdir().unwrap();
        let reth = program(dir.path(), "reth", "reth 1", "  --engine.chunk <N>\n --x");
        let geth = program(dir.path(), "geth", "geth version 1", "--cache value");
        let knobs = ["engine.chunk", "cache", "env:A", "mix"];
        let found = engines(&[reth.clone(), geth.clone()], &knobs).unwrap();
        assert_eq!(found[0].lacks, ["cache"]);
        assert_eq!(found[1].lacks, ["engine.chunk"]);
        // Part of a flag is another flag: hidden in one engine, nowhere in the other.
        let hidden = engines(&[reth, geth.clone()], &["engine.chun"]).unwrap();
        assert!(hidden[0].lacks.is_empty() && hidden[1].lacks == ["engine.chun"]);
        let refused = engines(&[geth], &["cach"]).unwrap_err();
        assert!(refused.to_string().contains("--cach"), "{refused}");
    }

    #[test]
    fn fixed_flags_that_a_release_of_reth_lacks_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reth");
        // Its help names none, and its parser refuses one of them.
        let script = "#!/bin/sh\ncase \"$*\" in --version) echo 'reth Version: 1.9.3';; \
                      *--ipcdisable*) exit 2;; *) echo help;; esac\n";
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .args([path.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        let found = engines(&[path.to_str().unwrap().to_owned()], &[]).unwrap();
        assert_eq!(found[0].lacks, ["ipcdisable"]);
        assert_eq!(found[0].version, Some(Version(1, 9, 3)));
        assert!(!found[0].tells_persisted_blocks());
    }
}
