//! KEK's event builder: PCs, AceNICs, a switch and the queueing disciplines of Linux.
//!
//! | table | what runs | what is measured |
//! |---|---|---|
//! | `tuning` | a netperf stream between two equal PCs, with the pairs of times tried for coalesced interrupts, and with socket buffers | bytes that the receiving program has read |
//! | `hosts` | the same on each PC, with both MTUs and both widths of PCI | the same |
//! | `shaping` | four PC500 at the switch: 1x1, 1x3, 3x1, with and without CBQ and TBF | the same, for each stream, and the sender's processor |
//!
//! The paper's curves are lost; what is left are orderings and few numbers. An ordering is
//! a finding of 1 if it holds and 0 if not: *better* is by 1 percent at least, *as good* is
//! within 3. A shaped rate is held against its setting, less the headers that the bucket counts.
//!
//! | experiment | what it asks |
//! |---|---|
//! | `stream` | streams from n sources to m destinations, with settings of one's own |
//! | `full-rate` | the paper left it open: why 1x3 does not follow its settings at full rate |
//! | `admission` | what reservations of rate are worth to those that are let in |
//! | `delayed-ack` | where a message waits for a delayed acknowledgement |
//! | `bursts` | the same: which flow control brings coherent bursts of N x M through a switch |
//!
//! Source: kek00. Parameters: `parameters/kek.toml`.

mod emulation;
mod ethernet;
mod experiments;
mod host;
mod parameters;
mod plan;
#[cfg(test)]
mod tests;
mod world;

use barewire_units::{ByteSize, Rate};

use crate::emulation::{Emulated, Wanted};
use crate::error::SystemError;
use crate::experiment::Setting;
use crate::replicate::replicate;
use crate::reproduction::Reproduction;
use crate::system::Finding;
use experiments::full_rate::worst_over_set;
use host::{Host, Tuning, Width};
use parameters::Parameters;
use plan::{JUMBO, NORMAL, ONE_TO_THREE, Plan};
use world::{Run, run};

/// Driver's times for coalesced interrupts, for normal frames. Published, III.D and Table 2.
const DEFAULT: Tuning = Tuning::us(400, 120);
const LONG: Tuning = Tuning::us(2000, 2000);
/// The same for jumbo frames.
const JUMBO_DEFAULT: Tuning = Tuning::us(20, 30);
/// Socket buffers to hold the published one against.
const OTHER_BUFFERS_KIB: [u64; 4] = [64, 128, 256, 1024];
/// Three sources, one destination.
const THREE_TO_ONE: [(u8, u8); 3] = [(1, 0), (2, 0), (3, 0)];
/// Settings of the token buckets, Mbit/s. OPEN: the figures are lost.
const ONE_TO_ONE_SET: [u64; 5] = [20, 50, 100, 200, 500];
const SMALL_SET: [u64; 3] = [20, 50, 100];
const THREE_TO_ONE_SET: [u64; 4] = [20, 50, 100, 200];
/// Full rate: a third of the link for each destination.
const FULL_SET: u64 = 333;
/// The setting that the processor's share is measured at. Published, II.B, as an example.
const EXAMPLE_SET: u64 = 100;

/// KEK's event builder.
pub struct System;

impl crate::system::System for System {
    fn name(&self) -> &'static str {
        "kek"
    }

    fn parameters(&self) -> &'static str {
        parameters::TEXT
    }

    /// The seed sets how far the clocks of the PCs are apart.
    fn run(&self, parameters: &str, seed: u64) -> Result<Vec<Finding>, SystemError> {
        Ok(reproduce(&Parameters::parse(parameters)?, seed)?.findings)
    }

    fn experiments(&self) -> &'static [crate::experiment::Experiment] {
        &experiments::ALL
    }

    fn emulate(
        &self,
        experiment: &str,
        setting: &Setting<'_>,
        wanted: &Wanted,
    ) -> Result<Box<dyn Emulated>, SystemError> {
        let made = experiments::emulated::emulated(experiment, setting)?;
        let network = emulation::Emulation::new(made, setting.seed, wanted)?;
        Ok(Box::new(network))
    }
}

