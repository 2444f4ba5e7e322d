//! When a batch of targets is split into jobs, and where it is cut.

use alloy_primitives::{B256, map::B256Map};
use std::num::NonZeroUsize;

/// The rule that decides whether a batch longer than the chunk size is split.
///
/// A batch's length is its account targets plus its slot targets. A batch that is not split becomes
/// one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkPolicy {
    /// Split whenever the batch is longer than the chunk size.
    Always,
    /// reth 1.11: also require more than 300 targets, or more than one idle worker in either pool.
    Reth1_11,
    /// reth 2.5: also require more than 300 targets, or both a batch of at least two chunks and
    /// more than one idle worker in either pool.
    Reth2_5,
}

/// The batch length above which both reth rules split whatever the workers are doing.
const LONG_BATCH: usize = 300;

/// Workers that have opened their view and run no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IdleWorkers {
    pub(crate) account: usize,
    pub(crate) storage: usize,
}

impl IdleWorkers {
    fn any_pool_has_two(self) -> bool {
        self.account > 1 || self.storage > 1
    }
}

impl ChunkPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Always, Self::Reth1_11, Self::Reth2_5];

    /// Whether a batch of `len` targets is split.
    pub(crate) fn splits(self, len: usize, chunk_size: NonZeroUsize, idle: IdleWorkers) -> bool {
        let chunk_size = chunk_size.get();
        len > chunk_size
            && match self {
                Self::Always => true,
                Self::Reth1_11 => len > LONG_BATCH || idle.any_pool_has_two(),
                Self::Reth2_5 => {
                    len > LONG_BATCH
                        || (len >= chunk_size.saturating_mul(2) && idle.any_pool_has_two())
                }
            }
    }
}

/// A leaf whose path the trie in memory does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    /// The leaf's hashed key.
    pub(crate) key: B256,
    /// Where the blind part of its path begins, in nibbles; 0 asks for the root node too.
    pub(crate) start: usize,
}

/// Targets of one account's storage trie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageTargets {
    /// Hashed address.
    pub(crate) address: B256,
    /// Sorted by key, except between listing and splitting.
    pub(crate) slots: Vec<Target>,
}

/// Targets found in one pass over the queued messages; also a part of it, a job's worth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Batch {
    /// Sorted by key, except between listing and splitting.
    pub(crate) accounts: Vec<Target>,
    /// Sorted by address, except between listing and splitting.
    pub(crate) storages: Vec<StorageTargets>,
}

impl Batch {
    /// Account targets plus slot targets.
    pub(crate) fn len(&self) -> usize {
        self.accounts.len() + self.slot_count()
    }

    /// Slot targets.
    pub(crate) fn slot_count(&self) -> usize {
        self.storages
            .iter()
            .map(|storage| storage.slots.len())
            .sum()
    }

    /// The same targets in the order in which the policy lists them, which decides what comes
    /// together into one chunk: that of a hash map with reth 1.11, else sorted.
    pub(crate) fn listed_by(self, policy: ChunkPolicy) -> Self {
        if policy != ChunkPolicy::Reth1_11 {
            return self;
        }
        let in_map = |targets: Vec<Target>| {
            let map: B256Map<_> = targets.into_iter().map(|t| (t.key, t.start)).collect();
            map.into_iter()
                .map(|(key, start)| Target { key, start })
                .collect()
        };
        let storages = self.storages.into_iter();
        let storages: B256Map<_> = storages
            .map(|storage| (storage.address, storage.slots))
            .collect();
        let storages = storages.into_iter().map(|(address, slots)| StorageTargets {
            address,
            slots: in_map(slots),
        });
        Self {
            accounts: in_map(self.accounts),
            storages: storages.collect(),
        }
    }

    /// Sorts everything by key, as whoever walks the tries needs it.
    pub(crate) fn sort(&mut self) {
        self.accounts.sort_unstable();
        self.storages
            .sort_unstable_by_key(|storage| storage.address);
        for storage in &mut self.storages {
            storage.slots.sort_unstable();
        }
    }

