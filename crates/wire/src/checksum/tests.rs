//! Vectors, and every path against an oracle that adds bytes one by one.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The definition, byte by byte: even offsets are high halves.
fn oracle(bytes: &[u8]) -> u16 {
    bytes.iter().enumerate().fold(0, |sum, (offset, &byte)| {
        let word = u16::from(byte) << if offset % 2 == 0 { 8 } else { 0 };
        let wide = u32::from(sum) + u32::from(word);
        if wide > 0xffff {
            (wide - 0xffff) as u16
        } else {
            wide as u16
        }
    })
}

/// Bytes without a pattern, many of them 0xff.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    barewire_units::Rng::from_seed(seed).fill_bytes(&mut bytes);
    bytes
        .iter_mut()
        .filter(|byte| **byte % 4 == 0)
        .for_each(|b| *b = 0xff);
    bytes
}

const IP_HEADER: [u8; 20] = [
    0x45, 0x00, 0x00, 0x30, 0x44, 0x22, 0x40, 0x00, 0x80, 0x06, 0x00, 0x00, 0x8c, 0x7c, 0x19, 0xac,
    0xae, 0x24, 0x1e, 0x2b,
];

#[test]
fn vectors() {
    let rfc1071 = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&rfc1071).value(), 0xddf2);
    assert_eq!(checksum(&rfc1071), 0x220d);
    assert_eq!(checksum(&IP_HEADER), 0x442e);
    let mut header = IP_HEADER;
    header[10..12].copy_from_slice(&0x442e_u16.to_be_bytes());
    assert!(sum(&header).is_valid());
    header[3] ^= 1;
    assert!(!sum(&header).is_valid());
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(sum(&[0xab]).value(), 0xab00);
}

/// RFC 1624, section 4: equation 4 of RFC 1141 gives 0xffff here.
#[test]
fn an_update_in_place_matches_rfc1624() {
    assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_lower_time_to_live_updates_the_header_in_place() {
    let mut header = IP_HEADER;
    header[8] -= 1;
    assert_eq!(updated(0x442e, 0x8006, 0x7f06), checksum(&header));
}

#[test]
fn every_length_and_alignment_matches_the_oracle() {
    const GUARD: u8 = 0x5a;
    let source = noise(400, 1);
    for len in 0..=300 {
        for align in 0..64 {
            let from = &source[align..align + len];
            let expected = oracle(from);
            assert_eq!(sum(from).value(), expected, "sum of {len} at {align}");
            let mut target = [GUARD; 430];
            let begin = (align * 7 + len) % 64;
            let copied = copy_and_sum(&mut target[begin..begin + len], from);
            assert_eq!(copied.value(), expected, "copy of {len} at {align}");
            assert_eq!(&target[begin..begin + len], from);
            assert!(target[..begin].iter().all(|&byte| byte == GUARD));
            assert!(target[begin + len..].iter().all(|&byte| byte == GUARD));
        }
    }
}

/// The largest sums: no lane may overflow.
#[test]
fn a_megabyte_of_ones_is_minus_zero() {
    let ones = vec![0xff; (1 << 20) + 1];
    let mut copy = vec![0; ones.len()];
    assert_eq!(sum(&ones[1..]).value(), 0xffff);
    assert_eq!(copy_and_sum(&mut copy, &ones).value(), oracle(&ones));
    assert_eq!(copy, ones);
    assert_eq!(sum(&vec![0; 70_000]).value(), 0);
}

#[test]
fn the_shorter_slice_says_how_much_is_copied() {
    let source = noise(200, 2);
    let mut short = [0; 99];
    assert_eq!(copy_and_sum(&mut short, &source), sum(&source[..99]));
    assert_eq!(short, source[..99]);
    let mut long = [7; 300];
    assert_eq!(copy_and_sum(&mut long, &source), sum(&source));
    assert!(long[..200] == source[..] && long[200..] == [7; 100]);
}

proptest! {
    #[test]
    fn fragments_of_any_length_combine(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        mut cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        run in 1_usize..700,
    ) {
        let mut cuts: Vec<usize> = cuts.iter_mut().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut updated = Sum::default();
        let mut target = vec![0; bytes.len()];
        for pair in cuts.windows(2) {
            let (from, to) = (&bytes[pair[0]..pair[1]], &mut target[pair[0]..pair[1]]);
            updated.update_with_copy(to, from);
        }
        prop_assert_eq!(&target, &bytes);
        prop_assert_eq!(updated, sum(&bytes));
        prop_assert_eq!(updated.value(), oracle(&bytes));
        // Combining from the back gives the same.
        let from_back = cuts.windows(2).rev().fold(Sum::default(), |after, pair| {
            sum(&bytes[pair[0]..pair[1]]).combine(after)
        });
        prop_assert_eq!(from_back, updated);
        // So do the runs that long data are cut into.
        prop_assert_eq!(sum_in_runs(&bytes, run), updated);
        target.fill(0);
        prop_assert_eq!(copy_and_sum_in_runs(&mut target, &bytes, run), updated);
        prop_assert_eq!(&target, &bytes);
    }

    #[test]
    fn an_update_in_place_equals_a_new_sum(
        mut words in proptest::collection::vec(any::<u16>(), 2..40),
        which in any::<prop::sample::Index>(),
        new in any::<u16>(),
    ) {
        // A header that is nothing but zeros has no sum to go on from.
        words.push(0x4500);
        let which = which.index(words.len() - 1);
        let bytes = |words: &[u16]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        let before = checksum(&bytes(&words));
        let old = core::mem::replace(&mut words[which], new);
        prop_assert_eq!(updated(before, old, new), checksum(&bytes(&words)));
    }
}
