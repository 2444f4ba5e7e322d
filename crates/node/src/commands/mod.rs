//! What the commands do. Each takes a resolved configuration and returns an error that says what
//! was attempted, with which value, and what to do next.

pub mod datadir;
pub mod failure;
pub mod genesis;
pub mod import;
pub mod init;
pub mod init_state;
pub mod node;
pub mod stats;
pub mod unwind;
pub mod verify;
