//! The nodes of a partial trie: a tree that is changed in place by whoever owns it.
//!
//! Whoever has a slot has all that is below it, so disjoint ranges of a trie are changed by as many
//! threads without a lock or a count of references.
//!
//! Invariant: a slot without an encoding is one that changed since it was last hashed, or the
//! parent's encoding is known without it; a slot with an encoding but without a node is a stub.

use crate::{
    nibbles::{common_prefix, nibble},
    sparse::{ChildRef, Encoded},
};
use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use std::mem::{size_of, size_of_val, take};

/// Paths that are followed at the same time.
const SIDE_BY_SIDE: usize = 8;

/// What a leaf can hold besides its key.
pub(super) trait Content: Default + Send + Sync + 'static {
    /// Memory that hangs on it, beyond its own size.
    fn hanging_bytes(&self) -> usize {
        0
    }
}

/// A slot's value.
impl Content for U256 {}

/// An account with as much of its storage trie as is known.
#[derive(Debug, Default)]
pub(super) struct AccountContent {
    /// Its storage root is that of `storage`, once that is hashed.
    pub(super) account: TrieAccount,
    pub(super) storage: Slot<U256>,
}

impl Content for AccountContent {
    fn hanging_bytes(&self) -> usize {
        self.storage.bytes()
    }
}

/// The place of a node: the root, or a child of a branch.
#[derive(Debug)]
pub(super) struct Slot<C> {
    /// What the parent needs to know.
    pub(super) encoded: Option<Encoded>,
    pub(super) node: Node<C>,
}

/// A node, if it is known.
#[derive(Debug)]
pub(super) enum Node<C> {
    /// There is none, or only its encoding is known.
    None,
    Leaf(Box<Leaf<C>>),
    Branch(Box<Branch<C>>),
}

#[derive(Debug)]
pub(super) struct Leaf<C> {
    pub(super) key: B256,
    pub(super) content: C,
}

/// A branch, with the extension before it if it begins further up. It holds the children that there
/// are, no more, so that a branch near the leaves takes a few cache lines.
pub(super) type Branch<C> = BranchOf<[Slot<C>]>;

/// A [`Branch`], or one in the making: its children are in an array of any length, in one of a length
/// that is known when the program is compiled, or still elsewhere.
#[derive(Debug)]
pub(super) struct BranchOf<A: ?Sized> {
    /// Any key below it; the first `depth` nibbles are its path.
    pub(super) key: B256,
    pub(super) depth: usize,
    /// The last block that went this way. No branch below has a later one.
    pub(super) epoch: u64,
    /// Memory of its subtree, its own included.
    pub(super) bytes: usize,
    /// Whether the database stores a node at its path.
    pub(super) stored: bool,
    /// The nibbles that have a child, a bit for each.
    nibbles: u16,
    /// By nibble.
    children: A,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self {
            encoded: None,
            node: Node::None,
        }
    }
}

impl<C> Slot<C> {
    /// A trie of which only the root hash is known; nothing at all is when it is empty.
    pub(super) fn of_root(root: B256) -> Self {
        let stub = || Encoded::plain(ChildRef::to_hash(&root));
        Self {
            encoded: (root != EMPTY_ROOT_HASH).then(stub),
            node: Node::None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.encoded.is_none() && matches!(self.node, Node::None)
    }

    pub(super) fn is_stub(&self) -> bool {
        self.encoded.is_some() && matches!(self.node, Node::None)
    }

    /// Whether there is a node whose encoding is to be made.
    pub(super) fn is_changed(&self) -> bool {
        self.encoded.is_none() && !matches!(self.node, Node::None)
    }

    /// The hash of the trie whose root is here, once it is encoded.
    pub(super) fn root_hash(&self) -> B256 {
        let encoded = self.encoded.as_ref();
        encoded.map_or(EMPTY_ROOT_HASH, |encoded| encoded.rlp.root_hash())
    }
}

impl<C: Content> Slot<C> {
    /// Memory of the subtree.
    pub(super) fn bytes(&self) -> usize {
        match &self.node {
            Node::None => 0,
            Node::Leaf(leaf) => size_of::<Leaf<C>>() + leaf.content.hanging_bytes(),
            Node::Branch(branch) => branch.bytes,
        }
    }

    /// Whether a part of the path to `key` is unknown.
    pub(super) fn is_blind(&self, key: &B256) -> bool {
        self.blind_from(key, 0).is_some()
    }

    /// Those of `keys`, in their order, to which a part of the path is unknown in this trie.
    ///
    /// Several paths are followed side by side: each step waits for memory, and so they wait together.
    pub(super) fn blind_among<'k>(&self, keys: &'k [B256], mut found: impl FnMut(&'k B256)) {
        for keys in keys.chunks(SIDE_BY_SIDE) {
            let mut ways = [Some((self, 0)); SIDE_BY_SIDE];
            let step_all = |ways: &mut [Way<'_, C>]| {
                let steps = ways.iter_mut().zip(keys).map(|(way, key)| step(way, key));
                steps.fold(false, |any, moved| any | moved)
            };
            while step_all(&mut ways) {}
            for (way, key) in ways.into_iter().zip(keys) {
                if way.is_some_and(|(slot, _)| slot.is_stub()) {
                    found(key);
                }
            }
        }
    }

    /// Where the unknown part of the path to `key` begins, in nibbles, below a slot that begins at
    /// `start`.
    pub(super) fn blind_from(&self, key: &B256, start: usize) -> Option<usize> {
        let (mut slot, mut start) = (self, start);
        while let Node::Branch(branch) = &slot.node {
            (slot, start) = branch.child_towards(key, start)?;
        }
        slot.is_stub().then_some(start)
    }

