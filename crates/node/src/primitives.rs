//! The concrete block types of the node. One chain, so no type parameters above this point.

pub use state_db::{BlockNumHash, Receipt, StoredBlock, TransactionSigned};

/// A block: header, signed transactions (blob transactions without their blobs), withdrawals.
pub type Block = alloy_consensus::Block<TransactionSigned>;

/// Decodes a block that fills `rlp`.
///
/// Only the one encoding is taken that the block has: transactions carry their length a second
/// time in the string around them, and the decoder of `alloy-eips` does not compare the two.
pub fn decode_block(rlp: &[u8]) -> Result<Block, alloy_rlp::Error> {
    let block = alloy_rlp::decode_exact::<Block>(rlp)?;
    if alloy_rlp::encode(&block) == rlp {
        return Ok(block);
    }
    Err(alloy_rlp::Error::Custom(
        "the length of a part is not that of its content",
    ))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{Header, SignableTransaction, TxEip1559};
    use alloy_primitives::Signature;

    fn block() -> Block {
        let signed = TxEip1559::default().into_signed(Signature::test_signature());
        let mut block = Block::new(Header::default(), Default::default());
        block.body.transactions.push(signed.into());
        block
    }

    #[test]
    fn a_block_has_one_encoding() {
        let rlp = alloy_rlp::encode(block());
        assert_eq!(decode_block(&rlp), Ok(block()));
        assert!(decode_block(&[&rlp[..], &[0]].concat()).is_err());
        // The string around the transaction: its length, then the type of the transaction.
        let string = rlp.windows(3).rposition(|at| at[0] == 0xb8 && at[2] == 2);
        let mut shorter = rlp;
        shorter[string.unwrap() + 1] -= 1;
        assert!(decode_block(&shorter).is_err());
    }
}
