//! Numbers, quantities and names as `tc` writes them; see the tables in `tc.rs`.

use barewire_units::{ByteSize, Decimal, Duration, Rate};

use super::super::handle::{Handle, NodeHandle};
use super::super::u32::NUMBER_MAX;

pub(super) const RATE: &str = "a rate such as 100Mbit, 64kbit or 125kbps (bytes per second)";
pub(super) const SIZE: &str = "a size such as 1500, 125Kb (1024 bytes each) or 64kbit";
pub(super) const TIME: &str = "a time such as 50ms, 20us or 1s";
pub(super) const CLASS: &str = "a name such as 1:1 (hex major:minor)";
pub(super) const NUMBER: &str = "a whole number that fits the field";
pub(super) const MASK: &str = "a mask in hex that fits the field";
pub(super) const NODE: &str = "a name such as 800::801 (hex table:bucket:node)";

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;
const TI: u64 = 1 << 40;

/// Units of a rate, in bit/s.
const RATE_UNITS: [(&str, u64); 15] = [
    ("", 1),
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("kibit", KI),
    ("mibit", MI),
    ("gibit", GI),
    ("tibit", TI),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
    ("tbps", 8_000_000_000_000),
];

/// Units of a size, in bytes.
const SIZE_UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", KI),
    ("kb", KI),
    ("m", MI),
    ("mb", MI),
    ("g", GI),
    ("gb", GI),
    ("kbit", KI / 8),
    ("mbit", MI / 8),
    ("gbit", GI / 8),
];

/// Units of a time, in picoseconds.
const TIME_UNITS: [(&str, u64); 10] = [
    ("", 1_000_000),
    ("us", 1_000_000),
    ("usec", 1_000_000),
    ("usecs", 1_000_000),
    ("ms", 1_000_000_000),
    ("msec", 1_000_000_000),
    ("msecs", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("sec", 1_000_000_000_000),
    ("secs", 1_000_000_000_000),
];

pub(super) fn rate(text: &str) -> Option<Rate> {
    quantity(text, &RATE_UNITS).and_then(Rate::new)
}

pub(super) fn size(text: &str) -> Option<ByteSize> {
    quantity(text, &SIZE_UNITS).map(ByteSize::from_bytes)
}

pub(super) fn time(text: &str) -> Option<Duration> {
    quantity(text, &TIME_UNITS).map(Duration::from_ps)
}

/// A decimal number and a unit, as a whole number of the smallest unit.
fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = Decimal::split(text).ok()?;
    if number.text().len() + unit.len() != text.len() {
        // White space, which a word of tc does not have.
        return None;
    }
    let mut units = units.iter();
    let (_, scale) = units.find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.times(*scale).ok()
}

/// A whole number, decimal or with `0x` in hex.
pub(super) fn number(text: &str) -> Option<u32> {
    match strip_0x(text) {
        Some(hex) => from_hex(hex),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// A whole number that fits 16 bits.
pub(super) fn number_u16(text: &str) -> Option<u16> {
    number(text).and_then(|number| u16::try_from(number).ok())
}

/// A mask: hex, with or without `0x`.
pub(super) fn mask(text: &str) -> Option<u32> {
    from_hex(strip_0x(text).unwrap_or(text))
}

fn strip_0x(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

fn from_hex(digits: &str) -> Option<u32> {
    // `from_str_radix` would take a sign.
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// `10:` or `10:1`, not zero in front.
pub(super) fn handle(text: &str) -> Option<Handle> {
    let (major, minor) = text.split_once(':')?;
    let major = hex_part(major, u16::MAX)?;
    let minor = hex_part(minor, u16::MAX)?;
    (major != 0).then_some(Handle::new(major, minor))
}

/// The minor number of a class.
pub(super) fn minor(text: &str) -> Option<u16> {
    mask(text).and_then(|minor| u16::try_from(minor).ok())
}

/// `800:7b:801`, where what is left out is zero.
pub(super) fn node(text: &str) -> Option<NodeHandle> {
    let (table, rest) = text.split_once(':')?;
    let (bucket, node) = rest.split_once(':').unwrap_or((rest, ""));
    Some(NodeHandle {
        table: hex_part(table, NUMBER_MAX)?,
        bucket: hex_part(bucket, 0xff)? as u8,
        node: hex_part(node, NUMBER_MAX)?,
    })
}

fn hex_part(text: &str, most: u16) -> Option<u16> {
    if text.is_empty() {
        return Some(0);
    }
    let number = from_hex(text).and_then(|number| u16::try_from(number).ok())?;
    (number <= most).then_some(number)
}

/// `10.1.2.3` or `10.0.0.0/8`, as value and mask.
pub(super) fn network(text: &str) -> Option<(u32, u32)> {
    let (address, len) = text.split_once('/').unwrap_or((text, "32"));
    let address: core::net::Ipv4Addr = address.parse().ok()?;
    let len = number(len).filter(|&len| len <= 32)?;
    let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
    Some((address.to_bits() & mask, mask))
}
