//! MSNL: connections over the Cambridge Backbone Ring, set up out of band.
//!
//! A core is one station. Its user connects, accepts, rejects, closes; either end may close at
//! any time, alone. Messages ([`barewire_formats::msnl`]) travel on the signalling VCI and may be
//! lost, doubled, delayed and reordered. Who carries them knows on which channel a station
//! listens to that VCI. The core chooses where the data of a call arrive: the receiver of each
//! direction allocates the VCI, and which of its own channels the sender must use (a station
//! of the first hardware has exactly one).
//!
//! # Set-up and what is lost
//!
//! ```text
//! caller                         callee
//!   | connect (caller's port) ---> |  Incoming: the user decides
//!   | <----- accept (callee's port)|  callee receives from now on
//!   | confirm -------------------> |  callee sends from now on
//! ```
//!
//! Each end numbers the call with a reference that it never used before, and each message names
//! both. So no message of an old call is taken for one of a new call, whatever its age, and a
//! call that a late copy of a connect opens at the callee never gets its confirm: the caller
//! answers closed. Connect, accept, reject, close and probe are repeated, at doubling intervals,
//! until they are answered or [`Timing::give_up`] is over; confirm and closed are answers and are not
//! repeated. An open call that hears nothing for [`Timing::probe_interval`] probes its peer: who has
//! forgotten it (half-open) answers closed, who is dead does not answer, and the call ends.
//!
//! # When a VCI may be used again
//!
//! A VCI stays allocated until its peer can no longer send on it and what it sent has arrived:
//!
//! - the peer said that it left (close, closed, reject): one [`Timing::cell_lifetime`] later;
//! - the peer never said so: [`Timing::quarantine`] later, by when the peer, hearing nothing, has
//!   probed without an answer and given up;
//! - the station restarted and has forgotten its VCIs: as long after its start
//!   ([`Network::after_restart`]), for all of them.
//!
//! # States
//!
//! | state | meaning | repeats | gives up after | then |
//! |---|---|---|---|---|
//! | Connecting | called, no answer yet | connect | decision + give-up | Closing |
//! | Incoming | called, the user decides | | decision | Rejecting |
//! | Accepting | taken, not confirmed | accept | give-up | Closing |
//! | Open | both ends send | probe, when quiet | give-up | Closing |
//! | Closing | left, the peer does not know yet | close | give-up | Quarantined |
//! | Rejecting | refused, the peer does not know yet | reject | give-up | Free |
//! | Lingering | left by both, cells may be under way | | cell lifetime | Free |
//! | Quarantined | left, the peer never answered | | quarantine | Free |
//! | Free | no such call; answered with closed | | | |
//!
//! The transitions are in `msnl/state.rs`. Source: cbn91, which names the layer and fixes
//! neither messages nor timers.

mod call;
mod ports;
mod receive;
mod state;
#[cfg(test)]
mod tests;
mod types;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use barewire_formats::msnl::{Body, CHANNELS, DATA_VCI_MIN, MessageRepr, Reason};
use barewire_units::Instant;

use call::Call;
use ports::Ports;
pub use state::{Event, State};
pub use types::{Action, Association, Config, ConfigError, End, Error, Stats, Timing};

/// The network layer of one station.
#[derive(Clone, Debug)]
pub struct Network {
    config: Config,
    calls: BTreeMap<u32, Call>,
    /// Calls that came, by their caller and its reference.
    by_caller: BTreeMap<(u16, u32), u32>,
    ports: Ports,
    next_reference: u32,
    quiet_until: Instant,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Network {
    /// A station that no peer remembers.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let vcis = &config.vcis;
        if vcis.is_empty() || *vcis.start() < DATA_VCI_MIN {
            let (first, last) = (*vcis.start(), *vcis.end());
            return Err(ConfigError::Vcis { first, last });
        }
        let mask = config.receive_channels;
        if mask == 0 || mask >> CHANNELS != 0 {
            return Err(ConfigError::Channels { mask });
        }
        if config.timing.retry_first.is_zero() || config.timing.retry_max.is_zero() {
            return Err(ConfigError::Retry);
        }
        Ok(Self {
            ports: Ports::new(config.vcis.clone(), mask),
            next_reference: config.first_reference,
            quiet_until: Instant::ORIGIN,
            calls: BTreeMap::new(),
            by_caller: BTreeMap::new(),
            actions: VecDeque::new(),
            stats: Stats::default(),
            config,
        })
    }

