//! A view of the chain for everyone but the engine thread: in-memory blocks first, then the
//! database. Locks are held for lookups only, never while state is read.

use super::{
    execute::evm_env_of,
    tree::{ParentState, Tip, Tree},
};
use crate::{
    chainspec::ChainSpec,
    primitives::{BlockNumHash, ChainBlock},
};
use alloy_consensus::Header;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_evm::EvmEnv;
use alloy_primitives::B256;
use revm::database_interface::DBErrorMarker;
use state_db::{DbError, DbView, StateDb};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::provider::CodeCache;
pub use super::provider::StateReader;

/// How often a state is looked up anew when saves keep overtaking the lookup.
const MAX_STATE_LOOKUPS: usize = 16;

/// Why stored data could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("read state: {0}")]
pub struct ReadError(pub String);

impl DBErrorMarker for ReadError {}

impl From<DbError> for ReadError {
    fn from(error: DbError) -> Self {
        Self(error.to_string())
    }
}

/// What the engine thread and all readers share.
pub(super) struct Shared {
    pub(super) chain: Arc<ChainSpec>,
    pub(super) db: StateDb,
    pub(super) codes: Arc<CodeCache>,
    tree: RwLock<Tree>,
}

impl Shared {
    pub(super) fn new(chain: Arc<ChainSpec>, db: StateDb, tree: Tree) -> Self {
        Self {
            chain,
            db,
            codes: Arc::default(),
            tree: RwLock::new(tree),
        }
    }

    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the engine thread changes the tree.
    pub(super) fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the state `parent` describes; `None` when the database has moved past it.
    pub(super) fn open_state(
        &self,
        parent: &ParentState,
    ) -> Result<Option<StateReader>, ReadError> {
        let view = self.db.view()?;
        let head = view
            .head()?
            .ok_or_else(|| ReadError("the database is empty".into()))?;
        let reachable = head.hash == parent.anchor
            || parent.layers.iter().any(|block| block.hash() == head.hash);
        let layers = parent.layers.clone();
        Ok(reachable.then(|| StateReader::new(layers, view, None, self.codes.clone())))
    }
}

/// Reads the chain. Cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct ChainReader {
    pub(super) shared: Arc<Shared>,
}

impl ChainReader {
    /// The rules of the chain.
    pub fn chain_spec(&self) -> &Arc<ChainSpec> {
        &self.shared.chain
    }

    /// The head of the canonical chain.
    pub fn head(&self) -> BlockNumHash {
        self.shared.tree().head().num_hash()
    }

    /// The header of the head.
    pub fn head_header(&self) -> Header {
        self.shared.tree().head().header.clone()
    }

    /// The last safe block, if a fork choice named one.
    pub fn safe(&self) -> Option<BlockNumHash> {
        self.shared.tree().safe
    }

    /// The last finalized block, if a fork choice named one.
    pub fn finalized(&self) -> Option<BlockNumHash> {
        self.shared.tree().finalized
    }

