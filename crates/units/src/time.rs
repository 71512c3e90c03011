//! Time in integer picoseconds.
//!
//! A picosecond is fine enough for one bit of a 1 Tbit/s link, and 64 bits of
//! them last 213 days: longer than any simulation, and longer than the waits of
//! a live program (which counts from its own start, not from 1970).
//! `std::time::Instant` cannot be made from a number, so a test or a simulator
//! cannot say what time it is; this one can.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use core::str::FromStr;

use crate::parse::{Decimal, ParseError, write_scaled};

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// A span of time: whole picoseconds, never negative, at most 213 days.
///
/// ```
/// use barewire_units::Duration;
///
/// let spin: Duration = "15us".parse()?;
/// assert_eq!(spin, Duration::from_us(15));
/// assert_eq!("7.9 us".parse::<Duration>()?.as_ps(), 7_900_000);
/// assert_eq!((spin - Duration::from_ns(100)).to_string(), "14.9us");
/// assert_eq!(format!("{:.1}", Duration::from_ns(1_250)), "1.3us");
/// assert_eq!(Duration::MAX.checked_add(Duration::from_ps(1)), None);
/// # Ok::<(), barewire_units::ParseError>(())
/// ```
///
/// A number needs its unit, and must be a whole number of picoseconds:
///
/// ```
/// use barewire_units::{Duration, ParseError};
///
/// assert_eq!("0".parse(), Ok(Duration::ZERO));
/// assert!(matches!("15".parse::<Duration>(), Err(ParseError::NoUnit(_))));
/// assert_eq!("0.5ps".parse::<Duration>(), Err(ParseError::TooFine));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    ps: u64,
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self { ps: 0 };
    /// The longest span: 213 days.
    pub const MAX: Self = Self { ps: u64::MAX };

    const UNITS: &'static str = "ps, ns, us, ms, s, min, h";

    /// A span of `ps` picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self { ps }
    }

    /// A span of `ns` nanoseconds. Panics beyond [`Duration::MAX`].
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self::from_units(ns, PS_PER_NS)
    }

    /// A span of `us` microseconds. Panics beyond [`Duration::MAX`].
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self::from_units(us, PS_PER_US)
    }

    /// A span of `ms` milliseconds. Panics beyond [`Duration::MAX`].
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self::from_units(ms, PS_PER_MS)
    }

    /// A span of `s` seconds. Panics beyond [`Duration::MAX`].
    #[must_use]
    pub const fn from_s(s: u64) -> Self {
        Self::from_units(s, PS_PER_S)
    }

    const fn from_units(n: u64, ps_per_unit: u64) -> Self {
        match n.checked_mul(ps_per_unit) {
            Some(ps) => Self { ps },
            None => panic!("a duration beyond 213 days"),
        }
    }

    /// Whole picoseconds: the exact value.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.ps
    }

    /// Whole nanoseconds, rounded down.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.ps / PS_PER_NS
    }

    /// Whole microseconds, rounded down.
    #[must_use]
    pub const fn as_us(self) -> u64 {
        self.ps / PS_PER_US
    }

    /// Whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.ps / PS_PER_MS
    }

    /// Whole seconds, rounded down.
    #[must_use]
    pub const fn as_s(self) -> u64 {
        self.ps / PS_PER_S
    }

    /// True for [`Duration::ZERO`].
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.ps == 0
    }

    /// The sum, or `None` beyond [`Duration::MAX`].
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.ps.checked_add(other.ps) {
            Some(ps) => Some(Self { ps }),
            None => None,
        }
    }

    /// The difference, or `None` if `other` is longer.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.ps.checked_sub(other.ps) {
            Some(ps) => Some(Self { ps }),
            None => None,
        }
    }

    /// The product, or `None` beyond [`Duration::MAX`].
    #[must_use]
    pub const fn checked_mul(self, factor: u64) -> Option<Self> {
        match self.ps.checked_mul(factor) {
            Some(ps) => Some(Self { ps }),
            None => None,
        }
    }

    /// The sum, at most [`Duration::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self {
            ps: self.ps.saturating_add(other.ps),
        }
    }

    /// The difference, at least [`Duration::ZERO`].
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self {
            ps: self.ps.saturating_sub(other.ps),
        }
    }
}

/// The sum; panics beyond [`Duration::MAX`].
impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.checked_add(other).expect("a duration beyond 213 days")
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The difference; panics if the right side is longer.
impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.checked_sub(other).expect("a negative duration")
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The product; panics beyond [`Duration::MAX`].
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        self.checked_mul(factor)
            .expect("a duration beyond 213 days")
    }
}

/// The `divisor`-th part, rounded down; panics on zero.
impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self {
            ps: self.ps / divisor,
        }
    }
}

/// How often the right side fits, rounded down; panics on zero.
impl Div for Duration {
    type Output = u64;
    fn div(self, other: Self) -> u64 {
        self.ps / other.ps
    }
}

/// What is left after the whole multiples of the right side; panics on zero.
impl Rem for Duration {
    type Output = Self;
    fn rem(self, other: Self) -> Self {
        Self {
            ps: self.ps % other.ps,
        }
    }
}

