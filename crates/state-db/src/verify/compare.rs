//! A table against the rows it should have, both in key order.

use super::{
    Audit,
    walk::{MISSING, SUPERFLUOUS, Walk, words},
};
use crate::{
    codec::{self, PATH_SUBKEY_LEN},
    error::DbError,
    loader::Sorter,
    tables::Table,
    tx::DbView,
};
use alloy_primitives::hex;
use std::cmp::Ordering;

/// How a row's full key is made of its key and the beginning of its value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// The key alone.
    Key,
    /// The key and this many bytes of the value.
    Subkey(usize),
    /// The key is a nibble path, to be padded.
    Path,
}

impl Shape {
    /// The full key, and where in the value the rest begins.
    fn full_key(self, key: &[u8], value: &[u8]) -> Option<(Vec<u8>, usize)> {
        match self {
            Self::Key => Some((key.to_vec(), 0)),
            Self::Subkey(length) => Some(([key, value.get(..length)?].concat(), length)),
            Self::Path => {
                let path = codec::decode_path(key)?;
                Some((codec::path_subkey(&path).to_vec(), 0))
            }
        }
    }
}

/// A table with everything needed to compare it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    pub(super) table: Table,
    pub(super) shape: Shape,
    /// Says how a stored value differs from the one that should be there.
    pub(super) differs: fn(&[u8], &[u8]) -> String,
}

impl Comparison {
    /// Finds rows that are missing, superfluous or different. `expected` has full keys.
    pub(super) fn run(
        self,
        view: &DbView,
        audit: &mut Audit<'_>,
        expected: Sorter,
    ) -> Result<(), DbError> {
        let folder = audit.options.sort_folder.clone();
        let mut expected = crate::loader::Input::new(expected, &folder)?;
        let mut stored = Walk::new(view, self.table)?;
        loop {
            let Some((key, value)) = stored.row() else {
                if !expected.live {
                    return Ok(());
                }
                audit.find(self.table, self.words(&expected.key), MISSING);
                expected.advance()?;
                continue;
            };
            let Some((full, rest)) = self.shape.full_key(key, value) else {
                audit.find_undecodable(self.table, words(self.table, key));
                stored.pop()?;
                continue;
            };
            let order = if expected.live {
                full[..].cmp(&expected.key)
            } else {
                Ordering::Less
            };
            match order {
                Ordering::Less => audit.find(self.table, self.words(&full), SUPERFLUOUS),
                Ordering::Greater => audit.find(self.table, self.words(&expected.key), MISSING),
                Ordering::Equal if value[rest..] != expected.value[..] => {
                    let problem = (self.differs)(&value[rest..], &expected.value);
                    audit.find(self.table, self.words(&full), problem);
                }
                Ordering::Equal => {}
            }
            if order.is_le() {
                stored.pop()?;
            }
            if order.is_ge() {
                expected.advance()?;
            }
        }
    }

    fn words(&self, full: &[u8]) -> String {
        match (self.shape, full.get(PATH_SUBKEY_LEN - 1)) {
            (Shape::Path, Some(length)) => words(self.table, &full[..usize::from(*length)]),
            _ => words(self.table, full),
        }
    }
}

/// Two values as hexadecimal digits.
pub(super) fn bytes_differ(stored: &[u8], expected: &[u8]) -> String {
    format!(
        "is {}, should be {}",
        hex::encode_prefixed(stored),
        hex::encode_prefixed(expected)
    )
}

/// Two numbers.
pub(super) fn numbers_differ(stored: &[u8], expected: &[u8]) -> String {
    match (codec::decode_u64(stored), codec::decode_u64(expected)) {
        (Some(stored), Some(expected)) => format!("is {stored}, should be {expected}"),
        _ => super::report::UNDECODABLE.to_owned(),
    }
}
