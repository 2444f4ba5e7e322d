//! Senders of signed messages, eight at a time.
//!
//! Finding out who signed a transaction (SEC 1, section 4.1.6; the yellow paper's ECDSARECOVER) is most of what a block of
//! transfers costs. The signatures of a block are independent of each other, so eight of them share
//! the lanes of AVX-512 registers, whose IFMA instructions multiply 52 bits by 52:
//!
//! ```text
//!  r ─▶ R = (r, √(r³ + 7))                          field    2²⁵⁶ - 2³² - 977 in five limbs
//!  1/r, u₁ = -hash/r, u₂ = s/r                      scalar   modulo the group's order
//!  u₁ = a + bλ, u₂ = c + dλ, half as long           scalar   (Gallant, Lambert, Vanstone 2001)
//!  Q = aG + bλG + cR + dλR, doubling together       point    regular: no lane ever branches
//!  address = keccak(Q)[12..]
//! ```
//!
//! Nothing here is secret, so nothing hides its timing. And nothing here refuses a signature: where
//! the lanes have no answer, because there is none or the sum met a case that its formulas do not cover,
//! or the processor has no such registers, the answer is `None`, and the caller asks a library.

#[cfg(target_arch = "x86_64")]
mod field;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod point;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(test)]
mod tests;

use alloy_primitives::{Address, B256, U256};

/// Signatures that are worked on side by side.
pub const LANES: usize = 8;

/// A group of fewer signatures takes longer side by side than one after another.
const WORTHWHILE: usize = 2;

/// A message's hash with the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed {
    /// What was signed.
    pub hash: B256,
    /// The x coordinate of a point R, as it is; of those that exceed the group's order, which no
    /// transaction can name, there is no answer.
    pub r: U256,
    /// The proof.
    pub s: U256,
    /// Whether the y coordinate of R is odd.
    pub is_y_odd: bool,
}

/// Who signed each of the messages, in their order. `None` says nothing about a signature: ask a
/// library.
pub fn signers(signed: &[Signed]) -> Vec<Option<Address>> {
    let groups = signed.chunks(LANES);
    groups.flat_map(signers_of_group).collect()
}

fn signers_of_group(signed: &[Signed]) -> Vec<Option<Address>> {
    if signed.len() < WORTHWHILE || !has_lanes() {
        return vec![None; signed.len()];
    }
    recover(signed)
}

/// Whether this processor can work on several signatures side by side.
#[cfg(target_arch = "x86_64")]
pub fn has_lanes() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512ifma")
}

/// Whether this processor can work on several signatures side by side.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_lanes() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn recover(signed: &[Signed]) -> Vec<Option<Address>> {
    // SAFETY: `has_lanes` has found both features that the function is compiled for.
    unsafe { lanes::recover(signed) }
}

/// Never called: nothing is worked on side by side here.
#[cfg(not(target_arch = "x86_64"))]
fn recover(signed: &[Signed]) -> Vec<Option<Address>> {
    vec![None; signed.len()]
}
