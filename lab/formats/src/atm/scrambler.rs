//! The payload scrambler, which keeps payloads from imitating headers and framing.
//!
//! ```text
//! scrambler    out[i] = in[i] xor out[i - 43]      x⁴³ + 1, over payload bits only:
//! descrambler  out[i] = in[i] xor  in[i - 43]      header bits do not move the state
//! ```
//!
//! The descrambler needs nothing but the 43 bits before it, so that it is right again
//! 43 bits after any error. A wrong bit on the line makes two, 43 bits apart.
//!
//! Bits come 64 at a time: the upper 43 of a word take the state, the other 21 take the
//! first 21 of the same word.
//!
//! Source: itu-i432 §4.3.4 (self-synchronizing scrambler).

use super::PAYLOAD_BYTES;

/// How far back the scrambler looks.
pub const TAP_BITS: u32 = 43;

/// Changes each 64-bit word of a payload.
#[inline]
fn for_words(payload: &mut [u8; PAYLOAD_BYTES], mut change: impl FnMut(u64) -> u64) {
    for chunk in payload.chunks_exact_mut(8) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        let word = change(u64::from_be_bytes(word));
        chunk.copy_from_slice(&word.to_be_bytes());
    }
}

/// The sending end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrambler {
    /// The last bits sent, the latest lowest; only 43 count.
    sent: u64,
}

impl Scrambler {
    /// A scrambler whose state is zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { sent: 0 }
    }

    /// Scrambles the payload of the next cell.
    #[inline]
    pub fn scramble(&mut self, payload: &mut [u8; PAYLOAD_BYTES]) {
        for_words(payload, |word| {
            let upper = word ^ self.sent << (64 - TAP_BITS);
            self.sent = upper ^ upper >> TAP_BITS;
            self.sent
        });
    }
}

/// The receiving end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descrambler {
    /// The last bits received, the latest lowest; only 43 count.
    received: u64,
}

impl Descrambler {
    /// A descrambler whose state is zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { received: 0 }
    }

    /// Descrambles the payload of the next cell. It has to see every cell, also one
    /// that is thrown away.
    #[inline]
    pub fn descramble(&mut self, payload: &mut [u8; PAYLOAD_BYTES]) {
        for_words(payload, |word| {
            let delayed = self.received << (64 - TAP_BITS) | word >> TAP_BITS;
            self.received = word;
            word ^ delayed
        });
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_published_vectors() {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[0] = 0x80;
        let mut scrambler = Scrambler::new();
        scrambler.scramble(&mut payload);
        assert_eq!(payload[..11], [0x80, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x02]);
        // The state goes on over the header: 384 = 8 * 43 + 40, so the next one is bit 3.
        let mut payload = [0; PAYLOAD_BYTES];
        scrambler.scramble(&mut payload);
        assert_eq!(payload[..6], [0x10, 0, 0, 0, 0, 0x02]);
    }

    /// The definition, a bit at a time.
    fn by_bits(payloads: &[[u8; PAYLOAD_BYTES]]) -> Vec<bool> {
        let bytes = payloads.iter().flatten();
        let bits = bytes.flat_map(|byte| (0..8).map(move |i| byte & 0x80 >> i != 0));
        let mut out: Vec<bool> = Vec::new();
        for (i, bit) in bits.enumerate() {
            let before = i >= 43 && out[i - 43];
            out.push(bit ^ before);
        }
        out
    }

    fn any_payloads() -> impl Strategy<Value = Vec<[u8; PAYLOAD_BYTES]>> {
        proptest::collection::vec(any::<[[u8; 24]; 2]>(), 1..5).prop_map(|halves| {
            let join = |[a, b]: [[u8; 24]; 2]| {
                let mut payload = [0; PAYLOAD_BYTES];
                payload[..24].copy_from_slice(&a);
                payload[24..].copy_from_slice(&b);
                payload
            };
            halves.into_iter().map(join).collect()
        })
    }

    proptest! {
        #[test]
        fn words_do_what_the_definition_says(payloads in any_payloads()) {
            let mut scrambler = Scrambler::new();
            let mut scrambled = payloads.clone();
            scrambled.iter_mut().for_each(|p| scrambler.scramble(p));
            let bytes = scrambled.iter().flatten();
            let bits = bytes.flat_map(|byte| (0..8).map(move |i| byte & 0x80 >> i != 0));
            prop_assert_eq!(bits.collect::<Vec<_>>(), by_bits(&payloads));
        }

        #[test]
        fn a_descrambler_that_comes_late_is_right_after_43_bits(
            payloads in any_payloads(),
            state: u64,
        ) {
            let mut scrambler = Scrambler { sent: state };
            let mut descrambler = Descrambler { received: !state };
            for (nth, payload) in payloads.iter().enumerate() {
                let mut through = *payload;
                scrambler.scramble(&mut through);
                descrambler.descramble(&mut through);
                let right_from_byte = if nth == 0 { 6 } else { 0 };
                prop_assert_eq!(&through[right_from_byte..], &payload[right_from_byte..]);
            }
        }

        #[test]
        fn a_wrong_bit_makes_two(payloads in any_payloads(), bit in 0_usize..384) {
            let mut scrambler = Scrambler::new();
            let mut descrambler = Descrambler::new();
            let mut wrong_bits = Vec::new();
            for (nth, payload) in payloads.iter().enumerate() {
                let mut through = *payload;
                scrambler.scramble(&mut through);
                if nth == 0 {
                    through[bit / 8] ^= 0x80 >> (bit % 8);
                }
                descrambler.descramble(&mut through);
                let differs = |i: &usize| (through[i / 8] ^ payload[i / 8]) & 0x80 >> (i % 8) != 0;
                wrong_bits.extend((0..384).filter(differs).map(|i| nth * 384 + i));
            }
            let mut expected = std::vec![bit, bit + 43];
            expected.retain(|&bit| bit < payloads.len() * 384);
            prop_assert_eq!(wrong_bits, expected);
        }
    }
}
