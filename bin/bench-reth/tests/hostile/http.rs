//! Malformed HTTP and JSON-RPC on the public server and the auth port.

use super::wire::{Answer, PING, assert_alive, connect, exchange, json, post, read_answer};
use std::io::Write as _;
use testkit::node::World;

const JSON: &str = "content-type: application/json";
const HOST: &str = "host: localhost";

#[test]
fn json_rpc_errors_have_the_specified_codes() {
    let world = World::new();
    let node = world.node(&[]);
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    let owned =
        |bodies: &[&str]| -> Vec<String> { bodies.iter().map(|body| (*body).to_owned()).collect() };
    let no_text = owned(&["", "   ", "hello", "\u{feff}{}"]);
    let no_json = vec![
        "{".into(),
        "[1,".into(),
        r#"{"jsonrpc":"2.0","id":1,"#.into(),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{0}\"}".into(),
        format!("{PING}x"),
        format!("{PING}{PING}"),
    ];
    let no_request = owned(&[
        "{}",
        "[]",
        r#"{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}"#,
        r#"{"id":1,"method":"eth_chainId"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"eth_chainId"}"#,
    ]);
    let no_method = ["eth_nothing", "", "engine_newPayloadV4", "rpc.discover"];
    let (long, longer) = (deep(100_000), format!("[{}]", deep(1_000_000)));
    let unfit: [(&str, &str); 11] = [
        ("eth_getBalance", "[]"),
        ("eth_getBalance", "{}"),
        ("eth_getBalance", "7"),
        ("eth_getBalance", "\"x\""),
        ("eth_getBalance", "[7]"),
        ("eth_getBalance", "[\"0x00\"]"),
        ("eth_getBlockByNumber", "[\"latest\",false,1]"),
        ("eth_getBlockByNumber", "[\"0x10000000000000000\"]"),
        ("eth_getBlockByNumber", "[-1]"),
        ("eth_call", &long),
        ("eth_call", &longer),
    ];
    for (status, code, bodies) in [
        (400, -32700, no_text),
        (200, -32700, no_json),
        (200, -32600, no_request),
        (200, -32601, no_method.map(|name| call(name, "[]")).to_vec()),
        (
            200,
            -32602,
            unfit.map(|(name, with)| call(name, with)).to_vec(),
        ),
    ] {
        for body in bodies {
            let answer = exchange(&node.http, &json(&body));
            let shown = &body[..body.len().min(80)];
            let got = (answer.status, answer.code());
            assert_eq!(got, (status, code), "{shown}: {answer:?}");
        }
    }
    assert_alive(&node);
}

/// A request line with a host and nothing else.
fn bare(line: &str) -> Vec<u8> {
    format!("{line}\r\n{HOST}\r\n\r\n").into_bytes()
}

#[test]
fn what_is_no_post_of_json_gets_its_status() {
    let world = World::new();
    let node = world.node(&[]);
    let typed = |kind: &str| post(&[HOST, &format!("content-type: {kind}")], PING.as_bytes());
    for (status, requests) in [
        (
            405,
            ["GET / HTTP/1.1", "PUT / HTTP/1.1", "DELETE / HTTP/1.1"].map(bare),
        ),
        (
            405,
            [
                "OPTIONS / HTTP/1.1",
                "BREW / HTTP/1.1",
                "CONNECT 127.0.0.1:1 HTTP/1.1",
            ]
            .map(bare),
        ),
        (
            415,
            ["text/plain", "application/x-www-form-urlencoded", ""].map(typed),
        ),
        (
            403,
            ["a.example", "a.example:8545", "127.0.0.1.a.example"]
                .map(|host| post(&[&format!("host: {host}"), JSON], PING.as_bytes())),
        ),
    ] {
        for request in requests {
            let answer = exchange(&node.http, &request);
            let shown = String::from_utf8_lossy(&request).into_owned();
            assert_eq!(answer.status, status, "{shown}: {answer:?}");
        }
    }
    let answer = exchange(&node.http, &post(&[HOST], PING.as_bytes()));
    assert_eq!(answer.status, 415, "no content type: {answer:?}");
    let old = format!(
        "POST / HTTP/1.0\r\n{JSON}\r\ncontent-length: {}\r\n\r\n{PING}",
        PING.len()
    );
    let answer = exchange(&node.http, old.as_bytes());
    assert_eq!(
        (answer.status, answer.code()),
        (200, 0),
        "HTTP/1.0: {answer:?}"
    );
    assert_alive(&node);
}

