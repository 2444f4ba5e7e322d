//! The Engine API's authentication: a shared 32-byte secret and short-lived HS256 tokens.
//!
//! Source: execution-apis, `engine/authentication.md`. Invariant: only HS256 is accepted, and only
//! with an `iat` claim within [`MAX_SKEW_S`] seconds of the verifier's clock.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// How far a token's `iat` may lie from the verifier's clock, in seconds, either way.
pub const MAX_SKEW_S: u64 = 60;

const SECRET_LENGTH_BYTES: usize = 32;

/// As much of a secret file as is looked at; far more than any holds.
const MAX_SECRET_FILE_BYTES: u64 = 4096;

const BEARER: &str = "Bearer ";

/// The secret both ends of the auth port share. Its `Debug` form shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtSecret([u8; SECRET_LENGTH_BYTES]);

/// Why a secret file could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file could not be read.
    #[error("failed to read the JWT secret file {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file could not be created.
    #[error("failed to create the JWT secret file {path}: {reason}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The file holds something that is not hexadecimal.
    #[error("the JWT secret file {path} is not hexadecimal: {found}")]
    NotHex {
        /// The file.
        path: PathBuf,
        /// The first offending character and its position.
        found: String,
    },
    /// The file holds hexadecimal digits, but not 64 of them.
    #[error(
        "the JWT secret file {path} holds {digits} hexadecimal digits, but a secret is 32 bytes, \
         64 digits"
    )]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// How many digits it holds, without `0x`.
        digits: usize,
    },
    /// The system gave no random bytes.
    #[error("failed to draw random bytes for a JWT secret: {0}")]
    Random(String),
}

/// Why a token is refused. The texts are the bodies of the HTTP 401 answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// No `Authorization: Bearer` header.
    #[error("missing token")]
    Missing,
    /// Not a token, another algorithm, or a wrong signature.
    #[error("invalid token")]
    Invalid,
    /// A well-signed token without `iat`.
    #[error("missing issued-at")]
    MissingIssuedAt,
    /// Issued more than [`MAX_SKEW_S`] seconds ago, or past its `exp`.
    #[error("stale token")]
    Stale,
    /// Issued more than [`MAX_SKEW_S`] seconds ahead of the verifier's clock.
    #[error("future token")]
    Future,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<u64>,
}

impl JwtSecret {
    /// A secret of these bytes.
    pub const fn from_bytes(bytes: [u8; SECRET_LENGTH_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits, with or without `0x` before and blanks around them.
    ///
    /// # Errors
    /// When the file cannot be read or holds anything else; the error names the file and what was
    /// found, never the digits themselves.
    pub fn read(path: &Path) -> Result<Self, SecretFileError> {
        let mut text = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_SECRET_FILE_BYTES).read_to_end(&mut text))
            .map_err(|reason| SecretFileError::Read {
                path: path.to_owned(),
                reason,
            })?;
        Self::parse(path, &String::from_utf8_lossy(&text))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, SecretFileError> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        if let Some((at, c)) = digits
            .chars()
            .enumerate()
            .find(|(_, c)| !c.is_ascii_hexdigit())
        {
            let found = format!("character {c:?} at position {at}");
            return Err(SecretFileError::NotHex {
                path: path.to_owned(),
                found,
            });
        }
        let mut bytes = [0; SECRET_LENGTH_BYTES];
        alloy_primitives::hex::decode_to_slice(digits, &mut bytes).map_err(|_| {
            SecretFileError::WrongLength {
                path: path.to_owned(),
                digits: digits.len(),
            }
        })?;
        Ok(Self(bytes))
    }

    /// Draws a random secret and writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// When the file exists already or cannot be written.
    pub fn create(path: &Path) -> Result<Self, SecretFileError> {
        let mut bytes = [0; SECRET_LENGTH_BYTES];
        getrandom::fill(&mut bytes).map_err(|e| SecretFileError::Random(e.to_string()))?;
        write_private(path, &alloy_primitives::hex::encode(bytes)).map_err(|reason| {
            SecretFileError::Create {
                path: path.to_owned(),
                reason,
            }
        })?;
        Ok(Self(bytes))
    }

    /// A token issued at `now_s` (seconds of Unix time), without `Bearer`.
    pub fn mint(&self, now_s: u64) -> String {
        self.sign(&Claims {
            iat: Some(now_s),
            exp: None,
        })
    }

    fn sign(&self, claims: &Claims) -> String {
        // Encoding two integers with a key of the right family has no way to fail; an empty token
        // would be refused as invalid by any verifier.
        let key = EncodingKey::from_secret(&self.0);
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap_or_default()
    }

    /// Checks the value of an `Authorization` header (`None` when there was no such header).
    ///
    /// # Errors
    /// The reason to refuse the request.
    pub fn validate(&self, header_value: Option<&str>, now_s: u64) -> Result<(), JwtError> {
        let token = header_value
            .and_then(|v| v.strip_prefix(BEARER))
            .ok_or(JwtError::Missing)?;
        let mut validation = Validation::new(Algorithm::HS256);
        validation.required_spec_claims.clear();
        // `exp` is checked below, against the caller's clock.
        validation.validate_exp = false;
        // Claims beyond those of the specification are nobody's business here.
        validation.validate_aud = false;
        let key = DecodingKey::from_secret(&self.0);
        let claims = jsonwebtoken::decode::<Claims>(token.trim(), &key, &validation)
            .map_err(|_| JwtError::Invalid)?
            .claims;
        let issued_s = claims.iat.ok_or(JwtError::MissingIssuedAt)?;
        if issued_s > now_s.saturating_add(MAX_SKEW_S) {
            return Err(JwtError::Future);
        }
        if now_s > issued_s.saturating_add(MAX_SKEW_S) || claims.exp.is_some_and(|exp| now_s > exp)
        {
            return Err(JwtError::Stale);
        }
        Ok(())
    }
}

impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JwtSecret(..)")
    }
}

/// Seconds of Unix time, the clock of `iat`.
pub fn unix_time_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_700_000_000;

    fn secret() -> JwtSecret {
        JwtSecret::from_bytes([0x11; 32])
    }

    fn validate(token: &str) -> Result<(), JwtError> {
        secret().validate(Some(&format!("Bearer {token}")), NOW_S)
    }

    /// Signs arbitrary claims text with an arbitrary header, as a foreign client might.
    fn foreign_token(header: Header, key: &[u8], claims: serde_json::Value) -> String {
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(key)).unwrap()
    }

    #[test]
    fn accepts_what_it_mints_within_the_window() {
        for issued_s in [NOW_S - 60, NOW_S, NOW_S + 60] {
            assert_eq!(
                validate(&secret().mint(issued_s)),
                Ok(()),
                "issued {issued_s}"
            );
        }
    }

    #[test]
    fn each_failure_is_told_apart() {
        let hs256 = || Header::new(Algorithm::HS256);
        let iat = serde_json::json!({ "iat": NOW_S });
        let good = secret().mint(NOW_S);
        let cases = [
            (secret().mint(NOW_S - 61), JwtError::Stale),
            (secret().mint(NOW_S + 61), JwtError::Future),
            (
                foreign_token(hs256(), &[0x11; 32], serde_json::json!({})),
                JwtError::MissingIssuedAt,
            ),
            (
                foreign_token(hs256(), &[0x12; 32], iat.clone()),
                JwtError::Invalid,
            ),
            (
                foreign_token(Header::new(Algorithm::HS512), &[0x11; 32], iat),
                JwtError::Invalid,
            ),
            (
                foreign_token(
                    hs256(),
                    &[0x11; 32],
                    serde_json::json!({ "iat": NOW_S, "exp": NOW_S - 1 }),
                ),
                JwtError::Stale,
            ),
            // {"typ":"JWT","alg":"none"} over a good payload.
            (
                format!(
                    "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.{}.",
                    good.split('.').nth(1).unwrap()
                ),
                JwtError::Invalid,
            ),
            ("rubbish".to_owned(), JwtError::Invalid),
            (String::new(), JwtError::Invalid),
        ];
        for (token, expected) in cases {
            assert_eq!(validate(&token), Err(expected), "{token}");
        }
        for claims in [
            serde_json::json!({ "iat": -1 }),
            serde_json::json!({ "iat": NOW_S.to_string() }),
            serde_json::json!({ "iat": u64::MAX as f64 * 2.0 }),
            serde_json::json!([NOW_S]),
        ] {
            let token = foreign_token(hs256(), &[0x11; 32], claims.clone());
            assert_eq!(validate(&token), Err(JwtError::Invalid), "{claims}");
        }
        let more =
            serde_json::json!({ "iat": NOW_S, "id": "a", "clv": "b", "aud": ["c"], "sub": 7 });
        let token = foreign_token(hs256(), &[0x11; 32], more);
        assert_eq!(
            validate(&token),
            Ok(()),
            "claims we do not know are allowed"
        );
        assert_eq!(secret().validate(None, NOW_S), Err(JwtError::Missing));
        assert_eq!(
            secret().validate(Some("Basic abc"), NOW_S),
            Err(JwtError::Missing)
        );
    }

    #[test]
    fn mints_the_token_other_implementations_mint() {
        // Made with `openssl dgst -sha256 -mac HMAC -macopt hexkey:1111…11`.
        let token = secret().mint(NOW_S);
        assert_eq!(
            token,
            "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJpYXQiOjE3MDAwMDAwMDB9.\
             0bsHxYIRfvNN8zBr-xluzbY37bIxsIO9jN9Ik11KWC4"
        );
    }

    #[test]
    fn reads_digits_with_and_without_prefix_and_newline() {
        let digits = "11".repeat(32);
        for text in [
            digits.clone(),
            format!("0x{digits}\n"),
            format!("  {digits}\r\n"),
        ] {
            assert_eq!(
                JwtSecret::parse(Path::new("f"), &text).unwrap(),
                secret(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_file_without_showing_it() {
        let cases = [
            (
                "0x1234",
                "the JWT secret file f holds 4 hexadecimal digits, but a secret is 32 bytes, 64 digits",
            ),
            (
                "",
                "the JWT secret file f holds 0 hexadecimal digits, but a secret is 32 bytes, 64 digits",
            ),
            (
                "0x12zz",
                "the JWT secret file f is not hexadecimal: character 'z' at position 2",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                JwtSecret::parse(Path::new("f"), text)
                    .unwrap_err()
                    .to_string(),
                expected
            );
        }
        let missing = JwtSecret::read(Path::new("no-such-file"))
            .unwrap_err()
            .to_string();
        assert!(missing.starts_with("failed to read the JWT secret file no-such-file: "));
        assert_eq!(format!("{:?}", secret()), "JwtSecret(..)");
    }

    #[test]
    fn creates_a_private_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jwt.hex");
        let made = JwtSecret::create(&path).unwrap();
        assert_eq!(JwtSecret::read(&path).unwrap(), made);
        assert!(matches!(
            JwtSecret::create(&path),
            Err(SecretFileError::Create { .. })
        ));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }
}
