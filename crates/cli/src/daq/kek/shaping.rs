//! The paper's own question: streams 1x1, 1x3 and 3x1, shaped by the kernel and not.

use std::time::Duration;

use barewire_daq::shape::{Class, ClassId, LATENESS};
use barewire_tables::{Entry, ResultTable};
use barewire_units::Rate;

use super::error::KekError;
use super::measurement::Measurement;
use super::star::{Line, Star, Wiring, limit};
use super::streams::{Measured, Stream, run};
use super::tables::{count, number, payload_share, table, text};

const MTUS_BYTES: [u32; 2] = [1500, 9000];
/// What two processors need to carry 1 Gbit/s.
const SEGMENTS_MAX: u32 = 8;
/// Of every port.
const LINE: Line = Line {
    rate: Rate::from_gbps(1),
    buffer_bytes: Some(512 << 10),
};
/// What a class sends at once is what its rate does in five times the lateness of the kernel.
const BURST_LATENESSES: u64 = 5;
const BURST_BYTES_MIN: u64 = 18_100;

#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub name: &'static str,
    sources: usize,
    destinations: usize,
}

const ONE: Layout = layout("1x1", 1, 1);
pub const SPREAD: Layout = layout("1x3", 1, 3);
const GATHER: Layout = layout("3x1", 3, 1);
/// What each stream is set to, in Mbit/s.
const SETTINGS: [(Layout, &[u64]); 3] = [
    (ONE, &[100, 300, 1000]),
    (SPREAD, &[100, 333]),
    (GATHER, &[100, 333]),
];

const fn layout(name: &'static str, sources: usize, destinations: usize) -> Layout {
    Layout {
        name,
        sources,
        destinations,
    }
}

impl Layout {
    /// Sources are the first hosts. Every stream has a class of its own at its source.
    pub fn streams(self) -> Vec<Stream> {
        let pairs = (0..self.sources)
            .flat_map(|from| (0..self.destinations).map(move |to| (from, self.sources + to)));
        let minors = 1_u16..;
        let streams = pairs.zip(minors).map(|((from, to), minor)| Stream {
            from,
            to,
            class: Some(ClassId::ours(minor)),
            paced: None,
        });
        streams.collect()
    }

    /// With lines at the ports of the destinations.
    pub fn star(self, kek: &Measurement, mtu_bytes: u32) -> Result<Star, KekError> {
        let wiring = Wiring {
            mtu_bytes,
            segments_max: SEGMENTS_MAX,
            congestion: &kek.congestion,
        };
        let mut star = Star::new(self.sources + self.destinations, &wiring)?;
        for host in &mut star.hosts[self.sources..] {
            limit(&mut host.port, LINE)?;
        }
        Ok(star)
    }
}

/// Shapes every stream at its source.
fn shape(star: &mut Star, streams: &[Stream], rate: Rate) -> Result<(), KekError> {
    let burst = rate.bytes_in(LATENESS).as_bytes() * BURST_LATENESSES;
    let class = Class {
        rate,
        burst_bytes: burst.max(BURST_BYTES_MIN),
    };
    for (from, id) in streams.iter().filter_map(|it| Some((it.from, it.class?))) {
        let nic = &mut star.hosts[from].nic;
        nic.set_root(id.queue, None)?;
        nic.set_class(id, class)?;
    }
    Ok(())
}

/// The rate that was set beside the rate that comes out.
pub fn settings(kek: &Measurement) -> Result<ResultTable, KekError> {
    let mut rows = Vec::new();
    for mtu_bytes in MTUS_BYTES {
        for (layout, rates) in SETTINGS {
            for &mbps in rates {
                kek.say(&format!(
                    "{}, MTU {mtu_bytes}, {mbps} Mbit/s each",
                    layout.name
                ));
                let streams = layout.streams();
                let mut star = layout.star(kek, mtu_bytes)?;
                shape(&mut star, &streams, Rate::from_mbps(mbps))?;
                let measured = run(&mut star, &streams, kek.time)?;
                rows.push(settings_row(layout, mtu_bytes, mbps, &measured));
            }
        }
    }
    let columns = [
        ("streams", ""),
        ("MTU", "B"),
        ("set, each", "Mbit/s"),
        ("payload, least", "Mbit/s"),
        ("payload, most", "Mbit/s"),
        ("payload, all", "Mbit/s"),
        ("farthest", "of the setting"),
        ("drops", ""),
        ("sent again", ""),
    ];
    Ok(table("shaped: set and measured", 3, &columns, rows))
}

fn settings_row(layout: Layout, mtu_bytes: u32, set_mbps: u64, measured: &Measured) -> Vec<Entry> {
    let could = set_mbps as f64 * payload_share(mtu_bytes);
    let parts = measured.mbps.iter().map(|it| it / could);
    let farthest = parts.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
    let (least, most) = extremes(&measured.mbps);
    vec![
        text(layout.name),
        count(mtu_bytes.into()),
        count(set_mbps),
        number(least),
        number(most),
        number(measured.mbps.iter().sum()),
        number(farthest.unwrap_or(0.0)),
        count(measured.drops),
        count(measured.retransmitted),
    ]
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(0.0, f64::max))
}

