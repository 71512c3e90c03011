//! Numbers with a unit, as text: exact reading and exact or rounded writing,
//! without floats. Shared by times, sizes and rates.

use core::fmt;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// The text does not begin with a decimal number such as `15`, `7.9` or `1e-3`.
    NoNumber,
    /// A number without a unit where one is needed; the units that would do.
    NoUnit(&'static str),
    /// A unit that is not known here; the units that would do.
    UnknownUnit(&'static str),
    /// `KB` means 1000 bytes to some and 1024 to others: `kB` or `KiB` is clear.
    Ambiguous,
    /// The value is not a whole number of the smallest unit.
    TooFine,
    /// The value does not fit the type.
    TooLarge,
    /// Zero where only a positive value makes sense.
    Zero,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => f.write_str("expected a decimal number, such as 15, 7.9 or 1e-3"),
            Self::NoUnit(units) => write!(f, "expected a unit after the number: {units}"),
            Self::UnknownUnit(units) => write!(f, "unknown unit, expected one of: {units}"),
            Self::Ambiguous => f.write_str("KB is ambiguous: write kB (1000) or KiB (1024)"),
            Self::TooFine => f.write_str("not a whole number of the smallest unit"),
            Self::TooLarge => f.write_str("too large"),
            Self::Zero => f.write_str("must be greater than zero"),
        }
    }
}

impl core::error::Error for ParseError {}

/// A decimal number that has not been given its unit: digits, a fraction, an exponent. It is kept as text, so nothing
/// is rounded and no number is too long.
///
/// ```text
/// DIGITS [ . DIGITS ] [ (e|E) [+|-] DIGITS ]
/// ```
/// An `e` belongs to the number if a digit or a sign follows; otherwise it begins a unit.
///
/// ```
/// use barewire_units::{Decimal, ParseError};
///
/// let (number, unit) = Decimal::split("2.5e3 km")?;
/// assert_eq!((number.times(1_000_000), unit), (Ok(2_500_000_000), "km"));
/// assert_eq!(Decimal::split("1e-3 mm")?.0.times(1), Err(ParseError::TooFine));
/// assert_eq!(Decimal::split("1e20 m")?.0.times(1), Err(ParseError::TooLarge));
/// # Ok::<(), ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
    text: &'a str,
}

impl<'a> Decimal<'a> {
    /// Splits `"7.9 us"` into the number and `"us"`. White space around either is ignored. A sign or a group
    /// separator is no part of a number.
    ///
    /// # Errors
    ///
    /// [`ParseError::NoNumber`].
    pub fn split(text: &'a str) -> Result<(Self, &'a str), ParseError> {
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(ParseError::NoNumber),
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(ParseError::NoNumber);
        }
        let (exponent, unit) = split_exponent(rest)?;
        let number = Self {
            whole,
            fraction,
            exponent,
            text: &text[..text.len() - unit.len()],
        };
        Ok((number, unit.trim_start()))
    }

    /// The number as it was written, without white space: Rust's `f64` reads it, too.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// True for `0`, the one number that may go without a unit.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == 0)
    }

    /// The number times `unit`, exactly.
    ///
    /// # Errors
    ///
    /// [`ParseError::TooFine`] if that is no whole number, [`ParseError::TooLarge`] if it is above `u64::MAX`.
    pub fn times(&self, unit: u64) -> Result<u64, ParseError> {
        if self.is_zero() || unit == 0 {
            return Ok(0);
        }
        let whole_len = self.exponent.saturating_add(self.whole.len() as i64);
        let zeros_before = usize::try_from(whole_len.saturating_neg()).unwrap_or(0);
        let whole_len = usize::try_from(whole_len).unwrap_or(0);
        // From the last digit to the point, as on paper: what stands behind the point must be 0, the carry counts.
        let of_fraction = self.digits().rev();
        let of_fraction = of_fraction.take(self.digits_len().saturating_sub(whole_len));
        let mut carry: u64 = 0;
        // The zeros end early: a carry other than 0 gets to its last digit.
        for digit in of_fraction.chain(core::iter::repeat_n(0, zeros_before)) {
            let product = u128::from(digit) * u128::from(unit) + u128::from(carry);
            if product % 10 != 0 {
                return Err(ParseError::TooFine);
            }
            // Below (9 · 2^64 + 2^64) / 10.
            carry = (product / 10) as u64;
        }
        // The zeros of an exponent end early, too: a number other than 0 gets too large.
        let mut value: u64 = 0;
        let endless = self.digits().chain(core::iter::repeat(0));
        for digit in endless.take(whole_len) {
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(digit))
                .ok_or(ParseError::TooLarge)?;
        }
        value
            .checked_mul(unit)
            .and_then(|value| value.checked_add(carry))
            .ok_or(ParseError::TooLarge)
    }

    fn digits_len(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        let bytes = self.whole.bytes().chain(self.fraction.bytes());
        bytes.map(|byte| u64::from(byte - b'0'))
    }
}

