//! Whether published reports are what the raw samples give.
//!
//! Invariant: changes nothing; every finding names its file and place.

use super::{CELLS_FILE, HTML_FILE, JSON_FILE, MARKDOWN_FILE, Report, cells_csv, html, markdown};
use serde_json::Value;
use std::{fs, io, path::Path};

/// Relative difference under which numbers are the same: reading a decimal fraction back may change
/// its last bit.
const SAME: f64 = 1e-12;

/// Findings that are listed for one file.
const LISTED: usize = 20;

/// The baseline that the published report says it was made with.
///
/// # Errors
/// When it exists and cannot be read.
pub fn published_baseline(dir: &Path) -> io::Result<Option<String>> {
    let published = read(dir, JSON_FILE)?;
    let published = published.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let named =
        published.and_then(|found| Some(found["configuration"]["baseline"].as_str()?.to_owned()));
    Ok(named)
}

/// Compares the files of a results folder with a report that was just computed.
///
/// # Errors
/// When the report cannot be written as JSON or CSV, or a file exists and cannot be read.
pub fn verify(dir: &Path, report: &Report) -> io::Result<Vec<String>> {
    let mut findings = Vec::new();
    match read(dir, JSON_FILE)? {
        None => findings.push(format!("{JSON_FILE} is missing")),
        Some(text) => {
            let computed = serde_json::to_value(report)?;
            match serde_json::from_str::<Value>(&text) {
                Err(error) => findings.push(format!("{JSON_FILE} is not JSON: {error}")),
                Ok(published) => differ("", &published, &computed, &mut findings),
            }
        }
    }
    if findings.len() > LISTED {
        let more = findings.len() - LISTED;
        findings.truncate(LISTED);
        findings.push(format!("{JSON_FILE}: {more} more differences"));
    }
    for (name, computed) in [
        (MARKDOWN_FILE, markdown(report)),
        (HTML_FILE, html(report)),
        (CELLS_FILE, cells_csv(report)?),
    ] {
        match read(dir, name)? {
            None => findings.push(format!("{name} is missing")),
            Some(published) if published != computed => {
                let mut lines = published.lines().zip(computed.lines());
                let line = lines.position(|(published, computed)| published != computed);
                let line = line.map_or_else(|| computed.lines().count(), |line| line + 1);
                findings.push(format!(
                    "{name} differs from what the samples give at line {line}"
                ));
            }
            Some(_) => {}
        }
    }
    Ok(findings)
}

fn read(dir: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(dir.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Collects the places where two documents differ.
fn differ(place: &str, published: &Value, computed: &Value, findings: &mut Vec<String>) {
    match (published, computed) {
        (Value::Object(a), Value::Object(b)) => {
            let only_a = a.keys().filter(|key| !b.contains_key(*key));
            for key in b.keys().chain(only_a) {
                let of = |side: &serde_json::Map<String, Value>| {
                    side.get(key).cloned().unwrap_or(Value::Null)
                };
                differ(&format!("{place}.{key}"), &of(a), &of(b), findings);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(&format!("{place}[{index}]"), a, b, findings);
            }
        }
        (a, b) if a == b => {}
        (Value::Number(a), Value::Number(b)) if same(a.as_f64(), b.as_f64()) => {}
        (a, b) => {
            let place = place.trim_start_matches('.');
            findings.push(format!("{JSON_FILE}: {place} is {a}, the samples give {b}"));
        }
    }
}

fn same(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b)
        .is_some_and(|(a, b)| (a - b).abs() <= SAME * a.abs().max(b.abs()))
}
