//! The sending side of a connection: what smoltcp's lacks. It keeps what was sent until it is
//! acknowledged, finds losses by selective acknowledgements and time (RFC 6675, RFC 8985), repairs
//! them, and bounds what is in flight (RFC 9438, RFC 6937).
//!
//! All places are offsets in the stream, from zero; the end of the stream counts as one byte more.
//! [`Sender::poll`] says what to send; whoever asks sends it, always.

mod board;
mod congestion;
mod rack;
mod rebase;
mod ring;
mod rtt;
#[cfg(test)]
mod tests;

use crate::error::Error;
use barewire_units::{Duration, Instant};
use board::{Board, Delivered};
use congestion::Congestion;
use rack::Rack;
use ring::Ring;
use rtt::Rtt;

/// Two acknowledgements that only repeat what was acknowledged tell of reordering, three of a loss:
/// only where the other end does not acknowledge selectively.
const DUPLICATE_ACKS: u64 = 3;

/// How long the other end may delay an acknowledgement of a single segment.
const ACK_DELAY_MAX: Duration = Duration::from_ms(200);

/// The shortest time after which the last segment is sent again to ask for an answer.
const PROBE_MIN: Duration = Duration::from_ms(10);

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Send {
    /// The bytes from `start` to `end`.
    Data {
        start: u64,
        /// Without the end of the stream.
        end: u64,
        /// The end of the stream lies behind it.
        is_last: bool,
        /// Nothing waits behind it.
        push: bool,
    },
    /// A segment without bytes that lies before all that is expected: the other end answers it.
    Question,
}

/// An acknowledgement, with all numbers as offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack<'a> {
    /// All before it has arrived.
    pub(crate) until: u64,
    /// How many bytes from there on the other end takes.
    pub(crate) window: u64,
    /// What else has arrived, the latest first.
    pub(crate) sack: &'a [(u64, u64)],
    /// The segment carries nothing else.
    pub(crate) is_pure: bool,
    /// Where the segment lies in the other end's stream.
    pub(crate) at: u64,
    /// How long ago that was sent which has set it off, in whole milliseconds.
    pub(crate) echo: Option<Duration>,
}

/// Counts for whoever wants to know how a connection fares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets with bytes that were sent for the first time.
    pub packets_first: u64,
    /// Packets that were sent again.
    pub packets_again: u64,
    /// How often a loss was found by what arrived behind it.
    pub repairs: u64,
    /// How often nothing came for the whole timeout.
    pub timeouts: u64,
    /// How often the last segment was sent again to ask for an answer.
    pub probes: u64,
    /// How often the other end had received something twice.
    pub duplicates: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    Off,
    /// The last segment is sent again (RFC 8985, section 7).
    Probe(Instant),
    /// Everything counts as lost.
    Timeout(Instant),
    /// The other end is asked for its window.
    Window(Instant),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    None,
    /// A loss was found; all before the offset was sent before.
    Losses(u64),
    /// The timeout has expired; likewise.
    Timeout(u64),
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct Sender {
    ring: Ring,
    board: Board,
    una: u64,
    next: u64,
    /// The end of the stream lies at the end of the ring, for good.
    has_ended: bool,
    window_end: u64,
    window_from: u64,
    window_max: u64,
    mss: u64,
    segments_max: u64,
    payload_max: u64,
    /// Whether a segment as long as `mss` has arrived since that was set.
    has_longest_arrived: bool,
    nagle: bool,
    has_sack: bool,
    duplicate_acks: u64,
    rtt: Rtt,
    congestion: Congestion,
    rack: Rack,
    repair: Repair,
    timer: Timer,
    detect_at: Option<Instant>,
    /// Whether the next poll sends whatever the window of the network says.
    probe_now: bool,
    ask_now: bool,
    /// Whether a window is used that is smaller than it should be.
    use_now: bool,
    /// The end of the segment that was sent again to ask for an answer.
    probed: Option<u64>,
    round_end: u64,
    is_limited: bool,
    last_sent: Option<Instant>,
    /// Since when the other end owes an answer.
    waits_since: Option<Instant>,
    timeout: Duration,
    counts: Counts,
}

/// What the two ends have agreed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) mss: u32,
    pub(crate) has_sack: bool,
    pub(crate) window: u64,
    /// The longest payload of a packet that the carrier cuts.
    pub(crate) payload_max: usize,
    pub(crate) nagle: bool,
    pub(crate) timeout: Duration,
}

