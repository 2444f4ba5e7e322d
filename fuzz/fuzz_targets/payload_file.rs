//! Feeds the fuzzer's bytes to the target `payload_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("payload_file", bytes));
