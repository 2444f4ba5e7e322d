//! The rounds of the kill test, and the state the datadir must be in between them.

use serde_json::{Value, json};
use std::{
    fmt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use testkit::{
    Signal,
    busy::{BRANCH, Chain, Draws, FORK, TRUNK},
    http,
    node::{Node, World, ZERO, program, stderr},
    send_signal,
};

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    replay: u64,
    start: u64,
    import: u64,
    unwind: u64,
    init: u64,
    /// Commands that ended before their kill came.
    finished: u64,
    restarts: u64,
    reorgs: u64,
    finished_unwinds: u64,
    resent: u64,
    verified: u64,
}

impl Figures {
    pub(crate) fn kills(&self) -> u64 {
        self.replay + self.start + self.import + self.unwind + self.init
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills (replay {}, start {}, import {}, unwind {}, init {}), {} commands faster \
             than their kill, {} restarts, {} reorgs, {} cut unwinds finished by \
             the next start, {} blocks sent again, {} verifications",
            self.kills(),
            self.replay,
            self.start,
            self.import,
            self.unwind,
            self.init,
            self.finished,
            self.restarts,
            self.reorgs,
            self.finished_unwinds,
            self.resent,
            self.verified
        )
    }
}

/// What `db verify --json` says of a datadir in which nothing is wrong.
struct Verified {
    head: u64,
    hash: String,
    /// The target of an unwind that was cut.
    pending: Option<u64>,
}

pub(crate) struct Supervisor {
    world: World,
    chain: Chain,
    draws: Draws,
    pub(crate) figures: Figures,
    /// The head that the next start must have.
    head: u64,
    on_branch: bool,
}

impl Supervisor {
    pub(crate) fn new(seed: u64) -> Self {
        let world = World::new();
        let chain = Chain::build(&world);
        std::fs::write(world.folder.path().join("chain.rlp"), chain.trunk_rlp()).unwrap();
        Self {
            world,
            chain,
            draws: Draws(seed),
            figures: Figures::default(),
            head: 0,
            on_branch: false,
        }
    }

    /// One command and one kill.
    pub(crate) fn round(&mut self) {
        let tip = if self.on_branch { BRANCH } else { TRUNK };
        match self.draws.below(20) {
            _ if self.head == tip => self.unwind(),
            0..10 => self.replay(),
            10..12 => self.start(),
            12..15 if !self.on_branch => self.import(),
            12..18 if self.head > 0 => self.unwind(),
            _ => self.init(),
        }
    }

    /// Replays everything that is left, without a kill, and compares the end.
    pub(crate) fn finish(&mut self) {
        if self.on_branch && self.head > FORK {
            let output = self
                .world
                .run(&["stage", "unwind", "to-block", &FORK.to_string()]);
            assert!(output.status.success(), "{}", stderr(&output));
            self.head = FORK;
        }
        self.on_branch = false;
        let node = self.node(&[]);
        for number in self.head + 1..=TRUNK {
            let sent = send(&node, &self.chain, false, number);
            assert_eq!(sent, Some(true), "block {number}");
        }
        let head = node.head();
        let tip = self.chain.block(false, TRUNK).unwrap();
        assert_eq!(head["hash"], tip.hash);
        assert_eq!(head["stateRoot"], tip.root);
        let (code, log) = node.terminate();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(self.verify(&self.world.datadir()).head, TRUNK);
        self.figures.verified += 1;
    }

    /// A node that has to go on where the last one was.
    fn node(&mut self, flags: &[&str]) -> Node {
        let node = self.world.node(flags);
        self.figures.restarts += 1;
        let head = node.head();
        assert_eq!(
            head["number"],
            json!(format!("{:#x}", self.head)),
            "head after a restart"
        );
        if let Some(block) = self.chain.block(self.on_branch, self.head) {
            assert_eq!(head["hash"], block.hash);
            assert_eq!(head["stateRoot"], block.root);
        }
        node
    }

