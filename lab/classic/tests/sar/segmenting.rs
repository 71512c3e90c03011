//! The fast segmenters against the formats, the streaming one against the fast ones.

use barewire_classic::sar::penn::{Generator, Segmenter, SegmenterError, SegmenterState};
use barewire_classic::sar::segment::{
    Aal5Segmenter, Aal34Segmenter, SegmentError, aal5_cells, aal34_cells,
};
use barewire_classic::sar::{Aal, Phase, Pool, PoolConfig, Reassembler};
use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::aal34::{CpcsPdu, CpcsRepr, SarPdu, SarRepr, SegmentType};
use barewire_formats::atm::{Cell, HeaderRepr, Interface, PayloadType};
use barewire_units::{Graph, Instant};
use proptest::prelude::*;

use crate::bench::{AAL34, CellBytes, Sender, header, split, text, vc};

fn aal5() -> Aal5Segmenter {
    Aal5Segmenter::new(header(5), Interface::Uni)
}

fn class4() -> Aal34Segmenter {
    Aal34Segmenter::new(header(5), Interface::Uni, 341)
}

/// The cells of an AAL5 message as the formats define them.
fn aal5_by_the_book(payload: &[u8], uu: u8) -> Vec<CellBytes> {
    let repr = PduRepr {
        uu,
        cpi: 0,
        payload_bytes: payload.len() as u16,
    };
    let mut pdu = vec![0; repr.buffer_len()];
    pdu[..payload.len()].copy_from_slice(payload);
    repr.emit(&mut Pdu::new_unchecked(&mut pdu[..]));
    let count = pdu.len() / 48;
    let cell = |(i, chunk): (usize, &[u8])| {
        let last = [PayloadType::USER, PayloadType::USER_END][usize::from(i + 1 == count)];
        let mut cell = [0; 53];
        cell[..5].copy_from_slice(&HeaderRepr::user(vc(5), last).to_bytes(Interface::Uni));
        cell[5..].copy_from_slice(chunk);
        cell
    };
    pdu.chunks(48).enumerate().map(cell).collect()
}

/// The cells of the first AAL3/4 message as the formats define them.
fn aal34_by_the_book(payload: &[u8]) -> Vec<CellBytes> {
    let repr = CpcsRepr::new(0, payload.len() as u16);
    let mut pdu = vec![0; repr.buffer_len()];
    pdu[4..4 + payload.len()].copy_from_slice(payload);
    repr.emit(&mut CpcsPdu::new_unchecked(&mut pdu[..]));
    let count = pdu.len().div_ceil(44);
    let cell = |(i, chunk): (usize, &[u8])| {
        let mut cell = [0; 53];
        cell[..5].copy_from_slice(&header(5).to_bytes(Interface::Uni));
        cell[7..7 + chunk.len()].copy_from_slice(chunk);
        let segment_type = match (i, count - i) {
            (0, 1) => SegmentType::Ssm,
            (0, _) => SegmentType::Bom,
            (_, 1) => SegmentType::Eom,
            _ => SegmentType::Com,
        };
        let repr = SarRepr {
            segment_type,
            sequence: (i % 16) as u8,
            mid: 341,
            payload_bytes: chunk.len() as u8,
        };
        repr.emit(&mut SarPdu::new_unchecked(&mut cell[5..]));
        cell
    };
    pdu.chunks(44).enumerate().map(cell).collect()
}

fn aal5_direct(payload: &[u8], uu: u8) -> Vec<CellBytes> {
    let mut cells = vec![0xee; aal5_cells(payload.len()) * 53];
    assert_eq!(
        aal5().segment(payload, uu, &mut cells),
        Ok(cells.len() / 53)
    );
    split(&cells)
}

fn aal34_direct(payload: &[u8]) -> Vec<CellBytes> {
    let mut cells = vec![0xee; aal34_cells(payload.len()) * 53];
    assert_eq!(class4().segment(payload, &mut cells), Ok(cells.len() / 53));
    split(&cells)
}

#[test]
fn every_short_message_is_cut_by_the_book() {
    for len in 0..300 {
        let payload = text(len, 3);
        assert_eq!(aal34_direct(&payload), aal34_by_the_book(&payload), "{len}");
        if len > 0 {
            assert_eq!(
                aal5_direct(&payload, 9),
                aal5_by_the_book(&payload, 9),
                "{len}"
            );
        }
    }
}

#[test]
fn the_longest_message_is_cut_by_the_book() {
    let payload = text(65_535, 3);
    let cells = aal5_direct(&payload, 0);
    assert_eq!(
        (cells.len(), &cells),
        (1366, &aal5_by_the_book(&payload, 0))
    );
    let cells = aal34_direct(&payload);
    assert_eq!((cells.len(), &cells), (1490, &aal34_by_the_book(&payload)));
}

