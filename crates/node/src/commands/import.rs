//! `import`: reads a file of RLP blocks, one after another, and validates each through the engine.
//!
//! The file is streamed: no more than one block is held at a time. Invariant: after a block that is
//! refused, the datadir holds every block before it and none from it on.

use super::{datadir::Datadir, failure, genesis};
use crate::{
    engine::{self, EngineConfig, EngineHandle},
    primitives::{Block, decode_block},
};
use alloy_primitives::B256;
use eyre::{Context as _, eyre};
use state_db::OpenOptions;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::PathBuf,
};
use tracing::info;

/// Longest RLP header: a byte and eight bytes of length.
const MAX_RLP_HEADER_BYTES: usize = 9;

/// Largest block that is read, in bytes; a longer item is taken for damage of the file.
const MAX_BLOCK_BYTES: usize = 1 << 30;

/// How much is read at a time.
const READ_STEP_BYTES: usize = 1 << 20;

/// What to import.
#[derive(Debug, Clone)]
pub struct ImportConfig {
    /// Where to.
    pub datadir: Datadir,
    /// How to open the database.
    pub database: OpenOptions,
    /// How the engine works.
    pub engine: EngineConfig,
    /// The file.
    pub path: PathBuf,
}

/// A block of the file that cannot be part of the chain.
#[derive(Debug, thiserror::Error)]
pub enum RefusedBlock {
    /// The bytes are no block.
    #[error("no block at byte {offset}, after block {after}: {reason}")]
    Malformed {
        /// Where the item begins in the file.
        offset: u64,
        /// Number of the last block that was read.
        after: u64,
        /// The decoder's words.
        reason: String,
    },
    /// The block breaks a rule, or its parent is not known.
    #[error("block {number} ({hash}) is {status}: {reason}")]
    Invalid {
        /// The number the block claims.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The engine's word: INVALID, or SYNCING for an unknown parent.
        status: String,
        /// Which rule, with the value found and the value expected.
        reason: String,
    },
}

/// Imports every block of the file that the chain does not have yet.
///
/// # Errors
/// At the first block that does not decode or is not valid, which is a [`RefusedBlock`]; the blocks
/// before it are kept.
pub fn run(config: ImportConfig) -> eyre::Result<()> {
    let chain = config.datadir.chain_spec()?;
    let file = File::open(&config.path)
        .wrap_err_with(|| format!("failed to open the chain file {}", config.path.display()))?;
    let db = config.datadir.open(&config.database)?;
    genesis::ensure(&config.datadir, &db, &chain)?;
    let engine = engine::spawn(db, chain, config.engine).map_err(failure::engine)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.wrap_err("failed to start the runtime")?;
    let blocks = BlockFile {
        reader: BufReader::with_capacity(1 << 20, file),
        offset: 0,
        last: 0,
    };
    let imported = runtime.block_on(import(&engine, blocks));
    // What was valid is kept, also when a later block was not.
    let flushed = runtime.block_on(engine.shutdown()).map_err(failure::engine);
    let count = imported.wrap_err_with(|| format!("failed to import {}", config.path.display()))?;
    flushed?;
    let head = engine.chain().head();
    info!(target: "reth::cli", count, number = head.number, hash = %head.hash, "Import complete");
    Ok(())
}

async fn import(engine: &EngineHandle, mut blocks: BlockFile<impl Read>) -> eyre::Result<u64> {
    let mut count = 0;
    while let Some(block) = blocks.next()? {
        let hash = block.header.hash_slow();
        if block.header.number == 0 {
            continue;
        }
        let known = is_canonical(engine, block.header.number, hash)?;
        // Of one that is known the engine compares the body.
        execute(engine, block, hash).await?;
        count += u64::from(!known);
    }
    Ok(count)
}

fn is_canonical(engine: &EngineHandle, number: u64, hash: B256) -> eyre::Result<bool> {
    let known = engine
        .chain()
        .canonical_hash(number)
        .map_err(|e| eyre!("failed to {e}"))?;
    Ok(known == Some(hash))
}

async fn execute(engine: &EngineHandle, block: Block, hash: B256) -> eyre::Result<()> {
    let number = block.header.number;
    let status = engine.import_block(block).await.map_err(failure::engine)?;
    if status.is_valid() {
        return Ok(());
    }
    let reason = status.status.validation_error();
    let reason = reason.unwrap_or("its parent, or the state after it, is not known");
    let refused = RefusedBlock::Invalid {
        number,
        hash,
        status: status.status.as_str().to_owned(),
        reason: reason.to_owned(),
    };
    Err(refused.into())
}

