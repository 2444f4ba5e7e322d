//! Everything that a results folder says happened.
//!
//! Invariant: the one fold of the journal. A visit counts only when the journal says that it finished, and
//! not since that it was undone; what is not as it was written is named, never silently used.

use super::{
    Attempt, Decision, Ended, Event, Failure, Interleaving, JournalError, Manifest, PassFacts,
    Record, SampleError, Start, TimeSplit, VISITS_DIR, VisitFacts, VisitTimes, journal,
    measured_dir, metrics_sum, plan_sum, sample,
};
use crate::plan::Plan;
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

/// What folders of void visits have behind the id of the visit, before a number.
pub(crate) const VOID_SUFFIX: &str = ".void";

/// What happened in a sweep.
#[derive(Debug, Clone)]
pub struct History {
    /// What was planned.
    pub plan: Plan,
    /// What it was last resumed with, and the manifest that it was started with; `None` when preparation failed.
    pub begun: Option<Start>,
    /// What an adaptive sweep decided, in order.
    pub decisions: Vec<Decision>,
    /// Every visit that was begun, in order.
    pub attempts: Vec<Attempt>,
    /// What gave no number, in order.
    pub failures: Vec<Failure>,
    /// What is not as it was measured, a sentence each.
    pub edited: Vec<String>,
    /// What else is remarkable, a sentence each.
    pub notes: Vec<String>,
    /// Where the time went.
    pub time_s: TimeSplit,
    /// Whether every visit was made.
    pub complete: bool,
    /// Places in `attempts` by id of the visit.
    of_visit: HashMap<String, Vec<usize>>,
}

/// Why a results folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] eyre::Report),
    /// No journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A finished visit without its samples.
    #[error(transparent)]
    Samples(#[from] SampleError),
}

impl History {
    /// Reads a results folder, and compares its files with what the journal says of them.
    ///
    /// # Errors
    /// When the plan, the journal or the samples of a finished visit cannot be read.
    pub fn read(dir: &Path) -> Result<Self, RecordError> {
        // Before the journal, which has an entry before a visit has a folder, also while a sweep goes on.
        let folders = folders(dir);
        let mut history = Self::of(Plan::read(dir)?, &journal::read(dir)?);
        let mut begun_with = history.manifest().into_iter();
        if begun_with.any(|manifest| manifest.plan_sha256 != plan_sum(dir)) {
            let note = "plan.json is not the one that the sweep was started with";
            history.edited.push(note.to_owned());
        }
        history.edited.extend(history.unknown(&folders));
        let mut found = Vec::new();
        for attempt in history.finished() {
            let visit = attempt.visit.as_str();
            found.extend(edited(dir, (visit, visit), &attempt.facts)?);
        }
        history.edited.append(&mut found);
        Ok(history)
    }

    /// Folds the events of a sweep.
    pub fn of(plan: Plan, records: &[Record]) -> Self {
        let mut history = Self {
            plan,
            begun: None,
            decisions: Vec::new(),
            attempts: Vec::new(),
            failures: Vec::new(),
            edited: Vec::new(),
            notes: Vec::new(),
            time_s: TimeSplit::default(),
            complete: false,
            of_visit: HashMap::new(),
        };
        for record in records {
            history.take(record);
        }
        history.time_s = TimeSplit::of(records, &history.attempts);
        // A visit that failed and succeeded when the sweep was resumed is no failure.
        let mut failures = std::mem::take(&mut history.failures);
        failures.retain(|failure| !history.is_finished(&failure.visit));
        history.failures = failures;
        history
    }

