//! `engine-bench compare A B`: what was set differently beside what came out differently.

use crate::{
    analyze::{self, Between, Comparison, Outcome, Side, Verdict},
    cli::{CompareArgs, EXIT_FOUND, EXIT_NOTHING_MEASURED},
    report,
};
use bench_stats::verdict::FEWEST_ROUNDS;
use eyre::{Result, bail};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    let ((dir_a, cell_a, a), (dir_b, cell_b, b)) = (read(&args.a)?, read(&args.b)?);
    let same_sweep = dir_a.canonicalize()? == dir_b.canonicalize()?;
    if same_sweep && (cell_a == cell_b || cell_a.is_none() || cell_b.is_none()) {
        bail!(
            "both sides are of one sweep, {}; name two different cells of it as DIR:CELL",
            dir_a.display()
        );
    }
    let [a, b] = [(&a, &cell_a), (&b, &cell_b)].map(|(outcome, cell)| Side {
        outcome,
        cell: cell.as_deref(),
    });
    let between = analyze::between(&a, &b, same_sweep);
    if between.cells.is_empty() {
        bail!("the two have no measured cell in common; name one of each as DIR:CELL");
    }
    let text = if args.json {
        let document = json!({
            "format": "engine-bench-comparison", "version": 2,
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
    let (code, words) = judge(&between, part);
    if let Some(words) = words {
        eprintln!("{words}");
    }
    Ok(ExitCode::from(code))
}

/// The folder of a side, the cell that it names, and what was measured. A named cell has to be one of the
/// plan's: what an A/A control differs by is the noise floor.
fn read(typed: &Path) -> Result<(PathBuf, Option<String>, Outcome)> {
    let (dir, cell) = side(typed);
    let outcome = analyze::read_outcome(&dir)?;
    let mut cells = outcome.plan.cells.iter();
    if let Some(cell) = &cell
        && !cells.any(|found| found.id == *cell)
    {
        bail!(
            "{} has no cell {cell}; it has {}",
            dir.display(),
            outcome.plan.some_ids()
        );
    }
    Ok((dir, cell, outcome))
}

/// The code that says whether something got slower by more than `part`, and words about it. Without a verdict
/// about every cell that is not known.
fn judge(between: &Between, part: f64) -> (u8, Option<String>) {
    let ids = |is_meant: &dyn Fn(&Comparison) -> bool| {
        let cells = between.cells.iter().filter(|cell| is_meant(cell));
        let ids: Vec<&str> = cells.map(|cell| cell.b.as_str()).collect();
        (!ids.is_empty()).then(|| ids.join(", "))
    };
    let without = |verdict| ids(&|cell| cell.verdict == verdict);
    let percent = 100.0 * part;
    if let Some(slower) = ids(&|cell| cell.is_regression(part)).filter(|_| !between.edited) {
        let words = format!("regression: {slower} slower by more than {percent} %");
        return (EXIT_FOUND, Some(words));
    }
    let missing = Some(between.without_numbers.join(", ")).filter(|cells| !cells.is_empty());
    let unknown = [
        (
            between.edited.then(|| "a results folder".to_owned()),
            "not as it was measured, so nothing follows from it",
        ),
        (
            missing,
            "no numbers on one side, so whether they got slower is unknown",
        ),
        (
            without(Verdict::OtherPayloads),
            "the two replayed different payloads, which tells nothing about a regression; measure both with the \
             same --payloads, or the same profile, seed and mix",
        ),
        (without(Verdict::NoNoiseFloor), analyze::NO_FLOOR),
        (
            ids(&|cell| cell.rounds < FEWEST_ROUNDS as u64),
            "so few rounds tell no regression from noise; measure both with --rounds 3 or more",
        ),
    ];
    let said = |(cells, why): (Option<String>, &str)| Some(format!("error: {}: {why}", cells?));
    let unknown = unknown.into_iter().find_map(said);
    if unknown.is_some() {
        return (EXIT_NOTHING_MEASURED, unknown);
    }
    let open = ids(&|cell| cell.may_be_regression(part)).map(|cells| {
        format!(
            "note: no regression is shown, and one of more than {percent} % is not excluded in {cells}; more \
             rounds make intervals narrower"
        )
    });
    (0, open)
}

/// A folder, or a folder and a cell of it.
fn side(typed: &Path) -> (PathBuf, Option<String>) {
    let text = typed.to_string_lossy();
    match text.rsplit_once(':') {
        Some((dir, cell)) if !typed.exists() => (PathBuf::from(dir), Some(cell.to_owned())),
        _ => (typed.to_owned(), None),
    }
}
