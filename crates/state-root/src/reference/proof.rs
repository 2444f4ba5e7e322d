//! Merkle proofs: the nodes on the paths to some keys, of a state given as changes over a view.
//!
//! The tries are rebuilt as for a root, with the paths to the wanted keys opened, and the builder
//! keeps the nodes it makes on them. So a proof's root is the state's root by construction.

use super::{
    overlay::Overlay,
    rebuild::{Rebuild, encode_slot},
    state::{
        NoBranches, PrefixSets, encode_account, sorted, storage_root_of_prefixes,
        unchanged_storage_root,
    },
};
use crate::{
    cursor::{CursorError, HashedCursor, StateView, TrieCursor},
    updates::{Account, HashedState},
};
use alloy_primitives::{
    B256, Bytes, U256,
    map::{B256Map, B256Set},
};
use alloy_rlp::EMPTY_STRING_CODE;
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, proof::ProofNodes};

/// The nodes on the paths to all wanted keys, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MultiProof {
    /// The state root.
    pub root: B256,
    /// Nodes of the account trie.
    pub account_nodes: ProofNodes,
    /// The storage trie of every wanted account that exists, by hashed address.
    pub storages: B256Map<StorageMultiProof>,
}

/// The part of a [`MultiProof`] that is one account's storage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageMultiProof {
    /// The storage root.
    pub root: B256,
    /// Nodes of the storage trie; none when it is empty.
    pub nodes: ProofNodes,
}

impl MultiProof {
    /// The account trie's nodes from the root towards `hashed_address`.
    pub fn account_path(&self, hashed_address: B256) -> Vec<Bytes> {
        path(&self.account_nodes, hashed_address)
    }
}

impl StorageMultiProof {
    /// The storage trie's nodes from the root towards `hashed_slot`.
    pub fn slot_path(&self, hashed_slot: B256) -> Vec<Bytes> {
        path(&self.nodes, hashed_slot)
    }
}

/// Nodes under 32 bytes are inside their parent and are no nodes of their own, except the root. An
/// empty trie has none at all.
fn path(nodes: &ProofNodes, key: B256) -> Vec<Bytes> {
    let nodes = nodes.matching_nodes_sorted(&Nibbles::unpack(key));
    let own = nodes.into_iter().filter(|(path, node)| {
        node.len() >= 32 || (path.is_empty() && node[..] != [EMPTY_STRING_CODE])
    });
    own.map(|(_, node)| node).collect()
}

/// Proofs of `targets`, slots by account, all hashed: present or absent, in the state after
/// `changes` over `view`.
pub fn multi_proof<V: StateView>(
    view: &V,
    changes: &HashedState,
    targets: &B256Map<B256Set>,
) -> Result<MultiProof, CursorError> {
    let view = Overlay {
        base: view,
        changes,
    };
    let mut prefixes = PrefixSets::from(changes);
    prefixes.accounts.extend(targets.keys());
    let mut proof = MultiProof::default();
    let mut roots = B256Map::default();
    for (address, changed) in &prefixes.storages {
        if !targets.contains_key(address) {
            let (root, _) = storage_root_of_prefixes(&view, *address, changed)?;
            roots.insert(*address, root);
        }
    }
    for (address, slots) in targets {
        let storage = storage_proof(&view, *address, &prefixes, slots)?;
        roots.insert(*address, storage.root);
        proof.storages.insert(*address, storage);
    }
    let opened = sorted(prefixes.accounts.iter().chain(prefixes.storages.keys()));
    let encode = |address: B256, account: Account, out: &mut Vec<u8>| {
        let root = match roots.get(&address) {
            Some(root) => *root,
            None => unchanged_storage_root(&view, address)?,
        };
        encode_account(account, root, out);
        Ok(())
    };
    let rebuild = Rebuild::new(view.account_trie()?, view.accounts()?, &opened, encode);
    (proof.root, proof.account_nodes) = rebuild.prove(targets.keys())?;
    Ok(proof)
}

fn storage_proof<V: StateView>(
    view: &V,
    address: B256,
    prefixes: &PrefixSets,
    targets: &B256Set,
) -> Result<StorageMultiProof, CursorError> {
    let mut slots = view.slots(address)?;
    if slots.seek(B256::ZERO)?.is_none() {
        return Ok(StorageMultiProof {
            root: EMPTY_ROOT_HASH,
            ..Default::default()
        });
    }
    let changed = prefixes.storages.get(&address);
    let no_slots = B256Set::default();
    let changed_slots = changed.map_or(&no_slots, |changed| &changed.slots);
    let opened = sorted(changed_slots.iter().chain(targets));
    let (root, nodes) = if changed.is_some_and(|changed| changed.wiped) {
        prove_storage(NoBranches, slots, &opened, targets)
    } else {
        prove_storage(view.storage_trie(address)?, slots, &opened, targets)
    }?;
    Ok(StorageMultiProof { root, nodes })
}

