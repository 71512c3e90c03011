//! The two directions of an upgraded socket, as seen without a lock.

use barewire_fabric::hybrid::Direction;

use crate::process::ids;
use crate::table::flags::{LOW_WATER, PEER_DATES, UNIX};
use crate::table::socket_state::SocketState;
use crate::table::state::State;
use crate::table::stream_memory::RING_BYTES;

/// Whether the ring has something to read.
pub fn is_ready(socket: &SocketState) -> bool {
    incoming(socket).is_ready(&socket.memory()) && !holds_back(socket)
}

/// Whether the other end last ran on this processor: then polling keeps it from answering.
pub fn peer_is_near(socket: &SocketState) -> bool {
    let own = ids::processor();
    own != 0
        && socket.state() == State::Upgraded
        && incoming(socket).processor(&socket.memory()) == own
}

/// Whether sent bytes go through the ring: then the kernel connection always has room.
pub fn goes_through_ring(socket: &SocketState) -> bool {
    outgoing(socket).is_in_ring(&socket.memory())
}

/// The direction in which this end sends.
pub fn outgoing(socket: &SocketState) -> Direction {
    incoming(socket).reversed()
}

/// The direction in which this end receives.
pub fn incoming(socket: &SocketState) -> Direction {
    direction(1 - socket.side())
}

/// The direction in which this side sends.
#[inline]
pub const fn direction(side: u32) -> Direction {
    Direction::from_side(side, RING_BYTES)
}

/// Has the other end store when its bytes come.
pub fn want_order(socket: &SocketState) {
    if !socket.has(PEER_DATES) {
        socket.set(PEER_DATES, true);
        incoming(socket).want_order(&socket.memory());
    }
}

/// Whether the ring has too little for the low-water mark. With the bytes of the kernel connection it may
/// be enough, which the kernel reports. Waits for Unix sockets know no mark.
pub fn holds_back(socket: &SocketState) -> bool {
    if !socket.has(LOW_WATER) || socket.has(UNIX) {
        return false;
    }
    incoming(socket).in_ring(&socket.memory()) < u64::from(socket.low_water.get())
}
