//! Feeds the fuzzer's bytes to the target `sweep_values`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("sweep_values", bytes));
