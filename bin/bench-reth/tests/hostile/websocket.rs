//! A WebSocket spoken byte by byte: frames that break the protocol, floods, and clients that never
//! take an answer.

use super::wire::{PING, assert_alive, connect, exchange, memory_bytes, read_answer};
use serde_json::Value;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};
use testkit::node::World;

const TEXT: u8 = 0x81;
const CONTINUE: u8 = 0x00;
const CLOSE: u8 = 0x88;
const PING_FRAME: u8 = 0x89;

fn open(address: &str) -> TcpStream {
    let mut stream = connect(address);
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 101);
    stream
}

/// A frame with this first byte, masked with zeros as a client's frames have to be.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = head(first, payload.len() as u64, true);
    frame.extend_from_slice(payload);
    frame
}

fn head(first: u8, length: u64, masked: bool) -> Vec<u8> {
    let mask = if masked { 0x80 } else { 0 };
    let mut head = vec![first];
    match length {
        0..=125 => head.push(mask | length as u8),
        126..=0xffff => {
            head.push(mask | 126);
            head.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            head.push(mask | 127);
            head.extend_from_slice(&length.to_be_bytes());
        }
    }
    if masked {
        head.extend_from_slice(&[0; 4]);
    }
    head
}

/// The payload of the next text frame; `None` when the connection ended.
fn next_text(stream: &mut TcpStream) -> Option<String> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).ok()?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).ok()?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                stream.read_exact(&mut length).ok()?;
                u64::from_be_bytes(length)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).ok()?;
        match head[0] {
            TEXT => return Some(String::from_utf8(payload).unwrap()),
            CLOSE => return None,
            _ => {}
        }
    }
}

fn ask(stream: &mut TcpStream, text: &str) -> Value {
    stream.write_all(&frame(TEXT, text.as_bytes())).unwrap();
    serde_json::from_str(&next_text(stream).unwrap()).unwrap()
}

#[test]
fn messages_that_are_no_requests_are_errors_and_the_connection_stays() {
    let world = World::new();
    let node = world.node(&["--rpc.max-request-size", "1"]);
    let mut stream = open(&node.ws);
    for (text, code) in [
        ("hello", -32700),
        ("", -32700),
        ("{", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":[]}"#,
            -32602,
        ),
        ("[]", -32600),
    ] {
        assert_eq!(ask(&mut stream, text)["error"]["code"], code, "{text}");
    }
    let long = format!("{{{}}}", " ".repeat(2 << 20));
    assert_eq!(ask(&mut stream, &long)["error"]["code"], -32007);
    // In pieces, with a ping between them.
    let (first, second) = PING.split_at(20);
    for bytes in [
        frame(TEXT & 0x0f, first.as_bytes()),
        frame(PING_FRAME, b"are you there"),
        frame(CONTINUE | 0x80, second.as_bytes()),
    ] {
        stream.write_all(&bytes).unwrap();
    }
    assert!(next_text(&mut stream).unwrap().contains("0x539"));
}

#[test]
fn frames_that_break_the_protocol_end_the_connection_alone() {
    let world = World::new();
    let node = world.node(&[]);
    let mut other = open(&node.ws);
    for (name, bytes) in [
        (
            "not masked",
            [head(TEXT, 2, false), b"{}".to_vec()].concat(),
        ),
        ("reserved bits", frame(0xf1, b"{}")),
        ("unknown opcode", frame(0x83, b"{}")),
        ("continuation of nothing", frame(0x80, b"{}")),
        ("long ping", frame(PING_FRAME, &[0; 126])),
        ("ping in pieces", frame(PING_FRAME & 0x0f, b"x")),
        ("a length beyond everything", head(TEXT, u64::MAX, true)),
        ("a length of 2^63", head(TEXT, 1 << 63, true)),
        ("bad close", frame(CLOSE, &[0])),
    ] {
        let mut stream = open(&node.ws);
        stream.write_all(&bytes).unwrap();
        // An error may be told first; then the connection ends, or the message is skipped.
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        while next_text(&mut stream).is_some() {}
        assert!(ask(&mut other, PING)["result"] == "0x539", "{name}");
    }
}

#[test]
fn a_flood_that_is_never_answered_to_anyone_holds_a_bounded_amount() {
    let world = World::new();
    let node = world.node(&["--ws.api", "eth,reth", "--http.api", "eth"]);
    let call = frame(
        TEXT,
        br#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x0",true]}"#,
    );
    let flood = call.repeat(1000);
    let mut deaf: Vec<_> = (0..20).map(|_| open(&node.ws)).collect();
    for stream in &mut deaf {
        stream
            .set_write_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        // Until the server takes no more, or a hundred thousand calls.
        let stuck = (0..100).any(|_| stream.write_all(&flood).is_err());
        assert!(
            stuck,
            "the server went on reading from a client that reads nothing"
        );
    }
    assert_alive(&node);
    assert!(ask(&mut open(&node.ws), PING)["result"] == "0x539");
    let peak = memory_bytes(&node, "VmHWM");
    assert!(peak < 1 << 30, "{} MiB", peak >> 20);
}

#[test]
fn half_sent_messages_hold_a_bounded_amount() {
    let world = World::new();
    let node = world.node(&[]);
    let piece = vec![b' '; 14 << 20];
    let mut open_messages: Vec<_> = (0..150).map(|_| open(&node.ws)).collect();
    for stream in &mut open_messages {
        // A refused client's connection is closed while it still sends.
        let _ = stream.write_all(&head(TEXT, 15 << 20, true));
        let _ = stream.write_all(&piece);
    }
    assert!(ask(&mut open(&node.ws), PING)["result"] == "0x539");
    assert_alive(&node);
    let peak = memory_bytes(&node, "VmHWM");
    assert!(peak < (640 + 512) << 20, "{} MiB", peak >> 20);
}

#[test]
fn subscriptions_are_bounded() {
    let world = World::new();
    let node = world.node(&[
        "--rpc.max-subscriptions-per-connection",
        "3",
        "--http.api",
        "eth",
        "--ws.api",
        "eth,reth",
    ]);
    let mut stream = open(&node.ws);
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"reth_subscribePersistedBlock"}"#;
    let mut ids = 0;
    let mut refused = 0;
    for _ in 0..6 {
        stream
            .write_all(&frame(TEXT, subscribe.as_bytes()))
            .unwrap();
    }
    while ids + refused < 6 {
        let message: Value = serde_json::from_str(&next_text(&mut stream).unwrap()).unwrap();
        ids += usize::from(message.get("id").is_some() && message.get("result").is_some());
        refused += usize::from(message["error"]["code"] == -32006);
    }
    assert_eq!((ids, refused), (3, 3));
    // Over plain HTTP there is nothing to subscribe to.
    let answer = exchange(&node.http, &super::wire::json(subscribe));
    assert_eq!(answer.code(), -32601, "{answer:?}");
}
