//! Both ends against memory full of anything: no panic, no access outside, no endless call,
//! errors that have a name and stay.

#[path = "common/drive.rs"]
mod drive;
#[path = "common/memory.rs"]
mod memory;

use std::cell::Cell;
use std::time::{Duration, Instant};

use barewire_fabric::doorbell::Drain;
use barewire_fabric::frame::{CONTROL_BYTES, HEADER_BYTES, Kind, LINE_BYTES, pack, region_bytes};
use barewire_fabric::memory::{Incoming, SharedWords};
use barewire_fabric::ring::frame_bytes_max;
use barewire_fabric::{MessageReceiver, RingReceiver, StreamReceiver, Violation};
use barewire_units::Rng;
use drive::Tally;
use memory::Region;

/// Spoiled words in a run of the test.
const MUTATIONS: u64 = 4_000_000;

#[test]
fn random_memory_is_refused_or_read() {
    let seed = std::env::var("BAREWIRE_SEED").ok();
    let seed = seed.map_or(1, |seed| seed.parse().expect("a number"));
    println!("BAREWIRE_SEED={seed}");
    let root = Rng::from_seed(seed);
    let begin = Instant::now();
    let (mut sum, mut runs) = (Tally::default(), 0);
    let mut data = vec![0; 4096];
    while sum.spoiled < MUTATIONS {
        let mut rng = root.fork_nth("hostile", runs);
        let len = rng.in_range(2..=4096) as usize;
        rng.fill_bytes(&mut data[..len]);
        sum.add(&drive::drive_counted(&data[..len]));
        runs += 1;
    }
    let spent = begin.elapsed();
    println!("{} mutations in {runs} runs, {spent:?}", sum.spoiled);
    println!("{} accepted, {:?}", sum.accepted, sum.violations);
    assert!(sum.accepted > 10_000);
    for (kind, count) in Tally::KINDS.iter().zip(sum.violations) {
        assert!(count > 100, "{kind} was hardly ever found");
    }
    assert!(begin.elapsed() < Duration::from_secs(120));
}

#[test]
fn short_scripts_are_scripts() {
    drive::drive(&[]);
    for first in 0..=255 {
        drive::drive(&[first]);
        drive::drive(&[first, 255, 15]);
    }
}

const RING_BYTES: usize = 1024;
const LINES: u64 = (RING_BYTES / LINE_BYTES) as u64;
/// More accesses than any one call may make.
const ACCESSES_MAX: u64 = 10_000;

/// Memory in which the peer writes the next frame as fast as the reader reads: at whatever
/// line the reader looks, there is a valid header with this kind and length.
struct Feeding {
    kind: Kind,
    len_bytes: usize,
    position: Cell<u64>,
    accesses: Cell<u64>,
}

impl Feeding {
    fn receiver(kind: Kind, len_bytes: usize) -> RingReceiver<Feeding, Region> {
        let feeding = Feeding {
            kind,
            len_bytes,
            position: Cell::new(0),
            accesses: Cell::new(0),
        };
        RingReceiver::new(feeding, Region::new(RING_BYTES), RING_BYTES)
    }

    fn count(&self) {
        self.accesses.set(self.accesses.get() + 1);
        let made = self.accesses.get();
        assert!(
            made < ACCESSES_MAX,
            "no end to a call: {:?} of {}",
            self.kind,
            self.len_bytes
        );
    }
}

impl Incoming for Feeding {
    fn len_bytes(&self) -> usize {
        region_bytes(RING_BYTES)
    }

    fn read(&self, _offset: usize, into: &mut [u8]) {
        self.count();
        into.fill(1);
    }

    fn read_u64(&self, _offset: usize) -> u64 {
        self.count();
        0
    }

    fn observe_u64(&self, offset: usize) -> u64 {
        self.count();
        let line = ((offset - CONTROL_BYTES) / LINE_BYTES) as u64;
        // The reader only goes forward.
        let before = self.position.get();
        let position = before + (line + LINES - before % LINES) % LINES;
        self.position.set(position);
        pack(self.kind, HEADER_BYTES, self.len_bytes, position)
    }
}

/// A peer that keeps sending empty fragments holds its receiver in one call for ever.
#[test]
fn empty_fragments_do_not_hold_the_receiver() {
    let mut receiver = MessageReceiver::new(Feeding::receiver(Kind::More, 0), 1000);
    let _ = receiver.next_message();
}

#[test]
fn empty_packed_frames_do_not_hold_the_receiver() {
    let mut receiver = MessageReceiver::new(Feeding::receiver(Kind::Packed, 0), 1000);
    let _ = receiver.next_message();
}

#[test]
fn empty_pieces_do_not_hold_the_reader() {
    for kind in [Kind::Whole, Kind::More] {
        let mut receiver = StreamReceiver::new(Feeding::receiver(kind, 0));
        let _ = receiver.read(&mut [0; 100]);
    }
}

#[test]
fn fragments_without_end_meet_the_limit() {
    let full = frame_bytes_max(RING_BYTES);
    let mut receiver = MessageReceiver::new(Feeding::receiver(Kind::More, full), 1000);
    let violation = Err(Violation::MessageLength { max: 1000 });
    assert_eq!(receiver.next_message(), violation);
}

/// All fragments but the last are full frames; anything less would keep us busy longer.
#[test]
fn crumbs_are_no_fragments() {
    let mut receiver = MessageReceiver::new(Feeding::receiver(Kind::More, 100), 1000);
    let violation = Err(Violation::FragmentLength {
        found: 100,
        needed: frame_bytes_max(RING_BYTES) as u64,
    });
    assert_eq!(receiver.next_message(), violation);
}

/// Two skips in a row are an error, and the very same one when asked again.
#[test]
fn a_second_skip_is_an_error_that_stays() {
    let there = Region::new(RING_BYTES);
    let mut ring = RingReceiver::new(there.clone(), Region::new(RING_BYTES), RING_BYTES);
    let first = CONTROL_BYTES / 8;
    for position in 0..LINES - 1 {
        there.spoil(
            first + position as usize * 8,
            pack(Kind::Whole, HEADER_BYTES, 8, position),
        );
        let frame = ring.peek().unwrap().unwrap();
        ring.release(&frame);
    }
    there.spoil(
        first + 15 * 8,
        pack(Kind::Skip, HEADER_BYTES, 56, LINES - 1),
    );
    there.spoil(first, pack(Kind::Skip, HEADER_BYTES, 1016, LINES));
    let found = ring.peek();
    assert!(found.is_err());
    assert_eq!(ring.peek(), found);
}

/// A page whose top level is always full, although no source has rung.
struct Clamouring(Cell<u64>);

impl SharedWords for Clamouring {
    fn load(&self, index: usize) -> u64 {
        self.0.set(self.0.get() + 1);
        assert!(self.0.get() < ACCESSES_MAX, "no end to a call");
        if index == 0 { u64::MAX } else { 0 }
    }

    fn store(&self, _index: usize, _value: u64) {}

    fn or(&self, index: usize, _bits: u64) -> u64 {
        self.load(index)
    }

    fn take(&self, index: usize) -> u64 {
        self.load(index)
    }

    fn settle(&self) {}

    fn fence(&self) {}
}

/// A ringer that keeps setting upper bits without lower ones holds the owner in one call.
#[test]
fn empty_rings_do_not_hold_the_owner() {
    let mut drain = Drain::default();
    assert_eq!(drain.next_source(&Clamouring(Cell::new(0))), None);
}
