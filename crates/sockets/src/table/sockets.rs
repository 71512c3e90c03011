//! All socket states: one array that a process shares with its children, and the list of free ones.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::process::lock::Lock;
use crate::process::words::{AtStart, Guarded, Lone};
use crate::process::{family, memory};
use crate::table::gate::GATE;
use crate::table::limits::SOCKETS_MAX;
use crate::table::socket_state::{SOCKETS, SocketState};
use crate::table::state::State;
use crate::table::stream_memory::{self, Mapping};

/// Generation of each socket state when this process came to have it.
static GENERATIONS: AtStart<AtomicPtr<Lone<AtomicU32>>> =
    AtStart::new(AtomicPtr::new(core::ptr::null_mut()));
/// In the shared memory before the socket states: how many were ever used, and the free ones.
static SHARED: AtStart<AtomicPtr<Shared>> = AtStart::new(AtomicPtr::new(core::ptr::null_mut()));

#[repr(C)]
struct Shared {
    /// Changed under the lock.
    used: Lone<AtomicU32>,
    lock: Lock,
    /// Under the lock: the first free one, plus 1.
    free: Guarded<AtomicU32>,
}

/// How many socket states were ever used.
pub fn ever_used() -> u32 {
    shared().map_or(0, |shared| shared.used.get().min(SOCKETS_MAX))
}

const STATES_BYTES: usize = SOCKETS_MAX as usize * size_of::<SocketState>();
const GENERATIONS_BYTES: usize = SOCKETS_MAX as usize * 4;
/// Bytes that [`set_up`] takes.
pub const SHARED_BYTES: usize =
    memory::shared_bytes(size_of::<Shared>()) + memory::shared_bytes(STATES_BYTES);
/// And of memory that children have a copy of.
pub const PRIVATE_BYTES: usize = memory::private_bytes(GENERATIONS_BYTES);

/// Reserves the memory of the socket states.
pub fn set_up() -> bool {
    let shared = memory::part_shared(size_of::<Shared>());
    let states = memory::part_shared(STATES_BYTES);
    let generations = memory::part_private(GENERATIONS_BYTES);
    let (Some(shared), Some(states), Some(generations)) = (shared, states, generations) else {
        return false;
    };
    let first = states.cast::<SocketState>();
    GENERATIONS.set(generations.cast());
    SHARED.set(shared.cast());
    SOCKETS.set(first);
    family::note_shared_memory(memory::shared_at());
    true
}

/// As above, of the socket states.
pub fn forget() {
    SHARED.set(core::ptr::null_mut());
}

/// Gives the places of hybrid streams back that were never used.
pub fn give_places_back() {
    let _gate = GATE.hold();
    stream_memory::give_places_back();
}

/// The socket state of this number.
pub fn by_number(number: u32) -> &'static SocketState {
    debug_assert!(number < SOCKETS_MAX);
    // SAFETY: there are SOCKETS_MAX socket states, never unmapped; zeros are a valid socket state.
    unsafe { &*SOCKETS.get().add(number as usize) }
}

/// The generation of a socket state when this process came to have it.
pub fn own_generation(number: u32) -> &'static Lone<AtomicU32> {
    // SAFETY: as for the socket states.
    unsafe { &*GENERATIONS.get().add(number as usize) }
}

/// What this process has mapped for a socket.
pub fn mapping(socket: &SocketState) -> Mapping {
    stream_memory::mapping(socket.number())
}

/// Maps the memory of a socket's hybrid stream, if that can be.
pub fn map(socket: &SocketState, fd: i32) -> Option<Mapping> {
    let _gate = GATE.hold();
    stream_memory::map_memory(socket.number(), fd).then(|| mapping(socket))
}

/// Gives it back, if it is still there: the socket state may be another socket's by now.
pub fn unmap(socket: &SocketState, mapping: Mapping) {
    if !mapping.is_there() {
        return;
    }
    let _gate = GATE.hold();
    stream_memory::unmap_memory(socket.number(), mapping);
}

fn shared() -> Option<&'static Shared> {
    let shared = SHARED.get();
    // SAFETY: before the socket states, never unmapped; zeros are valid.
    (!shared.is_null()).then(|| unsafe { &*shared })
}

/// Free socket states that are looked at for one that no thread holds.
const FREE_LOOKS: u32 = 64;

pub fn allocate() -> Option<u32> {
    let shared = shared()?;
    let _held = shared.lock.hold()?;
    let mut from = &shared.free;
    for _ in 0..FREE_LOOKS {
        // Children share this memory, also those that have gone over to somebody else.
        let free = from.get().checked_sub(1);
        let Some(number) = free.filter(|number| *number < SOCKETS_MAX) else {
            break;
        };
        let socket = by_number(number);
        // A thread may be in the middle of a call on the socket that it was.
        if socket.send_lock.is_idle() && socket.recv_lock.is_idle() {
            from.set(socket.next_free.get());
            socket.is_free.set(0);
            return Some(number);
        }
        from = &socket.next_free;
    }
    let number = shared.used.get();
    if number >= SOCKETS_MAX {
        return None;
    }
    shared.used.set(number + 1);
    Some(number)
}

/// A process that had the socket is gone.
pub fn killed(socket: &'static SocketState) {
    // It may have been in the middle of a call.
    socket.send_lock.abandon();
    socket.recv_lock.abandon();
    uncount(socket);
}

pub fn uncount(socket: &'static SocketState) {
    // AcqRel pairs with itself in the processes that were counted before: what they did with the socket comes
    // before it is free.
    let one_less = |count: u32| count.checked_sub(1);
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let before = socket.processes.fetch_update(success, failure, one_less);
    if before == Ok(1) {
        free(socket);
    }
}

/// Counts one more process that has the socket: `false` if nobody has any more, and the socket state is
/// free, or another's. For who may not be counted itself, but has it in its table.
pub fn count_again(socket: &'static SocketState) -> bool {
    let is_same = || socket.generation() == own_generation(socket.number()).get();
    let one_more = |count: u32| (count > 0 && is_same()).then(|| count + 1);
    // Acquire, both, pairs with the Release in `SocketState::reset`: whoever finds the socket counted finds its
    // generation. Release pairs with the Acquire in `uncount` of whoever is the last.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let counted = socket.processes.fetch_update(success, failure, one_more);
    if counted.is_err() {
        return false;
    }
    let counted = is_same();
    if !counted {
        uncount(socket);
    }
    counted
}

/// No process has it any more.
fn free(socket: &'static SocketState) {
    let Some(shared) = shared() else { return };
    // Whoever ended with another thread in the middle of a call is gone.
    socket.send_lock.abandon();
    socket.recv_lock.abandon();
    let Some(_held) = shared.lock.hold() else {
        return;
    };
    // One that is freed twice would be two sockets'.
    if socket.is_free.swap(1) != 0 {
        return;
    }
    socket.set_state(State::Kernel);
    // Whoever sleeps in a call on this socket is to see that it is over.
    socket.next_generation();
    socket.next_free.set(shared.free.get());
    shared.free.set(socket.number() + 1);
}
