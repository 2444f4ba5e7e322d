//! One more visit of a cell, in which chosen blocks are traced.
//!
//! All other blocks are replayed too, so that a chosen one finds the engine as a measured pass does;
//! some of them traced, to learn what tracing costs: the chosen ones were slow partly by chance, and
//! would be faster the next time in any case. Invariant: what is timed here is no sample.

use super::{
    InStep as _, Prepared, Progress, Step, StepError, Waits, pass,
    visit::{Pass, Visiting},
};
use crate::{
    plan::Plan,
    record::ENGINE_LOG,
    trace::{
        self, BlockTrace, CellTraces, Chosen, Collector, INDEX_FILE, Span, SpanId, TRACES_DIR,
        TraceId, chrome_trace, traceparent,
    },
};
use engine_api::{EngineClient, PreparedPayload};
use std::{
    collections::BTreeMap,
    fs, io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Files of the visit itself, beside its traces.
const VISIT_DIR: &str = "visit";

/// What this program is called in traces.
const CLIENT_SERVICE: &str = "engine-bench";

/// One in so many blocks is traced to learn what tracing costs.
const CONTROL_EVERY: usize = 4;
/// Fewest of them that a cost is told from.
const FEWEST_CONTROLS: usize = 4;

/// What tracing needs beside the plan.
pub struct TraceOptions<'a> {
    /// The results folder.
    pub out: &'a Path,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// Chosen blocks by cell id.
    pub chosen: BTreeMap<String, Chosen>,
    /// A collector that gets the spans too, as its URL for traces.
    pub forward_to: &'a str,
    /// Pages of traces are below this URL.
    pub pages: &'a str,
}

/// Makes the traced visits, one cell after another, and writes the traces.
///
/// # Errors
/// When the collector of this program cannot start or files cannot be written. A cell that cannot be
/// traced says so in its entry.
pub async fn trace(
    plan: &Plan,
    prepared: &Prepared,
    options: &TraceOptions<'_>,
) -> io::Result<Vec<CellTraces>> {
    let collector = Collector::start()?;
    let folder = options.out.join(TRACES_DIR);
    fs::create_dir_all(&folder)?;
    let mut traces = Vec::new();
    for cell in &plan.cells {
        let Some(chosen) = options.chosen.get(&cell.id) else {
            continue;
        };
        let service = format!("engine-bench-{}", cell.id);
        let visiting = Visiting {
            settings: &plan.settings,
            prepared,
            cell,
            out: options.out,
            progress: options.progress,
            calibrator: None,
            step: std::cell::Cell::new(Step::Trace),
        };
        let of_cell = TracedCell {
            service: &service,
            chosen,
            collector: &collector,
            options,
        };
        let found = of_cell.visit(&visiting).await;
        let found = found.unwrap_or_else(|error| CellTraces {
            cell: cell.id.clone(),
            service: service.clone(),
            blocks: Vec::new(),
            overhead: None,
            lost_spans: 0,
            problem: Some(error.to_string()),
        });
        // What a failed visit left is no part of the next.
        collector.take();
        traces.push(found);
        let index = serde_json::to_vec_pretty(&traces).map_err(io::Error::from)?;
        fs::write(folder.join(INDEX_FILE), index)?;
    }
    Ok(traces)
}

/// One cell being traced.
struct TracedCell<'a> {
    service: &'a str,
    chosen: &'a Chosen,
    collector: &'a Collector,
    options: &'a TraceOptions<'a>,
}

/// Why a block is traced, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Somebody wants to see it.
    Chosen,
    /// To learn what tracing costs, picked by its place in the list.
    Control,
    Untraced,
}

/// A block that was replayed.
struct Replayed {
    block: u64,
    role: Role,
    /// Client time.
    ns: u64,
    /// What the client saw of it, if it was traced.
    spans: Vec<Span>,
}

