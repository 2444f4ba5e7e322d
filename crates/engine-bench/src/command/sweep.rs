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
    run::{self, Ending, Options, Prepared, Progress, TraceOptions},
    trace::{self, Wanted},
};
use bench_stats::rounds::PILOT_ROUNDS;
use eyre::{Report, Result, WrapErr as _, bail};
use jiff::Timestamp;
use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind, IsTerminal as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Flags that say what a resumed sweep shows; all others are in its plan.
const OF_A_RESUMED_SWEEP: [&str; 9] = [
    "dry-run",
    "json",
    "metrics",
    "profiler",
    "quiet",
    "resume",
    "trace",
    "trace-pages",
    "trace-to",
];

pub(crate) fn sweep(args: SweepArgs) -> Result<ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let (args, origins, question) = resolve::merge(args, &typed)?;
    let args = &args;
    let mut typed = origins.keys();
    let planned = typed.find(|flag| !OF_A_RESUMED_SWEEP.contains(&flag.as_str()));
    if let Some(flag) = planned.filter(|_| args.resume.is_some()) {
        bail!(
            "cannot resume with --{flag}, which the plan holds already; omit it, or start a new sweep"
        );
    }
    let plan = match &args.resume {
        Some(dir) => Plan::read(dir)?,
        None => Plan::asked(resolve::resolve(args)?, args.yes)?,
    };
    run::check_feasible(&plan)?;
    if let Some(missing) = args.profiler.missing() {
        bail!("--profiler cannot be used: {missing}; install it, or omit the flag");
    }
    let out = match &args.resume {
        Some(dir) => dir.clone(),
        None => new_folder(args.out.as_deref())?,
    };
    if args.resume.is_some() {
        let started_with = analyze::read_outcome(&out)?.history;
        run::check_manifest(&Manifest::before(&plan, &out)?, started_with.manifest())?;
    }
    if args.dry_run {
        let values = resolve::shown(&plan.settings, &origins);
        return dry_run(&plan, question.as_deref(), &values, args.json);
    }
    if let Some(question) = question.filter(|_| !args.quiet) {
        eprintln!("{question}");
    }
    if !args.quiet {
        let notes = notes(&plan).into_iter().chain(engine::kept_out());
        notes.for_each(|note| eprintln!("note: {note}"));
        if args.resume.is_none() && !is_wanted(&plan, args)? {
            bail!("nothing was measured; sweep another flag, or give --yes");
        }
    }
    let out = make_folder(out, args.resume.is_none() && args.out.is_none())
        .wrap_err("failed to make the results folder")?;
    let mut journal = Journal::open(&out)?;
    if args.resume.is_none() {
        plan.write(&out)?;
    }
    // What was measured is read before more is: the reports need all of it.
    let history = analyze::read_outcome(&out)?.history;
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
    let ending = super::block_on(measure(&plan, &mut journal, &options, args))?;
    let ending = ending.map_err(|error| with_way_on(error, &out))?;
    finish(&out, ending, args)
}

/// What is to be said of the engines of a sweep before it begins.
fn notes(plan: &Plan) -> Vec<String> {
    let of_engines = [
        run::inert(&plan.settings),
        run::unknown_releases(&plan.settings),
    ];
    [plan.notes.clone(), of_engines.concat()].concat()
}

