//! The vectors, the slow oracle, and what errors do.

mod elastic;
mod receive;
mod shown;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// The vector of docs/sources/vectors.md.
const NIBBLES: &str = "1111001001 1010010101 0101001011 0111001111 \
                       1001010011 1011010111 1101011011 1110011101";
const LEVELS: &str = "1010001110110001100110011100100101110101000110001011011001010110\
                      0100101011101001";
const BYTES: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

fn bits(text: &str) -> Vec<bool> {
    let digits = text.chars().filter(|bit| *bit != ' ');
    digits.map(|bit| bit == '1').collect()
}

/// Bits as bytes, the last one filled up with `fill`.
fn packed(bits: &[bool], fill: bool) -> Vec<u8> {
    let byte = |chunk: &[bool]| {
        let bit = |i: usize| chunk.get(i).copied().unwrap_or(fill);
        (0..8).fold(0, |byte, i| byte << 1 | u8::from(bit(i)))
    };
    bits.chunks(8).map(byte).collect()
}

/// Blocks as levels, bit by bit, from a low line.
fn levels_of(blocks: impl IntoIterator<Item = u8>) -> Vec<bool> {
    let mut level = false;
    let mut levels = Vec::new();
    for block in blocks {
        for bit in (0..5).rev() {
            level ^= block >> bit & 1 == 1;
            levels.push(level);
        }
    }
    levels
}

fn data_blocks(data: &[u8]) -> Vec<u8> {
    data.iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .map(|nibble| Symbol::Data(nibble).to_block())
        .collect()
}

#[test]
fn published_vector() {
    let blocks = data_blocks(&BYTES);
    let nrz: Vec<bool> = blocks
        .iter()
        .flat_map(|block| (0..5).rev().map(move |bit| block >> bit & 1 == 1))
        .collect();
    assert_eq!(nrz, bits(NIBBLES));
    assert_eq!(levels_of(blocks), bits(LEVELS));
    let mut line = [0; 10];
    assert_eq!(Encoder::new().data(&BYTES, &mut line), Ok(10));
    assert_eq!(line.to_vec(), packed(&bits(LEVELS), false));
    let mut data = [0; 8];
    let read = Decoder::new().data(&line, &mut data, |fault| panic!("{fault:?}"));
    assert_eq!((read, data), (Ok(8), BYTES));
}

#[test]
fn every_block_has_one_symbol() {
    let mut illegal = Vec::new();
    for block in 0..32 {
        let symbol = Symbol::from_block(block);
        assert_eq!(symbol.to_block(), block);
        if let Symbol::Illegal(block) = symbol {
            illegal.push(block);
        }
    }
    assert_eq!(illegal, [1, 2, 3, 5, 6, 8, 12, 16]);
}

fn window(one: u8, two: u8, late: u32) -> u8 {
    (((u16::from(one) << 5 | u16::from(two)) >> (5 - late)) & 0x1f) as u8
}

/// What [`SYN`] promises: it does not come about across two blocks, and read at a wrong
/// offset it leaves an illegal block on one side of it.
#[test]
fn syn_cannot_be_mistaken() {
    let legal = |block: u8| block == GAP || matches!(Symbol::from_block(block), Symbol::Data(_));
    let others: Vec<u8> = (0..32).filter(|&block| legal(block)).collect();
    assert_eq!(others.len(), 17);
    for (&before, &behind) in others
        .iter()
        .flat_map(|one| others.iter().map(move |two| (one, two)))
    {
        for late in 1..5 {
            assert_ne!(window(before, behind, late), SYN);
            let around = [window(before, SYN, late), window(SYN, behind, late)];
            assert!(
                around.iter().any(|&block| !legal(block)),
                "{before:05b} {behind:05b} {late}"
            );
            assert!(!around.contains(&SYN));
        }
    }
    // J, the natural choice, is no such block.
    assert_eq!(
        window(Symbol::Data(0xe).to_block(), Symbol::Data(1).to_block(), 1),
        0b11000
    );
}

