//! Forwarding exported spans to a collector such as Jaeger, once a pass is over.

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;

/// The path that collectors take traces on.
pub const TRACES_PATH: &str = "/v1/traces";

/// How long a collector may take for everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends every message to the collector at `url`, which begins with `http://`.
///
/// # Errors
/// In one line, when the collector cannot be reached or refuses a message.
pub async fn forward(url: &str, messages: &[Bytes]) -> Result<(), String> {
    let failed = |reason: String| format!("failed to send spans to {url}: {reason}");
    match tokio::time::timeout(PATIENCE, send(url, messages)).await {
        Ok(sent) => sent.map_err(failed),
        Err(_) => Err(failed(format!("not done within {PATIENCE:?}"))),
    }
}

async fn send(url: &str, messages: &[Bytes]) -> Result<(), String> {
    let uri: hyper::Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
    let host = uri.host().ok_or("it names no host")?;
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    for message in messages {
        send_one(address, uri.path(), message).await?;
    }
    Ok(())
}

/// On a connection of its own: Jaeger closes them after each answer.
async fn send_one(address: (&str, u16), path: &str, message: &Bytes) -> Result<(), String> {
    let text = |error: hyper::Error| error.to_string();
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    // Its error reaches the request.
    let driver = tokio::spawn(connection);
    let request = Request::post(path)
        .header(header::HOST, format!("{}:{}", address.0, address.1))
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .body(Full::new(message.clone()))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(text)?;
    let status = response.status();
    response.into_body().collect().await.map_err(text)?;
    driver.abort();
    if status.is_success() {
        return Ok(());
    }
    Err(format!("it answered {status}"))
}

#[cfg(test)]
mod tests {
    use super::{super::Collector, *};

    #[tokio::test]
    async fn a_collector_gets_every_message_in_order() {
        let collector = Collector::start().unwrap();
        let messages = [Bytes::from_static(b"one"), Bytes::from_static(b"two")];
        let url = format!("{}{TRACES_PATH}", collector.url());
        forward(&url, &messages).await.unwrap();
        assert_eq!(collector.take(), messages);
        assert!(collector.take().is_empty());
        drop(collector);
        let gone = forward(&url, &messages).await.unwrap_err();
        assert!(gone.contains(&url), "{gone}");
        assert!(forward("http://", &messages).await.is_err());
    }

    #[tokio::test]
    async fn a_refusal_is_told() {
        let refuse = |_| async {
            let mut response = hyper::Response::new(Full::<Bytes>::default());
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            response
        };
        let any_port = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let server = crate::serve::Server::start(any_port, "refuses", refuse).unwrap();
        let url = format!("http://{}{TRACES_PATH}", server.address());
        let told = forward(&url, &[Bytes::from_static(b"one")])
            .await
            .unwrap_err();
        assert!(told.contains("500"), "{told}");
    }
}
