//! JSON-RPC over one kept-alive HTTP/1.1 connection, with a clock around nothing but the exchange.
//!
//! Invariant: between the two readings of the clock in [`EngineClient::send_prepared`] bytes are
//! written and read, and nothing else: the body, the headers and the token are ready before, and
//! the answer is put together and parsed after.

use crate::{
    error::{ClientError, RpcError},
    jwt::{JwtSecret, unix_time_s},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use std::{
    error::Error,
    io,
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

/// How long an answer may take unless [`EngineClient::with_timeout`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// A token older than this is replaced before the next request: half of what verifiers tolerate.
const TOKEN_LIFETIME_S: u64 = 30;

/// The header that names the sender's span.
const TRACEPARENT: &str = "traceparent";

/// How much of an unexpected answer an error quotes, in characters.
const EXCERPT_CHARACTERS: usize = 200;

/// The answer to a prepared request, and how long it took.
#[derive(Debug, Clone)]
pub struct Timed {
    /// The body of the answer, not yet parsed.
    pub body: Bytes,
    /// From the first byte written to the last byte read, in nanoseconds.
    pub elapsed_ns: u64,
}

/// A JSON-RPC client that holds one connection to one engine.
///
/// Without a secret it speaks to the public port; with one it sends a fresh token along.
#[derive(Debug)]
pub struct EngineClient {
    url: String,
    address: String,
    path: String,
    secret: Option<JwtSecret>,
    token: Option<Token>,
    traceparent: Option<HeaderValue>,
    timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
    next_id: u64,
}

#[derive(Debug)]
struct Token {
    header: HeaderValue,
    minted_s: u64,
}

impl EngineClient {
    /// A client of `http://host:port[/path]`. It connects at the first request.
    ///
    /// # Errors
    /// When `url` is not an `http` address.
    pub fn new(url: &str, secret: Option<JwtSecret>) -> Result<Self, ClientError> {
        let refuse = |reason: &str| ClientError::Address {
            url: url.into(),
            reason: reason.into(),
        };
        let uri: Uri = url
            .parse()
            .map_err(|e: http::uri::InvalidUri| refuse(&e.to_string()))?;
        if uri.scheme_str() != Some("http") {
            return Err(refuse("it must begin with http://"));
        }
        let host = uri.host().ok_or_else(|| refuse("it names no host"))?;
        Ok(Self {
            url: url.to_owned(),
            address: format!("{host}:{}", uri.port_u16().unwrap_or(80)),
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
            secret,
            token: None,
            traceparent: None,
            timeout: DEFAULT_TIMEOUT,
            connection: None,
            next_id: 0,
        })
    }

    /// The same client with another limit for an answer.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The address given to [`Self::new`].
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Calls `method` with positional `params` and reads its result.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, ClientError> {
        self.next_id += 1;
        let body = request_body(self.next_id, method, &params)?;
        let answer = self.send_prepared(&body).await?;
        parse(&answer.body)
    }

    /// Opens the connection unless there is an open one, so that the next request need not.
    ///
    /// # Errors
    /// [`ClientError::Refused`], [`ClientError::Connect`] or [`ClientError::Timeout`].
    pub async fn connect(&mut self) -> Result<(), ClientError> {
        self.ready().await.map(|_| ())
    }

    /// Names the span that requests are part of from now on (W3C Trace Context); a text that cannot
    /// be a header names none.
    pub fn set_traceparent(&mut self, text: &str) {
        self.traceparent = HeaderValue::from_str(text).ok();
    }

    /// Sends a complete JSON-RPC request and times the exchange.
    ///
    /// Connecting and minting a token happen before the clock starts. A request that an old
    /// connection never began to send is sent again on a new one, with a new clock; once a byte
    /// may have left, it is not repeated.
    ///
    /// # Errors
    /// See [`ClientError`]; the answer itself is not looked into, use [`parse`].
    pub async fn send_prepared(&mut self, body: &Bytes) -> Result<Timed, ClientError> {
        let first = self.exchange(body).await;
        let outcome = match first {
            Err(Failure::NotSent) => self.exchange(body).await,
            other => other,
        };
        outcome.map_err(|failure| match failure {
            Failure::NotSent => ClientError::Closed {
                url: self.url.clone(),
            },
            Failure::Other(error) => error,
        })
    }

    async fn exchange(&mut self, body: &Bytes) -> Result<Timed, Failure> {
        let request = self.request(body.clone()).map_err(Failure::Other)?;
        let timeout = self.timeout;
        let connection = self.ready().await.map_err(Failure::Other)?;
        let outcome = tokio::time::timeout(timeout, timed_exchange(connection, request)).await;
        let Ok(outcome) = outcome else {
            // A late answer must not be taken for the answer to the next request.
            self.connection = None;
            let url = self.url.clone();
            return Err(Failure::Other(ClientError::Timeout { url, timeout }));
        };
        let answer = outcome.map_err(|error| {
            self.connection = None;
            self.failure(&error)
        })?;
        let timed = Timed {
            body: joined(answer.frames),
            elapsed_ns: answer.elapsed_ns,
        };
        if answer.status.is_success() {
            return Ok(timed);
        }
        Err(Failure::Other(ClientError::Status {
            url: self.url.clone(),
            status: answer.status.as_u16(),
            body: excerpt(&timed.body),
        }))
    }

    fn request(&mut self, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut builder = Request::post(self.path.as_str())
            .header(header::HOST, self.address.as_str())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(traceparent) = &self.traceparent {
            builder = builder.header(TRACEPARENT, traceparent);
        }
        if let Some(token) = self.authorization() {
            builder = builder.header(header::AUTHORIZATION, token);
        }
        builder
            .body(Full::new(body))
            .map_err(|e| ClientError::Request(e.to_string()))
    }

    fn authorization(&mut self) -> Option<HeaderValue> {
        let secret = self.secret.as_ref()?;
        let now_s = unix_time_s();
        let fresh = |token: &&Token| now_s.abs_diff(token.minted_s) < TOKEN_LIFETIME_S;
        if let Some(token) = self.token.as_ref().filter(fresh) {
            return Some(token.header.clone());
        }
        let mut header = HeaderValue::from_str(&format!("Bearer {}", secret.mint(now_s))).ok()?;
        header.set_sensitive(true);
        self.token = Some(Token {
            header: header.clone(),
            minted_s: now_s,
        });
        Some(header)
    }

    async fn ready(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, ClientError> {
        let usable = match &mut self.connection {
            Some(connection) => connection.ready().await.is_ok(),
            None => false,
        };
        let connection = if usable { self.connection.take() } else { None };
        let connection = match connection {
            Some(connection) => connection,
            None => tokio::time::timeout(self.timeout, self.open())
                .await
                .map_err(|_| ClientError::Timeout {
                    url: self.url.clone(),
                    timeout: self.timeout,
                })??,
        };
        Ok(self.connection.insert(connection))
    }

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let url = || self.url.clone();
        let refused = |reason: io::Error| match reason.kind() {
            io::ErrorKind::ConnectionRefused => ClientError::Refused { url: url() },
            _ => ClientError::Connect { url: url(), reason },
        };
        let stream = TcpStream::connect(&self.address).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|e| ClientError::Http {
                    url: url(),
                    reason: e.to_string(),
                })?;
        // Its error reaches the request that is under way; with none under way it means nothing.
        tokio::spawn(async move { drop(driver.await) });
        Ok(sender)
    }

    fn failure(&self, error: &hyper::Error) -> Failure {
        if error.is_canceled() {
            return Failure::NotSent;
        }
        let url = self.url.clone();
        if error.is_incomplete_message() || error.is_closed() || is_cut_off(error) {
            return Failure::Other(ClientError::Closed { url });
        }
        Failure::Other(ClientError::Http {
            url,
            reason: error.to_string(),
        })
    }
}

/// Reads the result out of the body of a JSON-RPC response.
///
/// # Errors
/// [`ClientError::Rpc`] for an error object, [`ClientError::Malformed`] for anything unexpected.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    let malformed = |reason: String| ClientError::Malformed {
        reason,
        excerpt: excerpt(body),
    };
    let response: Response<T> =
        serde_json::from_slice(body).map_err(|e| malformed(e.to_string()))?;
    match (response.error, response.result) {
        (Some(error), _) => Err(error.into()),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(malformed("neither a result nor an error".to_owned())),
    }
}

