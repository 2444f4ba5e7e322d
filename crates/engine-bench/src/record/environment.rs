//! The machine a sweep ran on, as far as `/proc` tells.
//!
//! Invariant: what is unknown is empty or zero, never guessed.

use serde::{Deserialize, Serialize};
use std::{fs, thread};

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Model of the processor.
    pub cpu_model: String,
    /// Processors this process may use.
    pub cpus: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel name and version.
    pub kernel: String,
    /// Operating system, as it calls itself.
    pub system: String,
    /// Version of this program.
    pub harness_version: String,
}

impl Environment {
    /// Looks at this machine.
    pub fn read() -> Self {
        let file = |path| fs::read_to_string(path).unwrap_or_default();
        let memory_kib = value(&file("/proc/meminfo"), "MemTotal", ':');
        Self {
            cpu_model: value(&file("/proc/cpuinfo"), "model name", ':'),
            cpus: thread::available_parallelism().map_or(0, |cpus| cpus.get() as u64),
            memory_bytes: memory_kib
                .strip_suffix(" kB")
                .and_then(|kib| kib.parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel: format!("Linux {}", file("/proc/sys/kernel/osrelease").trim()),
            system: value(&file("/etc/os-release"), "PRETTY_NAME", '='),
            harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The value of the first `key<separator>value` line.
fn value(text: &str, key: &str, separator: char) -> String {
    let mut values = text.lines().filter_map(|line| line.split_once(separator));
    let found = values.find(|(name, _)| name.trim() == key);
    let value = found.map_or("", |(_, value)| value.trim());
    value.trim_matches('"').to_owned()
}
