//! Ids of traces and spans.
//!
//! Source: W3C Trace Context, `traceparent`.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// An id: a number that is shown in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id<const BYTES: usize>(pub [u8; BYTES]);

/// The id of a trace.
pub type TraceId = Id<16>;

/// The id of a span.
pub type SpanId = Id<8>;

impl TraceId {
    /// The trace of a block of a visit; another for every `salt`.
    pub fn of(cell: &str, block: u64, salt: u64) -> Self {
        Self(digest(&[
            cell.as_bytes(),
            &block.to_be_bytes(),
            &salt.to_be_bytes(),
        ]))
    }
}

impl SpanId {
    /// A span of a trace by its name.
    pub fn of(trace: TraceId, name: &str) -> Self {
        Self(digest(&[&trace.0, name.as_bytes()]))
    }
}

/// The beginning of a hash, which is never all zeros for any input that anybody can find.
fn digest<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    std::array::from_fn(|index| hash[index])
}

/// The header that makes a request's span a child of `span`; spans of a trace that is not `sampled`
/// are not kept.
pub fn traceparent(trace: TraceId, span: SpanId, sampled: bool) -> String {
    format!("00-{trace}-{span}-{:02x}", u8::from(sampled))
}

impl<const BYTES: usize> fmt::Display for Id<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_by_everything_they_name() {
        let trace = TraceId::of("a", 1, 1);
        for other in [
            TraceId::of("b", 1, 1),
            TraceId::of("a", 2, 1),
            TraceId::of("a", 1, 2),
        ] {
            assert_ne!(trace, other);
        }
        assert_ne!(SpanId::of(trace, "x"), SpanId::of(trace, "y"));
    }

    #[test]
    fn the_header_is_that_of_the_standard() {
        let text = traceparent(Id([0xab; 16]), Id([1; 8]), true);
        assert_eq!(
            text,
            "00-abababababababababababababababab-0101010101010101-01"
        );
        assert!(traceparent(Id([0; 16]), Id([1; 8]), false).ends_with("-00"));
    }
}