#[test]
fn http_that_breaks_its_own_rules_is_refused() {
    let world = World::new();
    let node = world.node(&[]);
    let many: Vec<String> = (0..200).map(|n| format!("x-{n}: y")).collect();
    let many: Vec<&str> = many
        .iter()
        .map(String::as_str)
        .chain([HOST, JSON])
        .collect();
    let long = format!("x: {}", "y".repeat(1 << 20));
    let ping = PING.as_bytes();
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n";
    for (name, request, status) in [
        ("too long by its header", json_of_length("20000000"), 413),
        (
            "too long for any number",
            json_of_length("99999999999999999999"),
            400,
        ),
        ("negative length", json_of_length("-1"), 400),
        (
            "two lengths",
            post(&[HOST, JSON, "content-length: 3"], ping),
            400,
        ),
        (
            "unknown coding",
            post(&[HOST, JSON, "transfer-encoding: gzip"], ping),
            400,
        ),
        (
            "bad chunk",
            post_raw("transfer-encoding: chunked", b"zz\r\n"),
            400,
        ),
        ("many headers", post(&many, ping), 431),
        ("long header", post(&[HOST, JSON, &long], ping), 431),
        ("TLS", tls.to_vec(), 400),
        ("not a version", bare("POST / HTTP/9.9"), 400),
        (
            "websocket on the HTTP port",
            upgrade("host: 127.0.0.1"),
            403,
        ),
    ] {
        let answer = exchange(&node.http, &request);
        assert_eq!(answer.status, status, "{name}: {answer:?}");
    }
    let foreign = upgrade("host: 127.0.0.1\r\norigin: https://page.example");
    assert_eq!(exchange(&node.ws, &foreign).status, 403, "foreign page");
    assert_eq!(
        exchange(&node.ws, &json(PING)).status,
        403,
        "HTTP on the WS port"
    );
    assert_alive(&node);
}

fn json_of_length(length: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\n{HOST}\r\n{JSON}\r\ncontent-length: {length}\r\n\r\n").into_bytes()
}

fn post_raw(header: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST / HTTP/1.1\r\n{HOST}\r\n{JSON}\r\n{header}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn upgrade(host: &str) -> Vec<u8> {
    format!(
        "GET / HTTP/1.1\r\n{host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn a_chunked_body_is_refused_once_it_is_too_long() {
    let world = World::new();
    let node = world.node(&["--rpc.max-request-size", "1"]);
    let mut stream = connect(&node.http);
    stream
        .write_all(&post_raw("transfer-encoding: chunked", b""))
        .unwrap();
    let chunk = [
        format!("{:x}\r\n", 1 << 16).as_bytes(),
        b"[",
        &[b' '; (1 << 16) - 1],
        b"\r\n",
    ]
    .concat();
    // It never ends; the answer comes at 1 MiB.
    while stream.write_all(&chunk).is_ok() {}
    let mut stream = connect(&node.http);
    stream
        .write_all(&post_raw("transfer-encoding: chunked", b""))
        .unwrap();
    for _ in 0..17 {
        stream.write_all(&chunk).unwrap();
    }
    let answer = read_answer(&mut stream).unwrap();
    assert_eq!((answer.status, answer.code()), (413, -32007), "{answer:?}");
    assert_alive(&node);
}

#[test]
fn batches_are_bounded_and_each_call_is_answered_by_itself() {
    let world = World::new();
    let node = world.node(&[]);
    let bad = r#"{"jsonrpc":"2.0","id":8,"method":"eth_nothing"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#;
    let answer = exchange(&node.http, &json(&format!("[{PING},{bad},1,{note}]")));
    let answers: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let codes: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["error"]["code"].as_i64())
        .collect();
    assert_eq!(codes, [None, Some(-32601), Some(-32600)]);
    assert_eq!(exchange(&node.http, &json(&format!("[{note}]"))).body, "");
    assert_eq!(exchange(&node.http, &json(note)).body, "");

    let batch = |calls: usize| json(&format!("[{}]", vec![PING; calls].join(",")));
    let most = exchange(&node.http, &batch(1000));
    assert_eq!(most.body.matches("0x539").count(), 1000);
    for request in [
        batch(1001),
        json(&format!("[{}]", vec!["0"; 7_000_000].join(","))),
    ] {
        let answer = exchange(&node.http, &request);
        assert_eq!((answer.status, answer.code()), (200, -32010), "{answer:?}");
    }
    assert_alive(&node);
}

#[test]
fn a_batch_whose_answers_are_too_long_ends_in_one_error() {
    let world = World::new();
    let node = world.node(&["--rpc.max-response-size", "1"]);
    let block = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x0",true]}"#;
    let answer = exchange(
        &node.http,
        &json(&format!("[{}]", vec![block; 1000].join(","))),
    );
    assert_eq!((answer.status, answer.code()), (200, -32011), "{answer:?}");
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let world = World::new();
    let node = world.node(&[]);
    let request = |id: u32, method: &str| {
        json(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[]}}"#
        ))
    };
    let mut stream = connect(&node.http);
    let pipelined: Vec<u8> = (0..50)
        .flat_map(|id| {
            request(
                id,
                if id % 2 == 0 {
                    "eth_chainId"
                } else {
                    "eth_nothing"
                },
            )
        })
        .collect();
    stream.write_all(&pipelined).unwrap();
    for id in 0..50_i64 {
        let answer = read_answer(&mut stream).unwrap();
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(json["id"], id);
        assert_eq!(answer.code(), if id % 2 == 0 { 0 } else { -32601 });
    }
    // A client that says it will send no more gets its answer or a closed connection, no hang.
    let mut stream = connect(&node.http);
    stream.write_all(&json(PING)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer: Option<Answer> = read_answer(&mut stream);
    assert!(answer.is_none_or(|answer| answer.status == 200));
    assert_alive(&node);
}

