//! Bodies on their way in and out: counted, bounded in size and time, refused when they do not fit.

use super::budget::{Budget, Charge, Refusal};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use jsonrpsee::{core::BoxError, server::HttpBody};
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

/// Answers up to this size are handed over whole and not counted.
const SMALL_ANSWER_BYTES: u64 = 64 << 10;

/// What a body may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    /// Most bytes.
    pub(super) bytes: u64,
    /// Most calls of a batch.
    pub(super) calls: usize,
    /// How long it may take to arrive.
    pub(super) time: Duration,
}

/// A short body as it came, for a second look when it turns out to be no request.
pub(super) type ShortBody = Arc<OnceLock<Bytes>>;

/// Longest body that is kept for a second look.
const SHORT_BODY_BYTES: usize = 16 << 10;

/// Up to here a body is handed on as it comes. A payload of 40 million gas is half as long.
const AT_ONCE_BYTES: u64 = 1 << 20;

/// A request's body. Once refused it never ends: whoever waits for the refusal answers.
///
/// What is beyond the first [`AT_ONCE_BYTES`] is handed on once all of it has come: the reader gathers
/// a body in a buffer that doubles, and the buffers of many slow bodies take up to twice the bytes that
/// are counted.
pub(super) struct RequestBody {
    incoming: Incoming,
    charge: Arc<Charge>,
    limits: BodyLimits,
    read_bytes: u64,
    batch: BatchScan,
    short: ShortBody,
    /// What came and is not handed on yet.
    gathered: Gathered,
    /// Whether all of it came.
    complete: bool,
    /// Runs from the moment the body has to be waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(super) fn new(
        incoming: Incoming,
        charge: Arc<Charge>,
        limits: BodyLimits,
        short: ShortBody,
    ) -> Self {
        Self {
            incoming,
            charge,
            limits,
            read_bytes: 0,
            batch: BatchScan::default(),
            short,
            gathered: Gathered::default(),
            complete: false,
            deadline: None,
        }
    }

    /// Counts the bytes of a frame, and keeps those that are not handed on at once; an error when they
    /// are too many.
    fn take(&mut self, data: &Bytes) -> Result<(), Refusal> {
        if data.len() <= SHORT_BODY_BYTES && self.incoming.is_end_stream() && self.read_bytes == 0 {
            // It can be set only once, by the first frame.
            let _ = self.short.set(data.clone());
        }
        self.read_bytes += data.len() as u64;
        if self.read_bytes > self.limits.bytes {
            return Err(Refusal::TooLarge);
        }
        if self.batch.read(data) > self.limits.calls {
            return Err(Refusal::BatchTooLong);
        }
        self.charge.add(data.len() as u64);
        if !self.is_at_once() {
            self.gathered.add(data);
        }
        Ok(())
    }

    fn is_at_once(&self) -> bool {
        self.read_bytes <= AT_ONCE_BYTES
    }

    fn wait(&mut self, context: &mut Context<'_>) {
        let time = self.limits.time;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(time)));
        if deadline.as_mut().poll(context).is_ready() {
            self.charge.refuse(Refusal::TooSlow);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while !self.complete {
            let Poll::Ready(next) = Pin::new(&mut self.incoming).poll_frame(context) else {
                self.wait(context);
                return Poll::Pending;
            };
            let taken = match next {
                Some(Ok(frame)) => match frame.data_ref().map_or(Ok(()), |data| self.take(data)) {
                    Ok(()) if self.is_at_once() => return Poll::Ready(Some(Ok(frame))),
                    taken => taken,
                },
                Some(Err(_)) => Err(Refusal::Malformed),
                None => {
                    self.charge.settle();
                    self.complete = true;
                    Ok(())
                }
            };
            if let Err(reason) = taken {
                self.charge.refuse(reason);
                return Poll::Pending;
            }
        }
        let piece = self.gathered.pieces.pop_front();
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece.into()))))
    }
}

/// Bytes in the order they came, in pieces that are filled before the next is begun.
///
/// They are copied: a frame of one byte keeps alive the whole buffer the socket was read into.
#[derive(Debug, Default)]
struct Gathered {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Gathered {
    /// Sizes of the first piece and of the longest.
    const PIECE_BYTES: [usize; 2] = [4 << 10, 1 << 20];

    fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = match self.pieces.back_mut() {
                Some(last) if last.len() < last.capacity() => last,
                _ => {
                    let [least, most] = Self::PIECE_BYTES;
                    let size = self.bytes.max(data.len()).clamp(least, most);
                    self.pieces.push_back_mut(Vec::with_capacity(size))
                }
            };
            let length = data.len().min(room.capacity() - room.len());
            let (now, later) = data.split_at(length);
            room.extend_from_slice(now);
            self.bytes += length;
            data = later;
        }
    }
}

/// Counts the calls of a batch before anything is made of it: a list of ten million zeros would
/// take a hundred times its length once parsed.
#[derive(Debug, Default)]
struct BatchScan {
    state: ScanState,
    depth: u64,
    calls: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ScanState {
    #[default]
    Start,
    Single,
    Batch,
    Text,
    Escape,
}

impl BatchScan {
    /// Reads on and tells how many calls began so far; a single call counts as none.
    fn read(&mut self, data: &[u8]) -> usize {
        if self.state == ScanState::Start {
            self.state = match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => ScanState::Start,
                Some(b'[') => ScanState::Batch,
                Some(_) => ScanState::Single,
            };
        }
        if matches!(
            self.state,
            ScanState::Batch | ScanState::Text | ScanState::Escape
        ) {
            data.iter().for_each(|byte| self.step(*byte));
        }
        self.calls
    }

    fn step(&mut self, byte: u8) {
        match (self.state, byte) {
            (ScanState::Escape, _) => self.state = ScanState::Text,
            (ScanState::Text, b'\\') => self.state = ScanState::Escape,
            (ScanState::Text, b'"') => self.state = ScanState::Batch,
            (ScanState::Text, _) => {}
            (_, b'"') => self.state = ScanState::Text,
            (_, b'[' | b'{') => {
                self.calls += usize::from(self.depth == 0);
                self.depth += 1;
            }
            (_, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            (_, b',') if self.depth == 1 => self.calls += 1,
            _ => {}
        }
    }
}

/// An answer's body: handed over in pieces, so that it stays counted until the client took it.
pub(super) struct AnswerBody {
    body: HttpBody,
    piece: Bytes,
    held: Option<(Charge, oneshot::Receiver<Refusal>)>,
}

impl AnswerBody {
    pub(super) fn new(body: HttpBody, budget: &Arc<Budget>) -> Self {
        let bytes = body.size_hint().lower();
        let held = (bytes > SMALL_ANSWER_BYTES).then(|| {
            let (charge, refused) = budget.open();
            charge.add(bytes);
            (charge, refused)
        });
        Self {
            body,
            piece: Bytes::new(),
            held,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some((_, refused)) = &mut self.held
            && let Poll::Ready(Ok(_)) = Pin::new(refused).poll(context)
        {
            let reason = "the answer was not taken while others needed its memory";
            return Poll::Ready(Some(Err(reason.into())));
        }
        if self.piece.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if self.held.is_some() => self.piece = data,
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.piece.len().min(SMALL_ANSWER_BYTES as usize);
        Poll::Ready(Some(Ok(Frame::data(self.piece.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let piece = self.piece.len() as u64;
        let rest = self.body.size_hint();
        match rest.exact() {
            Some(rest) => SizeHint::with_exact(rest + piece),
            None => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_gathered_in_order_in_full_pieces() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
        for length in [1, 7, 4096, 100_000, 3_000_000] {
            let mut gathered = Gathered::default();
            bytes.chunks(length).for_each(|piece| gathered.add(piece));
            let room: usize = gathered.pieces.iter().map(Vec::capacity).sum();
            assert!(room <= bytes.len() + (1 << 20), "{room} bytes of room");
            assert!(
                gathered.pieces.len() <= 16,
                "{} pieces",
                gathered.pieces.len()
            );
            assert!(
                gathered
                    .pieces
                    .into_iter()
                    .flatten()
                    .eq(bytes.iter().copied())
            );
        }
    }

    #[test]
    fn calls_of_a_batch_are_counted_in_any_pieces() {
        for (json, expected) in [
            ("{\"a\":[1,2,3]}", 0),
            ("  [ ]", 1),
            ("[{\"a\":[1,2,3]},{\"b\":\"],[,\\\",\"}]", 2),
            ("\n[1,1,1,\"\\\\\",1]", 5),
            ("[[[[,,,]]]]", 1),
        ] {
            for length in 1..=json.len() {
                let mut scan = BatchScan::default();
                for piece in json.as_bytes().chunks(length) {
                    scan.read(piece);
                }
                assert_eq!(scan.calls, expected, "{json} in pieces of {length}");
            }
        }
    }
}
