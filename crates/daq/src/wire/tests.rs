//! Round trips, single bits, and any bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use barewire_proto::evb::{BuilderId, Command, Part, RunState, SourceId};

fn any_header() -> impl Strategy<Value = PieceHeader> {
    let numbers = (any::<u32>(), any::<[u64; 3]>(), any::<u16>(), any::<u32>());
    let place = (0..=64_u32 << 20).prop_flat_map(|all| {
        (Just(all), 0..=all).prop_flat_map(|(all, from)| (Just(all), Just(from), 0..=all - from))
    });
    (numbers, place).prop_map(
        |((run, words, source, crc), (all, offset, bytes))| PieceHeader {
            run,
            event: words[0],
            at_ns: words[1],
            sequence: words[2],
            source,
            fragment_bytes: all,
            offset,
            bytes,
            crc,
        },
    )
}

fn any_part() -> impl Strategy<Value = Part> {
    (any::<bool>(), any::<u16>()).prop_map(|(source, id)| match source {
        true => Part::Source(SourceId(id)),
        false => Part::Builder(BuilderId(id)),
    })
}

fn any_control() -> impl Strategy<Value = Control> {
    let state = prop_oneof![Just(RunState::Idle), Just(RunState::Failed)];
    let command = prop_oneof![Just(Command::Configure), Just(Command::Fail)];
    prop_oneof![
        (any_part(), any::<[u32; 3]>(), any::<u64>()).prop_map(
            |(part, [digest, pid, start], secret)| Control::Hello {
                secret,
                start,
                role: Role::Part(part),
                digest,
                pid,
            }
        ),
        Just(Control::Hello {
            secret: 0,
            start: 0,
            role: Role::Operator,
            digest: 0,
            pid: 1
        }),
        any::<u32>().prop_map(|busy_ms| Control::Alive { busy_ms }),
        (
            any::<u64>(),
            vec(any::<u16>(), 0..50),
            vec(any::<u64>(), 0..9)
        )
            .prop_map(|(first, builders, starts)| Control::Assign {
                first,
                builders,
                starts
            }),
        (state, command, any::<u32>()).prop_map(|(state, by, run)| Control::Enter {
            state,
            by,
            run
        }),
        ".*".prop_map(|text| Control::Answer { text }),
        (any::<u64>(), 0..2_u8).prop_map(|(end, last)| Control::Have { end, last }),
        (any::<u32>(), vec(any::<u64>(), 0..50))
            .prop_map(|(run, events)| Control::Lack { run, events }),
        (any_part(), any::<u64>()).prop_map(|(part, event)| Control::Joined { part, event }),
        (any::<u32>(), any::<u8>(), vec(any::<u64>(), 0..50))
            .prop_map(|(run, of, counts)| Control::Spread { run, of, counts }),
        (any_part(), any::<[u8; 2]>(), vec(any::<u64>(), 0..50)).prop_map(
            |(part, [live, lives], sums)| Control::ShownPart {
                part,
                live,
                lives: lives.into(),
                sums
            }
        ),
        (any::<u64>(), vec(".*", 0..4), vec(any::<u64>(), 0..9)).prop_map(
            |(log_from, log, events)| Control::Shown {
                run: 1,
                state: RunState::Running,
                age_ns: 2,
                processor_ns: 3,
                building_ns: events.clone(),
                event_bytes: Vec::new(),
                events,
                log_from,
                log
            }
        ),
    ]
}

#[test]
fn the_check_code_is_that_of_rfc_3720() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
}

#[test]
fn every_single_bit_of_a_header_is_found() {
    let header = PieceHeader {
        run: 1,
        event: 2,
        at_ns: 3,
        sequence: 4,
        source: 5,
        fragment_bytes: 100,
        offset: 10,
        bytes: 90,
        crc: 7,
    };
    let good = header.to_bytes();
    assert_eq!(PieceHeader::parse(&good), Ok(header));
    assert!(header.ends());
    for bit in 0..good.len() * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(PieceHeader::parse(&bad).is_err(), "bit {bit}");
    }
    assert_eq!(
        PieceHeader::parse(&good[..55]),
        Err(WireError::Short {
            what: "header of a piece",
            found: 55,
            needed: 56
        })
    );
}

proptest! {
    #[test]
    fn headers_come_back(header in any_header()) {
        prop_assert_eq!(PieceHeader::parse(&header.to_bytes()), Ok(header));
    }

    #[test]
    fn batches_come_back(messages in vec(any_control(), 1..20)) {
        let mut batch = Batch::default();
        messages.iter().for_each(|it| batch.push(it));
        prop_assert_eq!(Batch::parse(batch.seal()), Ok(messages));
    }

    #[test]
    fn a_spoilt_batch_is_found(messages in vec(any_control(), 1..5), at: prop::sample::Index, bit in 0..8_u8) {
        let mut batch = Batch::default();
        messages.iter().for_each(|it| batch.push(it));
        let mut bytes = batch.seal().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Batch::parse(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_harm(mut bytes in vec(any::<u8>(), 0..200), repair: bool) {
        let _ = PieceHeader::parse(&bytes);
        if repair && bytes.len() > 8 {
            bytes[..4].copy_from_slice(&[0xb1, 0xe5, 1, 2]);
            let mut batch = bytes[..4].to_vec();
            batch.extend_from_slice(&bytes[8..]);
            let crc = crc32c(&batch);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        let _ = Batch::parse(&bytes);
    }
}
