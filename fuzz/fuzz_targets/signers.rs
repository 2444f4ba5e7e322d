//! Feeds the fuzzer's bytes to the target `signers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("signers", bytes));
