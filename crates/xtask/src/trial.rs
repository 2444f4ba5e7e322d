//! Trials of the sweep itself: does it name differences where there are none, does it find one of a
//! known size, and how long does an answer take beside fixed procedures of one pass a cell?
//!
//! They take minutes to hours and their figures go to `docs/record`. No test runs them.

use crate::steps::{cargo, run};
use eyre::{Context as _, OptionExt as _, Result, bail};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// What to try.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Trial {
    /// Sweeps over cells that are the same but for their name, simulated ones first: how many name a
    /// difference.
    Same {
        #[command(flatten)]
        sweeps: Sweeps,
        /// Simulated sweeps of each kind; 0 for none.
        #[arg(long, default_value_t = 2000)]
        simulated: u64,
    },
    /// Sweeps over bench-reth and bench-reth slowed down: how many find it.
    ///
    /// Nothing is persisted during a pass: persistence in the background would go on while the engine is delayed,
    /// and so make up for a part of the delay.
    Slowed {
        #[command(flatten)]
        sweeps: Sweeps,
        /// How much longer every payload takes, in percent of its own time.
        #[arg(long, default_value_t = 3.0)]
        percent: f64,
    },
    /// An adaptive sweep beside one pass per cell with fixed waits, until either has an answer.
    Decision {
        /// Chunk sizes.
        #[arg(long, default_value = "5,15,60,240")]
        chunks: String,
        /// Gas levels.
        #[arg(long, default_value = "10M,40M")]
        gas: String,
        /// Let the cells of the sweep take turns.
        #[arg(long)]
        interleave: bool,
        /// Payloads of a pass, for every level, of the sweep and of the fixed procedure beside it.
        #[arg(long)]
        count: Option<u64>,
        /// Payloads of a pass of one more fixed procedure, a number for each level; the study that the
        /// procedure is of replayed 345 of 10M and 62 of 40M.
        #[arg(long, value_delimiter = ',', default_values_t = [345, 62])]
        study_counts: Vec<u64>,
        /// New folder for what is measured.
        #[arg(long)]
        out: PathBuf,
    },
}

/// A row of sweeps.
#[derive(Debug, clap::Args)]
pub(crate) struct Sweeps {
    /// How many sweeps; 0 for none.
    #[arg(long, default_value_t = 10)]
    sweeps: u32,
    /// Rounds of each.
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Payloads of a pass.
    #[arg(long, default_value_t = 60)]
    count: u32,
    /// Gas of a payload.
    #[arg(long, default_value = "10M")]
    gas: String,
    /// Let the cells of each sweep take turns.
    #[arg(long)]
    interleave: bool,
    /// New folder for their results; needed when any are made.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Sweeps {
    /// Where results go; none when no sweep is to be made.
    fn folder(&self) -> Result<Option<&Path>> {
        match (self.sweeps, &self.out) {
            (0, _) => Ok(None),
            (_, Some(folder)) => Ok(Some(folder)),
            (sweeps, None) => bail!(
                "no folder for the results of {sweeps} sweeps: add --out DIR with a new folder, or --sweeps 0"
            ),
        }
    }
}

/// Runs the trial and prints its figures.
pub(crate) fn start(root: &Path, trial: &Trial) -> Result<()> {
    match trial {
        Trial::Same { sweeps, simulated } => {
            let flags = ["--axis", "env:ENGINE_BENCH_NAME_ONLY=a,b"];
            sweeps.folder()?;
            if *simulated > 0 {
                simulate(root, *simulated)?;
            }
            row(root, sweeps, &flags, None)
        }
        Trial::Slowed { sweeps, percent } => {
            let axis = format!("bench.inject-slowdown=0,{percent}");
            let flags = ["--axis", &axis, "--set", SAVES_NOTHING];
            row(root, sweeps, &flags, Some(*percent))
        }
        Trial::Decision {
            chunks,
            gas,
            interleave,
            count,
            study_counts,
            out,
        } => {
            let levels: Vec<&str> = gas.split(',').collect();
            if levels.len() != study_counts.len() {
                bail!("--study-counts needs a number for each level of --gas {gas}");
            }
            let decision = Decision {
                programs: &build(root)?,
                chunks,
                levels,
                interleave: *interleave,
                count: *count,
                out,
            };
            decision.run(study_counts)
        }
    }
}

/// Builds what the trials run; gives its folder.
fn build(root: &Path) -> Result<PathBuf> {
    run(cargo(root).args(["build", "--release", "--locked", "--bins"]))?;
    Ok(root.join("target/release"))
}

