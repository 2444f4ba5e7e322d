//! Running named steps: all of them even when one fails, with what was skipped and why at the end.

use crate::tally::{Tally, Tests};
use eyre::{Context as _, Result, bail, ensure};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

/// Version of cargo-deny that `check` installs when none is present.
const DENY_VERSION: &str = "0.20.2";

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Outcome {
    /// One passed, failed or skipped.
    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        match self {
            Self::Passed => tally.passed = 1,
            Self::Failed(_) => tally.failed = 1,
            Self::Skipped(_) => tally.skipped = 1,
        }
        tally
    }
}

/// A step that was run.
struct Ended {
    name: String,
    seconds: f64,
    outcome: Outcome,
    /// What it counts as.
    tally: Tally,
}

/// A list of steps being run, and how each ended.
pub(crate) struct Steps {
    root: PathBuf,
    ended: Vec<Ended>,
    /// Reasons why tests were skipped, with the tests.
    skipped: BTreeMap<String, Vec<String>>,
}

impl Steps {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self {
            root,
            ended: Vec::new(),
            skipped: BTreeMap::new(),
        }
    }

    /// The folder that holds the workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs one step and notes how it ended.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce(&Path) -> Result<()>) {
        eprintln!("== {name}");
        let start = Instant::now();
        let outcome = match step(&self.root) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        };
        self.ended.push(Ended {
            name: name.to_owned(),
            seconds: start.elapsed().as_secs_f64(),
            tally: outcome.tally(),
            outcome,
        });
    }

    /// Runs a step unless a tool is missing. With `CI=true` a missing tool is a failure.
    pub(crate) fn when(
        &mut self,
        missing: Option<String>,
        name: &str,
        step: impl FnOnce(&Path) -> Result<()>,
    ) {
        match missing {
            None => self.run(name, step),
            Some(why) if in_ci() => self.run(name, |_| bail!("nothing is skipped in CI: {why}")),
            Some(why) => {
                let outcome = Outcome::Skipped(why);
                self.ended.push(Ended {
                    name: name.to_owned(),
                    seconds: 0.0,
                    tally: outcome.tally(),
                    outcome,
                });
            }
        }
    }

    /// Runs cargo's tests as a step, which counts as those that it runs.
    pub(crate) fn tests(&mut self, name: &str, args: &[&str], env: &[(&str, &str)]) {
        let mut tests = Tests::default();
        self.run(name, |root| tests.run(root, args, env));
        for (why, names) in tests.skipped {
            self.skipped.entry(why).or_default().extend(names);
        }
        let Some(ended) = self.ended.last_mut() else {
            return;
        };
        // One that fails without a failed test was not built, or was cut.
        let failed = ended.tally.failed.max(tests.tally.failed);
        ended.tally = Tally {
            failed,
            ..tests.tally
        };
    }

    /// Runs a cargo command as a step.
    pub(crate) fn cargo(&mut self, name: &str, args: &[&str]) {
        self.cargo_with_env(name, args, &[]);
    }

    /// Runs a cargo command with additional environment variables as a step.
    pub(crate) fn cargo_with_env(&mut self, name: &str, args: &[&str], env: &[(&str, &str)]) {
        self.run(name, |root| {
            let mut command = cargo(root);
            command.args(args).envs(env.iter().copied());
            run(&mut command)
        });
    }

    /// Prints the list of steps, why tests were skipped, and last how many tests and other steps passed,
    /// failed and were skipped. Fails if one did.
    pub(crate) fn finish(self) -> ExitCode {
        eprintln!();
        let mut all = Tally::default();
        for Ended {
            name,
            seconds,
            outcome,
            tally,
        } in &self.ended
        {
            all += *tally;
            match outcome {
                Outcome::Passed => eprintln!("passed   {name} ({seconds:.0} s)"),
                Outcome::Skipped(why) => eprintln!("SKIPPED  {name}: {why}"),
                Outcome::Failed(why) => eprintln!("FAILED   {name} ({seconds:.0} s): {why}"),
            }
        }
        for (why, tests) in &self.skipped {
            eprintln!("SKIPPED  {}: {why}", tests.join(", "));
        }
        eprintln!("{all}");
        match all.failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}

/// Installs packages of npm into a folder of their own.
pub(crate) fn npm_install(folder: &Path, packages: &[&str]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund"]);
    command.arg("--loglevel=error").arg("--prefix").arg(folder);
    run(command.args(packages))
}

/// Checks licences, sources and duplicate versions with cargo-deny, installing it when missing.
pub(crate) fn deny(root: &Path) -> Result<()> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        run(cargo(root)
            .args([
                "install",
                "cargo-deny",
                "--version",
                DENY_VERSION,
                "--locked",
                "--quiet",
            ])
            .arg("--root")
            .arg(&tools))?;
    }
    run(Command::new(program).current_dir(root).args([
        "--all-features",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}

/// Runs a command to its end; anything but success is an error that names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .wrap_err_with(|| format!("failed to start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Whether the program is on the PATH and answers `--version`.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The folder that holds the workspace.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.ancestors().nth(2).map(Path::to_owned);
    root.ok_or_else(|| eyre::eyre!("failed to find the workspace above {}", manifest.display()))
}

/// The cargo that runs this program, started in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Whether nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}
