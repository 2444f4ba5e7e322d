//! Random programs: statements that leave the stack as they found it, so that most of them run.
//!
//! Some opcodes are younger than the oldest fork a chain begins with; a program that meets one too
//! early stops there, which both engines must see alike.

use crate::dice::Dice;
use alloy_primitives::{Address, Bytes, U256};

mod op {
    //! Opcodes by their names (Ethereum yellow paper, appendix H, and later EIPs).
    pub(super) const STOP: u8 = 0x00;
    pub(super) const ADD: u8 = 0x01;
    pub(super) const MUL: u8 = 0x02;
    pub(super) const SUB: u8 = 0x03;
    pub(super) const ADDMOD: u8 = 0x08;
    pub(super) const MULMOD: u8 = 0x09;
    pub(super) const EXP: u8 = 0x0a;
    pub(super) const EQ: u8 = 0x14;
    pub(super) const ISZERO: u8 = 0x15;
    pub(super) const KECCAK256: u8 = 0x20;
    pub(super) const ADDRESS: u8 = 0x30;
    pub(super) const ORIGIN: u8 = 0x32;
    pub(super) const CALLER: u8 = 0x33;
    pub(super) const CALLDATALOAD: u8 = 0x35;
    pub(super) const CALLDATASIZE: u8 = 0x36;
    pub(super) const CALLDATACOPY: u8 = 0x37;
    pub(super) const CODECOPY: u8 = 0x39;
    pub(super) const EXTCODECOPY: u8 = 0x3c;
    pub(super) const RETURNDATASIZE: u8 = 0x3d;
    pub(super) const RETURNDATACOPY: u8 = 0x3e;
    pub(super) const COINBASE: u8 = 0x41;
    pub(super) const TIMESTAMP: u8 = 0x42;
    pub(super) const SELFBALANCE: u8 = 0x47;
    pub(super) const POP: u8 = 0x50;
    pub(super) const MLOAD: u8 = 0x51;
    pub(super) const MSTORE: u8 = 0x52;
    pub(super) const MSTORE8: u8 = 0x53;
    pub(super) const SSTORE: u8 = 0x55;
    pub(super) const JUMP: u8 = 0x56;
    pub(super) const JUMPI: u8 = 0x57;
    pub(super) const GAS: u8 = 0x5a;
    pub(super) const JUMPDEST: u8 = 0x5b;
    pub(super) const TSTORE: u8 = 0x5d;
    pub(super) const MCOPY: u8 = 0x5e;
    pub(super) const PUSH1: u8 = 0x60;
    pub(super) const DUP1: u8 = 0x80;
    pub(super) const SWAP1: u8 = 0x90;
    pub(super) const LOG0: u8 = 0xa0;
    pub(super) const CREATE: u8 = 0xf0;
    pub(super) const CALL: u8 = 0xf1;
    pub(super) const CALLCODE: u8 = 0xf2;
    pub(super) const RETURN: u8 = 0xf3;
    pub(super) const DELEGATECALL: u8 = 0xf4;
    pub(super) const CREATE2: u8 = 0xf5;
    pub(super) const STATICCALL: u8 = 0xfa;
    pub(super) const REVERT: u8 = 0xfd;
    pub(super) const INVALID: u8 = 0xfe;
    pub(super) const SELFDESTRUCT: u8 = 0xff;
}

/// Opcodes that take nothing and push one word, the last two from Cancun on.
const SOURCES: &[u8] = &[
    0x30, 0x32, 0x33, 0x34, 0x36, 0x38, 0x3a, 0x3d, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x58, 0x59, 0x5a, 0x5f, 0x4a,
];
/// One word for one: ISZERO, NOT, BALANCE, CALLDATALOAD, EXTCODESIZE, EXTCODEHASH, BLOCKHASH,
/// BLOBHASH, SLOAD, TLOAD, and CLZ from Osaka on.
const UNARY: &[u8] = &[
    0x15, 0x19, 0x31, 0x35, 0x3b, 0x3f, 0x40, 0x49, 0x54, 0x54, 0x5c, 0x1e,
];
/// One word for two: arithmetic, comparison, bits, shifts.
const BINARY: &[u8] = &[
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17,
    0x18, 0x1a, 0x1b, 0x1c, 0x1d,
];

