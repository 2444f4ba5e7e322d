//! One client's connection: its socket, and what is going on upon it.
//!
//! Invariant: a client that does not take its answers, or has enough calls running on a WebSocket,
//! is not read from; TCP then holds back what it sends.

use super::budget::{Budget, Charge, Refusal};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Notify, oneshot},
    time::{Sleep, sleep},
};

/// How long a client may leave its answers untaken.
const WRITE_STALL_LIMIT: Duration = Duration::from_secs(60);

/// Most calls that run at a time on one WebSocket connection.
const MAX_CALLS_PER_WEBSOCKET: usize = 64;

/// Connections of one server, oldest first.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    open: Mutex<Vec<Arc<Connection>>>,
}

/// A connection as everybody on it sees it.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Requests being answered; a WebSocket counts as one for ever.
    busy: AtomicUsize,
    /// Whether it sent a request at all.
    asked: AtomicBool,
    /// Whether a request of it was let in.
    admitted: AtomicBool,
    kicked: Notify,
    websocket: Mutex<Option<WebSocket>>,
}

/// What is going on upon a connection that became a WebSocket.
#[derive(Debug)]
struct WebSocket {
    budget: Arc<Budget>,
    calls: usize,
    /// Bytes since the last message that became a call.
    message: Charge,
    refused: oneshot::Receiver<Refusal>,
    /// Bytes of answers that the client has not taken.
    answers: Charge,
    /// `None` once the client has to go.
    answers_refused: Option<oneshot::Receiver<Refusal>>,
    /// The reader that waits for calls to end.
    reader: Option<Waker>,
}

/// Marks a request as being answered until it is dropped.
pub(super) struct Busy(Arc<Connection>);

/// A running call of a WebSocket; holds the bytes of its message.
pub(super) struct RunningCall {
    connection: Arc<Connection>,
    _message: Charge,
}

impl Slots {
    pub(super) fn new(max: usize) -> Arc<Self> {
        let open = Mutex::default();
        Arc::new(Self { max, open })
    }

    /// Makes room for a connection: when all are taken, the oldest one that is doing nothing goes,
    /// first of all one that never had a request let in. `None` when all are busy.
    fn take(&self) -> Option<Arc<Connection>> {
        let mut open = lock(&self.open);
        if open.len() >= self.max {
            let idle = |c: &Arc<Connection>| c.busy.load(Ordering::Relaxed) == 0;
            let stranger = |c: &Arc<Connection>| idle(c) && !c.admitted.load(Ordering::Relaxed);
            let at = open
                .iter()
                .position(stranger)
                .or_else(|| open.iter().position(idle))?;
            open.remove(at).kicked.notify_one();
        }
        let connection = Arc::new(Connection::default());
        open.push(connection.clone());
        Some(connection)
    }
}

