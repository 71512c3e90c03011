//! TCP between two programs, each segment and each acknowledgement an MSDL block.
//!
//! A block is 20 bytes of IPv4, 20 of TCP and the data. The ends of the connection are
//! [`crate::tcp`]: window, slow start and congestion avoidance, fast repeat, time-outs at ticks, delayed acknowledgements. That
//! is more than a workstation of 1991 had (RFC 6582 came later); what it leaves out there, it
//! leaves out here: the time-out is constant, and it neither doubles nor follows the
//! round trip. No connection is set up or closed, and windows are not scaled: they have 16 bits.
//!
//! ```text
//! sender    acknowledgement --> work --> segment? --> work, data summed --> send --> ...
//! receiver  segment --> work, data summed --> acknowledgement due? --> work --> send --> ...
//! ```
//! TCP is a program above MSDL here and pays what each program pays for a block; then
//! [`TcpCosts::segment`] for each segment or acknowledgement sent or received, and
//! [`TcpCosts::byte`] for each byte of data summed.
//!
//! Source: RFC 791, RFC 793 for the headers; the costs are parameters.

use barewire_units::{Duration, Instant};
use barewire_wire::checksum;

use super::running::{Runs, Step, TcpStats};
use crate::tcp::{Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

/// Bytes of a block in front of the data.
pub const HEADER_BYTES: usize = 40;

/// What a connection is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Bytes to send, less than 2³².
    pub bytes: u64,
    /// Most data bytes of a segment.
    pub segment_bytes: u64,
    /// Buffer of each end, and so the window: a segment at least, 65 535 at most.
    pub window_bytes: u64,
    /// Longest delay of an acknowledgement, to be rounded up to a tick.
    pub ack_delay: Duration,
    /// What its ends take.
    pub costs: TcpCosts,
}

crate::parameters! {
    /// Times of both ends of a connection.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TcpCosts {
        /// Work on a segment or an acknowledgement.
        pub segment: Duration,
        /// Work on a byte of data.
        pub byte: Duration,
        /// Period of the timer.
        pub tick: Duration,
        /// Time without acknowledgement until data are repeated, to be rounded up to a tick.
        pub time_out: Duration,
    }
}

impl TcpCosts {
    /// A segment with so many bytes of data.
    fn work(&self, bytes: u64) -> Duration {
        self.segment + self.byte * bytes
    }
}

/// The byte of the stream at `position`.
fn stream_byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    sequence: u32,
    acknowledged: u32,
    window: u16,
}

/// Source and destination in front of the TCP header, as its checksum has them, with its length.
fn pseudo_header(block: &[u8]) -> [u8; 12] {
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(&block[12..20]);
    pseudo[9] = 6;
    let tcp_bytes = (block.len() - 20) as u16;
    pseudo[10..].copy_from_slice(&tcp_bytes.to_be_bytes());
    pseudo
}

fn emit(from: u8, said: Said, data: Segment) -> Vec<u8> {
    let mut block = vec![0; HEADER_BYTES];
    block.extend((data.seq..data.seq + data.len).map(stream_byte));
    let length = block.len() as u16;
    block[0] = 0x45;
    block[2..4].copy_from_slice(&length.to_be_bytes());
    block[8] = 64;
    block[9] = 6;
    block[12..16].copy_from_slice(&[10, 0, 0, from]);
    block[16..20].copy_from_slice(&[10, 0, 0, 3 - from]);
    let sum = checksum::checksum(&block[..20]);
    block[10..12].copy_from_slice(&sum.to_be_bytes());
    block[20..22].copy_from_slice(&5001_u16.to_be_bytes());
    block[22..24].copy_from_slice(&5001_u16.to_be_bytes());
    block[24..28].copy_from_slice(&said.sequence.to_be_bytes());
    block[28..32].copy_from_slice(&said.acknowledged.to_be_bytes());
    block[32] = 5 << 4;
    block[33] = 0x10;
    block[34..36].copy_from_slice(&said.window.to_be_bytes());
    let mut sum = checksum::sum(&pseudo_header(&block));
    sum.update(&block[20..]);
    block[36..38].copy_from_slice(&sum.checksum().to_be_bytes());
    block
}

