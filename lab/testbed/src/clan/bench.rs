//! Two hosts with cards whose clock goes on with every access: for a caller that knows
//! nothing of the event kernel, the conformance suites above all.
//!
//! | of `barewire-fabric` | here |
//! |---|---|
//! | `memory::{Outgoing, Incoming, Fences}` | [`windows`] |
//! | `aperture::{Memory, TripwireSet, Trap}` | [`aperture`] |
//! | `aperture::EventSource` | [`CardQueue`] |
//! | `aperture::{Transport, ByteStream}` | [`connection`], [`stream`] |
//!
//! A store goes on as it would on the host: the processor is held while the write buffer
//! is full or drains, then the program goes on. A load takes 50 ns. The light fence
//! costs nothing; the heavy one waits until nothing is on its way in either direction, as
//! a word to the peer's card and back would.

use std::sync::{Arc, Mutex};

use barewire_des::Simulator;
use barewire_fabric::memory::{Fences, Incoming, Outgoing};
use barewire_models::clan::{Loads, Stores};

use super::parameters::{Parameters, TEXT};
use super::world::Cabinet;
use crate::error::SystemError;

mod clock;
mod connection;
mod desk;
mod events;
mod memory;

pub use clock::Patience;
use clock::{Clock, Inner};
pub use connection::{CardConnection, CardStream, Down, connection, stream};
use desk::Desk;
pub use events::CardQueue;
pub use memory::{ApertureEnd, CardTrap, Exported, Imported, NoTripwire, aperture};

impl Clock {
    /// Windows into the other host's region and over the own one.
    fn windows(&self, regions: [usize; 2], len_bytes: usize) -> (BenchStores, BenchLoads) {
        let (own, peer) = (self.host as usize, 1 - self.host);
        let memory = self.memory();
        let stores = BenchStores {
            stores: memory.stores(peer, regions[peer as usize], len_bytes),
            clock: self.clone(),
        };
        let loads = BenchLoads {
            loads: memory.loads(regions[own]),
            clock: self.clone(),
        };
        (stores, loads)
    }
}

/// The storing window of a host.
#[derive(Clone)]
pub struct BenchStores {
    stores: Stores,
    clock: Clock,
}

/// The loading window of a host.
#[derive(Clone)]
pub struct BenchLoads {
    loads: Loads,
    clock: Clock,
}

/// The fences of a host.
pub struct BenchFences(Clock);

/// Two hosts, joined by zeroed windows of `len_bytes` each way, with CLAN's parameters.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn windows(
    len_bytes: usize,
) -> Result<[(BenchStores, BenchLoads, BenchFences); 2], SystemError> {
    let clocks = clocks(TEXT)?;
    let regions = clocks
        .each_ref()
        .map(|it| it.memory().add_region(len_bytes));
    Ok(clocks.map(|clock| {
        let (stores, loads) = clock.windows(regions, len_bytes);
        (stores, loads, BenchFences(clock))
    }))
}

/// Two hosts with nothing to do.
fn clocks(parameters: &str) -> Result<[Clock; 2], SystemError> {
    let inner = Arc::new(Mutex::new(Inner {
        cabinet: Cabinet::new(&Parameters::parse(parameters)?, 2),
        sim: Simulator::new(),
        desks: [Desk::default(), Desk::default()],
        tag: 0,
    }));
    Ok([0, 1].map(|host| Clock {
        inner: inner.clone(),
        host,
    }))
}

impl Outgoing for BenchStores {
    fn len_bytes(&self) -> usize {
        self.stores.len_bytes()
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.stores.write(offset, bytes);
        self.clock.go_on();
    }

    fn write_u64(&self, offset: usize, value: u64) {
        self.stores.write_u64(offset, value);
        self.clock.go_on();
    }

    fn publish_u64(&self, offset: usize, value: u64) {
        self.stores.publish_u64(offset, value);
        self.clock.go_on();
    }
}

impl Incoming for BenchLoads {
    fn len_bytes(&self) -> usize {
        self.loads.len_bytes()
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        self.clock.go_on();
        self.loads.read(offset, into);
    }

    fn read_u64(&self, offset: usize) -> u64 {
        self.clock.go_on();
        self.loads.read_u64(offset)
    }

    fn observe_u64(&self, offset: usize) -> u64 {
        self.clock.go_on();
        self.loads.observe_u64(offset)
    }
}

impl Fences for BenchFences {
    fn light(&self) {}

    fn heavy(&self) {
        self.0.lock().drain();
    }
}
