//! What a person sees while a sweep runs: one bar on a terminal, one line per visit elsewhere.
//!
//! Invariant: everything goes to stderr, and nothing is drawn between a request and its answer:
//! there is no drawing thread.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// Redraws per second, so that drawing costs nothing worth measuring.
const REDRAWS_PER_SECOND: u8 = 4;

/// Progress of one command.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
}

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
    }

    /// Counts up to `position`.
    pub fn set(&self, position: u64) {
        self.bar.set_position(position);
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
