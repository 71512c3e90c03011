//! What the experiments have in common: what is refused, how runs are put together.

use crate::error::SystemError;
use crate::experiment::{Cell, LinkCapture, Outcome};
use crate::jetstream::lan::{Lan, LanPlan};
use crate::jetstream::load::{Gap, LoadRecord, Source};
use crate::jetstream::net::{Medium, Network};
use crate::jetstream::parameters::{LENGTH_M_MAX, Parameters, Ring};
use crate::refuse::{AtMost, within, wrong};
use barewire_classic::token::{Budget, Class, Refused};
use barewire_formats::aal5;
use barewire_formats::jetstream::OVERHEAD_BYTES;
use barewire_models::jetstream::{Clocks, SwitchConfig, fibre_delay};
use barewire_units::{ByteSize, Duration, Rate, Rng};
use std::ops::RangeInclusive;

/// Entries of a list.
pub(crate) const ENTRIES: AtMost = AtMost(64);
/// Simulated time, which leaves something to measure and keeps a run within minutes.
pub(crate) const DURATION: RangeInclusive<Duration> = Duration::from_ms(1)..=Duration::from_s(60);
/// A message: one PDU holds it.
pub(crate) const MESSAGE: RangeInclusive<ByteSize> =
    ByteSize::from_bytes(1)..=ByteSize::from_bytes(aal5::PAYLOAD_BYTES_MAX as u64);
/// Bytes of a word of the link.
pub(crate) const WORD_BYTES: usize = 2;

/// Messages of a run, and their bytes.
pub(crate) const MESSAGES_MAX: u64 = 4_000_000;
pub(crate) const BYTES_MAX: u64 = 10_000_000_000;

/// Whether `rate` of such messages is as much as a run can hold.
pub(crate) fn offers(
    key: &str,
    rate: Rate,
    size: ByteSize,
    time: Duration,
) -> Result<(), SystemError> {
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
pub(crate) fn periods(
    key: &str,
    hosts: usize,
    period: Duration,
    time: Duration,
) -> Result<(), SystemError> {
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
pub(crate) struct Rings<'a> {
    pub(crate) parameters: &'a Parameters,
    /// Of each ring, the master included.
    pub(crate) stations: usize,
    pub(crate) length_m: u64,
    pub(crate) ttrt: Duration,
    /// Of each station; the first is the master.
    pub(crate) allotment: Duration,
    pub(crate) master_allotment: Duration,
    pub(crate) rings: usize,
    pub(crate) switch: Option<SwitchConfig>,
    /// The master is an interworking unit.
    pub(crate) unit: bool,
    pub(crate) errors_per_gigabit: u64,
    pub(crate) packets_per_link: usize,
}

impl<'a> Rings<'a> {
    /// One ring of the paper's parameters with so many stations, no synchronous traffic.
    pub(crate) fn one(parameters: &'a Parameters, stations: usize) -> Self {
        Self {
            parameters,
            stations,
            length_m: parameters.ring.length_m,
            ttrt: parameters.ring.ttrt,
            allotment: Duration::ZERO,
            master_allotment: Duration::ZERO,
            rings: 1,
            switch: None,
            unit: false,
            errors_per_gigabit: 0,
            packets_per_link: 0,
        }
    }

    pub(crate) fn ring(&self) -> Ring {
        Ring {
            hosts: self.stations - 1,
            length_m: self.length_m,
            ttrt: self.ttrt,
            ..self.parameters.ring.clone()
        }
    }

    pub(crate) fn budget(&self) -> Budget {
        let budget = self.ring().budget();
        let gap_bytes = WORD_BYTES * self.parameters.ring.gap_words;
        Budget {
            frame_bytes_max: budget.frame_bytes_max + gap_bytes,
            ..budget
        }
    }

    /// Whether rings can be so at all, and each station's allotment by itself.
    pub(crate) fn check(&self) -> Result<(), SystemError> {
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
    pub(crate) fn check_all(&self, key: &str) -> Result<(), SystemError> {
        let mut all = vec![self.allotment; self.stations];
        all[0] = self.master_allotment;
        let admitted = self.budget().admit(&all);
        admitted.map_err(|refused| not_admitted(key, refused))
    }

    pub(crate) fn build(&self, rng: &Rng) -> Result<Network, SystemError> {
        let medium = Medium::Rings(Box::new(self.lan(rng)?));
        Ok(Network::new(medium, self.packets_per_link > 0))
    }

    pub(crate) fn lan(&self, rng: &Rng) -> Result<Lan, SystemError> {
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
            unit: self.unit,
            errors_per_gigabit: self.errors_per_gigabit,
            packets_per_link: self.packets_per_link,
        };
        Lan::new(&plan, &rng.fork("noise"))
    }
}

pub(crate) fn not_admitted(key: &str, refused: Refused) -> SystemError {
    SystemError::Contradiction(format!("{key}: the ring does not admit it: {refused}"))
}

/// Bytes that a frame with a message of so many takes on the line, with the gap behind it.
pub(crate) fn frame_bytes(parameters: &Parameters, payload_bytes: usize) -> usize {
    OVERHEAD_BYTES + aal5::pdu_bytes(payload_bytes) + WORD_BYTES * parameters.ring.gap_words
}

/// Sources of random messages, one at each host, that together give `rate` of payload.
pub(crate) fn random_sources(
    hosts: usize,
    rate: Rate,
    payload_bytes: usize,
    class: Class,
    group: usize,
) -> Vec<Source> {
    let each = rate.time_to_send(ByteSize::from(payload_bytes));
    let mean = each.checked_mul(hosts as u64).unwrap_or(Duration::MAX);
    Source::at_each(hosts, class, payload_bytes, Gap::Random(mean), group).collect()
}

/// `rate` in parts of a hundred; at least a bit each second.
pub(crate) fn share_of(rate: Rate, per_cent: u64) -> Rate {
    Rate::from_bps((rate.as_bps() / 100).saturating_mul(per_cent).max(1))
}

/// What all runs came to.
pub(crate) fn outcome(runs: impl IntoIterator<Item = (u64, Vec<LinkCapture>)>) -> Outcome {
    let mut outcome = Outcome::default();
    for (hash, links) in runs {
        outcome.mix_run(hash, links);
    }
    outcome
}

/// Payload of a group, if it had any source.
pub(crate) fn mbps(record: &LoadRecord, group: usize) -> Cell {
    let asked = record.groups[group].offered > 0;
    asked.then(|| record.mbps(group)).into()
}
