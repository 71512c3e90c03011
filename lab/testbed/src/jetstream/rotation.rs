//! The experiments on the ring: what the timed token promises, measured.

use barewire_classic::token::{Budget, Class};
use barewire_formats::jetstream::FRAME_BYTES_MAX;
use barewire_units::{ByteSize, Duration, Instant, Rng};

use super::parameters::Ring;
use super::ring::{Loss, Offer, Plan, Record, run};
use crate::error::SystemError;
use crate::figures::seconds;
use crate::replicate::replicate;
use crate::reproduction::Reproduction;

const TABLE: &str = "ring";
/// Time for an idle ring to settle, and for a worst load to be over, in TTRTs.
const SETTLE: u64 = 2;
const SPELL: u64 = 4;
/// Frames that fill a token's time, long and short.
const FILLERS: [usize; 2] = [600, 120];
/// Frames that are short against TTRT.
const SHORT_BYTES: usize = 1_000;
/// TTRTs to load the ring for, with short frames and with the longest.
const LOADED: [u64; 2] = [60, 200];
/// Tokens that are lost.
const LOSSES: usize = 16;
/// Steps of the search for the largest allotment.
const SEARCH_STEP: Duration = Duration::from_us(1);
/// Just before or after.
const MOMENT: Duration = Duration::from_ns(100);

pub fn measure(ring: &Ring, rng: &Rng, found: &mut Reproduction) -> Result<(), SystemError> {
    idle(ring, found)?;
    let begin = token_times(ring)?;
    overrun(ring, begin[1], found)?;
    synchronous_room(ring, begin[1], found)?;
    synchronous_access(ring, &begin, found)?;
    asynchronous(ring, found)?;
    losses(ring, rng, found)
}

/// The longest of an idle ring's rotations, as the paper reckons and as the cards are.
fn idle(ring: &Ring, found: &mut Reproduction) -> Result<(), SystemError> {
    let rows = [
        ("T_prop", ring.latency_budget),
        ("T_prop, 300 ns a card", ring.latency),
    ];
    for (row, latency) in rows {
        let mut plan = plan(ring, ring.budget(), Duration::ZERO);
        for card in &mut plan.cards {
            card.latency = latency;
        }
        let record = run(&plan)?;
        found.add_us(TABLE, row, "idle rotation", record.longest_rotation());
        found.hashes.push(record.hash);
    }
    Ok(())
}

/// How far the longest frame, begun at the last moment, carries a rotation beyond TTRT.
fn overrun(ring: &Ring, begin: Duration, found: &mut Reproduction) -> Result<(), SystemError> {
    let budget = ring.budget();
    let mut plan = plan(ring, budget, Duration::ZERO);
    plan.offers = fill_and_overrun(ring, &budget, 1, begin);
    let record = run(&plan)?;
    let beyond = record.longest_rotation().saturating_sub(ring.ttrt);
    found.add_us(TABLE, "T_overrun", "longest", beyond);
    found.hashes.push(record.hash);
    Ok(())
}

/// The largest sum of allotments, with the overrun that the paper reckons, and the rate
/// that it gives.
fn synchronous_room(
    ring: &Ring,
    begin: Duration,
    found: &mut Reproduction,
) -> Result<(), SystemError> {
    let rounded = Budget {
        frame_bytes_max: bytes_in(ring, ring.overrun_budget),
        ..ring.budget()
    };
    let back_in_time = |record: &Record| record.longest_rotation() <= ring.ttrt * 2;
    let never_late = |record: &Record| record.stats.iter().all(|stats| stats.tokens_late == 0);
    let no_prop = largest(ring, |sum| {
        Ok(back_in_time(&run(&worst(ring, rounded, sum, 1, begin))?))
    })?;
    let with_prop = largest(ring, |sum| {
        Ok(never_late(&run(&one_frame_a_rotation(ring, rounded, sum))?))
    })?;
    found.add_us(TABLE, "T_synch, T_prop ignored", "largest", no_prop);
    found.add_us(TABLE, "T_synch", "largest", with_prop);
    let record = run(&loaded_synchronous(ring, rounded, no_prop))?;
    let frames: u64 = record
        .stats
        .iter()
        .map(|stats| stats.sent_synchronous)
        .sum();
    let frame_bytes = bytes_in(ring, no_prop / ring.stations() as u64);
    let sent = frames * frame_bytes as u64;
    let mbps = sent as f64 * 8.0 / seconds(ring.ttrt * LOADED[0]) / 1e6;
    found.add(
        TABLE,
        "T_synch, T_prop ignored",
        "synchronous rate",
        "Mbit/s",
        mbps,
    );
    found.hashes.push(record.hash);
    Ok(())
}

