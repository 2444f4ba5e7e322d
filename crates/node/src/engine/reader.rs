//! A view of the chain for the servers: in-memory blocks first, then the database.

use crate::{
    chainspec::ChainSpec,
    primitives::{BlockNumHash, ChainBlock},
};
use alloy_consensus::Header;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_evm::EvmEnv;
use alloy_primitives::{Address, B256, U256};
use revm::{
    DatabaseRef, bytecode::Bytecode, database_interface::DBErrorMarker, state::AccountInfo,
};
use std::sync::Arc;

/// Why stored data could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("read state: {0}")]
pub struct ReadError(pub String);

impl DBErrorMarker for ReadError {}

/// Reads the chain. Cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct ChainReader;

impl ChainReader {
    /// The rules of the chain.
    pub fn chain_spec(&self) -> &Arc<ChainSpec> {
        todo!()
    }
    /// The head of the canonical chain.
    pub fn head(&self) -> BlockNumHash {
        todo!()
    }
    /// The header of the head.
    pub fn head_header(&self) -> Header {
        todo!()
    }
    /// The last safe block, if a fork choice named one.
    pub fn safe(&self) -> Option<BlockNumHash> {
        todo!()
    }
    /// The last finalized block, if a fork choice named one.
    pub fn finalized(&self) -> Option<BlockNumHash> {
        todo!()
    }
    /// A block by hash: canonical, or of a side chain in memory.
    pub fn block_by_hash(&self, _hash: B256) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        todo!()
    }
    /// A canonical block by number.
    pub fn block_by_number(&self, _number: u64) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        todo!()
    }
    /// A canonical block by number or tag (`pending` means `latest`).
    pub fn block(&self, _tag: BlockNumberOrTag) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        todo!()
    }
    /// Hash of the canonical block `number`.
    pub fn canonical_hash(&self, _number: u64) -> Result<Option<B256>, ReadError> {
        todo!()
    }
    /// The state after the block `id`; `None` when there is no such block.
    ///
    /// In-memory blocks and the database tip are read directly, older blocks through history.
    pub fn state_at(&self, _id: BlockId) -> Result<Option<StateReader>, ReadError> {
        todo!()
    }
    /// The environment in which `header`'s transactions run.
    pub fn evm_env_for(&self, _header: &Header) -> EvmEnv {
        todo!()
    }
}

/// The state after one block. Holds a read transaction: use it and drop it, on one thread.
#[derive(Debug)]
pub struct StateReader;

impl DatabaseRef for StateReader {
    type Error = ReadError;

    fn basic_ref(&self, _address: Address) -> Result<Option<AccountInfo>, ReadError> {
        todo!()
    }

    fn code_by_hash_ref(&self, _code_hash: B256) -> Result<Bytecode, ReadError> {
        todo!()
    }

    fn storage_ref(&self, _address: Address, _slot: U256) -> Result<U256, ReadError> {
        todo!()
    }

    fn block_hash_ref(&self, _number: u64) -> Result<B256, ReadError> {
        todo!()
    }
}
