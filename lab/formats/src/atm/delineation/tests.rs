//! Finding cells in streams that begin anywhere, and losing them.

use std::string::ToString;
use std::vec::Vec;

use barewire_units::{Graph, Rng};
use proptest::prelude::*;

use super::*;
use crate::atm::scrambler::Scrambler;
use crate::atm::{HeaderRepr, Interface, PayloadType, Vc};

type Bytes = [u8; CELL_BYTES];

/// Cells with numbered headers and random payloads.
fn cells(rng: &mut Rng, count: u16) -> Vec<Bytes> {
    let cell = |vci| {
        let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
        rng.fill_bytes(cell.payload_mut());
        let vc = Vc { vpi: 1, vci };
        HeaderRepr::user(vc, PayloadType::USER).emit(&mut cell, Interface::Uni);
        cell.into_inner()
    };
    (32..32 + count).map(cell).collect()
}

/// The cells as they are on the line.
fn scrambled(cells: &[Bytes]) -> Vec<u8> {
    let mut scrambler = Scrambler::new();
    let scramble = |cell: &Bytes| {
        let mut cell = Cell::new_unchecked(*cell);
        scrambler.scramble(cell.payload_mut());
        cell.into_inner()
    };
    cells.iter().flat_map(scramble).collect()
}

fn receiver() -> Delineator {
    Delineator::new(Limits::default(), Payloads::Scrambled)
}

fn receive(receiver: &mut Delineator, mut bytes: &[u8]) -> Vec<Bytes> {
    let mut received = Vec::new();
    while let Some(cell) = receiver.next_cell(&mut bytes) {
        received.push(*cell);
    }
    received
}

/// As [`receive`], in pieces of random length.
fn receive_in_pieces(receiver: &mut Delineator, rng: &mut Rng, mut bytes: &[u8]) -> Vec<Bytes> {
    let mut received = Vec::new();
    while !bytes.is_empty() {
        let piece_bytes = 1 + rng.index(bytes.len().min(200));
        let (piece, rest) = bytes.split_at(piece_bytes);
        received.extend(receive(receiver, piece));
        bytes = rest;
    }
    received
}

fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> + '_ {
    let of_byte = |&byte| (0..8).map(move |i| byte & 0x80 >> i != 0);
    bytes.iter().flat_map(of_byte)
}

#[test]
fn the_states_are_those_of_the_table() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Hunt --Good--> Presync\n\
         Presync --Bad--> Hunt\n\
         Presync --DeltaGood--> Sync\n\
         Sync --AlphaBad--> Hunt\n"
    );
}

#[test]
fn the_first_cell_out_is_the_one_that_confirms() {
    let sent = cells(&mut Rng::from_seed(1), 20);
    let mut receiver = receiver();
    let line = scrambled(&sent);
    assert_eq!(receive(&mut receiver, &line[..5]), [[0; CELL_BYTES]; 0]);
    assert_eq!(receiver.state(), State::Presync);
    let received = receive(&mut receiver, &line[5..]);
    assert_eq!(received, sent[usize::from(DELTA)..]);
    let expected = Stats {
        cells: 14,
        found: 1,
        ..Stats::default()
    };
    assert_eq!(receiver.stats(), expected);
}

/// Sent cells, and a receiver that is in Sync and has been given the first ten.
fn in_sync(count: u16) -> (Vec<Bytes>, Vec<u8>, Delineator) {
    let sent = cells(&mut Rng::from_seed(2), count);
    let mut line = scrambled(&sent);
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, &line[..10 * CELL_BYTES]).len(), 4);
    line.drain(..10 * CELL_BYTES);
    (sent[10..].to_vec(), line, receiver)
}

#[test]
fn a_lone_wrong_bit_is_put_right_and_the_next_is_not() {
    let (sent, mut line, mut receiver) = in_sync(20);
    for cell in [1, 3, 4] {
        line[cell * CELL_BYTES + 2] ^= 0x04;
    }
    let mut expected = sent;
    expected.remove(4);
    assert_eq!(receive(&mut receiver, &line), expected);
    let stats = receiver.stats();
    assert_eq!((stats.corrected, stats.discarded, stats.lost), (2, 1, 0));
}

#[test]
fn cells_are_lost_after_alpha_bad_headers_and_not_before() {
    for (bad, lost) in [(ALPHA - 1, 0), (ALPHA, 1)] {
        let (sent, mut line, mut receiver) = in_sync(40);
        for cell in 1..=usize::from(bad) {
            line[cell * CELL_BYTES] ^= 0x81;
        }
        let received = receive(&mut receiver, &line);
        assert_eq!(receiver.stats().lost, lost);
        assert_eq!(receiver.state(), State::Sync);
        let missing = usize::from(bad) + lost as usize * usize::from(DELTA);
        assert_eq!(received[0], sent[0]);
        assert_eq!(received[1..], sent[1 + missing..]);
    }
}

/// Corrected headers are handed over, but speak for lost cells like any bad one.
#[test]
fn corrected_headers_count_as_bad() {
    let (sent, mut line, mut receiver) = in_sync(30);
    for cell in 0..usize::from(ALPHA) {
        line[cell * CELL_BYTES] ^= 0x01;
    }
    let received = receive(&mut receiver, &line);
    let stats = receiver.stats();
    assert_eq!((stats.corrected, stats.lost), (1, 1));
    assert_eq!(received[0], sent[0]);
    assert_eq!(received[1..], sent[usize::from(ALPHA + DELTA)..]);
}

