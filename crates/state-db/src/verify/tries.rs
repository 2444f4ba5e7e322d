//! The root of the leaves, and every stored trie node, from the hashed tables alone.

use super::{
    Audit,
    compare::{Comparison, Shape},
    walk::{Walk, words},
};
use crate::{
    codec::{self, PATH_SUBKEY_LEN},
    error::DbError,
    loader::{BUILDER_NODES, NodeSorters, account_leaf},
    tables::Table,
    tx::DbView,
};
use alloy_primitives::B256;
use alloy_trie::{BranchNodeCompact, EMPTY_ROOT_HASH, HashBuilder, Nibbles};

/// Builds all tries anew.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let folder = audit.options.sort_folder.clone();
    let mut builder = Tries {
        nodes: NodeSorters {
            account_nodes: audit.sorter(PATH_SUBKEY_LEN, 2),
            storage_nodes: audit.sorter(32 + PATH_SUBKEY_LEN, 3),
            folder: &folder,
        },
        slots: Walk::new(view, Table::HashedStorages)?,
        whole: true,
    };
    let root = builder.root(view, audit)?;
    if !builder.whole {
        let note = "the state root was not compared: leaves are missing";
        audit.notes.push(note.into());
        return Ok(());
    }
    audit.state_root = Some(root);
    // A header that is missing was found with the blocks.
    let header = view.header(audit.head).ok().flatten();
    if let Some(header) = header.filter(|header| header.state_root != root) {
        let problem = format!("root is {root}, the header says {}", header.state_root);
        let key = format!("at block {}", audit.head);
        audit.find(Table::HashedAccounts, key, problem);
    }
    for (table, shape, nodes) in [
        (
            Table::AccountsTrie,
            Shape::Path,
            builder.nodes.account_nodes,
        ),
        (
            Table::StoragesTrie,
            Shape::Subkey(PATH_SUBKEY_LEN),
            builder.nodes.storage_nodes,
        ),
    ] {
        let comparison = Comparison {
            table,
            shape,
            differs: nodes_differ,
        };
        comparison.run(view, audit, nodes)?;
    }
    Ok(())
}

struct Tries<'a> {
    nodes: NodeSorters<'a>,
    slots: Walk<'a>,
    /// Whether every leaf decoded.
    whole: bool,
}

impl Tries<'_> {
    fn root(&mut self, view: &DbView, audit: &mut Audit<'_>) -> Result<B256, DbError> {
        let table = Table::HashedAccounts;
        let mut accounts = Walk::new(view, table)?;
        let mut builder = HashBuilder::default().with_updates(true);
        let mut leaf = Vec::with_capacity(128);
        while let Some((key, value)) = accounts.pop()? {
            audit.step();
            self.pass_orphans(audit, Some(&key))?;
            let storage_root = self.storage_root(audit, &key)?;
            let Some(account) = codec::decode_account(&value).filter(|_| key.len() == 32) else {
                audit.find_undecodable(table, words(table, &key));
                self.whole = false;
                continue;
            };
            account_leaf(&account, storage_root, &mut leaf);
            builder.add_leaf_unchecked(Nibbles::unpack(&key), &leaf);
            self.nodes.drain(&mut builder, &[], BUILDER_NODES)?;
        }
        self.pass_orphans(audit, None)?;
        let root = builder.root();
        self.nodes.drain(&mut builder, &[], 0)?;
        Ok(root)
    }

    /// Finds storages before `until` that no account has.
    fn pass_orphans(&mut self, audit: &mut Audit<'_>, until: Option<&[u8]>) -> Result<(), DbError> {
        let table = Table::HashedStorages;
        while let Some((key, _)) = self.slots.row()
            && until.is_none_or(|until| key < until)
        {
            let orphan = key.to_vec();
            audit.find(table, words(table, &orphan), "has no account");
            while self.slots.row().is_some_and(|(key, _)| key == orphan) {
                self.slots.pop()?;
            }
        }
        Ok(())
    }

    fn storage_root(&mut self, audit: &mut Audit<'_>, address: &[u8]) -> Result<B256, DbError> {
        let table = Table::HashedStorages;
        let of_account = |slots: &Walk<'_>| slots.row().is_some_and(|(key, _)| key == address);
        if !of_account(&self.slots) {
            return Ok(EMPTY_ROOT_HASH);
        }
        let mut builder = HashBuilder::default().with_updates(true);
        let mut before = None;
        while of_account(&self.slots) {
            let Some((_, value)) = self.slots.pop()? else {
                break;
            };
            audit.step();
            let Some((slot, value)) = codec::decode_slot(&value) else {
                audit.find_undecodable(table, words(table, address));
                self.whole = false;
                continue;
            };
            // Two rows of a slot were found with the state.
            if before.replace(slot) == Some(slot) {
                self.whole = false;
                continue;
            }
            builder
                .add_leaf_unchecked(Nibbles::unpack(slot), &alloy_rlp::encode_fixed_size(&value));
            self.nodes.drain(&mut builder, address, BUILDER_NODES)?;
        }
        let root = builder.root();
        self.nodes.drain(&mut builder, address, 0)?;
        Ok(root)
    }
}

/// Says what is wrong with a stored branch node.
fn nodes_differ(stored: &[u8], expected: &[u8]) -> String {
    let (Some(stored), Some(expected)) = (codec::decode_node(stored), codec::decode_node(expected))
    else {
        return super::report::UNDECODABLE.to_owned();
    };
    let masks = |node: &BranchNodeCompact| {
        let (state, tree, hash) = (node.state_mask, node.tree_mask, node.hash_mask);
        [state.get(), tree.get(), hash.get()]
    };
    let (found, wanted) = (masks(&stored), masks(&expected));
    if found != wanted {
        return format!("masks are {found:04x?}, should be {wanted:04x?}");
    }
    let children = (0..16_u8).filter(|child| expected.hash_mask.is_bit_set(*child));
    let pairs = stored.hashes.iter().zip(expected.hashes.iter());
    let wrong = children
        .zip(pairs)
        .find(|(_, (stored, expected))| stored != expected);
    match wrong {
        Some((child, (stored, expected))) => {
            format!("hash of child {child:x} is {stored}, should be {expected}")
        }
        None => "has a root hash of its own".to_owned(),
    }
}
