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
    guard::{Calibration, Readings, Watch},
    payload::Payloads,
    plan::{Load, Visit, turns},
    record::{PassFacts, Sample, StateFacts, VisitFacts, VisitTimes},
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
pub(super) struct Member<'a> {
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

impl<'a> Member<'a> {
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
        prepared.working_copy(&cell.engine, self.place, progress)
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
pub(super) async fn run(mut members: Vec<Member<'_>>) -> Vec<Made> {
    let Some(first) = members.first() else {
        return Vec::new();
    };
    let payloads = match first.visiting.payloads() {
        Ok(payloads) => payloads,
        Err(error) => return members.iter().map(|_| Made::failed(&error)).collect(),
    };
    let passes = first.visiting.passes(first.visit, &payloads).len();
    for number in 0..passes {
        Round::new(&mut members, &payloads, number).run().await;
    }
    members.into_iter().map(Member::made).collect()
}

/// A pass of one member.
struct MemberPass<'s, 'a> {
    member: &'s mut Member<'a>,
    pass: Pass<'s>,
    workspace: Workspace,
    state: StateFacts,
    begun: Option<Begun>,
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
        let passes = members.iter_mut().filter(|member| member.failure.is_none());
        let passes = passes.filter_map(|member| {
            let mut passes = member.visiting.passes(member.visit, payloads);
            let pass = passes.swap_remove(number);
            length = pass.payloads.len();
            let workspace = member.workspace();
            match workspace {
                Ok(workspace) => Some(MemberPass {
                    member,
                    pass,
                    workspace,
                    state: StateFacts::default(),
                    begun: None,
                    clock_ns: 0,
                }),
                Err(error) => {
                    member.failure = Some(error);
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
        let first = self.passes.first()?;
        let mut times = VisitTimes::default();
        let calibration = first.member.visiting.calibrate(&first.pass, &mut times);
        for member_pass in &mut self.passes {
            member_pass.member.times.guard_s += times.guard_s / members;
        }
        calibration
    }

    /// Replays in turn; what the machine did meanwhile, for each member.
    async fn replay(&mut self) -> Vec<Option<Readings>> {
        let watch = self.watch();
        let began = Instant::now();
        let orders = self.orders();
        for (index, (payload, order)) in self.payloads.iter().zip(orders).enumerate() {
            for place in order {
                self.passes[place].turn(index, payload, began).await;
            }
        }
        let Some((watched, watch)) = watch else {
            return self.passes.iter().map(|_| None).collect();
        };
        let mut readings = watch.end().into_iter();
        let watched = watched.into_iter();
        watched
            .map(|watched| watched.then(|| readings.next()).flatten())
            .collect()
    }

    /// Begins to watch the engines that run, and tells which those are.
    fn watch(&self) -> Option<(Vec<bool>, Watch)> {
        let first = self.passes.first()?;
        let begun = || {
            self.passes
                .iter()
                .map(|member_pass| member_pass.begun.as_ref())
        };
        let pids: Vec<u32> = begun().flatten().map(|begun| begun.engine.pid()).collect();
        let watched = first.member.visiting.watched(&first.pass) && !pids.is_empty();
        watched.then(|| {
            (
                begun().map(|begun| begun.is_some()).collect(),
                Watch::begin(&pids),
            )
        })
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
        let member = &mut *self.member;
        let times = &mut member.times;
        let reset = member
            .visiting
            .bring_back(&self.pass, &self.workspace, times);
        let made = in_time(member.limit, &mut member.took, &member.visiting.step, reset).await;
        match made {
            Ok(state) => self.state = state,
            Err(error) => self.fail(error),
        }
    }

    /// Starts the engine and freezes it until its first turn.
    async fn begin(&mut self) {
        if self.member.failure.is_some() {
            return;
        }
        let member = &mut *self.member;
        let times = &mut member.times;
        let begin = member.visiting.begin(&self.pass, &self.workspace, times);
        let made = in_time(member.limit, &mut member.took, &member.visiting.step, begin).await;
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
        let Member { took, limit, .. } = &mut *self.member;
        let sent = within(*limit, took, sent).await;
        begun.engine.freeze();
        let error = match sent {
            Ok(Ok(sample)) => {
                self.clock_ns = sample.end_ns;
                begun.samples.push(Sample {
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
        if let Some(begun) = self.begun.take() {
            begun.engine.thaw();
            let Member {
                visiting, times, ..
            } = &mut *self.member;
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
        let member = &mut *self.member;
        let times = &mut member.times;
        let finish = member.visiting.finish(&self.pass, begun, found, times);
        let made = in_time(
            member.limit,
            &mut member.took,
            &member.visiting.step,
            finish,
        )
        .await;
        match made {
            Ok(facts) => self.member.passes.push(facts),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: StepError) {
        let (datadir, out) = (&self.workspace.datadir, self.member.visiting.out);
        self.member.failure = Some(disk::remark(error, datadir, out));
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
