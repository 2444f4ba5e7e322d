//! A collector inside this program: takes what an engine exports over HTTP and keeps it.
//!
//! Invariant: it has a thread of its own, listens on loopback, and keeps a bounded number of bytes.

use crate::serve::Server;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

/// Largest message that is taken.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Most bytes that are kept; further messages are refused, which their sender counts as lost.
const MAX_KEPT_BYTES: usize = 1 << 30;

type Kept = Arc<Mutex<Vec<Bytes>>>;

/// A running collector. Dropping it stops it.
#[derive(Debug)]
pub struct Collector {
    kept: Kept,
    server: Server,
}

impl Collector {
    /// Begins to listen on a free port of this machine.
    ///
    /// # Errors
    /// When the system refuses a port or a thread.
    pub fn start() -> io::Result<Self> {
        let kept = Kept::default();
        let keep = kept.clone();
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(any_port, "trace-collector", move |request| {
            answer(request, keep.clone())
        })?;
        Ok(Self { kept, server })
    }

    /// What engines are told to export to.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Every message that came since the last call.
    pub fn take(&self) -> Vec<Bytes> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn answer(request: Request<Incoming>, kept: Kept) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), MAX_MESSAGE_BYTES);
    let mut response = Response::new(Full::default());
    let Ok(body) = body.collect().await else {
        *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
        return response;
    };
    let body = body.to_bytes();
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes: usize = kept.iter().map(Bytes::len).sum();
    if bytes + body.len() > MAX_KEPT_BYTES {
        *response.status_mut() = StatusCode::INSUFFICIENT_STORAGE;
    } else {
        kept.push(body);
    }
    response
}
