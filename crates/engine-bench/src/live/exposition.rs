//! Writing a Prometheus text exposition, and putting another one into it under labels.
//!
//! Source: prometheus.io, "Text-based format", version 0.0.4.

use engine_api::metric::Metric;
use std::{borrow::Cow, fmt::Write as _};

/// A label: its name and its value as it is.
pub(super) type Label<'a> = (&'static str, Cow<'a, str>);

/// An exposition being written. Writing to a string cannot fail, so no result is looked at.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Adds a metric without labels.
    pub(super) fn value(&mut self, metric: Metric, value: f64) {
        self.series::<0>(metric, [([], value)]);
    }

    /// Adds a metric with a series for each set of labels; its description also when there is none.
    pub(super) fn series<'a, const N: usize>(
        &mut self,
        metric: Metric,
        series: impl IntoIterator<Item = ([Label<'a>; N], f64)>,
    ) {
        let (name, kind) = (metric.name, metric.kind.name());
        let _ = writeln!(
            self.text,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            metric.help
        );
        for (labels, value) in series {
            self.text.push_str(name);
            if N > 0 {
                let _ = write!(self.text, "{{{}}}", written(&labels));
            }
            let _ = writeln!(self.text, " {value}");
        }
    }

    /// Adds another program's exposition, each series with these labels in front of its own.
    pub(super) fn include(&mut self, other: &str, labels: &[Label<'_>]) {
        let labels = written(labels);
        for line in other.lines() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
            let (name, rest) = line.split_at(end);
            let _ = match rest.strip_prefix('{') {
                // A comment or nothing.
                _ if name.is_empty() => writeln!(self.text, "{line}"),
                None => writeln!(self.text, "{name}{{{labels}}}{rest}"),
                Some(rest) if rest.starts_with('}') => {
                    writeln!(self.text, "{name}{{{labels}{rest}")
                }
                Some(rest) => writeln!(self.text, "{name}{{{labels},{rest}"),
            };
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Labels between their braces.
fn written(labels: &[Label<'_>]) -> String {
    let one = |(name, value): &Label<'_>| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        let value = value.replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    labels.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_first_and_are_quoted() {
        let mut exposition = Exposition::default();
        let other = "# HELP x a {b} c\nx 1\nx{} 2\nx{y=\"}\"} 3 99\n\n";
        exposition.include(other, &[("cell", "a\"b\\c\nd".into())]);
        let label = r#"cell="a\"b\\c\nd""#;
        let expected = format!(
            "# HELP x a {{b}} c\nx{{{label}}} 1\nx{{{label}}} 2\nx{{{label},y=\"}}\"}} 3 99\n\n"
        );
        assert_eq!(exposition.into_text(), expected);
    }
}
