//! Requests as spans, below the span of whoever sent them.
//!
//! Source: W3C Trace Context, `traceparent`.

use super::otlp;
use http::{Extensions, HeaderMap};
use opentelemetry::{Context, propagation::TextMapPropagator as _, trace::TraceContextExt as _};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Span, debug_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The sender's span, as an extension of a request.
#[derive(Debug, Clone)]
pub(crate) struct RemoteParent(Context);

impl RemoteParent {
    /// The span that the headers name. `None` without one, and when no spans are exported.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        if !otlp::is_on() || !headers.contains_key("traceparent") {
            return None;
        }
        Self::read(headers)
    }

    fn read(headers: &HeaderMap) -> Option<Self> {
        let context = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let is_valid = context.span().span_context().is_valid();
        is_valid.then_some(Self(context))
    }
}

/// The span of one call of a method; none when no spans are exported.
pub(crate) fn request_span(method: &'static str, extensions: &Extensions) -> Span {
    if !otlp::is_on() {
        return Span::none();
    }
    let span = debug_span!(
        target: "rpc::engine",
        parent: None,
        "request",
        otel.name = method,
        otel.kind = "server",
        rpc.method = method
    );
    if let Some(RemoteParent(context)) = extensions.get() {
        // Fails when the filter leaves the span out; then there is nothing to place below another.
        let _ = span.set_parent(context.clone());
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_header_names_a_parent() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for (text, named) in [
            (valid, true),
            (
                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                false,
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                false,
            ),
            (
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                false,
            ),
            (
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                false,
            ),
            ("nonsense", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            let parent = RemoteParent::read(&headers);
            assert_eq!(parent.is_some(), named, "{text}");
            if let Some(RemoteParent(context)) = parent {
                let span = context.span().span_context().clone();
                assert_eq!(span.trace_id().to_string(), &text[3..35]);
                assert_eq!(span.span_id().to_string(), &text[36..52]);
            }
        }
    }
}
