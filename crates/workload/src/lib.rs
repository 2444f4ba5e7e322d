//! What an engine is measured with: a base state, and blocks built on it.
//!
//! [`state::BaseState`] is a pure stream of accounts and slots made from a seed; [`mix::Mix`] says
//! which transactions run on it; [`generate`](generate::generate) packs them into payload files
//! through the engine itself. Invariant: the same seed, profile and mix give the same bytes, on
//! any machine.

pub mod action;
pub mod contracts;
pub mod export;
pub mod generate;
pub mod genesis;
pub mod leaves;
pub mod manifest;
pub mod mix;
pub mod profile;
pub mod random;
pub mod state;
pub mod transaction;

pub use generate::{GenerateConfig, GenerateError, Ports, Progress, generate};
pub use leaves::LeafCounts;
pub use manifest::{Manifest, ManifestError, verify_manifest};
pub use mix::{Mix, MixError};
pub use profile::{Layout, Profile, ProfileError};
pub use state::{BaseState, Sender, StateItem};
