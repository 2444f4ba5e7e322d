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
//! As long as nothing was lost, the cache holds all that blocks not yet persisted have changed, and who
//! misses something need not search those blocks for it ([`Known::UnchangedAfter`]).
//!
//! Memory is bounded by two generations: when the younger one is full it becomes the older one, and
//! what nobody asked for since goes.

mod generations;

use super::persistence::{had_storage, stored_account};
use crate::primitives::BlockNumHash;
use alloy_primitives::{Address, B256, U256, map::DefaultHashBuilder};
use generations::Generations;
use revm::database::{BundleAccount, BundleState};
use state_root::updates::Account;
use std::{
    hash::{BuildHasher, Hash},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Parts with a lock of their own.
const SHARDS: usize = 64;
/// Of the bound, the part in eighths that is for slots.
const SLOT_EIGHTHS: usize = 7;

type SlotKey = (Address, U256);
type Accounts = Generations<Address, Option<Account>>;
type Slots = Generations<SlotKey, U256>;

/// The cache. Shared by all threads that execute or pre-execute.
pub(super) struct StateCache {
    epoch: AtomicU64,
    tip: Mutex<Option<Tip>>,
    /// Whether an entry was dropped since the tip was set.
    lost: AtomicBool,
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
}

/// The block whose state is cached.
#[derive(Debug, Clone, Copy)]
struct Tip {
    block: BlockNumHash,
    /// Everything that blocks after this one changed is cached.
    complete_after: u64,
}

/// The cache as seen by a reader of the state after one block.
#[derive(Clone)]
pub(super) struct CachedState {
    cache: Arc<StateCache>,
    epoch: u64,
    complete_after: u64,
}

struct Shard {
    accounts: Accounts,
    slots: Slots,
}

impl StateCache {
    /// A cache of at most about `bytes`; `None` when that is too little to keep anything.
    pub(super) fn new(bytes: usize) -> Option<Arc<Self>> {
        let share = bytes / 8 / SHARDS;
        let slots = share * SLOT_EIGHTHS / Slots::ENTRY_BYTES;
        let accounts = share / Accounts::ENTRY_BYTES;
        (slots > 0 && accounts > 0).then(|| {
            let hasher = DefaultHashBuilder::default();
            let shard = || Shard {
                accounts: Accounts::new(accounts, hasher.clone()),
                slots: Slots::new(slots, hasher.clone()),
            };
            Arc::new(Self {
                epoch: AtomicU64::new(0),
                tip: Mutex::new(None),
                lost: AtomicBool::new(false),
                shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
                hasher,
            })
        })
    }

    /// The state after `parent`, on which a block is about to be executed. A cache that follows
    /// another block begins anew when `parent` is the head.
    pub(super) fn after(
        self: &Arc<Self>,
        parent: BlockNumHash,
        is_head: bool,
    ) -> Option<CachedState> {
        let mut tip = lock(&self.tip);
        let begun = match *tip {
            Some(known) if known.block == parent => known,
            _ if !is_head => return None,
            _ => {
                self.forget();
                Tip {
                    block: parent,
                    complete_after: parent.number,
                }
            }
        };
        *tip = Some(begun);
        Some(CachedState {
            cache: self.clone(),
            epoch: self.epoch.load(Ordering::Relaxed),
            complete_after: begun.complete_after,
        })
    }

    /// Moves on to `block`, a valid child of `parent`, which changed `changes`. Nothing happens
    /// when the cache does not follow `parent`.
    pub(super) fn advance(&self, parent: B256, block: BlockNumHash, changes: &BundleState) {
        let mut tip = lock(&self.tip);
        let Some(known) = tip.filter(|known| known.block.hash == parent) else {
            return;
        };
        // First: what a reader of the parent's state puts in from now on is dropped.
        self.epoch.fetch_add(1, Ordering::Relaxed);
        let wipes = |account: &BundleAccount| account.was_destroyed() && had_storage(account);
        if changes.state.values().any(wipes) {
            // Slots are not listed by account.
            for shard in &self.shards {
                lock(shard).slots.clear();
            }
            self.lost.store(true, Ordering::Relaxed);
        }
        for (address, changed) in &changes.state {
            let account = changed.info.as_ref().map(stored_account);
            let place = self.place(address);
            self.put_account(&mut lock(place.shard), place.hash, *address, account);
            for (slot, value) in &changed.storage {
                let key = (*address, *slot);
                let place = self.place(&key);
                self.put_slot(&mut lock(place.shard), place.hash, key, value.present_value);
            }
        }
        let lost = self.lost.swap(false, Ordering::Relaxed);
        *tip = Some(Tip {
            block,
            complete_after: if lost {
                block.number
            } else {
                known.complete_after
            },
        });
    }

    fn put_account(&self, shard: &mut Shard, hash: u64, key: Address, account: Option<Account>) {
        if shard.accounts.insert(hash, key, account) {
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    fn put_slot(&self, shard: &mut Shard, hash: u64, key: SlotKey, value: U256) {
        if shard.slots.insert(hash, key, value) {
            self.lost.store(true, Ordering::Relaxed);
        }
    }

    fn forget(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.accounts.clear();
            shard.slots.clear();
        }
    }

    fn place(&self, key: &impl Hash) -> Place<'_> {
        let hash = self.hasher.hash_one(key);
        // The table in the shard takes the lowest and the highest bits.
        let shard = &self.shards[(hash >> 40) as usize % SHARDS];
        Place { hash, shard }
    }
}

/// Where a key is looked for.
struct Place<'s> {
    hash: u64,
    shard: &'s Mutex<Shard>,
}

/// What the cache says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// This.
    Value(T),
    /// That blocks after this number did not change it.
    UnchangedAfter(u64),
    /// Nothing.
    Nothing,
}

