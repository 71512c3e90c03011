//! Measures cases side by side: a machine shared with others is slow one moment and
//! fast the next, so only what ran in the same moment can be compared.
//!
//! A group holds cases over the same bytes; the first is the yardstick, a plain
//! `memcpy`. Each round runs every case once, for a fraction of a millisecond, beginning
//! with another one each time, and a quarter as long before that untimed. What is reported is the median over the rounds, and for
//! ratios the median of the ratios *within* a round, with the middle half of them as range.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a case is asked to reach.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// Bytes per second.
    BytesPerSecond(f64),
    /// Items (cells, PDUs) per second.
    ItemsPerSecond(f64),
    /// At least this part of the speed of the case with this name.
    RatioTo(&'static str, f64),
}

/// One thing to measure.
pub struct Case<'a> {
    name: &'static str,
    /// How many cells or PDUs one call handles; 0 where they are not counted.
    items: u64,
    targets: &'static [Target],
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Case<'a> {
    /// A case whose call handles the bytes of its group once.
    pub fn new<T>(
        name: &'static str,
        targets: &'static [Target],
        mut run: impl FnMut() -> T + 'a,
    ) -> Self {
        let run = Box::new(move || drop(black_box(run())));
        Self {
            name,
            items: 0,
            targets,
            run,
        }
    }

    /// The same, handling `items` cells or PDUs a call.
    pub fn items(self, items: u64) -> Self {
        Self { items, ..self }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds; each gives one sample of every case.
    pub rounds: usize,
    /// Time of one sample.
    pub sample: Duration,
}

/// Measures a group of cases that each handle `bytes`, and prints a line for each.
/// Says how many targets were missed.
pub fn measure(title: &str, bytes: u64, mut cases: Vec<Case<'_>>, effort: Effort) -> usize {
    let calls: Vec<u32> = cases
        .iter_mut()
        .map(|case| calibrate(case, effort.sample))
        .collect();
    let mut samples_ns: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for round in 0..effort.rounds {
        for turn in 0..cases.len() {
            let i = (round + turn) % cases.len();
            // What ran before left caches, predictors and vector units as it needs them.
            time_ns(&mut cases[i], calls[i].div_ceil(4));
            samples_ns[i].push(time_ns(&mut cases[i], calls[i]));
        }
    }
    println!("\n{title}: {bytes} bytes");
    println!(
        "  {:<34} {:>10} {:>9} {:>11}  {:<22} target",
        "", "ns", "GB/s", "M items/s", "ratio to memcpy"
    );
    let missed = cases.iter().enumerate().map(|(i, case)| {
        let found = Found {
            cases: &cases,
            samples_ns: &samples_ns,
            bytes: bytes as f64,
        };
        found.print(i, case)
    });
    missed.sum()
}

/// How many calls of `case` fill `sample`.
fn calibrate(case: &mut Case<'_>, sample: Duration) -> u32 {
    let mut calls = 1_u32;
    loop {
        let ns = time_ns(case, calls) * f64::from(calls);
        if ns * 4.0 > sample.as_nanos() as f64 || calls > 1 << 28 {
            let wanted = sample.as_nanos() as f64 / ns * f64::from(calls);
            return (wanted as u32).max(1);
        }
        calls *= 2;
    }
}

/// Nanoseconds per call, over `calls` calls.
fn time_ns(case: &mut Case<'_>, calls: u32) -> f64 {
    let begun = Instant::now();
    for _ in 0..calls {
        (case.run)();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// The samples of a group.
struct Found<'a, 'b> {
    cases: &'a [Case<'b>],
    samples_ns: &'a [Vec<f64>],
    bytes: f64,
}

impl Found<'_, '_> {
    /// Prints case `i`; gives the number of its targets that were missed.
    fn print(&self, i: usize, case: &Case<'_>) -> usize {
        let ns = median(self.samples_ns[i].clone());
        let items = match case.items {
            0 => String::new(),
            items => format!("{:.1}", items as f64 / ns * 1e3),
        };
        let ratios = self.ratios(i, 0);
        let ratio = match i {
            0 => String::new(),
            _ => format!(
                "{:.2} ({:.2}..{:.2})",
                median(ratios.clone()),
                quantile(ratios.clone(), 1, 4),
                quantile(ratios, 3, 4),
            ),
        };
        let judged: Vec<(String, bool)> = case
            .targets
            .iter()
            .filter_map(|&target| self.judge(i, ns, case, target))
            .collect();
        let targets: Vec<&str> = judged.iter().map(|(text, _)| text.as_str()).collect();
        println!(
            "  {:<34} {:>10.1} {:>9.2} {:>11}  {:<22} {}",
            case.name,
            ns,
            self.bytes / ns,
            items,
            ratio,
            targets.join(", ")
        );
        judged.iter().filter(|(_, met)| !met).count()
    }

    /// The speed of case `i` as part of that of case `of`, round by round.
    fn ratios(&self, i: usize, of: usize) -> Vec<f64> {
        let pairs = self.samples_ns[of].iter().zip(&self.samples_ns[i]);
        pairs.map(|(of, own)| of / own).collect()
    }

    fn judge(&self, i: usize, ns: f64, case: &Case<'_>, target: Target) -> Option<(String, bool)> {
        let (wanted, met) = match target {
            Target::BytesPerSecond(wanted) => (
                format!("{:.1} GB/s", wanted / 1e9),
                self.bytes / ns * 1e9 >= wanted,
            ),
            Target::ItemsPerSecond(wanted) => (
                format!("{:.0} M/s", wanted / 1e6),
                case.items as f64 / ns * 1e9 >= wanted,
            ),
            Target::RatioTo(name, wanted) => {
                let of = self.cases.iter().position(|other| other.name == name)?;
                let ratio = median(self.ratios(i, of));
                (
                    format!("{wanted} x {name} (is {ratio:.2})"),
                    ratio >= wanted,
                )
            }
        };
        let verdict = if met { "met" } else { "MISSED" };
        Some((format!("{wanted}: {verdict}"), met))
    }
}

fn median(samples: Vec<f64>) -> f64 {
    quantile(samples, 1, 2)
}

/// The sample that `part` of `whole` do not exceed.
fn quantile(mut samples: Vec<f64>, part: usize, whole: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() * part / whole]
}
