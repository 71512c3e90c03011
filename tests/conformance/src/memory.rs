//! The suite of an aperture's memory: put, get, atomics, rights, revocation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use barewire_fabric::aperture::{AccessError, EventSource, Memory, Rights};

use crate::fabric::Apertures;
use crate::help::{Over, eventually, good, pattern, unless_over};
use crate::suite::cases;

cases! {
    /// Any offset and length, bounds, atomics from both sides, rights, revocation.
    cases for Apertures:
        lengths_are_as_asked,
        fresh_memory_is_zero,
        puts_arrive_at_any_offset_and_length,
        gets_see_what_the_owner_stored,
        a_put_changes_nothing_around_it,
        accesses_outside_are_refused,
        misaligned_words_are_refused,
        words_and_bytes_are_the_same_memory,
        words_are_whole,
        additions_from_both_sides_all_count,
        exchanges_have_one_winner,
        a_word_shows_what_was_put_before,
        read_only_means_read_only,
        revocation_cuts_off,
}

const LEN: usize = 10_000;

fn lengths_are_as_asked<F: Apertures>() {
    for len in [1, 8, 4095, 4096, 100_001] {
        let (own, far) = F::aperture(len, Rights::ReadWrite);
        assert_eq!(own.memory.len_bytes(), len);
        assert_eq!(far.memory.len_bytes(), len);
        good(far.memory.put(len - 1, &[1]));
    }
}

fn fresh_memory_is_zero<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    for memory in [&own.memory as &dyn Memory, &far.memory] {
        let mut bytes = vec![1; LEN];
        good(memory.get(0, &mut bytes));
        assert!(bytes.iter().all(|b| *b == 0));
    }
}

const OFFSETS: [usize; 10] = [0, 1, 5, 8, 63, 64, 65, 4090, 4096, 7777];
const LENGTHS: [usize; 13] = [0, 1, 3, 7, 8, 9, 63, 64, 65, 100, 999, 2000, 2223];

fn arrives<F: Apertures>(from: &dyn Memory, at: &dyn Memory) {
    for offset in OFFSETS {
        for len in LENGTHS {
            let bytes = pattern((offset * 10_000 + len) as u64, len);
            good(from.put(offset, &bytes));
            let mut got = vec![0; len];
            eventually::<F>("bytes put", || {
                good(at.get(offset, &mut got));
                got == bytes
            });
        }
    }
    let all = pattern(1, LEN);
    good(from.put(0, &all));
    let mut got = vec![0; LEN];
    eventually::<F>("a put of everything", || {
        good(at.get(0, &mut got));
        got == all
    });
}

fn puts_arrive_at_any_offset_and_length<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    arrives::<F>(&far.memory, &own.memory);
}

fn gets_see_what_the_owner_stored<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::Read);
    arrives::<F>(&own.memory, &far.memory);
}

fn a_put_changes_nothing_around_it<F: Apertures>() {
    let (own, far) = F::aperture(256, Rights::ReadWrite);
    for offset in 0..70 {
        for len in [0, 1, 5, 8, 13, 64, 70] {
            good(far.memory.put(0, &[0xaa; 256]));
            good(far.memory.put(offset, &vec![0x55; len]));
            let expected = |i| {
                if i >= offset && i < offset + len {
                    0x55
                } else {
                    0xaa
                }
            };
            let expected: Vec<u8> = (0..256).map(expected).collect();
            let mut all = vec![0; 256];
            eventually::<F>("exactly what was put", || {
                good(own.memory.get(0, &mut all));
                all == expected
            });
        }
    }
}

