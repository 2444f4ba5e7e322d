//! `engine-bench sweep`: plan, prepare, drive, report.

use super::report;
use crate::{
    analyze,
    cli::{EXIT_INTERRUPTED, EXIT_NOTHING_MEASURED, SweepArgs},
    engine,
    guard::{GuardMode, Preflight},
    live::Live,
    plan::Plan,
    profile::Profiler,
    record::{Event, Journal, JournalError, Manifest},
    resolve,
    run::{self, DriveError, Ending, Options, Prepared, Progress, TraceOptions},
    trace::{self, Wanted},
};
use bench_stats::rounds::PILOT_ROUNDS;
use eyre::{Report, Result, WrapErr as _, bail};
use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

pub(crate) fn sweep(args: SweepArgs) -> Result<ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let (args, origins, question) = resolve::merge(args, &typed)?;
    let args = &args;
    let plan = match &args.resume {
        Some(dir) => Plan::read(dir)?,
        None => Plan::asked(resolve::resolve(args)?, args.yes)?,
    };
    if args.dry_run {
        let values = resolve::shown(&plan.settings, &origins);
        return dry_run(&plan, question.as_deref(), &values, args.json);
    }
    if let Some(question) = question.filter(|_| !args.quiet) {
        eprintln!("{question}");
    }
    if !args.quiet {
        let notes = plan.notes.iter().cloned().chain(engine::kept_out());
        notes.for_each(|note| eprintln!("note: {note}"));
    }
    let out = match &args.resume {
        Some(dir) => dir.clone(),
        None => new_folder(args.out.as_deref())?,
    };
    let mut journal = Journal::open(&out)?;
    if args.resume.is_none() {
        plan.write(&out)?;
    }
    // What was measured is read before more is: the reports need all of it.
    let history = analyze::read_outcome(&out)?.history;
    if args.resume.is_some() {
        // Before anything is prepared, which may take minutes.
        run::check_manifest(&Manifest::before(&plan, &out)?, history.manifest())?;
    }
    let mut progress = Progress::new(args.quiet);
    if args.json && !args.quiet {
        journal.listen(run::print_event);
        progress = progress.with_events();
    }
    if let Some(address) = args.metrics {
        progress = progress.with_live(serve_metrics(address)?);
    }
    let options = Options {
        out: &out,
        history: &history,
        progress: &progress,
        decide: &|round| analyze::decide(&out, round),
        estimate: &|| analyze::running(&out),
        preflight: preflight(&plan, args.quiet),
    };
    let tracing = Tracing {
        wanted: args.trace,
        collector: &args.trace_to,
        pages: args.trace_pages.as_deref(),
        profiler: args.profiler,
    };
    let ending = super::runtime()?
        .block_on(measure(&plan, &mut journal, &options, tracing))
        .map_err(|error| with_way_on(error, &out))?;
    finish(&out, ending, args)
}

/// The error, which says how the sweep goes on when only its journal could not be written.
fn with_way_on(error: Report, out: &Path) -> Report {
    let of_drive = matches!(error.downcast_ref(), Some(DriveError::Journal(_)));
    if !of_drive && !error.is::<JournalError>() {
        return error;
    }
    let out = out.display();
    error.wrap_err(format!(
        "the sweep stopped, and goes on with engine-bench sweep --resume {out}"
    ))
}

/// Serves metrics of the sweep, of which whoever reaches another address than a loopback one is told.
fn serve_metrics(address: SocketAddr) -> Result<Live> {
    if !address.ip().is_loopback() {
        eprintln!("note: metrics are served beyond this machine, on {address}");
    }
    Live::serve(address).wrap_err_with(|| {
        format!("failed to serve metrics on {address}: choose another address with --metrics")
    })
}

/// Looks at the machine and says what could be better, unless nothing is to be watched.
fn preflight(plan: &Plan, quiet: bool) -> Option<Preflight> {
    if plan.settings.guard == GuardMode::Off {
        return None;
    }
    let preflight = Preflight::read(&plan.settings.cache_dir);
    if !quiet {
        let lines = preflight.lines(false);
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    Some(preflight)
}

/// What is looked at once everything is measured: which blocks are to be traced, who gets the spans, and
/// who else looks.
#[derive(Clone, Copy)]
struct Tracing<'a> {
    wanted: Wanted,
    collector: &'a str,
    pages: Option<&'a str>,
    profiler: Profiler,
}

impl Tracing<'_> {
    /// Makes the traced visits once everything is measured.
    async fn make(self, plan: &Plan, prepared: &Prepared, options: &Options<'_>) -> Result<Ending> {
        if self.wanted == Wanted::None {
            return Ok(Ending::Complete);
        }
        let outcome = analyze::read_outcome(options.out)?;
        let collector = self.collector.trim_end_matches('/');
        let traces_url = match collector.strip_suffix(trace::TRACES_PATH) {
            Some(_) => collector.to_owned(),
            None => format!("{collector}{}", trace::TRACES_PATH),
        };
        let pages = match self.pages {
            Some(pages) => pages.trim_end_matches('/').to_owned(),
            None => trace::jaeger_pages(collector),
        };
        let asked = TraceOptions {
            out: options.out,
            progress: options.progress,
            chosen: analyze::choose(&outcome, self.wanted),
            forward_to: &traces_url,
            pages: &pages,
        };
        let tracing = run::trace(plan, prepared, &asked);
        tokio::select! {
            biased;
            () = super::interrupted() => Ok(Ending::Interrupted),
            traces = tracing => {
                traces?;
                options.progress.end();
                Ok(Ending::Complete)
            }
        }
    }
}

