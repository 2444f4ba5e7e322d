//! Kills the real program at random instants and looks at what it left.
//!
//!     cargo test --release -p bench-reth --test kill -- --kills 200 --seed 7
//!
//! Each round starts `node`, `import`, `stage unwind` or `init`, sends SIGKILL (after a time drawn
//! uniformly, or aimed just behind a fork choice that starts persistence), and checks: `db verify`
//! finds nothing; the head is no lower than the last block reported as persisted and no higher than
//! the last one sent; the next start goes on from there. In the end the chain is replayed to its
//! tip, whose hash and state root are those of the run that built it without interruption.
//!
//! The seed decides what is done and when; what a kill meets also depends on the machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod supervisor;

use std::process::ExitCode;
use supervisor::Supervisor;

/// Kills of a run without flags.
const KILLS: u64 = 20;

struct Arguments {
    kills: u64,
    seed: u64,
}

/// Flags of this program; those of the usual test harness are accepted and ignored. `None` when
/// other tests were asked for.
fn arguments() -> Option<Arguments> {
    let mut seed = std::process::id().into();
    let mut kills = KILLS;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok()).expect("a number");
        match word.as_str() {
            "--kills" => kills = number(),
            "--seed" => seed = number(),
            "--list" => return None,
            filter if !filter.starts_with('-') && !"kill".contains(filter) => return None,
            _ => {}
        }
    }
    Some(Arguments { kills, seed })
}

fn main() -> ExitCode {
    let Some(Arguments { kills, seed }) = arguments() else {
        return ExitCode::SUCCESS;
    };
    println!("kill: {kills} kills, seed {seed}");
    let mut supervisor = Supervisor::new(seed);
    while supervisor.figures.kills() < kills {
        supervisor.round();
        if supervisor.figures.kills().is_multiple_of(20) {
            println!("{}", supervisor.figures);
        }
    }
    supervisor.finish();
    println!("{}; nothing inconsistent; seed {seed}", supervisor.figures);
    ExitCode::SUCCESS
}
