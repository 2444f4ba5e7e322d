//! Visits, alone or of several cells side by side: payload by payload in turn, each in an engine of its own that
//! is frozen while others have their turns.
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
    visit::{Pass, Standing, Visiting, add_pass},
};
use crate::{
    guard::{Calibration, Readings, Watch},
    payload::Payloads,
    plan::{Load, Visit, turns},
    record::{PassFacts, Sample, VisitFacts, VisitTimes},
    reset::Workspace,
};
use engine_api::PreparedPayload;
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// What came of a visit.
pub(super) struct Made {
    pub(super) times: VisitTimes,
    /// The time that was its own.
    pub(super) took: Duration,
    pub(super) facts: Result<VisitFacts, StepError>,
}

impl Made {
    /// A visit in which nothing has happened but what is given.
    pub(super) fn with(facts: Result<VisitFacts, StepError>) -> Self {
        Self {
            times: VisitTimes::default(),
            took: Duration::ZERO,
            facts,
        }
    }

    /// So many visits, none of which could begin.
    pub(super) fn all_failed(count: usize, error: &StepError) -> Vec<Self> {
        (0..count).map(|_| Self::with(Err(error.clone()))).collect()
    }
}

/// A cell's place in a group.
pub(super) struct Member<'a> {
    pub(super) visiting: Visiting<'a>,
    pub(super) visit: &'a Visit,
    /// Which of the engine's working copies it has when it takes turns with others; `None` when it is alone.
    pub(super) place: Option<usize>,
    /// The most time of its own that it may take.
    pub(super) limit: Option<Duration>,
    /// What came of it until now.
    pub(super) made: Made,
}

/// Makes the visits of a group, which are of one round and one load; what came of each, in their order.
pub(super) async fn run(mut members: Vec<Member<'_>>) -> Vec<Made> {
    let Some(first) = members.first() else {
        return Vec::new();
    };
    let payloads = match first.visiting.payloads() {
        Ok(payloads) => payloads,
        Err(error) => return Made::all_failed(members.len(), &error),
    };
    let passes = first.visiting.passes(first.visit, &payloads).len();
    for number in 0..passes {
        Round::new(&mut members, &payloads, number).run().await;
    }
    members.into_iter().map(|member| member.made).collect()
}

/// A pass of one member.
struct MemberPass<'s, 'a> {
    member: &'s mut Member<'a>,
    pass: Pass<'s>,
    workspace: Workspace,
    found: PassFacts,
    standing: Option<Standing>,
    /// What its own clock shows.
    clock_ns: u64,
}

/// One pass of all members that have not failed.
struct Round<'s, 'a> {
    passes: Vec<MemberPass<'s, 'a>>,
    payloads: &'s [PreparedPayload],
}

impl<'s, 'a> Round<'s, 'a> {
    fn new(members: &'s mut [Member<'a>], payloads: &'s Payloads, number: usize) -> Self {
        let mut length = 0;
        let passes = members
            .iter_mut()
            .filter(|member| member.made.facts.is_ok());
        let passes = passes.filter_map(|member| {
            let mut passes = member.visiting.passes(member.visit, payloads);
            let pass = passes.swap_remove(number);
            length = pass.payloads.len();
            let visiting = &member.visiting;
            let (prepared, engine) = (visiting.prepared, &visiting.cell.engine);
            let workspace = match member.place {
                None => prepared.workspace(engine).cloned(),
                Some(place) => prepared.working_copy(engine, place, visiting.progress),
            };
            match workspace {
                Ok(workspace) => Some(MemberPass {
                    member,
                    pass,
                    workspace,
                    found: PassFacts::default(),
                    standing: None,
                    clock_ns: 0,
                }),
                Err(error) => {
                    member.made.facts = Err(error);
                    None
                }
            }
        });
        let passes = passes.collect();
        Self {
            passes,
            payloads: &payloads[..length],
        }
    }

    /// Brings every datadir back, starts every engine, replays in turn, and stops one after another.
    async fn run(mut self) {
        for member_pass in &mut self.passes {
            member_pass.reset().await;
        }
        let calibration = self.calibrate();
        for member_pass in &mut self.passes {
            member_pass.begin().await;
        }
        let machines = self.replay().await;
        for (member_pass, machine) in self.passes.into_iter().zip(machines) {
            member_pass.finish(calibration, machine).await;
        }
    }

    /// Times the fixed work once for all, while no engine runs.
    fn calibrate(&mut self) -> Option<Calibration> {
        let members = self.passes.len() as f64;
        let mut passes = self.passes.iter();
        let first = passes.find(|pass| pass.member.made.facts.is_ok())?;
        let mut times = VisitTimes::default();
        let calibration = first.member.visiting.calibrate(&first.pass, &mut times);
        for member_pass in &mut self.passes {
            member_pass.member.made.times.guard_s += times.guard_s / members;
        }
        calibration
    }

    /// Replays in turn; what the machine did meanwhile, for each engine that ran when it began.
    async fn replay(&mut self) -> Vec<Option<Readings>> {
        let watched = |pass: &MemberPass<'_, '_>| {
            let standing = pass.standing.as_ref()?;
            let counts = pass.member.visiting.watched(&pass.pass);
            counts.then(|| standing.engine.pid())
        };
        let watched: Vec<Option<u32>> = self.passes.iter().map(watched).collect();
        let pids: Vec<u32> = watched.iter().copied().flatten().collect();
        let watch = (!pids.is_empty()).then(|| Watch::begin(&pids));
        match &mut self.passes[..] {
            [alone] if alone.member.place.is_none() => alone.replay().await,
            _ => self.take_turns().await,
        }
        let mut readings = watch.map_or_else(Vec::new, Watch::end).into_iter();
        let of_engine = |pid: &Option<u32>| pid.and_then(|_| readings.next());
        watched.iter().map(of_engine).collect()
    }

    async fn take_turns(&mut self) {
        let began = Instant::now();
        let orders = self.orders();
        for (index, (payload, order)) in self.payloads.iter().zip(orders).enumerate() {
            for place in order {
                self.passes[place].turn(index, payload, began).await;
            }
        }
    }

    /// Who has a turn when: made before the first one.
    fn orders(&self) -> Vec<Vec<usize>> {
        let Some(MemberPass { member, .. }) = self.passes.first() else {
            return Vec::new();
        };
        let load: Load = member.visiting.cell.load();
        let seed = member.visiting.settings.seed;
        let (cells, payloads) = (self.passes.len(), self.payloads.len());
        turns(seed, member.visit.round, &load, cells, payloads)
    }
}

