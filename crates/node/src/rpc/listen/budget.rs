//! The bytes of requests and answers that one server holds at a time.
//!
//! Whoever sends or takes bytes opens a [`Charge`] and adds to it as they come. Invariant: the sum
//! never stays above the limit. Whenever it would, the holder with the most bytes times seconds is
//! refused, so that slow clients with large bodies go first and a short request is served even
//! while others hold all there is.

use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::sync::oneshot;

/// Why a request is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its body is longer than the server takes.
    TooLarge,
    /// Its body breaks the rules of HTTP, or the connection ended within it.
    Malformed,
    /// Its body did not arrive in time.
    TooSlow,
    /// It is a batch of more calls than the server takes.
    BatchTooLong,
    /// The server holds too many bytes of other requests.
    Overloaded,
}

/// The bytes one server may hold.
#[derive(Debug)]
pub(super) struct Budget {
    limit_bytes: u64,
    holders: Mutex<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    total_bytes: u64,
    next_id: u64,
    by_id: HashMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    bytes: u64,
    /// When the first byte came.
    since: Instant,
    /// Where to say that it is refused; `None` once nothing can be taken from it any more.
    refuse: Option<oneshot::Sender<Refusal>>,
}

/// What one client holds. Dropping it gives the bytes back.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    id: u64,
}

impl Budget {
    pub(super) fn new(limit_bytes: u64) -> Arc<Self> {
        let holders = Mutex::default();
        Arc::new(Self {
            limit_bytes,
            holders,
        })
    }

    /// A charge of nothing yet, and where its refusal will be told.
    pub(super) fn open(self: &Arc<Self>) -> (Charge, oneshot::Receiver<Refusal>) {
        let (refuse, refused) = oneshot::channel();
        let mut holders = self.lock();
        let id = holders.next_id;
        holders.next_id += 1;
        let holder = Holder {
            bytes: 0,
            since: Instant::now(),
            refuse: Some(refuse),
        };
        holders.by_id.insert(id, holder);
        drop(holders);
        let budget = self.clone();
        (Charge { budget, id }, refused)
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        // Every change below is complete before anything can panic.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Charge {
    /// Counts `bytes` more, and refuses the worst holder, perhaps this one, while there are too many.
    pub(super) fn add(&self, bytes: u64) {
        self.add_at(bytes, Instant::now());
    }

    fn add_at(&self, bytes: u64, now: Instant) {
        let mut holders = self.budget.lock();
        holders.add(self.id, bytes, now);
        while holders.total_bytes > self.budget.limit_bytes {
            // Without anyone to refuse, what is held is being answered, and ends by itself.
            let Some(worst) = holders.worst(now) else {
                return;
            };
            holders.refuse(worst, Refusal::Overloaded);
        }
    }

    /// Gives bytes back before the rest, or nothing where less is held.
    pub(super) fn give_back(&self, bytes: u64) {
        let mut holders = self.budget.lock();
        if let Some(holder) = holders.by_id.get_mut(&self.id) {
            let bytes = bytes.min(holder.bytes);
            holder.bytes -= bytes;
            holders.total_bytes -= bytes;
        }
    }

    /// Refuses the client that holds this.
    pub(super) fn refuse(&self, reason: Refusal) {
        self.budget.lock().refuse(self.id, reason);
    }

    /// Keeps what is held from being refused: the request is complete and will be answered.
    pub(super) fn settle(&self) {
        if let Some(holder) = self.budget.lock().by_id.get_mut(&self.id) {
            holder.refuse = None;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut holders = self.budget.lock();
        let holder = holders.by_id.remove(&self.id);
        holders.total_bytes -= holder.map_or(0, |holder| holder.bytes);
    }
}

impl Holders {
    fn add(&mut self, id: u64, bytes: u64, now: Instant) {
        let Some(holder) = self.by_id.get_mut(&id) else {
            return;
        };
        if holder.bytes == 0 {
            holder.since = now;
        }
        holder.bytes += bytes;
        self.total_bytes += bytes;
    }

    fn worst(&self, now: Instant) -> Option<u64> {
        let cost = |holder: &Holder| {
            let held_us = now.saturating_duration_since(holder.since).as_micros() + 1;
            u128::from(holder.bytes).saturating_mul(held_us)
        };
        let refusable = self
            .by_id
            .iter()
            .filter(|(_, h)| h.refuse.is_some() && h.bytes > 0);
        refusable
            .max_by_key(|(_, holder)| cost(holder))
            .map(|(id, _)| *id)
    }

    /// Tells the holder, whose memory is as good as free from then on.
    fn refuse(&mut self, id: u64, reason: Refusal) {
        let Some(holder) = self.by_id.get_mut(&id) else {
            return;
        };
        if let Some(refuse) = holder.refuse.take() {
            self.total_bytes -= std::mem::take(&mut holder.bytes);
            // A receiver that is gone gives its bytes back anyway.
            let _ = refuse.send(reason);
        }
    }
}

/// Waits for a refusal, for ever when none can come any more.
pub(super) async fn refusal(refused: oneshot::Receiver<Refusal>) -> Refusal {
    match refused.await {
        Ok(reason) => reason,
        Err(_) => never().await,
    }
}

fn never() -> impl Future<Output = Refusal> {
    pending()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(refused: &mut oneshot::Receiver<Refusal>) -> Option<Refusal> {
        refused.try_recv().ok()
    }

    #[test]
    fn the_holder_of_most_bytes_for_longest_goes_first() {
        let budget = Budget::new(100);
        let start = Instant::now();
        let later = start + Duration::from_secs(10);
        let (slow, mut slow_refused) = budget.open();
        slow.add_at(50, start);
        let (quick, mut quick_refused) = budget.open();
        quick.add_at(50, later);
        assert_eq!(told(&mut slow_refused), None, "100 of 100 bytes are held");
        quick.add_at(20, later);
        assert_eq!(told(&mut slow_refused), Some(Refusal::Overloaded));
        assert_eq!(told(&mut quick_refused), None);
        assert_eq!(budget.lock().total_bytes, 70);
        drop((slow, quick));
        assert_eq!(budget.lock().total_bytes, 0);
    }

    #[test]
    fn a_short_request_is_served_while_everything_is_held() {
        let budget = Budget::new(100);
        let start = Instant::now();
        let mut held: Vec<_> = (0..10).map(|_| budget.open()).collect();
        held.iter().for_each(|(charge, _)| charge.add_at(10, start));
        let (short, mut refused) = budget.open();
        short.add_at(1, start + Duration::from_secs(1));
        assert_eq!(told(&mut refused), None);
        let refused = held
            .iter_mut()
            .filter_map(|(_, refused)| told(refused))
            .count();
        assert_eq!(refused, 1);
    }

    #[test]
    fn what_is_settled_stays_and_the_newcomer_is_refused() {
        let budget = Budget::new(100);
        let start = Instant::now();
        let (complete, mut complete_refused) = budget.open();
        complete.add_at(90, start);
        complete.settle();
        let (late, mut late_refused) = budget.open();
        late.add_at(11, start + Duration::from_secs(5));
        assert_eq!(told(&mut complete_refused), None);
        assert_eq!(told(&mut late_refused), Some(Refusal::Overloaded));
    }
}