/// The paper's experiments.
fn reproduce(parameters: &Parameters, seed: u64) -> Result<Reproduction, SystemError> {
    let mut paper = Paper {
        parameters,
        seed,
        found: Reproduction::default(),
    };
    paper.tuning()?;
    paper.hosts()?;
    paper.shaping()?;
    Ok(paper.found)
}

struct Paper<'a> {
    parameters: &'a Parameters,
    seed: u64,
    found: Reproduction,
}

impl Paper<'_> {
    /// All `plans`, on all processors.
    fn run(&mut self, plans: &[Plan]) -> Result<Vec<Run>, SystemError> {
        let runs = replicate(plans.len(), |index| {
            run(self.parameters, &plans[index], self.seed)
        });
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.found.hashes.extend(runs.iter().map(|run| run.hash));
        Ok(runs)
    }

    /// The rate of each of `plans`, which have one stream.
    fn rates(&mut self, plans: &[Plan]) -> Result<Vec<f64>, SystemError> {
        let runs = self.run(plans)?;
        Ok(runs.iter().map(Run::least_mbps).collect())
    }

    fn find(
        &mut self,
        table: &'static str,
        row: String,
        (quantity, unit): (&'static str, &'static str),
        value: f64,
    ) {
        self.found.add(table, row, quantity, unit, value);
    }

    fn holds(&mut self, table: &'static str, row: &str, whether: bool) {
        let value = f64::from(u8::from(whether));
        self.find(table, row.to_owned(), ("ordering", "holds"), value);
    }

    fn tuning(&mut self) -> Result<(), SystemError> {
        const TABLE: &str = "tuning";
        let pair = |host, width, mtu| Plan::pair(self.parameters, host, width, mtu);
        let normal = pair(Host::Pc733, Width::Bits64, NORMAL);
        let slow = pair(Host::Pc800, Width::Bits32, JUMBO);
        let fast = pair(Host::Pc733, Width::Bits64, JUMBO);
        let with = |plan: &Plan, tuning| Plan {
            tuning,
            ..plan.clone()
        };
        let mut plans = vec![
            with(&normal, DEFAULT),
            with(&normal, LONG),
            with(&slow, JUMBO_DEFAULT),
            with(&fast, JUMBO_DEFAULT),
        ];
        plans.extend([normal, slow, fast.clone()]);
        plans.extend(OTHER_BUFFERS_KIB.map(|kib| Plan {
            buffer: ByteSize::from_kib(kib),
            ..fast.clone()
        }));
        let rates = self.rates(&plans)?;
        let [
            default,
            long,
            slow_default,
            fast_default,
            best,
            slow_best,
            fast_best,
            ..,
        ] = rates[..]
        else {
            return Ok(());
        };
        self.holds(
            TABLE,
            "1500 B, 996/1000 better than 400/120",
            better(best, default),
        );
        self.holds(
            TABLE,
            "1500 B, 2000/2000 better than 400/120",
            better(long, default),
        );
        self.holds(
            TABLE,
            "9000 B, PC800, 200/300 better than 20/30",
            better(slow_best, slow_default),
        );
        self.holds(
            TABLE,
            "9000 B, PC733, 200/300 not worse than 20/30",
            !better(fast_default, fast_best),
        );
        let others = &rates[rates.len() - OTHER_BUFFERS_KIB.len()..];
        let highest = others.iter().copied().fold(0.0, f64::max);
        let good = as_good(fast_best, highest) && better(fast_best, others[0]);
        self.holds(TABLE, "socket buffer of 528288 B as good as any", good);
        Ok(())
    }

    fn hosts(&mut self) -> Result<(), SystemError> {
        const TABLE: &str = "hosts";
        let narrow = |mtu| Host::ALL.map(|host| (host, Width::Bits32, mtu));
        let mut points = Vec::from(narrow(NORMAL));
        points.extend(narrow(JUMBO));
        points.extend([NORMAL, JUMBO].map(|mtu| (Host::Pc733, Width::Bits64, mtu)));
        let plans = points
            .iter()
            .map(|&(host, width, mtu)| Plan::pair(self.parameters, host, width, mtu));
        let rates = self.rates(&plans.collect::<Vec<_>>())?;
        let [n500, n733, n800, j500, j733, j800, n733_64, j733_64] = rates[..] else {
            return Ok(());
        };
        let rate = ("rate", "Mbit/s");
        self.find(TABLE, "PC733, 64-bit PCI, 9000 B".into(), rate, j733_64);
        let gain = ("rate", "ratio");
        self.find(
            TABLE,
            "9000 B over 1500 B, PC733".into(),
            gain,
            j733_64 / n733_64,
        );
        let equal = as_good(n500, n733) && as_good(n800, n733);
        self.holds(TABLE, "1500 B, independent of the processor", equal);
        self.holds(
            TABLE,
            "1500 B, independent of the width of PCI",
            as_good(n733, n733_64),
        );
        self.holds(
            TABLE,
            "9000 B, 64-bit PCI better than 32-bit",
            better(j733_64, j733),
        );
        let best = better(j733_64, j500) && better(j733_64, j800);
        self.holds(TABLE, "9000 B, PC733 best", best);
        let row = "9000 B, PC800 poor, below PC733 at the same PCI";
        self.holds(TABLE, row, better(j733, j800));
        Ok(())
    }

    fn shaping(&mut self) -> Result<(), SystemError> {
        const TABLE: &str = "shaping";
        // The longest first.
        let mut settings = vec![("1x3", FULL_SET)];
        settings.extend(SMALL_SET.map(|set| ("1x3", set)));
        settings.extend(THREE_TO_ONE_SET.map(|set| ("3x1", set)));
        settings.extend(ONE_TO_ONE_SET.map(|set| ("1x1", set)));
        let shaped = settings.iter().map(|&(name, set)| {
            let streams = match name {
                "1x3" => &ONE_TO_THREE[..],
                "3x1" => &THREE_TO_ONE,
                _ => &ONE_TO_THREE[..1],
            };
            Plan::builder(self.parameters, streams, Some(Rate::from_mbps(set)))
        });
        let mut plans: Vec<_> = shaped.collect();
        plans.push(Plan::builder(self.parameters, &ONE_TO_THREE, None));
        let runs = self.run(&plans)?;
        for (&(name, set), run) in settings.iter().zip(&runs) {
            let worst = worst_over_set(run, Rate::from_mbps(set));
            if set == FULL_SET {
                self.holds(TABLE, "1x3, not at full rate", !as_good(worst, 1.0));
                continue;
            }
            let row = format!("{name}, {set} Mbit/s");
            self.find(TABLE, row.clone(), ("rate over setting", "ratio"), worst);
            if (name, set) == ("1x1", EXAMPLE_SET) {
                let share = ("processor in traffic control", "%");
                self.find(TABLE, row, share, run.shaping_per_cent(0));
            }
        }
        if let Some(free) = runs.last() {
            let each = free.least_mbps() > 200.0;
            self.holds(TABLE, "1x3 unshaped, each above 200 Mbit/s", each);
            let shares = free.least_mbps() / free.most_mbps();
            let quantity = ("least over most", "ratio");
            self.find(TABLE, "1x3 unshaped".into(), quantity, shares);
        }
        Ok(())
    }
}

/// By 1 percent at least.
fn better(a: f64, b: f64) -> bool {
    a >= 1.01 * b
}

/// Within 3 percent.
fn as_good(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= 0.03
}
