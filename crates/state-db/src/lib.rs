//! The node's storage: MDBX tables in reth's v1 layout, and everything that reads and writes them.
//!
//! The only crate that links MDBX. It knows blocks, plain and hashed state, changesets and trie
//! nodes; it knows neither execution nor the network.
