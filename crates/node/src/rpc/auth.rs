//! The gate of the auth port: a request without a fresh token is answered 401 and goes no further.
//!
//! It stands before HTTP requests and WebSocket upgrades alike. Source: execution-apis,
//! `engine/authentication.md`; the bodies are geth's.

use engine_api::jwt::{JwtError, JwtSecret, unix_time_s};
use jsonrpsee::server::{HttpBody, HttpRequest, HttpResponse};
use std::{
    future::{Future, ready},
    pin::Pin,
    task::{Context, Poll},
};
use tower::{Layer, Service};

/// Puts the gate before a service.
#[derive(Debug, Clone)]
pub(super) struct AuthLayer {
    secret: JwtSecret,
}

impl AuthLayer {
    pub(super) fn new(secret: JwtSecret) -> Self {
        Self { secret }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService {
            secret: self.secret.clone(),
            inner,
        }
    }
}

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(super) struct AuthService<S> {
    secret: JwtSecret,
    inner: S,
}

impl<S, B> Service<HttpRequest<B>> for AuthService<S>
where
    S: Service<HttpRequest<B>, Response = HttpResponse>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = HttpResponse;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let header = request.headers().get("authorization");
        // A header that is not text cannot be a token.
        let header = header.map(|value| value.to_str().unwrap_or_default());
        match self.secret.validate(header, unix_time_s()) {
            Ok(()) => Box::pin(self.inner.call(request)),
            Err(reason) => Box::pin(ready(Ok(refusal(reason)))),
        }
    }
}

fn refusal(reason: JwtError) -> HttpResponse {
    let mut response = HttpResponse::new(HttpBody::from(reason.to_string()));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response
}
