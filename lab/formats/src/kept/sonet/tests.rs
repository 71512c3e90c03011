//! From the framer through a line that does what it likes to the deframer.

use std::boxed::Box;
use std::string::ToString;
use std::vec::Vec;

use barewire_units::{Graph, Rng};
use proptest::prelude::*;

use super::*;
use crate::atm::delineation::Limits;
use crate::atm::tests::Collector;
use crate::atm::{CELL_BYTES, Cell, HeaderRepr, Interface, PayloadType, Vc};
use barewire_wire::tree::Sink;

mod faults;
mod figures;
mod shown;

type Bytes = [u8; CELL_BYTES];
const STS3C: usize = STS3C_FRAME_BYTES;
const STS12C: usize = STS12C_FRAME_BYTES;

/// Cells on their way into frames, `load` cells of 8 places.
#[derive(Clone)]
struct Sender<const FRAME_BYTES: usize> {
    framer: Framer<FRAME_BYTES>,
    rng: Rng,
    load: u64,
    sent: Vec<Bytes>,
}

impl<const FRAME_BYTES: usize> Sender<FRAME_BYTES> {
    fn new(seed: u64, load: u64) -> Self {
        Self {
            framer: Framer::new(),
            rng: Rng::from_seed(seed),
            load,
            sent: Vec::new(),
        }
    }

    /// The next frames, as on the line.
    fn frames(&mut self, count: usize) -> Vec<u8> {
        let mut line = Vec::new();
        for _ in 0..count {
            let mut frame = Box::new([0xaa; FRAME_BYTES]);
            let (rng, load, sent) = (&mut self.rng, self.load, &mut self.sent);
            self.framer.emit(&mut frame, || {
                if !rng.ratio(load, 8) {
                    return None;
                }
                let cell = numbered_cell(rng, sent.len() as u16);
                sent.push(cell);
                Some(cell)
            });
            line.extend_from_slice(&frame[..]);
        }
        line
    }
}

fn numbered_cell(rng: &mut Rng, vci: u16) -> Bytes {
    let mut cell = Cell::new_unchecked([0; CELL_BYTES]);
    rng.fill_bytes(cell.payload_mut());
    let vc = Vc { vpi: 5, vci };
    HeaderRepr::user(vc, PayloadType::USER).emit(&mut cell, Interface::Uni);
    cell.into_inner()
}

fn deframer<const FRAME_BYTES: usize>() -> Deframer<FRAME_BYTES> {
    Deframer::new(Limits::default())
}

fn receive<const FRAME_BYTES: usize>(
    deframer: &mut Deframer<FRAME_BYTES>,
    bytes: &[u8],
) -> Vec<Bytes> {
    let mut received = Vec::new();
    deframer.push(bytes, |cell| received.push(*cell));
    received
}

fn receive_in_pieces<const FRAME_BYTES: usize>(
    deframer: &mut Deframer<FRAME_BYTES>,
    rng: &mut Rng,
    bytes: &[u8],
) -> Vec<Bytes> {
    let mut received = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + rng.index(rest.len().min(3000)));
        received.extend(receive(deframer, piece));
        rest = after;
    }
    received
}

/// A sender, a deframer in frame with its cells found, and the cells so far.
fn running<const FRAME_BYTES: usize>(
    seed: u64,
) -> (Sender<FRAME_BYTES>, Deframer<FRAME_BYTES>, Vec<Bytes>) {
    let (mut sender, mut deframer) = (Sender::new(seed, 8), deframer());
    let received = receive(&mut deframer, &sender.frames(8));
    assert_eq!(deframer.alarms(), Alarms::default());
    assert!(!received.is_empty());
    (sender, deframer, received)
}

/// Whether `received` is what was sent from some cell on, but for cells still on their way.
fn is_unbroken(sent: &[Bytes], received: &[Bytes]) -> bool {
    let first = sent.iter().position(|cell| Some(cell) == received.first());
    let Some(first) = first else {
        return received.is_empty();
    };
    let rest = &sent[first..];
    rest.starts_with(received) && rest.len() - received.len() <= 2
}

/// The line, some bits later.
fn shifted(line: &[u8], bits: u32) -> Vec<u8> {
    let later = |pair: &[u8]| (u16::from_be_bytes([pair[0], pair[1]]) << bits >> 8) as u8;
    line.windows(2).map(later).collect()
}

fn carries_cells<const FRAME_BYTES: usize>() {
    let (mut sender, mut deframer, mut received) = running::<FRAME_BYTES>(7);
    received.extend(receive(&mut deframer, &sender.frames(4)));
    assert!(is_unbroken(&sender.sent, &received));
    let stats = deframer.stats();
    let errors = (stats.b1_errors, stats.b2_errors, stats.path.b3_errors);
    assert_eq!(errors, (0, 0, 0));
    // The first frame is found by its pattern, the second confirms it and is used.
    assert_eq!((stats.frames, stats.concatenation_errors), (11, 0));
    assert_eq!((stats.path.jumps, stats.path.cells.found), (1, 1));
    assert_eq!(stats.path.cells.cells, received.len() as u64);
}

#[test]
fn sts3c_carries_cells() {
    carries_cells::<STS3C>();
}

#[test]
fn sts12c_carries_cells() {
    carries_cells::<STS12C>();
}

#[test]
fn the_states_are_those_of_the_table() {
    assert_eq!(
        Graph::<Framing>::new().to_string(),
        "Hunting --Pattern--> Found\n\
         Found --Pattern--> InFrame\n\
         Found --NoPattern--> Hunting\n\
         InFrame --Lost--> Hunting\n"
    );
}

