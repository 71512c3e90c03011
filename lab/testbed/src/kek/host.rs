//! PCs, the slots of their cards, and the times of the driver.

use std::ops::RangeInclusive;

use barewire_units::{ByteSize, Duration};
use serde::Deserialize;

/// The PCs of Table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    Pc500,
    Pc733,
    Pc800,
}

impl Host {
    pub const ALL: [Self; 3] = [Self::Pc500, Self::Pc733, Self::Pc800];
}

/// What a frame may carry.
pub const MTU: RangeInclusive<ByteSize> = ByteSize::from_bytes(576)..=ByteSize::from_bytes(9_000);

/// Of the slot that the card is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub enum Width {
    Bits32,
    Bits64,
}

impl TryFrom<u64> for Width {
    type Error = String;

    fn try_from(bits: u64) -> Result<Self, String> {
        match bits {
            32 => Ok(Self::Bits32),
            64 => Ok(Self::Bits64),
            _ => Err(format!("found {bits}, expected 32 or 64")),
        }
    }
}

impl Width {
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// The two times of the driver for coalesced interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    pub send: Duration,
    pub receive: Duration,
}

impl Tuning {
    pub const fn us(send: u64, receive: u64) -> Self {
        Self {
            send: Duration::from_us(send),
            receive: Duration::from_us(receive),
        }
    }

    /// Published, Table 2: the best for frames of `mtu`.
    pub const fn best(mtu: u64) -> Self {
        match mtu {
            1_500 => Self::us(996, 1000),
            _ => Self::us(200, 300),
        }
    }
}