    /// Cuts into chunks of exactly `chunk_size` targets, the last one excepted.
    ///
    /// Accounts go in list order, each followed by its slots; slots that do not fit open the next
    /// chunk without their account. Slots of accounts outside the account list come last.
    pub(crate) fn split(self, chunk_size: NonZeroUsize) -> Vec<Self> {
        let storages = self.storages.iter().enumerate();
        let places: B256Map<_> = storages
            .map(|(place, storage)| (storage.address, place))
            .collect();
        let mut storages: Vec<_> = self.storages.into_iter().map(Some).collect();
        let mut chunks = Chunks {
            chunk_size: chunk_size.get(),
            full: Vec::new(),
            open: Self::default(),
            open_len: 0,
        };
        for account in self.accounts {
            chunks.push_account(account);
            let own = places.get(&account.key);
            if let Some(storage) = own.and_then(|place| storages[*place].take()) {
                chunks.push_slots(storage);
            }
        }
        let without_account = storages.into_iter().flatten();
        without_account.for_each(|storage| chunks.push_slots(storage));
        chunks.finish()
    }
}

/// Chunks being filled.
struct Chunks {
    chunk_size: usize,
    full: Vec<Batch>,
    open: Batch,
    open_len: usize,
}

impl Chunks {
    fn room(&mut self) -> usize {
        if self.open_len == self.chunk_size {
            self.full.push(std::mem::take(&mut self.open));
            self.open_len = 0;
        }
        self.chunk_size - self.open_len
    }

    fn push_account(&mut self, account: Target) {
        self.room();
        self.open.accounts.push(account);
        self.open_len += 1;
    }

    fn push_slots(&mut self, storage: StorageTargets) {
        let mut rest = storage.slots.as_slice();
        while !rest.is_empty() {
            let (fitting, overflow) = rest.split_at(self.room().min(rest.len()));
            self.open.storages.push(StorageTargets {
                address: storage.address,
                slots: fitting.to_vec(),
            });
            self.open_len += fitting.len();
            rest = overflow;
        }
    }