fn accesses_outside_are_refused<F: Apertures>() {
    let len = 1001;
    let (own, far) = F::aperture(len, Rights::ReadWrite);
    for memory in [&own.memory as &dyn Memory, &far.memory] {
        for (offset, bytes) in [(len, 1), (len - 1, 2), (0, len + 1), (usize::MAX, 2)] {
            let refused = Err(AccessError::OutOfRange {
                offset,
                len_bytes: bytes,
                aperture_bytes: len,
            });
            assert_eq!(memory.put(offset, &vec![9; bytes]), refused);
            assert_eq!(memory.get(offset, &mut vec![0; bytes]), refused);
        }
        good(memory.put(len, &[]));
        good(memory.get(len, &mut []));
        // The last word lies across the end.
        for offset in [1000, 1008, usize::MAX - 7] {
            let outside = |e| matches!(e, AccessError::OutOfRange { .. });
            assert!(memory.load(offset).is_err_and(outside));
            assert!(memory.store(offset, 1).is_err_and(outside));
            assert!(memory.add(offset, 1).is_err_and(outside));
            assert!(memory.compare_exchange(offset, 0, 1).is_err_and(outside));
        }
        let mut all = vec![1; len];
        good(memory.get(0, &mut all));
        assert!(all.iter().all(|b| *b == 0), "something was stored");
    }
}

fn misaligned_words_are_refused<F: Apertures>() {
    let (own, far) = F::aperture(64, Rights::ReadWrite);
    for memory in [&own.memory as &dyn Memory, &far.memory] {
        for offset in [1, 4, 7, 55] {
            let refused = AccessError::Misaligned { offset };
            assert_eq!(memory.load(offset), Err(refused));
            assert_eq!(memory.store(offset, 1), Err(refused));
            assert_eq!(memory.add(offset, 1), Err(refused));
            assert_eq!(memory.compare_exchange(offset, 0, 1), Err(refused));
        }
    }
}

fn words_and_bytes_are_the_same_memory<F: Apertures>() {
    let (own, far) = F::aperture(64, Rights::ReadWrite);
    good(far.memory.put(8, &0x1122_3344_5566_7788_u64.to_ne_bytes()));
    eventually::<F>("a word", || own.memory.load(8) == Ok(0x1122_3344_5566_7788));
    good(far.memory.store(16, 77));
    let mut bytes = [0; 8];
    eventually::<F>("bytes", || {
        good(own.memory.get(16, &mut bytes));
        bytes == 77_u64.to_ne_bytes()
    });
    assert_eq!(far.memory.add(16, u64::MAX), Ok(77), "wraps");
    eventually::<F>("a sum", || own.memory.load(16) == Ok(76));
}

fn words_are_whole<F: Apertures>() {
    let (own, far) = F::aperture(64, Rights::ReadWrite);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = 0_u8;
            while !over.load(Ordering::SeqCst) {
                byte = byte.wrapping_add(1);
                let value = u64::from_ne_bytes([byte; 8]);
                good(far.memory.store(8, value));
            }
        });
        let _over = Over(&over);
        // Not a number of loads alone: the other side may not even have begun.
        let (mut last, mut changes, mut rounds) = (0, 0, 0);
        eventually::<F>("enough changes", || {
            for _ in 0..1000 {
                let word = good(own.memory.load(8));
                let bytes = word.to_ne_bytes();
                let whole = bytes.iter().all(|byte| *byte == bytes[0]);
                assert!(whole, "a word seen in part: {word:#x}");
                changes += u32::from(word != last);
                last = word;
            }
            rounds += 1;
            changes >= 2000 || changes >= 20 && rounds >= 500
        });
    });
}

fn additions_from_both_sides_all_count<F: Apertures>() {
    let each = 100_000 / F::SLOWNESS;
    let (own, far) = F::aperture(64, Rights::ReadWrite);
    thread::scope(|scope| {
        for memory in [
            &own.memory as &(dyn Memory + Sync),
            &far.memory,
            &far.memory,
        ] {
            scope.spawn(move || {
                for _ in 0..each {
                    good(memory.add(24, 1));
                }
            });
        }
    });
    assert_eq!(own.memory.load(24), Ok(3 * each));
    assert_eq!(far.memory.load(24), Ok(3 * each));
}

