//! What goes wrong on the line, and what the deframer makes of it.

use super::*;

/// What a byte of a frame is, where the pointer is 522.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Section,
    Line,
    Path,
}

fn place(rate: Rate, at: usize) -> Place {
    let (row, column) = (at / rate.row_bytes(), at % rate.row_bytes());
    match column < rate.overhead_columns() {
        true if row < 3 => Place::Section,
        true => Place::Line,
        false => Place::Path,
    }
}

/// One wrong bit, anywhere in a frame: every parity that covers it says 1, or 2 where the
/// bit is a bit of that parity itself; no parity else says anything; at most two cells suffer,
/// and none if the bit is in a header or in no cell at all.
fn one_wrong_bit<const FRAME_BYTES: usize>(
    mut sender: Sender<FRAME_BYTES>,
    mut deframer: Deframer<FRAME_BYTES>,
    bit: usize,
) {
    let rate = Framer::<FRAME_BYTES>::RATE;
    let n = rate.sts1s();
    let already_sent = sender.sent.len();
    let before = deframer.stats();
    let mut line = sender.frames(4);
    let at = bit / 8;
    line[FRAME_BYTES + at] ^= 0x80 >> (bit % 8);
    let received = receive(&mut deframer, &line);
    let stats = deframer.stats();
    let is = |row: usize, columns: core::ops::Range<usize>| {
        u64::from((rate.at(row, columns.start)..rate.at(row, columns.end)).contains(&at))
    };
    let place = place(rate, at);
    let in_line = u64::from(place != Place::Section);
    let in_path = u64::from(place == Place::Path);
    assert_eq!(stats.b1_errors, 1 + is(1, 0..1), "B1, bit {bit}");
    assert_eq!(stats.b2_errors, in_line + is(4, 0..n), "B2, bit {bit}");
    let b3_itself = is(1, 3 * n..3 * n + 1);
    assert_eq!(stats.path.b3_errors, in_path + b3_itself, "B3, bit {bit}");
    assert_eq!(stats.framing_errors, is(0, n - 3..n + 3));

    let sent = &sender.sent[already_sent..];
    let is_new = |cell: &&Bytes| sent.iter().any(|s| s[..5] == cell[..5]);
    let received: Vec<_> = received.iter().filter(is_new).collect();
    assert!(sent.len() - received.len() <= 2, "bit {bit}");
    let pairs = received.iter().zip(sent);
    let wrong_bits: Vec<u32> = pairs
        .map(|(r, s)| r.iter().zip(s).map(|(a, b)| (a ^ b).count_ones()).sum())
        .filter(|&wrong| wrong > 0)
        .collect();
    let corrected = stats.path.cells.corrected - before.path.cells.corrected;
    let wrong: u32 = wrong_bits.iter().sum();
    assert_eq!(stats.path.cells.discarded, before.path.cells.discarded);
    match (place, corrected) {
        (Place::Path, 0) => assert!(wrong == 2 || wrong == 0, "bit {bit}"),
        (_, corrected) => assert_eq!((wrong, corrected), (0, corrected.min(1)), "bit {bit}"),
    }
}

#[test]
fn every_bit_of_the_overhead_may_be_wrong() {
    let (sender, deframer, _) = running::<STS3C>(11);
    let columns = Rate::Sts3c.overhead_columns() + 1;
    for row in 0..ROWS {
        for bit in 0..columns * 8 {
            let bit = row * Rate::Sts3c.row_bytes() * 8 + bit;
            // A frame costs time: one bit of each byte, each time another.
            if bit % 8 == bit / 8 % 8 {
                one_wrong_bit(sender.clone(), deframer.clone(), bit);
            }
        }
    }
}

/// The bits of a cell header in the middle of a frame, one after another.
#[test]
fn headers_with_a_wrong_bit_are_corrected() {
    let (sender, deframer, _) = running::<STS3C>(12);
    let mut corrected = 0;
    // Payload of row 4, from 60 bytes in: at least one header, but some bytes only.
    let start = Rate::Sts3c.at(4, 60);
    for at in start..start + CELL_BYTES {
        let (mut sender, mut deframer) = (sender.clone(), deframer.clone());
        let mut line = sender.frames(3);
        line[STS3C + at] ^= 0x10;
        receive(&mut deframer, &line);
        corrected += deframer.stats().path.cells.corrected;
    }
    assert_eq!(corrected, 5, "the bytes of one header");
}

