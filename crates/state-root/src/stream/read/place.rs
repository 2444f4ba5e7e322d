//! Where in a trie targets lie.

use crate::{
    chunk::Target,
    nibbles::{child_key, common_prefix, first_key, nibble, path},
};
use alloy_primitives::B256;
use alloy_trie::Nibbles;

/// A position in the trie: the first `len` nibbles of `first`, the smallest key below it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) first: B256,
    pub(super) len: usize,
}

impl Position {
    pub(super) const ROOT: Self = Self {
        first: B256::ZERO,
        len: 0,
    };

    /// The first `len` nibbles of any key below.
    pub(super) fn of(key: &B256, len: usize) -> Self {
        let first = first_key(key, len);
        Self { first, len }
    }

    /// The child at a nibble of the branch whose path is the first `depth` nibbles of `key`.
    pub(super) fn below((key, depth): (&B256, usize), nibble: usize) -> Self {
        Self {
            first: child_key(key, depth, nibble),
            len: depth + 1,
        }
    }

    pub(super) fn path(&self) -> Nibbles {
        path(&self.first, self.len)
    }
}

/// Takes the targets in the place of one stub off the front. The first of them says which.
pub(super) fn take_subtree<'t>(targets: &mut &'t [Target]) -> Option<(Target, &'t [Target])> {
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
pub(super) fn below_branch<'t>(targets: &'t [Target], key: &B256, depth: usize) -> &'t [Target] {
    let first = first_key(key, depth);
    let is_below = |target: &Target| common_prefix(&target.key, key) >= depth;
    let from = targets.partition_point(|target| target.key < first);
    let len = targets[from..].partition_point(is_below);
    &targets[from..from + len]
}

/// Takes the targets that continue with one nibble off those below a branch at `depth`. Whoever asks
/// for a nibble has asked for all smaller ones that matter.
pub(super) fn take_nibble<'t>(
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
