//! Ways to make a block wrong, and what both engines must answer.

use crate::{
    chain::Fork,
    payload::{NewPayload, read},
};
use alloy_primitives::Bytes;
use serde_json::{Value, json};

/// What is known about the answers to a mutation.
#[derive(Debug, Clone, Copy)]
enum Answers {
    /// The same status and the same latest valid hash.
    Equal,
    /// The same status. geth names no latest valid block for a payload that it cannot turn into a
    /// block, or whose blob hashes, looked at first, do not fit; bench-reth names the parent. The
    /// specification allows both.
    SameStatus,
}

/// One way to make a block wrong.
pub(crate) struct Mutation {
    pub(crate) name: &'static str,
    /// The first fork whose payloads have what is changed.
    since: Fork,
    /// Whether the payload claims the hash its changed fields have.
    seal: bool,
    answers: Answers,
    change: fn(&mut NewPayload),
}

impl Mutation {
    /// The changed payload, unless the fork or the block has nothing to change.
    pub(crate) fn apply(&self, payload: &NewPayload) -> Option<NewPayload> {
        if payload.fork < self.since {
            return None;
        }
        let mut changed = payload.clone();
        (self.change)(&mut changed);
        if changed.params() == payload.params() {
            return None;
        }
        if self.seal {
            changed.seal();
        }
        Some(changed)
    }

    /// Whether the verdicts, bench-reth's and geth's, are those expected.
    pub(crate) fn agrees(&self, [ours, theirs]: &[Value; 2]) -> bool {
        match self.answers {
            Answers::Equal => ours == theirs,
            Answers::SameStatus => ours["status"] == theirs["status"],
        }
    }
}

const fn sealed(name: &'static str, change: fn(&mut NewPayload)) -> Mutation {
    Mutation {
        name,
        since: Fork::Paris,
        seal: true,
        answers: Answers::Equal,
        change,
    }
}

const fn since(since: Fork, mutation: Mutation) -> Mutation {
    Mutation { since, ..mutation }
}

const fn unsealed(mutation: Mutation) -> Mutation {
    Mutation {
        seal: false,
        ..mutation
    }
}

const fn no_block(mutation: Mutation) -> Mutation {
    Mutation {
        answers: Answers::SameStatus,
        ..mutation
    }
}

