//! What the node tells of its chain over JSON-RPC: forms, places, logs, filters, proofs, errors.
//!
//! The chain is made by the node itself and lies half in the database, half in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod errors;
mod events;
mod forms;
mod places;
mod proofs;
mod simulate;

use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::{
    busy::{self, Chain, TRUNK},
    node::{Node, World, block_rlp, stderr},
};

/// Blocks below this one are in the database.
const FIRST_IN_MEMORY: u64 = 45;

/// The contract that is called five times in every block, and logs each time.
const WRITER: &str = "0x00000000000000000000000000000000000b0050";

/// Both branches, built once for all tests.
static CHAIN: LazyLock<Chain> = LazyLock::new(|| Chain::build(&World::new()));

/// A node that answers from the trunk.
struct Reader {
    node: Node,
    // Declared after the node, which uses its folder.
    _world: World,
}

impl Reader {
    /// A node at block `head` of the trunk: imported up to [`FIRST_IN_MEMORY`], then sent.
    fn at(head: u64) -> Self {
        let world = World::new();
        std::fs::write(world.genesis(), busy::genesis().to_string()).unwrap();
        let file = world.folder.path().join("chain.rlp");
        let stored = head.min(FIRST_IN_MEMORY - 1);
        let blocks = (1..=stored).filter_map(|number| CHAIN.block(false, number));
        let rlp: Vec<u8> = blocks
            .flat_map(|block| block_rlp(&block.envelope))
            .collect();
        std::fs::write(&file, rlp).unwrap();
        let genesis = world.genesis();
        for arguments in [
            vec!["init", "--chain", genesis.to_str().unwrap()],
            vec!["import", file.to_str().unwrap()],
        ] {
            let output = world.run(&arguments);
            assert!(
                output.status.success(),
                "{arguments:?}: {}",
                stderr(&output)
            );
        }
        let node = world.node(&[
            "--engine.persistence-threshold",
            "1000",
            "--http.api",
            "eth,net,web3,debug,rpc,admin",
            "--ws.api",
            "eth",
        ]);
        let reader = Self {
            node,
            _world: world,
        };
        for number in stored + 1..=head {
            reader.send(false, number);
        }
        reader.choose(false, head);
        reader
    }

    /// Sends a block without making it the head.
    fn send(&self, on_branch: bool, number: u64) {
        let block = CHAIN.block(on_branch, number).unwrap();
        assert_eq!(self.node.new_payload(&block.envelope)["status"], "VALID");
    }

    /// Makes a known block the head.
    fn choose(&self, on_branch: bool, number: u64) {
        let state = CHAIN.forkchoice(on_branch, number);
        let updated = self
            .node
            .engine("engine_forkchoiceUpdatedV3", json!([state, null]))
            .unwrap();
        assert_eq!(updated["payloadStatus"]["status"], "VALID");
    }

    /// The result of a call that must succeed.
    #[track_caller]
    fn ask(&self, method: &str, params: Value) -> Value {
        self.node
            .public(method, params.clone())
            .unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

/// The whole trunk.
fn trunk() -> Reader {
    Reader::at(TRUNK)
}
