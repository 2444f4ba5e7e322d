//! The repository's own rules, which no compiler checks.
//!
//! Each rule looks at the files git tracks and answers with the places that break it.

use crate::steps::cargo;
use eyre::{Context as _, Result, bail};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Which crate of the workspace may depend on which: arrows point one way.
const ALLOWED_EDGES: &[(&str, &[&str])] = &[
    ("bench-stats", &[]),
    ("ecrecover", &[]),
    ("engine-api", &[]),
    ("testkit", &["engine-api"]),
    ("threads", &[]),
    ("state-root", &["threads"]),
    ("state-db", &["state-root"]),
    ("workload", &["engine-api"]),
    (
        "node",
        &[
            "ecrecover",
            "engine-api",
            "state-db",
            "state-root",
            "threads",
            "workload",
        ],
    ),
    ("engine-bench", &["bench-stats", "engine-api", "workload"]),
    ("bench-reth", &["engine-api", "node"]),
    ("engine-bench-cli", &["engine-bench", "node"]),
    (
        "fuzz-targets",
        &[
            "ecrecover",
            "engine-api",
            "engine-bench",
            "node",
            "state-db",
            "state-root",
        ],
    ),
    ("xtask", &[]),
];

/// Which module of the harness may use which. Each uses only what stands above it: there is no cycle.
const MODULE_ARROWS: &[(&str, &[&str])] = &[
    ("client", &[]),
    ("figures", &[]),
    ("files", &[]),
    ("owner", &[]),
    ("guard", &["owner"]),
    ("profile", &[]),
    ("serve", &[]),
    ("cache", &["files", "owner"]),
    ("sweep", &["guard"]),
    ("trace", &["serve"]),
    ("cli", &["guard", "profile", "sweep", "trace"]),
    ("engine", &["client", "files", "owner", "sweep"]),
    ("observe", &["engine"]),
    ("reset", &["engine", "files", "owner", "sweep"]),
    ("payload", &["cache", "client", "sweep"]),
    ("plan", &["cache", "files", "sweep"]),
    (
        "resolve",
        &["cache", "cli", "engine", "guard", "plan", "sweep"],
    ),
    (
        "record",
        &["client", "engine", "figures", "guard", "plan", "sweep"],
    ),
    ("live", &["guard", "record", "serve"]),
    (
        "run",
        &[
            "cache", "client", "engine", "figures", "guard", "live", "payload", "plan", "profile",
            "record", "reset", "resolve", "sweep", "trace",
        ],
    ),
    ("analyze", &["plan", "profile", "record", "sweep", "trace"]),
    (
        "report",
        &[
            "analyze", "figures", "guard", "plan", "profile", "record", "sweep", "trace",
        ],
    ),
    (
        "command",
        &[
            "analyze", "cache", "cli", "engine", "guard", "live", "observe", "payload", "plan",
            "profile", "record", "report", "resolve", "run", "sweep", "trace",
        ],
    ),
];

/// The folder of those modules.
const MODULES: &str = "crates/engine-bench/src/";

/// External crates that belong behind one boundary.
const CONFINED: &[(&str, &str)] = &[
    ("signet-libmdbx", "state-db"),
    ("revm", "node"),
    ("jsonrpsee", "node"),
    ("statrs", "bench-stats"),
];

/// Words that keep a file out of a crate: statistics are pure, the state root knows no runtime.
const FORBIDDEN_WORDS: &[(&str, &[&str])] = &[
    (
        "crates/bench-stats/src",
        &["std::fs", "std::time", "serde", "tokio", "println!"],
    ),
    ("crates/state-root/src", &["tokio", "libmdbx", "println!"]),
];

/// Folders whose code may start other programs.
const MAY_START_PROGRAMS: &[&str] = &[
    "crates/engine-bench/src/engine/variables.rs",
    "crates/engine-bench/src/observe",
    "crates/engine-bench/src/profile",
    "crates/testkit",
    "crates/xtask",
];

/// Lines of a source file before its tests.
const MAX_LINES: usize = 600;

/// One way to break a rule: where, and what is wrong.
type Finding = String;