/// Whether a sweep whose axis cannot act is wanted all the same: a person is asked, where one is there.
fn is_wanted(plan: &Plan, args: &SweepArgs) -> Result<bool> {
    let is_there = io::stdin().is_terminal() && io::stderr().is_terminal();
    if args.yes || !is_there || run::inert(&plan.settings).is_empty() {
        return Ok(true);
    }
    eprint!("measure it all the same? [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// The error, which says how to resume the sweep when only its journal could not be written.
fn with_way_on(error: Report, out: &Path) -> Report {
    if !error.is::<JournalError>() {
        return error;
    }
    let out = out.display();
    error.wrap_err(format!(
        "the sweep stopped; resume it with engine-bench sweep --resume {out}"
    ))
}

/// Serves metrics of the sweep, of which whoever reaches another address than a loopback one is told.
fn serve_metrics(address: SocketAddr) -> Result<Live> {
    if !address.ip().is_loopback() {
        eprintln!("note: metrics are reachable from other machines, on {address}");
    }
    Live::serve(address).wrap_err_with(|| {
        format!("failed to serve metrics on {address}; choose another address with --metrics")
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

/// Makes the traced visits once everything is measured.
async fn trace(
    args: &SweepArgs,
    plan: &Plan,
    prepared: &Prepared,
    options: &Options<'_>,
) -> Result<Ending> {
    if args.trace == Wanted::None {
        return Ok(Ending::Complete);
    }
    let outcome = analyze::read_outcome(options.out)?;
    let collector = args.trace_to.trim_end_matches('/');
    let traces_url = match collector.strip_suffix(trace::TRACES_PATH) {
        Some(_) => collector.to_owned(),
        None => format!("{collector}{}", trace::TRACES_PATH),
    };
    let pages = match &args.trace_pages {
        Some(pages) => pages.trim_end_matches('/').to_owned(),
        None => trace::jaeger_pages(collector),
    };
    let asked = TraceOptions {
        out: options.out,
        progress: options.progress,
        chosen: analyze::choose(&outcome, args.trace),
        forward_to: &traces_url,
        pages: &pages,
    };
    look(run::trace(plan, prepared, &asked), options.progress).await
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
    let profiling = run::profile(plan, prepared, (options.out, options.progress), profiler);
    look(profiling, options.progress).await
}

/// Makes visits that are no samples.
async fn look<T>(
    visits: impl Future<Output = io::Result<T>>,
    progress: &Progress,
) -> Result<Ending> {
    let Some(made) = super::unless_interrupted(visits).await else {
        return Ok(Ending::Interrupted);
    };
    made?;
    progress.end();
    Ok(Ending::Complete)
}

/// Prepares and drives; a failed preparation is recorded and ends the sweep.
async fn measure(
    plan: &Plan,
    journal: &mut Journal,
    options: &Options<'_>,
    args: &SweepArgs,
) -> Result<Ending> {
    let preparing = run::prepare(&plan.settings, options.out, options.progress);
    let prepared = super::unless_interrupted(preparing).await;
    options.progress.end();
    let Some(prepared) = prepared else {
        journal.write(Event::Interrupted)?;
        return Ok(Ending::Interrupted);
    };
    let prepared = prepared.and_then(|prepared| {
        if let Some(note) = run::check_room(plan, &prepared)? {
            options.progress.line(&format!("warning: {note}"));
        }
        Ok(prepared)
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            journal.write(Event::PreparationFailed(error.failure("prepare")))?;
            return Ok(Ending::Complete);
        }
    };
    let driving = run::drive(plan, &prepared, journal, options, super::interrupted());
    if driving.await? == Ending::Interrupted
        || trace(args, plan, &prepared, options).await? == Ending::Interrupted
    {
        return Ok(Ending::Interrupted);
    }
    profile(args.profiler, plan, &prepared, options).await
}

fn finish(out: &Path, ending: Ending, args: &SweepArgs) -> Result<ExitCode> {
    let report = report::remake(out, None)?;
    let measured = report.measured_anything();
    // A table without a number says less than the causes below.
    if args.json && !args.quiet {
        // The last of the events, each a line.
        super::print(&(serde_json::to_string(&report)? + "\n"))?;
    } else if !args.quiet && measured {
        report::show(&report, out, false)?;
    }
    if !args.quiet && (args.json || !measured) {
        eprintln!("results: {}", out.display());
    }
    if ending == Ending::Interrupted {
        eprintln!(
            "interrupted; resume with engine-bench sweep --resume {}",
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

/// Prints the plan, or everything that a person wants to know of it.
fn dry_run(plan: &Plan, question: Option<&str>, values: &str, json: bool) -> Result<ExitCode> {
    if json {
        super::print(&plan.to_json()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = question.map_or(String::new(), |question| format!("{question}\n\n"));
    text += &format!("{values}\n");
    for note in notes(plan) {
        text += &format!("note: {note}\n");
    }
    text += &format!("cells: {}", plan.some_ids());
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

/// Where the results go, which is not made here: the folder asked for, empty if it is there, or one named by
/// the time.
fn new_folder(asked: Option<&Path>) -> Result<PathBuf> {
    let out = match asked {
        Some(path) => std::path::absolute(path)?,
        None => {
            let now = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ");
            let out = std::path::absolute(Path::new("results").join(now.to_string()))?;
            run::writable(&out, "--out")?;
            return Ok(out);
        }
    };
    let shown = out.display();
    match fs::read_dir(&out).map(|mut inside| inside.next().is_some()) {
        Ok(false) => {}
        Ok(true) => bail!(
            "the results folder {shown} is not empty; give --out another folder, or resume its sweep with \
             --resume {shown}"
        ),
        Err(reason) if reason.kind() == ErrorKind::NotFound => {}
        Err(reason) => {
            bail!("failed to use {shown} for results: {reason}; give --out another folder")
        }
    }
    run::writable(&out, "--out")?;
    Ok(out)
}

/// Makes the results folder. Of those that are named by the time, each is one sweep's: another of the same second
/// gets a number.
fn make_folder(out: PathBuf, is_named_by_time: bool) -> io::Result<PathBuf> {
    if !is_named_by_time {
        fs::create_dir_all(&out)?;
        return Ok(out);
    }
    fs::create_dir_all(out.parent().unwrap_or(&out))?;
    let mut path = out.clone();
    let mut number = 1;
    loop {
        match fs::create_dir(&path) {
            Err(reason) if reason.kind() == ErrorKind::AlreadyExists => {
                number += 1;
                let name = out.file_name().unwrap_or_default().display();
                path = out.with_file_name(format!("{name}-{number}"));
            }
            made => return made.map(|()| path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_folder_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(new_folder(Some(dir.path())).unwrap(), dir.path());
        fs::write(dir.path().join("x"), "").unwrap();
        let refused = new_folder(Some(dir.path())).unwrap_err().to_string();
        assert!(refused.contains("is not empty"), "{refused}");
    }

    #[test]
    fn sweeps_of_the_same_second_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("results/now");
        let made = [(); 3].map(|()| make_folder(out.clone(), true).unwrap());
        let names = made.each_ref().map(|path| path.file_name().unwrap());
        assert_eq!(names, ["now", "now-2", "now-3"]);
        // What was asked for is used as it is.
        assert_eq!(make_folder(out.clone(), false).unwrap(), out);
    }
}
