//! Rates in bits per second, and the time that bytes take at a rate.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

use crate::parse::{Decimal, ParseError, write_scaled};
use crate::{ByteSize, Duration};

/// Picoseconds in a second, times bits in a byte: `ps = bytes · this / bps`.
const PS_BITS_PER_S_BYTE: u128 = 8_000_000_000_000;

/// A rate in bits per second, never zero.
///
/// Rounding is to whole units and always against the sender: a transfer takes
/// [at least](Rate::time_to_send) as long as it would with real numbers, and in
/// a given time [at most](Rate::bytes_in) as many bytes pass. So a shaper built
/// on these never exceeds its rate, and `bytes_in(time_to_send(n)) >= n`.
///
/// ```
/// use barewire_units::{ByteSize, Duration, Rate};
///
/// let gigabit: Rate = "1Gbit/s".parse()?;
/// assert_eq!(gigabit.time_to_send(ByteSize::from_bytes(1538)), Duration::from_ns(12_304));
/// assert_eq!(gigabit.bytes_in(Duration::from_us(1)), ByteSize::from_bytes(125));
/// assert_eq!(Rate::from_mbps(100).to_string(), "100Mbit/s");
///
/// // One byte at 3 bit/s takes 2.666… s: rounded up to the next picosecond.
/// let slow = Rate::from_bps(3);
/// assert_eq!(slow.time_to_send(ByteSize::from_bytes(1)).as_ps(), 2_666_666_666_667);
/// # Ok::<(), barewire_units::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    bps: NonZeroU64,
}

impl Rate {
    const UNITS: &'static str = "bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s";

    /// A rate of `bps` bits per second, or `None` for zero.
    #[must_use]
    pub const fn new(bps: u64) -> Option<Self> {
        match NonZeroU64::new(bps) {
            Some(bps) => Some(Self { bps }),
            None => None,
        }
    }

    /// A rate of `bps` bits per second. Panics on zero.
    #[must_use]
    pub const fn from_bps(bps: u64) -> Self {
        match Self::new(bps) {
            Some(rate) => rate,
            None => panic!("a rate of zero"),
        }
    }

    /// A rate of `kbps` times 10³ bits per second. Panics on zero and beyond 2⁶⁴.
    #[must_use]
    pub const fn from_kbps(kbps: u64) -> Self {
        Self::from_units(kbps, 1_000)
    }

    /// A rate of `mbps` times 10⁶ bits per second. Panics on zero and beyond 2⁶⁴.
    #[must_use]
    pub const fn from_mbps(mbps: u64) -> Self {
        Self::from_units(mbps, 1_000_000)
    }

    /// A rate of `gbps` times 10⁹ bits per second. Panics on zero and beyond 2⁶⁴.
    #[must_use]
    pub const fn from_gbps(gbps: u64) -> Self {
        Self::from_units(gbps, 1_000_000_000)
    }

    const fn from_units(n: u64, bps_per_unit: u64) -> Self {
        match n.checked_mul(bps_per_unit) {
            Some(bps) => Self::from_bps(bps),
            None => panic!("a rate beyond 2^64 bit/s"),
        }
    }

    /// The rate at which `size` passes in `time`, rounded to the nearest bit
    /// per second, halves up. `None` if it is zero, infinite or beyond 2⁶⁴.
    ///
    /// ```
    /// use barewire_units::{ByteSize, Duration, Rate};
    /// let measured = Rate::measured(ByteSize::from_kib(32), Duration::from_us(297));
    /// assert_eq!(measured, Some(Rate::from_bps(882_639_731)));
    /// assert_eq!(Rate::measured(ByteSize::from_kib(32), Duration::ZERO), None);
    /// ```
    #[must_use]
    pub fn measured(size: ByteSize, time: Duration) -> Option<Self> {
        if time.is_zero() {
            return None;
        }
        let ps = u128::from(time.as_ps());
        let scaled = u128::from(size.as_bytes()) * PS_BITS_PER_S_BYTE;
        u64::try_from((scaled + ps / 2) / ps)
            .ok()
            .and_then(Self::new)
    }

    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.bps.get()
    }

    /// The time that `size` takes, rounded up to a whole picosecond.
    /// Panics beyond [`Duration::MAX`].
    #[must_use]
    pub fn time_to_send(self, size: ByteSize) -> Duration {
        self.checked_time_to_send(size)
            .expect("a transfer of more than 213 days")
    }

    /// The time that `size` takes, rounded up to a whole picosecond, or `None`
    /// beyond [`Duration::MAX`].
    #[must_use]
    pub fn checked_time_to_send(self, size: ByteSize) -> Option<Duration> {
        // Below 2^64 · 2^43, so no overflow.
        let scaled = u128::from(size.as_bytes()) * PS_BITS_PER_S_BYTE;
        let ps = scaled.div_ceil(u128::from(self.as_bps()));
        u64::try_from(ps).ok().map(Duration::from_ps)
    }

    /// The whole bytes that pass in `time`, rounded down; at most
    /// [`ByteSize::MAX`].
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> ByteSize {
        let scaled = u128::from(time.as_ps()) * u128::from(self.as_bps());
        let bytes = scaled / PS_BITS_PER_S_BYTE;
        ByteSize::from_bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// The largest decimal unit that is not larger than the rate, and an exact
/// fraction. What is written here parses back to the same value.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.as_bps();
        let (unit, suffix) = match bps {
            1_000_000_000_000.. => (1_000_000_000_000, "Tbit/s"),
            1_000_000_000.. => (1_000_000_000, "Gbit/s"),
            1_000_000.. => (1_000_000, "Mbit/s"),
            1_000.. => (1_000, "kbit/s"),
            _ => (1, "bit/s"),
        };
        write_scaled(f, bps, unit, suffix, f.precision())
    }
}

/// `tc` writes rates without the `/s`; both forms are read.
impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, unit) = Decimal::split(text)?;
        let bps_per_unit = match unit.strip_suffix("/s").unwrap_or(unit) {
            "" => return Err(ParseError::NoUnit(Self::UNITS)),
            "bit" => 1,
            "kbit" => 1_000,
            "Mbit" => 1_000_000,
            "Gbit" => 1_000_000_000,
            "Tbit" => 1_000_000_000_000,
            _ => return Err(ParseError::UnknownUnit(Self::UNITS)),
        };
        Self::new(number.times(bps_per_unit)?).ok_or(ParseError::Zero)
    }
}
