//! The header error control: a CRC-8 over the first four bytes of a cell header, able
//! to correct one wrong bit or to detect several, and the receiver that decides
//! which of the two it does.
//!
//! ```text
//! HEC = (header bits 0..32 · x⁸  mod  x⁸ + x² + x + 1)  xor  01010101 (the coset)
//! syndrome = HEC computed xor HEC received: 0 good; one of 40 values for a single
//! wrong bit, each its own; every other value: more than one bit is wrong
//! ```
//!
//! | mode | header | what happens | next mode |
//! |---|---|---|---|
//! | Correction | good | accepted | Correction |
//! | Correction | one bit wrong | corrected | Detection |
//! | Correction | more wrong | discarded | Detection |
//! | Detection | good | accepted | Correction |
//! | Detection | any error | discarded | Detection |
//!
//! Source: itu-i432 §4.3.2 (HEC functions and modes).

use barewire_units::transitions;

/// Bytes of a cell's header, the HEC included.
pub const HEADER_BYTES: usize = 5;

/// The generator x⁸ + x² + x + 1 without its highest term.
pub const POLYNOMIAL: u8 = 0x07;
/// Added to the remainder, so that a header of zeros has no code word of zeros.
pub const COSET: u8 = 0x55;

/// The CRC of a byte in each of the four places, the bytes behind it zero. The CRC is
/// linear, so that of a header is the sum of four look-ups that do not wait for one another.
static TABLES: [[u8; 256]; 4] = tables();
/// For each syndrome the header bit that it accuses, or [`NO_BIT`].
static ACCUSED_BIT: [u8; 256] = accused_bits();
const NO_BIT: u8 = 0xff;

const fn tables() -> [[u8; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u8;
        let mut place = 4;
        while place > 0 {
            place -= 1;
            crc = times_x8(crc);
            tables[place][byte] = crc;
        }
        byte += 1;
    }
    tables
}

/// `crc` · x⁸ modulo the generator.
const fn times_x8(crc: u8) -> u8 {
    let mut crc = crc;
    let mut bit = 0;
    while bit < 8 {
        let carry = crc >> 7;
        crc = (crc << 1) ^ (carry * POLYNOMIAL);
        bit += 1;
    }
    crc
}

const fn accused_bits() -> [u8; 256] {
    let mut bits = [NO_BIT; 256];
    let mut bit: u8 = 0;
    while bit < 40 {
        let mut header = [0; 5];
        header[bit as usize / 8] = 0x80 >> (bit % 8);
        bits[(syndrome(&header) ^ COSET) as usize] = bit;
        bit += 1;
    }
    bits
}

/// The HEC of the first four bytes of a header.
#[inline]
#[must_use]
pub const fn generate(header: [u8; 4]) -> u8 {
    let [b0, b1, b2, b3] = header;
    TABLES[0][b0 as usize]
        ^ TABLES[1][b1 as usize]
        ^ TABLES[2][b2 as usize]
        ^ TABLES[3][b3 as usize]
        ^ COSET
}

/// The HEC computed over a header, xor the one that it holds: 0 if it is good.
#[inline]
#[must_use]
pub const fn syndrome(header: &[u8; HEADER_BYTES]) -> u8 {
    let [b0, b1, b2, b3, hec] = *header;
    generate([b0, b1, b2, b3]) ^ hec
}

/// What the HEC says about a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No error seen.
    Good,
    /// If one bit is wrong it is this one, 0 to 39, the first on the line being 0.
    SingleBit(u8),
    /// More than one bit is wrong.
    Bad,
}

/// Checks a header.
#[inline]
#[must_use]
pub fn check(header: &[u8; HEADER_BYTES]) -> Verdict {
    match syndrome(header) {
        0 => Verdict::Good,
        accusation => accused(accusation),
    }
}

fn accused(syndrome: u8) -> Verdict {
    match ACCUSED_BIT[usize::from(syndrome)] {
        NO_BIT => Verdict::Bad,
        bit => Verdict::SingleBit(bit),
    }
}

/// What the receiver does about an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Corrects a single wrong bit: errors are likely to be single.
    #[default]
    Correction,
    /// Discards: after one error, the next is likely to belong to a burst.
    Detection,
}

/// What the receiver saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A good header.
    Good,
    /// One wrong bit.
    SingleBit,
    /// More than one wrong bit.
    Bad,
}

transitions! {
    Mode on Seen {
        Correction + Good => Correction,
        Correction + SingleBit => Detection,
        Correction + Bad => Detection,
        Detection + Good => Correction,
        Detection + SingleBit => Detection,
        Detection + Bad => Detection,
    }
}

/// What became of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was good.
    Accepted,
    /// This bit was wrong and has been turned.
    Corrected(u8),
    /// The cell must be thrown away.
    Discarded,
}

/// The receiver: corrects a lone single-bit error, discards everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    mode: Mode,
}