#[test]
fn the_auth_port_reads_nothing_of_a_request_without_one_fresh_token() {
    let world = World::new();
    let node = world.node(&[]);
    let good = node.token();
    let other = format!("{good}x");
    let huge = format!("authorization: Bearer {}", "a".repeat(100_000));
    let blanks = good.replace("Bearer ", "Bearer    ");
    for (name, headers, body) in [
        ("none", vec![JSON], "missing token"),
        ("empty", vec![JSON, "authorization:"], "missing token"),
        ("no scheme", vec![JSON, &good[..14]], "missing token"),
        (
            "another scheme",
            vec![JSON, "authorization: Basic eDp5"],
            "missing token",
        ),
        (
            "not text",
            vec![JSON, "authorization: Bearer \u{e4}\u{f6}"],
            "missing token",
        ),
        (
            "no token",
            vec![JSON, "authorization: Bearer "],
            "missing token",
        ),
        (
            "rubbish",
            vec![JSON, "authorization: Bearer ....."],
            "invalid token",
        ),
        (
            "not base64",
            vec![JSON, "authorization: Bearer !!!.###.$$$"],
            "invalid token",
        ),
        ("huge", vec![JSON, &huge], "invalid token"),
        ("one more letter", vec![JSON, &other], "invalid token"),
        ("twice the same", vec![JSON, &good, &good], "invalid token"),
        (
            "good and bad",
            vec![JSON, &good, "authorization: Bearer x"],
            "invalid token",
        ),
        (
            "bad and good",
            vec![JSON, "authorization: Bearer x", &good],
            "invalid token",
        ),
        (
            "foreign content",
            vec!["content-type: text/plain", "host: a"],
            "missing token",
        ),
        ("good", vec![JSON, &good], ""),
        ("blanks before it", vec![JSON, &blanks], ""),
    ] {
        let answer = exchange(&node.auth, &post(&headers, PING.as_bytes()));
        let status = if body.is_empty() { 200 } else { 401 };
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert!(status == 200 || answer.body == body, "{name}: {answer:?}");
    }
    assert_alive(&node);
}

#[test]
fn the_auth_port_refuses_before_it_reads_a_body_or_opens_a_websocket() {
    let world = World::new();
    let node = world.node(&[]);
    // The refusal comes before the body, however long it is said to be.
    let promised =
        format!("POST / HTTP/1.1\r\nhost: a\r\n{JSON}\r\ncontent-length: 4000000000\r\n\r\n");
    assert_eq!(exchange(&node.auth, promised.as_bytes()).status, 401);
    for request in [
        upgrade("host: a"),
        upgrade(&format!(
            "host: a\r\nauthorization: Bearer {}",
            "x".repeat(50)
        )),
    ] {
        assert_eq!(
            exchange(&node.auth, &request).status,
            401,
            "a WebSocket is no way around"
        );
    }
    assert_eq!(
        exchange(
            &node.auth,
            &upgrade(&format!("host: a\r\n{}", node.token()))
        )
        .status,
        101
    );
    assert_alive(&node);
}
