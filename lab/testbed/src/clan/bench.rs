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

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_des::Simulator;
use barewire_fabric::memory::{Fences, Incoming, Outgoing};
use barewire_models::clan::{Cargo, Loads, Memory, Operation, Packet, Stores, Transfer};
use barewire_units::Duration;

use super::parameters::{Parameters, TEXT};
use super::world::{Cabinet, ClanEvent};
use crate::error::SystemError;

mod connection;
mod events;
mod memory;

pub use connection::{CardConnection, CardStream, Down, connection, stream};
pub use events::CardQueue;
use events::Desk;
pub use memory::{ApertureEnd, CardTrap, Exported, Imported, NoTripwire, aperture};

/// What an access takes on the clock of the two hosts.
const ACCESS: Duration = Duration::from_ns(50);
/// What a wait looks ahead by when it has found nothing.
const AHEAD: Duration = Duration::from_ns(500);

/// Makes the limit of a wait: what it returns is asked each time that nothing was found
/// and nothing is on its way, lets others go on, and says whether to wait further. Whoever
/// drives the hosts decides in which time that is: the model has no clock of the world.
pub type Patience = fn(std::time::Duration) -> Box<dyn FnMut() -> bool>;

struct Inner {
    cabinet: Cabinet,
    sim: Simulator<ClanEvent>,
    desks: [Desk; 2],
    /// The number of the last operation asked for.
    tag: u32,
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

    /// Lets time pass; `false` if nothing is on its way.
    fn ahead(&mut self) -> bool {
        let under_way = !self.cabinet.is_idle();
        let end = self.sim.now() + AHEAD;
        self.sim.run_until(end, &mut self.cabinet);
        under_way
    }

    /// Waits until a host's card has taken all that the host has given it.
    fn settle(&mut self, host: u8) {
        self.cabinet.flush(&mut self.sim);
        while !self.cabinet.hosts[host as usize].interface.has_taken_all()
            && self.sim.step(&mut self.cabinet)
        {}
    }

    /// Has the card transfer bytes, behind all that was stored before.
    fn transfer(&mut self, host: u8, transfer: Transfer) {
        self.settle(host);
        let interface = &mut self.cabinet.hosts[host as usize].interface;
        interface.start_transfer(transfer);
        self.settle(host);
        self.go_on(host);
    }

    /// Has the peer's card do something, behind all that was stored before; `None` if it
    /// refuses.
    fn operate(&mut self, host: u8, target: Target, operation: Operation) -> Option<Vec<u8>> {
        self.settle(host);
        self.tag = self.tag.wrapping_add(1);
        let tag = self.tag;
        let interface = &mut self.cabinet.hosts[host as usize].interface;
        interface.ask(Packet {
            to: target.host,
            region: target.region,
            offset: target.offset,
            cargo: Cargo::Ask {
                from: host,
                tag,
                operation,
            },
            bytes: operation.operands(),
        });
        self.cabinet.flush(&mut self.sim);
        loop {
            let answers = &mut self.cabinet.hosts[host as usize].answers;
            if let Some(at) = answers.iter().position(|(number, _)| *number == tag) {
                return answers.swap_remove(at).1;
            }
            if !self.sim.step(&mut self.cabinet) {
                return None;
            }
        }
    }
}

/// A place in a peer's memory.
#[derive(Clone, Copy)]
struct Target {
    host: u8,
    region: usize,
    offset: usize,
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

    fn memory(&self) -> Memory {
        self.lock().cabinet.hosts[self.host as usize].memory.clone()
    }

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
