//! Figures and layouts that the standards give, against definitions written out.

use super::*;

#[test]
fn the_figures_as_published() {
    let rate = Rate::Sts3c;
    assert_eq!(rate.line_bits_per_second(), 155_520_000);
    assert_eq!(rate.payload_bits_per_second(), 149_760_000);
    assert_eq!(rate.payload_bytes(), 2340);
    let cell_bits = 8 * CELL_BYTES as u64;
    // 353 207.5 cells in a second, 44.15 in a frame.
    assert_eq!(rate.payload_bits_per_second() * 10 / cell_bits, 3_532_075);
    assert_eq!(rate.payload_bytes() * 100 / CELL_BYTES, 4415);
    let rate = Rate::Sts12c;
    assert_eq!(rate.line_bits_per_second(), 622_080_000);
    assert_eq!(rate.payload_bits_per_second(), 599_040_000);
    assert_eq!(rate.to_string(), "STS-12c");
}

/// 2340 bytes are 44 cells and 8 bytes: the framer asks for 45 cells, then for 44 until the
/// 8 bytes have become another cell; 53 frames hold exactly 2340 cells.
#[test]
fn cells_cross_frame_boundaries() {
    let mut framer = Framer::<STS3C>::new();
    let mut frame = [0; STS3C];
    let mut asked = Vec::new();
    for _ in 0..53 {
        let mut count = 0;
        framer.emit(&mut frame, || {
            count += 1;
            None
        });
        asked.push(count);
    }
    assert_eq!(asked[..8], [45, 44, 44, 44, 44, 44, 45, 44]);
    assert_eq!(asked.iter().sum::<usize>(), 2340);
}

fn clear<const FRAME_BYTES: usize>(line: &[u8]) -> Frame<Vec<u8>> {
    let rate = Rate::of_frame_bytes(FRAME_BYTES).unwrap();
    let mut frame = Frame::new_checked(rate, line.to_vec()).unwrap();
    frame.scramble();
    frame
}

/// B1, B2 and B3 by their definitions: a parity bit for every place in a byte.
fn parities_are_right<const FRAME_BYTES: usize>() {
    let line = Sender::<FRAME_BYTES>::new(5, 8).frames(2);
    let (first, second) = line.split_at(FRAME_BYTES);
    let before = clear::<FRAME_BYTES>(first);
    let frame = clear::<FRAME_BYTES>(second);
    let (rate, n) = (frame.rate(), frame.rate().sts1s());
    let parity = |bytes: &mut dyn Iterator<Item = u8>| {
        let mut ones = [0_u32; 8];
        for byte in bytes {
            (0..8).for_each(|bit| ones[bit] += u32::from(byte >> bit & 1));
        }
        (0..8).fold(0, |bip, bit| bip | ((ones[bit] % 2) as u8) << bit)
    };
    assert_eq!(frame.byte(1, 0), parity(&mut first.iter().copied()), "B1");
    for sts1 in 0..n {
        let of_sts1 = |&at: &usize| {
            let (row, column) = (at / rate.row_bytes(), at % rate.row_bytes());
            at % n == sts1 && (row >= 3 || column >= 3 * n)
        };
        let mut covered = (0..FRAME_BYTES)
            .filter(of_sts1)
            .map(|at| before.bytes()[at]);
        assert_eq!(frame.byte(4, sts1), parity(&mut covered), "B2 {sts1}");
    }
    // The pointer is 522: the SPE is the envelope of the frame.
    let in_spe = |at: &usize| at % rate.row_bytes() >= 3 * n;
    let mut spe = (0..FRAME_BYTES).filter(in_spe).map(|at| before.bytes()[at]);
    assert_eq!(frame.byte(1, 3 * n), parity(&mut spe), "B3");
}

#[test]
fn parities_are_those_of_the_definition() {
    parities_are_right::<STS3C>();
    parities_are_right::<STS12C>();
}

