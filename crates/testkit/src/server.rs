//! A server with a script: what it says to each request, and how long it takes over it.

use crate::{Deadline, http::content_length, wait_until};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    /// What came behind.
    pub body: Vec<u8>,
}

impl Request {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What becomes of a connection behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Goes,
    Closes,
    /// It is closed before half of the answer is sent.
    Breaks,
    /// Nothing is ever said.
    Hangs,
}

/// What a server does with a request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: &'static str,
    body: String,
    before: Duration,
    within: Duration,
    then: Then,
}

impl Reply {
    /// An answer, behind which the connection stays open.
    pub fn new(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            body: body.into(),
            before: Duration::ZERO,
            within: Duration::ZERO,
            then: Then::Goes,
        }
    }

    /// A successful answer.
    pub fn ok(body: impl Into<String>) -> Self {
        Self::new("200 OK", body)
    }

    /// The JSON-RPC answer with this result.
    pub fn result(result: Value) -> Self {
        Self::ok(json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string())
    }

    /// The connection is closed without a word.
    pub fn nothing() -> Self {
        let breaks = Self::ok("");
        Self {
            status: "",
            then: Then::Breaks,
            ..breaks
        }
    }

    /// The connection stays open, and nothing is ever said.
    pub fn silence() -> Self {
        Self {
            then: Then::Hangs,
            ..Self::ok("")
        }
    }

    /// The same, and the connection is closed behind it.
    #[must_use]
    pub fn and_close(self) -> Self {
        let then = Then::Closes;
        Self { then, ..self }
    }

    /// The same, but the connection is closed before half of it is sent.
    #[must_use]
    pub fn broken(self) -> Self {
        let then = Then::Breaks;
        Self { then, ..self }
    }

    /// The same, begun so long after the request was read, with such a pause before its last byte.
    #[must_use]
    pub fn slowly(self, before: Duration, within: Duration) -> Self {
        Self {
            before,
            within,
            ..self
        }
    }

    /// Sends it; whether the connection stays open.
    fn send(&self, stream: &mut TcpStream) -> Option<bool> {
        thread::sleep(self.before);
        let length = self.body.len();
        let text = match self.status {
            "" => String::new(),
            status => format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n"),
        } + &self.body;
        let (begin, end) = text.as_bytes().split_at(text.len().saturating_sub(1));
        match self.then {
            Then::Hangs => drop(stream.read(&mut [0])),
            Then::Breaks => stream.write_all(&begin[..text.len() / 2]).ok()?,
            Then::Goes | Then::Closes => {
                stream.write_all(begin).ok()?;
                thread::sleep(self.within);
                stream.write_all(end).ok()?;
            }
        }
        Some(self.then == Then::Goes)
    }
}

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// A server on loopback, whose threads end with the test's process.
pub struct Server {
    /// `host:port`.
    pub address: String,
    requests: Mutex<mpsc::Receiver<Request>>,
    closed: Arc<AtomicUsize>,
}

impl Server {
    /// A server on a port of the system's choice.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::on(listener, Duration::ZERO, script)
    }

    /// The same, which leaves a request unread for some time once its first byte has come.
    pub fn slow_to_read(
        pause: Duration,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::on(listener, pause, script)
    }

    /// A server on a listener.
    pub fn on(
        listener: TcpListener,
        pause: Duration,
        script: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let (noted, requests) = mpsc::channel();
        let closed = Arc::<AtomicUsize>::default();
        let (script, count): (Arc<Script>, _) = (Arc::new(script), closed.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, noted, count) = (script.clone(), noted.clone(), count.clone());
                thread::spawn(move || {
                    converse(stream, pause, &*script, &noted);
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            requests: Mutex::new(requests),
            closed,
        }
    }

    /// Its address with the scheme.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request that came.
    pub fn request(&self) -> Request {
        let left = Deadline::of("a request").left();
        let requests = self.requests.lock().unwrap();
        requests.recv_timeout(left).expect("a request in time")
    }

    /// Waits until so many connections are closed.
    pub fn wait_until_closed(&self, count: usize) {
        let what = format!("{count} closed connections");
        wait_until(&what, || self.closed.load(Ordering::SeqCst) >= count);
    }
}

/// Answers requests on one connection until it is closed.
fn converse(
    stream: TcpStream,
    pause: Duration,
    script: &Script,
    noted: &mpsc::Sender<Request>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        if !pause.is_zero() && reader.buffer().is_empty() && writer.peek(&mut [0]).ok()? > 0 {
            thread::sleep(pause);
        }
        let request = read_request(&mut reader)?;
        let reply = script(&request);
        // Nobody has to ask what came.
        let _ = noted.send(request);
        if !reply.send(&mut writer)? {
            return None;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut body = vec![0; content_length(&head).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}
