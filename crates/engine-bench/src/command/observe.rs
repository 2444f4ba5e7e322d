//! `engine-bench observe`: programs that keep and draw what sweeps export.

use crate::{
    cache,
    cli::{ObserveArgs, Observing},
    observe::{self, PARTS, Ports, Started},
};
use eyre::{Result, WrapErr as _};
use std::{path::Path, process::ExitCode};

/// Folder inside the cache.
const FOLDER: &str = "observe";

pub(crate) fn observe(args: &ObserveArgs) -> Result<ExitCode> {
    let folder = match &args.dir {
        Some(dir) => std::path::absolute(dir)?,
        None => cache::directory(None)?.join(FOLDER),
    };
    let ports = Ports::moved_by(args.port_offset);
    match args.what {
        Observing::Up => {
            write_files(&folder, ports)?;
            super::block_on(up(&folder, ports))?
        }
        Observing::Down => down(&folder),
        Observing::Compose => {
            write_files(&folder, ports)?;
            super::print(&observe::compose(&folder, ports))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn write_files(folder: &Path, ports: Ports) -> Result<()> {
    let shown = folder.display();
    observe::write_files(folder, ports).wrap_err_with(|| format!("failed to write {shown}"))
}

async fn up(folder: &Path, ports: Ports) -> Result<ExitCode> {
    let (mut running, mut code) = (0, ExitCode::SUCCESS);
    for part in &PARTS {
        let started = observe::start(part, folder, ports)
            .await
            .wrap_err_with(|| format!("failed to start {}", part.name))?;
        let url = format!("http://{}", part.address(ports));
        match started {
            Started::Yes | Started::Before => {
                running += 1;
                super::print(&format!("{:10}  {url}  {}\n", part.name, part.purpose))?;
            }
            Started::NotInstalled => {
                eprintln!("{:10}  not installed: {}", part.name, part.missing())
            }
            Started::Failed(cause) => {
                code = ExitCode::FAILURE;
                eprintln!("{:10}  failed: {cause}", part.name);
            }
        }
    }
    if running < PARTS.len() {
        eprintln!("as containers: engine-bench observe compose | docker compose -f - up");
    }
    eprintln!(
        "files: {}; engine-bench observe down stops what was started",
        folder.display()
    );
    Ok(code)
}

fn down(folder: &Path) -> Result<ExitCode> {
    for part in &PARTS {
        if observe::stop(part, folder)? {
            eprintln!("{} stopped", part.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}
