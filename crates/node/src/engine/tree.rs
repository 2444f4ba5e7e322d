//! The blocks that are in memory with what they changed, and which of them are canonical.
//!
//! Invariant: canonical blocks in memory descend from [`Tree::persisted`], the database's head as
//! the engine knows it, so the state after any of them is its ancestors' changes over the
//! database. Blocks of side chains may also stand on an older stored block, whose state is the
//! database's taken back; or on nothing that is known any more, until they are dropped.

use super::{EngineError, reorg::MAX_REORG_DEPTH};
use crate::primitives::{BlockNumHash, ChainBlock};
use alloy_consensus::{Header, Transaction};
use alloy_primitives::{B256, map::B256Map};
use revm::database::BundleState;
use state_db::{Overlay, StateDb};
use state_root::updates::{HashedState, TrieUpdates};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// Blocks of side chains kept with what they changed; older ones are kept as payloads only.
const MAX_SIDE_BLOCKS: usize = 128;
/// The same bound by weight, in bytes as [`ExecutedBlock::weight_bytes`] estimates them.
const MAX_SIDE_BYTES: usize = 256 << 20;
/// What a changed account or slot takes in memory, by plain key, by hashed key and in trie nodes.
const CHANGED_KEY_BYTES: usize = 1024;

/// A valid block with everything it changed.
pub(super) struct ExecutedBlock {
    /// Block and receipts.
    pub(super) chain_block: Arc<ChainBlock>,
    /// Changes by plain key, with the values before.
    pub(super) bundle: BundleState,
    /// The same changes by hashed key.
    pub(super) hashed: Arc<HashedState>,
    /// Changes to stored trie nodes.
    pub(super) trie: Arc<TrieUpdates>,
    overlay: Mutex<Option<AnchoredOverlay>>,
}

/// The changes of a block and its ancestors over a database.
#[derive(Clone)]
struct AnchoredOverlay {
    base: OverlayBase,
    overlay: Arc<Overlay>,
}

/// Where an overlay begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverlayBase {
    /// After this block's ancestor of this number. It reads right over a database whose head is that
    /// ancestor or a later one.
    After(u64),
    /// With what takes a database of this head back.
    Back(B256),
}

impl OverlayBase {
    /// Whether what begins here reads right where `wanted` does.
    fn serves(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::After(begin), Self::After(head)) => begin <= head,
            _ => self == wanted,
        }
    }
}

impl ExecutedBlock {
    pub(super) fn new(
        chain_block: Arc<ChainBlock>,
        bundle: BundleState,
        hashed: HashedState,
        trie: TrieUpdates,
    ) -> Self {
        Self {
            chain_block,
            bundle,
            hashed: hashed.into(),
            trie: trie.into(),
            overlay: Mutex::new(None),
        }
    }

    pub(super) fn hash(&self) -> B256 {
        self.chain_block.block.hash
    }

    pub(super) fn header(&self) -> &Header {
        &self.chain_block.block.header
    }

    /// An estimate of the memory the block takes.
    fn weight_bytes(&self) -> usize {
        let block = &self.chain_block.block;
        let inputs = block.transactions.iter().map(|tx| tx.input().len() + 512);
        let slots = self
            .bundle
            .state
            .values()
            .map(|account| account.storage.len());
        let keys = self.bundle.state.len() + slots.sum::<usize>();
        inputs.sum::<usize>() + keys * CHANGED_KEY_BYTES
    }

    fn cached_overlay(&self, base: OverlayBase) -> Option<Arc<Overlay>> {
        let cached = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        cached
            .as_ref()
            .filter(|cached| cached.base.serves(base))
            .map(|cached| cached.overlay.clone())
    }

    fn cache_overlay(&self, base: OverlayBase, overlay: Arc<Overlay>) {
        let mut cached = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(AnchoredOverlay { base, overlay });
    }

