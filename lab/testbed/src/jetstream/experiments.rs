//! What a plan can ask of Jetstream and Afterburner, and what the experiments share.
//!
//! | experiment | asks |
//! |---|---|
//! | [`ring`] | a ring of one's own: rotation, access and throughput against load |
//! | [`stream`] | netperf over two Afterburners back to back, messages of one's own |
//! | [`synchronous`] | the synchronous class beside asynchronous load (open in the paper) |
//! | [`switch`] | rings joined by the switch (open) |
//! | [`afterburner`] | Afterburner stacks on the real ring (open) |
//! | [`atm`] | the ring against an ATM switch with the same hosts (open) |
//!
//! Cards have the latency that the paper measured, not the one that it reckons with, and each a
//! clock of its own. What is recorded of a link is what was on it: real frames and cells with
//! payloads of zeros.

pub mod afterburner;
pub mod atm;
pub mod ring;
pub mod stream;
pub mod switch;
pub mod synchronous;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::ops::RangeInclusive;

use barewire_classic::token::{Budget, Class, Refused};
use barewire_formats::aal5;
use barewire_formats::jetstream::OVERHEAD_BYTES;
use barewire_models::jetstream::{Clocks, SwitchConfig, fibre_delay};
use barewire_units::{ByteSize, Duration, Rate, Rng};

use super::lan::{Lan, LanPlan};
use super::load::{Gap, LoadRecord, Source};
use super::net::{Medium, Network};
use super::parameters::{LENGTH_M_MAX, Parameters, Ring};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, LinkCapture, Setting};

/// Every experiment.
pub const ALL: [Experiment; 6] = [
    ring::EXPERIMENT,
    stream::EXPERIMENT,
    synchronous::EXPERIMENT,
    switch::EXPERIMENT,
    afterburner::EXPERIMENT,
    atm::EXPERIMENT,
];

/// Entries of a list.
const ENTRIES_MAX: usize = 64;
/// Longest simulated time, which keeps a run within minutes.
const DURATION_MAX: Duration = Duration::from_s(60);
/// Shortest, which leaves something to measure.
const DURATION_MIN: Duration = Duration::from_ms(1);
/// Bytes of a message: one PDU holds it.
const MESSAGE_BYTES: RangeInclusive<u64> = 1..=aal5::PAYLOAD_BYTES_MAX as u64;
/// Bytes of a word of the link.
const WORD_BYTES: usize = 2;
/// Part of a run that is not measured, and time for what is on its way at its end, in parts of
/// the run.
const WARM_UP: u64 = 10;

/// Messages of a run, and their bytes.
const MESSAGES_MAX: u64 = 4_000_000;
const BYTES_MAX: u64 = 10_000_000_000;

fn wrong(key: &str, found: impl Display, expected: impl Display) -> SystemError {
    SystemError::Contradiction(format!("{key}: found {found}, expected {expected}"))
}

fn within<T>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), SystemError>
where
    T: PartialOrd + Display,
{
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("{} to {}", range.start(), range.end());
    Err(wrong(key, value, expected))
}

/// Every entry of a list that is not empty.
fn each<T: Copy>(
    key: &str,
    values: &[T],
    check: impl Fn(T) -> Result<(), SystemError>,
) -> Result<(), SystemError> {
    if values.is_empty() || values.len() > ENTRIES_MAX {
        let found = format!("{} entries", values.len());
        return Err(wrong(key, found, format!("1 to {ENTRIES_MAX}")));
    }
    values.iter().try_for_each(|value| check(*value))
}

fn duration(key: &str, value: Duration) -> Result<(), SystemError> {
    within(key, value, DURATION_MIN..=DURATION_MAX)
}

fn message(key: &str, value: ByteSize) -> Result<(), SystemError> {
    let range =
        ByteSize::from_bytes(*MESSAGE_BYTES.start())..=ByteSize::from_bytes(*MESSAGE_BYTES.end());
    within(key, value, range)
}

