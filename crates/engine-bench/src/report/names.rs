//! How cells are called in a report: by what differs between them, and nothing else.
//!
//! Invariant: two cells of a gas level never share a name.

use super::{grid::NOTHING, model::Report};
use crate::{
    analyze::{Level, Summary},
    sweep::{CHUNK_SIZE_FLAG, MIX_AXIS},
};
use serde_json::Value;

/// The key of the engine among the axes of a cell.
const ENGINE: &str = "engine";

/// What cells of a sweep differ in beside their payloads.
pub(super) struct Names<'r> {
    pub(super) report: &'r Report,
    /// The keys among the axes of a cell.
    pub(super) keys: Vec<String>,
}

impl<'r> Names<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let settings = &report.configuration;
        let engine = (settings.engines.len() > 1).then(|| ENGINE.to_owned());
        let axes = settings.axes.iter().map(|axis| axis.flag.clone());
        let axes = axes.filter(|flag| flag != MIX_AXIS);
        let mut keys: Vec<String> = engine.into_iter().chain(axes).collect();
        if keys.is_empty() {
            keys.push(ENGINE.to_owned());
        }
        Self { report, keys }
    }

    /// What people call them.
    pub(super) fn columns(&self) -> Vec<String> {
        self.keys.iter().map(|key| self.column(key)).collect()
    }

    /// An axis without the group of flags it belongs to, unless that is what tells it from another.
    pub(super) fn column(&self, key: &str) -> String {
        let short = short(key);
        let alike = self.keys.iter().filter(|other| self::short(other) == short);
        if alike.count() > 1 { key } else { short }.to_owned()
    }

    /// A cell's values, one for each column.
    pub(super) fn values(&self, cell: &Summary) -> Vec<String> {
        self.keys.iter().map(|key| self.value(cell, key)).collect()
    }

    /// A cell's value of an axis.
    pub(super) fn value(&self, cell: &Summary, key: &str) -> String {
        cell.axes.get(key).map_or(NOTHING.to_owned(), text)
    }

    /// The name of a cell within its gas level: `60`, or `60/always`.
    pub(super) fn label(&self, cell: &Summary) -> String {
        let mut values = self.values(cell);
        // What an engine lacks says nothing, unless its neighbours have it.
        while values.len() > 1 && values.last().is_some_and(|value| value == NOTHING) {
            values.pop();
        }
        values.join("/")
    }

    /// The name of the cell of that id, or of the cell that an A/A control repeats.
    pub(super) fn label_of(&self, id: &str) -> String {
        let original = self.report.original(id);
        let prefix = if original == id { "" } else { "A/A of " };
        let label = self.report.cell(original).map(|cell| self.label(cell));
        format!("{prefix}{}", label.unwrap_or_else(|| original.to_owned()))
    }

    /// The names of some cells or A/A controls, as many as a line holds.
    pub(super) fn listed<'i>(&self, ids: impl IntoIterator<Item = &'i String>) -> String {
        listed(ids.into_iter().map(|id| self.label_of(id)))
    }

    /// The cell of a level that has these values.
    pub(super) fn find(&self, level: &Level, values: &[String]) -> Option<&'r Summary> {
        let mut cells = self.report.cells_of(level);
        cells.find(|cell| self.values(cell) == values)
    }

    /// What was varied: `chunk size × gas`.
    pub(super) fn question(&self) -> String {
        let settings = &self.report.configuration;
        let varied = match self.keys.as_slice() {
            [one] if one == ENGINE && settings.engines.len() < 2 => Vec::new(),
            _ => self.columns(),
        };
        let mix = settings.axes.iter().any(|axis| axis.flag == MIX_AXIS);
        let parts = varied.into_iter().chain(mix.then(|| "mix".to_owned()));
        let gas = (settings.levels.len() > 1).then(|| "gas".to_owned());
        let parts: Vec<String> = parts.chain(gas).collect();
        match (parts.is_empty(), settings.levels.first()) {
            (true, Some(level)) => format!("one setting at {} gas", level.gas),
            _ => parts.join(" × "),
        }
    }
}

/// A flag without the group it belongs to.
fn short(flag: &str) -> &str {
    match flag {
        CHUNK_SIZE_FLAG => "chunk size",
        _ => ["engine.", "bench."]
            .iter()
            .find_map(|group| flag.strip_prefix(group))
            .unwrap_or(flag),
    }
}

/// Most names that a line has.
const MOST_NAMED: usize = 8;

/// Names, as many as a line holds.
pub(super) fn listed(names: impl IntoIterator<Item = String>) -> String {
    let mut names: Vec<String> = names.into_iter().collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let text = names.join(", ");
    match more {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// The flag of `sweep` that gives an axis its values.
pub(super) fn option_of(axis: &str) -> String {
    match axis {
        CHUNK_SIZE_FLAG => "--chunks".to_owned(),
        _ => format!("--axis {axis}"),
    }
}

/// A value without quotes.
pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
