//! Listening: binds every port first, then starts the servers, so that a server that is announced
//! can be reached and a port in use stops the start.

use super::{
    Context, MethodOptions, engine, eth,
    listen::{self, Admission, Limits, Server, Sites, Transports},
    public, reth,
};
use crate::{cli::values::ModuleList, engine::EngineHandle};
use engine_api::jwt::JwtSecret;
use jsonrpsee::{
    Methods,
    core::RegisterMethodError,
    server::{ServerConfigBuilder, ServerHandle, stop_channel},
};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};
use tracing::{info, warn};

const MIB: u32 = 1 << 20;

/// What the auth port takes and gives at most: reth's limits on sizes, geth's on batches.
const AUTH_LIMITS: Limits = Limits {
    max_request_bytes: 128 * MIB,
    max_response_bytes: 750 * MIB,
    max_held_bytes: 1 << 30,
    max_connections: 500,
    max_subscriptions_per_connection: 1024,
    max_batch_calls: 2000,
    max_running_calls: None,
};

/// The authenticated server.
#[derive(Debug, Clone)]
pub struct AuthServerConfig {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The secret that tokens are signed with.
    pub secret: JwtSecret,
}

/// A public server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicServerConfig {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// The namespaces to serve.
    pub modules: ModuleList,
    /// Hosts and origins that are answered.
    pub sites: Sites,
}

/// All servers of a node.
#[derive(Debug, Clone)]
pub struct ServersConfig {
    /// The authenticated server; `None` leaves it out.
    pub auth: Option<AuthServerConfig>,
    /// The public HTTP server; `None` leaves it out.
    pub http: Option<PublicServerConfig>,
    /// The public WebSocket server; on the address of `http` both share one port.
    pub ws: Option<PublicServerConfig>,
    /// Limits of the public servers.
    pub public_limits: Limits,
    /// What the methods know besides the chain.
    pub methods: MethodOptions,
}

/// Why the servers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process listens there. The text is reth's.
    #[error(
        "address {address} ({server}) is already in use (os error 98). Choose a different port \
         using {flag}"
    )]
    InUse {
        /// Where to listen.
        address: SocketAddr,
        /// Which server.
        server: &'static str,
        /// The flag that sets its port.
        flag: &'static str,
    },
    /// The system refused to listen.
    #[error("failed to listen on {address} ({server}): {source}")]
    Listen {
        /// Where to listen.
        address: SocketAddr,
        /// Which server.
        server: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// HTTP and WebSocket share a port but not their namespaces.
    #[error(
        "HTTP and WS servers configured on the same port but with different API modules: \
         --http.api {http} and --ws.api {ws} must be equal on {address}"
    )]
    DifferentModules {
        /// The shared address.
        address: SocketAddr,
        /// Namespaces of HTTP.
        http: ModuleList,
        /// Namespaces of WebSocket.
        ws: ModuleList,
    },
    /// Two methods have the same name.
    #[error("failed to register the RPC methods: {0}")]
    Methods(#[from] RegisterMethodError),
}

/// A server: its name in messages, the flag that sets its port, the transports it speaks.
struct Role {
    name: &'static str,
    flag: &'static str,
    transports: Transports,
}

const AUTH: Role = Role {
    name: "auth server",
    flag: "--authrpc.port",
    transports: |config| config,
};
const HTTP: Role = Role {
    name: "HTTP-RPC server",
    flag: "--http.port",
    transports: ServerConfigBuilder::http_only,
};
const WS: Role = Role {
    name: "WS-RPC server",
    flag: "--ws.port",
    transports: ServerConfigBuilder::ws_only,
};
const HTTP_AND_WS: Role = Role {
    name: "WS-HTTP-RPC server",
    flag: "--http.port",
    transports: |config| config,
};

/// Servers that answer. Dropping it stops them.
#[derive(Debug)]
pub struct RunningServers {
    /// Where the authenticated server listens.
    pub auth: Option<SocketAddr>,
    /// Where the public HTTP server listens.
    pub http: Option<SocketAddr>,
    /// Where the public WebSocket server listens.
    pub ws: Option<SocketAddr>,
    handles: Vec<ServerHandle>,
}

impl RunningServers {
    /// Stops taking requests and lets those in flight end.
    pub async fn stop(self) {
        for handle in &self.handles {
            // An error says that it has stopped already.
            let _ = handle.stop();
        }
        for handle in self.handles {
            handle.stopped().await;
        }
    }
}

