//! The unit against a second one, with good and bad cells between them.

use super::*;
use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::aal34::{CpcsPdu, CpcsRepr, SarPdu, SarRepr, SegmentType};
use barewire_formats::atm::{PAYLOAD_BYTES, PayloadType};
use barewire_formats::jetstream::{CELL_FRAME_BYTES, VCS_PER_NODE};
use barewire_units::Rng;
use barewire_wire::{Error, Fault};
use proptest::prelude::*;
use std::vec;

const NOW: Instant = Instant::ORIGIN;
const ATM: Vc = Vc { vpi: 1, vci: 100 };

/// A unit with one connection, and its VC on the ring: node 3, number 7.
fn unit(adaptation: Adaptation) -> (Unit, Vc) {
    let mut unit = Unit::new(Config::new(Interface::Uni));
    let ring_vc = unit.connect(ATM, (3, 7), adaptation).expect("free");
    (unit, ring_vc)
}

/// A frame as a host sends it.
fn frame(ring_vc: Vc, pdu: &[u8]) -> Vec<u8> {
    let repr = FrameRepr::on_vc(3, ring_vc, pdu.len());
    let mut frame = vec![0; repr.buffer_len()];
    let mut view = Frame::new_unchecked(&mut frame);
    repr.emit(&mut view);
    view.pdu_mut().copy_from_slice(pdu);
    frame
}

fn aal5_pdu(payload: &[u8]) -> Vec<u8> {
    let repr = PduRepr {
        uu: 3,
        cpi: 0,
        payload_bytes: payload.len() as u16,
    };
    let mut pdu = vec![0; repr.buffer_len()];
    pdu[..payload.len()].copy_from_slice(payload);
    repr.emit(&mut Pdu::new_unchecked(&mut pdu));
    pdu
}

fn cpcs_pdu(payload: &[u8]) -> Vec<u8> {
    let repr = CpcsRepr::new(9, payload.len() as u16);
    let mut pdu = vec![0; repr.buffer_len()];
    pdu[4..4 + payload.len()].copy_from_slice(payload);
    repr.emit(&mut CpcsPdu::new_unchecked(&mut pdu));
    pdu
}

fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let mut payload = vec![0; bytes];
    Rng::from_seed(seed).fill_bytes(&mut payload);
    payload
}

fn cells(unit: &mut Unit, frame: &[u8]) -> Vec<[u8; CELL_BYTES]> {
    let cells = unit.handle_frame(frame).expect("a good frame");
    let count = cells.len();
    let cells: Vec<_> = cells.collect();
    assert_eq!(cells.len(), count);
    cells
}

/// Gives `cells` to the unit; all errors and all frames.
fn gather(unit: &mut Unit, cells: &[[u8; CELL_BYTES]]) -> (Vec<FromAtmError>, Vec<Vec<u8>>) {
    let errors = cells
        .iter()
        .filter_map(|cell| unit.handle_cell(NOW, cell).err())
        .collect();
    let frames: Vec<Vec<u8>> = core::iter::from_fn(|| unit.poll_frame()).collect();
    for frame in &frames {
        let view = Frame::new_checked(&frame[..]).expect("headers");
        FrameRepr::parse(&view).expect("a legal frame");
    }
    (errors, frames)
}

fn header(cell: &[u8; CELL_BYTES]) -> HeaderRepr {
    let bytes = Cell::new_unchecked(cell).header_bytes();
    HeaderRepr::from_bytes(&bytes, Interface::Uni).expect("a good HEC")
}

fn parse_aal5(frame: &[u8]) -> Result<PduRepr, Error> {
    PduRepr::parse(&Pdu::new_checked(&frame[OVERHEAD_BYTES..])?)
}

