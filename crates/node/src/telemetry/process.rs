//! Figures that are read when somebody asks for metrics: the process as `/proc` has it, and spans.
//!
//! Source: proc(5). Invariant: what cannot be read is left out.

use super::otlp;
use engine_api::metric::{self, Metric};
use nix::unistd::{SysconfVar, sysconf};
use std::{collections::HashMap, fmt::Write as _, fs};

/// The figures as text of an exposition.
pub(super) fn render() -> String {
    let mut text = String::new();
    for (metric, value) in figures() {
        let (name, kind) = (metric.name, metric.kind.name());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP {name} {}\n# TYPE {name} {kind}\n{name} {value}\n",
            metric.help
        );
    }
    text
}

fn figures() -> Vec<(Metric, f64)> {
    let mut figures = Vec::new();
    if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
        figures.extend(from_stat(&stat).into_iter().flatten());
    }
    if let Ok(io) = fs::read_to_string("/proc/self/io") {
        figures.extend(from_io(&io));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        figures.push((metric::PROCESS_FDS, open.count() as f64));
    }
    let (exported, lost) = otlp::counts().unwrap_or_default();
    figures.push((metric::SPANS_EXPORTED, exported as f64));
    figures.push((metric::SPANS_LOST, lost as f64));
    figures
}

fn from_stat(stat: &str) -> Option<[(Metric, f64); 5]> {
    // The name may hold blanks and brackets; what follows its last bracket does not.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    // Field 3, the state, comes first here.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let ticks = constant(SysconfVar::CLK_TCK)?;
    let page = constant(SysconfVar::PAGE_SIZE)?;
    Some([
        (metric::PROCESS_CPU, (field(14)? + field(15)?) / ticks),
        (metric::PROCESS_THREADS, field(20)?),
        (metric::PROCESS_START, boot_time()? + field(22)? / ticks),
        (metric::PROCESS_VIRTUAL, field(23)?),
        (metric::PROCESS_RESIDENT, field(24)? * page),
    ])
}

fn from_io(io: &str) -> Vec<(Metric, f64)> {
    let lines = io.lines().filter_map(|line| line.split_once(": "));
    let values: HashMap<_, _> = lines.collect();
    [
        (metric::IO_READ_CHARS, "rchar"),
        (metric::IO_WRITE_CHARS, "wchar"),
        (metric::IO_READ_BYTES, "read_bytes"),
        (metric::IO_WRITE_BYTES, "write_bytes"),
    ]
    .into_iter()
    .filter_map(|(metric, name)| Some((metric, values.get(name)?.parse().ok()?)))
    .collect()
}

/// When the machine started, in seconds since the epoch.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn constant(of: SysconfVar) -> Option<f64> {
    Some(sysconf(of).ok()?? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let rest: Vec<_> = (4..=52).map(|n| n.to_string()).collect();
        let stat = format!("77 (a) b (c) S {}", rest.join(" "));
        let figures = from_stat(&stat).unwrap();
        let value = |wanted: Metric| {
            figures
                .iter()
                .find(|(metric, _)| *metric == wanted)
                .unwrap()
                .1
        };
        assert_eq!(value(metric::PROCESS_THREADS), 20.0);
        assert_eq!(value(metric::PROCESS_VIRTUAL), 23.0);
        let ticks = constant(SysconfVar::CLK_TCK).unwrap();
        assert_eq!(value(metric::PROCESS_CPU), 29.0 / ticks);
        assert_eq!(from_stat("77 (a"), None);
    }

    #[test]
    fn this_process_has_every_figure() {
        let text = render();
        for metric in metric::ENGINE {
            let is_of_the_process = ["reth_process_", "reth_io_", "bench_otlp_"]
                .iter()
                .any(|prefix| metric.name.starts_with(prefix));
            let found = text.contains(&format!("\n{} ", metric.name));
            assert_eq!(found, is_of_the_process, "{}", metric.name);
        }
    }
}
