//! Whether an engine takes flags: its own parser says so, and nothing is started.
//!
//! Invariant: an engine that does not answer when its node is asked for help refuses nothing.

use super::{
    help::node_words,
    process::{Answer, answer_of},
};
use crate::sweep::{EngineKind, EngineSpec};

/// Whether flags can be tried on an engine: parsers of reth's family and of ethrex
/// judge every flag before a `--help` that comes last.
pub fn can_try(engine: &EngineSpec) -> bool {
    engine.kind != EngineKind::Geth && tried(engine, &[]).is_some_and(|answer| answer.succeeded)
}

/// Why the engine's parser refuses flags, in its own words; `None` when it takes them, or does not answer.
pub fn refusal(engine: &EngineSpec, flags: &[String]) -> Option<String> {
    let answer = tried(engine, flags).filter(|answer| !answer.succeeded)?;
    let mut lines = answer.errors.lines().map(str::trim);
    let reason = lines.find(|line| !line.is_empty());
    let reason = reason.unwrap_or("it does not say why");
    Some(reason.trim_start_matches("error: ").to_owned())
}

fn tried(engine: &EngineSpec, flags: &[String]) -> Option<Answer> {
    let flags = flags.iter().map(String::as_str);
    let words: Vec<&str> = node_words(engine.kind)
        .iter()
        .copied()
        .chain(flags)
        .chain(["--help"])
        .collect();
    answer_of(&engine.program, &words).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::engine;
    use std::process::Command;

    #[test]
    fn a_parser_is_asked_in_its_own_words_unless_it_knows_no_help() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("engine");
        let script = "#!/bin/sh\n[ \"$1\" = node ] && shift\ncase \"$*\" in --help) exit $(cat \"$0.help\");; *--good=1*) ;; \
                      *) echo; echo \"error: what is $1?\" >&2; echo usage >&2; exit 2;; esac\n";
        // Another process writes it: a program that a thread of this one has open cannot be run.
        let written = Command::new("sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod +x \"$0\""])
            .args([program.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        for (kind, help, asked) in [
            (EngineKind::BenchReth, "0", true),
            (EngineKind::Reth, "0", true),
            (EngineKind::Reth, "101", false),
            (EngineKind::Geth, "0", false),
            (EngineKind::Ethrex, "0", true),
        ] {
            std::fs::write(dir.path().join("engine.help"), help).unwrap();
            let engine = EngineSpec {
                program: program.clone(),
                ..engine(kind)
            };
            assert_eq!(can_try(&engine), asked, "{kind:?}");
            let of = |flag: &str| refusal(&engine, &[flag.to_owned()]);
            assert_eq!(of("--good=1"), None);
            assert_eq!(of("--good=2").as_deref(), Some("what is --good=2?"));
        }
    }
}
