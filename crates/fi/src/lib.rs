//! A provider for libfabric: `libbarewire-fi.so`. Programs for libfabric, and with them MPI, exchange their messages
//! through the shared memory of one host.
//!
//! libfabric loads it from the folder that `FI_PROVIDER_PATH` names, and calls [`fi_prov_ini`]. It offers endpoints of
//! the type `FI_EP_RDM`, with tagged messages, messages without tags, buffers that take several of those, memory that peers read, write and change. How to use it:
//! `docs/mpi.md`.
//!
//! What holds for all of it:
//!
//! - The objects of a domain share one lock. So a program may call from any thread (`FI_THREAD_SAFE`). One that asks for
//!   `FI_THREAD_DOMAIN` does not let its calls overlap, and needs no lock.
//! - Progress is made when a completion queue or a counter is read (`FI_PROGRESS_MANUAL`). Nothing waits but a read
//!   that is to wait.
//! - No panic crosses the border: it becomes `FI_EOTHER`.

// A file imports only from its own layer and those above it in this list, lowest first.
//
// ```layers
// raw: what libfabric and a provider know of each other
// memory: memory that the program lends
// arithmetic: what atomic operations do
// regions: memory that peers read and write
// records: what two endpoints say to each other
// engine/buffers: buffers that take several messages
// engine/state: what an endpoint knows
// engine/sending: sends
// engine/receiving: receives
// engine/remote: reads and writes of a peer's memory
// engine: an endpoint without libfabric's objects
// space: what the objects of a domain share, under one lock
// border: panics, tables of functions, functions that are not there
// info: what this provider offers, and whether that is what was asked for
// objects: libfabric's objects
// ```

mod arithmetic;
mod border;
mod engine;
mod info;
mod memory;
mod objects;
mod raw;
mod records;
mod regions;
mod space;

use border::Constant;
use raw::fi_provider;

static PROVIDER: Constant<fi_provider> = Constant(fi_provider {
    version: 1,
    fi_version: raw::VERSION,
    context: [std::ptr::null_mut(); 4],
    name: info::NAME.as_ptr(),
    getinfo: info::getinfo as raw::Function,
    fabric: objects::fabric::open as raw::Function,
    cleanup: border::nothing as raw::Function,
});

/// What libfabric calls after it has loaded this library. Returns the description of the provider, which libfabric
/// writes its own notes into: each call returns the same one.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut std::ffi::c_void {
    static MADE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let make = || {
        let provider = Box::new(fi_provider { ..PROVIDER.0 });
        Box::into_raw(provider).expose_provenance()
    };
    engine::state::pointer(*MADE.get_or_init(make))
}