/// Prints the tables of so many simulated sweeps of each kind.
fn simulate(root: &Path, sweeps: u64) -> Result<()> {
    let flags = ["run", "--release", "--locked", "--package", "bench-stats"];
    let example = ["--example", "simulate", "--", &sweeps.to_string()];
    run(cargo(root).args(flags).args(example))
}

/// The flag of a sweep whose cells take turns.
fn interleaving(interleave: bool) -> Option<&'static str> {
    interleave.then_some("--interleave")
}

/// Blocks that an engine keeps before it persists any: more than a pass has.
const SAVES_NOTHING: &str = "engine.persistence-threshold=100000";

/// Runs sweeps over one axis of two values, which is among `flags`, and counts their verdicts.
fn row(root: &Path, sweeps: &Sweeps, flags: &[&str], injected_percent: Option<f64>) -> Result<()> {
    let Some(folder) = sweeps.folder()? else {
        return Ok(());
    };
    let programs = build(root)?;
    make_new(folder)?;
    let (mut named, mut covered) = (0, 0);
    for number in 1..=sweeps.sweeps {
        let out = folder.join(format!("{number:03}"));
        let mut command = Command::new(programs.join("engine-bench"));
        command
            .args(["sweep", "--quiet", "--gas", &sweeps.gas])
            .args(flags)
            .args(interleaving(sweeps.interleave))
            .args(["--rounds", &sweeps.rounds.to_string()])
            .args(["--count", &sweeps.count.to_string(), "--out"])
            .arg(&out)
            .stdout(Stdio::null());
        run(&mut command)?;
        let report = report(&out)?;
        let pair = &report["comparisons"][0];
        let verdict = pair["verdict"].as_str().ok_or_eyre("no verdict")?;
        let bound = |name: &str| pair["ratio"][name].as_f64().unwrap_or(f64::NAN);
        let expected = 1.0 + injected_percent.unwrap_or(0.0) / 100.0;
        named += u32::from(["faster", "slower"].contains(&verdict));
        covered += u32::from(bound("low") <= expected && expected <= bound("high"));
        println!(
            "{number:3}  {:.4} [{:.4}, {:.4}]  {verdict}, {}; {:.0} s, {} visits void",
            bound("value"),
            bound("low"),
            bound("high"),
            pair["relevance"].as_str().unwrap_or("-"),
            report["time_s"]["wall"].as_f64().unwrap_or(f64::NAN),
            report["guard"]["voided"],
        );
    }
    let of = sweeps.sweeps;
    println!("{named} of {of} sweeps name a difference");
    println!("{covered} of {of} intervals hold the ratio that is true");
    Ok(())
}

/// What a procedure with fixed waits sleeps in one pass, in seconds: after the engine was stopped,
/// after the first fork choice, and between runs.
const FIXED_WAITS_S: [u64; 3] = [6, 5, 5];
/// What it sleeps after every payload.
const WAIT_AFTER_PAYLOAD: &str = "400ms";
/// Longest time an engine may take to open its port.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// A sweep and fixed procedures over the same cells.
struct Decision<'a> {
    programs: &'a Path,
    chunks: &'a str,
    levels: Vec<&'a str>,
    interleave: bool,
    count: Option<u64>,
    out: &'a Path,
}