fn exchanges_have_one_winner<F: Apertures>() {
    let rounds = 20_000 / F::SLOWNESS;
    let (own, far) = F::aperture(64, Rights::ReadWrite);
    let wins = |memory: &dyn Memory| {
        let mut wins = 0;
        for round in 0..rounds {
            // Whoever comes second finds the next round begun.
            match good(memory.compare_exchange(0, round, round + 1)) {
                Ok(found) => {
                    assert_eq!(found, round);
                    wins += 1;
                }
                Err(found) => assert_ne!(found, round),
            }
            // Whoever is behind has lost the round already.
            eventually::<F>("the end of a round", || good(memory.load(0)) > round);
        }
        wins
    };
    let sum = thread::scope(|scope| {
        let theirs = scope.spawn(|| wins(&far.memory));
        wins(&own.memory) + theirs.join().unwrap()
    });
    assert_eq!(sum, rounds);
    assert_eq!(own.memory.load(0), Ok(rounds));
}

fn a_word_shows_what_was_put_before<F: Apertures>() {
    let rounds = 10_000 / F::SLOWNESS;
    let (own, far) = F::aperture(1024, Rights::ReadWrite);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                good(far.memory.put(64, &round.to_ne_bytes().repeat(20)));
                good(far.memory.store(0, round));
                if !unless_over(&over, || good(far.memory.load(8)) == round) {
                    return;
                }
            }
        });
        let _over = Over(&over);
        let mut got = [0; 160];
        for round in 1..=rounds {
            eventually::<F>("a word", || own.memory.load(0) == Ok(round));
            good(own.memory.get(64, &mut got));
            let there = got.chunks(8).all(|c| c == round.to_ne_bytes());
            assert!(there, "a word came before what was put before it");
            good(own.memory.store(8, round));
        }
    });
}

fn read_only_means_read_only<F: Apertures>() {
    let (own, far) = F::aperture(64, Rights::Read);
    good(own.memory.store(0, 5));
    eventually::<F>("the owner's store", || far.memory.load(0) == Ok(5));
    let refused = AccessError::ReadOnly;
    assert_eq!(far.memory.put(0, &[1]), Err(refused));
    assert_eq!(far.memory.store(0, 1), Err(refused));
    assert_eq!(far.memory.add(0, 1), Err(refused));
    assert_eq!(far.memory.compare_exchange(0, 5, 1), Err(refused));
    assert_eq!(own.memory.load(0), Ok(5));
    good(own.memory.store(0, 6));
}

/// What is stored after the revocation is never seen by the owner, and is refused at
/// once; loads are refused when the importer has looked at its queue.
fn revocation_cuts_off<F: Apertures>() {
    let (own, far) = F::aperture(LEN, Rights::ReadWrite);
    good(far.memory.put(100, b"before"));
    let mut bytes = [0; 6];
    eventually::<F>("bytes", || {
        good(own.memory.get(100, &mut bytes));
        &bytes == b"before"
    });
    F::revoke(&own.memory);
    let revoked = AccessError::Revoked;
    assert_eq!(far.memory.put(100, b"after!"), Err(revoked));
    assert_eq!(far.memory.store(0, 1), Err(revoked));
    assert_eq!(far.memory.add(0, 1), Err(revoked));
    thread::sleep(F::RESTRAINT);
    good(own.memory.get(100, &mut bytes));
    assert_eq!(&bytes, b"before", "the contents stay the owner's");
    assert_eq!(own.memory.load(0), Ok(0));
    eventually::<F>("refusal of loads", || {
        let mut notices = Vec::new();
        good(
            far.queue
                .wait_notices(&mut notices, 16, Duration::from_millis(1)),
        );
        far.memory.load(0) == Err(revoked)
    });
    assert_eq!(far.memory.get(0, &mut [0; 8]), Err(revoked));
    good(own.memory.put(100, b"owner!"));
    F::revoke(&own.memory);
}