#[test]
fn a_cell_is_put_behind_a_constant_header() {
    let (mut unit, ring_vc) = unit(Adaptation::Cells);
    assert_eq!(
        ring_vc,
        Vc {
            vpi: 0,
            vci: 3 * 2_048 + 7
        }
    );
    for payload_type in (0..8).map(PayloadType::new) {
        let repr = HeaderRepr {
            gfc: 5,
            vc: ATM,
            payload_type,
            loss_priority: true,
        };
        let mut bytes = [0x5a; CELL_BYTES];
        Cell::new_unchecked(&mut bytes).set_header_bytes(repr.to_bytes(Interface::Uni));
        let (errors, frames) = gather(&mut unit, &[bytes]);
        assert!(errors.is_empty());
        let frame = &frames[0];
        assert_eq!(
            (frame.len(), &frame[..3]),
            (CELL_FRAME_BYTES, &[0x10, 0, 0][..])
        );
        let on_ring = HeaderRepr {
            gfc: 0,
            vc: ring_vc,
            ..repr
        };
        assert_eq!(frame[3..8], on_ring.to_bytes(Interface::Uni));
        assert_eq!(frame[8..], bytes[5..]);
        // And back: the same but for GFC, which has a meaning on its own link only.
        let back = cells(&mut unit, frame);
        assert_eq!(header(&back[0]), HeaderRepr { gfc: 0, ..repr });
        assert_eq!(back[0][5..], bytes[5..]);
    }
}

#[test]
fn sar_pdus_of_the_host_are_only_cut() {
    let (mut unit, ring_vc) = unit(Adaptation::Cells);
    let pdu = payload(3 * PAYLOAD_BYTES, 1);
    let cells = cells(&mut unit, &frame(ring_vc, &pdu));
    assert!(cells.iter().all(|cell| !header(cell).payload_type.auu()));
    assert!(cells.iter().flat_map(|cell| &cell[5..]).eq(&pdu));
}

#[test]
fn aal5_has_its_user_bit_on_the_last_cell_only() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    for pieces in [1, 2, 1_366] {
        let pdu = payload(pieces * PAYLOAD_BYTES, 1);
        let cells = cells(&mut unit, &frame(ring_vc, &pdu));
        let auu = |cell| header(cell).payload_type.auu();
        assert_eq!(cells.iter().position(auu), Some(pieces - 1));
        assert!(cells.iter().all(|cell| header(cell).vc == ATM));
        assert!(cells.iter().flat_map(|cell| &cell[5..]).eq(&pdu));
    }
    assert_eq!(unit.stats().cells_out, 1 + 2 + 1_366);
}

#[test]
fn congestion_and_loss_priority_survive() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let mut cells = cells(&mut unit, &frame(ring_vc, &aal5_pdu(&[1; 60])));
    let mark = |cell: &mut [u8; CELL_BYTES], payload_type: u8, loss_priority: bool| {
        let payload_type = PayloadType::new(payload_type);
        let repr = HeaderRepr {
            payload_type,
            loss_priority,
            ..header(cell)
        };
        Cell::new_unchecked(cell).set_header_bytes(repr.to_bytes(Interface::Uni));
    };
    mark(&mut cells[0], 0b000, true);
    mark(&mut cells[1], 0b011, false);
    let (_, frames) = gather(&mut unit, &cells);
    let repr = FrameRepr::parse(&Frame::new_unchecked(&frames[0][..])).expect("a frame");
    let Kind::Data { cell_header, .. } = repr.kind else {
        panic!("data")
    };
    assert_eq!(
        (cell_header.payload_type.get(), cell_header.loss_priority),
        (0b011, true)
    );
    let again = self::cells(&mut unit, &frames[0]);
    let types: Vec<u8> = again
        .iter()
        .map(|cell| header(cell).payload_type.get())
        .collect();
    assert_eq!(types, [0b010, 0b011]);
    assert!(again.iter().all(|cell| header(cell).loss_priority));
}

