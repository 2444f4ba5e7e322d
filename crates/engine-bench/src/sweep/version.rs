//! Which release an engine is, by its own word.
//!
//! Invariant: what cannot be read is unknown, and an unknown release is taken for the newest that is known.

use super::{EngineKind, EngineSpec};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A release: major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u64, pub u64, pub u64);

impl Version {
    /// The first word of a line, or part of one between slashes, that begins as three numbers with dots between.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let of_word = |word: &str| {
            let mut parts = word.trim_start_matches('v').splitn(3, '.');
            let mut number = || {
                let part = parts.next()?;
                let end = part.find(|c: char| !c.is_ascii_digit());
                part[..end.unwrap_or(part.len())].parse().ok()
            };
            Some(Self(number()?, number()?, number()?))
        };
        let ends_word = |c: char| c.is_whitespace() || c == '/';
        line.split(ends_word).find_map(of_word)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Releases of reth that this program was written for: from the first to below the second.
const KNOWN_RETH: [Version; 2] = [Version(1, 9, 0), Version(2, 6, 0)];
/// Releases of geth, likewise.
const KNOWN_GETH: [Version; 2] = [Version(1, 16, 0), Version(1, 18, 0)];
/// Releases of ethrex, likewise.
const KNOWN_ETHREX: [Version; 2] = [Version(24, 0, 0), Version(25, 0, 0)];

/// What is to be said about an engine of a release that this program was not written for.
pub(crate) fn doubt(engine: &EngineSpec) -> Option<String> {
    let (name, kind) = (&engine.name, engine.kind.name());
    let [first, end] = match engine.kind {
        EngineKind::BenchReth => return None,
        EngineKind::Reth => KNOWN_RETH,
        EngineKind::Geth => KNOWN_GETH,
        EngineKind::Ethrex => KNOWN_ETHREX,
    };
    let Some(version) = engine.version else {
        return Some(format!(
            "{name} does not tell its release (--version): it is taken for the newest {kind} that is known"
        ));
    };
    (version < first || version >= end).then(|| {
        format!(
            "{name} is {kind} {version}, and this program was written for {first} and above, below {end}: flags, log \
             lines and metrics may mean something else"
        )
    })
}

/// Flags of reth that came or went, and which releases have them, as far as their sources were read (1.9 to 2.5).
const CAME_OR_WENT: [(&str, &str); 11] = [
    ("engine.multiproof-chunk-size", "1.9.0 and above"),
    ("engine.multiproof-chunking", "below 2.0.0"),
    ("engine.disable-proof-v2", "below 2.0.0"),
    ("engine.disable-trie-cache", "1.11.0 and above, below 2.0.0"),
    ("engine.sparse-trie-prune-depth", "below 2.0.0"),
    ("engine.sparse-trie-max-storage-tries", "below 2.5.0"),
    ("engine.persistence-backpressure-threshold", "2.x"),
    ("engine.prewarming-threads", "2.x"),
    ("engine.slow-block-threshold", "2.x"),
    ("engine.disable-bal-parallel-execution", "2.x"),
    ("engine.disable-bal-parallel-state-root", "2.x"),
];

/// Which releases of reth have a flag that came or went, as an addition to a sentence; nothing of others.
pub(crate) fn releases_with(flag: &str) -> String {
    let row = CAME_OR_WENT.iter().find(|(known, _)| *known == flag);
    row.map_or(String::new(), |(_, releases)| {
        format!(" (reth {releases} has it)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_found_in_what_engines_print() {
        for (line, expected) in [
            ("reth-ethereum-cli Version: 1.11.1", Some(Version(1, 11, 1))),
            ("reth Version: 2.5.1-dev (abc)", Some(Version(2, 5, 1))),
            ("geth version 1.17.8-stable", Some(Version(1, 17, 8))),
            (
                "ethrex ethrex/v24.0.0-HEAD-12ab/x86_64-unknown-linux-gnu/rustc-v1.90.0",
                Some(Version(24, 0, 0)),
            ),
            ("reth 1", None),
            ("1.2", None),
            ("", None),
        ] {
            assert_eq!(Version::of_line(line), expected, "{line}");
        }
    }
}
