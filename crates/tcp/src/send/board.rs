//! The scoreboard: what was sent and is not acknowledged, piece by piece (RFC 6675), with the time
//! of each transmission, as RACK wants it (RFC 8985).
//!
//! A piece is what one packet carried: a segment, or several of them where the carrier cuts packets.
//! A selective acknowledgement that covers a part of a piece splits it, but only at the borders of
//! its segments. So there are never more pieces than segments, whatever the other end says.

use crate::stamps::rebased;
use alloc::collections::VecDeque;
use barewire_units::{Duration, Instant};

/// How many pieces may be on the board.
pub(crate) const PIECES_MAX: usize = 16_384;

/// What one packet carried, from offset `start` of the stream to `end`. An end of the stream counts
/// as one byte more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) sent_at: Instant,
    /// The other end has it, but not all before it.
    pub(crate) is_sacked: bool,
    /// It is taken for lost, and was not sent again since.
    pub(crate) is_lost: bool,
    /// It was sent more than once.
    pub(crate) is_resent: bool,
}

impl Piece {
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    fn is_in_flight(&self) -> bool {
        !self.is_sacked && !self.is_lost
    }
}

/// What an acknowledgement has told.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// How many bytes are newly known to have arrived.
    pub(crate) bytes: u64,
    /// The transmission that was sent last of those known to have arrived: when, and its end.
    pub(crate) newest: Option<(Instant, u64)>,
    /// The round-trip time of the segment sent last, among those sent only once.
    pub(crate) rtt: Option<Duration>,
    /// A piece arrived after one that was sent later: the path changes the order.
    pub(crate) is_reordered: bool,
}

/// The scoreboard.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pieces: VecDeque<Piece>,
    in_flight_bytes: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    /// The end of the furthest piece that is known to have arrived.
    furthest: u64,
}

