//! Every input that is checked in, and a short random walk around each, through the same targets as
//! the fuzzer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use fuzz_targets::TARGETS;
use std::{collections::BTreeSet, fs, panic::catch_unwind, path::PathBuf};

/// Bytes of the whole corpus; it is meant to stay small.
const MAX_CORPUS_BYTES: usize = 400 << 10;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| fs::read(file).unwrap())
        .collect()
}

#[test]
fn every_target_has_a_small_corpus_and_every_corpus_a_target() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let found: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, known);
    let bytes: usize = known
        .iter()
        .flat_map(|name| corpus(name))
        .map(|input| input.len())
        .sum();
    assert!(bytes < MAX_CORPUS_BYTES, "{bytes} bytes");
}

#[test]
fn what_is_checked_in_still_holds() {
    for (name, target) in TARGETS {
        for input in corpus(name) {
            target(&input);
        }
    }
}

/// Pseudo-random numbers (splitmix64), the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound.max(1)
    }

    /// Cuts a piece out of the input and puts another in its place: random bytes, bytes that parsers
    /// know, or a piece of another input.
    fn edit(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        const KNOWN: &[&[u8]] = &[
            b"0x",
            b"null",
            b"-1",
            b"[]",
            b"{}",
            b"\"\"",
            b",",
            b"0xffffffffffffffff",
            b"1e999",
            b"\xff\xff\xff\xff",
            b"\0\0\0\0",
            b"\xbf\xff",
            b"\xf9\xff\xff",
            b"\x80",
            b"\xc0",
        ];
        let start = self.next(input.len() + 1);
        let end = (start + self.next(9)).min(input.len());
        let piece = match self.next(3) {
            0 => (0..self.next(5)).map(|_| self.next(256) as u8).collect(),
            1 => KNOWN[self.next(KNOWN.len())].to_vec(),
            _ => {
                let from = self.next(other.len() + 1);
                other[from..(from + self.next(64)).min(other.len())].to_vec()
            }
        };
        input.splice(start..end, piece);
    }
}

fn walk(steps: usize) {
    for (name, target) in TARGETS {
        let seeds = corpus(name);
        let mut random = Random(steps as u64);
        for step in 0..steps {
            let mut input = seeds[random.next(seeds.len())].clone();
            for _ in 0..=random.next(4) {
                let other = random.next(seeds.len());
                random.edit(&mut input, &seeds[other]);
            }
            let outcome = catch_unwind(|| target(&input));
            assert!(outcome.is_ok(), "{name}, step {step}: {}", shown(&input));
        }
    }
}

fn shown(input: &[u8]) -> String {
    input.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_random_walk_around_the_corpus_finds_nothing() {
    walk(64);
}

#[test]
#[ignore = "takes minutes; for machines without the fuzzer"]
fn a_long_random_walk_around_the_corpus_finds_nothing() {
    walk(20_000);
}
