//! How many tests passed, failed and were skipped, by what cargo and the tests themselves say.
//!
//! Invariant: a test that did not run for want of a tool or of a feature of the CPU is not among those that
//! passed, though the test harness counts it there: such tests write to the file that [`VARIABLE`] names.

use crate::steps::cargo;
use eyre::{Context as _, Result, ensure};
use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{BufRead as _, BufReader, ErrorKind},
    ops::AddAssign,
    path::{Path, PathBuf},
    process::Stdio,
};

/// Names the file that skipped tests are written to; `crates/testkit` does so.
const VARIABLE: &str = "ENGINE_BENCH_SKIPPED";

/// Numbers of tests. Those that are ignored unless asked for are in none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// A run of cargo's tests: their numbers, those skipped by the reason, and whether cargo was content.
#[derive(Debug, Default)]
pub(crate) struct Tests {
    pub(crate) tally: Tally,
    pub(crate) skipped: BTreeMap<String, Vec<String>>,
}

impl Tests {
    /// Runs `cargo` with these arguments and this environment, shows what it prints, and counts.
    pub(crate) fn run(&mut self, root: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
        let file = skipped_file(root)?;
        let mut command = cargo(root);
        command.args(args).envs(env.iter().copied());
        command.env(VARIABLE, &file).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .wrap_err_with(|| format!("failed to start {command:?}"))?;
        for line in child
            .stdout
            .take()
            .into_iter()
            .flat_map(|out| BufReader::new(out).lines())
        {
            let line = line.wrap_err("failed to read what the tests print")?;
            println!("{line}");
            self.tally += counted(&line).unwrap_or_default();
        }
        let status = child.wait()?;
        self.take_skipped(&file)?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    }

    /// Moves the tests that the file names from those that passed to those that were skipped.
    fn take_skipped(&mut self, file: &Path) -> Result<()> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.wrap_err_with(|| format!("failed to read {}", file.display()))?,
        };
        let reasons: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect();
        self.tally.skipped += reasons.len();
        self.tally.passed = self.tally.passed.saturating_sub(reasons.len());
        for (test, why) in reasons {
            let of_reason = self.skipped.entry(why.to_owned()).or_default();
            of_reason.push(test.to_owned());
        }
        Ok(())
    }
}

/// The file, which does not exist yet.
fn skipped_file(root: &Path) -> Result<PathBuf> {
    let file = root.join("target/skipped-tests");
    match fs::remove_file(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).wrap_err_with(|| format!("failed to remove {}", file.display()))
        }
        _ => Ok(file),
    }
}

/// What the last line of a test program says.
fn counted(line: &str) -> Option<Tally> {
    let numbers = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let number = |what: &str| {
        let mut parts = numbers.split("; ").map(str::trim);
        parts.find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
    };
    Some(Tally {
        passed: number("passed")?,
        failed: number("failed")?,
        skipped: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_program_says_last_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 4 filtered out; \
                    finished in 0.51s";
        let expected = Tally {
            passed: 12,
            failed: 3,
            skipped: 0,
        };
        assert_eq!(counted(line), Some(expected));
        assert_eq!(counted("test a::passed ... ok"), None);
    }

    #[test]
    fn a_test_that_is_skipped_twice_counts_once_and_has_not_passed() {
        let file = std::env::temp_dir().join(format!("skipped-{}", std::process::id()));
        fs::write(
            &file,
            "a::x\tno geth\na::y\tno geth\na::x\tno geth\nb::x\tno AVX-512\n",
        )
        .unwrap();
        let mut tests = Tests::default();
        tests.tally.passed = 10;
        tests.take_skipped(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(tests.tally.to_string(), "7 passed, 0 failed, 3 skipped");
        assert_eq!(tests.skipped["no geth"], ["a::x", "a::y"]);
        tests.take_skipped(&file).unwrap();
        assert_eq!(
            tests.tally.skipped, 3,
            "a file that is not there names none"
        );
    }
}
