//! A chain through every fork, made by go-ethereum's rules, imported by the real program; and the
//! same chain with one thing wrong in it.
//!
//! The chain comes from `tests/chain-maker`, which `cargo xtask test` builds and names in the
//! environment. Without it these tests are skipped.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use alloy_consensus::{Header, proofs::calculate_ommers_root, proofs::calculate_withdrawals_root};
use alloy_primitives::{B64, B256, Bloom, U256};
use node::primitives::Block;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;
use testkit::Tool;

/// All forks that the chain has to have a block of.
const FORKS: &[&str] = &[
    "Frontier",
    "Homestead",
    "Dao",
    "Tangerine",
    "SpuriousDragon",
    "Byzantium",
    "Constantinople",
    "Petersburg",
    "Istanbul",
    "MuirGlacier",
    "Berlin",
    "London",
    "ArrowGlacier",
    "GrayGlacier",
    "Paris",
    "Shanghai",
    "Cancun",
    "Prague",
    "Osaka",
    "BPO1",
    "BPO2",
];

/// A chain in a temporary folder.
struct Chain {
    folder: TempDir,
    blocks: Vec<Block>,
    summary: Value,
}

impl Chain {
    /// `None` when there is no chain maker and that is allowed.
    fn make(seed: u64) -> Option<Self> {
        let maker = testkit::require(Tool::ChainMaker)?;
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(maker)
            .args(["-seed", &seed.to_string()])
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let summary = fs::read_to_string(folder.path().join("summary.json")).unwrap();
        let bytes = fs::read(folder.path().join("chain.rlp")).unwrap();
        let mut rest = bytes.as_slice();
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            blocks.push(alloy_rlp::Decodable::decode(&mut rest).unwrap());
        }
        Some(Self {
            folder,
            blocks,
            summary: serde_json::from_str(&summary).unwrap(),
        })
    }

    fn block(&self, number: u64) -> &Block {
        let block = &self.blocks[usize::try_from(number).unwrap() - 1];
        assert_eq!(block.header.number, number);
        block
    }

    /// Writes blocks to a file of their own.
    fn file<'a>(&self, name: &str, blocks: impl IntoIterator<Item = &'a Block>) -> PathBuf {
        let path = self.folder.path().join(name);
        let bytes: Vec<u8> = blocks.into_iter().flat_map(alloy_rlp::encode).collect();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A new datadir that holds the genesis.
    fn datadir(&self, name: &str) -> Datadir {
        let datadir = Datadir(self.folder.path().join(name));
        let genesis = self.folder.path().join("genesis.json");
        let made = datadir.run(&["init", "--chain", genesis.to_str().unwrap()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let hash = self.summary["genesis"].as_str().unwrap();
        assert!(text(&made.stdout).contains(hash), "{}", text(&made.stdout));
        datadir
    }
}

struct Datadir(PathBuf);

impl Datadir {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench-reth"));
        command.args(arguments).arg("--datadir").arg(&self.0);
        command
            .args(["--color", "never"])
            .env_remove("RUST_LOG")
            .output()
            .unwrap()
    }

    fn import(&self, file: &Path, threshold: &str) -> Output {
        let file = file.to_str().unwrap();
        let flag = "--engine.persistence-threshold";
        self.run(&["import", file, flag, threshold])
    }

    /// Imports a file of valid blocks; what the program said at the end.
    #[track_caller]
    fn import_valid(&self, file: &Path, threshold: &str) -> String {
        let output = self.import(file, threshold);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let log = text(&output.stdout);
        let complete = log.lines().find(|line| line.contains("Import complete"));
        complete.unwrap().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the summary's blocks have, in one set.
fn contents(summary: &Value) -> BTreeSet<String> {
    let mut contents = BTreeSet::new();
    for block in summary["blocks"].as_array().unwrap() {
        let fork = block["fork"].as_str().unwrap();
        contents.insert(fork.to_owned());
        let kinds = block["transactions"].as_object().unwrap();
        contents.extend(kinds.keys().map(|kind| format!("type {kind}")));
        for what in ["ommers", "withdrawals"] {
            if block[what].as_u64().unwrap() > 0 {
                contents.insert(what.to_owned());
            }
        }
    }
    contents
}

#[test]
fn a_chain_of_every_fork_imports_with_every_root_checked() {
    for seed in [1, 2] {
        let Some(chain) = Chain::make(seed) else {
            return;
        };
        let contents = contents(&chain.summary);
        let types = (0..5).map(|kind| format!("type {kind}"));
        let expected = FORKS.iter().map(|fork| (*fork).to_owned()).chain(types);
        for what in expected.chain(["ommers".to_owned(), "withdrawals".to_owned()]) {
            assert!(contents.contains(&what), "no {what} in seed {seed}");
        }
        let whole = chain.file("whole.rlp", &chain.blocks);
        let head = format!("hash={}", chain.summary["head"].as_str().unwrap());
        let count = format!("count={}", chain.blocks.len());
        for threshold in ["0", "7", "1000"] {
            let datadir = chain.datadir(&format!("threshold-{threshold}"));
            let complete = datadir.import_valid(&whole, threshold);
            assert!(complete.contains(&head), "{complete}");
            assert!(complete.contains(&count), "{complete}");
            let again = datadir.import_valid(&whole, threshold);
            assert!(
                again.contains("count=0") && again.contains(&head),
                "{again}"
            );
        }
    }
}

/// The program starts anew between any two blocks, also inside proof of work, whose total
/// difficulty it then has to find again.
#[test]
fn a_chain_in_pieces_ends_where_the_whole_one_does() {
    let Some(chain) = Chain::make(3) else {
        return;
    };
    let datadir = chain.datadir("pieces");
    let mut complete = String::new();
    for (index, piece) in chain.blocks.chunks(13).enumerate() {
        let file = chain.file(&format!("piece-{index}.rlp"), piece);
        complete = datadir.import_valid(&file, "2");
    }
    assert!(
        complete.contains(chain.summary["head"].as_str().unwrap()),
        "{complete}"
    );
}

/// A change to a block that makes it invalid, and a word of the reason. `None`: the block has not
/// what the change needs.
type Change = (&'static str, fn(&mut Block) -> Option<()>, &'static str);

fn other(hash: B256) -> B256 {
    B256::from(U256::from_be_bytes(hash.0) ^ U256::from(1))
}

/// Puts the right hash of the ommers into the header, so that only the ommers are wrong.
fn rehash_ommers(block: &mut Block) {
    block.header.ommers_hash = calculate_ommers_root(&block.body.ommers);
}

/// One ommer more or less for the second half of the table below.
fn with_ommer(block: &mut Block, change: fn(&mut Header)) -> Option<()> {
    change(block.body.ommers.first_mut()?);
    rehash_ommers(block);
    Some(())
}

fn when(condition: bool) -> Option<()> {
    condition.then_some(())
}

const HEADER_CHANGES: &[Change] = &[
    (
        "parent",
        |block| {
            block.header.parent_hash = other(block.header.parent_hash);
            Some(())
        },
        "its parent, or the state after it, is not known",
    ),
    (
        "ommers hash",
        |block| {
            block.header.ommers_hash = other(block.header.ommers_hash);
            Some(())
        },
        "ommers hash",
    ),
    (
        "state root",
        |block| {
            block.header.state_root = other(block.header.state_root);
            Some(())
        },
        "mismatched block state root",
    ),
    (
        "transactions root",
        |block| {
            block.header.transactions_root = other(block.header.transactions_root);
            Some(())
        },
        "transactions root",
    ),
    (
        "receipts root",
        |block| {
            block.header.receipts_root = other(block.header.receipts_root);
            Some(())
        },
        "receipts root",
    ),
    (
        "bloom",
        |block| {
            let bloom = &mut block.header.logs_bloom;
            *bloom = if bloom.is_zero() {
                Bloom::repeat_byte(1)
            } else {
                Bloom::ZERO
            };
            Some(())
        },
        "logs bloom",
    ),
    (
        "difficulty",
        |block| {
            block.header.difficulty += U256::from(1);
            Some(())
        },
        "difficulty",
    ),
    (
        "no difficulty",
        |block| {
            when(!block.header.difficulty.is_zero())?;
            block.header.difficulty = U256::ZERO;
            Some(())
        },
        "terminal total difficulty",
    ),
    (
        "gas limit",
        |block| {
            block.header.gas_limit *= 2;
            Some(())
        },
        "gas limit",
    ),
    (
        "gas used",
        |block| {
            block.header.gas_used += 1;
            Some(())
        },
        "gas used",
    ),
    (
        "timestamp",
        |block| {
            block.header.timestamp = 1;
            Some(())
        },
        "timestamp",
    ),
    (
        "extra data",
        |block| {
            block.header.extra_data = vec![1; 33].into();
            Some(())
        },
        "extra data",
    ),
    (
        "nonce",
        |block| {
            when(block.header.difficulty.is_zero())?;
            block.header.nonce = B64::with_last_byte(1);
            Some(())
        },
        "nonce",
    ),
    (
        "base fee",
        |block| {
            *block.header.base_fee_per_gas.as_mut()? += 1;
            Some(())
        },
        "base fee",
    ),
    (
        "withdrawals root",
        |block| {
            let root = block.header.withdrawals_root.as_mut()?;
            *root = other(*root);
            Some(())
        },
        "withdrawals root",
    ),
    (
        "blob gas used",
        |block| {
            *block.header.blob_gas_used.as_mut()? ^= 1 << 17;
            Some(())
        },
        "blob gas used",
    ),
    (
        "odd blob gas used",
        |block| {
            *block.header.blob_gas_used.as_mut()? += 1;
            Some(())
        },
        "blob gas used",
    ),
    (
        "excess blob gas",
        |block| {
            *block.header.excess_blob_gas.as_mut()? += 1 << 17;
            Some(())
        },
        "excess blob gas",
    ),
    (
        "beacon root",
        |block| {
            let root = block.header.parent_beacon_block_root.as_mut()?;
            *root = other(*root);
            Some(())
        },
        "mismatched block state root",
    ),
    (
        "requests hash",
        |block| {
            let hash = block.header.requests_hash.as_mut()?;
            *hash = other(*hash);
            Some(())
        },
        "requests hash",
    ),
];

const BODY_CHANGES: &[Change] = &[
    (
        "a transaction less",
        |block| block.body.transactions.pop().map(drop),
        "transactions root",
    ),
    (
        "an ommer less",
        |block| block.body.ommers.pop().map(drop),
        "ommers hash",
    ),
    (
        "an ommer less, and rehashed",
        |block| {
            block.body.ommers.pop()?;
            rehash_ommers(block);
            Some(())
        },
        "mismatched block state root",
    ),
    (
        "an ommer twice",
        |block| {
            let first = block.body.ommers.first()?.clone();
            block.body.ommers = vec![first.clone(), first];
            rehash_ommers(block);
            Some(())
        },
        "included twice",
    ),
    (
        "three ommers",
        |block| {
            let first = block.body.ommers.first()?.clone();
            block.body.ommers = vec![first; 3];
            rehash_ommers(block);
            Some(())
        },
        "at most 2",
    ),
    (
        "an ommer's number",
        |block| with_ommer(block, |ommer| ommer.number += 1),
        "block number",
    ),
    (
        "an ommer's difficulty",
        |block| with_ommer(block, |ommer| ommer.difficulty += U256::from(1)),
        "difficulty",
    ),
    (
        "an ommer's gas",
        |block| with_ommer(block, |ommer| ommer.gas_used = ommer.gas_limit + 1),
        "gas used",
    ),
    (
        "an ommer's parent",
        |block| with_ommer(block, |ommer| ommer.parent_hash = other(ommer.parent_hash)),
        "not a near ancestor",
    ),
    (
        "an ommer that is a sibling",
        |block| {
            let parent = block.header.parent_hash;
            block.body.ommers.first_mut()?.parent_hash = parent;
            rehash_ommers(block);
            Some(())
        },
        "not a near ancestor",
    ),
    (
        "an ommer's beneficiary",
        |block| with_ommer(block, |ommer| ommer.beneficiary.0[0] ^= 1),
        "mismatched block state root",
    ),
    (
        "a withdrawal's amount",
        |block| {
            let withdrawals = block.body.withdrawals.as_mut()?;
            withdrawals.first_mut()?.amount += 1;
            block.header.withdrawals_root = Some(calculate_withdrawals_root(withdrawals));
            Some(())
        },
        "mismatched block state root",
    ),
    (
        "no withdrawals",
        |block| block.body.withdrawals.take().map(drop),
        "withdrawals root",
    ),
];

/// Blocks that the changes are made to: with transactions, and ommers or withdrawals if the fork
/// has them, one for each of some forks.
fn bases(chain: &Chain) -> Vec<u64> {
    let summaries = chain.summary["blocks"].as_array().unwrap();
    let base = |fork: &&str| {
        let found = summaries.iter().find(|block| {
            let rich = block["ommers"] != 0 || block["withdrawals"] != 0;
            let rich = rich || ["Paris", "Dao"].contains(fork);
            block["fork"] == **fork && rich && block["transactions"] != serde_json::json!({})
        });
        found.and_then(|block| block["number"].as_u64())
    };
    let forks = [
        "Homestead",
        "SpuriousDragon",
        "Istanbul",
        "London",
        "Paris",
        "Prague",
        "BPO2",
    ];
    forks.iter().filter_map(base).collect()
}

#[test]
fn a_block_with_one_thing_wrong_is_refused_with_its_number_and_reason() {
    let Some(chain) = Chain::make(4) else {
        return;
    };
    let bases = bases(&chain);
    assert!(bases.len() >= 5, "{bases:?}");
    let datadir = chain.datadir("wrong");
    let mut used = BTreeSet::new();
    let mut imported = 0;
    for number in bases {
        let before = chain.file("before.rlp", &chain.blocks[imported..number as usize - 1]);
        datadir.import_valid(&before, "3");
        imported = number as usize - 1;
        for (name, change, reason) in HEADER_CHANGES.iter().chain(BODY_CHANGES) {
            let mut block = chain.block(number).clone();
            if change(&mut block).is_none() {
                continue;
            }
            used.insert(*name);
            let file = chain.file("wrong.rlp", [&block]);
            let output = datadir.import(&file, "3");
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name} in {number}: {error}");
            assert!(
                error.contains(&format!("block {number} ({}", block.header.hash_slow())),
                "{name} in {number}: {error}"
            );
            assert!(error.contains(reason), "{name} in {number}: {error}");
        }
    }
    assert_eq!(used.len(), HEADER_CHANGES.len() + BODY_CHANGES.len());
    // None of them left anything behind.
    let whole = chain.file("whole.rlp", &chain.blocks);
    let complete = datadir.import_valid(&whole, "3");
    let head = chain.summary["head"].as_str().unwrap();
    assert!(complete.contains(head), "{complete}");
}

/// The good blocks before a bad one stay, in one run as in two.
#[test]
fn blocks_before_a_refused_one_are_kept() {
    let Some(chain) = Chain::make(5) else {
        return;
    };
    let mut wrong = chain.blocks[..20].to_vec();
    wrong[15].header.state_root = B256::ZERO;
    let datadir = chain.datadir("kept");
    let output = datadir.import(&chain.file("wrong.rlp", &wrong), "2");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let rest = chain.file("rest.rlp", &chain.blocks[15..]);
    let complete = datadir.import_valid(&rest, "2");
    let count = format!("count={}", chain.blocks.len() - 15);
    assert!(complete.contains(&count), "{complete}");
}