#[test]
fn what_can_not_be_cut_is_refused_and_nothing_is_written() {
    let mut cells = [0xee; 100];
    let too_long = Err(SegmentError::TooLong {
        payload_bytes: 65_536,
    });
    let short = Err(SegmentError::Buffer {
        needed_bytes: 106,
        have_bytes: 100,
    });
    let aal5 = aal5();
    assert_eq!(aal5.segment(&[], 0, &mut cells), Err(SegmentError::Empty));
    assert_eq!(aal5.segment(&[0; 65_536], 0, &mut cells), too_long);
    assert_eq!(aal5.segment(&[0; 41], 0, &mut cells), short);
    let mut class4 = class4();
    assert_eq!(class4.segment(&[0; 65_536], &mut cells), too_long);
    assert_eq!(class4.segment(&[0; 37], &mut cells), short);
    assert_eq!(cells, [0xee; 100]);
}

#[test]
fn the_header_is_kept_but_for_its_end_mark() {
    let mut header = header(5);
    header.gfc = 3;
    header.loss_priority = true;
    header.payload_type = PayloadType::USER_CONGESTED_END;
    let mut cells = vec![0; 2 * 53];
    let segmenter = Aal5Segmenter::new(header, Interface::Uni);
    segmenter.segment(&[1; 60], 0, &mut cells).expect("room");
    let types = [PayloadType::USER_CONGESTED, PayloadType::USER_CONGESTED_END];
    for (cell, payload_type) in cells.chunks(53).zip(types) {
        let expected = HeaderRepr {
            payload_type,
            ..header
        };
        let found = HeaderRepr::parse(&Cell::new_unchecked(cell), Interface::Uni);
        assert_eq!(found, Ok(expected));
    }
}

/// All cells that are ready.
fn cells(segmenter: &mut Segmenter) -> Vec<CellBytes> {
    core::iter::from_fn(|| segmenter.poll_cell()).collect()
}

#[test]
fn a_cell_leaves_when_its_worth_is_in_the_fifo() {
    for (generator, first, next) in [
        (Generator::Aal5(aal5()), 48, 48),
        // The header of the message takes four bytes of the first segment.
        (Generator::Class4(class4()), 40, 44),
    ] {
        let mut segmenter = Segmenter::new(generator, 128);
        segmenter.begin(200, 0).expect("idle");
        for worth in [first, next] {
            assert_eq!(segmenter.push(&vec![1; worth - 1]), worth - 1);
            assert_eq!(segmenter.poll_cell(), None);
            assert_eq!(segmenter.push(&[1]), 1);
            assert!(segmenter.poll_cell().is_some());
            assert_eq!(segmenter.poll_cell(), None);
        }
        assert_eq!(segmenter.state(), SegmenterState::Streaming);
        // No more than the FIFO holds, no more than the block has.
        assert_eq!(segmenter.push(&[1; 500]), 200 - first - next);
        assert_eq!(segmenter.state(), SegmenterState::Draining);
        assert_eq!(cells(&mut segmenter).len(), 3);
        assert_eq!(segmenter.state(), SegmenterState::Idle);
        assert_eq!(segmenter.held_bytes(), 0);
    }
}

#[test]
fn a_full_fifo_takes_no_more() {
    let mut segmenter = Segmenter::new(Generator::Aal5(aal5()), 100);
    segmenter.begin(1000, 0).expect("idle");
    assert_eq!(segmenter.push(&[1; 1000]), 100);
    assert_eq!(segmenter.push(&[1; 900]), 0);
    assert_eq!(cells(&mut segmenter).len(), 2);
    assert_eq!((segmenter.held_bytes(), segmenter.push(&[1; 900])), (4, 96));
}

#[test]
fn one_block_at_a_time() {
    let mut segmenter = Segmenter::new(Generator::Aal5(aal5()), 100);
    let busy = |state| Err(SegmenterError::Busy(state));
    let empty = SegmenterError::Block(SegmentError::Empty);
    assert_eq!(segmenter.begin(0, 0), Err(empty));
    segmenter.begin(10, 0).expect("idle");
    assert_eq!(segmenter.begin(10, 0), busy(SegmenterState::Streaming));
    segmenter.push(&[0; 10]);
    let load = segmenter.load(Generator::Class4(class4())).map(|_| ());
    assert_eq!(load, busy(SegmenterState::Draining));
    assert_eq!(cells(&mut segmenter).len(), 1);
    // Registers that are loaded again go on where they were.
    segmenter.load(Generator::Class4(class4())).expect("idle");
    segmenter.begin(0, 0).expect("an empty message");
    assert_eq!(cells(&mut segmenter), aal34_direct(&[]));
    let old = segmenter.load(Generator::Aal5(aal5())).expect("idle");
    segmenter.load(old).expect("idle");
    segmenter.begin(0, 0).expect("an empty message");
    let next = cells(&mut segmenter)[0];
    assert_eq!(SarPdu::new_unchecked(&next[5..]).sequence(), 1);
}

