//! The token bucket filter: a rate, a burst, and optionally a peak rate.
//!
//! ```text
//! | state  | event                                   | state after |
//! | Open   | TokensShort: the head exceeds a bucket  | Asleep, until both buckets cover it,
//! |        |                                         | rounded up to a tick of the timer |
//! | Asleep | TimerFires: `dequeue` at that time      | Open        |
//! | Asleep | Woken: `wake`                           | Open        |
//! ```
//!
//! A packet of s bytes goes only if each bucket holds s tokens: one fills at R up
//! to the burst B, the other at the peak rate P up to the MTU. So the bytes sent
//! in any interval t are at most B + R·t, and at most MTU + P·t. Packets are
//! never reordered. Who sleeps on a timer of HZ ticks a second, and is not woken
//! by anything else, sends at most one burst a tick: B·HZ.
//!
//! Source: linux-tc (tc-tbf manual page).

use barewire_units::{ByteSize, Duration, Instant, Rate, transitions};

use super::bucket::Bucket;
use super::fifo::Fifo;
use super::qdisc::{DropReason, Dropped, Limit, Packet, Qdisc, Stats};
use super::timer::Timer;

/// A second bucket that bounds short bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// Fill rate P.
    pub rate: Rate,
    /// Depth: the largest packet.
    pub mtu: ByteSize,
}

/// Parameters of a token bucket filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Fill rate R.
    pub rate: Rate,
    /// Depth B.
    pub burst: ByteSize,
    /// Bytes that may wait.
    pub limit: ByteSize,
    /// The second bucket, if any.
    pub peak: Option<Peak>,
}

impl Config {
    /// The queue in which a packet waits at most `latency`: the bytes that leave
    /// meanwhile, and the burst; with a peak rate, the smaller of both buckets.
    #[must_use]
    pub fn limit_for(
        latency: Duration,
        rate: Rate,
        burst: ByteSize,
        peak: Option<Peak>,
    ) -> ByteSize {
        let of = |rate: Rate, depth| rate.bytes_in(latency).checked_add(depth);
        let limit = of(rate, burst).unwrap_or(ByteSize::MAX);
        let peak = peak.and_then(|peak| of(peak.rate, peak.mtu));
        peak.map_or(limit, |peak| peak.min(limit))
    }

    /// The longest packet that can ever be sent.
    #[must_use]
    pub fn packet_max(&self) -> ByteSize {
        self.peak
            .map_or(self.burst, |peak| peak.mtu.min(self.burst))
    }
}

/// Whether the filter waits for its timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `dequeue` looks at the buckets.
    Open,
    /// `dequeue` gives nothing before the timer fires.
    Asleep,
}

/// What changes [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet at the head exceeds what a bucket holds.
    TokensShort,
    /// The time has come.
    TimerFires,
    /// Something else happened on the device.
    Woken,
}

transitions! {
    State on Event {
        Open + TokensShort => Asleep,
        Asleep + TimerFires => Open,
        Asleep + Woken => Open,
    }
}

/// A token bucket filter.
#[derive(Clone, Debug)]
pub struct Tbf {
    config: Config,
    timer: Timer,
    mean: Bucket,
    peak: Option<Bucket>,
    queue: Fifo,
    state: State,
    /// When the timer fires; `None` is never.
    fires_at: Option<Instant>,
    /// The latest time that it was told.
    now: Instant,
    overlimits: u64,
}

impl Tbf {
    /// An empty filter with full buckets.
    #[must_use]
    pub fn new(config: Config, timer: Timer) -> Self {
        Self {
            config,
            timer,
            mean: Bucket::new(config.rate, config.burst),
            peak: config.peak.map(|peak| Bucket::new(peak.rate, peak.mtu)),
            queue: Fifo::new(Limit::Bytes(config.limit)),
            state: State::Open,
            fires_at: None,
            now: Instant::ORIGIN,
            overlimits: 0,
        }
    }

    /// Whether it waits for its timer.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    fn step(&mut self, event: Event) {
        if let Some(state) = self.state.on(event) {
            self.state = state;
        }
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket> {
        core::iter::once(&mut self.mean).chain(&mut self.peak)
    }

    fn sleep(&mut self, len_bytes: u64) {
        let ready = self.buckets().map(|bucket| bucket.ready_at(len_bytes));
        // `None` is never, and later than any time.
        let all_ready = ready.reduce(|a, b| Some(a?.max(b?))).flatten();
        self.fires_at = all_ready.and_then(|at| self.timer.round_up(at));
        self.overlimits += 1;
        self.step(Event::TokensShort);
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.now = self.now.max(now);
        let depth_bytes = self.config.packet_max().as_bytes();
        let len_bytes = packet.len_bytes;
        if u64::from(len_bytes) > depth_bytes {
            let reason = DropReason::TooLong {
                len_bytes,
                depth_bytes,
            };
            return self.queue.drop(packet, reason);
        }
        self.queue.push(packet)
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet> {
        self.now = self.now.max(now);
        let now = self.now;
        if self.fires_at.is_some_and(|at| at <= now) {
            self.step(Event::TimerFires);
        }
        if self.state == State::Asleep {
            return None;
        }
        let len_bytes = u64::from(self.queue.head()?.len_bytes);
        if !self.buckets().all(|bucket| bucket.covers(len_bytes, now)) {
            self.buckets().for_each(|bucket| bucket.refill(now));
            self.sleep(len_bytes);
            return None;
        }
        for bucket in self.buckets() {
            bucket.refill(now);
            bucket.take(len_bytes);
        }
        self.queue.pop()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.queue.head()?;
        match self.state {
            State::Open => Some(Instant::ORIGIN),
            State::Asleep => self.fires_at,
        }
    }

    fn wake(&mut self) {
        self.step(Event::Woken);
    }

    fn stats(&self) -> Stats {
        Stats {
            overlimits: self.overlimits,
            ..self.queue.stats()
        }
    }
}

#[cfg(test)]
mod tests;
