//! Accounts and slots as they are after one block, kept in memory for the blocks to come.
//!
//! The cache follows one block, its *tip*: the last block that was executed on the head. Reading
//! fills it, and a valid block on the tip moves it on with what that block changed. A payload on
//! any other block does not see it.
//!
//! Invariant: whoever holds a [`CachedState`] sees the state it was opened for, or nothing. Moving
//! the tip raises the epoch before it changes an entry, and every access compares epochs under the
//! lock of its shard; so what a reader left over from an earlier block puts in is either dropped or
//! overwritten.
//!
//! Memory is bounded by two generations: when the younger one is full it becomes the older one, and
//! what nobody asked for since goes.

use super::persistence::{had_storage, stored_account};
use alloy_primitives::{Address, B256, U256, map::DefaultHashBuilder};
use revm::database::BundleState;
use state_root::updates::Account;
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Parts with a lock of their own.
const SHARDS: usize = 64;
/// What an account takes: key, value, and the room a hash table leaves.
const ACCOUNT_BYTES: usize = 256;
/// What a slot takes, likewise.
const SLOT_BYTES: usize = 192;
/// Of the bound, the part in eighths that is for slots.
const SLOT_EIGHTHS: usize = 7;

type SlotKey = (Address, U256);

/// The cache. Shared by all threads that execute or pre-execute.
pub(super) struct StateCache {
    epoch: AtomicU64,
    tip: Mutex<Option<B256>>,
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    accounts_per_shard: usize,
    slots_per_shard: usize,
}

/// The cache as seen by a reader of the state after one block.
#[derive(Clone)]
pub(super) struct CachedState {
    cache: Arc<StateCache>,
    epoch: u64,
}

#[derive(Debug, Default)]
struct Shard {
    accounts: Generations<Address, Option<Account>>,
    slots: Generations<SlotKey, U256>,
}

impl StateCache {
    /// A cache of at most about `bytes`; `None` when that is too little to keep anything.
    pub(super) fn new(bytes: usize) -> Option<Arc<Self>> {
        let share = bytes / 8 / SHARDS;
        let (slots, accounts) = (share * SLOT_EIGHTHS / SLOT_BYTES, share / ACCOUNT_BYTES);
        (slots > 0 && accounts > 0).then(|| {
            Arc::new(Self {
                epoch: AtomicU64::new(0),
                tip: Mutex::new(None),
                shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
                hasher: DefaultHashBuilder::default(),
                accounts_per_shard: accounts,
                slots_per_shard: slots,
            })
        })
    }

    /// The state after `parent`, on which a block is about to be executed. A cache that follows
    /// another block begins anew when `parent` is the head.
    pub(super) fn after(self: &Arc<Self>, parent: B256, is_head: bool) -> Option<CachedState> {
        let mut tip = lock(&self.tip);
        if *tip != Some(parent) {
            if !is_head {
                return None;
            }
            self.forget();
            *tip = Some(parent);
        }
        Some(CachedState {
            cache: self.clone(),
            epoch: self.epoch.load(Ordering::Relaxed),
        })
    }

    /// Moves on to `block`, a valid child of `parent`, which changed `changes`. Nothing happens
    /// when the cache does not follow `parent`.
    pub(super) fn advance(&self, parent: B256, block: B256, changes: &BundleState) {
        let mut tip = lock(&self.tip);
        if *tip != Some(parent) {
            return;
        }
        // First: what a reader of the parent's state puts in from now on is dropped.
        self.epoch.fetch_add(1, Ordering::Relaxed);
        *tip = Some(block);
        if changes
            .state
            .values()
            .any(|account| account.was_destroyed() && had_storage(account))
        {
            // Slots are not listed by account.
            for shard in &self.shards {
                lock(shard).slots.clear();
            }
        }
        for (address, changed) in &changes.state {
            let account = changed.info.as_ref().map(stored_account);
            lock(self.account_shard(address)).accounts.insert(
                *address,
                account,
                self.accounts_per_shard,
            );
            for (slot, value) in &changed.storage {
                let key = (*address, *slot);
                lock(self.slot_shard(&key)).slots.insert(
                    key,
                    value.present_value,
                    self.slots_per_shard,
                );
            }
        }
    }

    fn forget(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        for shard in &self.shards {
            *lock(shard) = Shard::default();
        }
    }

    fn account_shard(&self, address: &Address) -> &Mutex<Shard> {
        self.shard(address)
    }

    fn slot_shard(&self, key: &SlotKey) -> &Mutex<Shard> {
        // Slots of one contract are spread as well.
        let (address, slot) = key;
        let slot = slot.as_limbs().iter().fold(0, |mixed, limb| mixed ^ limb);
        let mixed = slot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let own = self.hasher.hash_one(address) ^ mixed;
        &self.shards[own as usize % SHARDS]
    }

    fn shard(&self, key: &impl Hash) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The shard, as long as the state is still that of `epoch`.
    fn at<'s>(&self, shard: &'s Mutex<Shard>, epoch: u64) -> Option<MutexGuard<'s, Shard>> {
        let shard = lock(shard);
        (self.epoch.load(Ordering::Relaxed) == epoch).then_some(shard)
    }
}

impl CachedState {
    /// An account, if it is known; the inner `None` when there is none.
    pub(super) fn account(&self, address: &Address) -> Option<Option<Account>> {
        let cache = &self.cache;
        let mut shard = cache.at(cache.account_shard(address), self.epoch)?;
        shard.accounts.get(address, cache.accounts_per_shard)
    }

