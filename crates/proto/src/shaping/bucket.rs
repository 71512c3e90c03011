//! A token bucket in exact integers.
//!
//! Tokens are bits times 10¹²: what flows in during `t` picoseconds at `R` bit/s
//! is then the whole number `R·t`, and no fraction is ever lost. The largest
//! bucket, 2⁶⁴ bytes, takes 107 bits; tokens below zero are a debt.

use barewire_units::{ByteSize, Instant, Rate};

/// Tokens in one byte: eight bits times picoseconds in a second.
const TOKENS_PER_BYTE: i128 = 8_000_000_000_000;

/// A bucket that fills at a rate up to a depth.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    depth: i128,
    tokens: i128,
    updated: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(rate: Rate, depth: ByteSize) -> Self {
        let depth = tokens(depth.as_bytes());
        Self {
            rate,
            depth,
            tokens: depth,
            updated: Instant::ORIGIN,
        }
    }

    /// Lets the tokens of the time up to `now` flow in.
    pub(super) fn refill(&mut self, now: Instant) {
        self.tokens = self.tokens_at(now);
        self.updated = self.updated.max(now);
    }

    /// Whether the bucket holds at least `bytes`, at `now`.
    pub(super) fn covers(&self, bytes: u64, now: Instant) -> bool {
        self.tokens_at(now) >= tokens(bytes)
    }

    /// Takes `bytes` out; what is not there becomes a debt.
    pub(super) fn take(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(tokens(bytes));
    }

    /// The first instant at which the bucket covers `bytes`, or `None` if time
    /// ends before, or the bucket is not as deep as that.
    pub(super) fn ready_at(&self, bytes: u64) -> Option<Instant> {
        let needed = tokens(bytes);
        if needed > self.depth {
            return None;
        }
        let missing = u128::try_from(needed.saturating_sub(self.tokens)).unwrap_or(0);
        let wait_ps = missing.div_ceil(u128::from(self.rate.as_bps()));
        let at_ps = u128::from(self.updated.since_origin().as_ps()).saturating_add(wait_ps);
        u64::try_from(at_ps).ok().map(Instant::from_ps)
    }

    fn tokens_at(&self, now: Instant) -> i128 {
        let elapsed = now.saturating_duration_since(self.updated);
        // Two 64-bit factors: no overflow in 128 bits, but perhaps in 127.
        let inflow = u128::from(elapsed.as_ps()) * u128::from(self.rate.as_bps());
        let inflow = i128::try_from(inflow).unwrap_or(i128::MAX);
        self.tokens.saturating_add(inflow).min(self.depth)
    }
}

fn tokens(bytes: u64) -> i128 {
    i128::from(bytes) * TOKENS_PER_BYTE
}
