#![allow(missing_docs, clippy::unwrap_used)]
use engine_bench::{analyze, report};
use std::path::Path;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut outcome = analyze::read_outcome(Path::new(&args[1])).unwrap();
    if args.len() > 3 {
        let rounds: u64 = args[3].parse().unwrap();
        let ids: Vec<String> = outcome.passes.keys().cloned().collect();
        for id in ids {
            let part = if id.contains("chunk5-") {
                0.70
            } else if id.contains("chunk15-") {
                0.88
            } else if id.contains("chunk60-") {
                0.985
            } else {
                1.0
            };
            let base = if id.contains("gas10M") { 0.483 } else { 0.646 };
            let first = outcome.passes[&id].clone();
            let mut new = std::collections::BTreeMap::new();
            for r in 1..=rounds {
                let mut pass = first
                    .values()
                    .nth((r as usize - 1) % first.len())
                    .unwrap()
                    .clone();
                let h = id
                    .bytes()
                    .fold(r * 7919, |h, b| (h * 31 + b as u64) % 1_000_003);
                let noise = 1.0
                    + 0.02 * ((h % 1000) as f64 / 500.0 - 1.0)
                    + 0.03 * ((r * 37 % 10) as f64 / 10.0 - 0.5);
                let gas: u64 = pass.iter().map(|s| s.gas_used).sum();
                let ns: u64 = pass
                    .iter()
                    .map(|s| s.new_payload_ns + s.forkchoice_updated_ns)
                    .sum();
                let want = gas as f64 / (base * part * noise);
                let f = want / ns as f64;
                for s in &mut pass {
                    s.new_payload_ns = (s.new_payload_ns as f64 * f) as u64;
                    s.forkchoice_updated_ns = (s.forkchoice_updated_ns as f64 * f) as u64;
                    for v in [&mut s.engine_ns, &mut s.state_root_ns] {
                        if let Some(v) = v {
                            *v = (*v as f64 * f) as u64;
                        }
                    }
                }
                new.insert(r, pass);
            }
            outcome.passes.insert(id, new);
        }
        outcome.metrics.clear();
    }
    let report = report::Report::of(&outcome);
    std::fs::create_dir_all(&args[2]).unwrap();
    report::write(Path::new(&args[2]), &report).unwrap();
    print!("{}", report::table(&report, false));
}
