//! What a sweep is doing, for Prometheus: `--metrics`.
//!
//! One address serves this program's metrics and, while a pass runs, those of its engine, with the
//! cell, round and pass as labels, so that whoever scrapes need not follow engines from port to port.
//!
//! Invariant: a thread of its own answers; the thread that measures only stores figures, between a
//! pass's payloads at most. Nothing here is read back by anything that ends in a report.

mod exposition;

use crate::{guard::Counters, record::Running, serve::Server};
use engine_api::metric::{self, Metric};
use exposition::Exposition;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long an engine may take for its metrics, well below the pause between two scrapes.
const ENGINE_PATIENCE: Duration = Duration::from_millis(500);

/// How a visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visited {
    /// It gave samples.
    Kept,
    /// It was disturbed, and will be repeated.
    Void,
    /// It gave nothing.
    Failed,
}

/// A pass that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassLabels {
    /// Its cell.
    pub cell: String,
    /// `warmup`, `measured` or `trace`.
    pub pass: &'static str,
    /// Where its engine serves metrics.
    pub engine: SocketAddr,
}

/// What is shown of a sweep, and the server that shows it. Dropping it stops the server.
#[derive(Debug)]
pub struct Live {
    shown: Arc<Shown>,
    _server: Server,
}

#[derive(Debug, Default)]
struct Shown {
    payloads: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Default)]
struct State {
    planned: u64,
    round: u64,
    kept: u64,
    void: u64,
    failed: u64,
    pass: Option<PassLabels>,
    cells: Vec<Running>,
}

impl Live {
    /// Begins to answer at this address.
    ///
    /// # Errors
    /// When the system refuses it or a thread.
    pub fn serve(address: SocketAddr) -> io::Result<Self> {
        let shown = Arc::new(Shown::default());
        let answering = shown.clone();
        let server = Server::start(address, "metrics", move |request| {
            answer(request, answering.clone())
        })?;
        Ok(Self {
            shown,
            _server: server,
        })
    }

    /// A sweep of so many visits begins.
    pub fn plan(&self, visits: u64) {
        self.state().planned = visits;
    }

    /// A visit of this round begins.
    pub fn round(&self, round: u64) {
        self.state().round = round;
    }

    /// A visit ended.
    pub fn visited(&self, how: Visited) {
        let mut state = self.state();
        match how {
            Visited::Kept => state.kept += 1,
            Visited::Void => state.void += 1,
            Visited::Failed => state.failed += 1,
        }
    }

    /// A pass begins; `None` when it has ended.
    pub fn pass(&self, pass: Option<PassLabels>) {
        self.state().pass = pass;
    }

    /// A payload and its fork choice were answered VALID.
    pub fn payload(&self) {
        self.shown.payloads.fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of each cell by now.
    pub fn estimates(&self, cells: &[Running]) {
        self.state().cells = cells.to_vec();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shown.lock()
    }
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(request: Request<Incoming>, shown: Arc<Shown>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let state = shown.lock().clone();
    let payloads = shown.payloads.load(Ordering::Relaxed);
    let mut exposition = Exposition::default();
    write_sweep(&mut exposition, &state, payloads);
    write_machine(&mut exposition, &Counters::read());
    if let Some(pass) = &state.pass
        && let Ok(engine) = metric::fetch(pass.engine, ENGINE_PATIENCE).await
    {
        exposition.include(&engine, &labels(&state, pass));
    }
    let format = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, format);
    *response.body_mut() = Full::new(Bytes::from(exposition.into_text()));
    response
}

fn labels<'a>(
    state: &State,
    pass: &'a PassLabels,
) -> [(&'static str, std::borrow::Cow<'a, str>); 3] {
    [
        ("cell", pass.cell.as_str().into()),
        ("round", state.round.to_string().into()),
        ("pass", pass.pass.into()),
    ]
}