/// Code being written.
#[derive(Debug, Default)]
pub(crate) struct Code(Vec<u8>);

impl Code {
    /// Pushes a word with the shortest PUSH that has an operand.
    pub(crate) fn push(&mut self, word: U256) -> &mut Self {
        let length = word.byte_len().max(1);
        self.0.push(op::PUSH1 + (length - 1) as u8);
        self.0.extend(&word.to_be_bytes::<32>()[32 - length..]);
        self
    }

    pub(crate) fn small(&mut self, word: usize) -> &mut Self {
        self.push(U256::from(word))
    }

    pub(crate) fn address(&mut self, address: Address) -> &mut Self {
        self.push(U256::from_be_slice(address.as_slice()))
    }

    pub(crate) fn op(&mut self, opcode: u8) -> &mut Self {
        self.0.push(opcode);
        self
    }

    /// A PUSH2 to be filled in by [`Code::land`].
    fn push_target(&mut self) -> usize {
        self.0.extend([op::PUSH1 + 1, 0, 0]);
        self.0.len() - 2
    }

    /// Makes this place the target of an earlier jump.
    fn land(&mut self, target: usize) {
        let here = (self.0.len() as u16).to_be_bytes();
        self.0[target..target + 2].copy_from_slice(&here);
        self.op(op::JUMPDEST);
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.into()
    }
}

/// Writes random programs that know some addresses.
pub(crate) struct Writer<'a> {
    dice: &'a mut Dice,
    /// What the program calls: contracts, accounts, precompiles.
    known: &'a [Address],
    code: Code,
}

/// A random program of up to `statements` statements.
pub(crate) fn program(dice: &mut Dice, known: &[Address], statements: usize) -> Bytes {
    let mut writer = Writer {
        dice,
        known,
        code: Code::default(),
    };
    for _ in 0..statements {
        writer.statement(2);
    }
    writer.ending();
    writer.code.finish()
}

/// Code that creates a contract: sometimes it acts first, sometimes it returns no code at all.
pub(crate) fn creation(dice: &mut Dice, known: &[Address]) -> Bytes {
    if dice.chance(20) {
        return small_creation(dice);
    }
    let length = dice.between(1, 8);
    let runtime = program(dice, known, length);
    let before = if dice.chance(40) {
        dice.between(1, 4)
    } else {
        0
    };
    let mut writer = Writer {
        dice,
        known,
        code: Code::default(),
    };
    for _ in 0..before {
        writer.statement(1);
    }
    deploy(writer.code, &runtime)
}

/// Appends a runtime to code that runs before, and the copy that returns it.
pub(crate) fn deploy(mut code: Code, runtime: &[u8]) -> Bytes {
    code.small(runtime.len());
    let offset = code.push_target();
    code.small(0).op(op::CODECOPY);
    code.small(runtime.len()).small(0).op(op::RETURN);
    let start = (code.0.len() as u16).to_be_bytes();
    code.0[offset..offset + 2].copy_from_slice(&start);
    code.0.extend(runtime);
    code.finish()
}

/// Calls what its call data names (32 bytes), with the gas it names (32 bytes) and the rest as
/// input, and stores a hash of the answer under the time plus whether it succeeded.
pub(crate) fn relay() -> Bytes {
    let mut code = Code::default();
    let copy_input = |code: &mut Code| {
        code.small(64).op(op::CALLDATASIZE).op(op::SUB);
    };
    copy_input(&mut code);
    code.small(64).small(0).op(op::CALLDATACOPY);
    code.small(0).small(0);
    copy_input(&mut code);
    code.small(0).small(0);
    code.small(0).op(op::CALLDATALOAD);
    code.small(32).op(op::CALLDATALOAD).op(op::CALL);
    code.op(op::RETURNDATASIZE).small(0).small(0);
    code.op(op::RETURNDATACOPY);
    code.op(op::RETURNDATASIZE).small(0).op(op::KECCAK256);
    // The hash is the value; success, below it, and the time make the key.
    code.op(op::SWAP1).op(op::TIMESTAMP).op(op::ADD);
    code.op(op::SSTORE).op(op::STOP);
    code.finish()
}

