//! Feeds the fuzzer's bytes to the target `engine_payload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("engine_payload", bytes));
