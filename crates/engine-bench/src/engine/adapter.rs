//! What differs between families of engines: command lines and what being ready means.
//!
//! Invariant: nothing of one family is known outside its adapter, [`crate::sweep::EngineKind`]'s
//! few questions and the log parser.

use super::{command::Endpoints, command::Launch, ethrex::Ethrex, geth::Geth, reth::Reth};
use crate::sweep::{EngineKind, EngineSpec, Settings};
use eyre::Result;
use serde_json::Value;
use std::{path::Path, process::Command};

/// A family of engines.
pub(crate) trait Adapter {
    /// The command that runs the node on these ports, without the flags of sweep and cell; files
    /// that it needs are written.
    ///
    /// # Errors
    /// When such a file cannot be written.
    fn node(&self, launch: &Launch<'_>, endpoints: &Endpoints) -> Result<Command>;

    /// Variables of the environment that every node gets, with their values.
    fn variables(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Flags that every start of a sweep shares, unless the cell sets them.
    fn shared_flags(&self, _settings: &Settings) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The command that brings a datadir back to block `target`, which stays; `None` when the
    /// engine has none.
    fn unwind(&self, _engine: &EngineSpec, _datadir: &Path, _target: u64) -> Option<Command> {
        None
    }

    /// The command that prints what the database of a datadir holds, as one line of JSON or as reth's table; `None`
    /// when the engine has none.
    fn stats(&self, _engine: &EngineSpec, _datadir: &Path) -> Option<Command> {
        None
    }

    /// The commands that make a datadir with the state of a genesis file, one after the other.
    ///
    /// # Errors
    /// When a file that they need cannot be written.
    fn init(&self, engine: &EngineSpec, datadir: &Path, genesis: &Path) -> Result<Vec<Command>>;

    /// Whether an answer of `eth_syncing` means that blocks are being fetched.
    fn is_syncing(&self, answer: &Value) -> bool {
        *answer != Value::Bool(false)
    }
}

/// Whether an object that `eth_syncing` answers with tells of blocks that are known of and not there. Engines
/// answer with one for other reasons too: an index that is behind, or no head named by anybody yet.
pub(super) fn is_behind(answer: &Value) -> bool {
    let number = |field: &str| {
        let text = answer[field].as_str()?.strip_prefix("0x")?;
        u64::from_str_radix(text, 16).ok()
    };
    match (number("currentBlock"), number("highestBlock")) {
        (Some(current), Some(highest)) => current < highest,
        _ => *answer != Value::Bool(false),
    }
}

/// The adapter of a kind of engine.
pub(crate) fn of(kind: EngineKind) -> &'static dyn Adapter {
    match kind {
        EngineKind::BenchReth | EngineKind::Reth => &Reth,
        EngineKind::Geth => &Geth,
        EngineKind::Ethrex => &Ethrex,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_without_blocks_to_fetch_is_not_syncing() {
        let answer = |current: &str, highest: &str| json!({ "currentBlock": current, "highestBlock": highest, "txIndexRemainingBlocks": "0x1" });
        for (answer, behind) in [
            (json!(false), false),
            (answer("0x0", "0x0"), false),
            (answer("0x9", "0x9"), false),
            (answer("0x9", "0xa"), true),
            (json!({}), true),
            (json!(true), true),
        ] {
            assert_eq!(is_behind(&answer), behind, "{answer}");
            for (kind, syncing) in [
                (EngineKind::Geth, behind),
                (EngineKind::Ethrex, behind),
                (EngineKind::Reth, answer != json!(false)),
            ] {
                assert_eq!(of(kind).is_syncing(&answer), syncing, "{kind:?}: {answer}");
            }
        }
    }
}
