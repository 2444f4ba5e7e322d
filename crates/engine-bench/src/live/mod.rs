//! What a sweep is doing, for Prometheus: `--metrics`.
//!
//! One address serves this program's metrics and, while a pass runs, those of its engine, with the
//! cell, round and pass as labels, so that whoever scrapes need not follow engines from port to port.
//!
//! Invariant: a thread of its own answers; the thread that measures only stores figures, between a
//! pass's payloads at most. Nothing here is read back by anything that ends in a report.

mod exposition;

use crate::{guard, record::Running, serve::Server};
use engine_api::metric;
use exposition::{Exposition, Label};
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

/// What a sweep is doing.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Visits that are planned.
    pub planned: u64,
    /// The round of the visits that are made, counted from 1.
    pub round: u64,
    /// Visits that gave samples.
    pub kept: u64,
    /// Visits that were disturbed, and will be repeated.
    pub void: u64,
    /// Visits that gave nothing.
    pub failed: u64,
    /// The pass that runs.
    pub pass: Option<PassLabels>,
    /// What is known of each cell by now.
    pub cells: Vec<Running>,
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

    /// Changes what is shown.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shown.lock());
    }

    /// A payload and its fork choice were answered VALID.
    pub fn payload(&self) {
        self.shown.payloads.fetch_add(1, Ordering::Relaxed);
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
    for (metric, value) in guard::counters() {
        exposition.value(metric, value);
    }
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

fn labels<'a>(state: &State, pass: &'a PassLabels) -> [Label<'a>; 3] {
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

    fn pass(pass: &'static str, engine: SocketAddr) -> PassLabels {
        let cell = "chunk5".into();
        PassLabels { cell, pass, engine }
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
        live.payload();
        live.update(|state| {
            let measured = pass("measured", engine.address());
            let cells = vec![cell("chunk5", None), cell("chunk60", Some((1.25, 1.75)))];
            (state.planned, state.round, state.kept) = (12, 3, 2);
            (state.pass, state.cells) = (Some(measured), cells);
        });
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
        for engine_gone in [None, Some(gone)] {
            live.update(|state| state.pass = engine_gone.map(|engine| pass("warmup", engine)));
            let scrape = Scrape::parse(&ask(&live).await);
            assert_eq!(scrape.value(metric::PAYLOADS.name), Some(0.0));
            assert_eq!(scrape.value(metric::PASS.name), engine_gone.map(|_| 1.0));
            assert_eq!(scrape.value("a_sum"), None);
        }
    }
}
