//! One call: what is known of it, and its timers.

use barewire_formats::msnl::{Body, Port, Reason};
use barewire_units::{Duration, Instant};

use super::state::State;
use super::types::{Association, Timing};

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) state: State,
    pub(super) peer: u16,
    /// How the peer numbers the call; zero while unknown.
    pub(super) peer_reference: u32,
    pub(super) service: u64,
    pub(super) receive_at: Option<Port>,
    /// Where the peer receives, once it has said so.
    pub(super) peer_port: Option<Port>,
    /// What a close or reject says.
    pub(super) reason: Reason,
    /// Whether an open call waits for the answer to a probe.
    pub(super) probing: bool,
    /// Time from the last repetition to the next.
    retry: Duration,
    /// When something is due.
    pub(super) deadline: Instant,
    /// When what is repeated has been repeated enough.
    pub(super) give_up_at: Instant,
}

impl Call {
    /// A call that nothing has happened to.
    pub(super) fn new(
        peer: u16,
        peer_reference: u32,
        service: u64,
        receive_at: Option<Port>,
    ) -> Self {
        Self {
            state: State::Free,
            peer,
            peer_reference,
            service,
            receive_at,
            peer_port: None,
            reason: Reason::Normal,
            probing: false,
            retry: Duration::ZERO,
            deadline: Instant::MAX,
            give_up_at: Instant::MAX,
        }
    }

    /// Begins a state: sets its timers.
    pub(super) fn enter(&mut self, state: State, now: Instant, timing: &Timing) {
        self.state = state;
        match state {
            State::Connecting => {
                self.start_repeating(now, timing.decision.saturating_add(timing.give_up), timing);
            }
            State::Accepting | State::Closing | State::Rejecting => {
                self.start_repeating(now, timing.give_up, timing);
            }
            State::Incoming => self.deadline = now.saturating_add(timing.decision),
            State::Open => self.heard(now, timing),
            State::Lingering => self.deadline = now.saturating_add(timing.cell_lifetime),
            State::Quarantined => self.deadline = now.saturating_add(timing.quarantine()),
            State::Free => {}
        }
    }

    /// The peer of an open call has shown that it holds it.
    pub(super) fn heard(&mut self, now: Instant, timing: &Timing) {
        self.probing = false;
        self.deadline = now.saturating_add(timing.probe_interval);
    }

    /// An open call has heard nothing for long.
    pub(super) fn start_probing(&mut self, now: Instant, timing: &Timing) {
        self.probing = true;
        self.start_repeating(now, timing.give_up, timing);
    }

    fn start_repeating(&mut self, now: Instant, give_up_after: Duration, timing: &Timing) {
        self.give_up_at = now.saturating_add(give_up_after);
        self.retry = timing.retry_first.min(timing.retry_max);
        self.set_deadline(now);
    }

    /// The next repetition waits twice as long.
    pub(super) fn back_off(&mut self, now: Instant, timing: &Timing) {
        self.retry = self.retry.saturating_add(self.retry).min(timing.retry_max);
        self.set_deadline(now);
    }

    fn set_deadline(&mut self, now: Instant) {
        self.deadline = now.saturating_add(self.retry).min(self.give_up_at);
    }

    /// The message that the state repeats until it is answered.
    pub(super) fn own_message(&self) -> Option<Body> {
        match self.state {
            State::Connecting => self.receive_at.map(|receive_at| Body::Connect {
                receive_at,
                service: self.service,
            }),
            State::Accepting => self
                .receive_at
                .map(|receive_at| Body::Accept { receive_at }),
            State::Open if self.probing => Some(Body::Probe),
            State::Closing => Some(Body::Close(self.reason)),
            State::Rejecting => Some(Body::Reject(self.reason)),
            _ => None,
        }
    }

    pub(super) fn association(&self) -> Association {
        Association {
            state: self.state,
            peer: self.peer,
            peer_reference: self.peer_reference,
            service: self.service,
            receive_at: self.receive_at,
            send_to: self.peer_port.filter(|_| self.state == State::Open),
        }
    }
}
