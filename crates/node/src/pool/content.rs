//! The transactions that wait, by sender and nonce. Pure: it knows no chain.
//!
//! Invariants: no more transactions or bytes than [`Limits`] say; one transaction a nonce; only
//! the last transaction of a sender is ever pushed out by others, so no gap appears by it.

use super::PoolError;
use crate::primitives::TransactionSigned;
use alloy_consensus::{Transaction, transaction::Recovered};
use alloy_eips::eip7594::BlobTransactionSidecarVariant;
use alloy_primitives::{
    Address, B256, U256,
    map::{AddressMap, B256Map},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

/// A replacement pays this much more, in percent: fee cap and tip.
const PRICE_BUMP_PERCENT: u128 = 10;
/// The same for blob transactions, whose propagation is expensive.
const BLOB_PRICE_BUMP_PERCENT: u128 = 100;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Transactions.
    pub(super) transactions: usize,
    /// Bytes, blobs included.
    pub(super) bytes: usize,
    /// Transactions of one sender.
    pub(super) per_sender: usize,
}

/// A transaction that waits.
#[derive(Debug)]
pub struct Entry {
    /// With its sender.
    pub transaction: Recovered<TransactionSigned>,
    /// Its blobs, when it has any.
    pub sidecar: Option<Arc<BlobTransactionSidecarVariant>>,
    /// Bytes as it was sent.
    pub(super) bytes: usize,
    /// The most it can cost its sender, in wei.
    pub(super) cost: U256,
    /// Rises with every transaction taken.
    arrival: u64,
}

impl Entry {
    pub(super) fn new(
        transaction: Recovered<TransactionSigned>,
        sidecar: Option<Arc<BlobTransactionSidecarVariant>>,
        bytes: usize,
        cost: U256,
    ) -> Self {
        Self {
            transaction,
            sidecar,
            bytes,
            cost,
            arrival: 0,
        }
    }

    /// EIP-2718 hash.
    pub fn hash(&self) -> B256 {
        *self.transaction.tx_hash()
    }

    /// Who signed it.
    pub fn sender(&self) -> Address {
        self.transaction.signer()
    }

    fn tip(&self, base_fee: u64) -> u128 {
        self.transaction
            .effective_tip_per_gas(base_fee)
            .unwrap_or_default()
    }

    /// Whether this one pays enough more to take the place of `old`.
    fn replaces(&self, old: &Self) -> bool {
        let percent = if old.sidecar.is_some() {
            BLOB_PRICE_BUMP_PERCENT
        } else {
            PRICE_BUMP_PERCENT
        };
        let enough = |new: u128, old: u128| {
            let least = old.saturating_add(old.saturating_mul(percent).div_ceil(100));
            new >= least && new > old
        };
        let tip = |entry: &Self| {
            let transaction = &entry.transaction;
            transaction
                .max_priority_fee_per_gas()
                .unwrap_or(transaction.max_fee_per_gas())
        };
        let blob_fee = |entry: &Self| entry.transaction.max_fee_per_blob_gas();
        enough(
            self.transaction.max_fee_per_gas(),
            old.transaction.max_fee_per_gas(),
        ) && enough(tip(self), tip(old))
            && blob_fee(old).is_none_or(|old| blob_fee(self).is_some_and(|new| enough(new, old)))
            && self.sidecar.is_some() == old.sidecar.is_some()
    }
}

/// What waits of one sender.
#[derive(Debug, Default)]
struct Sender {
    /// Nonce of its account.
    nonce: u64,
    by_nonce: BTreeMap<u64, Arc<Entry>>,
}

impl Sender {
    /// The nonce after those that can be mined one after another.
    fn next_nonce(&self) -> u64 {
        let mut next = self.nonce;
        for nonce in self.by_nonce.keys() {
            if *nonce != next {
                break;
            }
            next += 1;
        }
        next
    }
}

/// Pending and queued transactions of a sender, by nonce.
#[derive(Debug, Clone, Default)]
pub struct SenderContent {
    /// Those that can be mined one after another.
    pub pending: BTreeMap<u64, Arc<Entry>>,
    /// Those behind a gap.
    pub queued: BTreeMap<u64, Arc<Entry>>,
}