/// OAM cells pass between the cells of a PDU, either way, and do not disturb it.
#[test]
fn oam_cells_pass() {
    for adaptation in [Adaptation::Aal5, Adaptation::Aal34 { mid: 1 }] {
        let (mut unit, ring_vc) = unit(adaptation);
        let pdu = cpcs_pdu(&payload(88, 1));
        let mut cells = cells(&mut unit, &frame(ring_vc, &pdu));
        let mut oam = [0x6a; CELL_BYTES];
        let repr = HeaderRepr::user(ATM, PayloadType::OAM_END_TO_END);
        Cell::new_unchecked(&mut oam).set_header_bytes(repr.to_bytes(Interface::Uni));
        cells.insert(1, oam);
        let (errors, frames) = gather(&mut unit, &cells);
        assert!(errors.is_empty());
        assert_eq!((frames.len(), frames[0].len()), (2, CELL_FRAME_BYTES));
        assert_eq!(frames[1][OVERHEAD_BYTES..], pdu);
        assert_eq!(self::cells(&mut unit, &frames[0]), [oam]);
    }
}

/// AAL5 check codes go through: a single damaged byte in any cell is found at the far end, and
/// so is one that is damaged between the units' two buffers.
#[test]
fn the_aal5_crc_works_end_to_end() {
    let (mut near, ring_vc) = unit(Adaptation::Aal5);
    let (mut far, _) = unit(Adaptation::Aal5);
    let sent = frame(ring_vc, &aal5_pdu(&payload(100, 1)));
    assert!(parse_aal5(&sent).is_ok());
    let good = cells(&mut near, &sent);
    for (index, byte) in (0..good.len()).flat_map(|i| (5..CELL_BYTES).map(move |b| (i, b))) {
        let mut bad = good.clone();
        bad[index][byte] ^= 0x10;
        let (errors, frames) = gather(&mut far, &bad);
        assert!(errors.is_empty());
        let error = parse_aal5(&frames[0]).expect_err("damaged");
        assert!(matches!(error.fault, Fault::Check { .. }));
    }
    for byte in OVERHEAD_BYTES..sent.len() {
        let mut bad = sent.clone();
        bad[byte] ^= 1;
        let cells = cells(&mut near, &bad);
        let (_, frames) = gather(&mut far, &cells);
        assert!(parse_aal5(&frames[0]).is_err());
    }
    // A cell lost, doubled or swapped with its neighbour too.
    let lost = [&good[..1], &good[2..]].concat();
    let doubled = [&good[..1], &good[..]].concat();
    let mut swapped = good.clone();
    swapped.swap(0, 1);
    for bad in [lost, doubled, swapped] {
        let (_, frames) = gather(&mut far, &bad);
        assert!(parse_aal5(&frames[0]).is_err());
    }
    let (_, frames) = gather(&mut far, &good);
    assert_eq!(frames[0][OVERHEAD_BYTES..], sent[OVERHEAD_BYTES..]);
}

/// Headers of cells are protected by the HEC alone; in a frame as well.
#[test]
fn damaged_headers_are_refused() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let sent = frame(ring_vc, &aal5_pdu(&[7; 10]));
    let good = cells(&mut unit, &sent)[0];
    for bit in 0..40 {
        let mut cell = good;
        cell[bit / 8] ^= 0x80 >> (bit % 8);
        let error = unit.handle_cell(NOW, &cell).expect_err("a bad HEC");
        assert!(matches!(
            error,
            FromAtmError::Wire(Error {
                fault: Fault::Check { .. },
                ..
            })
        ));
        let mut frame = sent.clone();
        frame[3 + bit / 8] ^= 0x80 >> (bit % 8);
        assert!(matches!(
            unit.handle_frame(&frame),
            Err(FromRingError::Wire(_))
        ));
    }
    assert_eq!(unit.stats().errors, 80);
}

