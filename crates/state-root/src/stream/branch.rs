//! A branch of a partial trie.
//!
//! What a branch needs of its children to be encoded, their references, lies side by side, apart from
//! the children themselves: whoever follows a path touches no reference, and whoever encodes touches
//! nothing else. A child has a place only when it is known. So a branch of sixteen children of which
//! one is known takes little more than sixteen hashes.

use super::{
    child_ref::ChildRef,
    node::{Content, Node, Slot},
    rlp::Encoded,
};
use crate::{
    error::RootError,
    nibbles::{common_prefix, nibble},
    stored::Masks,
};
use alloy_primitives::B256;
use alloy_rlp::{EMPTY_STRING_CODE, Header};
use alloy_trie::TrieMask;
use std::mem::{size_of, take};

/// RLP of a reference that is a hash: a byte, then the hash.
const HASH_RLP: usize = 1 + B256::len_bytes();
/// The first of these bytes.
const HASH_PREFIX: u8 = EMPTY_STRING_CODE + B256::len_bytes() as u8;

/// A branch, with the extension before it if it begins further up.
#[derive(Debug)]
pub(super) struct Branch<C> {
    pub(super) head: Head,
    /// A reference for each child, by nibble.
    pub(super) refs: Box<[B256]>,
    /// The children that have a place, by nibble. One that is not known is a stub.
    pub(super) nodes: Box<[Node<C>]>,
}

/// What a branch is besides its children. Sets of these have a bit for each nibble.
#[derive(Debug)]
pub(super) struct Head {
    /// Any key below it; the first `depth` nibbles are its path.
    pub(super) key: B256,
    /// The last block that went this way. No branch below has a later one.
    pub(super) epoch: u64,
    /// Memory of its subtree, without the branch itself, which is in its parent.
    pub(super) bytes: usize,
    there: u16,
    /// Children that have a place.
    placed: u16,
    /// Children whose reference is to be made: those that changed since they were last hashed, and
    /// those that were read without it, because the branch's own was known.
    stale: u16,
    /// Children that are, without an extension before them, branches referred to by hash.
    hashed: u16,
    /// Children that are stored, or lead to a branch that is.
    tree: u16,
    /// Children whose encoding is shorter than a hash and stands in its place, behind its length.
    short: u16,
    depth: u8,
    /// Whether the database stores a node at its path.
    pub(super) stored: bool,
}

/// The nibbles of a set.
pub(super) fn nibbles(mut set: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let nibble = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (nibble < 16).then_some(nibble)
    })
}

fn has(set: u16, nibble: usize) -> bool {
    set >> nibble & 1 == 1
}

/// Where what belongs to a nibble of a set is in a list.
fn place(set: u16, nibble: usize) -> usize {
    (set & ((1 << nibble) - 1)).count_ones() as usize
}

fn put(set: &mut u16, nibble: usize, is_in: bool) {
    *set = *set & !(1 << nibble) | u16::from(is_in) << nibble;
}

impl Head {
    /// Length of its path in nibbles.
    pub(super) fn depth(&self) -> usize {
        usize::from(self.depth)
    }

    /// The children that have a place.
    pub(super) fn placed(&self) -> u16 {
        self.placed
    }

    /// Whether `key` lies below it.
    pub(super) fn contains(&self, key: &B256) -> bool {
        common_prefix(&self.key, key) >= self.depth()
    }

    /// Notes how a child is referred to. `refs` are those of this branch.
    pub(super) fn refer(&mut self, refs: &mut [B256], nibble: usize, encoded: &Encoded) {
        let reference = &mut refs[place(self.there, nibble)];
        match encoded.rlp.hash() {
            Some(hash) => *reference = hash,
            None => {
                let rlp = &*encoded.rlp;
                reference[0] = rlp.len() as u8;
                reference[1..=rlp.len()].copy_from_slice(rlp);
            }
        }
        put(&mut self.short, nibble, !encoded.rlp.is_hash());
        put(&mut self.hashed, nibble, encoded.hashed_branch);
        put(&mut self.tree, nibble, encoded.stored);
        put(&mut self.stale, nibble, false);
    }

    /// How a child is referred to, if that is known.
    fn reference(&self, refs: &[B256], nibble: usize) -> Option<Encoded> {
        if !has(self.there & !self.stale, nibble) {
            return None;
        }
        let reference = &refs[place(self.there, nibble)];
        Some(Encoded {
            rlp: if has(self.short, nibble) {
                ChildRef::to_node(short_rlp(reference))
            } else {
                ChildRef::to_hash(reference)
            },
            hashed_branch: has(self.hashed, nibble),
            stored: has(self.tree, nibble),
        })
    }