/// Every mutation there is.
pub(crate) const ALL: &[Mutation] = &[
    sealed("state root", |p| flip(p, "stateRoot")),
    sealed("receipts root", |p| flip(p, "receiptsRoot")),
    sealed("logs bloom", |p| flip(p, "logsBloom")),
    sealed("fee recipient", |p| flip(p, "feeRecipient")),
    sealed("randomness", |p| flip(p, "prevRandao")),
    sealed("parent hash", |p| flip(p, "parentHash")),
    unsealed(sealed("block hash", |p| flip(p, "blockHash"))),
    unsealed(sealed("state root under the old hash", |p| {
        flip(p, "stateRoot");
    })),
    sealed("number + 1", |p| add(p, "blockNumber", 1)),
    sealed("number - 1", |p| add(p, "blockNumber", -1)),
    sealed("gas limit + 1", |p| add(p, "gasLimit", 1)),
    sealed("gas limit at the bound", |p| {
        add(p, "gasLimit", 60_000_000 / 1024)
    }),
    sealed("gas limit below the bound", |p| {
        add(p, "gasLimit", 1 - 60_000_000 / 1024)
    }),
    sealed("gas limit 0", |p| p.payload["gasLimit"] = json!("0x0")),
    sealed("gas limit 2^63", |p| {
        p.payload["gasLimit"] = json!("0x8000000000000000")
    }),
    sealed("gas used + 1", |p| add(p, "gasUsed", 1)),
    sealed("gas used - 1", |p| add(p, "gasUsed", -1)),
    sealed("gas used 0", |p| p.payload["gasUsed"] = json!("0x0")),
    sealed("gas used above the limit", |p| {
        p.payload["gasUsed"] = json!("0x7fffffffffffffff")
    }),
    sealed("timestamp 1", |p| p.payload["timestamp"] = json!("0x1")),
    sealed("timestamp + 1", |p| add(p, "timestamp", 1)),
    sealed("extra data of other bytes", |p| {
        p.payload["extraData"] = json!("0x0123456789")
    }),
    no_block(sealed("extra data of 33 bytes", |p| {
        p.payload["extraData"] = json!(Bytes::from([7; 33]))
    })),
    sealed("base fee + 1", |p| add(p, "baseFeePerGas", 1)),
    sealed("base fee - 1", |p| add(p, "baseFeePerGas", -1)),
    sealed("base fee 0", |p| p.payload["baseFeePerGas"] = json!("0x0")),
    no_block(sealed("last transaction dropped", |p| {
        list(p, "transactions").pop();
    })),
    no_block(sealed("first transaction dropped", |p| {
        let list = list(p, "transactions");
        if !list.is_empty() {
            list.remove(0);
        }
    })),
    no_block(sealed("transactions reversed", |p| {
        list(p, "transactions").reverse()
    })),
    no_block(sealed("first transaction twice", |p| {
        let list = list(p, "transactions");
        list.extend(list.first().cloned());
    })),
    sealed("a transaction's signature", |p| {
        change_transaction(p, |bytes| {
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
        })
    }),
    no_block(sealed("a transaction cut short", |p| {
        change_transaction(p, |bytes| {
            bytes.pop();
        })
    })),
    no_block(sealed("a transaction with a byte too many", |p| {
        change_transaction(p, |bytes| bytes.push(0))
    })),
    no_block(sealed("an empty transaction", |p| {
        list(p, "transactions").push(json!("0x"))
    })),
    no_block(sealed("a transaction of no known type", |p| {
        list(p, "transactions").push(json!("0x05c0"))
    })),
    since(
        Fork::Shanghai,
        sealed("a withdrawal dropped", |p| {
            list(p, "withdrawals").pop();
        }),
    ),
    since(
        Fork::Shanghai,
        sealed("a withdrawal twice", |p| {
            let list = list(p, "withdrawals");
            list.extend(list.first().cloned());
        }),
    ),
    since(
        Fork::Shanghai,
        sealed("a withdrawal's amount", |p| {
            if let Some(first) = list(p, "withdrawals").first_mut() {
                first["amount"] = json!("0x123");
            }
        }),
    ),
    since(
        Fork::Shanghai,
        unsealed(sealed("a withdrawal dropped under the old hash", |p| {
            list(p, "withdrawals").pop();
        })),
    ),
    since(
        Fork::Cancun,
        sealed("blob gas used + 1 blob", |p| add(p, "blobGasUsed", 131_072)),
    ),
    since(
        Fork::Cancun,
        sealed("blob gas used + 1", |p| add(p, "blobGasUsed", 1)),
    ),
    since(
        Fork::Cancun,
        sealed("blob gas used of a thousand blobs", |p| {
            p.payload["blobGasUsed"] = json!(format!("{:#x}", 131_072 * 1_000));
        }),
    ),
    since(
        Fork::Cancun,
        sealed("excess blob gas + 1 blob", |p| {
            add(p, "excessBlobGas", 131_072)
        }),
    ),
    since(
        Fork::Cancun,
        sealed("excess blob gas + 1", |p| add(p, "excessBlobGas", 1)),
    ),
    since(
        Fork::Cancun,
        sealed("a blob hash too many", |p| {
            list_of(&mut p.blob_hashes).push(json!(crate::ZERO));
        }),
    ),
    since(
        Fork::Cancun,
        sealed("blob hashes reversed", |p| {
            list_of(&mut p.blob_hashes).reverse()
        }),
    ),
    since(
        Fork::Cancun,
        sealed("a blob hash dropped", |p| {
            list_of(&mut p.blob_hashes).pop();
        }),
    ),
    since(
        Fork::Cancun,
        sealed("beacon root", |p| flip_value(&mut p.beacon_root)),
    ),
    since(
        Fork::Cancun,
        unsealed(sealed("beacon root under the old hash", |p| {
            flip_value(&mut p.beacon_root);
        })),
    ),
    since(
        Fork::Prague,
        sealed("requests dropped", |p| p.requests = json!([])),
    ),
    since(
        Fork::Prague,
        sealed("a request of no known type", |p| {
            list_of(&mut p.requests).push(json!("0x0301"));
        }),
    ),
    since(
        Fork::Prague,
        sealed("a request's data", |p| {
            if let Some(first) = list_of(&mut p.requests).first_mut() {
                flip_value(first);
            }
        }),
    ),
    since(
        Fork::Prague,
        unsealed(sealed("requests dropped under the old hash", |p| {
            p.requests = json!([]);
        })),
    ),
    since(
        Fork::Prague,
        unsealed(sealed("an empty request", |p| {
            list_of(&mut p.requests).insert(0, json!("0x00"));
        })),
    ),
    since(
        Fork::Prague,
        unsealed(sealed("requests out of order", |p| {
            list_of(&mut p.requests).extend([json!("0x0201"), json!("0x0101")]);
        })),
    ),
];

/// Changes the last digit of a hexadecimal field.
fn flip(p: &mut NewPayload, field: &str) {
    flip_value(&mut p.payload[field]);
}

fn flip_value(value: &mut Value) {
    let mut text: String = read(value);
    let last = text.pop().and_then(|digit| digit.to_digit(16)).unwrap();
    text += &format!("{:x}", last ^ 1);
    *value = json!(text);
}

fn add(p: &mut NewPayload, field: &str, change: i64) {
    let number = p.number(field).wrapping_add_signed(change);
    p.payload[field] = json!(format!("{number:#x}"));
}

fn list<'a>(p: &'a mut NewPayload, field: &str) -> &'a mut Vec<Value> {
    list_of(&mut p.payload[field])
}

fn list_of(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().unwrap()
}

fn change_transaction(p: &mut NewPayload, change: fn(&mut Vec<u8>)) {
    if let Some(last) = list(p, "transactions").last_mut() {
        let mut bytes = read::<Bytes>(last).to_vec();
        change(&mut bytes);
        *last = json!(Bytes::from(bytes));
    }
}
