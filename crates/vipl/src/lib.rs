//! The VI Provider Library 1.0 on the user-level network: `libvipl.so`, with the header `vipl.h`.
//!
//! A thin face: a NIC is a node, a connection of a VI is a connection of the network, and each descriptor is one
//! message. States, descriptors, work queues, protection and flow control are the core in `barewire_proto::via`. How to
//! use it: `docs/via.md`.
//!
//! What holds for all of it:
//!
//! - What a NIC has is under one lock. Any thread may call any function.
//! - Progress is made by whoever calls, and by a thread of the NIC (`helper.rs`). So RDMA needs nothing of the program
//!   at the other end.
//! - No input ends the process: a null pointer, a handle that was closed or is of another kind, a descriptor that makes
//!   no sense, each is an error. Only memory that the program registered and has freed since is beyond help.
//! - The other end is never trusted: what it says is read once, checked, and then used. What it asks of this end's
//!   memory, this end does by its own tables.
//! - No panic crosses the border: it becomes `VIP_ERROR_RESOURCE`.

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// raw: what the header declares
// memory: memory that the program lends
// address: network addresses, and the names of listeners that they stand for
// records: what two VIs say to each other
// nic/state: what a NIC knows
// nic/ending: descriptors that end, and who hears of it
// nic/sending: from the send queue into the connection
// nic/receiving: from the connection into the memory of the program
// nic/connecting: connections begin and end
// nic/posting: descriptors that are posted
// nic/progress: events of the node
// nic: what the objects of a NIC share, under one lock
// handles: pointers by which programs name objects
// helper: threads of a NIC
// border: panics, pointers
// calls: the functions of the header
// ```

mod address;
mod border;
mod calls;
mod handles;
mod helper;
mod memory;
mod nic;
mod raw;
mod records;
