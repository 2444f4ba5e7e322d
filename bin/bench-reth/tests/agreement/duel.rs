//! Both engines on one chain, given the same blocks, and held to the same answers.
//!
//! Invariant: every question that may change what an engine knows is asked of both and written
//! down, so that the record up to a disagreement plays it again.

use crate::{
    accounts::Account,
    chain::{Chain, Fork, GENESIS_TIME_S, SLOT_S},
    counts::Counts,
    differ,
    engines::{Answer, Engines, Port, Side},
    mutation,
    payload::{NewPayload, quantity, transactions},
    record::Record,
    transactions::{Place, Signed, Source},
};
use alloy_eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Blocks behind the head that are declared safe, and twice as many finalized.
const SAFE_DISTANCE: usize = 12;
/// Deepest reorg, in blocks.
const MAX_REORG: usize = 5;

/// A block that both hold.
#[derive(Debug, Clone)]
struct Head {
    hash: Value,
    number: u64,
    time_s: u64,
    /// What its child costs, in wei per gas.
    next_base_fee: u64,
}

/// What a block is made of besides transactions.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    pub(crate) json: Value,
    pub(crate) fork: Fork,
    pub(crate) extra_data: Value,
}

/// Both engines and what is known about their chain.
pub(crate) struct Duel {
    pub(crate) engines: Engines,
    pub(crate) chain: Chain,
    pub(crate) record: Record,
    pub(crate) counts: Counts,
    source: Source,
    /// Canonical blocks, oldest first.
    trail: Vec<Head>,
    withdrawals: u64,
}

impl Duel {
    pub(crate) fn new(geth: &OsString, seed: u64, first: Fork, blocks_per_fork: u64) -> Self {
        let chain = Chain::new(seed, first, blocks_per_fork);
        let mut engines = Engines::start(geth, &chain.genesis);
        let genesis = engines.genesis();
        Self {
            record: Record::new(seed, &chain.genesis),
            source: Source::new(&chain, seed),
            trail: vec![Head {
                hash: genesis["hash"].clone(),
                number: 0,
                time_s: GENESIS_TIME_S,
                next_base_fee: 875_000_000,
            }],
            counts: Counts::default(),
            withdrawals: 0,
            engines,
            chain,
        }
    }

    /// Makes `count` blocks canonical on both, with reorgs among them.
    pub(crate) fn run(&mut self, count: u64) {
        while self.counts.blocks < count {
            self.advance();
            if self.source.dice.chance(6) {
                self.reorg();
            }
        }
    }

    /// One block more on the head of both.
    pub(crate) fn advance(&mut self) {
        let attributes = self.attributes();
        let many = self.source.dice.between(0, 40);
        let list = self.draw(&attributes, many);
        let payload = match self.source.dice.below(8) {
            0 => self.build_from_pool(Side::Geth, &attributes, &list),
            1 => self.build_from_pool(Side::BenchReth, &attributes, &list),
            _ => self.build_on_both(&attributes, list),
        };
        if self.source.dice.chance(25) {
            self.refuse_mutations(&payload, 4);
        }
        self.accept(&payload);
    }

    /// Gives both engines every mutation of a new block that there is.
    pub(crate) fn mutate_everything(&mut self) {
        let attributes = self.attributes();
        let list = self.draw(&attributes, 12);
        let payload = self.build_on_both(&attributes, list);
        self.refuse_mutations(&payload, usize::MAX);
        self.accept(&payload);
    }

    fn draw(&mut self, attributes: &Attributes, count: usize) -> Vec<Signed> {
        self.refresh_nonces();
        let place = Place {
            fork: attributes.fork,
            base_fee: self.head().next_base_fee.into(),
        };
        self.source.transactions(place, count)
    }

    fn head(&self) -> &Head {
        self.trail.last().unwrap()
    }