    /// Sends blocks to a node with random persistence thresholds until it is killed.
    fn replay(&mut self) {
        let threshold = [0, 0, 1, 2, 5][self.draws.below(5) as usize].to_string();
        let buffer = self.draws.below(3).to_string();
        let mut node = self.node(&[
            "--engine.persistence-threshold",
            &threshold,
            "--engine.memory-block-buffer-target",
            &buffer,
        ]);
        let reported = watch_persisted(&node.ws);
        let from = (self.on_branch, self.head);
        // Aimed at a batch just begun, or anywhere.
        let aimed = self.draws.below(2) == 0;
        let blocks = 1 + self.draws.below(12);
        let delay = Duration::from_micros(self.draws.below(if aimed { 12_000 } else { 900_000 }));
        let killer = (!aimed).then(|| kill_after(node.process.id(), delay));
        let reorg_at = self.draws.below(3 * blocks);
        let mut sent = from;
        let mut reorged = false;
        for done in 0.. {
            if aimed && done == blocks {
                std::thread::sleep(delay);
                break;
            }
            if done == reorg_at && sent.1 > FORK && sent.1 < BRANCH {
                reorged = true;
                let Some(moved) = self.reorg(&node, &mut sent) else {
                    break;
                };
                self.figures.reorgs += u64::from(moved);
                continue;
            }
            if self.chain.block(sent.0, sent.1 + 1).is_none() {
                break;
            }
            // It may be taken although the answer is lost.
            sent.1 += 1;
            if send(&node, &self.chain, sent.0, sent.1).is_none() {
                break;
            }
        }
        match killer {
            Some(killer) => killer.join().unwrap(),
            None => node.kill(),
        }
        drop(node);
        self.figures.replay += 1;
        let left = self.settle();
        assert!(
            left.head <= sent.1.max(from.1),
            "{} is above the last block sent",
            left.head
        );
        let reported = reported.load(Ordering::SeqCst);
        assert!(
            reorged || left.head >= reported,
            "block {reported} was reported as persisted, the head is {}",
            left.head
        );
        self.figures.resent += sent.1.saturating_sub(left.head);
    }

    /// Makes a block of the other branch the head; `None` when the node is gone. A node that does
    /// not follow stays where it is.
    fn reorg(&mut self, node: &Node, at: &mut (bool, u64)) -> Option<bool> {
        let other = !at.0;
        for number in FORK + 1..=at.1 + 1 {
            let block = self.chain.block(other, number)?;
            payload(node, &block.envelope)?;
        }
        let state = self.chain.forkchoice(other, at.1 + 1);
        let answer = ask(node, "engine_forkchoiceUpdatedV3", json!([state, null]))?;
        let moved = answer["result"]["payloadStatus"]["status"] == "VALID";
        if moved {
            *at = (other, at.1 + 1);
        }
        Some(moved)
    }

