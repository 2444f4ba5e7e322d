//! `db verify`: recomputes what the database holds and says what is wrong, row by row.
//!
//! Opens the database only to read, so that it works beside a running node and on a copy.

use super::{datadir::Datadir, failure};
use crate::{chainspec::ChainSpec, cli::args::VerifyArgs};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use eyre::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use state_db::{Finding, VerifyOptions, VerifyProgress, VerifyReport};
use std::io::Write;

/// Memory for sorting, in bytes.
const SORT_BUDGET_BYTES: usize = 256 << 20;

/// Verifies and prints the report to standard output; true when nothing is wrong.
///
/// # Errors
/// When there is no initialised database, its chain is not known, or it cannot be read.
pub fn run(datadir: &Datadir, args: &VerifyArgs) -> eyre::Result<bool> {
    let chain = datadir.chain_spec()?;
    let db = datadir.open_read_only()?;
    let options = VerifyOptions {
        receipts_root_from: first_byzantium_block(&chain),
        state_roots: args.state_roots.unwrap_or(u64::MAX),
        sort_folder: std::env::temp_dir(),
        sort_budget_bytes: SORT_BUDGET_BYTES,
    };
    let bar = progress_bar();
    let mut report = db
        .verify(&options, &mut |progress| show(&bar, progress))
        .map_err(failure::database)?;
    bar.finish_and_clear();
    let view = db.view().map_err(failure::database)?;
    let genesis = view.genesis_hash().map_err(failure::database)?;
    let expected = chain.genesis_hash();
    if genesis.is_some_and(|genesis| genesis != expected) {
        report.findings.push(Finding {
            table: "CanonicalHeaders",
            key: "0".to_owned(),
            problem: format!("is not the genesis of the chain, {expected}"),
        });
    }
    let text = if args.json {
        format!("{:#}", as_json(&report))
    } else {
        as_text(&report)
    };
    writeln!(std::io::stdout(), "{text}").wrap_err("failed to print the report")?;
    Ok(report.findings.is_empty())
}

/// Receipts before Byzantium hold a state root that is not stored.
fn first_byzantium_block(chain: &ChainSpec) -> u64 {
    match chain.ethereum_fork_activation(EthereumHardfork::Byzantium) {
        ForkCondition::Block(number) => number,
        _ => u64::MAX,
    }
}

/// A bar on standard error that is silent when that is not a terminal.
fn progress_bar() -> ProgressBar {
    let template = "{msg:12} [{bar:40}] {human_pos}/{human_len} {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

fn show(bar: &ProgressBar, progress: VerifyProgress) {
    bar.set_message(progress.check.name());
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}

fn as_text(report: &VerifyReport) -> String {
    let mut lines: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    if report.unlisted > 0 {
        lines.push(format!(
            "... and {} more of the same tables",
            report.unlisted
        ));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    if report.orphan_codes > 0 {
        let count = report.orphan_codes;
        lines.push(format!(
            "note: {count} codes belong to no account, as unwinds leave them"
        ));
    }
    let count = report.findings.len() as u64 + report.unlisted;
    let verdict = match count {
        0 => "nothing is wrong".to_owned(),
        1 => "1 finding".to_owned(),
        more => format!("{more} findings"),
    };
    let root = report
        .state_root
        .map_or_else(|| "unknown".to_owned(), |root| root.to_string());
    lines.push(format!(
        "head {}, state root {root}: {verdict}",
        report.head
    ));
    lines.join("\n")
}

fn as_json(report: &VerifyReport) -> serde_json::Value {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|found| json!({"table": found.table, "key": found.key, "problem": found.problem}))
        .collect();
    json!({
        "format": "bench-reth-verify",
        "version": 1,
        "head": report.head,
        "head_hash": report.head_hash,
        "state_root": report.state_root,
        "findings": findings,
        "findings_not_listed": report.unlisted,
        "orphan_codes": report.orphan_codes,
        "notes": report.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Vec<Finding>) -> VerifyReport {
        VerifyReport {
            head: 7,
            head_hash: None,
            state_root: None,
            orphan_codes: 2,
            findings,
            unlisted: 0,
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_verdict_is_the_last_line() {
        let found = Finding {
            table: "Headers",
            key: "3".to_owned(),
            problem: "is missing".to_owned(),
        };
        let text = as_text(&report(vec![found.clone()]));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Headers 3: is missing",
                "note: a note",
                "note: 2 codes belong to no account, as unwinds leave them",
                "head 7, state root unknown: 1 finding",
            ]
        );
        assert!(as_text(&report(vec![])).ends_with(": nothing is wrong"));
        let json = as_json(&report(vec![found]));
        let expected = json!([{"table": "Headers", "key": "3", "problem": "is missing"}]);
        assert_eq!(json["findings"], expected);
    }
}
