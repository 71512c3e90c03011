//! Configurations of a scan: every combination of the values of its axes, checked before the first run.

use std::path::Path;

use barewire_daq::config::{Config, Trigger, with};
use barewire_proto::evb::Flow;
use barewire_tables::Over;

use super::super::error::DaqError;
use super::files::io;

/// Combinations of a scan.
const POINTS_MAX: usize = 10_000;
/// Letters of `run.name`.
const NAME_MAX: usize = 40;

/// A configuration with one of the values of each axis.
pub struct Point {
    /// Which value it is, by axis.
    pub at: Vec<usize>,
    text: String,
    /// Checked.
    pub config: Config,
}

impl Point {
    /// Its values for people.
    pub fn place(&self, over: &[Over]) -> String {
        let axes = over.iter().zip(&self.at);
        let each = axes.map(|(over, &at)| format!("{} = {}", over.key, over.values[at]));
        each.collect::<Vec<_>>().join(", ")
    }

    /// What a run of it is recognised by: another configuration, another release and other ties
    /// to processors are another measurement. Comments do not count.
    pub fn identity(&self, processors: Option<usize>) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("{version}\n{processors:?}\n{}", self.text);
        // FNV-1a with 64 bits.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }

    /// For the laboratory: the same without what holds bandwidth down beside the machine, triggers and shaping;
    /// `None` if there is nothing of it.
    pub fn saturated(&self) -> Option<Self> {
        let is_free = matches!(self.config.source.flow, Flow::Free | Flow::Credits);
        let is_full = matches!(self.config.trigger, Trigger::Max | Trigger::Sources);
        if is_free && is_full && self.config.shaping.is_none() {
            return None;
        }
        let mut config = self.config.clone();
        config.trigger = Trigger::Max;
        (config.shaping, config.manager.schedule) = (None, None);
        if !is_free {
            config.source.flow = Flow::Free;
        }
        Some(Self {
            at: self.at.clone(),
            text: String::new(),
            config,
        })
    }

    /// The configuration for the run that is done beside `slot` others: names on the network are its own.
    pub fn in_slot(&self, slot: usize) -> Result<(String, Config), DaqError> {
        if slot == 0 {
            return Ok((self.text.clone(), self.config.clone()));
        }
        let suffix = format!("-{slot}");
        let stem: String = self
            .config
            .name
            .chars()
            .take(NAME_MAX - suffix.len())
            .collect();
        let name = stem + &suffix;
        let text = with(&self.text, "scan", "run.name", &name);
        let text = text.map_err(|it| DaqError::Config(vec![it]))?;
        let config = Config::parse(&text, "scan").map_err(DaqError::Config)?;
        Ok((text, config))
    }
}

/// The configuration with each combination of values; the last axis varies fastest.
pub fn points(file: &Path, over: &[Over]) -> Result<Vec<Point>, DaqError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|it| io(file, it))?;
    let keys: Vec<&str> = over.iter().map(|it| key_of(&it.key)).collect();
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].contains(key) {
            let text = format!("--over {key}: named twice; give all its values at once");
            return Err(DaqError::Scan(text));
        }
    }
    let count = over.iter().map(|it| it.values.len());
    let count = count.fold(1_usize, usize::saturating_mul);
    if count > POINTS_MAX {
        let text = format!("{count} combinations, expected at most {POINTS_MAX}");
        return Err(DaqError::Scan(text));
    }
    let point = |number: usize| {
        let at = places(over, number);
        let (mut text, mut named) = (text.clone(), name.clone());
        for ((key, over), &at) in keys.iter().zip(over).zip(&at) {
            let value = &over.values[at];
            text = with(&text, &name, key, value).map_err(|it| DaqError::Config(vec![it]))?;
            named += &format!(" with {key} = {value}");
        }
        let config = Config::parse(&text, &named).map_err(DaqError::Config)?;
        Ok(Point { at, text, config })
    };
    (0..count).map(point).collect()
}

fn key_of(key: &str) -> &str {
    match key {
        "fragment_size" => "fragments.size",
        key => key,
    }
}

/// The combination of this number, as places in the lists of values.
fn places(over: &[Over], mut number: usize) -> Vec<usize> {
    let mut at: Vec<usize> = over
        .iter()
        .rev()
        .map(|it| {
            let place = number % it.values.len();
            number /= it.values.len();
            place
        })
        .collect();
    at.reverse();
    at
}
