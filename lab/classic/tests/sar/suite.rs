//! What every reassembler must do.

use barewire_classic::sar::{Aal, Loss, Losses, OpenError, Stream};
use barewire_formats::aal5::Pdu;
use barewire_formats::aal34::{SarPdu, SegmentType};
use barewire_formats::atm::{HeaderRepr, IDLE_CELL, Interface, PayloadType};
use barewire_units::{Duration, Instant};

use crate::bench::{AAL5, AAL34, Bench, CellBytes, Make, SIZES, Sender, Sizes, stream, text, vc};

pub fn messages_of_every_length_arrive<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    for stream in [AAL5, AAL34] {
        let mut sender = Sender::new(stream);
        for len in 1..300 {
            let payload = text(len, len as u8);
            bench.send(&sender.cells(&payload));
            bench.expect_delivered(stream, &payload);
        }
    }
    bench.assert_balanced();
    assert_eq!(bench.reassembler.stats().pdus_lost, Losses::default());
}

pub fn the_longest_messages_arrive<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    for stream in [AAL5, AAL34] {
        for len in [65_534, 65_535] {
            let payload = text(len, 1);
            bench.send(&Sender::new(stream).cells(&payload));
            bench.expect_delivered(stream, &payload);
        }
    }
}

pub fn an_empty_message_arrives_by_aal34_and_can_not_by_aal5<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    bench.send(&Sender::new(AAL34).cells(&[]));
    bench.expect_delivered(AAL34, &[]);
    bench.send(&[Sender::new(AAL5).abort(&[])]);
    bench.expect_lost(AAL5, Loss::Aborted);
    bench.assert_balanced();
}

pub fn interleaved_messages_arrive<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let streams = [
        AAL5,
        stream(51, None),
        AAL34,
        stream(34, Some(0)),
        stream(34, Some(1023)),
    ];
    let payloads: Vec<_> = (0..5).map(|i| text(400 + i * 44, i as u8)).collect();
    let mut queues: Vec<Vec<CellBytes>> = Vec::new();
    for (stream, payload) in streams.iter().zip(&payloads) {
        queues.push(Sender::new(*stream).cells(payload));
    }
    for round in 0..queues.iter().map(Vec::len).max().unwrap_or(0) {
        for queue in &queues {
            bench.send(queue.get(round..=round).unwrap_or(&[]));
        }
    }
    let mut reports = bench.reports();
    reports.sort_by_key(|(report, _)| report.stream);
    let mut expected: Vec<_> = streams.into_iter().zip(payloads).collect();
    expected.sort_by_key(|(stream, _)| *stream);
    assert_eq!(reports.len(), expected.len());
    for ((report, payload), (stream, sent)) in reports.iter().zip(&expected) {
        assert_eq!(report.stream, *stream);
        assert!(report.result.is_ok());
        assert_eq!(payload, sent);
    }
    bench.assert_balanced();
}

pub fn nothing_is_taken_that_is_not_for_us<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    bench.send(&[IDLE_CELL]);
    bench.send(&Sender::new(stream(99, None)).cells(&text(100, 0)));
    let mut management = Sender::new(AAL5).cells(b"x")[0];
    let header = HeaderRepr::user(AAL5.vc, PayloadType::OAM_END_TO_END);
    management[..5].copy_from_slice(&header.to_bytes(Interface::Uni));
    bench.send(&[management]);
    bench.expect_nothing();
    let stats = bench.reassembler.stats();
    assert_eq!((stats.cells_unknown_vc, stats.cells_not_user), (4, 1));
    bench.assert_balanced();
}

/// Also in the middle of a message, and where the cells of two messages alternate.
pub fn every_cell_is_counted_as_it_comes<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let mut cells = Sender::new(AAL5).cells(&text(400, 1));
    cells.truncate(5);
    let other = Sender::new(stream(51, None)).cells(&text(400, 2));
    let alternating = cells.iter().zip(&other).flat_map(|(one, two)| [*one, *two]);
    let all: Vec<CellBytes> = cells.iter().copied().chain(alternating).collect();
    for (before, cell) in all.iter().enumerate() {
        bench.send(&[*cell]);
        let (stats, count) = (bench.reassembler.stats(), before as u64 + 1);
        assert_eq!((stats.cells, stats.cells_taken), (count, count));
    }
    bench.expect_nothing();
    bench.assert_balanced();
}