#[test]
fn aal34_segments_are_made_and_put_together() {
    let mid = 0x155;
    let (mut unit, ring_vc) = unit(Adaptation::Aal34 { mid });
    let mut sequence = 0;
    for bytes in [0, 36, 37, 80, 500, 65_535] {
        let pdu = cpcs_pdu(&payload(bytes, 1));
        let cells = cells(&mut unit, &frame(ring_vc, &pdu));
        assert_eq!(cells.len(), pdu.len().div_ceil(44));
        for (index, cell) in cells.iter().enumerate() {
            let (first, last) = (index == 0, index + 1 == cells.len());
            let view = Cell::new_unchecked(cell);
            let sar = SarRepr::parse(&SarPdu::new_unchecked(view.payload())).expect("good");
            assert_eq!(
                (sar.segment_type.begins(), sar.segment_type.ends()),
                (first, last)
            );
            assert_eq!((sar.sequence, sar.mid), (sequence, mid));
            assert!(!header(cell).payload_type.auu());
            sequence = (sequence + 1) % 16;
        }
        let (errors, frames) = gather(&mut unit, &cells);
        assert!(errors.is_empty());
        assert_eq!(frames[0][OVERHEAD_BYTES..], pdu);
    }
    assert_eq!(unit.buffered_bytes(), 0);
}

/// The vector of the standard's layout: 40 bytes 01..28, tag A5, MID 155, SN 3 and 4.
#[test]
fn aal34_vector() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal34 { mid: 0x155 });
    // Three messages of one cell each bring SN to 3.
    for _ in 0..3 {
        cells(&mut unit, &frame(ring_vc, &cpcs_pdu(&[])));
    }
    let payload: Vec<u8> = (1..=40).collect();
    let mut pdu = vec![0; 48];
    pdu[4..44].copy_from_slice(&payload);
    CpcsRepr::new(0xa5, 40).emit(&mut CpcsPdu::new_unchecked(&mut pdu));
    let cells = cells(&mut unit, &frame(ring_vc, &pdu));
    assert_eq!(cells[0][5..11], [0x8d, 0x55, 0x00, 0xa5, 0x00, 0x28]);
    assert_eq!(cells[0][51..], [0xb2, 0xb8]);
    assert_eq!(cells[1][5..11], [0x51, 0x55, 0x00, 0xa5, 0x00, 0x28]);
    assert_eq!(cells[1][51..], [0x12, 0xbf]);
}

/// What CRC-10 protects, and what not: the way between units, and not the ring.
#[test]
fn aal34_is_protected_cell_by_cell() {
    let (mut near, ring_vc) = unit(Adaptation::Aal34 { mid: 1 });
    let (mut far, _) = unit(Adaptation::Aal34 { mid: 1 });
    let pdu = cpcs_pdu(&payload(120, 1));
    let good = cells(&mut near, &frame(ring_vc, &pdu));
    for (index, byte) in (0..good.len()).flat_map(|i| (5..CELL_BYTES).map(move |b| (i, b))) {
        let mut bad = good.clone();
        bad[index][byte] ^= 4;
        let (errors, frames) = gather(&mut far, &bad);
        // A BOM after a lost EOM is one more.
        let crc10 = |error: &&FromAtmError| matches!(error, FromAtmError::Wire(_));
        assert_eq!(errors.iter().filter(crc10).count(), 1);
        assert!(frames.is_empty());
    }
    let mut bad = frame(ring_vc, &pdu);
    bad[OVERHEAD_BYTES + 20] ^= 4;
    let cells = cells(&mut near, &bad);
    let (mut far, _) = unit(Adaptation::Aal34 { mid: 1 });
    let (errors, frames) = gather(&mut far, &cells);
    assert_eq!(errors, [], "a CPCS-PDU has no check code");
    assert_eq!(frames[0][OVERHEAD_BYTES..], bad[OVERHEAD_BYTES..]);
}

