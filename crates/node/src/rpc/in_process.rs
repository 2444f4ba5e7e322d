//! Every method without a server: requests as text, answers as text, in the caller's process.

use super::{Context, MethodOptions, public, server::auth_methods};
use crate::{
    cli::{Cli, Commands, resolve, values::ModuleList},
    commands::genesis,
    engine::{self, EngineHandle},
};
use clap::Parser as _;
use eyre::{Context as _, eyre};
use jsonrpsee::Methods;
use std::{ffi::OsStr, path::Path, sync::Arc};

/// The methods of both ports over one engine.
#[derive(Debug)]
pub struct InProcess {
    auth: Methods,
    public: Methods,
}

impl InProcess {
    /// Opens a datadir as `node --chain genesis --datadir datadir` would, without listening.
    ///
    /// # Errors
    /// When the node would not start.
    pub fn open(genesis: &Path, datadir: &Path) -> eyre::Result<Self> {
        let line = [
            OsStr::new("bench-reth"),
            OsStr::new("node"),
            OsStr::new("--chain"),
            genesis.as_os_str(),
            OsStr::new("--datadir"),
            datadir.as_os_str(),
        ];
        let Commands::Node(args) = Cli::try_parse_from(line)?.command else {
            return Err(eyre!("failed to read the command line"));
        };
        let config = resolve::node(*args)?;
        let chain = config.datadir.chain_spec()?;
        let db = config.datadir.open(&config.database)?;
        genesis::ensure(&config.datadir, &db, &chain)?;
        let engine = engine::spawn(db, chain, config.engine).map_err(|e| eyre!("failed to {e}"))?;
        Self::new(engine, config.methods)
    }

    fn new(engine: EngineHandle, options: MethodOptions) -> eyre::Result<Self> {
        let context = Arc::new(Context::new(engine, options));
        let all: ModuleList = "all".parse().map_err(|problem: String| eyre!(problem))?;
        let auth = auth_methods(&context).wrap_err("failed to register the methods")?;
        let public = public::methods(&context, &all).wrap_err("failed to register the methods")?;
        Ok(Self { auth, public })
    }

    /// Names of all methods, those of the auth port first.
    pub fn names(&self) -> Vec<&'static str> {
        self.auth
            .method_names()
            .chain(self.public.method_names())
            .collect()
    }

    /// Answers one JSON-RPC request for `method` as the port that has it would; the auth port goes
    /// first. `None` when the text is no request.
    pub async fn answer(&self, method: &str, request: &str) -> Option<String> {
        let methods = if self.auth.method(method).is_some() {
            &self.auth
        } else {
            &self.public
        };
        let (answer, _) = methods.raw_json_request(request, 1).await.ok()?;
        Some(answer.get().to_owned())
    }
}
