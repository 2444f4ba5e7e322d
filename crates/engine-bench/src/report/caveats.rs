//! What a reader should doubt before believing the answer.
//!
//! Invariant: one trouble is one caveat, however many cells and gas levels have it. A cause is named where it
//! was measured, and every caveat says what to do or to think.

use super::{
    attribution,
    grid::{FALLBACK_MARK, UNCHECKED_MARK},
    model::{AdaptiveReport, Report},
    names::{self, Names, listed},
};
use crate::{
    analyze::{Comparison, End, Level, Stall, Summary},
    plan::Load,
    sweep::WarmUp,
};
use bench_stats::rounds::PILOT_ROUNDS;
use std::collections::BTreeSet;

/// A stall by persistence below this part of a block's time explains nothing.
const WORTH_A_WORD: f64 = 0.01;

/// Every caveat of a report, a sentence each.
pub(super) fn of(report: &Report) -> Vec<String> {
    let names = &Names::of(report);
    let incomplete =
        "incomplete: not every visit was made, or not everything is as it was measured";
    let incomplete = (!report.complete).then(|| incomplete.to_owned());
    let first = incomplete.into_iter().chain(report.guard.warnings());
    let of_levels = report.levels.iter().flat_map(|level| {
        let found = OfLevel { names, level }.all().into_iter();
        found.map(|text| (Some(&level.load), text))
    });
    let last = [
        unchecked(names),
        fell_back(names),
        attribution::doubted(names),
    ];
    let mut caveats = Caveats::default();
    first.for_each(|text| caveats.add(None, text));
    of_levels.for_each(|(level, text)| caveats.add(level, text));
    last.into_iter()
        .flatten()
        .for_each(|text| caveats.add(None, text));
    caveats.told(report.levels.len())
}

/// Caveats with the levels that have them.
#[derive(Default)]
struct Caveats<'a>(Vec<(Vec<&'a Load>, String)>);

impl<'a> Caveats<'a> {
    fn add(&mut self, level: Option<&'a Load>, text: String) {
        match self.0.iter_mut().find(|(_, known)| *known == text) {
            Some((levels, _)) => levels.extend(level),
            None => self.0.push((level.into_iter().collect(), text)),
        }
    }

    /// Levels are named unless all of them have it.
    fn told(self, levels: usize) -> Vec<String> {
        let told = self.0.into_iter().map(|(of, text)| {
            if of.is_empty() || of.len() == levels {
                return text;
            }
            let of: Vec<String> = of.iter().map(ToString::to_string).collect();
            format!("{}: {text}", of.join(", "))
        });
        told.collect()
    }
}

/// What is to be doubted about a gas level.
struct OfLevel<'a> {
    names: &'a Names<'a>,
    level: &'a Level,
}

