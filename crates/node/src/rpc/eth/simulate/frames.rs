//! Watches calls and creations for what `eth_simulateV1` tells of them: logs in order, with
//! transfers of ether as if they were logs of a token.
//!
//! Invariant: what a frame that failed logged is forgotten with it. Source: execution-apis,
//! `docs-api/docs/ethsimulatev1-notes.mdx`; ERC-7528 for the address.

use alloy_primitives::{Address, B256, Log, LogData, U256, address, b256};
use revm::{
    Inspector,
    bytecode::opcode,
    context_interface::{ContextTr, JournalTr},
    interpreter::{
        CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, Interpreter,
        interpreter_types::{InputsTr, Jumps},
    },
};

/// What seems to log transfers of ether.
const ETHER: Address = address!("0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
/// keccak-256 of `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// The inspector.
#[derive(Debug, Default)]
pub(super) struct Frames {
    trace_transfers: bool,
    /// Logs of the frames that have not ended, outermost first.
    open: Vec<Vec<(u64, Log)>>,
    /// Logs of the message that ended last.
    logs: Vec<(u64, Log)>,
    /// Logs so far, also those of frames that failed: as in geth, they count.
    count: u64,
    /// What `BASEFEE` says where the EVM knows another one.
    shown_base_fee: Option<U256>,
    is_base_fee: bool,
}

impl Frames {
    pub(super) fn new(trace_transfers: bool) -> Self {
        Self {
            trace_transfers,
            ..Self::default()
        }
    }

    /// Makes `BASEFEE` say `fee` from now on; `None` for what the EVM knows.
    pub(super) fn show_base_fee(&mut self, fee: Option<u64>) {
        self.shown_base_fee = fee.map(U256::from);
    }

    /// The logs of the message that ended last, each with its index in the block.
    pub(super) fn take_logs(&mut self) -> Vec<(u64, Log)> {
        self.open.clear();
        std::mem::take(&mut self.logs)
    }

    fn enter(&mut self) {
        self.open.push(Vec::new());
    }

    fn leave(&mut self, succeeded: bool) {
        let logs = self.open.pop().unwrap_or_default();
        let logs = if succeeded { logs } else { Vec::new() };
        match self.open.last_mut() {
            Some(caller) => caller.extend(logs),
            None => self.logs = logs,
        }
    }

    fn note(&mut self, log: Log) {
        if let Some(frame) = self.open.last_mut() {
            frame.push((self.count, log));
            self.count += 1;
        }
    }

    fn transfer(&mut self, from: Address, to: Address, value: U256) {
        if !self.trace_transfers || value.is_zero() {
            return;
        }
        let topics = vec![TRANSFER, from.into_word(), to.into_word()];
        let data = value.to_be_bytes::<32>().into();
        self.note(Log {
            address: ETHER,
            data: LogData::new_unchecked(topics, data),
        });
    }

    /// What is left to a self-destructing contract's heir. If the contract fails at it, this is
    /// forgotten with the frame.
    fn inherit<CTX: ContextTr>(&mut self, interpreter: &Interpreter, context: &mut CTX) {
        let contract = interpreter.input.target_address();
        let Some(heir) = interpreter.stack.data().last() else {
            return;
        };
        let heir = Address::from_word(B256::from(*heir));
        if let Ok(account) = context.journal_mut().load_account(contract) {
            let balance = account.data.info.balance;
            self.transfer(contract, heir, balance);
        }
    }
}

impl<CTX: ContextTr> Inspector<CTX> for Frames {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut CTX) {
        let opcode = interpreter.bytecode.opcode();
        self.is_base_fee = opcode == opcode::BASEFEE;
        if opcode == opcode::SELFDESTRUCT && self.trace_transfers {
            self.inherit(interpreter, context);
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut CTX) {
        if let Some(fee) = self.shown_base_fee.filter(|_| self.is_base_fee)
            && interpreter.stack.pop().is_ok()
        {
            // There is room for what was just there.
            let _ = interpreter.stack.push(fee);
        }
    }

    fn log(&mut self, _: &mut CTX, log: Log) {
        self.note(log);
    }

    fn call(&mut self, _: &mut CTX, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.enter();
        if inputs.scheme == CallScheme::Call {
            let value = inputs.value.transfer().unwrap_or_default();
            self.transfer(inputs.caller, inputs.target_address, value);
        }
        None
    }

    fn call_end(&mut self, _: &mut CTX, _: &CallInputs, outcome: &mut CallOutcome) {
        self.leave(outcome.result.is_ok());
    }

    fn create(&mut self, context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.enter();
        if let Ok(creator) = context.journal_mut().load_account(inputs.caller()) {
            let created = inputs.created_address(creator.data.info.nonce);
            self.transfer(inputs.caller(), created, inputs.value());
        }
        None
    }

    fn create_end(&mut self, _: &mut CTX, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.leave(outcome.result.is_ok());
    }
}