/// Logs its call data, behind `topic` when its first word is `first` and behind zero otherwise:
/// stands in for the deposit contract, whose logs are all that EIP-6110 looks at.
///
/// The real contract logs nothing malformed. geth takes a malformed log of the right length for a
/// deposit, where the EIP makes the block invalid, so none is made here.
pub(crate) fn logger(topic: U256, first: usize) -> Bytes {
    let mut code = Code::default();
    code.op(op::CALLDATASIZE).small(0).small(0);
    code.op(op::CALLDATACOPY);
    code.small(first).small(0).op(op::CALLDATALOAD).op(op::EQ);
    code.push(topic).op(op::MUL).op(op::CALLDATASIZE).small(0);
    code.op(op::LOG0 + 1).op(op::STOP);
    code.finish()
}

/// Creation code of a few bytes, each a case of its own.
fn small_creation(dice: &mut Dice) -> Bytes {
    let mut code = Code::default();
    match dice.below(10) {
        0 => code.op(op::STOP),
        // A runtime that EIP-3541 refuses.
        1 => (code.small(0xef).small(0).op(op::MSTORE8).small(1).small(0)).op(op::RETURN),
        2 => code.op(op::ADDRESS).op(op::SELFDESTRUCT),
        3 => code.op(op::CALLER).op(op::SELFDESTRUCT),
        4 => code.small(0).small(0).op(op::REVERT),
        5 => code.op(op::INVALID),
        // One byte more than EIP-170 allows, and the most it allows.
        6 => code.small(0x6001).small(0).op(op::RETURN),
        7 => code.small(0x6000).small(0).op(op::RETURN),
        // Storage, then a runtime that destroys itself: CALLER SELFDESTRUCT.
        8 => {
            code.small(1).small(1).op(op::SSTORE).small(0x33ff);
            code.small(0).op(op::MSTORE).small(2).small(30);
            code.op(op::RETURN)
        }
        // A runtime that destroys itself to itself: ADDRESS SELFDESTRUCT.
        _ => {
            code.small(0x30ff).small(0).op(op::MSTORE);
            code.small(2).small(30).op(op::RETURN)
        }
    };
    code.finish()
}

