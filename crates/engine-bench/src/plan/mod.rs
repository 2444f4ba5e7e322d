//! What will be measured, in which order: `plan.json`.
//!
//! Invariant: the plan is a pure function of the settings, so the same sweep planned twice is the
//! same plan, and a resumed one keeps its order. Cell ids are unique and safe as file names.

mod cells;
mod order;

pub(crate) use order::turns;

use crate::{
    files::failed,
    sweep::{Gas, MIX_AXIS, Settings},
};
use bench_stats::rounds::PILOT_ROUNDS;
use eyre::{Result, bail, ensure, eyre};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{fs::File, io::Write as _, path::Path};

/// Name of the plan inside a results folder.
pub const PLAN_FILE: &str = "plan.json";

const FORMAT: &str = "engine-bench-plan";
const VERSION: u64 = 2;

/// What a file of a results folder says that it is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Format {
    format: String,
    version: u64,
}

impl Format {
    pub(crate) fn of(format: &str, version: u64) -> Self {
        let format = format.to_owned();
        Self { format, version }
    }

    /// Refuses JSON that does not say this format and version: what it is, and what to do.
    pub(crate) fn check(json: &[u8], format: &str, version: u64) -> Result<(), String> {
        let found: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if found.format != format {
            return Err(format!(
                "it is not of the format {format}; give the results folder of a sweep"
            ));
        }
        if found.version != version {
            return Err(format!(
                "it is of version {}, and this program reads version {version}: use the program that wrote it, \
                 or measure anew",
                found.version
            ));
        }
        Ok(())
    }
}

/// Cells that a sweep may have without being asked twice.
const MOST_CELLS_UNASKED: u128 = 1_000;

/// Cells that a sweep may have at all.
const MOST_CELLS: u128 = 1_000_000;

/// Cells that a message lists.
const LISTED_CELLS: usize = 40;

/// Visits that a plan may list.
const MOST_VISITS: u128 = 10_000_000;

/// A sweep, planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Always `engine-bench-plan`.
    pub format: String,
    /// Version of the format.
    pub version: u64,
    /// Every resolved value.
    pub settings: Settings,
    /// The points of the sweep.
    pub cells: Vec<Cell>,
    /// Cells that are visited once more under another name, to learn how much identical cells differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Cell>,
    /// Every visit, in order.
    pub visits: Vec<Visit>,
    /// What the plan will take.
    pub estimate: Estimate,
    /// What the settings mean for some of the engines, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One point of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Readable, unique in the sweep, safe as a file name.
    pub id: String,
    /// Name of the engine.
    pub engine: String,
    /// Flags of this cell, without dashes, with their values.
    pub flags: Vec<(String, String)>,
    /// Gas level.
    pub gas: Gas,
    /// Id of the cell that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_of: Option<String>,
}

impl Cell {
    /// What the payloads of the cell are.
    pub fn load(&self) -> Load {
        Load {
            gas: self.gas,
            mix: self.mix().map(str::to_owned),
        }
    }

    /// The mix of transactions, where mixes are an axis.
    pub fn mix(&self) -> Option<&str> {
        self.flag(MIX_AXIS)
    }

    /// The value of a flag.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let found = self.flags.iter().find(|(flag, _)| flag == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the other cell is the same but for the value of a flag at most.
    pub fn differs_only_in(&self, flag: &str, other: &Self) -> bool {
        let [own, others] = [self, other].map(|cell| {
            let rest = cell.flags.iter().filter(|(name, _)| name != flag);
            rest.collect::<Vec<_>>()
        });
        self.engine == other.engine && self.gas == other.gas && own == others
    }

    /// Whether both replay the same payloads: only then are their throughputs compared.
    pub fn shares_payloads(&self, other: &Self) -> bool {
        self.gas == other.gas && self.mix() == other.mix()
    }

    /// The axes of the cell as reports name them: `engine`, each flag, `gas`. Whole numbers are
    /// numbers.
    pub fn axes(&self) -> Map<String, Value> {
        let mut axes = self.knobs();
        axes.insert("gas".to_owned(), self.gas.0.into());
        axes
    }

