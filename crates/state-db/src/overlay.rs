//! The changes of a run of blocks as one: changed leaves and changed trie nodes, newest winning.
//!
//! An overlay is a stack of layers, each of them what some successive blocks changed. Extending one
//! merges the block into the upper layer and shares the lower one, until the upper one has grown to
//! about the square root of the lower one: then it is merged down. So of n blocks a further one
//! copies about √n, and a lookup asks two layers.
//!
//! Blocks that are on their way into the database and later ones are never merged: they have two
//! layers each, so that all of the former are left out together once they are stored.
//!
//! Invariant: within a layer everything is sorted and unique by key, and `wiped` means that
//! nothing older shows through, of lower layers or of the database.

use alloy_primitives::{B256, U256, map::B256Map};
use alloy_trie::Nibbles;
use smallvec::SmallVec;
use state_root::{
    StoredBranch,
    updates::{Account, HashedState, HashedStorage, StorageTrieUpdates, TrieUpdates},
};
use std::sync::Arc;

/// Layers of most overlays: two of blocks that are being stored, and two of later ones.
const LAYERS: usize = 4;

/// Sorted changes by key.
type Rows<K, E> = [(K, E)];

/// One list of changes for each layer that has any, newest first.
pub(crate) type Lists<'a, K, E> = SmallVec<[&'a Rows<K, E>; LAYERS]>;

/// Changes of blocks that are not (or not yet) read from the database.
#[derive(Debug, Clone, Default)]
pub struct Overlay {
    /// Newest first.
    layers: Vec<Layer>,
}

#[derive(Debug, Clone)]
struct Layer {
    /// Number of the newest block in it; the highest there is when it has no number.
    newest: u64,
    /// Blocks merged into it.
    blocks: usize,
    hashed: Arc<HashedState>,
    trie: Arc<TrieUpdates>,
}

impl Overlay {
    /// This overlay with further changes on top, which belong to no block in particular.
    pub fn extend(
        &self,
        hashed: impl Into<Arc<HashedState>>,
        trie: impl Into<Arc<TrieUpdates>>,
    ) -> Self {
        self.extend_block((u64::MAX, 0), hashed, trie)
    }

    /// This overlay with the changes of block `number` on top, which is not merged with blocks on the
    /// other side of `storing`: those up to there are being stored.
    pub fn extend_block(
        &self,
        (number, storing): (u64, u64),
        hashed: impl Into<Arc<HashedState>>,
        trie: impl Into<Arc<TrieUpdates>>,
    ) -> Self {
        let block = Layer {
            newest: number,
            blocks: 1,
            hashed: hashed.into(),
            trie: trie.into(),
        };
        let is_stored_with = |layer: &&Layer| (layer.newest <= storing) == (number <= storing);
        let count = self.layers.iter().take_while(is_stored_with).count();
        let (same, others) = self.layers.split_at(count);
        let mut layers = match same {
            [upper, lower] => {
                let upper = merge_layers(&[block, upper.clone()]);
                if upper.blocks * upper.blocks >= 2 * lower.blocks {
                    vec![merge_layers(&[upper, lower.clone()])]
                } else {
                    vec![upper, lower.clone()]
                }
            }
            below => std::iter::once(block)
                .chain(below.iter().cloned())
                .collect(),
        };
        layers.extend_from_slice(others);
        Self { layers }
    }

    /// This overlay without the layers in which nothing is newer than block `number`: for a
    /// database that has that block.
    #[must_use]
    pub fn without_blocks_up_to(mut self, number: u64) -> Self {
        self.layers.retain(|layer| layer.newest > number);
        self
    }

    /// Number of changed accounts and slots, those of several layers counted in each.
    pub(crate) fn leaves(&self) -> usize {
        let leaves = |layer: &Layer| {
            let slots = layer
                .hashed
                .storages
                .values()
                .map(|storage| storage.slots.len());
            layer.hashed.accounts.len() + slots.sum::<usize>()
        };
        self.layers.iter().map(leaves).sum()
    }

    /// What the overlay says about an account: nothing, that it is gone, or what it is.
    pub fn account(&self, hashed_address: B256) -> Option<Option<Account>> {
        let mut layers = self.layers.iter();
        layers.find_map(|layer| find(&layer.hashed.accounts, &hashed_address))
    }

    /// What the overlay says about a slot: nothing, or its value (zero when gone).
    pub fn slot(&self, hashed_address: B256, hashed_slot: B256) -> Option<U256> {
        let (storages, wiped) = self.slots(&hashed_address);
        let mut storages = storages.into_iter();
        storages
            .find_map(|slots| find(slots, &hashed_slot))
            .or_else(|| wiped.then_some(U256::ZERO))
    }

