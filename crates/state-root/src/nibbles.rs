//! Paths as the first nibbles of a 32-byte key: no node of a trie needs a path of its own.

use alloy_primitives::B256;
use alloy_trie::Nibbles;

/// Nibbles in a key.
pub(crate) const KEY_LEN: usize = 64;
/// Nibbles in the words in which keys are compared and cut.
const WORD: usize = 16;

/// The nibble at `index`, below [`KEY_LEN`].
pub(crate) fn nibble(key: &B256, index: usize) -> usize {
    let byte = key[index / 2];
    usize::from(if index.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0xf
    })
}

/// How many leading nibbles two keys share.
pub(crate) fn common_prefix(a: &B256, b: &B256) -> usize {
    let ((a, _), (b, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (index, (a, b)) in a.iter().zip(b).enumerate() {
        let differing = u64::from_be_bytes(*a) ^ u64::from_be_bytes(*b);
        if differing != 0 {
            return WORD * index + differing.leading_zeros() as usize / 4;
        }
    }
    KEY_LEN
}

/// The first `len` nibbles of `key`.
pub(crate) fn path(key: &B256, len: usize) -> Nibbles {
    let mut path = Nibbles::unpack_array(key);
    path.truncate(len);
    path
}

/// The smallest key that begins with the first `len` nibbles of `key`, followed by `last`.
pub(crate) fn child_key(key: &B256, len: usize, last: usize) -> B256 {
    let mut child = first_key(key, len);
    let shift = if len.is_multiple_of(2) { 4 } else { 0 };
    child[len / 2] |= (last as u8) << shift;
    child
}

/// The smallest key that begins with the first `len` nibbles of `key`.
pub(crate) fn first_key(key: &B256, len: usize) -> B256 {
    let mut first = *key;
    for (index, word) in first.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let kept = len.saturating_sub(index * WORD).min(WORD);
        // A shift by all bits is none at all.
        let mask = u64::MAX.checked_shl(4 * (WORD - kept) as u32).unwrap_or(0);
        *word = (u64::from_be_bytes(*word) & mask).to_be_bytes();
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agree_with_nibbles(a: [u8; 32], b: [u8; 32], shared in 0..=32_usize, len in 0..KEY_LEN) {
            let (a, mut b) = (B256::new(a), B256::new(b));
            b[..shared].copy_from_slice(&a[..shared]);
            let (a_path, b_path) = (Nibbles::unpack(a), Nibbles::unpack(b));
            prop_assert_eq!(common_prefix(&a, &b), a_path.common_prefix_length(&b_path));
            prop_assert_eq!(nibble(&a, len), usize::from(a_path.get_unchecked(len)));
            prop_assert_eq!(path(&a, len), a_path.slice(..len));
            let child = child_key(&a, len, 7);
            prop_assert_eq!(path(&child, len), a_path.slice(..len));
            prop_assert_eq!(nibble(&child, len), 7);
            prop_assert!((len + 1..KEY_LEN).all(|index| nibble(&child, index) == 0));
        }
    }
}
