//! Since when the tokens of idle rings have gone round with nothing else, and whether their turns are left out.

use barewire_units::Duration;

/// Turns without a frame before the next ones are left out.
const IDLE_TURNS: usize = 2;
/// A shorter turn than this could still find the token before in an elastic buffer.
pub(super) const TURN_MIN: Duration = Duration::from_us(1);

/// Of idle rings.
pub(super) struct Rest {
    /// An idle turn.
    pub(super) turn: Duration,
    stations: usize,
    /// By ring: tokens that have come in that time, since the last that has not.
    idle_tokens: Vec<usize>,
    /// Turns are left out.
    pub(super) is_on: bool,
}

impl Rest {
    pub(super) fn new(turn: Duration, stations: usize, rings: usize) -> Self {
        Self {
            turn,
            stations,
            idle_tokens: vec![0; rings],
            is_on: false,
        }
    }

    /// Counts anew.
    pub(super) fn forget(&mut self) {
        self.idle_tokens.fill(0);
    }

    /// A token has come to a station of a ring, so long after the one before.
    pub(super) fn count(&mut self, ring: usize, turn: Option<Duration>) {
        let idle = &mut self.idle_tokens[ring];
        *idle = match turn == Some(self.turn) {
            true => *idle + 1,
            false => 0,
        };
    }

    pub(super) fn is_due(&self) -> bool {
        let least = self.stations * IDLE_TURNS;
        !self.is_on && self.idle_tokens.iter().all(|idle| *idle >= least)
    }
}
