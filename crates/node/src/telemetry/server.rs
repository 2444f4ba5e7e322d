//! The endpoint that Prometheus asks: every path answers with the exposition, as reth's does.
//!
//! Invariant: it can be reached by whoever reaches the address, so it says nothing but figures, and
//! what a client can make it hold is bounded.

use super::process;
use eyre::Context as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use std::{
    convert::Infallible,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tracing::{debug, info, warn};

/// How often observations are moved from where they were recorded to where they are rendered.
const UPKEEP: Duration = Duration::from_secs(5);

/// Connections at a time; others wait to be accepted.
const MAX_CONNECTIONS: usize = 16;

/// How long a connection may take to send a request, idle time included.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);

/// How long to wait after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Begins to answer on the current runtime.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) fn start(address: SocketAddr, metrics: PrometheusHandle) -> eyre::Result<()> {
    if !address.ip().is_loopback() {
        warn!(target: "reth::cli", %address, "Serving metrics beyond this machine: whoever reaches the address can read them");
    }
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    };
    let listener = listen().wrap_err_with(|| {
        format!("failed to serve metrics on {address}: choose another address with --metrics")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    info!(target: "reth::cli", url = %address, "Starting metrics endpoint");
    let metrics = Arc::new(metrics);
    tokio::spawn(upkeep(metrics.clone()));
    tokio::spawn(accept(listener, metrics));
    Ok(())
}

async fn upkeep(metrics: Arc<PrometheusHandle>) {
    let mut turns = time::interval(UPKEEP);
    loop {
        turns.tick().await;
        metrics.run_upkeep();
    }
}

async fn accept(listener: tokio::net::TcpListener, metrics: Arc<PrometheusHandle>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, metrics.clone(), place));
            }
            Err(problem) => {
                debug!(target: "reth::cli", %problem, "Failed to accept a connection for metrics");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, metrics: Arc<PrometheusHandle>, place: OwnedSemaphorePermit) {
    let service = service_fn(|request| {
        let response = answer(&request, &metrics);
        async { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(problem) = served {
        debug!(target: "reth::cli", %problem, "A connection for metrics ended");
    }
    drop(place);
}

fn answer(request: &Request<Incoming>, metrics: &PrometheusHandle) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let format = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, format);
    let text = metrics.render() + &process::render();
    *response.body_mut() = Full::new(Bytes::from(text));
    response
}
