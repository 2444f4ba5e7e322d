//! Checkpoints of the stages, safe and finalized block, an unfinished unwind.

use super::{Audit, walk::MISSING};
use crate::{error::DbError, tables::Table, tx::DbView, view::Marker, write::STAGES};

/// Checks everything that names a block as reached.
pub(super) fn check(view: &DbView, audit: &mut Audit<'_>) -> Result<(), DbError> {
    let head = audit.head;
    for stage in STAGES {
        let table = Table::StageCheckpoints;
        match view.checkpoint(stage) {
            Ok(Some(block)) if block == head => {}
            Ok(Some(block)) => audit.find(table, stage, format!("is {block}, the head is {head}")),
            Ok(None) => audit.find(table, stage, MISSING),
            Err(DbError::CorruptRow { .. }) => audit.find_undecodable(table, stage),
            Err(error) => return Err(error),
        }
    }
    // Neither must be below the other: a fork choice may leave one of them as it was.
    marker(view, audit, Marker::Safe, "safe")?;
    marker(view, audit, Marker::Finalized, "finalized")?;
    match view.pending_unwind() {
        Ok(Some(target)) if target > head => {
            let problem = format!("is {target}, above the head {head}");
            audit.find(Table::Metadata, "pending_unwind", problem);
        }
        Ok(Some(target)) => audit.notes.push(format!(
            "an unwind to block {target} was interrupted; whoever opens the database next to \
             write finishes it"
        )),
        Ok(None) => {}
        Err(DbError::CorruptRow { .. }) => {
            audit.find_undecodable(Table::Metadata, "pending_unwind");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn marker(view: &DbView, audit: &mut Audit<'_>, marker: Marker, name: &str) -> Result<(), DbError> {
    let block = match view.marker(marker) {
        Ok(block) => block,
        Err(DbError::CorruptRow { .. }) => {
            audit.find_undecodable(Table::ChainState, name);
            None
        }
        Err(error) => return Err(error),
    };
    if let Some(block) = block.filter(|block| *block > audit.head) {
        let problem = format!("is {block}, above the head {}", audit.head);
        audit.find(Table::ChainState, name, problem);
    }
    Ok(())
}
