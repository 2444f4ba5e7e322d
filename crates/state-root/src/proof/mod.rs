//! Reading the nodes on the paths of many targets in one pass over stored branches and leaves.
//!
//! The walk descends from where each path becomes unknown. A stored branch names the hashes of its
//! branch children, so a child without a target below it costs nothing; other children, which are
//! leaves or lead to a branch through an extension, are computed from what is below them. Regions
//! without a stored branch are small, and built from their leaves.
//!
//! Invariant: every node that is returned either carries its encoding, or stands where the parent
//! or the stub it replaces knows it.

mod build;
mod peek;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use peek::PeekCursor;
pub(crate) use values::{LeafValues, SlotValues};

use crate::{
    chunk::Target,
    cursor::{HashedCursor, StateView, TrieCursor},
    error::RootError,
    nibbles::{child_key, common_prefix, first_key, nibble, path},
    sparse::{Arena, Branch, Encoded, NodeRef, Proof, ProofRoot, Scratch},
    stored::StoredBranch,
};
use alloy_primitives::B256;
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of a node's encoding, and whether it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// A stored branch above names the hash of this one.
    Known(B256),
    /// Whoever is above needs it, or it is what remains of the node.
    Needed,
    /// Nobody needs it now.
    NotNeeded,
}

/// A position in the trie: the first `len` nibbles of `first`, the smallest key below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) first: B256,
    pub(crate) len: usize,
}

impl Position {
    pub(crate) const ROOT: Self = Self {
        first: B256::ZERO,
        len: 0,
    };

    /// The first `len` nibbles of any key below.
    pub(crate) fn of(key: &B256, len: usize) -> Self {
        let first = first_key(key, len);
        Self { first, len }
    }

    /// The child at a nibble of the branch whose path is the first `depth` nibbles of `key`.
    pub(crate) fn below((key, depth): (&B256, usize), nibble: usize) -> Self {
        Self {
            first: child_key(key, depth, nibble),
            len: depth + 1,
        }
    }

    pub(crate) fn path(&self) -> Nibbles {
        path(&self.first, self.len)
    }
}

/// A branch whose children are being added.
struct Open {
    branch: Branch,
    start: usize,
    encoding: Encoding,
    /// Whether a target asks for it; if not, only its encoding remains.
    kept: bool,
    /// Stubs that existed before its own.
    stubs_before: usize,
}

/// A walk over one trie.
pub(crate) struct Walk<'a, T, C: HashedCursor, L: LeafValues<Stored = C::Value>> {
    trie: T,
    leaves: PeekCursor<C>,
    values: L,
    cancelled: &'a AtomicBool,
    arena: Arena<L::Value>,
    scratch: Scratch,
    /// Space for the leaves of one region.
    region: Vec<(B256, C::Value)>,
}