#[test]
fn an_idle_line_delivers_nothing() {
    let (mut sender, mut deframer) = (Sender::<STS3C>::new(1, 0), deframer::<STS3C>());
    assert_eq!(receive(&mut deframer, &sender.frames(12)).len(), 0);
    let path = deframer.stats().path;
    assert_eq!(path.idle_cells, path.cells.cells);
    assert!(path.idle_cells > 300);
}

/// Through both ends of the range, in both directions, and by jumps.
#[test]
fn no_cell_is_lost_where_the_pointer_moves() {
    let (mut sender, mut deframer, mut received) = running::<STS3C>(3);
    let changes = [
        PointerChange::Jump(781),
        PointerChange::Increment,
        PointerChange::Increment,
        PointerChange::Increment,
        PointerChange::Decrement,
        PointerChange::Decrement,
        PointerChange::Jump(0),
        PointerChange::Jump(522),
        PointerChange::Increment,
        PointerChange::Decrement,
        PointerChange::Decrement,
    ];
    for change in changes {
        assert!(sender.framer.change_pointer(change));
        received.extend(receive(&mut deframer, &sender.frames(1)));
        for _ in 0..POINTER_REST_FRAMES {
            assert!(!sender.framer.change_pointer(change), "too early");
            received.extend(receive(&mut deframer, &sender.frames(1)));
        }
    }
    assert!(!sender.framer.change_pointer(PointerChange::Jump(783)));
    assert!(is_unbroken(&sender.sent, &received));
    let path = deframer.stats().path;
    assert_eq!((path.increments, path.decrements, path.jumps), (4, 4, 4));
    assert_eq!((path.b3_errors, path.cells.discarded), (0, 0));
}

/// Errors that one direction sees and defects that it has come back in the other.
#[test]
fn the_other_end_is_told() {
    let (mut there, mut there_end, _) = running::<STS3C>(1);
    let (mut back, mut back_end, _) = running::<STS3C>(2);
    assert_eq!(there_end.take_report(), Report::NONE);
    let mut line = there.frames(4);
    for byte in [100, 101, 102, 900, 1500] {
        line[STS3C + 1000 + byte] ^= 0x01;
    }
    receive(&mut there_end, &line);
    let report = there_end.take_report();
    assert_eq!(report.b2_errors, there_end.stats().b2_errors as u32);
    assert!(report.b2_errors > 0 && report.b3_errors > 0);
    assert_eq!(there_end.take_report(), Report::NONE);

    back.framer.report(report);
    receive(&mut back_end, &back.frames(3));
    let stats = back_end.stats();
    assert_eq!(stats.far_b2_errors, u64::from(report.b2_errors));
    assert_eq!(stats.path.far_b3_errors, u64::from(report.b3_errors));
    assert_eq!(back_end.alarms(), Alarms::default());

    back.framer.report(deframer::<STS3C>().take_report());
    receive(&mut back_end, &back.frames(3));
    let expected = Alarms {
        far_line_defect: true,
        far_path_defect: true,
        ..Alarms::default()
    };
    assert_eq!(back_end.alarms(), expected);
    back.framer.report(Report::NONE);
    receive(&mut back_end, &back.frames(3));
    assert_eq!(back_end.alarms(), Alarms::default());
}

/// More errors than a frame has room to report are reported later.
#[test]
fn reports_are_not_cut_short() {
    let (mut sender, mut deframer, _) = running::<STS3C>(2);
    sender.framer.report(Report {
        b2_errors: 100,
        b3_errors: 30,
        ..Report::NONE
    });
    receive(&mut deframer, &sender.frames(1));
    let stats = deframer.stats();
    assert_eq!((stats.far_b2_errors, stats.path.far_b3_errors), (24, 8));
    receive(&mut deframer, &sender.frames(6));
    let stats = deframer.stats();
    assert_eq!((stats.far_b2_errors, stats.path.far_b3_errors), (100, 30));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cells_come_out_wherever_one_begins_to_listen(
        seed: u64,
        load in 1_u64..=8,
        skip in 0..STS3C,
        bits in 0_u32..8,
    ) {
        let (mut sender, mut deframer) = (Sender::<STS3C>::new(seed, load), deframer::<STS3C>());
        let line = shifted(&sender.frames(16)[skip..], bits);
        let mut rng = Rng::from_seed(seed);
        let received = receive_in_pieces(&mut deframer, &mut rng, &line);
        // `shifted` loses the last byte, and with it the last frame.
        let sent = &sender.sent;
        let first = sent.iter().position(|cell| Some(cell) == received.first());
        prop_assert!(sent[first.expect("some cells")..].starts_with(&received));
        prop_assert!(received.len() as u64 > 20 * load);
        prop_assert_eq!(deframer.stats().b1_errors, 0);
    }

    #[test]
    fn any_moves_at_any_time_lose_nothing(seed: u64, moves in proptest::collection::vec(0..1600_u16, 1..8)) {
        let (mut sender, mut deframer, mut received) = running::<STS3C>(seed);
        let mut rng = Rng::from_seed(seed);
        for step in moves {
            sender.framer.change_pointer(match step {
                0..783 => PointerChange::Jump(step),
                783..1200 => PointerChange::Increment,
                _ => PointerChange::Decrement,
            });
            let line = sender.frames(4);
            received.extend(receive_in_pieces(&mut deframer, &mut rng, &line));
        }
        prop_assert!(is_unbroken(&sender.sent, &received));
        prop_assert_eq!(deframer.stats().path.b3_errors, 0);
    }
}
