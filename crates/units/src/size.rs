//! Sizes in bytes.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use core::str::FromStr;

use crate::parse::{Decimal, ParseError, write_scaled};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A number of bytes.
///
/// ```
/// use barewire_units::ByteSize;
///
/// assert_eq!("64KiB".parse(), Ok(ByteSize::from_kib(64)));
/// assert_eq!("1 MiB".parse(), Ok(ByteSize::from_mib(1)));
/// assert_eq!("512".parse(), Ok(ByteSize::from_bytes(512)));
/// assert_eq!("1.5kB".parse(), Ok(ByteSize::from_bytes(1_500)));
/// assert_eq!(ByteSize::from_kib(64).to_string(), "64KiB");
/// assert_eq!(ByteSize::from_bytes(9_000).to_string(), "9000B");
/// assert_eq!(format!("{:.1}", ByteSize::from_bytes(9_000)), "8.8KiB");
/// ```
///
/// `KB` means 1000 to some and 1024 to others, so it is refused:
///
/// ```
/// use barewire_units::{ByteSize, ParseError};
/// assert_eq!("64KB".parse::<ByteSize>(), Err(ParseError::Ambiguous));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize {
    bytes: u64,
}

impl ByteSize {
    /// Nothing.
    pub const ZERO: Self = Self { bytes: 0 };
    /// The largest size.
    pub const MAX: Self = Self { bytes: u64::MAX };

    const UNITS: &'static str = "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB";

    /// A size of `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// A size of `kib` times 1024 bytes. Panics beyond [`ByteSize::MAX`].
    #[must_use]
    pub const fn from_kib(kib: u64) -> Self {
        Self::from_units(kib, KIB)
    }

    /// A size of `mib` times 2²⁰ bytes. Panics beyond [`ByteSize::MAX`].
    #[must_use]
    pub const fn from_mib(mib: u64) -> Self {
        Self::from_units(mib, MIB)
    }

    /// A size of `gib` times 2³⁰ bytes. Panics beyond [`ByteSize::MAX`].
    #[must_use]
    pub const fn from_gib(gib: u64) -> Self {
        Self::from_units(gib, GIB)
    }

    const fn from_units(n: u64, bytes_per_unit: u64) -> Self {
        match n.checked_mul(bytes_per_unit) {
            Some(bytes) => Self { bytes },
            None => panic!("a size beyond 2^64 bytes"),
        }
    }

    /// The number of bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.bytes
    }

    /// The number of bytes as an index, or `None` where `usize` is too narrow.
    #[must_use]
    pub fn as_usize(self) -> Option<usize> {
        usize::try_from(self.bytes).ok()
    }

    /// The sum, or `None` beyond [`ByteSize::MAX`].
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.bytes.checked_add(other.bytes) {
            Some(bytes) => Some(Self { bytes }),
            None => None,
        }
    }

    /// The difference, or `None` if `other` is larger.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.bytes.checked_sub(other.bytes) {
            Some(bytes) => Some(Self { bytes }),
            None => None,
        }
    }

    /// The product, or `None` beyond [`ByteSize::MAX`].
    #[must_use]
    pub const fn checked_mul(self, factor: u64) -> Option<Self> {
        match self.bytes.checked_mul(factor) {
            Some(bytes) => Some(Self { bytes }),
            None => None,
        }
    }
}

/// Every `usize` fits: pointers of more than 64 bits do not exist here.
impl From<usize> for ByteSize {
    fn from(bytes: usize) -> Self {
        Self::from_bytes(bytes as u64)
    }
}

/// Panics beyond [`ByteSize::MAX`].
impl Add for ByteSize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.checked_add(other).expect("a size beyond 2^64 bytes")
    }
}

impl AddAssign for ByteSize {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Panics if the right side is larger.
impl Sub for ByteSize {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.checked_sub(other).expect("a negative size")
    }
}

impl SubAssign for ByteSize {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// Panics beyond [`ByteSize::MAX`].
impl Mul<u64> for ByteSize {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        self.checked_mul(factor).expect("a size beyond 2^64 bytes")
    }
}

/// Panics beyond [`ByteSize::MAX`].
impl Sum for ByteSize {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Without a precision, the largest binary unit that divides the size: exact,
/// and it parses back to the same value. With one, the largest binary unit that
/// is not larger than the size, and a rounded fraction.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = f.precision().is_none();
        let fits = |unit: u64| self.bytes >= unit && (!exact || self.bytes % unit == 0);
        let (unit, suffix) = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
            .into_iter()
            .find(|&(unit, _)| fits(unit))
            .unwrap_or((1, "B"));
        // Half a byte does not exist: no fraction then, whatever the precision.
        let precision = if unit == 1 { None } else { f.precision() };
        write_scaled(f, self.bytes, unit, suffix, precision)
    }
}

impl FromStr for ByteSize {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, unit) = Decimal::split(text)?;
        let bytes_per_unit = match unit {
            "" | "B" => 1,
            "KiB" => KIB,
            "MiB" => MIB,
            "GiB" => GIB,
            "TiB" => TIB,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KB" | "K" => return Err(ParseError::Ambiguous),
            _ => return Err(ParseError::UnknownUnit(Self::UNITS)),
        };
        number.times(bytes_per_unit).map(Self::from_bytes)
    }
}
