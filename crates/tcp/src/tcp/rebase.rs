//! Time that counts from a later origin, so that a connection outlives what an instant can say.

use super::{Phase, Tcp};
use crate::stamps::{self, rebased};
use barewire_units::{Duration, Instant};

impl Tcp {
    /// Time counts from `by` later on: `now` of later calls is so much smaller. An [`Instant`] goes no further than 213 days,
    /// so whoever drives a connection that may live longer calls this before.
    ///
    /// What the other end sees does not change, if `by` is a multiple of a millisecond. What lies more than `by` after the
    /// old origin is known exactly; what lies before that is taken to have happened at the new origin. So do it when `now`
    /// will be at least 30 days after the new origin: then what is said of silences of 24 days (RFC 7323, section 5.5)
    /// stays true. A [`timeout`](crate::Config::timeout) or [`keep_alive`](crate::Config::keep_alive) that is longer than
    /// what `now` will be may come late.
    pub fn rebase(&mut self, by: Duration) {
        match &mut self.phase {
            Phase::Opening {
                send_at,
                first_sent,
                ..
            } => {
                *send_at = rebased(*send_at, by);
                *first_sent = first_sent.map(|at| rebased(at, by));
            }
            Phase::TimeWait { until } => *until = rebased(*until, by),
            Phase::Open | Phase::Closed => {}
        }
        self.last_heard = rebased(self.last_heard, by);
        self.clock_first = stamps::clock(self.clock_first, Instant::ORIGIN.saturating_add(by));
        if let Some(stamps) = &mut self.stamps {
            stamps.rebase(by);
        }
        if let Some(sender) = &mut self.sender {
            sender.rebase(by);
        }
        self.receiver.rebase(by);
        self.machine.rebase(by);
    }
}
