//! What every parser of this repository promises about bytes nobody wrote: one function for each.
//!
//! A target takes any bytes and returns, or panics with what was broken. The fuzzer in `fuzz/` calls
//! it with bytes it makes up; the test beside this crate calls it with the corpus that is checked
//! in. Promises: decoding never panics and takes memory in proportion to its input; what was
//! decoded encodes to the same bytes where there is one encoding, and decodes to the same value
//! where there are several.

mod files;
mod rpc;
mod wire;

/// A target: its name, which is that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("block_rlp", wire::block_rlp),
    ("engine_payload", wire::engine_payload),
    ("genesis", files::genesis),
    ("journal", files::journal),
    ("jwt", wire::jwt),
    ("log_lines", files::log_lines),
    ("payload_file", files::payload_file),
    ("plan", files::plan),
    ("rpc_answer", wire::rpc_answer),
    ("rpc_request", rpc::rpc_request),
    ("samples", files::samples),
    ("signers", wire::signers),
    ("state_root", wire::state_root),
    ("sweep_values", files::sweep_values),
    ("table_row", wire::table_row),
    ("transaction", wire::transaction),
];

/// Runs the target of this name.
///
/// # Panics
/// When there is none, or when the target finds something broken.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = target else {
        panic!("no target is called {name}");
    };
    target(bytes);
}
