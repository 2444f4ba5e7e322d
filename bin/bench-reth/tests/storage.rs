//! What the program says and leaves when its disk is full, cut, locked or not its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};
use testkit::{
    busy::{self, Chain, TRUNK},
    node::{Node, World, stderr},
    skip, wait_for,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_bench-reth");

/// The chain and its file, built once for all tests.
static BUSY: LazyLock<(World, Chain)> = LazyLock::new(|| {
    let world = World::new();
    let chain = Chain::build(&world);
    fs::write(world.folder.path().join("chain.rlp"), chain.trunk_rlp()).unwrap();
    (world, chain)
});

/// A world on the busy chain, still without datadir, with the chain's file beside the genesis.
fn busy_world() -> (World, PathBuf) {
    let world = World::new();
    let file = world.folder.path().join("chain.rlp");
    fs::write(world.genesis(), busy::genesis().to_string()).unwrap();
    fs::copy(BUSY.0.folder.path().join("chain.rlp"), &file).unwrap();
    (world, file)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Asserts the exit code and that the text holds every one of `words`, on one line.
#[track_caller]
fn ended(output: &Output, code: i32, words: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

/// Runs a command whose files may not grow above `limit_bytes`. The signal that comes with such a
/// failure is ignored, so that the program sees the error a full disk gives.
fn limited(world: &World, limit_bytes: u64, arguments: &[&str]) -> Output {
    let blocks = (limit_bytes / 512).to_string();
    Command::new("/bin/sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f $0; exec \"$@\"",
            &blocks,
            PROGRAM,
        ])
        .args(arguments)
        .args(["--datadir", path(&world.datadir())])
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

/// The report of `db verify`, which must find nothing.
#[track_caller]
fn verified(world: &World) -> Value {
    let output = world.run(&["db", "verify", "--json", "--chain", path(&world.genesis())]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    serde_json::from_str(&text).unwrap()
}

const FULL: &str = "the largest file size allowed is reached";
const SMALL_STEPS: [&str; 2] = ["--db.growth-step", "1MB"];

#[test]
fn a_real_datadir_verifies_after_blocks_unwind_and_restart() {
    let world = World::new();
    let node = world.node(&[]);
    node.advance(5);
    let head = node.head();
    // A snapshot is verified beside the running node, which may not have persisted everything yet.
    assert!(verified(&world)["head"].as_u64().unwrap() <= 5);
    node.terminate();
    let report = verified(&world);
    assert_eq!(report["head"], 5);
    assert_eq!(report["head_hash"], head["hash"]);
    assert_eq!(report["state_root"], head["stateRoot"]);
    let unwound = world.run(&["stage", "unwind", "to-block", "2"]);
    assert!(unwound.status.success(), "{}", stderr(&unwound));
    assert_eq!(verified(&world)["head"], 2);
    let text = world.run(&["db", "verify"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.trim_end().ends_with(": nothing is wrong"), "{text}");

    // The same database under another chain's rules.
    fs::write(world.genesis(), busy::genesis().to_string()).unwrap();
    let other = world.run(&["db", "verify", "--chain", path(&world.genesis())]);
    assert_eq!(other.status.code(), Some(1));
    let text = String::from_utf8(other.stdout).unwrap();
    assert!(
        text.starts_with("CanonicalHeaders 0: is not the genesis"),
        "{text}"
    );
}

#[test]
fn a_generated_state_verifies() {
    let world = World::new();
    let made = world.run(&["init", "--profile", "large:2000:10000"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let output = world.run(&["db", "verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_verification_that_cannot_be_made_is_not_a_verdict() {
    let world = World::new();
    let output = world.run(&["db", "verify", "--chain", path(&world.genesis())]);
    ended(&output, 2, &["holds no initialised database"]);
}

#[test]
fn init_without_room_says_so_and_works_with_room() {
    let (world, _) = busy_world();
    let genesis = world.genesis();
    let arguments = [&["init", "--chain", path(&genesis)], &SMALL_STEPS[..]].concat();
    ended(
        &limited(&world, 64 << 10, &arguments),
        2,
        &[FULL, "raise the limit"],
    );
    let again = world.run(&arguments);
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(verified(&world)["head"], 0);
}

#[test]
fn import_without_room_keeps_what_was_persisted_and_continues_with_room() {
    let (world, file) = busy_world();
    let genesis = world.genesis();
    let head = [
        "import",
        "--chain",
        path(&genesis),
        "--engine.persistence-threshold",
        "0",
    ];
    let arguments = [&head[..], &SMALL_STEPS, &[path(&file)]].concat();
    let output = limited(&world, 2 << 20, &arguments);
    ended(
        &output,
        2,
        &["persist blocks", FULL, "Nothing persisted before is lost"],
    );
    let kept = verified(&world)["head"].as_u64().unwrap();
    assert!(kept < TRUNK, "{kept}");
    let again = world.run(&arguments);
    assert!(again.status.success(), "{}", stderr(&again));
    let report = verified(&world);
    let tip = BUSY.1.block(false, TRUNK).unwrap();
    assert_eq!(report["head"], TRUNK);
    assert_eq!(
        (&report["head_hash"], &report["state_root"]),
        (&json!(tip.hash), &json!(tip.root))
    );
}

#[test]
fn the_size_limit_of_the_database_is_named_with_its_flag() {
    let (world, file) = busy_world();
    let genesis = world.genesis();
    let head = [
        "import",
        "--chain",
        path(&genesis),
        "--db.max-size",
        "1500KB",
    ];
    let output = world.run(&[&head[..], &SMALL_STEPS, &[path(&file)]].concat());
    ended(
        &output,
        2,
        &["the largest database size is reached", "--db.max-size"],
    );
    verified(&world);
}

#[test]
fn unwind_without_room_changes_nothing() {
    let (world, file) = busy_world();
    let imported = world.run(&["import", "--chain", path(&world.genesis()), path(&file)]);
    assert!(imported.status.success(), "{}", stderr(&imported));
    let output = limited(&world, 8 << 10, &["stage", "unwind", "to-block", "3"]);
    ended(&output, 2, &[FULL]);
    let report = verified(&world);
    let again = world.run(&["stage", "unwind", "to-block", "3"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(report["head"], TRUNK);
    assert_eq!(verified(&world)["head"], 3);
}

/// Runs a node under a file size limit.
fn limited_node(world: &World, limit_bytes: u64) -> Node {
    let blocks = limit_bytes / 512;
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, PROGRAM]);
    world.node_of(
        shell,
        &[
            "--engine.persistence-threshold",
            "0",
            "--db.growth-step",
            "1MB",
        ],
    )
}

/// Makes a block of the trunk the head, with safe and finalized blocks behind it.
fn make_head(node: &Node, chain: &Chain, number: u64) {
    let params = json!([chain.forkchoice(false, number), null]);
    let updated = node.engine("engine_forkchoiceUpdatedV3", params).unwrap();
    assert_eq!(updated["payloadStatus"]["status"], "VALID", "{updated}");
}

#[test]
fn a_node_without_room_answers_why_ends_and_goes_on_with_room() {
    let (world, _) = busy_world();
    let chain = &BUSY.1;
    let node = limited_node(&world, 2 << 20);
    let mut refusal = None;
    for number in 1..=TRUNK {
        let block = chain.block(false, number).unwrap();
        match node.try_new_payload(&block.envelope) {
            Ok(status) => assert_eq!(status["status"], "VALID"),
            Err(error) => {
                refusal = Some(error);
                break;
            }
        }
        make_head(&node, chain, number);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Persistence fails in the background, perhaps after the last block: payloads are refused from then on.
    let again = chain.block(false, TRUNK).unwrap();
    let refused = || node.try_new_payload(&again.envelope).err();
    let refusal = refusal.unwrap_or_else(|| wait_for("persistence to fail", refused));
    let refusal = refusal.to_string();
    assert!(
        refusal.contains("persist blocks") && refusal.contains(FULL),
        "{refusal}"
    );
    assert_eq!(node.process.end().code, Some(2));
    let kept = verified(&world)["head"].as_u64().unwrap();
    let node = world.node(&[]);
    for number in kept + 1..=TRUNK {
        let block = chain.block(false, number).unwrap();
        assert_eq!(node.new_payload(&block.envelope)["status"], "VALID");
        make_head(&node, chain, number);
    }
    node.terminate();
    assert_eq!(
        verified(&world)["head_hash"],
        chain.block(false, TRUNK).unwrap().hash
    );
}

/// A disk of its own in a mount namespace, too small first, then grown.
#[test]
fn a_full_disk_is_told_from_other_failures() {
    let (world, file) = busy_world();
    let disk = world.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let script = r#"
        mount -t tmpfs -o size=2m none "$1" || exit 77
        import="$2 import --chain $3 --db.growth-step 1MB --engine.persistence-threshold 0 --datadir $1/data $4"
        $import >/dev/null; echo "first $?" >&2
        mount -o remount,size=256m "$1"
        $import >/dev/null 2>&1; echo "second $?" >&2
        $2 db verify --datadir "$1/data" >&2; echo "verified $?" >&2
    "#;
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .args([path(&disk), PROGRAM, path(&world.genesis()), path(&file)])
        .env_remove("RUST_LOG")
        .output();
    let text = match &output {
        Ok(output) if output.status.code() != Some(77) => stderr(output),
        other => return skip(&format!("no mount namespace: {other:?}")),
    };
    if text.starts_with("unshare: ") {
        return skip(&format!("no mount namespace: {}", text.trim()));
    }
    for expected in [
        "no space is left on the disk",
        "free some space",
        "first 2\n",
        "second 0\n",
        "nothing is wrong",
        "verified 0\n",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

/// A datadir with a few blocks, and its database file.
fn datadir_with_blocks() -> (World, PathBuf) {
    let world = World::new();
    let node = world.node(&[]);
    node.advance(3);
    node.terminate();
    let file = world.datadir().join("db/mdbx.dat");
    (world, file)
}

#[test]
fn a_torn_database_file_is_refused_and_left_alone() {
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(4096 * 20);
    let garbage = |bytes: &mut Vec<u8>| bytes[..3 * 4096].fill(0xa5);
    let text = |bytes: &mut Vec<u8>| *bytes = b"not a database\n".repeat(2000);
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);
    for (damage, expected) in [
        (&cut as Damage<'_>, "it was cut short"),
        (&garbage, "does not begin as an MDBX file"),
        (&text, "does not begin as an MDBX file"),
    ] {
        let (world, file) = datadir_with_blocks();
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes);
        fs::write(&file, &bytes).unwrap();
        for arguments in [
            &["db", "verify"][..],
            &["stage", "unwind", "to-block", "1"],
            &["node", "--with-unused-ports"],
            &["init"],
        ] {
            ended(&world.run(arguments), 2, &[expected, "Nothing was changed"]);
            assert!(
                fs::read(&file).unwrap() == bytes,
                "{arguments:?} changed the file"
            );
        }
    }
}

#[test]
fn damaged_pages_are_a_finding_and_no_crash() {
    let (world, file) = datadir_with_blocks();
    let whole = fs::read(&file).unwrap();
    let used = whole.len().min(4096 * 120);
    for page in (3..used / 4096).step_by(7) {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(&file, &bytes).unwrap();
        let output = world.run(&["db", "verify"]);
        let code = output.status.code();
        assert!(
            matches!(code, Some(0..=2)),
            "page {page}: {:?} {}",
            output.status,
            stderr(&output)
        );
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
}

#[test]
fn leftovers_of_an_interrupted_init_are_no_obstacle() {
    let (world, _) = busy_world();
    let db = world.datadir().join("db");
    fs::create_dir_all(&db).unwrap();
    for leftover in [
        "db/database.version.new",
        "db/mdbx.dat",
        "db/lock",
        "chain.json.new",
        "jwt.hex",
    ] {
        fs::write(world.datadir().join(leftover), "").unwrap();
    }
    let made = world.run(&["init", "--chain", path(&world.genesis())]);
    assert!(made.status.success(), "{}", stderr(&made));
    world.node(&[]).advance(1);
}

#[test]
fn a_datadir_of_another_version_is_named() {
    let (world, _) = datadir_with_blocks();
    fs::write(world.datadir().join("db/database.version"), "3").unwrap();
    let words = [
        "database.version says version \"3\"",
        "only version \"2\" is supported",
    ];
    ended(&world.run(&["stage", "unwind", "to-block", "1"]), 1, &words);
    ended(&world.run(&["db", "verify"]), 2, &words);
}

/// Runs the program as somebody who is not root, if this is root.
fn unprivileged(world: &World, arguments: &[&str]) -> Output {
    let program = world.folder.path().join("bench-reth");
    if !program.exists() {
        // By another process: a file that this one writes cannot be executed while another
        // test's child, which has it open too, is on its way to its own program.
        let copied = Command::new("cp").arg(PROGRAM).arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .args(["--datadir", path(&world.datadir())])
        .env_remove("RUST_LOG");
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    command.output().unwrap()
}

fn set_modes(folder: &Path, file_mode: u32, folder_mode: u32) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            set_modes(&entry, file_mode, folder_mode);
        } else {
            fs::set_permissions(&entry, fs::Permissions::from_mode(file_mode)).unwrap();
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(folder_mode)).unwrap();
}

#[test]
fn a_datadir_without_permission_is_named() {
    let (world, _) = datadir_with_blocks();
    fs::set_permissions(world.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    set_modes(&world.datadir(), 0o444, 0o555);
    let denied = |arguments: &[&str], code| {
        let output = unprivileged(&world, arguments);
        ended(&output, code, &["ermission denied", path(&world.datadir())]);
    };
    denied(&["stage", "unwind", "to-block", "1"], 1);
    denied(&["node", "--with-unused-ports"], 1);
    set_modes(&world.datadir(), 0o000, 0o555);
    denied(&["db", "verify"], 2);
    set_modes(&world.datadir(), 0o644, 0o755);
    assert_eq!(verified(&world)["head"], 3);
}