#[test]
fn a_block_given_up_is_aborted_on_the_line_or_never_was_there() {
    for (aal, generator) in [
        (Aal::Aal5, Generator::Aal5(aal5())),
        (Aal::Aal34, Generator::Class4(class4())),
    ] {
        let mut segmenter = Segmenter::new(generator, 1000);
        segmenter.begin(200, 0).expect("idle");
        segmenter.push(&[0; 30]);
        segmenter.abort();
        assert_eq!(
            (segmenter.state(), segmenter.poll_cell()),
            (SegmenterState::Idle, None)
        );

        segmenter.begin(200, 0).expect("idle");
        segmenter.push(&[1; 120]);
        let mut sent = cells(&mut segmenter);
        segmenter.abort();
        assert_eq!(
            (segmenter.state(), segmenter.push(&[0; 9])),
            (SegmenterState::Aborting, 0)
        );
        sent.extend(cells(&mut segmenter));
        assert_eq!((segmenter.state(), sent.len()), (SegmenterState::Idle, 3));
        segmenter.abort();

        let mut pool = Pool::new(PoolConfig::default());
        pool.open(vc(5), aal).expect("place");
        for cell in &sent {
            pool.handle_cell(Instant::ORIGIN, cell);
        }
        let report = pool.poll(&mut Vec::new()).expect("a report");
        assert_eq!(report.result, Err(barewire_classic::sar::Loss::Aborted));
        let stats = segmenter.stats();
        assert_eq!((stats.blocks, stats.blocks_aborted, stats.cells), (0, 2, 3));
    }
}

#[test]
fn the_tables_of_states_stand() {
    let phases = "\
Idle --Cell--> Open
Idle --LastCell--> Idle
Idle --Loss--> Skipping
Open --Cell--> Open
Open --LastCell--> Idle
Open --Loss--> Skipping
Open --Flush--> Skipping
Open --Timeout--> Idle
Skipping --Cell--> Skipping
Skipping --LastCell--> Idle
";
    assert_eq!(Graph::<Phase>::new().to_string(), phases);
    let segmenter = "\
Idle --Begin--> Streaming
Streaming --LastByte--> Draining
Streaming --Abort--> Aborting
Streaming --Withdraw--> Idle
Draining --LastCell--> Idle
Draining --Abort--> Aborting
Draining --Withdraw--> Idle
Aborting --LastCell--> Idle
";
    assert_eq!(Graph::<SegmenterState>::new().to_string(), segmenter);
}

proptest! {
    /// However the bytes come and the cells go, they are those of the fast segmenters.
    #[test]
    fn streaming_gives_the_same_cells(
        payload in proptest::collection::vec(any::<u8>(), 1..600),
        fifo_bytes in 0_usize..200,
        pieces in proptest::collection::vec((1_usize..100, any::<bool>()), 1..20),
    ) {
        for (generator, expected) in [
            (Generator::Aal5(aal5()), aal5_direct(&payload, 7)),
            (Generator::Class4(class4()), aal34_direct(&payload)),
        ] {
            let mut segmenter = Segmenter::new(generator, fifo_bytes);
            segmenter.begin(payload.len(), 7).expect("idle");
            let mut left = &payload[..];
            let mut sent = Vec::new();
            for (len, poll) in pieces.iter().cycle() {
                let taken = segmenter.push(&left[..left.len().min(*len)]);
                left = &left[taken..];
                if *poll || taken == 0 {
                    sent.extend(cells(&mut segmenter));
                }
                if segmenter.state() == SegmenterState::Idle {
                    break;
                }
            }
            prop_assert_eq!(sent, expected);
        }
    }
}

/// Sequence numbers and tags go on from message to message.
#[test]
fn messages_of_one_sender_are_numbered_through() {
    let mut sender = Sender::new(AAL34);
    let mut number = 0;
    for tag in 0..20_u8 {
        let cells = sender.cells(&text(300, tag));
        assert_eq!(cells[0][8], tag);
        for cell in cells {
            assert_eq!(SarPdu::new_unchecked(&cell[5..]).sequence(), number % 16);
            number += 1;
        }
    }
}