    /// Those of the branch's places whose children are to be encoded, with their nibbles.
    pub(super) fn stale<'p, P>(
        &self,
        places: &'p mut [P],
    ) -> impl Iterator<Item = (usize, &'p mut P)> + use<'p, P> {
        let stale = self.stale;
        let places = nibbles(self.placed).zip(places);
        places.filter(move |(nibble, _)| has(stale, *nibble))
    }

    /// Appends the RLP of the branch, without an extension. All references are known.
    pub(super) fn write(&self, refs: &[B256], out: &mut Vec<u8>) {
        debug_assert_eq!(self.stale, 0, "a reference that is not known");
        let with_rlp = || nibbles(self.there).zip(refs);
        let rlp_len = |(nibble, reference): (usize, &B256)| {
            if has(self.short, nibble) {
                short_rlp(reference).len()
            } else {
                HASH_RLP
            }
        };
        let absent = 16 - refs.len();
        let below = if self.short == 0 {
            refs.len() * HASH_RLP
        } else {
            with_rlp().map(rlp_len).sum()
        };
        // The value of a branch is always absent: keys are all of one length.
        let payload_length = below + absent + 1;
        let list = true;
        Header {
            list,
            payload_length,
        }
        .encode(out);
        let from = out.len();
        out.resize(from + payload_length, EMPTY_STRING_CODE);
        let mut rest = &mut out[from..];
        let mut next = 0;
        for (nibble, reference) in with_rlp() {
            // The bytes of absent children are there already.
            rest = &mut rest[nibble - next..];
            next = nibble + 1;
            let here;
            if has(self.short, nibble) {
                let rlp = short_rlp(reference);
                (here, rest) = rest.split_at_mut(rlp.len());
                here.copy_from_slice(rlp);
            } else {
                (here, rest) = rest.split_at_mut(HASH_RLP);
                here[0] = HASH_PREFIX;
                here[1..].copy_from_slice(reference.as_slice());
            }
        }
    }

    /// The children the database knows of it, if it stores it: never the root, and otherwise when a
    /// hashed branch hangs directly below or anything below is stored.
    pub(super) fn masks(&self) -> Option<Masks> {
        let is_stored = self.depth > 0 && (self.tree | self.hashed) != 0;
        is_stored.then(|| Masks {
            state: TrieMask::new(self.there),
            tree: TrieMask::new(self.tree),
            hash: TrieMask::new(self.hashed),
        })
    }

    /// The hashes of those children that are branches referred to by hash.
    pub(super) fn hashes<'r>(&self, refs: &'r [B256]) -> impl Iterator<Item = B256> + use<'r> {
        let there = self.there;
        nibbles(self.hashed).map(move |nibble| refs[place(there, nibble)])
    }
}

/// What stands in the place of a hash.
fn short_rlp(reference: &B256) -> &[u8] {
    &reference[1..=usize::from(reference[0])]
}

impl<C: Content> Branch<C> {
    /// A branch on the path to `key`, with those of the children that are not empty. These come
    /// with their nibbles, ascending.
    pub(super) fn new(
        place: (B256, usize),
        epoch: u64,
        children: impl Iterator<Item = (usize, Slot<C>)>,
        counts: Counts,
    ) -> Self {
        let mut branch = GrowingBranch::begin(place, epoch, counts);
        for (nibble, child) in children {
            branch.add(nibble, child);
        }
        branch.finish()
    }

    /// Does something to the child at a nibble, if it has a place, and keeps count of its memory.
    pub(super) fn at_known<R>(
        &mut self,
        nibble: usize,
        work: impl FnOnce(&mut Node<C>) -> R,
    ) -> Option<R> {
        let (child, _) = self.child_mut(nibble)?;
        let before = child.bytes();
        let result = work(child);
        let after = child.bytes();
        self.head.bytes = self.head.bytes + after - before;
        Some(result)
    }

    /// The same with a child that has a place unless the tries contradict each other.
    pub(super) fn at_place<R>(
        &mut self,
        nibble: usize,
        work: impl FnOnce(&mut Node<C>) -> Result<R, RootError>,
    ) -> Result<R, RootError> {
        self.at_known(nibble, work)
            .unwrap_or(Err(RootError::Inconsistent))
    }

