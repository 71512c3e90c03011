//! The rules one at a time: a station or two, and frames handed over by hand.

use alloc::string::ToString;
use alloc::vec;

use barewire_formats::cbn::{CELL_BYTES, FRAME_BYTES, Frame, SLOTS};
use barewire_units::{Duration, Graph, Instant};
use proptest::prelude::*;

use super::fixture::{cell, station};
use crate::slotted::{
    Channel, Config, ConfigError, Duplex, Loss, Monitor, Outcome, Passage, SendError, SlotState,
    Station, Verdict,
};

type Bytes = [u8; FRAME_BYTES];

const NOW: Instant = Instant::ORIGIN;

fn empty_frame() -> Frame<Bytes> {
    let mut frame = Frame::new_unchecked([0xff; FRAME_BYTES]);
    Monitor::form_frame(&mut frame);
    frame
}

/// A station on a ring of one frame, listening to the VCIs on channel 0.
fn alone(config: Config, vcis: &[u16]) -> Station {
    let mut station = Station::new(Config {
        frames: 1,
        ..config
    })
    .unwrap();
    vcis.iter().for_each(|&vci| station.listen(vci));
    station
}

#[track_caller]
fn outcome(station: &mut Station) -> Outcome {
    station.poll_report().expect("a report").outcome
}

#[track_caller]
fn assert_states(frame: &Frame<Bytes>, expected: [SlotState; SLOTS]) {
    assert!(frame.crc_ok());
    assert_eq!(
        core::array::from_fn(|slot| SlotState::read(frame, slot)),
        expected
    );
}

const FIRST: [bool; SLOTS] = [true, false, false, false];
const FREE: SlotState = SlotState::Empty;

#[test]
fn the_slot_is_this_table() {
    let expected = "\
Empty --Fill--> Fresh
Empty --Damage--> Void
Fresh --PassMonitor--> Passed
Fresh --Release--> Empty
Fresh --Damage--> Void
Passed --PassMonitor--> Empty
Passed --Release--> Empty
Passed --Damage--> Void
Void --PassMonitor--> VoidPassed
Void --Release--> Empty
Void --Damage--> Void
VoidPassed --PassMonitor--> Empty
VoidPassed --Release--> Empty
VoidPassed --Damage--> Void
";
    assert_eq!(Graph::<SlotState>::new().to_string(), expected);
}

#[test]
fn a_cell_goes_round_and_its_sender_empties_the_slot() {
    let (mut sender, mut receiver) = (alone(station(1), &[]), alone(station(0), &[7]));
    let (mut monitor, mut frame) = (Monitor::new(), empty_frame());
    let ticket = sender.send(Channel::ALL[0], cell(7, 1, 99)).unwrap();
    assert_eq!(sender.handle_frame(NOW, &mut frame).filled, FIRST);
    assert_states(&frame, [SlotState::Fresh, FREE, FREE, FREE]);
    monitor.handle_frame(&mut frame);
    assert_states(&frame, [SlotState::Passed, FREE, FREE, FREE]);
    assert!(receiver.handle_frame(NOW, &mut frame).received);
    assert_eq!(Verdict::read(&frame, 0), Verdict::Accepted);
    assert_eq!(receiver.poll_received(), Some(cell(7, 1, 99)));
    assert_eq!((sender.in_flight(), sender.poll_report()), (1, None));

    let _ = sender.send(Channel::ALL[0], cell(7, 2, 100));
    let back = sender.handle_frame(NOW, &mut frame);
    let expected = Passage {
        released: FIRST,
        ..Passage::default()
    };
    assert_eq!(back, expected, "it may not fill the slot it empties");
    assert_eq!(*frame.slot(0), [0; CELL_BYTES]);
    assert_states(&frame, [FREE; SLOTS]);
    let report = sender.poll_report().unwrap();
    assert_eq!((report.ticket, report.channel), (ticket, Channel::ALL[0]));
    assert_eq!(report.outcome, Outcome::Returned(Verdict::Accepted));
    assert_eq!(
        sender.handle_frame(NOW, &mut frame).filled,
        FIRST,
        "one rotation later it may"
    );
}