const SEQUENCE: fn(u8, u8) -> Loss = |expected, found| Loss::Sequence { expected, found };

/// The field that a wrong PDU is blamed on.
fn blamed(loss: Loss) -> Option<&'static str> {
    match loss {
        Loss::Wrong(error) => Some(error.field),
        _ => None,
    }
}

/// Sends the spoilt cells of a message of 6 cells, then two good messages: how something
/// was lost, how many of the good ones arrived.
fn spoilt<R: Make>(
    stream: Stream,
    spoil: impl Fn(&mut Vec<CellBytes>),
) -> (Vec<Loss>, usize, Bench<R>) {
    let mut bench = Bench::<R>::new(SIZES);
    let mut sender = Sender::new(stream);
    let mut cells = sender.cells(&text(250, 1));
    assert_eq!(cells.len(), 6);
    spoil(&mut cells);
    bench.send(&cells);
    let good = [text(200, 2), text(201, 3)];
    for payload in &good {
        bench.send(&sender.cells(payload));
    }
    let mut losses = Vec::new();
    let mut arrived = Vec::new();
    for (report, payload) in bench.reports() {
        assert_eq!(report.stream, stream);
        match report.result {
            Ok(_) => arrived.push(payload),
            Err(loss) => losses.push(loss),
        }
    }
    // What arrives is the end of what was sent well.
    assert_eq!(arrived, good[good.len() - arrived.len()..]);
    bench.assert_balanced();
    (losses, arrived.len(), bench)
}

pub fn a_lost_cell_loses_its_message<R: Make>() {
    for lost in 0..6 {
        let (losses, arrived, _) = spoilt::<R>(AAL5, |cells| {
            cells.remove(lost);
        });
        assert_eq!(losses.len(), 1);
        assert_eq!(blamed(losses[0]), Some("crc32"));
        // With its last cell a message of AAL5 takes the next one along.
        assert_eq!(arrived, if lost == 5 { 1 } else { 2 });
    }
    for lost_cell in 0..6_u8 {
        let (losses, arrived, bench) = spoilt::<R>(AAL34, |cells| {
            cells.remove(lost_cell.into());
        });
        let expected = match lost_cell {
            0 => vec![],
            5 => vec![Loss::Interrupted],
            lost => vec![SEQUENCE(lost, lost + 1)],
        };
        assert_eq!((losses, arrived), (expected, 2));
        let orphans = [5, 4, 3, 2, 1, 0][usize::from(lost_cell)];
        let stats = bench.reassembler.stats();
        let counted = stats.cells_orphaned + stats.cells_refused;
        assert_eq!(counted, orphans);
        let lost = (stats.pdus_lost.gap, stats.pdus_lost.interrupted);
        assert_eq!(
            lost,
            (
                u64::from((1..5).contains(&lost_cell)),
                u64::from(lost_cell == 5)
            )
        );
    }
}

pub fn a_doubled_cell_loses_its_message<R: Make>() {
    for doubled in 0..5 {
        let double = |cells: &mut Vec<CellBytes>| cells.insert(doubled, cells[doubled]);
        let (losses, arrived, _) = spoilt::<R>(AAL5, double);
        assert_eq!(losses.len(), 1);
        assert_eq!(blamed(losses[0]), Some("crc32"));
        assert_eq!(arrived, 2);
    }
    for doubled in 1..5_u8 {
        let at = usize::from(doubled);
        let (losses, arrived, bench) = spoilt::<R>(AAL34, |cells| cells.insert(at, cells[at]));
        assert_eq!((losses, arrived), (vec![SEQUENCE(doubled + 1, doubled)], 2));
        assert_eq!(bench.reassembler.stats().pdus_lost.repeated, 1);
    }
}