    /// The axes without the gas level: what is ranked across gas levels.
    pub fn knobs(&self) -> Map<String, Value> {
        let mut axes = Map::new();
        axes.insert("engine".to_owned(), self.engine.clone().into());
        for (flag, text) in &self.flags {
            let number = text.parse::<u64>().map(Value::from);
            let value = number.unwrap_or_else(|_| text.clone().into());
            axes.insert(flag.clone(), value);
        }
        axes
    }
}

/// A list of payloads of the sweep: a gas level, of one mix where mixes are an axis. Cells of one load
/// are compared, others are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The gas level.
    pub gas: Gas,
    /// The mix of transactions, where mixes are an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<String>,
}

impl Load {
    /// Whether a cell replays these payloads.
    pub fn is_of(&self, cell: &Cell) -> bool {
        self.gas == cell.gas && self.mix.as_deref() == cell.mix()
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.mix {
            Some(mix) => write!(f, "{} {mix}", self.gas),
            None => self.gas.fmt(f),
        }
    }
}

/// One visit of a cell in a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Counted from 1.
    pub round: u64,
    /// Id of the cell.
    pub cell: String,
}

impl Visit {
    /// The name of the visit's folder: `<round>-<cell>`.
    pub fn id(&self) -> String {
        format!("{}-{}", self.round, self.cell)
    }
}

/// What a plan will take once state and payloads exist. Rough: it assumes a throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Throughput assumed, in gigagas per second.
    pub assumed_ggas_per_second: f64,
    /// Time assumed for a reset, a start and a stop together, in seconds.
    pub assumed_restart_s: f64,
    /// Starts of the engine.
    pub starts: u64,
    /// Gas replayed in all passes, warm-ups included; 0 when the payload folder decides.
    pub gas: u64,
    /// Duration in seconds, deliberate waits included.
    pub duration_s: f64,
}

/// What the settings mean for engines and for the budget, a sentence each.
fn notes(settings: &Settings, estimate: &Estimate) -> Vec<String> {
    let mut notes = cells::notes(settings);
    let budget_s = settings.adaptive.and_then(|adaptive| adaptive.budget_s);
    let pilot_s = estimate.duration_s;
    if let Some(budget_s) = budget_s.filter(|budget_s| *budget_s < pilot_s) {
        notes.push(format!(
            "the first {PILOT_ROUNDS} rounds are estimated at {} and the budget is {}, so the sweep may end \
             without intervals and verdicts; give a longer --budget",
            human(pilot_s),
            human(budget_s)
        ));
    }
    notes
}

/// A duration as people say it.
fn human(seconds: f64) -> String {
    const DAY_S: f64 = 86_400.0;
    match seconds {
        s if s >= 2.0 * DAY_S => format!("{:.0} days", s / DAY_S),
        s if s >= 7_200.0 => format!("{:.0} hours", s / 3_600.0),
        s if s >= 120.0 => format!("{:.0} minutes", s / 60.0),
        s => format!("{s:.0} seconds"),
    }
}

/// Cells up to which it is worth finding out how many are left after exclusions.
const FEW_CELLS: u128 = 64;

/// Whether a sweep has just two cells, A/A controls not counted.
pub(crate) fn is_pair(settings: &Settings) -> bool {
    cells::count(settings) <= FEW_CELLS && cells::of(settings).len() == 2
}

