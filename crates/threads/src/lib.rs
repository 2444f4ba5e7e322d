//! Threads that take work from each other, and park at once when there is none.
//!
//! A thread that yields before it sleeps, as those of most pools do, hands its CPU to whatever else
//! can run, and on a machine whose CPUs are taken gets it back a tick of the scheduler later. So a
//! thread without work parks, and whoever has work for it wakes it.
//!
//! There are two kinds of work. A *task* is spawned and nobody here waits for it. A *half* is a part
//! of a task that any thread may do, and that the task waits for ([`Board::join`]); meanwhile its
//! thread does other halves. That cannot deadlock: whatever lies on top of a waiting thread's stack
//! began after what it waits for was cut off, so there is no circle of waiting.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    mem::take,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle, Thread},
};

/// Threads. Dropping this waits for them, and they end when they have done what was spawned.
#[derive(Debug)]
pub struct Threads {
    board: Arc<Board>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts threads named `name-00` and so on.
    ///
    /// # Errors
    ///
    /// When the system refuses another thread.
    pub fn start(name: &str, count: NonZeroUsize) -> io::Result<Self> {
        let mut threads = Self {
            board: Arc::new(Board {
                count,
                state: Mutex::default(),
            }),
            handles: Vec::new(),
        };
        for index in 0..count.get() {
            let board = Arc::clone(&threads.board);
            let named = thread::Builder::new().name(format!("{name}-{index:02}"));
            threads
                .handles
                .push(named.spawn(move || board.work(index))?);
        }
        Ok(threads)
    }

    /// Where they take their work.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut state = lock(&self.board.state);
        state.is_closed = true;
        let idle = take(&mut state.idle);
        drop(state);
        idle.into_values().for_each(|thread| thread.unpark());
        for handle in self.handles.drain(..) {
            // Panics are caught where they happen.
            let _ = handle.join();
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Where threads take their work.
pub struct Board {
    count: NonZeroUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    /// Some of them may be done: their owners take back what nobody has begun.
    halves: VecDeque<Arc<dyn Half>>,
    /// Parked threads that have nothing to do, by their numbers. The lowest is woken first, so that no
    /// more threads take turns, and change CPUs, than there is work for.
    idle: BTreeMap<usize, Thread>,
    /// Parked threads that wait for a half.
    waiting: Vec<Thread>,
    is_closed: bool,
}

impl State {
    fn pop_idle(&mut self) -> Option<Thread> {
        self.idle.pop_first().map(|(_, thread)| thread)
    }

    /// Whom to wake for a half that nobody has taken.
    fn helper(&mut self) -> Option<Thread> {
        if self.halves.is_empty() {
            return None;
        }
        self.pop_idle().or_else(|| self.waiting.pop())
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Board {
    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Has a thread do this; tasks are begun in order. A panic ends the task and nothing else. When
    /// the threads have ended, who asks for it does it.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.state);
        if state.is_closed {
            drop(state);
            return task();
        }
        state.tasks.push_back(Box::new(task));
        let idle = state.pop_idle();
        drop(state);
        wake(idle);
    }

    /// Does the first itself, and the second too unless another thread has begun it by then. Of each
    /// it answers the result, or what it panicked with.
    pub fn join<A, B: Send + 'static>(
        &self,
        first: impl FnOnce() -> A,
        second: impl FnOnce() -> B + Send + 'static,
    ) -> (thread::Result<A>, thread::Result<B>) {
        let half = Arc::new(Offered {
            owner: thread::current(),
            work: Mutex::new(Some(second)),
            result: Mutex::default(),
        });
        let mut state = lock(&self.state);
        state.halves.push_back(half.clone());
        let helper = state.helper();
        drop(state);
        wake(helper);
        let first = caught(first);
        let left_to_do = lock(&half.work).take();
        if let Some(second) = left_to_do {
            return (first, caught(second));
        }
        loop {
            let result = lock(&half.result).take();
            match result {
                Some(second) => return (first, second),
                None => self.help_or_park(),
            }
        }
    }

    /// What the thread of this number does.
    fn work(&self, number: usize) {
        let mut state = lock(&self.state);
        loop {
            // The half that was offered first is the largest.
            if let Some(half) = state.halves.pop_front() {
                drop(state);
                half.help();
            } else if let Some(task) = state.tasks.pop_front() {
                drop(state);
                // Who waits for a task's result sees that none comes.
                let _ = caught(task);
            } else if state.is_closed {
                return;
            } else {
                state.idle.insert(number, thread::current());
                drop(state);
                thread::park();
                state = lock(&self.state);
                state.idle.remove(&number);
                continue;
            }
            state = lock(&self.state);
        }
    }

    /// Does a half, if there is one, or waits for one, or for that which this thread needs.
    fn help_or_park(&self) {
        let mut state = lock(&self.state);
        if let Some(half) = state.halves.pop_front() {
            drop(state);
            half.help();
            return;
        }
        state.waiting.push(thread::current());
        drop(state);
        thread::park();
        let mut state = lock(&self.state);
        let own = thread::current().id();
        let place = state.waiting.iter().position(|other| other.id() == own);
        if let Some(place) = place {
            state.waiting.swap_remove(place);
        } else {
            // It was called for a half, but goes on with its own if that is done by now.
            let helper = state.helper();
            drop(state);
            wake(helper);
        }
    }
}

/// Wakes a thread; with no lock held, since it may take the place of this one at once.
fn wake(thread: Option<Thread>) {
    if let Some(thread) = thread {
        thread.unpark();
    }
}

/// Work that any thread may do.
trait Half: Send + Sync {
    /// Does it, if nobody has begun it.
    fn help(&self);
}

/// A half, and whose it is.
struct Offered<F, T> {
    owner: Thread,
    work: Mutex<Option<F>>,
    result: Mutex<Option<thread::Result<T>>>,
}

impl<T: Send, F: FnOnce() -> T + Send> Half for Offered<F, T> {
    fn help(&self) {
        let work = lock(&self.work).take();
        if let Some(work) = work {
            let result = caught(work);
            *lock(&self.result) = Some(result);
            self.owner.unpark();
        }
    }
}

fn caught<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
}

/// No work is done with a lock held, so nobody panics with one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        any::Any,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };

