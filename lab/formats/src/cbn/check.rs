//! CRC-12 of the frame: polynomial 0x80F, most significant bit first, register from zero.
//!
//! The generator is (x + 1)(x¹¹ + x² + 1), and the second factor is primitive with period
//! 2047: every error of one, two or any odd number of the 1184 bits is found, and every
//! burst of up to 12 bits. The tests prove it bit by bit.
//!
//! Source: cbn91 for the width and the coverage; polynomial, order and start are `OPEN`.

use crc::{Algorithm, Crc};

use super::{CRC_INIT, CRC_POLYNOMIAL};

/// `check` is the code of "123456789".
const ALGORITHM: Algorithm<u16> = Algorithm {
    width: 12,
    poly: CRC_POLYNOMIAL,
    init: CRC_INIT,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0xf5b,
    residue: 0,
};

static CRC12: Crc<u16> = Crc::<u16>::new(&ALGORITHM);

/// The CRC-12 of whole bytes.
#[must_use]
pub fn crc12(bytes: &[u8]) -> u16 {
    CRC12.checksum(bytes)
}

/// The CRC-12 of `bytes` without the first four bits.
///
/// A register that begins at zero does not see leading zeros, so they are made zero.
pub(super) fn crc12_behind_nibble(bytes: &[u8]) -> u16 {
    const { assert!(CRC_INIT == 0) };
    let Some((&first, rest)) = bytes.split_first() else {
        return CRC_INIT;
    };
    let mut digest = CRC12.digest();
    digest.update(&[first & 0x0f]);
    digest.update(rest);
    digest.finalize()
}
