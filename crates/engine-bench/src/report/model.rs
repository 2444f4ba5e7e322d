//! `report.json`: what a sweep found, in the agreed shape.
//!
//! Invariant: a field that is unknown is null; no interval and no verdict is invented.

use super::{
    attribution::{self, ChangeReport},
    caveats,
    guard::GuardReport,
    visits::{VisitReport, visits},
};
use crate::{
    analyze::{
        self, Comparison, Level, NoiseFloor, Outcome, Ratio, Resets, Stall, Summary, Widths,
    },
    figures,
    guard::Preflight,
    profile::CellProfile,
    record::{Decision, Environment, Failure, Manifest, TimeSplit},
    sweep::{EngineSpec, Settings},
    trace::CellTraces,
};
use serde::Serialize;

const FORMAT: &str = "engine-bench-report";
const VERSION: u64 = 2;

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `engine-bench-report`.
    pub format: &'static str,
    /// Version of the format.
    pub version: u64,
    /// When the first visit began, as Unix time in milliseconds; 0 when none did.
    pub begun_unix_ms: u64,
    /// Whether every visit was made.
    pub complete: bool,
    /// One entry per cell, in the order of the plan.
    pub cells: Vec<Summary>,
    /// One entry per gas level.
    pub levels: Vec<Level>,
    /// Pairs of cells of a level that share a round.
    pub comparisons: Vec<Comparison>,
    /// How much identical cells differ.
    pub noise_floor: NoiseFloor,
    /// How wide intervals were after every round, by gas level; empty with one round.
    pub widths: Vec<Widths>,
    /// Payloads that alone took much of a pass: the worst of each gas level that has one.
    pub stalls: Vec<Stall>,
    /// What moved between each cell and the reference of its level.
    pub attribution: Vec<ChangeReport>,
    /// Traces of single blocks that were made after everything was measured.
    pub traces: Vec<CellTraces>,
    /// Profiles that were made after everything was measured.
    pub profiles: Vec<CellProfile>,
    /// How the rounds of an adaptive sweep were decided; null when their number was given.
    pub adaptive: Option<AdaptiveReport>,
    /// What a reader should doubt, a sentence each.
    pub warnings: Vec<String>,
    /// Every visit in the order they were made, A/A controls included.
    pub visits: Vec<VisitReport>,
    /// Where the time went.
    pub time_s: TimeSplit,
    /// What bringing datadirs back took.
    pub resets: Vec<Resets>,
    /// Part of the wall time in which an engine was answering payloads, 0 to 1.
    pub answering_fraction: f64,
    /// What gave no number.
    pub failures: Vec<Failure>,
    /// Disturbances, and what watching for them cost.
    pub guard: GuardReport,
    /// The machine and the engines.
    pub environment: EnvironmentReport,
    /// The resolved settings.
    pub configuration: Settings,
}

/// How the rounds of an adaptive sweep were decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdaptiveReport {
    /// Half width that intervals were to reach, relative.
    pub precision: f64,
    /// Time it was given, in seconds; null without a budget.
    pub budget_s: Option<f64>,
    /// Rounds made, also partly.
    pub rounds: u64,
    /// Every decision, in order.
    pub decisions: Vec<Decision>,
}

/// The machine and the engines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnvironmentReport {
    /// The machine.
    pub machine: Environment,
    /// Engines as they call themselves.
    pub engines: Vec<String>,
    /// What makes measurements worse on it; absent when nothing was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// What was measured, by content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
}

