//! The serial state root, and the oracle of the parallel one.
//!
//! Everything here goes through `alloy_trie::HashBuilder`, fed in key order from one thread. It
//! shares no trie code with the pipeline, so that an error in either shows as a difference.
//!
//! All forms answer with the root and the stored branches that change. They take changed leaves
//! into account in one of two ways: on top of a view from before ([`incremental_root`],
//! [`storage_root`]) or as the keys in which the leaves of a view differ from its stored branches
//! ([`root_of_prefixes`]). Proofs ([`multi_proof`]) are a by-product of the same walk.

mod overlay;
mod proof;
mod rebuild;
mod state;
#[cfg(test)]
mod tests;

pub use proof::{MultiProof, StorageMultiProof, multi_proof};
pub use rebuild::root_of_storage_leaves;
pub use state::{
    PrefixSets, StoragePrefixes, incremental_root, incremental_root_over, root_of_leaves,
    root_of_prefixes, storage_root,
};