impl Connection {
    /// Waits until this connection has to make room for another.
    pub(super) async fn kicked(&self) {
        self.kicked.notified().await;
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.asked.store(true, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    pub(super) fn had_request(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    /// From now on this connection carries WebSocket messages, charged to `budget`.
    pub(super) fn upgrade(&self, budget: &Arc<Budget>) {
        let (message, refused) = budget.open();
        let (answers, answers_refused) = budget.open();
        self.busy.fetch_add(1, Ordering::Relaxed);
        *lock(&self.websocket) = Some(WebSocket {
            budget: budget.clone(),
            calls: 0,
            message,
            refused,
            answers,
            answers_refused: Some(answers_refused),
            reader: None,
        });
    }

    /// Notes a call; `None` on plain HTTP, which has one request at a time.
    pub(super) fn call(self: &Arc<Self>) -> Option<RunningCall> {
        let mut websocket = lock(&self.websocket);
        let websocket = websocket.as_mut()?;
        websocket.calls += 1;
        let (message, refused) = websocket.budget.open();
        websocket.refused = refused;
        let message = std::mem::replace(&mut websocket.message, message);
        message.settle();
        Some(RunningCall {
            connection: self.clone(),
            _message: message,
        })
    }

    /// Whether the next bytes may be read; if not, the reader is woken later.
    fn may_read(&self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut websocket = lock(&self.websocket);
        let Some(websocket) = websocket.as_mut() else {
            return Ok(true);
        };
        if let Poll::Ready(Ok(_)) = Pin::new(&mut websocket.refused).poll(context) {
            let reason = "the server holds too many bytes of other requests";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        }
        websocket.check_answers(context)?;
        if websocket.calls < MAX_CALLS_PER_WEBSOCKET {
            return Ok(true);
        }
        websocket.reader = Some(context.waker().clone());
        Ok(false)
    }

    /// Whether the next bytes may be written. Who waits for the client to take some is woken when it
    /// has to go.
    fn may_write(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut websocket = lock(&self.websocket);
        let websocket = websocket.as_mut();
        websocket.map_or(Ok(()), |websocket| websocket.check_answers(context))
    }

    fn note_written(&self, bytes: usize) {
        if let Some(websocket) = lock(&self.websocket).as_ref() {
            websocket.answers.give_back(bytes as u64);
        }
    }

    fn is_websocket(&self) -> bool {
        lock(&self.websocket).is_some()
    }

    fn note_read(&self, bytes: usize) {
        if let Some(websocket) = lock(&self.websocket).as_ref() {
            websocket.message.add(bytes as u64);
        }
    }
}

impl WebSocket {
    fn check_answers(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let refused = self.answers_refused.as_mut();
        let may_stay = refused.is_some_and(|refused| Pin::new(refused).poll(context).is_pending());
        if may_stay {
            return Ok(());
        }
        self.answers_refused = None;
        let reason = "the answers were not taken while others needed their memory";
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
    }
}

impl RunningCall {
    /// Ends the call with an answer of so many bytes, which count until the client has taken them.
    pub(super) fn answered(self, bytes: usize) {
        if let Some(websocket) = lock(&self.connection.websocket).as_ref() {
            websocket.answers.add(bytes as u64);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let mut websocket = lock(&self.connection.websocket);
        if let Some(websocket) = websocket.as_mut() {
            websocket.calls -= 1;
            if let Some(reader) = websocket.reader.take() {
                reader.wake();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is changed under these locks can be left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client's socket. Its slot is free once it is dropped, also after it became a WebSocket.
pub(super) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    slots: Arc<Slots>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// The reader that waits for the client to take its answers.
    reader: Option<Waker>,
}

impl Socket {
    /// Gives the client a slot; gives the stream back when there is none.
    pub(super) fn new(stream: TcpStream, slots: &Arc<Slots>) -> Result<Self, TcpStream> {
        let Some(connection) = slots.take() else {
            return Err(stream);
        };
        Ok(Self {
            stream,
            connection,
            slots: slots.clone(),
            stalled: None,
            reader: None,
        })
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Counts what a write took, and watches how it ended.
    fn watch_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.connection.note_written(*bytes);
        }
        self.watch(written, context)
    }

    /// Watches how a write or a flush ended.
    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let stalled = self
                .stalled
                .get_or_insert_with(|| Box::pin(sleep(WRITE_STALL_LIMIT)));
            if stalled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        } else if self.stalled.take().is_some()
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        written
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        lock(&self.slots.open).retain(|open| !Arc::ptr_eq(open, &self.connection));
        // Its calls may go on for a while, but nothing is read any more.
        *lock(&self.connection.websocket) = None;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.connection.may_read(context)? {
            return Poll::Pending;
        }
        if self.stalled.is_some() && self.connection.is_websocket() {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.connection.note_read(buffer.filled().len() - before);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection.may_write(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.watch_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.may_write(context)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.watch_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(connection: &Connection) -> bool {
        connection
            .may_read(&mut Context::from_waker(Waker::noop()))
            .is_ok()
    }

    #[test]
    fn answers_that_are_not_taken_count_until_the_connection_goes() {
        let budget = Budget::new(100);
        let connection = Arc::new(Connection::default());
        connection.upgrade(&budget);
        let answer = |bytes| connection.call().unwrap().answered(bytes);
        for _ in 0..10 {
            answer(60);
            connection.note_written(60);
        }
        answer(60);
        assert!(reads(&connection));
        answer(60);
        let mut context = Context::from_waker(Waker::noop());
        assert!(!reads(&connection) && connection.may_write(&mut context).is_err());
    }

    #[test]
    fn answers_of_one_client_that_others_need_the_memory_of_are_refused() {
        let budget = Budget::new(100);
        let [greedy, modest] = [(); 2].map(|()| Arc::new(Connection::default()));
        greedy.upgrade(&budget);
        modest.upgrade(&budget);
        greedy.call().unwrap().answered(95);
        modest.call().unwrap().answered(10);
        assert_eq!((reads(&greedy), reads(&modest)), (false, true));
    }
}
