//! Admission control: reservations of rate against a capacity, kept alive by
//! refreshing them, as RSVP does.
//!
//! | state | event | state after |
//! |---|---|---|
//! | absent | reserve, and the rate is left | Reserved |
//! | Reserved | confirm | Confirmed |
//! | Reserved, Confirmed | the same reserve again, or refresh | as before, for another lifetime |
//! | Reserved, Confirmed | reserve of another rate or destination, and it is left | Reserved |
//! | Reserved, Confirmed | teardown, or a lifetime without a refresh | absent |
//! | any | reserve, and the rate is not left | as before |
//!
//! A reservation is accepted if, with it, the sum of all is at most the total
//! capacity, and the sum of those to its destination at most the capacity of
//! that, where one is set. A change of a reservation does not compete with what
//! it replaces. The total is looked at first. A reservation counts from the
//! moment that it is accepted, confirmed or not.
//!
//! Source: kek00 (admission control as a part of quality of service); the
//! lifetime is that of RFC 2205 §3.7: (K + 0.5) · 1.5 · R.

use alloc::collections::BTreeMap;
use core::fmt;

use barewire_units::{Duration, Instant, Rate, transitions};

/// How often RSVP refreshes: R. Source: RFC 2205 §3.7.
pub const REFRESH_PERIOD: Duration = Duration::from_s(30);
/// How long a reservation lives without a refresh: (3 + 0.5) · 1.5 · R.
pub const LIFETIME_DEFAULT: Duration = Duration::from_ms(157_500);

/// Who reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(pub u64);

/// Where the traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(pub u64);

/// What a reservation does not fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// The capacity for all together.
    Total,
    /// The capacity for one destination.
    Destination(Destination),
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total => f.write_str("in all"),
            Self::Destination(to) => write!(f, "to destination {}", to.0),
        }
    }
}

/// Why a reservation was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {} asks for {asked}, {left_bps} bit/s of {capacity} are left {constraint}", flow.0)]
pub struct Rejected {
    /// Who asked.
    pub flow: Flow,
    /// For what.
    pub asked: Rate,
    /// What is left, in bit/s.
    pub left_bps: u64,
    /// Of what.
    pub capacity: Rate,
    /// Which capacity that is.
    pub constraint: Constraint,
}

/// The flow has no reservation: it never had, tore it down, or let it expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("flow {} has no reservation", .0.0)]
pub struct NoReservation(pub Flow);

/// How far a reservation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Accepted.
    Reserved,
    /// Accepted, and the other side knows.
    Confirmed,
}

/// What changes [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other side answered.
    Confirm,
    /// Another rate or destination was accepted.
    Change,
}

transitions! {
    State on Event {
        Reserved + Confirm => Confirmed,
        Confirmed + Change => Reserved,
    }
}

/// A reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Where to.
    pub destination: Destination,
    /// How much.
    pub rate: Rate,
    /// How far it is.
    pub state: State,
    /// When it ends, unless it is refreshed.
    pub expires_at: Instant,
}

/// Counters since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reservations accepted, changes included.
    pub accepted: u64,
    /// Reservations rejected.
    pub rejected: u64,
    /// Reservations torn down.
    pub torn_down: u64,
    /// Reservations that nobody refreshed.
    pub expired: u64,
}

/// Decides who may send how much.
#[derive(Clone, Debug)]
pub struct Admission {
    capacity: Rate,
    lifetime: Duration,
    destinations: BTreeMap<Destination, Rate>,
    reservations: BTreeMap<Flow, Reservation>,
    stats: Stats,
}

impl Admission {
    /// All of `capacity` is left.
    #[must_use]
    pub const fn new(capacity: Rate, lifetime: Duration) -> Self {
        Self {
            capacity,
            lifetime,
            destinations: BTreeMap::new(),
            reservations: BTreeMap::new(),
            stats: Stats {
                accepted: 0,
                rejected: 0,
                torn_down: 0,
                expired: 0,
            },
        }
    }

    /// Sets the capacity of one destination; what is accepted stays accepted.
    pub fn set_destination(&mut self, destination: Destination, capacity: Rate) {
        self.destinations.insert(destination, capacity);
    }

