//! How the methods read values: strictly as the specification writes them.
//!
//! A quantity is `0x` and hex digits without leading zeros; data is `0x` and an even number of hex
//! digits. A value that does not fit is an error that shows it, cut when it is long. Source:
//! execution-apis, `schemas/base-types.yaml` and `schemas/block.yaml`.

use alloy_eips::{BlockId, BlockNumberOrTag, RpcBlockHash};
use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256, hex};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::{borrow::Cow, fmt, marker::PhantomData};

/// Characters of a value that an error shows.
const SHOWN_CHARACTERS: usize = 100;

/// A number of up to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity(pub(super) u64);

/// A 32-byte hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash(pub(super) B256);

/// An account's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Account(pub(super) Address);

/// Bytes of any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Data(pub(super) Bytes);

/// A block's number or a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(pub(super) BlockNumberOrTag);

/// A block by number, tag, hash, or the object of EIP-1898.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockRef(pub(super) BlockId);

impl From<Tag> for BlockRef {
    fn from(tag: Tag) -> Self {
        Self(tag.0.into())
    }
}

impl From<Hash> for BlockRef {
    fn from(hash: Hash) -> Self {
        Self(hash.0.into())
    }
}

/// A storage key of up to 32 bytes, and whether it was given in full: an answer repeats it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageKey {
    /// The key, padded to the left.
    pub(super) slot: B256,
    full: bool,
}

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

/// `text` as an error shows it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

/// The digits behind `0x`.
fn digits(text: &str) -> Result<&str, String> {
    text.strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .ok_or_else(|| format!("hex string without 0x prefix: {}", shown(text)))
}

fn quantity(text: &str) -> Result<u64, String> {
    let digits = digits(text)?;
    let problem = if digits.is_empty() {
        "hex number without digits"
    } else if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        "invalid hex number"
    } else if digits.len() > 1 && digits.starts_with('0') {
        "hex number with leading zero digits"
    } else {
        match u64::from_str_radix(digits, 16) {
            Ok(number) => return Ok(number),
            Err(_) => "hex number of more than 64 bits",
        }
    };
    Err(format!("{problem}: {}", shown(text)))
}

fn data(text: &str) -> Result<Vec<u8>, String> {
    let digits = digits(text)?;
    if digits.len() % 2 == 1 {
        return Err(format!("hex string of odd length: {}", shown(text)));
    }
    // The decoder would skip a second prefix.
    let decoded = Some(digits)
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .and_then(|digits| hex::decode(digits).ok());
    decoded.ok_or_else(|| format!("invalid hex string: {}", shown(text)))
}

fn fixed<const N: usize>(text: &str) -> Result<FixedBytes<N>, String> {
    let bytes = data(text)?;
    FixedBytes::try_from(bytes.as_slice())
        .map_err(|_| format!("{} bytes instead of {N}: {}", bytes.len(), shown(text)))
}

fn tag(text: &str) -> Result<BlockNumberOrTag, String> {
    Ok(match text {
        "latest" => BlockNumberOrTag::Latest,
        "pending" => BlockNumberOrTag::Pending,
        "earliest" => BlockNumberOrTag::Earliest,
        "safe" => BlockNumberOrTag::Safe,
        "finalized" => BlockNumberOrTag::Finalized,
        _ => BlockNumberOrTag::Number(
            quantity(text).map_err(|problem| format!("{problem} (and no block tag)"))?,
        ),
    })
}

fn storage_key(text: &str) -> Result<StorageKey, String> {
    let unprefixed = digits(text).unwrap_or(text);
    if unprefixed.len() > 64 {
        return Err(format!(
            "storage key too long (want at most 32 bytes): {}",
            shown(text)
        ));
    }
    let key = if unprefixed.is_empty() {
        Some(U256::ZERO)
    } else {
        let is_hex = unprefixed.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hex.then(|| U256::from_str_radix(unprefixed, 16).unwrap_or_default())
    };
    let key = key.ok_or_else(|| format!("invalid hex in storage key: {}", shown(text)))?;
    Ok(StorageKey {
        slot: key.into(),
        full: unprefixed.len() > 62,
    })
}

/// Reads a JSON string through one of the functions above.
macro_rules! from_text {
    ($($form:ident: $parse:expr;)+) => {$(
        impl<'de> Deserialize<'de> for $form {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                $parse(&text).map_err(D::Error::custom)
            }
        }
    )+};
}
from_text! {
    Quantity: |text: &str| quantity(text).map(Self);
    Hash: |text: &str| fixed(text).map(Self);
    Account: |text: &str| fixed(text).map(|bytes| Self(bytes.into()));
    Data: |text: &str| data(text).map(|bytes| Self(bytes.into()));
    Tag: |text: &str| tag(text).map(Self);
    StorageKey: storage_key;
}

impl Serialize for StorageKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.full {
            self.slot.serialize(serializer)
        } else {
            U256::from_be_bytes(self.slot.0).serialize(serializer)
        }
    }
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BlockRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlockRefVisitor)
    }
}

struct BlockRefVisitor;