    fn forget_overlay(&self) {
        *self.overlay.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A block without its body: enough to build on it.
#[derive(Debug, Clone)]
pub(super) struct Tip {
    /// The header.
    pub(super) header: Header,
    /// Its hash.
    pub(super) hash: B256,
}

impl Tip {
    pub(super) fn num_hash(&self) -> BlockNumHash {
        BlockNumHash {
            number: self.header.number,
            hash: self.hash,
        }
    }
}

/// How to read the state after one block.
#[derive(Clone)]
pub(super) struct ParentState {
    /// The block.
    pub(super) tip: Tip,
    /// In-memory blocks from it down to the child of the anchor, newest first.
    pub(super) layers: Arc<[Arc<ExecutedBlock>]>,
    /// The database head over which the layers are read.
    pub(super) anchor: B256,
    /// The stored block on which the layers stand, when that is not the anchor but below it.
    pub(super) fork: Option<u64>,
    /// Number up to which canonical blocks are stored, or are being stored.
    pub(super) storing: u64,
}

impl ParentState {
    /// Database heads over which the layers read right: the anchor and, when the layers stand on
    /// it, their own hashes.
    pub(super) fn ancestors(&self) -> Arc<[B256]> {
        if self.fork.is_some() {
            return [self.anchor].into();
        }
        let layers = self.layers.iter().rev().map(|block| block.hash());
        std::iter::once(self.anchor).chain(layers).collect()
    }

    /// The layers' hashed state and trie nodes as one. Extends the nearest ancestor's that is known;
    /// below the anchor it begins with what takes the database back to the fork.
    pub(super) fn overlay(&self, db: &StateDb) -> Result<Arc<Overlay>, EngineError> {
        let base = self.overlay_base();
        let mut missing = 0;
        let mut overlay = None;
        for block in self.layers.iter() {
            overlay = block.cached_overlay(base);
            if overlay.is_some() {
                break;
            }
            missing += 1;
        }
        let mut overlay = match (overlay, self.fork) {
            (Some(overlay), _) => overlay,
            (None, None) => Arc::default(),
            (None, Some(fork)) => self.overlay_back_to(db, fork)?,
        };
        for block in self.layers[..missing].iter().rev() {
            let mut below = (*overlay).clone();
            if let OverlayBase::After(stored) = base {
                below = below.without_blocks_up_to(stored);
            }
            let (number, hashed, trie) = (
                block.header().number,
                block.hashed.clone(),
                block.trie.clone(),
            );
            let place = (number, self.storing);
            overlay = Arc::new(below.extend_block(place, hashed, trie));
            block.cache_overlay(base, overlay.clone());
        }
        // The next block extends the tip's, one that competes with the tip its parent's. Each is
        // many blocks' changes.
        for block in self.layers.iter().skip(2) {
            block.forget_overlay();
        }
        Ok(overlay)
    }

    fn overlay_base(&self) -> OverlayBase {
        if self.fork.is_some() {
            return OverlayBase::Back(self.anchor);
        }
        let oldest = self.layers.last();
        OverlayBase::After(oldest.map_or(self.tip.header.number, |block| block.header().number - 1))
    }

    fn overlay_back_to(&self, db: &StateDb, fork: u64) -> Result<Arc<Overlay>, EngineError> {
        let view = db.view()?;
        if view.head()?.is_none_or(|head| head.hash != self.anchor) {
            return Err(EngineError::StateGone(self.tip.hash));
        }
        let overlay = view
            .overlay_back_to(fork)
            .map_err(|problem| EngineError::StateRoot(problem.to_string()))?;
        Ok(Arc::new(overlay))
    }
}

/// In-memory blocks from one down to the first block that is not in memory.
pub(super) struct Branch {
    /// Newest first.
    pub(super) blocks: Vec<Arc<ExecutedBlock>>,
    /// Hash of the block below them.
    pub(super) root: B256,
}

/// In-memory blocks and the canonical chain's landmarks.
pub(super) struct Tree {
    blocks: B256Map<Arc<ExecutedBlock>>,
    /// Hashes of `blocks`, in the order in which they came.
    arrivals: VecDeque<B256>,
    canonical: BTreeMap<u64, B256>,
    persisted: Tip,
    /// Number up to which canonical blocks are in the database or on their way there.
    storing: u64,
    head: Tip,
    safe: Option<BlockNumHash>,
    finalized: Option<BlockNumHash>,
}

impl Tree {
    /// A tree over a database whose head is `persisted`, with the markers it holds.
    pub(super) fn new(
        persisted: Tip,
        safe: Option<BlockNumHash>,
        finalized: Option<BlockNumHash>,
    ) -> Self {
        Self {
            blocks: B256Map::default(),
            arrivals: VecDeque::new(),
            canonical: BTreeMap::new(),
            head: persisted.clone(),
            storing: persisted.header.number,
            persisted,
            safe,
            finalized,
        }
    }

    pub(super) fn head(&self) -> &Tip {
        &self.head
    }

    pub(super) fn persisted(&self) -> &Tip {
        &self.persisted
    }

    /// Number up to which canonical blocks are in the database or on their way there.
    pub(super) fn storing(&self) -> u64 {
        self.storing
    }

    /// Takes note that canonical blocks up to `last` are being stored.
    pub(super) fn begin_storing(&mut self, last: u64) {
        self.storing = last;
    }

    /// Last safe block a fork choice named, or an ancestor of it; canonical.
    pub(super) fn safe(&self) -> Option<BlockNumHash> {
        self.safe
    }

    /// Last finalized block a fork choice named; canonical.
    pub(super) fn finalized(&self) -> Option<BlockNumHash> {
        self.finalized
    }

    /// An in-memory block, canonical or not.
    pub(super) fn block(&self, hash: B256) -> Option<&Arc<ExecutedBlock>> {
        self.blocks.get(&hash)
    }

    /// An in-memory canonical block.
    pub(super) fn canonical(&self, number: u64) -> Option<&Arc<ExecutedBlock>> {
        self.blocks.get(self.canonical.get(&number)?)
    }

    /// Whether an in-memory block is on the canonical chain.
    pub(super) fn is_canonical(&self, block: BlockNumHash) -> bool {
        self.canonical.get(&block.number) == Some(&block.hash)
    }

    /// Adds a valid block.
    pub(super) fn insert(&mut self, block: Arc<ExecutedBlock>) {
        let hash = block.hash();
        if self.blocks.insert(hash, block).is_none() {
            self.arrivals.push_back(hash);
        }
    }

    /// Removes the oldest blocks of side chains beyond the bound, and gives them. Ancestors of
    /// `newest` stay: it was just executed on them.
    pub(super) fn evict(&mut self, newest: B256) -> Vec<Arc<ExecutedBlock>> {
        let newest = self.branch(newest).blocks;
        let is_side = |block: &Arc<ExecutedBlock>| {
            !self.is_canonical(block.chain_block.num_hash())
                && !newest.iter().any(|kept| Arc::ptr_eq(kept, block))
        };
        let side = self
            .arrivals
            .iter()
            .filter_map(|hash| self.blocks.get(hash));
        let side: Vec<_> = side.filter(|block| is_side(block)).cloned().collect();
        let mut count = side.len();
        let mut bytes: usize = side.iter().map(|block| block.weight_bytes()).sum();
        let mut evicted = Vec::new();
        for block in side {
            if count <= MAX_SIDE_BLOCKS && bytes <= MAX_SIDE_BYTES {
                break;
            }
            count -= 1;
            bytes -= block.weight_bytes();
            self.blocks.remove(&block.hash());
            evicted.push(block);
        }
        self.drop_departed();
        evicted
    }

    fn drop_departed(&mut self) {
        let blocks = &self.blocks;
        self.arrivals.retain(|hash| blocks.contains_key(hash));
    }

    /// In-memory blocks from `hash` down to the database head, or as far as they go.
    pub(super) fn branch(&self, hash: B256) -> Branch {
        let mut blocks = Vec::new();
        let mut root = hash;
        while root != self.persisted.hash
            && let Some(block) = self.blocks.get(&root)
        {
            root = block.header().parent_hash;
            blocks.push(block.clone());
        }
        Branch { blocks, root }
    }

    /// How to read the state after `hash`, when it is the database head or in memory above it.
    pub(super) fn state_after(&self, hash: B256) -> Option<ParentState> {
        let Branch { blocks, root } = self.branch(hash);
        (root == self.persisted.hash).then(|| ParentState {
            tip: tip_of(&blocks, &self.persisted),
            layers: blocks.into(),
            anchor: root,
            fork: None,
            storing: self.storing,
        })
    }

    /// Makes `branch` (newest first, down to the child of the database head) the canonical chain
    /// and moves the markers that are given. A marker left on the old chain falls back to where
    /// the chains part.
    pub(super) fn adopt(
        &mut self,
        branch: &[Arc<ExecutedBlock>],
        safe: Option<BlockNumHash>,
        finalized: Option<BlockNumHash>,
    ) {
        let canonical = branch
            .iter()
            .map(|block| (block.header().number, block.hash()))
            .collect();
        let before = std::mem::replace(&mut self.canonical, canonical);
        self.head = tip_of(branch, &self.persisted);
        let kept = |marker| self.last_common(&before, marker);
        let (safe, finalized) = (
            safe.or_else(|| self.safe.map(kept)),
            finalized.or_else(|| self.finalized.map(kept)),
        );
        (self.safe, self.finalized) = (safe, finalized);
    }

    /// The last block up to `marker` that is both on the chain `before` and on the present one.
    fn last_common(&self, before: &BTreeMap<u64, B256>, marker: BlockNumHash) -> BlockNumHash {
        if marker.number <= self.persisted.header.number {
            return marker;
        }
        let mut older = before.range(..=marker.number).rev();
        let common = older.find(|(number, hash)| self.canonical.get(number) == Some(hash));
        common.map_or_else(
            || self.persisted.num_hash(),
            |(number, hash)| BlockNumHash {
                number: *number,
                hash: *hash,
            },
        )
    }

    /// Takes note that the database was taken back to `root`. No block in memory is canonical
    /// until the next [`Self::adopt`].
    pub(super) fn rewind(&mut self, root: Tip) {
        self.canonical.clear();
        self.storing = root.header.number;
        self.persisted = root;
    }

    /// Canonical blocks in memory from the database head up to `last`, oldest first.
    pub(super) fn unpersisted(&self, last: u64) -> Vec<Arc<ExecutedBlock>> {
        self.canonical
            .range(..=last)
            .filter_map(|(_, hash)| self.blocks.get(hash).cloned())
            .collect()
    }

    /// Takes note that the database's head is now the canonical block `persisted`, and forgets blocks
    /// that are in the database or can no longer become canonical.
    pub(super) fn advance_persisted(&mut self, persisted: BlockNumHash) {
        let Some(block) = self.blocks.get(&persisted.hash) else {
            return;
        };
        self.persisted = Tip {
            header: block.header().clone(),
            hash: persisted.hash,
        };
        let finalized = self.finalized.map_or(0, |block| block.number);
        let oldest = finalized.max(persisted.number.saturating_sub(MAX_REORG_DEPTH));
        let canonical = &self.canonical;
        self.blocks.retain(|hash, block| {
            let number = block.header().number;
            number > persisted.number || (number > oldest && canonical.get(&number) != Some(hash))
        });
        self.canonical
            .retain(|number, _| *number > persisted.number);
        self.drop_departed();
        for block in self.blocks.values() {
            if !self.is_canonical(block.chain_block.num_hash()) {
                // It was merged over the old database head.
                block.forget_overlay();
            }
        }
    }
}

fn tip_of(branch: &[Arc<ExecutedBlock>], below: &Tip) -> Tip {
    branch.first().map_or_else(
        || below.clone(),
        |block| Tip {
            header: block.header().clone(),
            hash: block.hash(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use state_db::{OpenOptions, StoredBlock};
    use state_root::updates::Account;

    /// What stands for the hash of a block, and for the one account that it changes.
    fn hash(number: u64) -> B256 {
        B256::from(U256::from(number + 1))
    }

    fn block(number: u64) -> Arc<ExecutedBlock> {
        let header = Header {
            number,
            parent_hash: hash(number - 1),
            ..Header::default()
        };
        let block = StoredBlock {
            header,
            hash: hash(number),
            ..StoredBlock::default()
        };
        let receipts = Vec::new();
        let hashed = HashedState {
            accounts: vec![(hash(number), Some(Account::default()))],
            ..HashedState::default()
        };
        Arc::new(ExecutedBlock::new(
            Arc::new(ChainBlock { block, receipts }),
            BundleState::default(),
            hashed,
            TrieUpdates::default(),
        ))
    }

    /// Blocks whose account the overlay of the head mentions.
    fn mentioned(tree: &Tree, db: &StateDb) -> Vec<u64> {
        let head = tree.head().header.number;
        let overlay = tree.state_after(hash(head)).unwrap().overlay(db).unwrap();
        let is_there = |number: &u64| overlay.account(hash(*number)).is_some();
        (0..=head).filter(is_there).collect()
    }

    #[test]
    fn what_is_read_above_the_database_is_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let db = StateDb::open(folder.path(), &OpenOptions::default()).unwrap();
        let genesis = Tip {
            header: Header::default(),
            hash: hash(0),
        };
        let mut tree = Tree::new(genesis, None, None);
        for number in 1..=200 {
            tree.insert(block(number));
            tree.adopt(&tree.branch(hash(number)).blocks, None, None);
            let persisted = tree.persisted().header.number;
            let lacking: Vec<_> = (persisted + 1..=number).collect();
            assert_eq!(mentioned(&tree, &db), lacking);
            // A batch takes as long as 30 blocks, and the next begins when it ends.
            if number % 30 == 0 {
                tree.advance_persisted(BlockNumHash {
                    number: tree.storing(),
                    hash: hash(tree.storing()),
                });
                tree.begin_storing(number);
            }
        }
        assert_eq!(tree.persisted().header.number, 150);
    }
}