/// Makes the profiled visits once everything is measured.
async fn profile(
    profiler: Profiler,
    plan: &Plan,
    prepared: &Prepared,
    options: &Options<'_>,
) -> Result<Ending> {
    if profiler == Profiler::None {
        return Ok(Ending::Complete);
    }
    if let Some(missing) = profiler.missing() {
        options.progress.line(&format!("note: {missing}"));
        return Ok(Ending::Complete);
    }
    let profiling = run::profile(plan, prepared, (options.out, options.progress), profiler);
    tokio::select! {
        biased;
        () = super::interrupted() => Ok(Ending::Interrupted),
        profiles = profiling => {
            profiles?;
            options.progress.end();
            Ok(Ending::Complete)
        }
    }
}

/// Prepares and drives; a failed preparation is recorded and ends the sweep.
async fn measure(
    plan: &Plan,
    journal: &mut Journal,
    options: &Options<'_>,
    tracing: Tracing<'_>,
) -> Result<Ending> {
    let preparing = run::prepare(&plan.settings, options.out, options.progress);
    let prepared = tokio::select! {
        biased;
        () = super::interrupted() => {
            options.progress.end();
            journal.write(Event::Interrupted)?;
            return Ok(Ending::Interrupted);
        }
        prepared = preparing => prepared,
    };
    options.progress.end();
    let prepared = prepared.and_then(|prepared| {
        let short = run::check_room(plan, &prepared)?;
        if let Some(note) = short {
            options.progress.line(&format!("warning: {note}"));
        }
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => {
            let ending = run::drive(plan, &prepared, journal, options, super::interrupted());
            match ending.await? {
                Ending::Complete => {}
                Ending::Interrupted => return Ok(Ending::Interrupted),
            }
            match tracing.make(plan, &prepared, options).await? {
                Ending::Complete => profile(tracing.profiler, plan, &prepared, options).await,
                Ending::Interrupted => Ok(Ending::Interrupted),
            }
        }
        Err(error) => {
            journal.write(Event::PreparationFailed(error.failure("prepare")))?;
            Ok(Ending::Complete)
        }
    }
}

fn finish(out: &Path, ending: Ending, args: &SweepArgs) -> Result<ExitCode> {
    let report = report::remake(out, None)?;
    let measured = report.measured_anything();
    // A table without a number says less than the causes below.
    if args.json && !args.quiet {
        // The last of the events, each a line.
        super::print(&report.to_line()?)?;
    } else if !args.quiet && measured {
        report::show(&report, false)?;
    }
    if !args.quiet {
        eprintln!("results: {}", out.display());
    }
    if ending == Ending::Interrupted {
        eprintln!(
            "interrupted; go on with engine-bench sweep --resume {}",
            out.display()
        );
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    if measured {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: nothing could be measured");
    eprint!("{}", crate::report::failures(&report));
    Ok(ExitCode::from(EXIT_NOTHING_MEASURED))
}

/// Cells that a dry run lists.
const LISTED_CELLS: usize = 40;

/// Prints the plan, or everything that a person wants to know of it.
fn dry_run(plan: &Plan, question: Option<&str>, values: &str, json: bool) -> Result<ExitCode> {
    if json {
        super::print(&plan.to_json()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = question.map_or(String::new(), |question| format!("{question}\n\n"));
    text += &format!("{values}\n");
    for note in &plan.notes {
        text += &format!("note: {note}\n");
    }
    let ids: Vec<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    let listed = ids.len().min(LISTED_CELLS);
    text += &format!("cells: {}", ids[..listed].join(", "));
    if listed < ids.len() {
        text += &format!(" and {} more", ids.len() - listed);
    }
    let estimate = &plan.estimate;
    let rounds = match plan.settings.adaptive {
        Some(_) => format!(
            "at least {PILOT_ROUNDS} and at most {} rounds; the first {PILOT_ROUNDS}: ",
            plan.settings.rounds
        ),
        None => String::new(),
    };
    let visits = estimate.starts / plan.passes();
    text += &format!(
        "\n{} cells, {rounds}{visits} visits, {} starts of an engine, {:.1} Ggas; about {:.0} s \
         once state and payloads exist (assuming {} Ggas/s and {} s for each reset, start and stop)\n",
        plan.cells.len(),
        estimate.starts,
        estimate.gas as f64 / 1e9,
        estimate.duration_s,
        estimate.assumed_ggas_per_second,
        estimate.assumed_restart_s,
    );
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The results folder: the one asked for, which must be empty, or one named by the time.
fn new_folder(asked: Option<&Path>) -> Result<PathBuf> {
    let out = match asked {
        Some(path) => std::path::absolute(path)?,
        None => std::path::absolute(Path::new("results").join(utc_now()))?,
    };
    fs::create_dir_all(&out).wrap_err_with(|| format!("failed to create {}", out.display()))?;
    if fs::read_dir(&out)?.next().is_some() {
        bail!(
            "the results folder {} is not empty; give --out another one, or go on with it by \
             --resume",
            out.display()
        );
    }
    Ok(out)
}

/// The time as a folder name: `2026-02-16T08-30-05Z`.
fn utc_now() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    utc(now.as_secs())
}

/// Civil date from days, as in Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        for (unix_s, expected) in [
            (0, "1970-01-01T00-00-00Z"),
            (951_782_399, "2000-02-28T23-59-59Z"),
            (951_782_400, "2000-02-29T00-00-00Z"),
            (1_771_230_605, "2026-02-16T08-30-05Z"),
        ] {
            assert_eq!(utc(unix_s), expected);
        }
    }

    #[test]
    fn a_used_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(new_folder(Some(dir.path())).unwrap(), dir.path());
        fs::write(dir.path().join("x"), "").unwrap();
        assert!(
            new_folder(Some(dir.path()))
                .unwrap_err()
                .to_string()
                .contains("is not empty")
        );
    }
}
