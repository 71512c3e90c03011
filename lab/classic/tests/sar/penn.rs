//! What is particular to the Penn interface: its sizes, what it counts, what it does not
//! check, and how the host reads.

use barewire_classic::sar::penn::{Completion, ListRef, Operations, Penn, PennConfig};
use barewire_classic::sar::{Aal, Loss, Reassembler, Stream};
use barewire_units::Instant;

use crate::bench::{AAL5, AAL34, CellBytes, Sender, stream, text, vc};

fn penn(config: PennConfig) -> Penn {
    let mut penn = Penn::new(config);
    penn.open(AAL5.vc, Aal::Aal5).expect("place");
    penn.open(AAL34.vc, Aal::Aal34).expect("place");
    penn
}

fn send(penn: &mut Penn, cells: &[CellBytes]) {
    for cell in cells {
        penn.handle_cell(Instant::ORIGIN, cell);
    }
}

/// Operations that something takes.
fn operations(penn: &mut Penn, work: impl FnOnce(&mut Penn)) -> Operations {
    let before = penn.operations();
    work(penn);
    let after = penn.operations();
    Operations {
        cells: after.cells - before.cells,
        circuit_cam: after.circuit_cam - before.circuit_cam,
        datagram_cam: after.datagram_cam - before.datagram_cam,
        lists: after.lists - before.lists,
    }
}

#[track_caller]
fn whole(penn: &mut Penn, stream: Stream) -> ListRef {
    match penn.poll_completion() {
        Some(Completion {
            stream: found,
            result: Ok(list),
        }) if found == stream => list,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_prototype_holds_256_circuits_and_256_datagrams() {
    let config = PennConfig::default();
    assert_eq!((config.circuits, config.datagrams), (256, 256));
    let mut penn = Penn::new(config);
    for vci in 0..256 {
        assert_eq!(penn.open(vc(vci), Aal::Aal34), Ok(()));
    }
    assert!(penn.open(vc(256), Aal::Aal34).is_err());
    for mid in 0..=256 {
        let cells = Sender::new(stream(mid % 7, Some(mid))).cells(&text(50, 0));
        send(&mut penn, &cells[..1]);
    }
    let full = Completion {
        stream: stream(256 % 7, Some(256)),
        result: Err(Loss::TableFull { places: 256 }),
    };
    assert_eq!(penn.poll_completion(), Some(full));
    assert_eq!(penn.open_pdus(), 256);
}

#[test]
fn a_cell_costs_its_operations() {
    let mut penn = penn(PennConfig::default());
    let cost = |circuit_cam, datagram_cam, lists| Operations {
        cells: 1,
        circuit_cam,
        datagram_cam,
        lists,
    };
    let cells = Sender::new(AAL5).cells(&text(100, 0));
    for cell in &cells {
        assert_eq!(
            operations(&mut penn, |penn| send(penn, &[*cell])),
            cost(1, 0, 1)
        );
    }
    // BOM: look up, write. COM: look up. EOM: look up, clear.
    let cells = Sender::new(AAL34).cells(&text(100, 0));
    for (cell, datagram_cam) in cells.iter().zip([2, 1, 2]) {
        let costs = operations(&mut penn, |penn| send(penn, &[*cell]));
        assert_eq!(costs, cost(1, datagram_cam, 1));
    }
    let ssm = Sender::new(AAL34).cells(b"short");
    assert_eq!(
        operations(&mut penn, |penn| send(penn, &ssm)),
        cost(1, 1, 1)
    );
    // The host reads a cell at a time.
    let list = whole(&mut penn, AAL5);
    let costs = operations(&mut penn, |penn| while penn.read(list).is_some() {});
    assert_eq!((costs.cells, costs.lists), (0, 3));
    // Unknown circuits cost the look-up.
    let unknown = Sender::new(stream(9, None)).cells(b"x");
    assert_eq!(
        operations(&mut penn, |penn| send(penn, &unknown)),
        cost(1, 0, 0)
    );
}

#[test]
fn the_sequence_number_is_ignored() {
    let mut penn = penn(PennConfig::default());
    let mut sender = Sender::new(AAL34);
    let mut payload = Vec::new();
    // A lost COM shows in the length.
    let mut cells = sender.cells(&text(300, 0));
    cells.remove(3);
    send(&mut penn, &cells);
    match penn.poll(&mut payload).expect("a report").result {
        Err(Loss::Wrong(error)) => assert_eq!(error.field, "length"),
        other => panic!("{other:?}"),
    }
    // Exchanged COMs do not show: AAL3/4 has no check over the message. ATM keeps the
    // order, so the prototype leaves this out.
    let sent = text(300, 0);
    let mut cells = sender.cells(&sent);
    cells.swap(3, 4);
    send(&mut penn, &cells);
    assert!(penn.poll(&mut payload).expect("a report").result.is_ok());
    assert_ne!(payload, sent);
    assert_eq!(payload.len(), sent.len());
}

#[test]
fn the_host_reads_lists_by_reference() {
    let mut penn = penn(PennConfig {
        buffer_cells: 9,
        ..PennConfig::default()
    });
    let (first, second) = (text(100, 1), text(100, 2));
    send(&mut penn, &Sender::new(AAL5).cells(&first));
    let mut sender = Sender::new(AAL34);
    send(&mut penn, &sender.cells(&second));
    let lists = [whole(&mut penn, AAL5), whole(&mut penn, AAL34)];
    assert_eq!(penn.free_cells(), 3);

    // What is not read holds its cells: a datagram of four finds three.
    send(&mut penn, &sender.cells(&text(150, 3)));
    let lost = Completion {
        stream: AAL34,
        result: Err(Loss::NoBuffer),
    };
    assert_eq!(penn.poll_completion(), Some(lost));
    assert_eq!(penn.free_cells(), 3);

    // Both lists, a cell of each in turn; bodies are as long as they say.
    let mut pdus = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (list, pdu) in lists.iter().zip(&mut pdus) {
            pdu.extend_from_slice(penn.read(*list).expect("a cell").bytes());
        }
    }
    assert_eq!(penn.free_cells(), 9);
    assert_eq!(lists.map(|list| penn.read(list)), [None, None]);
    assert_eq!((pdus[0].len(), pdus[1].len()), (144, 108));
    assert_eq!(pdus[0][..100], first);
    assert_eq!(pdus[1][4..104], second);

    // Or it drops one.
    send(&mut penn, &Sender::new(AAL5).cells(&first));
    let list = whole(&mut penn, AAL5);
    let costs = operations(&mut penn, |penn| penn.release(list));
    assert_eq!((costs.lists, penn.free_cells()), (1, 9));
}