impl TracedCell<'_> {
    async fn visit(&self, visiting: &Visiting<'_>) -> Result<CellTraces, StepError> {
        let cell = visiting.cell.id.clone();
        let payloads = visiting.payloads()?;
        let folder = self.options.out.join(TRACES_DIR).join(&cell);
        let pass = Pass {
            step: Step::Trace,
            payloads: &payloads,
            dir: folder.join(VISIT_DIR),
            flags: vec![
                ("tracing-otlp".into(), self.collector.url()),
                ("tracing-otlp-protocol".into(), "http".into()),
                ("tracing-otlp.filter".into(), "debug".into()),
                ("tracing-otlp.service-name".into(), self.service.to_owned()),
            ],
        };
        visiting.progress.message(format!("{cell}: tracing"));
        let workspace = visiting.prepared.workspace(&visiting.cell.engine)?;
        visiting.reset(workspace, &pass.dir).await?;
        let (engine, mut node) = visiting.start(workspace, &pass).await?;
        let mut waits = visiting.waits(&engine, workspace).await?;
        let shown = visiting.shown("trace", &engine);
        let replaying = self.replay(&cell, &mut node.auth, &payloads, &mut waits);
        let replayed = replaying.await;
        drop(shown);
        // Stopping also sends what the engine still holds.
        engine.stop().in_step(Step::Stop)?;
        let replayed = replayed?;
        let messages = self.collector.take();
        let spans = messages.iter().map(|message| trace::decode(message));
        let spans: Result<Vec<Vec<Span>>, _> = spans.collect();
        let engine_spans = spans.in_step(Step::Trace)?.concat();

        let client = replayed.iter().flat_map(|block| block.spans.clone());
        let mut forwarded = vec![trace::encode(&client.collect::<Vec<_>>()).into()];
        forwarded.extend(messages);
        let forwarding = trace::forward(self.options.forward_to, &forwarded).await;
        let pages = forwarding.is_ok().then_some(self.options.pages);
        let blocks = self.write(&folder, &cell, (&replayed, &engine_spans), pages);
        Ok(CellTraces {
            service: self.service.to_owned(),
            blocks: blocks.in_step(Step::Write)?,
            overhead: self.overhead(&replayed),
            lost_spans: lost_spans(&pass.dir.join(ENGINE_LOG)),
            problem: forwarding.err(),
            cell,
        })
    }

    async fn replay(
        &self,
        cell: &str,
        client: &mut EngineClient,
        payloads: &[PreparedPayload],
        waits: &mut Waits,
    ) -> Result<Vec<Replayed>, StepError> {
        let salt = unix_ns();
        let mut replayed = Vec::with_capacity(payloads.len());
        for (index, payload) in payloads.iter().enumerate() {
            let role = self.role(index, payload.number);
            let sampled = role != Role::Untraced;
            let trace = TraceId::of(cell, payload.number, salt);
            let [root, first, second] = ["payload", "newPayload", "forkchoiceUpdated"]
                .map(|name| (name, SpanId::of(trace, name)));
            client.set_traceparent(&traceparent(trace, first.1, sampled));
            let began = unix_ns();
            let sent = pass::new_payload(client, payload).await;
            let answered = unix_ns();
            client.set_traceparent(&traceparent(trace, second.1, sampled));
            let between = unix_ns();
            let updated = pass::forkchoice(client, payload).await;
            let ended = unix_ns();
            let ns = sent.in_step(Step::Trace)? + updated.in_step(Step::Trace)?;
            let waited = waits.after(index, payload.number).await;
            waited.in_step(Step::Trace)?;
            let span = |(name, id): (&str, SpanId), parent, start_ns, end_ns| Span {
                trace,
                id,
                parent,
                service: CLIENT_SERVICE.to_owned(),
                name: name.to_owned(),
                start_ns,
                end_ns,
                fields: vec![
                    ("block_num".into(), payload.number.to_string()),
                    ("block_hash".into(), payload.hash.to_string()),
                    ("gas_used".into(), payload.gas_used.to_string()),
                    ("cell".into(), cell.to_owned()),
                ],
            };
            let spans = [
                span(root, None, began, ended),
                span(first, Some(root.1), began, answered),
                span(second, Some(root.1), between, ended),
            ];
            replayed.push(Replayed {
                block: payload.number,
                role,
                ns,
                spans: if sampled { spans.into() } else { Vec::new() },
            });
            self.options.progress.advance();
        }
        Ok(replayed)
    }

    /// Writes a file for each traced block.
    fn write(
        &self,
        folder: &Path,
        cell: &str,
        (replayed, engine): (&[Replayed], &[Span]),
        pages: Option<&str>,
    ) -> io::Result<Vec<BlockTrace>> {
        let mut blocks = Vec::new();
        for block in replayed {
            let Some(root) = block.spans.first().filter(|_| block.role == Role::Chosen) else {
                continue;
            };
            // Persistence belongs to no block's trace, but shares its time.
            let belongs = |span: &&Span| {
                span.trace == root.trace
                    || (span.start_ns < root.end_ns && span.end_ns > root.start_ns)
            };
            let engine = engine.iter().filter(belongs).cloned();
            let spans: Vec<Span> = block.spans.iter().cloned().chain(engine).collect();
            let name = format!("{}.json", block.block);
            fs::write(folder.join(&name), chrome_trace(&spans).to_string())?;
            let of_trace = spans.iter().filter(|span| span.trace == root.trace);
            blocks.push(BlockTrace {
                block: block.block,
                trace_id: root.trace.to_string(),
                spans: of_trace.count(),
                measured_ms: self.measured_ms(block.block),
                traced_ms: block.ns as f64 / 1e6,
                file: format!("{TRACES_DIR}/{cell}/{name}"),
                link: pages.map(|pages| format!("{pages}/trace/{}", root.trace)),
            });
        }
        Ok(blocks)
    }

    fn measured_ms(&self, block: u64) -> f64 {
        let measured = &self.chosen.measured_ms;
        measured.get(&block).copied().unwrap_or(0.0)
    }

    /// Why the block at `index` of the list is traced, if it is.
    fn role(&self, index: usize, block: u64) -> Role {
        if self.chosen.blocks.contains(&block) {
            Role::Chosen
        } else if index % CONTROL_EVERY == CONTROL_EVERY / 2 {
            Role::Control
        } else {
            Role::Untraced
        }
    }

    /// See [`CellTraces::overhead`].
    fn overhead(&self, replayed: &[Replayed]) -> Option<f64> {
        let ratio = |role: Role| {
            let blocks = replayed.iter().filter(|block| block.role == role);
            let (mut count, mut now, mut measured) = (0, 0.0, 0.0);
            for block in blocks {
                count += 1;
                now += block.ns as f64 / 1e6;
                measured += self.measured_ms(block.block);
            }
            (count >= FEWEST_CONTROLS && measured > 0.0).then_some(now / measured)
        };
        Some(ratio(Role::Control)? / ratio(Role::Untraced)? - 1.0)
    }
}

fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// What bench-reth says at its end about spans it could not deliver.
fn lost_spans(log: &Path) -> u64 {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rfind(|line| line.contains("Lost spans"));
    let words = line.unwrap_or_default().split_whitespace();
    let mut lost = words.filter_map(|word| word.strip_prefix("lost=")?.parse().ok());
    lost.next_back().unwrap_or(0)
}
