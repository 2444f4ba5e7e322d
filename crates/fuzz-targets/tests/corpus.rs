//! Every input that is checked in, and a short random walk around each, through the same targets as
//! the fuzzer.

use fuzz_targets::{TARGETS, run};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Random changes of the corpus of each target.
const WALKS: u32 = 64;

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

/// One change: cut a piece out, put bytes in its place.
fn edit(mut input: Vec<u8>, at: usize, length: usize, with: &[u8]) -> Vec<u8> {
    let start = at.min(input.len());
    let end = start.saturating_add(length).min(input.len());
    input.splice(start..end, with.iter().copied());
    input
}

#[test]
fn a_random_walk_around_the_corpus_finds_nothing() {
    for (name, _) in TARGETS {
        let seeds = corpus(name);
        let edits = vec(
            (
                any::<prop::sample::Index>(),
                0..9_usize,
                vec(any::<u8>(), 0..9),
            ),
            1..4,
        );
        let inputs = (prop::sample::select(seeds), edits).prop_map(|(seed, edits)| {
            edits.into_iter().fold(seed, |input, (at, length, with)| {
                let at = at.index(input.len() + 1);
                edit(input, at, length, &with)
            })
        });
        let mut runner = TestRunner::new(ProptestConfig {
            cases: WALKS,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        runner
            .run(&inputs, |input| {
                run(name, &input);
                Ok(())
            })
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
}