/// Each row: what the receivers downstream do with a cell, and what the sender is told.
#[test]
fn the_sender_reads_what_all_receivers_say() {
    use Verdict::{Accepted, Marked, Nobody, Refused};
    let table: [(&[bool], Verdict); 6] = [
        (&[], Nobody),
        (&[true], Accepted),
        (&[false], Refused),
        (&[true, true], Accepted),
        (&[false, false], Refused),
        (&[true, false, true], Marked),
    ];
    for (rooms, verdict) in table {
        let (mut sender, mut frame) = (alone(station(1), &[]), empty_frame());
        sender.send(Channel::ALL[0], cell(7, 1, 1)).unwrap();
        sender.handle_frame(NOW, &mut frame);
        for &has_room in rooms {
            let config = Config {
                receive_fifo_cells: 1,
                ..station(0)
            };
            let mut receiver = alone(config, &[7, 8]);
            if !has_room {
                assert!(
                    receiver
                        .handle_frame(NOW, &mut carrying(cell(8, 1, 1)))
                        .received
                );
            }
            assert_eq!(receiver.handle_frame(NOW, &mut frame).received, has_room);
            assert_eq!(receiver.stats().refused_full, u64::from(!has_room));
        }
        sender.handle_frame(NOW, &mut frame);
        assert_eq!(
            outcome(&mut sender),
            Outcome::Returned(verdict),
            "{rooms:?}"
        );
    }
}

/// A frame with `cell` in slot 0, as another station sent it.
fn carrying(cell: [u8; CELL_BYTES]) -> Frame<Bytes> {
    let (mut other, mut frame) = (alone(station(1), &[]), empty_frame());
    other.send(Channel::ALL[0], cell).unwrap();
    other.handle_frame(NOW, &mut frame);
    frame
}

#[test]
fn a_station_receives_only_its_vcis_on_its_channel() {
    let mut receiver = alone(station(0), &[7]);
    assert!(
        !receiver
            .handle_frame(NOW, &mut carrying(cell(8, 1, 1)))
            .received
    );
    receiver.listen(8);
    assert!(
        receiver
            .handle_frame(NOW, &mut carrying(cell(8, 1, 1)))
            .received
    );
    receiver.stop_listening(8);
    assert!(
        !receiver
            .handle_frame(NOW, &mut carrying(cell(8, 2, 1)))
            .received
    );
    let mut other_channel = alone(station(2), &[7]);
    assert!(
        !other_channel
            .handle_frame(NOW, &mut carrying(cell(7, 1, 1)))
            .received
    );
}

#[test]
fn half_duplex_does_not_transmit_while_it_receives() {
    for (duplex, transmits) in [(Duplex::Half, false), (Duplex::Full, true)] {
        let mut both = alone(
            Config {
                duplex,
                ..station(0)
            },
            &[7],
        );
        both.send(Channel::ALL[3], cell(9, 1, 1)).unwrap();
        let mut frame = carrying(cell(7, 1, 1));
        let passage = both.handle_frame(NOW, &mut frame);
        assert_eq!((passage.filled[3], passage.received), (transmits, true));
        assert_eq!(Verdict::read(&frame, 0), Verdict::Accepted);
        assert_eq!(both.stats().held_receiving, u64::from(!transmits));
        // A cell for somebody else does not hold it back.
        let passage = both.handle_frame(NOW, &mut carrying(cell(8, 2, 1)));
        assert_eq!(passage.filled[3], !transmits);
    }
}

#[test]
fn half_duplex_transmits_where_the_receive_fifo_is_full() {
    let config = Config {
        duplex: Duplex::Half,
        receive_fifo_cells: 1,
        ..station(0)
    };
    let mut both = alone(config, &[7]);
    both.send(Channel::ALL[3], cell(9, 1, 1)).unwrap();
    assert!(
        both.handle_frame(NOW, &mut carrying(cell(7, 1, 1)))
            .received
    );
    let passage = both.handle_frame(NOW, &mut carrying(cell(7, 2, 1)));
    let expected = Passage {
        filled: [false, false, false, true],
        refused: true,
        ..Passage::default()
    };
    assert_eq!(passage, expected);
}

#[test]
fn a_cell_is_inserted_ahead_of_those_that_wait() {
    let (mut sender, mut frame) = (alone(station(1), &[]), empty_frame());
    let channel = Channel::ALL[0];
    sender.handle_frame(NOW, &mut frame);
    sender.send(channel, cell(7, 1, 1)).unwrap();
    let ticket = sender.insert(&mut frame, channel, || cell(7, 2, 2));
    assert!(ticket.is_some());
    assert_states(&frame, [SlotState::Fresh, FREE, FREE, FREE]);
    assert_eq!(*frame.slot(0), cell(7, 2, 2));
    assert_eq!(sender.insert(&mut frame, channel, || cell(7, 3, 3)), None);
    assert_eq!(sender.handle_frame(NOW, &mut frame).released, FIRST);
    assert_eq!(sender.insert(&mut frame, channel, || cell(7, 3, 3)), None);
    let report = sender.poll_report().unwrap();
    assert_eq!(Some(report.ticket), ticket);
    assert_eq!(report.outcome, Outcome::Returned(Verdict::Nobody));
    assert_eq!((sender.queued(channel), sender.in_flight()), (1, 0));
}

