//! Feeds the fuzzer's bytes to the target `rpc_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::run("rpc_request", bytes));
