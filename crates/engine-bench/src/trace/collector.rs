//! A collector inside this program: takes what an engine exports over HTTP and keeps it.
//!
//! Invariant: it has a thread of its own, listens on loopback, and keeps a bounded number of bytes.

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};
use tokio::{net::TcpListener, sync::oneshot};

/// Largest message that is taken.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Most bytes that are kept; further messages are refused, which their sender counts as lost.
const MAX_KEPT_BYTES: usize = 1 << 30;

type Kept = Arc<Mutex<Vec<Bytes>>>;

/// A running collector. Dropping it stops it.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    kept: Kept,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Begins to listen on a free port of this machine.
    ///
    /// # Errors
    /// When the system refuses a port or a thread.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let kept = Kept::default();
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let keep = kept.clone();
        let thread = std::thread::Builder::new()
            .name("trace-collector".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, keep) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            kept,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// What engines are told to export to.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every message that came since the last call.
    pub fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It stops when this end is gone.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener, kept: Kept) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((stream, _)) = listener.accept().await {
        let kept = kept.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &kept));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is its sender's loss, who counts it.
            let _ = connection.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    kept: &Kept,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = Limited::new(request.into_body(), MAX_MESSAGE_BYTES)
        .collect()
        .await;
    let mut response = Response::new(Empty::new());
    let Ok(body) = body else {
        *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        return Ok(response);
    };
    let body = body.to_bytes();
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes: usize = kept.iter().map(Bytes::len).sum();
    if bytes + body.len() > MAX_KEPT_BYTES {
        *response.status_mut() = StatusCode::INSUFFICIENT_STORAGE;
    } else {
        kept.push(body);
    }
    Ok(response)
}