    /// Adds up the memory of the subtree.
    pub(super) fn count_bytes(&mut self) {
        let below: usize = self.nodes.iter().map(Node::bytes).sum();
        self.head.bytes = self.own_bytes() + below;
    }
}

/// A branch in the making. Children are added by nibble, ascending.
#[derive(Debug)]
pub(super) struct GrowingBranch<C> {
    head: Head,
    refs: Vec<B256>,
    nodes: Vec<Node<C>>,
}

impl<C: Content> GrowingBranch<C> {
    /// A branch without children on the path to a key.
    pub(super) fn begin((key, depth): (B256, usize), epoch: u64, counts: Counts) -> Self {
        let head = Head {
            key,
            epoch,
            bytes: 0,
            there: 0,
            placed: 0,
            stale: 0,
            hashed: 0,
            tree: 0,
            short: 0,
            depth: depth as u8,
            stored: false,
        };
        Self {
            head,
            refs: Vec::with_capacity(counts.children),
            nodes: Vec::with_capacity(counts.known),
        }
    }

    /// The database stores a node at its path.
    pub(super) fn set_stored(&mut self) {
        self.head.stored = true;
    }

    /// How many children there are so far.
    pub(super) fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether there is a child at a nibble.
    pub(super) fn has(&self, nibble: usize) -> bool {
        has(self.head.there, nibble)
    }

    /// Adds a child of which only the reference is to come ([`Branch::refer_awaited`]).
    pub(super) fn add_awaited(&mut self, nibble: usize) {
        put(&mut self.head.there, nibble, true);
        put(&mut self.head.stale, nibble, true);
        self.refs.push(B256::ZERO);
    }

    /// Adds a child of which only the reference is known.
    pub(super) fn add_reference(&mut self, nibble: usize, encoded: &Encoded) {
        self.add_awaited(nibble);
        self.head.refer(&mut self.refs, nibble, encoded);
    }

    /// Adds a child, if there is one.
    pub(super) fn add(&mut self, nibble: usize, child: Slot<C>) {
        if child.is_empty() {
            return;
        }
        match &child.encoded {
            Some(encoded) => self.add_reference(nibble, encoded),
            None => self.add_awaited(nibble),
        }
        if !matches!(child.node, Node::None) {
            put(&mut self.head.placed, nibble, true);
            self.nodes.push(child.node);
        }
    }

    /// The branch.
    pub(super) fn finish(self) -> Branch<C> {
        let mut branch = Branch {
            head: self.head,
            refs: self.refs.into_boxed_slice(),
            nodes: self.nodes.into_boxed_slice(),
        };
        branch.count_bytes();
        branch
    }
}

/// How much room the children of a branch in the making take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) children: usize,
    pub(super) known: usize,
}

/// Where a path goes on below a branch.
pub(super) enum Below<'a, C> {
    /// To a place, where there may be a stub.
    Place(&'a Node<C>),
    /// To a child that is not known.
    Stub,
    Nothing,
}

impl<C> Branch<C> {
    /// Memory that is the branch's without what is below its children.
    pub(super) fn own_bytes(&self) -> usize {
        size_of_val(&*self.refs) + size_of_val(&*self.nodes)
    }

    /// How many children there are.
    pub(super) fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether there is a child at a nibble.
    pub(super) fn has(&self, nibble: usize) -> bool {
        has(self.head.there, nibble)
    }

