//! The generator: when events happen, how large their fragments are, and what is in them. All
//! of it follows from the seed, so that a builder can verify every byte.

use barewire_units::{Duration, Instant, Rng};

use crate::config::{Shape, Sizes, Trigger};
use crate::limits::EVENT_NUMBERS;
use crate::scatter::scatter;

/// Sizes and contents of all fragments of all sources.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    sizes: Sizes,
    seed: u64,
}

impl Generator {
    /// The same for the same seed.
    #[must_use]
    pub const fn new(sizes: Sizes, seed: u64) -> Self {
        Self { sizes, seed }
    }

    fn key(&self, source: u16, event: u64) -> u64 {
        // A fragment that gets a wrong number on purpose keeps its contents.
        let event = event % EVENT_NUMBERS;
        let mixed = self.seed ^ u64::from(source).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        scatter(mixed ^ scatter(event))
    }

    /// Bytes of a fragment.
    #[must_use]
    pub fn size(&self, source: u16, event: u64) -> u64 {
        let sizes = &self.sizes;
        let mean = sizes.mean_bytes as f64;
        let uniform = |salt: u64| {
            let bits = scatter(self.key(source, event) ^ salt) >> 11;
            // From 0, not 0 itself, to 1.
            (bits + 1) as f64 / (1_u64 << 53) as f64
        };
        let drawn = match sizes.shape {
            Shape::Fixed => return sizes.mean_bytes,
            Shape::Uniform => {
                let least = sizes.bytes_min as f64;
                least + 2.0 * (mean - least) * uniform(1)
            }
            Shape::Exponential => -mean * uniform(1).ln(),
            Shape::LogNormal(sigma) => {
                let angle = core::f64::consts::TAU * uniform(2);
                let normal = (-2.0 * uniform(1).ln()).sqrt() * angle.cos();
                mean * (sigma * normal - sigma * sigma / 2.0).exp()
            }
        };
        (drawn as u64).clamp(sizes.bytes_min, sizes.bytes_max)
    }

    /// The bytes of a fragment from `offset` on.
    pub fn fill(&self, source: u16, event: u64, offset: u64, into: &mut [u8]) {
        let key = self.key(source, event);
        let lead = (offset.wrapping_neg() % 8).min(into.len() as u64) as usize;
        let (first, rest) = into.split_at_mut(lead);
        for (at, byte) in (offset..).zip(first) {
            *byte = byte_of(key, at);
        }
        let mut word = word_of(key, (offset + lead as u64) / 8);
        let mut words = rest.chunks_exact_mut(8);
        for chunk in &mut words {
            chunk.copy_from_slice(&word.to_le_bytes());
            word = word.wrapping_add(STEP);
        }
        let last = word.to_le_bytes();
        let tail = words.into_remainder();
        tail.copy_from_slice(&last[..tail.len()]);
    }

    /// Whether these are the bytes of a fragment from `offset` on.
    #[must_use]
    pub fn verify(&self, source: u16, event: u64, offset: u64, bytes: &[u8]) -> bool {
        let key = self.key(source, event);
        let lead = (offset.wrapping_neg() % 8).min(bytes.len() as u64) as usize;
        let (first, rest) = bytes.split_at(lead);
        let mut wrong = 0_u64;
        for (at, &byte) in (offset..).zip(first) {
            wrong |= u64::from(byte ^ byte_of(key, at));
        }
        let mut word = word_of(key, (offset + lead as u64) / 8);
        let words = rest.chunks_exact(8);
        let tail = words.remainder();
        for chunk in words {
            let mut found = [0; 8];
            found.copy_from_slice(chunk);
            wrong |= u64::from_le_bytes(found) ^ word;
            word = word.wrapping_add(STEP);
        }
        wrong == 0 && tail == &word.to_le_bytes()[..tail.len()]
    }
}