/// Starts the servers and tells where they listen.
///
/// # Errors
/// When an address cannot be listened on; then no server runs.
pub fn start(engine: EngineHandle, config: ServersConfig) -> Result<RunningServers, ServerError> {
    let context = Arc::new(Context::new(engine, config.methods.clone()));
    let mut running = RunningServers {
        auth: None,
        http: None,
        ws: None,
        handles: Vec::new(),
    };
    let auth = config
        .auth
        .as_ref()
        .map(|auth| bind(&AUTH, auth.address))
        .transpose()?;
    start_public(&context, &config, &mut running)?;
    if let (Some((listener, address)), Some(auth)) = (auth, config.auth) {
        let admission = Admission::Token(auth.secret);
        let methods = auth_methods(&context)?;
        let handle = serve(&AUTH, listener, AUTH_LIMITS, admission, methods).map_err(|source| {
            ServerError::Listen {
                address,
                server: AUTH.name,
                source,
            }
        })?;
        running.handles.push(handle);
        running.auth = Some(address);
        info!(target: "reth::cli", url = %address, "RPC auth server started");
    }
    Ok(running)
}

pub(super) fn auth_methods(context: &Arc<Context>) -> Result<Methods, RegisterMethodError> {
    let mut methods = Methods::new();
    methods.merge(engine::module(context.clone())?)?;
    methods.merge(reth::auth_module(context.clone())?)?;
    methods.merge(eth::auth_module(context.clone())?)?;
    Ok(methods)
}

/// Starts HTTP and WebSocket, on one port when they share an address.
fn start_public(
    context: &Arc<Context>,
    config: &ServersConfig,
    running: &mut RunningServers,
) -> Result<(), ServerError> {
    let limits = config.public_limits;
    if let (Some(http), Some(ws)) = (&config.http, &config.ws)
        && http.address == ws.address
        && http.address.port() != 0
    {
        if http.modules != ws.modules {
            return Err(ServerError::DifferentModules {
                address: http.address,
                http: http.modules.clone(),
                ws: ws.modules.clone(),
            });
        }
        let (address, handle) = start_one(&HTTP_AND_WS, http, limits, context)?;
        running.handles.push(handle);
        (running.http, running.ws) = (Some(address), Some(address));
    } else {
        for (role, public) in [(&HTTP, &config.http), (&WS, &config.ws)] {
            let Some(public) = public else { continue };
            let (address, handle) = start_one(role, public, limits, context)?;
            running.handles.push(handle);
            let slot = if role.name == HTTP.name {
                &mut running.http
            } else {
                &mut running.ws
            };
            *slot = Some(address);
        }
    }
    if let Some(address) = running.http {
        info!(target: "reth::cli", url = %address, "RPC HTTP server started");
    }
    if let Some(address) = running.ws {
        info!(target: "reth::cli", url = %address, "RPC WS server started");
    }
    Ok(())
}

fn start_one(
    role: &Role,
    public: &PublicServerConfig,
    limits: Limits,
    context: &Arc<Context>,
) -> Result<(SocketAddr, ServerHandle), ServerError> {
    let (listener, address) = bind(role, public.address)?;
    let admission = Admission::Public(public.sites.clone());
    let methods = public::methods(context, &public.modules)?;
    let handle = serve(role, listener, limits, admission, methods).map_err(|source| {
        ServerError::Listen {
            address,
            server: role.name,
            source,
        }
    })?;
    Ok((address, handle))
}

/// Starts to accept connections; they are served until the handle is stopped or dropped.
fn serve(
    role: &Role,
    listener: TcpListener,
    limits: Limits,
    admission: Admission,
    methods: Methods,
) -> io::Result<ServerHandle> {
    let listener = listen::listener(listener)?;
    let (stop, handle) = stop_channel();
    let server = Server::new(limits, role.transports, admission, methods, stop);
    tokio::spawn(server.run(listener));
    Ok(handle)
}

/// Listens, and tells the address with the port the system chose.
fn bind(role: &Role, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let server = role.name;
    if !address.ip().is_loopback() {
        warn!(target: "reth::cli", server, %address, "Listening beyond this machine: whoever reaches the address reaches the server");
    }
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => ServerError::InUse {
            address,
            server,
            flag: role.flag,
        },
        _ => ServerError::Listen {
            address,
            server,
            source,
        },
    })
}