    /// Keeps what was read.
    pub(super) fn keep_account(&self, address: Address, account: Option<Account>) {
        let cache = &self.cache;
        if let Some(mut shard) = cache.at(cache.account_shard(&address), self.epoch) {
            shard
                .accounts
                .insert(address, account, cache.accounts_per_shard);
        }
    }

    /// The value of a slot, if it is known.
    pub(super) fn slot(&self, address: Address, slot: U256) -> Option<U256> {
        let (cache, key) = (&self.cache, (address, slot));
        let mut shard = cache.at(cache.slot_shard(&key), self.epoch)?;
        shard.slots.get(&key, cache.slots_per_shard)
    }

    /// Keeps what was read.
    pub(super) fn keep_slot(&self, address: Address, slot: U256, value: U256) {
        let (cache, key) = (&self.cache, (address, slot));
        if let Some(mut shard) = cache.at(cache.slot_shard(&key), self.epoch) {
            shard.slots.insert(key, value, cache.slots_per_shard);
        }
    }
}

/// A map that forgets what was not asked for while half of its capacity came in.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V, DefaultHashBuilder>,
    old: HashMap<K, V, DefaultHashBuilder>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
        }
    }
}

impl<K: Eq + Hash + Copy, V: Copy> Generations<K, V> {
    fn get(&mut self, key: &K, capacity: usize) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value, capacity);
        Some(value)
    }

    fn insert(&mut self, key: K, value: V, capacity: usize) {
        if self.young.len() >= capacity.div_ceil(2) && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

/// Entries are inserted and removed whole, so a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::map::B256Map;
    use proptest::prelude::*;
    use revm::{
        database::{AccountStatus, BundleAccount, states::StorageSlot},
        state::AccountInfo,
    };

    const MIB: usize = 1 << 20;

    fn block(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    fn address(n: u8) -> Address {
        Address::repeat_byte(n)
    }

    fn account(nonce: u64) -> Account {
        Account {
            nonce,
            ..Account::default()
        }
    }

    fn info(nonce: u64) -> AccountInfo {
        AccountInfo {
            nonce,
            ..AccountInfo::default()
        }
    }

    /// A change of account 1: its new nonce (`None`: destroyed) and slots with new values.
    fn change(nonce: Option<u64>, slots: &[(u64, u64)]) -> BundleState {
        let status = match nonce {
            Some(_) => AccountStatus::Changed,
            None => AccountStatus::Destroyed,
        };
        let slot = |&(slot, value): &(u64, u64)| {
            let value = StorageSlot::new_changed(U256::ZERO, U256::from(value));
            (U256::from(slot), value)
        };
        let storage = slots.iter().map(slot).collect();
        let mut bundle = BundleState::default();
        bundle.state.insert(
            address(1),
            BundleAccount::new(Some(info(0)), nonce.map(info), storage, status),
        );
        bundle
    }

    fn slot_of(state: &CachedState, slot: u64) -> Option<u64> {
        let value = state.slot(address(1), U256::from(slot))?;
        Some(value.to())
    }

    #[test]
    fn a_block_on_the_tip_moves_the_cache_on() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        assert_eq!(before.account(&address(1)), None);
        before.keep_account(address(1), Some(account(1)));
        before.keep_account(address(2), None);
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        cache.advance(block(1), block(2), &change(Some(2), &[(8, 80)]));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Some(Some(account(2))));
        assert_eq!(after.account(&address(2)), Some(None));
        assert_eq!(
            (slot_of(&after, 7), slot_of(&after, 8)),
            (Some(70), Some(80))
        );
    }

    #[test]
    fn a_reader_left_over_neither_sees_nor_changes_a_later_state() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        cache.advance(block(1), block(2), &change(Some(2), &[]));
        assert_eq!(before.account(&address(1)), None);
        before.keep_account(address(1), Some(account(1)));
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Some(Some(account(2))));
        assert_eq!(slot_of(&after, 7), None);
    }

    #[test]
    fn other_branches_do_not_see_it_until_they_are_the_head() {
        let cache = StateCache::new(MIB).unwrap();
        let head = cache.after(block(1), true).unwrap();
        head.keep_account(address(1), Some(account(1)));
        assert!(cache.after(block(9), false).is_none());
        cache.advance(block(9), block(10), &change(Some(9), &[]));
        assert_eq!(head.account(&address(1)), Some(Some(account(1))));
        let other = cache.after(block(9), true).unwrap();
        assert_eq!(other.account(&address(1)), None);
        assert_eq!(head.account(&address(1)), None);
    }

    #[test]
    fn a_destroyed_account_takes_its_slots_along() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        cache.advance(block(1), block(2), &change(None, &[]));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Some(None));
        assert_eq!(slot_of(&after, 7), None);
    }

    #[test]
    fn a_bound_too_small_for_anything_means_no_cache() {
        assert!(StateCache::new(0).is_none());
        assert!(StateCache::new(64 << 10).is_none());
    }

    proptest! {
        /// Whatever is asked and kept, an answer is the last value kept, and the number of entries
        /// stays within the capacity.
        #[test]
        fn what_is_kept_is_right_and_bounded(
            steps in prop::collection::vec((0_u8..40, any::<Option<u16>>()), 0..400),
            capacity in 1_usize..20,
        ) {
            let mut kept = Generations::default();
            let mut model: B256Map<u16> = B256Map::default();
            for (key, value) in steps {
                let key = block(key);
                match value {
                    Some(value) => {
                        kept.insert(key, value, capacity);
                        model.insert(key, value);
                    }
                    None => {
                        if let Some(found) = kept.get(&key, capacity) {
                            prop_assert_eq!(Some(&found), model.get(&key));
                        }
                    }
                }
                prop_assert!(kept.young.len() + kept.old.len() <= capacity + 1);
            }
        }
    }
}
