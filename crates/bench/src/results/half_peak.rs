//! How large messages must be for half of the best rate: the size that makes a transport's
//! fixed costs visible (N1/2).

use serde::{Deserialize, Serialize};

use crate::case::Transport;
use crate::results::Row;

/// The size from which on a transport reaches half of its best rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HalfPeak {
    /// What carried the messages.
    pub transport: String,
    /// The way it was used.
    pub variant: String,
    /// The band in which all of its figures were measured.
    pub band: String,
    /// Its best rate, in bytes per second.
    pub peak: f64,
    /// The size, interpolated between measured ones.
    pub size_bytes: f64,
    /// False if the smallest size measured reaches half the rate already.
    pub reached: bool,
}

impl HalfPeak {
    /// Transport and variant together.
    pub fn who(&self) -> String {
        format!("{} {}", self.transport, self.variant)
            .trim_end()
            .to_owned()
    }

    /// The size, in words.
    pub fn size(&self) -> String {
        let least = if self.reached { "" } else { "<" };
        match self.size_bytes {
            size if size < 2048.0 => format!("{least}{size:.0} B"),
            size => format!("{least}{:.1} KiB", size / 1024.0),
        }
    }
}

/// For each transport and variant with at least three sizes in one band. `rows` are those
/// of all bands: figures of different bands do not make one curve.
pub fn half_peaks(rows: &[Row]) -> Vec<HalfPeak> {
    let mut curves: Vec<Vec<&Row>> = Vec::new();
    for row in rows.iter().filter(|row| row.test == "stream") {
        let same = |other: &Row| other.who() == row.who() && other.band == row.band;
        match curves.iter_mut().find(|curve| same(curve[0])) {
            Some(curve) => curve.push(row),
            None => curves.push(vec![row]),
        }
    }
    let mut best: Vec<Vec<&Row>> = Vec::new();
    for curve in curves.into_iter().filter(|curve| curve.len() >= 3) {
        let weight = |curve: &[&Row]| {
            let samples: u64 = curve.iter().map(|row| row.samples).sum();
            (curve.len(), samples)
        };
        match best
            .iter_mut()
            .find(|known| known[0].who() == curve[0].who())
        {
            Some(known) if weight(known) >= weight(&curve) => {}
            Some(known) => *known = curve,
            None => best.push(curve),
        }
    }
    let place = |half: &HalfPeak| {
        let known = Transport::ALL
            .iter()
            .position(|t| t.name() == half.transport);
        (known.unwrap_or(usize::MAX), half.variant.clone())
    };
    let mut halves: Vec<HalfPeak> = best.into_iter().filter_map(half_peak).collect();
    halves.sort_by_key(place);
    halves
}

fn half_peak(mut curve: Vec<&Row>) -> Option<HalfPeak> {
    curve.sort_by_key(|row| row.size_bytes);
    let peak = curve.iter().map(|row| row.median).fold(0.0, f64::max);
    let half = peak / 2.0;
    let at = curve.iter().position(|row| row.median >= half)?;
    let high = curve[at];
    let mut size_bytes = high.size_bytes as f64;
    if let Some(low) = at.checked_sub(1).map(|before| curve[before]) {
        // Both scales are logarithmic: rates grow like a power of the size there.
        let share = (half / low.median).ln() / (high.median / low.median).ln();
        let (from, to) = ((low.size_bytes as f64).ln(), size_bytes.ln());
        size_bytes = (from + share.clamp(0.0, 1.0) * (to - from)).exp();
    }
    Some(HalfPeak {
        transport: high.transport.clone(),
        variant: high.variant.clone(),
        band: high.band.clone(),
        peak,
        size_bytes,
        reached: at > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    fn row(size_bytes: u64, median: f64, band: &str) -> Row {
        let stream = report().results.into_iter().find(|r| r.test == "stream");
        Row {
            size_bytes,
            median,
            band: band.into(),
            ..stream.unwrap()
        }
    }

    #[test]
    fn it_is_interpolated_within_one_band() {
        let rows = [
            row(8, 1e9, "A"),
            row(64, 4e9, "A"),
            row(256, 16e9, "A"),
            row(4096, 16e9, "A"),
            row(8, 100e9, "B"),
        ];
        let halves = half_peaks(&rows);
        assert_eq!(halves.len(), 1);
        assert!((halves[0].size_bytes - 128.0).abs() < 1e-6);
        assert!((halves[0].peak - 16e9).abs() < 1.0);
        assert_eq!(halves[0].size(), "128 B");
    }

    #[test]
    fn a_curve_that_begins_high_says_so() {
        let rows = [row(8, 3e9, "A"), row(64, 4e9, "A"), row(256, 4e9, "A")];
        let halves = half_peaks(&rows);
        assert_eq!(halves[0].size(), "<8 B");
        assert!(half_peaks(&rows[..2]).is_empty());
    }
}