impl Sender {
    pub(crate) fn new(capacity: usize, agreed: Agreed) -> Self {
        let mss = u64::from(agreed.mss.max(1));
        Self {
            ring: Ring::new(capacity),
            board: Board::default(),
            una: 0,
            next: 0,
            has_ended: false,
            window_end: agreed.window,
            window_from: 0,
            window_max: agreed.window,
            mss,
            segments_max: (agreed.payload_max as u64 / mss).max(1),
            payload_max: agreed.payload_max as u64,
            has_longest_arrived: false,
            nagle: agreed.nagle,
            has_sack: agreed.has_sack,
            duplicate_acks: 0,
            rtt: Rtt::new(),
            congestion: Congestion::new(agreed.mss.max(1)),
            rack: Rack::new(),
            repair: Repair::None,
            timer: Timer::Off,
            detect_at: None,
            probe_now: false,
            ask_now: false,
            use_now: false,
            probed: None,
            round_end: 0,
            is_limited: false,
            last_sent: None,
            waits_since: None,
            timeout: agreed.timeout,
            counts: Counts::default(),
        }
    }

    /// Takes bytes to be sent, as many as there is room for.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        if self.has_ended {
            return 0;
        }
        self.ring.push(bytes)
    }

    pub(crate) fn room(&self) -> usize {
        if self.has_ended { 0 } else { self.ring.room() }
    }

    pub(crate) fn unacknowledged_bytes(&self) -> usize {
        self.ring.len()
    }

    /// Nothing more comes behind what was taken.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether the other end has acknowledged the end of the stream.
    pub(crate) fn is_end_acknowledged(&self) -> bool {
        self.has_ended && self.una > self.ring.end()
    }

    /// The first offset that was never sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// The largest window that the other end has granted.
    pub(crate) fn window_max(&self) -> u64 {
        self.window_max
    }

    pub(crate) fn bytes(&self, start: u64, end: u64) -> (&[u8], &[u8]) {
        self.ring
            .get(start, usize::try_from(end - start).unwrap_or(0))
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The smoothed round-trip time.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// A sample of the round-trip time from opening the connection.
    pub(crate) fn first_sample(&mut self, rtt: Duration, now: Instant) {
        self.rtt.sample(rtt, now);
    }

    /// The same, in whole milliseconds.
    pub(crate) fn first_coarse_sample(&mut self, rtt: Duration) {
        self.rtt.sample_coarse(rtt);
    }

    /// How many bytes may be in flight.
    pub(crate) fn congestion_window(&self) -> u64 {
        self.congestion.window()
    }

    /// Takes an acknowledgement of bytes that were sent: the caller has checked that.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, now: Instant) {
        let flight_before = self.pipe();
        let is_new = ack.until > self.una;
        let window_grew = self.take_window(ack);
        let mut delivered = self.board.acknowledge(ack.until, now, self.rtt.least());
        if is_new {
            self.has_longest_arrived |= ack.until - self.una >= self.mss;
            self.una = ack.until;
            self.next = self.next.max(ack.until);
            self.ring.release(ack.until);
            self.rtt.end_doubling();
        }
        self.take_sacks(ack, now, &mut delivered);
        self.count_duplicate(ack, is_new, window_grew, &mut delivered);
        self.rack.update(&delivered, now);
        if let Some(rtt) = delivered.rtt {
            self.rtt.sample(rtt, now);
            self.congestion.on_rtt(rtt);
        } else if let Some(rtt) = ack.echo.filter(|_| is_new) {
            // What was acknowledged was sent more than once: only the timestamp tells which it was.
            self.rtt.sample_coarse(rtt);
        }
        if self.una >= self.round_end {
            self.round_end = self.next;
            self.congestion.begin_round();
        }
        if is_new {
            self.end_repair(ack.until);
            self.end_probe(ack);
        }
        let lost = self.find_losses(is_new, now);
        if lost > 0 && self.repair == Repair::None {
            self.begin_repair();
        }
        match self.repair {
            Repair::Losses(_) => {
                let in_flight = self.pipe();
                self.congestion.on_repair_ack(delivered.bytes, in_flight);
            }
            _ if delivered.bytes > 0 && self.was_limited(flight_before) => {
                self.congestion
                    .on_ack(delivered.bytes, self.rtt.smoothed(), now);
            }
            _ => {}
        }
        self.waits_since = (!self.board.is_empty() || self.waits_for_window()).then_some(now);
        if is_new || delivered.bytes > 0 || window_grew {
            self.set_timer(now);
        }
    }

    /// Sends segments of at most `mss` bytes from now on, and those in flight that are longer again:
    /// a host on the way says that the path takes no more. Says whether it is believed: while
    /// longer ones arrive, only after a timeout (RFC 5927, section 7).
    pub(crate) fn shorten(&mut self, mss: u64, now: Instant) -> bool {
        let has_timed_out = matches!(self.repair, Repair::Timeout(_));
        if mss == 0 || mss >= self.mss || (self.has_longest_arrived && !has_timed_out) {
            return false;
        }
        self.mss = mss;
        self.segments_max = (self.payload_max / mss).max(1);
        self.has_longest_arrived = false;
        self.probed = None;
        // This is no sign of congestion: the window stays.
        self.board.lose(|piece| piece.len() > mss);
        self.set_timer(now);
        true
    }

    /// What to send now; call it until it gives `None`.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] where the other end has not answered for too long.
    pub(crate) fn poll(&mut self, now: Instant) -> Result<Option<Send>, Error> {
        if let Some(since) = self.waits_since {
            if now >= since.saturating_add(self.timeout) {
                return Err(Error::TimedOut);
            }
        }
        self.on_time(now);
        if self.ask_now {
            self.ask_now = false;
            return Ok(Some(Send::Question));
        }
        let send = self.choose(now);
        if send.is_none() && self.timer == Timer::Off {
            self.set_timer(now);
            if self.timer != Timer::Off && self.waits_since.is_none() {
                self.waits_since = Some(now);
            }
        }
        Ok(send)
    }

    /// When to poll again, if nothing arrives before.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let timer = match self.timer {
            Timer::Off => None,
            Timer::Probe(at) | Timer::Timeout(at) | Timer::Window(at) => Some(at),
        };
        let gives_up = self
            .waits_since
            .map(|since| since.saturating_add(self.timeout));
        [timer, self.detect_at, gives_up]
            .into_iter()
            .flatten()
            .min()
    }

    fn pipe(&self) -> u64 {
        let arrived = self.duplicate_acks * self.mss;
        self.board.in_flight_bytes().saturating_sub(arrived)
    }

    fn was_limited(&self, flight: u64) -> bool {
        let window = self.congestion.window();
        self.is_limited
            || flight + self.mss > window
            || (self.congestion.is_in_slow_start() && flight * 2 > window)
    }

    /// Takes the window of an acknowledgement, unless it is an old one. Says whether it has grown.
    fn take_window(&mut self, ack: &Ack<'_>) -> bool {
        if ack.until < self.una || (ack.until == self.una && ack.at < self.window_from) {
            return false;
        }
        let before = self.window_end;
        self.window_from = ack.at;
        self.window_end = ack.until + ack.window;
        self.window_max = self.window_max.max(ack.window);
        self.window_end != before
    }

    fn take_sacks(&mut self, ack: &Ack<'_>, now: Instant, delivered: &mut Delivered) {
        if !self.has_sack {
            return;
        }
        for (index, &(from, until)) in ack.sack.iter().enumerate() {
            if until <= from || until > self.next {
                continue;
            }
            if index == 0 && until <= ack.until {
                // RFC 2883: the first block tells what has arrived twice.
                self.counts.duplicates += 1;
                self.rack.on_duplicate(self.una, self.next);
                self.probed = None;
                continue;
            }
            let least = self.rtt.least();
            self.board
                .sack((from.max(self.una), until), self.mss, now, least, delivered);
        }
    }

    /// Counts acknowledgements that repeat what is known, where there are no selective ones.
    fn count_duplicate(
        &mut self,
        ack: &Ack<'_>,
        is_new: bool,
        window_grew: bool,
        delivered: &mut Delivered,
    ) {
        if is_new {
            self.duplicate_acks = 0;
        } else if !self.has_sack
            && ack.is_pure
            && !window_grew
            && ack.until == self.una
            && self.board.in_flight_bytes() > self.duplicate_acks * self.mss
        {
            self.duplicate_acks += 1;
            delivered.bytes += self.mss;
        }
    }

    /// Takes pieces for lost; gives how many bytes.
    fn find_losses(&mut self, is_new: bool, now: Instant) -> u64 {
        if !self.has_sack {
            let is_partial = is_new && matches!(self.repair, Repair::Losses(_));
            let is_third =
                self.duplicate_acks == DUPLICATE_ACKS && self.repair == Repair::None && !is_new;
            let first_again = self.board.first().is_some_and(|piece| piece.is_resent);
            return if (is_partial && !first_again) || is_third {
                self.board.lose_first()
            } else {
                0
            };
        }
        let in_repair = self.repair != Repair::None;
        if self.board.sacked_bytes() == 0 && !in_repair {
            self.detect_at = None;
            return 0;
        }
        let rtts = (self.rtt.least(), self.rtt.smoothed());
        let (lost, again) = self
            .rack
            .detect(&mut self.board, in_repair, self.mss, rtts, now);
        self.detect_at = again;
        lost
    }

    fn begin_repair(&mut self) {
        self.counts.repairs += 1;
        self.repair = Repair::Losses(self.next);
        self.probed = None;
        self.congestion.begin_repair(self.next - self.una);
    }

    fn end_repair(&mut self, until: u64) {
        match self.repair {
            Repair::Losses(end) if until >= end => {
                self.congestion.end_repair();
                self.rack.on_repair_end();
                self.repair = Repair::None;
            }
            Repair::Timeout(end) if until >= end => self.repair = Repair::None,
            _ => {}
        }
    }

    /// The segment that asked for an answer was acknowledged. Unless it arrived twice, what it
    /// repeated had been lost, and the window is cut.
    fn end_probe(&mut self, ack: &Ack<'_>) {
        if self.probed.is_some_and(|end| ack.until >= end) {
            self.probed = None;
            if self.has_sack && self.repair == Repair::None {
                self.congestion.reduce();
            }
        }
    }

    fn waits_for_window(&self) -> bool {
        let has_more =
            self.next < self.ring.end() || (self.has_ended && self.next == self.ring.end());
        has_more && self.board.is_empty() && (self.window_end <= self.next || self.is_silly())
    }

    /// Whether the window is too small to be used at once (RFC 9293, section 3.8.6.2.1): less than
    /// a segment, less than half of the largest one, and less than what waits.
    fn is_silly(&self) -> bool {
        let window = self.window_end.saturating_sub(self.next);
        let waiting = self.ring.end().saturating_sub(self.next);
        window < waiting && window < self.mss && window < self.window_max / 2
    }

    fn set_timer(&mut self, now: Instant) {
        self.timer = if !self.board.is_empty() {
            let timeout = self.rtt.timeout();
            match self.rtt.smoothed() {
                Some(smoothed)
                    if self.has_sack
                        && self.repair == Repair::None
                        && self.probed.is_none()
                        && self.board.sacked_bytes() == 0 =>
                {
                    let mut wait = smoothed.saturating_add(smoothed).max(PROBE_MIN);
                    if self.board.in_flight_bytes() <= self.mss {
                        wait = wait.saturating_add(ACK_DELAY_MAX);
                    }
                    Timer::Probe(now.saturating_add(wait.min(timeout)))
                }
                _ => Timer::Timeout(now.saturating_add(timeout)),
            }
        } else if self.waits_for_window() {
            Timer::Window(now.saturating_add(self.rtt.timeout()))
        } else {
            Timer::Off
        };
    }

    fn on_time(&mut self, now: Instant) {
        if self.detect_at.is_some_and(|at| now >= at) {
            self.detect_at = None;
            if self.find_losses(false, now) > 0 {
                if self.repair == Repair::None {
                    self.begin_repair();
                }
                let in_flight = self.pipe();
                self.congestion.on_repair_ack(0, in_flight);
            }
        }
        match self.timer {
            Timer::Probe(at) if now >= at => {
                self.counts.probes += 1;
                self.probe_now = true;
                self.timer = Timer::Timeout(now.saturating_add(self.rtt.timeout()));
            }
            Timer::Timeout(at) if now >= at => self.on_timeout(now),
            Timer::Window(at) if now >= at && self.window_end > self.next => {
                // The other end has not made it larger in the meantime: it is used.
                self.use_now = true;
                self.timer = Timer::Off;
            }
            Timer::Window(at) if now >= at => {
                self.rtt.double();
                self.ask_now = true;
                self.timer = Timer::Window(now.saturating_add(self.rtt.timeout()));
            }
            _ => {}
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        self.counts.timeouts += 1;
        if self.board.first().is_some_and(|piece| piece.is_sacked) {
            self.board.forget_sacks();
        }
        let is_first = !matches!(self.repair, Repair::Timeout(_));
        self.board.lose(|_| true);
        self.duplicate_acks = 0;
        self.congestion.on_timeout(is_first);
        self.repair = Repair::Timeout(self.next);
        self.probed = None;
        self.detect_at = None;
        self.rtt.double();
        self.timer = Timer::Timeout(now.saturating_add(self.rtt.timeout()));
    }

    /// Chooses a segment, and notes that it is sent.
    fn choose(&mut self, now: Instant) -> Option<Send> {
        self.is_limited = false;
        let is_probe = core::mem::take(&mut self.probe_now);
        let pipe = self.pipe();
        let allowed = if is_probe {
            self.mss
        } else {
            self.congestion.window().saturating_sub(pipe)
        };
        if self.board.lost_bytes() > 0 && !is_probe {
            return self.resend(allowed, pipe, now);
        }
        let send = self.first_time(allowed, pipe, now);
        if send.is_none() && is_probe {
            return self.resend_last(now);
        }
        send
    }

    fn resend(&mut self, allowed: u64, pipe: u64, now: Instant) -> Option<Send> {
        let segments = (allowed / self.mss).min(self.segments_max);
        if segments == 0 && pipe > 0 {
            self.is_limited = true;
            return None;
        }
        let piece = self.board.resend_lost(segments.max(1) * self.mss, now)?;
        self.note_again(piece.len(), now);
        Some(self.data(piece.start, piece.end))
    }

    fn resend_last(&mut self, now: Instant) -> Option<Send> {
        let piece = self.board.resend_last(self.mss, now)?;
        self.probed = Some(piece.end);
        self.note_again(piece.len(), now);
        Some(self.data(piece.start, piece.end))
    }

    fn note_again(&mut self, bytes: u64, now: Instant) {
        self.counts.packets_again += 1;
        self.congestion.on_send(bytes);
        self.last_sent = Some(now);
        if self.timer == Timer::Off {
            self.set_timer(now);
        }
    }

    /// Sends what was never sent, if all the windows and rules allow it.
    fn first_time(&mut self, allowed: u64, pipe: u64, now: Instant) -> Option<Send> {
        let waiting = self.ring.end().saturating_sub(self.next);
        let has_end = self.has_ended && self.next <= self.ring.end();
        if (waiting == 0 && !has_end) || self.board.is_full() {
            return None;
        }
        let use_now = core::mem::take(&mut self.use_now);
        self.begin_after_idle(now);
        let window = self.window_end.saturating_sub(self.next);
        let mut count = waiting.min(window).min(self.segments_max * self.mss);
        if count > allowed {
            count = allowed / self.mss * self.mss;
            if count == 0 && pipe > 0 {
                self.is_limited = true;
                return None;
            }
            count = count.max(waiting.min(window).min(self.mss));
        }
        // Whole segments, and the rest by itself, so that cuts fall where segments begin.
        if count > self.mss {
            count = count / self.mss * self.mss;
        }
        let is_rest = count == waiting;
        if count < self.mss && !(is_rest && has_end) {
            let nothing_out = self.board.is_empty();
            let held_by_nagle = self.nagle && is_rest && !nothing_out;
            let held_by_window = !is_rest && !use_now && self.is_silly();
            if count == 0 || held_by_nagle || held_by_window {
                return None;
            }
        }
        let start = self.next;
        let end = start + count;
        // The end of the stream goes out even if the window is closed: it needs no room.
        let last = u64::from(has_end && end == self.ring.end());
        self.board.push(start, end + last, now);
        self.next = end + last;
        self.counts.packets_first += 1;
        self.congestion.on_send(count);
        self.last_sent = Some(now);
        if self.waits_since.is_none() {
            self.waits_since = Some(now);
        }
        if matches!(self.timer, Timer::Off | Timer::Window(_)) || self.is_probe_timer() {
            self.set_timer(now);
        }
        Some(self.data(start, end + last))
    }

    fn is_probe_timer(&self) -> bool {
        matches!(self.timer, Timer::Probe(_))
    }

    fn begin_after_idle(&mut self, now: Instant) {
        let idle = self
            .last_sent
            .map(|last| now.saturating_duration_since(last));
        if self.board.is_empty() && idle.is_some_and(|idle| idle > self.rtt.timeout()) {
            self.congestion.on_idle();
        }
    }

    fn data(&self, start: u64, end: u64) -> Send {
        let bytes_end = end.min(self.ring.end());
        Send::Data {
            start,
            end: bytes_end,
            is_last: end > self.ring.end(),
            push: bytes_end == self.ring.end(),
        }
    }
}