impl Writer<'_> {
    /// Pushes one word.
    fn expression(&mut self, depth: usize) {
        let choice = if depth == 0 {
            self.dice.below(5)
        } else {
            self.dice.below(10)
        };
        match choice {
            0 | 1 => self.code.push(self.dice.word()),
            2 => self.code.small(self.dice.below(12)),
            3 => self.code.op(self.dice.pick(SOURCES)),
            4 => self.code.address(self.dice.pick(self.known)),
            5 => {
                self.expression(depth - 1);
                self.code.op(self.dice.pick(UNARY))
            }
            6 => self.code.small(self.dice.below(96)).op(op::MLOAD),
            7 => {
                let length = self.dice.below(100);
                self.code.small(length).small(self.dice.below(64));
                self.code.op(op::KECCAK256)
            }
            8 if self.dice.chance(15) => {
                for _ in 0..3 {
                    self.expression(depth - 1);
                }
                self.code.op(self.dice.pick(&[op::ADDMOD, op::MULMOD]))
            }
            _ => {
                self.expression(depth - 1);
                self.expression(depth - 1);
                self.code.op(self.dice.pick(BINARY))
            }
        };
    }

    fn statement(&mut self, depth: usize) {
        match self.dice.below(if depth == 0 { 14 } else { 18 }) {
            0..4 => {
                // Zero often, so that tries lose what they had.
                if self.dice.chance(35) {
                    self.code.small(0);
                } else {
                    self.expression(2);
                }
                self.slot().op(op::SSTORE);
            }
            4 => {
                self.expression(1);
                self.slot().op(op::TSTORE);
            }
            5 => {
                self.expression(2);
                self.place().op(op::MSTORE);
            }
            6 => {
                self.expression(1);
                self.place().op(op::MSTORE8);
            }
            7 => self.copy(),
            8 => self.log(),
            9..12 => self.call(),
            12 => self.create(),
            13 => {
                self.expression(2);
                self.code.op(op::POP);
            }
            14 | 15 => self.condition(depth - 1),
            16 => self.repeat(depth - 1),
            _ => self.rarity(),
        }
    }

    fn slot(&mut self) -> &mut Code {
        match self.dice.below(8) {
            0 => self.expression(1),
            1 => {
                self.code.op(op::CALLER);
            }
            _ => {
                self.code.small(self.dice.below(10));
            }
        }
        &mut self.code
    }

    fn place(&mut self) -> &mut Code {
        self.code.small(self.dice.below(160))
    }

    fn copy(&mut self) {
        let length = self.dice.below(80);
        self.code.small(length);
        // Mostly from the start: return data ends soon, and reading past its end stops a program.
        let source = if self.dice.chance(70) {
            0
        } else {
            self.dice.below(64)
        };
        self.code.small(source);
        let copies = [
            op::CALLDATACOPY,
            op::CODECOPY,
            op::MCOPY,
            op::RETURNDATACOPY,
            op::EXTCODECOPY,
        ];
        let copy = self.dice.pick(&copies);
        self.place();
        if copy == op::EXTCODECOPY {
            self.code.address(self.dice.pick(self.known));
        }
        self.code.op(copy);
    }

    fn log(&mut self) {
        let topics = self.dice.below(5);
        for _ in 0..topics {
            self.expression(0);
        }
        self.code.small(self.dice.below(70));
        self.place().op(op::LOG0 + topics as u8);
    }

    /// A call of any kind, its outcome kept or dropped.
    fn call(&mut self) {
        let kinds = [
            op::CALL,
            op::CALL,
            op::CALL,
            op::DELEGATECALL,
            op::STATICCALL,
            op::CALLCODE,
        ];
        let kind = self.dice.pick(&kinds);
        self.code.small(self.dice.below(64));
        self.place();
        self.code.small(self.dice.below(256));
        self.place();
        if matches!(kind, op::CALL | op::CALLCODE) {
            self.value();
        }
        match self.dice.below(12) {
            0 => self.code.op(op::ADDRESS),
            1 => self.code.push(self.dice.word()),
            2 => self.code.address(self.dice.address()),
            _ => self.code.address(self.dice.pick(self.known)),
        };
        match self.dice.below(5) {
            0 => self.code.small(self.dice.below(5_000)),
            _ => self.code.op(op::GAS),
        };
        self.code.op(kind);
        self.outcome();
    }

    fn value(&mut self) {
        match self.dice.below(10) {
            0..7 => self.code.small(0),
            7 | 8 => self.code.small(self.dice.below(3)),
            _ => self.code.op(op::SELFBALANCE),
        };
    }

    fn outcome(&mut self) {
        if self.dice.chance(40) {
            self.slot().op(op::SSTORE);
        } else {
            self.code.op(op::POP);
        }
    }

    /// A creation, and often a call of what it made in the same transaction.
    fn create(&mut self) {
        let small = small_creation(self.dice);
        let word = if self.dice.chance(75) && small.len() <= 32 {
            U256::from_be_slice(&small) << (8 * (32 - small.len()))
        } else {
            self.dice.word()
        };
        self.code.push(word).small(0).op(op::MSTORE);
        let second = self.dice.chance(50);
        if second {
            self.code.small(self.dice.below(3));
        }
        self.code.small(self.dice.between(2, 33)).small(0);
        self.value();
        self.code.op(if second { op::CREATE2 } else { op::CREATE });
        if self.dice.chance(60) {
            for _ in 0..4 {
                self.code.small(0);
            }
            self.value();
            self.code.op(op::DUP1 + 5).op(op::GAS).op(op::CALL);
            self.code.op(op::POP);
        }
        self.outcome();
    }

    fn condition(&mut self, depth: usize) {
        self.expression(1);
        if self.dice.chance(50) {
            self.code.op(op::ISZERO);
        }
        let end = self.code.push_target();
        self.code.op(op::JUMPI);
        for _ in 0..self.dice.between(1, 3) {
            self.statement(depth);
        }
        self.code.land(end);
    }

    fn repeat(&mut self, depth: usize) {
        self.code.small(self.dice.between(2, 8));
        let start = self.code.0.len();
        self.code.op(op::JUMPDEST);
        for _ in 0..self.dice.between(1, 2) {
            self.statement(depth);
        }
        self.code.small(1).op(op::SWAP1).op(op::SUB).op(op::DUP1);
        self.code.small(start).op(op::JUMPI).op(op::POP);
    }

    /// What hardly ever goes well.
    fn rarity(&mut self) {
        match self.dice.below(8) {
            0 => {
                let junk = self.dice.blob(1, 12);
                self.code.0.extend(junk);
            }
            1 => {
                self.code.push(self.dice.word()).op(op::JUMP);
            }
            2 => {
                self.expression(0);
                self.expression(0);
                self.code.op(op::EXP).op(op::POP);
            }
            3 => {
                // Memory far away: out of gas.
                self.code.push(self.dice.word()).op(op::MLOAD).op(op::POP);
            }
            _ => self.curve_chain(),
        }
    }

    /// Maps call data to points of BLS12-381 (EIP-2537), adds, multiplies and pairs them: every
    /// step's input is the valid output of the one before.
    fn curve_chain(&mut self) {
        for point in 0..2 {
            // A field element is 64 bytes, of which 16 are zero; small enough when byte 17 is.
            self.code.push(self.dice.word() >> 8).small(0x20);
            self.code.op(op::MSTORE).small(0).small(0).op(op::MSTORE);
            self.static_call(0x10, 0, 0x40, 0x80 + 0x80 * point, 0x80);
        }
        self.static_call(0x0b, 0x80, 0x100, 0x80, 0x80);
        self.code.push(self.dice.word()).small(0x100).op(op::MSTORE);
        self.static_call(0x0c, 0x80, 0xa0, 0x80, 0x80);
        for half in 0..2 {
            self.code.push(self.dice.word() >> 8);
            self.code.small(0x220 + 0x40 * half).op(op::MSTORE);
            self.code.small(0).small(0x200 + 0x40 * half).op(op::MSTORE);
        }
        self.static_call(0x11, 0x200, 0x80, 0x100, 0x100);
        self.static_call(0x0f, 0x80, 0x180, 0, 0x20);
        self.code.small(0).op(op::MLOAD);
        self.slot().op(op::SSTORE);
    }

    fn static_call(&mut self, to: usize, from: usize, length: usize, out: usize, out_len: usize) {
        self.code.small(out_len).small(out).small(length);
        self.code.small(from).small(to).op(op::GAS);
        self.code.op(op::STATICCALL).op(op::POP);
    }

    fn ending(&mut self) {
        match self.dice.below(10) {
            0..4 => self.code.op(op::STOP),
            4 | 5 => self.code.small(self.dice.below(80)).small(0).op(op::RETURN),
            6 => self.code.small(self.dice.below(80)).small(0).op(op::REVERT),
            7 => self.code.op(op::INVALID),
            _ => {
                match self.dice.below(5) {
                    0 => self.code.op(op::ADDRESS),
                    1 => self.code.op(op::CALLER),
                    2 => self.code.op(op::ORIGIN),
                    3 => self.code.op(op::COINBASE),
                    _ => self.code.address(self.dice.address()),
                };
                self.code.op(op::SELFDESTRUCT)
            }
        };
    }
}
