//! `report.html`: one file that opens from disk, for people who look before they read.
//!
//! Invariant: asks no network for anything; says nothing that `report.json` does not hold; readable
//! in light and dark, on a phone and on paper, and without scripts. Whatever was typed or logged is
//! escaped.

mod chart;
mod course;
mod curve;
mod heat;
mod level;
mod machine;

use super::{
    attribution, facts,
    grid::{self, Grid},
    model::Report,
    traces,
};
use crate::analyze::Level;
use course::Key;
use level::Figure;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
     content=\"width=device-width, initial-scale=1\">\n<title>Sweep report</title>\n";

const EXPLANATION: &str = "<p>Execution throughput in Ggas/s: gas / (newPayload + forkchoiceUpdated) client time. A frame \
     marks the best of a gas level; colour is throughput relative to the highest of its level.</p>";

/// Renders the report.
pub fn html(report: &Report) -> String {
    let mut page = Page::default();
    page.text.push_str(HEAD);
    page.push(&format!("<style>\n{STYLE}</style></head><body>"));
    page.push(&format!("<h1>Sweep report</h1>\n{EXPLANATION}"));
    page.section("grid", "", |page| {
        page.push(&heat::heatmap(report));
        page.notes(&grid::notes(report));
    });
    for level in &report.levels {
        page.level(report, level);
    }
    page.attribution(report);
    page.traces(report);
    page.profiles(report);
    page.tables(report);
    page.course(report);
    page.section("failures", "Failures and void visits", |page| {
        failures(page, report)
    });
    page.section("environment", "Environment", |page| {
        page.list("notes", &facts::machine(report));
        for grid in [facts::preflight(report), facts::state_drift(report)] {
            if !grid.rows.is_empty() {
                page.table("", &grid);
            }
        }
    });
    page.section("configuration", "Configuration", |page| {
        page.table("values", &facts::values(&report.configuration));
    });
    page.push("</body></html>");
    page.text
}

fn failures(page: &mut Page, report: &Report) {
    let disturbed = facts::disturbed(report);
    if !disturbed.rows.is_empty() {
        page.table("broad", &disturbed);
    }
    if report.failures.is_empty() {
        page.push("<p>Nothing failed.</p>");
        return;
    }
    let lines: Vec<String> = report.failures.iter().map(grid::failure_line).collect();
    page.list("notes", &lines);
    if let Some(failure) = grid::telling_failure(report) {
        let visit = escape(&failure.visit);
        page.push(&format!("<p>The engine's log in {visit} ends with</p>"));
        page.push(&format!("<pre>{}</pre>", escape(&failure.log.join("\n"))));
    }
}

