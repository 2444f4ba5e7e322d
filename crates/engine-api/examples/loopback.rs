//! What the harness itself adds to a measured call: the round trip of a body as large as a 10 M gas
//! payload's to a server on loopback that answers at once, beside the round trip of the same bytes
//! over a bare blocking socket. The bare one is the kernel's and the server's share, which any client pays;
//! what is above it is the harness's.
//!
//!     cargo run --release -p engine-api --example loopback [-- BYTES [CALLS]]

use engine_api::{EngineClient, JwtSecret};
use std::{
    error::Error,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Instant,
};

const ANSWER_BODY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"status":"VALID","latestValidHash":"0x0000000000000000000000000000000000000000000000000000000000000000","validationError":null}}"#;
const WARM_UP_CALLS: usize = 200;
/// The shortest payload that the harness promises to measure with an error below 1 %.
const SHORT_PAYLOAD_NS: f64 = 10e6;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let body_bytes = arguments.next().transpose()?.unwrap_or(150_000);
    let calls = arguments.next().transpose()?.unwrap_or(2_000);

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let url = format!("http://{address}");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client hanging up is how its measurement ends.
            thread::spawn(|| drop(answer_at_once(stream)));
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let through_client = runtime.block_on(measure(&url, body_bytes, calls))?;
    let through_socket = measure_bare(&address, body_bytes, calls)?;
    println!("{calls} calls of {body_bytes} bytes");
    println!("     client us  socket us  harness us  of a 10 ms payload");
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let [client, socket] = [&through_client, &through_socket]
            .map(|sorted| sorted[((calls - 1) as f64 * q) as usize] as f64);
        let added = client - socket;
        println!(
            "{name} {:10.1} {:10.1} {:11.1} {:10.2} %",
            client / 1e3,
            socket / 1e3,
            added / 1e3,
            added / SHORT_PAYLOAD_NS * 100.0
        );
    }
    Ok(())
}

/// Sorted latencies of the same exchange without the client: one write, reads to the last byte.
fn measure_bare(address: &str, bytes: usize, calls: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut request = format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {bytes}\r\n\r\n"
    )
    .into_bytes();
    request.resize(request.len() + bytes, b'0');
    let mut buffer = vec![0; 4096];
    let mut latencies_ns = Vec::with_capacity(calls);
    for call in 0..calls + WARM_UP_CALLS {
        let started = Instant::now();
        stream.write_all(&request)?;
        let mut filled = 0;
        while request_length(&buffer[..filled]) != Some(filled) {
            filled += stream.read(&mut buffer[filled..])?;
        }
        if call >= WARM_UP_CALLS {
            latencies_ns.push(u64::try_from(started.elapsed().as_nanos())?);
        }
    }
    latencies_ns.sort_unstable();
    Ok(latencies_ns)
}

/// Sorted latencies of calls through the harness's client.
async fn measure(url: &str, bytes: usize, calls: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut client = EngineClient::new(url, Some(JwtSecret::from_bytes([1; 32])))?;
    let body = bytes::Bytes::from(vec![b'0'; bytes]);
    let mut latencies_ns = Vec::with_capacity(calls);
    for call in 0..calls + WARM_UP_CALLS {
        let timed = client.send_prepared(&body).await?;
        if call >= WARM_UP_CALLS {
            latencies_ns.push(timed.elapsed_ns);
        }
    }
    latencies_ns.sort_unstable();
    Ok(latencies_ns)
}

/// Reads requests to their last byte and answers each with the same text.
fn answer_at_once(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
        ANSWER_BODY.len(),
        ANSWER_BODY
    );
    let mut buffer = vec![0; 1 << 20];
    loop {
        let (mut filled, mut wanted) = (0, usize::MAX);
        while filled < wanted {
            let read = stream.read(&mut buffer[filled..])?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            if wanted == usize::MAX {
                wanted = request_length(&buffer[..filled]).unwrap_or(usize::MAX);
                if wanted < usize::MAX && wanted > buffer.len() {
                    buffer.resize(wanted, 0);
                }
            }
        }
        stream.write_all(answer.as_bytes())?;
    }
}

/// The length of the request that begins here, once its head is complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head])
        .ok()?
        .to_ascii_lowercase();
    let length = text
        .split_once("content-length: ")?
        .1
        .split("\r\n")
        .next()?;
    Some(head + length.parse::<usize>().ok()?)
}