impl Plan {
    /// Plans a sweep that a person asked for; `yes` when they know that it is large.
    ///
    /// # Errors
    /// When it has no cell, or too many.
    pub fn asked(settings: Settings, yes: bool) -> Result<Self> {
        let most = cells::count(&settings);
        ensure!(
            most <= MOST_CELLS,
            "the axes make {most} cells, and a sweep has at most {MOST_CELLS}; give fewer values, --exclude or \
             --design one-at-a-time"
        );
        let cells = cells::of(&settings).len() as u128;
        ensure!(
            cells > 0,
            "--exclude leaves no cell to measure; omit one of the exclusions"
        );
        let rounds = settings.rounds;
        let visits = cells * u128::from(rounds);
        ensure!(
            visits <= MOST_VISITS,
            "{cells} cells × {rounds} rounds are {visits} visits, and a sweep has at most {MOST_VISITS}; give \
             fewer --rounds"
        );
        let plan = Self::new(settings);
        ensure!(
            cells <= MOST_CELLS_UNASKED || yes,
            "the sweep has {cells} cells and would take about {} once state and payloads exist; give fewer values, \
             --exclude or --design one-at-a-time, or --yes to measure them all",
            human(plan.estimate.duration_s)
        );
        plan.with_baseline(None)
    }