/// How streams share a line by themselves: at the source that they leave, or at the port where
/// they meet.
pub fn fairness(kek: &Measurement) -> Result<ResultTable, KekError> {
    let mut rows = Vec::new();
    for mtu_bytes in MTUS_BYTES {
        for layout in [SPREAD, GATHER] {
            kek.say(&format!("{}, MTU {mtu_bytes}, not shaped", layout.name));
            let mut streams = layout.streams();
            streams.iter_mut().for_each(|it| it.class = None);
            let mut star = layout.star(kek, mtu_bytes)?;
            for host in &mut star.hosts[..layout.sources] {
                let line = Line {
                    buffer_bytes: None,
                    ..LINE
                };
                limit(&mut host.nic, line)?;
            }
            let measured = run(&mut star, &streams, kek.time)?;
            let (least, most) = extremes(&measured.mbps);
            rows.push(vec![
                text(layout.name),
                count(mtu_bytes.into()),
                number(least),
                number(most),
                number(measured.mbps.iter().sum()),
                number(jain(&measured.mbps)),
                count(measured.drops),
                count(measured.retransmitted),
            ]);
        }
    }
    let columns = [
        ("streams", ""),
        ("MTU", "B"),
        ("payload, least", "Mbit/s"),
        ("payload, most", "Mbit/s"),
        ("payload, all", "Mbit/s"),
        ("Jain's index", ""),
        ("drops", ""),
        ("sent again", ""),
    ];
    Ok(table("not shaped: 1 Gbit/s shared", 2, &columns, rows))
}

/// 1 if all have the same, 1/n if one has all.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|it| it * it).sum();
    sum * sum / (values.len() as f64 * squares).max(f64::MIN_POSITIVE)
}

/// Processor time of the same stream: shaped by the kernel, or written no faster by its program.
pub fn cost(kek: &Measurement) -> Result<ResultTable, KekError> {
    const MBPS: u64 = 300;
    let mut rows = Vec::new();
    for mtu_bytes in MTUS_BYTES {
        let mut least = [None::<f64>; 2];
        let mut rates = [0.0; 2];
        for _ in 0..kek.alternations {
            for shaped in [false, true] {
                let how = if shaped {
                    "shaped"
                } else {
                    "paced by its program"
                };
                kek.say(&format!("1x1, MTU {mtu_bytes}, {MBPS} Mbit/s, {how}"));
                let measured = one(kek, mtu_bytes, MBPS, shaped)?;
                let at = usize::from(shaped);
                let busy = measured.processors.map(|it| it * 100.0);
                let both = least[at].into_iter().chain(busy);
                least[at] = both.reduce(f64::min);
                rates[at] = measured.mbps[0];
            }
        }
        let [paced, shaped] = least;
        rows.push(vec![
            count(mtu_bytes.into()),
            number(rates[0]),
            number(rates[1]),
            paced.map_or(Entry::Missing, number),
            shaped.map_or(Entry::Missing, number),
            paced
                .zip(shaped)
                .map_or(Entry::Missing, |it| number(it.1 - it.0)),
        ]);
    }
    let columns = [
        ("MTU", "B"),
        ("payload, paced", "Mbit/s"),
        ("payload, shaped", "Mbit/s"),
        ("busy, paced", "% of a processor"),
        ("busy, shaped", "% of a processor"),
        ("difference", "%"),
    ];
    Ok(table("processor time of shaping, 1x1", 1, &columns, rows))
}

fn one(kek: &Measurement, mtu_bytes: u32, mbps: u64, shaped: bool) -> Result<Measured, KekError> {
    let mut streams = ONE.streams();
    let mut star = ONE.star(kek, mtu_bytes)?;
    if shaped {
        shape(&mut star, &streams, Rate::from_mbps(mbps))?;
    } else {
        let bytes_per_s = mbps as f64 * 1e6 / 8.0 * payload_share(mtu_bytes);
        streams[0].class = None;
        streams[0].paced = Some(bytes_per_s);
    }
    Ok(run(
        &mut star,
        &streams,
        kek.time.min(Duration::from_secs(2)),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_a_class_for_each_pair() {
        let ends = |layout: Layout| {
            let streams = layout.streams();
            let minors: Vec<_> = streams
                .iter()
                .filter_map(|it| Some(it.class?.minor))
                .collect();
            assert_eq!(minors, (1..=streams.len() as u16).collect::<Vec<_>>());
            streams
                .iter()
                .map(|it| (it.from, it.to))
                .collect::<Vec<_>>()
        };
        assert_eq!(ends(ONE), [(0, 1)]);
        assert_eq!(ends(SPREAD), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(ends(GATHER), [(0, 3), (1, 3), (2, 3)]);
    }

    #[test]
    fn jain_tells_fair_from_unfair() {
        assert!((jain(&[5.0, 5.0, 5.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[9.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_largest_deviation_is_reported() {
        let measured = Measured {
            mbps: vec![95.0, 90.0, 97.0],
            drops: 0,
            retransmitted: 0,
            processors: None,
        };
        let row = settings_row(GATHER, 1500, 100, &measured);
        let farthest = row[6].number().expect("a number");
        assert!((farthest - 0.90 / payload_share(1500)).abs() < 1e-9);
    }
}