    fn finish(mut self) -> Vec<Batch> {
        if self.open_len > 0 {
            self.full.push(self.open);
        }
        self.full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE_IDLE: IdleWorkers = IdleWorkers {
        account: 0,
        storage: 0,
    };
    const ONE_IDLE_EACH: IdleWorkers = IdleWorkers {
        account: 1,
        storage: 1,
    };
    const TWO_IDLE_ACCOUNT: IdleWorkers = IdleWorkers {
        account: 2,
        storage: 0,
    };
    const TWO_IDLE_STORAGE: IdleWorkers = IdleWorkers {
        account: 0,
        storage: 2,
    };

    fn key(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    fn size(chunk_size: usize) -> NonZeroUsize {
        NonZeroUsize::new(chunk_size).unwrap()
    }

    /// Batches written as text: `a1 s1.4` is account 1 and slot 4 of account 1.
    fn batch(text: &str) -> Batch {
        let mut batch = Batch::default();
        for word in text.split_whitespace() {
            let (kind, rest) = word.split_at(1);
            let (account, slot) = rest.split_once('.').unwrap_or((rest, "0"));
            let address = key(account.parse().unwrap());
            if kind == "a" {
                batch.accounts.push(Target {
                    key: address,
                    start: 0,
                });
                continue;
            }
            let target = Target {
                key: key(slot.parse().unwrap()),
                start: 0,
            };
            match batch
                .storages
                .iter_mut()
                .find(|storage| storage.address == address)
            {
                Some(storage) => storage.slots.push(target),
                None => batch.storages.push(StorageTargets {
                    address,
                    slots: vec![target],
                }),
            }
        }
        batch
    }

    #[track_caller]
    fn check_split(chunk_size: usize, input: &str, chunks: &[&str]) {
        let expected: Vec<_> = chunks.iter().map(|chunk| batch(chunk)).collect();
        assert_eq!(batch(input).split(size(chunk_size)), expected, "{input}");
    }

    #[test]
    fn slots_follow_their_account_and_overflow_without_it() {
        check_split(2, "a1 a2 a3", &["a1 a2", "a3"]);
        check_split(3, "a1 a2 s1.1 s1.2 s1.3", &["a1 s1.1 s1.2", "s1.3 a2"]);
        check_split(
            2,
            "a1 s1.1 s1.2 s1.3 s1.4 s1.5",
            &["a1 s1.1", "s1.2 s1.3", "s1.4 s1.5"],
        );
        check_split(1, "a1 s1.1", &["a1", "s1.1"]);
        check_split(9, "a1 s1.1 a2 s2.1", &["a1 s1.1 a2 s2.1"]);
    }

    #[test]
    fn slots_of_unlisted_accounts_come_last() {
        check_split(
            2,
            "a2 a4 s1.1 s3.1 s4.1 s5.1",
            &["a2 a4", "s4.1 s1.1", "s3.1 s5.1"],
        );
        check_split(2, "s1.1 s1.2 s1.3 s2.1", &["s1.1 s1.2", "s1.3 s2.1"]);
        check_split(5, "", &[]);
    }

    #[test]
    fn accounts_are_taken_in_list_order() {
        check_split(2, "a3 a1 s1.1 s3.2 s3.1", &["a3 s3.2", "s3.1 a1", "s1.1"]);
    }

    #[test]
    fn reth_1_11_spreads_neighbours_over_chunks() {
        let slots: String = (0..200).map(|slot| format!("s7.{slot} ")).collect();
        let accounts: String = (0..200).map(|account| format!("a{account} ")).collect();
        let sorted = batch(&(accounts + &slots));
        for policy in [ChunkPolicy::Always, ChunkPolicy::Reth2_5] {
            assert_eq!(sorted.clone().listed_by(policy), sorted);
        }
        let mut listed = sorted.clone().listed_by(ChunkPolicy::Reth1_11);
        assert!(!listed.accounts.is_sorted());
        assert!(!listed.storages[0].slots.is_sorted());
        let mut chunks = listed.clone().split(size(60));
        assert_eq!(
            chunks.iter().map(Batch::len).collect::<Vec<_>>(),
            [60, 60, 60, 60, 60, 60, 40]
        );
        chunks.iter_mut().for_each(Batch::sort);
        assert!(chunks.iter().all(|chunk| chunk.accounts.is_sorted()));
        listed.sort();
        assert_eq!(listed, sorted);
    }

    #[track_caller]
    fn check_policy(
        policy: ChunkPolicy,
        len: usize,
        chunk_size: usize,
        idle: IdleWorkers,
        splits: bool,
    ) {
        assert_eq!(
            policy.splits(len, size(chunk_size), idle),
            splits,
            "{policy:?} {len} {chunk_size} {idle:?}"
        );
    }

    #[test]
    fn always_looks_at_the_length_only() {
        check_policy(ChunkPolicy::Always, 61, 60, NONE_IDLE, true);
        check_policy(ChunkPolicy::Always, 60, 60, TWO_IDLE_ACCOUNT, false);
    }

    #[test]
    fn reth_1_11_wants_a_long_batch_or_two_idle_workers() {
        check_policy(ChunkPolicy::Reth1_11, 60, 60, TWO_IDLE_ACCOUNT, false);
        check_policy(ChunkPolicy::Reth1_11, 61, 60, TWO_IDLE_ACCOUNT, true);
        check_policy(ChunkPolicy::Reth1_11, 61, 60, TWO_IDLE_STORAGE, true);
        check_policy(ChunkPolicy::Reth1_11, 61, 60, ONE_IDLE_EACH, false);
        check_policy(ChunkPolicy::Reth1_11, 300, 60, NONE_IDLE, false);
        check_policy(ChunkPolicy::Reth1_11, 301, 60, NONE_IDLE, true);
        check_policy(ChunkPolicy::Reth1_11, 301, 301, TWO_IDLE_ACCOUNT, false);
    }

    #[test]
    fn reth_2_5_also_wants_two_chunks() {
        check_policy(ChunkPolicy::Reth2_5, 119, 60, TWO_IDLE_ACCOUNT, false);
        check_policy(ChunkPolicy::Reth2_5, 120, 60, TWO_IDLE_ACCOUNT, true);
        check_policy(ChunkPolicy::Reth2_5, 120, 60, TWO_IDLE_STORAGE, true);
        check_policy(ChunkPolicy::Reth2_5, 120, 60, ONE_IDLE_EACH, false);
        check_policy(ChunkPolicy::Reth2_5, 301, 240, NONE_IDLE, true);
        check_policy(ChunkPolicy::Reth2_5, 300, 60, NONE_IDLE, false);
    }
}
