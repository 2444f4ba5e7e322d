//! Bringing a datadir whose head is below the base block forward to it, before anything is measured.
//!
//! Invariant: where a datadir ends is read from the engine that was started on it, never assumed: what an engine
//! had in memory when it was stopped may be gone.

use super::{
    InStep as _, Step, StepError, Waits,
    pass::replay,
    prepare::Preparing,
    probe::{Asked, start},
};
use crate::{
    payload,
    reset::Workspace,
    sweep::{PERSISTENCE_THRESHOLD_FLAG, PayloadSource},
};
use engine_api::{PreparedPayload, subscribe_persisted};
use std::{path::PathBuf, time::Duration};

/// Folder of datadirs that were brought forward, inside the working folder.
const ADVANCED_DIR: &str = "advanced";

/// How often the blocks are sent that an engine lost when it was stopped.
const ATTEMPTS: usize = 3;

/// How long the last block may take to the disk.
const PERSISTENCE_PATIENCE: Duration = Duration::from_secs(120);

impl Preparing<'_> {
    /// The block that passes start from, where the sweep names one.
    pub(super) fn target(&self) -> Result<Option<u64>, StepError> {
        match (self.settings.target_block, &self.settings.lead_in) {
            (None, Some(folder)) => payload::last_block(folder)
                .map(Some)
                .in_step(Step::Payloads),
            (target, _) => Ok(target),
        }
    }

    /// Replays what leads from the head of a datadir to block `target`, until the engine has it after a restart.
    pub(super) async fn advance(
        &self,
        workspace: &Workspace,
        mut asked: Asked,
        target: u64,
    ) -> Result<Asked, StepError> {
        let first = asked.head;
        for _ in 0..ATTEMPTS {
            let head = asked.head;
            if head.number() >= target {
                return Ok(asked);
            }
            asked.engine.stop().in_step(Step::Stop)?;
            let payloads = payload::lead_in(&self.lead_in_folders(), &head, target);
            let payloads = payloads.in_step(Step::Payloads)?;
            let what = format!("replaying blocks {} to {target}", head.number() + 1);
            self.progress.begin(payloads.len() as u64, &what);
            self.send(workspace, &payloads).await?;
            asked = self.start(workspace, "ask").await?;
        }
        let (name, last) = (&workspace.engine.name, asked.head.number());
        let cause = format!(
            "{name} had block {target} after blocks {} to {target} were replayed, and when it was started again its head \
             was block {last}: it does not keep them on disk; give a datadir that has block {target}",
            first.number() + 1
        );
        asked.engine.stop().in_step(Step::Stop)?;
        Err(StepError::new(Step::State, &cause))
    }

    /// Has an engine execute payloads and write every block.
    async fn send(
        &self,
        workspace: &Workspace,
        payloads: &[PreparedPayload],
    ) -> Result<(), StepError> {
        let spec = &workspace.engine;
        let mut knobs = self.settings.knobs_of(spec, &[]);
        let at_once = (PERSISTENCE_THRESHOLD_FLAG.to_owned(), "0".to_owned());
        knobs.retain(|(flag, _)| *flag != at_once.0);
        if spec.kind.speaks_as_reth() {
            knobs.push(at_once);
        }
        let log = self.log_of(spec, "advance");
        let (engine, mut node) = start(self.settings, workspace, self.jwt, &knobs, log).await?;
        let written = match spec.tells_persisted_blocks() {
            true => Some(subscribe_persisted(&engine.endpoints().ws_url()).await),
            false => None,
        };
        let (mut waits, mut samples) = (Waits::default(), Vec::new());
        let on_payload = || self.progress.advance();
        let sent = replay(
            &mut node.auth,
            payloads,
            &mut waits,
            &mut samples,
            on_payload,
        )
        .await;
        sent.in_step(Step::State)?;
        if let (Some(Ok(mut written)), Some(last)) = (written, payloads.last()) {
            // What is missing after the restart is sent again.
            let _ = tokio::time::timeout(PERSISTENCE_PATIENCE, written.wait_for(last.number)).await;
        }
        engine.stop().in_step(Step::Stop)
    }

    /// Where payloads may be that lead to the base block: where they were said to be, then the lists themselves.
    fn lead_in_folders(&self) -> Vec<PathBuf> {
        let levels = &self.settings.levels;
        let mut folders: Vec<PathBuf> = self.settings.lead_in.iter().cloned().collect();
        if let PayloadSource::Folder { path } = &self.settings.payloads {
            let folder = |level| payload::level_folder(path, level, levels.len());
            folders.extend(levels.iter().copied().map(folder));
        }
        folders
    }

    /// Has passes begin from the datadir as it is now. No engine may be running on it.
    pub(super) fn keep(&self, workspace: &mut Workspace) -> Result<(), StepError> {
        if workspace.is_in_place() {
            return Ok(());
        }
        let name = crate::cache::file_safe(&workspace.engine.name);
        let kept = self.work.join(ADVANCED_DIR).join(name);
        workspace.keep_as(&kept).in_step(Step::State)
    }
}