impl<'de> Visitor<'de> for BlockRefVisitor {
    type Value = BlockRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a block number, tag, hash, or an object with blockNumber or blockHash")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BlockRef, E> {
        // A hash has exactly 64 digits; anything else is a number or a tag.
        let id = if text.len() == 66 {
            fixed(text).map(|hash| BlockId::Hash(RpcBlockHash::from_hash(hash, None)))
        } else {
            tag(text).map(BlockId::Number)
        };
        id.map(BlockRef).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BlockRef, A::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            block_number: Option<Tag>,
            block_hash: Option<Hash>,
            require_canonical: Option<bool>,
        }
        let fields = Fields::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let id = match (fields.block_number, fields.block_hash) {
            (Some(Tag(tag)), None) => BlockId::Number(tag),
            (None, Some(Hash(hash))) => {
                BlockId::Hash(RpcBlockHash::from_hash(hash, fields.require_canonical))
            }
            (Some(_), Some(_)) => {
                return Err(A::Error::custom("both blockNumber and blockHash are given"));
            }
            (None, None) => {
                return Err(A::Error::custom(
                    "neither blockNumber nor blockHash is given",
                ));
            }
        };
        Ok(BlockRef(id))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
        let one = T::deserialize(Value::String(text.to_owned())).map_err(E::custom)?;
        Ok(OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany<T>, A::Error> {
        let mut many = Vec::new();
        while let Some(one) = list.next_element()? {
            many.push(one);
        }
        Ok(OneOrMany(many))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0x1111111111111111111111111111111111111111111111111111111111111111";

    #[track_caller]
    fn check<T>(json: &str, expected: Result<T, &str>)
    where
        T: DeserializeOwned + PartialEq + fmt::Debug,
    {
        match (serde_json::from_str::<T>(json), expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{json}"),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{json}: {error}");
            }
            (read, expected) => panic!("{json}: {read:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn quantities() {
        for (json, expected) in [
            (r#""0x0""#, Ok(0)),
            (r#""0xffffffffffffffff""#, Ok(u64::MAX)),
            (
                r#""0x10000000000000000""#,
                Err("more than 64 bits: \"0x1000"),
            ),
            (r#""0x01""#, Err("leading zero digits: \"0x01\"")),
            (r#""0x""#, Err("without digits")),
            (r#""0x-1""#, Err("invalid hex number: \"0x-1\"")),
            (r#""0x+1""#, Err("invalid hex number")),
            (r#""-0x1""#, Err("without 0x prefix: \"-0x1\"")),
            (r#""7""#, Err("without 0x prefix: \"7\"")),
            ("7", Err("invalid type: integer `7`")),
        ] {
            check(json, expected.map(Quantity));
        }
    }

    #[test]
    fn hashes_and_data() {
        check(&format!("\"{HASH}\""), Ok(Hash(B256::repeat_byte(0x11))));
        check::<Hash>(&format!("\"{}\"", &HASH[2..]), Err("without 0x prefix"));
        check::<Hash>(&format!("\"{HASH}11\""), Err("33 bytes instead of 32"));
        check::<Hash>("\"0x1\"", Err("odd length: \"0x1\""));
        check::<Account>("\"0xzz\"", Err("invalid hex string: \"0xzz\""));
        check::<Data>("\"0x0x11\"", Err("invalid hex string: \"0x0x11\""));
        check("\"0x\"", Ok(Data(Bytes::new())));
        check("\"0X00fF\"", Ok(Data(Bytes::from_static(&[0, 0xff]))));
        let long = format!("\"0x{}\"", "1".repeat(10_001));
        let error = serde_json::from_str::<Data>(&long).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn blocks() {
        let number = |number| Ok(BlockRef(BlockId::Number(BlockNumberOrTag::Number(number))));
        let hash = |canonical| {
            let hash = RpcBlockHash::from_hash(B256::repeat_byte(0x11), canonical);
            Ok(BlockRef(BlockId::Hash(hash)))
        };
        check("\"0x10\"", number(16));
        check(
            "\"safe\"",
            Ok(BlockRef(BlockId::Number(BlockNumberOrTag::Safe))),
        );
        check(&format!("\"{HASH}\""), hash(None));
        check(
            &format!(r#"{{"blockHash":"{HASH}","requireCanonical":true}}"#),
            hash(Some(true)),
        );
        check(r#"{"blockNumber":"0x2"}"#, number(2));
        for (json, problem) in [
            ("\"Latest\"", "without 0x prefix: \"Latest\""),
            ("\"\"", "without 0x prefix"),
            ("{}", "neither blockNumber nor blockHash"),
            (
                &format!(r#"{{"blockHash":"{HASH}","blockNumber":"0x1"}}"#),
                "both",
            ),
            ("54", "invalid type: integer `54`"),
            ("[]", "invalid type: sequence"),
            (&format!("\"{HASH}1\""), "more than 64 bits"),
        ] {
            check::<BlockRef>(json, Err(problem));
        }
    }

    #[test]
    fn one_or_many() {
        let hash = Hash(B256::repeat_byte(0x11));
        check(&format!("\"{HASH}\""), Ok(OneOrMany(vec![hash])));
        check(
            &format!("[\"{HASH}\",null]"),
            Ok(OneOrMany(vec![Some(hash), None])),
        );
        check("[]", Ok(OneOrMany::<Hash>(Vec::new())));
        check::<OneOrMany<Hash>>("\"0x1\"", Err("odd length: \"0x1\""));
        check::<OneOrMany<Hash>>("[\"0x\"]", Err("0 bytes instead of 32"));
        check::<OneOrMany<Hash>>("5", Err("expected a string or a list"));
    }

    #[test]
    fn storage_keys_are_shown_as_they_were_given() {
        let zeros = "0".repeat(64);
        for (given, expected) in [
            ("0x", "0x0"),
            ("0x0", "0x0"),
            ("0x05", "0x5"),
            ("5", "0x5"),
            (&format!("0x{zeros}"), &format!("0x{zeros}")),
        ] {
            let key: StorageKey = serde_json::from_str(&format!("\"{given}\"")).unwrap();
            let shown = serde_json::to_string(&key).unwrap();
            assert_eq!(shown, format!("\"{expected}\""), "{given}");
        }
        check::<StorageKey>(&format!("\"0x{zeros}0\""), Err("too long"));
        check::<StorageKey>("\"0xasdf\"", Err("invalid hex in storage key: \"0xasdf\""));
    }
}