    /// Changed accounts, newest first.
    pub(crate) fn accounts(&self) -> Lists<'_, B256, Option<Account>> {
        accounts(&self.layers)
    }

    /// Changed nodes of the account trie, newest first.
    pub(crate) fn account_nodes(&self) -> Lists<'_, Nibbles, Option<StoredBranch>> {
        account_nodes(&self.layers)
    }

    /// Changed slots of an account, newest first, and whether nothing older shows through.
    pub(crate) fn slots(&self, hashed_address: &B256) -> (Lists<'_, B256, U256>, bool) {
        let storages = storages(&self.layers, hashed_address);
        visible(storages.map(|storage| (&storage.slots[..], storage.wiped)))
    }

    /// Changed nodes of an account's storage trie, newest first, and whether nothing older shows
    /// through.
    pub(crate) fn storage_nodes(
        &self,
        hashed_address: &B256,
    ) -> (Lists<'_, Nibbles, Option<StoredBranch>>, bool) {
        let tries = tries(&self.layers, hashed_address);
        visible(tries.map(|trie| (&trie.nodes[..], trie.wiped)))
    }
}

fn accounts(layers: &[Layer]) -> Lists<'_, B256, Option<Account>> {
    let lists = layers.iter().map(|layer| &layer.hashed.accounts[..]);
    lists.filter(|list| !list.is_empty()).collect()
}

fn account_nodes(layers: &[Layer]) -> Lists<'_, Nibbles, Option<StoredBranch>> {
    let lists = layers.iter().map(|layer| &layer.trie.account_nodes[..]);
    lists.filter(|list| !list.is_empty()).collect()
}

fn storages<'a>(layers: &'a [Layer], address: &B256) -> impl Iterator<Item = &'a HashedStorage> {
    let address = *address;
    let storage = move |layer: &'a Layer| layer.hashed.storages.get(&address);
    layers.iter().filter_map(storage)
}

fn tries<'a>(layers: &'a [Layer], address: &B256) -> impl Iterator<Item = &'a StorageTrieUpdates> {
    let address = *address;
    let trie = move |layer: &'a Layer| layer.trie.storages.get(&address);
    layers.iter().filter_map(trie)
}

/// Lists down to the first wipe, and whether there was one.
fn visible<'a, K, E>(
    lists: impl Iterator<Item = (&'a Rows<K, E>, bool)>,
) -> (Lists<'a, K, E>, bool) {
    let mut seen = Lists::new();
    for (list, wiped) in lists {
        if !list.is_empty() {
            seen.push(list);
        }
        if wiped {
            return (seen, true);
        }
    }
    (seen, false)
}

/// Layers as one; newest first.
fn merge_layers(layers: &[Layer]) -> Layer {
    let hashed = HashedState {
        accounts: Newest::new(accounts(layers)).collect(),
        storages: merge_storages(layers),
    };
    let trie = TrieUpdates {
        account_nodes: Newest::new(account_nodes(layers)).collect(),
        storages: merge_tries(layers),
    };
    Layer {
        newest: layers
            .iter()
            .map(|layer| layer.newest)
            .max()
            .unwrap_or_default(),
        blocks: layers.iter().map(|layer| layer.blocks).sum(),
        hashed: hashed.into(),
        trie: trie.into(),
    }
}

fn merge_storages(layers: &[Layer]) -> B256Map<HashedStorage> {
    let mut merged = B256Map::default();
    for (depth, layer) in layers.iter().enumerate() {
        merged.reserve(layer.hashed.storages.len());
        for address in layer.hashed.storages.keys() {
            merged.entry(*address).or_insert_with(|| {
                let lists = storages(&layers[depth..], address);
                let (lists, wiped) =
                    visible(lists.map(|storage| (&storage.slots[..], storage.wiped)));
                let slots = Newest::new(lists).collect();
                HashedStorage { wiped, slots }
            });
        }
    }
    merged
}

fn merge_tries(layers: &[Layer]) -> B256Map<StorageTrieUpdates> {
    let mut merged = B256Map::default();
    for (depth, layer) in layers.iter().enumerate() {
        merged.reserve(layer.trie.storages.len());
        for address in layer.trie.storages.keys() {
            merged.entry(*address).or_insert_with(|| {
                let lists = tries(&layers[depth..], address);
                let (lists, wiped) = visible(lists.map(|trie| (&trie.nodes[..], trie.wiped)));
                let nodes = Newest::new(lists).collect();
                StorageTrieUpdates { wiped, nodes }
            });
        }
    }
    merged
}

