//! Sorting more records than fit in memory: sorted runs in unnamed files, merged when read.
//!
//! Memory stays within the budget given, plus one read buffer a run.

use std::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::PathBuf,
};

/// Read and write buffer of a run in bytes.
const RUN_BUFFER_BYTES: usize = 64 << 10;

/// Bytes of a record's length field.
const LENGTH_BYTES: usize = 4;

/// Collects records with keys of one length.
#[derive(Debug)]
pub(crate) struct Sorter {
    key_len: usize,
    budget_bytes: usize,
    folder: PathBuf,
    /// Records one after another: key, value length, value.
    arena: Vec<u8>,
    /// The first bytes of each record's key as a number, and where the record begins.
    index: Vec<(u64, u32)>,
    runs: Vec<File>,
}

impl Sorter {
    /// Records will be sorted within about `budget_bytes` (below 4 GiB), with runs in `folder`.
    pub(crate) fn new(key_len: usize, budget_bytes: usize, folder: PathBuf) -> Self {
        Self {
            key_len,
            budget_bytes: budget_bytes.min(u32::MAX as usize / 2),
            folder,
            arena: Vec::new(),
            index: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        debug_assert_eq!(key.len(), self.key_len);
        let size = key.len() + LENGTH_BYTES + value.len();
        let used = self.arena.len() + self.index.len() * size_of::<(u64, u32)>();
        if used + size > self.budget_bytes && !self.index.is_empty() {
            self.write_run()?;
        }
        let length = u32::try_from(value.len()).map_err(io::Error::other)?;
        self.index.push((prefix(key), self.arena.len() as u32));
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(&length.to_be_bytes());
        self.arena.extend_from_slice(value);
        Ok(())
    }

    /// Reads the records in key order; those with equal keys in no particular order.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(Sorted::Memory {
                sorter: self,
                next: 0,
            });
        }
        self.write_run()?;
        self.arena = Vec::new();
        self.index = Vec::new();
        let mut heap = BinaryHeap::with_capacity(self.runs.len());
        for mut file in self.runs {
            file.rewind()?;
            let reader = BufReader::with_capacity(RUN_BUFFER_BYTES, file);
            let mut run = Run {
                key: vec![0; self.key_len],
                value: Vec::new(),
                reader,
            };
            if run.read_next()? {
                heap.push(run);
            }
        }
        Ok(Sorted::Runs {
            heap,
            started: false,
        })
    }

    fn sort(&mut self) {
        let (arena, key_len) = (&self.arena, self.key_len);
        let key = |offset: u32| &arena[offset as usize..offset as usize + key_len];
        self.index
            .sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
    }

    fn record(&self, offset: u32) -> (&[u8], &[u8], &[u8]) {
        let start = offset as usize;
        let value_start = start + self.key_len + LENGTH_BYTES;
        let length = self.arena[start + self.key_len..value_start]
            .iter()
            .fold(0usize, |length, byte| length << 8 | usize::from(*byte));
        let end = value_start + length;
        (
            &self.arena[start..start + self.key_len],
            &self.arena[value_start..end],
            &self.arena[start..end],
        )
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        let mut writer =
            BufWriter::with_capacity(RUN_BUFFER_BYTES, tempfile::tempfile_in(&self.folder)?);
        for (_, offset) in &self.index {
            writer.write_all(self.record(*offset).2)?;
        }
        self.runs.push(
            writer
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?,
        );
        self.arena.clear();
        self.index.clear();
        Ok(())
    }
}

/// The first eight bytes of a key as a number that orders as they do.
fn prefix(key: &[u8]) -> u64 {
    key.iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Sorted records, to be read once.
#[derive(Debug)]
pub(crate) enum Sorted {
    /// Everything fitted in memory.
    Memory {
        /// The sorted records.
        sorter: Sorter,
        /// Position of the next one.
        next: usize,
    },
    /// Runs on disk, the one with the smallest key on top.
    Runs {
        /// Runs that have a record.
        heap: BinaryHeap<Run>,
        /// Whether the record on top has been returned.
        started: bool,
    },
}

impl Sorted {
    /// The next key and value.
    pub(crate) fn next(&mut self) -> io::Result<Option<(&[u8], &[u8])>> {
        match self {
            Self::Memory { sorter, next } => {
                let Some((_, offset)) = sorter.index.get(*next) else {
                    return Ok(None);
                };
                *next += 1;
                let (key, value, _) = sorter.record(*offset);
                Ok(Some((key, value)))
            }
            Self::Runs { heap, started } => {
                if std::mem::replace(started, true)
                    && let Some(mut top) = heap.peek_mut()
                    && !top.read_next()?
                {
                    PeekMut::pop(top);
                }
                Ok(heap.peek().map(|run| (&run.key[..], &run.value[..])))
            }
        }
    }
}

/// A run on disk with its current record.
#[derive(Debug)]
pub(crate) struct Run {
    key: Vec<u8>,
    value: Vec<u8>,
    reader: BufReader<File>,
}

impl Run {
    /// Reads the next record; false at the end.
    fn read_next(&mut self) -> io::Result<bool> {
        match self.reader.read_exact(&mut self.key) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        let mut length = [0; LENGTH_BYTES];
        self.reader.read_exact(&mut length)?;
        self.value.resize(u32::from_be_bytes(length) as usize, 0);
        self.reader.read_exact(&mut self.value)?;
        Ok(true)
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    /// Reversed, so that a max-heap has the smallest key on top.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key.cmp(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Record = ([u8; 12], Vec<u8>);

    /// The number of runs it took, and the records in order.
    fn sorted(records: &[Record], budget: usize) -> (usize, Vec<Record>) {
        let dir = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(12, budget, dir.path().to_path_buf());
        for (key, value) in records {
            sorter.push(key, value).unwrap();
        }
        let runs = sorter.runs.len();
        let mut sorted = sorter.finish().unwrap();
        let mut out = Vec::new();
        while let Some((key, value)) = sorted.next().unwrap() {
            out.push((key.try_into().unwrap(), value.to_vec()));
        }
        (runs, out)
    }

    proptest! {
        #[test]
        fn memory_and_runs_give_the_sorted_records(
            records in proptest::collection::btree_map(
                proptest::array::uniform12(0u8..3),
                proptest::collection::vec(any::<u8>(), 0..300),
                0..80,
            ),
            rotate in 0usize..80,
        ) {
            let expected: Vec<_> = records.into_iter().collect();
            let mut shuffled = expected.clone();
            shuffled.reverse();
            if !shuffled.is_empty() {
                let by = rotate % shuffled.len();
                shuffled.rotate_left(by);
            }
            let (runs, in_memory) = sorted(&shuffled, 1 << 20);
            prop_assert_eq!(runs, 0);
            prop_assert_eq!(&in_memory, &expected);
            let (runs, merged) = sorted(&shuffled, 500);
            prop_assert!(runs > 0 || expected.len() < 10);
            prop_assert_eq!(&merged, &expected);
        }
    }
}
