//! How many calls run at a time: few per WebSocket, and a bounded number per public server, because
//! each may hold an answer of the largest size.

use super::socket::{Connection, RunningCall};
use jsonrpsee::{
    MethodResponse,
    server::middleware::rpc::{Batch, Notification, Request, RpcServiceT},
};
use std::{future::Future, sync::Arc};
use tokio::sync::Semaphore;

/// Counts the calls of one connection and lets them wait for their turn.
#[derive(Debug, Clone)]
pub(super) struct Calls<S> {
    pub(super) service: S,
    pub(super) connection: Arc<Connection>,
    /// Turns of the whole server; `None` where calls need no turn.
    pub(super) turns: Option<Arc<Semaphore>>,
}

impl<S> RpcServiceT for Calls<S>
where
    S: RpcServiceT<MethodResponse = MethodResponse, BatchResponse = MethodResponse>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type MethodResponse = S::MethodResponse;
    type NotificationResponse = S::NotificationResponse;
    type BatchResponse = S::BatchResponse;

    fn call<'a>(
        &self,
        request: Request<'a>,
    ) -> impl Future<Output = Self::MethodResponse> + Send + 'a {
        let running = self.connection.call();
        let (service, turns) = (self.service.clone(), self.turns.clone());
        async move {
            let _turn = turn(turns.as_deref()).await;
            let response = service.call(request).await;
            end(running, &response);
            response
        }
    }

    fn batch<'a>(&self, batch: Batch<'a>) -> impl Future<Output = Self::BatchResponse> + Send + 'a {
        let running = self.connection.call();
        let (service, turns) = (self.service.clone(), self.turns.clone());
        async move {
            let _turn = turn(turns.as_deref()).await;
            let response = service.batch(batch).await;
            end(running, &response);
            response
        }
    }

    fn notification<'a>(
        &self,
        notification: Notification<'a>,
    ) -> impl Future<Output = Self::NotificationResponse> + Send + 'a {
        // Nothing is done for it, but its bytes are given back.
        drop(self.connection.call());
        self.service.notification(notification)
    }
}

/// Ends a call of a WebSocket.
fn end(running: Option<RunningCall>, response: &MethodResponse) {
    if let Some(running) = running {
        running.answered(response.as_json().get().len());
    }
}

async fn turn(turns: Option<&Semaphore>) -> Option<tokio::sync::SemaphorePermit<'_>> {
    // An error says that the semaphore was closed, which nobody does.
    turns?.acquire().await.ok()
}