/// All pairs of blocks where data is expected: exactly the wrong ones are reported.
#[test]
fn decoder_names_every_wrong_block() {
    for filler in [0, 3, 7, 20] {
        for pair in 0..1024_u16 {
            let pair = [(pair >> 5) as u8, (pair & 0x1f) as u8];
            let mut blocks = data_blocks(&vec![0x5a; filler]);
            blocks.extend(pair);
            blocks.extend(data_blocks(&[0x5a; 12]));
            let line = packed(&levels_of(blocks), false);
            let mut data = [0; 64];
            let mut faults = Vec::new();
            let read = Decoder::new()
                .data(&line, &mut data, |fault| faults.push(fault))
                .expect("room");
            assert!(read >= filler + 13);
            let expected: Vec<CodeFault> = (0..2)
                .map(|i| CodeFault {
                    first_bit: (filler * 10 + i * 5) as u64,
                    symbol: Symbol::from_block(pair[i]),
                })
                .filter(|fault| !matches!(fault.symbol, Symbol::Data(_)))
                .collect();
            // What fills the last byte may be wrong too.
            faults.retain(|fault| fault.first_bit < (filler as u64 + 13) * 10);
            assert_eq!(faults, expected);
        }
    }
}

#[test]
fn full_buffers_are_refused_whole() {
    let mut encoder = Encoder::new();
    let before = encoder.clone();
    let error = encoder.data(&[0; 8], &mut [0; 9]).unwrap_err();
    assert_eq!((error.field, error.first_bit), ("line", 72));
    assert!(encoder.gap(8, &mut [0; 4]).is_err());
    assert_eq!(encoder, before);
    let mut decoder = Decoder::new();
    assert!(decoder.data(&[0; 10], &mut [0; 7], |_| ()).is_err());
    assert_eq!(decoder, Decoder::new());
    assert_eq!(decoder.data_bytes(usize::MAX), usize::MAX / 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The fast coder gives what the slow one gives, however its input is cut, and the
    /// decoder gives it back, however that is cut.
    #[test]
    fn coders_agree_with_the_oracle(
        parts in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..70), prop::option::of(0_u8..32)), 0..5),
        cuts in prop::collection::vec(0_usize..60, 0..8),
    ) {
        let mut blocks = Vec::new();
        let mut encoder = Encoder::new();
        let mut line = vec![0; 1024];
        let mut at = 0;
        for (data, block) in &parts {
            at += encoder.data(data, &mut line[at..]).expect("room");
            blocks.extend(data_blocks(data));
            if let Some(block) = *block {
                at += encoder.block(block, &mut line[at..]).expect("room");
                blocks.push(block);
            }
        }
        at += encoder.finish(&mut line[at..]).expect("room");
        line.truncate(at);
        let levels = levels_of(blocks.iter().copied());
        prop_assert_eq!(&line, &packed(&levels, levels.last().copied().unwrap_or(false)));

        let mut decoder = Decoder::new();
        let mut data = vec![0; 1024];
        let mut faults = Vec::new();
        let (mut from, mut read) = (0, 0);
        for cut in cuts.into_iter().chain([line.len()]) {
            let to = (from + cut).min(line.len());
            read += decoder
                .data(&line[from..to], &mut data[read..], |fault| faults.push(fault))
                .expect("room");
            from = to;
        }
        for (i, pair) in blocks.chunks_exact(2).enumerate() {
            let nibble = |block| match Symbol::from_block(block) {
                Symbol::Data(nibble) => nibble,
                _ => 0,
            };
            prop_assert_eq!(data[i], nibble(pair[0]) << 4 | nibble(pair[1]));
        }
        let wrong = blocks.iter().enumerate().filter_map(|(i, &block)| {
            let symbol = Symbol::from_block(block);
            let wrong = !matches!(symbol, Symbol::Data(_));
            wrong.then_some(CodeFault { first_bit: i as u64 * 5, symbol })
        });
        let whole = blocks.len() as u64 / 2 * 10;
        faults.retain(|fault| fault.first_bit < whole);
        prop_assert_eq!(faults, wrong.filter(|fault| fault.first_bit < whole).collect::<Vec<_>>());
        prop_assert_eq!(read, line.len() * 8 / 10);
    }
}
