//! Inspects a ring from outside: which frames wait in it, and what the control line says.
//!
//! It is for a process that may read the memory and is neither end of the connection. It checks
//! headers as the reader does (with [`RingReceiver`]) and stores nothing: the credit for frames that
//! it takes is dropped. The memory may change at any time, and its writer may be hostile. So each
//! word is loaded once, and a walk visits at most as many cache lines as the ring has.

use alloc::vec::Vec;

use crate::frame::{
    ARMED, CONTROL_BYTES, CREDIT, Kind, LINE_BYTES, SENT, STAND_IN, STARVED, STATE, STATE_DEAF,
    STATE_FINISHED, region_bytes, ring_bytes_valid,
};
use crate::memory::{Incoming, Outgoing};
use crate::ring::RingReceiver;
use crate::violation::Violation;

/// The words of a control line: what the peer of the ring's owner has stored there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Lines of the opposite ring that the peer has said it is done with.
    pub credit_lines: u64,
    /// It wants its doorbell rung for what is published into the opposite ring.
    pub armed: bool,
    /// It wants its doorbell rung for room in this ring.
    pub starved: bool,
    /// Its state word.
    pub state: u64,
}

impl Control {
    /// Reads the control line of a region.
    ///
    /// # Panics
    /// If the region is smaller than a control line.
    pub fn read<I: Incoming>(region: &I) -> Control {
        Control {
            credit_lines: region.observe_u64(CREDIT),
            armed: region.observe_u64(ARMED) != 0,
            starved: region.observe_u64(STARVED) != 0,
            state: region.observe_u64(STATE),
        }
    }

    /// It has published its last frame.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.state & STATE_FINISHED != 0
    }

    /// It will read no more.
    #[must_use]
    pub fn deaf(&self) -> bool {
        self.state & STATE_DEAF != 0
    }
}

/// Of a connection to another host: what its proxy has taken from the stand-in, into which our side stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The descriptor of the stand-in's memory in the process that has the connection.
    pub fd_number: u32,
    /// Where the stand-in begins in it, in bytes: a multiple of 64.
    pub offset_bytes: u64,
    /// Lines of the stand-in's ring that were handed to the network.
    pub sent_lines: u64,
}

impl Forwarded {
    /// Stores it for whoever looks from outside. A stand-in too far away for its word is not told of.
    pub fn write<O: Outgoing>(&self, region: &O) {
        let line = u32::try_from(self.offset_bytes / LINE_BYTES as u64);
        if let (Ok(line), Some(fd)) = (line, self.fd_number.checked_add(1)) {
            region.write_u64(SENT, self.sent_lines);
            region.write_u64(STAND_IN, u64::from(fd) << 32 | u64::from(line));
        }
    }

    /// Stores that nothing was sent.
    pub fn clear<O: Outgoing>(region: &O) {
        region.write_u64(STAND_IN, 0);
    }

    /// Reads it; `None` if nothing was sent.
    ///
    /// # Panics
    /// If the region is smaller than what is in front of a ring.
    pub fn read<I: Incoming>(region: &I) -> Option<Forwarded> {
        let place = region.observe_u64(STAND_IN);
        Some(Forwarded {
            fd_number: ((place >> 32) as u32).checked_sub(1)?,
            offset_bytes: u64::from(place as u32) * LINE_BYTES as u64,
            sent_lines: region.observe_u64(SENT),
        })
    }
}

/// The header of a frame that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its place in the sequence: lines since the connection began.
    pub position: u64,
    /// What the frame holds; never [`Kind::Skip`].
    pub kind: Kind,
    /// Where its payload begins, in bytes from the beginning of the ring.
    pub offset_bytes: usize,
    /// Bytes of its payload.
    pub len_bytes: usize,
}

/// Where a walk over the frames of a ring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// At a position where nothing has been published.
    Published,
    /// At a header that no reader would take.
    Broken(Violation),
    /// After as many lines as the ring has: its writer goes on while we look.
    Moving,
}

/// What waits in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Where the next frame will be published, in lines since the connection began.
    pub head: u64,
    /// Frames that wait.
    pub frames: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// The headers of the first of them.
    pub headers: Vec<Header>,
    /// How the walk ended.
    pub ending: Ending,
}

/// Takes credit, and keeps none.
struct Nowhere;

impl Outgoing for Nowhere {
    fn len_bytes(&self) -> usize {
        CONTROL_BYTES
    }
    fn write(&self, _: usize, _: &[u8]) {}
    fn write_u64(&self, _: usize, _: u64) {}
    fn publish_u64(&self, _: usize, _: u64) {}
}

