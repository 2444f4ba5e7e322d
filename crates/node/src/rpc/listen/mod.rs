//! From a listening socket to answered requests: connections, limits and refusals.
//!
//! ```text
//! accept → Socket (slot) → HTTP → front: site, token, budget → JSON-RPC → Calls → method
//! ```
//!
//! Invariant: what a client can make the server hold is bounded by the [`Limits`] of the server
//! however slow, many or malformed the requests are, and a client without a token costs the auth
//! port one slot for a short time.

mod body;
mod budget;
mod calls;
mod sites;
mod socket;

pub use sites::Sites;

use super::{auth, eth};
use crate::telemetry::RemoteParent;
use body::{AnswerBody, BodyLimits, RequestBody, ShortBody};
use budget::{Budget, Refusal, refusal};
use calls::Calls;
use engine_api::jwt::JwtSecret;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{
    body::{Body as _, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use jsonrpsee::{
    Methods,
    core::middleware::RpcServiceBuilder,
    server::{
        BatchRequestConfig, HttpBody, PingConfig, ServerBuilder, ServerConfig, ServerConfigBuilder,
        StopHandle, TowerServiceBuilder, ws::is_upgrade_request,
    },
};
use serde::de::IgnoredAny;
use serde_json::json;
use socket::{Connection, Slots, Socket};
use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};
use tower::{Service as _, layer::util::Identity};
use tracing::{debug, warn};

/// How long a connection may take to send its first request.
const FIRST_REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// How long a connection may take to send the head of its next request, idle time included: geth's.
const NEXT_REQUEST_LIMIT: Duration = Duration::from_secs(120);

/// How long a body may take to arrive.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// How often a WebSocket client is asked for a sign of life, and how long it may give none.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const SILENCE_LIMIT: Duration = Duration::from_secs(90);

/// Messages that may wait for a WebSocket client to take them.
const WEBSOCKET_BUFFER_MESSAGES: u32 = 64;

/// How long to wait after the system refused to accept, for example for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a connection that finds no slot.
const NO_SLOT: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\n\
    connection: close\r\ncontent-length: 46\r\n\r\nToo many connections. Please try again later.\n";

/// What a server takes and gives at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest request, in bytes.
    pub max_request_bytes: u32,
    /// Largest response, in bytes.
    pub max_response_bytes: u32,
    /// Most bytes of requests and responses held at a time.
    pub max_held_bytes: u64,
    /// Most connections at a time.
    pub max_connections: u32,
    /// Most subscriptions of one connection.
    pub max_subscriptions_per_connection: u32,
    /// Most calls of a batch.
    pub max_batch_calls: u32,
    /// Most calls that run at a time; `None` where the engine puts them in a row anyway.
    pub max_running_calls: Option<usize>,
}

/// Who is let in.
#[derive(Debug, Clone)]
pub(super) enum Admission {
    /// Requests with a fresh token of this secret.
    Token(JwtSecret),
    /// Requests to these hosts, from these origins.
    Public(Sites),
}

/// Which transports a server speaks.
pub(super) type Transports = fn(ServerConfigBuilder) -> ServerConfigBuilder;

/// A server: everything its connections share.
pub(super) struct Server {
    limits: Limits,
    admission: Admission,
    methods: Methods,
    rpc: TowerServiceBuilder<Identity, Identity>,
    slots: Arc<Slots>,
    budget: Arc<Budget>,
    turns: Option<Arc<Semaphore>>,
    stop: StopHandle,
}

impl Server {
    pub(super) fn new(
        limits: Limits,
        transports: Transports,
        admission: Admission,
        methods: Methods,
        stop: StopHandle,
    ) -> Self {
        let rpc = ServerBuilder::with_config(config(limits, transports)).to_service_builder();
        let turns = limits
            .max_running_calls
            .map(|calls| Arc::new(Semaphore::new(calls)));
        Self {
            limits,
            admission,
            methods,
            // The bound that counts is the one on connections, below.
            rpc: rpc.max_connections(u32::MAX >> 4),
            slots: Slots::new(limits.max_connections as usize),
            budget: Budget::new(limits.max_held_bytes),
            turns,
            stop,
        }
    }

