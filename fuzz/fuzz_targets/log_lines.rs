//! Feeds the fuzzer's bytes to the target `log_lines`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("log_lines", bytes));
