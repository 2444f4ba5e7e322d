//! `engine-bench replay`: one pass on an engine that somebody else started.

use crate::{
    cli::{EXIT_INTERRUPTED, ReplayArgs},
    engine,
    record::sample::{self, Sample},
    run::{self, Progress, Waits},
};
use bench_stats::{Latencies, Throughput};
use engine_api::{EngineClient, JwtSecret, PayloadSet};
use eyre::{Result, WrapErr as _, eyre};
use std::{fs, process::ExitCode};

pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let set = PayloadSet::open(&args.payloads)?;
    let secret = JwtSecret::read(&args.jwt_secret)?;
    let mut client =
        EngineClient::new(&args.engine_url, Some(secret))?.with_timeout(args.request_timeout);
    let progress = Progress::new(false);
    let mut waits = Waits {
        time: args.wait_time.unwrap_or_default(),
        persistence: None,
    };
    let mut samples = Vec::new();
    progress.begin(set.payloads().len() as u64, "replaying");
    let (payloads, advance) = (set.payloads(), || progress.advance());
    let pass = run::replay(&mut client, payloads, &mut waits, &mut samples, advance);
    let outcome = super::block_on(super::unless_interrupted(pass))?;
    progress.end();
    if let Some(out) = &args.out {
        fs::create_dir_all(out).wrap_err_with(|| format!("failed to create {}", out.display()))?;
        sample::write_pass(out, &samples)?;
    }
    let Some(outcome) = outcome else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    outcome.map_err(|error| eyre!(engine::advised(&error.to_string())))?;
    super::print(&summary(&samples))?;
    Ok(ExitCode::SUCCESS)
}

/// The figures of one pass. One pass has no interval.
fn summary(samples: &[Sample]) -> String {
    let gas: u64 = samples.iter().map(|sample| sample.gas_used).sum();
    let ggas = |time_ns: u64| {
        let throughput = Throughput::new(gas, time_ns).ggas_per_second();
        throughput.unwrap_or(0.0)
    };
    let total: u64 = samples.iter().map(Sample::total_ns).sum();
    let new_payload: u64 = samples.iter().map(|sample| sample.new_payload_ns).sum();
    let wall = samples.last().map_or(0, |sample| sample.end_ns);
    let latencies = Latencies::of(samples.iter().map(Sample::total_ns).collect());
    let mut text = format!(
        "payloads                     {}\n\
         execution_ggas_per_second    {:.3}\n\
         new_payload_ggas_per_second  {:.3}\n\
         wall_clock_ggas_per_second   {:.3}\n",
        samples.len(),
        ggas(total),
        ggas(new_payload),
        ggas(wall),
    );
    if let Some(ms) = latencies.map(|latencies| latencies.scaled(1e-6)) {
        text += &format!(
            "latency_ms                   p50 {:.2}, p90 {:.2}, p99 {:.2}, max {:.2}\n",
            ms.p50, ms.p90, ms.p99, ms.max
        );
    }
    text
}