    /// A station whose peers may still hold calls from before `now`: it takes part in no call
    /// for [`Timing::quarantine`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn after_restart(config: Config, now: Instant) -> Result<Self, ConfigError> {
        let quiet_until = now.saturating_add(config.timing.quarantine());
        Ok(Self {
            quiet_until,
            ..Self::new(config)?
        })
    }

    /// Calls `service` at the station `to`. The number of the call is returned.
    ///
    /// # Errors
    /// [`Error::Quiet`], [`Error::TableFull`], [`Error::NoVci`].
    pub fn connect(&mut self, now: Instant, to: u16, service: u64) -> Result<u32, Error> {
        if now < self.quiet_until {
            let until = self.quiet_until;
            return Err(Error::Quiet { until });
        }
        self.check_room()?;
        let port = self.ports.allocate()?;
        let call = Call::new(to, 0, service, Some(port));
        let reference = self.insert(call);
        self.apply(now, reference, Event::Connect);
        Ok(reference)
    }

    /// Takes an incoming call.
    ///
    /// # Errors
    /// [`Error::NoCall`], [`Error::WrongState`]; [`Error::NoVci`], after which the call still
    /// waits for a decision.
    pub fn accept(&mut self, now: Instant, call: u32) -> Result<(), Error> {
        self.check_event(call, Event::Accept)?;
        let port = self.ports.allocate()?;
        self.update(call, |call| call.receive_at = Some(port));
        self.apply(now, call, Event::Accept);
        Ok(())
    }

    /// Refuses an incoming call.
    ///
    /// # Errors
    /// [`Error::NoCall`], [`Error::WrongState`].
    pub fn reject(&mut self, now: Instant, call: u32, reason: Reason) -> Result<(), Error> {
        self.leave(now, call, Event::Reject, reason)
    }

    /// Leaves a call, whatever the peer does; one that waits for a decision is refused. Nothing
    /// may be sent on it from now on.
    ///
    /// # Errors
    /// [`Error::NoCall`]; [`Error::WrongState`] where the call is over already.
    pub fn close(&mut self, now: Instant, call: u32, reason: Reason) -> Result<(), Error> {
        self.leave(now, call, Event::Close, reason)
    }

    /// Does what is due at `now`: repetitions, probes, giving up, forgetting.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<u32> = self
            .calls
            .iter()
            .filter(|(_, call)| call.deadline <= now)
            .map(|(&reference, _)| reference)
            .collect();
        for reference in due {
            self.handle_deadline(now, reference);
        }
    }

    /// When [`Network::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.calls.values().map(|call| call.deadline).min()
    }

    /// The next action. To be drained after each input: of messages that wait, only as many are
    /// kept as [`Config::calls_max`] and a few.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What is known of a call.
    #[must_use]
    pub fn association(&self, call: u32) -> Option<Association> {
        self.calls.get(&call).map(Call::association)
    }

    /// All calls that are held, those that are over but not yet forgotten among them.
    pub fn associations(&self) -> impl Iterator<Item = (u32, Association)> + '_ {
        self.calls
            .iter()
            .map(|(&reference, call)| (reference, call.association()))
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn leave(&mut self, now: Instant, call: u32, by: Event, reason: Reason) -> Result<(), Error> {
        self.check_event(call, by)?;
        self.update(call, |call| call.reason = reason);
        self.apply(now, call, by);
        Ok(())
    }

    fn handle_deadline(&mut self, now: Instant, reference: u32) {
        let Some(call) = self.calls.get_mut(&reference) else {
            return;
        };
        match call.state {
            State::Lingering | State::Quarantined => self.apply(now, reference, Event::Release),
            State::Incoming => self.give_up(now, reference, Reason::Undecided, End::Undecided),
            State::Open if !call.probing => {
                call.start_probing(now, &self.config.timing);
                self.send_own(reference);
            }
            _ if call.give_up_at <= now => {
                self.give_up(now, reference, Reason::TimedOut, End::TimedOut);
            }
            _ => {
                call.back_off(now, &self.config.timing);
                self.stats.repeated += 1;
                self.send_own(reference);
            }
        }
    }

    /// The wait is over without an answer.
    fn give_up(&mut self, now: Instant, reference: u32, reason: Reason, end: End) {
        let Some(call) = self.calls.get_mut(&reference) else {
            return;
        };
        if call.state.is_users() {
            call.reason = reason;
            self.stats.timed_out += u64::from(end == End::TimedOut);
            self.tell(Action::Closed {
                call: reference,
                end,
            });
        }
        self.apply(now, reference, Event::GiveUp);
    }

    fn check_room(&self) -> Result<(), Error> {
        let calls_max = self.config.calls_max;
        if self.calls.len() >= calls_max {
            return Err(Error::TableFull { calls_max });
        }
        Ok(())
    }

    fn check_event(&self, call: u32, event: Event) -> Result<(), Error> {
        let state = self.calls.get(&call).ok_or(Error::NoCall { call })?.state;
        match state.on(event) {
            Some(_) => Ok(()),
            None => Err(Error::WrongState { call, state }),
        }
    }

    /// Puts a call into the table, under a reference that is not zero and not in use.
    fn insert(&mut self, call: Call) -> u32 {
        while self.next_reference == 0 || self.calls.contains_key(&self.next_reference) {
            self.next_reference = self.next_reference.wrapping_add(1);
        }
        let reference = self.next_reference;
        self.next_reference = reference.wrapping_add(1);
        self.calls.insert(reference, call);
        reference
    }

    fn update(&mut self, reference: u32, change: impl FnOnce(&mut Call)) {
        if let Some(call) = self.calls.get_mut(&reference) {
            change(call);
        }
    }

    /// Takes the transition, if there is one, and does what its new state begins with.
    fn apply(&mut self, now: Instant, reference: u32, event: Event) {
        let Some(call) = self.calls.get_mut(&reference) else {
            return;
        };
        let Some(state) = call.state.on(event) else {
            return;
        };
        call.enter(state, now, &self.config.timing);
        match state {
            State::Free => self.forget(reference),
            _ => self.send_own(reference),
        }
    }

    fn forget(&mut self, reference: u32) {
        let Some(call) = self.calls.remove(&reference) else {
            return;
        };
        let caller = (call.peer, call.peer_reference);
        if self.by_caller.get(&caller) == Some(&reference) {
            self.by_caller.remove(&caller);
        }
        if let Some(port) = call.receive_at {
            self.ports.release(port);
        }
    }

    /// Sends the message that the state of a call repeats, if it has one.
    fn send_own(&mut self, reference: u32) {
        if let Some(call) = self.calls.get(&reference) {
            let (peer, peer_reference, own) = (call.peer, call.peer_reference, call.own_message());
            if let Some(body) = own {
                self.send(peer, reference, peer_reference, body);
            }
        }
    }

    fn send(&mut self, to: u16, own_reference: u32, peer_reference: u32, body: Body) {
        const ROOM_FOR_ANSWERS: usize = 16;
        if self.actions.len() >= self.config.calls_max.saturating_add(ROOM_FOR_ANSWERS) {
            self.stats.dropped += 1;
            return;
        }
        self.stats.sent += 1;
        self.tell(Action::Send(MessageRepr {
            source: self.config.station,
            destination: to,
            source_reference: own_reference,
            destination_reference: peer_reference,
            body,
        }));
    }

    fn tell(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}
