//! The clock of the two hosts, and what each keeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_des::Simulator;
use barewire_models::clan::{Cargo, Memory, Operation, Packet, Transfer};
use barewire_units::Duration;

use super::desk::Desk;
use crate::clan::world::{Cabinet, ClanEvent};

/// What an access takes on the clock of the two hosts.
const ACCESS: Duration = Duration::from_ns(50);
/// What a wait looks ahead by when it has found nothing.
const AHEAD: Duration = Duration::from_ns(500);

/// Makes the limit of a wait: what it returns is asked each time that nothing was found
/// and nothing is on its way, lets others go on, and says whether to wait further. Whoever
/// drives the hosts decides in which time that is: the model has no clock of the world.
pub type Patience = fn(std::time::Duration) -> Box<dyn FnMut() -> bool>;

/// A place in a peer's memory.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) host: u8,
    pub(super) region: usize,
    pub(super) offset: usize,
}

/// The two hosts.
pub(super) struct Inner {
    pub(super) cabinet: Cabinet,
    pub(super) sim: Simulator<ClanEvent>,
    pub(super) desks: [Desk; 2],
    /// The number of the last operation asked for.
    pub(super) tag: u32,
}

impl Inner {
    pub(super) fn go_on(&mut self, host: u8) {
        self.cabinet.flush(&mut self.sim);
        let end = self.sim.now() + ACCESS;
        self.sim.run_until(end, &mut self.cabinet);
        while self.cabinet.processor_waits(host) && self.sim.step(&mut self.cabinet) {}
    }

    pub(super) fn drain(&mut self) {
        self.cabinet.flush(&mut self.sim);
        while !self.cabinet.is_idle() && self.sim.step(&mut self.cabinet) {}
    }

    /// Lets time pass; `false` if nothing is on its way.
    pub(super) fn ahead(&mut self) -> bool {
        let under_way = !self.cabinet.is_idle();
        let end = self.sim.now() + AHEAD;
        self.sim.run_until(end, &mut self.cabinet);
        under_way
    }

    /// Waits until a host's card has taken all that the host has given it.
    pub(super) fn settle(&mut self, host: u8) {
        self.cabinet.flush(&mut self.sim);
        while !self.cabinet.hosts[host as usize].interface.has_taken_all()
            && self.sim.step(&mut self.cabinet)
        {}
    }

    /// Has the card transfer bytes, behind all that was stored before.
    pub(super) fn transfer(&mut self, host: u8, transfer: Transfer) {
        self.settle(host);
        let interface = &mut self.cabinet.hosts[host as usize].interface;
        interface.start_transfer(transfer);
        self.settle(host);
        self.go_on(host);
    }

    /// Has the peer's card do something, behind all that was stored before; `None` if it
    /// refuses.
    pub(super) fn operate(
        &mut self,
        host: u8,
        target: Target,
        operation: Operation,
    ) -> Option<Vec<u8>> {
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

/// The clock of the two hosts, as one of them sees it.
#[derive(Clone)]
pub(super) struct Clock {
    pub(super) inner: Arc<Mutex<Inner>>,
    pub(super) host: u8,
}

impl Clock {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn go_on(&self) {
        self.lock().go_on(self.host);
    }

    pub(super) fn memory(&self) -> Memory {
        self.lock().cabinet.hosts[self.host as usize].memory.clone()
    }
}