    /// What a leaf on a known path holds.
    pub(super) fn get(&self, key: &B256) -> Option<&C> {
        let mut slot = self;
        while let Node::Branch(branch) = &slot.node {
            slot = branch.child(nibble(key, branch.depth))?;
        }
        match &slot.node {
            Node::Leaf(leaf) if leaf.key == *key => Some(&leaf.content),
            _ => None,
        }
    }
}

/// How far a path has been followed, and where that begins; `None` when nothing of it is unknown.
type Way<'a, C> = Option<(&'a Slot<C>, usize)>;

/// Follows the path to `key` by one branch, if there is one.
fn step<C: Content>(way: &mut Way<'_, C>, key: &B256) -> bool {
    let Some((slot, start)) = *way else {
        return false;
    };
    let Node::Branch(branch) = &slot.node else {
        return false;
    };
    *way = branch.child_towards(key, start);
    true
}

/// The children of a branch in the making, by nibble.
pub(super) type NewChildren<C> = [Slot<C>; 16];

/// Makes a branch of what it has besides children, and those.
type MakeBranch<C> = fn(BranchOf<()>, NewChildren<C>) -> Box<Branch<C>>;

/// No children.
pub(super) fn no_children<C>() -> NewChildren<C> {
    std::array::from_fn(|_| Slot::default())
}

impl<C: Content> Branch<C> {
    /// A branch on the path to `key`, with those of the children that are not empty.
    pub(super) fn boxed(
        (key, depth): (B256, usize),
        epoch: u64,
        children: NewChildren<C>,
    ) -> Box<Self> {
        let is_there = |(nibble, child): (usize, &Slot<C>)| u16::from(!child.is_empty()) << nibble;
        let nibbles: u16 = children.iter().enumerate().map(is_there).sum();
        let below: usize = children.iter().map(Slot::bytes).sum();
        let head = BranchOf {
            key,
            depth,
            epoch,
            bytes: 0,
            stored: false,
            nibbles,
            children: (),
        };
        let with_length = Self::WITH_LENGTH[nibbles.count_ones() as usize];
        let mut branch = with_length(head, children);
        branch.bytes = branch.own_bytes() + below;
        branch
    }

    /// Makes a branch with as many children as the index says, which are those that are not empty.
    const WITH_LENGTH: [MakeBranch<C>; 17] = [
        Self::with_length::<0>,
        Self::with_length::<1>,
        Self::with_length::<2>,
        Self::with_length::<3>,
        Self::with_length::<4>,
        Self::with_length::<5>,
        Self::with_length::<6>,
        Self::with_length::<7>,
        Self::with_length::<8>,
        Self::with_length::<9>,
        Self::with_length::<10>,
        Self::with_length::<11>,
        Self::with_length::<12>,
        Self::with_length::<13>,
        Self::with_length::<14>,
        Self::with_length::<15>,
        Self::with_length::<16>,
    ];

    fn with_length<const LENGTH: usize>(head: BranchOf<()>, children: NewChildren<C>) -> Box<Self> {
        let mut there = children.into_iter().filter(|child| !child.is_empty());
        Box::new(BranchOf {
            key: head.key,
            depth: head.depth,
            epoch: head.epoch,
            bytes: head.bytes,
            stored: head.stored,
            nibbles: head.nibbles,
            children: std::array::from_fn::<_, LENGTH, _>(|_| there.next().unwrap_or_default()),
        })
    }
}

impl<C> Branch<C> {
    /// Memory of the branch without what is below it.
    pub(super) fn own_bytes(&self) -> usize {
        size_of_val(self)
    }

    /// The next slot on the path to `key`, with where it begins, if the path goes on. The branch
    /// itself begins at `start`.
    fn child_towards(&self, key: &B256, start: usize) -> Option<(&Slot<C>, usize)> {
        if self.depth > start && !self.contains(key) {
            return None;
        }
        let child = self.child(nibble(key, self.depth))?;
        Some((child, self.depth + 1))
    }

    /// The child at a nibble, if there is one.
    pub(super) fn child(&self, nibble: usize) -> Option<&Slot<C>> {
        self.children.get(self.place(nibble)?)
    }

    /// The same, to be changed.
    pub(super) fn child_mut(&mut self, nibble: usize) -> Option<&mut Slot<C>> {
        let place = self.place(nibble)?;
        self.children.get_mut(place)
    }

    /// The children by nibble.
    pub(super) fn children(&self) -> &[Slot<C>] {
        &self.children
    }

    /// The same, to be changed.
    pub(super) fn children_mut(&mut self) -> &mut [Slot<C>] {
        &mut self.children
    }

    /// The nibbles of the children, in their order.
    pub(super) fn nibbles(&self) -> impl Iterator<Item = usize> + use<C> {
        let nibbles = self.nibbles;
        (0..16).filter(move |nibble| nibbles >> nibble & 1 == 1)
    }

    /// Takes the children away, each to the place of its nibble.
    pub(super) fn take_children(&mut self) -> NewChildren<C> {
        let mut taken = no_children();
        for (nibble, child) in self.nibbles().zip(&mut self.children) {
            taken[nibble] = take(child);
        }
        taken
    }

    /// Where the child at a nibble is among the children.
    fn place(&self, nibble: usize) -> Option<usize> {
        let before = self.nibbles & ((1 << nibble) - 1);
        (self.nibbles >> nibble & 1 == 1).then(|| before.count_ones() as usize)
    }

    /// Whether `key` lies below it.
    pub(super) fn contains(&self, key: &B256) -> bool {
        common_prefix(&self.key, key) >= self.depth
    }
}
