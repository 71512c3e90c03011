//! How delays are shown: percentiles and small bars in a table, and one histogram large.

use barewire_report::number::time;
use serde_json::{Value, json};

use super::cell::{Cell, optional};
use crate::delay::{Histogram, upto_us};

/// Bars, the smallest first.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What stands for the percentile of those that took longer than any bucket goes, in microseconds.
const LONGER_US: u64 = 2 << 20;

/// The cells of a histogram: two percentiles and the buckets.
pub fn cells(delays: Option<&Histogram>) -> [Cell; 3] {
    let some = delays.filter(|delays| delays.count() > 0);
    let percentile = |percent| optional(some.and_then(|it| it.percentile(percent)).map(upto));
    let filled = |delays: &Histogram| {
        let counts = delays.counts().iter().enumerate();
        let counts = counts.filter(|(_, count)| **count > 0);
        let bucket = |(at, count): (usize, &u64)| json!({ "upto_us": upto_us(at), "count": count });
        counts.map(bucket).collect()
    };
    let buckets = Cell {
        text: some.map_or_else(|| "-".to_owned(), bars),
        value: Value::Array(some.map_or_else(Vec::new, filled)),
    };
    [percentile(50), percentile(99), buckets]
}

/// Up to where a bucket goes.
fn upto(bucket: usize) -> Cell {
    Cell {
        text: label(bucket),
        value: json!(upto_us(bucket).unwrap_or(LONGER_US)),
    }
}

fn label(bucket: usize) -> String {
    match upto_us(bucket) {
        Some(0) => "0".to_owned(),
        Some(us) => time(us as f64 * 1e3),
        None => "longer".to_owned(),
    }
}

/// A character for nothing that waited, and one for each two buckets.
fn bars(delays: &Histogram) -> String {
    let counts = delays.counts();
    let two = counts[1..].chunks(2).map(|two| two.iter().sum());
    let counts: Vec<u64> = std::iter::once(counts[0]).chain(two).collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: &u64| match count {
        0 => ' ',
        count => BARS[((count * BARS.len() as u64).div_ceil(most) as usize).clamp(1, 8) - 1],
    };
    let bars: String = counts.iter().map(bar).collect();
    bars.trim_end().to_owned()
}

/// One histogram, a line for each bucket from the first that has something to the last, so many columns wide.
pub fn large(delays: &Histogram, columns: usize) -> Vec<String> {
    let most = delays.counts().iter().copied().max().unwrap_or(0).max(1);
    let room = columns.saturating_sub(22).max(1) as u64;
    let has_some = |count: &u64| *count > 0;
    let first = delays.counts().iter().position(has_some).unwrap_or(0);
    let last = delays.counts().iter().rposition(has_some).unwrap_or(0);
    let line = |at: usize| {
        let count = delays.counts()[at];
        let bar = "█".repeat((count * room).div_ceil(most) as usize);
        let name = match upto_us(at) {
            Some(0) => "nothing waited".to_owned(),
            Some(_) => format!("up to {}", label(at)),
            None => label(at),
        };
        format!("{name:>14} {count:>5} {bar}")
    };
    (first..=last).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Histogram {
        let mut delays = Histogram::default();
        for (ns, count) in [(0, 16), (1500, 8), (9_000_000, 1), (u64::MAX, 1)] {
            (0..count).for_each(|_| delays.add(ns));
        }
        delays
    }

    #[test]
    fn percentiles_bars_and_buckets_are_shown() {
        let [half, most, bars] = cells(Some(&some()));
        assert_eq!((half.text.as_str(), half.value), ("0", json!(0)));
        assert_eq!(
            (most.text.as_str(), most.value),
            ("longer", json!(2_097_152))
        );
        assert_eq!(bars.text, "█▄      ▁  ▁");
        let expected = json!([
            { "upto_us": 0, "count": 16 },
            { "upto_us": 2, "count": 8 },
            { "upto_us": 16384, "count": 1 },
            { "upto_us": null, "count": 1 },
        ]);
        assert_eq!(bars.value, expected);
    }

    #[test]
    fn nothing_is_shown_of_what_is_silent_or_not_seen() {
        for delays in [None, Some(&Histogram::default())] {
            let [half, most, bars] = cells(delays);
            assert_eq!([&half.value, &most.value], [&Value::Null; 2]);
            assert_eq!((bars.text.as_str(), bars.value), ("-", json!([])));
        }
    }

    #[test]
    fn one_is_shown_large() {
        let lines = large(&some(), 30);
        assert_eq!(lines.len(), 23);
        assert_eq!(lines[0], "nothing waited    16 ████████");
        assert_eq!(lines[2], " up to 2.00 us     8 ████");
        assert_eq!(lines[22], "        longer     1 █");
        assert_eq!(large(&Histogram::default(), 0).len(), 1);
        let mut one = Histogram::default();
        one.add(1000);
        assert_eq!(large(&one, 0), [" up to 1.00 us     1 █"]);
    }
}