    /// What was measured, by content; `None` when preparation failed.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.begun.as_ref().map(|begun| &begun.manifest)
    }

    /// The attempts of a visit, in order.
    pub fn attempts_of(&self, visit: &str) -> impl DoubleEndedIterator<Item = &Attempt> {
        let places = self.of_visit.get(visit).into_iter().flatten();
        places.map(|place| &self.attempts[*place])
    }

    /// How a visit ended for good, finished or failed; `None` when it is still to be made.
    pub fn state(&self, visit: &str) -> Option<Ended> {
        let mut ended = self.attempts_of(visit).rev().map(|attempt| attempt.ended);
        ended.find(|ended| matches!(ended, Ended::Finished | Ended::Failed))
    }

    /// Whether a visit gives numbers.
    pub fn is_finished(&self, visit: &str) -> bool {
        self.state(visit) == Some(Ended::Finished)
    }

    /// Attempts that give numbers, in order.
    pub fn finished(&self) -> impl Iterator<Item = &Attempt> {
        let all = self.attempts.iter();
        all.filter(|attempt| attempt.ended == Ended::Finished)
    }

    /// How often a visit was disturbed and is to be repeated.
    pub fn voids(&self, visit: &str) -> usize {
        let all = self.attempts_of(visit);
        all.filter(|made| made.ended == Ended::Voided).count()
    }

    /// Void visits whose files are not as they were when they ended, a sentence each.
    ///
    /// # Errors
    /// When samples cannot be read.
    pub fn edited_voids(&self, dir: &Path) -> Result<Vec<String>, RecordError> {
        let mut findings = Vec::new();
        for attempt in &self.attempts {
            let Some(kept_in) = &attempt.kept_in else {
                continue;
            };
            let name = format!("the void visit {kept_in}");
            if measured_dir(dir, kept_in).exists() {
                findings.extend(edited(dir, (kept_in, &name), &attempt.facts)?);
            } else {
                findings.push(format!("the samples of {name} are missing"));
            }
        }
        Ok(findings)
    }

    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::SweepStarted(begun) => self.go_on(begun.clone()),
            Event::PreparationFailed(failure) => self.failures.push(failure.clone()),
            Event::VisitStarted {
                visit,
                interleaving,
            } => self.begin(visit, interleaving.as_ref(), record),
            Event::VisitFinished {
                visit,
                times,
                facts,
            } => self.end(visit, record.at_s, |attempt| {
                attempt.ended = Ended::Finished;
                (attempt.times, attempt.facts) = (*times, facts.clone());
            }),
            Event::VisitVoided {
                visit,
                kept_in,
                times,
                facts,
                ..
            } => self.end(visit, record.at_s, |attempt| {
                attempt.ended = Ended::Voided;
                attempt.kept_in = Some(kept_in.clone());
                (attempt.times, attempt.facts) = (*times, facts.clone());
            }),
            Event::VisitFailed { failure, times } => {
                self.end(&failure.visit, record.at_s, |attempt| {
                    (attempt.ended, attempt.times) = (Ended::Failed, *times);
                });
                self.failures.push(failure.clone());
            }
            Event::VisitUndone { visit, kept_in } => {
                if let Some(attempt) = self.last(visit) {
                    attempt.ended = Ended::Undone;
                    attempt.kept_in = Some(kept_in.clone());
                }
            }
            Event::Decided(decision) => self.decisions.push(decision.clone()),
            Event::SweepFinished => self.complete = true,
            Event::Interrupted => {}
        }
    }

    fn begin(&mut self, visit: &str, interleaving: Option<&Interleaving>, record: &Record) {
        let Some((round, cell)) = visit.split_once('-') else {
            return;
        };
        let places = self.of_visit.entry(visit.to_owned()).or_default();
        places.push(self.attempts.len());
        self.attempts.push(Attempt {
            visit: visit.to_owned(),
            round: round.parse().unwrap_or_default(),
            cell: cell.to_owned(),
            attempt: places.len() as u64,
            began_unix_ms: record.unix_ms,
            began_s: record.at_s,
            seconds: 0.0,
            ended: Ended::Cut,
            kept_in: None,
            times: VisitTimes::default(),
            facts: VisitFacts::default(),
            interleaving: interleaving.cloned(),
        });
    }

    /// The attempt of a visit that goes on, or ended last.
    fn last(&mut self, visit: &str) -> Option<&mut Attempt> {
        let place = *self.of_visit.get(visit)?.last()?;
        self.attempts.get_mut(place)
    }

    fn end(&mut self, visit: &str, at_s: f64, how: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.last(visit) {
            attempt.seconds = at_s - attempt.began_s;
            how(attempt);
        }
    }

    /// A sweep may go on after a reboot; that the kernel changed meanwhile has to be known.
    fn go_on(&mut self, mut begun: Start) {
        if let Some(before) = self.begun.take() {
            let (then, now) = (&before.environment.kernel, &begun.environment.kernel);
            if then != now {
                let note = format!("the sweep went on under another kernel: {now} after {then}");
                self.notes.push(note);
            }
            begun.manifest = before.manifest;
        }
        self.begun = Some(begun);
    }

    /// Visits that have more folders than attempts, a sentence each: the journal had more lines.
    fn unknown(&self, folders: &BTreeMap<String, usize>) -> Vec<String> {
        let known = |visit: &str| self.attempts_of(visit).count();
        let all = folders.iter();
        let more = all.filter(|(visit, count)| known(visit) < **count);
        let said = more.map(|(visit, count)| {
            format!(
                "the journal lost its end: visits/ holds {count} attempts of {visit}, the journal {}",
                known(visit)
            )
        });
        said.collect()
    }
}

