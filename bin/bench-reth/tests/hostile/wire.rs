//! Raw TCP to a node: bytes out, bytes in, nothing that would mend them on the way.

pub(crate) use testkit::http::{Answer, connect, post, read_answer};
use testkit::{http, node::Node};

/// Sends bytes on a new connection and reads one answer.
pub(crate) fn exchange(address: &str, request: &[u8]) -> Answer {
    let answer = http::exchange(address, request);
    answer.unwrap_or_else(|| panic!("no answer from {address}"))
}

/// A POST of JSON to a public server.
pub(crate) fn json(body: &str) -> Vec<u8> {
    post(
        &["host: 127.0.0.1", "content-type: application/json"],
        body.as_bytes(),
    )
}

/// A cheap request that every server answers.
pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}"#;

/// Whether both servers answer a well-behaved client.
pub(crate) fn assert_alive(node: &Node) {
    let public = exchange(&node.http, &json(PING));
    assert_eq!((public.status, public.code()), (200, 0), "{public:?}");
    assert!(public.body.contains("0x539"), "{public:?}");
    let token = node.token();
    let headers = ["host: x", "content-type: application/json", &token];
    let auth = exchange(&node.auth, &post(&headers, PING.as_bytes()));
    assert!(auth.body.contains("0x539"), "{auth:?}");
}

/// A number of kilobytes from the node's process status, in bytes.
pub(crate) fn memory_bytes(node: &Node, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}