/// The body of a JSON-RPC request, complete.
///
/// # Errors
/// [`ClientError::Request`] when `params` cannot be written as JSON.
pub fn request_body(id: u64, method: &str, params: impl Serialize) -> Result<Bytes, ClientError> {
    #[derive(Serialize)]
    struct Call<'a, P> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: P,
    }
    serde_json::to_vec(&Call {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
    .map(Bytes::from)
    .map_err(|e| ClientError::Request(e.to_string()))
}

/// How an exchange ended without an answer.
enum Failure {
    /// The connection was gone before the request was begun: it may be sent again.
    NotSent,
    Other(ClientError),
}

struct Answer {
    status: StatusCode,
    frames: Vec<Bytes>,
    elapsed_ns: u64,
}

async fn timed_exchange(
    connection: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, hyper::Error> {
    let mut frames = Vec::with_capacity(16);
    let started = Instant::now();
    let response = connection.send_request(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            frames.push(data);
        }
    }
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Answer {
        status,
        frames,
        elapsed_ns,
    })
}

fn joined(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.remove(0);
    }
    let mut body = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    for frame in &frames {
        body.extend_from_slice(frame);
    }
    body.freeze()
}

fn is_cut_off(error: &hyper::Error) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| {
        matches!(
            source.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    })
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body)
        .chars()
        .take(EXCERPT_CHARACTERS)
        .collect()
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Response<T> {
    /// `Some` whenever the key is there, so that a null result is one too.
    #[serde(default, deserialize_with = "present")]
    result: Option<T>,
    error: Option<RpcError>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