impl MemberPass<'_, '_> {
    async fn reset(&mut self) {
        let Member {
            visiting,
            limit,
            made,
            ..
        } = &mut *self.member;
        let reset = visiting.bring_back(&self.pass, &self.workspace, &mut made.times);
        match in_time(*limit, &mut made.took, &visiting.step, reset).await {
            Ok(state) => self.found.state = state,
            Err(error) => self.fail(error),
        }
    }

    /// Starts the engine and, if it takes turns, freezes it until its first one.
    async fn begin(&mut self) {
        let Member {
            visiting,
            place,
            limit,
            made,
            ..
        } = &mut *self.member;
        if made.facts.is_err() {
            return;
        }
        let begin = visiting.begin(&self.pass, &self.workspace, &mut made.times);
        match in_time(*limit, &mut made.took, &visiting.step, begin).await {
            Ok(mut standing) => {
                if place.is_some() {
                    standing.engine.freeze();
                }
                standing.samples.reserve(self.pass.payloads.len());
                self.standing = Some(standing);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Replays all payloads, one after another.
    async fn replay(&mut self) {
        let Some(standing) = &mut self.standing else {
            return;
        };
        let Member {
            visiting,
            limit,
            made,
            ..
        } = &mut *self.member;
        let shown = visiting.shown(self.pass.names().0, &standing.engine);
        let (auth, waits) = (&mut standing.node.auth, &mut standing.waits);
        let on_payload = || visiting.progress.advance();
        let samples = &mut standing.samples;
        let replay = pass::replay(auth, self.pass.payloads, waits, samples, on_payload);
        let replayed = within(*limit, &mut made.took, replay).await;
        drop(shown);
        match replayed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.leave(error.to_string()).await,
            Err(late) => {
                let error = StepError::new(visiting.step.get(), &late);
                self.standing = None;
                self.fail(error);
            }
        }
    }

    /// Sends a payload, the `index`-th from 0. The first turn of all began at `began`.
    async fn turn(&mut self, index: usize, payload: &PreparedPayload, began: Instant) {
        let Some(standing) = &mut self.standing else {
            return;
        };
        standing.engine.thaw();
        let turn_start_ns = u64::try_from(began.elapsed().as_nanos()).ok();
        let clock = Clock::from(self.clock_ns);
        let client = &mut standing.node.auth;
        let sent = pass::send(client, (index, payload), &mut standing.waits, clock);
        let Member { made, limit, .. } = &mut *self.member;
        let sent = within(*limit, &mut made.took, sent).await;
        standing.engine.freeze();
        let error = match sent {
            Ok(Ok(sample)) => {
                self.clock_ns = sample.end_ns;
                standing.samples.push(Sample {
                    turn_start_ns,
                    ..sample
                });
                self.member.visiting.progress.advance();
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(late) => late,
        };
        self.leave(error).await;
    }

    /// Stops the engine of a member whose turn failed.
    async fn leave(&mut self, error: String) {
        if let Some(standing) = self.standing.take() {
            standing.engine.thaw();
            let Member { visiting, made, .. } = &mut *self.member;
            let given_up = visiting.give_up(&self.pass, standing, error, &mut made.times);
            let error = given_up.await;
            self.fail(error);
        }
    }

    async fn finish(mut self, calibration: Option<Calibration>, machine: Option<Readings>) {
        let Some(standing) = self.standing.take() else {
            return;
        };
        standing.engine.thaw();
        let found = PassFacts {
            calibration,
            machine,
            ..std::mem::take(&mut self.found)
        };
        let Member {
            visiting,
            limit,
            made,
            ..
        } = &mut *self.member;
        let finish = visiting.finish(&self.pass, standing, found, &mut made.times);
        let finished = in_time(*limit, &mut made.took, &visiting.step, finish).await;
        match (finished, &mut made.facts) {
            (Ok(pass), Ok(facts)) => add_pass(facts, pass),
            (Ok(_), Err(_)) => {}
            (Err(error), _) => self.fail(error),
        }
    }

    fn fail(&mut self, error: StepError) {
        let (datadir, out) = (&self.workspace.datadir, self.member.visiting.out);
        self.member.made.facts = Err(disk::remark(error, datadir, out));
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