#[test]
fn aal34_faults_are_named() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal34 { mid: 2 });
    let pdu = cpcs_pdu(&payload(120, 1));
    // BOM 0, COM 1, EOM 2.
    let c = cells(&mut unit, &frame(ring_vc, &pdu));
    let (vc, mid) = (ATM, 2);
    let abort = {
        let mut cell = c[2];
        let mut view = Cell::new_unchecked(&mut cell);
        SarRepr::abort(1, mid).emit(&mut SarPdu::new_unchecked(view.payload_mut()));
        cell
    };
    let not_begun = |segment| FromAtmError::NotBegun { vc, mid, segment };
    let sequence = |expected, found| FromAtmError::Sequence {
        vc,
        mid,
        expected,
        found,
    };
    let not_ended = FromAtmError::NotEnded {
        vc,
        mid,
        segment: SegmentType::Bom,
    };
    let cases: [(&[_], &[_], usize); 6] = [
        (
            &[c[1], c[2]],
            &[not_begun(SegmentType::Com), not_begun(SegmentType::Eom)],
            0,
        ),
        (&[c[0], c[2]], &[sequence(1, 2)], 0),
        (
            &[c[0], c[1], c[1], c[2]],
            &[sequence(2, 1), not_begun(SegmentType::Eom)],
            0,
        ),
        (&[c[0], abort], &[FromAtmError::Aborted { vc, mid }], 0),
        (&[c[0], c[0], c[1], c[2]], &[not_ended], 1),
        (&[c[0], c[1], c[2]], &[], 1),
    ];
    for (cells, expected, frames) in cases {
        let (errors, gathered) = gather(&mut unit, cells);
        assert_eq!((&errors[..], gathered.len()), (expected, frames));
        assert_eq!(unit.buffered_bytes(), 0);
    }
    // An EOM of five bytes: no whole words.
    let mut odd = c[2];
    let mut view = Cell::new_unchecked(&mut odd);
    let repr = SarRepr {
        segment_type: SegmentType::Eom,
        sequence: 1,
        mid,
        payload_bytes: 5,
    };
    repr.emit(&mut SarPdu::new_unchecked(view.payload_mut()));
    let (errors, frames) = gather(&mut unit, &[c[0], odd]);
    assert_eq!(
        errors,
        [FromAtmError::BrokenWord {
            vc,
            mid,
            pdu_bytes: 49
        }]
    );
    assert!(frames.is_empty());
}

/// Messages with different MIDs on one VC come out whole, each with its last cell.
#[test]
fn mids_are_interleaved() {
    let (mut near, ring_vc) = unit(Adaptation::Aal34 { mid: 5 });
    let mut other = Unit::new(Config::new(Interface::Uni));
    other
        .connect(ATM, (3, 7), Adaptation::Aal34 { mid: 6 })
        .expect("free");
    let pdus = [cpcs_pdu(&payload(200, 1)), cpcs_pdu(&payload(150, 2))];
    let a = cells(&mut near, &frame(ring_vc, &pdus[0]));
    let b = cells(&mut other, &frame(ring_vc, &pdus[1]));
    let mut mixed: Vec<_> = a.iter().zip(&b).flat_map(|(a, b)| [*a, *b]).collect();
    mixed.extend_from_slice(&a[b.len()..]);
    let (errors, frames) = gather(&mut near, &mixed);
    assert!(errors.is_empty());
    assert_eq!(frames[0][OVERHEAD_BYTES..], pdus[1]);
    assert_eq!(frames[1][OVERHEAD_BYTES..], pdus[0]);
}

