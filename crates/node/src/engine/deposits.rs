//! Deposit requests: the one layout that the log of a deposit may have.
//!
//! EIP-6110 makes a block invalid when the deposit contract logs anything else. The real contract
//! never does; a chain's genesis can put another one in its place.

use super::execute::ExecuteError;
use crate::primitives::Receipt;
use alloy_primitives::{Address, B256, Log, U256, b256};

/// keccak-256 of `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 =
    b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
/// Length of the data, in bytes.
const DATA_LEN: usize = 576;
/// Where each field begins (its length first), and its length, both in bytes: public key,
/// withdrawal credentials, amount, signature, index.
const FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// Checks every deposit that a block logged at `contract`.
pub(super) fn check(receipts: &[Receipt], contract: Address) -> Result<(), ExecuteError> {
    let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
    let mut deposits =
        logs.filter(|log| log.address == contract && log.topics().first() == Some(&DEPOSIT_EVENT));
    if deposits.all(has_layout) {
        Ok(())
    } else {
        Err(ExecuteError::Invalid(
            "a log of the deposit contract does not have the layout of EIP-6110".to_owned(),
        ))
    }
}

fn has_layout(log: &Log) -> bool {
    let data = &log.data.data;
    let word = |at: usize| data.get(at..at + 32).map(U256::from_be_slice);
    data.len() == DATA_LEN
        && FIELDS.iter().enumerate().all(|(index, &(offset, len))| {
            word(index * 32) == Some(U256::from(offset)) && word(offset) == Some(U256::from(len))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::LogData;

    const CONTRACT: Address = Address::repeat_byte(0xd0);

    /// A deposit of the right layout.
    fn data() -> Vec<u8> {
        let mut data = vec![0x11; DATA_LEN];
        for (index, (offset, len)) in FIELDS.into_iter().enumerate() {
            for (at, value) in [(index * 32, offset), (offset, len)] {
                data[at..at + 32].copy_from_slice(&U256::from(value).to_be_bytes::<32>());
            }
        }
        data
    }

    fn is_valid(address: Address, topics: Vec<B256>, data: Vec<u8>) -> bool {
        let log = Log {
            address,
            data: LogData::new_unchecked(topics, data.into()),
        };
        let receipt = Receipt {
            logs: vec![log],
            ..Receipt::default()
        };
        check(&[receipt], CONTRACT).is_ok()
    }

    #[test]
    fn every_offset_and_length_matters_and_no_other_byte() {
        assert!(is_valid(CONTRACT, vec![DEPOSIT_EVENT], data()));
        let structure: Vec<usize> = (0..160)
            .chain(FIELDS.into_iter().flat_map(|(at, _)| at..at + 32))
            .collect();
        for at in 0..DATA_LEN {
            let mut changed = data();
            changed[at] ^= 1;
            let valid = is_valid(CONTRACT, vec![DEPOSIT_EVENT], changed);
            assert_eq!(valid, !structure.contains(&at), "byte {at}");
        }
        for len in [0, DATA_LEN - 1, DATA_LEN + 1, DATA_LEN + 32] {
            let mut other = data();
            other.resize(len, 0);
            assert!(!is_valid(CONTRACT, vec![DEPOSIT_EVENT], other), "{len}");
        }
    }

    #[test]
    fn other_logs_are_free() {
        assert!(is_valid(Address::ZERO, vec![DEPOSIT_EVENT], vec![1]));
        assert!(is_valid(CONTRACT, vec![B256::ZERO], vec![1]));
        assert!(is_valid(CONTRACT, Vec::new(), vec![1]));
    }
}
