//! Frames as trees, and each planted fault on the right field.

use super::*;

fn describe_to(line: &[u8], at: usize) -> Collector {
    Collector::of(|sink: &mut dyn Sink| describe(line, at, sink))
}

#[test]
fn good_frames_have_no_faults() {
    for line in [
        Sender::<STS3C>::new(1, 8).frames(3),
        Sender::<STS12C>::new(1, 8).frames(2),
    ] {
        let seen = describe_to(&line, 0);
        assert_eq!(seen.errors, []);
        let c2 = |line: &&std::string::String| line.ends_with("C2 Hex(19)");
        assert!(seen.lines.iter().filter(c2).count() >= 2);
    }
}

#[test]
fn fields_stand_where_the_table_says() {
    let line = Sender::<STS3C>::new(1, 8).frames(1);
    let seen = describe_to(&line, 8);
    let bits = |at: usize| 8 + at * 8..16 + at * 8;
    let expected = [
        std::format!("{:?} J0 Code(1, \"no trace\")", bits(6)),
        std::format!("{:?} B1 Hex(0)", bits(270)),
        std::format!("{:?} pointer Uint(522)", bits(3 * 270 + 3)),
        std::format!("{:?} K2 Hex(0)", bits(4 * 270 + 6)),
        std::format!("{:?} M1 Hex(0)", bits(8 * 270 + 5)),
        std::format!("{:?} J1 Hex(0)", bits(9)),
        std::format!("{:?} C2 Hex(19)", bits(2 * 270 + 9)),
        std::format!("{:?} Z5 Hex(0)", bits(8 * 270 + 9)),
    ];
    for field in expected {
        assert!(seen.lines.contains(&field), "{field} in {:?}", seen.lines);
    }
}

/// Wrong bits in a field of the second frame are said of it and of nothing else; what the
/// parities say of them stands in the third frame.
#[test]
fn each_fault_is_said_of_the_right_field() {
    let good = Sender::<STS3C>::new(2, 8).frames(3);
    let (frame_bits, row_bits) = (STS3C * 8, 270 * 8);
    let faults: [(&str, &[usize], usize); 7] = [
        ("A1", &[8], 8),
        ("A2", &[5 * 8 + 1], 5 * 8),
        ("B1", &[row_bits + 3], row_bits),
        // No one bit makes a value above 782 of 522.
        (
            "pointer",
            &[3 * row_bits + 7, 3 * row_bits + 27],
            3 * row_bits + 24,
        ),
        (
            "H1",
            &[3 * row_bits + 8, 3 * row_bits + 9],
            3 * row_bits + 8,
        ),
        ("B2", &[4 * row_bits + 17], 4 * row_bits + 16),
        ("C2", &[2 * row_bits + 72], 2 * row_bits + 72),
    ];
    for (field, bits, field_bit) in faults {
        let mut line = good.clone();
        for bit in bits.iter().map(|bit| frame_bits + bit) {
            line[bit / 8] ^= 0x80 >> (bit % 8);
        }
        let errors = describe_to(&line, 0).errors;
        let second = |e: &&Error| e.first_bit / frame_bits == 1;
        let found: Vec<_> = errors.iter().filter(second).collect();
        let [error] = found[..] else {
            panic!("{field}: {errors:?}");
        };
        assert_eq!(
            (error.field, error.first_bit),
            (field, frame_bits + field_bit)
        );
        let third = errors.iter().filter(|e| e.first_bit / frame_bits == 2);
        assert!(third.clone().all(|e| e.field == "B1" || e.field == "B2"));
        assert!(third.count() >= 1);
    }
}

#[test]
fn a_short_frame_is_short_where_it_ends() {
    let line = Sender::<STS3C>::new(2, 8).frames(1);
    let seen = describe_to(&line[..100], 0);
    let [error] = seen.errors[..] else {
        panic!("one error");
    };
    assert_eq!((error.field, error.first_bit), ("frame", 800));
    assert_eq!(describe_to(&[], 0).errors.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn anything_can_be_described(seed: u64, count in 0..2 * STS3C, wide: bool) {
        let mut line = std::vec![0; if wide { STS12C + 1 } else { count }];
        Rng::from_seed(seed).fill_bytes(&mut line);
        if wide {
            line[3] = A1;
        }
        let seen = describe_to(&line, 4);
        let within = |e: &Error| e.first_bit >= 4 && e.first_bit <= 4 + line.len() * 8;
        prop_assert!(seen.errors.iter().all(within));
    }
}