#[test]
fn long_pdus_are_dropped_to_their_end() {
    let mut config = Config::new(Interface::Uni);
    config.pdu_bytes_max = 4 * PAYLOAD_BYTES;
    let mut unit = Unit::new(config);
    let ring_vc = unit.connect(ATM, (0, 40), Adaptation::Aal5).expect("free");
    let long = cells(&mut unit, &frame(ring_vc, &aal5_pdu(&payload(400, 1))));
    let (errors, frames) = gather(&mut unit, &long);
    let bytes_max = config.pdu_bytes_max;
    assert_eq!(errors, [FromAtmError::TooLong { vc: ATM, bytes_max }]);
    assert!(frames.is_empty());
    assert_eq!(unit.stats().cells_skipped, long.len() as u64 - 5);
    let fits = frame(ring_vc, &aal5_pdu(&payload(180, 1)));
    let cells = cells(&mut unit, &fits);
    let (errors, frames) = gather(&mut unit, &cells);
    assert!(errors.is_empty() && frames[0][OVERHEAD_BYTES..] == fits[OVERHEAD_BYTES..]);
}

#[test]
fn buffers_are_bounded_and_given_back() {
    let mut config = Config::new(Interface::Uni);
    config.buffer_bytes_max = 5 * PAYLOAD_BYTES;
    let mut unit = Unit::new(config);
    let vcs: Vec<Vc> = (0..4)
        .map(|vci| Vc {
            vpi: 2,
            vci: 100 + vci,
        })
        .collect();
    let middle: Vec<[u8; CELL_BYTES]> = (vcs.iter().zip(0..))
        .map(|(&vc, number)| {
            let ring_vc = unit
                .connect(vc, (1, number), Adaptation::Aal5)
                .expect("free");
            cells(&mut unit, &frame(ring_vc, &[0; 96]))[0]
        })
        .collect();
    for round in 0..2 {
        for (index, cell) in middle.iter().enumerate() {
            let result = unit.handle_cell(NOW, cell);
            // In the second round there is room for one cell; each PDU that is dropped makes
            // room for one more.
            let full = round == 1 && index % 2 == 1;
            assert_eq!(result.is_err(), full, "{round} {index} {result:?}");
            assert!(unit.buffered_bytes() <= config.buffer_bytes_max);
        }
    }
    for vc in vcs {
        assert!(unit.disconnect(vc));
        assert!(!unit.disconnect(vc));
    }
    assert_eq!(unit.buffered_bytes(), 0);
}

#[test]
fn pdus_that_stop_are_dropped_in_time() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let idle_max = Config::new(Interface::Uni).idle_max;
    let c = cells(&mut unit, &frame(ring_vc, &aal5_pdu(&payload(100, 1))));
    assert_eq!(unit.next_deadline(), None);
    unit.handle_cell(NOW, &c[0]).expect("good");
    assert_eq!(unit.next_deadline(), Some(NOW + idle_max));
    let later = NOW + idle_max / 2;
    unit.handle_cell(later, &c[1]).expect("good");
    unit.handle_timer(NOW + idle_max);
    assert_eq!((unit.stats().timed_out, unit.buffered_bytes()), (0, 96));
    unit.handle_timer(NOW + idle_max * 2);
    assert_eq!((unit.stats().timed_out, unit.buffered_bytes()), (1, 0));
    assert_eq!(unit.next_deadline(), None);
    // The last cell alone is a PDU of its own, which the far end will not take.
    let (_, frames) = gather(&mut unit, &c[2..]);
    assert!(parse_aal5(&frames[0]).is_err());
}

#[test]
fn the_end_of_time_is_no_deadline() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let c = cells(&mut unit, &frame(ring_vc, &aal5_pdu(&payload(100, 1))));
    unit.handle_cell(Instant::MAX, &c[0]).expect("good");
    assert_eq!(unit.next_deadline(), None);
}