/// How many folders `visits/` has of each visit, void ones included. An attempt leaves one at most, which is
/// made after the journal says that it was begun.
fn folders(dir: &Path) -> BTreeMap<String, usize> {
    let mut folders = BTreeMap::new();
    // Without the folder nothing was visited.
    let entries = fs::read_dir(dir.join(VISITS_DIR)).into_iter();
    for entry in entries.flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let visit = name.rsplit_once(VOID_SUFFIX);
        let visit = visit.map_or(&*name, |(visit, _)| visit);
        *folders.entry(visit.to_owned()).or_default() += 1;
    }
    folders
}

/// Files of the measured pass in a folder of `visits/` that are not as they were when it ended, a sentence each.
fn edited(
    dir: &Path,
    (folder, name): (&str, &str),
    facts: &VisitFacts,
) -> Result<Vec<String>, SampleError> {
    let pass = measured_dir(dir, folder);
    let none = PassFacts::default();
    let facts = facts.passes.last().unwrap_or(&none);
    let mut edited = Vec::new();
    if sample::sum_of(&pass)? != facts.samples_sha256 {
        let text = format!("the samples of {name} are not those that were measured");
        edited.push(text);
    }
    if metrics_sum(&pass) != facts.metrics_sha256 {
        let text = format!("the metrics of {name} are not those that the engine exported");
        edited.push(text);
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results")
    }

    /// What events say: a line for each, with the second at which it happened, its kind, the visit, and further
    /// how long its payloads took or with whom it takes turns.
    fn history(events: &str) -> History {
        let event = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (at_s, visit) = (words[0].parse().unwrap(), words.get(2).map_or("", |v| v));
            Record {
                unix_ms: (1e3 * at_s) as u64,
                at_s,
                event: event(words[1], visit.to_owned(), words.get(3).copied()),
            }
        };
        let records: Vec<Record> = events.trim().lines().map(event).collect();
        History::of(Plan::read(&folder()).unwrap(), &records)
    }

    fn event(kind: &str, visit: String, more: Option<&str>) -> Event {
        let (kept_in, facts) = (format!("{visit}.void1"), VisitFacts::default());
        let times = VisitTimes {
            measured_s: more.and_then(|s| s.parse().ok()).unwrap_or_default(),
            ..VisitTimes::default()
        };
        let failure = Failure {
            visit: visit.clone(),
            step: "ready".into(),
            cause: "none".into(),
            log: Vec::new(),
        };
        match kind {
            "began" => journal::read(&folder()).unwrap()[0].event.clone(),
            "unprepared" => Event::PreparationFailed(failure),
            "started" => Event::VisitStarted {
                visit,
                interleaving: more.map(|other| Interleaving {
                    with: vec![other.to_owned()],
                    copy: 1,
                }),
            },
            "finished" => Event::VisitFinished {
                visit,
                times,
                facts,
            },
            "voided" => Event::VisitVoided {
                visit,
                attempt: 1,
                kept_in,
                times,
                facts,
            },
            "failed" => Event::VisitFailed { failure, times },
            "undone" => Event::VisitUndone { visit, kept_in },
            "decided" => Event::Decided(Decision::default()),
            "interrupted" => Event::Interrupted,
            "ended" => Event::SweepFinished,
            other => panic!("no event is called {other}"),
        }
    }

    #[test]
    fn every_attempt_is_listed_and_the_last_that_ended_counts() {
        // 1-c is cut by a kill, and goes on in a process with a clock of its own.
        let found = history(
            "
            0 began
            1 started 1-a-b
            2 voided 1-a-b 1
            2 started 1-a-b
            3.5 finished 1-a-b 1
            3.5 started 1-c
            1 began
            1 started 1-c
            3 failed 1-c 0.25
            3 started 2-d
            4 failed 2-d 0.25
            5 interrupted
            0.5 began
            0.5 started 1-c
            1 finished 1-c 1
            1 decided
            1 ended",
        );
        let of = |made: &Attempt| {
            let (cell, ended) = (&made.cell, made.ended);
            format!(
                "{} {cell} {}: {ended} {}",
                made.round, made.attempt, made.seconds
            )
        };
        let all: Vec<_> = found.attempts.iter().map(of).collect();
        let expected = "1 a-b 1: voided 1, 1 a-b 2: finished 1.5, 1 c 1: cut 0, 1 c 2: failed 2, 2 d 1: failed 1, \
                        1 c 3: finished 0.5";
        assert_eq!(all.join(", "), expected);
        let states = ["1-a-b", "1-c", "2-d", "9-z"].map(|visit| found.state(visit));
        let (finished, failed) = (Some(Ended::Finished), Some(Ended::Failed));
        assert_eq!(states, [finished, finished, failed, None]);
        assert_eq!((found.voids("1-a-b"), found.voids("1-c")), (1, 0));
        // One that failed and was made when the sweep went on is no failure.
        let [failure] = found.failures.as_slice() else {
            panic!("{:?}", found.failures)
        };
        assert_eq!((failure.visit.as_str(), found.decisions.len()), ("2-d", 1));
        assert!(found.complete && found.notes.is_empty());
    }

    #[test]
    fn the_time_of_every_process_that_measured_is_spent() {
        // Killed after 6 s, and resumed: what preparing took is not measured.
        let found = history(
            "
            1 began
            1 started 1-a
            5 finished 1-a 2
            6 started 1-b
            9 unprepared prepare
            0.5 began
            0.5 started 1-b
            4.5 finished 1-b 3
            5 interrupted
            90 interrupted",
        );
        let split = found.time_s;
        assert_eq!((split.wall, split.measured, split.other), (9.5, 5.0, 4.5));
        assert!((split.answering() - 5.0 / 9.5).abs() < 1e-12);
    }

    #[test]
    fn the_time_of_a_group_is_counted_once_and_shared_by_its_visits() {
        let found = history(
            "
            0 began
            1 started 1-a 1-b
            1 started 1-b 1-a
            9 voided 1-a 1
            9 voided 1-b 1
            9 started 1-a 1-b
            9 started 1-b 1-a
            19 finished 1-b 2
            0 began
            0 undone 1-b
            0 started 1-a 1-b
            0 started 1-b 1-a
            8 finished 1-b 2
            8 finished 1-a 3",
        );
        let split = found.time_s;
        assert_eq!(
            (split.wall, split.voided, split.measured, split.other),
            (27.0, 8.0 + 5.0, 5.0, 9.0)
        );
        let costs: Vec<f64> = found.finished().map(Attempt::cost_s).collect();
        assert_eq!(costs, [4.0, 4.0]);
        assert_eq!(found.voids("1-b"), 1, "what was undone was not disturbed");
        let ended: Vec<Ended> = found.attempts_of("1-b").map(|a| a.ended).collect();
        assert_eq!(ended, [Ended::Voided, Ended::Undone, Ended::Finished]);
    }

    #[test]
    fn folders_that_the_journal_does_not_know_are_its_lost_end() {
        let folders = |names: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            for name in names {
                fs::create_dir_all(dir.path().join(VISITS_DIR).join(name)).unwrap();
            }
            let found = history(
                "
                0 started 1-a
                1 voided 1-a 1
                1 started 1-a
                2 finished 1-a 1
                2 started 1-b",
            );
            found.unknown(&super::folders(dir.path()))
        };
        let none: &[String] = &[];
        assert_eq!(folders(&["1-a.void1", "1-a", "1-b"]), none);
        // Cut before it left anything.
        assert_eq!(folders(&["1-a.void1", "1-a"]), none);
        let lost = "the journal lost its end: visits/ holds";
        for (more, said) in [
            ("2-a", "1 attempts of 2-a, the journal 0"),
            ("1-b.void1", "2 attempts of 1-b, the journal 1"),
        ] {
            let found = folders(&["1-a.void1", "1-a", "1-b", more]);
            assert_eq!(found, [format!("{lost} {said}")]);
        }
    }
}
