//! Reading quantities with their units.

use barewire_units::{ByteSize, Duration, Rate};

use super::read::Reader;

/// A time.
pub(super) fn time(reader: &mut Reader, section: &str, key: &str) -> Duration {
    let time = reader.quantity(section, key, "time", "100 ms");
    time.unwrap_or(Duration::from_ms(1))
}

/// A time above 0.
pub(super) fn positive_time(reader: &mut Reader, section: &str, key: &str) -> Duration {
    let time = time(reader, section, key);
    if time.is_zero() {
        reader.fault(section, key, "expected a time above 0");
    }
    time
}

/// A size within bounds.
pub(super) fn size(reader: &mut Reader, section: &str, key: &str, least: u64, most: u64) -> u64 {
    reader.demand_unit(section, key, "size", "64 KiB");
    let size = reader.quantity::<ByteSize>(section, key, "size", "64 KiB");
    let bytes = size.map_or(least, ByteSize::as_bytes);
    if !(least..=most).contains(&bytes) {
        let (least, most) = (ByteSize::from_bytes(least), ByteSize::from_bytes(most));
        reader.fault(section, key, format!("expected a size, {least} to {most}"));
    }
    bytes
}

/// The rate of a line; `None` if the key is empty.
pub(super) fn read_line(r: &mut Reader, section: &str) -> Option<Rate> {
    let text = r.text(section, "line");
    let rate = text.parse().ok();
    if rate.is_none() && !text.is_empty() {
        let wanted = "expected a rate with its unit, such as \"10 Gbit/s\"";
        r.fault(section, "line", wanted);
    }
    rate
}
