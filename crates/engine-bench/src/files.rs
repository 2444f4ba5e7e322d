//! What errors of files and programs have in common.

use eyre::{Report, eyre};
use std::{io, path::Path};

/// The error of a file or folder that could not be used as `action` says.
pub(crate) fn failed<'a>(action: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Report + Copy {
    move |reason| eyre!("failed to {action} {}: {reason}", path.display())
}
