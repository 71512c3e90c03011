//! From samples to results: bands kept apart, every figure beside its limit.

pub mod behind;
pub mod beside_tcp;
pub mod half_peak;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Transport};
use crate::measure::bands::{Band, Verdict, judge};
use crate::measure::stats::{Times, mean, median, rounded, spread};
use crate::session::Sample;

/// One line of the results. The first fourteen fields are the stable format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `rtt`, `stream`, `transactions` or `wake`.
    pub test: String,
    /// What carried the messages.
    pub transport: String,
    /// Bytes in a message.
    pub size_bytes: u64,
    /// Connections of the one server.
    pub connections: u64,
    /// `ns`, `bytes/s` or `transactions/s`.
    pub unit: String,
    /// The median of the samples.
    pub median: f64,
    /// What 99 % of the single operations (or milliseconds) were at least as good as.
    pub p99: Option<f64>,
    /// The same for 99.9 %.
    pub p999: Option<f64>,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// How many samples there are.
    pub samples: u64,
    /// The probe of these samples: one cache line there and back; 0 with a server on another host.
    pub band_ns: f64,
    /// The figure divided by the limit of the same band and size.
    pub ratio_to_limit: Option<f64>,
    /// The way the transport was used; empty where there is only one.
    pub variant: String,
    /// `polling` or `blocking`.
    pub waiting: String,
    /// The band: `A` to `D`.
    pub band: String,
    /// The limit that the ratio refers to.
    pub limit: Option<f64>,
    /// Requests outstanding on each connection.
    pub outstanding: u64,
    /// Messages per second, for rates.
    pub messages_per_second: Option<f64>,
    /// Processor time of the measuring process.
    pub cpu_client_percent: Option<f64>,
    /// Processor time of the server process.
    pub cpu_server_percent: Option<f64>,
    /// Samples dropped: their probes disagreed, or other programs ran on the processors.
    pub samples_dropped: u64,
    /// Other programs ran on the processors during all samples; these are the figures
    /// all the same.
    pub disturbed: bool,
    /// Of a link between hosts: the figure divided by that of kernel TCP over the same path.
    #[serde(default)]
    pub ratio_to_tcp: Option<f64>,
}

impl Row {
    /// Whether more is better.
    pub fn is_rate(&self) -> bool {
        self.unit != "ns"
    }

    /// Transport and variant together.
    pub fn who(&self) -> String {
        if self.variant.is_empty() {
            self.transport.clone()
        } else {
            format!("{} {}", self.transport, self.variant)
        }
    }
}

/// The samples of one case in one band.
#[derive(Debug, Default)]
struct BandBook {
    per_operation_ns: Vec<f64>,
    probes_ns: Vec<f64>,
    cpu_client: Vec<f64>,
    cpu_server: Vec<f64>,
    times: Times,
}

/// The samples of one case.
#[derive(Debug, Default)]
pub struct CaseBook {
    bands: BTreeMap<Band, Box<BandBook>>,
    /// Samples in which other programs took a processor away: used if there are no others.
    disturbed: BTreeMap<Band, Box<BandBook>>,
    dropped: u64,
}

impl CaseBook {
    /// Enters a sample; `record` adds its single operations. True if it was kept.
    pub fn enter(&mut self, sample: &Sample, record: impl FnOnce(&mut Times)) -> bool {
        let sound = sample.per_operation_ns.is_finite() && sample.per_operation_ns > 0.0;
        let verdict = match sample.probes_ns {
            Some((before, after)) => judge(before, after),
            None => Verdict::Keep(Band::D, 0.0),
        };
        match verdict {
            Verdict::Keep(band, probe) if sound => {
                let bands = match sample.disturbed {
                    true => &mut self.disturbed,
                    false => &mut self.bands,
                };
                let book = bands.entry(band).or_default();
                book.per_operation_ns.push(sample.per_operation_ns);
                book.probes_ns.push(probe);
                book.cpu_client.push(sample.cpu_percent.0);
                book.cpu_server.push(sample.cpu_percent.1);
                record(&mut book.times);
                !sample.disturbed
            }
            _ => {
                self.dropped += 1;
                false
            }
        }
    }

    /// Adds the samples of the same case from elsewhere.
    pub fn absorb(&mut self, other: CaseBook) {
        self.dropped += other.dropped;
        for (mine, others) in [
            (&mut self.bands, other.bands),
            (&mut self.disturbed, other.disturbed),
        ] {
            for (band, more) in others {
                let book = mine.entry(band).or_default();
                book.per_operation_ns.extend(more.per_operation_ns);
                book.probes_ns.extend(more.probes_ns);
                book.cpu_client.extend(more.cpu_client);
                book.cpu_server.extend(more.cpu_server);
                book.times.absorb(&more.times);
            }
        }
    }

