//! Payload lists that are made when they are asked for, on a running engine.
//!
//! Invariant: a folder is reused only when its manifest names the same base block and every file
//! still has the hash that the manifest gives it.

use crate::{
    cache::{self, Building, Cache},
    client::{BlockIdentity, Node},
    sweep::{Level, default_count},
};
use eyre::{Result, bail};
use std::path::PathBuf;
use workload::{BaseState, GenerateConfig, Mix, Ports, Profile};

/// What lists of payloads are made from.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Profile of the base state.
    pub profile: Profile,
    /// Seed of the base state.
    pub state_seed: u64,
    /// Mix of transactions.
    pub mix: Mix,
    /// Seed of the transactions.
    pub seed: u64,
    /// The block to build on.
    pub base: BlockIdentity,
}

impl Recipe {
    /// The name of a list of `count` payloads: a prefix and a suffix around the count.
    fn name(&self, level: Level) -> (String, String) {
        let Self {
            profile,
            mix,
            seed,
            base,
            ..
        } = self;
        let (gas, hash) = (level.gas, &base.hash.to_string()[2..10]);
        let prefix = format!("{profile}-{}-seed{seed}-{gas}x", mix.name());
        // As the folder is called: a profile may hold what no file name should.
        let prefix = cache::file_safe(&prefix);
        (prefix, format!("-on-{hash}-v{}", cache::GENERATION))
    }

    /// The shortest list in the cache that begins with the payloads of a level: how many follow
    /// does not change them. It is unchanged and on this base block.
    pub fn find(&self, cache: &Cache, level: Level) -> Option<PathBuf> {
        let (prefix, suffix) = self.name(level);
        let counted = |name: String| {
            let found: u64 = name
                .strip_prefix(&prefix)?
                .strip_suffix(&suffix)?
                .parse()
                .ok()?;
            (found >= count(level)).then_some((found, name))
        };
        let folders = cache.payload_folders().into_iter();
        let mut longer: Vec<(u64, String)> = folders.filter_map(counted).collect();
        longer.sort();
        let whole = |(found, name): (u64, String)| {
            let dir = cache.payloads(&name);
            let manifest = workload::verify_manifest(&dir).ok()?;
            let same = manifest.base_block.hash == self.base.hash
                && manifest.state_seed == self.state_seed
                && manifest.blocks.len() as u64 == found;
            same.then_some(dir)
        };
        longer.into_iter().find_map(whole)
    }

    /// Makes the list of a level on an engine that stands on the base block and gives its folder;
    /// `on_block` is called after each block.
    ///
    /// # Errors
    /// When the engine could not build a block, or a file could not be written; payloads that were finished
    /// are in the cache then.
    pub async fn make(
        &self,
        cache: &Cache,
        level: Level,
        node: &mut Node,
        mut on_block: impl FnMut(),
    ) -> Result<PathBuf> {
        let (prefix, suffix) = self.name(level);
        let target = cache.payloads(&format!("{prefix}{}{suffix}", count(level)));
        let mut building = Building::new(&target)?;
        let config = GenerateConfig {
            gas_target: level.gas.0,
            count: count(level),
            mix: self.mix,
            seed: self.seed,
        };
        let state = BaseState::new(self.profile, self.state_seed);
        let ports = Ports {
            public: &mut node.public,
            engine: &mut node.auth,
        };
        let mut finished = 0;
        let mut on_progress = |progress: workload::Progress| {
            finished = progress.blocks;
            on_block();
        };
        let path = building.path().to_owned();
        let made = workload::generate(ports, &state, config, &path, &mut on_progress).await;
        match made {
            Ok(_) => building.finish(),
            Err(error) if finished == 0 => bail!("failed to generate payloads: {error}"),
            Err(error) => {
                // How many follow does not change the first payloads: they are a list of their own.
                building.rename(&cache.payloads(&format!("{prefix}{finished}{suffix}")));
                building.finish()?;
                bail!(
                    "failed to generate payloads: {error}; the first {finished} are kept in the cache, so --count \
                     {finished} or less works"
                )
            }
        }
    }
}

/// Payloads of a list.
pub(crate) fn count(level: Level) -> u64 {
    level.count.unwrap_or_else(|| default_count(level.gas))
}
