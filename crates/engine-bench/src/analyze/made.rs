//! Which visits were made, in the order they were made.
//!
//! Invariant: one entry for each visit that began or ended; a visit that was made again is there twice.

use crate::journal::{Event, Interleaving, Record, VisitFacts};
use std::collections::HashMap;

/// One visit that was begun.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its id.
    pub visit: String,
    /// Its round.
    pub round: u64,
    /// Id of its cell, or of an A/A control.
    pub cell: String,
    /// When it began, Unix time in milliseconds.
    pub began_unix_ms: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How it ended.
    pub ended: Ended,
    /// Which try of the visit it was, counted from 1.
    pub attempt: u64,
    /// What was found beside its samples.
    pub facts: VisitFacts,
    /// With whom it took turns.
    pub interleaving: Option<Interleaving>,
}

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With numbers.
    Finished,
    /// With numbers that do not count, because others disturbed it.
    Voided,
    /// Without, for a recorded reason.
    Failed,
    /// Not at all: the sweep was killed in it.
    Cut,
}

/// The visits that a journal tells of.
pub(super) fn made(records: &[Record]) -> Vec<Made> {
    let mut visits: Vec<Made> = Vec::new();
    for record in records {
        let (visit, ended, facts) = match &record.event {
            Event::VisitStarted {
                visit,
                interleaving,
            } => {
                let begun = begun(visit, record);
                visits.extend(begun.map(|made| Made {
                    interleaving: interleaving.clone(),
                    ..made
                }));
                continue;
            }
            Event::VisitUndone { visit, .. } => {
                let undone = visits.iter_mut().rfind(|made| made.visit == *visit);
                if let Some(undone) = undone {
                    undone.ended = Ended::Voided;
                }
                continue;
            }
            Event::VisitFinished { visit, facts, .. } => (visit, Ended::Finished, Some(facts)),
            Event::VisitVoided { visit, facts, .. } => (visit, Ended::Voided, Some(facts)),
            Event::VisitFailed { visit, .. } => (visit, Ended::Failed, None),
            _ => continue,
        };
        end(&mut visits, visit, record, ended, facts);
    }
    let mut attempts: HashMap<String, u64> = HashMap::new();
    for made in &mut visits {
        let attempt = attempts.entry(made.visit.clone()).or_default();
        *attempt += 1;
        made.attempt = *attempt;
    }
    visits
}

fn begun(visit: &str, record: &Record) -> Option<Made> {
    let (round, cell) = visit.split_once('-')?;
    Some(Made {
        visit: visit.to_owned(),
        round: round.parse().ok()?,
        cell: cell.to_owned(),
        began_unix_ms: record.unix_ms,
        seconds: 0.0,
        ended: Ended::Cut,
        attempt: 1,
        facts: VisitFacts::default(),
        interleaving: None,
    })
}

/// Ends the visit, which is going on, or notes one whose beginning was not recorded.
fn end(
    visits: &mut Vec<Made>,
    visit: &str,
    record: &Record,
    ended: Ended,
    facts: Option<&VisitFacts>,
) {
    let is_open = |made: &Made| made.visit == visit && made.ended == Ended::Cut;
    let open = match visits.iter().rposition(is_open) {
        // One that was cut is not the one that ended if others began and ended since on their own.
        Some(index) if runs_until_now(&visits[index..]) => index,
        _ => {
            let Some(made) = begun(visit, record) else {
                return;
            };
            visits.push(made);
            visits.len() - 1
        }
    };
    let made = &mut visits[open];
    made.seconds = record.unix_ms.saturating_sub(made.began_unix_ms) as f64 / 1e3;
    made.ended = ended;
    made.facts = facts.cloned().unwrap_or_default();
}

/// Whether the first of these visits may still be going on: it is the last that began, or those after it
/// take turns with it.
fn runs_until_now(visits: &[Made]) -> bool {
    let Some((first, later)) = visits.split_first() else {
        return false;
    };
    let peers = first.interleaving.iter().flat_map(|found| &found.with);
    let peers: Vec<&String> = peers.collect();
    later.iter().all(|made| peers.contains(&&made.visit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_listed_as_they_were_made() {
        let started = |visit: &str| Event::VisitStarted {
            visit: visit.into(),
            interleaving: None,
        };
        let finished = |visit: &str| Event::VisitFinished {
            visit: visit.into(),
            times: Default::default(),
            facts: VisitFacts::default(),
        };
        let disturbed = VisitFacts {
            contaminations: vec![Default::default()],
            ..Default::default()
        };
        let events = [
            started("1-a-b"),
            Event::VisitVoided {
                visit: "1-a-b".into(),
                attempt: 1,
                kept_in: "1-a-b.void1".into(),
                times: Default::default(),
                facts: disturbed,
            },
            started("1-a-b"),
            finished("1-a-b"),
            started("1-c"),
            // Killed here, and resumed.
            started("1-c"),
            finished("1-c"),
            finished("2-d"),
        ];
        let record = |(at, event): (u64, Event)| Record {
            unix_ms: 1_000 * at,
            at_s: 0.0,
            event,
        };
        let records: Vec<Record> = (1u64..).zip(events).map(record).collect();
        let all = made(&records);
        let attempts: Vec<u64> = all.iter().map(|made| made.attempt).collect();
        assert_eq!(attempts, [1, 2, 1, 2, 1]);
        let disturbed: Vec<usize> = all
            .iter()
            .map(|made| made.facts.contaminations.len())
            .collect();
        assert_eq!(disturbed, [1, 0, 0, 0, 0]);
        let found: Vec<_> = all
            .into_iter()
            .map(|made| (made.round, made.cell, made.seconds, made.ended))
            .collect();
        let expected = [
            (1, "a-b", 1.0, Ended::Voided),
            (1, "a-b", 1.0, Ended::Finished),
            (1, "c", 0.0, Ended::Cut),
            (1, "c", 1.0, Ended::Finished),
            (2, "d", 0.0, Ended::Finished),
        ];
        assert_eq!(
            found,
            expected.map(|(round, cell, seconds, ended)| (round, cell.to_owned(), seconds, ended))
        );
    }
}
