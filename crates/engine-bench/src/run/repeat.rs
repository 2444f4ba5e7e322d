//! How often a disturbed visit is made again, and where the files of a void one go.
//!
//! Invariant: a machine that is always disturbed costs a bounded number of repetitions, not a
//! multiple of the sweep.

use super::rounds;
use crate::{
    guard::GuardMode,
    plan::{Plan, Visit},
    record::{History, VISITS_DIR, VOID_SUFFIX},
};
use std::{fs, io, path::Path};

/// Times that one visit is made again.
const REPEATS_OF_A_VISIT: u64 = 2;

/// Repetitions that any sweep may make.
const FREE_REPEATS: u64 = 3;

/// Visits that earn one more repetition.
const VISITS_FOR_A_REPEAT: u64 = 4;

/// Counts visits and repetitions of a sweep.
#[derive(Debug)]
pub(super) struct Repeats {
    mode: GuardMode,
    visits: u64,
    repeats: u64,
}

impl Repeats {
    /// What earlier runs of the sweep made counts as well.
    pub(super) fn new(mode: GuardMode, visits: usize, repeats: usize) -> Self {
        Self {
            mode,
            visits: visits as u64,
            repeats: repeats as u64,
        }
    }

    /// A visit was kept.
    pub(super) fn kept(&mut self) {
        self.visits += 1;
    }

    /// A visit was voided.
    pub(super) fn voided(&mut self) {
        self.repeats += 1;
    }

    /// Whether a visit that was disturbed at its `attempt`, counted from 1, may be made again.
    pub(super) fn allows_after(&self, attempt: u64) -> bool {
        self.mode == GuardMode::Void
            && attempt <= REPEATS_OF_A_VISIT
            && self.repeats < FREE_REPEATS + self.visits / VISITS_FOR_A_REPEAT
    }
}

/// Moves the files of a void visit aside; gives the name of their folder.
pub(super) fn set_aside(out: &Path, visit: &Visit) -> io::Result<String> {
    let name = free_name(out, visit);
    move_to(out, visit, &name)?;
    Ok(name)
}

/// A folder that the files of a void visit can have.
pub(super) fn free_name(out: &Path, visit: &Visit) -> String {
    let visits = out.join(VISITS_DIR);
    let named = |number: u64| format!("{}{VOID_SUFFIX}{number}", visit.id());
    let free = (1..).map(named).find(|name| !visits.join(name).exists());
    free.unwrap_or_else(|| named(0))
}

/// Moves the files of a visit to a folder of that name.
pub(super) fn move_to(out: &Path, visit: &Visit, name: &str) -> io::Result<()> {
    let visits = out.join(VISITS_DIR);
    fs::rename(visits.join(visit.id()), visits.join(name))
}

/// How many visits earlier runs finished, and how many they voided; of cells that take turns, how many
/// groups.
pub(super) fn counted(plan: &Plan, history: &History) -> (usize, usize) {
    let groups = rounds::groups(plan, plan.visits.iter());
    let is_done = |group: &&Vec<&Visit>| {
        let mut visits = group.iter();
        visits.any(|visit| history.is_finished(&visit.id()))
    };
    let voids = |group: &Vec<&Visit>| voids(history, group);
    (
        groups.iter().filter(is_done).count(),
        groups.iter().map(voids).sum(),
    )
}

/// How often the visits of a group were void.
pub(super) fn voids(history: &History, group: &[&Visit]) -> usize {
    let of_visit = group.iter().map(|visit| history.voids(&visit.id()));
    of_visit.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_made_three_times_at_most() {
        let repeats = Repeats::new(GuardMode::Void, 100, 0);
        let allowed = [1, 2, 3].map(|attempt| repeats.allows_after(attempt));
        assert_eq!(allowed, [true, true, false]);
        for mode in [GuardMode::Warn, GuardMode::Off] {
            assert!(!Repeats::new(mode, 0, 0).allows_after(1));
        }
    }

    #[test]
    fn a_machine_that_is_always_disturbed_costs_a_quarter_more() {
        let mut repeats = Repeats::new(GuardMode::Void, 0, 0);
        for visit in 0..200 {
            // A sweep that is interrupted all the time gets no more than another.
            let (visits, made) = (repeats.visits as usize, repeats.repeats as usize);
            assert_eq!(visits, visit);
            repeats = Repeats::new(GuardMode::Void, visits, made);
            for attempt in 1.. {
                if !repeats.allows_after(attempt) {
                    repeats.kept();
                    break;
                }
                repeats.voided();
            }
        }
        assert_eq!((repeats.visits, repeats.repeats), (200, 3 + 199 / 4));
    }

    #[test]
    fn files_of_every_void_visit_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let visit = Visit {
            round: 2,
            cell: "a".into(),
        };
        for number in 1..=2 {
            let folder = dir.path().join("visits/2-a");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("x"), number.to_string()).unwrap();
            let name = set_aside(dir.path(), &visit).unwrap();
            assert_eq!(name, format!("2-a.void{number}"));
            let kept = fs::read_to_string(dir.path().join("visits").join(name).join("x"));
            assert_eq!(kept.unwrap(), number.to_string());
        }
        assert!(set_aside(dir.path(), &visit).is_err());
    }
}
