//! How large a base state is, and how its accounts and slots are shared out.
//!
//! Invariant: a [`Layout`] holds exactly as many accounts and slots as its profile asks for.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The smallest state that holds every kind of account.
pub const MIN_ACCOUNTS: u64 = 2_000;
/// The smallest number of slots that fills every kind of contract.
pub const MIN_SLOTS: u64 = 10_000;

/// Accounts of the system contracts of Cancun and Prague.
pub(crate) const SYSTEM_CONTRACTS: u64 = 4;
const MAX_SENDERS: u64 = 1_024;
const TOKENS: u64 = 16;
/// Slots that each counter starts with.
pub(crate) const COUNTER_SLOTS: u64 = 3;
/// Slots that each pair starts with.
pub(crate) const PAIR_SLOTS: u64 = 3;

/// The size of a base state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// 0.2 M accounts and 0.5 M slots.
    Small,
    /// 2 M accounts and 10 M slots.
    Medium,
    /// Any size, written `large:<accounts>:<slots>`.
    Large {
        /// Accounts, contracts included; fewer than [`MIN_ACCOUNTS`] count as that many.
        accounts: u64,
        /// Slots; fewer than [`MIN_SLOTS`] count as that many.
        slots: u64,
    },
}

/// Why a profile's name is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No such profile.
    #[error("unknown profile {0:?}: use small, medium, large or large:<accounts>:<slots>")]
    Unknown(String),
    /// The numbers are missing or too small.
    #[error(
        "the profile {0:?} is too small: large needs at least {MIN_ACCOUNTS} accounts and \
         {MIN_SLOTS} slots"
    )]
    TooSmall(String),
}

/// How many of each kind a base state holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Externally owned accounts whose keys are known.
    pub senders: u64,
    /// ERC-20 tokens; tokens 2p and 2p+1 trade at pair p.
    pub tokens: u64,
    /// Externally owned accounts that hold each token, besides the senders.
    pub holders_per_token: u64,
    /// Constant-product pairs.
    pub pairs: u64,
    /// Slot touchers.
    pub touchers: u64,
    /// Cells of each slot toucher.
    pub cells_per_toucher: u64,
    /// Small contracts.
    pub counters: u64,
    /// Deeds of the whale, which has most of the state's slots.
    pub deeds: u64,
    /// Externally owned accounts besides the senders.
    pub eoas: u64,
}

impl Profile {
    /// Accounts, contracts included.
    pub const fn accounts(self) -> u64 {
        match self {
            Self::Small => 200_000,
            Self::Medium => 2_000_000,
            Self::Large { accounts, .. } if accounts < MIN_ACCOUNTS => MIN_ACCOUNTS,
            Self::Large { accounts, .. } => accounts,
        }
    }

    /// Slots of all accounts.
    pub const fn slots(self) -> u64 {
        match self {
            Self::Small => 500_000,
            Self::Medium => 10_000_000,
            Self::Large { slots, .. } if slots < MIN_SLOTS => MIN_SLOTS,
            Self::Large { slots, .. } => slots,
        }
    }

    /// The shares of each kind.
    pub fn layout(self) -> Layout {
        let (accounts, slots) = (self.accounts(), self.slots());
        let senders = MAX_SENDERS.min(accounts / 20).min(slots / 320);
        let (tokens, pairs) = (TOKENS, TOKENS / 2);
        let touchers = (accounts / 400).max(1);
        let cells_per_toucher = (slots / 5 / touchers).max(1);
        let counters = (accounts / 20).min(slots / 50).max(1);
        let contracts = SYSTEM_CONTRACTS + tokens + pairs + touchers + counters + 1;
        let eoas = accounts - senders - contracts;
        let token_slots_without_holders = 2 * senders + 2;
        let holders_per_token = (slots * 3 / 20 / tokens)
            .saturating_sub(token_slots_without_holders)
            .min(eoas);
        let others = tokens * (token_slots_without_holders + holders_per_token)
            + pairs * PAIR_SLOTS
            + touchers * cells_per_toucher
            + counters * COUNTER_SLOTS;
        Layout {
            senders,
            tokens,
            holders_per_token,
            pairs,
            touchers,
            cells_per_toucher,
            counters,
            deeds: slots - others,
            eoas,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small => f.write_str("small"),
            Self::Medium => f.write_str("medium"),
            Self::Large { accounts, slots } => write!(f, "large:{accounts}:{slots}"),
        }
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// `large` alone stands for 20 M accounts and 100 M slots.
    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let sizes = match text {
            "small" => return Ok(Self::Small),
            "medium" => return Ok(Self::Medium),
            "large" => "20000000:100000000",
            _ => text.strip_prefix("large:").unwrap_or_default(),
        };
        let unknown = || ProfileError::Unknown(text.to_owned());
        let (accounts, slots) = sizes.split_once(':').ok_or_else(unknown)?;
        let number = |digits: &str| digits.replace('_', "").parse().map_err(|_| unknown());
        let (accounts, slots) = (number(accounts)?, number(slots)?);
        if accounts < MIN_ACCOUNTS || slots < MIN_SLOTS {
            return Err(ProfileError::TooSmall(text.to_owned()));
        }
        Ok(Self::Large { accounts, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_names() {
        let large = Profile::Large {
            accounts: 5_000_000,
            slots: 20_000,
        };
        for (text, expected) in [
            ("small", Ok(Profile::Small)),
            ("medium", Ok(Profile::Medium)),
            ("large:5000000:20000", Ok(large)),
            ("large:5_000_000:20_000", Ok(large)),
            ("large:1:1", Err(ProfileError::TooSmall("large:1:1".into()))),
            ("large:x:1", Err(ProfileError::Unknown("large:x:1".into()))),
            ("tiny", Err(ProfileError::Unknown("tiny".into()))),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        assert_eq!(large.to_string().parse(), Ok(large));
    }

    #[test]
    fn the_whale_has_most_slots() {
        for profile in [Profile::Small, Profile::Medium] {
            assert!(profile.layout().deeds * 2 > profile.slots(), "{profile}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_size_is_met_exactly(
            accounts in MIN_ACCOUNTS..100_000_000,
            slots in MIN_SLOTS..1_000_000_000,
        ) {
            let layout = Profile::Large { accounts, slots }.layout();
            let Layout { senders, tokens, holders_per_token, pairs, touchers, .. } = layout;
            let total = SYSTEM_CONTRACTS + senders + tokens + pairs + touchers + layout.counters
                + layout.eoas + 1;
            proptest::prop_assert_eq!(total, accounts);
            let slot_total = tokens * (2 + 2 * senders + holders_per_token)
                + pairs * PAIR_SLOTS
                + touchers * layout.cells_per_toucher
                + layout.counters * COUNTER_SLOTS
                + layout.deeds;
            proptest::prop_assert_eq!(slot_total, slots);
            proptest::prop_assert!(senders > 0 && layout.eoas > 0 && holders_per_token <= layout.eoas);
        }
    }
}
