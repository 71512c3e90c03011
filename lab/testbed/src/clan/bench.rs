//! Two hosts with cards whose clock goes on with every access: for a caller that knows
//! nothing of the event kernel, the conformance suites above all.
//!
//! A store goes on as it would on the host: the processor is held while the write buffer
//! is full or drains, then the program goes on. A load takes 50 ns. The light fence
//! costs nothing; the heavy one waits until nothing is on its way in either direction, as
//! a word to the peer's card and back would.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_des::Simulator;
use barewire_fabric::window::{Fences, Incoming, Outgoing};
use barewire_models::clan::{Loads, Stores};
use barewire_units::Duration;

use super::parameters::{Parameters, TEXT};
use super::world::{Cabinet, ClanEvent};
use crate::SystemError;

/// What an access takes on the clock of the two hosts.
const ACCESS: Duration = Duration::from_ns(50);

struct Inner {
    cabinet: Cabinet,
    sim: Simulator<ClanEvent>,
}

impl Inner {
    fn go_on(&mut self, host: u8) {
        self.cabinet.flush(&mut self.sim);
        let end = self.sim.now() + ACCESS;
        self.sim.run_until(end, &mut self.cabinet);
        while self.cabinet.processor_waits(host) && self.sim.step(&mut self.cabinet) {}
    }

    fn drain(&mut self) {
        self.cabinet.flush(&mut self.sim);
        while !self.cabinet.is_idle() && self.sim.step(&mut self.cabinet) {}
    }
}

/// The clock of the two hosts, as one of them sees it.
#[derive(Clone)]
struct Clock {
    inner: Arc<Mutex<Inner>>,
    host: u8,
}

impl Clock {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on(&self) {
        self.lock().go_on(self.host);
    }
}

/// The storing window of a host.
pub struct BenchStores {
    stores: Stores,
    clock: Clock,
}

/// The loading window of a host.
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
    let parameters = Parameters::parse(TEXT)?;
    let cabinet = Cabinet::new(&parameters, 2);
    let memories = [0, 1].map(|host: usize| cabinet.hosts[host].memory.clone());
    let regions = [0, 1].map(|host: usize| memories[host].add_region(len_bytes));
    let sim = Simulator::new();
    let inner = Arc::new(Mutex::new(Inner { cabinet, sim }));
    Ok([0, 1].map(|host: usize| {
        let peer = 1 - host;
        let clock = Clock {
            inner: inner.clone(),
            host: host as u8,
        };
        let stores = memories[host].stores(peer as u8, regions[peer], len_bytes);
        let loads = memories[host].loads(regions[host]);
        (
            BenchStores {
                stores,
                clock: clock.clone(),
            },
            BenchLoads {
                loads,
                clock: clock.clone(),
            },
            BenchFences(clock),
        )
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
