//! Counts of delays in buckets that are powers of two, and what can be said of them.

/// One for nothing that waited, those up to 1 us, 2 us ... about a second, and one for what took longer.
pub const BUCKETS: usize = 23;
/// The largest of the powers, as that of two: 1.05 s.
const LARGEST: u32 = 20;
/// Where the longest probe ends.
pub const LONGEST_NS: u64 = (1 << LARGEST) * 1000;
const _: () = assert!(BUCKETS == LARGEST as usize + 3);

/// Seconds that the recent ones go back.
const RECENT_SECONDS: u64 = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Up to which delay a bucket goes, in microseconds; `None`: it has all longer ones.
pub fn upto_us(bucket: usize) -> Option<u64> {
    match bucket {
        0 => Some(0),
        _ if bucket < BUCKETS - 1 => Some(1 << (bucket - 1)),
        _ => None,
    }
}

fn bucket_of(ns: u64) -> usize {
    let us = ns.div_ceil(1000);
    match us {
        0 => 0,
        _ if us > 1 << LARGEST => BUCKETS - 1,
        _ => 1 + us.next_power_of_two().trailing_zeros() as usize,
    }
}

/// How often each delay was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    /// Of all that were found, in nanoseconds.
    pub sum_ns: u64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket_of(ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many there are in each bucket.
    pub fn counts(&self) -> &[u64; BUCKETS] {
        &self.counts
    }

    /// How many there are.
    #[cfg_attr(
        not(feature = "full"),
        allow(dead_code, reason = "only `top` shows it")
    )]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bucket in which a percentile lies; `None` if there is nothing.
    #[cfg_attr(
        not(feature = "full"),
        allow(dead_code, reason = "only `top` shows it")
    )]
    pub fn percentile(&self, percent: u64) -> Option<usize> {
        let count = self.count();
        let rank = (count * percent).div_ceil(100).max(1);
        let mut up_to_here = 0;
        self.counts.iter().position(|count| {
            up_to_here += count;
            up_to_here >= rank
        })
    }
}

/// What was found out of one direction.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The last ten seconds.
    #[cfg_attr(
        not(feature = "full"),
        allow(dead_code, reason = "only `top` shows it")
    )]
    pub recent: Histogram,
    /// Since it has been probed.
    pub total: Histogram,
}

/// The delays of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// One for each second, in turn.
    slices: [Histogram; RECENT_SECONDS as usize],
    /// The second of the last one.
    second: u64,
}

impl Recent {
    /// Lets those go that are too old.
    fn advance(&mut self, now_ns: u64) {
        let now = now_ns / SECOND_NS;
        let passed = now.saturating_sub(self.second).min(RECENT_SECONDS);
        for nth in 0..passed {
            self.slices[((now - nth) % RECENT_SECONDS) as usize] = Histogram::default();
        }
        self.second = self.second.max(now);
    }

    /// Counts one.
    pub fn add(&mut self, ns: u64, now_ns: u64) {
        self.advance(now_ns);
        self.slices[(self.second % RECENT_SECONDS) as usize].add(ns);
    }

    /// All of them.
    pub fn sum(&mut self, now_ns: u64) -> Histogram {
        self.advance(now_ns);
        let mut sum = Histogram::default();
        self.slices.iter().for_each(|slice| sum.merge(slice));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_in_the_bucket_that_goes_up_to_it() {
        for (ns, upto) in [
            (0, Some(0)),
            (1, Some(1)),
            (1000, Some(1)),
            (1001, Some(2)),
            (2000, Some(2)),
            (4001, Some(8)),
            (LONGEST_NS, Some(1 << LARGEST)),
            (LONGEST_NS + 1, None),
            (u64::MAX, None),
        ] {
            assert_eq!(upto_us(bucket_of(ns)), upto, "{ns}");
        }
        for bucket in 1..BUCKETS - 1 {
            assert_eq!(bucket_of(upto_us(bucket).expect("it ends") * 1000), bucket);
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50), None);
        histogram.add(3000);
        assert_eq!(
            (histogram.percentile(0), histogram.percentile(100)),
            (Some(3), Some(3))
        );
        for _ in 0..98 {
            histogram.add(0);
        }
        histogram.add(u64::MAX);
        histogram.add(u64::MAX);
        assert_eq!(histogram.percentile(50), Some(0));
        assert_eq!(histogram.percentile(98), Some(3));
        assert_eq!(histogram.percentile(99), Some(BUCKETS - 1));
        assert_eq!((histogram.count(), histogram.sum_ns), (101, u64::MAX));
    }

    #[test]
    fn what_is_old_is_let_go() {
        let mut recent = Recent::default();
        let at = |second: u64| second * SECOND_NS + 1;
        recent.add(1000, at(100));
        recent.add(1000, at(101));
        recent.add(1000, at(109));
        assert_eq!(recent.sum(at(109)).count(), 3);
        assert_eq!(recent.sum(at(110)).count(), 2);
        assert_eq!(recent.sum(at(118)).count(), 1);
        // A clock that goes back takes nothing away, and none that jumps takes long.
        recent.add(1000, at(50));
        assert_eq!(recent.sum(at(118)).count(), 2);
        assert_eq!(recent.sum(u64::MAX).count(), 0);
    }
}
