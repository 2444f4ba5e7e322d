//! Holding up whoever writes while other threads need the processors.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Where a writer stops between two rows for as long as somebody holds it up.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    holders: AtomicUsize,
    lock: Mutex<()>,
    released: Condvar,
}

impl Pause {
    /// Waits until nobody holds the writer up.
    pub(crate) fn pass(&self) {
        if self.holders.load(Ordering::Relaxed) > 0 {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut guard = self.lock();
        while self.holders.load(Ordering::Relaxed) > 0 {
            let woken = self.released.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While this lives, the writer stops before its next row.
#[derive(Debug)]
pub struct HeldWriter(Arc<Pause>);

impl HeldWriter {
    pub(crate) fn new(pause: Arc<Pause>) -> Self {
        pause.holders.fetch_add(1, Ordering::Relaxed);
        Self(pause)
    }
}

impl Drop for HeldWriter {
    fn drop(&mut self) {
        // Under the lock, so that a writer about to wait is not missed.
        let _guard = self.0.lock();
        if self.0.holders.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.released.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicBool, thread};

    #[test]
    fn a_writer_waits_for_the_last_of_those_who_hold_it_up() {
        let pause = Arc::<Pause>::default();
        pause.pass();
        let (first, second) = (
            HeldWriter::new(pause.clone()),
            HeldWriter::new(pause.clone()),
        );
        let (is_at_row, has_passed) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                is_at_row.store(true, Ordering::SeqCst);
                pause.pass();
                has_passed.store(true, Ordering::SeqCst);
            });
            while !is_at_row.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            drop(first);
            for _ in 0..1000 {
                thread::yield_now();
            }
            assert!(!has_passed.load(Ordering::SeqCst));
            drop(second);
        });
        assert!(has_passed.load(Ordering::SeqCst));
    }
}
