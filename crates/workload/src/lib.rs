//! What an engine is measured with: a base state, and blocks built on it.
//!
//! [`state::BaseState`] is a pure stream of accounts and slots made from a seed; [`mix::Mix`] says
//! which transactions run on it; [`generate`](generate::generate) packs them into payload files
//! through the engine itself. Invariant: the same seed, profile and mix give the same bytes, on
//! any machine.

pub mod contracts;
pub mod export;
pub mod genesis;
pub mod profile;
pub mod random;
pub mod state;

pub use profile::{Layout, Profile, ProfileError};
pub use state::{BaseState, Sender, StateItem};