    /// Attributes of a block on the head.
    fn attributes(&mut self) -> Attributes {
        let head = self.head().clone();
        let dice = &mut self.source.dice;
        let time_s = head.time_s + dice.pick(&[SLOT_S, SLOT_S, SLOT_S, 1, 2 * SLOT_S - 1]);
        let fork = self.chain.fork_at(time_s);
        let recipient = match dice.below(4) {
            0 => dice.address(),
            _ => dice.pick(&self.chain.known),
        };
        let mut attributes = json!({
            "timestamp": format!("{time_s:#x}"),
            "prevRandao": alloy_primitives::B256::new(dice.array()),
            "suggestedFeeRecipient": recipient,
        });
        if fork >= Fork::Shanghai {
            attributes["withdrawals"] = self.withdrawals();
        }
        let dice = &mut self.source.dice;
        if fork >= Fork::Cancun {
            attributes["parentBeaconBlockRoot"] = json!(alloy_primitives::B256::new(dice.array()));
        }
        Attributes {
            json: attributes,
            fork,
            extra_data: json!(dice.blob(0, 32)),
        }
    }

    fn withdrawals(&mut self) -> Value {
        let dice = &mut self.source.dice;
        let count = dice.below(6);
        let list = (0..count).map(|_| {
            self.withdrawals += 1;
            let address = match dice.below(3) {
                0 => dice.address(),
                _ => dice.pick(&self.chain.known),
            };
            let amount = dice.pick(&[0, 0, 1, 1_000_000_000, u64::MAX >> 20]);
            json!({
                "index": format!("{:#x}", self.withdrawals),
                "validatorIndex": format!("{:#x}", dice.below(1 << 20)),
                "address": address,
                "amount": format!("{amount:#x}"),
            })
        });
        list.collect()
    }

