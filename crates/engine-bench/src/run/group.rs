//! Visits of several cells side by side: payload by payload in turn, each in an engine of its own that is
//! frozen while others have their turns.
//!
//! Drift of the machine lasts longer than a payload, so it meets all cells alike. An engine that is frozen
//! does in its own next turns what it has to do in the background, as if its payloads followed each other.
//!
//! Invariant: at most one engine of the group runs at a time. A visit that fails leaves the group, the
//! others go on. Leaving a group in any way, also by being dropped on Ctrl-C, stops all its engines.

use super::{
    Step, StepError, disk,
    pass::{self, Clock},
    patience,
    visit::{Begun, Found, Pass, Visiting, facts_of},
};
use crate::{
    analyze::Sample,
    guard::{Calibration, Readings, Watch},
    journal::{PassFacts, StateFacts, VisitFacts, VisitTimes},
    payload::Payloads,
    plan::{Load, Visit, turns},
    reset::Workspace,
};
use engine_api::PreparedPayload;
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// What came of a visit of a group.
pub(super) struct Made {
    pub(super) times: VisitTimes,
    /// The time that was its own.
    pub(super) took: Duration,
    pub(super) facts: Result<VisitFacts, StepError>,
}

impl Made {
    /// A visit that could not begin.
    pub(super) fn failed(error: &StepError) -> Self {
        Self {
            times: VisitTimes::default(),
            took: Duration::ZERO,
            facts: Err(error.again()),
        }
    }
}

/// A cell's place in a group.
pub(super) struct Seat<'a> {
    visiting: Visiting<'a>,
    visit: &'a Visit,
    /// Which of the engine's working copies it has.
    place: usize,
    /// The most time of its own that it may take.
    limit: Option<Duration>,
    took: Duration,
    times: VisitTimes,
    passes: Vec<PassFacts>,
    failure: Option<StepError>,
}

impl<'a> Seat<'a> {
    pub(super) fn new(
        visiting: Visiting<'a>,
        visit: &'a Visit,
        place: usize,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            visiting,
            visit,
            place,
            limit,
            took: Duration::ZERO,
            times: VisitTimes::default(),
            passes: Vec::new(),
            failure: None,
        }
    }

    fn workspace(&self) -> Result<Workspace, StepError> {
        let Visiting {
            prepared,
            progress,
            cell,
            ..
        } = &self.visiting;
        prepared.seat(&cell.engine, self.place, progress)
    }

    fn made(self) -> Made {
        Made {
            times: self.times,
            took: self.took,
            facts: match self.failure {
                Some(error) => Err(error),
                None => Ok(facts_of(self.passes)),
            },
        }
    }
}

/// Makes the visits of a group, which are of one round and one load; what came of each, in their order.
pub(super) async fn run(mut seats: Vec<Seat<'_>>) -> Vec<Made> {
    let Some(first) = seats.first() else {
        return Vec::new();
    };
    let payloads = match first.visiting.payloads() {
        Ok(payloads) => payloads,
        Err(error) => return seats.iter().map(|_| Made::failed(&error)).collect(),
    };
    let passes = first.visiting.passes(first.visit, &payloads).len();
    for number in 0..passes {
        Round::new(&mut seats, &payloads, number).run().await;
    }
    seats.into_iter().map(Seat::made).collect()
}

/// A pass of one seat.
struct Sitting<'s, 'a> {
    seat: &'s mut Seat<'a>,
    pass: Pass<'s>,
    workspace: Workspace,
    state: StateFacts,
    begun: Option<Begun>,
    /// What its own clock shows.
    clock_ns: u64,
}

/// One pass of all seats that have not failed.
struct Round<'s, 'a> {
    sittings: Vec<Sitting<'s, 'a>>,
    payloads: &'s [PreparedPayload],
}

impl<'s, 'a> Round<'s, 'a> {
    fn new(seats: &'s mut [Seat<'a>], payloads: &'s Payloads, number: usize) -> Self {
        let mut length = 0;
        let sittings = seats.iter_mut().filter(|seat| seat.failure.is_none());
        let sittings = sittings.filter_map(|seat| {
            let mut passes = seat.visiting.passes(seat.visit, payloads);
            let pass = passes.swap_remove(number);
            length = pass.payloads.len();
            let workspace = seat.workspace();
            match workspace {
                Ok(workspace) => Some(Sitting {
                    seat,
                    pass,
                    workspace,
                    state: StateFacts::default(),
                    begun: None,
                    clock_ns: 0,
                }),
                Err(error) => {
                    seat.failure = Some(error);
                    None
                }
            }
        });
        let sittings = sittings.collect();
        Self {
            sittings,
            payloads: &payloads[..length],
        }
    }

    /// Brings every datadir back, starts every engine, replays in turn, and stops one after another.
    async fn run(mut self) {
        for sitting in &mut self.sittings {
            sitting.reset().await;
        }
        let calibration = self.calibrate();
        for sitting in &mut self.sittings {
            sitting.begin().await;
        }
        let machines = self.replay().await;
        for (sitting, machine) in self.sittings.into_iter().zip(machines) {
            sitting.finish(calibration, machine).await;
        }
    }

    /// Times the fixed work once for all, while no engine runs.
    fn calibrate(&mut self) -> Option<Calibration> {
        let seats = self.sittings.len() as f64;
        let first = self.sittings.first()?;
        let mut times = VisitTimes::default();
        let calibration = first.seat.visiting.calibrate(&first.pass, &mut times);
        for sitting in &mut self.sittings {
            sitting.seat.times.guard_s += times.guard_s / seats;
        }
        calibration
    }

    /// Replays in turn; what the machine did meanwhile, for each seat.
    async fn replay(&mut self) -> Vec<Option<Readings>> {
        let watch = self.watch();
        let began = Instant::now();
        let orders = self.orders();
        for (index, (payload, order)) in self.payloads.iter().zip(orders).enumerate() {
            for place in order {
                self.sittings[place].turn(index, payload, began).await;
            }
        }
        let Some((watched, watch)) = watch else {
            return self.sittings.iter().map(|_| None).collect();
        };
        let mut readings = watch.end().into_iter();
        let watched = watched.into_iter();
        watched
            .map(|watched| watched.then(|| readings.next()).flatten())
            .collect()
    }

    /// Begins to watch the engines that run, and tells which those are.
    fn watch(&self) -> Option<(Vec<bool>, Watch)> {
        let first = self.sittings.first()?;
        let begun = || self.sittings.iter().map(|sitting| sitting.begun.as_ref());
        let pids: Vec<u32> = begun().flatten().map(|begun| begun.engine.pid()).collect();
        let watched = first.seat.visiting.watched(&first.pass) && !pids.is_empty();
        watched.then(|| {
            (
                begun().map(|begun| begun.is_some()).collect(),
                Watch::begin(&pids),
            )
        })
    }

    /// Who has a turn when: made before the first one.
    fn orders(&self) -> Vec<Vec<usize>> {
        let Some(Sitting { seat, .. }) = self.sittings.first() else {
            return Vec::new();
        };
        let load: Load = seat.visiting.cell.load();
        let seed = seat.visiting.settings.seed;
        let (cells, payloads) = (self.sittings.len(), self.payloads.len());
        turns(seed, seat.visit.round, &load, cells, payloads)
    }
}