/// What a block says and how many bytes of data it has, if its checksum is right.
fn parse(block: &[u8]) -> Option<(Said, u64)> {
    if block.len() < HEADER_BYTES {
        return None;
    }
    let mut sum = checksum::sum(&pseudo_header(block));
    sum.update(&block[20..]);
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| block[at + byte]));
    let said = Said {
        sequence: word(24),
        acknowledged: word(28),
        window: u16::from_be_bytes([block[34], block[35]]),
    };
    let data_bytes = (block.len() - HEADER_BYTES) as u64;
    sum.is_valid().then_some((said, data_bytes))
}

/// The ticks of a timer.
struct Ticks {
    period: Duration,
    next: Instant,
}

impl Ticks {
    fn new(period: Duration) -> Self {
        Self {
            period,
            next: Instant::ORIGIN + period,
        }
    }

    /// Whether there was one since the last time. Ticks that nobody looked at are one.
    fn take(&mut self, now: Instant) -> bool {
        let ticked = self.next <= now;
        if ticked {
            let gone = (now - self.next).as_ps() / self.period.as_ps().max(1) + 1;
            self.next += self.period * gone;
        }
        ticked
    }
}

/// The sending program.
pub(super) struct TcpSender {
    config: TcpConfig,
    end: Sender,
    ticks: Ticks,
    /// Bytes that the program has not written yet.
    unwritten: u64,
    acknowledged: u64,
    /// An acknowledgement that has come, to be worked on.
    came: Option<(u64, u64)>,
    worked: bool,
    ready: Option<Vec<u8>>,
    bad: u64,
}

impl TcpSender {
    pub(super) fn new(config: TcpConfig) -> Self {
        let sender = SenderConfig {
            segment_bytes: config.segment_bytes,
            buffer_bytes: config.window_bytes,
            nagle: false,
            time_out: config.costs.time_out,
        };
        Self {
            config,
            end: Sender::new(sender, config.window_bytes),
            ticks: Ticks::new(config.costs.tick),
            unwritten: config.bytes,
            acknowledged: 0,
            came: None,
            worked: false,
            ready: None,
            bad: 0,
        }
    }

    fn write(&mut self) {
        let bytes = self.end.room().min(self.unwritten);
        self.unwritten -= bytes;
        self.end.write(bytes, self.unwritten == 0);
    }
}

impl Runs for TcpSender {
    fn next(&mut self, now: Instant) -> Step {
        if let Some(block) = self.ready.take() {
            return Step::Send(block);
        }
        if self.ticks.take(now) {
            self.end.handle_tick(now);
        }
        if let Some((acknowledged, edge)) = self.came {
            if !self.worked {
                self.worked = true;
                return Step::Work(self.config.costs.segment);
            }
            self.came = None;
            self.end.handle_ack(now, acknowledged, edge);
            self.acknowledged = self.acknowledged.max(acknowledged);
        }
        self.write();
        let Some(segment) = self.end.poll(now) else {
            return Step::Wait;
        };
        let said = Said {
            sequence: segment.seq as u32,
            acknowledged: 0,
            window: 0,
        };
        self.ready = Some(emit(1, said, segment));
        Step::Work(self.config.costs.work(segment.len))
    }

    fn takes_blocks(&self) -> bool {
        self.came.is_none() && self.ready.is_none()
    }

    fn handle_block(&mut self, _now: Instant, block: Vec<u8>) -> bool {
        let Some((said, _)) = parse(&block) else {
            self.bad += 1;
            return false;
        };
        let acknowledged = u64::from(said.acknowledged);
        self.came = Some((acknowledged, acknowledged + u64::from(said.window)));
        self.worked = false;
        true
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.is_done()).then_some(self.ticks.next)
    }

    fn is_done(&self) -> bool {
        self.acknowledged >= self.config.bytes
    }

    fn tcp_stats(&self) -> TcpStats {
        let stats = self.end.stats();
        TcpStats {
            sent: stats.segments,
            fast_repeats: stats.fast_repeats,
            time_outs: stats.time_outs,
            bad: self.bad,
            ..TcpStats::default()
        }
    }
}

