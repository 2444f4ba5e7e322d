//! Where an engine spends its CPU time: a sampling profiler on one more visit.
//!
//! Invariant: a profiler that fails, is refused or slow costs the profile and nothing else; no measured pass
//! is profiled.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::{Child, Command};

/// Folder of the profiles in a results folder.
pub const PROFILES_DIR: &str = "profiles";
/// File that names them all.
const INDEX_FILE: &str = "index.json";

/// Samples a second: a prime, so that it keeps step with nothing.
const SAMPLES_PER_SECOND: u32 = 499;

/// Bytes of the stack that perf copies with each sample, from which it finds callers.
const STACK_BYTES: u32 = 8192;

/// How long a profiler is given to attach itself before work begins.
const ATTACH_PAUSE: Duration = Duration::from_secs(1);

/// How long it may take to write its file.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);

/// A profiler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Profiler {
    /// samply, whose files the Firefox Profiler opens.
    Samply,
    /// perf of the Linux kernel.
    Perf,
    /// None.
    #[default]
    None,
}

/// The profile of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellProfile {
    /// The cell.
    pub cell: String,
    /// Its file, below the results folder.
    pub file: Option<String>,
    /// The command that shows it, given in the results folder.
    pub show: Option<String>,
    /// Why there is none.
    pub problem: Option<String>,
}

/// The profiles of a results folder; none when there are none.
pub fn read_index(dir: &Path) -> Vec<CellProfile> {
    let index = fs::read(dir.join(PROFILES_DIR).join(INDEX_FILE)).ok();
    let profiles = index.and_then(|json| serde_json::from_slice(&json).ok());
    profiles.unwrap_or_default()
}

/// Writes what [`read_index`] reads.
///
/// # Errors
/// When it cannot.
pub fn write_index(dir: &Path, profiles: &[CellProfile]) -> io::Result<()> {
    let folder = dir.join(PROFILES_DIR);
    fs::create_dir_all(&folder)?;
    let json = serde_json::to_vec_pretty(profiles)?;
    fs::write(folder.join(INDEX_FILE), json)
}

/// A profiler at work. Dropping it kills it.
#[derive(Debug)]
pub struct Profiling {
    child: Child,
    file: PathBuf,
    log: PathBuf,
}

impl Profiler {
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Samply => Some("samply"),
            Self::Perf => Some("perf"),
            Self::None => None,
        }
    }

    /// Why it cannot be used on this machine.
    pub fn missing(self) -> Option<String> {
        let program = self.program()?;
        let mut asking = std::process::Command::new(program);
        let missing = asking.arg("--version").output().is_err();
        missing.then(|| format!("{program} is not on the PATH"))
    }

    /// The file of a cell's profile, below the results folder.
    pub fn file(self, cell: &str) -> String {
        let kind = match self {
            Self::Samply => "json.gz",
            Self::Perf | Self::None => "perf.data",
        };
        format!("{PROFILES_DIR}/{cell}.{kind}")
    }

    /// The command that shows a file.
    pub fn show(self, file: &str) -> String {
        match self {
            Self::Samply => format!("samply load {file}"),
            Self::Perf | Self::None => format!("perf report --no-children -i {file}"),
        }
    }

    fn command(self, pid: u32, file: &Path) -> Command {
        let mut command = Command::new(self.program().unwrap_or("true"));
        command.arg("record");
        match self {
            Self::Samply => command
                .args(["--save-only", "--rate"])
                .arg(SAMPLES_PER_SECOND.to_string()),
            Self::Perf | Self::None => command
                .arg(format!("--freq={SAMPLES_PER_SECOND}"))
                .arg(format!("--call-graph=dwarf,{STACK_BYTES}")),
        };
        command.arg("-o").arg(file).arg("-p").arg(pid.to_string());
        command
    }

    /// Attaches it to a process. What it says goes to a log beside `file`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn attach(self, pid: u32, file: &Path) -> io::Result<Profiling> {
        let log = file.with_extension("log");
        let output = File::create(&log)?;
        let mut command = self.command(pid, file);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let child = command.stdout(output.try_clone()?).stderr(output).spawn()?;
        tokio::time::sleep(ATTACH_PAUSE).await;
        Ok(Profiling {
            child,
            file: file.to_owned(),
            log,
        })
    }
}

impl Profiling {
    /// Has it write its file.
    ///
    /// # Errors
    /// In one line, when it had ended before, fails, or does not come to an end.
    pub async fn end(mut self) -> Result<(), String> {
        let ended = self.child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            return Err(format!("it ended by itself ({status}): {}", self.said()));
        }
        if let Some(pid) = self.child.id() {
            // An error means that it has just ended, which waiting finds out.
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT);
        }
        match tokio::time::timeout(WRITE_TIMEOUT, self.child.wait()).await {
            // It ends as its signal asks, or with success: only its file tells.
            Ok(Ok(_)) if self.file.exists() => Ok(()),
            Ok(Ok(status)) => Err(format!("it left no file ({status}): {}", self.said())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it wrote no file within {WRITE_TIMEOUT:?}")),
        }
    }

    /// The last thing it said.
    fn said(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.unwrap_or("it said nothing").trim().to_owned()
    }
}