    /// Where the path to `key` goes on. The branch itself begins at nibble `start`.
    pub(super) fn below(&self, key: &B256, start: usize) -> Below<'_, C> {
        let head = &self.head;
        if head.depth() > start && !head.contains(key) {
            return Below::Nothing;
        }
        let nibble = nibble(key, head.depth());
        if has(head.placed, nibble) {
            Below::Place(&self.nodes[place(head.placed, nibble)])
        } else if has(head.there, nibble) {
            Below::Stub
        } else {
            Below::Nothing
        }
    }

    /// Makes places for those of the children in a set that have none.
    pub(super) fn make_places(&mut self, wanted: u16) {
        let missing = wanted & self.head.there & !self.head.placed;
        if missing == 0 {
            return;
        }
        let placed = self.head.placed | missing;
        let mut old = take(&mut self.nodes).into_iter();
        let is_missing = |nibble| has(missing, nibble);
        let mut nodes = Vec::with_capacity(placed.count_ones() as usize);
        nodes.extend(nibbles(placed).map(|nibble| {
            let node = if is_missing(nibble) { None } else { old.next() };
            node.unwrap_or_default()
        }));
        self.nodes = nodes.into_boxed_slice();
        self.head.placed = placed;
        self.head.bytes += missing.count_ones() as usize * size_of::<Node<C>>();
    }

    /// The places of children that became stubs again go.
    pub(super) fn drop_empty_places(&mut self) {
        let is_known = |node: &Node<C>| !matches!(node, Node::None);
        if self.nodes.iter().all(is_known) {
            return;
        }
        let with_nibble = nibbles(self.head.placed).zip(&self.nodes);
        let known = with_nibble.filter(|(_, node)| is_known(node));
        self.head.placed = known.map(|(nibble, _)| 1 << nibble).sum();
        let nodes = take(&mut self.nodes).into_iter();
        self.nodes = nodes.filter(is_known).collect();
    }

    /// The child at a nibble, to be changed, if it has a place, and whether it is a stub when it is
    /// not known.
    pub(super) fn child_mut(&mut self, nibble: usize) -> Option<(&mut Node<C>, bool)> {
        let has_ref = !has(self.head.stale, nibble);
        let place = has(self.head.placed, nibble).then(|| place(self.head.placed, nibble))?;
        Some((&mut self.nodes[place], has_ref))
    }

    /// The children that have a place, with their nibbles.
    pub(super) fn into_places(self) -> impl Iterator<Item = (usize, Node<C>)> {
        nibbles(self.head.placed).zip(self.nodes)
    }

    /// How its children are referred to, if that is known, with their nibbles.
    pub(super) fn references(&self) -> impl Iterator<Item = (usize, Option<Encoded>)> {
        let there = nibbles(self.head.there);
        there.map(|nibble| (nibble, self.head.reference(&self.refs, nibble)))
    }

    /// The child at a nibble, if it has a place.
    #[cfg(test)]
    pub(super) fn child(&self, nibble: usize) -> Option<&Node<C>> {
        has(self.head.placed, nibble).then(|| &self.nodes[place(self.head.placed, nibble)])
    }

    /// Gives the children here and below that are not known the references that they wait for, in
    /// the order of their paths. `None` when there are too few.
    pub(super) fn refer_awaited(&mut self, hashes: &mut impl Iterator<Item = B256>) -> Option<()> {
        let mut nodes = self.nodes.iter_mut();
        for (nibble, reference) in nibbles(self.head.there).zip(&mut self.refs) {
            if has(self.head.placed, nibble) {
                if let Some(Node::Branch(branch)) = nodes.next() {
                    branch.refer_awaited(hashes)?;
                }
            } else if has(self.head.stale, nibble) {
                *reference = hashes.next()?;
                put(&mut self.head.stale, nibble, false);
            }
        }
        Some(())
    }

    /// A child has changed.
    pub(super) fn outdate(&mut self, nibble: usize) {
        put(&mut self.head.stale, nibble, true);
    }

    /// The children that have a place, to be changed, and whether they can become stubs.
    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = (bool, &mut Node<C>)> {
        let stale = self.head.stale;
        let places = nibbles(self.head.placed).zip(&mut self.nodes);
        places.map(move |(nibble, node)| (!has(stale, nibble), node))
    }

    /// Takes a child with a place out of it.
    pub(super) fn take_child(&mut self, nibble: usize) -> Slot<C> {
        let encoded = self.head.reference(&self.refs, nibble);
        let node = self.child_mut(nibble).map(|(node, _)| take(node));
        Slot {
            encoded,
            node: node.unwrap_or_default(),
        }
    }

    /// Puts a child that has a place into it.
    pub(super) fn put_child(&mut self, nibble: usize, child: Slot<C>) {
        match &child.encoded {
            Some(encoded) => self.head.refer(&mut self.refs, nibble, encoded),
            None => self.outdate(nibble),
        }
        if let Some((place, _)) = self.child_mut(nibble) {
            *place = child.node;
        }
    }

    /// Takes away the children that are not gone, with their nibbles.
    pub(super) fn take_children(&mut self) -> Vec<(usize, Slot<C>)> {
        let there = nibbles(self.head.there);
        let children = there.map(|nibble| (nibble, self.take_child(nibble)));
        children.filter(|(_, child)| !child.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{node::Leaf, rlp::BranchEncoder};
    use alloy_primitives::U256;
    use proptest::{collection::btree_map, prelude::*};
    use std::collections::BTreeMap;

    const KEY: B256 = B256::repeat_byte(0x11);

    /// What a test says of a child: how it is referred to, and its value if it is a known leaf.
    #[derive(Debug, Clone)]
    struct Child {
        encoded: Encoded,
        value: Option<u64>,
    }

    impl Child {
        fn slot(&self) -> Slot<U256> {
            let leaf = |value| Leaf {
                key: KEY,
                content: U256::from(value),
            };
            Slot {
                encoded: Some(self.encoded),
                node: self
                    .value
                    .map_or(Node::None, |value| Node::Leaf(leaf(value))),
            }
        }
    }

    fn any_child() -> impl Strategy<Value = Child> {
        // Any RLP shorter than a hash stands for itself.
        let rlp = prop_oneof![
            any::<[u8; 32]>().prop_map(|hash| ChildRef::to_hash(&hash.into())),
            prop::collection::vec(any::<u8>(), 1..32).prop_map(|rlp| ChildRef::to_node(&rlp)),
        ];
        (rlp, any::<(bool, bool)>(), any::<Option<u64>>()).prop_map(|(rlp, flags, value)| Child {
            encoded: Encoded {
                hashed_branch: flags.0 && rlp.is_hash(),
                stored: flags.1,
                rlp,
            },
            value,
        })
    }

    fn any_children() -> impl Strategy<Value = BTreeMap<usize, Child>> {
        btree_map(0..16_usize, any_child(), 2..=16)
    }

    fn branch(children: &BTreeMap<usize, Child>) -> Branch<U256> {
        let counts = Counts {
            children: children.len(),
            known: children.values().filter(|c| c.value.is_some()).count(),
        };
        let slots = children
            .iter()
            .map(|(nibble, child)| (*nibble, child.slot()));
        Branch::new((KEY, 3), 0, slots, counts)
    }

    fn value(node: &Node<U256>) -> Option<u64> {
        match node {
            Node::Leaf(leaf) => Some(leaf.content.to()),
            _ => None,
        }
    }

    proptest! {
        /// The encoder that is given child after child is the slow twin.
        #[test]
        fn is_written_as_its_children_are_pushed(children in any_children()) {
            let mut encoder = BranchEncoder::new();
            children.iter().for_each(|(nibble, child)| encoder.push(*nibble, &child.encoded));
            let branch = branch(&children);
            let mut rlp = vec![7];
            branch.head.write(&branch.refs, &mut rlp);
            prop_assert_eq!(&rlp[1..], encoder.rlp());
            prop_assert_eq!(branch.head.masks(), encoder.masks(3));
            let hashed = children.values().filter(|child| child.encoded.hashed_branch);
            let hashes: Vec<_> = hashed.filter_map(|child| child.encoded.rlp.hash()).collect();
            prop_assert_eq!(branch.head.hashes(&branch.refs).collect::<Vec<_>>(), hashes);
        }

        /// Children are where they were after places came, were emptied, and went.
        #[test]
        fn children_are_found_in_their_places(
            children in any_children(),
            wanted: u16,
            changed: u16,
            forgotten: u16,
        ) {
            let mut branch = branch(&children);
            branch.make_places(wanted);
            let mut expected = children.clone();
            for nibble in nibbles(wanted) {
                let mut child = branch.take_child(nibble);
                let known = children.get(&nibble);
                prop_assert_eq!(child.encoded, known.map(|known| known.encoded));
                prop_assert_eq!(value(&child.node), known.and_then(|known| known.value));
                if known.is_none() {
                    continue;
                }
                if has(changed, nibble) {
                    let new = Encoded::plain(ChildRef::to_hash(&B256::repeat_byte(nibble as u8)));
                    child.encoded = Some(new);
                    expected.entry(nibble).and_modify(|known| known.encoded = new);
                }
                branch.put_child(nibble, child);
            }
            for nibble in nibbles(forgotten) {
                if let Some((place, has_ref)) = branch.child_mut(nibble) {
                    prop_assert!(has_ref);
                    *place = Node::None;
                    expected.entry(nibble).and_modify(|known| known.value = None);
                }
            }
            branch.drop_empty_places();
            branch.count_bytes();
            let known = expected.values().filter(|child| child.value.is_some()).count();
            let bytes = expected.len() * 32 + known * size_of::<Node<U256>>();
            prop_assert_eq!(branch.head.bytes, bytes);
            let found = branch.take_children();
            let found = found.into_iter().map(|(nibble, child)| (nibble, child.encoded, value(&child.node)));
            let expected = expected.iter();
            let expected = expected.map(|(nibble, child)| (*nibble, Some(child.encoded), child.value));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}
