//! Spans as they are exported: OTLP's protobuf, read into what the rest of this program needs.
//!
//! Source: opentelemetry-proto, `collector/trace/v1`. Invariant: what cannot be read is an error of the
//! whole message, never half a trace.

use super::ids::{Id, SpanId, TraceId};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{self as wire, ResourceSpans, ScopeSpans},
};
use prost::{DecodeError, Message as _};

/// One span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its trace.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// The span it is part of, which may be another process's.
    pub parent: Option<SpanId>,
    /// Name of the process.
    pub service: String,
    /// What it is of.
    pub name: String,
    /// Its beginning, in nanoseconds since the epoch.
    pub start_ns: u64,
    /// Its end, likewise.
    pub end_ns: u64,
    /// Its fields, as text.
    pub fields: Vec<(String, String)>,
}

impl Span {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The spans of one exported message; those with damaged ids are left out.
///
/// # Errors
/// When the bytes are not such a message.
pub fn decode(message: &[u8]) -> Result<Vec<Span>, DecodeError> {
    let request = ExportTraceServiceRequest::decode(message)?;
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let attributes = fields(resource.resource.unwrap_or_default().attributes);
        let service = attributes
            .into_iter()
            .find(|(key, _)| key == "service.name");
        let service = service.unwrap_or_default().1;
        let scopes = resource.scope_spans.into_iter();
        let found = scopes.flat_map(|scope| scope.spans);
        spans.extend(found.filter_map(|span| from_wire(span, &service)));
    }
    Ok(spans)
}

fn from_wire(span: wire::Span, service: &str) -> Option<Span> {
    Some(Span {
        trace: Id(span.trace_id.try_into().ok()?),
        id: Id(span.span_id.try_into().ok()?),
        parent: span.parent_span_id.try_into().ok().map(Id),
        service: service.to_owned(),
        name: span.name,
        start_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
        fields: fields(span.attributes),
    })
}

fn fields(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let field = |attribute: KeyValue| {
        let value = match attribute.value?.value? {
            Value::StringValue(text) => text,
            Value::BoolValue(value) => value.to_string(),
            Value::IntValue(value) => value.to_string(),
            Value::DoubleValue(value) => value.to_string(),
            _ => return None,
        };
        Some((attribute.key, value))
    };
    attributes.into_iter().filter_map(field).collect()
}

/// Spans of one process as a message for a collector.
pub fn encode(spans: &[Span]) -> Vec<u8> {
    let service = spans.first().map(|span| span.service.clone());
    let text = |key: &str, value: String| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value)),
        }),
        ..KeyValue::default()
    };
    let fields = |span: &Span| {
        let fields = span.fields.iter();
        fields
            .map(|(key, value)| text(key, value.clone()))
            .collect()
    };
    let to_wire = |span: &Span| wire::Span {
        trace_id: span.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map(|id| id.0.to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: wire::span::SpanKind::Client.into(),
        start_time_unix_nano: span.start_ns,
        end_time_unix_nano: span.end_ns,
        attributes: fields(span),
        ..wire::Span::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![text("service.name", service.unwrap_or_default())],
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                spans: spans.iter().map(to_wire).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn span(name: &str, start_ns: u64, end_ns: u64) -> Span {
        let trace = Id([7; 16]);
        Span {
            trace,
            id: SpanId::of(trace, name),
            parent: None,
            service: "s".into(),
            name: name.into(),
            start_ns,
            end_ns,
            fields: vec![("thread.name".into(), "engine".into())],
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_is_read(
            names in prop::collection::vec("[a-z ]{0,9}", 1..9),
            times in any::<(u64, u64)>(),
            parent in any::<Option<[u8; 8]>>(),
        ) {
            let spans: Vec<_> = names
                .iter()
                .map(|name| Span { parent: parent.map(Id), ..span(name, times.0, times.1) })
                .collect();
            prop_assert_eq!(decode(&encode(&spans)).unwrap(), spans);
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
