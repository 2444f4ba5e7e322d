//! Files: genesis, payloads, and everything the harness writes and reads again.

use engine_api::PayloadFile;
use engine_bench::{
    plan::Plan,
    record::{journal, log, sample},
    sweep::{Axis, ChunkList, Gas, GasList, WarmUp, duration},
};
use node::chainspec::ChainSpec;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};
use tempfile::TempDir;

/// A folder for the parsers that read files by their path, one for each thread of a test.
fn folder() -> TempDir {
    static MEMORY: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let memory = Path::new("/dev/shm");
        memory.is_dir().then(|| memory.to_owned())
    });
    let made = match MEMORY.as_ref() {
        Some(memory) => tempfile::tempdir_in(memory),
        None => tempfile::tempdir(),
    };
    made.unwrap_or_else(|error| panic!("no temporary folder: {error}"))
}

fn file(bytes: &[u8], name: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join(name), bytes)
        .unwrap_or_else(|error| panic!("no temporary file: {error}"));
    folder
}

/// A genesis file that is taken answers every question about its chain.
pub(crate) fn genesis(bytes: &[u8]) {
    let Ok(json) = str::from_utf8(bytes) else {
        return;
    };
    let Ok(chain) = ChainSpec::from_json(json) else {
        return;
    };
    let header = chain.genesis_header();
    assert_eq!(chain.genesis_hash(), header.hash_slow());
    chain.next_base_fee(header);
    for timestamp in [0, header.timestamp, u64::MAX] {
        chain.blob_params_at(timestamp);
    }
}

/// A payload file is written as it was read, and the requests made of it are JSON.
pub(crate) fn payload_file(bytes: &[u8]) {
    let path = Path::new("payload.json");
    let Ok(payload) = PayloadFile::parse(path, bytes) else {
        return;
    };
    let json = payload
        .to_json()
        .unwrap_or_else(|error| panic!("{payload:?}: {error}"));
    let again = PayloadFile::parse(path, &json)
        .unwrap_or_else(|error| panic!("what was written does not read: {error}"));
    assert_eq!(format!("{again:?}"), format!("{payload:?}"));
    // Transactions that do not decode make it unfit, no more.
    let _ = payload.prepare(path);
}

/// A journal reads or says why not, cut anywhere.
pub(crate) fn journal(bytes: &[u8]) {
    let folder = file(bytes, journal::JOURNAL_FILE);
    let Ok(records) = journal::read(folder.path()) else {
        return;
    };
    for record in records {
        let line = serde_json::to_string(&record).unwrap_or_else(|e| panic!("{record:?}: {e}"));
        assert!(!line.contains('\n'), "one event a line");
    }
}

/// A plan that reads is written in a form that reads the same.
pub(crate) fn plan(bytes: &[u8]) {
    let folder = file(bytes, "plan.json");
    let Ok(plan) = Plan::read(folder.path()) else {
        return;
    };
    let json = plan.to_json().unwrap_or_else(|e| panic!("{e}"));
    let again = file(json.as_bytes(), "plan.json");
    let again = Plan::read(again.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.to_json().ok(), Some(json));
}

/// Samples that read are written so that they read the same.
pub(crate) fn samples(bytes: &[u8]) {
    let folder = file(bytes, "samples.csv");
    let Ok(samples) = sample::read_samples(folder.path()) else {
        return;
    };
    let again = self::folder();
    sample::write_pass(again.path(), &samples).unwrap_or_else(|e| panic!("{e}"));
    let again = sample::read_samples(again.path()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(format!("{again:?}"), format!("{samples:?}"));
}

/// A log is read whatever is in it.
pub(crate) fn log_lines(bytes: &[u8]) {
    let folder = file(bytes, "engine.log");
    if let Err(error) = log::read_log(&folder.path().join("engine.log")) {
        panic!("{error}");
    }
}

/// Values of the command line read, or say why not; what they print reads the same.
pub(crate) fn sweep_values(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let _ = (text.parse::<Axis>(), text.parse::<ChunkList>());
    let _ = (text.parse::<WarmUp>(), duration(text, "m"));
    let _ = text.parse::<GasList>();
    if let Ok(gas) = text.parse::<Gas>() {
        assert_eq!(gas.to_string().parse::<Gas>().ok(), Some(gas));
    }
}