/// The receiving program. It reads at once whatever is in order.
pub(super) struct TcpReceiver {
    config: TcpConfig,
    end: Receiver,
    ticks: Ticks,
    /// A segment that has come, to be worked on.
    came: Option<Segment>,
    worked: bool,
    ready: Option<Vec<u8>>,
    sent: u64,
    read_all_at: Option<Instant>,
    bad: u64,
}

impl TcpReceiver {
    pub(super) fn new(config: TcpConfig) -> Self {
        let receiver = ReceiverConfig {
            buffer_bytes: config.window_bytes,
            ack_delay: config.ack_delay,
        };
        Self {
            config,
            end: Receiver::new(receiver),
            ticks: Ticks::new(config.costs.tick),
            came: None,
            worked: false,
            ready: None,
            sent: 0,
            read_all_at: None,
            bad: 0,
        }
    }
}

impl Runs for TcpReceiver {
    fn next(&mut self, now: Instant) -> Step {
        if let Some(block) = self.ready.take() {
            return Step::Send(block);
        }
        let mut due = self.ticks.take(now) && self.end.handle_tick(now);
        if let Some(segment) = self.came {
            if !self.worked {
                self.worked = true;
                return Step::Work(self.config.costs.work(segment.len));
            }
            self.came = None;
            due |= self.end.handle_segment(now, segment.seq, segment.len);
            let readable = self.end.readable();
            due |= self.end.take(readable);
            if self.end.read_bytes() >= self.config.bytes {
                self.read_all_at.get_or_insert(now);
            }
        }
        if !due {
            return Step::Wait;
        }
        let (next, edge) = self.end.acknowledge();
        let said = Said {
            sequence: 0,
            acknowledged: next as u32,
            window: (edge - next) as u16,
        };
        self.ready = Some(emit(2, said, Segment { seq: 0, len: 0 }));
        self.sent += 1;
        Step::Work(self.config.costs.segment)
    }

    fn takes_blocks(&self) -> bool {
        self.came.is_none() && self.ready.is_none()
    }

    fn handle_block(&mut self, _now: Instant, block: Vec<u8>) -> bool {
        let data = parse(&block).filter(|&(said, len)| {
            let positions = (0..len).map(|byte| u64::from(said.sequence) + byte);
            let data = block[HEADER_BYTES..].iter().copied();
            data.eq(positions.map(stream_byte))
        });
        let Some((said, len)) = data else {
            self.bad += 1;
            return false;
        };
        let seq = u64::from(said.sequence);
        self.came = Some(Segment { seq, len });
        self.worked = false;
        true
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.ticks.next)
    }

    fn tcp_stats(&self) -> TcpStats {
        TcpStats {
            sent: self.sent,
            read_bytes: self.end.read_bytes(),
            read_all_at: self.read_all_at,
            bad: self.bad,
            ..TcpStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_says_what_was_put_in() {
        let said = Said {
            sequence: 0x0102_0304,
            acknowledged: 0xfffe_fdfc,
            window: 0x8001,
        };
        let data = Segment { seq: 7, len: 33 };
        let mut block = emit(1, said, data);
        assert_eq!(parse(&block), Some((said, 33)));
        assert_eq!(block[..4], [0x45, 0, 0, 73]);
        assert_eq!(checksum::checksum(&block[..20]), 0);
        block[50] ^= 4;
        assert_eq!(parse(&block), None);
        assert_eq!(parse(&block[..39]), None);
    }

    #[test]
    fn ticks_that_nobody_looked_at_are_one() {
        let mut ticks = Ticks::new(Duration::from_ms(10));
        let at = |ms| Instant::ORIGIN + Duration::from_ms(ms);
        assert!(!ticks.take(at(9)));
        assert!(ticks.take(at(35)) && !ticks.take(at(39)) && ticks.take(at(40)));
    }
}
