//! One more visit of a cell, in which a profiler looks at its engine.
//!
//! Invariant: what is timed here is no sample.

use super::{
    InStep as _, Prepared, Progress, Step, StepError, pass,
    visit::{Pass, Visiting},
};
use crate::{
    plan::{Cell, Plan},
    profile::{self, CellProfile, PROFILES_DIR, Profiler},
};
use std::{fs, io, path::Path};

/// Files of the visit itself, beside its profile.
const VISIT_DIR: &str = "visits";

/// Makes a profiled visit of every cell that is no A/A control, one after another, and writes what came of it.
///
/// # Errors
/// When files cannot be written. A cell that cannot be profiled says so in its entry.
pub async fn profile(
    plan: &Plan,
    prepared: &Prepared,
    (out, progress): (&Path, &Progress),
    profiler: Profiler,
) -> io::Result<Vec<CellProfile>> {
    fs::create_dir_all(out.join(PROFILES_DIR))?;
    let originals = plan.cells.iter();
    let originals = originals.filter(|cell| cell.control_of.is_none());
    let mut profiles = Vec::new();
    for cell in originals {
        let visiting = Visiting {
            settings: &plan.settings,
            prepared,
            cell,
            out,
            progress,
            calibrator: None,
            step: std::cell::Cell::new(Step::Profile),
        };
        let file = profiler.file(&cell.id);
        let problem = visit(&visiting, cell, profiler, &out.join(&file)).await;
        let problem = problem.err().map(|error| error.to_string());
        let file = problem.is_none().then_some(file);
        profiles.push(CellProfile {
            cell: cell.id.clone(),
            show: file.as_deref().map(|file| profiler.show(file)),
            file,
            problem,
        });
        profile::write_index(out, &profiles)?;
    }
    Ok(profiles)
}

async fn visit(
    visiting: &Visiting<'_>,
    cell: &Cell,
    profiler: Profiler,
    file: &Path,
) -> Result<(), StepError> {
    let payloads = visiting.payloads()?;
    let progress = visiting.progress;
    progress.begin(payloads.len() as u64, &format!("profiling {}", cell.id));
    let visits = visiting.out.join(PROFILES_DIR).join(VISIT_DIR);
    let pass = Pass {
        step: Step::Profile,
        payloads: &payloads,
        dir: visits.join(&cell.id),
        flags: Vec::new(),
    };
    let workspace = visiting.prepared.workspace(&cell.engine)?;
    visiting.reset(workspace, &pass.dir).await?;
    let (engine, mut node) = visiting.start(workspace, &pass).await?;
    let mut waits = visiting.waits(&engine, workspace).await?;
    let profiling = profiler.attach(engine.pid(), file).await;
    let profiling = profiling.in_step(Step::Profile)?;
    let shown = visiting.shown("profile", &engine);
    let mut samples = Vec::new();
    let on_payload = || progress.advance();
    let auth = &mut node.auth;
    let replayed = pass::replay(auth, &payloads, &mut waits, &mut samples, on_payload).await;
    drop(shown);
    let ended = profiling.end().await;
    engine.stop().in_step(Step::Stop)?;
    replayed.in_step(Step::Profile)?;
    ended.map_err(|cause| StepError::new(Step::Profile, &cause))
}
