//! Spans to a collector, by OTLP over HTTP or gRPC.
//!
//! A span that ends goes into a bounded queue; a thread of its own takes batches from there and waits
//! for the collector. Invariant: ending a span never waits, and each span is counted once, as
//! exported or as lost.

use crate::priority::yield_to_blocks;
use eyre::{Context as _, bail};
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{
    Protocol, SpanExporter as OtlpExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
        SpanExporter, SpanProcessor,
    },
};
use std::{
    env,
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tracing::{Subscriber, info, warn};
use tracing_subscriber::{EnvFilter, Layer, registry::LookupSpan};

/// Spans that may wait for the exporter, unless OTEL_BSP_MAX_QUEUE_SIZE says another number.
const QUEUE_SPANS: usize = 32_768;

/// How often a queue that is not full is sent, unless OTEL_BSP_SCHEDULE_DELAY says otherwise.
const SEND_EVERY: Duration = Duration::from_secs(1);

/// How long a collector may take for a batch, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise.
const EXPORT_LIMIT: Duration = Duration::from_secs(10);

/// How long the end of the process waits for spans to be taken.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// What the exporter itself and the servers below the methods do is no part of a trace.
const NEVER_TRACED: &str = "h2=off,hyper=off,hyper_util=off,tonic=off,tower=off,tokio=off,mio=off,signet_libmdbx=off,\
    opentelemetry=off,opentelemetry_sdk=off,opentelemetry_otlp=off,jsonrpsee=off,jsonrpsee-server=off,\
    soketto=off";

/// How spans are encoded and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OtlpProtocol {
    /// Protobuf in HTTP requests
    #[value(alias = "http/protobuf")]
    Http,
    /// gRPC
    Grpc,
}

/// Where spans go, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpConfig {
    /// The collector; for HTTP with the path of traces.
    pub endpoint: String,
    /// How they are sent.
    pub protocol: OtlpProtocol,
    /// Which spans, in the syntax of RUST_LOG.
    pub filter: String,
    /// Part of the traces that is kept, 0 to 1; a trace that came with a request is kept as its
    /// sender decided.
    pub sample_ratio: f64,
    /// The name of the process in traces.
    pub service_name: String,
}

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    /// Waiting, or being sent.
    pending: AtomicU64,
    exported: AtomicU64,
    lost: AtomicU64,
}

/// What has to be ended in order when the process ends.
struct Exporting {
    provider: SdkTracerProvider,
    /// Requests run on it for as long as the process does.
    _runtime: Runtime,
    counts: Arc<Counts>,
}

static EXPORTING: OnceLock<Exporting> = OnceLock::new();

/// Whether spans are exported.
pub(super) fn is_on() -> bool {
    EXPORTING.get().is_some()
}

/// Spans exported and lost so far; `None` when none are exported.
pub(super) fn counts() -> Option<(u64, u64)> {
    let counts = &EXPORTING.get()?.counts;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some((load(&counts.exported), load(&counts.lost)))
}

/// The layer that exports spans. At most once in a process.
///
/// # Errors
/// When a value of the configuration cannot be used. A collector that cannot be reached is none.
pub(crate) fn layer<S>(config: &OtlpConfig) -> eyre::Result<impl Layer<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let directives = format!("{},{NEVER_TRACED}", config.filter);
    let filter = EnvFilter::try_new(&directives)
        .wrap_err_with(|| format!("failed to use --tracing-otlp.filter {}", config.filter))?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("otlp")
        .on_thread_start(yield_to_blocks)
        .enable_all()
        .build()
        .wrap_err("failed to start the runtime of the span exporter")?;
    let counts = Arc::new(Counts::default());
    let provider = {
        // The channel of gRPC is made inside a runtime.
        let _inside = runtime.enter();
        provider(config, &runtime, &counts)?
    };
    let tracer = provider.tracer("bench-reth");
    let exporting = Exporting {
        provider,
        _runtime: runtime,
        counts,
    };
    if EXPORTING.set(exporting).is_err() {
        bail!("failed to export spans: this process already exports them");
    }
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_tracked_inactivity(false);
    Ok(layer.with_filter(filter))
}

