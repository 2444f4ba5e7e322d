//! Chain files that are damaged: the error says where, the exit code is 2, and the chain ends at the
//! last valid block.

use testkit::node::{Node, World, block_rlp, stderr};
/// The blocks of a chain, and its node.
fn blocks(node: &Node, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| {
            let block = block_rlp(&node.build());
            node.advance(1);
            block
        })
        .collect()
}

#[test]
fn damage_after_good_blocks_keeps_them() {
    let world = World::new();
    let good = blocks(&world.node(&[]), 2);
    let start = good.concat();
    let last = good[1].clone();
    let mut flipped = last.clone();
    // In the state root of the header.
    flipped[3 + 3 + 33 + 33 + 21 + 10] ^= 1;
    let mut claims = vec![0xfb, 0x40, 0, 0, 0];
    claims.extend([0; 100]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("cut", last[..last.len() - 1].to_vec(), "ends within it"),
        ("only a byte", vec![0xf9], "ends within it"),
        ("a gigabyte promised", claims, "ends within it"),
        ("more than any block", vec![0xff; 9], "is no block"),
        (
            "more than the address space",
            [vec![0xff], vec![0x7f; 8]].concat(),
            "is no block",
        ),
        ("a text", b"\x85hello".to_vec(), "does not begin a list"),
        ("zeros", vec![0; 1000], "does not begin a list"),
        ("an empty list", vec![0xc0], "no block"),
        (
            "lists in lists",
            [vec![0xc1; 60_000], vec![0xc0]].concat(),
            "no block",
        ),
        (
            "a long list of lists",
            [vec![0xf9, 0xff, 0xff], vec![0xc0; 0xffff]].concat(),
            "no block",
        ),
        (
            "a length with zeros",
            [vec![0xf9, 0, 1], vec![0xc0]].concat(),
            "no block",
        ),
        ("a byte flipped", flipped, "INVALID"),
    ];
    for (name, tail, expected) in cases {
        let copy = World::new();
        let path = copy.folder.path().join("chain.rlp");
        std::fs::write(&path, [&start[..], &tail].concat()).unwrap();
        let genesis = copy.genesis();
        let output = copy.run(&[
            "import",
            "--chain",
            genesis.to_str().unwrap(),
            path.to_str().unwrap(),
        ]);
        let problem = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {problem}");
        assert!(problem.contains(expected), "{name}: {problem}");
        if expected != "INVALID" {
            let place = format!("at byte {}, after block 2", start.len());
            assert!(problem.contains(&place), "{name}: {problem}");
        }
        assert_eq!(copy.node(&[]).head()["number"], "0x2", "{name}");
    }
}

#[test]
fn an_empty_file_imports_nothing() {
    let world = World::new();
    let path = world.folder.path().join("chain.rlp");
    std::fs::write(&path, []).unwrap();
    let genesis = world.genesis();
    let output = world.run(&[
        "import",
        "--chain",
        genesis.to_str().unwrap(),
        path.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(world.node(&[]).head()["number"], "0x0");
}