    /// Plans a sweep.
    pub fn new(settings: Settings) -> Self {
        let cells = cells::of(&settings);
        let controls = cells::controls(&settings, &cells);
        let all: Vec<&Cell> = cells.iter().chain(&controls).collect();
        let visits = order::visits(&settings, &all);
        let estimate = cells::estimate(&settings, &all);
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            notes: notes(&settings, &estimate),
            settings,
            cells,
            controls,
            visits,
            estimate,
        }
    }

    /// The loads of the cells, in their order.
    pub fn loads(&self) -> Vec<Load> {
        let firsts = cells::firsts(&self.cells).into_iter();
        firsts.map(Cell::load).collect()
    }

    /// The cell of a load that `--baseline` names.
    pub fn baseline(&self, load: &Load) -> Option<&Cell> {
        let name = self.settings.baseline.as_deref()?;
        let mut cells = self.cells.iter().filter(|cell| load.is_of(cell));
        cells.find(|cell| cells::is_called(&self.settings, cell, name))
    }

    /// The plan with another baseline than the one it was made with, if any.
    ///
    /// # Errors
    /// When it names no cell.
    pub fn with_baseline(mut self, name: Option<String>) -> Result<Self> {
        self.settings.baseline = name.or(self.settings.baseline);
        let mut loads = self.loads().into_iter();
        match &self.settings.baseline {
            Some(name) if loads.all(|load| self.baseline(&load).is_none()) => bail!(
                "--baseline {name} names no cell of the sweep; give an id, or its part without gas and mix, of {}",
                self.some_ids()
            ),
            _ => Ok(self),
        }
    }

    /// Ids of its cells, for a message; of many the first.
    pub fn some_ids(&self) -> String {
        let ids = self.cells.iter().map(|cell| cell.id.as_str());
        let listed: Vec<&str> = ids.take(LISTED_CELLS).collect();
        let more = match self.cells.len() - listed.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        listed.join(", ") + &more
    }

    /// The cell or A/A control of that id.
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        let mut all = self.cells.iter().chain(&self.controls);
        all.find(|cell| cell.id == id)
    }

    /// Passes of a visit: two, or one without warm-up.
    pub fn passes(&self) -> u64 {
        cells::passes(&self.settings)
    }

    /// The plan as the text of `plan.json`.
    ///
    /// # Errors
    /// Never for a plan made by [`Plan::new`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// Writes `plan.json` into a results folder and waits until it is on disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(PLAN_FILE);
        // The journal's lines survive a loss of power, and are worth nothing without the plan.
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(self.to_json()?.as_bytes())?;
            file.sync_all()?;
            File::open(dir)?.sync_all()
        };
        write().map_err(failed("write", &path))
    }

    /// Reads `plan.json` of a results folder.
    ///
    /// # Errors
    /// When there is none or it is not one.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(PLAN_FILE);
        let json = std::fs::read(&path).map_err(failed("read", &path))?;
        // Before anything else is looked for: another version has other fields.
        let plan = Format::check(&json, FORMAT, VERSION)
            .and_then(|()| serde_json::from_slice(&json).map_err(|error| error.to_string()));
        plan.map_err(|reason| eyre!("failed to read the plan {}: {reason}", path.display()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        resolve::resolve,
        sweep::{CHUNK_SIZE_FLAG, EngineKind, EngineSpec, ResetMethod},
    };
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Settings without anything of this machine in them.
    pub(crate) fn settings(flags: &str) -> Settings {
        use clap::Parser as _;
        let line = format!("engine-bench sweep --cache-dir /cache {flags}");
        let cli = crate::cli::Cli::try_parse_from(line.split_whitespace()).unwrap();
        let crate::cli::Verb::Sweep(args) = cli.verb else {
            panic!("not a sweep")
        };
        let mut settings = resolve(&args).unwrap();
        settings.engines[0].program = "/bin/engine-bench".into();
        settings
    }

    #[test]
    fn plan_of_the_first_command() {
        let plan = Plan::new(settings("--chunks 15,30,60 --gas 10M,40M"));
        insta::assert_snapshot!(plan.to_json().unwrap());
    }

    #[test]
    fn a_budget_below_the_pilot_is_remarked_on() {
        let notes = |budget| Plan::new(settings(&format!("--chunks 15,60 {budget}"))).notes;
        let [note] = &notes("--budget 20s")[..] else {
            panic!("one note")
        };
        assert!(note.contains("2 rounds") && note.contains("the budget is 20 seconds"));
        for enough in ["--budget 60m", "", "--rounds 3"] {
            assert!(notes(enough).is_empty(), "{enough}");
        }
    }

    #[test]
    fn an_engine_without_a_flag_has_one_cell_for_all_its_values() {
        let mut settings = settings("--chunks 15,30 --axis env:A=1,2 --gas 10M,40M");
        settings.engines.push(EngineSpec {
            name: "geth".into(),
            program: "/bin/geth".into(),
            kind: EngineKind::Geth,
            lacks: vec![CHUNK_SIZE_FLAG.into()],
            ..EngineSpec::default()
        });
        let plan = Plan::new(settings);
        let ids: Vec<_> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        insta::assert_snapshot!(format!("{}\n\n{}", ids.join("\n"), plan.notes.join("\n")));
    }

    #[test]
    fn designs_and_exclusions_choose_cells() {
        let with = |more: &str| {
            let flags = format!("--chunks 5,15,60 --axis engine.w=1,2 {more}");
            let plan = Plan::asked(settings(&flags), false).unwrap();
            let ids = plan.cells.into_iter().map(|cell| cell.id);
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(with("").split(' ').count(), 6);
        for (flags, ids) in [
            (
                "--design one-at-a-time",
                "chunk5-w_1-gas10M chunk15-w_1-gas10M chunk60-w_1-gas10M chunk5-w_2-gas10M",
            ),
            (
                "--design one-at-a-time --base engine.w=2 --gas 2M",
                "chunk5-w_2-gas2M chunk15-w_2-gas2M chunk60-w_2-gas2M chunk5-w_1-gas2M",
            ),
            (
                "--exclude engine.w=2,engine.multiproof-chunk-size=60 --exclude engine.w=1,gas=10M",
                "chunk5-w_2-gas10M chunk15-w_2-gas10M",
            ),
        ] {
            assert_eq!(with(flags), ids, "{flags}");
        }
        let mixed = with("--mix mainnet,whale --design one-at-a-time");
        let mixed: Vec<_> = mixed.split(' ').collect();
        assert_eq!(mixed.len(), 8);
        let bases = [mixed[0], mixed[4]];
        assert_eq!(
            bases,
            ["mainnet-chunk5-w_1-gas10M", "whale-chunk5-w_1-gas10M"]
        );
    }

    #[test]
    fn sweeps_that_are_too_large_or_empty_are_refused_with_their_size() {
        let axis = |name: char, values: u32| {
            let values: Vec<String> = (1..=values).map(|n| n.to_string()).collect();
            format!("--axis engine.{name}={}", values.join(","))
        };
        let asked = |flags: &str, yes: bool| Plan::asked(settings(flags), yes);
        let large = [axis('a', 100), axis('b', 100), axis('c', 10)].join(" ");
        let huge = format!("{large} {}", axis('d', 100));
        assert_eq!(asked(&large, true).unwrap().cells.len(), 100_000);
        for (flags, yes, parts) in [
            (&*large, false, ["100000 cells", "days"]),
            (&*huge, true, ["10000000 cells", ""]),
            ("--chunks 5 --exclude gas=10M", true, ["leaves no cell", ""]),
            (
                "--chunks 5,15 --rounds 18446744073709551615",
                true,
                ["36893488147419103230 visits", ""],
            ),
        ] {
            let told = asked(flags, yes).unwrap_err().to_string();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        }
    }

    #[test]
    fn a_baseline_is_an_id_or_the_values_of_knobs() {
        let chunks = "--chunks 15,60 --gas 10M,40M";
        let mixes = "--chunks 15,60 --gas 10M,40M --mix mainnet,whale";
        for (flags, name, levels) in [
            (chunks, "chunk60", 2),
            (chunks, "chunk60-gas10M", 1),
            (mixes, "chunk60", 4),
            (mixes, "whale-chunk60-gas10M", 1),
            (chunks, "chunk6", 0),
            ("--gas 10M", "", 0),
        ] {
            let flags = format!("{flags} --baseline={name}");
            match Plan::asked(settings(&flags), false) {
                Ok(plan) => {
                    let loads = plan.loads().into_iter();
                    let found = loads.filter_map(|load| plan.baseline(&load).cloned());
                    assert_eq!(found.count(), levels, "{flags}");
                }
                Err(error) => {
                    let (told, named) = (error.to_string(), format!("--baseline {name} "));
                    assert!(levels == 0 && told.contains(&named), "{told}");
                }
            }
        }
    }

    #[test]
    fn reads_back_what_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan::new(settings("--axis engine.x=a,b --reset copy"));
        assert_eq!(plan.settings.reset, ResetMethod::Copy);
        plan.write(dir.path()).unwrap();
        assert_eq!(Plan::read(dir.path()).unwrap(), plan);
        for (text, said) in [
            (r#"{"format":"#, "EOF while parsing"),
            (
                r#"{"format":"engine-bench-journal"}"#,
                "it is not of the format engine-bench-plan",
            ),
            (
                r#"{"format":"engine-bench-plan","version":1}"#,
                "it is of version 1, and this program reads version 2: use the program that wrote it, or measure anew",
            ),
        ] {
            std::fs::write(dir.path().join(PLAN_FILE), text).unwrap();
            let refused = Plan::read(dir.path()).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn every_round_visits_every_cell_once(
            chunks in prop::collection::btree_set(1u64..500, 1..6),
            levels in prop::collection::btree_set(1u64..100, 1..4),
            rounds in 1u64..5,
            seed in any::<u64>(),
        ) {
            let list = |set: &BTreeSet<u64>, suffix: &str| {
                set.iter().map(|n| format!("{n}{suffix}")).collect::<Vec<_>>().join(",")
            };
            let (sizes, gas) = (list(&chunks, ""), list(&levels, "M"));
            let flags = format!("--chunks {sizes} --gas {gas} --rounds {rounds} --seed {seed}");
            let plan = Plan::new(settings(&flags));
            let all = plan.cells.iter().chain(&plan.controls);
            let ids: BTreeSet<_> = all.map(|cell| cell.id.clone()).collect();
            prop_assert_eq!(plan.cells.len(), chunks.len() * levels.len());
            let twice = if rounds > 1 && chunks.len() > 1 { levels.len() } else { 0 };
            prop_assert_eq!(ids.len(), plan.cells.len() + twice);
            for round in 1..=rounds {
                let visited: Vec<_> =
                    plan.visits.iter().filter(|v| v.round == round).map(|v| v.cell.clone()).collect();
                prop_assert_eq!(visited.len(), ids.len());
                prop_assert_eq!(&visited.into_iter().collect::<BTreeSet<_>>(), &ids);
            }
            prop_assert_eq!(&plan, &Plan::new(plan.settings.clone()));
        }
    }
}
