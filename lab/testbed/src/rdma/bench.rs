//! Two hosts with RDMA cards whose clock goes on with every access: for a caller that knows
//! nothing of the event kernel, the conformance suites above all.
//!
//! What was stored is given to the card with the access itself. An access takes a microsecond,
//! so that a store is there two accesses later: a suite in one thread expects credit that soon.
//! The light fence costs nothing; the heavy one waits until nothing is on its way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_des::Simulator;
use barewire_fabric::frame::RING_BYTES_MIN;
use barewire_fabric::memory::{Fences, Incoming, Outgoing};
use barewire_models::clan::{Loads, Memory, Stores};
use barewire_units::Duration;

use super::parameters::{Parameters, TEXT};
use super::world::{Joined, Rack, Sim};
use crate::error::SystemError;

/// What an access takes.
const ACCESS: Duration = Duration::from_us(1);

struct Inner {
    rack: Rack,
    sim: Sim,
}

/// The clock of the two hosts, as one of them sees it.
#[derive(Clone)]
struct Clock {
    inner: Arc<Mutex<Inner>>,
    end: u32,
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on(&self) {
        let Inner { rack, sim } = &mut *self.lock();
        let at = rack.post_all(self.end, sim);
        sim.run_until(at + ACCESS, rack);
    }
}

/// The storing window of a host.
#[derive(Clone)]
pub struct RdmaStores {
    stores: Stores,
    clock: Clock,
}

/// The loading window of a host.
#[derive(Clone)]
pub struct RdmaLoads {
    loads: Loads,
    clock: Clock,
}

/// The fences of a host.
pub struct RdmaFences(Clock);

/// Two hosts, joined by zeroed windows of `len_bytes` each way.
///
/// # Errors
///
/// Parameters that cannot be used.
pub fn windows(len_bytes: usize) -> Result<[(RdmaStores, RdmaLoads, RdmaFences); 2], SystemError> {
    let mut rack = Rack::new(&Parameters::parse(TEXT)?, 2);
    let ends = rack.connect(&Joined {
        hosts: [0, 1],
        ring_bytes: RING_BYTES_MIN,
        message_bytes: RING_BYTES_MIN,
        own_link: false,
    });
    rack.plug_in();
    let memories = ends.map(|end| {
        // In place of the ring's.
        let memory = Memory::default();
        memory.add_region(len_bytes);
        rack.ends[end as usize].memory = memory.clone();
        (end, memory)
    });
    let sim = Simulator::new();
    let inner = Arc::new(Mutex::new(Inner { rack, sim }));
    Ok(memories.map(|(end, memory)| {
        let inner = inner.clone();
        let clock = Clock { inner, end };
        let stores = RdmaStores {
            stores: memory.stores(0, 0, len_bytes),
            clock: clock.clone(),
        };
        let loads = RdmaLoads {
            loads: memory.loads(0),
            clock: clock.clone(),
        };
        (stores, loads, RdmaFences(clock))
    }))
}

impl Outgoing for RdmaStores {
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

impl Incoming for RdmaLoads {
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

impl Fences for RdmaFences {
    fn light(&self) {}

    fn heavy(&self) {
        let Inner { rack, sim } = &mut *self.0.lock();
        sim.run(rack);
    }
}
