//! Numbers with a unit, as text: exact reading and exact or rounded writing,
//! without floats. Shared by times, sizes and rates.

use core::fmt;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// The text does not begin with a decimal number such as `15` or `7.9`.
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
            Self::NoNumber => f.write_str("expected a decimal number"),
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

/// A decimal number not yet given its unit: `digits / 10^fraction_len`.
pub(crate) struct Number {
    digits: u128,
    fraction_len: u32,
}

impl Number {
    /// Splits `"7.9 us"` into the number and `"us"`. White space around either
    /// is ignored; a sign, an exponent or a group separator is not a number.
    pub(crate) fn split(text: &str) -> Result<(Self, &str), ParseError> {
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(ParseError::NoNumber),
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') {
            return Err(ParseError::NoNumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let mut digits: u128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            digits = digits
                .checked_mul(10)
                .and_then(|d| d.checked_add(u128::from(byte - b'0')))
                .ok_or(ParseError::TooLarge)?;
        }
        let fraction_len = u32::try_from(fraction.len()).map_err(|_| ParseError::TooFine)?;
        Ok((
            Self {
                digits,
                fraction_len,
            },
            unit.trim_start(),
        ))
    }

    /// True for `0`, the one number that may go without a unit.
    pub(crate) const fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// The number times `unit`, exactly, or why not.
    pub(crate) fn times(&self, unit: u64) -> Result<u64, ParseError> {
        let scaled = self
            .digits
            .checked_mul(u128::from(unit))
            .ok_or(ParseError::TooLarge)?;
        let divisor = 10u128
            .checked_pow(self.fraction_len)
            .ok_or(ParseError::TooFine)?;
        if scaled % divisor != 0 {
            return Err(ParseError::TooFine);
        }
        u64::try_from(scaled / divisor).map_err(|_| ParseError::TooLarge)
    }
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
