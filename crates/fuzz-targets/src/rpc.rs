//! Every RPC method of a live engine on a small chain.

use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use node::rpc::InProcess;
use serde_json::{Value, json};
use std::{
    fs,
    sync::{LazyLock, Mutex, PoisonError},
};
use tokio::runtime::Runtime;

/// The code of a failure of the node itself, which no request may cause.
const INTERNAL_ERROR: i64 = -32603;

struct Live {
    runtime: Runtime,
    methods: InProcess,
    names: Vec<&'static str>,
}

static LIVE: LazyLock<Mutex<Live>> = LazyLock::new(|| Mutex::new(start()));

fn start() -> Live {
    let started = || -> Result<Live, Box<dyn std::error::Error>> {
        // It stays until the process ends, and is then as good as any temporary folder.
        let folder = tempfile::tempdir()?.keep();
        let genesis = folder.join("genesis.json");
        fs::write(&genesis, chain().to_string())?;
        let methods = InProcess::open(&genesis, &folder.join("data"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let names = methods.names();
        Ok(Live {
            runtime,
            methods,
            names,
        })
    };
    started().unwrap_or_else(|problem| panic!("no engine: {problem}"))
}

/// The first byte picks a method, the rest is its parameters: the answer is a result or an error
/// that is the client's fault.
pub(crate) fn rpc_request(bytes: &[u8]) {
    let Some((pick, params)) = bytes.split_first() else {
        return;
    };
    let Ok(params) = str::from_utf8(params) else {
        return;
    };
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let method = live.names[usize::from(*pick) % live.names.len()];
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let answer = live.runtime.block_on(live.methods.answer(method, &request));
    let Some(answer) = answer else {
        return;
    };
    let json: Value =
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{method}: {error}"));
    let code = json["error"]["code"].as_i64();
    assert!(
        code.is_some() != json.get("result").is_some(),
        "{method} {params}: {answer}"
    );
    assert_ne!(code, Some(INTERNAL_ERROR), "{method} {params}: {answer}");
}

/// A chain with every fork from the start, so that the newest version of every method is in time.
fn chain() -> Value {
    let mut chain = json!({
        "config": {
            "chainId": 1337, "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "osakaTime": 0,
            "blobSchedule": {
                "cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3338477},
                "prague": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
                "osaka": {"target": 6, "max": 9, "baseFeeUpdateFraction": 5007716},
            },
        },
        "gasLimit": "0x1c9c380", "difficulty": "0x0", "timestamp": "0x1",
        "alloc": {},
    });
    for fork in [
        "homestead",
        "eip150",
        "eip155",
        "eip158",
        "byzantium",
        "constantinople",
        "petersburg",
        "istanbul",
        "berlin",
        "london",
        "mergeNetsplit",
    ] {
        chain["config"][format!("{fork}Block")] = json!(0);
    }
    for (address, code) in [
        (eip4788::BEACON_ROOTS_ADDRESS, &eip4788::BEACON_ROOTS_CODE),
        (
            eip2935::HISTORY_STORAGE_ADDRESS,
            &eip2935::HISTORY_STORAGE_CODE,
        ),
        (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            &eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE,
        ),
        (
            eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
            &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE,
        ),
    ] {
        let contract = json!({"balance": "0x0", "nonce": "0x1", "code": code.to_string()});
        chain["alloc"][address.to_string()] = contract;
    }
    chain
}