fn write_sweep(exposition: &mut Exposition, state: &State, payloads: u64) {
    let pass = state.pass.iter().map(|pass| (labels(state, pass), 1.0));
    exposition.series(metric::PASS, pass);
    for (metric, value) in [
        (metric::ROUND, state.round),
        (metric::VISITS_PLANNED, state.planned),
        (metric::VISITS_KEPT, state.kept),
        (metric::VISITS_VOID, state.void),
        (metric::VISITS_FAILED, state.failed),
        (metric::PAYLOADS, payloads),
    ] {
        exposition.value(metric, value as f64);
    }
    let of_cells = |value: fn(&Running) -> Option<f64>| {
        let cells = state.cells.iter();
        cells.filter_map(move |cell| Some(([("cell", cell.cell.as_str().into())], value(cell)?)))
    };
    exposition.series(
        metric::CELL_GGAS,
        of_cells(|cell| Some(cell.ggas_per_second)),
    );
    exposition.series(metric::CELL_GGAS_LOW, of_cells(|cell| cell.low));
    exposition.series(metric::CELL_GGAS_HIGH, of_cells(|cell| cell.high));
}

fn write_machine(exposition: &mut Exposition, counters: &Counters) {
    let values: [(Metric, f64); 7] = [
        (metric::CPU_BUSY, counters.busy_s),
        (metric::CPU_INTERRUPTS, counters.interrupts_s),
        (metric::CPU_STEAL, counters.steal_s),
        (metric::CONTEXT_SWITCHES, counters.context_switches as f64),
        (metric::MEMORY_AVAILABLE, counters.available_bytes as f64),
        (metric::DISK_READ, counters.read_bytes as f64),
        (metric::DISK_WRITTEN, counters.written_bytes as f64),
    ];
    for (metric, value) in values {
        exposition.value(metric, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_api::metric::{HARNESS, Scrape};
    use std::net::Ipv4Addr;

    const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    fn cell(name: &str, interval: Option<(f64, f64)>) -> Running {
        Running {
            cell: name.into(),
            visits: 2,
            ggas_per_second: 1.5,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    }

    async fn ask(live: &Live) -> String {
        let fetched = metric::fetch(live._server.address(), Duration::from_secs(10)).await;
        fetched.unwrap()
    }

    /// A stand-in for an engine that exports one metric.
    fn engine() -> Server {
        let answer = |_: Request<Incoming>| async {
            Response::new(Full::from(
                "# TYPE a summary\na{quantile=\"1\"} 7\na_sum 9\n",
            ))
        };
        Server::start(ANY_PORT.into(), "engine", answer).unwrap()
    }

    #[tokio::test]
    async fn a_sweep_shows_every_metric_of_the_list_and_no_other() {
        let live = Live::serve(ANY_PORT.into()).unwrap();
        let engine = engine();
        live.plan(12);
        live.round(3);
        for how in [Visited::Kept, Visited::Kept, Visited::Void, Visited::Failed] {
            live.visited(how);
        }
        live.payload();
        live.estimates(&[cell("chunk5", None), cell("chunk60", Some((1.25, 1.75)))]);
        live.pass(Some(PassLabels {
            cell: "chunk5".into(),
            pass: "measured",
            engine: engine.address(),
        }));
        let text = ask(&live).await;
        for line in [
            "bench_sweep_pass{cell=\"chunk5\",round=\"3\",pass=\"measured\"} 1",
            "bench_sweep_visits_planned 12",
            "bench_sweep_visits_kept_total 2",
            "bench_sweep_payloads_total 1",
            "bench_sweep_cell_ggas_per_second{cell=\"chunk5\"} 1.5",
            "bench_sweep_cell_ggas_per_second_low{cell=\"chunk60\"} 1.25",
            "a{cell=\"chunk5\",round=\"3\",pass=\"measured\",quantile=\"1\"} 7",
            "a_sum{cell=\"chunk5\",round=\"3\",pass=\"measured\"} 9",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        let scrape = Scrape::parse(&text);
        let mut names: Vec<_> = HARNESS.iter().map(|metric| metric.name).collect();
        names.push("a_sum");
        names.sort_unstable();
        assert_eq!(scrape.names().collect::<Vec<_>>(), names);
    }

    #[tokio::test]
    async fn between_passes_and_without_an_engine_the_rest_is_shown() {
        let live = Live::serve(ANY_PORT.into()).unwrap();
        let gone = engine().address();
        for pass in [None, Some(gone)] {
            live.pass(pass.map(|engine| PassLabels {
                cell: "chunk5".into(),
                pass: "warmup",
                engine,
            }));
            let scrape = Scrape::parse(&ask(&live).await);
            assert_eq!(scrape.value(metric::PAYLOADS.name), Some(0.0));
            assert_eq!(scrape.value(metric::PASS.name), pass.map(|_| 1.0));
            assert_eq!(scrape.value("a_sum"), None);
        }
    }
}
