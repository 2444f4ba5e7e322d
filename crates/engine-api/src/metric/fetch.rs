//! Asking a program for its metrics, or for another page.

use crate::error::ClientError;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpStream;

/// More than any engine exports.
const MAX_BYTES: usize = 32 << 20;

/// The exposition that an engine serves at this address.
///
/// # Errors
/// When nothing listens there, or no complete answer comes within `timeout`.
pub async fn fetch(address: SocketAddr, timeout: Duration) -> Result<String, ClientError> {
    get(address, "/metrics", timeout).await
}

/// What is answered to a `GET` of this path.
///
/// # Errors
/// When nothing listens there, no complete answer comes within `timeout`, or it is no success.
pub async fn get(
    address: SocketAddr,
    path: &str,
    timeout: Duration,
) -> Result<String, ClientError> {
    let url = format!("http://{address}{path}");
    match tokio::time::timeout(timeout, exchange(address, path, &url)).await {
        Ok(answer) => answer,
        Err(_) => Err(ClientError::Timeout { url, timeout }),
    }
}

async fn exchange(address: SocketAddr, path: &str, url: &str) -> Result<String, ClientError> {
    let failed = |reason: String| ClientError::Http {
        url: url.to_owned(),
        reason,
    };
    let stream = TcpStream::connect(address)
        .await
        .map_err(|reason| ClientError::Connect {
            url: url.to_owned(),
            reason,
        })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.to_string()))?;
    // Its error reaches the request.
    let driver = tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, address.to_string())
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(error.to_string()))?;
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
    driver.abort();
    let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
    if !status.is_success() {
        return Err(ClientError::Status {
            url: url.to_owned(),
            status: status.as_u16(),
            body: String::new(),
        });
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}