pub fn exchanged_cells_lose_their_message<R: Make>() {
    for first in 0..5 {
        let exchange = |cells: &mut Vec<CellBytes>| cells.swap(first, first + 1);
        let (losses, arrived, _) = spoilt::<R>(AAL5, exchange);
        // The last cell before its time leaves a cell that joins the next message.
        let expected = if first == 4 { (2, 1) } else { (1, 2) };
        assert_eq!((losses.len(), arrived), expected);
        assert!(losses.iter().all(|loss| blamed(*loss) == Some("crc32")));
    }
    for first in 0..5_u8 {
        let at = usize::from(first);
        let (losses, arrived, _) = spoilt::<R>(AAL34, |cells| cells.swap(at, at + 1));
        // A COM before its BOM is an orphan, and missing behind it.
        let expected = match first {
            0 => SEQUENCE(1, 2),
            _ => SEQUENCE(first, first + 1),
        };
        assert_eq!((losses, arrived), (vec![expected], 2));
    }
}

pub fn every_flipped_bit_is_found<R: Make>() {
    for bit in 0..53 * 8 {
        let flip = |cells: &mut Vec<CellBytes>| cells[2][bit / 8] ^= 0x80 >> (bit % 8);
        let (losses, arrived, bench) = spoilt::<R>(AAL5, flip);
        assert_eq!((losses.len(), arrived), (1, 2));
        assert_eq!(blamed(losses[0]), Some("crc32"));
        let bad_header = bench.reassembler.stats().cells_bad_header;
        assert_eq!(bad_header, u64::from(bit < 40));

        let (losses, arrived, bench) = spoilt::<R>(AAL34, flip);
        assert_eq!((losses, arrived), (vec![SEQUENCE(2, 3)], 2));
        let stats = bench.reassembler.stats();
        let bad = (stats.cells_bad_header, stats.cells_bad_segment);
        assert_eq!(bad, if bit < 40 { (1, 0) } else { (0, 1) });
    }
}

pub fn the_table_of_circuits_has_its_size<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let open = bench.reassembler.open(AAL5.vc, Aal::Aal34);
    assert_eq!(open, Err(OpenError::AlreadyOpen(AAL5.vc)));
    for vci in 100..103 {
        assert_eq!(bench.reassembler.open(vc(vci), Aal::Aal5), Ok(()));
    }
    let full = Err(OpenError::TableFull { places: 8 });
    assert_eq!(bench.reassembler.open(vc(103), Aal::Aal5), full);
    assert!(bench.reassembler.flush_vc(vc(100)));
    assert_eq!(bench.reassembler.open(vc(103), Aal::Aal5), Ok(()));
    let late = stream(103, None);
    bench.send(&Sender::new(late).cells(b"late"));
    bench.expect_delivered(late, b"late");
}

pub fn the_table_of_open_messages_has_its_size<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let streams: Vec<_> = (0..9).map(|mid| stream(34, Some(mid))).collect();
    let payload = text(100, 5);
    let mut queues: Vec<_> = streams
        .iter()
        .map(|stream| Sender::new(*stream).cells(&payload))
        .collect();
    for queue in &mut queues {
        bench.send(&[queue.remove(0)]);
    }
    bench.expect_lost(streams[8], Loss::TableFull { places: 8 });
    assert_eq!(bench.reassembler.open_pdus(), 8);
    for queue in &queues {
        bench.send(queue);
    }
    let rest = bench.reports();
    assert_eq!(rest.len(), 8);
    assert!(
        rest.iter()
            .all(|(report, got)| report.result.is_ok() && *got == payload)
    );
    // The place is free again.
    bench.send(&Sender::new(streams[8]).cells(&payload));
    bench.expect_delivered(streams[8], &payload);
    bench.assert_balanced();
}

