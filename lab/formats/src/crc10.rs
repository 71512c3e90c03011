//! CRC-10 of a SAR-PDU: x¹⁰+x⁹+x⁵+x⁴+x+1 over the 374 bits before the code, register of
//! zeros; the remainder over all 384 bits of a good PDU is zero.
//!
//! 374 bits are no whole bytes, but 384 are: both directions run the same 48 bytes
//! through the 16 tables of the crate `crc`, with the code's bits taken as zero where it
//! is still wanted. That gives the code times x¹⁰; two small tables divide it again.
//! Source: itu-i363-3, SAR-PDU; check("123456789") = 199.

use crc::{CRC_10_ATM, Crc, Table};

static TABLES: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_10_ATM);

/// The generator, x¹⁰ included.
const GENERATOR: u16 = 0x633;
const HIGH: [u16; 32] = divided(5);
const LOW: [u16; 32] = divided(0);

/// Of each five bits at `shift`: what they leave when divided by x¹⁰.
const fn divided(shift: u32) -> [u16; 32] {
    let mut table = [0; 32];
    let mut bits = 0;
    while bits < 32 {
        let mut value = (bits as u16) << shift;
        let mut step = 0;
        while step < 10 {
            // The generator ends in 1, so adding it makes any value divisible by x.
            value = if value & 1 == 1 {
                value ^ GENERATOR
            } else {
                value
            } >> 1;
            step += 1;
        }
        table[bits] = value;
        bits += 1;
    }
    table
}

/// The check code of a SAR-PDU. What stands in the code's own bits does not matter.
#[must_use]
pub fn crc10(pdu: &[u8; 48]) -> u16 {
    let found = u16::from_be_bytes([pdu[46], pdu[47]]) & 0x3ff;
    // The whole PDU is divisible by the generator but for the wrong code in its last bits.
    found ^ divide(TABLES.checksum(pdu))
}

/// True where the remainder over the whole SAR-PDU is zero.
#[must_use]
pub fn crc10_is_good(pdu: &[u8; 48]) -> bool {
    TABLES.checksum(pdu) == 0
}

const fn divide(product: u16) -> u16 {
    HIGH[(product >> 5) as usize & 31] ^ LOW[product as usize & 31]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The remainder of the first `bit_count` bits times x¹⁰, bit by bit.
    fn plain(bytes: &[u8], bit_count: usize) -> u16 {
        let mut register = 0;
        for bit in 0..bit_count {
            let input = u16::from(bytes[bit / 8] >> (7 - bit % 8)) & 1;
            let feedback = (register >> 9) ^ input == 1;
            register = (register << 1) & 0x3ff;
            if feedback {
                register ^= GENERATOR & 0x3ff;
            }
        }
        register
    }

    #[test]
    fn the_check_value_stands() {
        assert_eq!(TABLES.checksum(b"123456789"), 0x199);
        assert_eq!(plain(b"123456789", 72), 0x199);
    }

    #[test]
    fn it_is_the_remainder_of_374_bits() {
        let mut rng = barewire_units::Rng::from_seed(10);
        for _ in 0..500 {
            let mut pdu = [0; 48];
            rng.fill_bytes(&mut pdu);
            let code = plain(&pdu, 374);
            assert_eq!(crc10(&pdu), code);
            assert_eq!(
                crc10_is_good(&pdu),
                pdu[46] & 3 == (code >> 8) as u8 && pdu[47] == code as u8
            );
            pdu[46] = (pdu[46] & 0xfc) | (code >> 8) as u8;
            pdu[47] = code as u8;
            assert!(crc10_is_good(&pdu));
        }
    }

    /// The remainders of the 384 single bits are all different and not zero, so every
    /// single error and every double error is found.
    #[test]
    fn every_single_and_double_error_is_found() {
        let mut seen = [false; 1024];
        for bit in 0..384 {
            let mut pdu = [0; 48];
            pdu[bit / 8] = 0x80 >> (bit % 8);
            let remainder = usize::from(TABLES.checksum(&pdu));
            assert!(remainder != 0 && !seen[remainder], "bit {bit}");
            seen[remainder] = true;
        }
    }

    #[test]
    fn every_burst_of_up_to_ten_bits_is_found() {
        for first in 0..=384 - 10 {
            for burst in 1_u64..1024 {
                let mut pdu = [0_u8; 48];
                let at = (first / 8).min(40);
                let word = burst << (64 - 10 - (first - at * 8));
                pdu[at..at + 8].copy_from_slice(&word.to_be_bytes());
                assert!(!crc10_is_good(&pdu), "{burst:#x} at {first}");
            }
        }
    }
}
