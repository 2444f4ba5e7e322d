//! Watches a message while it runs: stops it when its time is over, remembers the step it failed
//! at, and collects the accounts and slots it touches.

use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, map::AddressSet};
use revm::{
    Inspector,
    bytecode::opcode,
    interpreter::{
        InstructionResult, Interpreter,
        interpreter_types::{InputsTr, Jumps},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// How many steps may pass between two looks at the clock.
const STEPS_PER_LOOK: u64 = 1024;

/// The step executed last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastStep {
    /// Its opcode.
    pub(super) opcode: u8,
    /// Items on the stack before it.
    pub(super) stack_items: usize,
}

/// Accounts and slots touched, without those that an access list would not make cheaper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Accesses {
    excluded: AddressSet,
    touched: BTreeMap<Address, BTreeSet<B256>>,
}

impl Accesses {
    /// Begins with `list`. Accounts in `excluded` are listed only with their slots.
    pub(super) fn new(list: AccessList, excluded: AddressSet) -> Self {
        let mut accesses = Self {
            excluded,
            touched: BTreeMap::new(),
        };
        for item in list.0 {
            accesses.account(item.address);
            for slot in item.storage_keys {
                accesses.slot(item.address, slot);
            }
        }
        accesses
    }

    fn account(&mut self, address: Address) {
        if !self.excluded.contains(&address) {
            self.touched.entry(address).or_default();
        }
    }

    fn slot(&mut self, address: Address, slot: B256) {
        self.touched.entry(address).or_default().insert(slot);
    }

    /// The list, in the order of addresses and slots.
    pub(super) fn to_list(&self) -> AccessList {
        let item = |(address, slots): (&Address, &BTreeSet<B256>)| AccessListItem {
            address: *address,
            storage_keys: slots.iter().copied().collect(),
        };
        AccessList(self.touched.iter().map(item).collect())
    }
}

/// The inspector of every call.
#[derive(Debug)]
pub(super) struct Watch {
    deadline: Instant,
    steps: u64,
    /// Whether the time was over before the message ended.
    pub(super) expired: bool,
    /// The step executed last.
    pub(super) last: LastStep,
    /// What was touched, when somebody wants to know.
    pub(super) accesses: Option<Accesses>,
}

impl Watch {
    pub(super) fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            steps: 0,
            expired: false,
            last: LastStep::default(),
            accesses: None,
        }
    }
}

impl<CTX> Inspector<CTX> for Watch {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        self.last = LastStep {
            opcode: interpreter.bytecode.opcode(),
            stack_items: interpreter.stack.len(),
        };
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_LOOK) && Instant::now() > self.deadline {
            self.expired = true;
        }
        if self.expired {
            interpreter.halt(InstructionResult::OutOfGas);
        } else if let Some(accesses) = &mut self.accesses {
            note_access(accesses, interpreter);
        }
    }
}

fn note_access(accesses: &mut Accesses, interpreter: &Interpreter) {
    let stack = interpreter.stack.data();
    let item = |from_top: usize| stack.len().checked_sub(from_top + 1).map(|at| stack[at]);
    match interpreter.bytecode.opcode() {
        opcode::SLOAD | opcode::SSTORE => {
            if let Some(slot) = item(0) {
                accesses.slot(interpreter.input.target_address(), B256::from(slot));
            }
        }
        opcode::EXTCODECOPY
        | opcode::EXTCODEHASH
        | opcode::EXTCODESIZE
        | opcode::BALANCE
        | opcode::SELFDESTRUCT => {
            if let Some(word) = item(0) {
                accesses.account(Address::from_word(word.into()));
            }
        }
        opcode::CALL | opcode::CALLCODE | opcode::DELEGATECALL | opcode::STATICCALL => {
            if let Some(word) = item(1) {
                accesses.account(Address::from_word(word.into()));
            }
        }
        _ => {}
    }
}