#[test]
fn size_bounds_the_slots_of_a_frame_and_the_longest_wait_goes_first() {
    for channels_at_once in 1..=SLOTS {
        let mut sender = alone(
            Config {
                channels_at_once,
                ..station(0)
            },
            &[],
        );
        for channel in Channel::ALL {
            for _ in 0..8 {
                sender.send(channel, cell(7, 1, 1)).unwrap();
            }
        }
        let filled = sender.handle_frame(NOW, &mut empty_frame()).filled;
        assert_eq!(
            filled.iter().filter(|&&fill| fill).count(),
            channels_at_once
        );
        let waits = 1 + 3 / channels_at_once;
        for _ in 1..waits {
            sender.reform(1).unwrap();
            sender.handle_frame(NOW, &mut empty_frame());
        }
        assert!(
            Channel::ALL
                .iter()
                .all(|&channel| sender.queued(channel) < 8)
        );
    }
}

#[test]
fn a_damaged_frame_is_void_and_counted_once() {
    let (mut sender, mut receiver) = (alone(station(1), &[]), alone(station(0), &[7]));
    let mut waiting = alone(station(0), &[]);
    waiting.send(Channel::ALL[2], cell(1, 1, 1)).unwrap();
    for bit in 0..1188 {
        let mut frame = empty_frame();
        sender
            .send(Channel::ALL[0], cell(7, 1, bit as u32))
            .unwrap();
        sender.handle_frame(NOW, &mut frame);
        let mut bytes = frame.into_inner();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        let mut frame = Frame::new_unchecked(bytes);
        assert!(waiting.handle_frame(NOW, &mut frame).damaged);
        assert_states(&frame, [SlotState::Void; SLOTS]);
        let passage = receiver.handle_frame(NOW, &mut frame);
        assert_eq!(passage, Passage::default(), "bit {bit}");
        assert_eq!(sender.handle_frame(NOW, &mut frame).released, FIRST);
        assert_eq!(outcome(&mut sender), Outcome::Lost(Loss::Damaged));
        assert_states(
            &frame,
            [FREE, SlotState::Void, SlotState::Void, SlotState::Void],
        );
        let mut monitor = Monitor::new();
        monitor.handle_frame(&mut frame);
        monitor.handle_frame(&mut frame);
        assert_states(&frame, [FREE; SLOTS]);
        assert_eq!(monitor.stats().lost_voids, 3);
    }
    assert_eq!(
        (waiting.stats().damaged_frames, waiting.stats().sent),
        (1188, 0)
    );
    assert_eq!(receiver.stats().damaged_frames, 0);
}

#[test]
fn the_monitor_empties_what_arrives_twice() {
    let mut frame = carrying(cell(7, 1, 1));
    let (mut monitor, mut receiver) = (Monitor::new(), alone(station(0), &[7]));
    assert!(receiver.handle_frame(NOW, &mut frame).received);
    monitor.handle_frame(&mut frame);
    assert!(
        !receiver.handle_frame(NOW, &mut frame).received,
        "the second time"
    );
    assert_eq!(receiver.stats().duplicates, 1);
    monitor.handle_frame(&mut frame);
    assert_states(&frame, [FREE; SLOTS]);
    assert_eq!((monitor.stats().frames, monitor.stats().lost_cells), (2, 1));
}

#[test]
fn a_slot_that_is_not_its_own_is_left_alone() {
    let mut sender = alone(station(1), &[]);
    sender.send(Channel::ALL[0], cell(7, 1, 1)).unwrap();
    sender.handle_frame(NOW, &mut empty_frame());
    let mut foreign = carrying(cell(7, 2, 1));
    assert_eq!(
        sender.handle_frame(NOW, &mut foreign).released,
        [false; SLOTS]
    );
    assert_eq!(outcome(&mut sender), Outcome::Lost(Loss::Replaced));
    assert_states(&foreign, [SlotState::Fresh, FREE, FREE, FREE]);
    sender.send(Channel::ALL[0], cell(7, 3, 1)).unwrap();
    sender.handle_frame(NOW, &mut empty_frame());
    sender.handle_frame(NOW, &mut empty_frame());
    assert_eq!(outcome(&mut sender), Outcome::Lost(Loss::Emptied));
}

#[test]
fn a_silent_or_reformed_ring_loses_what_is_on_it() {
    let mut sender = alone(station(1), &[]);
    assert_eq!(sender.next_deadline(), None);
    let silence = sender.config().silence;
    let start = NOW + Duration::from_us(5);
    for (loss, later) in [
        (Loss::RingSilent, silence),
        (Loss::RingReformed, Duration::ZERO),
    ] {
        sender.send(Channel::ALL[0], cell(7, 1, 1)).unwrap();
        sender.send(Channel::ALL[0], cell(7, 2, 1)).unwrap();
        sender.handle_frame(start, &mut empty_frame());
        assert_eq!(sender.next_deadline(), Some(start + silence));
        sender.handle_timeout(start + silence - Duration::from_ps(1));
        assert_eq!(sender.poll_report(), None);
        sender.handle_timeout(start + later);
        if loss == Loss::RingReformed {
            sender.reform(3).unwrap();
        }
        assert_eq!(outcome(&mut sender), Outcome::Lost(loss));
        assert_eq!((sender.in_flight(), sender.next_deadline()), (0, None));
        assert_eq!(sender.queued(Channel::ALL[0]), 1, "what waits stays");
        sender = alone(station(1), &[]);
    }
}

