//! Sweeps whose cells take turns, over a scripted engine.
//!
//! Invariant: no test looks at how long anything took, only at what came before what.

use crate::{
    Fixture, PAYLOADS, WATCHED, assert_nothing_is_left, assert_whole, cut, finished, processes,
    the_one, until,
};
use engine_bench::{
    guard::GuardMode,
    plan::Plan,
    record::{Ended, Interleaving, Sample, sample},
    run::Ending,
};
use std::collections::BTreeSet;
use testkit::{Hogs, is_frozen};

/// Three cells of one load, and the A/A control of one of them where there are several rounds.
const CELLS: &str = "--chunks 15,30,60 --guard off";

fn plan(fixture: &Fixture, flags: &str) -> Plan {
    let mut settings = fixture.plan(flags).settings;
    settings.interleave = true;
    Plan::new(settings)
}

/// Visits that began, with the others of their group.
fn begun(fixture: &Fixture) -> Vec<(String, Interleaving)> {
    let begun = fixture.history().attempts.into_iter();
    let begun = begun.map(|made| (made.visit, made.interleaving.unwrap()));
    begun.collect()
}

fn samples(fixture: &Fixture, visit: &str, pass: &str) -> Vec<Sample> {
    let dir = fixture.path("out/visits").join(visit).join(pass);
    sample::read_samples(&dir).unwrap()
}

#[test]
fn cells_take_turns_and_their_visits_are_whole() {
    let fixture = Fixture::new("ok");
    let plan = plan(&fixture, &format!("{CELLS} --rounds 2"));
    let (ending, report) = fixture.resume(&plan);
    assert_eq!(ending, Some(Ending::Complete));
    assert_whole(&report);
    assert_eq!(report.cells.len(), 3);
    for cell in &report.cells {
        assert_eq!((cell.payloads, cell.visits), (PAYLOADS, 2));
        assert!(cell.wall_clock_ggas_per_second.is_some());
    }

    let begun = begun(&fixture);
    assert_eq!(begun.len(), 8);
    let mut orders = BTreeSet::new();
    for round in begun.chunks(4) {
        let copies: BTreeSet<u64> = round.iter().map(|(_, with)| with.copy).collect();
        assert_eq!(copies, (1..=4).collect());
        for (visit, with) in round {
            let others = round.iter().filter(|(other, _)| other != visit);
            let others: Vec<_> = others.map(|(other, _)| other.clone()).collect();
            assert_eq!(with.with, others);
        }
        for pass in ["warmup", "measured"] {
            let visits = round.iter().map(|(visit, _)| visit);
            let of_cells: Vec<_> = visits.map(|v| samples(&fixture, v, pass)).collect();
            let mut last = 0;
            for payload in 0..PAYLOADS as usize {
                let turn = |(cell, samples): (usize, &Vec<Sample>)| {
                    (samples[payload].turn_start_ns.unwrap(), cell)
                };
                let mut turns: Vec<_> = of_cells.iter().enumerate().map(turn).collect();
                turns.sort_unstable();
                assert!(turns[0].0 >= last, "before all had the one before");
                last = turns[3].0;
                orders.insert(turns.iter().map(|(_, cell)| *cell).collect::<Vec<_>>());
            }
            for samples in &of_cells {
                assert_eq!(samples.len(), PAYLOADS as usize);
                let mut pairs = samples.windows(2);
                let own = pairs.all(|pair| pair[1].start_ns >= pair[0].end_ns);
                assert!(own, "its own clock goes forward");
                // What others had of the time is in none of its own.
                let turn_ns = |payload: usize| samples[payload].turn_start_ns.unwrap();
                let own_ns = samples[3].start_ns - samples[0].start_ns;
                assert!(own_ns < turn_ns(3) - turn_ns(0));
            }
        }
    }
    assert!(orders.len() > 2, "the order of turns changes: {orders:?}");
    let time = report.time_s;
    let parts = time.measured + time.warmup + time.reset + time.start + time.stop + time.guard;
    assert!(parts <= time.wall, "no second is counted twice: {time:?}");
    assert_nothing_is_left(&fixture);
}

