//! How often a disturbed visit is repeated, and where the files of a void one go.
//!
//! Invariant: a machine that is always disturbed costs a bounded number of repetitions, not a
//! multiple of the sweep.

use super::rounds;
use crate::{
    guard::{Contamination, GuardMode},
    plan::{Plan, Visit},
    record::{History, VISITS_DIR, VOID_SUFFIX},
    sweep::Settings,
};
use std::{fs, io, path::Path, time::Duration};

/// Times that one visit is repeated.
const REPEATS_OF_A_VISIT: u64 = 2;

/// Repetitions that any sweep may make.
const FREE_REPEATS: u64 = 3;

/// Visits that earn one more repetition.
const VISITS_FOR_A_REPEAT: u64 = 4;

/// Counts visits and repetitions of a sweep.
#[derive(Debug)]
pub(super) struct Repeats {
    mode: GuardMode,
    interleaved: bool,
    /// Those that were kept.
    pub(super) visits: u64,
    /// Those that were voided.
    pub(super) repeats: u64,
}

impl Repeats {
    /// What earlier runs of the sweep made counts as well.
    pub(super) fn new(settings: &Settings, visits: usize, repeats: usize) -> Self {
        Self {
            mode: settings.guard,
            interleaved: settings.interleave,
            visits: visits as u64,
            repeats: repeats as u64,
        }
    }

    /// Whether a visit, or a group of them, that took some time is worth repeating for what was found in
    /// it: not for what slowed all of a group alike, and not when less than twice that time is left.
    pub(super) fn wanted<'f>(
        &self,
        mut found: impl Iterator<Item = &'f Contamination>,
        took: Duration,
        left: Option<Duration>,
    ) -> bool {
        let disturbed = found.any(|found| !(self.interleaved && found.is_shared()));
        // What cannot be repeated is worth more than nothing.
        disturbed && left.is_none_or(|left| 2 * took <= left)
    }

    /// Whether a visit that was disturbed at its `attempt`, counted from 1, may be repeated.
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

    fn repeats(mode: GuardMode, visits: u64, repeats: u64) -> Repeats {
        Repeats {
            mode,
            interleaved: false,
            visits,
            repeats,
        }
    }

    #[test]
    fn a_visit_is_made_three_times_at_most() {
        let allowed =
            [1, 2, 3].map(|attempt| repeats(GuardMode::Void, 100, 0).allows_after(attempt));
        assert_eq!(allowed, [true, true, false]);
        for mode in [GuardMode::Warn, GuardMode::Off] {
            assert!(!repeats(mode, 0, 0).allows_after(1));
        }
    }

    /// What is found in a visit of 5 s with so many seconds left, and whether cells that were visited one after
    /// another, or interleaved, are repeated for it.
    #[test]
    fn what_slows_all_cells_alike_is_no_reason_and_a_budget_without_time_allows_none() {
        for (rules, left_s, alone, interleaved) in [
            ("foreign-cpu", None, true, true),
            ("foreign-cpu", Some(10), true, true),
            ("foreign-cpu", Some(9), false, false),
            ("memory", None, true, true),
            ("steal", None, true, false),
            ("quota heat", None, true, false),
            ("steal foreign-cpu", None, true, true),
            ("", None, false, false),
        ] {
            let found = rules.split_whitespace().map(|rule| Contamination {
                rule: rule.to_owned(),
                ..Contamination::default()
            });
            let found: Vec<_> = found.collect();
            for (interleaved, expected) in [(false, alone), (true, interleaved)] {
                let repeats = Repeats {
                    interleaved,
                    ..repeats(GuardMode::Void, 0, 0)
                };
                let left = left_s.map(Duration::from_secs);
                let wanted = repeats.wanted(found.iter(), Duration::from_secs(5), left);
                assert_eq!(wanted, expected, "{rules}, {left_s:?}, {interleaved}");
            }
        }
    }

    #[test]
    fn a_machine_that_is_always_disturbed_costs_a_quarter_more() {
        let mut made = repeats(GuardMode::Void, 0, 0);
        for visit in 0..200 {
            // A sweep that is interrupted all the time gets no more than another.
            assert_eq!(made.visits, visit);
            made = repeats(GuardMode::Void, made.visits, made.repeats);
            for attempt in 1.. {
                if !made.allows_after(attempt) {
                    made.visits += 1;
                    break;
                }
                made.repeats += 1;
            }
        }
        assert_eq!((made.visits, made.repeats), (200, 3 + 199 / 4));
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