#[test]
fn a_full_transmit_fifo_says_so() {
    let mut sender = alone(
        Config {
            transmit_fifo_cells: 2,
            ..station(0)
        },
        &[],
    );
    let channel = Channel::ALL[1];
    for _ in 0..2 {
        sender.send(channel, cell(1, 1, 1)).unwrap();
    }
    let full = sender.send(channel, cell(1, 1, 1));
    assert_eq!(full, Err(SendError::Full { channel, cells: 2 }));
    assert_eq!(sender.stats().transmit_full, 1);
    assert!(sender.send(Channel::ALL[2], cell(1, 1, 1)).is_ok());
}

#[test]
fn a_configuration_out_of_range_is_refused() {
    let good = Config::v1s(Channel::ALL[0]);
    let wrong = |config| <Station>::new(config).unwrap_err();
    assert_eq!(wrong(Config { frames: 0, ..good }), ConfigError::Frames(0));
    assert_eq!(
        wrong(Config {
            frames: usize::MAX,
            ..good
        }),
        ConfigError::Frames(usize::MAX)
    );
    for channels_at_once in [0, 5] {
        let config = Config {
            channels_at_once,
            ..good
        };
        assert_eq!(wrong(config), ConfigError::ChannelsAtOnce(channels_at_once));
    }
    assert_eq!(
        wrong(Config {
            receive_fifo_cells: 0,
            ..good
        }),
        ConfigError::Fifo
    );
    assert_eq!(Channel::new(4), None);
    assert_eq!(Channel::new(3).map(Channel::index), Some(3));
}

proptest! {
    /// A Cambridge Fast Ring cell, or any other 36 bytes, passes as it is.
    #[test]
    fn any_cell_passes_unchanged(head: [u8; 4], body: [u8; 32]) {
        let mut cell = [0; CELL_BYTES];
        cell[..4].copy_from_slice(&head);
        cell[4..].copy_from_slice(&body);
        let mut receiver = alone(station(0), &[u16::from_be_bytes([head[0], head[1]])]);
        receiver.handle_frame(NOW, &mut carrying(cell));
        prop_assert_eq!(receiver.poll_received(), Some(cell));
    }

    /// Whatever the frames hold: no panic, a good frame out, and each cell has one end.
    #[test]
    fn hostile_frames_do_no_harm(
        steps in proptest::collection::vec(any::<(u8, u16, [u8; 12], bool)>(), 0..60),
    ) {
        let config = Config { frames: 2, transmit_fifo_cells: 3, ..station(0) };
        let mut victim = Station::new(config).unwrap();
        let mut monitor = Monitor::new();
        let mut tickets = vec![];
        for (what, vci, noise, fix) in steps {
            victim.listen(vci & 3);
            let channel = Channel::ALL[usize::from(what & 3)];
            let mut bytes = [0; FRAME_BYTES];
            bytes.iter_mut().zip(noise.iter().cycle()).for_each(|(byte, &noise)| *byte = noise);
            let mut frame = Frame::new_unchecked(bytes);
            if fix {
                frame.set_header(barewire_formats::cbn::HEADER);
                frame.fill_crc();
            }
            match what >> 4 {
                0..=5 => drop(victim.send(channel, cell(vci & 3, what, 0))),
                6 => monitor.handle_frame(&mut frame),
                7 => victim.handle_timeout(victim.next_deadline().unwrap_or(NOW)),
                8 => victim.reform(usize::from(what & 7)).unwrap_or_default(),
                _ => drop(victim.handle_frame(NOW, &mut frame)),
            }
            prop_assert!(what >> 4 < 9 || frame.crc_ok());
            tickets.extend(core::iter::from_fn(|| victim.poll_report()).map(|end| end.ticket));
        }
        victim.reform(1).unwrap();
        tickets.extend(core::iter::from_fn(|| victim.poll_report()).map(|end| end.ticket));
        let stats = victim.stats();
        prop_assert_eq!(tickets.len() as u64, stats.sent);
        tickets.sort_unstable();
        tickets.dedup();
        prop_assert_eq!(tickets.len() as u64, stats.sent, "a cell with two ends");
        let ends = stats.accepted + stats.marked + stats.refused + stats.nobody
            + stats.lost_damaged + stats.lost_emptied + stats.lost_replaced
            + stats.lost_with_ring;
        prop_assert_eq!(ends, stats.sent);
    }
}
