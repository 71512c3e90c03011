//! When a piece counts as lost: RACK (RFC 8985). One that was sent later has arrived, and the time
//! that packets may overtake each other has passed.

use super::board::{Board, Delivered};
use crate::stamps::rebased;
use barewire_units::{Duration, Instant};

/// How many segments that arrived out of order tell of a loss, while the path has not changed the
/// order of packets.
const DUPLICATES: u64 = 3;

/// The window for reordering grows by quarters of the least round-trip time, up to this many.
const QUARTERS_MAX: u64 = 16;

/// After how many repairs the window shrinks again.
const REPAIRS_KEPT: u32 = 16;

/// The state of RACK.
#[derive(Debug)]
pub(crate) struct Rack {
    /// The transmission sent last of those known to have arrived: when, and its end.
    newest: Option<(Instant, u64)>,
    /// The round-trip time of that transmission.
    rtt: Duration,
    has_reordering: bool,
    quarters: u64,
    repairs_left: u32,
    /// Until this offset is acknowledged the window does not grow again.
    grown_until: u64,
}

impl Rack {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            has_reordering: false,
            quarters: 1,
            repairs_left: 0,
            grown_until: 0,
        }
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        self.newest = self.newest.map(|(at, end)| (rebased(at, by), end));
    }

    /// Takes what an acknowledgement has told.
    pub(crate) fn update(&mut self, delivered: &Delivered, now: Instant) {
        self.has_reordering |= delivered.is_reordered;
        if let Some(newest) = delivered.newest {
            if self.newest.is_none_or(|known| newest > known) {
                self.newest = Some(newest);
                self.rtt = now.saturating_duration_since(newest.0);
            }
        }
    }

    /// The other end received something twice: what was sent again was not lost.
    pub(crate) fn on_duplicate(&mut self, una: u64, next: u64) {
        self.has_reordering = true;
        if una >= self.grown_until {
            self.quarters = (self.quarters + 1).min(QUARTERS_MAX);
            self.grown_until = next;
        }
        self.repairs_left = REPAIRS_KEPT;
    }

    /// A repair has ended.
    pub(crate) fn on_repair_end(&mut self) {
        self.repairs_left = self.repairs_left.saturating_sub(1);
        if self.repairs_left == 0 {
            self.quarters = 1;
        }
    }

    /// Takes pieces for lost whose time has passed. Gives the bytes newly lost, and when to look
    /// again.
    pub(crate) fn detect(
        &self,
        board: &mut Board,
        is_in_repair: bool,
        mss: u64,
        rtts: (Option<Duration>, Option<Duration>),
        now: Instant,
    ) -> (u64, Option<Instant>) {
        let Some(newest) = self.newest else {
            return (0, None);
        };
        let window = self.reordering_window(board, is_in_repair, mss, rtts);
        let patience = self.rtt.saturating_add(window);
        let mut again: Option<Instant> = None;
        let lost = board.lose(|piece| {
            if (piece.sent_at, piece.end) >= newest {
                return false;
            }
            let lost_at = piece.sent_at.saturating_add(patience);
            if lost_at > now {
                again = Some(again.map_or(lost_at, |other| other.min(lost_at)));
            }
            lost_at <= now
        });
        (lost, again)
    }

    fn reordering_window(
        &self,
        board: &Board,
        is_in_repair: bool,
        mss: u64,
        (least, smoothed): (Option<Duration>, Option<Duration>),
    ) -> Duration {
        if !self.has_reordering && (is_in_repair || board.sacked_bytes() >= DUPLICATES * mss) {
            return Duration::ZERO;
        }
        let least = least.unwrap_or(Duration::ZERO);
        let window = (least / 4).checked_mul(self.quarters).unwrap_or(least);
        window.min(smoothed.unwrap_or(window))
    }
}