fn find<K: Ord, E: Clone>(list: &Rows<K, E>, key: &K) -> Option<E> {
    let at = list.binary_search_by(|(listed, _)| listed.cmp(key)).ok()?;
    Some(list[at].1.clone())
}

/// Several sorted lists of changes as one, in which the newest change of a key counts.
#[derive(Debug)]
pub(crate) struct Newest<'a, K, E> {
    /// Newest first, each with the position of the first change not yet passed.
    lists: SmallVec<[(&'a Rows<K, E>, usize); LAYERS]>,
}

impl<'a, K: Ord, E> Newest<'a, K, E> {
    /// Stands before the first change. `lists` are newest first.
    pub(crate) fn new(lists: Lists<'a, K, E>) -> Self {
        Self {
            lists: lists.into_iter().map(|list| (list, 0)).collect(),
        }
    }

    /// Whether there are no changes at all, passed or not.
    pub(crate) fn is_void(&self) -> bool {
        self.lists.is_empty()
    }

    /// Moves to the first change at or after `key`.
    pub(crate) fn seek(&mut self, key: &K) {
        for (list, position) in &mut self.lists {
            *position = list.partition_point(|(changed, _)| changed < key);
        }
    }

    /// Moves behind `key`; its change, if there is one.
    pub(crate) fn seek_exact(&mut self, key: &K) -> Option<&'a E> {
        let mut found = None;
        for (list, position) in &mut self.lists {
            *position = list.partition_point(|(changed, _)| changed <= key);
            let before = list[..*position]
                .last()
                .filter(|(changed, _)| changed == key);
            found = found.or(before.map(|(_, change)| change));
        }
        found
    }

    /// The change it stands before.
    pub(crate) fn peek(&self) -> Option<&'a (K, E)> {
        let heads = self.lists.iter().filter_map(|(list, at)| list.get(*at));
        // The first of equal ones, which is the newest.
        heads.min_by(|left, right| left.0.cmp(&right.0))
    }

    /// Moves behind the change it stands before.
    pub(crate) fn pass(&mut self) {
        let Some((key, _)) = self.peek() else {
            return;
        };
        for (list, position) in &mut self.lists {
            *position += usize::from(list.get(*position).is_some_and(|(head, _)| head == key));
        }
    }

    /// All changes that it has not passed.
    fn collect(mut self) -> Vec<(K, E)>
    where
        K: Clone,
        E: Clone,
    {
        if let [(list, position)] = &self.lists[..] {
            return list[*position..].to_vec();
        }
        let rest = self.lists.iter().map(|(list, at)| list.len() - at);
        let mut all = Vec::with_capacity(rest.sum());
        while let Some(change) = self.peek() {
            all.push(change.clone());
            self.pass();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    fn slots(wiped: bool, entries: &[(u8, u64)]) -> HashedState {
        let slots = entries
            .iter()
            .map(|(slot, value)| (key(*slot), U256::from(*value)))
            .collect();
        let mut state = HashedState::default();
        state
            .storages
            .insert(key(0xaa), HashedStorage { wiped, slots });
        state
    }

    fn overlay(blocks: &[HashedState]) -> Overlay {
        let none = Arc::<TrieUpdates>::default();
        blocks.iter().fold(Overlay::default(), |overlay, state| {
            overlay.extend(state.clone(), none.clone())
        })
    }

    fn check(blocks: &[HashedState], expected: &HashedState) {
        let merged = merge_layers(&overlay(blocks).layers);
        assert_eq!(&*merged.hashed, expected);
    }

    #[test]
    fn newest_wins_and_wipes_hide_what_is_older() {
        check(
            &[
                slots(false, &[(1, 1), (3, 3)]),
                slots(false, &[(2, 2), (3, 0)]),
            ],
            &slots(false, &[(1, 1), (2, 2), (3, 0)]),
        );
        check(
            &[slots(false, &[(1, 1)]), slots(true, &[(2, 2)])],
            &slots(true, &[(2, 2)]),
        );
        check(
            &[slots(true, &[(2, 2)]), slots(false, &[(1, 7), (2, 3)])],
            &slots(true, &[(1, 7), (2, 3)]),
        );
    }

    #[test]
    fn lookups_tell_unknown_from_gone() {
        let state = HashedState {
            accounts: vec![(key(1), None), (key(2), Some(Account::default()))],
            ..slots(true, &[(1, 9)])
        };
        let overlay = overlay(&[state]);
        assert_eq!(overlay.account(key(1)), Some(None));
        assert_eq!(overlay.account(key(2)), Some(Some(Account::default())));
        assert_eq!(overlay.account(key(3)), None);
        assert_eq!(overlay.slot(key(0xaa), key(1)), Some(U256::from(9)));
        assert_eq!(overlay.slot(key(0xaa), key(2)), Some(U256::ZERO));
        assert_eq!(overlay.slot(key(0xab), key(1)), None);
    }

    #[test]
    fn blocks_that_are_stored_are_left_out_with_their_layers() {
        let none = Arc::<TrieUpdates>::default();
        let mut overlay = Overlay::default();
        for number in 1..=8 {
            let changed = slots(false, &[(number as u8, 1)]);
            overlay = overlay.extend_block((number, 0), changed, none.clone());
        }
        let blocks: Vec<_> = overlay.layers.iter().map(|layer| layer.blocks).collect();
        assert_eq!(blocks, [2, 6]);
        let kept = |stored, slot| {
            let overlay = overlay.clone().without_blocks_up_to(stored);
            overlay.slot(key(0xaa), key(slot)).is_some()
        };
        assert!(kept(5, 1) && kept(5, 8));
        assert!(!kept(6, 1) && !kept(6, 6) && kept(6, 7));
        assert!(!kept(8, 8));
    }

    #[test]
    fn what_is_being_stored_is_left_out_all_at_once() {
        let none = Arc::<TrieUpdates>::default();
        let mut overlay = Overlay::default();
        let (mut storing, mut stored) = (0, 0);
        for number in 1..=500 {
            let changed = slots(false, &[((number % 50) as u8, number)]);
            overlay = overlay.without_blocks_up_to(stored).extend_block(
                (number, storing),
                changed,
                none.clone(),
            );
            let blocks: usize = overlay.layers.iter().map(|layer| layer.blocks).sum();
            assert_eq!(blocks as u64, number - stored, "block {number}");
            assert!(overlay.layers.len() <= LAYERS);
            assert_eq!(
                overlay.slot(key(0xaa), key((number % 50) as u8)),
                Some(U256::from(number))
            );
            // A batch takes 7, 20 or 40 blocks' time, and the next begins at once.
            if number - storing >= [7, 20, 40][(storing % 3) as usize] {
                (stored, storing) = (storing, number);
            }
        }
        assert!(stored > 400);
    }

    #[test]
    fn blocks_made_anew_are_merged_on_either_side_of_what_is_being_stored() {
        let none = Arc::<TrieUpdates>::default();
        let mut overlay = Overlay::default();
        for number in 1..=60 {
            let changed = slots(false, &[(number as u8, 1)]);
            overlay = overlay.extend_block((number, 40), changed, none.clone());
        }
        assert!(overlay.layers.len() <= LAYERS);
        assert!((1..=60).all(|slot| overlay.slot(key(0xaa), key(slot)).is_some()));
        let later = overlay.without_blocks_up_to(40);
        let is_there = |slot: &u8| later.slot(key(0xaa), key(*slot)).is_some();
        assert_eq!((1..=60).filter(is_there).count(), 20);
    }

    /// Blocks of slots of one account: whether they were wiped first, and values by slot.
    fn changes() -> impl Strategy<Value = Vec<(bool, BTreeMap<u8, u64>)>> {
        let slots = prop::collection::btree_map(0..40_u8, 0..5_u64, 0..30);
        prop::collection::vec((prop::bool::weighted(0.1), slots), 0..60)
    }

    proptest! {
        #[test]
        fn layers_read_as_a_map_written_block_by_block(blocks in changes()) {
            let mut expected = BTreeMap::new();
            let mut wiped_ever = false;
            let mut states = Vec::new();
            for (wiped, entries) in &blocks {
                if *wiped {
                    expected.clear();
                    wiped_ever = true;
                }
                expected.extend(entries.iter().map(|(slot, value)| (*slot, *value)));
                let entries: Vec<_> = entries.iter().map(|(slot, value)| (*slot, *value)).collect();
                states.push(slots(*wiped, &entries));
            }
            let overlay = overlay(&states);
            prop_assert!(overlay.layers.len() <= 2);
            let merged: usize = overlay.layers.iter().map(|layer| layer.blocks).sum();
            prop_assert_eq!(merged, blocks.len());
            for slot in 0..40 {
                let value = expected.get(&slot).map(|value| U256::from(*value));
                let value = value.or_else(|| wiped_ever.then_some(U256::ZERO));
                prop_assert_eq!(overlay.slot(key(0xaa), key(slot)), value);
            }
            let merged = merge_layers(&overlay.layers);
            let entries: Vec<_> = expected.into_iter().collect();
            if !states.is_empty() {
                prop_assert_eq!(&*merged.hashed, &slots(wiped_ever, &entries));
            }
        }
    }
}
