//! A figure: what came out without and with the library, in how many rounds, and what it
//! was to be.

use serde::{Deserialize, Serialize};

use super::load::Cost;
use crate::measure::stats::{median, rounded, spread};

/// Whether the library is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// No.
    Plain,
    /// Yes.
    Preloaded,
}

/// What a figure was to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// At least so many times as good as without the library.
    Gain(f64),
    /// At most so many times the bare machine's time.
    OfBare(f64),
    /// At most so much of a processor while nothing happens.
    IdleProcessors(f64),
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds: less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Operations per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes: less is better.
    #[serde(rename = "bytes")]
    Bytes,
}

impl Unit {
    /// Whether more is better.
    pub const fn is_rate(self) -> bool {
        matches!(self, Unit::BytesPerSecond | Unit::PerSecond)
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// In the unit of the figure.
    pub value: f64,
    /// Operations in it; 0 if they are not counted.
    pub operations: f64,
    /// What it cost.
    pub cost: Cost,
}

/// Figures of one mode over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// In the order of the rounds.
    pub values: Vec<f64>,
    /// Processors that both programs used, on average.
    pub processors: Vec<f64>,
    /// Processor time of both programs for an operation, where these are counted.
    pub cpu_ns_each: Vec<f64>,
}

impl Side {
    fn enter(&mut self, sample: &Sample) {
        self.values.push(rounded(sample.value));
        self.processors.push(rounded(sample.cost.processors()));
        if sample.operations > 0.0 {
            let each = sample.cost.own_ns / sample.operations;
            self.cpu_ns_each.push(rounded(each));
        }
    }

    /// The median of the rounds.
    pub fn median(&self) -> Option<f64> {
        median(&self.values)
    }
}

/// A line of the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What `--only` takes.
    pub scenario: String,
    /// What was measured.
    pub name: String,
    /// The unit of all values.
    pub unit: Unit,
    /// What it was to be.
    pub target: Option<Target>,
    /// Without the library.
    pub plain: Side,
    /// With it.
    pub preloaded: Side,
    /// What the bare machine does, in the same unit, and what that is.
    pub bare: Side,
    /// As above.
    pub bare_is: String,
    /// A second limit of the bare machine.
    pub exchange: Side,
    /// Processors that other programs used meanwhile, in each sample.
    pub others: Vec<f64>,
    /// Whether connections of the preloaded programs were carried by shared memory, as those
    /// programs counted at their end; `null` if that cannot be known.
    #[serde(alias = "on_board")]
    pub is_upgraded: Option<bool>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

impl Figure {
    /// A figure without values.
    pub fn new(scenario: &str, name: impl Into<String>, unit: Unit) -> Figure {
        Figure {
            scenario: scenario.to_owned(),
            name: name.into(),
            unit,
            target: None,
            plain: Side::default(),
            preloaded: Side::default(),
            bare: Side::default(),
            bare_is: String::new(),
            exchange: Side::default(),
            others: Vec::new(),
            is_upgraded: None,
            notes: Vec::new(),
        }
    }

    /// With a target.
    #[must_use]
    pub fn with_target(self, target: Target) -> Figure {
        Figure {
            target: Some(target),
            ..self
        }
    }

    /// Enters a sample.
    pub fn enter(&mut self, mode: Mode, sample: &Sample) {
        self.others.push(rounded(sample.cost.others()));
        match mode {
            Mode::Plain => self.plain.enter(sample),
            Mode::Preloaded => self.preloaded.enter(sample),
        }
    }

    /// How many times as good with the library as without: the median of the rounds, each of
    /// which compares two samples that were taken one after the other; and the range.
    pub fn gain(&self) -> Option<(f64, f64, f64)> {
        let pairs = self.plain.values.iter().zip(&self.preloaded.values);
        let gains: Vec<f64> = pairs
            .map(|(plain, with)| {
                if self.unit.is_rate() {
                    with / plain
                } else {
                    plain / with
                }
            })
            .collect();
        let (low, high) = spread(&gains)?;
        Some((median(&gains)?, low, high))
    }

    /// How many times the bare machine's.
    pub fn of_bare(&self) -> Option<f64> {
        Some(self.preloaded.median()? / self.bare.median()?)
    }

    /// What the target speaks of, as it is, and whether the target is met.
    pub fn verdict(&self) -> Option<(f64, bool)> {
        match self.target? {
            Target::Gain(least) => self.gain().map(|(gain, ..)| (gain, gain >= least)),
            Target::OfBare(most) => self.of_bare().map(|times| (times, times <= most)),
            Target::IdleProcessors(most) => {
                let used = median(&self.preloaded.processors)?;
                Some((used, used <= most))
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A sample of a figure.
    pub fn sample(value: f64) -> Sample {
        Sample {
            value,
            operations: 10.0,
            cost: Cost {
                wall_ns: 1000.0,
                own_ns: 1500.0,
                all_ns: 1700.0,
            },
        }
    }

    #[test]
    fn rounds_are_compared_in_pairs() {
        let mut time =
            Figure::new("ping-pong", "a", Unit::Nanoseconds).with_target(Target::Gain(4.0));
        let mut rate = Figure::new("redis", "b", Unit::PerSecond).with_target(Target::Gain(4.0));
        for (plain, with) in [(100.0, 25.0), (200.0, 50.0), (90.0, 45.0)] {
            time.enter(Mode::Plain, &sample(plain));
            time.enter(Mode::Preloaded, &sample(with));
            rate.enter(Mode::Plain, &sample(plain));
            rate.enter(Mode::Preloaded, &sample(with));
        }
        assert_eq!(time.gain(), Some((4.0, 2.0, 4.0)));
        assert_eq!(time.verdict(), Some((4.0, true)));
        assert_eq!(rate.verdict(), Some((0.25, false)));
        assert_eq!(time.plain.processors, [1.5; 3]);
        assert_eq!(time.plain.cpu_ns_each, [150.0; 3]);
        assert_eq!(time.others, [0.2; 6]);
    }

    #[test]
    fn targets_of_the_bare_machine_and_of_rest() {
        let mut figure =
            Figure::new("ping-pong", "a", Unit::Nanoseconds).with_target(Target::OfBare(3.0));
        figure.enter(Mode::Preloaded, &sample(290.0));
        assert_eq!(figure.verdict(), None);
        figure.bare.values.push(100.0);
        assert_eq!(figure.verdict(), Some((2.9, true)));
        figure.target = Some(Target::IdleProcessors(0.01));
        assert_eq!(figure.verdict(), Some((1.5, false)));
    }
}
