//! The client against a server of a few lines: what it sends, and how each failure is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use engine_api::{ClientError, EngineClient, JwtSecret, jwt::unix_time_s};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What the server does with one request.
#[derive(Clone)]
enum Reply {
    /// Answers and keeps the connection.
    Answer(&'static str, String),
    /// Answers and closes the connection.
    AnswerAndClose(String),
    /// Closes without a word.
    Close,
    /// Begins an answer and closes.
    Half,
    /// Says nothing for long.
    Hang,
}

/// Serves `replies` in order, over as many connections as it takes; hands each request out.
async fn serve(
    replies: Vec<Reply>,
) -> (
    String,
    tokio::sync::mpsc::UnboundedReceiver<(String, Value)>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (requests, received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut replies = replies.into_iter();
        let mut connection: Option<TcpStream> = None;
        loop {
            let mut stream = match connection.take() {
                Some(stream) => stream,
                None => listener.accept().await.unwrap().0,
            };
            let Some(request) = read_request(&mut stream).await else {
                continue;
            };
            requests.send(request).ok();
            let Some(reply) = replies.next() else { return };
            if answer(&mut stream, reply).await {
                connection = Some(stream);
            }
        }
    });
    (url, received)
}

/// Whether the connection stays open.
async fn answer(stream: &mut TcpStream, reply: Reply) -> bool {
    let response = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    match reply {
        Reply::Answer(status, body) => {
            stream
                .write_all(response(status, &body).as_bytes())
                .await
                .unwrap();
            true
        }
        Reply::AnswerAndClose(body) => {
            stream
                .write_all(response("200 OK", &body).as_bytes())
                .await
                .unwrap();
            false
        }
        Reply::Close => false,
        Reply::Half => {
            let whole = response("200 OK", &"x".repeat(100));
            stream.write_all(&whole.as_bytes()[..60]).await.unwrap();
            false
        }
        Reply::Hang => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            false
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let head_length = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_length].to_vec()).unwrap();
    let length = head
        .split_once("content-length: ")?
        .1
        .split("\r\n")
        .next()?
        .parse()
        .ok()?;
    let mut body = bytes.split_off(head_length);
    while body.len() < length {
        stream.read_buf(&mut body).await.ok()?;
    }
    Some((head, serde_json::from_slice(&body).unwrap()))
}

fn result(value: Value) -> Reply {
    Reply::Answer(
        "200 OK",
        json!({ "jsonrpc": "2.0", "id": 1, "result": value }).to_string(),
    )
}

/// The error of one call to a server that replies so, with the address as `URL`.
async fn call_error(reply: Reply) -> String {
    let (url, _requests) = serve(vec![reply]).await;
    let mut client = EngineClient::new(&url, None)
        .unwrap()
        .with_timeout(Duration::from_secs(1));
    let error = client.call::<u64>("eth_test", ()).await.unwrap_err();
    error.to_string().replace(&url, "URL")
}

#[tokio::test]
async fn requests_carry_a_valid_token_and_share_a_connection() {
    let (url, mut requests) = serve(vec![result(json!(7)), result(json!(null))]).await;
    let secret = JwtSecret::from_bytes([5; 32]);
    let mut client = EngineClient::new(&url, Some(secret.clone())).unwrap();
    assert_eq!(client.call::<u64>("engine_a", (1, "x")).await.unwrap(), 7);
    assert_eq!(
        client.call::<Option<u64>>("engine_b", ()).await.unwrap(),
        None
    );

    let (head, body) = requests.recv().await.unwrap();
    assert_eq!(
        body,
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
    assert_eq!(requests.recv().await.unwrap().1["id"], 2);
}

#[tokio::test]
async fn a_closed_idle_connection_is_opened_again() {
    let body = json!({ "result": 1 }).to_string();
    let replies = vec![
        Reply::AnswerAndClose(body.clone()),
        Reply::AnswerAndClose(body),
    ];
    let (url, _requests) = serve(replies).await;
    let mut client = EngineClient::new(&url, None).unwrap();
    assert_eq!(client.call::<u64>("a", ()).await.unwrap(), 1);
    // Let the end of the connection arrive.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(client.call::<u64>("b", ()).await.unwrap(), 1);
}

#[tokio::test]
async fn a_late_answer_is_not_taken_for_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for (delay_ms, value) in [(1500, 1), (0, 2)] {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_request(&mut stream).await;
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                answer(&mut stream, result(json!(value))).await;
            });
        }
    });
    let mut client = EngineClient::new(&url, None)
        .unwrap()
        .with_timeout(Duration::from_millis(500));
    assert!(matches!(
        client.call::<u64>("a", ()).await,
        Err(ClientError::Timeout { .. })
    ));
    assert_eq!(client.call::<u64>("b", ()).await.unwrap(), 2);
}

#[tokio::test]
async fn every_failure_is_told_apart() {
    let rpc_error = json!({ "error": { "code": -38002, "message": "bad state", "data": 1 } });
    let cases = [
        (Reply::Close, "URL closed the connection before it answered"),
        (Reply::Half, "URL closed the connection before it answered"),
        (Reply::Hang, "URL did not answer within 1s"),
        (
            Reply::Answer("401 Unauthorized", "stale token".into()),
            "URL answered HTTP 401: stale token",
        ),
        (
            Reply::Answer("200 OK", rpc_error.to_string()),
            "the engine answered with error -38002: bad state",
        ),
        (
            Reply::Answer("200 OK", "{}".into()),
            "the answer is not the expected JSON-RPC response: neither a result nor an error; it \
             begins \"{}\"",
        ),
        (
            result(json!("text")),
            "the answer is not the expected JSON-RPC response: invalid type",
        ),
    ];
    for (reply, expected) in cases {
        let error = call_error(reply).await;
        assert!(
            error.starts_with(expected),
            "{error:?} should begin {expected:?}"
        );
    }

    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
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
    let (url, _requests) = serve(vec![result(json!(text))]).await;
    let mut client = EngineClient::new(&url, None).unwrap();
    let body = engine_api::client::request_body(9, "m", ()).unwrap();
    let timed = client.send_prepared(&body).await.unwrap();
    assert!(timed.elapsed_ns > 0);
    assert_eq!(
        engine_api::client::parse::<String>(&timed.body).unwrap(),
        text
    );
}
