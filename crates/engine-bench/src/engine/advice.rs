//! What to do about what engines say when they fail: a row for each line that is known.
//!
//! Invariant: what an engine said stays as it is; the advice follows it. The first row that fits counts, so that a
//! line of a log goes before the answers that it explains.

/// A part of a text, or several that follow `…`, and what helps.
type Row = (&'static str, &'static str);

const OTHER_STORAGE: &str = "another generation of the storage, or damage: reth 1.x and 2.x do not read each other's \
    storage.v2; give a datadir that a release of this generation made";
const MAP_FULL: &str =
    "the database reached its largest size: raise it with --set db.max-size=…, or make room";
const BUSY: &str =
    "another program has the database open, if only to look at it: close it, then run this again";

/// Lines of an engine's log, in the spellings of reth 1.11 to 2.5 and of MDBX.
const LINES: &[Row] = &[
    (
        "currently in use as read-write by another process: PID",
        "stop the process of that number first; never remove the lock of one that runs",
    ),
    ("another write transaction is running", BUSY),
    ("MDBX_BUSY", BUSY),
    (
        "is already in use (os error 98)",
        "another program took the port in between: run this again, since every start takes other ports, and if that \
         does not help find who listens (ss -ltnp)",
    ),
    (
        "Target block number…is higher than the latest block number",
        "the datadir ends below the base block, as one does whose last blocks were only in memory when its engine \
         was stopped: give --reset copy, and no --in-place",
    ),
    (
        "Cannot unwind to block…as it is beyond the",
        "its history is pruned below that block: give --reset copy with a datadir that ends at the base block, or \
         one that keeps more history",
    ),
    (
        "inconsistency was found that would trigger an unwind to block 0",
        "the datadir is damaged, as a copy is that was made while an engine ran on it: restore it, or copy it from \
         an engine that is stopped",
    ),
    (
        "genesis hash in the storage does not match",
        "the datadir is of another chain: name that with --chain, a genesis file or a name that the engine knows",
    ),
    ("failed to decode a key from a table", OTHER_STORAGE),
    (
        "incompatible with the latest database version",
        OTHER_STORAGE,
    ),
    ("environment map size limit reached", MAP_FULL),
    ("MDBX_MAP_FULL", MAP_FULL),
    (
        "No space left on device",
        "look which disk is full (df -h), the ones of --cache-dir and --out first, and make room",
    ),
];

/// What is said of answers, and of an engine that ended without a word.
const ANSWERS: &[Row] = &[
    (
        "links to previously rejected block",
        "the engine refused an ancestor of this block, and remembers that while it runs: its log says which and why; \
         the next pass starts it anew",
    ),
    (
        "was answered INVALID",
        "the payloads were made for another state or other fork rules: check --chain and --payloads",
    ),
    (
        "the base block was answered SYNCING",
        "it waits for peers, which it does not have, to tell it of a block that is its own head: the datadir is \
         damaged or half unwound; give one that is whole",
    ),
    (
        "engine_newPayload…was answered SYNCING",
        "its parent was not executed, or a pipeline runs: the engine's log says which; payloads have to build on one \
         another from the base block on",
    ),
    (
        "engine_forkchoiceUpdated…was answered SYNCING",
        "it waits for peers, which it does not have, to tell it of that block: its log says what became of the block",
    ),
    (
        "error -38002",
        "head, safe and finalized block are all the one that was named, and the engine does not have it in its \
         chain: its log says what became of it",
    ),
    (
        "requests hash cannot be accepted",
        "the payloads hold a hash of their requests instead of the list: do not switch \
         --engine.accept-execution-requests-hash off, or take a release that has it",
    ),
    (
        "testing_buildBlockV1…error -32601",
        "the engine does not serve the namespace `testing`, with which payloads are built: add it to --http.api, or \
         give --payloads",
    ),
    (
        "answered HTTP 401",
        "the engine refuses the token, which is made anew every half minute: its clock and this one's are more than 60 s \
         apart, or another program answers on its port",
    ),
    (
        "of block…did not answer within",
        "where the engine's log shows that it works on the block, give a longer --request-timeout",
    ),
    (
        "was not ready after…says that it is syncing",
        "the datadir is not at its head, as after an unwind or a save that was cut short: unwind it to its end \
         (stage unwind to-block N), or give one that is whole",
    ),
    (
        "was not ready after",
        "where its log shows progress, give a longer --ready-timeout",
    ),
    (
        "(signal: 9",
        "something killed it, as the kernel does where memory runs out (dmesg tells)",
    ),
    (
        "engine_…ended by itself",
        "it crashed over these payloads: its log says where; report it to its authors, or leave the cell out with \
         --exclude",
    ),
    (
        "ended by itself",
        "its log says why, often a flag or a value that it does not take together with another",
    ),
    (
        "after the reset the head is block",
        "the reset does not bring this state back: try --reset copy, and look for what else writes the datadir",
    ),
    (
        "the visit was given up after",
        "the engine hangs, or is far slower in this cell: its log is in the folder of the visit",
    ),
    (
        "did not stop within",
        "it hangs at its end: its log says over what; the next pass begins with a reset",
    ),
];

/// Whether a line of a log says why an engine failed.
pub(super) fn is_known(line: &str) -> bool {
    advice_of(LINES, line).is_some()
}

/// A text whose first line tells what failed, with what to do about it at the end of that line where it is known.
pub(crate) fn advised(text: &str) -> String {
    let Some(advice) = advice_of(LINES, text).or_else(|| advice_of(ANSWERS, text)) else {
        return text.to_owned();
    };
    match text.split_once('\n') {
        Some((cause, log)) => format!("{cause}; {advice}\n{log}"),
        None => format!("{text}; {advice}"),
    }
}

fn advice_of(rows: &[Row], text: &str) -> Option<&'static str> {
    // Where the next part ends.
    let end_of = |from: usize, part: &str| Some(from + text[from..].find(part)? + part.len());
    let fits = |mark: &str| mark.split('…').try_fold(0, end_of).is_some();
    let row = rows.iter().find(|(mark, _)| fits(mark));
    row.map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_what_failed_and_a_log_goes_before_an_answer() {
        for (text, begins) in [
            ("failed\nlog", "failed\nlog"),
            (
                "engine_newPayloadV4 of block 6: did not answer within 1s\nError: No space left on device (28)",
                "engine_newPayloadV4 of block 6: did not answer within 1s; look which disk is full",
            ),
            (
                "failed to call testing_buildBlockV1: error -32601: Method not found",
                "failed to call testing_buildBlockV1: error -32601: Method not found; the engine does not serve",
            ),
            (
                "error -32601 of testing_buildBlockV1",
                "error -32601 of testing_buildBlockV1",
            ),
        ] {
            let found = advised(text);
            assert!(found.starts_with(begins), "{found}");
            assert_eq!(found.contains("; "), begins.contains("; "), "{found}");
            assert_eq!(found.lines().count(), text.lines().count(), "{found}");
        }
    }

    #[test]
    fn no_row_is_hidden_by_one_before_it() {
        for rows in [LINES, ANSWERS] {
            for (mark, advice) in rows {
                assert_eq!(
                    advice_of(rows, &mark.replace('…', " 7 ")),
                    Some(*advice),
                    "{mark}"
                );
            }
        }
    }
}
