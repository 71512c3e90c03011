//! Idle rings at rest: the turns of their tokens are left out, and made up for.
//!
//! If no station has anything to send, the token goes round in the same time again and again. A turn then changes nothing
//! but how many tokens have come and when the last did, and is an event for each station. Whoever carries packets in real
//! time has such rings most of the time, and may have the turns left out:
//!
//! | | |
//! |---|---|
//! | begins | two turns after the last that took longer than an idle one, on all rings, while nothing else is on the network |
//! | ends | when a packet is taken, before anything comes of it: then every station is told how many tokens it has passed on, and when, and the token is where it would be |
//!
//! So whatever comes next happens at the same picosecond, and in the same order. It is not done while anything depends on
//! each token: where lines have errors, which are drawn for each frame, where frames are recorded, where rotations are
//! measured, and where an idle turn takes longer than TTRT.

use barewire_des::{Event, Simulator};
use barewire_units::{Duration, Instant};

use super::rest::{Rest, TURN_MIN};
use super::{Lan, NetEvent, Place};

impl Lan {
    /// Lets turns of idle rings be left out from now on, if nothing depends on them.
    pub fn let_rest(&mut self) {
        let cards = self.rings[0].iter().map(|station| station.card.config());
        let ttrt = cards.clone().map(|card| card.station.budget.ttrt).min();
        let turn: Duration = cards.map(|card| self.hop + card.latency).sum();
        let is_measured = self.measure_from < Instant::MAX || !self.links.is_empty();
        let is_short = turn < TURN_MIN || ttrt.is_none_or(|ttrt| turn > ttrt);
        self.rest = (!self.has_noise && !is_measured && !is_short).then(|| {
            let stations = self.rings[0].len();
            Rest::new(turn, stations, self.rings.len())
        });
    }

    /// Nothing is on the network but the tokens, as far as the caller knows: they rest, if they have been alone for
    /// long enough.
    pub fn rest<E: Event + From<NetEvent>>(&mut self, sim: &mut Simulator<E>) {
        let is_due = self.rest.as_ref().is_some_and(Rest::is_due);
        if !is_due || !self.has_tokens_only() {
            return;
        }
        for station in self.rings.iter_mut().flatten() {
            if let Some((_, timer)) = station.timer.take() {
                sim.cancel(timer);
            }
        }
        if let Some(rest) = &mut self.rest {
            rest.is_on = true;
        }
    }

    /// Whether each ring has one token and nothing else, and no station has held the token up since it was last counted.
    fn has_tokens_only(&self) -> bool {
        let turn = self.rest.as_ref().map(|rest| rest.turn);
        self.rings.iter().all(|ring| {
            let cards = ring.iter().map(|station| station.card.idle());
            let tokens: Option<Vec<_>> = cards.collect();
            let Some(tokens) = tokens else {
                return false;
            };
            let mut ways = tokens.iter().zip(ring).filter_map(|(due, station)| {
                let due = (*due)?;
                Some(
                    station
                        .token
                        .map(|last| due.saturating_duration_since(last)),
                )
            });
            ways.next().flatten() == turn && ways.next().is_none()
        })
    }

    /// The time of the turns that are left out at a station between `last`, when it had the token, and `now`, and their
    /// number.
    pub(super) fn left_out(&self, last: Instant, now: Instant) -> (Duration, u64) {
        let Some(rest) = self.rest.as_ref().filter(|rest| rest.is_on) else {
            return (Duration::ZERO, 0);
        };
        let turns = now.saturating_duration_since(last) / rest.turn;
        (rest.turn * turns, turns)
    }

    /// The tokens go round again, from where they would be by now.
    pub fn go_on<E: Event + From<NetEvent>>(&mut self, sim: &mut Simulator<E>) {
        let Some(turn) = self
            .rest
            .as_ref()
            .filter(|rest| rest.is_on)
            .map(|rest| rest.turn)
        else {
            return;
        };
        for ring in 0..self.rings.len() {
            self.make_up(ring, turn, sim.now());
            for station in 0..self.rings[ring].len() {
                self.wind(Place { ring, station }, sim);
            }
        }
        if let Some(rest) = &mut self.rest {
            rest.is_on = false;
            rest.forget();
        }
    }

    /// Tells the stations of a ring which tokens they have passed on, and puts the token where it is.
    fn make_up(&mut self, ring: usize, turn: Duration, now: Instant) {
        let mut was_left_out = false;
        for station in 0..self.rings[ring].len() {
            let Some(last) = self.rings[ring][station].token else {
                continue;
            };
            let (time, turns) = self.left_out(last, now);
            let it = &mut self.rings[ring][station];
            it.token = Some(last + time);
            it.card.handle_idle_tokens(last + time, turn, turns);
            was_left_out |= turns > 0;
        }
        let stations = self.rings[ring].iter().enumerate();
        let seen = stations.filter_map(|(number, station)| Some((station.token?, number)));
        let Some((seen, from)) = seen.max().filter(|_| was_left_out) else {
            return;
        };
        let to = (from + 1) % self.rings[ring].len();
        let token = self.rings[ring][from].card.token();
        self.rings[ring][to].card.handle(seen + self.hop, token);
    }

    /// Leaves no turn out, to compare with.
    #[cfg(test)]
    pub fn never_rest(&mut self) {
        self.rest = None;
    }

    /// Whether turns are left out now.
    #[cfg(test)]
    pub fn is_resting(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.is_on)
    }

    /// Of each station: when it had the token, what it has counted, and when it is to be called.
    #[cfg(test)]
    pub fn states(&self) -> Vec<impl PartialEq + core::fmt::Debug + use<>> {
        let stations = self.rings.iter().flatten();
        let state = |it: &super::Station| (it.token, it.card.stats(), it.card.next_deadline());
        stations.map(state).collect()
    }
}
