//! Tables as rows of text.
//!
//! Invariant: the same rows feed the terminal, Markdown and HTML, so they cannot disagree.

/// What a value that does not exist shows.
pub(super) const NOTHING: &str = "-";

/// Marks figures of an engine that did not compare state roots.
pub(super) const UNCHECKED_MARK: &str = "†";

/// Behind a throughput whose engine left the path that was to be measured.
pub(super) const FALLBACK_MARK: &str = "‡";

/// A table as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A table that is made column by column: each has a name, and what it says of every item.
pub(super) struct Columns<T> {
    items: Vec<T>,
    grid: Grid,
}

impl<T> Columns<T> {
    pub(super) fn of(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let (header, rows) = (Vec::new(), vec![Vec::new(); items.len()]);
        Self {
            items,
            grid: Grid { header, rows },
        }
    }

    pub(super) fn column<D: ToString>(mut self, name: &str, text: impl Fn(&T) -> D) -> Self {
        self.grid.header.push(name.to_owned());
        for (row, item) in self.grid.rows.iter_mut().zip(&self.items) {
            row.push(text(item).to_string());
        }
        self
    }

    pub(super) fn grid(self) -> Grid {
        self.grid
    }
}

/// What a field shows of something that may not exist.
pub(super) fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}