/// Cells that are found again are corrected from the first one on, whatever was before.
#[test]
fn sync_begins_in_correction_mode() {
    let (sent, mut line, mut receiver) = in_sync(40);
    for cell in 0..usize::from(ALPHA) {
        line[cell * CELL_BYTES] ^= 0x81;
    }
    let confirming = usize::from(ALPHA + DELTA);
    line[(confirming + 1) * CELL_BYTES] ^= 0x01;
    assert_eq!(receive(&mut receiver, &line), sent[confirming..]);
    assert_eq!(receiver.stats().corrected, 1);
}

/// A cell may begin within five bytes that turned out to be no header.
#[test]
fn the_hunt_goes_on_within_a_refuted_header() {
    let sent = cells(&mut Rng::from_seed(4), 20);
    let mut line = sent[0].to_vec();
    line.push(0x99);
    line.extend(sent.concat());
    let mut receiver = Delineator::new(Limits::default(), Payloads::Plain);
    assert_eq!(receive(&mut receiver, &line), sent[usize::from(DELTA)..]);
}

#[test]
fn a_restart_forgets_half_a_byte() {
    let sent = cells(&mut Rng::from_seed(5), 20);
    let line = scrambled(&sent);
    let mut receiver = receiver();
    bits(&line).take(1003).for_each(|bit| {
        receiver.push_bit(bit);
    });
    assert_eq!(receiver.state(), State::Presync);
    receiver.restart();
    let mut received = Vec::new();
    for bit in bits(&line) {
        received.extend(receiver.push_bit(bit).copied());
    }
    assert_eq!(received, sent[usize::from(DELTA)..]);
}

#[test]
fn a_lost_and_a_spare_byte_are_survived() {
    let (sent, mut line, mut receiver) = in_sync(80);
    line.remove(5 * CELL_BYTES + 20);
    line.insert(45 * CELL_BYTES + 20, 0);
    let received = receive(&mut receiver, &line);
    assert_eq!(receiver.stats().lost, 2);
    // Nothing is handed over that was not sent, but for payloads around the slips.
    let headers = |cells: &[Bytes]| cells.iter().map(|c| c[..5].to_vec()).collect::<Vec<_>>();
    let sent_headers = headers(&sent);
    assert!(headers(&received).iter().all(|h| sent_headers.contains(h)));
    assert_eq!(received.last(), sent.last());
    assert_eq!(received[..5], sent[..5]);
}

#[test]
fn a_restart_hunts_again() {
    let (sent, line, mut receiver) = in_sync(30);
    receive(&mut receiver, &line[..100]);
    receiver.restart();
    assert_eq!(receiver.state(), State::Hunt);
    let received = receive(&mut receiver, &line[2 * CELL_BYTES..]);
    assert_eq!(received, sent[2 + usize::from(DELTA)..]);
    assert_eq!(receiver.stats().lost, 1);
}

#[test]
fn limits_are_parameters() {
    let sent = cells(&mut Rng::from_seed(3), 4);
    let limits = Limits { alpha: 1, delta: 0 };
    let mut receiver = Delineator::new(limits, Payloads::Plain);
    let mut line = sent.concat();
    line[3 * CELL_BYTES] ^= 0x81;
    assert_eq!(receive(&mut receiver, &line), sent[1..3]);
    assert_eq!(receiver.stats().lost, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever stands before, the cells come out from some cell on, and none is missing after it.
    #[test]
    fn cells_are_found_from_any_byte(seed: u64, offset in 0_usize..200) {
        let mut rng = Rng::from_seed(seed);
        let sent = cells(&mut rng, 60);
        let mut line = std::vec![0; offset];
        rng.fill_bytes(&mut line);
        line.extend(scrambled(&sent));
        let mut receiver = receiver();
        let received = receive_in_pieces(&mut receiver, &mut rng, &line);
        prop_assert!(sent.ends_with(&received));
        prop_assert!(received.len() > 30, "found only {} cells", received.len());
        prop_assert_eq!(receiver.stats().cells, received.len() as u64);
    }

    #[test]
    fn cells_are_found_from_any_bit(seed: u64, skip in 0_usize..424) {
        let sent = cells(&mut Rng::from_seed(seed), 100);
        let line = scrambled(&sent);
        let mut receiver = receiver();
        let mut received = Vec::new();
        for bit in bits(&line).skip(skip) {
            received.extend(receiver.push_bit(bit).copied());
        }
        prop_assert!(sent.ends_with(&received));
        prop_assert!(received.len() > 50, "found only {} cells", received.len());
    }

    #[test]
    fn anything_in_any_pieces_gives_the_same(seed: u64, wrong in 0_u64..40) {
        let mut rng = Rng::from_seed(seed);
        let mut line = scrambled(&cells(&mut rng, 40));
        for _ in 0..wrong {
            let at = rng.index(line.len());
            line[at] = rng.next_u64() as u8;
        }
        let (mut whole, mut pieces) = (receiver(), receiver());
        let received = receive(&mut whole, &line);
        prop_assert_eq!(receive_in_pieces(&mut pieces, &mut rng, &line), received);
        prop_assert_eq!(whole.stats(), pieces.stats());
    }
}