#[test]
fn three_missed_patterns_are_borne_and_four_are_not() {
    let cases: [(&[usize], u64); 3] = [
        (&[1, 2, 3], 0),
        (&[1, 2, 3, 5, 6, 7], 0),
        (&[1, 2, 3, 4], 1),
    ];
    for (missed, losses) in cases {
        let (mut sender, mut deframer, mut received) = running::<STS3C>(13);
        let mut line = sender.frames(24);
        for frame in missed {
            line[frame * STS3C + 2] ^= 0x40;
        }
        received.extend(receive(&mut deframer, &line));
        let stats = deframer.stats();
        assert_eq!(stats.frame_losses, losses);
        assert_eq!(stats.framing_errors, missed.len() as u64);
        assert_eq!(is_unbroken(&sender.sent, &received), losses == 0);
        assert_eq!(deframer.alarms(), Alarms::default());
    }
}

#[test]
fn loss_of_frame_takes_3_ms_to_come_and_to_go() {
    let (mut sender, mut deframer, _) = running::<STS3C>(14);
    let silence = std::vec![0; STS3C];
    let frames_until =
        |deframer: &mut Deframer<STS3C>, lost: bool, next: &mut dyn FnMut() -> Vec<u8>| {
            (1..100)
                .find(|_| {
                    receive(deframer, &next());
                    deframer.alarms().loss_of_frame == lost
                })
                .expect("in time")
        };
    // Frames are lost where the fourth begins without the pattern, and found where the second
    // begins with it.
    let took = frames_until(&mut deframer, true, &mut || silence.clone());
    assert_eq!(took, 3 + LOSS_OF_FRAME_FRAMES);
    assert!(deframer.alarms().out_of_frame);
    let took = frames_until(&mut deframer, false, &mut || sender.frames(1));
    assert_eq!(took, 1 + LOSS_OF_FRAME_FRAMES);
    assert!(!deframer.alarms().out_of_frame);
}

#[test]
fn a_slip_is_survived() {
    for bits in [1, 8 * 20 + 3] {
        let (mut sender, mut deframer, mut received) = running::<STS3C>(15);
        let mut line = sender.frames(2);
        let slipped = sender.frames(20);
        line.extend(shifted(&slipped[bits / 8..], bits as u32 % 8));
        received.extend(receive(&mut deframer, &line));
        assert_eq!(deframer.stats().frame_losses, 1);
        let known = |cell: &Bytes| sender.sent.contains(cell);
        let unknown = received.iter().filter(|cell| !known(cell)).count();
        assert!(unknown <= 5, "{unknown} cells that nobody sent");
        let last = received.iter().rev().take(300).collect::<Vec<_>>();
        assert!(last.iter().all(|cell| known(cell)));
    }
}

/// Sets a byte of the clear frame.
fn set(line: &mut [u8], frame: usize, row: usize, column: usize, value: u8) {
    let at = frame * STS3C + Rate::Sts3c.at(row, column);
    let clear = Frame::new_unchecked(Rate::Sts3c, {
        let mut clear = line[frame * STS3C..(frame + 1) * STS3C].to_vec();
        Frame::new_unchecked(Rate::Sts3c, &mut clear[..]).scramble();
        clear
    });
    line[at] ^= clear.byte(row, column) ^ value;
}

#[test]
fn a_path_that_failed_upstream_is_seen_and_comes_back() {
    let (mut sender, mut deframer, _) = running::<STS3C>(16);
    let mut line = sender.frames(5);
    for frame in 0..4 {
        set(&mut line, frame, 3, 0, 0xff);
        set(&mut line, frame, 3, 3, 0xff);
        set(&mut line, frame, 4, 6, K2_LINE_AIS);
    }
    receive(&mut deframer, &line[..4 * STS3C]);
    let alarms = deframer.alarms();
    assert!(alarms.path_alarm && alarms.line_alarm && alarms.loss_of_cells);
    let report = deframer.take_report();
    assert!(report.line_defect && report.path_defect);
    let mut received = receive(&mut deframer, &line[4 * STS3C..]);
    received.extend(receive(&mut deframer, &sender.frames(8)));
    assert_eq!(deframer.alarms(), Alarms::default());
    assert!(is_unbroken(&sender.sent, &received));
}

