//! Big blocks, packed by the engine they will be replayed on.
//!
//! As reth-bench's generate-big-block does, each block is built by `testing_buildBlockV1`, then
//! executed by `engine_newPayload` and made the head, before the next one is planned. Invariant:
//! what is written depends on base state, mix, seed and target alone, and a manifest lists only blocks
//! that were VALID, each on the one before it.

mod error;
mod pack;

use crate::{
    BaseState, Mix,
    action::TRANSFER_GAS,
    contracts::{Token, Whale},
    genesis::CHAIN_ID,
    leaves::SeenLeaves,
    manifest::{self, BaseBlock, FORMAT, Manifest, VERSION},
    mix::Planner,
};
use alloy_primitives::{B256, Bytes, U64};
use engine_api::{EngineClient, PayloadFile, client::parse};
pub use error::GenerateError;
use pack::{Parent, Session};
use serde::Deserialize;
use std::{fs, path::Path};

/// How often a block is built again with transactions added or removed.
const MAX_BUILDS: u32 = 6;

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateConfig {
    /// Gas each block should use; it uses at most that, and less by 1 % at most (or by less than
    /// one transfer, where that is more).
    pub gas_target: u64,
    /// Number of blocks.
    pub count: u64,
    /// Kind of traffic.
    pub mix: Mix,
    /// Seed of the traffic.
    pub seed: u64,
}

/// What to report while generating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Blocks finished.
    pub blocks: u64,
    /// Blocks wanted.
    pub count: u64,
    /// Gas of the blocks finished.
    pub gas_used: u64,
}

/// The engine's two ports.
#[derive(Debug)]
pub struct Ports<'a> {
    /// The public RPC, with the `eth` and `testing` namespaces.
    pub public: &'a mut EngineClient,
    /// The authenticated port.
    pub engine: &'a mut EngineClient,
}

/// Generates payloads on the engine's head into `out`, which must hold none.
///
/// The engine's head moves with every block; to generate another set on the same base block,
/// bring it back first.
///
/// # Errors
/// See [`GenerateError`]. Payloads finished before it stay and have a manifest, as if so many had been asked for.
pub async fn generate(
    mut ports: Ports<'_>,
    base: &BaseState,
    config: GenerateConfig,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Manifest, GenerateError> {
    prepare_folder(out)?;
    let head = ports.head().await?;
    if config.gas_target < TRANSFER_GAS || config.gas_target > head.gas_limit.to() {
        let limit = head.gas_limit.to();
        return Err(GenerateError::Target {
            target: config.gas_target,
            limit,
        });
    }
    let nonces = ports.check_state(base).await?;
    let base_block = BaseBlock {
        number: head.number.to(),
        hash: head.hash,
        state_root: head.state_root,
    };
    let mut session = Session {
        ports,
        base,
        planner: Planner::new(base, config.mix, config.seed, nonces),
        gas_target: config.gas_target,
        positional: true,
        parent: Parent {
            hash: head.hash,
            number: head.number.to(),
            timestamp: head.timestamp.to(),
        },
        seen: SeenLeaves::default(),
    };
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        seed: config.seed,
        mix: config.mix,
        profile: base.profile().to_string(),
        state_seed: base.seed(),
        chain_id: CHAIN_ID,
        gas_target: config.gas_target,
        base_block,
        blocks: Vec::new(),
    };
    let mut gas_used = 0;
    for done in 1..=config.count {
        let block = match session.block(out).await {
            Ok(block) => block,
            Err(error) => {
                keep_finished(&manifest, out)?;
                return Err(error);
            }
        };
        gas_used += block.gas_used;
        manifest.blocks.push(block);
        progress(Progress {
            blocks: done,
            count: config.count,
            gas_used,
        });
    }
    manifest.write(out)?;
    Ok(manifest)
}

/// Makes a whole folder of the blocks that were finished; nothing when there are none.
fn keep_finished(manifest: &Manifest, out: &Path) -> Result<(), GenerateError> {
    let finished = manifest.blocks.last().map(|block| block.number);
    let Some(last) = finished else { return Ok(()) };
    // The block that failed may have left a file.
    fs::remove_file(out.join(PayloadFile::name(last + 1))).ok();
    Ok(manifest.write(out)?)
}

fn prepare_folder(out: &Path) -> Result<(), GenerateError> {
    let dir = out.display().to_string();
    fs::create_dir_all(out).map_err(|reason| GenerateError::Folder {
        dir: dir.clone(),
        reason,
    })?;
    match manifest::payload_names(out)?.into_iter().next() {
        Some(name) => Err(GenerateError::Occupied { dir, name }),
        None => Ok(()),
    }
}

/// What is needed of the engine's head block.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    number: U64,
    hash: B256,
    state_root: B256,
    timestamp: U64,
    gas_limit: U64,
}

impl Ports<'_> {
    async fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl serde::Serialize,
    ) -> Result<T, GenerateError> {
        self.public
            .call(method, params)
            .await
            .map_err(|error| GenerateError::Call {
                method: method.to_owned(),
                error,
            })
    }

    async fn head(&mut self) -> Result<Head, GenerateError> {
        self.ask("eth_getBlockByNumber", ("latest", false)).await
    }

    /// Checks that the engine holds `base`; returns the senders' nonces.
    async fn check_state(&mut self, base: &BaseState) -> Result<Vec<u64>, GenerateError> {
        let chain: U64 = self.ask("eth_chainId", ()).await?;
        if chain.to::<u64>() != CHAIN_ID {
            return Err(GenerateError::Chain { found: chain.to() });
        }
        let state = |reason: String| GenerateError::State {
            profile: base.profile().to_string(),
            seed: base.seed(),
            reason,
        };
        let token = base.token(0);
        let code: Bytes = self.ask("eth_getCode", (token, "latest")).await?;
        if code != Token::code() {
            return Err(state(format!("there is no token at {token}")));
        }
        // The last deed is there only in a state of the same size.
        let deed = Whale::deed_slot(base.layout().deeds.saturating_sub(1));
        let value: B256 = self
            .ask("eth_getStorageAt", (base.whale(), deed, "latest"))
            .await?;
        if value.is_zero() {
            return Err(state(format!(
                "slot {deed} of the whale {} is empty",
                base.whale()
            )));
        }
        let mut nonces = Vec::with_capacity(base.senders().len());
        for sender in base.senders() {
            let nonce: U64 = self
                .ask("eth_getTransactionCount", (sender.address, "latest"))
                .await?;
            nonces.push(nonce.to());
        }
        Ok(nonces)
    }

    /// Sends a finished Engine API request and reads the answer.
    async fn send<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        body: &bytes::Bytes,
    ) -> Result<T, GenerateError> {
        let failed = |error| GenerateError::Call {
            method: method.to_owned(),
            error,
        };
        let answer = self.engine.send_prepared(body).await.map_err(failed)?;
        parse(&answer.body).map_err(failed)
    }
}