/// The text of the page so far.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn push(&mut self, line: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn section(&mut self, id: &str, title: &str, content: impl FnOnce(&mut Self)) {
        self.push(&format!("<section id=\"{}\">", escape(id)));
        if !title.is_empty() {
            self.push(&format!("<h2>{}</h2>", escape(title)));
        }
        content(self);
        self.push("</section>");
    }

    fn level(&mut self, report: &Report, level: &Level) {
        let name = level.load.to_string();
        let id = format!("level-{}", name.replace(' ', "-"));
        self.section(&id, &name, |page| {
            page.push("<div class=\"charts\">");
            for figure in level::figures(report, level) {
                page.figure(&figure, &Key::new());
            }
            for found in &level.curves {
                if let Some(figure) = curve::curve(report, found) {
                    page.figure(&figure, &Key::new());
                }
            }
            page.push("</div>");
        });
    }

    fn traces(&mut self, report: &Report) {
        if report.traces.is_empty() {
            return;
        }
        self.section("traces", "Traces", |page| {
            page.push("<p>Blocks that were replayed once more with tracing. Perfetto opens the files.</p>");
            page.linked_table(&traces::table(report));
            page.list("notes", &traces::lines(report));
        });
    }

    fn profiles(&mut self, report: &Report) {
        if report.profiles.is_empty() {
            return;
        }
        self.section("profiles", "Profiles", |page| {
            page.push("<p>Cells that were replayed once more under a profiler.</p>");
            page.list("notes", &traces::profile_lines(report));
        });
    }

    /// A table whose links and files can be followed.
    fn linked_table(&mut self, grid: &Grid) {
        let cell = |text: &String| {
            let text = escape(text);
            if text.starts_with("http://") || text.ends_with(".json") {
                return format!("<td><a href=\"{text}\">{text}</a></td>");
            }
            format!("<td>{text}</td>")
        };
        let head: String = grid
            .header
            .iter()
            .map(|name| format!("<th>{name}</th>"))
            .collect();
        let rows = grid.rows.iter();
        let rows: String = rows
            .map(|row| format!("<tr>{}</tr>", row.iter().map(cell).collect::<String>()))
            .collect();
        self.push(&format!(
            "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        ));
    }

    fn attribution(&mut self, report: &Report) {
        let grid = attribution::table(report);
        if grid.rows.is_empty() {
            return;
        }
        let title = "Where the time goes, in ms a block";
        self.section("attribution", title, |page| {
            page.table("broad", &grid);
            page.list("notes", &attribution::lines(report));
        });
    }

    fn tables(&mut self, report: &Report) {
        for (id, title, grid) in [
            (
                "cells",
                "Cells",
                grid::details(report, grid::Evidence::Full),
            ),
            ("versus", "Against the reference", grid::versus(report)),
            ("curves", "Curves", super::curve::curves(report)),
            ("engines", "Engines", grid::engines(report)),
            ("comparisons", "Comparisons", facts::comparisons(report)),
            ("work", "State root, per block", facts::work(report)),
            ("rounds", "How many rounds", facts::decisions(report)),
        ] {
            if !grid.rows.is_empty() {
                self.section(id, title, |page| page.table("broad", &grid));
            }
        }
    }

    /// Order, drift and time.
    fn course(&mut self, report: &Report) {
        self.section("course", "Order, drift and time", |page| {
            page.push(&format!("<p>{}</p>", escape(&grid::time_line(report))));
            page.push("<div class=\"charts\">");
            if let Some(figure) = course::order(report) {
                page.figure(&figure, &Key::new());
            }
            let drifts = [
                course::drift(report),
                machine::calibration(report),
                machine::state(report),
            ];
            for (figure, key) in drifts.into_iter().flatten() {
                page.figure(&figure, &key);
            }
            if let Some(figure) = course::time(report) {
                page.figure(&figure, &Key::new());
            }
            page.push("</div>");
        });
    }

    fn figure(&mut self, figure: &Figure, key: &Key) {
        self.push("<figure>");
        self.push(&format!(
            "<figcaption>{}</figcaption>",
            escape(&figure.caption)
        ));
        if !key.is_empty() {
            let items = key.iter().map(|(name, colour)| {
                let plotters::style::RGBColor(red, green, blue) = colour;
                let name = escape(name);
                format!("<span><i style=\"background:#{red:02x}{green:02x}{blue:02x}\"></i>{name}</span>")
            });
            let items: String = items.collect();
            self.push(&format!("<p class=\"key\">{items}</p>"));
        }
        self.push(&figure.svg);
        self.push("</figure>");
    }

    fn table(&mut self, class: &str, grid: &Grid) {
        let header = grid.header.iter();
        let header: String = header
            .map(|name| format!("<th>{}</th>", escape(name)))
            .collect();
        self.push(&format!(
            "<div class=\"wide\"><table class=\"{class}\"><thead><tr>{header}</tr></thead><tbody>"
        ));
        for row in &grid.rows {
            let cells: String = row.iter().map(|cell| field(cell)).collect();
            self.push(&format!("<tr>{cells}</tr>"));
        }
        self.push("</tbody></table></div>");
    }

    /// Notes as a list, warnings set apart.
    fn notes(&mut self, lines: &[String]) {
        let (warnings, notes): (Vec<String>, Vec<String>) = lines
            .iter()
            .cloned()
            .partition(|line| line.starts_with("warning: "));
        self.list("notes", &notes);
        if !warnings.is_empty() {
            self.list("warning", &warnings);
        }
    }

    fn list(&mut self, class: &str, lines: &[String]) {
        let items: String = lines
            .iter()
            .map(|line| format!("<li>{}</li>", escape(line)))
            .collect();
        self.push(&format!("<ul class=\"{class}\">{items}</ul>"));
    }
}

/// A field of a table; numbers stand to the right.
fn field(text: &str) -> String {
    let class = match text.parse::<f64>() {
        Ok(_) => " class=\"number\"",
        Err(_) => "",
    };
    format!("<td{class}>{}</td>", escape(text))
}

/// Text as HTML and SVG take it, inside elements and attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_typed_becomes_markup() {
        assert_eq!(
            escape("<b a='1'>\"&\"</b>"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;&quot;&lt;/b&gt;"
        );
    }
}
