//! The command line: flags of the `ethrex` client that a benchmark sets, spelled as there.

use clap::{Parser, ValueEnum};
use ethrex_rpc::RpcNamespace;
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};
use tracing::Level;

/// ethrex's execution client without peers, its state in memory.
#[derive(Debug, Parser)]
#[command(name = "ethrex", version = crate::version().to_string())]
pub(crate) struct Args {
    /// Genesis file of the chain.
    #[arg(long, value_name = "GENESIS_FILE_PATH")]
    pub(crate) network: PathBuf,
    /// Taken and left alone: the state is made in memory from the genesis at every start.
    #[arg(long, value_name = "DATABASE_DIRECTORY", default_value = "memory")]
    pub(crate) datadir: PathBuf,
    /// Blocks are executed as they come; there is no other way here.
    #[arg(long = "syncmode", value_name = "SYNC_MODE", default_value = "full")]
    _syncmode: SyncMode,
    /// Taken because the client has it: here nobody is ever contacted.
    #[arg(long = "p2p.disabled")]
    _p2p_disabled: bool,
    /// Address that the public port is opened on.
    #[arg(long = "http.addr", default_value = "127.0.0.1")]
    http_addr: IpAddr,
    /// The public port.
    #[arg(long = "http.port", default_value_t = 8545)]
    http_port: u16,
    /// Namespaces of methods that the public port answers.
    #[arg(long = "http.api", value_delimiter = ',', default_value = "eth,net,web3", value_parser = namespace)]
    pub(crate) http_api: Vec<RpcNamespace>,
    /// Address that the authenticated port is opened on.
    #[arg(long = "authrpc.addr", default_value = "127.0.0.1")]
    authrpc_addr: IpAddr,
    /// The authenticated port.
    #[arg(long = "authrpc.port", default_value_t = 8551)]
    authrpc_port: u16,
    /// File with the secret of the authenticated port, in hexadecimal digits.
    #[arg(
        long = "authrpc.jwtsecret",
        value_name = "JWTSECRET_PATH",
        default_value = "jwt.hex"
    )]
    pub(crate) jwt_secret: PathBuf,
    /// Lines below this level are not logged.
    #[arg(long = "log.level", value_name = "LOG_LEVEL", default_value_t = Level::INFO)]
    pub(crate) log_level: Level,
    /// When the log is coloured.
    #[arg(long = "log.color", value_name = "LOG_COLOR", default_value = "auto")]
    pub(crate) log_color: LogColor,
    /// Execute precompiles again that the warming thread of a block has executed.
    #[arg(long = "no-precompile-cache")]
    pub(crate) no_precompile_cache: bool,
}

impl Args {
    /// Where the public port is.
    pub(crate) fn http(&self) -> SocketAddr {
        (self.http_addr, self.http_port).into()
    }

    /// Where the authenticated port is.
    pub(crate) fn authrpc(&self) -> SocketAddr {
        (self.authrpc_addr, self.authrpc_port).into()
    }
}

/// How the chain is followed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SyncMode {
    /// Block after block.
    Full,
}

/// When the log is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogColor {
    /// Where a person reads it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

fn namespace(name: &str) -> Result<RpcNamespace, String> {
    let found = RpcNamespace::from_prefix(name).filter(|found| *found != RpcNamespace::Engine);
    found.ok_or_else(|| {
        "it is not one of eth, net, web3, debug, admin, txpool and testing".to_owned()
    })
}