/// Walks over the frames from position `reader` on, and keeps at most `headers_max` of their
/// headers. `None` if `ring_bytes` is no size of a ring, or `region` too small for it.
pub fn survey<I: Incoming>(
    region: I,
    ring_bytes: usize,
    reader: u64,
    headers_max: usize,
) -> Option<Survey> {
    if !ring_bytes_valid(ring_bytes) || region.len_bytes() < region_bytes(ring_bytes) {
        return None;
    }
    let lines = (ring_bytes / LINE_BYTES) as u64;
    // No connection gets so far; and beyond it positions would overflow.
    let most = u64::MAX - 2 * lines;
    let mut ring = RingReceiver::beginning_at(region, Nowhere, ring_bytes, reader.min(most));
    let mut found = Survey {
        head: ring.tail_lines(),
        frames: 0,
        payload_bytes: 0,
        headers: Vec::new(),
        ending: Ending::Published,
    };
    loop {
        match ring.peek() {
            Err(violation) => found.ending = Ending::Broken(violation),
            Ok(None) => found.ending = Ending::Published,
            // More than a ring full.
            Ok(Some(_)) if ring.tail_lines().wrapping_sub(reader.min(most)) >= lines => {
                found.ending = Ending::Moving;
            }
            Ok(Some(frame)) => {
                found.frames += 1;
                found.payload_bytes += frame.len_bytes as u64;
                if found.headers.len() < headers_max {
                    found.headers.push(Header {
                        position: ring.tail_lines(),
                        kind: frame.kind,
                        offset_bytes: frame.offset - CONTROL_BYTES,
                        len_bytes: frame.len_bytes,
                    });
                }
                ring.release(&frame);
                continue;
            }
        }
        found.head = ring.tail_lines();
        return Some(found);
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::rc::Rc;
    use std::vec;

    use super::*;
    use crate::frame::pack;
    use crate::ring::RingSender;

    const RING_BYTES: usize = 1024;

    /// Memory that both ends share, word by word.
    #[derive(Clone)]
    struct Plain(Rc<Vec<Cell<u64>>>);

    impl Plain {
        fn new() -> Plain {
            Plain(Rc::new(vec![Cell::new(0); region_bytes(RING_BYTES) / 8]))
        }
    }

    impl Incoming for Plain {
        fn len_bytes(&self) -> usize {
            self.0.len() * 8
        }
        fn read(&self, _: usize, _: &mut [u8]) {
            panic!("no payload is looked at");
        }
        fn read_u64(&self, offset: usize) -> u64 {
            self.0[offset / 8].get()
        }
        fn observe_u64(&self, offset: usize) -> u64 {
            self.0[offset / 8].get()
        }
    }

    impl Outgoing for Plain {
        fn len_bytes(&self) -> usize {
            self.0.len() * 8
        }
        fn write(&self, offset: usize, bytes: &[u8]) {
            assert!(offset + bytes.len() <= self.0.len() * 8);
        }
        fn write_u64(&self, offset: usize, value: u64) {
            self.0[offset / 8].set(value);
        }
        fn publish_u64(&self, offset: usize, value: u64) {
            self.0[offset / 8].set(value);
        }
    }

    fn send(ring: &mut RingSender<Plain, Plain>, kind: Kind, len_bytes: usize) {
        let slot = ring.reserve(len_bytes).unwrap().expect("room");
        ring.publish(slot, kind, len_bytes);
    }

    #[test]
    fn an_empty_ring_has_nothing() {
        let found = survey(Plain::new(), RING_BYTES, 0, 10).unwrap();
        assert_eq!((found.head, found.frames, found.payload_bytes), (0, 0, 0));
        assert_eq!(found.ending, Ending::Published);
    }

    #[test]
    fn what_waits_is_told_from_the_reader_on_across_the_end_of_the_ring() {
        let (memory, back) = (Plain::new(), Plain::new());
        let mut sender = RingSender::new(memory.clone(), back.clone(), RING_BYTES);
        let mut reader = RingReceiver::new(memory.clone(), back, RING_BYTES);
        for _ in 0..40 {
            send(&mut sender, Kind::More, 100);
            send(&mut sender, Kind::Whole, 10);
            let waits = survey(memory.clone(), RING_BYTES, reader.tail_lines(), 10).unwrap();
            assert_eq!((waits.frames, waits.payload_bytes), (2, 110));
            assert_eq!(waits.head, sender.head_lines());
            assert_eq!(waits.ending, Ending::Published);
            let seen: Vec<_> = waits
                .headers
                .iter()
                .map(|h| (h.kind, h.len_bytes))
                .collect();
            assert_eq!(seen, [(Kind::More, 100), (Kind::Whole, 10)]);
            for header in &waits.headers {
                let frame = reader.peek().unwrap().unwrap();
                assert_eq!(header.position, reader.tail_lines());
                assert_eq!(header.offset_bytes, frame.offset - CONTROL_BYTES);
                reader.release(&frame);
            }
        }
    }

    #[test]
    fn only_so_many_headers_are_kept_and_all_are_counted() {
        let memory = Plain::new();
        let mut sender = RingSender::new(memory.clone(), Plain::new(), RING_BYTES);
        for _ in 0..12 {
            send(&mut sender, Kind::Whole, 8);
        }
        let found = survey(memory, RING_BYTES, 0, 5).unwrap();
        assert_eq!((found.frames, found.headers.len()), (12, 5));
    }

    #[test]
    fn what_no_reader_would_take_is_named() {
        let memory = Plain::new();
        memory.write_u64(CONTROL_BYTES, pack(Kind::Whole, 8, 5000, 0));
        let found = survey(memory.clone(), RING_BYTES, 0, 5).unwrap();
        let broken = |ending| matches!(ending, Ending::Broken(Violation::FrameLength { .. }));
        assert!(broken(found.ending), "{found:?}");
        memory.write_u64(CONTROL_BYTES, pack(Kind::Whole, 8, 5, 77));
        let found = survey(memory, RING_BYTES, 0, 5).unwrap();
        let broken = |ending| matches!(ending, Ending::Broken(Violation::FramePosition { .. }));
        assert!(broken(found.ending), "{found:?}");
    }

    /// A writer that is always one lap ahead.
    struct Racing(Cell<u64>);

    impl Incoming for Racing {
        fn len_bytes(&self) -> usize {
            region_bytes(RING_BYTES)
        }
        fn read(&self, _: usize, _: &mut [u8]) {}
        fn read_u64(&self, _: usize) -> u64 {
            0
        }
        fn observe_u64(&self, _: usize) -> u64 {
            let position = self.0.get();
            self.0.set(position + 1);
            pack(Kind::Whole, 8, 8, position)
        }
    }

    #[test]
    fn a_walk_ends_however_memory_changes() {
        let found = survey(Racing(Cell::new(7)), RING_BYTES, 7, usize::MAX).unwrap();
        assert_eq!(found.ending, Ending::Moving);
        assert_eq!(found.frames, (RING_BYTES / LINE_BYTES) as u64);
    }

    #[test]
    fn whatever_lies_in_a_ring_a_walk_stays_in_it() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let lines = RING_BYTES / LINE_BYTES;
        let (memory, mut walked) = (Plain::new(), 0);
        for _ in 0..20_000 {
            let reader = next() >> (next() % 64);
            for position in reader..reader.saturating_add(lines as u64) {
                let at = CONTROL_BYTES + position as usize % lines * LINE_BYTES;
                let len_bytes = (next() % 100) as u32 >> (next() % 32);
                let low = next() & 0x87;
                let header = u64::from(len_bytes) << 32 | (position & 0xff_ffff) << 8 | low;
                // Now and then a position that does not fit, or a length beyond all bounds.
                let broken = if next() % 8 == 0 {
                    1 << (next() % 64)
                } else {
                    0
                };
                memory.write_u64(at, header ^ broken);
            }
            let found = survey(memory.clone(), RING_BYTES, reader, 4).unwrap();
            walked = walked.max(found.frames);
            assert!(found.frames <= lines as u64 && found.headers.len() <= 4);
            assert_ne!(found.ending, Ending::Moving, "memory that does not change");
            for header in &found.headers {
                assert!(header.offset_bytes + header.len_bytes <= RING_BYTES);
            }
        }
        assert!(walked > 3, "walks of {walked} frames at most");
    }

    #[test]
    fn impossible_sizes_and_positions_are_harmless() {
        assert!(survey(Plain::new(), 1000, 0, 1).is_none());
        assert!(survey(Plain::new(), 4096, 0, 1).is_none());
        let found = survey(Plain::new(), RING_BYTES, u64::MAX, 1).unwrap();
        assert_eq!(found.frames, 0);
    }

    #[test]
    fn the_control_line_is_read() {
        let memory = Plain::new();
        memory.write_u64(CREDIT, 9);
        memory.write_u64(STARVED, 1);
        memory.write_u64(STATE, STATE_FINISHED);
        let control = Control::read(&memory);
        assert_eq!(
            (control.credit_lines, control.armed, control.starved),
            (9, false, true)
        );
        assert!(control.finished() && !control.deaf());
    }
}
