//! The two directions of an upgraded socket, as seen without a lock.

use core::sync::atomic::Ordering;

use barewire_fabric::hybrid::Direction;

use crate::process::ids;
use crate::table::flags::{LOCAL, LOW_WATER, ORDERED};
use crate::table::socket_state::Record;
use crate::table::state::State;
use crate::table::stream_memory::RING_BYTES;

/// Whether the ring has something to read.
pub fn is_ready(record: &Record) -> bool {
    incoming(record).is_ready(&record.carrier()) && !holds_back(record)
}

/// Whether the other end last ran on this processor: then looking keeps it from answering.
pub fn peer_is_near(record: &Record) -> bool {
    let own = ids::processor();
    own != 0 && record.state() == State::Up && incoming(record).processor(&record.carrier()) == own
}

/// Whether what is sent goes through the ring: then there is always room on the line.
pub fn goes_through_ring(record: &Record) -> bool {
    outgoing(record).is_in_ring(&record.carrier())
}

/// The direction that we send in.
pub fn outgoing(record: &Record) -> Direction {
    incoming(record).reversed()
}

/// The direction that we receive in.
pub fn incoming(record: &Record) -> Direction {
    let side = record.side.load(Ordering::Relaxed);
    Direction::from_side(1 - side, RING_BYTES)
}

/// The other end is to say when its bytes come.
pub fn want_order(record: &Record) {
    if !record.has(ORDERED) {
        record.set(ORDERED, true);
        incoming(record).want_order(&record.carrier());
    }
}

/// Whether the program is not to be told of what is in the ring: too little. With the line's bytes it
/// may be enough, which the kernel says. Waits for Unix sockets know of no mark.
pub fn holds_back(record: &Record) -> bool {
    if !record.has(LOW_WATER) || record.has(LOCAL) {
        return false;
    }
    let side = record.side.load(Ordering::Relaxed);
    let incoming = Direction::from_side(1 - side, RING_BYTES);
    incoming.in_ring(&record.carrier()) < u64::from(record.low_water.load(Ordering::Relaxed))
}
