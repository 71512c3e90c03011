//! The C face of the network: `libbarewire`, with the header `barewire.h` and, over it, `barewire.hpp`.
//!
//! A thin face over the crate `barewire`: each function looks its handle up, checks what pointers lead to, and calls
//! the method of the same name. What the functions mean stands in the header, which is written from this source
//! (`BAREWIRE_UPDATE_HEADER=1 cargo test -p barewire-capi --test header`); how to build and use it, in `docs/c.md`.
//!
//! What holds for all of it:
//!
//! - No input ends the process. A null pointer, a handle that was closed or is of another kind, a call at the wrong
//!   time: each is an error (`handles.rs`, `border.rs`).
//! - No panic crosses the border: it becomes `BW_E_INTERNAL`.
//! - The path of a message takes no lock, and makes no memory.
//! - A handle is used by one thread at a time; what may be shared can be cloned.

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// failure: codes and texts of what went wrong, by thread
// atomics: of the standard library
// free_places: which places of a table are free
// handles: numbers by which C programs name objects
// border: panics, pointers, texts
// peers: who is at the other end
// kept: what events point to
// settings: structures of C with settings
// kinds: what each handle stands for
// messages: sending and receiving, as connections and halves do it alike
// events: the event queue
// nodes: nodes, names, requests
// connection: connections
// halves: the halves of a connection
// streams: byte streams
// apertures: apertures and tripwires
// ```

mod apertures;
mod atomics;
mod border;
mod connection;
mod events;
mod failure;
mod free_places;
mod halves;
mod handles;
mod kept;
mod kinds;
mod messages;
mod nodes;
mod peers;
mod settings;
mod streams;
