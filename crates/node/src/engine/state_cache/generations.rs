//! A map of bounded size that forgets what was not asked for.

use alloy_primitives::map::DefaultHashBuilder;
use hashbrown::HashTable;
use std::{
    hash::{BuildHasher, Hash},
    mem::{size_of, take},
};

/// Entries that are allocated together: so many that finding a chunk costs nothing beside reading the
/// entry.
const CHUNK: usize = 512;

/// A map that forgets what was not asked for while half of its capacity came in.
///
/// Whoever asks brings the key's hash along, made by the hasher that it was made with.
pub(super) struct Generations<K, V> {
    young: Entries<K, V>,
    old: Entries<K, V>,
    capacity: usize,
    hasher: DefaultHashBuilder,
}

impl<K: Eq + Hash + Copy, V: Copy> Generations<K, V> {
    /// What an entry takes, in bytes: itself, and its share of a table that is filled by half.
    pub(super) const ENTRY_BYTES: usize = size_of::<(K, V)>() + 2 * (size_of::<u32>() + 1);

    /// A map of at most `capacity` entries.
    pub(super) fn new(capacity: usize, hasher: DefaultHashBuilder) -> Self {
        Self {
            young: Entries::default(),
            old: Entries::default(),
            capacity,
            hasher,
        }
    }

    /// A value, and whether it is in the younger generation; otherwise it should be inserted again.
    pub(super) fn get(&self, hash: u64, key: &K) -> Option<(V, bool)> {
        let young = self.young.get(hash, key).map(|value| (value, true));
        young.or_else(|| self.old.get(hash, key).map(|value| (value, false)))
    }

    /// Whether something was dropped to make room.
    pub(super) fn insert(&mut self, hash: u64, key: K, value: V) -> bool {
        if let Some(known) = self.young.get_mut(hash, &key) {
            *known = value;
            return false;
        }
        let half = self.capacity.div_ceil(2);
        let mut dropped = false;
        if self.young.len() >= half {
            dropped = self.old.len() > 0;
            self.old = take(&mut self.young);
        }
        let room = CHUNK.min(half);
        self.young.push(hash, (key, value), (&self.hasher, room));
        dropped
    }

    /// Entries of both generations.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub(super) fn clear(&mut self) {
        self.young = Entries::default();
        self.old = Entries::default();
    }
}

/// Entries in the order in which they came, in chunks that never move, and a table of where each is.
///
/// A table of the entries themselves would be half empty and, whenever it grows, copied to memory
/// that was never touched.
struct Entries<K, V> {
    places: HashTable<u32>,
    chunks: Vec<Vec<(K, V)>>,
}

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Self {
            places: HashTable::new(),
            chunks: Vec::new(),
        }
    }
}

impl<K: Eq + Hash, V: Copy> Entries<K, V> {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn at(&self, place: u32) -> &(K, V) {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    fn place(&self, hash: u64, key: &K) -> Option<u32> {
        let is_here = |place: &u32| self.at(*place).0 == *key;
        self.places.find(hash, is_here).copied()
    }

    fn get(&self, hash: u64, key: &K) -> Option<V> {
        Some(self.at(self.place(hash, key)?).1)
    }

    fn get_mut(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let place = self.place(hash, key)? as usize;
        Some(&mut self.chunks[place / CHUNK][place % CHUNK].1)
    }

    /// Adds an entry whose key is new; a chunk that begins with it has this room.
    fn push(&mut self, hash: u64, entry: (K, V), (hasher, room): (&DefaultHashBuilder, usize)) {
        let place = self.len() as u32;
        if (place as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(entry);
        }
        let chunks = &self.chunks;
        let hash_at = |place: &u32| {
            let place = *place as usize;
            hasher.hash_one(&chunks[place / CHUNK][place % CHUNK].0)
        };
        self.places.insert_unique(hash, place, hash_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::map::HashMap;
    use proptest::prelude::*;

    fn map(capacity: usize) -> (Generations<u64, u16>, impl Fn(&u64) -> u64) {
        let hasher = DefaultHashBuilder::default();
        let hash = hasher.clone();
        (Generations::new(capacity, hasher), move |key| {
            hash.hash_one(key)
        })
    }

    proptest! {
        /// Whatever is asked and kept, an answer is the last value kept, nothing is missing that
        /// was not reported as dropped, and the number of entries stays within the capacity.
        #[test]
        fn what_is_kept_is_right_and_bounded(
            steps in prop::collection::vec((0_u64..2000, any::<Option<u16>>()), 0..4000),
            capacity in 1_usize..3000,
        ) {
            let (mut kept, hash) = map(capacity);
            let mut model: HashMap<u64, u16> = HashMap::default();
            let mut lost = false;
            for (key, value) in steps {
                match value {
                    Some(value) => {
                        lost |= kept.insert(hash(&key), key, value);
                        model.insert(key, value);
                    }
                    None => match kept.get(hash(&key), &key) {
                        Some((found, _)) => prop_assert_eq!(Some(&found), model.get(&key)),
                        None => prop_assert!(lost || !model.contains_key(&key)),
                    },
                }
                prop_assert!(kept.len() <= capacity + 1);
            }
        }
    }

    #[test]
    fn nothing_is_left_after_clearing() {
        let (mut kept, hash) = map(1600);
        for key in 0..3000 {
            kept.insert(hash(&key), key, 1);
        }
        assert_eq!(kept.get(hash(&2999), &2999), Some((1, true)));
        kept.clear();
        assert_eq!((kept.len(), kept.get(hash(&2999), &2999)), (0, None));
    }
}