/// The sum; panics beyond [`Duration::MAX`].
impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// The largest unit that is not longer than the value, and an exact fraction.
/// What is written here parses back to the same value.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, suffix) = match self.ps {
            PS_PER_S.. => (PS_PER_S, "s"),
            PS_PER_MS.. => (PS_PER_MS, "ms"),
            PS_PER_US.. => (PS_PER_US, "us"),
            PS_PER_NS.. => (PS_PER_NS, "ns"),
            0 => (1, "s"),
            _ => (1, "ps"),
        };
        write_scaled(f, self.ps, unit, suffix, f.precision())
    }
}

impl FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, unit) = Decimal::split(text)?;
        let ps_per_unit = match unit {
            "" if number.is_zero() => 1,
            "" => return Err(ParseError::NoUnit(Self::UNITS)),
            "ps" => 1,
            "ns" => PS_PER_NS,
            // U+00B5 micro sign and U+03BC Greek mu look alike.
            "us" | "\u{b5}s" | "\u{3bc}s" => PS_PER_US,
            "ms" => PS_PER_MS,
            "s" => PS_PER_S,
            "min" => 60 * PS_PER_S,
            "h" => 3_600 * PS_PER_S,
            _ => return Err(ParseError::UnknownUnit(Self::UNITS)),
        };
        number.times(ps_per_unit).map(Self::from_ps)
    }
}

/// Rounded down to whole nanoseconds, which is all that the other type holds.
///
/// ```
/// use barewire_units::Duration;
/// let wait: core::time::Duration = Duration::from_ps(1_500).into();
/// assert_eq!(wait, core::time::Duration::from_nanos(1));
/// ```
impl From<Duration> for core::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.as_ns())
    }
}

/// Exact, or an error beyond [`Duration::MAX`].
///
/// ```
/// use barewire_units::{Duration, ParseError};
/// let std = core::time::Duration::from_micros(15);
/// assert_eq!(Duration::try_from(std), Ok(Duration::from_us(15)));
/// let year = core::time::Duration::from_secs(365 * 86_400);
/// assert_eq!(Duration::try_from(year), Err(ParseError::TooLarge));
/// ```
impl TryFrom<core::time::Duration> for Duration {
    type Error = ParseError;
    fn try_from(duration: core::time::Duration) -> Result<Self, ParseError> {
        duration
            .as_nanos()
            .checked_mul(u128::from(PS_PER_NS))
            .and_then(|ps| u64::try_from(ps).ok())
            .map(Self::from_ps)
            .ok_or(ParseError::TooLarge)
    }
}

/// A point in time: picoseconds since an origin that whoever owns the clock
/// chose (the start of the program, the start of the simulation).
///
/// ```
/// use barewire_units::{Duration, Instant};
///
/// let start = Instant::ORIGIN;
/// let later = start + Duration::from_us(15);
/// assert_eq!(later - start, Duration::from_us(15));
/// assert_eq!(start.checked_duration_since(later), None);
/// assert_eq!(start.saturating_duration_since(later), Duration::ZERO);
/// assert_eq!(later.to_string(), "15us");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ps_since_origin: u64,
}

impl Instant {
    /// The beginning of time.
    pub const ORIGIN: Self = Self { ps_since_origin: 0 };
    /// The last instant: a deadline that never comes.
    pub const MAX: Self = Self {
        ps_since_origin: u64::MAX,
    };

    /// The instant `ps` picoseconds after the origin.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self {
            ps_since_origin: ps,
        }
    }

    /// The time since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_ps(self.ps_since_origin)
    }

    /// The time from `earlier` to here, or `None` if it is later.
    #[must_use]
    pub const fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.since_origin().checked_sub(earlier.since_origin())
    }

    /// The time from `earlier` to here, or zero if it is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.since_origin().saturating_sub(earlier.since_origin())
    }

    /// The instant `duration` later, or `None` beyond [`Instant::MAX`].
    #[must_use]
    pub const fn checked_add(self, duration: Duration) -> Option<Self> {
        match self.ps_since_origin.checked_add(duration.ps) {
            Some(ps_since_origin) => Some(Self { ps_since_origin }),
            None => None,
        }
    }

    /// The instant `duration` earlier, or `None` before the origin.
    #[must_use]
    pub const fn checked_sub(self, duration: Duration) -> Option<Self> {
        match self.ps_since_origin.checked_sub(duration.ps) {
            Some(ps_since_origin) => Some(Self { ps_since_origin }),
            None => None,
        }
    }

    /// The instant `duration` later, at most [`Instant::MAX`].
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self {
            ps_since_origin: self.ps_since_origin.saturating_add(duration.ps),
        }
    }
}

/// Panics beyond [`Instant::MAX`].
impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration)
            .expect("an instant beyond 213 days")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// Panics before the origin.
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration)
            .expect("an instant before the origin")
    }
}

/// Panics if the right side is later.
impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier)
            .expect("a negative duration")
    }
}

/// As the time since the origin.
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.since_origin().fmt(f)
    }
}
