//! Writes a results folder with many samples, so that analysing it can be timed:
//! `many-samples FROM TO VISITS PAYLOADS [CELLS]`, FROM being a results folder whose plan and journal
//! are kept in kind. With CELLS the first level gets that many chunk sizes.
//!
//! Invariant: seeded; the same arguments write the same samples.

use bench_stats::SplitMix;
use engine_bench::{
    plan::{Cell, Plan, Visit},
    record::{self, Event, Journal, PassFacts, Sample, VisitFacts, journal, measured_dir, sample},
};
use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some([from, to, visits, payloads]), cells) = (words.first_chunk(), words.get(4)) else {
        return Err("give FROM TO VISITS PAYLOADS [CELLS]".into());
    };
    let (to, visits, payloads) = (Path::new(to), visits.parse::<u64>()?, payloads.parse()?);
    std::fs::create_dir_all(to)?;
    let mut plan = Plan::read(Path::new(from))?;
    if let Some(cells) = cells {
        widen(&mut plan, cells.parse()?);
    }
    let round = plan.cells.len().max(1) as u64;
    plan.visits = (0..visits)
        .map(|index| Visit {
            round: 1 + index / round,
            cell: plan.cells[(index % round) as usize].id.clone(),
        })
        .collect();
    plan.write(to)?;
    let started = journal::read(Path::new(from))?
        .into_iter()
        .map(|record| record.event)
        .find(|event| matches!(event, Event::SweepStarted(_)));
    let mut started = started.ok_or("FROM measured nothing")?;
    if let Event::SweepStarted(begun) = &mut started {
        begun.manifest.plan_sha256 = record::plan_sum(to);
    }
    let mut journal = Journal::open(to)?;
    journal.write(started)?;
    let mut random = SplitMix::new(1);
    for visit in &plan.visits {
        let pass = measured_dir(to, &visit.id());
        std::fs::create_dir_all(&pass)?;
        journal.write(Event::VisitStarted {
            visit: visit.id(),
            interleaving: None,
        })?;
        sample::write_pass(&pass, &samples(&mut random, payloads))?;
        journal.write(Event::VisitFinished {
            visit: visit.id(),
            times: Default::default(),
            facts: VisitFacts {
                passes: vec![PassFacts {
                    samples_sha256: sample::sum_of(&pass)?,
                    ..Default::default()
                }],
                ..Default::default()
            },
        })?;
    }
    journal.write(Event::SweepFinished)?;
    Ok(())
}

/// Gives the first level as many cells as are asked for.
fn widen(plan: &mut Plan, cells: u64) {
    let first = plan.cells[0].clone();
    let cell = |chunk: u64| Cell {
        id: format!("chunk{chunk}-gas{}", first.gas),
        flags: vec![(first.flags[0].0.clone(), chunk.to_string())],
        ..first.clone()
    };
    plan.cells = (1..=cells).map(cell).collect();
    plan.controls.clear();
}

fn samples(random: &mut SplitMix, payloads: u64) -> Vec<Sample> {
    let restart = 0.01 * random.normal();
    let one = |number| {
        let time = 10e6 * (restart + 0.03 * random.normal()).exp();
        let mut sample = Sample::default();
        for column in Sample::COLUMNS {
            (column.set)(&mut sample, 300);
        }
        Sample {
            block_number: number,
            gas_used: 10_000_000,
            new_payload_ns: time as u64,
            engine_ns: Some((0.9 * time) as u64),
            state_root_ns: Some((0.3 * time) as u64),
            answered_ns: number * 10_000_000,
            end_ns: number * 10_000_000,
            ..sample
        }
    };
    (1..=payloads).map(one).collect()
}