#[test]
fn wrong_labels_and_loose_sts1s_are_seen() {
    let (mut sender, mut deframer, _) = running::<STS3C>(17);
    let mut line = sender.frames(2);
    set(&mut line, 0, 2, 9, 0x16);
    set(&mut line, 0, 3, 1, 0x62);
    receive(&mut deframer, &line[..STS3C]);
    assert!(deframer.alarms().label_mismatch);
    receive(&mut deframer, &line[STS3C..]);
    assert_eq!(deframer.alarms(), Alarms::default());
    assert_eq!(deframer.stats().concatenation_errors, 1);
}

#[test]
fn reports_of_more_errors_than_there_can_be_are_ignored() {
    let (mut sender, mut deframer, _) = running::<STS3C>(18);
    let mut line = sender.frames(2);
    set(&mut line, 0, 8, 5, 25);
    set(&mut line, 0, 3, 9, 0x90);
    set(&mut line, 1, 8, 5, 24);
    set(&mut line, 1, 3, 9, 0x80);
    receive(&mut deframer, &line);
    let stats = deframer.stats();
    assert_eq!((stats.far_b2_errors, stats.path.far_b3_errors), (24, 8));
}

/// What was known before frames were lost is neither shown nor compared with what comes after.
#[test]
fn lost_frames_leave_nothing_behind() {
    let nowhere = deframer::<STS3C>().take_report();
    let (mut sender, mut deframer, _) = running::<STS3C>(19);
    // B3 comes before J1 in the first SPE that is seen.
    sender.framer.change_pointer(PointerChange::Jump(782));
    sender.framer.report(nowhere);
    let mut line = sender.frames(10);
    let lost = 9 * STS3C + Rate::Sts3c.pattern_end();
    // C2 of the last five frames, and the pattern of the last four.
    let c2 = Rate::Sts3c.at_offset(782 + 2 * 87);
    (5..10).for_each(|frame| line[frame * STS3C + c2] ^= 0xff);
    (6..10).for_each(|frame| line[frame * STS3C] ^= 0xff);
    (6..10).for_each(|frame| line[frame * STS3C + 2] ^= 0xff);
    receive(&mut deframer, &line[..lost - 1]);
    let alarms = deframer.alarms();
    assert!(alarms.label_mismatch && alarms.far_line_defect && alarms.far_path_defect);
    receive(&mut deframer, &line[lost - 1..lost]);
    let expected = Alarms {
        out_of_frame: true,
        loss_of_pointer: true,
        loss_of_cells: true,
        ..Alarms::default()
    };
    assert_eq!(deframer.alarms(), expected);

    let before = deframer.stats();
    sender.frames(1);
    receive(&mut deframer, &sender.frames(8));
    let stats = deframer.stats();
    assert_eq!(stats.b1_errors, before.b1_errors);
    assert_eq!(stats.b2_errors, before.b2_errors);
    assert_eq!(stats.path.b3_errors, before.path.b3_errors);
    assert!(stats.frames > before.frames + 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_bit_may_be_wrong_anywhere(seed: u64, bit in 0..STS3C * 8) {
        let (sender, deframer, _) = running::<STS3C>(seed);
        one_wrong_bit(sender, deframer, bit);
    }

    /// Anything at all, in any pieces: no panic, and the same whatever the pieces.
    #[test]
    fn anything_in_any_pieces_gives_the_same(seed: u64, faults in 0_usize..60) {
        let (mut sender, mut rng) = (Sender::<STS3C>::new(seed, 8), Rng::from_seed(seed));
        let mut line = Vec::new();
        for _ in 0..10 {
            let value = rng.below(900) as u16;
            sender.framer.change_pointer(PointerChange::Jump(value));
            line.extend(sender.frames(1));
        }
        for _ in 0..faults {
            let at = rng.index(line.len());
            match rng.below(3) {
                0 => line[at] = rng.next_u64() as u8,
                1 => line.insert(at, 0xf6),
                _ => drop(line.drain(at..line.len().min(at + 40))),
            }
        }
        let (mut whole, mut pieces) = (deframer::<STS3C>(), deframer::<STS3C>());
        let received = receive(&mut whole, &line);
        prop_assert_eq!(receive_in_pieces(&mut pieces, &mut rng, &line), received);
        prop_assert_eq!(whole.stats(), pieces.stats());
        prop_assert_eq!(whole.alarms(), pieces.alarms());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn one_bit_may_be_wrong_anywhere_in_sts12c(seed: u64, bit in 0..STS12C * 8) {
        let (sender, deframer, _) = running::<STS12C>(seed);
        one_wrong_bit(sender, deframer, bit);
    }
}