impl OfLevel<'_> {
    fn all(&self) -> Vec<String> {
        let level = self.level;
        let mut found = Vec::new();
        for edge in &level.edges {
            let end = match edge.end {
                End::Smallest => "smallest",
                End::Largest => "largest",
            };
            let axis = match self.names.keys.len() {
                1 => String::new(),
                _ => format!(" of {}", self.names.column(&edge.axis)),
            };
            found.push(format!(
                "{} is the {end} value{axis} tried, and among the best: extend {}",
                edge.value,
                names::option_of(&edge.axis)
            ));
        }
        if let Some(lost) = &level.lost_baseline {
            let lost = self.names.label_of(lost);
            found.push(format!(
                "the baseline {lost} gave no number, so the highest stands in for it"
            ));
        }
        if level.inert {
            found.push(
                "the chunk size changed nothing that the engine counts: cells that differ in it alone did the \
                 same work"
                    .to_owned(),
            );
        }
        found.extend(self.stall());
        found.extend(self.steady());
        if !level.unsteady.is_empty() {
            found.push(format!(
                "{} varied more than the other cells and is judged by its own noise",
                self.names.listed(&level.unsteady)
            ));
        }
        found.extend(self.controls());
        found.extend(self.pairs());
        found.extend(self.unresolved());
        found
    }

    fn cells(&self) -> impl Iterator<Item = &Summary> {
        self.names.report.cells_of(self.level)
    }

    /// One payload that took much of a pass.
    fn stall(&self) -> Option<String> {
        let mut stalls = self.names.report.stalls.iter();
        let Stall {
            cell,
            round,
            payload,
            block_number,
            ms,
            part,
            passes,
            of,
            ..
        } = stalls.find(|stall| stall.load == self.level.load)?;
        Some(format!(
            "payload {payload} (block {block_number}) took {ms:.0} ms, {:.0} % of its pass, in round {round} of {}; \
             {passes} of {of} passes have one that takes more than a fifth: its cost is in the averages, and \
             --trace worst:1 shows where it goes",
            100.0 * part,
            self.names.label_of(cell)
        ))
    }

    /// Passes whose blocks got faster or slower while they were measured.
    fn steady(&self) -> Option<String> {
        let tested = self.cells();
        let tested = tested.filter_map(|cell| Some((cell, cell.steady_state?)));
        let tested: Vec<_> = tested.collect();
        let moved: Vec<_> = tested.iter().filter(|(_, found)| !found.steady).collect();
        let shifts = |longer: bool| {
            let shifts = moved.iter().map(|(_, found)| 100.0 * found.relative);
            let shifts = shifts.filter(|shift| (*shift > 0.0) == longer);
            range(shifts.map(f64::abs))
        };
        let (longer, shorter) = (shifts(true), shifts(false));
        let amounts = match (longer, &shorter) {
            (None, None) => return None,
            (Some(longer), None) => format!("{longer} % longer"),
            (None, Some(shorter)) => format!("{shorter} % less time"),
            (Some(longer), Some(shorter)) => format!("{longer} % longer or {shorter} % less time"),
        };
        let who = match moved.len() {
            _ if tested.len() == 1 => String::new(),
            all if all == tested.len() => " in any cell".to_owned(),
            _ => {
                let ids = moved.iter().map(|(cell, _)| &cell.id);
                format!(" in {}", self.names.listed(ids))
            }
        };
        let advice = match (shorter, self.names.report.configuration.warmup) {
            (Some(_), WarmUp::None | WarmUp::First(_)) => "give --warmup full",
            _ => {
                "ratios hold for passes of this length, and a larger --count shows whether it goes on"
            }
        };
        Some(format!(
            "no steady state{who}: blocks take {amounts} late in the pass{}; {advice}",
            stalled(moved.iter().map(|(cell, _)| *cell))
        ))
    }

    /// A/A controls that differ from their originals although nothing differs.
    fn controls(&self) -> Vec<String> {
        let controls = self.names.report.noise_floor.controls.iter();
        let controls = controls.filter(|control| self.names.report.is_of(self.level, &control.of));
        let differing = controls.filter_map(|control| {
            let (low, high) = control.ratio.ends()?;
            (low > 1.0 || high < 1.0).then(|| {
                format!(
                    "the A/A control of {} differs from it by {:.1} %: something else than the settings moves \
                     the numbers",
                    self.names.label_of(&control.of),
                    100.0 * (control.ratio.value - 1.0).abs()
                )
            })
        });
        differing.collect()
    }

    /// Verdicts that something speaks against.
    fn pairs(&self) -> Vec<String> {
        let of_level = |pair: &&Comparison| self.names.report.is_of(self.level, &pair.a);
        let listed_pairs = |is: fn(&Comparison) -> bool| {
            let pairs = self.names.report.comparisons.iter().filter(of_level);
            let label = |id| self.names.label_of(id);
            let pairs = pairs.filter(|pair| is(pair));
            let pairs = pairs.map(|pair| format!("{} and {}", label(&pair.a), label(&pair.b)));
            Some(listed(pairs)).filter(|pairs| !pairs.is_empty())
        };
        let unexplained = listed_pairs(Comparison::is_unexplained).map(|pairs| {
            format!(
                "{pairs} differ, although the chunk size alone is not the same and the engine did the same work \
                 in both: something else moves the numbers"
            )
        });
        let doubted = listed_pairs(Comparison::is_doubted).map(|pairs| {
            format!(
                "resampling rounds and blocks does not confirm that {pairs} differ: repeat with more rounds"
            )
        });
        unexplained.into_iter().chain(doubted).collect()
    }

    /// Intervals that stayed wider than was asked for.
    fn unresolved(&self) -> Option<String> {
        let adaptive = self.names.report.adaptive.as_ref()?;
        let reached = adaptive.decisions.iter().rev().find_map(|decision| {
            let mut levels = decision.levels.iter();
            let found = levels.find(|found| found.load == self.level.load)?;
            Some((decision.after_round, found))
        });
        let Some((round, found)) = reached else {
            return (adaptive.rounds < PILOT_ROUNDS).then(|| self.ended_in_pilot(adaptive));
        };
        let is_over = self.level.best.len() > 1 && found.given_rounds == 0;
        let wide = |half: &f64| is_over && *half > adaptive.precision;
        let half = found.precision.filter(wide)?;
        let way = match found.wanted_rounds.saturating_sub(round) {
            0 => "of what was open, no round was likely to separate anything; --rounds makes as many as you give"
                .to_owned(),
            more => format!(
                "which takes {more} more rounds ({:.0} min) where visits vary as they did; give a longer --budget",
                (more as f64 * found.round_s / 60.0).ceil()
            ),
        };
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        Some(format!(
            "intervals are ±{} at the end, not the ±{} of --precision: {way}",
            percent(half),
            percent(adaptive.precision)
        ))
    }

    /// What a sweep that ended before its pilot did has left out.
    fn ended_in_pilot(&self, adaptive: &AdaptiveReport) -> String {
        let never = self.cells();
        let never = never.filter(|cell| cell.visits + cell.failed_visits == 0);
        let never = self.names.listed(never.map(|cell| &cell.id));
        let budget = adaptive.budget_s.filter(|_| self.names.report.complete);
        let why = budget.map_or(String::new(), |s| {
            format!(", because its budget of {s} s was spent")
        });
        let what = match never.as_str() {
            "" => String::new(),
            never => format!("; never measured: {never}"),
        };
        let round = adaptive.rounds;
        format!("the sweep ended in its pilot, in round {round} of {PILOT_ROUNDS}{why}{what}")
    }
}

