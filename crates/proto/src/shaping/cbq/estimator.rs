//! The idle estimator of CBQ: is a class within its rate?
//!
//! At the end of each packet of L bytes, with the end estimated as the start plus
//! L/link:
//!
//! ```text
//! idle     = (end - last end) - L/rate
//! avgidle := avgidle + idle - avgidle / 2^ewma
//! avgidle > 0:  within the limit, avgidle at most maxidle
//! avgidle <= 0: over the limit until
//!               undertime = end + (-avgidle)(1 - 2^-ewma) - L/link + L/rate
//!               with avgidle at least minidle
//! ```
//!
//! `avgidle` is kept times 2^ewma, in picoseconds, as a 128-bit integer. With
//! g = 1 - 2^-ewma, the bounds come from how many packets of the average length
//! may follow one another after a long and after a short silence:
//!
//! ```text
//! x       = avpkt/rate - avpkt/bandwidth
//! maxidle = max(avpkt/bandwidth (1 - g), x (g^-maxburst - 1)) 2^ewma
//! offtime = x (1 + (g^-(minburst-1) - 1) / (1 - g))    minburst > 1
//!         = x (g^-1 - 1)                               minburst = 1
//!         = 0                                          minburst = 0
//! ```
//!
//! | state | event | state after |
//! |---|---|---|
//! | within | a packet makes avgidle <= 0 | over, until undertime |
//! | over | refused for the first time | delayed: undertime grows by offtime, less the debt in avgidle |
//! | over, delayed | the time comes | within |
//!
//! Source: linux-tc (tc-cbq-details manual page; Floyd and Van Jacobson 1995).

use barewire_units::{ByteSize, Duration, Instant, Rate, transitions};

/// Powers of 1/g as fixed point: one is 2⁶⁴.
const ONE: u128 = 1 << 64;
/// Beyond this a power is as good as infinite: any bound from it saturates.
const POWER_MAX: u128 = 1 << 95;

/// Binary places below a picosecond in the computation of the bounds.
const FRACTION_BITS: u32 = 20;
/// All of time, with [`FRACTION_BITS`].
const TIME_MAX: u128 = (u64::MAX as u128) << FRACTION_BITS;

/// What the bounds are computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Rate of the class; `None` has nothing to give.
    pub rate: Option<Rate>,
    /// Rate of the link that the class is configured for.
    pub bandwidth: Rate,
    /// Average packet.
    pub avpkt: ByteSize,
    /// Weight of the past: 2^-ewma of each idle time counts. 1 to 31.
    pub ewma_log2: u8,
    /// Average packets that may follow one another after a long silence.
    pub maxburst: u32,
    /// Average packets that follow one another after each wait.
    pub minburst: u32,
    /// Lowest avgidle, as tc gives it: microseconds below zero.
    pub minidle_us: Option<u32>,
}

impl Parameters {
    /// The highest avgidle, times 2^ewma.
    #[must_use]
    pub fn maxidle(&self) -> Duration {
        // avpkt/bandwidth (1 - g) 2^ewma is the time of a packet on the link.
        let on_link = self.packet_time(self.bandwidth);
        let burst = fixed_product(self.excess(), self.inverse_power(self.maxburst) - ONE);
        to_duration(on_link.max(saturating_shl(burst, self.ewma_log2)))
    }

    /// The additional wait after which `minburst` packets follow one another.
    #[must_use]
    pub fn offtime(&self) -> Duration {
        let growth = |n| self.inverse_power(n) - ONE;
        let factor = match self.minburst {
            0 => 0,
            1 => growth(1),
            n => ONE.saturating_add(saturating_shl(growth(n - 1), self.ewma_log2)),
        };
        to_duration(fixed_product(self.excess(), factor.min(POWER_MAX)))
    }

    /// x, with [`FRACTION_BITS`].
    fn excess(&self) -> u128 {
        let own = self.rate.map_or(TIME_MAX, |rate| self.packet_time(rate));
        own.saturating_sub(self.packet_time(self.bandwidth))
    }

    /// The average packet at `rate`, with [`FRACTION_BITS`].
    fn packet_time(&self, rate: Rate) -> u128 {
        const PS_BITS_PER_S_BYTE: u128 = 8_000_000_000_000;
        // 64 + 43 + 20 bits: no overflow.
        let scaled = (u128::from(self.avpkt.as_bytes()) * PS_BITS_PER_S_BYTE) << FRACTION_BITS;
        (scaled / u128::from(rate.as_bps())).min(TIME_MAX)
    }

    /// g^-n in fixed point, by squaring.
    fn inverse_power(&self, n: u32) -> u128 {
        let whole = 1_u128 << self.ewma_log2.clamp(1, 31);
        let mut square = ONE * whole / (whole - 1);
        let mut power = ONE;
        let mut left = n;
        while left > 0 {
            if left & 1 == 1 {
                power = fixed_product(power, square);
            }
            square = fixed_product(square, square);
            left >>= 1;
        }
        power
    }
}

/// The product of two numbers up to [`POWER_MAX`], or that.
fn fixed_product(a: u128, b: u128) -> u128 {
    let low = |n: u128| n & (ONE - 1);
    let high = |n: u128| n >> 64;
    let product = high(a) * b + low(a) * high(b) + high(low(a) * low(b));
    product.min(POWER_MAX)
}

