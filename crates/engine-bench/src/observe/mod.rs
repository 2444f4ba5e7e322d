//! Prometheus, Jaeger and Grafana around a sweep: started from the configuration that ships with this
//! program, or described for containers.
//!
//! Invariant: everything listens on loopback. A sweep needs none of it, and nothing here is running while
//! nobody asked for it.

mod compose;
mod files;
mod part;

pub use compose::compose;
pub use files::write as write_files;
pub use part::{PARTS, Part, Ports};

use crate::engine;
use engine_api::metric;
use std::{
    fs::File,
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a program may take to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take to answer one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between two looks at a program that starts.
const POLL: Duration = Duration::from_millis(100);

/// What became of a program that was to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// It answers now.
    Yes,
    /// It did already.
    Before,
    /// There is no such program on this machine.
    NotInstalled,
    /// It ended, or does not answer.
    Failed(String),
}

/// Starts one of the programs in `folder`, which has its configuration and gets its data and its log, and
/// waits until it answers.
///
/// # Errors
/// When files cannot be written. What keeps the program from running is no error: see [`Started`].
pub async fn start(part: &Part, folder: &Path, ports: Ports) -> io::Result<Started> {
    let pid_file = pid_file(part, folder);
    if engine::is_running(&pid_file) {
        return Ok(Started::Before);
    }
    let log = folder.join(format!("{}.log", part.name));
    let output = File::create(&log)?;
    let spawned = Command::new(part.program())
        .args(part.arguments(folder, ports))
        .envs(part.variables(folder, ports))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        // It goes on when this program ends, also when that is by Ctrl-C.
        .process_group(0)
        .spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Started::NotInstalled),
        Err(error) => return Err(error),
    };
    engine::note_running(&pid_file, child.id()).map_err(io::Error::other)?;
    match wait_until_ready(child, part, ports).await {
        Ok(()) => Ok(Started::Yes),
        Err(cause) => {
            engine::stop_leftover(&pid_file).map_err(io::Error::other)?;
            Ok(Started::Failed(format!("{cause}; see {}", log.display())))
        }
    }
}

/// Stops what [`start`] started; whether it ran.
///
/// # Errors
/// When its file cannot be removed.
pub fn stop(part: &Part, folder: &Path) -> io::Result<bool> {
    engine::stop_leftover(&pid_file(part, folder)).map_err(io::Error::other)
}

fn pid_file(part: &Part, folder: &Path) -> PathBuf {
    folder.join(format!("{}.pid", part.name))
}

async fn wait_until_ready(mut child: Child, part: &Part, ports: Ports) -> Result<(), String> {
    let deadline = Instant::now() + READY_TIMEOUT;
    let address = part.address(ports);
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended by itself ({status})"));
        }
        if metric::get(address, part.ready_path, ANSWER_TIMEOUT)
            .await
            .is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(format!("it did not answer within {READY_TIMEOUT:?}"))
}
