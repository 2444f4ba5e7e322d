//! The client against a server of a few lines: what it sends, and how each failure is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use engine_api::{ClientError, EngineClient, JwtSecret, client, jwt::unix_time_s};
use serde_json::json;
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};
use testkit::{PATIENCE, Reply, Server};

/// A server that gives these replies in order, over as many connections as it takes.
fn serve(replies: Vec<Reply>) -> Server {
    let replies = Mutex::new(replies.into_iter());
    Server::start(move |_| replies.lock().unwrap().next().unwrap())
}

/// The error of one call to a server that replies so, with the address as `URL`.
async fn call_error(reply: Reply, timeout: Duration) -> String {
    let server = serve(vec![reply]);
    let mut client = EngineClient::new(&server.url(), None)
        .unwrap()
        .with_timeout(timeout);
    let error = client.call::<u64>("eth_test", ()).await.unwrap_err();
    error.to_string().replace(&server.url(), "URL")
}

#[tokio::test]
async fn requests_carry_a_valid_token_and_share_a_connection() {
    let server = serve(vec![Reply::result(json!(7)), Reply::result(json!(null))]);
    let url = server.url();
    let secret = JwtSecret::from_bytes([5; 32]);
    let mut client = EngineClient::new(&url, Some(secret.clone())).unwrap();
    assert_eq!(client.call::<u64>("engine_a", (1, "x")).await.unwrap(), 7);
    assert_eq!(
        client.call::<Option<u64>>("engine_b", ()).await.unwrap(),
        None
    );

    let request = server.request();
    let head = &request.head;
    assert_eq!(
        request.json(),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "engine_a", "params": [1, "x"] })
    );
    assert!(
        head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    assert!(
        head.contains(&format!("host: {}\r\n", &url["http://".len()..])),
        "{head}"
    );
    let token = head
        .split_once("authorization: ")
        .unwrap()
        .1
        .split("\r\n")
        .next();
    assert_eq!(secret.validate(token, unix_time_s()), Ok(()));
    assert_eq!(server.request().json()["id"], 2);
}

#[tokio::test]
async fn a_closed_idle_connection_is_opened_again() {
    let replies = (0..2).map(|_| Reply::result(json!(1)).and_close());
    let server = serve(replies.collect());
    let mut client = EngineClient::new(&server.url(), None).unwrap();
    assert_eq!(client.call::<u64>("a", ()).await.unwrap(), 1);
    server.wait_until_closed(1);
    // The end has arrived: now the connection's task gets to see it.
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(client.call::<u64>("b", ()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_late_answer_is_not_taken_for_the_next_one() {
    let late = Duration::from_millis(1500);
    let first = Reply::result(json!(1)).slowly(late, Duration::ZERO);
    let server = serve(vec![first, Reply::result(json!(2))]);
    let client = EngineClient::new(&server.url(), None).unwrap();
    let mut client = client.with_timeout(Duration::from_millis(500));
    assert!(matches!(
        client.call::<u64>("a", ()).await,
        Err(ClientError::Timeout { .. })
    ));
    let mut client = client.with_timeout(PATIENCE);
    assert_eq!(client.call::<u64>("b", ()).await.unwrap(), 2);
}

/// The clock covers all of an exchange, also when a request is larger than what the system takes at once:
/// from before the first byte is read by the server to after the last one is sent.
#[tokio::test]
async fn the_time_of_an_exchange_covers_reading_thinking_and_answering() {
    const PART: Duration = Duration::from_millis(40);
    for bytes in [100, 30_000_000] {
        let server = Server::slow_to_read(PART, |_| Reply::ok("{}").slowly(PART, PART));
        let mut client = EngineClient::new(&server.url(), None).unwrap();
        client.connect().await.unwrap();
        let body = vec![b' '; bytes].into();
        let began = Instant::now();
        let timed = client.send_prepared(&body).await.unwrap();
        let whole = began.elapsed();
        let found = Duration::from_nanos(timed.elapsed_ns);
        assert!(found >= 3 * PART, "{bytes} bytes: {found:?}");
        assert!(found <= whole, "{bytes} bytes: {found:?} of {whole:?}");
    }
}

#[tokio::test]
async fn every_failure_is_told_apart() {
    let rpc_error = json!({ "error": { "code": -38002, "message": "bad state", "data": 1 } });
    let cases = [
        (
            Reply::nothing(),
            "URL closed the connection before it answered",
        ),
        (
            Reply::ok("x".repeat(100)).broken(),
            "URL closed the connection before it answered",
        ),
        (
            Reply::new("401 Unauthorized", "stale token"),
            "URL answered HTTP 401: stale token",
        ),
        (
            Reply::ok(rpc_error.to_string()),
            "the engine answered with error -38002: bad state",
        ),
        (
            Reply::ok("{}"),
            "the answer is not the expected JSON-RPC response: neither a result nor an error; it \
             begins \"{}\"",
        ),
        (
            Reply::result(json!("text")),
            "the answer is not the expected JSON-RPC response: invalid type",
        ),
    ];
    for (reply, expected) in cases {
        let error = call_error(reply, PATIENCE).await;
        assert!(
            error.starts_with(expected),
            "{error:?} should begin {expected:?}"
        );
    }

    let error = call_error(Reply::silence(), Duration::from_secs(1)).await;
    assert_eq!(error, "URL did not answer within 1s");
    let url = format!("http://127.0.0.1:{}", testkit::free_port());
    let refused = EngineClient::new(&url, None)
        .unwrap()
        .connect()
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("connection refused by {url}: is the engine running?")
    );
    for url in ["https://localhost:1", "localhost", "http://", "ws://a:1"] {
        let error = EngineClient::new(url, None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the address {url:?} is not usable: ")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn large_answers_arrive_whole() {
    let text = "z".repeat(3_000_000);
    let server = serve(vec![Reply::result(json!(text))]);
    let mut client = EngineClient::new(&server.url(), None).unwrap();
    let body = client::request_body(9, "m", ()).unwrap();
    let timed = client.send_prepared(&body).await.unwrap();
    assert_eq!(client::parse::<String>(&timed.body).unwrap(), text);
}
