//! Numbers for people: a few figures, and the unit or prefix that suits.

use std::time::Duration;

/// A time in nanoseconds in three figures with its unit.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 9.995 => format!("{ns:.2} ns"),
        ns if ns < 99.95 => format!("{ns:.1} ns"),
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 9_995.0 => format!("{:.2} us", ns / 1e3),
        ns if ns < 99_950.0 => format!("{:.1} us", ns / 1e3),
        ns if ns < 999_500.0 => format!("{:.0} us", ns / 1e3),
        ns if ns < 9_995_000.0 => format!("{:.2} ms", ns / 1e6),
        ns if ns < 999_500_000.0 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A number in three figures with a prefix.
pub fn prefixed(value: f64) -> String {
    let (value, prefix) = match value {
        v if v < 999.5 => (v, ""),
        v if v < 999.5e3 => (v / 1e3, "k"),
        v if v < 999.5e6 => (v / 1e6, "M"),
        v => (v / 1e9, "G"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let gap = if prefix.is_empty() { "" } else { " " };
    format!("{value:.digits$}{gap}{prefix}")
}

/// A ratio in three figures.
pub fn ratio(value: f64) -> String {
    match value {
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 9.95 => format!("{v:.2}"),
        v if v < 99.5 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Bytes, in binary units where they are whole.
pub fn bytes(size: u64) -> String {
    match size {
        s if s >= 1 << 20 && s % (1 << 20) == 0 => format!("{} MiB", s >> 20),
        s if s >= 1 << 10 && s % (1 << 10) == 0 => format!("{} KiB", s >> 10),
        s => format!("{s} B"),
    }
}

/// A duration in its largest unit and the next.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(of(7), "7s");
        assert_eq!(of(61), "1m01s");
        assert_eq!(of(3660), "1h01m");
        assert_eq!(of(90_000), "1d01h");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(time(97.04), "97.0 ns");
        assert_eq!(time(999.6), "1.00 us");
        assert_eq!(time(47_123.0), "47.1 us");
        assert_eq!(prefixed(12_800.0), "12.8 k");
        assert_eq!(prefixed(999.6e6), "1.00 G");
        assert_eq!(ratio(0.0123), "0.012");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(56), "56 B");
    }
}
