//! The tables of results, and their entries.

use barewire_tables::{Entry, ResultColumn, ResultTable};

/// Of a packet with its Ethernet header, what is payload of TCP with time stamps.
pub fn payload_share(mtu_bytes: u32) -> f64 {
    f64::from(mtu_bytes - 52) / f64::from(mtu_bytes + 14)
}

/// A number.
pub fn number(value: f64) -> Entry {
    Entry::Number {
        value,
        half_width: None,
    }
}

/// A whole number.
pub fn count(value: u64) -> Entry {
    Entry::Text(value.to_string())
}

/// Words.
pub fn text(text: &str) -> Entry {
    Entry::Text(text.to_owned())
}

/// A table, its first columns being the keys.
pub fn table(
    name: &str,
    keys: usize,
    columns: &[(&str, &str)],
    rows: Vec<Vec<Entry>>,
) -> ResultTable {
    let columns = columns.iter().map(|(name, unit)| ResultColumn {
        name: (*name).to_owned(),
        unit: (*unit).to_owned(),
    });
    ResultTable {
        name: name.to_owned(),
        keys,
        columns: columns.collect(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_count() {
        assert!((payload_share(1500) - 0.956_41).abs() < 1e-5);
        assert!((payload_share(9000) - 0.992_68).abs() < 1e-5);
    }
}
