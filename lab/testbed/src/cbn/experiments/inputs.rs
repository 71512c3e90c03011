//! What several experiments' inputs have in common, and what is refused.

use barewire_classic::msdl::{BLOCK_CELLS_MAX, InterruptOn};
use std::ops::RangeInclusive;

use barewire_models::cbn::Stage;
use barewire_units::{Decimal, Duration};
use serde::Deserialize;

use crate::cbn::parameters::Parameters;
use crate::cbn::runs::Run;
use crate::error::SystemError;
use crate::refuse::{AtMost, Each, names, within, wrong};

/// Most points of an experiment.
pub(super) const POINTS_MAX: usize = 1000;
/// A list of inputs that are no quantities.
pub(super) const CHOICES: AtMost = AtMost(POINTS_MAX);
/// Cells of a block.
pub(super) const CELLS: RangeInclusive<usize> = 1..=BLOCK_CELLS_MAX;
/// Round trips of a run.
pub(super) const PINGS: RangeInclusive<usize> = 2..=10_000;
/// A share of the ring.
pub(super) const SHARE: RangeInclusive<f64> = 0.0..=10.0;
/// Any number of them.
pub(super) const SHARES: Each<f64> = Each(SHARE);
/// Stations of a ring with others beside the two that are measured.
pub(super) const LOADED_STATIONS: RangeInclusive<u16> = 3..=u16::MAX;
/// Most frames that pass stations in a rotation: each is an event of its own.
const PASSAGES_MAX: usize = 1_000_000;
/// Most stations.
const STATIONS_MAX: u16 = 1000;
/// Longest time of a run.
pub(super) const TIME_MAX: Duration = Duration::from_s(10);

names! {
    /// The cells that interrupt.
    pub(super) enum Condition {
        First = "first",
        Last = "last",
        Both = "both",
        Each = "each",
    }
}

impl Condition {
    pub(super) const fn interrupt_on(self) -> InterruptOn {
        match self {
            Self::First => InterruptOn::StartOfBlock,
            Self::Last => InterruptOn::EndOfBlock,
            Self::Both => InterruptOn::StartAndEnd,
            Self::Each => InterruptOn::EveryCell,
        }
    }
}

/// What becomes of a cell that finds the transmit FIFO full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FullFifo {
    Lose,
    Wait,
}

/// The length of a ring.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Length {
    /// That of the ring that was measured.
    Measured,
    /// Of fibre.
    Km(f64),
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let text = text.trim();
        if text == "measured" {
            return Ok(Self::Measured);
        }
        let km = || {
            let (number, unit) = Decimal::split(text).ok()?;
            let number: f64 = number.text().parse().ok()?;
            match unit {
                "km" => Some(number),
                "m" => Some(number * 1e-3),
                _ => None,
            }
        };
        match km() {
            Some(km) if km.is_finite() && km > 0.0 => Ok(Self::Km(km)),
            _ => Err(format!(
                "{text:?} is no length: expected \"measured\", \"10 km\" or \"800 m\""
            )),
        }
    }
}

impl Length {
    fn rotation(&self, parameters: &Parameters) -> Duration {
        match self {
            Self::Measured => parameters.ring.rotation,
            Self::Km(km) => {
                let ps = parameters.ring.fibre_km.as_ps() as f64 * km;
                Duration::from_ps((ps + 0.5) as u64)
            }
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Measured => "measured".to_owned(),
            Self::Km(km) => format!("{km} km"),
        }
    }
}

/// A run on a ring of `length` with so many stations.
pub(super) fn run_on(
    parameters: &Parameters,
    length: &Length,
    stations: u16,
) -> Result<Run, SystemError> {
    let mut run = Run::new(parameters);
    run.rotation = length.rotation(parameters);
    run.stations = stations;
    within("stations", stations, 2..=STATIONS_MAX)?;
    let frames = run.line.frames(run.rotation);
    let passages = frames.saturating_mul(usize::from(stations));
    if frames == 0 || u16::try_from(frames).is_err() || passages > PASSAGES_MAX {
        return Err(refusal(format!(
            "a ring of {} holds {frames} frames for {stations} stations: expected one frame at \
             least, and at most 65535 of them and {PASSAGES_MAX} in all",
            length.name()
        )));
    }
    Ok(run)
}

pub(super) fn refusal(text: String) -> SystemError {
    SystemError::Contradiction(text)
}

/// The stage of that number.
pub(super) fn stage(number: usize) -> Result<Stage, SystemError> {
    let stage = Stage::ALL.get(number).copied();
    stage.ok_or_else(|| wrong("stage", number, "0 to 3"))
}