pub fn the_buffer_has_its_size<R: Make>() {
    let sizes = Sizes {
        buffer_cells: 10,
        ..SIZES
    };
    let mut bench = Bench::<R>::new(sizes);
    let [first, second] = [stream(50, None), stream(51, None)];
    let (six, five) = (text(6 * 48 - 8, 1), text(5 * 48 - 8, 2));
    let (six_cells, five_cells) = (
        Sender::new(first).cells(&six),
        Sender::new(second).cells(&five),
    );
    assert_eq!((six_cells.len(), five_cells.len()), (6, 5));
    // Eleven cells do not fit: the fifth of the second message finds no place.
    bench.send(&six_cells[..5]);
    bench.send(&five_cells[..4]);
    bench.send(&six_cells[5..]);
    bench.send(&five_cells[4..]);
    bench.expect(&[(first, Ok(&six)), (second, Err(Loss::NoBuffer))]);
    // All is free again; a message in the middle of which the buffer ends takes its rest along.
    let eleven = text(11 * 48 - 8, 3);
    bench.send(&Sender::new(first).cells(&eleven));
    bench.expect_lost(first, Loss::NoBuffer);
    bench.send(&Sender::new(first).cells(&text(12 * 48 - 8, 3)));
    bench.expect_lost(first, Loss::NoBuffer);
    assert_eq!(bench.reassembler.stats().cells_orphaned, 1);
    bench.send(&Sender::new(second).cells(&text(10 * 48 - 8, 4)));
    bench.expect_delivered(second, &text(10 * 48 - 8, 4));
    bench.assert_balanced();
}

pub fn a_flushed_circuit_is_gone<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let mut senders = [AAL5, AAL34, stream(34, Some(7))].map(Sender::new);
    for sender in &mut senders {
        bench.send(&sender.cells(&text(100, 0))[..1]);
    }
    assert!(bench.reassembler.flush_vc(AAL5.vc));
    bench.expect_lost(AAL5, Loss::Flushed);
    assert!(bench.reassembler.flush_vc(AAL34.vc));
    let lost = |stream| (stream, Err(Loss::Flushed));
    bench.expect(&[lost(stream(34, Some(7))), lost(AAL34)]);
    assert!(!bench.reassembler.flush_vc(AAL5.vc));
    assert_eq!(bench.reassembler.next_deadline(), None);
    // A circuit that is gone takes nothing; opened again, it begins anew.
    bench.send(&senders[0].cells(b"unheard"));
    bench.expect_nothing();
    assert_eq!(bench.reassembler.open(AAL5.vc, Aal::Aal34), Ok(()));
    let again = stream(50, Some(1));
    bench.send(&Sender::new(again).cells(b"heard"));
    bench.expect_delivered(again, b"heard");
    bench.assert_balanced();
}

pub fn a_flushed_message_is_gone<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    for stream in [AAL5, AAL34] {
        assert!(!bench.reassembler.flush_datagram(stream));
        let mut sender = Sender::new(stream);
        let cells = sender.cells(&text(200, 0));
        bench.send(&cells[..2]);
        assert!(bench.reassembler.flush_datagram(stream));
        assert!(!bench.reassembler.flush_datagram(stream));
        bench.expect_lost(stream, Loss::Flushed);
        // What is left of it disturbs nothing.
        bench.send(&cells[2..]);
        bench.send(&sender.cells(b"next"));
        bench.expect_delivered(stream, b"next");
    }
    for other in [stream(50, Some(1)), stream(34, None), stream(99, None)] {
        assert!(!bench.reassembler.flush_datagram(other));
    }
    bench.assert_balanced();
}