/// How long engines of cells say that persistence held them up, where they say so.
fn stalled<'a>(cells: impl Iterator<Item = &'a Summary>) -> String {
    let parts = cells.filter_map(|cell| {
        let of = cell.attribution.as_ref()?;
        let stall = of.beside.iter().find(|phase| phase.key == "stall")?;
        let part = stall.ms_per_block / of.total_ms();
        (part >= WORTH_A_WORD).then_some(100.0 * part)
    });
    range(parts).map_or(String::new(), |range| {
        format!(" (engines waited for persistence {range} % of the time)")
    })
}

/// `6 to 14`, in whole percents of at least one; nothing of nothing.
fn range(percents: impl Iterator<Item = f64>) -> Option<String> {
    let whole = percents.map(|percent| percent.round().max(1.0) as u64);
    let whole: BTreeSet<u64> = whole.collect();
    let (least, most) = (whole.first()?, whole.last()?);
    Some(match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    })
}

/// Cells whose engine was told not to check state roots.
fn unchecked(names: &Names<'_>) -> Option<String> {
    let cells = names.report.cells.iter();
    let cells = cells.filter(|cell| !cell.root_checked);
    let labels: BTreeSet<String> = cells.map(|cell| names.label(cell)).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "root not checked in {} (marked {UNCHECKED_MARK}): without the state root a block is not validated, so \
             these figures say what the rest costs and nothing about an engine in use",
            listed(labels)
        )
    })
}