fn provider(
    config: &OtlpConfig,
    runtime: &Runtime,
    counts: &Arc<Counts>,
) -> eyre::Result<SdkTracerProvider> {
    let exporter = Counting {
        inner: exporter(config, runtime.handle())?,
        counts: counts.clone(),
        lowered: Once::new(),
    };
    let capacity = variable("OTEL_BSP_MAX_QUEUE_SIZE").unwrap_or(QUEUE_SPANS);
    let mut batches = BatchConfigBuilder::default().with_max_queue_size(capacity.saturating_add(1));
    if env::var_os("OTEL_BSP_SCHEDULE_DELAY").is_none() {
        batches = batches.with_scheduled_delay(SEND_EVERY);
    }
    let processor = Bounded {
        inner: BatchSpanProcessor::new(exporter, batches.build()),
        capacity: capacity as u64,
        counts: counts.clone(),
    };
    let resource = Resource::builder()
        .with_service_name(config.service_name.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let ratio = Sampler::TraceIdRatioBased(config.sample_ratio);
    Ok(SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(Sampler::ParentBased(Box::new(ratio)))
        .with_span_processor(processor)
        .build())
}

fn exporter(config: &OtlpConfig, runtime: &Handle) -> eyre::Result<OtlpExporter> {
    let timeout = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
        .or_else(|| variable("OTEL_EXPORTER_OTLP_TIMEOUT"))
        .map_or(EXPORT_LIMIT, Duration::from_millis);
    let exporter = match config.protocol {
        OtlpProtocol::Http => OtlpExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_http_client(OnRuntime {
                runtime: runtime.clone(),
                client: HyperClient::with_default_connector(timeout, None),
            })
            .with_endpoint(&config.endpoint)
            .with_timeout(timeout)
            .build(),
        OtlpProtocol::Grpc => OtlpExporter::builder()
            .with_tonic()
            .with_endpoint(&config.endpoint)
            .with_timeout(timeout)
            .build(),
    };
    exporter.wrap_err_with(|| format!("failed to use --tracing-otlp={}", config.endpoint))
}

/// A number in an environment variable.
fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.trim().parse().ok()
}

/// Sends what is queued, waits for a bounded time, and tells how many spans were lost.
pub(crate) fn shutdown() {
    let Some(Exporting {
        provider, counts, ..
    }) = EXPORTING.get()
    else {
        return;
    };
    let ended = provider.shutdown_with_timeout(FLUSH_LIMIT);
    // What a batch under way holds is not known to have arrived.
    let pending = counts.pending.swap(0, Ordering::Relaxed);
    let lost = counts.lost.fetch_add(pending, Ordering::Relaxed) + pending;
    let exported = counts.exported.load(Ordering::Relaxed);
    match (lost, ended) {
        (0, Ok(())) => info!(target: "reth::otlp", exported, "Exported all spans"),
        (lost, Ok(())) => warn!(target: "reth::otlp", exported, lost, "Lost spans"),
        (lost, Err(error)) => {
            warn!(target: "reth::otlp", exported, lost, %error, "Lost spans");
        }
    }
}

/// Passes spans on as long as few enough are waiting.
#[derive(Debug)]
struct Bounded {
    inner: BatchSpanProcessor,
    capacity: u64,
    counts: Arc<Counts>,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &opentelemetry::Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.counts.pending.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.counts.pending.fetch_sub(1, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts what a collector took and what it did not.
#[derive(Debug)]
struct Counting<E> {
    inner: E,
    counts: Arc<Counts>,
    lowered: Once,
}

impl<E: SpanExporter> SpanExporter for Counting<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        // Batches are exported by one thread, which nothing else gives a priority.
        self.lowered.call_once(yield_to_blocks);
        let spans = batch.len() as u64;
        let result = self.inner.export(batch).await;
        let counter = if result.is_ok() {
            &self.counts.exported
        } else {
            &self.counts.lost
        };
        counter.fetch_add(spans, Ordering::Relaxed);
        // None is left when the end of the process has counted them already.
        let pending = &self.counts.pending;
        let _ = pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| {
            Some(pending.saturating_sub(spans))
        });
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// A client whose requests run on the exporter's runtime, whoever waits for them: the thread that
/// exports batches has none.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
    client: HyperClient,
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime
            .spawn(async move { client.send_bytes(request).await })
            .await?
    }
}