#[test]
fn the_first_bytes_of_a_frame() {
    let line = Sender::<STS3C>::new(1, 0).frames(1);
    assert_eq!(line[..6], [0xf6, 0xf6, 0xf6, 0x28, 0x28, 0x28]);
    let frame = clear::<STS3C>(&line);
    let row = |row: usize, count| frame.bytes()[row * 270..][..count].to_vec();
    assert_eq!(
        row(3, 9),
        [0x62, 0x93, 0x93, 0x0a, 0xff, 0xff, 0, 0, 0],
        "pointer"
    );
    assert_eq!(frame.byte(2, 9), 0x13, "C2");
    // The first cell begins behind J1. Its payload meets a scrambler that is still zero.
    assert_eq!(row(0, 16)[9..], [0, 0, 0, 0, 1, 0x52, 0x6a]);
    let line = Sender::<STS12C>::new(1, 0).frames(1);
    assert_eq!(line[11..13], [0xf6, 0x28]);
    let frame = clear::<STS12C>(&line);
    // J1, three columns of stuff, then the first cell.
    let start = &frame.bytes()[36..46];
    assert_eq!(start, [0, 0, 0, 0, 0, 0, 0, 1, 0x52, 0x6a]);
}

#[test]
fn overhead_reads_back() {
    for rate in [Rate::Sts3c, Rate::Sts12c] {
        let mut b2 = [0; STS1S_MAX];
        (0..rate.sts1s()).for_each(|i| b2[i] = 0x40 + i as u8);
        let repr = OverheadRepr {
            j0: 1,
            b1: 2,
            pointer: PointerWord::holding(3),
            b2,
            k1: 4,
            k2: 6,
            s1: 7,
            m1: 8,
        };
        let bytes = std::vec![0xff; repr.buffer_len(rate)];
        let mut frame = Frame::new_checked(rate, bytes).unwrap();
        repr.emit(&mut frame);
        assert_eq!(OverheadRepr::parse(&frame), Ok(repr));
        assert_eq!(repr.to_string(), "SONET pointer 3, line RDI");
        let columns = rate.overhead_columns();
        assert!(
            frame.bytes()[columns..rate.row_bytes()]
                .iter()
                .all(|&b| b == 0xff)
        );
        let short = &frame.bytes()[1..];
        let error = Frame::new_checked(rate, short).unwrap_err();
        assert_eq!(error.first_bit, (rate.frame_bytes() - 1) * 8);
    }
}

#[test]
fn path_overhead_reads_back() {
    let repr = PathOverheadRepr {
        j1: 1,
        b3: 2,
        g1: path_status(5, true),
        f2: 4,
        h4: 5,
        z3: 6,
        z4: 7,
        z5: 8,
        ..PathOverheadRepr::ATM
    };
    let bytes = std::vec![0xff; repr.buffer_len()];
    let mut overhead = PathOverhead::new_checked(bytes).unwrap();
    repr.emit(&mut overhead);
    assert_eq!(PathOverheadRepr::parse(&overhead), Ok(repr));
    assert_eq!((overhead.far_b3_errors(), overhead.far_defect()), (5, true));
    let shown = repr.to_string();
    assert_eq!(shown, "SONET path label 0x13, REI 5, path RDI");
    assert_eq!(overhead.into_inner(), [1, 2, 0x13, 0x58, 4, 5, 6, 7, 8]);
    let error = PathOverhead::new_checked([0; 8]).unwrap_err();
    assert_eq!((error.field, error.first_bit), ("path overhead", 64));
}

#[test]
fn a_path_that_is_not_for_cells_is_refused_and_noise_in_g1_counts_as_nothing() {
    let mut overhead = PathOverhead::new_unchecked(PathOverheadRepr::ATM.to_bytes());
    overhead.set_byte(3, 0x90);
    assert_eq!(
        (overhead.far_b3_errors(), overhead.far_defect()),
        (0, false)
    );
    assert_eq!(path_status(200, false), 0x80);
    overhead.set_byte(2, 0x01);
    let error = PathOverheadRepr::parse(&overhead).unwrap_err();
    assert_eq!(
        (error.field, error.first_bit, error.bit_count),
        ("C2", 16, 8)
    );
}

proptest! {
    #[test]
    fn any_path_overhead_for_cells_reads_back(mut bytes: [u8; PATH_OVERHEAD_BYTES]) {
        prop_assert_eq!(
            PathOverheadRepr::parse(&PathOverhead::new_unchecked(bytes)).is_ok(),
            bytes[2] == LABEL_ATM
        );
        bytes[2] = LABEL_ATM;
        let repr = PathOverheadRepr::parse(&PathOverhead::new_unchecked(bytes)).unwrap();
        prop_assert_eq!(repr.to_bytes(), bytes);
    }
}
