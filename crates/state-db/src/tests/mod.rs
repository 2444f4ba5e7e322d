//! Random chains written, batched, unwound and read back, against a model in plain maps.

mod chain;
mod edges;
mod golden;
mod loading;
mod overlays;
mod roundtrip;
mod verify;
