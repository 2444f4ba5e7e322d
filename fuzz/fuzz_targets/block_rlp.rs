//! Feeds the fuzzer's bytes to the target `block_rlp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("block_rlp", bytes));