    /// Accepts connections until the server is stopped.
    pub(super) async fn run(self, listener: TcpListener) {
        let server = Arc::new(self);
        let mut stopped = pin!(server.stop.clone().shutdown());
        loop {
            let accepted = tokio::select! {
                () = &mut stopped => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => server.open(stream),
                Err(problem) => {
                    debug!(target: "reth::rpc", "failed to accept a connection: {problem}");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn open(self: &Arc<Self>, stream: TcpStream) {
        if let Err(problem) = stream.set_nodelay(true) {
            debug!(target: "reth::rpc", "failed to set up a connection: {problem}");
            return;
        }
        match Socket::new(stream, &self.slots) {
            Ok(socket) => {
                tokio::spawn(self.clone().serve(socket));
            }
            Err(stream) => {
                warn!(target: "reth::rpc", max = self.limits.max_connections, "Every connection is busy, refusing another");
                // Whoever cannot take these few bytes at once goes without them.
                let _ = stream.try_write(NO_SLOT);
            }
        }
    }

    /// Speaks HTTP on a connection until it ends, is upgraded, or has to go.
    async fn serve(self: Arc<Self>, socket: Socket) {
        let connection = socket.connection().clone();
        let front = |request| {
            let (server, connection) = (self.clone(), connection.clone());
            async move { server.front(request, &connection).await }
        };
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(NEXT_REQUEST_LIMIT);
        http.http2().timer(TokioTimer::new());
        let mut exchange =
            pin!(http.serve_connection_with_upgrades(TokioIo::new(socket), service_fn(front)));
        let ended = tokio::select! {
            ended = &mut exchange => ended.map_err(|problem| problem.to_string()),
            () = connection.kicked() => Err("it had to make room for another".to_owned()),
            () = connection.no_request_within(FIRST_REQUEST_LIMIT) => {
                Err("no request came in time".to_owned())
            }
            () = self.stop.clone().shutdown() => {
                exchange.as_mut().graceful_shutdown();
                exchange.await.map_err(|problem| problem.to_string())
            }
        };
        if let Err(problem) = ended {
            debug!(target: "reth::rpc", "a connection ended: {problem}");
        }
    }

    /// Answers one request, or refuses it.
    async fn front(
        &self,
        mut request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let _busy = connection.busy();
        let websocket = is_upgrade_request(&request);
        let answer = match self.admit(&mut request, websocket) {
            Ok(()) => {
                connection.admit();
                self.answer(request, connection, websocket).await
            }
            Err(refused) => *refused,
        };
        Ok(answer.map(|body| AnswerBody::new(body, &self.budget)))
    }

    fn admit(
        &self,
        request: &mut Request<Incoming>,
        websocket: bool,
    ) -> Result<(), Box<Response<HttpBody>>> {
        match &self.admission {
            Admission::Token(secret) => auth::check(secret, request.headers())?,
            Admission::Public(sites) => {
                let authority = request.uri().authority().map(|name| name.as_str());
                sites
                    .check(request.headers(), authority, websocket)
                    .map_err(|problem| {
                        Box::new(text(StatusCode::FORBIDDEN, problem.to_string()))
                    })?;
            }
        }
        // What comes after may log the request.
        request.headers_mut().remove(header::AUTHORIZATION);
        Ok(())
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
        websocket: bool,
    ) -> Response<HttpBody> {
        if websocket {
            connection.upgrade(&self.budget);
        }
        let mut request = request;
        if let Some(parent) = RemoteParent::of(request.headers()) {
            request.extensions_mut().insert(parent);
        }
        let (charge, refused) = self.budget.open();
        let charge = Arc::new(charge);
        let limits = BodyLimits {
            bytes: u64::from(self.limits.max_request_bytes),
            calls: self.limits.max_batch_calls as usize,
            time: BODY_LIMIT,
        };
        let short = ShortBody::default();
        let request =
            request.map(|body| RequestBody::new(body, charge.clone(), limits, short.clone()));
        let calls = {
            let (connection, turns) = (connection.clone(), self.turns.clone());
            RpcServiceBuilder::new().layer_fn(move |service| Calls {
                service,
                connection: connection.clone(),
                turns: turns.clone(),
            })
        };
        let rpc = self.rpc.clone().set_rpc_middleware(calls);
        let mut service = rpc.build(self.methods.clone(), self.stop.clone());
        tokio::select! {
            biased;
            answer = service.call(request) => match answer {
                Ok(answer) => mend(answer, &short).await,
                Err(problem) => text(StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()),
            },
            reason = refusal(refused) => self.refuse(reason),
        }
    }

    /// The answer to a request that is not read to its end.
    fn refuse(&self, reason: Refusal) -> Response<HttpBody> {
        let (status, code, message, data) = match reason {
            Refusal::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                -32007,
                "Request is too big",
                format!("Exceeded max limit of {}", self.limits.max_request_bytes),
            ),
            Refusal::BatchTooLong => (
                StatusCode::OK,
                -32010,
                "The batch request was too large",
                format!("Exceeded max limit of {}", self.limits.max_batch_calls),
            ),
            Refusal::Malformed => (
                StatusCode::BAD_REQUEST,
                -32700,
                "Parse error",
                "The body is malformed".to_owned(),
            ),
            Refusal::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                -32600,
                "The request did not arrive in time",
                format!("Exceeded {} seconds", BODY_LIMIT.as_secs()),
            ),
            Refusal::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                -32005,
                "The server holds too many bytes of other requests",
                format!("Exceeded max limit of {}", self.limits.max_held_bytes),
            ),
        };
        let error = json!({"code": code, "message": message, "data": data});
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
        let mut response = text(status, body.to_string());
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

impl Connection {
    /// Waits for a time without any request.
    async fn no_request_within(&self, time: Duration) {
        sleep(time).await;
        if self.had_request() {
            std::future::pending().await
        }
    }
}

/// Says what the JSON-RPC library says in other words than the specification.
///
/// Notifications have no answer at all, and JSON that is not a request is an invalid request, not a
/// parse error. Source: JSON-RPC 2.0, sections 4.1, 5.1 and 6.
async fn mend(answer: Response<HttpBody>, short: &ShortBody) -> Response<HttpBody> {
    const NO_ANSWER: &[u8] = b"null";
    const PARSE_ERROR: &[u8] =
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    const INVALID_REQUEST: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#;
    let length = answer.body().size_hint().exact();
    if ![NO_ANSWER, PARSE_ERROR]
        .iter()
        .any(|text| length == Some(text.len() as u64))
    {
        return answer;
    }
    let (parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, String::new());
    };
    let is_json = || {
        let request = short.get();
        request.is_some_and(|json| serde_json::from_slice::<IgnoredAny>(json).is_ok())
    };
    let mended = match &*body {
        NO_ANSWER if names_an_id(short) => HttpBody::from(INVALID_REQUEST),
        NO_ANSWER => HttpBody::empty(),
        PARSE_ERROR if is_json() => HttpBody::from(INVALID_REQUEST),
        _ => HttpBody::from(body.to_vec()),
    };
    Response::from_parts(parts, mended)
}

/// Whether a request that was taken for a notification has an id, which then is of no valid type.
fn names_an_id(short: &ShortBody) -> bool {
    #[derive(serde::Deserialize)]
    struct Identified {
        #[serde(rename = "id")]
        _id: IgnoredAny,
    }
    // A batch is a list, which would pass for the fields of a structure in their order.
    let request = short
        .get()
        .filter(|json| json.trim_ascii_start().starts_with(b"{"));
    request.is_some_and(|json| serde_json::from_slice::<Identified>(json).is_ok())
}

fn config(limits: Limits, transports: Transports) -> ServerConfig {
    let ping = PingConfig::new()
        .ping_interval(PING_INTERVAL)
        .inactive_limit(SILENCE_LIMIT);
    transports(ServerConfig::builder())
        .max_request_body_size(limits.max_request_bytes)
        .max_response_body_size(limits.max_response_bytes)
        .max_subscriptions_per_connection(limits.max_subscriptions_per_connection)
        .set_batch_request_config(BatchRequestConfig::Limit(limits.max_batch_calls))
        .set_message_buffer_capacity(WEBSOCKET_BUFFER_MESSAGES)
        .set_id_provider(eth::SubscriptionIds)
        .enable_ws_ping(ping)
        .build()
}

/// A plain text answer.
pub(super) fn text(status: StatusCode, body: String) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::from(body));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// A listener of the system as one of the runtime.
///
/// # Errors
/// When the system refuses.
pub(super) fn listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(listener)
}