/// Cells whose engine left the path that was to be measured.
fn fell_back(names: &Names<'_>) -> Option<String> {
    let cells = names.report.cells.iter();
    let cells = cells.filter(|cell| cell.fallbacks > 0);
    let labels: BTreeSet<String> = cells.clone().map(|cell| names.label(cell)).collect();
    (!labels.is_empty()).then(|| {
        let lines: u64 = cells.map(|cell| cell.fallbacks).sum();
        format!(
            "the engine left the path that was to be measured in {} (marked {FALLBACK_MARK}), by {lines} lines of its \
             log: these figures are kept for --allow-fallback, and say what the way round costs",
            listed(labels)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analyze::{
            Outcome,
            made_up::{MadeUp, sweep},
        },
        record::{PassMetrics, sample::tests::sample},
    };
    use engine_api::metric::{self, Metric};

    /// What is said of two cells whose payloads take `late` times as long in the second half of a pass, which
    /// has `stall` more milliseconds at its third payload.
    fn said(late: [f64; 2], stall: u64, warmup: WarmUp) -> Vec<String> {
        Report::of(&outcome(late, stall, warmup)).warnings
    }

    fn outcome(late: [f64; 2], stall: u64, warmup: WarmUp) -> Outcome {
        let mut outcome = sweep(&["60", "240"].map(|chunk| MadeUp::chunk(chunk, &[])));
        outcome.history.plan.settings.warmup = warmup;
        for (cell, late) in outcome.plan.cells.clone().iter().zip(late) {
            let pass = (0..40u64).map(|number| {
                let part = if number < 20 { 1.0 } else { late };
                let ns = (part * 1e7) as u64 + 10_000 * (number % 3);
                let extra = if number == 2 { 1_000_000 * stall } else { 0 };
                sample(number + 1, 10_000_000, ns + extra, 0)
            });
            let rounds = [(1, pass.collect())];
            outcome.passes.insert(cell.id.clone(), rounds.into());
        }
        outcome
    }

    #[test]
    fn one_trouble_of_many_cells_is_one_caveat_and_says_what_was_measured() {
        let goes_on =
            "ratios hold for passes of this length, and a larger --count shows whether it goes on";
        for (late, warmup, expected) in [
            ([1.0, 1.0], WarmUp::Full, None),
            (
                [1.1, 1.2],
                WarmUp::Full,
                Some(("any cell", "10 to 20 % longer", goes_on)),
            ),
            (
                [1.0, 0.9],
                WarmUp::Full,
                Some(("240", "10 % less time", goes_on)),
            ),
            (
                [1.1, 0.95],
                WarmUp::None,
                Some((
                    "any cell",
                    "10 % longer or 5 % less time",
                    "give --warmup full",
                )),
            ),
        ] {
            let expected = expected.map(|(who, amounts, advice)| {
                format!(
                    "no steady state in {who}: blocks take {amounts} late in the pass; {advice}"
                )
            });
            let found = said(late, 0, warmup);
            assert_eq!(found, Vec::from_iter(expected), "{late:?}");
        }
    }

    #[test]
    fn a_pass_that_waited_for_persistence_says_how_long() {
        let mut outcome = outcome([1.1, 1.2], 0, WarmUp::Full);
        for (cell, waited_s) in outcome.plan.cells.clone().iter().zip([0.042, 0.088]) {
            let exported = |grown: f64| {
                let sum = |Metric { name, .. }: Metric, s: f64| {
                    format!("{name}_sum {}\n{name}_count 1\n", grown * s)
                };
                sum(metric::NEW_PAYLOAD_LATENCY, 0.4) + &sum(metric::BACKPRESSURE, waited_s)
            };
            let metrics = PassMetrics::parse(&exported(1.0), &exported(2.0));
            let rounds = [(1, metrics)];
            outcome.metrics.insert(cell.id.clone(), rounds.into());
        }
        let found = Report::of(&outcome).warnings.concat();
        let expected = "late in the pass (engines waited for persistence 10 to 20 % of the time); ";
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn a_payload_that_took_much_of_a_pass_is_named_with_its_time() {
        let found = said([1.0, 1.0], 2_000, WarmUp::Full);
        let expected = "payload 3 (block 3) took 2010 ms, 84 % of its pass, in round 1 of 240; 2 of 2 passes have one \
                        that takes more than a fifth: its cost is in the averages, and --trace worst:1 shows where \
                        it goes";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn caveats_name_levels_unless_all_have_them() {
        let loads = [10_000_000, 40_000_000].map(|gas| Load {
            gas: crate::sweep::Gas(gas),
            mix: None,
        });
        let mut caveats = Caveats::default();
        caveats.add(Some(&loads[0]), "a".into());
        caveats.add(Some(&loads[0]), "b".into());
        caveats.add(None, "c".into());
        caveats.add(Some(&loads[1]), "a".into());
        assert_eq!(caveats.told(2), ["a", "10M: b", "c"]);
    }
}