/// With the longest frame that there is, and all the allotments that the ring admits.
fn synchronous_access(
    ring: &Ring,
    begin: &[Duration],
    found: &mut Reproduction,
) -> Result<(), SystemError> {
    let budget = ring.budget();
    let room = budget.synchronous_room();
    let runs = replicate(ring.stations(), |station| {
        run(&worst(ring, budget, room, station, begin[station]))
    });
    let mut longest = Duration::ZERO;
    for record in runs {
        let record = record?;
        longest = longest.max(record.longest_access(Class::Synchronous));
        found.hashes.push(record.hash);
    }
    found.add_ms(TABLE, "synchronous access", "longest", longest);
    Ok(())
}

fn asynchronous(ring: &Ring, found: &mut Reproduction) -> Result<(), SystemError> {
    let rows = [
        ("asynchronous access, short frames", SHORT_BYTES, LOADED[0]),
        (
            "asynchronous access, longest frames",
            FRAME_BYTES_MAX,
            LOADED[1],
        ),
    ];
    for (row, bytes, rotations) in rows {
        let mut plan = plan(ring, ring.budget(), Duration::ZERO);
        let always = |station| Offer {
            after: Duration::ZERO,
            station,
            class: Class::Asynchronous,
            bytes,
            again: Some(Duration::ZERO),
        };
        plan.offers = (0..ring.stations()).map(always).collect();
        plan.run_for = ring.ttrt * rotations;
        let record = run(&plan)?;
        found.add_ms(TABLE, row, "longest", record.longest_gap());
        found.hashes.push(record.hash);
    }
    Ok(())
}

/// Tokens lost at any point of an idle ring.
fn losses(ring: &Ring, rng: &Rng, found: &mut Reproduction) -> Result<(), SystemError> {
    let mut rng = rng.fork("losses");
    let mut plan = plan(ring, ring.budget(), Duration::ZERO);
    let rotation_ps = ring.budget().ring_latency.as_ps();
    let loss = |index: usize| {
        let at = ring.ttrt * (SETTLE + SPELL * index as u64);
        at + Duration::from_ps(rng.below(rotation_ps))
    };
    plan.losses = (0..LOSSES).map(loss).collect();
    plan.run_for = ring.ttrt * (SPELL * (LOSSES as u64 + 1));
    let record = run(&plan)?;
    let longest = |then: fn(&Loss) -> Option<Instant>| {
        let times = record
            .losses
            .iter()
            .map(|loss| Some(then(loss)? - loss.lost));
        let times: Option<Vec<Duration>> = times.collect();
        let missed = || SystemError::Contradiction("ring: a lost token was not replaced".into());
        times
            .and_then(|times| times.into_iter().max())
            .ok_or_else(missed)
    };
    let noticed = longest(|loss| loss.noticed)?;
    longest(|loss| loss.replaced)?;
    found.add_ms(TABLE, "token loss", "longest until noticed", noticed);
    found.hashes.push(record.hash);
    Ok(())
}

/// An idle ring.
fn plan(ring: &Ring, budget: Budget, synchronous: Duration) -> Plan {
    Plan {
        cards: ring.cards(budget, synchronous),
        hop: ring.hop(),
        offers: Vec::new(),
        losses: Vec::new(),
        run_for: ring.ttrt * (SETTLE + SPELL),
    }
}

fn bytes_in(ring: &Ring, time: Duration) -> usize {
    ring.rate.bytes_in(time).as_usize().unwrap_or(usize::MAX)
}