    /// Asks for `rate` to `destination`, or for a change to that.
    ///
    /// # Errors
    ///
    /// The first capacity that it does not fit into; nothing changes then.
    pub fn reserve(
        &mut self,
        now: Instant,
        flow: Flow,
        destination: Destination,
        rate: Rate,
    ) -> Result<(), Rejected> {
        self.expire(now);
        if let Err(rejected) = self.check(flow, destination, rate) {
            self.stats.rejected += 1;
            return Err(rejected);
        }
        let state = match self.reservations.get(&flow) {
            Some(old) if (old.destination, old.rate) == (destination, rate) => old.state,
            Some(old) => old.state.on(Event::Change).unwrap_or(old.state),
            None => State::Reserved,
        };
        let reservation = Reservation {
            destination,
            rate,
            state,
            expires_at: now.saturating_add(self.lifetime),
        };
        self.reservations.insert(flow, reservation);
        self.stats.accepted += 1;
        Ok(())
    }

    /// Notes that the other side knows of the reservation.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn confirm(&mut self, now: Instant, flow: Flow) -> Result<(), NoReservation> {
        let reservation = self.refreshed(now, flow)?;
        let confirmed = reservation.state.on(Event::Confirm);
        reservation.state = confirmed.unwrap_or(reservation.state);
        Ok(())
    }

    /// Keeps the reservation for another lifetime.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn refresh(&mut self, now: Instant, flow: Flow) -> Result<(), NoReservation> {
        self.refreshed(now, flow).map(|_| ())
    }

    /// Ends the reservation.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn teardown(&mut self, now: Instant, flow: Flow) -> Result<(), NoReservation> {
        self.expire(now);
        self.reservations.remove(&flow).ok_or(NoReservation(flow))?;
        self.stats.torn_down += 1;
        Ok(())
    }

    /// Ends the reservations whose time is over; each other call does so first.
    pub fn expire(&mut self, now: Instant) {
        let before = self.reservations.len();
        self.reservations.retain(|_, kept| kept.expires_at > now);
        self.stats.expired += (before - self.reservations.len()) as u64;
    }

    /// When the next reservation ends.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.reservations.values().map(|kept| kept.expires_at).min()
    }

    /// The reservation of `flow`.
    #[must_use]
    pub fn reservation(&self, flow: Flow) -> Option<&Reservation> {
        self.reservations.get(&flow)
    }

    /// What is reserved in all, in bit/s.
    #[must_use]
    pub fn reserved_bps(&self) -> u64 {
        self.sum_bps(|_, _| true)
    }

    /// What is reserved to `destination`, in bit/s.
    #[must_use]
    pub fn reserved_to_bps(&self, destination: Destination) -> u64 {
        self.sum_bps(|_, to| to == destination)
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    fn refreshed(&mut self, now: Instant, flow: Flow) -> Result<&mut Reservation, NoReservation> {
        self.expire(now);
        let reservation = self
            .reservations
            .get_mut(&flow)
            .ok_or(NoReservation(flow))?;
        reservation.expires_at = now.saturating_add(self.lifetime);
        Ok(reservation)
    }

    fn check(&self, flow: Flow, destination: Destination, rate: Rate) -> Result<(), Rejected> {
        let fits = |capacity: Rate, used_bps: u64, constraint| {
            let left_bps = capacity.as_bps().saturating_sub(used_bps);
            if rate.as_bps() <= left_bps {
                return Ok(());
            }
            Err(Rejected {
                flow,
                asked: rate,
                left_bps,
                capacity,
                constraint,
            })
        };
        let used = self.sum_bps(|other, _| other != flow);
        fits(self.capacity, used, Constraint::Total)?;
        let Some(&capacity) = self.destinations.get(&destination) else {
            return Ok(());
        };
        let used = self.sum_bps(|other, to| other != flow && to == destination);
        fits(capacity, used, Constraint::Destination(destination))
    }

    fn sum_bps(&self, counts: impl Fn(Flow, Destination) -> bool) -> u64 {
        self.reservations
            .iter()
            .filter(|(flow, kept)| counts(**flow, kept.destination))
            .map(|(_, kept)| kept.rate.as_bps())
            // The sum is at most the capacity, so it fits.
            .fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