    /// So long that only what never comes is missed.
    const LONG: Duration = Duration::from_secs(60);

    fn threads(count: usize) -> Threads {
        Threads::start("test", NonZeroUsize::new(count).unwrap()).unwrap()
    }

    /// What `work` makes of the board on one of the threads.
    fn on<T: Send + 'static>(
        threads: &Threads,
        work: impl FnOnce(&Arc<Board>) -> T + Send + 'static,
    ) -> T {
        let (sender, result) = mpsc::channel();
        let board = Arc::clone(threads.board());
        let task = move || sender.send(work(&board)).unwrap();
        threads.board().spawn(task);
        result.recv_timeout(LONG).unwrap()
    }

    /// Adds up numbers by halves, all the way down.
    fn sum(board: &Arc<Board>, numbers: std::ops::Range<u64>) -> u64 {
        let length = numbers.end - numbers.start;
        if length == 1 {
            return numbers.start;
        }
        let middle = numbers.start + length / 3 + 1;
        let (left, right) = (numbers.start..middle.min(numbers.end - 1), numbers.end);
        let rest = left.end..right;
        let other = Arc::clone(board);
        let (left, right) = board.join(|| sum(board, left), move || sum(&other, rest));
        left.unwrap() + right.unwrap()
    }

    #[test]
    fn halves_of_halves_add_up_with_any_number_of_threads_and_several_tasks() {
        for count in [1, 2, 3, 7] {
            let threads = threads(count);
            let (sender, results) = mpsc::channel();
            for end in 2..80 {
                let (board, sender) = (Arc::clone(threads.board()), sender.clone());
                let task = move || sender.send((end, sum(&board, 0..end))).unwrap();
                threads.board().spawn(task);
            }
            for _ in 2..80 {
                let (end, sum) = results.recv_timeout(LONG).unwrap();
                assert_eq!(sum, end * (end - 1) / 2, "{count} threads");
            }
        }
    }

    #[test]
    fn another_thread_takes_the_second_half_while_the_first_is_at_work() {
        let answer = on(&threads(2), |board| {
            let (sender, taken) = mpsc::channel();
            let second = move || sender.send(thread::current().id()).unwrap();
            let first = || taken.recv_timeout(LONG).unwrap();
            let (first, second) = board.join(first, second);
            second.unwrap();
            first.unwrap() != thread::current().id()
        });
        assert!(answer);
    }

    #[test]
    fn who_waits_for_a_half_does_others_that_come_later() {
        let done = on(&threads(2), |board| {
            let (begun, was_begun) = mpsc::channel();
            let (sender, released) = mpsc::channel();
            let other = Arc::clone(board);
            // The other thread has a half of its own to give, and waits until that is done.
            let second = move || {
                begun.send(1).unwrap();
                let release = move || {
                    sender.send(2).unwrap();
                    3
                };
                let wait = || released.recv_timeout(LONG).unwrap();
                let (waited, released) = other.join(wait, release);
                (waited.unwrap(), released.unwrap())
            };
            let (first, second) = board.join(|| was_begun.recv_timeout(LONG).unwrap(), second);
            (first.unwrap(), second.unwrap())
        });
        assert_eq!(done, (1, (2, 3)));
    }

    #[test]
    fn a_panic_is_the_outcome_of_that_half_alone_and_ends_no_thread() {
        let text = |panic: Box<dyn Any + Send>| *panic.downcast::<&str>().unwrap();
        for count in [1, 3] {
            let threads = threads(count);
            for _ in 0..count {
                threads.board().spawn(|| panic!("on purpose"));
            }
            let (first, second) = on(&threads, |board| {
                let (first, fine) = board.join(|| panic!("on purpose"), || 2);
                assert_eq!(fine.unwrap(), 2);
                let (fine, second) = board.join(|| 1, || panic!("on purpose too"));
                assert_eq!(fine.unwrap(), 1);
                let first: thread::Result<()> = first;
                let second: thread::Result<()> = second;
                (first.unwrap_err(), second.unwrap_err())
            });
            assert_eq!(
                (text(first), text(second)),
                ("on purpose", "on purpose too")
            );
        }
    }

    #[test]
    fn the_end_waits_for_what_is_at_work_and_then_whoever_asks_does_it() {
        let done = Arc::new(AtomicUsize::new(0));
        let threads = threads(2);
        let board = Arc::clone(threads.board());
        let spawn = |pause| {
            let done = Arc::clone(&done);
            board.spawn(move || {
                thread::sleep(pause);
                done.fetch_add(1, Ordering::Relaxed);
            });
        };
        for _ in 0..5 {
            spawn(Duration::from_millis(10));
        }
        drop(threads);
        assert_eq!(done.load(Ordering::Relaxed), 5);
        spawn(Duration::ZERO);
        assert_eq!(done.load(Ordering::Relaxed), 6);
        let (first, second) = board.join(|| 1, || 2);
        assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    }
}
