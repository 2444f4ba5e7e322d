//! Reading what is unknown straight into the nodes that are kept.
//!
//! The walk descends from where each path becomes unknown. A stored branch names the hashes of its
//! branch children, so a child without a target below it costs nothing; other children, which are
//! leaves or lead to a branch through an extension, are computed from what is below them. Regions
//! without a stored branch are small, and built from their leaves.
//!
//! A child beside the paths is no more than a reference in its branch. Leaves beside the paths are
//! hashed together when the walk ends, since their references are needed no sooner than their
//! branches are encoded.

mod peek;
mod place;
#[cfg(test)]
mod tests;

use super::{
    branch::{Branch, Counts, GrowingBranch},
    child_ref::ChildRef,
    kind::{Kind, Slots},
    node::{Leaf, Node, Slot},
    rlp::{BranchEncoder, Encoded, Scratch},
};
use crate::{
    chunk::Target,
    cursor::{HashedCursor, StateView, TrieCursor},
    error::RootError,
    keccak::Inputs,
    nibbles::{common_prefix, nibble},
    stored::StoredBranch,
};
use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;
use alloy_trie::Nibbles;
use peek::PeekCursor;
use place::{Position, below_branch, take_nibble, take_subtree};
use std::{
    mem::take,
    sync::atomic::{AtomicBool, Ordering},
};

/// What leaves hold, given what the database stores of them.
pub(super) trait Contents {
    /// What a cursor reads.
    type Stored;
    type Content: Kind;

    /// What a leaf holds that is kept. What costs much and is certain to be replaced before the leaf
    /// is encoded may be left out if the leaf is `certain` to be changed.
    fn content(
        &mut self,
        key: &B256,
        stored: &Self::Stored,
        certain: bool,
    ) -> Result<Self::Content, RootError>;

    /// Appends the RLP of a leaf that is not kept and begins at nibble `start` of its key.
    fn write(
        &mut self,
        leaf: (&B256, usize),
        stored: &Self::Stored,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), RootError>;
}

/// What was read in the place of a stub.
#[derive(Debug)]
pub(super) struct Read<K> {
    /// A key below, and how much of it is the stub's path.
    pub(super) key: B256,
    pub(super) start: usize,
    pub(super) slot: Slot<K>,
}

/// What was read in the places of stubs, and how many nodes that is.
pub(super) type ReadNodes<K> = (Vec<Read<K>>, usize);

/// How a walk goes about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Stops below the topmost stored branch of each path: its branch children remain stubs.
    pub(super) is_shallow: bool,
    /// Whether the reference of a root is needed at once, or made when it has changed.
    pub(super) needs_root: bool,
    /// Number of the block.
    pub(super) epoch: u64,
}

/// What is known of a kept node's reference, and whether it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// A stored branch above names the hash.
    Known(B256),
    /// Whoever is above needs it.
    Needed,
    /// It is made when the node has changed.
    Later,
}

impl Reference {
    /// What is needed of the children.
    fn of_child(self) -> Self {
        match self {
            Self::Needed => Self::Needed,
            Self::Known(_) | Self::Later => Self::Later,
        }
    }
}

/// A walk over one trie.
pub(super) struct Reader<'a, T, C: HashedCursor, L> {
    trie: T,
    leaves: PeekCursor<C>,
    contents: L,
    cancelled: &'a AtomicBool,
    manner: Manner,
    scratch: Scratch,
    /// Leaves beside the paths, in the order of their keys.
    beside: Inputs,
    /// A node that is encoded at once.
    rlp: Vec<u8>,
    /// Space for the leaves of one region.
    region: Vec<(B256, C::Value)>,
    nodes: usize,
}