/// Whether `rate` of such messages is as much as a run can hold.
fn offers(key: &str, rate: Rate, size: ByteSize, time: Duration) -> Result<(), SystemError> {
    let bytes = rate.bytes_in(time).as_bytes();
    let messages = bytes / size.as_bytes().max(1);
    if messages > MESSAGES_MAX || bytes > BYTES_MAX {
        let found = format!("{messages} messages of {size}, {bytes} B together, in {time}");
        let expected = format!("at most {MESSAGES_MAX} messages and {BYTES_MAX} B");
        return Err(wrong(key, found, expected));
    }
    Ok(())
}

/// The same for messages in periods.
fn periods(key: &str, hosts: usize, period: Duration, time: Duration) -> Result<(), SystemError> {
    let messages = (time.as_ps() / period.as_ps().max(1)).saturating_mul(hosts as u64);
    if messages > MESSAGES_MAX {
        let found = format!("{period}, {messages} messages in {time}");
        return Err(wrong(
            key,
            found,
            format!("at most {MESSAGES_MAX} messages"),
        ));
    }
    Ok(())
}

/// Rings as an experiment wants them.
struct Rings<'a> {
    parameters: &'a Parameters,
    /// Of each ring, the master included.
    stations: usize,
    length_m: u64,
    ttrt: Duration,
    /// Of each station; the first is the master.
    allotment: Duration,
    master_allotment: Duration,
    rings: usize,
    switch: Option<SwitchConfig>,
    errors_per_gigabit: u64,
    packets_per_link: usize,
}

impl<'a> Rings<'a> {
    /// One ring of the paper's parameters with so many stations, no synchronous traffic.
    fn one(parameters: &'a Parameters, stations: usize) -> Self {
        Self {
            parameters,
            stations,
            length_m: parameters.ring.length_m,
            ttrt: parameters.ring.ttrt,
            allotment: Duration::ZERO,
            master_allotment: Duration::ZERO,
            rings: 1,
            switch: None,
            errors_per_gigabit: 0,
            packets_per_link: 0,
        }
    }

    fn ring(&self) -> Ring {
        Ring {
            hosts: self.stations - 1,
            length_m: self.length_m,
            ttrt: self.ttrt,
            ..self.parameters.ring.clone()
        }
    }

    fn budget(&self) -> Budget {
        let budget = self.ring().budget();
        let gap_bytes = WORD_BYTES * self.parameters.ring.gap_words;
        Budget {
            frame_bytes_max: budget.frame_bytes_max + gap_bytes,
            ..budget
        }
    }

    /// Whether rings can be so at all, and each station's allotment by itself.
    fn check(&self) -> Result<(), SystemError> {
        within("stations", self.stations, 2..=16)?;
        within("length_m", self.length_m, 1..=LENGTH_M_MAX)?;
        if fibre_delay(self.parameters.ring.fibre_per_metre, self.length_m).as_ps()
            / (self.stations as u64)
            == 0
        {
            return Err(wrong(
                "length_m",
                self.length_m,
                "some fibre between stations",
            ));
        }
        let own = self.allotment.max(self.master_allotment);
        self.budget()
            .admit(&[own])
            .map_err(|refused| not_admitted("ttrt", refused))
    }

    /// Whether all allotments together fit.
    fn check_all(&self, key: &str) -> Result<(), SystemError> {
        let mut all = vec![self.allotment; self.stations];
        all[0] = self.master_allotment;
        let admitted = self.budget().admit(&all);
        admitted.map_err(|refused| not_admitted(key, refused))
    }

