//! Clients that keep the server busy: slow, silent, many, deaf. Memory stays within what the limits
//! allow, and a well-behaved client is served all the while.

use super::wire::{PING, assert_alive, connect, exchange, json, memory_bytes, post, read_answer};
use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::Duration,
};
use testkit::node::{PAID, World};
use testkit::wait_until;

const MIB: u64 = 1 << 20;

/// What the auth port may hold of requests and answers: its limit, see `AUTH_LIMITS`.
const AUTH_HELD_BYTES: u64 = 1 << 30;

/// What a public server may hold, see `PUBLIC_HELD_BYTES`.
const PUBLIC_HELD_BYTES: u64 = 640 * MIB;

/// What the process may take besides: code, database map, allocator, buffers of 500 connections.
const BASE_BYTES: u64 = 512 * MIB;

/// Sends a head and `sent` bytes of a body of `promised`.
fn half_a_body(address: &str, headers: &[&str], promised: u64, sent: u64) -> TcpStream {
    let mut stream = connect(address);
    let mut head = "POST / HTTP/1.1\r\ncontent-type: application/json\r\n".to_owned();
    for header in headers {
        head += &format!("{header}\r\n");
    }
    head += &format!("content-length: {promised}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![b' '; MIB as usize];
    let mut piece_of_json = piece.clone();
    piece_of_json[0] = b'{';
    let mut left = sent;
    let mut next = &piece_of_json;
    while left > 0 {
        let length = left.min(MIB) as usize;
        // A client that was refused cannot send the rest.
        if stream.write_all(&next[..length]).is_err() {
            break;
        }
        left -= length as u64;
        next = &piece;
    }
    stream
}

#[test]
fn two_hundred_slow_uploads_hold_a_bounded_amount_and_the_engine_answers() {
    let world = World::new();
    let node = world.node(&[]);
    let token = node.token();
    let mut slow = Vec::new();
    for n in 0..200 {
        slow.push(half_a_body(
            &node.auth,
            &["host: a", &token],
            100 * MIB,
            12 * MIB,
        ));
        if n % 20 == 0 {
            assert_alive(&node);
        }
    }
    let peak = memory_bytes(&node, "VmHWM");
    assert!(peak < AUTH_HELD_BYTES + BASE_BYTES, "{} MiB", peak / MIB);
    node.advance(2);
    assert_eq!(node.balance(PAID), "0x77359400");
    // Who had to go was told so, unless the reset of what it went on sending came first.
    let told: Vec<_> = slow
        .iter_mut()
        .filter_map(|stream| {
            stream
                .set_read_timeout(Some(Duration::from_millis(1)))
                .unwrap();
            read_answer(stream)
        })
        .map(|answer| (answer.status, answer.code()))
        .collect();
    assert!(
        !told.is_empty() && told.iter().all(|answer| *answer == (503, -32005)),
        "{told:?}"
    );
    assert_alive(&node);
}

#[test]
fn slow_uploads_to_the_public_port_hold_a_bounded_amount() {
    let world = World::new();
    let node = world.node(&[]);
    let _slow: Vec<_> = (0..150)
        .map(|_| half_a_body(&node.http, &["host: localhost"], 15 * MIB, 14 * MIB))
        .collect();
    let peak = memory_bytes(&node, "VmHWM");
    assert!(peak < PUBLIC_HELD_BYTES + BASE_BYTES, "{} MiB", peak / MIB);
    assert_alive(&node);
}

#[test]
fn silent_connections_make_room_for_those_that_speak() {
    let world = World::new();
    let node = world.node(&["--rpc.max-connections", "20"]);
    // Some say nothing, some never finish their head.
    let mut silent: Vec<_> = (0..60)
        .map(|n| {
            let mut stream = connect(&node.http);
            if n % 2 == 0 {
                stream.write_all(b"POST / HTTP/1.1\r\nhost: loc").unwrap();
            }
            stream
        })
        .collect();
    assert_alive(&node);
    let mut gone = 0;
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        // Closed, or reset because what it had sent was never read; a time-out says it is there.
        gone += usize::from(match stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(problem) => problem.kind() == ErrorKind::ConnectionReset,
        });
    }
    assert!((40..=41).contains(&gone), "{gone} of 60 had to go");
}

#[test]
fn busy_connections_keep_their_slots_and_others_are_told() {
    let world = World::new();
    let node = world.node(&["--rpc.max-connections", "5"]);
    let busy = || half_a_body(&node.http, &["host: localhost"], 1000, 10);
    let mut held: Vec<_> = (0..5).map(|_| busy()).collect();
    let mut pause = Duration::from_millis(50);
    wait_until("five connections that are read from", || {
        // One that was not read from yet counts as silent, and loses its slot to the next.
        thread::sleep(pause);
        pause *= 2;
        let answer = exchange(&node.http, &json(PING));
        assert!([200, 429].contains(&answer.status), "{answer:?}");
        held.push(busy());
        answer.status == 429
    });
}

#[test]
fn clients_that_do_not_read_hold_a_bounded_amount() {
    let world = World::new();
    let node = world.node(&[]);
    let block = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x0",true]}"#;
    // About two megabytes of answer to each.
    let batch = json(&format!("[{}]", vec![block; 1000].join(",")));
    let deaf: Vec<_> = (0..400)
        .map(|_| {
            let mut stream = connect(&node.http);
            stream.write_all(&batch).unwrap();
            stream
        })
        .collect();
    assert_alive(&node);
    let peak = memory_bytes(&node, "VmHWM");
    assert!(peak < PUBLIC_HELD_BYTES + BASE_BYTES, "{} MiB", peak / MIB);
    drop(deaf);
    assert_alive(&node);
}

#[test]
fn nothing_secret_is_logged_however_loud_the_log_is() {
    let world = World::new();
    let node = world.node(&["--log.stdout.filter", "trace"]);
    let good = node.token();
    let json = "content-type: application/json";
    for headers in [
        vec!["host: a", json, &good],
        vec!["host: a", json, &good, "authorization: Bearer x"],
        vec!["host: a", &good],
    ] {
        exchange(&node.auth, &post(&headers, PING.as_bytes()));
    }
    let upgrade = format!(
        "GET / HTTP/1.1\r\nhost: a\r\n{good}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    assert_eq!(exchange(&node.auth, upgrade.as_bytes()).status, 101);
    let secret = std::fs::read_to_string(world.datadir().join("jwt.hex")).unwrap();
    let mut log = node.log.join("\n");
    log += &node.terminate().1;
    assert!(log.contains("TRACE"), "the log was not loud");
    let token = good.rsplit(' ').next().unwrap();
    let signature = token.rsplit('.').next().unwrap();
    for hidden in [token, signature, secret.trim().trim_start_matches("0x")] {
        assert!(!log.contains(hidden), "{hidden} is in the log");
    }
}