    /// The samples that count.
    fn counted(&self) -> &BTreeMap<Band, Box<BandBook>> {
        match self.bands.is_empty() {
            true => &self.disturbed,
            false => &self.bands,
        }
    }

    /// How many undisturbed samples the best covered band has.
    pub fn best_coverage(&self) -> usize {
        self.bands
            .values()
            .map(|book| book.per_operation_ns.len())
            .max()
            .unwrap_or(0)
    }

    /// How many samples were kept.
    pub fn kept(&self) -> u64 {
        count(self.counted())
    }

    /// How many samples were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped + count(&self.bands) + count(&self.disturbed) - self.kept()
    }

    /// A row for each band that has samples.
    pub fn rows(&self, case: &Case) -> Vec<Row> {
        let row = |band| self.row(case, band);
        Band::ALL.into_iter().filter_map(row).collect()
    }

    fn row(&self, case: &Case, band: Band) -> Option<Row> {
        let book = self.counted().get(&band)?;
        let test = case.work.test;
        let bytes = case.work.size as f64;
        let figure = |ns: f64| {
            rounded(match test.unit() {
                "ns" => ns,
                "bytes/s" => bytes * 1e9 / ns,
                _ => 1e9 / ns,
            })
        };
        let values: Vec<f64> = book.per_operation_ns.iter().map(|&ns| figure(ns)).collect();
        let (min, max) = spread(&values)?;
        let centre = rounded(median(&values)?);
        Some(Row {
            test: test.name().to_owned(),
            transport: case.transport.name().to_owned(),
            size_bytes: case.work.size as u64,
            connections: u64::from(case.work.connections),
            unit: test.unit().to_owned(),
            median: centre,
            p99: book.times.percentile_ns(99.0).map(figure),
            p999: book.times.percentile_ns(99.9).map(figure),
            min,
            max,
            samples: values.len() as u64,
            band_ns: rounded(median(&book.probes_ns)?),
            ratio_to_limit: None,
            variant: case.variant.name().to_owned(),
            waiting: case.work.waiting.name().to_owned(),
            band: band.to_string(),
            limit: None,
            outstanding: u64::from(case.work.outstanding),
            messages_per_second: test.is_rate().then(|| {
                if test.unit() == "bytes/s" {
                    rounded(centre / bytes)
                } else {
                    centre
                }
            }),
            cpu_client_percent: mean(&book.cpu_client).map(rounded),
            cpu_server_percent: mean(&book.cpu_server).map(rounded),
            samples_dropped: self.dropped(),
            disturbed: self.bands.is_empty(),
            ratio_to_tcp: None,
        })
    }
}

fn count(bands: &BTreeMap<Band, Box<BandBook>>) -> u64 {
    let samples = |book: &BandBook| book.per_operation_ns.len() as u64;
    bands.values().map(|book| samples(book)).sum()
}

/// Every case with its samples.
pub type Books<'a> = Vec<(&'a Case, CaseBook)>;

/// What a figure may be compared with: the same test, size, connections, waiting, band.
type Key = (String, Option<u64>, u64, String, String);

fn key(row: &Row) -> Key {
    // Bytes one way are compared with bytes: the machine need not take them in pieces of
    // this size, and whoever gathers small messages does not.
    let size = (row.unit != "bytes/s").then_some(row.size_bytes);
    (
        row.test.clone(),
        size,
        row.connections,
        row.waiting.clone(),
        row.band.clone(),
    )
}

/// The limit of each key: the best that a program on the bare machine reached.
fn limits(rows: &[Row]) -> BTreeMap<Key, f64> {
    let mut limits: BTreeMap<Key, f64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.transport == "limit") {
        let best = limits.entry(key(row)).or_insert(row.median);
        *best = match row.is_rate() {
            true => best.max(row.median),
            false => best.min(row.median),
        };
    }
    limits
}

/// The rows of all bands, each beside its limit.
fn with_limits(mut rows: Vec<Row>) -> Vec<Row> {
    let limits = limits(&rows);
    for row in &mut rows {
        row.limit = limits.get(&key(row)).copied();
        row.ratio_to_limit = row.limit.map(|limit| rounded(row.median / limit));
    }
    rows
}

