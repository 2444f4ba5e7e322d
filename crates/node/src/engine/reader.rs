//! A view of the chain for everyone but the engine thread: in-memory blocks first, then the
//! database.
//!
//! Invariant: a lookup opens its database snapshot while it holds the tree's lock, and a
//! reorganisation changes both under that lock; so one lookup sees one chain. The lock is held for
//! lookups only, never while state is read.

use super::{
    execute::evm_env_of,
    reorg::MAX_REORG_DEPTH,
    tree::{Branch, ExecutedBlock, ParentState, Tip, Tree},
};
use crate::{
    chainspec::ChainSpec,
    pool::Pool,
    primitives::{BlockNumHash, ChainBlock},
};
use alloy_consensus::Header;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_evm::EvmEnv;
use alloy_primitives::B256;
use revm::database_interface::DBErrorMarker;
use state_db::{DbError, DbView, StateDb};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

use super::provider::CodeCache;
pub use super::provider::StateReader;

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
    /// Why the engine takes no more requests, once it does not.
    pub(super) failure: OnceLock<super::PersistError>,
    pub(super) pool: Pool,
    /// The canonical chain's head; changed after the tree.
    pub(super) heads: watch::Sender<BlockNumHash>,
    tree: RwLock<Tree>,
}

impl Shared {
    pub(super) fn new(chain: Arc<ChainSpec>, db: StateDb, tree: Tree) -> Self {
        Self {
            chain,
            db,
            codes: Arc::default(),
            failure: OnceLock::new(),
            pool: Pool::default(),
            heads: watch::Sender::new(tree.head().num_hash()),
            tree: RwLock::new(tree),
        }
    }

    pub(super) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block whose state the database holds.
    pub(super) fn stored_head(&self) -> Result<B256, ReadError> {
        let head = self.db.view()?.head()?;
        let head = head.ok_or_else(|| ReadError("the database is empty".into()))?;
        Ok(head.hash)
    }

    /// Only the engine thread changes the tree.
    pub(super) fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How to read the state after `hash`: the database head, a block in memory, or a stored block
    /// that is not too far below the head. `None` when it is none of these.
    pub(super) fn state_after(&self, hash: B256) -> Result<Option<ParentState>, ReadError> {
        let (Branch { blocks, root }, storing, view) = {
            let tree = self.tree();
            if let Some(state) = tree.state_after(hash) {
                return Ok(Some(state));
            }
            (tree.branch(hash), tree.storing(), self.db.view()?)
        };
        let (Some(number), Some(head)) = (view.block_number(root)?, view.head()?) else {
            return Ok(None);
        };
        if head.number - number > MAX_REORG_DEPTH {
            return Ok(None);
        }
        let tip = match blocks.first() {
            Some(block) => Tip {
                header: block.header().clone(),
                hash,
            },
            None => stored_tip(&view, BlockNumHash { number, hash })?,
        };
        Ok(Some(ParentState {
            tip,
            layers: blocks.into(),
            anchor: head.hash,
            fork: (number < head.number).then_some(number),
            storing,
        }))
    }

    /// Tells whoever follows the chain that its head has moved, if it has.
    pub(super) fn announce_head(&self) {
        let head = self.tree().head().num_hash();
        self.heads
            .send_if_modified(|told| std::mem::replace(told, head) != head);
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
            || parent.fork.is_none() && parent.layers.iter().any(|block| block.hash() == head.hash);
        let layers = parent.layers.clone();
        let codes = self.codes.clone();
        Ok(reachable.then(|| StateReader::new(layers, view, parent.fork, codes)))
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

    /// The transactions that wait for a block.
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// The head of the canonical chain.
    pub fn head(&self) -> BlockNumHash {
        self.shared.tree().head().num_hash()
    }

    /// The head, and a notice whenever it has changed. Changes in quick succession may be seen as
    /// one.
    pub fn heads(&self) -> watch::Receiver<BlockNumHash> {
        self.shared.heads.subscribe()
    }

    /// The header of the head.
    pub fn head_header(&self) -> Header {
        self.shared.tree().head().header.clone()
    }

    /// The last safe block, if a fork choice named one.
    pub fn safe(&self) -> Option<BlockNumHash> {
        self.shared.tree().safe()
    }

    /// The last finalized block, if a fork choice named one.
    pub fn finalized(&self) -> Option<BlockNumHash> {
        self.shared.tree().finalized()
    }

    /// A block by hash: canonical, or of a side chain in memory.
    pub fn block_by_hash(&self, hash: B256) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        let view = {
            let tree = self.shared.tree();
            if let Some(block) = tree.block(hash) {
                return Ok(Some(block.chain_block.clone()));
            }
            self.shared.db.view()?
        };
        match view.block_number(hash)? {
            Some(number) => stored_block(&view, number),
            None => Ok(None),
        }
    }

    /// The header of a block: canonical, or of a side chain in memory.
    pub fn header_by_hash(&self, hash: B256) -> Result<Option<Header>, ReadError> {
        let view = {
            let tree = self.shared.tree();
            if let Some(block) = tree.block(hash) {
                return Ok(Some(block.header().clone()));
            }
            self.shared.db.view()?
        };
        match view.block_number(hash)? {
            Some(number) => Ok(view.header(number)?),
            None => Ok(None),
        }
    }

