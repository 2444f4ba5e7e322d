//! Payload lists that are made when they are asked for, on a running engine.
//!
//! Invariant: a folder is reused only when its manifest names the same base block and every file
//! still has the hash that the manifest gives it.

use crate::{
    cache::{self, Building, Cache, CacheError},
    client::{BlockIdentity, Node},
    sweep::{Level, default_count},
};
use std::path::PathBuf;
use workload::{BaseState, GenerateConfig, Mix, Ports, Profile};

/// What lists of payloads are made from.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Profile of the base state.
    pub profile: Profile,
    /// Mix of transactions.
    pub mix: Mix,
    /// Seed of the base state and of the transactions.
    pub seed: u64,
    /// The block to build on.
    pub base: BlockIdentity,
}

/// Why payloads could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The folder failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The engine could not build a block, or a file could not be written.
    #[error("failed to generate payloads: {0}")]
    Workload(#[from] workload::GenerateError),
}

impl Recipe {
    /// The folder in the cache of the list of a level, which may not be there yet.
    pub fn folder(&self, cache: &Cache, level: Level) -> PathBuf {
        let Self {
            profile,
            mix,
            seed,
            base,
        } = self;
        let (gas, count) = (level.gas, count(level));
        let generation = cache::GENERATION;
        let hash = &base.hash.to_string()[2..10];
        cache.payloads(&format!(
            "{profile}-{}-seed{seed}-{gas}x{count}-on-{hash}-v{generation}",
            mix.name()
        ))
    }

    /// Whether that folder holds what its manifest says, on this base block.
    pub fn is_made(&self, cache: &Cache, level: Level) -> bool {
        workload::verify_manifest(&self.folder(cache, level)).is_ok_and(|manifest| {
            manifest.base_block.hash == self.base.hash
                && manifest.blocks.len() as u64 == count(level)
        })
    }

    /// Makes the list of a level on an engine that stands on the base block; `on_block` is called
    /// after each block.
    ///
    /// # Errors
    /// See [`GenerateError`].
    pub async fn make(
        &self,
        cache: &Cache,
        level: Level,
        node: &mut Node,
        mut on_block: impl FnMut(),
    ) -> Result<(), GenerateError> {
        let building = Building::new(&self.folder(cache, level))?;
        let config = GenerateConfig {
            gas_target: level.gas.0,
            count: count(level),
            mix: self.mix,
            seed: self.seed,
        };
        let state = BaseState::new(self.profile, self.seed);
        let ports = Ports {
            public: &mut node.public,
            engine: &mut node.auth,
        };
        workload::generate(ports, &state, config, building.path(), &mut |_| on_block()).await?;
        building.finish()?;
        Ok(())
    }
}

/// Payloads of a list.
pub(crate) fn count(level: Level) -> u64 {
    level.count.unwrap_or_else(|| default_count(level.gas))
}