    /// Kills a node that is starting.
    fn start(&mut self) {
        let chain = self.world.genesis();
        let arguments = [
            "node",
            "--with-unused-ports",
            "--chain",
            chain.to_str().unwrap(),
        ];
        let mut child = self.spawn(&arguments, &self.world.datadir());
        std::thread::sleep(Duration::from_micros(self.draws.below(400_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        self.figures.start += 1;
        let before = self.head;
        assert_eq!(self.settle().head, before);
    }

    fn import(&mut self) {
        let (chain, file) = (
            self.world.genesis(),
            self.world.folder.path().join("chain.rlp"),
        );
        let arguments = [
            "import",
            "--engine.persistence-threshold",
            "0",
            "--chain",
            chain.to_str().unwrap(),
            file.to_str().unwrap(),
        ];
        let mut child = self.spawn(&arguments, &self.world.datadir());
        let killed = self.cut(&mut child, 1_500_000);
        self.figures.import += u64::from(killed);
        let before = self.head;
        let left = self.settle();
        assert!(
            (before..=TRUNK).contains(&left.head),
            "{before} to {}",
            left.head
        );
        assert!(killed || left.head == TRUNK);
        self.figures.resent += TRUNK - left.head;
    }

    fn unwind(&mut self) {
        let (before, target) = (self.head, self.draws.below(self.head));
        let block = target.to_string();
        let arguments = ["stage", "unwind", "to-block", &block];
        let mut child = self.spawn(&arguments, &self.world.datadir());
        let killed = self.cut(&mut child, 250_000);
        self.figures.unwind += u64::from(killed);
        let left = self.settle();
        assert!(
            [before, target].contains(&left.head),
            "{before} to {target}: {}",
            left.head
        );
        assert!(killed || left.head == target);
        assert!(
            left.pending
                .is_none_or(|pending| pending == target && left.head == before)
        );
    }

    /// Kills the making of another datadir, and makes it again.
    fn init(&mut self) {
        let datadir = self.world.folder.path().join("new");
        let chain = self.world.genesis();
        let from_file = ["init", "--chain", chain.to_str().unwrap()];
        let generated = ["init", "--profile", "large:2000:10000"];
        let arguments = if self.draws.below(2) == 0 {
            from_file
        } else {
            generated
        };
        let mut child = self.spawn(&arguments, &datadir);
        let killed = self.cut(&mut child, 300_000);
        self.figures.init += u64::from(killed);
        if killed {
            let again = self.command(&arguments, &datadir).output().unwrap();
            let text = stderr(&again);
            let complete = text.contains("already holds a chain");
            assert!(again.status.success() || complete, "{text}");
        }
        assert_eq!(self.verify(&datadir).head, 0);
        self.figures.verified += 1;
        std::fs::remove_dir_all(datadir).unwrap();
    }

    /// Verifies the datadir and takes note of where its chain is.
    fn settle(&mut self) -> Verified {
        let left = self.verify(&self.world.datadir());
        self.figures.verified += 1;
        self.head = left.head;
        let is = |on_branch| {
            let block = self.chain.block(on_branch, left.head);
            block.is_some_and(|block| block.hash == left.hash)
        };
        self.on_branch = left.head > FORK && is(true);
        assert!(
            left.head == 0 || is(self.on_branch),
            "head {} {}",
            left.head,
            left.hash
        );
        if let Some(target) = left.pending {
            self.head = target;
            self.on_branch &= target > FORK;
            // The next start finishes it.
            self.node(&[]).terminate();
            let finished = self.verify(&self.world.datadir());
            assert_eq!((finished.head, finished.pending), (target, None));
            self.figures.verified += 1;
            self.figures.finished_unwinds += 1;
        }
        left
    }

    fn verify(&self, datadir: &Path) -> Verified {
        let output = self
            .command(&["db", "verify", "--json"], datadir)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let clean = output.status.code() == Some(0);
        assert!(
            clean,
            "db verify: {text}{}\n{}",
            stderr(&output),
            self.figures
        );
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["findings"], json!([]));
        let notes = report["notes"].to_string();
        Verified {
            head: report["head"].as_u64().unwrap(),
            hash: report["head_hash"].as_str().unwrap().to_owned(),
            pending: notes.split_once("an unwind to block ").map(|(_, rest)| {
                let digits = rest.split(' ').next();
                digits.and_then(|target| target.parse().ok()).unwrap()
            }),
        }
    }

    fn command(&self, arguments: &[&str], datadir: &Path) -> Command {
        let mut command = program();
        command.args(arguments).arg("--datadir").arg(datadir);
        command
    }

    fn spawn(&self, arguments: &[&str], datadir: &Path) -> Child {
        let mut command = self.command(arguments, datadir);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Kills a command within some time; false when it had ended (well) before.
    fn cut(&mut self, child: &mut Child, within_us: u64) -> bool {
        std::thread::sleep(Duration::from_micros(self.draws.below(within_us)));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let done = ended.is_some() || status.success();
        assert!(!done || status.success(), "{status}");
        self.figures.finished += u64::from(done);
        !done
    }
}

/// Kills a process that is not waited for meanwhile.
fn kill_after(process: u32, delay: Duration) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        send_signal(process, Signal::SIGKILL);
    })
}

/// The highest block that the node has announced as persisted, for as long as it lives.
fn watch_persisted(address: &str) -> Arc<AtomicU64> {
    let highest = Arc::new(AtomicU64::new(0));
    let (noted, url) = (highest.clone(), format!("ws://{address}"));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let Ok(mut persisted) = engine_api::subscribe::subscribe_persisted(&url).await else {
                return;
            };
            while let Ok(block) = persisted.next().await {
                noted.fetch_max(block.number, Ordering::SeqCst);
            }
        });
    });
    highest
}

/// Sends a block and makes it the head; `None` when the node is gone.
fn send(node: &Node, chain: &Chain, on_branch: bool, number: u64) -> Option<bool> {
    let block = chain.block(on_branch, number)?;
    let status = payload(node, &block.envelope)?;
    assert_eq!(
        status["result"]["status"], "VALID",
        "block {number}: {status}"
    );
    let state = chain.forkchoice(on_branch, number);
    let answer = ask(node, "engine_forkchoiceUpdatedV3", json!([state, null]))?;
    let status = &answer["result"]["payloadStatus"]["status"];
    assert_eq!(status, "VALID", "fork choice {number}: {answer}");
    Some(true)
}

fn payload(node: &Node, envelope: &Value) -> Option<Value> {
    let params = json!([
        envelope["executionPayload"],
        [],
        ZERO,
        envelope["executionRequests"]
    ]);
    ask(node, "engine_newPayloadV4", params)
}

/// Asks the auth port; `None` when the node is gone before it has answered.
fn ask(node: &Node, method: &str, params: Value) -> Option<Value> {
    http::call_raw(&node.auth, &[&node.token()], method, &params)
}