    /// A canonical block by number.
    pub fn block_by_number(&self, number: u64) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        self.block(BlockNumberOrTag::Number(number))
    }

    /// A canonical block by number or tag (`pending` means `latest`).
    pub fn block(&self, tag: BlockNumberOrTag) -> Result<Option<Arc<ChainBlock>>, ReadError> {
        let (number, view) = {
            let tree = self.shared.tree();
            let Some(number) = canonical_number(&tree, tag) else {
                return Ok(None);
            };
            if let Some(block) = tree.canonical(number) {
                return Ok(Some(block.chain_block.clone()));
            }
            (number, self.shared.db.view()?)
        };
        stored_block(&view, number)
    }

    /// The header of a canonical block.
    pub fn header_by_number(&self, number: u64) -> Result<Option<Header>, ReadError> {
        let view = {
            let tree = self.shared.tree();
            if let Some(block) = tree.canonical(number) {
                return Ok(Some(block.header().clone()));
            }
            if number > tree.head().header.number {
                return Ok(None);
            }
            self.shared.db.view()?
        };
        Ok(view.header(number)?)
    }

    /// The canonical block that contains a transaction, and the transaction's index in it.
    ///
    /// Blocks in memory are few and are searched; the database has an index.
    pub fn transaction(&self, hash: B256) -> Result<Option<(Arc<ChainBlock>, usize)>, ReadError> {
        let (unpersisted, view) = {
            let tree = self.shared.tree();
            (tree.unpersisted(u64::MAX), self.shared.db.view()?)
        };
        for block in unpersisted.iter().rev() {
            let mut transactions = block.chain_block.block.transactions.iter();
            if let Some(index) = transactions.position(|tx| *tx.tx_hash() == hash) {
                return Ok(Some((block.chain_block.clone(), index)));
            }
        }
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
        let tree = self.shared.tree();
        self.hash_of(&tree, BlockNumberOrTag::Number(number))
    }

    /// The state after the block `id`; `None` when there is no such block.
    ///
    /// In-memory blocks and the database tip are read directly, older blocks through history.
    pub fn state_at(&self, id: BlockId) -> Result<Option<StateReader>, ReadError> {
        let (branch, view) = {
            let tree = self.shared.tree();
            let hash = match id {
                BlockId::Hash(hash) => Some(hash.block_hash),
                BlockId::Number(tag) => self.hash_of(&tree, tag)?,
            };
            let Some(hash) = hash else {
                return Ok(None);
            };
            (tree.branch(hash), self.shared.db.view()?)
        };
        self.state_over(branch, view)
    }

    /// The state after a branch's newest block, over the stored block nearest to it in `view`.
    fn state_over(&self, branch: Branch, view: DbView) -> Result<Option<StateReader>, ReadError> {
        let Branch { mut blocks, root } = branch;
        let Some(head) = view.head()? else {
            return Ok(None);
        };
        let mut base = (root == head.hash).then_some((blocks.len(), head.number));
        if base.is_none() {
            // Blocks may have been persisted since they were put in memory.
            let hashes = blocks.iter().map(|block| block.hash()).chain([root]);
            for (layers, hash) in hashes.enumerate() {
                if let Some(number) = view.block_number(hash)? {
                    base = Some((layers, number));
                    break;
                }
            }
        }
        let Some((layers, number)) = base else {
            return Ok(None);
        };
        blocks.truncate(layers);
        let layers: Arc<[Arc<ExecutedBlock>]> = blocks.into();
        let history = (number < head.number).then_some(number);
        let codes = self.shared.codes.clone();
        Ok(Some(StateReader::new(layers, view, history, codes)))
    }

    /// The environment in which `header`'s transactions run.
    pub fn evm_env_for(&self, header: &Header) -> EvmEnv {
        evm_env_of(&self.shared.chain, header)
    }

    /// Number of the canonical block a tag names; `None` when no fork choice has named one yet.
    pub fn number_of(&self, tag: BlockNumberOrTag) -> Option<u64> {
        match tag {
            BlockNumberOrTag::Number(number) => Some(number),
            tag => canonical_number(&self.shared.tree(), tag),
        }
    }

    /// Hash of the block `id` names. A hash stands for itself, also when nobody knows the block.
    pub fn block_hash(&self, id: BlockId) -> Result<Option<B256>, ReadError> {
        match id {
            BlockId::Hash(hash) => Ok(Some(hash.block_hash)),
            BlockId::Number(tag) => self.hash_of(&self.shared.tree(), tag),
        }
    }

    fn hash_of(&self, tree: &Tree, tag: BlockNumberOrTag) -> Result<Option<B256>, ReadError> {
        let Some(number) = canonical_number(tree, tag) else {
            return Ok(None);
        };
        if let Some(block) = tree.canonical(number) {
            return Ok(Some(block.hash()));
        }
        Ok(self.shared.db.view()?.block_hash(number)?)
    }
}

/// The number a tag stands for; `None` when there is no such canonical block.
fn canonical_number(tree: &Tree, tag: BlockNumberOrTag) -> Option<u64> {
    let head = tree.head().header.number;
    match tag {
        BlockNumberOrTag::Latest | BlockNumberOrTag::Pending => Some(head),
        BlockNumberOrTag::Safe => tree.safe().map(|block| block.number),
        BlockNumberOrTag::Finalized => tree.finalized().map(|block| block.number),
        BlockNumberOrTag::Earliest => Some(0),
        BlockNumberOrTag::Number(number) => (number <= head).then_some(number),
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
