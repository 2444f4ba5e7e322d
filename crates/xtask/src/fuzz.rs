//! Fuzzing: runs the targets of `fuzz/` for a while each, and keeps the corpus small.

use crate::steps::{cargo, run};
use eyre::{Context as _, Result, bail};
use std::{fs, path::Path, process::Command};

/// Version of cargo-fuzz that is installed when none is present.
const FUZZ_VERSION: &str = "0.13.2";

/// What to fuzz, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArgs {
    /// Targets; all of them when none is named.
    targets: Vec<String>,
    /// Minutes for each target.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    /// Reduce each corpus to the inputs that reach something of their own, instead of fuzzing.
    #[arg(long)]
    minimize: bool,
}

/// Runs the targets one after another; fails when one has found something, which libFuzzer prints
/// and saves in `fuzz/artifacts`. What reaches new code is kept in `fuzz/target/corpus`, beside
/// the inputs that are checked in.
pub(crate) fn fuzz(root: &Path, args: &FuzzArgs) -> Result<()> {
    let known = targets(root)?;
    if let Some(unknown) = args.targets.iter().find(|name| !known.contains(name)) {
        bail!(
            "there is no target {unknown}; there are {}",
            known.join(", ")
        );
    }
    let chosen = if args.targets.is_empty() {
        &known
    } else {
        &args.targets
    };
    let tool = install(root)?;
    let mut failed = Vec::new();
    for target in chosen {
        eprintln!("== {target}");
        let verb = if args.minimize { "cmin" } else { "run" };
        let mut command = Command::new(&tool);
        // The coverage passes need an unstable flag; the address sanitizer would find little, for
        // there is hardly any unsafe code, and needs another compiler.
        command.current_dir(root).env("RUSTC_BOOTSTRAP", "1").args([
            "fuzz",
            verb,
            "--sanitizer",
            "none",
            target,
        ]);
        if !args.minimize {
            let found = format!("fuzz/target/corpus/{target}");
            fs::create_dir_all(root.join(&found))
                .wrap_err_with(|| format!("failed to make {found}"))?;
            command.args([found, format!("fuzz/corpus/{target}")]);
            command.args(["--", "-timeout=10", "-rss_limit_mb=1024", "-max_len=16384"]);
            command.arg(format!("-max_total_time={}", args.minutes * 60));
        }
        if let Err(error) = run(&mut command) {
            eprintln!("{error:#}");
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("targets with findings: {}", failed.join(", "))
}

/// Names of the targets: one program each.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).wrap_err("failed to list the fuzz targets")?;
    let mut names = Vec::new();
    for file in files {
        let name = file
            .wrap_err("failed to list the fuzz targets")?
            .file_name();
        names.extend(
            name.to_string_lossy()
                .strip_suffix(".rs")
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

fn install(root: &Path) -> Result<std::path::PathBuf> {
    let tools = root.join("target/tools");
    let program = tools.join("bin/cargo-fuzz");
    if !program.exists() {
        run(cargo(root)
            .args([
                "install",
                "cargo-fuzz",
                "--version",
                FUZZ_VERSION,
                "--locked",
                "--quiet",
            ])
            .arg("--root")
            .arg(&tools))?;
    }
    Ok(program)
}