impl Receiver {
    /// A receiver in correction mode.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            mode: Mode::Correction,
        }
    }

    /// What it would do about an error now.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Judges the header of the next cell, and corrects it if it may.
    #[inline]
    pub fn receive(&mut self, header: &mut [u8; HEADER_BYTES]) -> Outcome {
        let (seen, outcome) = match (check(header), self.mode) {
            (Verdict::Good, _) => (Seen::Good, Outcome::Accepted),
            (Verdict::SingleBit(bit), Mode::Correction) => {
                header[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
                (Seen::SingleBit, Outcome::Corrected(bit))
            }
            (Verdict::SingleBit(_), Mode::Detection) => (Seen::SingleBit, Outcome::Discarded),
            (Verdict::Bad, _) => (Seen::Bad, Outcome::Discarded),
        };
        self.mode = self.mode.on(seen).unwrap_or(self.mode);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use barewire_units::Graph;

    use super::*;

    #[test]
    fn the_published_vectors() {
        let vectors: [(u32, u8); 8] = [
            (0x0000_0000, 0x55),
            (0x0000_0001, 0x52),
            (0x0000_0010, 0x25),
            (0x0000_0050, 0xe2),
            (0x0010_0640, 0x4e),
            (0x1234_5678, 0x49),
            (0xffff_ffff, 0x8b),
            (0x0fed_cba8, 0xf3),
        ];
        for (word, hec) in vectors {
            assert_eq!(generate(word.to_be_bytes()), hec, "{word:08x}");
            let by_bits = word
                .to_be_bytes()
                .iter()
                .fold(0, |crc, b| times_x8(crc ^ b));
            assert_eq!(by_bits ^ COSET, hec, "{word:08x}");
        }
        let check = b"123456789".iter().fold(0, |crc, b| times_x8(crc ^ b));
        assert_eq!(check ^ COSET, 0xa1);
    }

    #[test]
    fn every_bit_has_the_syndrome_as_published() {
        let expected = [
            0x31, 0x9b, 0xce, 0x67, 0xb0, 0x58, 0x2c, 0x16, 0x0b, 0x86, 0x43, 0xa2, 0x51, 0xab,
            0xd6, 0x6b, 0xb6, 0x5b, 0xae, 0x57, 0xa8, 0x54, 0x2a, 0x15, 0x89, 0xc7, 0xe0, 0x70,
            0x38, 0x1c, 0x0e, 0x07, 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01,
        ];
        let good = [0x12, 0x34, 0x56, 0x78, 0x49];
        for (bit, expected) in expected.into_iter().enumerate() {
            let mut header = good;
            header[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(syndrome(&header), expected, "bit {bit}");
            assert_eq!(check(&header), Verdict::SingleBit(bit as u8));
        }
    }

    /// The code has distance 4: two wrong bits are never taken for none or for one.
    #[test]
    fn two_wrong_bits_are_always_seen_as_more_than_one() {
        let good = 0x12_3456_7849_u64;
        for (first, second) in (0..40).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let wrong = (good ^ 1 << first ^ 1 << second).to_be_bytes();
            let [_, _, _, header @ ..] = wrong;
            assert_eq!(check(&header), Verdict::Bad, "bits {first} and {second}");
        }
    }

    #[test]
    fn the_receiver_corrects_one_header_in_a_row() {
        let good = [0x00, 0x10, 0x06, 0x40, 0x4e];
        let single = [0x00, 0x10, 0x06, 0x41, 0x4e];
        let double = [0x00, 0x10, 0x06, 0x42, 0x4f];
        let mut receiver = Receiver::new();
        let steps = [
            (good, Outcome::Accepted, good, Mode::Correction),
            (single, Outcome::Corrected(31), good, Mode::Detection),
            (single, Outcome::Discarded, single, Mode::Detection),
            (double, Outcome::Discarded, double, Mode::Detection),
            (good, Outcome::Accepted, good, Mode::Correction),
            (double, Outcome::Discarded, double, Mode::Detection),
            (single, Outcome::Discarded, single, Mode::Detection),
            (good, Outcome::Accepted, good, Mode::Correction),
        ];
        for (step, (mut header, outcome, after, mode)) in steps.into_iter().enumerate() {
            assert_eq!(receiver.receive(&mut header), outcome, "step {step}");
            assert_eq!((header, receiver.mode()), (after, mode), "step {step}");
        }
    }

    #[test]
    fn the_modes_are_those_of_the_table() {
        assert_eq!(
            Graph::<Mode>::new().to_string(),
            "Correction --Good--> Correction\n\
             Correction --SingleBit--> Detection\n\
             Correction --Bad--> Detection\n\
             Detection --Good--> Correction\n\
             Detection --SingleBit--> Detection\n\
             Detection --Bad--> Detection\n"
        );
    }
}