impl Decision<'_> {
    /// States and payloads are made before any clock starts.
    fn run(&self, study_counts: &[u64]) -> Result<()> {
        make_new(self.out)?;
        let datadir = self.out.join("datadir");
        run(self.program("init").arg("--datadir").arg(&datadir))?;
        let same = self.generate("payloads", &vec![self.count; self.levels.len()])?;
        let study: Vec<Option<u64>> = study_counts.iter().copied().map(Some).collect();
        let study = self.generate("study", &study)?;
        let (sweep_s, voided_s) = self.sweep()?;
        let same_s = self.fixed(&datadir, &same)?;
        let study_s = self.fixed(&datadir, &study)?;
        println!("adaptive sweep: {sweep_s:.0} s, {voided_s:.0} s of them for void visits");
        for (what, fixed_s) in [
            ("the same payloads", same_s),
            ("the payloads of the study", study_s),
        ] {
            println!(
                "one discarded and one counted pass per cell with fixed waits, {what}: {fixed_s:.0} s; the \
                 sweep takes {:.2} of it",
                sweep_s / fixed_s
            );
        }
        Ok(())
    }

    fn program(&self, verb: &str) -> Command {
        let mut command = Command::new(self.programs.join("engine-bench"));
        command.arg(verb);
        command
    }

    /// Makes payloads of every level, as many as a sweep would where no count is given; gives their folder.
    fn generate(&self, name: &str, counts: &[Option<u64>]) -> Result<PathBuf> {
        let folder = self.out.join(name);
        for (level, count) in self.levels.iter().zip(counts) {
            let mut command = self.program("generate");
            command.args(["--gas", level, "--cache-dir"]);
            command
                .arg(self.out.join("cache"))
                .arg("--out")
                .arg(&folder);
            command.args(
                count
                    .iter()
                    .flat_map(|count| ["--count".to_owned(), count.to_string()]),
            );
            run(&mut command)?;
        }
        Ok(folder)
    }

    /// Sweeps until there is a best set for every level; gives the seconds that it and its void visits took.
    fn sweep(&self) -> Result<(f64, f64)> {
        let results = self.out.join("sweep");
        let begun = Instant::now();
        let mut command = self.program("sweep");
        command.args(interleaving(self.interleave));
        command.args(["--chunks", self.chunks, "--gas", &self.levels.join(",")]);
        command.arg("--cache-dir").arg(self.out.join("cache"));
        command.args(
            self.count
                .iter()
                .flat_map(|count| ["--count".to_owned(), count.to_string()]),
        );
        run(command.arg("--out").arg(&results))?;
        let took_s = begun.elapsed().as_secs_f64();
        let report = report(&results)?;
        for level in report["levels"].as_array().into_iter().flatten() {
            println!("best at {} gas: {}", level["gas"], level["best"]);
        }
        Ok((took_s, report["time_s"]["voided"].as_f64().unwrap_or(0.0)))
    }

    /// The seconds that a discarded and a counted pass of every cell take.
    fn fixed(&self, datadir: &Path, payloads: &Path) -> Result<f64> {
        let begun = Instant::now();
        for chunk in self.chunks.split(',') {
            for level in &self.levels {
                let pass = FixedPass {
                    programs: self.programs,
                    datadir,
                    payloads: &payloads.join(level),
                    out: self.out,
                };
                pass.run(chunk)?;
                pass.run(chunk)?;
            }
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// A pass of the procedure with fixed waits.
struct FixedPass<'a> {
    programs: &'a Path,
    datadir: &'a Path,
    payloads: &'a Path,
    out: &'a Path,
}

impl FixedPass<'_> {
    fn run(&self, chunk: &str) -> Result<()> {
        let [after_stop, after_fork_choice, between_runs] = FIXED_WAITS_S.map(Duration::from_secs);
        sleep(after_stop);
        let bench_reth = || Command::new(self.programs.join("bench-reth"));
        let datadir = ["--datadir".as_ref(), self.datadir.as_os_str()];
        run(bench_reth()
            .args(["stage", "unwind"])
            .args(datadir)
            .args(["to-block", "0"])
            .stdout(Stdio::null()))?;
        // The secret that the engine makes where it is told no other.
        let (jwt, port) = (self.datadir.join("jwt.hex"), free_port()?);
        let log = fs::File::create(self.out.join("fixed.log"))?;
        let engine = bench_reth()
            .arg("node")
            .args(datadir)
            .args(["--authrpc.port", &port.to_string()])
            .args(["--engine.multiproof-chunk-size", chunk])
            .stdout(log)
            .spawn()?;
        let engine = Engine(engine);
        wait_for(port)?;
        sleep(after_fork_choice);
        run(Command::new(self.programs.join("engine-bench"))
            .args(["replay", "--wait-time", WAIT_AFTER_PAYLOAD, "--payloads"])
            .arg(self.payloads)
            .args(["--engine-url", &format!("http://127.0.0.1:{port}")])
            .arg("--jwt-secret")
            .arg(&jwt)
            .stdout(Stdio::null()))?;
        drop(engine);
        sleep(between_runs);
        Ok(())
    }
}

/// An engine that is asked to end, and waited for, when this goes.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let asked = Command::new("kill").arg(self.0.id().to_string()).status();
        if asked.is_err() {
            self.0.kill().ok();
        }
        self.0.wait().ok();
    }
}

fn free_port() -> Result<u16> {
    let socket = TcpListener::bind(("127.0.0.1", 0))?;
    Ok(socket.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > READY_TIMEOUT {
            bail!("the engine did not open port {port} within {READY_TIMEOUT:?}");
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn make_new(dir: &Path) -> Result<()> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(dir)
        .wrap_err_with(|| format!("failed to make {}, which has to be new", dir.display()))
}

fn report(results: &Path) -> Result<Value> {
    let path = results.join("report.json");
    let text = fs::read(&path).wrap_err_with(|| format!("failed to read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}
