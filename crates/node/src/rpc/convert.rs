//! Blocks, transactions and receipts in the shapes of the eth namespace.

use crate::{
    chainspec::ChainSpec,
    pool::Entry,
    primitives::{Block, ChainBlock, TransactionSigned},
};
use alloy_consensus::{
    BlockBody, Eip658Value, Header, ReceiptEnvelope, Transaction as _,
    transaction::{Recovered, TransactionInfo},
};
use alloy_primitives::{Address, B256, U256};
use alloy_rlp::Encodable;
use alloy_rpc_types_eth::{
    Block as RpcBlock, BlockTransactions, Header as RpcHeader, Log, Transaction, TransactionReceipt,
};

/// A block with its transactions in full or as hashes.
pub(super) fn block(block: &ChainBlock, full: bool) -> RpcBlock<Transaction<TransactionSigned>> {
    let stored = &block.block;
    let transactions = if full {
        let all = (0..stored.transactions.len()).filter_map(|index| transaction(block, index));
        BlockTransactions::Full(all.collect())
    } else {
        BlockTransactions::Hashes(stored.transactions.iter().map(|tx| *tx.tx_hash()).collect())
    };
    let size = consensus_block(block).length();
    RpcBlock {
        header: rpc_header(stored.hash, &stored.header, Some(size)),
        uncles: stored
            .ommers
            .iter()
            .map(|ommer| ommer.hash_slow())
            .collect(),
        transactions,
        withdrawals: stored.withdrawals.clone(),
    }
}

/// An ommer as a block of its own: a header whose body is unknown.
pub(super) fn ommer(header: &Header) -> RpcBlock<Transaction<TransactionSigned>> {
    let size = Block {
        header: header.clone(),
        body: BlockBody::default(),
    }
    .length();
    RpcBlock {
        header: rpc_header(header.hash_slow(), header, Some(size)),
        uncles: Vec::new(),
        transactions: BlockTransactions::Uncle,
        withdrawals: None,
    }
}

/// A header with its hash; `size` is the length of its block's RLP in bytes.
pub(super) fn rpc_header(hash: B256, header: &Header, size: Option<usize>) -> RpcHeader {
    RpcHeader {
        hash,
        inner: header.clone(),
        total_difficulty: None,
        size: size.map(U256::from),
    }
}

/// The block without hash, senders and receipts.
pub(super) fn consensus_block(block: &ChainBlock) -> Block {
    let stored = &block.block;
    let body = BlockBody {
        transactions: stored.transactions.clone(),
        ommers: stored.ommers.clone(),
        withdrawals: stored.withdrawals.clone(),
    };
    Block {
        header: stored.header.clone(),
        body,
    }
}

/// The transaction at `index`; `None` when the block has fewer.
pub(super) fn transaction(
    block: &ChainBlock,
    index: usize,
) -> Option<Transaction<TransactionSigned>> {
    let stored = &block.block;
    let signed = stored.transactions.get(index)?.clone();
    let info = TransactionInfo {
        hash: Some(*signed.tx_hash()),
        index: Some(index as u64),
        block_hash: Some(stored.hash),
        block_number: Some(stored.header.number),
        base_fee: stored.header.base_fee_per_gas,
        block_timestamp: Some(stored.header.timestamp),
    };
    let sender = *stored.senders.get(index)?;
    Some(Transaction::from_transaction(
        Recovered::new_unchecked(signed, sender),
        info,
    ))
}

/// A transaction that waits for a block.
pub(super) fn pending_transaction(entry: &Entry) -> Transaction<TransactionSigned> {
    Transaction::from_transaction(entry.transaction.clone(), TransactionInfo::default())
}

/// The receipts of a block with their blooms.
pub(super) fn consensus_receipts(block: &ChainBlock) -> Vec<ReceiptEnvelope> {
    let receipts = block.receipts.iter().cloned();
    receipts.map(ReceiptEnvelope::from).collect()
}

/// Writes the state roots that receipts name before Byzantium (EIP-658) in place of a status.
pub(super) fn name_roots<'a, L: 'a>(
    receipts: impl IntoIterator<Item = &'a mut ReceiptEnvelope<L>>,
    roots: Vec<B256>,
) {
    for (receipt, root) in receipts.into_iter().zip(roots) {
        if let ReceiptEnvelope::Legacy(receipt) = receipt {
            receipt.receipt.status = Eip658Value::PostState(root);
        }
    }
}

/// All receipts of a block.
pub(super) fn receipts(block: &ChainBlock, chain: &ChainSpec) -> Vec<TransactionReceipt> {
    let mut before = Before::default();
    (0..block.receipts.len())
        .map(|index| receipt(block, index, &mut before, chain))
        .collect()
}

/// What the receipts before one add up to.
#[derive(Default)]
struct Before {
    gas_used: u64,
    logs: u64,
}

fn receipt(
    block: &ChainBlock,
    index: usize,
    before: &mut Before,
    chain: &ChainSpec,
) -> TransactionReceipt {
    let header = &block.block.header;
    let signed = &block.block.transactions[index];
    let sender: Address = block.block.senders[index];
    let consensus = block.receipts[index].clone();
    let gas_used = consensus
        .cumulative_gas_used
        .saturating_sub(before.gas_used);
    before.gas_used = consensus.cumulative_gas_used;
    let first_log = before.logs;
    before.logs += consensus.logs.len() as u64;
    let mut log_index = first_log..;
    let consensus = consensus.map_logs(|inner| Log {
        inner,
        block_hash: Some(block.block.hash),
        block_number: Some(header.number),
        block_timestamp: Some(header.timestamp),
        transaction_hash: Some(*signed.tx_hash()),
        transaction_index: Some(index as u64),
        log_index: log_index.next(),
        removed: false,
    });
    let blob_params = chain.blob_params_at(header.timestamp);
    let blob_gas_used = signed.blob_gas_used();
    TransactionReceipt {
        inner: ReceiptEnvelope::from(consensus),
        transaction_hash: *signed.tx_hash(),
        transaction_index: Some(index as u64),
        block_hash: Some(block.block.hash),
        block_number: Some(header.number),
        gas_used,
        effective_gas_price: signed.effective_gas_price(header.base_fee_per_gas),
        blob_gas_used,
        blob_gas_price: blob_gas_used
            .and(blob_params)
            .and_then(|params| header.blob_fee(params)),
        from: sender,
        to: signed.to(),
        contract_address: signed.is_create().then(|| sender.create(signed.nonce())),
    }
}
