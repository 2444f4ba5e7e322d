//! HTTP as bytes on a socket: as much of it as talking to programs on this machine takes, and nothing that
//! would mend what a test sends.

use crate::PATIENCE;
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Status line and headers, with the empty line behind them.
    pub head: String,
    /// What comes behind.
    pub body: String,
}

impl Answer {
    /// The JSON-RPC error code of the answer; zero when it is none.
    pub fn code(&self) -> i64 {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_default();
        json["error"]["code"].as_i64().unwrap_or_default()
    }
}

/// A connection to `host:port` whose reads and writes end.
pub fn connect(address: &str) -> TcpStream {
    try_connect(address).unwrap_or_else(|| panic!("nothing listens on {address}"))
}

fn try_connect(address: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Reads one answer, by its content length or to the end of the connection; `None` when that ended before.
pub fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = Vec::new();
    match content_length(&head) {
        Some(length) => {
            body.resize(length, 0);
            stream.read_exact(&mut body).ok()?;
        }
        // An answer that opens another protocol has no body.
        None if status == 101 => {}
        None => drop(stream.read_to_end(&mut body).ok()?),
    }
    let body = String::from_utf8(body).unwrap();
    Some(Answer { status, head, body })
}

/// The content length that a head states.
pub(crate) fn content_length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse().ok())?
    })
}

/// Sends bytes on a new connection and reads one answer; `None` when there is none.
pub fn exchange(address: &str, request: &[u8]) -> Option<Answer> {
    let mut stream = try_connect(address)?;
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(request);
    read_answer(&mut stream)
}

/// A request without a body for a path; the server closes the connection behind its answer.
pub fn ask(address: &str, method: &str, path: &str) -> Option<Answer> {
    let request = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    exchange(address, request.as_bytes())
}

/// The body of a successful answer to a GET from a port of this machine.
pub fn get(port: u16, path: &str) -> Option<String> {
    let answer = ask(&format!("127.0.0.1:{port}"), "GET", path)?;
    (answer.status == 200).then_some(answer.body)
}

/// A POST with these header lines, each without its line end, and this body.
pub fn post(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut request = b"POST / HTTP/1.1\r\n".to_vec();
    for header in headers {
        request.extend_from_slice(header.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}

/// Posts JSON with further header lines; `None` when there is no answer.
pub fn post_json(address: &str, headers: &[&str], body: &str) -> Option<Answer> {
    let host = format!("host: {address}");
    let own = [&host, "connection: close", "content-type: application/json"];
    exchange(address, &post(&[&own, headers].concat(), body.as_bytes()))
}

/// The whole JSON-RPC answer to a call; `None` when there is none.
pub fn call_raw(address: &str, headers: &[&str], method: &str, params: &Value) -> Option<Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = post_json(address, headers, &request.to_string())?;
    assert_eq!(answer.status, 200, "{method}: {}", answer.body);
    Some(serde_json::from_str(&answer.body).unwrap())
}

/// Calls a JSON-RPC method; the error object is the error.
pub fn call(address: &str, headers: &[&str], method: &str, params: &Value) -> Result<Value, Value> {
    let answer = call_raw(address, headers, method, params);
    let mut answer = answer.unwrap_or_else(|| panic!("{method}: no answer from {address}"));
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].take()),
    }
}
