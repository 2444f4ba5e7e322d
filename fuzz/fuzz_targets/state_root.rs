//! Feeds the fuzzer's bytes to the target `state_root`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("state_root", bytes));
