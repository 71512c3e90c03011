//! TCP at user level behind the interface by which packetdrill tests a shared library
//! (`--so_filename`): `libbarewire_packetdrill.so`.
//!
//! packetdrill plays the other end of a connection by a script, and checks each packet and its time.
//! It loads this library; nothing of packetdrill is in here, and nothing of it is linked. Time is
//! virtual: it passes when packetdrill sleeps, waits for a packet or asks for the time. So a script
//! of two minutes takes no time, and no busy machine changes a result. All sockets are non-blocking.
//!
//! How to build packetdrill and run the scripts: `docs/edge.md`. The runner is `tests/scripts.rs`.

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// stack: sockets, packets and virtual time
// border: the interface for C
// ```
#![deny(unsafe_code)]

mod border;
mod stack;