impl<'a, T, C, L> Walk<'a, T, C, L>
where
    T: TrieCursor,
    C: HashedCursor,
    L: LeafValues<Stored = C::Value>,
{
    pub(crate) fn new(trie: T, leaves: C, values: L, cancelled: &'a AtomicBool) -> Self {
        let leaves = PeekCursor::new(leaves);
        Self {
            trie,
            leaves,
            values,
            cancelled,
            arena: Arena::default(),
            scratch: Scratch::default(),
            region: Vec::new(),
        }
    }

    /// The nodes on the paths of `targets`, which are sorted by key.
    pub(crate) fn run(mut self, mut targets: &[Target]) -> Result<Proof<L::Value>, RootError> {
        let mut roots = Vec::new();
        while let Some((Target { key, start }, below)) = take_subtree(&mut targets) {
            let node = if start == 0 {
                self.root(below)?
            } else {
                let at = Position::of(&key, start);
                self.position(at, Encoding::NotNeeded, true, below)?
            };
            if start > 0 && node.is_empty() {
                return Err(RootError::Inconsistent);
            }
            roots.push(ProofRoot { key, start, node });
        }
        Ok(Proof {
            arena: self.arena,
            roots,
        })
    }

    /// The hash of the root, without any nodes.
    fn root_hash(mut self) -> Result<B256, RootError> {
        let root = self.root(&[])?;
        Ok(self
            .arena
            .encoded(root)
            .map_or(EMPTY_ROOT_HASH, |root| root.rlp.root_hash()))
    }

    /// The root node, of which nothing is stored when it is a branch.
    fn root(&mut self, targets: &[Target]) -> Result<NodeRef, RootError> {
        let encoding = Encoding::Needed;
        if self.trie.seek(&Nibbles::new())?.is_none() {
            return self.position(Position::ROOT, encoding, false, targets);
        }
        let mut open = self.open(B256::ZERO, Position::ROOT.len, encoding, targets);
        open.branch.stored = false;
        let mut rest = targets;
        for nibble in 0..16 {
            let below = take_nibble(&mut rest, 0, nibble);
            let at = Position::below((&open.branch.key, open.branch.depth), nibble);
            let needed = child_encoding(encoding, below);
            open.branch.children[nibble] = self.position(at, needed, true, below)?;
        }
        if open.branch.live_children().count() == 1 {
            // One nibble is common to all keys, so what lies below it is the root itself.
            return self.position(Position::ROOT, encoding, true, targets);
        }
        Ok(self.close(open))
    }

    /// The node at a position, or nothing when there are no leaves below it. `may_be_stored` is
    /// whether a stored branch can be there or further down.
    fn position(
        &mut self,
        at: Position,
        encoding: Encoding,
        may_be_stored: bool,
        targets: &[Target],
    ) -> Result<NodeRef, RootError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(RootError::Cancelled);
        }
        if may_be_stored {
            let here = path(&at.first, at.len);
            let found = self
                .trie
                .seek(&here)?
                .filter(|(found, _)| found.starts_with(&here));
            if let Some((found, node)) = found {
                return self.stored_branch(at.len, (found, node), encoding, targets);
            }
        }
        let mut leaves = std::mem::take(&mut self.region);
        leaves.clear();
        self.leaves.read_below(at.first, at.len, &mut leaves)?;
        let node = if leaves.is_empty() {
            Ok(NodeRef::EMPTY)
        } else {
            self.build(&leaves, at.len, encoding, targets)
        };
        self.region = leaves;
        node
    }

    /// A stored branch, beginning at nibble `start`, with whatever of its children is needed.
    fn stored_branch(
        &mut self,
        start: usize,
        (found, node): (Nibbles, StoredBranch),
        encoding: Encoding,
        targets: &[Target],
    ) -> Result<NodeRef, RootError> {
        let mut key = B256::ZERO;
        found.pack_to(&mut key[..]);
        let depth = found.len();
        let mut open = self.open(key, start, encoding, targets);
        open.branch.depth = depth;
        let mut rest = below_branch(targets, &open.branch.key, depth);
        let masks = node.masks();
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
            open.branch.children[nibble] = match hash {
                Some(hash) if below.is_empty() => {
                    self.arena.add_stub(Encoded::branch(hash, stored))
                }
                Some(hash) => {
                    let at = Position::below((&open.branch.key, open.branch.depth), nibble);
                    self.position(at, Encoding::Known(*hash), stored, below)?
                }
                None => {
                    let at = Position::below((&open.branch.key, open.branch.depth), nibble);
                    self.position(at, child_encoding(encoding, below), stored, below)?
                }
            };
            if open.branch.children[nibble].is_empty() {
                return Err(RootError::Inconsistent);
            }
        }
        Ok(self.close(open))
    }

    fn open(&self, key: B256, start: usize, encoding: Encoding, targets: &[Target]) -> Open {
        Open {
            branch: Branch::new(key, start, true),
            start,
            encoding,
            kept: !targets.is_empty(),
            stubs_before: self.arena.stubs.len(),
        }
    }

    /// Adds a branch whose children are complete, or a stub in its place when nobody asked for it.
    fn close(&mut self, open: Open) -> NodeRef {
        let Open {
            mut branch,
            start,
            encoding,
            kept,
            stubs_before,
        } = open;
        branch.encoded = match encoding {
            Encoding::Known(hash) => Some(Encoded::branch(&hash, branch.stored)),
            Encoding::Needed => Some(self.arena.encode_branch(&branch, start, &mut self.scratch)),
            Encoding::NotNeeded => None,
        };
        match branch.encoded {
            Some(encoded) if !kept => {
                self.arena.stubs.truncate(stubs_before);
                self.arena.add_stub(encoded)
            }
            _ => self.arena.add_branch(branch),
        }
    }
}

/// The root of a storage trie, which for most accounts is that of the empty trie.
pub(crate) fn storage_root<V: StateView>(
    view: &V,
    hashed_address: B256,
    cancelled: &AtomicBool,
) -> Result<B256, RootError> {
    let mut slots = view.slots(hashed_address)?;
    if slots.seek(B256::ZERO)?.is_none() {
        return Ok(EMPTY_ROOT_HASH);
    }
    let trie = view.storage_trie(hashed_address)?;
    Walk::new(trie, slots, SlotValues, cancelled).root_hash()
}

/// Whether the encoding of a branch's child is needed, when its hash is not stored: to encode the
/// branch, or because the child will be but a stub.
fn child_encoding(parent: Encoding, below: &[Target]) -> Encoding {
    match parent {
        Encoding::Known(_) | Encoding::NotNeeded if !below.is_empty() => Encoding::NotNeeded,
        _ => Encoding::Needed,
    }
}

/// Takes the targets in the place of one stub off the front. The first of them says which.
pub(crate) fn take_subtree<'t>(targets: &mut &'t [Target]) -> Option<(Target, &'t [Target])> {
    let first = *targets.first()?;
    let is_below = |target: &&Target| {
        target.start == first.start && common_prefix(&target.key, &first.key) >= first.start
    };
    let len = targets.iter().take_while(is_below).count();
    let (below, rest) = targets.split_at(len);
    *targets = rest;
    Some((first, below))
}

/// The targets, all of one position, that lie below a branch rather than beside it.
pub(crate) fn below_branch<'t>(targets: &'t [Target], key: &B256, depth: usize) -> &'t [Target] {
    let first = first_key(key, depth);
    let is_below = |target: &Target| common_prefix(&target.key, key) >= depth;
    let from = targets.partition_point(|target| target.key < first);
    let len = targets[from..].partition_point(is_below);
    &targets[from..from + len]
}

/// Takes the targets that continue with one nibble off those below a branch at `depth`. Whoever asks
/// for a nibble has asked for all smaller ones that matter.
pub(crate) fn take_nibble<'t>(
    targets: &mut &'t [Target],
    depth: usize,
    wanted: usize,
) -> &'t [Target] {
    let nibble = |target: &Target| nibble(&target.key, depth);
    let before = targets.iter().take_while(|target| nibble(target) < wanted);
    let from = before.count();
    let with = targets[from..].iter();
    let len = with.take_while(|target| nibble(target) == wanted).count();
    let (taken, rest) = targets.split_at(from + len);
    *targets = rest;
    &taken[from..]
}
