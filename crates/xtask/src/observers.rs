//! A program that looks at ours in tests: Jaeger, built with Go.
//!
//! Invariant: as with other programs in Go, it is installed once into `target/tools` under its version.

use crate::steps;
use eyre::{Result, WrapErr as _, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The newest Jaeger whose module the Go proxy serves.
const JAEGER_VERSION: &str = "v1.76.0";
const JAEGER_MODULE: &str = "github.com/jaegertracing/jaeger";
/// Where tests find Jaeger.
pub(crate) const JAEGER_VARIABLE: &str = "ENGINE_BENCH_JAEGER";

/// The file that holds Jaeger once [`install_jaeger`] has run.
pub(crate) fn jaeger(root: &Path) -> PathBuf {
    folder(root).join("jaeger-all-in-one")
}

fn folder(root: &Path) -> PathBuf {
    root.join("target/tools")
        .join(format!("jaeger@{JAEGER_VERSION}"))
}

/// Builds Jaeger unless it is there already.
///
/// Its module cannot be installed by `go install`, because it replaces modules of its own, so it becomes a
/// dependency of an empty module, which takes over its sums.
pub(crate) fn install_jaeger(root: &Path) -> Result<()> {
    let program = jaeger(root);
    if program.exists() {
        return Ok(());
    }
    let module = folder(root).join("module");
    if module.exists() {
        fs::remove_dir_all(&module)?;
    }
    fs::create_dir_all(&module)?;
    let go = |args: &[&str]| steps::run(Command::new("go").args(args).current_dir(&module));
    let versioned = format!("{JAEGER_MODULE}@{JAEGER_VERSION}");
    go(&["mod", "init", "tools/jaeger"])?;
    go(&["mod", "download", &versioned])?;
    let cache = Command::new("go").args(["env", "GOMODCACHE"]).output()?;
    let cache = String::from_utf8(cache.stdout)?;
    let sums = Path::new(cache.trim()).join(&versioned).join("go.sum");
    let sums = fs::read(&sums).wrap_err_with(|| format!("failed to read {}", sums.display()))?;
    fs::write(module.join("go.sum"), sums)?;
    let package = format!("{JAEGER_MODULE}/cmd/all-in-one");
    go(&["get", &format!("{package}@{JAEGER_VERSION}")])?;
    // Under its name only when it is whole.
    go(&[
        "build",
        "-trimpath",
        "-ldflags=-s -w",
        "-o",
        "built",
        &package,
    ])?;
    fs::rename(module.join("built"), &program)?;
    ensure!(program.exists(), "go build left no {}", program.display());
    Ok(())
}