/// What a host sends that has the token of an idle ring: frames that fill the time but
/// for the last moment, then the longest.
fn fill_and_overrun(ring: &Ring, budget: &Budget, station: usize, after: Duration) -> Vec<Offer> {
    let offer = |bytes| Offer {
        after,
        station,
        class: Class::Asynchronous,
        bytes,
        again: None,
    };
    let mut left = ring.ttrt - budget.ring_latency;
    let mut offers = Vec::new();
    for bytes in FILLERS {
        let time = ring.rate.time_to_send(ByteSize::from(bytes));
        while left > time {
            left -= time;
            offers.push(offer(bytes));
        }
    }
    offers.push(offer(budget.frame_bytes_max));
    offers
}

/// When the token of an idle ring is about to reach each station, after the ring is up.
fn token_times(ring: &Ring) -> Result<Vec<Duration>, SystemError> {
    let record = run(&plan(ring, ring.budget(), Duration::ZERO))?;
    let settled = record.up + ring.ttrt * SETTLE;
    let about_to = |tokens: &Vec<Instant>| {
        let next = tokens.iter().find(|token| **token > settled);
        next.map(|token| *token - record.up - MOMENT)
    };
    let times: Option<Vec<_>> = record.tokens.iter().map(about_to).collect();
    times.ok_or_else(|| SystemError::Contradiction("ring: no token".into()))
}

/// An idle ring on which all at once, as the token is about to reach it, `station` fills its token's time and overruns it, and
/// everybody has a synchronous frame as long as its allotment, of `sum` together.
fn worst(ring: &Ring, budget: Budget, sum: Duration, station: usize, after: Duration) -> Plan {
    let each = sum / ring.stations() as u64;
    let mut plan = plan(ring, budget, each);
    plan.offers = fill_and_overrun(ring, &budget, station, after);
    plan.offers
        .extend(synchronous_frames(ring, each, after, None));
    plan
}

/// One host sends one longest frame in each rotation, and all others use their allotments.
fn one_frame_a_rotation(ring: &Ring, budget: Budget, sum: Duration) -> Plan {
    const HOST: usize = 1;
    let each = sum / ring.hosts as u64;
    let mut plan = plan(ring, budget, each);
    plan.offers = synchronous_frames(ring, each, Duration::ZERO, Some(MOMENT));
    plan.offers[HOST] = Offer {
        class: Class::Asynchronous,
        bytes: budget.frame_bytes_max,
        ..plan.offers[HOST]
    };
    plan
}

/// Everybody uses its allotment in each rotation, and everybody has short frames besides.
fn loaded_synchronous(ring: &Ring, budget: Budget, sum: Duration) -> Plan {
    let each = sum / ring.stations() as u64;
    let mut plan = plan(ring, budget, each);
    plan.offers = synchronous_frames(ring, each, Duration::ZERO, Some(MOMENT));
    plan.offers
        .extend((0..ring.stations()).map(|station| Offer {
            after: Duration::ZERO,
            station,
            class: Class::Asynchronous,
            bytes: SHORT_BYTES,
            again: Some(Duration::ZERO),
        }));
    plan.run_for = ring.ttrt * LOADED[0];
    plan
}

fn synchronous_frames(
    ring: &Ring,
    each: Duration,
    after: Duration,
    again: Option<Duration>,
) -> Vec<Offer> {
    let bytes = bytes_in(ring, each);
    let offer = |station| Offer {
        after,
        station,
        class: Class::Synchronous,
        bytes,
        again,
    };
    (0..ring.stations()).map(offer).collect()
}

/// The largest sum of allotments for which `holds`, to a step.
fn largest(
    ring: &Ring,
    holds: impl Fn(Duration) -> Result<bool, SystemError>,
) -> Result<Duration, SystemError> {
    let (mut good, mut bad) = (0, ring.ttrt.as_ps() / SEARCH_STEP.as_ps());
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        if holds(SEARCH_STEP * middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(SEARCH_STEP * good)
}
