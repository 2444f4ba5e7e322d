//! Decoders that panic on bytes nobody wrote, made to answer nothing instead.
//!
//! The decoders of `reth-codecs` trust their input. What they do with a damaged row is a panic,
//! which is caught here, silently: the row is the user's trouble, not a fault of the program.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    /// Whether a panic of this thread is expected.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

static QUIET_HOOK: Once = Once::new();

/// What `decode` gives; `None` when it panics. Nothing is printed.
pub(crate) fn contained<T>(decode: impl FnOnce() -> T) -> Option<T> {
    QUIET_HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if !CONTAINED.get() {
                loud(info);
            }
        }));
    });
    let outer = CONTAINED.replace(true);
    // A decoder owns what it builds: nothing half-changed is seen afterwards.
    let decoded = catch_unwind(AssertUnwindSafe(decode)).ok();
    CONTAINED.set(outer);
    decoded
}

#[cfg(test)]
mod tests {
    use super::contained;

    #[test]
    fn panics_become_nothing_and_values_come_through() {
        assert_eq!(contained(|| 7), Some(7));
        assert_eq!(contained(|| contained(|| [0][1..][0])), Some(None));
        assert_eq!(contained(|| String::from_utf8(vec![0xff]).unwrap()), None);
    }
}
