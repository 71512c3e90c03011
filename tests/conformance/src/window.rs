//! The suite of one-way windows and fences.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use barewire_fabric::memory::{Fences, Incoming, Outgoing};

use crate::fabric::{self, Windows};
use crate::help::{Over, eventually, panics, pattern, unless_over};
use crate::suite::cases;

cases! {
    /// Visibility, order of publication, whole words, bounds, fences.
    cases for Windows:
        lengths_are_as_asked,
        fresh_windows_are_zero,
        stores_become_visible,
        a_store_changes_nothing_around_it,
        directions_are_apart,
        a_published_word_shows_what_was_stored_before,
        publications_are_seen_in_order,
        words_are_whole,
        loads_outside_panic,
        stores_outside_panic,
        one_side_sees_the_others_store,
}

const LEN: usize = 4096;

fn lengths_are_as_asked<F: Windows>() {
    for len in [64, 4096, 1 << 20] {
        for side in F::windows(len) {
            assert_eq!(side.out.len_bytes(), len);
            assert_eq!(side.inn.len_bytes(), len);
        }
    }
}

fn fresh_windows_are_zero<F: Windows>() {
    for side in F::windows(LEN) {
        let mut bytes = vec![1; LEN];
        side.inn.read(0, &mut bytes);
        assert!(bytes.iter().all(|b| *b == 0));
    }
}

/// Without any action of the storing side after the store.
fn stores_become_visible<F: Windows>() {
    let [a, b] = F::windows(LEN);
    for offset in [0, 1, 7, 8, 63, 64, 65, 1000] {
        for len in [1, 2, 7, 8, 9, 55, 56, 57, 63, 64, 65, 200, 2048] {
            let bytes = pattern((offset * 10_000 + len) as u64, len);
            a.out.write(offset, &bytes);
            let mut got = vec![0; len];
            eventually::<F>("bytes stored", || {
                b.inn.read(offset, &mut got);
                got == bytes
            });
        }
    }
    for (value, offset) in (1..).zip((0..LEN).step_by(8)) {
        a.out.write_u64(offset, value);
        eventually::<F>("a word stored", || b.inn.read_u64(offset) == value);
        a.out.publish_u64(offset, !value);
        eventually::<F>("a word published", || b.inn.observe_u64(offset) == !value);
    }
}

fn a_store_changes_nothing_around_it<F: Windows>() {
    let [a, b] = F::windows(192);
    let last = 184;
    for offset in 0..70 {
        for len in [0, 1, 5, 8, 13, 64, 70] {
            a.out.write(0, &[0xaa; 192]);
            a.out.write(offset, &vec![0x55; len]);
            let mark = (offset * 100 + len + 1) as u64;
            a.out.publish_u64(last, mark);
            eventually::<F>("a mark", || b.inn.observe_u64(last) == mark);
            let mut all = [0; 184];
            b.inn.read(0, &mut all);
            for (i, byte) in all.iter().enumerate() {
                let inside = i >= offset && i < offset + len;
                assert_eq!(*byte, if inside { 0x55 } else { 0xaa }, "byte {i}");
            }
        }
    }
}

fn directions_are_apart<F: Windows>() {
    let [a, b] = F::windows(LEN);
    a.out.publish_u64(0, 7);
    eventually::<F>("a word", || b.inn.observe_u64(0) == 7);
    assert_eq!(a.inn.observe_u64(0), 0, "stored to itself");
    b.out.publish_u64(0, 9);
    eventually::<F>("the other word", || a.inn.observe_u64(0) == 9);
    assert_eq!(b.inn.observe_u64(0), 7);
}

fn a_published_word_shows_what_was_stored_before<F: Windows>() {
    let [a, b] = F::windows(LEN);
    const ROUNDS: u64 = 20_000;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let Side { out, inn } = Side::of(a);
            for round in 1..=ROUNDS {
                let len = 8 * (1 + round as usize % 24);
                out.write(64, &round.to_ne_bytes().repeat(len / 8));
                out.write_u64(2048, round);
                out.publish_u64(0, round);
                // The reader says when it has looked, so that it never reads a mixture.
                if !unless_over(&over, || inn.observe_u64(0) == round) {
                    return;
                }
            }
        });
        let _over = Over(&over);
        let Side { out, inn } = Side::of(b);
        let mut got = [0; 192];
        for round in 1..=ROUNDS {
            eventually::<F>("a publication", || inn.observe_u64(0) == round);
            let len = 8 * (1 + round as usize % 24);
            inn.read(64, &mut got[..len]);
            let there = got[..len].chunks(8).all(|c| c == round.to_ne_bytes());
            assert!(there, "a publication came before what was stored before it");
            assert_eq!(inn.read_u64(2048), round);
            out.publish_u64(0, round);
        }
    });
}