/// Checks every rule and prints each finding.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = tracked_files(root)?;
    let mut findings = Vec::new();
    for file in &files {
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        if file.ends_with(".rs") {
            findings.extend(check_source(file, &text));
            findings.extend(check_modules(file, production_part(file, &text)));
        }
        if file.ends_with(".md") {
            findings.extend(check_links(root, file, &text));
        }
        findings.extend(check_paths(file, &text));
    }
    findings.extend(check_edges(&metadata(root)?));
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .wrap_err("failed to list the repository's files with git")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

fn metadata(root: &Path) -> Result<Value> {
    let output = cargo(root)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .output()
        .wrap_err("failed to run cargo metadata")?;
    serde_json::from_slice(&output.stdout).wrap_err("failed to parse cargo metadata")
}

fn check_source(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!(
            "{file}: does not begin with a //! line saying what it is for"
        ));
    }
    let production = production_part(file, text);
    let lines = production.lines().count();
    if lines > MAX_LINES {
        findings.push(format!(
            "{file}: {lines} lines before its tests, more than {MAX_LINES}"
        ));
    }
    if production.contains("Command::new(")
        && !in_any(file, MAY_START_PROGRAMS)
        && !production.is_empty()
        && !production.contains("clap::Command::new(")
    {
        findings.push(format!(
            "{file}: starts a program outside {MAY_START_PROGRAMS:?}"
        ));
    }
    for (folder, words) in FORBIDDEN_WORDS {
        let hits = words
            .iter()
            .filter(|word| file.starts_with(folder) && production.contains(**word));
        findings.extend(hits.map(|word| format!("{file}: `{word}` does not belong in {folder}")));
    }
    if production.contains(concat!("#[", "allow(")) {
        findings.push(format!(
            "{file}: an allow attribute; use #[expect(.., reason)]"
        ));
    }
    findings
}

/// Uses of other modules of the harness that are not in the picture.
fn check_modules(file: &str, production: &str) -> Vec<Finding> {
    let module = file.strip_prefix(MODULES).unwrap_or("lib");
    let module = module.split(['/', '.']).next().unwrap_or_default();
    let known = MODULE_ARROWS.iter().find(|(name, _)| *name == module);
    match known {
        None if module == "lib" => Vec::new(),
        None => vec![format!("{file}: a module without a place in the picture")],
        Some((_, allowed)) => modules_used(production)
            .into_iter()
            .filter(|used| used != module && !allowed.contains(&used.as_str()))
            .map(|used| format!("{file}: {module} -> {used}: an arrow that must not exist"))
            .collect(),
    }
}

/// Modules that source code names behind `crate::`, alone or in a list.
fn modules_used(text: &str) -> BTreeSet<String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(list) => used.extend(listed(list)),
            None => used.extend([first_word(rest)]),
        }
    }
    used
}

/// The first words of the entries of a list, of which the opening brace was read.
fn listed(list: &str) -> impl Iterator<Item = String> {
    let mut open = 1;
    let end = list.find(|c| {
        open += i32::from(c == '{') - i32::from(c == '}');
        open == 0
    });
    let mut open = 0;
    let entries = list[..end.unwrap_or(list.len())].split(move |c| {
        open += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && open == 0
    });
    entries
        .map(|entry| first_word(entry.trim_start()))
        .filter(|word| !word.is_empty())
}

fn first_word(text: &str) -> String {
    let word = text
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_');
    word.collect()
}

/// The part of a source file that is not test code; empty for files that are tests.
fn production_part<'a>(file: &str, text: &'a str) -> &'a str {
    let is_test = ["/tests/", "/examples/", "/benches/"]
        .iter()
        .any(|part| file.contains(part))
        || file.ends_with("/tests.rs");
    if is_test {
        ""
    } else {
        text.split("mod tests {").next().unwrap_or(text)
    }
}

fn in_any(file: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}

/// Absolute paths of somebody's machine.
fn check_paths(file: &str, text: &str) -> Vec<Finding> {
    if file.ends_with(".lock") {
        return Vec::new();
    }
    let homes = ["root", "home", "Users"].map(|home| format!("/{home}/"));
    let lines = text.lines().enumerate();
    let hits = lines.filter(|(_, line)| homes.iter().any(|path| holds_path(line, path)));
    hits.map(|(number, _)| format!("{file}:{}: a path of one machine", number + 1))
        .collect()
}

fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-/}>$)".contains(c)))
    })
}

/// Relative links of a Markdown file that lead nowhere.
fn check_links(root: &Path, file: &str, text: &str) -> Vec<Finding> {
    let folder = Path::new(file)
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#', ' ']).next());
    let relative = targets.filter(|t| !t.is_empty() && !t.contains("://") && !t.starts_with('<'));
    let dead = relative.filter(|target| !root.join(folder.join(target)).exists());
    dead.map(|target| format!("{file}: dead link {target}"))
        .collect()
}

fn check_edges(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let packages = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED_EDGES.iter().find(|(from, _)| *from == name) else {
            findings.push(format!(
                "{name}: a crate without a place in the dependency picture"
            ));
            continue;
        };
        for dependency in normal_dependencies(package) {
            if names.contains(&dependency) && !allowed.contains(&dependency) {
                findings.push(format!(
                    "{name} -> {dependency}: an arrow that must not exist"
                ));
            }
            let confined = CONFINED
                .iter()
                .find(|(external, _)| *external == dependency);
            if let Some((_, home)) = confined
                && *home != name
            {
                findings.push(format!("{name} -> {dependency}: only {home} may link it"));
            }
        }
    }
    findings
}

fn normal_dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let dependencies = package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let normal = dependencies
        .iter()
        .filter(|dependency| dependency["kind"].is_null());
    normal.filter_map(|dependency| dependency["name"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_breaks_the_rules() {
        let cases = [
            ("crates/a/src/x.rs", "fn a() {}\n", "does not begin"),
            (
                "crates/bench-stats/src/x.rs",
                "//! x\nuse std::fs;\n",
                "does not belong",
            ),
            (
                "crates/node/src/x.rs",
                "//! x\nfn f() { Command::new(\"a\"); }\n",
                "starts a program",
            ),
        ];
        for (file, text, expected) in cases {
            let findings = check_source(file, text);
            assert!(
                findings.iter().any(|f| f.contains(expected)),
                "{file}: {findings:?}"
            );
        }
        assert_eq!(
            check_source("crates/node/src/x.rs", "//! x\n"),
            Vec::<Finding>::new()
        );
    }

    #[test]
    fn modules_of_the_harness_use_each_other_one_way() {
        for (place, (module, allowed)) in MODULE_ARROWS.iter().enumerate() {
            for used in *allowed {
                let above = MODULE_ARROWS[..place].iter().any(|(name, _)| name == used);
                assert!(above, "{module} -> {used}: a cycle, or no module");
            }
        }
        let run = format!("{MODULES}run/driver.rs");
        for (text, expected) in [
            ("use crate::analyze::Outcome;", "run -> analyze"),
            (
                "use crate::{\n    plan::{Cell, Plan},\n    report::write,\n};",
                "run -> report",
            ),
            ("fn f() { crate::command::run() }", "run -> command"),
        ] {
            let findings = check_modules(&run, text);
            assert!(
                findings.len() == 1 && findings[0].contains(expected),
                "{findings:?}"
            );
        }
        let fine =
            "use crate::{plan::{self, Plan}, record};\n// crate::report\nuse crate::run::Step;";
        assert_eq!(check_modules(&run, fine), Vec::<Finding>::new());
        let new = check_modules(&format!("{MODULES}new.rs"), "");
        assert!(new[0].contains("without a place"), "{new:?}");
        assert_eq!(
            check_modules("crates/node/src/x.rs", "use crate::analyze;"),
            Vec::<Finding>::new()
        );
    }

    #[test]
    fn finds_machine_paths_and_leaves_others() {
        assert_eq!(
            check_paths("a.md", &format!("see /{}/someone", "home")).len(),
            1
        );
        assert_eq!(
            check_paths("a.md", "see https://example.org/home/x and $HOME/home/x").len(),
            0
        );
    }

    #[test]
    fn finds_dead_links() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            check_links(root, "README.md", "[a](Cargo.toml) [b](nowhere.md)").len(),
            1
        );
    }
}