impl CachedState {
    /// An account; an inner `None` when there is none.
    pub(super) fn account(&self, address: &Address) -> Known<Option<Account>> {
        let Some((hash, mut shard)) = self.at(address) else {
            return Known::Nothing;
        };
        let Some((account, is_young)) = shard.accounts.get(hash, address) else {
            return self.missing();
        };
        if !is_young {
            self.cache.put_account(&mut shard, hash, *address, account);
        }
        Known::Value(account)
    }

    /// Keeps what was read.
    pub(super) fn keep_account(&self, address: Address, account: Option<Account>) {
        if let Some((hash, mut shard)) = self.at(&address) {
            self.cache.put_account(&mut shard, hash, address, account);
        }
    }

    /// The value of a slot.
    pub(super) fn slot(&self, address: Address, slot: U256) -> Known<U256> {
        let key = (address, slot);
        let Some((hash, mut shard)) = self.at(&key) else {
            return Known::Nothing;
        };
        let Some((value, is_young)) = shard.slots.get(hash, &key) else {
            return self.missing();
        };
        if !is_young {
            self.cache.put_slot(&mut shard, hash, key, value);
        }
        Known::Value(value)
    }

    /// Keeps what was read.
    pub(super) fn keep_slot(&self, address: Address, slot: U256, value: U256) {
        let key = (address, slot);
        if let Some((hash, mut shard)) = self.at(&key) {
            self.cache.put_slot(&mut shard, hash, key, value);
        }
    }

    /// A key's hash and its shard, as long as the state is still that of this reader.
    fn at(&self, key: &impl Hash) -> Option<(u64, MutexGuard<'_, Shard>)> {
        let place = self.cache.place(key);
        let shard = lock(place.shard);
        let is_current = self.cache.epoch.load(Ordering::Relaxed) == self.epoch;
        is_current.then_some((place.hash, shard))
    }

    /// What it means that an entry is missing. Asked under the lock of its shard, so that its loss
    /// is known.
    fn missing<T>(&self) -> Known<T> {
        if self.cache.lost.load(Ordering::Relaxed) {
            return Known::Nothing;
        }
        Known::UnchangedAfter(self.complete_after)
    }
}

/// Entries are inserted and removed whole, so a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::{
        database::{AccountStatus, BundleAccount, states::StorageSlot},
        state::AccountInfo,
    };

    const MIB: usize = 1 << 20;

    fn block(n: u8) -> BlockNumHash {
        BlockNumHash {
            number: n.into(),
            hash: B256::repeat_byte(n),
        }
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

    /// What is known of a slot of account 1: `Ok` its value, `Err` where else to look.
    fn slot_of(state: &CachedState, slot: u64) -> Result<u64, Option<u64>> {
        match state.slot(address(1), U256::from(slot)) {
            Known::Value(value) => Ok(value.to()),
            Known::UnchangedAfter(block) => Err(Some(block)),
            Known::Nothing => Err(None),
        }
    }

    #[test]
    fn a_block_on_the_tip_moves_the_cache_on() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        assert_eq!(before.account(&address(1)), Known::UnchangedAfter(1));
        before.keep_account(address(1), Some(account(1)));
        before.keep_account(address(2), None);
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        cache.advance(block(1).hash, block(2), &change(Some(2), &[(8, 80)]));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Known::Value(Some(account(2))));
        assert_eq!(after.account(&address(2)), Known::Value(None));
        assert_eq!((slot_of(&after, 7), slot_of(&after, 8)), (Ok(70), Ok(80)));
        assert_eq!(slot_of(&after, 9), Err(Some(1)));
    }

    #[test]
    fn a_reader_left_over_neither_sees_nor_changes_a_later_state() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        cache.advance(block(1).hash, block(2), &change(Some(2), &[]));
        assert_eq!(before.account(&address(1)), Known::Nothing);
        before.keep_account(address(1), Some(account(1)));
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Known::Value(Some(account(2))));
        assert_eq!(slot_of(&after, 7), Err(Some(1)));
    }

    #[test]
    fn other_branches_do_not_see_it_until_they_are_the_head() {
        let cache = StateCache::new(MIB).unwrap();
        let head = cache.after(block(1), true).unwrap();
        head.keep_account(address(1), Some(account(1)));
        assert!(cache.after(block(9), false).is_none());
        cache.advance(block(9).hash, block(10), &change(Some(9), &[]));
        assert_eq!(head.account(&address(1)), Known::Value(Some(account(1))));
        let other = cache.after(block(9), true).unwrap();
        assert_eq!(other.account(&address(1)), Known::UnchangedAfter(9));
        assert_eq!(head.account(&address(1)), Known::Nothing);
    }

    #[test]
    fn a_destroyed_account_takes_its_slots_along() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        cache.advance(block(1).hash, block(2), &change(None, &[]));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(after.account(&address(1)), Known::Value(None));
        assert_eq!(slot_of(&after, 7), Err(Some(2)));
    }

    #[test]
    fn what_was_dropped_is_looked_for_elsewhere() {
        let cache = StateCache::new(MIB).unwrap();
        let before = cache.after(block(1), true).unwrap();
        before.keep_slot(address(1), U256::from(7), U256::from(70));
        for slot in 100..20_000 {
            before.keep_slot(address(1), U256::from(slot), U256::ONE);
        }
        assert_eq!(slot_of(&before, 7), Err(None));
        cache.advance(block(1).hash, block(2), &change(Some(2), &[]));
        let after = cache.after(block(2), true).unwrap();
        assert_eq!(slot_of(&after, 7), Err(Some(2)));
    }

    #[test]
    fn a_bound_too_small_for_anything_means_no_cache() {
        assert!(StateCache::new(0).is_none());
        assert!(StateCache::new(32 << 10).is_none());
    }
}