/// Whether a class waits, and has been made to wait longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Within its limit, as far as it knows.
    Within,
    /// Over its limit until undertime.
    Over,
    /// Over its limit, and refused: offtime has been added.
    Delayed,
}

/// What changes [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet left avgidle above zero.
    SentWithin,
    /// A packet left avgidle at or below zero.
    SentOver,
    /// It wanted to send, and no class lent to it.
    Refused,
    /// Undertime has come.
    TimeCame,
}

transitions! {
    State on Event {
        Within + SentOver => Over,
        Over + SentWithin => Within,
        Over + Refused => Delayed,
        Over + TimeCame => Within,
        Delayed + SentWithin => Within,
        Delayed + SentOver => Over,
        Delayed + TimeCame => Within,
    }
}

/// The estimator of one class.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    parameters: Parameters,
    link: Rate,
    maxidle: i128,
    minidle: i128,
    offtime: Duration,
    avgidle: i128,
    last_end: Option<Instant>,
    undertime: Instant,
    state: State,
}

impl Estimator {
    /// A class that was silent for long.
    pub(super) fn new(parameters: Parameters, link: Rate) -> Self {
        const PS_PER_US: i128 = 1_000_000;
        let maxidle = i128::from(parameters.maxidle().as_ps());
        let minidle = parameters
            .minidle_us
            .map_or(i128::MIN, |us| -i128::from(us) * PS_PER_US);
        Self {
            parameters,
            link,
            maxidle,
            minidle,
            offtime: parameters.offtime(),
            avgidle: maxidle,
            last_end: None,
            undertime: Instant::ORIGIN,
            state: State::Within,
        }
    }

    /// The rate that it measures against.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        *self = Self::new(
            Parameters {
                rate,
                ..self.parameters
            },
            self.link,
        );
    }

    /// When the class is within its limit again: at once if that has passed,
    /// `None` if it has nothing to give at all.
    pub(super) fn undertime(&self) -> Option<Instant> {
        self.parameters.rate.map(|_| self.undertime)
    }

    /// Whether the class is within its limit at `clock`.
    pub(super) fn is_under_limit(&self, clock: Instant) -> bool {
        self.undertime().is_some_and(|at| at <= clock)
    }

    /// Notes that the class may send.
    pub(super) fn allow(&mut self) {
        self.step(Event::TimeCame);
    }

    /// Notes that the class wanted to send, was over its limit, and nobody lent.
    pub(super) fn refuse(&mut self, clock: Instant) {
        if self.state != State::Over {
            return;
        }
        self.step(Event::Refused);
        let wait = self.undertime.saturating_duration_since(clock);
        let wait = wait.saturating_add(self.offtime);
        // The wait already repays the debt that avgidle stands for.
        let wait = wait.saturating_sub(self.debt());
        let wait = wait.as_ps().max(1);
        self.undertime = clock.saturating_add(Duration::from_ps(wait));
    }

    /// Counts a packet of `len_bytes` whose last bit leaves at `end`.
    pub(super) fn sent(&mut self, end: Instant, len_bytes: u64) {
        let Some(rate) = self.parameters.rate else {
            return;
        };
        let own_time = i128::from(time_of(rate, len_bytes).as_ps());
        let link_time = i128::from(time_of(self.link, len_bytes).as_ps());
        let before = self.avgidle;
        self.avgidle = self.last_end.map_or(self.maxidle, |last_end| {
            let since = i128::from(end.saturating_duration_since(last_end).as_ps());
            before + since - own_time - (before >> self.parameters.ewma_log2)
        });
        self.avgidle = self
            .avgidle
            .clamp(self.minidle.min(self.maxidle), self.maxidle);
        self.last_end = Some(end);
        if self.avgidle > 0 {
            self.undertime = Instant::ORIGIN;
            return self.step(Event::SentWithin);
        }
        let wait = i128::from(self.debt().as_ps()) - link_time + own_time;
        let wait = Duration::from_ps(u64::try_from(wait.max(0)).unwrap_or(u64::MAX));
        self.undertime = end.saturating_add(wait);
        self.step(Event::SentOver);
    }

    /// (-avgidle)(1 - 2^-ewma), or zero.
    fn debt(&self) -> Duration {
        let below = self.avgidle.min(0).saturating_neg();
        let debt = below - (below >> self.parameters.ewma_log2);
        Duration::from_ps(u64::try_from(debt).unwrap_or(u64::MAX))
    }

    fn step(&mut self, event: Event) {
        if let Some(state) = self.state.on(event) {
            self.state = state;
        }
    }
}

/// The time of `len_bytes` at `rate`, rounded up; at most all of time.
pub(super) fn time_of(rate: Rate, len_bytes: u64) -> Duration {
    rate.checked_time_to_send(ByteSize::from_bytes(len_bytes))
        .unwrap_or(Duration::MAX)
}

/// A time with [`FRACTION_BITS`], rounded down.
fn to_duration(time: u128) -> Duration {
    Duration::from_ps(u64::try_from(time >> FRACTION_BITS).unwrap_or(u64::MAX))
}

fn saturating_shl(value: u128, bits: u8) -> u128 {
    value.saturating_mul(1_u128 << bits.min(31))
}