impl<'a, T, C, L> Reader<'a, T, C, L>
where
    T: TrieCursor,
    C: HashedCursor,
    L: Contents<Stored = C::Value>,
{
    pub(super) fn new(
        trie: T,
        leaves: C,
        contents: L,
        (manner, cancelled): (Manner, &'a AtomicBool),
    ) -> Self {
        Self {
            trie,
            leaves: PeekCursor::new(leaves),
            contents,
            cancelled,
            manner,
            scratch: Scratch::default(),
            beside: Inputs::default(),
            rlp: Vec::new(),
            region: Vec::new(),
            nodes: 0,
        }
    }

    /// The nodes on the paths of `targets`, which are sorted by key, and how many there are.
    pub(super) fn run(
        mut self,
        mut targets: &[Target],
    ) -> Result<ReadNodes<L::Content>, RootError> {
        let mut all = Vec::new();
        while let Some((Target { key, start }, below)) = take_subtree(&mut targets) {
            let slot = if start == 0 {
                self.root(below)?
            } else {
                let at = Position::of(&key, start);
                self.node(at, Reference::Later, true, below)?
            };
            if start > 0 && slot.is_empty() {
                return Err(RootError::Inconsistent);
            }
            all.push(Read { key, start, slot });
        }
        let mut hashes = self.beside.hashes().into_iter();
        for read in &mut all {
            if let Node::Branch(branch) = &mut read.slot.node {
                let all = branch.refer_awaited(&mut hashes);
                all.ok_or(RootError::Inconsistent)?;
            }
        }
        if hashes.next().is_some() {
            return Err(RootError::Inconsistent);
        }
        Ok((all, self.nodes))
    }

    /// The hash of the root, of which nothing is kept.
    fn root_hash(mut self) -> Result<B256, RootError> {
        Ok(self.root(&[])?.root_hash())
    }

    /// The root node, of which nothing is stored when it is a branch.
    fn root(&mut self, targets: &[Target]) -> Result<Slot<L::Content>, RootError> {
        let reference = if self.manner.needs_root {
            Reference::Needed
        } else {
            Reference::Later
        };
        if self.trie.seek(&Nibbles::new())?.is_none() {
            return self.node(Position::ROOT, reference, false, targets);
        }
        let counts = Counts {
            children: 16,
            known: nibble_count(targets, 0),
        };
        let mut branch = GrowingBranch::begin((B256::ZERO, 0), self.manner.epoch, counts);
        let (beside, nodes) = (self.beside.len(), self.nodes);
        let mut rest = targets;
        for nibble in 0..16 {
            let below = take_nibble(&mut rest, 0, nibble);
            let at = Position::below((&B256::ZERO, 0), nibble);
            self.child((&mut branch, nibble), (at, true), reference, below)?;
        }
        if branch.len() == 1 {
            // One nibble is common to all keys, so what lies below it is the root itself.
            self.beside.truncate(beside);
            self.nodes = nodes;
            return self.node(Position::ROOT, reference, true, targets);
        }
        self.close(branch.finish(), Position::ROOT.len, reference)
    }

    /// The kept node at a position, or nothing when there are no leaves below it. `may_be_stored` is
    /// whether a stored branch can be there or further down.
    fn node(
        &mut self,
        at: Position,
        reference: Reference,
        may_be_stored: bool,
        targets: &[Target],
    ) -> Result<Slot<L::Content>, RootError> {
        if let Some((found, node)) = self.stored_below(at, may_be_stored)? {
            return self.stored_branch(at.len, (found, node), reference, targets);
        }
        self.with_leaves(at, |reader, leaves| {
            if leaves.is_empty() {
                return Ok(Slot::default());
            }
            reader.build(leaves, at.len, reference, targets)
        })
    }

    /// The stored branch at a position, or what an extension leads to from there.
    fn stored_below(
        &mut self,
        at: Position,
        may_be_stored: bool,
    ) -> Result<Option<(Nibbles, StoredBranch)>, RootError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(RootError::Cancelled);
        }
        if !may_be_stored {
            return Ok(None);
        }
        let here = at.path();
        let found = self.trie.seek(&here)?;
        Ok(found.filter(|(found, _)| found.starts_with(&here)))
    }

    /// Does something with the leaves below a position.
    fn with_leaves<R>(
        &mut self,
        at: Position,
        work: impl FnOnce(&mut Self, &[(B256, C::Value)]) -> Result<R, RootError>,
    ) -> Result<R, RootError> {
        let mut leaves = take(&mut self.region);
        leaves.clear();
        self.leaves.read_below(at.first, at.len, &mut leaves)?;
        let result = work(self, &leaves);
        self.region = leaves;
        result
    }

    /// A stored branch, beginning at nibble `start`, with whatever of its children is needed.
    fn stored_branch(
        &mut self,
        start: usize,
        (found, node): (Nibbles, StoredBranch),
        reference: Reference,
        targets: &[Target],
    ) -> Result<Slot<L::Content>, RootError> {
        let mut key = B256::ZERO;
        found.pack_to(&mut key[..]);
        let depth = found.len();
        let mut rest = below_branch(targets, &key, depth);
        let masks = node.masks();
        let counts = Counts {
            children: masks.state.len(),
            known: nibble_count(rest, depth),
        };
        let mut branch = GrowingBranch::begin((key, depth), self.manner.epoch, counts);
        branch.set_stored();
        let mut hashes = node.hashes().iter();
        for index in masks.state.iter() {
            let nibble = usize::from(index);
            let below = take_nibble(&mut rest, depth, nibble);
            let stored = masks.tree.is_bit_set(index);
            let hash = if masks.hash.is_bit_set(index) {
                hashes.next()
            } else {
                None
            };
            let at = || Position::below((&key, depth), nibble);
            match hash {
                Some(hash) if below.is_empty() || self.manner.is_shallow => {
                    branch.add_reference(nibble, &Encoded::branch(hash, stored));
                }
                Some(hash) => {
                    let child = self.node(at(), Reference::Known(*hash), stored, below)?;
                    branch.add(nibble, child);
                }
                None => self.child((&mut branch, nibble), (at(), stored), reference, below)?,
            }
            if !branch.has(nibble) {
                return Err(RootError::Inconsistent);
            }
        }
        self.close(branch.finish(), start, reference)
    }

    /// Adds what is at a position to its branch: a node on the path of a target, else a reference.
    fn child(
        &mut self,
        (branch, nibble): (&mut GrowingBranch<L::Content>, usize),
        (at, may_be_stored): (Position, bool),
        reference: Reference,
        targets: &[Target],
    ) -> Result<(), RootError> {
        if !targets.is_empty() {
            let child = self.node(at, reference.of_child(), may_be_stored, targets)?;
            branch.add(nibble, child);
            return Ok(());
        }
        if let Some((found, node)) = self.stored_below(at, may_be_stored)? {
            branch.add_reference(nibble, &self.encode_stored(at.len, found, &node)?);
            return Ok(());
        }
        self.with_leaves(at, |reader, leaves| {
            reader.add_beside((branch, nibble), (leaves, at.len), reference)
        })
    }

    /// Adds the node over `leaves`, which begins at nibble `start`, to its branch by its reference.
    fn add_beside(
        &mut self,
        (branch, nibble): (&mut GrowingBranch<L::Content>, usize),
        (leaves, start): (&[(B256, C::Value)], usize),
        reference: Reference,
    ) -> Result<(), RootError> {
        match leaves {
            [] => {}
            [(key, stored)] if reference != Reference::Needed => {
                let out = self.beside.bytes();
                self.contents
                    .write((key, start), stored, &mut self.scratch, out)?;
                if self.beside.open().len() < B256::len_bytes() {
                    let short = Encoded::plain(ChildRef::to_node(self.beside.open()));
                    self.beside.discard_open();
                    branch.add_reference(nibble, &short);
                } else {
                    self.beside.end();
                    branch.add_awaited(nibble);
                }
            }
            leaves => branch.add_reference(nibble, &self.encode_leaves(leaves, start)?),
        }
        Ok(())
    }

    /// The kept node over `leaves`, which are sorted, not empty, and share their first `start`
    /// nibbles.
    fn build(
        &mut self,
        leaves: &[(B256, C::Value)],
        start: usize,
        reference: Reference,
        targets: &[Target],
    ) -> Result<Slot<L::Content>, RootError> {
        let [(first, _), .., (last, _)] = leaves else {
            return self.leaf(&leaves[0], start, reference, targets);
        };
        let depth = common_prefix(first, last);
        let mut targets = below_branch(targets, first, depth);
        let groups = || leaves.chunk_by(|(a, _), (b, _)| nibble(a, depth) == nibble(b, depth));
        let counts = Counts {
            children: groups().count(),
            known: nibble_count(targets, depth),
        };
        let mut branch = GrowingBranch::begin((*first, depth), self.manner.epoch, counts);
        for group in groups() {
            let here = nibble(&group[0].0, depth);
            let below = take_nibble(&mut targets, depth, here);
            if below.is_empty() {
                self.add_beside((&mut branch, here), (group, depth + 1), reference)?;
            } else {
                let child = self.build(group, depth + 1, reference.of_child(), below)?;
                branch.add(here, child);
            }
        }
        self.close(branch.finish(), start, reference)
    }

    fn leaf(
        &mut self,
        (key, stored): &(B256, C::Value),
        start: usize,
        reference: Reference,
        targets: &[Target],
    ) -> Result<Slot<L::Content>, RootError> {
        let own = targets.binary_search_by_key(key, |target| target.key);
        let is_needed = reference == Reference::Needed;
        let content = self
            .contents
            .content(key, stored, own.is_ok() && !is_needed)?;
        let encoded = is_needed.then(|| {
            self.rlp.clear();
            content.write(key, start, &mut self.scratch, &mut self.rlp);
            Encoded::plain(ChildRef::to_node(&self.rlp))
        });
        self.nodes += 1;
        let key = *key;
        Ok(Slot {
            encoded,
            node: Node::Leaf(Leaf { key, content }),
        })
    }

    /// A kept branch that has all its children.
    fn close(
        &mut self,
        branch: Branch<L::Content>,
        start: usize,
        reference: Reference,
    ) -> Result<Slot<L::Content>, RootError> {
        let encoded = match reference {
            Reference::Known(hash) => Some(Encoded::branch(&hash, branch.head.stored)),
            Reference::Needed => {
                let mut encoder = BranchEncoder::new();
                for (nibble, child) in branch.references() {
                    encoder.push(nibble, &child.ok_or(RootError::Inconsistent)?);
                }
                let place = (&branch.head.key, branch.head.depth());
                Some(encoder.finish(place, start, &mut self.scratch))
            }
            Reference::Later => None,
        };
        self.nodes += 1;
        let node = Node::Branch(branch);
        Ok(Slot { encoded, node })
    }

    /// The reference of a stored branch of which nothing is kept.
    fn encode_stored(
        &mut self,
        start: usize,
        found: Nibbles,
        node: &StoredBranch,
    ) -> Result<Encoded, RootError> {
        let mut key = B256::ZERO;
        found.pack_to(&mut key[..]);
        let depth = found.len();
        let masks = node.masks();
        let mut encoder = BranchEncoder::new();
        for index in masks.state.iter() {
            let nibble = usize::from(index);
            let stored = masks.tree.is_bit_set(index);
            let child = match node.hash(index) {
                Some(hash) => Encoded::branch(&hash, stored),
                None => self.encode_below(Position::below((&key, depth), nibble), stored)?,
            };
            encoder.push(nibble, &child);
        }
        Ok(encoder.finish((&key, depth), start, &mut self.scratch))
    }

    fn encode_below(&mut self, at: Position, may_be_stored: bool) -> Result<Encoded, RootError> {
        if let Some((found, node)) = self.stored_below(at, may_be_stored)? {
            return self.encode_stored(at.len, found, &node);
        }
        self.with_leaves(at, |reader, leaves| {
            if leaves.is_empty() {
                return Err(RootError::Inconsistent);
            }
            reader.encode_leaves(leaves, at.len)
        })
    }

    /// The reference of the node over `leaves`, of which nothing is kept.
    fn encode_leaves(
        &mut self,
        leaves: &[(B256, C::Value)],
        start: usize,
    ) -> Result<Encoded, RootError> {
        let [(first, _), .., (last, _)] = leaves else {
            let (key, stored) = &leaves[0];
            self.rlp.clear();
            let out = &mut self.rlp;
            self.contents
                .write((key, start), stored, &mut self.scratch, out)?;
            return Ok(Encoded::plain(ChildRef::to_node(&self.rlp)));
        };
        let depth = common_prefix(first, last);
        let mut encoder = BranchEncoder::new();
        for group in leaves.chunk_by(|(a, _), (b, _)| nibble(a, depth) == nibble(b, depth)) {
            let child = self.encode_leaves(group, depth + 1)?;
            encoder.push(nibble(&group[0].0, depth), &child);
        }
        Ok(encoder.finish((first, depth), start, &mut self.scratch))
    }
}

/// The root of a storage trie, which for most accounts is that of the empty trie.
pub(super) fn storage_root<V: StateView>(
    view: &V,
    hashed_address: B256,
    cancelled: &AtomicBool,
) -> Result<B256, RootError> {
    let mut slots = view.slots(hashed_address)?;
    if slots.seek(B256::ZERO)?.is_none() {
        return Ok(EMPTY_ROOT_HASH);
    }
    let trie = view.storage_trie(hashed_address)?;
    let manner = Manner {
        is_shallow: false,
        needs_root: true,
        epoch: 0,
    };
    Reader::new(trie, slots, Slots, (manner, cancelled)).root_hash()
}

/// With how many nibbles targets below a branch at `depth` continue.
fn nibble_count(targets: &[Target], depth: usize) -> usize {
    let nibble = |target: &Target| nibble(&target.key, depth);
    targets.chunk_by(|a, b| nibble(a) == nibble(b)).count()
}