impl Report {
    /// Computes the report of a sweep.
    pub fn of(outcome: &Outcome) -> Self {
        let cells = analyze::summarize(outcome);
        let comparisons = analyze::compare(outcome, &cells);
        let first = outcome.attempts.first();
        let begun = outcome.begun.clone().unwrap_or_default();
        let mut report = Self {
            format: FORMAT,
            version: VERSION,
            begun_unix_ms: first.map_or(0, |attempt| attempt.began_unix_ms),
            complete: outcome.complete && outcome.edited.is_empty(),
            cells,
            levels: comparisons.levels,
            comparisons: comparisons.pairs,
            noise_floor: comparisons.noise_floor,
            widths: analyze::widths(outcome),
            stalls: analyze::stalls(outcome),
            attribution: Vec::new(),
            traces: outcome.traces.clone(),
            profiles: outcome.profiles.clone(),
            adaptive: AdaptiveReport::of(outcome),
            warnings: Vec::new(),
            visits: visits(outcome),
            time_s: outcome.time_s,
            resets: analyze::resets(outcome),
            answering_fraction: outcome.time_s.answering(),
            failures: outcome.failures.clone(),
            guard: GuardReport::of(outcome),
            environment: EnvironmentReport {
                manifest: outcome.manifest().cloned(),
                machine: begun.environment,
                engines: begun.engine_versions,
                preflight: begun.preflight,
            },
            configuration: outcome.plan.settings.clone(),
        };
        report.attribution = attribution::changes(outcome, &report);
        report.warnings = [&outcome.edited[..], &outcome.notes, &caveats::of(&report)].concat();
        report
    }

    /// The cell of that id.
    pub(super) fn cell(&self, id: &str) -> Option<&Summary> {
        self.cells.iter().find(|cell| cell.id == id)
    }

    /// The cell that an A/A control repeats; a cell itself.
    pub(super) fn original<'i>(&'i self, id: &'i str) -> &'i str {
        let mut controls = self.noise_floor.controls.iter();
        let found = controls.find(|control| control.id == id);
        found.map_or(id, |control| &control.of)
    }

    /// The command line that began the sweep, where it was kept.
    pub(super) fn command(&self) -> Option<&str> {
        let manifest = self.environment.manifest.as_ref()?;
        (!manifest.command.is_empty()).then_some(&manifest.command)
    }

    /// What an engine's help calls the default of a flag.
    pub(super) fn default_of(&self, engine: &str, flag: &str) -> Option<String> {
        let manifest = self.environment.manifest.as_ref()?;
        let engine = manifest.engines.iter().find(|sum| sum.name == engine)?;
        engine.defaults.get(flag).cloned()
    }

    /// What an engine is started with in every cell, if it has the flag: the sweep's value before its own.
    pub(super) fn set_of<'r>(&'r self, engine: &'r EngineSpec, flag: &str) -> Option<&'r String> {
        let all = self.configuration.set.iter().chain(&engine.set);
        let mut all = all.filter(|_| !engine.lacks.iter().any(|lacking| lacking == flag));
        all.find(|set| set.flag == flag).map(|set| &set.value)
    }

    /// The cells of a level, in the order of the plan.
    pub(super) fn cells_of<'r>(&'r self, level: &Level) -> impl Iterator<Item = &'r Summary> {
        let cells = self.cells.iter();
        cells.filter(|cell| level.load.is_of(&cell.cell))
    }

    /// Whether the cell of that id is of a level.
    pub(super) fn is_of(&self, level: &Level, id: &str) -> bool {
        self.cell(id)
            .is_some_and(|cell| level.load.is_of(&cell.cell))
    }

    /// Whether any cell has a number.
    pub fn measured_anything(&self) -> bool {
        let mut cells = self.cells.iter();
        cells.any(|cell| cell.execution_ggas_per_second.is_some())
    }

    /// The text of `report.json`.
    ///
    /// # Errors
    /// Never for a report made by [`Report::of`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

impl AdaptiveReport {
    fn of(outcome: &Outcome) -> Option<Self> {
        let adaptive = outcome.plan.settings.adaptive?;
        let rounds = outcome.passes.values().flat_map(|rounds| rounds.keys());
        Some(Self {
            precision: adaptive.precision,
            budget_s: adaptive.budget_s,
            rounds: rounds.max().copied().unwrap_or(0),
            decisions: outcome.decisions.clone(),
        })
    }
}

impl Ratio {
    /// The value with the half width of its interval.
    pub(super) fn text(&self) -> String {
        figures::with_half_width(self.value, self.ends())
    }

    /// Half the width of its interval relative to the value, where that is known.
    pub(super) fn relative_half(&self) -> Option<f64> {
        let ends = self.ends().filter(|ends| figures::is_telling(*ends));
        ends.map(|(low, high)| (high - low) / 2.0 / self.value)
    }
}
