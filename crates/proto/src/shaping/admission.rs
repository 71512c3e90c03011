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
//! moment that it is accepted, confirmed or not. The number of flows is bounded
//! too, so that reservations of a bit a second cannot use up the memory.
//!
//! Source: kek00 (admission control as a part of quality of service); the
//! lifetime is that of RFC 2205 §3.7: (K + 0.5) · 1.5 · R.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::fmt;

use barewire_units::{Duration, Instant, Rate, transitions};

use barewire_units::Deadlines;

/// How often RSVP refreshes: R. Source: RFC 2205 §3.7.
pub const REFRESH_PERIOD: Duration = Duration::from_s(30);
/// How long a reservation lives without a refresh: (3 + 0.5) · 1.5 · R.
pub const LIFETIME_DEFAULT: Duration = Duration::from_ms(157_500);

/// Flows that may have a reservation unless another number is set (ours).
pub const FLOWS_MAX_DEFAULT: usize = 65_536;

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
pub enum Rejected {
    /// The rate is not left.
    #[error("flow {} asks for {asked}, {left_bps} bit/s of {capacity} are left {constraint}", flow.0)]
    Rate {
        /// Who asked.
        flow: Flow,
        /// For what.
        asked: Rate,
        /// What is left, in bit/s.
        left_bps: u64,
        /// Of what.
        capacity: Rate,
        /// Which capacity that is.
        constraint: Constraint,
    },
    /// As many flows have a reservation as may.
    #[error("flow {} asks, and {flows_max} flows have a reservation already", flow.0)]
    Flows {
        /// Who asked.
        flow: Flow,
        /// How many may have one.
        flows_max: usize,
    },
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
    flows_max: usize,
    capacities: BTreeMap<Destination, Rate>,
    reservations: BTreeMap<Flow, Reservation>,
    deadlines: Deadlines<Flow>,
    /// What is reserved, in all and to each destination that has any.
    reserved_bps: u64,
    reserved_to_bps: BTreeMap<Destination, u64>,
    stats: Stats,
}

impl Admission {
    /// All of `capacity` is left, for at most [`FLOWS_MAX_DEFAULT`] flows. A
    /// lifetime of [`Duration::MAX`] never ends.
    #[must_use]
    pub fn new(capacity: Rate, lifetime: Duration) -> Self {
        Self {
            capacity,
            flows_max: FLOWS_MAX_DEFAULT,
            capacities: BTreeMap::new(),
            reservations: BTreeMap::new(),
            deadlines: Deadlines::new(lifetime),
            reserved_bps: 0,
            reserved_to_bps: BTreeMap::new(),
            stats: Stats::default(),
        }
    }

    /// Lets `flows_max` flows have a reservation; those accepted already stay.
    pub fn set_flows_max(&mut self, flows_max: usize) {
        self.flows_max = flows_max;
    }

    /// Sets the capacity of one destination; what is accepted stays accepted.
    pub fn set_destination(&mut self, destination: Destination, capacity: Rate) {
        self.capacities.insert(destination, capacity);
    }

    /// Asks for `rate` to `destination`, or for a change to that.
    ///
    /// # Errors
    ///
    /// The number of flows, or the first capacity that it does not fit into; nothing
    /// changes then.
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
        let state = match self.remove(flow) {
            Some(old) if (old.destination, old.rate) == (destination, rate) => old.state,
            Some(old) => old.state.on(Event::Change).unwrap_or(old.state),
            None => State::Reserved,
        };
        let reservation = Reservation {
            destination,
            rate,
            state,
            expires_at: self.deadlines.start(now, flow),
        };
        self.reservations.insert(flow, reservation);
        // `check` found room for both.
        self.reserved_bps += rate.as_bps();
        *self.reserved_to_bps.entry(destination).or_default() += rate.as_bps();
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
        self.remove(flow).ok_or(NoReservation(flow))?;
        self.stats.torn_down += 1;
        Ok(())
    }

    /// Ends the reservations whose time is over; each other call does so first.
    pub fn expire(&mut self, now: Instant) {
        while let Some(flow) = self.deadlines.due(now) {
            self.remove(flow);
            self.stats.expired += 1;
        }
    }

    /// When the next reservation ends.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// The reservation of `flow`.
    #[must_use]
    pub fn reservation(&self, flow: Flow) -> Option<&Reservation> {
        self.reservations.get(&flow)
    }

    /// What is reserved in all, in bit/s.
    #[must_use]
    pub const fn reserved_bps(&self) -> u64 {
        self.reserved_bps
    }

    /// What is reserved to `destination`, in bit/s.
    #[must_use]
    pub fn reserved_to_bps(&self, destination: Destination) -> u64 {
        let reserved = self.reserved_to_bps.get(&destination);
        reserved.copied().unwrap_or(0)
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
        self.deadlines.stop(reservation.expires_at, flow);
        reservation.expires_at = self.deadlines.start(now, flow);
        Ok(reservation)
    }

    /// Takes a reservation out, with its share of the sums.
    fn remove(&mut self, flow: Flow) -> Option<Reservation> {
        let removed = self.reservations.remove(&flow)?;
        let rate_bps = removed.rate.as_bps();
        self.deadlines.stop(removed.expires_at, flow);
        self.reserved_bps -= rate_bps;
        if let Entry::Occupied(mut reserved) = self.reserved_to_bps.entry(removed.destination) {
            *reserved.get_mut() -= rate_bps;
            if *reserved.get() == 0 {
                reserved.remove();
            }
        }
        Some(removed)
    }

    fn check(&self, flow: Flow, destination: Destination, rate: Rate) -> Result<(), Rejected> {
        let fits = |capacity: Rate, used_bps: u64, constraint| {
            let left_bps = capacity.as_bps().saturating_sub(used_bps);
            if rate.as_bps() <= left_bps {
                return Ok(());
            }
            Err(Rejected::Rate {
                flow,
                asked: rate,
                left_bps,
                capacity,
                constraint,
            })
        };
        let old = self.reservations.get(&flow);
        if old.is_none() && self.reservations.len() >= self.flows_max {
            let flows_max = self.flows_max;
            return Err(Rejected::Flows { flow, flows_max });
        }
        let replaced_bps = old.map_or(0, |old| old.rate.as_bps());
        let used_bps = self.reserved_bps - replaced_bps;
        fits(self.capacity, used_bps, Constraint::Total)?;
        let Some(&capacity) = self.capacities.get(&destination) else {
            return Ok(());
        };
        let stays = old.is_some_and(|old| old.destination == destination);
        let replaced_bps = if stays { replaced_bps } else { 0 };
        let used_bps = self.reserved_to_bps(destination) - replaced_bps;
        fits(capacity, used_bps, Constraint::Destination(destination))
    }
}

#[cfg(test)]
mod tests;
