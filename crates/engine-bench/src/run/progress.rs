//! What a person sees while a sweep runs: one bar on a terminal, one line per visit elsewhere.
//!
//! Invariant: what is for people goes to stderr, what is for programs to stdout, an event a line. Nothing
//! is drawn between a request and its answer: there is no drawing thread.

use crate::{
    live::{Live, PassLabels, State},
    record::Running,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};

/// Redraws per second, so that drawing costs nothing worth measuring.
const REDRAWS_PER_SECOND: u8 = 4;

/// Progress of one command.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
    events: bool,
    live: Option<Live>,
}

/// A pass under way, which is over when this is dropped.
#[derive(Debug)]
pub(super) struct PassShown<'a>(&'a Progress);

impl Drop for PassShown<'_> {
    fn drop(&mut self) {
        self.0.show(|shown| shown.pass = None);
    }
}

/// Cells whose running estimates a line names.
const ESTIMATES_OF_A_LINE: usize = 6;

impl Progress {
    /// Silent when `quiet`; a bar when stderr is a terminal; lines otherwise.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if quiet || !terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND)
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template = "{wide_bar} {pos}/{len}  {elapsed} + {eta}\n{msg}";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            lines: !quiet && !terminal,
            events: false,
            live: None,
        }
    }

    /// Also serves what happens as metrics.
    #[must_use]
    pub fn with_live(mut self, live: Live) -> Self {
        self.live = Some(live);
        self
    }

    /// Changes what metrics show of the sweep.
    pub(super) fn show(&self, change: impl FnOnce(&mut State)) {
        if let Some(live) = &self.live {
            live.update(change);
        }
    }

    /// A pass begins.
    pub(super) fn pass(&self, labels: impl FnOnce() -> PassLabels) -> PassShown<'_> {
        self.show(|shown| shown.pass = Some(labels()));
        PassShown(self)
    }

    /// Also prints what is no line of the journal to stdout, as JSON.
    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.events = true;
        self
    }

    /// Whether anybody sees what is shown.
    pub fn is_shown(&self) -> bool {
        self.lines || self.events || !self.bar.is_hidden()
    }

    /// Shows what is known of each cell after a round.
    pub fn estimates(&self, round: u64, running: &[Running]) {
        self.show(|shown| shown.cells = running.to_vec());
        if self.events {
            let event = json!({"event": {"kind": "estimates", "round": round, "cells": running}});
            print_event(&event.to_string());
        }
        let cells = running.iter().take(ESTIMATES_OF_A_LINE);
        let mut cells: Vec<String> = cells.map(Running::to_string).collect();
        if running.len() > ESTIMATES_OF_A_LINE {
            cells.push(format!("and {} more", running.len() - ESTIMATES_OF_A_LINE));
        }
        if !cells.is_empty() {
            let cells = cells.join(", ");
            self.line(&format!("after round {round}, Ggas/s: {cells}"));
        }
    }

    /// Starts a new count towards `total`.
    pub fn begin(&self, total: u64, what: &str) {
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(what.to_owned());
        if self.lines {
            eprintln!("{what}");
        }
    }

    /// Says what is being done, on a terminal only.
    pub fn message(&self, text: String) {
        self.bar.set_message(text);
        self.bar.tick();
    }

    /// Counts one more.
    pub fn advance(&self) {
        self.bar.inc(1);
        self.live.iter().for_each(Live::payload);
    }

    /// Prints a line that stays.
    pub fn line(&self, text: &str) {
        if self.lines {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints an event to stdout at once; a closed pipe is the reader's decision and no error.
pub fn print_event(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}