/// All transactions that wait.
#[derive(Debug)]
pub(super) struct Content {
    limits: Limits,
    senders: AddressMap<Sender>,
    places: B256Map<(Address, u64)>,
    bytes: usize,
    arrivals: u64,
}

impl Content {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            senders: AddressMap::default(),
            places: B256Map::default(),
            bytes: 0,
            arrivals: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn get(&self, hash: B256) -> Option<Arc<Entry>> {
        let (sender, nonce) = self.places.get(&hash)?;
        self.senders.get(sender)?.by_nonce.get(nonce).cloned()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.senders
            .values()
            .flat_map(|sender| sender.by_nonce.values())
    }

    pub(super) fn senders(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// The nonce after a sender's pending transactions, if it has any.
    pub(super) fn next_nonce(&self, sender: Address) -> Option<u64> {
        self.senders.get(&sender).map(Sender::next_nonce)
    }

    /// What waits of one sender.
    pub(super) fn of_sender(&self, sender: Address) -> SenderContent {
        let Some(sender) = self.senders.get(&sender) else {
            return SenderContent::default();
        };
        let mut pending = sender.by_nonce.clone();
        let queued = pending.split_off(&sender.next_nonce());
        SenderContent { pending, queued }
    }

    /// Takes a transaction whose sender's account has `nonce` and `balance`, pushing out cheaper
    /// ones when there is no room.
    pub(super) fn insert(
        &mut self,
        mut entry: Entry,
        nonce: u64,
        balance: U256,
        base_fee: u64,
    ) -> Result<B256, PoolError> {
        let (hash, sender) = (entry.hash(), entry.sender());
        if self.places.contains_key(&hash) {
            return Err(PoolError::AlreadyKnown);
        }
        self.check_place(&entry, balance)?;
        self.arrivals += 1;
        entry.arrival = self.arrivals;
        let place = entry.transaction.nonce();
        let replaced = self.remove(sender, place);
        self.place(Arc::new(entry), nonce);
        if self.make_room(hash, base_fee) {
            return Ok(hash);
        }
        self.remove(sender, place);
        if let Some(replaced) = replaced {
            self.place(replaced, nonce);
        }
        Err(PoolError::Underpriced)
    }

    fn check_place(&self, entry: &Entry, balance: U256) -> Result<(), PoolError> {
        let Some(sender) = self.senders.get(&entry.sender()) else {
            return Ok(());
        };
        let old = sender.by_nonce.get(&entry.transaction.nonce());
        if old.is_some_and(|old| !entry.replaces(old)) {
            return Err(PoolError::ReplacementUnderpriced);
        }
        if old.is_none() && sender.by_nonce.len() >= self.limits.per_sender {
            return Err(PoolError::AccountLimit(self.limits.per_sender));
        }
        let others = sender
            .by_nonce
            .values()
            .fold(U256::ZERO, |sum, other| sum.saturating_add(other.cost));
        let others = others.saturating_sub(old.map_or(U256::ZERO, |old| old.cost));
        let left = balance.saturating_sub(others);
        if entry.cost > left {
            return Err(PoolError::InsufficientFunds {
                balance: left,
                cost: entry.cost,
            });
        }
        Ok(())
    }

    fn place(&mut self, entry: Arc<Entry>, nonce: u64) {
        self.bytes += entry.bytes;
        let place = (entry.sender(), entry.transaction.nonce());
        self.places.insert(entry.hash(), place);
        let sender = self.senders.entry(place.0).or_default();
        sender.nonce = nonce;
        sender.by_nonce.insert(place.1, entry);
    }

    /// Removes one transaction.
    pub(super) fn remove(&mut self, sender: Address, nonce: u64) -> Option<Arc<Entry>> {
        let waiting = self.senders.get_mut(&sender)?;
        let entry = waiting.by_nonce.remove(&nonce)?;
        if waiting.by_nonce.is_empty() {
            self.senders.remove(&sender);
        }
        self.places.remove(&entry.hash());
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Pushes out last transactions of senders that pay less than `newcomer` until there is room.
    fn make_room(&mut self, newcomer: B256, base_fee: u64) -> bool {
        while self.places.len() > self.limits.transactions || self.bytes > self.limits.bytes {
            let Some(new) = self.get(newcomer) else {
                return false;
            };
            let victim = self.cheapest_last(newcomer, base_fee);
            match victim {
                Some(victim) if victim.tip(base_fee) < new.tip(base_fee) => {
                    self.remove(victim.sender(), victim.transaction.nonce());
                }
                _ => return false,
            }
        }
        true
    }

    /// The last transaction of a sender that is worth least: queued ones first, then by tip, then
    /// the latest.
    fn cheapest_last(&self, newcomer: B256, base_fee: u64) -> Option<Arc<Entry>> {
        let worth = |sender: &Sender, entry: &Entry| {
            let is_pending = entry.transaction.nonce() < sender.next_nonce();
            (is_pending, entry.tip(base_fee), Reverse(entry.arrival))
        };
        self.senders
            .values()
            .filter_map(|sender| {
                let (_, last) = sender.by_nonce.last_key_value()?;
                (last.hash() != newcomer).then(|| (worth(sender, last), last))
            })
            .min_by_key(|(worth, _)| *worth)
            .map(|(_, entry)| entry.clone())
    }

    /// Takes note of a sender's account after a new head. What is mined and what it can no longer
    /// pay for goes; the first of these are returned.
    pub(super) fn update_sender(
        &mut self,
        sender: Address,
        nonce: u64,
        balance: U256,
    ) -> Vec<Arc<Entry>> {
        let Some(waiting) = self.senders.get_mut(&sender) else {
            return Vec::new();
        };
        waiting.nonce = nonce;
        let gone: Vec<(u64, bool)> = waiting
            .by_nonce
            .iter()
            .filter(|(place, entry)| **place < nonce || entry.cost > balance)
            .map(|(place, _)| (*place, *place < nonce))
            .collect();
        let mut mined = Vec::new();
        for (place, is_mined) in gone {
            let entry = self.remove(sender, place);
            mined.extend(entry.filter(|_| is_mined));
        }
        mined
    }

    /// Pending transactions in the order a block takes them.
    pub(super) fn best(&self, base_fee: u64, blob_base_fee: u128) -> Best {
        let mut best = Best {
            base_fee,
            blob_base_fee,
            next: BinaryHeap::new(),
            later: AddressMap::default(),
        };
        for (address, sender) in &self.senders {
            let pending = sender.by_nonce.range(..sender.next_nonce());
            let mut pending: Vec<_> = pending.map(|(_, entry)| entry.clone()).collect();
            pending.reverse();
            best.later.insert(*address, pending);
            best.offer_next(*address);
        }
        best
    }
}

/// Pending transactions by tip, those of a sender by nonce.
#[derive(Debug)]
pub struct Best {
    base_fee: u64,
    blob_base_fee: u128,
    next: BinaryHeap<Offer>,
    /// What is left of each sender, last nonce first.
    later: AddressMap<Vec<Arc<Entry>>>,
}

impl Best {
    /// The best transaction left. Its sender's later ones follow only after
    /// [`Best::included`].
    pub fn take(&mut self) -> Option<Arc<Entry>> {
        self.next.pop().map(|offer| offer.entry)
    }

    /// The transaction was included: the sender's next one may follow.
    pub fn included(&mut self, entry: &Entry) {
        self.offer_next(entry.sender());
    }

    fn offer_next(&mut self, sender: Address) {
        let Some(entry) = self.later.get_mut(&sender).and_then(Vec::pop) else {
            return;
        };
        let transaction = &entry.transaction;
        let blob_fee_is_enough = transaction
            .max_fee_per_blob_gas()
            .is_none_or(|fee| fee >= self.blob_base_fee);
        let tip = transaction.effective_tip_per_gas(self.base_fee);
        if let Some(tip) = tip.filter(|_| blob_fee_is_enough) {
            self.next.push(Offer { tip, entry });
        }
    }
}

/// A transaction on offer: the better one is the greater.
#[derive(Debug)]
struct Offer {
    tip: u128,
    entry: Arc<Entry>,
}

impl Offer {
    fn rank(&self) -> (u128, Reverse<u64>) {
        (self.tip, Reverse(self.entry.arrival))
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxEip1559};
    use alloy_primitives::Signature;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LIMITS: Limits = Limits {
        transactions: 12,
        bytes: 2_000,
        per_sender: 6,
    };
    const RICH: U256 = U256::MAX;
    const BASE_FEE: u64 = 10;

    fn address(sender: u8) -> Address {
        Address::repeat_byte(sender)
    }

    /// A transaction of 100 bytes whose tip and fee cap are `price` above the base fee.
    fn entry(sender: u8, nonce: u64, price: u128) -> Entry {
        let transaction = TxEip1559 {
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: price + u128::from(BASE_FEE),
            max_priority_fee_per_gas: price,
            ..Default::default()
        };
        let signature = Signature::new(U256::from(1), U256::from(sender) + U256::from(1), false);
        let signed = TransactionSigned::from(transaction.into_signed(signature));
        let signed = Recovered::new_unchecked(signed, address(sender));
        Entry::new(signed, None, 100, U256::from(21_000 * price))
    }

    fn content(limits: Limits, entries: &[(u8, u64, u128)]) -> Content {
        let mut content = Content::new(limits);
        for (sender, nonce, price) in entries {
            insert(&mut content, *sender, *nonce, *price).unwrap();
        }
        content
    }

    fn insert(
        content: &mut Content,
        sender: u8,
        nonce: u64,
        price: u128,
    ) -> Result<B256, PoolError> {
        content.insert(entry(sender, nonce, price), 0, RICH, BASE_FEE)
    }

    /// Sender and nonce of everything `best` yields, included or not.
    fn order(content: &Content, refused: &[u8]) -> Vec<(u8, u64)> {
        let mut best = content.best(BASE_FEE, 0);
        let mut order = Vec::new();
        while let Some(entry) = best.take() {
            let sender = entry.sender()[0];
            order.push((sender, entry.transaction.nonce()));
            if !refused.contains(&sender) {
                best.included(&entry);
            }
        }
        order
    }

    #[test]
    fn what_pays_more_comes_first_and_nonces_stay_in_order() {
        let waiting = content(
            LIMITS,
            &[(1, 0, 5), (1, 1, 90), (2, 0, 7), (2, 2, 99), (3, 0, 7)],
        );
        let all = [(2, 0), (3, 0), (1, 0), (1, 1)];
        assert_eq!(order(&waiting, &[]), all);
        assert_eq!(order(&waiting, &[1]), all[..3]);
    }

    #[test]
    fn a_gap_queues_what_is_behind_it() {
        let mut waiting = content(LIMITS, &[(1, 0, 5), (1, 2, 5)]);
        let parts = |waiting: &Content| {
            let content = waiting.of_sender(address(1));
            let keys = |part: &BTreeMap<u64, _>| part.keys().copied().collect::<Vec<_>>();
            (keys(&content.pending), keys(&content.queued))
        };
        assert_eq!(parts(&waiting), (vec![0], vec![2]));
        assert_eq!(waiting.next_nonce(address(1)), Some(1));
        insert(&mut waiting, 1, 1, 5).unwrap();
        assert_eq!(parts(&waiting), (vec![0, 1, 2], vec![]));
        assert_eq!(waiting.next_nonce(address(1)), Some(3));
        assert_eq!(waiting.next_nonce(address(9)), None);
    }

    #[test]
    fn a_replacement_pays_a_tenth_more() {
        let mut waiting = content(LIMITS, &[(1, 0, 100)]);
        assert_eq!(
            insert(&mut waiting, 1, 0, 100),
            Err(PoolError::AlreadyKnown)
        );
        assert_eq!(
            insert(&mut waiting, 1, 0, 109),
            Err(PoolError::ReplacementUnderpriced)
        );
        let replaced = waiting.of_sender(address(1)).pending[&0].hash();
        let hash = insert(&mut waiting, 1, 0, 111).unwrap();
        assert!(waiting.get(replaced).is_none());
        assert_eq!(waiting.get(hash).map(|entry| entry.hash()), Some(hash));
        assert_eq!(waiting.bytes, 100);
    }

    #[test]
    fn all_of_a_sender_must_be_paid_for() {
        let mut waiting = Content::new(LIMITS);
        let balance = U256::from(21_000 * 25);
        let mut insert = |nonce, price| {
            waiting
                .insert(entry(1, nonce, price), 0, balance, BASE_FEE)
                .map(|_| ())
        };
        assert_eq!(insert(0, 10), Ok(()));
        assert_eq!(insert(1, 10), Ok(()));
        assert!(matches!(
            insert(2, 10),
            Err(PoolError::InsufficientFunds { .. })
        ));
        assert_eq!(
            insert(1, 15),
            Ok(()),
            "a replacement frees what it replaces"
        );
    }

    #[test]
    fn when_full_the_cheapest_last_one_goes() {
        let limits = Limits {
            transactions: 3,
            ..LIMITS
        };
        let mut waiting = content(limits, &[(1, 0, 1), (1, 1, 50), (2, 0, 20)]);
        assert_eq!(insert(&mut waiting, 3, 0, 20), Err(PoolError::Underpriced));
        insert(&mut waiting, 3, 0, 30).unwrap();
        assert_eq!(order(&waiting, &[]), [(3, 0), (1, 0), (1, 1)]);
    }

    #[test]
    fn a_new_head_takes_what_is_mined_and_what_cannot_be_paid() {
        let mut waiting = content(LIMITS, &[(1, 0, 1), (1, 1, 1), (1, 2, 50)]);
        let mined = waiting.update_sender(address(1), 1, U256::from(21_000 * 5));
        let nonces: Vec<_> = mined
            .iter()
            .map(|entry| entry.transaction.nonce())
            .collect();
        assert_eq!(nonces, [0]);
        assert_eq!(order(&waiting, &[]), [(1, 1)]);
        assert_eq!(waiting.bytes, 100);
    }

    /// Something that happens to a pool.
    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8, u64, u128),
        Mine(u8, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..5u8, 0..8u64, 1..200u128).prop_map(|(a, b, c)| Step::Insert(a, b, c)),
            1 => (0..5u8, 0..8u64).prop_map(|(a, b)| Step::Mine(a, b)),
        ];
        prop::collection::vec(step, 0..120)
    }

    fn check_invariants(waiting: &Content) {
        let entries: Vec<_> = waiting.entries().cloned().collect();
        assert!(entries.len() <= LIMITS.transactions);
        assert!(waiting.bytes <= LIMITS.bytes);
        assert_eq!(entries.len(), waiting.places.len());
        assert_eq!(entries.len() * 100, waiting.bytes);
        for entry in &entries {
            assert_eq!(
                waiting.get(entry.hash()).map(|found| found.hash()),
                Some(entry.hash())
            );
        }
        let ordered: BTreeSet<_> = order(waiting, &[]).into_iter().collect();
        let mut pending = BTreeSet::new();
        for sender in waiting.senders() {
            let content = waiting.of_sender(sender);
            let start = waiting.senders[&sender].nonce;
            let contiguous = (start..).zip(content.pending.keys());
            assert!(
                contiguous
                    .clone()
                    .all(|(expected, nonce)| expected == *nonce)
            );
            pending.extend(contiguous.map(|(nonce, _)| (sender[0], nonce)));
            assert!(content.pending.len() + content.queued.len() <= LIMITS.per_sender);
        }
        assert_eq!(
            ordered, pending,
            "every pending transaction is offered once"
        );
    }

    proptest! {
        #[test]
        fn never_over_its_bounds_and_nothing_lost(steps in steps()) {
            let mut waiting = Content::new(LIMITS);
            let mut nonces = [0u64; 5];
            for step in steps {
                match step {
                    Step::Insert(sender, nonce, price) => {
                        let mined = nonces[usize::from(sender)];
                        if nonce >= mined {
                            let _ = waiting.insert(entry(sender, nonce, price), mined, RICH, BASE_FEE);
                        }
                    }
                    Step::Mine(sender, nonce) => {
                        let mined = &mut nonces[usize::from(sender)];
                        *mined = nonce.max(*mined);
                        let gone = waiting.update_sender(address(sender), *mined, RICH);
                        prop_assert!(gone.iter().all(|entry| entry.transaction.nonce() < *mined));
                    }
                }
                check_invariants(&waiting);
            }
        }
    }
}