    /// Both build the block of these transactions, which must be one and the same. What both
    /// refuse is left out.
    fn build_on_both(&mut self, attributes: &Attributes, mut list: Vec<Signed>) -> NewPayload {
        loop {
            let [ours, theirs] = self.try_build(attributes, &list);
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => {
                    let root = beacon_root(attributes);
                    let payloads = [&ours, &theirs]
                        .map(|envelope| NewPayload::new(attributes.fork, envelope, root));
                    let [first, second] = &payloads;
                    if first.params() != second.params()
                        || ours["blockValue"] != theirs["blockValue"]
                    {
                        let report = differ::built(self, &payloads, [&ours, &theirs]);
                        self.record.disagree(&report);
                    }
                    let [payload, _] = payloads;
                    return payload;
                }
                (Err(ours), Err(theirs)) => {
                    let Some(index) = refused_index(&ours.message, list.len()) else {
                        panic!("neither builds a block: {ours} and {theirs}");
                    };
                    self.counts.refused += 1;
                    list.remove(index);
                }
                (ours, theirs) => self.record.disagree(&format!(
                    "only one builds the block\nbench-reth: {}\ngeth: {}\n{}",
                    short(&ours),
                    short(&theirs),
                    differ::list(&list)
                )),
            }
        }
    }

    fn try_build(&mut self, attributes: &Attributes, list: &[Signed]) -> [Answer; 2] {
        let params = |encoded: fn(&Signed) -> &alloy_primitives::Bytes| {
            let list: Vec<_> = list.iter().map(encoded).collect();
            json!([
                self.head().hash,
                attributes.json,
                list,
                attributes.extra_data
            ])
        };
        let ours = params(|signed| &signed.encoded);
        let theirs = params(|signed| &signed.pooled);
        self.record
            .note(Port::Public, "testing_buildBlockV1", [&ours, &theirs]);
        self.engines
            .ask_both(Port::Public, "testing_buildBlockV1", [&ours, &theirs])
    }

    /// One engine builds from its pool, as a validator would have it.
    fn build_from_pool(
        &mut self,
        side: Side,
        attributes: &Attributes,
        list: &[Signed],
    ) -> NewPayload {
        for signed in list {
            let params = json!([signed.pooled]);
            let sent = self
                .engines
                .ask(side, Port::Public, "eth_sendRawTransaction", &params);
            self.counts.pooled += u64::from(sent.is_ok());
        }
        let state = json!([self.forkchoice(&self.head().hash), attributes.json]);
        let method = attributes.fork.forkchoice_updated();
        let answer = self.engines.ask(side, Port::Engine, method, &state);
        let answer = answer.unwrap_or_else(|error| panic!("{side:?}: {method}: {error}"));
        // geth answers with an empty block unless it has had time to fill one.
        std::thread::sleep(std::time::Duration::from_millis(60));
        let method = attributes.fork.get_payload();
        let id = json!([answer["payloadId"]]);
        let envelope = self.engines.ask(side, Port::Engine, method, &id);
        let envelope = envelope.unwrap_or_else(|error| panic!("{side:?}: {method} {id}: {error}"));
        NewPayload::new(attributes.fork, &envelope, beacon_root(attributes))
    }

    /// Both must find the block valid, and make it their head.
    fn accept(&mut self, payload: &NewPayload) {
        let verdict = self.judge(payload, "newPayload");
        if verdict["status"] != "VALID" {
            let parent = self.head().hash.clone();
            let report = differ::judged(self, &parent, payload);
            let text = format!("both refuse a block that one of them built: {verdict}\n{report}");
            self.record.disagree(&text);
        }
        self.make_head(&payload.hash());
        let number = |field| payload.number(field);
        let base_fee = number("baseFeePerGas");
        let (used, limit) = (number("gasUsed"), number("gasLimit"));
        self.trail.push(Head {
            hash: payload.hash(),
            number: number("blockNumber"),
            time_s: number("timestamp"),
            next_base_fee: calc_next_block_base_fee(
                used,
                limit,
                base_fee,
                BaseFeeParams::ethereum(),
            ),
        });
        self.counts
            .block(payload.fork, &transactions(&payload.payload), used);
    }

    /// What both answer to a payload, which must be the same.
    fn judge(&mut self, payload: &NewPayload, what: &str) -> Value {
        let params = payload.params();
        let method = payload.fork.new_payload();
        self.record.note(Port::Engine, method, [&params, &params]);
        let answers = self
            .engines
            .ask_both(Port::Engine, method, [&params, &params]);
        let [ours, theirs] = answers.each_ref().map(verdict);
        if ours != theirs {
            let parent = self.head().hash.clone();
            let texts = answers.each_ref().map(short);
            let report = differ::judged(self, &parent, payload);
            self.record.disagree(&format!(
                "{what}\nbench-reth: {}\ngeth: {}\n{report}",
                texts[0], texts[1]
            ));
        }
        ours
    }

    /// Gives both wrong variants of a block; what one says of each, the other must say.
    fn refuse_mutations(&mut self, payload: &NewPayload, most: usize) {
        let mut names: Vec<usize> = (0..mutation::ALL.len()).collect();
        while names.len() > most {
            let at = self.source.dice.below(names.len());
            names.remove(at);
        }
        let mut differences = Vec::new();
        for index in names {
            let mutation = &mutation::ALL[index];
            let Some(mutated) = mutation.apply(payload) else {
                continue;
            };
            let params = mutated.params();
            let method = mutated.fork.new_payload();
            self.record.note(Port::Engine, method, [&params, &params]);
            let answers = self
                .engines
                .ask_both(Port::Engine, method, [&params, &params]);
            let verdicts = answers.each_ref().map(verdict);
            if !mutation.agrees(&verdicts) {
                let [ours, theirs] = answers.each_ref().map(short);
                let name = mutation.name;
                differences.push(format!("{name}\n  bench-reth: {ours}\n  geth: {theirs}"));
            }
            self.counts.mutated += 1;
        }
        if !differences.is_empty() {
            let differences = differences.join("\n");
            self.record.disagree(&format!(
                "mutations of a {:?} block\n{differences}",
                payload.fork
            ));
        }
    }

    fn make_head(&mut self, hash: &Value) {
        let params = json!([self.forkchoice(hash), null]);
        // Any version serves a fork choice without attributes.
        let method = "engine_forkchoiceUpdatedV3";
        self.record.note(Port::Engine, method, [&params, &params]);
        let answers = self
            .engines
            .ask_both(Port::Engine, method, [&params, &params]);
        let verdicts = answers.each_ref().map(|answer| {
            let status = answer
                .as_ref()
                .map(|answer| answer["payloadStatus"].clone());
            verdict(&status.map_err(Clone::clone))
        });
        if verdicts[0] != verdicts[1] || verdicts[0]["status"] != "VALID" {
            let texts = answers.each_ref().map(short);
            self.record.disagree(&format!(
                "head {hash}\nbench-reth: {}\ngeth: {}",
                texts[0], texts[1]
            ));
        }
    }

    fn forkchoice(&self, head: &Value) -> Value {
        let behind = |distance: usize| {
            let at = self.trail.len().checked_sub(distance);
            at.map_or(json!(crate::ZERO), |at| self.trail[at].hash.clone())
        };
        json!({
            "headBlockHash": head,
            "safeBlockHash": behind(SAFE_DISTANCE),
            "finalizedBlockHash": behind(2 * SAFE_DISTANCE),
        })
    }

    /// Grows a branch from below the head until it is longer, and sometimes goes back.
    fn reorg(&mut self) {
        let depth = self.source.dice.between(1, MAX_REORG);
        if self.trail.len() <= depth + 1 {
            return;
        }
        let abandoned = self.trail.split_off(self.trail.len() - depth);
        // geth builds on its head alone: the first block of the branch is bench-reth's.
        let attributes = self.attributes();
        let params = json!([{
            "parentBlockHash": self.head().hash,
            "payloadAttributes": attributes.json,
            "transactions": [],
            "extraData": attributes.extra_data,
        }]);
        let built = self.engines.ask(
            Side::BenchReth,
            Port::Public,
            "testing_buildBlockV1",
            &params,
        );
        let built = built.unwrap_or_else(|error| panic!("a branch {depth} blocks below: {error}"));
        let payload = NewPayload::new(attributes.fork, &built, beacon_root(&attributes));
        self.accept(&payload);
        for _ in 0..self.source.dice.below(depth + 1) {
            self.advance();
        }
        self.counts.reorgs += 1;
        if self.source.dice.chance(40) {
            let branch_point = abandoned[0].number as usize;
            self.trail.truncate(branch_point);
            self.trail.extend(abandoned);
            let old = self.head().hash.clone();
            self.make_head(&old);
            self.counts.reorgs += 1;
        }
    }

    /// Asks for every nonce: what a block did to it is not predicted.
    fn refresh_nonces(&mut self) {
        let engines = &mut self.engines;
        let ask = |account: &mut Account| {
            let params = json!([account.address, "latest"]);
            let nonce = engines.ask(Side::Geth, Port::Public, "eth_getTransactionCount", &params);
            account.nonce = quantity(&nonce.unwrap());
        };
        let Source {
            senders,
            authorities,
            ..
        } = &mut self.source;
        senders.iter_mut().chain(authorities).for_each(ask);
    }
}

fn beacon_root(attributes: &Attributes) -> &Value {
    &attributes.json["parentBeaconBlockRoot"]
}

/// Status and latest valid hash, or the code of an error.
fn verdict(answer: &Answer) -> Value {
    match answer {
        Ok(status) => json!({
            "status": status["status"],
            "latestValidHash": status["latestValidHash"],
        }),
        Err(error) => json!({"error": error.code}),
    }
}

/// An answer without what would fill the screen.
pub(crate) fn short(answer: &Answer) -> String {
    let text = match answer {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    text.chars().take(1_500).collect()
}

/// The position of the transaction that bench-reth names in a refusal.
fn refused_index(message: &str, count: usize) -> Option<usize> {
    let (_, rest) = message.split_once("include transaction ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|index| *index < count)
}
