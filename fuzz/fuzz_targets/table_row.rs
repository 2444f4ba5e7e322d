//! Feeds the fuzzer's bytes to the target `table_row`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("table_row", bytes));
