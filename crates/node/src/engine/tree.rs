//! The blocks that are not in the database yet, and which of them are canonical.
//!
//! Invariant: every block in memory descends from [`Tree::persisted`], the database's head as the
//! engine knows it. So the state after any of them is its ancestors' changes over the database.

use crate::primitives::{BlockNumHash, ChainBlock};
use alloy_consensus::Header;
use alloy_primitives::{B256, map::B256Map};
use revm::database::BundleState;
use state_db::Overlay;
use state_root::updates::{HashedState, TrieUpdates};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A valid block with everything it changed.
pub(super) struct ExecutedBlock {
    /// Block and receipts.
    pub(super) chain_block: Arc<ChainBlock>,
    /// Changes by plain key, with the values before.
    pub(super) bundle: BundleState,
    /// The same changes by hashed key.
    pub(super) hashed: HashedState,
    /// Changes to stored trie nodes.
    pub(super) trie: TrieUpdates,
    overlay: Mutex<Option<AnchoredOverlay>>,
}

/// The merged changes from the block after `anchor` up to a block.
#[derive(Clone)]
struct AnchoredOverlay {
    anchor: B256,
    overlay: Arc<Overlay>,
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
            hashed,
            trie,
            overlay: Mutex::new(None),
        }
    }

    pub(super) fn hash(&self) -> B256 {
        self.chain_block.block.hash
    }

    pub(super) fn header(&self) -> &Header {
        &self.chain_block.block.header
    }

    fn cached_overlay(&self, anchor: B256) -> Option<Arc<Overlay>> {
        let cached = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        cached
            .as_ref()
            .filter(|cached| cached.anchor == anchor)
            .map(|cached| cached.overlay.clone())
    }

    fn cache_overlay(&self, anchor: B256, overlay: Arc<Overlay>) {
        let mut cached = self.overlay.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some(AnchoredOverlay { anchor, overlay });
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
    /// The database head below the layers.
    pub(super) anchor: B256,
}

impl ParentState {
    /// Hashes from the anchor to the block: database heads over which the layers read right.
    pub(super) fn ancestors(&self) -> Arc<[B256]> {
        let layers = self.layers.iter().rev().map(|block| block.hash());
        std::iter::once(self.anchor).chain(layers).collect()
    }

    /// The layers' hashed state and trie nodes, merged. Extends the parent's when that is known.
    pub(super) fn overlay(&self) -> Arc<Overlay> {
        let mut missing = 0;
        let mut overlay = None;
        for block in self.layers.iter() {
            overlay = block.cached_overlay(self.anchor);
            if overlay.is_some() {
                break;
            }
            missing += 1;
        }
        let mut overlay = overlay.unwrap_or_default();
        for block in self.layers[..missing].iter().rev() {
            overlay = Arc::new(overlay.extend(&block.hashed, &block.trie));
            block.cache_overlay(self.anchor, overlay.clone());
        }
        overlay
    }
}

/// In-memory blocks and the canonical chain's landmarks.
pub(super) struct Tree {
    blocks: B256Map<Arc<ExecutedBlock>>,
    canonical: BTreeMap<u64, B256>,
    persisted: Tip,
    head: Tip,
    /// Last safe block a fork choice named.
    pub(super) safe: Option<BlockNumHash>,
    /// Last finalized block a fork choice named.
    pub(super) finalized: Option<BlockNumHash>,
}

impl Tree {
    /// A tree over a database whose head is `persisted`.
    pub(super) fn new(persisted: Tip) -> Self {
        Self {
            blocks: B256Map::default(),
            canonical: BTreeMap::new(),
            head: persisted.clone(),
            persisted,
            safe: None,
            finalized: None,
        }
    }

    pub(super) fn head(&self) -> &Tip {
        &self.head
    }

    pub(super) fn persisted(&self) -> &Tip {
        &self.persisted
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

    /// Adds a valid block whose parent's state was available.
    pub(super) fn insert(&mut self, block: Arc<ExecutedBlock>) {
        self.blocks.insert(block.hash(), block);
    }

    /// In-memory blocks from `hash` down to the child of the database head, newest first.
    /// `None` when `hash` is neither in memory nor the database head.
    pub(super) fn branch(&self, hash: B256) -> Option<Vec<Arc<ExecutedBlock>>> {
        let mut branch = Vec::new();
        let mut hash = hash;
        while hash != self.persisted.hash {
            let block = self.blocks.get(&hash)?;
            hash = block.header().parent_hash;
            branch.push(block.clone());
        }
        Some(branch)
    }

    /// How to read the state after `hash`, when that needs no history.
    pub(super) fn state_after(&self, hash: B256) -> Option<ParentState> {
        let layers: Arc<[_]> = self.branch(hash)?.into();
        let tip = layers.first().map_or_else(
            || self.persisted.clone(),
            |block| Tip {
                header: block.header().clone(),
                hash,
            },
        );
        Some(ParentState {
            tip,
            layers,
            anchor: self.persisted.hash,
        })
    }

    /// Makes `branch` (newest first, down to the child of the database head) the canonical chain.
    pub(super) fn set_canonical(&mut self, branch: &[Arc<ExecutedBlock>]) {
        self.canonical = branch
            .iter()
            .map(|block| (block.header().number, block.hash()))
            .collect();
        self.head = branch.first().map_or_else(
            || self.persisted.clone(),
            |block| Tip {
                header: block.header().clone(),
                hash: block.hash(),
            },
        );
    }

    /// Canonical blocks in memory from the database head up to `last`, oldest first.
    pub(super) fn unsaved(&self, last: u64) -> Vec<Arc<ExecutedBlock>> {
        self.canonical
            .range(..=last)
            .filter_map(|(_, hash)| self.blocks.get(hash).cloned())
            .collect()
    }

    /// Takes note that the database's head is now the canonical block `saved`, and forgets blocks
    /// that are in the database or can no longer become canonical.
    pub(super) fn advance_persisted(&mut self, saved: BlockNumHash) {
        let Some(block) = self.blocks.get(&saved.hash) else {
            return;
        };
        self.persisted = Tip {
            header: block.header().clone(),
            hash: saved.hash,
        };
        self.canonical.retain(|number, _| *number > saved.number);
        let kept: B256Map<_> = self
            .blocks
            .iter()
            .filter(|(hash, block)| {
                block.header().number > saved.number && self.branch(**hash).is_some()
            })
            .map(|(hash, block)| (*hash, block.clone()))
            .collect();
        self.blocks = kept;
    }
}
