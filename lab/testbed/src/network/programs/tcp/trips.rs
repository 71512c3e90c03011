//! Round-trip times of a TCP sender, as one that watches its packets finds them: from a packet
//! with bytes that are sent for the first time, to the acknowledgement that has them.
//!
//! Bytes that were sent again tell nothing (RFC 6298, section 3). Only the newest packet that an
//! acknowledgement is about counts: those before it waited for it.

use std::collections::VecDeque;

use barewire_units::Instant;

use crate::figures::us;

/// Header of IPv4 without options, which the ends never send.
const IP_BYTES: usize = 20;

/// What of a packet a sender's times need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    seq: u32,
    ack: Option<u32>,
    payload_bytes: u32,
}

/// Reads a packet of our own making. Layout: RFC 791, RFC 9293.
///
/// ```text
/// | IP header: 20 B | ports 4 | sequence 4 | acknowledgement 4 | offset, flags 2 | ...
/// ```
fn read(packet: &[u8]) -> Option<Segment> {
    let tcp = packet.get(IP_BYTES..)?;
    let word = |at: usize| {
        let bytes = tcp.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    let (seq, ack) = (word(4)?, word(8)?);
    let (offset, flags) = (*tcp.get(12)? >> 4, *tcp.get(13)?);
    let payload = tcp.get(usize::from(offset) * 4..)?;
    Some(Segment {
        seq,
        ack: (flags & 0x10 != 0).then_some(ack),
        payload_bytes: payload.len() as u32,
    })
}

/// What one end has sent and not seen acknowledged, and the times so far.
#[derive(Debug, Default)]
pub(super) struct Trips {
    /// Of each packet: its first number, the one behind its last, when the host got it.
    open: VecDeque<(u32, u32, Instant)>,
    /// The number behind the last byte that was ever sent.
    end: Option<u32>,
    pub times_us: Vec<f64>,
}

impl Trips {
    pub(super) fn sent(&mut self, packet: &[u8], now: Instant) {
        let Some(segment) = read(packet).filter(|it| it.payload_bytes > 0) else {
            return;
        };
        let until = segment.seq.wrapping_add(segment.payload_bytes);
        let is_new = self.end.is_none_or(|end| !is_before(segment.seq, end));
        if is_new {
            self.open.push_back((segment.seq, until, now));
            self.end = Some(until);
        } else {
            // Sent again: it says nothing any more, whichever of the two is acknowledged.
            let apart = |from, end| !is_before(segment.seq, end) || !is_before(from, until);
            self.open.retain(|&(from, end, _)| apart(from, end));
        }
    }

    pub(super) fn received(&mut self, packet: &[u8], now: Instant) {
        let Some(ack) = read(packet).and_then(|it| it.ack) else {
            return;
        };
        let mut newest = None;
        while let Some(&(_, until, at)) = self.open.front() {
            if is_before(ack, until) {
                break;
            }
            newest = Some(at);
            self.open.pop_front();
        }
        if let Some(at) = newest {
            self.times_us.push(us(now.saturating_duration_since(at)));
        }
    }
}

/// Sequence numbers go round.
const fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_units::Duration;

    fn packet(seq: u32, ack: u32, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; IP_BYTES + 20 + payload];
        bytes[IP_BYTES + 4..IP_BYTES + 8].copy_from_slice(&seq.to_be_bytes());
        bytes[IP_BYTES + 8..IP_BYTES + 12].copy_from_slice(&ack.to_be_bytes());
        bytes[IP_BYTES + 12..IP_BYTES + 14].copy_from_slice(&[0x50, 0x10]);
        bytes
    }

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Duration::from_us(us)
    }

    #[test]
    fn what_was_sent_again_tells_no_time() {
        let mut trips = Trips::default();
        // Over the end of the numbers.
        let first = u32::MAX - 99;
        trips.sent(&packet(first, 0, 100), at(0));
        trips.sent(&packet(0, 0, 100), at(10));
        trips.sent(&packet(100, 0, 100), at(20));
        trips.sent(&packet(0, 0, 100), at(30));
        trips.received(&packet(0, 0, 0), at(40));
        assert_eq!(trips.times_us, [40.0]);
        trips.received(&packet(0, 100, 0), at(50));
        assert_eq!(trips.times_us, [40.0]);
        trips.received(&packet(0, 200, 0), at(60));
        assert_eq!(trips.times_us, [40.0, 40.0]);
    }

    #[test]
    fn only_the_newest_packet_of_an_acknowledgement_counts() {
        let mut trips = Trips::default();
        trips.sent(&packet(1, 0, 10), at(0));
        trips.sent(&packet(11, 0, 10), at(5));
        trips.sent(&packet(21, 0, 0), at(6));
        trips.received(&packet(0, 21, 0), at(7));
        assert_eq!(trips.times_us, [2.0]);
        trips.received(&packet(0, 21, 0), at(9));
        trips.received(&[0; 3], at(9));
        assert_eq!(trips.times_us, [2.0]);
    }
}