/// Takes an exponent such as `e-3` from the front; without one it is 0. Beyond what any quantity can have, it is as
/// large as an exponent gets.
fn split_exponent(text: &str) -> Result<(i64, &str), ParseError> {
    let rest = text.strip_prefix(['e', 'E']).unwrap_or("");
    let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    let len = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if len == 0 {
        // With a sign, it can be nothing else.
        return match unsigned.len() == rest.len() {
            true => Ok((0, text)),
            false => Err(ParseError::NoNumber),
        };
    }
    let (digits, unit) = unsigned.split_at(len);
    let size = digits.bytes().fold(0_i64, |size, byte| {
        size.saturating_mul(10)
            .saturating_add(i64::from(byte - b'0'))
    });
    let exponent = if rest.starts_with('-') { -size } else { size };
    Ok((exponent, unit))
}

/// Writes `value / unit` and the suffix. Without a precision the fraction is exact and without trailing zeros (`unit` must divide
/// a power of ten); with one it is rounded, halves away from zero.
pub(crate) fn write_scaled(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    unit: u64,
    suffix: &str,
    precision: Option<usize>,
) -> fmt::Result {
    let mut text = Text::new();
    fmt::Write::write_fmt(
        &mut text,
        format_args!(
            "{}{suffix}",
            Scaled {
                value,
                unit,
                precision
            }
        ),
    )?;
    // `pad` would take the precision for a maximal width; only the width counts.
    let text = text.as_str();
    let fill = f
        .width()
        .map_or(0, |width| width.saturating_sub(text.chars().count()));
    if f.align() == Some(fmt::Alignment::Left) {
        f.write_str(text)?;
    }
    for _ in 0..fill {
        fmt::Write::write_char(f, f.fill())?;
    }
    if f.align() != Some(fmt::Alignment::Left) {
        f.write_str(text)?;
    }
    Ok(())
}

/// `value / unit` as a decimal fraction.
struct Scaled {
    value: u64,
    unit: u64,
    precision: Option<usize>,
}

/// Digits after the point that can matter: a picosecond in a second has twelve.
const FRACTION_LEN_MAX: usize = 18;

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = (u128::from(self.value), u128::from(self.unit));
        let exact = self.precision.is_none();
        let mut len = self.precision.unwrap_or(FRACTION_LEN_MAX);
        len = len.min(FRACTION_LEN_MAX);
        let scale = (0..len).fold(1u128, |scale, _| scale * 10);
        // Below 2^64 · 10^18 + 2^63, so below 2^128.
        let rounded = (value * scale + unit / 2) / unit;
        let (whole, mut fraction) = (rounded / scale, rounded % scale);
        if exact {
            while len > 0 && fraction % 10 == 0 {
                fraction /= 10;
                len -= 1;
            }
        }
        write!(f, "{whole}")?;
        if len > 0 {
            write!(f, ".{fraction:0len$}")?;
        }
        Ok(())
    }
}

/// A short text on the stack: the longest value here is 20 digits, a point,
/// 18 digits and a suffix of at most 7 bytes.
struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; 64],
            len: 0,
        }
    }

    fn as_str(&self) -> &str {
        // Only whole `str`s were copied in, so this cannot fail.
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("?")
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}
