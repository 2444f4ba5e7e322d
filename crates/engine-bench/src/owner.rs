//! Processes that files name: a pid and when that process started, since pids are used again.
//!
//! Invariant: a process runs until its last thread has ended, and with it whatever it held.

use procfs_core::{FromRead as _, process::Stat};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// Ticks of `/proc` in a second (`USER_HZ`, 100 wherever this program is built).
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// A process that wrote its name into a file, or of which that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Ticks from boot to its start (field 22 of `/proc/<pid>/stat`).
    pub(crate) start_time: u64,
}

impl Owner {
    /// The running process of that pid; `None` when there is none, or one that is only waited for.
    pub(crate) fn running(pid: u32) -> Option<Self> {
        let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        // Of a process that was killed, the first thread may end before others do.
        let has_ended = matches!(stat.state, 'Z' | 'X') && stat.num_threads <= 1;
        let start_time = stat.starttime;
        (!has_ended).then_some(Self { pid, start_time })
    }

    /// This process.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self::running(pid).unwrap_or(Self { pid, start_time: 0 })
    }

    pub(crate) fn is_running(self) -> bool {
        Self::running(self.pid) == Some(self)
    }

    /// The running process that a file of JSON names.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let named: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        named.is_running().then_some(named)
    }

    /// Seconds from the epoch to its start.
    pub(crate) fn started_s(self) -> Option<u64> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(boot.trim().parse::<u64>().ok()? + self.start_time / TICKS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{process::Command, time::SystemTime};

    #[test]
    fn a_process_is_itself_until_it_has_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let owner = Owner::running(child.id()).unwrap();
        let another = Owner {
            start_time: owner.start_time + 1,
            ..owner
        };
        assert!(owner.is_running() && !another.is_running());
        let epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!(epoch.abs_diff(owner.started_s().unwrap()) < 60);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!owner.is_running() && Owner::this().is_running());
    }
}
