//! The real program in a scratch folder: small words for the tests.
//!
//! Invariant: one cache serves all tests of a program run, behind a lock, because making a base
//! state is what takes time; what a test writes beside it is its own.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};
use tempfile::TempDir;
use testkit::{Ended, Running};

/// The cache, held by one test at a time.
static CACHE: Mutex<()> = Mutex::new(());

fn cache_dir() -> &'static Path {
    // Beside the other files that cargo keeps for tests, emptied by whoever comes first: a static
    // is never dropped, so a temporary folder would stay behind.
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sweep-cache");
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        dir
    })
}

/// A folder for one test, and the shared cache.
pub(crate) struct World {
    folder: TempDir,
    _cache: MutexGuard<'static, ()>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            _cache: CACHE.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// A path in this test's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the shared cache.
    pub(crate) fn cache(&self, name: &str) -> PathBuf {
        cache_dir().join(name)
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
        if line.starts_with("sweep") && !line.contains("--rounds") && !line.contains("--resume") {
            // These tests are about visits, not about statistics.
            command.args(["--rounds", "1"]);
        }
        let makes = ["sweep", "init ", "generate"];
        if makes.iter().any(|verb| line.starts_with(verb)) && !line.contains("--resume") {
            command.arg("--cache-dir").arg(cache_dir());
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

    /// Starts the program with its output kept.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running::start(&mut self.command(line))
    }

    /// `report.json` of a results folder.
    pub(crate) fn report(&self, out: &str) -> Value {
        json(&self.path(out).join("report.json"))
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
        let left: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(mine)
            .map(|dir| dir.path())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
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

/// Rows of a CSV file by column name.
pub(crate) fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines
        .map(|line| header.iter().cloned().zip(line).collect())
        .collect()
}