/// The two windows of a side, without the fences.
struct Side<O, I> {
    out: O,
    inn: I,
}

impl<O, I> Side<O, I> {
    fn of<F: Windows<Out = O, In = I>>(side: fabric::Side<F>) -> Self {
        Side {
            out: side.out,
            inn: side.inn,
        }
    }
}

fn publications_are_seen_in_order<F: Windows>() {
    let [a, b] = F::windows(LEN);
    const LAST: u64 = 200_000;
    thread::scope(|scope| {
        let out = a.out;
        scope.spawn(move || {
            for value in 1..=LAST {
                out.publish_u64(64, value);
                out.publish_u64(1024, value);
            }
        });
        let mut seen = 0;
        eventually::<F>("the last publication", || {
            let later = b.inn.observe_u64(1024);
            let earlier = b.inn.observe_u64(64);
            assert!(later >= seen, "{later} after {seen}");
            assert!(earlier >= later, "{later} seen before {earlier}");
            seen = later;
            seen == LAST
        });
    });
}

fn words_are_whole<F: Windows>() {
    let [a, b] = F::windows(LEN);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let out = a.out;
        let over = &over;
        scope.spawn(move || {
            let mut byte = 0_u8;
            while !over.load(Ordering::SeqCst) {
                byte = byte.wrapping_add(1);
                let value = u64::from_ne_bytes([byte; 8]);
                out.write_u64(8, value);
                out.publish_u64(64, value);
            }
        });
        let _over = Over(over);
        // Not a number of loads alone: the other side may not even have begun.
        let (mut last, mut changes, mut rounds) = (0, 0, 0);
        eventually::<F>("enough changes", || {
            for _ in 0..1000 {
                let published = b.inn.observe_u64(64);
                for word in [published, b.inn.read_u64(8)] {
                    let bytes = word.to_ne_bytes();
                    let whole = bytes.iter().all(|byte| *byte == bytes[0]);
                    assert!(whole, "a word seen in part: {word:#x}");
                }
                changes += u32::from(published != last);
                last = published;
            }
            rounds += 1;
            changes >= 2000 || changes >= 20 && rounds >= 500
        });
    });
}

fn loads_outside_panic<F: Windows>() {
    let [a, b] = F::windows(LEN);
    b.out.publish_u64(0, 1);
    let outside = [
        (LEN, 1),
        (LEN - 1, 2),
        (0, LEN + 1),
        (usize::MAX, 1),
        (usize::MAX - 7, 16),
    ];
    for (offset, len) in outside {
        assert!(
            panics(|| a.inn.read(offset, &mut vec![0; len])),
            "{offset} {len}"
        );
    }
    for offset in [LEN, LEN - 4, 4, usize::MAX - 7] {
        let load = || assert_ne!(a.inn.read_u64(offset), 1);
        assert!(panics(load), "word at {offset}");
        let load = || assert_ne!(a.inn.observe_u64(offset), 1);
        assert!(panics(load), "word at {offset}");
    }
    a.inn.prefetch(usize::MAX);
}

fn stores_outside_panic<F: Windows>() {
    let [a, _b] = F::windows(LEN);
    let outside = [
        (LEN, 1),
        (LEN - 1, 2),
        (0, LEN + 1),
        (usize::MAX, 1),
        (usize::MAX - 7, 16),
    ];
    for (offset, len) in outside {
        assert!(
            panics(|| a.out.write(offset, &vec![0; len])),
            "{offset} {len}"
        );
    }
    for offset in [LEN, LEN - 4, 4, usize::MAX - 7] {
        assert!(panics(|| a.out.write_u64(offset, 1)), "word at {offset}");
        assert!(panics(|| a.out.publish_u64(offset, 1)), "word at {offset}");
    }
}

/// Store, fence, load on both sides, light against heavy, many times over.
fn one_side_sees_the_others_store<F: Windows>() {
    const ROUNDS: u64 = 3000;
    let [a, b] = F::windows(LEN);
    let start = Barrier::new(2);
    let seen = [AtomicU64::new(0), AtomicU64::new(0)];
    let missed = AtomicU64::new(0);
    let round_of = |side: fabric::Side<F>, light: bool, own: usize| {
        for round in 1..=ROUNDS {
            start.wait();
            side.out.write_u64(64, round);
            if light {
                side.fences.light();
            } else {
                side.fences.heavy();
            }
            seen[own].store(side.inn.read_u64(64), Ordering::SeqCst);
            start.wait();
            if own == 0 && seen.iter().all(|s| s.load(Ordering::SeqCst) != round) {
                missed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    thread::scope(|scope| {
        let round_of = &round_of;
        scope.spawn(move || round_of(a, true, 0));
        scope.spawn(move || round_of(b, false, 1));
    });
    let missed = missed.into_inner();
    assert_eq!(missed, 0, "rounds in which neither side saw the other");
}