#[test]
fn connections_are_unique() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let other = Vc { vci: 101, ..ATM };
    let aal5 = Adaptation::Aal5;
    let wide = Vc { vpi: 256, vci: 32 };
    let cases = [
        (ATM, (3, 8), aal5, ConnectError::AtmVcInUse(ATM)),
        (other, (3, 7), aal5, ConnectError::RingVcInUse(ring_vc)),
        (
            other,
            (16, 0),
            aal5,
            ConnectError::NoSuchRingVc { rid: 16, number: 0 },
        ),
        (
            other,
            (0, VCS_PER_NODE),
            aal5,
            ConnectError::NoSuchRingVc {
                rid: 0,
                number: VCS_PER_NODE,
            },
        ),
        (
            other,
            (0, 0),
            Adaptation::Aal34 { mid: 1_024 },
            ConnectError::NoSuchMid { mid: 1_024 },
        ),
        (
            wide,
            (0, 0),
            aal5,
            ConnectError::NoSuchAtmVc {
                vc: wide,
                vpi_max: 255,
            },
        ),
    ];
    for (vc, node, adaptation, error) in cases {
        assert_eq!(unit.connect(vc, node, adaptation), Err(error));
    }
    assert!(unit.connect(other, (3, 8), aal5).is_ok());
    assert!(unit.disconnect(ATM));
    assert_eq!(unit.connect(ATM, (3, 7), aal5), Ok(ring_vc));
    let mut nni = Unit::new(Config::new(Interface::Nni));
    assert!(nni.connect(wide, (0, 0), aal5).is_ok());
}

#[test]
fn frames_that_make_no_cells_are_refused() {
    let (mut unit, ring_vc) = unit(Adaptation::Aal5);
    let refused = |unit: &mut Unit, frame: &[u8]| unit.handle_frame(frame).expect_err("refused");
    let error = refused(&mut unit, &frame(ring_vc, &[0; 52]));
    assert_eq!(
        error,
        FromRingError::PduLength {
            vc: ring_vc,
            pdu_bytes: 52
        }
    );
    let unknown = Vc { vci: 9, ..ring_vc };
    let error = refused(&mut unit, &frame(unknown, &[0; 48]));
    assert_eq!(error, FromRingError::UnknownVc(unknown));
    let mut to_rid = frame(ring_vc, &[0; 48]);
    Frame::new_unchecked(&mut to_rid)
        .header_mut()
        .set_addr_type(AddrType::Rid);
    assert_eq!(refused(&mut unit, &to_rid), FromRingError::NotOnVc);
    let mut token = [0; 8];
    FrameRepr::token(1).emit(&mut Frame::new_unchecked(&mut token));
    assert_eq!(refused(&mut unit, &token), FromRingError::NotOnVc);
    let cell = [0; CELL_BYTES];
    assert!(matches!(
        unit.handle_cell(NOW, &cell),
        Err(FromAtmError::Wire(_))
    ));
    unit.disconnect(ATM);
    unit.connect(ATM, (3, 7), Adaptation::Aal34 { mid: 0 })
        .expect("free");
    let error = refused(&mut unit, &frame(ring_vc, &[0; 4]));
    assert_eq!(
        error,
        FromRingError::PduLength {
            vc: ring_vc,
            pdu_bytes: 4
        }
    );
}

/// Cells of several frames on several VCs, interleaved in an order that `seed` gives, each
/// VC in its own order.
fn shuffle(streams: Vec<Vec<[u8; CELL_BYTES]>>, seed: u64) -> Vec<[u8; CELL_BYTES]> {
    let mut rng = Rng::from_seed(seed);
    let mut order: Vec<usize> = (streams.iter().enumerate())
        .flat_map(|(index, cells)| core::iter::repeat_n(index, cells.len()))
        .collect();
    rng.shuffle(&mut order);
    let mut streams: Vec<_> = streams.into_iter().map(Vec::into_iter).collect();
    order
        .into_iter()
        .filter_map(|index| streams[index].next())
        .collect()
}

const ADAPTATIONS: [Adaptation; 3] = [
    Adaptation::Aal5,
    Adaptation::Aal34 { mid: 77 },
    Adaptation::Aal5,
];

