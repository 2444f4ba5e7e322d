//! The process's recorder of metrics, and handles of single metrics.
//!
//! Invariant: a handle made before [`install`] records nothing for ever, so the recorder comes first.

use engine_api::metric::{ENGINE, Metric, Unit};
use eyre::eyre;
use metrics::{Counter, Gauge, Histogram, Key, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::sync::atomic::{AtomicBool, Ordering};

static INSTALLED: AtomicBool = AtomicBool::new(false);

const METADATA: Metadata<'static> = Metadata::new("bench-reth", Level::INFO, None);

/// Makes every metric of the process go to one recorder, which the handle renders.
pub(crate) fn install() -> eyre::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new().build_recorder();
    for metric in ENGINE {
        let unit = Some(unit(metric.unit));
        recorder.describe_histogram(metric.name.into(), unit, metric.help.into());
    }
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .map_err(|_| eyre!("failed to record metrics: another recorder is already installed"))?;
    INSTALLED.store(true, Ordering::Relaxed);
    Ok(handle)
}

/// Whether anybody records metrics.
pub(super) fn is_installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

pub(super) fn summary(metric: Metric) -> Histogram {
    metrics::with_recorder(|recorder| {
        recorder.register_histogram(&Key::from_static_name(metric.name), &METADATA)
    })
}

pub(super) fn counter(metric: Metric) -> Counter {
    metrics::with_recorder(|recorder| {
        recorder.register_counter(&Key::from_static_name(metric.name), &METADATA)
    })
}

pub(super) fn gauge(metric: Metric) -> Gauge {
    metrics::with_recorder(|recorder| {
        recorder.register_gauge(&Key::from_static_name(metric.name), &METADATA)
    })
}

fn unit(unit: Unit) -> metrics::Unit {
    match unit {
        Unit::Seconds => metrics::Unit::Seconds,
        Unit::Bytes => metrics::Unit::Bytes,
        Unit::Gas | Unit::Count => metrics::Unit::Count,
        Unit::GasPerSecond => metrics::Unit::CountPerSecond,
    }
}
