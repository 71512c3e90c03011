//! Random numbers that are a function of their seed, for ever.
//!
//! This crate has a generator of its own, so that no update of a library changes an old
//! run: the seed in a bug report reproduces it for ever. The outputs are frozen by known
//! answers in `tests/rng_vectors.rs`; changing one is a breaking change.
//!
//! | part | algorithm | source |
//! |---|---|---|
//! | state | xoshiro256\*\* 1.0, four 64-bit words | Blackman, Vigna: Scrambled Linear Pseudorandom Number Generators, ACM TOMS 47 (2021); reference code in the public domain, prng.di.unimi.it |
//! | seeding | `SplitMix64`, four outputs | Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 |
//! | ranges | multiply and reject | Lemire: Fast Random Integer Generation in an Interval, ACM TOMACS 29 (2019) |
//! | stream names | 64-bit FNV-1a | Fowler, Noll, Vo: isthe.com/chongo/tech/comp/fnv |
//!
//! Not for secrets: whoever sees a few outputs knows all of them.

use core::ops::RangeInclusive;

/// A seeded generator of random numbers, xoshiro256\*\*.
///
/// ```
/// use barewire_units::Rng;
///
/// let mut rng = Rng::from_seed(42);
/// assert_eq!(rng.next_u64(), 0x15780b2e0c2ec716);
///
/// let die = rng.in_range(1..=6);
/// assert!((1..=6).contains(&die));
///
/// let mut order = [0, 1, 2, 3];
/// rng.shuffle(&mut order);
///
/// // One fault in a hundred, as a ratio of integers.
/// let faulty = rng.ratio(1, 100);
/// # let _ = faulty;
/// ```
///
/// A stream that has a name does not depend on what else was drawn, so a new
/// consumer of chance does not change the others:
///
/// ```
/// use barewire_units::Rng;
///
/// let mut root = Rng::from_seed(42);
/// let mut early = root.fork("loss");
/// root.next_u64();
/// let mut late = root.fork("loss");
/// assert_eq!(early.next_u64(), late.next_u64());
/// assert_ne!(early.next_u64(), root.fork("delay").next_u64());
/// ```
///
/// It is deliberately not `Copy`: a copy would silently repeat the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    /// What this stream was seeded with; named streams are made from it.
    seed: u64,
    state: [u64; 4],
}

impl Rng {
    /// The generator that `seed` stands for. Every seed is good, zero included.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        let mut counter = seed;
        let mut state = [0; 4];
        let mut i = 0;
        while i < state.len() {
            counter = counter.wrapping_add(SPLITMIX64_GAMMA);
            state[i] = splitmix64_mix(counter);
            i += 1;
        }
        // The mix is a bijection, so at most one word is zero.
        Self { seed, state }
    }

    /// The seed it was made from: what a failing test must print.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The stream called `name` below this one: a function of this stream's
    /// seed and the name alone, whatever was drawn from it so far. The same
    /// name twice is the same stream twice.
    #[must_use]
    pub fn fork(&self, name: &str) -> Self {
        let hash = fnv1a(FNV_OFFSET_BASIS, &self.seed.to_le_bytes());
        Self::from_seed(splitmix64_mix(fnv1a(hash, name.as_bytes())))
    }

    /// The stream called `name` and `index` below this one, for one of many
    /// alike (nodes, connections). Differs from every [`Rng::fork`].
    ///
    /// ```
    /// use barewire_units::Rng;
    /// let root = Rng::from_seed(1);
    /// assert_ne!(root.fork_nth("node", 0), root.fork_nth("node", 1));
    /// assert_ne!(root.fork_nth("node", 0), root.fork("node"));
    /// ```
    #[must_use]
    pub fn fork_nth(&self, name: &str, index: u64) -> Self {
        let parent = self.fork(name);
        let hash = fnv1a(FNV_OFFSET_BASIS, &parent.seed.to_le_bytes());
        Self::from_seed(splitmix64_mix(fnv1a(hash, &index.to_le_bytes())))
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let out = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let s2 = s2 ^ s0;
        let s3 = s3 ^ s1;
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        out
    }

    /// The next 32 random bits: the upper half of the next 64.
    pub const fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`, each equally likely. Panics if `bound` is zero.
    ///
    /// Draws once nearly always, again with probability below `bound / 2⁶⁴`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below zero");
        // The high half of a 128-bit product is the number; a low half below
        // 2^64 mod bound marks the products that some numbers have too many of.
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let surplus = bound.wrapping_neg() % bound;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `range`, each equally likely. Panics if it is empty.
    pub fn in_range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (first, last) = (*range.start(), *range.end());
        assert!(first <= last, "a random number from an empty range");
        match (last - first).checked_add(1) {
            Some(count) => first + self.below(count),
            None => self.next_u64(),
        }
    }

    /// An index into a collection of `len` things. Panics if there are none.
    pub fn index(&mut self, len: usize) -> usize {
        // Below `len`, so it fits.
        self.below(len as u64) as usize
    }

    /// One of the things, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, things: &'a [T]) -> Option<&'a T> {
        if things.is_empty() {
            None
        } else {
            things.get(self.index(things.len()))
        }
    }

    /// True `numerator` times out of `denominator`, exactly. Panics if the
    /// denominator is zero or smaller than the numerator.
    pub fn ratio(&mut self, numerator: u64, denominator: u64) -> bool {
        assert!(numerator <= denominator, "a probability above one");
        self.below(denominator) < numerator
    }

    /// Puts the things in a random order, each order equally likely
    /// (Fisher and Yates, from the back).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.index(last + 1);
            things.swap(last, other);
        }
    }

    /// Fills `bytes` from successive 64-bit outputs, little-endian; what is
    /// left of the last one is thrown away.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

const SPLITMIX64_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of `SplitMix64`: a bijection that scatters every bit.
const fn splitmix64_mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a over `bytes`, going on from `hash`.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that the authors' C code gives from the state 1, 2, 3, 4.
    #[test]
    fn core_matches_the_reference() {
        let mut rng = Rng {
            seed: 0,
            state: [1, 2, 3, 4],
        };
        let expected = [
            11520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
            16_172_922_978_634_559_625,
            8_476_171_486_693_032_832,
            10_595_114_339_597_558_777,
            2_904_607_092_377_533_576,
        ];
        for word in expected {
            assert_eq!(rng.next_u64(), word);
        }
    }

    /// `SplitMix64` from the seed 1234567, as the reference C code gives it.
    #[test]
    fn seeding_matches_the_reference() {
        assert_eq!(
            Rng::from_seed(1_234_567).state,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
            ]
        );
    }

    /// The published vectors of 64-bit FNV-1a.
    #[test]
    fn name_hash_matches_the_reference() {
        assert_eq!(fnv1a(FNV_OFFSET_BASIS, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(FNV_OFFSET_BASIS, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(FNV_OFFSET_BASIS, b"foobar"), 0x8594_4171_f739_67e8);
    }
}