    fn build(&self, rng: &Rng) -> Result<Network, SystemError> {
        let ring = self.ring();
        let budget = self.budget();
        let mut cards = ring.cards(budget, self.allotment);
        let mut clocks = rng.fork("clocks");
        let ppb = i32::try_from(ring.clock_ppm * 1_000).unwrap_or(i32::MAX);
        let mut draw = || clocks.below(2 * ppb as u64 + 1) as i32 - ppb;
        let own: Vec<i32> = cards.iter().map(|_| draw()).collect();
        let before = own.iter().cycle().skip(own.len() - 1);
        for ((card, own_ppb), upstream_ppb) in cards.iter_mut().zip(&own).zip(before) {
            card.latency = ring.latency;
            card.gap_words = ring.gap_words;
            card.station.queue_frames_max = ring.queue_frames;
            card.clocks = Some(Clocks {
                upstream_ppb: *upstream_ppb,
                own_ppb: *own_ppb,
            });
        }
        cards[0].station.synchronous = self.master_allotment;
        if self.switch.is_some() {
            // A port's frames wait in the buffer of the output, which is counted in bytes.
            cards[0].station.queue_frames_max = usize::MAX;
        }
        let buffer_bytes = self.parameters.switch.buffer.as_bytes();
        let plan = LanPlan {
            cards,
            rings: self.rings,
            hop: ring.hop(),
            rate: ring.rate,
            switch: self.switch.map(|config| (config, buffer_bytes)),
            errors_per_gigabit: self.errors_per_gigabit,
            packets_per_link: self.packets_per_link,
        };
        let lan = Lan::new(&plan, &rng.fork("noise"))?;
        let medium = Medium::Rings(Box::new(lan));
        Ok(Network::new(medium, self.packets_per_link > 0))
    }
}

fn not_admitted(key: &str, refused: Refused) -> SystemError {
    SystemError::Contradiction(format!("{key}: the ring does not admit it: {refused}"))
}

/// Bytes that a frame with a message of so many takes on the line, with the gap behind it.
fn frame_bytes(parameters: &Parameters, payload_bytes: usize) -> usize {
    OVERHEAD_BYTES + aal5::pdu_bytes(payload_bytes) + WORD_BYTES * parameters.ring.gap_words
}

/// Sources of random messages, one at each host, that together give `rate` of payload.
fn random_sources(
    hosts: usize,
    rate: Rate,
    payload_bytes: usize,
    class: Class,
    group: usize,
) -> Vec<Source> {
    let each = rate.time_to_send(ByteSize::from(payload_bytes));
    let mean = each.checked_mul(hosts as u64).unwrap_or(Duration::MAX);
    let source = |from| Source {
        from,
        to: None,
        class,
        payload_bytes,
        gap: Gap::Random(mean),
        group,
    };
    (0..hosts).map(source).collect()
}

/// `rate` in parts of a hundred; at least a bit each second.
fn per_cent(rate: Rate, per_cent: u64) -> Rate {
    Rate::from_bps((rate.as_bps() / 100).saturating_mul(per_cent).max(1))
}

/// Results of all points, or the first that failed; with the hash over all of them.
fn gather<T>(
    runs: Vec<Result<T, SystemError>>,
    hash: impl Fn(&T) -> u64,
) -> Result<(Vec<T>, u64), SystemError> {
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mix = |all: u64, run: &T| {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        (all.rotate_left(23) ^ hash(run)).wrapping_mul(ODD)
    };
    let all = runs.iter().fold(0, mix);
    Ok((runs, all))
}

/// What the first of the runs recorded.
fn take_first_links<T>(
    runs: &mut [T],
    links: impl Fn(&mut T) -> &mut Vec<LinkCapture>,
) -> Vec<LinkCapture> {
    runs.first_mut()
        .map(|run| std::mem::take(links(run)))
        .unwrap_or_default()
}

/// Packets to record in the run at `index`.
fn recorded(setting: &Setting<'_>, index: usize) -> usize {
    if index == 0 {
        setting.packets_per_link
    } else {
        0
    }
}

/// Payload of a group, if it had any source.
fn mbps(record: &LoadRecord, group: usize) -> Cell {
    let asked = record.groups[group].offered > 0;
    asked.then(|| record.mbps(group)).into()
}