#[test]
fn one_that_fails_in_its_turn_fails_alone_and_is_not_repeated_alone() {
    for (script, said) in [
        ("dies-mid-pass 30", "ended by itself"),
        ("invalid 30", "INVALID"),
        ("dies-at-start 30", "ended by itself"),
    ] {
        let fixture = Fixture::new(script);
        let plan = plan(&fixture, CELLS);
        let (_, report) = fixture.resume(&plan);
        let failure = the_one(&report.failures);
        assert_eq!(failure.visit, "1-chunk30-gas10M");
        assert!(failure.cause.contains(said), "{}", failure.cause);
        for cell in ["15", "60"] {
            let rows = samples(&fixture, &format!("1-chunk{cell}-gas10M"), "measured");
            assert_eq!(rows.len(), PAYLOADS as usize);
        }
        assert_nothing_is_left(&fixture);

        cut(&fixture, "sweep_finished", 0);
        let started = begun(&fixture).len();
        fixture.resume(&plan);
        assert_eq!(begun(&fixture).len(), started, "{script}");
    }
}

#[test]
fn one_that_hangs_is_given_up_and_the_others_go_on() {
    let fixture = Fixture::new("hangs 30");
    let flags = format!("{CELLS} --precision 1% --budget 1ms --ready-timeout 4s");
    let (_, report) = fixture.resume(&plan(&fixture, &flags));
    let cause = &the_one(&report.failures).cause;
    assert!(cause.contains("given up after 8 s"), "{cause}");
    assert!(finished(&fixture).contains(&"1-chunk15-gas10M".to_owned()));
    assert!(finished(&fixture).contains(&"1-chunk60-gas10M".to_owned()));
    assert_nothing_is_left(&fixture);
}

#[test]
fn a_group_that_was_cut_is_repeated_as_a_whole() {
    let fixture = Fixture::new("ok");
    let plan = plan(&fixture, CELLS);
    fixture.resume(&plan);
    cut(&fixture, "visit_finished", 1);
    let done = finished(&fixture);
    assert_eq!(done.len(), 1);

    let (_, report) = fixture.resume(&plan);
    assert!(report.complete);
    let history = fixture.history();
    let kept = history.attempts_of(&done[0]).next().unwrap();
    let kept_in = format!("{}.void1", done[0]);
    assert_eq!(kept.ended, Ended::Undone);
    assert_eq!(kept.kept_in.as_deref(), Some(&*kept_in));
    assert!(fixture.path("out/visits").join(kept_in).exists());
    assert_eq!(begun(&fixture).len(), 6);
    let ended = |how| {
        let visits = report.visits.iter();
        visits.filter(|visit| visit.ended == how).count()
    };
    let all = [Ended::Finished, Ended::Undone, Ended::Cut].map(ended);
    assert_eq!(all, [3, 1, 2]);
    for cell in &report.cells {
        assert_eq!((cell.visits, cell.payloads), (1, PAYLOADS));
    }
}

#[test]
fn a_group_that_others_disturb_is_void_as_a_whole() {
    let fixture = Fixture::new("ok");
    let hogs = Hogs::start(2);
    let plan = plan(&fixture, &format!("{WATCHED} --chunks 15,60"));
    assert_eq!(plan.settings.guard, GuardMode::Void);
    let (_, report) = fixture.resume(&plan);
    drop(hogs);
    let ended: Vec<Ended> = report.visits.iter().map(|visit| visit.ended).collect();
    assert_eq!(ended[..4], [Ended::Voided; 4]);
    assert_eq!(ended[4..], [Ended::Finished; 2]);
    assert_eq!((report.guard.voided, report.guard.disturbed), (4, 2));
    for pass in report.visits.chunks(2) {
        let [a, b] = [&pass[0], &pass[1]].map(|visit| &visit.facts.passes[0]);
        assert_eq!(a.calibration, b.calibration, "once for all");
        let [a, b] = [a, b].map(|pass| pass.machine.as_ref().unwrap());
        assert_eq!((a.wall_s, a.foreign_cpu_s), (b.wall_s, b.foreign_cpu_s));
    }
    assert!(report.time_s.voided < report.time_s.wall);
}

#[test]
fn an_interrupt_leaves_no_engine_frozen_or_running() {
    let fixture = Fixture::new("ok");
    let plan = plan(&fixture, &format!("{CELLS} --wait-time 200ms"));
    let work = fixture.path("cache/work");
    let pid_file = |copy| work.join(format!("engine-scripted.{copy}.pid"));
    let in_a_turn = || {
        let running = processes(&fixture);
        let frozen = running.iter().filter(|pid| is_frozen(**pid)).count();
        (1..=3).all(|copy| pid_file(copy).exists()) && (running.len(), frozen) == (3, 2)
    };
    let stop = until("a turn of one of three", in_a_turn);
    let (ending, report) = fixture.sweep_plan(&plan, stop);
    assert_eq!(ending, Some(Ending::Interrupted));
    assert!(!report.complete && !report.measured_anything());
    assert_nothing_is_left(&fixture);
}
