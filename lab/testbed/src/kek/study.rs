//! Why 1x3 does not follow its settings at full rate: the same runs with one thing changed,
//! and 1x1 beside them.
//!
//! What the model says: at full rate the three settings together are more than a PC500 can
//! send. Its processor is busy all the time, with copies and with the traffic control
//! itself; the buckets fill faster than they are emptied, so they shape nothing, and the
//! destinations share what the source gives. Take the traffic control's cost away, and the
//! 32-bit PCI is the limit. Neither the ticks nor the wake-ups change anything; a source
//! with a faster memory and a 64-bit PCI follows the settings. A bucket too shallow for
//! the ticks would fail too, but with one destination as well, and that was seen to work.

use barewire_units::{ByteSize, Rate};

use super::parameters::Parameters;
use super::plan::{Host, Plan, Width};
use super::world::{Run, run};
use super::{ONE_TO_THREE, worst_over_set};
use crate::{Finding, Study, SystemError, replicate};

/// The study as the laboratory knows it.
pub(super) const FULL_RATE: Study = Study {
    name: "full-rate",
    question: "why did one source with three destinations not follow its settings at full rate?",
    run: |parameters, seed| {
        let points = full_rate(parameters, seed, &SETTINGS_MBPS)?;
        Ok(points.iter().flat_map(FullRate::findings).collect())
    },
};
/// The settings of the study, for each destination. The last is full rate.
const SETTINGS_MBPS: [u64; 4] = [100, 200, 300, 333];

/// A point of the study.
#[derive(Clone, Debug, PartialEq)]
pub struct FullRate {
    /// What is different from the paper's experiment.
    pub change: &'static str,
    /// How many destinations the source has.
    pub destinations: usize,
    /// The setting of each destination.
    pub set_mbps: u64,
    /// The rate of the destination that is farthest from it, over the setting.
    pub rate_over_setting: f64,
    /// All destinations together.
    pub total_mbps: f64,
    /// How busy the source's processor was.
    pub source_busy_per_cent: f64,
}

impl FullRate {
    fn findings(&self) -> [Finding; 3] {
        let finding = |quantity, unit, value| Finding {
            table: self.change,
            row: format!("1x{}, {} Mbit/s each", self.destinations, self.set_mbps),
            quantity,
            unit,
            value,
        };
        [
            finding("rate", "of the setting", self.rate_over_setting),
            finding("all together", "Mbit/s", self.total_mbps),
            finding("source busy", "%", self.source_busy_per_cent),
        ]
    }
}

const CHANGES: [&str; 8] = [
    "nothing",
    "buckets of 125 KiB at every rate",
    "buckets of 125 KiB, woken by ticks alone",
    "ticks at 1000 Hz",
    "woken by ticks alone",
    "traffic control for nothing",
    "copies for nothing",
    "PC733 with 64-bit PCI as the source",
];

/// 1x1 and 1x3 with each of `set_mbps`, as in the paper and with one thing changed at a time.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn full_rate(
    parameters: &str,
    seed: u64,
    set_mbps: &[u64],
) -> Result<Vec<FullRate>, SystemError> {
    let parameters = Parameters::parse(parameters)?;
    let mut points = Vec::new();
    for change in CHANGES {
        for destinations in [1, ONE_TO_THREE.len()] {
            points.extend(set_mbps.iter().map(|&set| (change, destinations, set)));
        }
    }
    let runs = replicate(points.len(), |index| {
        let (change, destinations, set_mbps) = points[index];
        let run = changed(&parameters, change, destinations, set_mbps, seed)?;
        Ok(FullRate {
            change,
            destinations,
            set_mbps,
            rate_over_setting: worst_over_set(&run, set_mbps),
            total_mbps: run.mbps.iter().sum(),
            source_busy_per_cent: run.busy_per_cent(0),
        })
    });
    runs.into_iter().collect()
}

fn changed(
    parameters: &Parameters,
    change: &str,
    destinations: usize,
    set_mbps: u64,
    seed: u64,
) -> Result<Run, SystemError> {
    let mut parameters = parameters.clone();
    let rate = Rate::new(set_mbps.saturating_mul(1_000_000));
    let mut plan = Plan::builder(&parameters, &ONE_TO_THREE[..destinations], rate);
    let kernel = &mut parameters.kernel;
    match change {
        "buckets of 125 KiB at every rate" => plan.bucket = Some(ByteSize::from_kib(125)),
        "buckets of 125 KiB, woken by ticks alone" => {
            plan.bucket = Some(ByteSize::from_kib(125));
            kernel.woken_by_traffic = false;
        }
        "ticks at 1000 Hz" => kernel.tick_hz = 1_000,
        "woken by ticks alone" => kernel.woken_by_traffic = false,
        "traffic control for nothing" => {
            kernel.shaping_enqueue = 0;
            kernel.shaping_dequeue = 0;
        }
        "copies for nothing" => {
            for host in parameters.hosts.values_mut() {
                host.copy = Rate::from_gbps(1_000);
            }
        }
        "PC733 with 64-bit PCI as the source" => plan.hosts[0] = (Host::Pc733, Width::Bits64),
        _ => {}
    }
    run(&parameters, &plan, seed)
}