/// The results: for each case the band with the most samples, among those in which its
/// limit was measured too; or all bands. `more` are rows of other programs.
pub fn rows(books: &Books<'_>, more: Vec<Row>, all_bands: bool) -> Vec<Row> {
    let mut groups: Vec<Vec<Row>> = Vec::new();
    let mut every: Vec<Row> = Vec::new();
    for (case, book) in books {
        every.extend(book.rows(case));
    }
    every.extend(more);
    for row in with_limits(every) {
        let same = |other: &Row| {
            (other.who(), other.outstanding) == (row.who(), row.outstanding)
                && (&other.test, other.size_bytes) == (&row.test, row.size_bytes)
                && (other.connections, &other.waiting) == (row.connections, &row.waiting)
        };
        match groups.iter_mut().find(|group| same(&group[0])) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let mut chosen = Vec::new();
    for mut group in groups {
        if all_bands {
            group.sort_by(|a, b| a.band.cmp(&b.band).then(b.samples.cmp(&a.samples)));
            group.dedup_by(|a, b| a.band == b.band);
            chosen.extend(group);
            continue;
        }
        group.sort_by_key(|row| (row.limit.is_none(), std::cmp::Reverse(row.samples)));
        chosen.extend(group.into_iter().next());
    }
    chosen.sort_by_key(order);
    chosen
}

fn order(row: &Row) -> (usize, String, u64, u64, usize, String) {
    let test = ["rtt", "stream", "transactions", "wake"]
        .iter()
        .position(|name| *name == row.test)
        .unwrap_or(9);
    let transport = Transport::ALL
        .iter()
        .position(|transport| transport.name() == row.transport)
        .unwrap_or(9);
    (
        test,
        row.waiting.clone(),
        row.connections,
        row.size_bytes,
        transport,
        row.variant.clone(),
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::case::{Habits, Test, Variant, Waiting, Work};

    /// A case for tests.
    pub fn case(test: Test, transport: Transport, variant: Variant) -> Case {
        Case {
            work: Work {
                test,
                size: 64,
                connections: 1,
                outstanding: 1,
                waiting: Waiting::Polling,
                duration_ns: 1,
                habits: Habits::default(),
            },
            channel: 0,
            transport,
            variant,
        }
    }

    /// A sample for tests.
    pub fn sample(ns: f64, before: f64, after: f64) -> Sample {
        Sample {
            per_operation_ns: ns,
            probes_ns: Some((before, after)),
            stretches_ps: None,
            cpu_percent: (100.0, 50.0),
            disturbed: false,
        }
    }

    fn book(samples: &[(f64, f64)]) -> CaseBook {
        let mut book = CaseBook::default();
        for &(ns, probe) in samples {
            book.enter(&sample(ns, probe, probe), |times| {
                times.add_picoseconds(&[(ns * 1000.0) as u64]);
            });
        }
        book
    }

    #[test]
    fn a_figure_is_compared_with_the_limit_of_its_own_band() {
        let limit = case(Test::Rtt, Transport::Limit, Variant::Exchange);
        let bare = case(Test::Rtt, Transport::Limit, Variant::PingPong);
        let tcp = case(Test::Rtt, Transport::Tcp, Variant::Plain);
        let books: Books<'_> = vec![
            (
                &limit,
                book(&[(150.0, 100.0), (300.0, 200.0), (300.0, 200.0)]),
            ),
            (&bare, book(&[(100.0, 100.0), (200.0, 200.0)])),
            (
                &tcp,
                book(&[(6000.0, 100.0), (6000.0, 100.0), (9000.0, 200.0)]),
            ),
        ];
        let rows = rows(&books, Vec::new(), false);
        assert_eq!(rows.len(), 3);
        let of = |who: &str| rows.iter().find(|row| row.who() == who).unwrap();
        assert_eq!(of("tcp").band, "A");
        assert_eq!(of("tcp").ratio_to_limit, Some(60.0));
        assert_eq!(of("limit exchange").band, "B");
        assert_eq!(of("limit exchange").ratio_to_limit, Some(1.5));
        assert_eq!(of("tcp").samples, 2);
        let all = super::rows(&books, Vec::new(), true);
        assert_eq!(all.len(), 6);
        let slow = all
            .iter()
            .find(|r| r.who() == "tcp" && r.band == "B")
            .unwrap();
        assert_eq!(slow.ratio_to_limit, Some(45.0));
    }

    #[test]
    fn the_best_limit_counts_and_a_band_without_one_comes_last() {
        let small = case(Test::Stream, Transport::Limit, Variant::Ring10k);
        let large = case(Test::Stream, Transport::Limit, Variant::Ring64k);
        let pipe = case(Test::Stream, Transport::Pipe, Variant::Plain);
        let books: Books<'_> = vec![
            (&small, book(&[(10.0, 100.0)])),
            (&large, book(&[(20.0, 100.0)])),
            (
                &pipe,
                book(&[(640.0, 100.0), (700.0, 300.0), (700.0, 300.0)]),
            ),
        ];
        let rows = rows(&books, Vec::new(), false);
        let pipe = rows.iter().find(|row| row.transport == "pipe").unwrap();
        assert_eq!(pipe.band, "A");
        assert!((pipe.median - 1e8).abs() < 1.0);
        assert!((pipe.ratio_to_limit.unwrap() - 1.0 / 64.0).abs() < 1e-6);
        let slower = rows.iter().find(|row| row.variant == "ring-64k").unwrap();
        assert_eq!(slower.ratio_to_limit, Some(0.5));
    }

    #[test]
    fn only_bare_programs_are_limits() {
        let line = case(Test::Rtt, Transport::Limit, Variant::PingPong);
        let exchange = case(Test::Rtt, Transport::Limit, Variant::Exchange);
        let tcp = case(Test::Rtt, Transport::Tcp, Variant::Plain);
        let ring = case(Test::Stream, Transport::Limit, Variant::Ring64k);
        let mut large = case(Test::Stream, Transport::Limit, Variant::Ring64k);
        large.work.size = 65_536;
        let batch = case(Test::Stream, Transport::Barewire, Variant::Batch);
        let mut stream = case(Test::Stream, Transport::Barewire, Variant::Stream);
        stream.work.size = 4096;
        let books: Books<'_> = vec![
            (&line, book(&[(100.0, 100.0)])),
            (&exchange, book(&[(250.0, 100.0)])),
            (&tcp, book(&[(5000.0, 100.0)])),
            (&ring, book(&[(64.0, 100.0)])),
            (&large, book(&[(8192.0, 100.0)])),
            (&batch, book(&[(16.0, 100.0)])),
            (&stream, book(&[(256.0, 100.0)])),
        ];
        let rows = rows(&books, Vec::new(), false);
        let of = |who: &str, size| {
            let found = rows
                .iter()
                .find(|it| it.who() == who && it.size_bytes == size);
            found.unwrap().ratio_to_limit.unwrap()
        };
        // A bare line carries 8 bytes too.
        assert!((of("limit exchange", 64) - 2.5).abs() < 1e-9);
        // 4 bytes a nanosecond in batches, 8 by the large ring, 16 by the stream.
        assert!((of("barewire stream", 4096) - 2.0).abs() < 1e-9);
        assert!((of("limit ring-64k", 65_536) - 1.0).abs() < 1e-9);
        assert!((of("barewire batch", 64) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn disagreeing_and_senseless_samples_are_dropped_and_counted() {
        let mut book = CaseBook::default();
        assert!(!book.enter(&sample(1.0, 100.0, 200.0), |_| {}));
        assert!(!book.enter(&sample(0.0, 100.0, 100.0), |_| {}));
        assert!(book.enter(&sample(1.0, 100.0, 101.0), |_| {}));
        assert_eq!(book.dropped(), 2);
        assert_eq!(book.best_coverage(), 1);
    }

    #[test]
    fn disturbed_samples_count_only_where_there_are_no_others() {
        let disturbed = |ns| Sample {
            disturbed: true,
            ..sample(ns, 100.0, 100.0)
        };
        let case = case(Test::Rtt, Transport::Tcp, Variant::Plain);
        let mut book = CaseBook::default();
        assert!(!book.enter(&disturbed(9.0), |_| {}));
        let rows = book.rows(&case);
        assert_eq!((rows[0].median, rows[0].disturbed), (9.0, true));
        assert_eq!((book.kept(), book.dropped()), (1, 0));
        assert!(book.enter(&sample(1.0, 100.0, 100.0), |_| {}));
        let rows = book.rows(&case);
        assert_eq!((rows[0].median, rows[0].disturbed), (1.0, false));
        assert_eq!((book.kept(), book.dropped()), (1, 1));
    }

    #[test]
    fn a_row_survives_json() {
        let tcp = case(Test::Rtt, Transport::Tcp, Variant::Plain);
        let books: Books<'_> = vec![(&tcp, book(&[(6000.0, 100.0)]))];
        let rows = rows(&books, Vec::new(), false);
        let text = serde_json::to_string(&rows).unwrap();
        let back: Vec<Row> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, rows);
        assert_eq!(rows[0].ratio_to_limit, None);
    }
}
