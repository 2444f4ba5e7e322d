//! `engine-bench compare A B`: what was set differently beside what came out differently.

use crate::{
    analyze::{self, Side},
    cli::{CompareArgs, EXIT_FOUND, EXIT_NOTHING_MEASURED},
    report,
};
use eyre::{Result, bail};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    let ((dir_a, cell_a), (dir_b, cell_b)) = (side(&args.a), side(&args.b));
    let (a, b) = (
        analyze::read_outcome(&dir_a)?,
        analyze::read_outcome(&dir_b)?,
    );
    for (outcome, cell, dir) in [(&a, &cell_a, &dir_a), (&b, &cell_b, &dir_b)] {
        if let Some(cell) = cell
            .as_deref()
            .filter(|cell| outcome.plan.cell(cell).is_none())
        {
            let ids: Vec<&str> = outcome
                .plan
                .cells
                .iter()
                .map(|cell| cell.id.as_str())
                .collect();
            bail!(
                "{} has no cell {cell}; it has {}",
                dir.display(),
                ids.join(", ")
            );
        }
    }
    let same = dir_a.canonicalize()? == dir_b.canonicalize()?;
    let (side_a, side_b) = (
        Side {
            outcome: &a,
            cell: cell_a.as_deref(),
        },
        Side {
            outcome: &b,
            cell: cell_b.as_deref(),
        },
    );
    let between = analyze::between(&side_a, &side_b, same);
    if between.cells.is_empty() {
        bail!("the two have no measured cell in common; name one of each as DIR:CELL");
    }
    let text = if args.json {
        let document = json!({
            "format": "engine-bench-comparison", "version": 1,
            "a": args.a, "b": args.b, "result": between,
        });
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        report::between(&between)
    };
    super::print(&text)?;
    let Some(part) = args.fail_on_regression else {
        return Ok(ExitCode::SUCCESS);
    };
    judge(&between, part.0)
}

/// Ends with a code that says whether something got slower; without intervals that is not known.
fn judge(between: &analyze::Between, part: f64) -> Result<ExitCode> {
    if between.edited {
        eprintln!("error: a results folder is not as it was measured, so nothing follows from it");
        return Ok(ExitCode::from(EXIT_NOTHING_MEASURED));
    }
    let slower = between.cells.iter().filter(|cell| cell.is_regression(part));
    let slower: Vec<&str> = slower.map(|cell| cell.b.as_str()).collect();
    if !slower.is_empty() {
        eprintln!("regression: {} got slower", slower.join(", "));
        return Ok(ExitCode::from(EXIT_FOUND));
    }
    if !between.without_numbers.is_empty() {
        let cells = between.without_numbers.join(", ");
        eprintln!(
            "error: {cells} gave no numbers on one side, so whether they got slower is unknown"
        );
        return Ok(ExitCode::from(EXIT_NOTHING_MEASURED));
    }
    if between.cells.iter().any(|cell| !cell.same_payloads) {
        eprintln!(
            "error: the two replayed different payloads, which tells nothing about a regression; measure \
             both with the same --payloads, or the same profile, seed and mix"
        );
        return Ok(ExitCode::from(EXIT_NOTHING_MEASURED));
    }
    if between.cells.iter().any(|cell| cell.verdict.is_none()) {
        eprintln!(
            "error: so few rounds tell no regression from noise; measure both with --rounds 3 or more"
        );
        return Ok(ExitCode::from(EXIT_NOTHING_MEASURED));
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder, or a folder and a cell of it.
fn side(typed: &Path) -> (PathBuf, Option<String>) {
    let text = typed.to_string_lossy();
    match text.rsplit_once(':') {
        Some((dir, cell)) if !typed.exists() => (PathBuf::from(dir), Some(cell.to_owned())),
        _ => (typed.to_owned(), None),
    }
}
