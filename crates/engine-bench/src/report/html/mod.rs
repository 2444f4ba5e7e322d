//! `report.html`: one file that opens from disk, for people who look before they read.
//!
//! Invariant: asks no network for anything; says nothing that `report.json` does not hold; readable
//! in light and dark, on a phone and on paper, and without scripts. Whatever was typed or logged is
//! escaped.

mod chart;
mod course;
mod overview;

use super::{
    answer, attribution, facts,
    grid::Grid,
    markdown::{ABOUT, EXPLAINED},
    model::Report,
    sections::{self, Section},
};
use chart::Figure;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
     content=\"width=device-width, initial-scale=1\">\n<title>Sweep report</title>\n";

/// Files beside the report, for who wants to go further.
const FILES: [&str; 4] = [
    "report.json and cells.csv hold these figures for programs, report.md the same for readers.",
    "plan.json, journal.ndjson and visits/ hold what was measured.",
    "engine-bench report DIR makes everything derived again, and engine-bench verify-results DIR checks it.",
    "engine-bench compare DIR OTHER-DIR holds two sweeps against each other.",
];

/// Renders the report.
pub fn html(report: &Report) -> String {
    let mut page = Page::default();
    page.text.push_str(HEAD);
    page.push(&format!("<style>\n{STYLE}</style></head><body>"));
    page.answer(report);
    page.section("grid", "Throughput", |page| {
        page.paragraph("about", ABOUT);
        answer::grids(report)
            .iter()
            .for_each(|grid| page.table("grid", grid));
    });
    let (phases, causes) = (overview::phases(report), attribution::causes(report));
    if phases.is_some() || !causes.is_empty() {
        page.section("why", "Why", |page| {
            page.list("notes", &causes);
            page.figures(phases);
        });
    }
    if !report.warnings.is_empty() {
        page.section("caveats", "Caveats", |page| {
            page.paragraph("about", EXPLAINED);
            page.list("warning", &report.warnings);
        });
    }
    page.section("files", "Files", |page| {
        page.list("notes", &FILES.map(str::to_owned))
    });
    for section in sections::all(report) {
        page.part(&section);
    }
    page.section("course", "Rounds, drift and latencies", |page| {
        let drift = [course::precision(report), course::drift(report)];
        let levels = report.levels.iter();
        let strips = levels.map(|level| course::strips(report, level));
        page.figures(drift.into_iter().chain(strips).flatten());
    });
    page.section("configuration", "Configuration", |page| {
        page.table("values", &facts::values(&report.configuration));
    });
    page.push("</body></html>");
    page.text
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

    /// Question, answer and the first picture: what fits a screen.
    fn answer(&mut self, report: &Report) {
        let swept = answer::swept(report);
        let (question, rest) = swept.split_at(swept.len().min(1));
        self.push("<section id=\"answer\"><div>");
        self.push(&format!("<h1>{}</h1>", escape(&question.concat())));
        self.paragraph("swept", &rest.join(" | "));
        if let Some(command) = report.command() {
            self.push(&format!("<pre>{}</pre>", escape(command)));
        }
        self.list("result", &answer::lines(report));
        self.push("</div>");
        if let Some(figure) = overview::overview(report) {
            self.push(&figure.html());
        }
        self.push("</section>");
    }

    fn section(&mut self, id: &str, title: &str, content: impl FnOnce(&mut Self)) {
        self.push(&format!("<section id=\"{}\">", escape(id)));
        self.push(&format!("<h2>{}</h2>", escape(title)));
        content(self);
        self.push("</section>");
    }

    fn part(&mut self, section: &Section) {
        self.section(section.id, section.title, |page| {
            if !section.about.is_empty() {
                page.paragraph("about", section.about);
            }
            section.grids.iter().for_each(|grid| page.table("", grid));
            if !section.lines.is_empty() {
                page.list("notes", &section.lines);
            }
            if !section.log.is_empty() {
                page.push(&format!("<pre>{}</pre>", escape(&section.log.join("\n"))));
            }
        });
    }

    fn paragraph(&mut self, class: &str, text: &str) {
        self.push(&format!("<p class=\"{class}\">{}</p>", escape(text)));
    }

    fn figures(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.push("<div class=\"charts\">");
        for figure in figures {
            self.push(&figure.html());
        }
        self.push("</div>");
    }

    /// A table whose fields carry their column's name, for screens that are too narrow for a row.
    fn table(&mut self, class: &str, grid: &Grid) {
        let header: Vec<String> = grid.header.iter().map(|name| escape(name)).collect();
        let head = header.iter().map(|name| format!("<th>{name}</th>"));
        let head: String = head.collect();
        self.push(&format!(
            "<table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>"
        ));
        for row in &grid.rows {
            let fields = header.iter().zip(row).map(|(name, text)| field(name, text));
            self.push(&format!("<tr>{}</tr>", fields.collect::<String>()));
        }
        self.push("</tbody></table>");
    }

    fn list(&mut self, class: &str, lines: &[String]) {
        // A figure and its unit stay together.
        let text = |line: &String| escape(line).replace(" %", "\u{a0}%");
        let items = lines.iter().map(|line| format!("<li>{}</li>", text(line)));
        let items: String = items.collect();
        self.push(&format!("<ul class=\"{class}\">{items}</ul>"));
    }
}

/// A field of a table: numbers stand to the right, files and links can be followed.
fn field(name: &str, text: &str) -> String {
    let figure = !text.is_empty() && !text.contains(|c: char| c.is_ascii_alphabetic());
    let class = if figure { " class=\"figure\"" } else { "" };
    let text = escape(text);
    let content = match text.starts_with("http://") || text.ends_with(".json") {
        true => format!("<a href=\"{text}\">{text}</a>"),
        false => text,
    };
    format!("<td{class} data-name=\"{name}\">{content}</td>")
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
