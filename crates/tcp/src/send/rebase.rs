//! Time that counts from a later origin, so that it never ends.

use super::{Sender, Timer};
use crate::stamps::rebased;
use barewire_units::Duration;

impl Sender {
    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.board.rebase(by);
        self.rtt.rebase(by);
        self.congestion.rebase(by);
        self.rack.rebase(by);
        self.timer = match self.timer {
            Timer::Off => Timer::Off,
            Timer::Probe(at) => Timer::Probe(rebased(at, by)),
            Timer::Timeout(at) => Timer::Timeout(rebased(at, by)),
            Timer::Window(at) => Timer::Window(rebased(at, by)),
        };
        for at in [
            &mut self.detect_at,
            &mut self.last_sent,
            &mut self.waits_since,
        ] {
            *at = at.map(|at| rebased(at, by));
        }
    }
}
