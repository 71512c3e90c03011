//! The inner loops without a vector instruction written by hand. Always inlined, so that a
//! caller compiled for a wider instruction set gets them in that.

/// Two sums over little-endian 64-bit words; see the head of the parent.
#[derive(Default)]
struct Halves {
    whole: u64,
    high: u64,
}

impl Halves {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        self.whole = self.whole.wrapping_add(word);
        self.high += word >> 32;
    }

    /// The sum of all halves: congruent to the sum of all words.
    #[inline(always)]
    fn total(&self) -> u64 {
        self.high + self.whole.wrapping_sub(self.high << 32)
    }
}

/// At most eight bytes, and zeros behind them, as a word.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A sum congruent to that of all little-endian 16-bit words.
#[inline(always)]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut halves = Halves::default();
    let words = bytes.chunks_exact(8);
    let rest = word(words.remainder());
    words.for_each(|bytes| halves.add(word(bytes)));
    halves.add(rest);
    halves.total()
}

/// The same while copying; both slices are of one length.
#[inline(always)]
pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u64 {
    let mut halves = Halves::default();
    let mut targets = to.chunks_exact_mut(8);
    let words = from.chunks_exact(8);
    let rest = words.remainder();
    for (target, bytes) in targets.by_ref().zip(words) {
        target.copy_from_slice(bytes);
        halves.add(word(bytes));
    }
    targets.into_remainder().copy_from_slice(rest);
    halves.add(word(rest));
    halves.total()
}
