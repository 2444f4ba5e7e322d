//! What a machine may lack: programs of others and features of the CPU.
//!
//! Invariant: a test that does not run for want of something is written down as skipped in the file that
//! `cargo xtask test` names. With `CI=true` it fails if a program is what is missing: `cargo xtask test` brings
//! those. What a CPU lacks nothing brings, so there the test counts as skipped everywhere.

use std::{env, ffi::OsString, fs::OpenOptions, io::Write as _, path::PathBuf, thread};

/// Names the file that skipped tests are written to, a line each: the test, a tab, and why.
const SKIPPED_VARIABLE: &str = "ENGINE_BENCH_SKIPPED";

/// A program of others that tests run beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The browser that reports are opened in.
    Browser,
    /// The program of `tests/chain-maker`.
    ChainMaker,
    /// ethrex, as the program of `tests/ethrex-node`.
    Ethrex,
    /// go-ethereum, of the version that `cargo xtask test` builds.
    Geth,
    /// Jaeger, all in one program.
    Jaeger,
    /// Linux' profiler.
    Perf,
    /// Prometheus.
    Prometheus,
    /// The checker of Prometheus' files.
    Promtool,
}

impl Tool {
    /// What it is called, the variable that names it, and the program that is looked for on the PATH when
    /// that is not set.
    const fn known_as(self) -> (&'static str, Option<&'static str>, Option<&'static str>) {
        match self {
            Self::Browser => ("a browser", Some("ENGINE_BENCH_CHROMIUM"), None),
            Self::ChainMaker => ("the chain maker", Some("ENGINE_BENCH_CHAIN_MAKER"), None),
            Self::Ethrex => ("ethrex", Some("ENGINE_BENCH_ETHREX"), None),
            Self::Geth => ("geth", Some("ENGINE_BENCH_GETH"), None),
            Self::Jaeger => (
                "Jaeger",
                Some("ENGINE_BENCH_JAEGER"),
                Some("jaeger-all-in-one"),
            ),
            Self::Perf => ("perf", None, Some("perf")),
            Self::Prometheus => (
                "Prometheus",
                Some("ENGINE_BENCH_PROMETHEUS"),
                Some("prometheus"),
            ),
            Self::Promtool => ("promtool", None, Some("promtool")),
        }
    }

    fn find(self) -> Option<OsString> {
        let (_, variable, program) = self.known_as();
        let named = variable.and_then(env::var_os);
        named.or_else(|| on_path(program?).map(PathBuf::into_os_string))
    }
}

/// Where a tool is. Without it the test that asks is skipped: it has to return at once.
///
/// # Panics
/// When there is none and `CI=true`.
#[track_caller]
pub fn require(tool: Tool) -> Option<OsString> {
    let found = tool.find();
    if found.is_none() {
        let (name, variable, program) = tool.known_as();
        let unset = variable.map(|variable| format!("{variable} is not set"));
        let absent = program.map(|program| format!("no {program} on the PATH"));
        let why: Vec<String> = unset.into_iter().chain(absent).collect();
        skip(&format!("{name} is missing: {}", why.join(", ")));
    }
    found
}

/// Skips the test on this thread for want of a feature of the CPU, in CI too.
pub fn skip_without_cpu_feature(feature: &str) {
    write_down(&format!("the CPU lacks {feature}"));
}

/// Writes down that the test on this thread is skipped, and why.
///
/// # Panics
/// When `CI=true`: there nothing is skipped that could be brought.
#[track_caller]
pub fn skip(why: &str) {
    let in_ci = env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!in_ci, "nothing is skipped in CI: {why}");
    write_down(why);
}

fn write_down(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(file) = env::var_os(SKIPPED_VARIABLE) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .unwrap();
        // One write: other tests append to it too.
        file.write_all(format!("{}\t{why}\n", current_test()).as_bytes())
            .unwrap();
    }
}

/// The program of this test without the digits that cargo adds, and the test's name.
fn current_test() -> String {
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let thread = thread::current();
    format!("{program}::{}", thread.name().unwrap_or("main"))
}

/// The file of a program on the PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}
