//! The real program in a scratch folder: small words for the tests.
//!
//! Invariant: a test shares nothing with another. What takes time to make, a small state and payloads on it,
//! is made once for all tests of a program run, and each gets a copy of its own.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};
use tempfile::TempDir;
use testkit::{Ended, Running};

/// The smallest state there is: most tests are about visits, not about states.
pub(crate) const TINY: &str = "large:2000:10000";

/// A cache with a tiny state and payloads on it, which nobody writes to.
fn sealed_cache() -> &'static Path {
    // Beside the other files that cargo keeps for tests, emptied by whoever comes first: a static
    // is never dropped, so a temporary folder would stay behind.
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sealed");
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        fs::create_dir(&dir).unwrap();
        let world = World::empty();
        world.ok("generate --gas 2M --count 6 --out @payloads");
        let mut moving = Command::new("mv");
        let moved = moving.arg(world.path("cache")).arg(&dir).status();
        assert!(moved.unwrap().success());
        dir.join("cache")
    })
}

/// A folder for one test, with a cache in it.
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    /// With a cache that holds a tiny state, and its first payloads of 2M.
    pub(crate) fn new() -> Self {
        let sealed = sealed_cache();
        let world = Self::empty();
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]);
        let copied = copy.arg(sealed).arg(world.folder.path()).status();
        assert!(copied.unwrap().success());
        world
    }

    /// With a cache in which everything has to be made.
    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A path in this test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in this test's cache.
    pub(crate) fn cache(&self, name: &str) -> PathBuf {
        self.path("cache").join(name)
    }

    /// The program with a line of arguments. `@name` is a path in this test's folder.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_engine-bench"));
        for word in line.split_whitespace() {
            match word.strip_prefix('@') {
                Some(name) => command.arg(self.path(name)),
                None => command.arg(word),
            };
        }
        let verb = line.split(' ').next().unwrap_or_default();
        let lacks = |flag: &str| !line.contains(flag);
        let is_sweep = verb == "sweep";
        if ["sweep", "init", "generate"].contains(&verb) && lacks("--resume") {
            command.arg("--cache-dir").arg(self.path("cache"));
            // A sweep on a state that is there makes none.
            if lacks("--profile") && lacks(".toml") && (!is_sweep || lacks("--datadir")) {
                command.args(["--profile", TINY]);
            }
        }
        if is_sweep && lacks("--rounds") && lacks("--resume") {
            // These tests are about visits, not about statistics.
            command.args(["--rounds", "1"]);
        }
        if is_sweep && lacks("--guard") && lacks("--resume") {
            // Other tests run meanwhile.
            command.args(["--guard", "warn"]);
        }
        command
            .current_dir(self.folder.path())
            .env_remove("RUST_LOG");
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, line: &str) -> Ended {
        self.command(line).output().unwrap().into()
    }

    /// Runs the program, which has to succeed.
    pub(crate) fn ok(&self, line: &str) -> Ended {
        let ended = self.run(line);
        assert_eq!(ended.code, Some(0), "{line}: {ended:#?}");
        ended
    }

    /// Runs the program, which has to refuse with code 2, saying all of this; gives what it said.
    pub(crate) fn refused(&self, line: &str, parts: &[&str]) -> String {
        let Ended { code, stderr, .. } = self.run(line);
        assert_eq!(code, Some(2), "{line}: {stderr}");
        for part in parts {
            assert!(
                stderr.contains(part),
                "{line}: `{part}` is not in: {stderr}"
            );
        }
        stderr
    }

    /// Starts the program with its output kept.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running::start(&mut self.command(line))
    }

    /// `report.json` of a results folder.
    pub(crate) fn report(&self, out: &str) -> Value {
        json(&self.path(out).join("report.json"))
    }

    /// A file of this test's folder.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The records of a results folder's journal, without its header.
    pub(crate) fn journal(&self, out: &str) -> Vec<Value> {
        let journal = self.text(&format!("{out}/journal.ndjson"));
        parsed(journal.lines().skip(1))
    }

    /// Rows of the samples that a visit of a cell was measured by.
    pub(crate) fn samples(&self, round: u64, cell: &Value) -> Vec<Row> {
        let cell = cell["id"].as_str().unwrap();
        rows(&self.path(&format!("out/visits/{round}-{cell}/measured/samples.csv")))
    }

    /// The pid of the engine that a running sweep has started; `None` between two.
    pub(crate) fn engine(&self) -> Option<u32> {
        let text = fs::read_to_string(self.cache("work/engine.pid")).ok()?;
        let owner: Value = serde_json::from_str(&text).ok()?;
        owner["pid"].as_u64()?.try_into().ok()
    }

    /// Fails when the engine of a sweep in the shared cache is running.
    pub(crate) fn assert_no_engine(&self) {
        let work = self.cache("work");
        let mine = |dir: &fs::DirEntry| {
            let line = fs::read(dir.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&*work.to_string_lossy())
        };
        let running = fs::read_dir("/proc").unwrap().flatten();
        let left: Vec<_> = running.filter(mine).map(|dir| dir.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// Lines of JSON.
pub(crate) fn parsed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let values = lines.map(serde_json::from_str);
    values.collect::<Result<_, _>>().unwrap()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Every file below a folder with its content, large ones as a whole: they are small states.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A row of a CSV file by column name.
pub(crate) type Row = BTreeMap<String, String>;

/// Rows of a CSV file.
pub(crate) fn rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|line| header.iter().cloned().zip(line).collect())
        .collect()
}

/// The sum of a column.
pub(crate) fn sum(rows: &[Row], column: &str) -> u64 {
    rows.iter()
        .map(|row| row[column].parse::<u64>().unwrap())
        .sum()
}
