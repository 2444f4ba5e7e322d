//! The concrete block types of the node. One chain, so no type parameters above this point.

pub use state_db::{BlockNumHash, Receipt, StoredBlock, TransactionSigned};

/// A block: header, signed transactions (blob transactions without their blobs), withdrawals.
pub type Block = alloy_consensus::Block<TransactionSigned>;

/// A block with its hash.
pub type SealedBlock = reth_primitives_traits::SealedBlock<Block>;

/// A valid block with what executing it produced for the outside.
#[derive(Debug, Clone)]
pub struct ChainBlock {
    /// Header, hash, transactions, senders, withdrawals.
    pub block: StoredBlock,
    /// One receipt per transaction, in order.
    pub receipts: Vec<Receipt>,
}

impl ChainBlock {
    /// Number and hash.
    pub fn num_hash(&self) -> BlockNumHash {
        BlockNumHash {
            number: self.block.header.number,
            hash: self.block.hash,
        }
    }
}
