//! Reading a Prometheus text exposition, of which only names and values matter here.
//!
//! Source: prometheus.io, "Text-based format", version 0.0.4. Invariant: a damaged line is passed
//! over; series that differ in labels other than `quantile` add up, and quantiles are left out,
//! since neither adding nor subtracting them means anything.

use std::collections::BTreeMap;

/// The values of an exposition by metric name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    values: BTreeMap<String, f64>,
}

/// What was observed between two scrapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Sum of the observations.
    pub sum: f64,
    /// How many there were.
    pub count: u64,
}

impl Scrape {
    /// Reads an exposition.
    pub fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for (name, value) in text.lines().filter_map(sample) {
            *values.entry(name.to_owned()).or_insert(0.0) += value;
        }
        Self { values }
    }

    /// Whether nothing was exported.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a series, summed over its labels.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// What a summary or histogram observed since `earlier`; `None` when it is not exported. One
    /// that was not there before began at zero.
    pub fn observed_since(&self, earlier: &Self, name: &str) -> Option<Difference> {
        let since = |suffix: &str| {
            let name = format!("{name}{suffix}");
            Some(self.value(&name)? - earlier.value(&name).unwrap_or(0.0))
        };
        let (sum, count) = (since("_sum")?, since("_count")?);
        // A process that was started anew counts from zero.
        (count >= 0.0).then_some(Difference {
            sum,
            count: count as u64,
        })
    }

    /// By how much a counter grew since `earlier`.
    pub fn grown_since(&self, earlier: &Self, name: &str) -> Option<f64> {
        let grown = self.value(name)? - earlier.value(name).unwrap_or(0.0);
        (grown >= 0.0).then_some(grown)
    }
}

/// Name and value of a line; `None` for comments, quantiles, and what is no sample.
fn sample(line: &str) -> Option<(&str, f64)> {
    let line = line.trim();
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))?;
    let (name, rest) = line.split_at(end);
    let values = match rest.strip_prefix('{') {
        None => rest,
        Some(rest) => {
            let (labels, values) = rest.split_at(labels_end(rest)?);
            if has_quantile(labels) {
                return None;
            }
            values.strip_prefix('}')?
        }
    };
    let value = values.split_ascii_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then_some((name, value))
}

/// Where the closing brace is; those inside quotes are part of a value.
fn labels_end(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn has_quantile(labels: &str) -> bool {
    labels
        .split(',')
        .any(|label| label.trim_start().starts_with("quantile="))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "\
# HELP a_seconds What takes time.
# TYPE a_seconds summary
a_seconds{quantile=\"0.5\"} 7
a_seconds_sum 1.5
a_seconds_count 3
hits{kind=\"}\\\"{,\",quantile_of=\"x\"} 2 1700000000000
hits{kind=\"b\"} 3
gone_total 9
";

    #[test]
    fn labels_add_up_and_quantiles_do_not() {
        let scrape = Scrape::parse(BEFORE);
        assert_eq!(scrape.value("hits"), Some(5.0));
        assert_eq!(scrape.value("a_seconds"), None);
        let names: Vec<_> = scrape.names().collect();
        assert_eq!(
            names,
            ["a_seconds_count", "a_seconds_sum", "gone_total", "hits"]
        );
    }

    #[test]
    fn differences_are_what_was_observed_between() {
        let before = Scrape::parse(BEFORE);
        let after = Scrape::parse(
            "a_seconds_sum 2e0\na_seconds_count 5\nnew_sum 4\nnew_count 1\nhits 6\ngone_total 1",
        );
        let observed = |name| {
            let difference = after.observed_since(&before, name)?;
            Some((difference.sum, difference.count))
        };
        assert_eq!(observed("a_seconds"), Some((0.5, 2)));
        assert_eq!(observed("new"), Some((4.0, 1)));
        assert_eq!(observed("absent"), None);
        assert_eq!(after.grown_since(&before, "hits"), Some(1.0));
        assert_eq!(after.grown_since(&before, "gone_total"), None);
    }

    #[test]
    fn damaged_lines_are_passed_over() {
        for text in [
            "",
            "a",
            "a{",
            "a{b=\"c} 1",
            "a{b=\"c\"}",
            "{} 1",
            "a x",
            "\u{fffd} 1",
        ] {
            assert!(Scrape::parse(text).is_empty(), "{text:?}");
        }
    }
}