impl Sitting<'_, '_> {
    async fn reset(&mut self) {
        let seat = &mut *self.seat;
        let times = &mut seat.times;
        let reset = seat.visiting.bring_back(&self.pass, &self.workspace, times);
        let made = in_time(seat.limit, &mut seat.took, &seat.visiting.step, reset).await;
        match made {
            Ok(state) => self.state = state,
            Err(error) => self.fail(error),
        }
    }

    /// Starts the engine and freezes it until its first turn.
    async fn begin(&mut self) {
        if self.seat.failure.is_some() {
            return;
        }
        let seat = &mut *self.seat;
        let times = &mut seat.times;
        let begin = seat.visiting.begin(&self.pass, &self.workspace, times);
        let made = in_time(seat.limit, &mut seat.took, &seat.visiting.step, begin).await;
        match made {
            Ok(mut begun) => {
                begun.engine.freeze();
                begun.samples.reserve(self.pass.payloads.len());
                self.begun = Some(begun);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Sends a payload, the `index`-th from 0. The first turn of all began at `began`.
    async fn turn(&mut self, index: usize, payload: &PreparedPayload, began: Instant) {
        let Some(begun) = &mut self.begun else {
            return;
        };
        begun.engine.thaw();
        let turn_start_ns = u64::try_from(began.elapsed().as_nanos()).ok();
        let clock = Clock::from(self.clock_ns);
        let client = &mut begun.node.auth;
        let sent = pass::send(client, (index, payload), &mut begun.waits, clock);
        let Seat { took, limit, .. } = &mut *self.seat;
        let sent = within(*limit, took, sent).await;
        begun.engine.freeze();
        let error = match sent {
            Ok(Ok(sample)) => {
                self.clock_ns = sample.end_ns;
                begun.samples.push(Sample {
                    turn_start_ns,
                    ..sample
                });
                self.seat.visiting.progress.advance();
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(late) => late,
        };
        self.leave(error).await;
    }

    /// Stops the engine of a seat whose turn failed.
    async fn leave(&mut self, error: String) {
        if let Some(begun) = self.begun.take() {
            begun.engine.thaw();
            let Seat {
                visiting, times, ..
            } = &mut *self.seat;
            let error = visiting.give_up(&self.pass, begun, error, times).await;
            self.fail(error);
        }
    }

    async fn finish(mut self, calibration: Option<Calibration>, machine: Option<Readings>) {
        let Some(begun) = self.begun.take() else {
            return;
        };
        begun.engine.thaw();
        let found = Found {
            state: std::mem::take(&mut self.state),
            calibration,
            machine,
        };
        let seat = &mut *self.seat;
        let times = &mut seat.times;
        let finish = seat.visiting.finish(&self.pass, begun, found, times);
        let made = in_time(seat.limit, &mut seat.took, &seat.visiting.step, finish).await;
        match made {
            Ok(facts) => self.seat.passes.push(facts),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: StepError) {
        let (datadir, out) = (&self.workspace.datadir, self.seat.visiting.out);
        self.seat.failure = Some(disk::remark(error, datadir, out));
    }
}

/// A step of a visit that has taken so much of the time of its own that it may take.
async fn in_time<T>(
    limit: Option<Duration>,
    took: &mut Duration,
    step: &Cell<Step>,
    future: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    match within(limit, took, future).await {
        Ok(ended) => ended,
        Err(late) => Err(StepError::new(step.get(), &late)),
    }
}

/// Adds the time of a future to `took`, and gives it up when that passes the limit, for the reason given.
async fn within<T>(
    limit: Option<Duration>,
    took: &mut Duration,
    future: impl Future<Output = T>,
) -> Result<T, String> {
    let began = Instant::now();
    let ended = match limit {
        None => Ok(future.await),
        Some(limit) => {
            let left = limit.saturating_sub(*took);
            let ended = tokio::time::timeout(left, future).await;
            ended.map_err(|_| patience::too_long(limit))
        }
    };
    *took += began.elapsed();
    ended
}
