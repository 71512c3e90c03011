//! Times as numbers, and what is made of many of them.

use barewire_units::{ByteSize, Duration};

/// A time in seconds.
pub(crate) fn seconds(time: Duration) -> f64 {
    time.as_ps() as f64 * 1e-12
}

/// A time in microseconds.
pub(crate) fn us(time: Duration) -> f64 {
    time.as_ps() as f64 / 1e6
}

/// `bytes` in `time` as Mbit/s; `None` in no time.
pub(crate) fn mbps(bytes: u64, time: Duration) -> Option<f64> {
    // Bits a microsecond are Mbit/s.
    (!time.is_zero()).then(|| bytes as f64 * 8.0 / us(time))
}

/// Part of the whole in percent.
pub(crate) fn per_cent(part: Duration, whole: Duration) -> Option<f64> {
    (!whole.is_zero()).then(|| 100.0 * part.as_ps() as f64 / whole.as_ps() as f64)
}

/// The mean of some values; of nothing there is none.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The value that 99 of 100 do not exceed.
pub(crate) fn p99(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * 99).div_ceil(100);
    values.get(rank.checked_sub(1)?).copied()
}

/// Bytes of a size, for memory that holds it.
pub(crate) fn bytes(size: ByteSize) -> usize {
    size.as_usize().unwrap_or(usize::MAX)
}