fn prove_storage<T, C>(
    trie: T,
    slots: C,
    opened: &[B256],
    targets: &B256Set,
) -> Result<(B256, ProofNodes), CursorError>
where
    T: TrieCursor,
    C: HashedCursor<Value = U256>,
{
    Rebuild::new(trie, slots, opened, encode_slot).prove(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mem::MemState, updates::HashedStorage};
    use alloy_primitives::keccak256;
    use alloy_trie::{TrieAccount, proof::verify_proof};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Keys that share long prefixes, so that tries have extensions and embedded nodes.
    fn key() -> impl Strategy<Value = B256> {
        let dense = (0u8..4, 0u8..4, any::<bool>()).prop_map(|(first, last, middle)| {
            let mut key = B256::ZERO;
            key[0] = first * 0x11;
            key[15] = u8::from(middle);
            key[31] = last * 0x10;
            key
        });
        prop_oneof![
            dense,
            any::<u64>().prop_map(|seed| keccak256(seed.to_be_bytes()))
        ]
    }

    fn slots() -> impl Strategy<Value = BTreeMap<B256, U256>> {
        // Small values make leaves under 32 bytes where keys share nearly everything.
        let value = prop_oneof![1u64..3, any::<u64>()].prop_map(U256::from);
        prop::collection::btree_map(key(), value, 0..12)
    }

    type Leaves = BTreeMap<B256, (u64, BTreeMap<B256, U256>)>;

    fn leaves() -> impl Strategy<Value = Leaves> {
        prop::collection::btree_map(key(), (any::<u64>(), slots()), 0..12)
    }

    fn account(nonce: u64) -> Account {
        Account {
            nonce,
            ..Account::default()
        }
    }

    fn state(leaves: &Leaves) -> (MemState, B256) {
        let accounts = leaves
            .iter()
            .map(|(key, (nonce, _))| (*key, account(*nonce)));
        let slots = leaves.iter().map(|(key, (_, slots))| (*key, slots.clone()));
        MemState::from_leaves(accounts.collect(), slots.collect()).unwrap()
    }

    /// What turns the leaves `from` into the leaves `to`.
    fn changes(from: &Leaves, to: &Leaves) -> HashedState {
        let mut changes = HashedState::default();
        for key in from
            .keys()
            .chain(to.keys())
            .collect::<std::collections::BTreeSet<_>>()
        {
            let after = to.get(key);
            changes
                .accounts
                .push((*key, after.map(|(nonce, _)| account(*nonce))));
            let none = BTreeMap::new();
            let before_slots = from.get(key).map_or(&none, |(_, slots)| slots);
            let after_slots = after.map_or(&none, |(_, slots)| slots);
            let mut slots: BTreeMap<_, _> = before_slots
                .keys()
                .map(|slot| (*slot, U256::ZERO))
                .collect();
            slots.extend(after_slots.iter().map(|(slot, value)| (*slot, *value)));
            let slots = slots.into_iter().collect();
            let wiped = after.is_none();
            changes
                .storages
                .insert(*key, HashedStorage { wiped, slots });
        }
        changes
    }

    /// Every proof of `targets` in the state `expected` holds against its root.
    fn check(proof: &MultiProof, targets: &B256Map<B256Set>, expected: &Leaves, root: B256) {
        assert_eq!(proof.root, root);
        for (address, slots) in targets {
            let storage = &proof.storages[address];
            let leaf = expected.get(address).map(|(nonce, _)| {
                let code_hash = Account::default().code_hash;
                alloy_rlp::encode(TrieAccount::new(
                    *nonce,
                    U256::ZERO,
                    storage.root,
                    code_hash,
                ))
            });
            let nodes = proof.account_path(*address);
            verify_proof(root, Nibbles::unpack(address), leaf, &nodes).unwrap();
            for slot in slots {
                let value = expected.get(address).and_then(|(_, slots)| slots.get(slot));
                let value = value.map(alloy_rlp::encode);
                let nodes = storage.slot_path(*slot);
                verify_proof(storage.root, Nibbles::unpack(slot), value, &nodes).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn proofs_hold_whatever_was_changed_and_asked(
            before in leaves(),
            after in leaves(),
            asked in prop::collection::vec((key(), prop::collection::vec(key(), 0..6)), 1..6),
        ) {
            let mut targets: B256Map<B256Set> = B256Map::default();
            for (address, slots) in asked {
                targets.entry(address).or_default().extend(slots);
            }
            // Ask for what is there, too.
            for (address, (_, slots)) in before.iter().chain(&after).step_by(2) {
                targets.entry(*address).or_default().extend(slots.keys().step_by(2));
            }
            let (view, root_before) = state(&before);
            let (_, root_after) = state(&after);
            let unchanged = multi_proof(&view, &HashedState::default(), &targets).unwrap();
            check(&unchanged, &targets, &before, root_before);
            let changed = multi_proof(&view, &changes(&before, &after), &targets).unwrap();
            check(&changed, &targets, &after, root_after);
        }
    }
}
