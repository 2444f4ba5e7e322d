//! Serving one payload or fork choice on the engine thread.
//!
//! Invariant: the caller has its answer before anything is logged, recorded or prepared for the next
//! block.

use super::{
    Engine, EngineError, ForkchoiceError, NewPayloadOutcome, WaitFor,
    beside::beside,
    forkchoice::FollowUp,
    insert::Inserted,
    report::{self, Added},
    tree::ExecutedBlock,
};
use crate::telemetry::BlockFigures;
use alloy_primitives::B256;
use alloy_rpc_types_engine::{
    ExecutionData, ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadStatusEnum,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use tracing::{Span, debug_span};

/// A payload as it came.
pub(super) struct PayloadRequest {
    pub(super) data: ExecutionData,
    pub(super) wait_for: WaitFor,
    pub(super) received: Instant,
    pub(super) span: Span,
}

impl Engine {
    /// Answers first, logs and prepares for the next block afterwards.
    pub(super) fn serve_payload(
        &mut self,
        request: PayloadRequest,
        answer: oneshot::Sender<Result<NewPayloadOutcome, EngineError>>,
    ) {
        let waited = if request.wait_for.persistence {
            self.finish_persisting()
        } else {
            Ok(())
        };
        let saved = Instant::now();
        let persistence_wait = saved.duration_since(request.received);
        if request.wait_for.caches {
            self.await_preparation();
        }
        let start = Instant::now();
        let cache_wait = start.duration_since(saved);
        let data = request.data;
        let (number, hash) = (data.block_number(), data.block_hash());
        let gas = data.payload.as_v1().gas_used;
        let span = debug_span!(
            target: "engine::tree",
            parent: &request.span,
            "on_new_payload",
            block_hash = %hash,
            block_num = number
        );
        let inserted = span.in_scope(|| {
            waited
                .and_then(|()| self.ready())
                .and_then(|()| self.insert_payload(data))
        });
        match inserted {
            Ok(mut inserted) => {
                self.inject_slowdown(start, &mut inserted);
                let latency = start.elapsed();
                drop(span);
                let status = inserted.status;
                let kind = status.status.clone();
                let outcome = NewPayloadOutcome {
                    status,
                    latency,
                    persistence_wait,
                    cache_wait,
                };
                if answer.send(Ok(outcome)).is_err() {
                    self.metrics.undelivered();
                    tracing::warn!(target: "engine::tree", "Failed to deliver newPayload response");
                }
                let answered = Instant::now();
                let _after = debug_span!(
                    target: "engine::tree",
                    parent: &request.span,
                    "after_new_payload"
                )
                .entered();
                self.metrics.payload(&kind, gas, persistence_wait, latency);
                report::received(number, hash);
                self.note_outcome(number, hash, &kind, inserted.added.as_ref());
                self.after_insert(inserted.added.as_ref());
                self.metrics.after_answer(answered.elapsed());
            }
            Err(error) => {
                drop(span);
                let reason = error.to_string();
                let _ = answer.send(Err(error));
                self.metrics.payload_failed();
                tracing::error!(target: "engine::tree", number, ?hash, error = %reason, "Payload failed");
            }
        }
    }

    pub(super) fn serve_forkchoice(
        &mut self,
        span: &Span,
        state: ForkchoiceState,
        attributes: Option<PayloadAttributes>,
        answer: oneshot::Sender<Result<ForkchoiceUpdated, ForkchoiceError>>,
    ) {
        let start = Instant::now();
        let span = debug_span!(
            target: "engine::tree",
            parent: span,
            "on_forkchoice_updated",
            head = %state.head_block_hash,
            safe = %state.safe_block_hash,
            finalized = %state.finalized_block_hash
        );
        let (result, follow_up) = span.in_scope(|| match self.ready() {
            Ok(()) => self.update_forkchoice(state, attributes),
            Err(error) => (Err(error.into()), FollowUp::default()),
        });
        let latency = start.elapsed();
        drop(span);
        let status = result.as_ref().ok();
        let status = status.map(|updated| updated.payload_status.status.clone());
        let _ = answer.send(result);
        self.shared.announce_head();
        self.metrics.forkchoice(status.as_ref(), latency);
        self.note_heads();
        follow_up.log();
        if let Some(request) = follow_up.into_build() {
            self.build_payload(&request);
        }
    }

    /// Logs and records what became of a payload.
    fn note_outcome(
        &mut self,
        number: u64,
        hash: B256,
        status: &PayloadStatusEnum,
        added: Option<&Added>,
    ) {
        report::outcome(number, hash, status, added);
        if let Some(added) = added {
            self.metrics.block(&BlockFigures {
                times: &added.times,
                elapsed: added.elapsed,
                root: &added.root.counters,
                gas: added.block.header().gas_used,
                accounts: added.block.bundle.state.len(),
            });
        }
    }

    /// Prepares for the children of a new block, and executes payloads that were waiting for it.
    pub(super) fn after_insert(&mut self, added: Option<&Added>) {
        let mut parents: Vec<_> = added.map(|added| added.block.clone()).into_iter().collect();
        while let Some(block) = parents.pop() {
            self.prepare_for_child(&block);
            for child in self.waiting.children(block.hash()) {
                let (number, hash) = (child.block_number(), child.block_hash());
                self.waiting.remove(hash);
                match self.insert_payload(child) {
                    Ok(inserted) => {
                        let status = &inserted.status.status;
                        self.note_outcome(number, hash, status, inserted.added.as_ref());
                        parents.extend(inserted.added.map(|added| added.block));
                    }
                    Err(error) => {
                        tracing::error!(target: "engine::tree", number, %error, "Payload failed");
                    }
                }
            }
        }
    }

    /// Moves the state cache on to a new block, and merges the block into the overlay through
    /// which the roots of its children are computed.
    ///
    /// Runs beside the engine thread, which answers the fork choice meanwhile.
    fn prepare_for_child(&mut self, block: &Arc<ExecutedBlock>) {
        self.await_preparation();
        let (cache, shared) = (self.state_cache.clone(), self.shared.clone());
        let (block, state) = (block.clone(), self.shared.tree().state_after(block.hash()));
        self.preparation = Some(beside("prepare_for_child", move || {
            if let Some(cache) = &cache {
                let parent = block.header().parent_hash;
                cache.advance(parent, block.chain_block.num_hash(), &block.bundle);
            }
            if let Some(Err(error)) = state.map(|state| state.overlay(&shared.db)) {
                tracing::warn!(target: "engine::tree", %error, "Failed to merge a block's changes");
            }
        }));
    }

    /// Waits until what was prepared for the next block is ready. The state cache may be asked
    /// only then.
    pub(super) fn await_preparation(&mut self) {
        if let Some(prepared) = self.preparation.take() {
            // Without an answer the next block finds no cache, and merges the changes itself.
            let _ = prepared.recv();
        }
    }

    fn inject_slowdown(&self, start: Instant, inserted: &mut Inserted) {
        if self.config.injected_slowdown > 0.0 {
            let delay = slow_down(start, self.config.injected_slowdown);
            inserted
                .added
                .iter_mut()
                .for_each(|added| added.elapsed += delay);
        }
    }
}

/// Takes `part` of the time since `start` longer, on this CPU as slower code would.
fn slow_down(start: Instant, part: f64) -> Duration {
    let delay = start.elapsed().mul_f64(part);
    let began = Instant::now();
    while began.elapsed() < delay {
        std::hint::spin_loop();
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_takes_its_part_of_the_time_until_then() {
        let before = Duration::from_millis(8);
        let start = Instant::now().checked_sub(before).unwrap();
        assert!(slow_down(start, 0.25) >= before / 4);
        assert!(start.elapsed() >= before + before / 4);
    }
}
