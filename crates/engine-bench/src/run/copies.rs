//! Working copies for cells that take turns: a datadir, a pid file and so an engine for each.
//!
//! Invariant: a copy is made when it is first needed and used again in later rounds, reset like
//! any other; two cells of a group never share one. Before anything is measured it is known that there is
//! room for all of them.

use super::{InStep as _, Prepared, Progress, Step, StepError, disk};
use crate::{
    cache, guard,
    plan::{Cell, Plan},
    reset::{self, Pristine, Workspace},
    sweep::{BaseSource, ResetMethod},
};
use eyre::{Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Folder of the first copies inside the working folder, by engine.
const DATADIRS_DIR: &str = "datadirs";

/// Folder of the further copies inside the working folder.
const COPIES_DIR: &str = "copies";

/// Room that each copy is granted to grow by while blocks are persisted in it.
const GROWTH_BYTES: u64 = 256 << 20;

/// Unit of sizes that people read.
const MIB: f64 = (1 << 20) as f64;

impl Prepared {
    /// The working copy at `place`, counted from 0, of those that an engine has; copied if need be. The
    /// first one is the one that the engine works in when it is alone.
    ///
    /// # Errors
    /// When the engine was not prepared or the copy cannot be made.
    pub(super) fn working_copy(
        &self,
        engine: &str,
        place: usize,
        progress: &Progress,
    ) -> Result<Workspace, StepError> {
        let mut copy = self.workspace(engine)?.clone();
        let name = cache::file_safe(engine);
        let number = place + 1;
        let pid_file = format!("engine-{name}.{number}.pid");
        copy.pid_file = self.lock.dir().join(pid_file);
        if place == 0 {
            return Ok(copy);
        }
        copy.datadir = copy_dir(self.lock.dir(), engine, place);
        if !self.copied.borrow().contains(&copy.datadir) {
            progress.message(format!(
                "copying the base state for {engine}, copy {number}"
            ));
            if let Some(above) = copy.datadir.parent() {
                fs::create_dir_all(above).in_step(Step::State)?;
            }
            copy.renew()
                .in_step(Step::State)
                .map_err(|error| disk::remark(error, self.lock.dir(), self.lock.dir()))?;
            self.copied.borrow_mut().insert(copy.datadir.clone());
        }
        Ok(copy)
    }
}

/// Whether there is room for every copy that the largest group of a sweep takes; what a person should know
/// of its memory. A sweep whose cells do not take turns needs no more than is prepared.
///
/// # Errors
/// When the disk is too small, with figures.
pub fn check_room(plan: &Plan, prepared: &Prepared) -> Result<Option<String>, StepError> {
    if !plan.settings.interleave {
        return Ok(None);
    }
    let pristine = |engine: &str| Some(prepared.workspace(engine).ok()?.pristine.clone());
    check_disk(plan, prepared.lock.dir(), &pristine).in_step(Step::State)?;
    let largest = groups(plan).map(|cells| cells.len()).max();
    Ok(short_memory(plan, prepared, largest.unwrap_or(0)))
}

/// Whether the disk that holds the folder `work` has room for the working copies of a sweep, as far as the
/// datadirs are known that they are copies of.
///
/// # Errors
/// When it is too small, with figures and the next step.
pub(super) fn check_disk(
    plan: &Plan,
    work: &Path,
    pristine: &dyn Fn(&str) -> Option<Pristine>,
) -> Result<()> {
    if matches!(
        plan.settings.reset,
        ResetMethod::Reflink | ResetMethod::Overlay
    ) {
        return Ok(());
    }
    let disk = guard::nearest(work);
    let interleave = plan.settings.interleave;
    let growth = if interleave { GROWTH_BYTES } else { 0 };
    let (mut needed, mut there) = (0, 0);
    for (engine, copies) in most_copies(plan) {
        let shares = |from: &Pristine| disk::shares_extents(&from.path, disk);
        let Some(pristine) = pristine(engine).filter(|from| !shares(from)) else {
            continue;
        };
        let each = reset::copied_bytes(&pristine) + growth;
        for place in 0..if interleave { copies } else { 1 } {
            needed += each;
            there += reset::held_bytes(&copy_dir(work, engine, place));
        }
    }
    let in_place = matches!(
        plan.settings.base,
        BaseSource::Datadir { in_place: true, .. }
    );
    let free = guard::free_bytes(disk).filter(|free| free + there < needed && !in_place);
    let Some(free) = free else { return Ok(()) };
    let mib = |bytes: u64| bytes as f64 / MIB;
    bail!(
        "the working copies of the datadir take {:.0} MiB more, and the disk of {} has {:.0} MiB free; give \
         --cache-dir a folder on a larger disk, or fewer values to --interleave, which takes a copy for each \
         cell of a gas level",
        mib(needed - there),
        work.display(),
        mib(free),
    )
}

/// Where the working copy at `place` of an engine is, counted from 0.
pub(super) fn copy_dir(work: &Path, engine: &str, place: usize) -> PathBuf {
    let copies = match place {
        0 => work.join(DATADIRS_DIR),
        place => work.join(COPIES_DIR).join((place + 1).to_string()),
    };
    copies.join(cache::file_safe(engine))
}

/// Says so when what all engines of a group have in memory and the pages of their datadirs are more than
/// is available: blocks would be read from disk.
fn short_memory(plan: &Plan, prepared: &Prepared, group: usize) -> Option<String> {
    let available = guard::memory_available_bytes()?;
    let copies = most_copies(plan);
    let wanted = copies.iter().filter_map(|(engine, copies)| {
        let workspace = prepared.workspace(engine).ok()?;
        let each = reset::held_bytes(&workspace.datadir) + workspace.asked_bytes;
        Some(each * *copies as u64)
    });
    let wanted: u64 = wanted.sum();
    (wanted > available).then(|| {
        format!(
            "{group} engines with their datadirs take about {:.0} MiB of memory, and {:.0} MiB are \
             available: blocks may be read from disk",
            wanted as f64 / MIB,
            available as f64 / MIB
        )
    })
}

/// Cells of each engine in the group that has most of them.
fn most_copies(plan: &Plan) -> BTreeMap<&str, usize> {
    let mut most = BTreeMap::new();
    for cells in groups(plan) {
        let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
        for cell in cells {
            *copies.entry(&cell.engine).or_default() += 1;
        }
        for (engine, copies) in copies {
            let known = most.entry(engine).or_default();
            *known = copies.max(*known);
        }
    }
    most
}

/// The cells of each load, A/A controls too.
fn groups(plan: &Plan) -> impl Iterator<Item = Vec<&Cell>> {
    plan.loads().into_iter().map(move |load| {
        let all = plan.cells.iter().chain(&plan.controls);
        all.filter(|cell| load.is_of(cell)).collect()
    })
}