proptest! {
    /// What one ring sends, the other gets, bit for bit, whatever is between the cells.
    #[test]
    fn pdus_cross_atm(sizes in prop::collection::vec(0..700_usize, 1..12), seed: u64) {
        let mut near = Unit::new(Config::new(Interface::Uni));
        let mut far = Unit::new(Config { rid: 9, ..Config::new(Interface::Uni) });
        let mut streams = vec![Vec::new(); 3];
        let mut sent: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
        for (index, adaptation) in ADAPTATIONS.into_iter().enumerate() {
            let vc = Vc { vpi: 1, vci: 50 + index as u16 };
            near.connect(vc, (2, index as u16), adaptation).expect("free");
            far.connect(vc, (5, index as u16), adaptation).expect("free");
        }
        for (turn, &bytes) in sizes.iter().enumerate() {
            let index = turn % 3;
            let payload = payload(bytes, turn as u64);
            let pdu = if index == 1 { cpcs_pdu(&payload) } else { aal5_pdu(&payload) };
            let ring_vc = node_vc(2, index as u16).expect("in range");
            streams[index].extend(cells(&mut near, &frame(ring_vc, &pdu)));
            sent[index].push(pdu);
        }
        let (errors, frames) = gather(&mut far, &shuffle(streams, seed));
        prop_assert_eq!(errors, vec![]);
        let mut got: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
        for frame in frames {
            let repr = FrameRepr::parse(&Frame::new_unchecked(&frame[..])).expect("a frame");
            let Kind::Data { cell_header, .. } = repr.kind else { panic!("data") };
            prop_assert_eq!((repr.header.src_rid, repr.header.crc_present), (9, false));
            let index = cell_header.vc.vci - 5 * VCS_PER_NODE;
            got[usize::from(index)].push(frame[OVERHEAD_BYTES..].to_vec());
        }
        prop_assert_eq!(got, sent);
        prop_assert_eq!(far.buffered_bytes(), 0);
    }

    /// Any cells with good headers: bounds hold, frames are legal, nothing panics.
    #[test]
    fn any_cells_any_time(
        inputs in prop::collection::vec((any::<u64>(), 0..4_u16, any::<bool>()), 0..150),
    ) {
        let mut config = Config::new(Interface::Uni);
        config.pdu_bytes_max = 300;
        config.buffer_bytes_max = 500;
        let mut unit = Unit::new(config);
        for (index, adaptation) in ADAPTATIONS.into_iter().enumerate() {
            let vc = Vc { vpi: 0, vci: index as u16 };
            unit.connect(vc, (1, index as u16), adaptation).expect("free");
        }
        for (seed, vci, good_crc) in inputs {
            let mut rng = Rng::from_seed(seed);
            let mut cell = [0; CELL_BYTES];
            rng.fill_bytes(&mut cell);
            let payload_type = PayloadType::new(cell[0] & 0b011 | cell[1] & cell[2] & 0b100);
            let repr = HeaderRepr::user(Vc { vpi: 0, vci }, payload_type);
            let mut view = Cell::new_unchecked(&mut cell);
            view.set_header_bytes(repr.to_bytes(Interface::Uni));
            let mut sar = SarPdu::new_unchecked(view.payload_mut());
            sar.set_mid(rng.below(3) as u16);
            sar.set_sequence(rng.below(2) as u8);
            sar.set_length([44, 44, 44, 4, 7, 63][rng.index(6)]);
            if good_crc {
                sar.fill_crc10();
            }
            let now = Instant::from_ps(seed);
            let _ = unit.handle_cell(now, &cell);
            while let Some(frame) = unit.poll_frame() {
                let repr = FrameRepr::parse(&Frame::new_unchecked(&frame[..]));
                prop_assert!(repr.is_ok(), "{:?}", repr);
                let back = unit.handle_frame(&frame);
                prop_assert!(back.is_ok() || frame.len() % 4 != 0 || frame.len() < 16, "{:?}", back);
            }
            unit.handle_timer(now);
            prop_assert!(unit.buffered_bytes() <= 500);
        }
    }
}
