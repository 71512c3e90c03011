//! The frame scrambler: a fixed sequence, begun anew in each frame.
//!
//! ```text
//! bit[i] = bit[i - 6] xor bit[i - 7], the first seven being ones: period 127 bits, and as
//! 8 and 127 have no common factor, 127 bytes: fe 04 18 51 e4 59 d4 fa …
//! ```
//!
//! It begins on the byte behind the overhead of the first row; that overhead is not scrambled.
//!
//! Source: itu-g707 (frame-synchronous scrambler 1 + x⁶ + x⁷).

/// Bytes after which the sequence repeats.
pub const PERIOD_BYTES: usize = 127;

/// The sequence.
pub static SEQUENCE: [u8; PERIOD_BYTES] = sequence();

const fn sequence() -> [u8; PERIOD_BYTES] {
    let mut sequence = [0; PERIOD_BYTES];
    // The next seven bits, the first of them highest.
    let mut state: u8 = 0x7f;
    let mut bit = 0;
    while bit < PERIOD_BYTES * 8 {
        sequence[bit / 8] |= (state >> 6) << (7 - bit % 8);
        state = (state << 1 & 0x7f) | (state >> 6 ^ state >> 5) & 1;
        bit += 1;
    }
    sequence
}

/// Adds the sequence, from its beginning, to `bytes`; once scrambles, twice is nothing.
pub fn apply(bytes: &mut [u8]) {
    for period in bytes.chunks_mut(PERIOD_BYTES) {
        period.iter_mut().zip(&SEQUENCE).for_each(|(b, s)| *b ^= s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors() {
        let mut bytes = [0; 16];
        apply(&mut bytes);
        let expected = [
            0xfe, 0x04, 0x18, 0x51, 0xe4, 0x59, 0xd4, 0xfa, 0x1c, 0x49, 0xb5, 0xbd, 0x8d, 0x2e,
            0xe6, 0x55,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn the_sequence_goes_on_over_its_end() {
        let bit = |i: usize| SEQUENCE[i / 8 % PERIOD_BYTES] >> (7 - i % 8) & 1;
        for i in 7..PERIOD_BYTES * 8 + 7 {
            assert_eq!(bit(i), bit(i - 6) ^ bit(i - 7), "bit {i}");
        }
    }
}
