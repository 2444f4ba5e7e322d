//! Raw TCP to a node: bytes out, bytes in, nothing that would mend them on the way.

use engine_api::jwt::unix_time_s;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::support::Node;

/// How long a test waits for bytes that have to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The JSON-RPC error code of the answer; zero when it is none.
    pub(crate) fn code(&self) -> i64 {
        let json: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        json["error"]["code"].as_i64().unwrap_or_default()
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes on a new connection and reads one answer.
pub(crate) fn exchange(address: &str, request: &[u8]) -> Answer {
    let mut stream = connect(address);
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(request);
    read_answer(&mut stream).unwrap_or_else(|| panic!("no answer from {address}"))
}

/// Reads one answer by its content length; `None` when the connection ended without one.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    Some(Answer { status, head, body })
}

/// A POST with these header lines (each without its line end) and this body.
pub(crate) fn post(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut request = b"POST / HTTP/1.1\r\n".to_vec();
    for header in headers {
        request.extend_from_slice(header.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}

/// A POST of JSON to a public server.
pub(crate) fn json(body: &str) -> Vec<u8> {
    post(
        &["host: 127.0.0.1", "content-type: application/json"],
        body.as_bytes(),
    )
}

/// A fresh `authorization` header line.
pub(crate) fn token(node: &Node) -> String {
    format!("authorization: Bearer {}", node.secret.mint(unix_time_s()))
}

/// A cheap request that every server answers.
pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}"#;

/// Whether both servers answer a well-behaved client.
pub(crate) fn assert_alive(node: &Node) {
    let public = exchange(&node.http, &json(PING));
    assert_eq!((public.status, public.code()), (200, 0), "{public:?}");
    assert!(public.body.contains("0x539"), "{public:?}");
    let token = token(node);
    let headers = ["host: x", "content-type: application/json", &token];
    let auth = exchange(&node.auth, &post(&headers, PING.as_bytes()));
    assert!(auth.body.contains("0x539"), "{auth:?}");
}

/// A number of kilobytes from the node's process status, in bytes.
pub(crate) fn memory_bytes(node: &Node, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}
