//! The tables, their names and their kinds, exactly as reth's v1 layout has them.

use signet_libmdbx::{Database, DatabaseFlags};

/// A table of the database. Its name is the variant's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Block number → block hash.
    CanonicalHeaders,
    /// Block number → header.
    Headers,
    /// Block hash → block number.
    HeaderNumbers,
    /// Block number → first transaction number and transaction count.
    BlockBodyIndices,
    /// Block number → ommer headers, when there are any.
    BlockOmmers,
    /// Block number → withdrawals, when there are any.
    BlockWithdrawals,
    /// Transaction number → signed transaction.
    Transactions,
    /// Transaction hash → transaction number.
    TransactionHashNumbers,
    /// Last transaction number of a block → block number.
    TransactionBlocks,
    /// Transaction number → sender.
    TransactionSenders,
    /// Transaction number → receipt.
    Receipts,
    /// Code hash → code.
    Bytecodes,
    /// Address → account.
    PlainAccountState,
    /// Address → slots, each with its value.
    PlainStorageState,
    /// keccak(address) → account.
    HashedAccounts,
    /// keccak(address) → keccak(slot)s, each with its value.
    HashedStorages,
    /// Nibble path, a byte a nibble → branch node.
    AccountsTrie,
    /// keccak(address) → padded nibble paths, each with its branch node.
    StoragesTrie,
    /// Block number → addresses, each with its account before the block.
    AccountChangeSets,
    /// Block number and address → slots, each with its value before the block.
    StorageChangeSets,
    /// Address and highest block of the shard → blocks that changed the account.
    AccountsHistory,
    /// Address, slot and highest block of the shard → blocks that changed the slot.
    StoragesHistory,
    /// Stage name → highest block the stage has done.
    StageCheckpoints,
    /// Last finalized (0) and last safe (1) block → block number.
    ChainState,
    /// Free-form settings by name.
    Metadata,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 25] = [
        Self::CanonicalHeaders,
        Self::Headers,
        Self::HeaderNumbers,
        Self::BlockBodyIndices,
        Self::BlockOmmers,
        Self::BlockWithdrawals,
        Self::Transactions,
        Self::TransactionHashNumbers,
        Self::TransactionBlocks,
        Self::TransactionSenders,
        Self::Receipts,
        Self::Bytecodes,
        Self::PlainAccountState,
        Self::PlainStorageState,
        Self::HashedAccounts,
        Self::HashedStorages,
        Self::AccountsTrie,
        Self::StoragesTrie,
        Self::AccountChangeSets,
        Self::StorageChangeSets,
        Self::AccountsHistory,
        Self::StoragesHistory,
        Self::StageCheckpoints,
        Self::ChainState,
        Self::Metadata,
    ];

    /// Its name in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CanonicalHeaders => "CanonicalHeaders",
            Self::Headers => "Headers",
            Self::HeaderNumbers => "HeaderNumbers",
            Self::BlockBodyIndices => "BlockBodyIndices",
            Self::BlockOmmers => "BlockOmmers",
            Self::BlockWithdrawals => "BlockWithdrawals",
            Self::Transactions => "Transactions",
            Self::TransactionHashNumbers => "TransactionHashNumbers",
            Self::TransactionBlocks => "TransactionBlocks",
            Self::TransactionSenders => "TransactionSenders",
            Self::Receipts => "Receipts",
            Self::Bytecodes => "Bytecodes",
            Self::PlainAccountState => "PlainAccountState",
            Self::PlainStorageState => "PlainStorageState",
            Self::HashedAccounts => "HashedAccounts",
            Self::HashedStorages => "HashedStorages",
            Self::AccountsTrie => "AccountsTrie",
            Self::StoragesTrie => "StoragesTrie",
            Self::AccountChangeSets => "AccountChangeSets",
            Self::StorageChangeSets => "StorageChangeSets",
            Self::AccountsHistory => "AccountsHistory",
            Self::StoragesHistory => "StoragesHistory",
            Self::StageCheckpoints => "StageCheckpoints",
            Self::ChainState => "ChainState",
            Self::Metadata => "Metadata",
        }
    }

    /// Whether a key has many values, ordered by the subkey each value begins with.
    pub const fn is_dup_sort(self) -> bool {
        matches!(
            self,
            Self::PlainStorageState
                | Self::HashedStorages
                | Self::StoragesTrie
                | Self::AccountChangeSets
                | Self::StorageChangeSets
        )
    }

    /// The flags it is created with.
    pub(crate) fn flags(self) -> DatabaseFlags {
        if self.is_dup_sort() {
            DatabaseFlags::DUP_SORT
        } else {
            DatabaseFlags::empty()
        }
    }
}

/// The open handles of all tables, valid as long as the environment.
#[derive(Debug)]
pub(crate) struct Handles([Database; Table::ALL.len()]);

impl Handles {
    /// Opens every table with `open`.
    pub(crate) fn open<E>(mut open: impl FnMut(Table) -> Result<Database, E>) -> Result<Self, E> {
        let mut handles = [Database::freelist_db(); Table::ALL.len()];
        for table in Table::ALL {
            handles[table as usize] = open(table)?;
        }
        Ok(Self(handles))
    }

    /// The handle of one table.
    pub(crate) fn of(&self, table: Table) -> Database {
        self.0[table as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn names_are_the_variants_and_indices_match() {
        for (index, table) in Table::ALL.into_iter().enumerate() {
            assert_eq!(table.name(), format!("{table:?}"));
            assert_eq!(table as usize, index);
        }
    }
}