    /// A block by hash: canonical, or of a side chain in memory.
    pub fn block_by_hash(&self, hash: B256) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        if let Some(block) = self.shared.tree().block(hash) {
            return Ok(Some(block.chain_block.clone()));
        }
        let view = self.shared.db.view()?;
        match view.block_number(hash)? {
            Some(number) => stored_block(&view, number),
            None => Ok(None),
        }
    }

    /// The header of a block: canonical, or of a side chain in memory.
    pub fn header_by_hash(&self, hash: B256) -> Result<Option<Header>, ReadError> {
        if let Some(block) = self.shared.tree().block(hash) {
            return Ok(Some(block.header().clone()));
        }
        let view = self.shared.db.view()?;
        match view.block_number(hash)? {
            Some(number) => Ok(view.header(number)?),
            None => Ok(None),
        }
    }

    /// A canonical block by number.
    pub fn block_by_number(&self, number: u64) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        {
            let tree = self.shared.tree();
            if let Some(block) = tree.canonical(number) {
                return Ok(Some(block.chain_block.clone()));
            }
            if number > tree.head().header.number {
                return Ok(None);
            }
        }
        stored_block(&self.shared.db.view()?, number)
    }

    /// A canonical block by number or tag (`pending` means `latest`).
    pub fn block(&self, tag: BlockNumberOrTag) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        match self.number_of(tag) {
            Some(number) => self.block_by_number(number),
            None => Ok(None),
        }
    }

    /// The header of a canonical block.
    pub fn header_by_number(&self, number: u64) -> Result<Option<Header>, ReadError> {
        {
            let tree = self.shared.tree();
            if let Some(block) = tree.canonical(number) {
                return Ok(Some(block.header().clone()));
            }
            if number > tree.head().header.number {
                return Ok(None);
            }
        }
        Ok(self.shared.db.view()?.header(number)?)
    }

    /// The canonical block that contains a transaction, and the transaction's index in it.
    ///
    /// Blocks in memory are few and are searched; the database has an index.
    pub fn transaction(&self, hash: B256) -> Result<Option<(Arc<ChainBlock>, usize)>, ReadError> {
        let unsaved = self.shared.tree().unsaved(u64::MAX);
        for block in unsaved.iter().rev() {
            let mut transactions = block.chain_block.block.transactions.iter();
            if let Some(index) = transactions.position(|tx| *tx.tx_hash() == hash) {
                return Ok(Some((block.chain_block.clone(), index)));
            }
        }
        let view = self.shared.db.view()?;
        let Some(location) = view.transaction_location(hash)? else {
            return Ok(None);
        };
        let block = stored_block(&view, location.block_number)?;
        Ok(block.map(|block| (block, location.index as usize)))
    }

    /// Whether a block is on the canonical chain.
    pub fn is_canonical(&self, block: BlockNumHash) -> Result<bool, ReadError> {
        Ok(self.canonical_hash(block.number)? == Some(block.hash))
    }

    /// Hash of the canonical block `number`.
    pub fn canonical_hash(&self, number: u64) -> Result<Option<B256>, ReadError> {
        {
            let tree = self.shared.tree();
            if let Some(block) = tree.canonical(number) {
                return Ok(Some(block.hash()));
            }
            if number > tree.head().header.number {
                return Ok(None);
            }
        }
        Ok(self.shared.db.view()?.block_hash(number)?)
    }

    /// The state after the block `id`; `None` when there is no such block.
    ///
    /// In-memory blocks and the database tip are read directly, older blocks through history.
    pub fn state_at(&self, id: BlockId) -> Result<Option<StateReader>, ReadError> {
        for _ in 0..MAX_STATE_LOOKUPS {
            let Some(hash) = self.hash_of(id)? else {
                return Ok(None);
            };
            let parent = self.shared.tree().state_after(hash);
            let Some(parent) = parent else {
                return self.historical_state(hash);
            };
            if let Some(state) = self.shared.open_state(&parent)? {
                return Ok(Some(state));
            }
        }
        Err(ReadError("saves kept overtaking the lookup".into()))
    }

    /// The environment in which `header`'s transactions run.
    pub fn evm_env_for(&self, header: &Header) -> EvmEnv {
        evm_env_of(&self.shared.chain, header)
    }

    /// Number of the canonical block a tag names; `None` when no fork choice has named one yet.
    pub fn number_of(&self, tag: BlockNumberOrTag) -> Option<u64> {
        let tree = self.shared.tree();
        match tag {
            BlockNumberOrTag::Latest | BlockNumberOrTag::Pending => Some(tree.head().header.number),
            BlockNumberOrTag::Safe => tree.safe.map(|block| block.number),
            BlockNumberOrTag::Finalized => tree.finalized.map(|block| block.number),
            BlockNumberOrTag::Earliest => Some(0),
            BlockNumberOrTag::Number(number) => Some(number),
        }
    }

    fn hash_of(&self, id: BlockId) -> Result<Option<B256>, ReadError> {
        match id {
            BlockId::Hash(hash) => Ok(Some(hash.block_hash)),
            BlockId::Number(tag) => match self.number_of(tag) {
                Some(number) => self.canonical_hash(number),
                None => Ok(None),
            },
        }
    }

    fn historical_state(&self, hash: B256) -> Result<Option<StateReader>, ReadError> {
        let view = self.shared.db.view()?;
        let number = view.block_number(hash)?;
        let codes = self.shared.codes.clone();
        Ok(number.map(|number| StateReader::new(Arc::default(), view, Some(number), codes)))
    }
}

fn stored_block(view: &DbView, number: u64) -> Result<Option<Arc<ChainBlock>>, ReadError> {
    let Some(block) = view.block(number)? else {
        return Ok(None);
    };
    let receipts = view.receipts(number)?.unwrap_or_default();
    Ok(Some(Arc::new(ChainBlock { block, receipts })))
}

/// Header and hash of the stored block `number`.
pub(super) fn stored_tip(view: &DbView, block: BlockNumHash) -> Result<Tip, ReadError> {
    let header = view
        .header(block.number)?
        .ok_or_else(|| ReadError(format!("header {} is missing", block.number)))?;
    Ok(Tip {
        header,
        hash: block.hash,
    })
}
