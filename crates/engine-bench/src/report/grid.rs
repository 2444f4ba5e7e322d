//! Tables as rows of text.
//!
//! Invariant: the same rows feed the terminal, Markdown and HTML, so they cannot disagree.

/// What a value that does not exist shows.
pub(super) const NOTHING: &str = "-";

/// Marks figures of an engine that did not compare state roots.
pub(super) const UNCHECKED_MARK: &str = "†";

/// A table as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new<const N: usize>(
        header: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        Self {
            header: header.map(str::to_owned).to_vec(),
            rows: rows.into_iter().map(Vec::from).collect(),
        }
    }
}
