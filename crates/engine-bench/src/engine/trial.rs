//! Whether an engine takes flags: its own parser says so, and nothing is started.
//!
//! Invariant: an engine that does not answer when its node is asked for help refuses nothing.

use super::{help::node_words, variables};
use crate::sweep::{EngineKind, EngineSpec};
use std::process::Stdio;

/// Whether flags can be tried on an engine: parsers of reth's family and of ethrex
/// judge every flag before a `--help` that comes last.
pub fn can_try(engine: &EngineSpec) -> bool {
    engine.kind != EngineKind::Geth && refusal(engine, &[]).is_none()
}

/// Why the engine's parser refuses flags, in its own words; `None` when it takes them.
pub fn refusal(engine: &EngineSpec, flags: &[String]) -> Option<String> {
    let mut command = variables::command(&engine.program);
    command.args(node_words(engine.kind));
    command.args(flags).arg("--help");
    let ended = command.stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let reason = lines.next().unwrap_or("it does not say why");
    (!ended.status.success()).then(|| reason.trim_start_matches("error: ").to_owned())
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