/// Blocks in a row, each an RLP list.
struct BlockFile<R> {
    reader: R,
    /// Bytes read so far.
    offset: u64,
    /// Number of the last block.
    last: u64,
}

impl<R: Read> BlockFile<R> {
    /// The next block; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Block>, RefusedBlock> {
        let (offset, after) = (self.offset, self.last);
        let block = self
            .read_block()
            .map_err(|reason| RefusedBlock::Malformed {
                offset,
                after,
                reason,
            })?;
        if let Some(block) = &block {
            self.last = block.header.number;
        }
        Ok(block)
    }

    fn read_block(&mut self) -> Result<Option<Block>, String> {
        let mut bytes = vec![0; 1];
        if self.read(&mut bytes[..1]).map_err(|e| e.to_string())? == 0 {
            return Ok(None);
        }
        // Lists of up to 55 bytes have the length in the first byte, others that many bytes after.
        let length_bytes = usize::from(bytes[0].saturating_sub(0xf7));
        bytes.resize((1 + length_bytes).min(MAX_RLP_HEADER_BYTES), 0);
        self.fill(&mut bytes[1..])?;
        let header_bytes = bytes.len();
        let payload_bytes = match bytes[0] {
            0xc0..=0xf7 => usize::from(bytes[0] - 0xc0),
            0xf8.. => bytes[1..]
                .iter()
                .fold(0_usize, |n, b| n.saturating_mul(256) + usize::from(*b)),
            other => return Err(format!("{other:#04x} does not begin a list")),
        };
        if payload_bytes > MAX_BLOCK_BYTES {
            return Err(format!("{payload_bytes} bytes is no block"));
        }
        // Memory is taken for what is there, not for what a damaged length promises.
        while bytes.len() < header_bytes + payload_bytes {
            let read = bytes.len();
            let next = (header_bytes + payload_bytes - read).min(READ_STEP_BYTES);
            bytes.resize(read + next, 0);
            self.fill(&mut bytes[read..])?;
        }
        decode_block(&bytes).map(Some).map_err(|e| e.to_string())
    }

    /// Fills `buffer` or tells that the file ends too early.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        match self.read(buffer) {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err("the file ends within it".to_owned()),
            Err(problem) => Err(problem.to_string()),
        }
    }

    /// Reads until `buffer` is full or the file ends.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.reader.read(&mut buffer[read..]) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) => return Err(problem),
            }
        }
        self.offset += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u64) -> Block {
        Block {
            header: alloy_consensus::Header {
                number,
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn read(bytes: &[u8]) -> (Vec<u64>, Option<String>) {
        let mut file = BlockFile {
            reader: bytes,
            offset: 0,
            last: 0,
        };
        let mut numbers = Vec::new();
        loop {
            match file.next() {
                Ok(Some(block)) => numbers.push(block.header.number),
                Ok(None) => return (numbers, None),
                Err(problem) => return (numbers, Some(problem.to_string())),
            }
        }
    }

    #[test]
    fn blocks_come_one_after_another() {
        let bytes = [1, 2, 300]
            .map(|number| alloy_rlp::encode(numbered(number)))
            .concat();
        assert_eq!(read(&bytes), (vec![1, 2, 300], None));
        assert_eq!(read(&[]), (vec![], None));
    }

    /// Notes how much memory it was given at most.
    struct Thrifty<'a> {
        bytes: &'a [u8],
        most: usize,
    }

    impl Read for Thrifty<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.most = self.most.max(buffer.len());
            self.bytes.read(buffer)
        }
    }

    #[test]
    fn a_promised_length_takes_no_memory() {
        let bytes = [&[0xfb, 0x40, 0, 0, 0][..], &[0; 100]].concat();
        let reader = Thrifty {
            bytes: &bytes,
            most: 0,
        };
        let mut file = BlockFile {
            reader,
            offset: 0,
            last: 0,
        };
        let problem = file.next().unwrap_err().to_string();
        assert!(problem.contains("ends within it"), "{problem}");
        assert_eq!(file.reader.most, READ_STEP_BYTES);
    }

    #[test]
    fn damage_is_located() {
        let good = alloy_rlp::encode(numbered(1));
        let at = format!("at byte {}, after block 1", good.len());
        for (tail, expected) in [
            (&[0x80][..], "does not begin a list"),
            (&[0xc1, 0x80], "no block"),
            (&good[..good.len() - 1], "ends within it"),
            (&[0xff], "ends within it"),
            (&[0xff; 9], "is no block"),
        ] {
            let (numbers, problem) = read(&[&good, tail].concat());
            let problem = problem.unwrap();
            assert_eq!(numbers, [1]);
            assert!(
                problem.contains(&at) && problem.contains(expected),
                "{problem}"
            );
        }
    }
}