impl Board {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }

    pub(crate) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    #[cfg(test)]
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    pub(crate) fn first(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Time counts from `by` later on.
    pub(crate) fn rebase(&mut self, by: Duration) {
        for piece in &mut self.pieces {
            piece.sent_at = rebased(piece.sent_at, by);
        }
    }

    /// Adds what was just sent for the first time.
    pub(crate) fn push(&mut self, start: u64, end: u64, now: Instant) {
        self.in_flight_bytes += end - start;
        self.pieces.push_back(Piece {
            start,
            end,
            sent_at: now,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
        });
    }

    /// All before the offset `until` has arrived.
    pub(crate) fn acknowledge(
        &mut self,
        until: u64,
        now: Instant,
        least_rtt: Option<Duration>,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        while let Some(piece) = self.pieces.front().copied() {
            if piece.start >= until {
                break;
            }
            let end = piece.end.min(until);
            self.uncount(&Piece { end, ..piece });
            if !piece.is_sacked {
                delivered.bytes += end - piece.start;
                self.note(&Piece { end, ..piece }, now, least_rtt, &mut delivered);
            }
            if piece.end <= until {
                self.pieces.pop_front();
            } else if let Some(first) = self.pieces.front_mut() {
                first.start = until;
            }
        }
        self.furthest = self.furthest.max(until);
        delivered
    }

    /// What lies between `from` and `until` has arrived, but not all before it.
    pub(crate) fn sack(
        &mut self,
        (from, until): (u64, u64),
        mss: u64,
        now: Instant,
        least_rtt: Option<Duration>,
        delivered: &mut Delivered,
    ) {
        let mut at = self.pieces.partition_point(|piece| piece.end <= from);
        while let Some(piece) = self.pieces.get(at).copied() {
            if piece.start >= until {
                break;
            }
            let covered = covered_segments(&piece, from, until, mss);
            if !piece.is_sacked {
                if let Some((start, end)) = covered {
                    at += usize::from(self.split(at, start));
                    self.split(at, end);
                    if let Some(piece) = self.pieces.get(at).copied() {
                        self.uncount(&piece);
                        self.sacked_bytes += piece.len();
                        self.pieces[at].is_sacked = true;
                        self.pieces[at].is_lost = false;
                        delivered.bytes += piece.len();
                        self.note(&piece, now, least_rtt, delivered);
                        self.furthest = self.furthest.max(piece.end);
                    }
                }
            }
            at += 1;
        }
    }

    /// Takes the pieces for lost for which `is_lost` says so, of those in flight. Gives their bytes.
    pub(crate) fn lose(&mut self, mut is_lost: impl FnMut(&Piece) -> bool) -> u64 {
        let mut bytes = 0;
        for piece in &mut self.pieces {
            if piece.is_in_flight() && is_lost(piece) {
                piece.is_lost = true;
                bytes += piece.len();
            }
        }
        self.in_flight_bytes -= bytes;
        self.lost_bytes += bytes;
        bytes
    }

    /// Takes the first piece for lost.
    pub(crate) fn lose_first(&mut self) -> u64 {
        let start = self.pieces.front().map(|piece| piece.start);
        self.lose(|piece| Some(piece.start) == start)
    }

    /// Forgets all selective acknowledgements: the other end has taken them back.
    pub(crate) fn forget_sacks(&mut self) {
        for piece in &mut self.pieces {
            if piece.is_sacked {
                piece.is_sacked = false;
                self.in_flight_bytes += piece.len();
            }
        }
        self.sacked_bytes = 0;
    }

    /// The first lost piece, cut to at most `bytes_max`: it is sent again now.
    pub(crate) fn resend_lost(&mut self, bytes_max: u64, now: Instant) -> Option<Piece> {
        let at = self.pieces.iter().position(|piece| piece.is_lost)?;
        let start = self.pieces[at].start;
        self.split(at, start + bytes_max);
        let piece = &mut self.pieces[at];
        piece.is_lost = false;
        piece.is_resent = true;
        piece.sent_at = now;
        self.lost_bytes -= piece.len();
        self.in_flight_bytes += piece.len();
        Some(*piece)
    }

    /// The last bytes that were sent, at most `bytes_max`: they are sent again now.
    pub(crate) fn resend_last(&mut self, bytes_max: u64, now: Instant) -> Option<Piece> {
        let last = self.pieces.len().checked_sub(1)?;
        let piece = self.pieces[last];
        if !piece.is_in_flight() {
            return None;
        }
        let start = piece.end.saturating_sub(bytes_max).max(piece.start);
        let at = last + usize::from(self.split(last, start));
        let piece = &mut self.pieces[at];
        piece.is_resent = true;
        piece.sent_at = now;
        Some(*piece)
    }

    /// Splits the piece at `at` where `border` lies within it; says whether it did.
    fn split(&mut self, at: usize, border: u64) -> bool {
        let Some(piece) = self.pieces.get(at).copied() else {
            return false;
        };
        if border <= piece.start || border >= piece.end {
            return false;
        }
        self.pieces[at].end = border;
        self.pieces.insert(
            at + 1,
            Piece {
                start: border,
                ..piece
            },
        );
        true
    }

    /// Takes a piece out of the sums.
    fn uncount(&mut self, piece: &Piece) {
        let sum = if piece.is_sacked {
            &mut self.sacked_bytes
        } else if piece.is_lost {
            &mut self.lost_bytes
        } else {
            &mut self.in_flight_bytes
        };
        *sum = sum.saturating_sub(piece.len());
    }

    /// Notes what the arrival of a piece tells about time and order.
    fn note(
        &self,
        piece: &Piece,
        now: Instant,
        least_rtt: Option<Duration>,
        delivered: &mut Delivered,
    ) {
        let rtt = now.saturating_duration_since(piece.sent_at);
        // An answer that comes so soon is one to an earlier transmission.
        let is_ambiguous = piece.is_resent && least_rtt.is_none_or(|least| rtt < least);
        if is_ambiguous {
            return;
        }
        if !piece.is_resent {
            let is_later = delivered
                .rtt
                .is_none_or(|of_earlier_sent| rtt <= of_earlier_sent);
            if is_later {
                delivered.rtt = Some(rtt);
            }
            delivered.is_reordered |= piece.end < self.furthest;
        }
        let transmission = (piece.sent_at, piece.end);
        delivered.newest = Some(
            delivered
                .newest
                .map_or(transmission, |newest| newest.max(transmission)),
        );
    }
}

/// Which whole segments of a piece lie between `from` and `until`.
fn covered_segments(piece: &Piece, from: u64, until: u64, mss: u64) -> Option<(u64, u64)> {
    let start = if from <= piece.start {
        piece.start
    } else {
        piece.start + (from - piece.start).div_ceil(mss) * mss
    };
    let end = if until >= piece.end {
        piece.end
    } else {
        piece.start + (until - piece.start) / mss * mss
    };
    (start < end).then_some((start, end))
}