/// Odd, so that every word of a fragment is another.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const fn word_of(key: u64, index: u64) -> u64 {
    key.wrapping_add(index.wrapping_mul(STEP))
}

const fn byte_of(key: u64, at: u64) -> u8 {
    word_of(key, at / 8).to_le_bytes()[(at % 8) as usize]
}

/// When events happen.
#[derive(Clone, Debug)]
pub struct Triggers {
    mode: Trigger,
    random: Rng,
    next: Instant,
}

impl Triggers {
    /// The first one is a period after `now`.
    #[must_use]
    pub fn new(mode: Trigger, seed: u64, now: Instant) -> Self {
        let mut triggers = Self {
            mode,
            random: Rng::from_seed(seed).fork("triggers"),
            next: now,
        };
        triggers.step();
        triggers
    }

    fn step(&mut self) {
        let wait = match self.mode {
            Trigger::Max | Trigger::Sources => Duration::from_ps(0),
            Trigger::Clock(period) => period,
            Trigger::Poisson(period) => {
                let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                Duration::from_ps((-uniform.ln() * period.as_ps() as f64) as u64)
            }
        };
        self.next = self.next.saturating_add(wait);
    }

    /// Whether one is due.
    pub fn due(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        if due {
            self.step();
        }
        due
    }

    /// When the next one is.
    #[must_use]
    pub const fn next(&self) -> Instant {
        self.next
    }

    /// Leaves out what would have been before `now`: after a pause.
    pub fn skip_to(&mut self, now: Instant) {
        let timed = matches!(self.mode, Trigger::Clock(_) | Trigger::Poisson(_));
        while timed && self.next < now {
            self.step();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn generator(shape: Shape) -> Generator {
        let sizes = Sizes {
            shape,
            mean_bytes: 1_000,
            bytes_min: 100,
            bytes_max: 50_000,
        };
        Generator::new(sizes, 7)
    }

    #[test]
    fn means_are_as_said() {
        for shape in [
            Shape::Fixed,
            Shape::Uniform,
            Shape::Exponential,
            Shape::LogNormal(0.5),
        ] {
            let generator = generator(shape);
            let sizes: Vec<_> = (0..20_000).map(|event| generator.size(3, event)).collect();
            let mean = sizes.iter().sum::<u64>() / 20_000;
            assert!((970..1_030).contains(&mean), "{shape:?}: {mean}");
            assert!(sizes.iter().all(|it| (100..=50_000).contains(it)));
        }
    }

    #[test]
    fn triggers_keep_their_rate() {
        let period = Duration::from_us(10);
        for mode in [Trigger::Clock(period), Trigger::Poisson(period)] {
            let mut triggers = Triggers::new(mode, 1, Instant::ORIGIN);
            let end = Instant::ORIGIN + Duration::from_ms(100);
            let count = core::iter::from_fn(|| triggers.due(end).then_some(())).count();
            assert!((9_600..10_400).contains(&count), "{mode:?}: {count}");
            assert!(triggers.next() > end);
        }
    }

    proptest! {
        #[test]
        fn parts_of_a_fragment_are_the_whole(cuts in prop::collection::vec(0..200_usize, 1..8)) {
            let generator = generator(Shape::Fixed);
            let mut whole = vec![0; cuts.iter().sum()];
            generator.fill(2, 9, 0, &mut whole);
            let mut offset = 0;
            for cut in cuts {
                let mut part = vec![0; cut];
                generator.fill(2, 9, offset as u64, &mut part);
                prop_assert_eq!(&part[..], &whole[offset..offset + cut]);
                prop_assert!(generator.verify(2, 9, offset as u64, &part));
                if let Some(byte) = part.last_mut() {
                    *byte ^= 1;
                    prop_assert!(!generator.verify(2, 9, offset as u64, &part));
                }
                prop_assert!(cut < 8 || !generator.verify(2, 10, offset as u64, &whole[offset..offset + cut]));
                offset += cut;
            }
        }
    }
}
