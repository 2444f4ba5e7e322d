//! How much space the database takes, table by table.

use crate::{
    db::StateDb,
    error::{Context, DbError},
    tables::Table,
};

/// Size of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// The table's name.
    pub name: &'static str,
    /// Number of rows, duplicates counted.
    pub entries: u64,
    /// Inner pages of its tree.
    pub branch_pages: u64,
    /// Leaf pages of its tree.
    pub leaf_pages: u64,
    /// Pages of values too large for a leaf page.
    pub overflow_pages: u64,
    /// All its pages, in bytes.
    pub size_bytes: u64,
}

/// Size of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DbStats {
    /// Every table.
    pub tables: Vec<TableStats>,
    /// Size of a page in bytes.
    pub page_size_bytes: u64,
    /// Size of `mdbx.dat` in bytes.
    pub file_size_bytes: u64,
    /// Pages that belong to no table and can be written again.
    pub free_pages: u64,
    /// Pages ever used: the file's content ends behind them.
    pub used_pages: u64,
}

impl StateDb {
    /// Counts pages and rows. Reads only page headers and the list of free pages.
    pub fn stats(&self) -> Result<DbStats, DbError> {
        let view = self.view()?;
        let env = &self.inner.env;
        let mut tables = Vec::with_capacity(Table::ALL.len());
        for table in Table::ALL {
            let stat = view
                .raw()
                .db_stat(&self.inner.handles.of(table))
                .doing("measure", table.name())?;
            let pages = [
                stat.branch_pages(),
                stat.leaf_pages(),
                stat.overflow_pages(),
            ];
            tables.push(TableStats {
                name: table.name(),
                entries: stat.entries() as u64,
                branch_pages: pages[0] as u64,
                leaf_pages: pages[1] as u64,
                overflow_pages: pages[2] as u64,
                size_bytes: pages.iter().sum::<usize>() as u64 * u64::from(stat.page_size()),
            });
        }
        let path = self.inner.folder.join("mdbx.dat");
        let file_size_bytes = std::fs::metadata(&path)
            .map_err(|source| DbError::File {
                action: "measure",
                path,
                source,
            })?
            .len();
        let info = env.info().doing("measure", "the database")?;
        Ok(DbStats {
            tables,
            page_size_bytes: u64::from(env.stat().doing("measure", "the database")?.page_size()),
            file_size_bytes,
            free_pages: env.freelist().doing("measure", "the database")? as u64,
            used_pages: info.last_pgno() as u64 + 1,
        })
    }
}