pub fn time_runs_out_for_each_message<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    let at = |ms| Instant::ORIGIN + Duration::from_ms(ms);
    let mut senders = [AAL5, AAL34].map(Sender::new);
    assert_eq!(bench.reassembler.next_deadline(), None);
    let first = senders[0].cells(&text(100, 0));
    bench.send(&first[..1]);
    bench.now = at(4);
    let second = senders[1].cells(&text(100, 1));
    bench.send(&second[..2]);
    assert_eq!(bench.reassembler.next_deadline(), Some(at(10)));
    bench.reassembler.handle_timeout(at(9));
    bench.expect_nothing();

    let after = Duration::from_ms(10);
    bench.reassembler.handle_timeout(at(10));
    bench.expect_lost(AAL5, Loss::TimedOut { after });
    assert_eq!(bench.reassembler.next_deadline(), Some(at(14)));
    bench.reassembler.handle_timeout(Instant::MAX);
    bench.expect_lost(AAL34, Loss::TimedOut { after });
    assert_eq!(bench.reassembler.next_deadline(), None);

    // What comes late is an orphan of AAL3/4; on AAL5 it is a message, and a wrong one.
    bench.send(&second[2..]);
    bench.expect_nothing();
    bench.send(&first[1..]);
    let reports = bench.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].0.result.err().and_then(blamed), Some("crc32"));
    for (sender, stream) in senders.iter_mut().zip([AAL5, AAL34]) {
        bench.send(&sender.cells(b"on time"));
        bench.expect_delivered(stream, b"on time");
    }
    assert_eq!(bench.reassembler.next_deadline(), None);
    bench.assert_balanced();
}

pub fn no_deadline_without_a_time_out<R: Make>() {
    let sizes = Sizes {
        timeout: Duration::MAX,
        ..SIZES
    };
    let mut bench = Bench::<R>::new(sizes);
    let cells = Sender::new(AAL5).cells(&text(100, 0));
    bench.send(&cells[..1]);
    assert_eq!(bench.reassembler.next_deadline(), None);
    bench.reassembler.handle_timeout(Instant::MAX);
    bench.send(&cells[1..]);
    bench.expect_delivered(AAL5, &text(100, 0));
}

pub fn an_aborted_message_is_reported<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    for stream in [AAL5, AAL34] {
        let mut sender = Sender::new(stream);
        let cells = sender.cells(&text(200, 0));
        let (sent, _) = cells.split_at(cells.len() - 2);
        bench.send(sent);
        bench.send(&[sender.abort(sent)]);
        bench.expect_lost(stream, Loss::Aborted);
        bench.send(&sender.cells(b"next"));
        bench.expect_delivered(stream, b"next");
    }
    // An abort of what is not open is an orphan.
    bench.send(&[Sender::new(AAL34).abort(&[])]);
    bench.expect_nothing();
    bench.assert_balanced();
}

pub fn a_message_beyond_the_limit_is_given_up<R: Make>() {
    let sizes = Sizes {
        pdu_bytes: 96,
        ..SIZES
    };
    let mut bench = Bench::<R>::new(sizes);
    for (stream, fits) in [(AAL5, 88), (AAL34, 80)] {
        let mut sender = Sender::new(stream);
        bench.send(&sender.cells(&text(fits, 0)));
        bench.expect_delivered(stream, &text(fits, 0));
        bench.send(&sender.cells(&text(300, 0)));
        bench.expect_lost(stream, Loss::TooLong { limit_bytes: 96 });
        bench.send(&sender.cells(b"next"));
        bench.expect_delivered(stream, b"next");
    }
    bench.assert_balanced();
}

pub fn wrong_lengths_and_tags_are_named<R: Make>() {
    let mut bench = Bench::<R>::new(SIZES);
    // A good CRC-32 and a length that does not fit.
    let mut cells = Sender::new(AAL5).cells(&text(10, 0));
    Pdu::new_unchecked(&mut cells[0][5..])
        .trailer_mut()
        .set_length(41);
    Pdu::new_unchecked(&mut cells[0][5..]).fill_crc32();
    // The end of a message behind the beginning of another, its number made to fit.
    let mut sender = Sender::new(AAL34);
    let mut first = sender.cells(&text(50, 1));
    let second = sender.cells(&text(50, 2));
    first[1] = second[1];
    let mut end = SarPdu::new_unchecked(&mut first[1][5..]);
    assert_eq!(end.segment_type(), SegmentType::Eom);
    end.set_sequence(1);
    end.fill_crc10();
    bench.send(&cells);
    bench.send(&first);
    let reports = bench.reports();
    let fields: Vec<_> = reports
        .iter()
        .filter_map(|(report, _)| report.result.err().and_then(blamed))
        .collect();
    assert_eq!(fields, ["length", "etag"]);
    bench.assert_balanced();
}
