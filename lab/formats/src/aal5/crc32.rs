//! CRC-32 of AAL5: x³²+x²⁶+x²³+x²²+x¹⁶+x¹²+x¹¹+x¹⁰+x⁸+x⁷+x⁵+x⁴+x²+x+1, most significant
//! bit first, register of ones, complemented at the end (CRC-32/BZIP2 in catalogues).
//!
//! With the feature `simd` the crate `crc-fast` does it with carry-less multiplication,
//! else the crate `crc` with 16 tables.
//! Source: itu-i363-5, CRC; check("123456789") = FC891918.

/// What the register holds after a whole good PDU, its check code included.
pub const RESIDUE: u32 = 0xc704_dd7b;

/// What [`Crc32::finish`] gives over a whole good PDU: the residue complemented. The
/// Jetstream card appends this to a good PDU that it receives.
pub const GOOD: u32 = !RESIDUE;

#[cfg(feature = "simd")]
type Engine = crc_fast::Digest;
#[cfg(not(feature = "simd"))]
type Engine = crc::Digest<'static, u32, crc::Table<16>>;

#[cfg(not(feature = "simd"))]
static TABLES: crc::Crc<u32, crc::Table<16>> =
    crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_BZIP2);

/// The check code over `bytes`, which are all there is: quicker than in pieces.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    #[cfg(feature = "simd")]
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Bzip2, bytes) as u32;
    #[cfg(not(feature = "simd"))]
    let crc = TABLES.checksum(bytes);
    crc
}

/// A check code over bytes that come in pieces.
#[derive(Clone)]
pub struct Crc32(Engine);

impl Crc32 {
    /// Over no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        #[cfg(feature = "simd")]
        let engine = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Bzip2);
        #[cfg(not(feature = "simd"))]
        let engine = TABLES.digest();
        Self(engine)
    }

    /// Over `bytes` too. Long pieces are much faster than many short ones.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The check code over everything so far.
    #[must_use]
    pub fn finish(self) -> u32 {
        #[cfg(feature = "simd")]
        let crc = self.0.finalize() as u32;
        #[cfg(not(feature = "simd"))]
        let crc = self.0.finalize();
        crc
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, from the definition.
    fn plain(bytes: &[u8]) -> u32 {
        let mut register = u32::MAX;
        for byte in bytes {
            register ^= u32::from(*byte) << 24;
            for _ in 0..8 {
                let feedback = if register >> 31 == 1 { 0x04c1_1db7 } else { 0 };
                register = (register << 1) ^ feedback;
            }
        }
        !register
    }

    fn fast(pieces: &[&[u8]]) -> u32 {
        let mut crc = Crc32::new();
        pieces.iter().for_each(|piece| crc.update(piece));
        crc.finish()
    }

    #[test]
    fn the_check_value_stands() {
        assert_eq!(fast(&[b"123456789"]), 0xfc89_1918);
        assert_eq!(plain(b"123456789"), 0xfc89_1918);
    }

    #[test]
    fn every_length_and_every_cut_agrees_with_the_definition() {
        let mut bytes = [0; 700];
        barewire_units::Rng::from_seed(5).fill_bytes(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(crc32(&bytes[..len]), plain(&bytes[..len]), "{len}");
            let (first, second) = bytes[..len].split_at(len * 7 % (len + 1));
            assert_eq!(fast(&[first, second]), plain(&bytes[..len]), "{len}");
        }
    }
}
