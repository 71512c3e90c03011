//! The event queue of a host with a card: the live network's doorbell page, which the
//! card's tripwires ring, and a table of what each of its bits stands for.

use std::time::Duration;

use barewire_fabric::aperture::{Action, EventSource, Mode, Notice};
use barewire_fabric::doorbell::{self};
use barewire_models::clan::{CamError, Place};

use super::clock::{Clock, Patience};

impl Clock {
    /// Sets a tripwire on `range` of a place; its number in the event queue.
    pub(super) fn arm(
        &self,
        place: Place,
        range: (usize, usize),
        mode: Mode,
        (action, notice): (Action, Notice),
    ) -> Result<u32, CamError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let desk = &mut inner.desks[self.host as usize];
        let number = desk.add(notice);
        let action = match action {
            Action::Enqueue { .. } => Action::Enqueue {
                cookie: u64::from(number),
            },
            other => other,
        };
        let cam = inner.cabinet.hosts[self.host as usize].interface.cam();
        match cam.arm(place, range, mode, action) {
            Ok(entry) => desk.sources[number as usize].entry = Some(entry),
            Err(error) => {
                desk.free.push(number);
                return Err(error);
            }
        }
        Ok(number)
    }

    /// Takes a tripwire away; more than once is as good as once.
    pub(super) fn disarm(&self, number: u32) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let source = &mut inner.desks[self.host as usize].sources[number as usize];
        if let Some(entry) = source.entry.take() {
            let cam = inner.cabinet.hosts[self.host as usize].interface.cam();
            source.counted = cam.disarm(entry);
        }
    }

    /// Takes it away for good.
    pub(super) fn give_back(&self, number: u32) {
        self.disarm(number);
        self.lock().desks[self.host as usize]
            .given_back
            .push(number);
    }

    /// Whether a tripwire is set, and what it has counted.
    pub(super) fn inspect(&self, number: u32) -> (bool, u64) {
        let mut inner = self.lock();
        let source = inner.desks[self.host as usize].sources[number as usize];
        let cam = inner.cabinet.hosts[self.host as usize].interface.cam();
        match source.entry {
            Some(entry) => (cam.is_armed(entry), cam.count(entry)),
            None => (false, source.counted),
        }
    }

    /// Puts something into the own queue.
    pub(super) fn ring_own(&self, number: u32) {
        let inner = self.lock();
        doorbell::ring(&inner.cabinet.hosts[self.host as usize].words, number);
    }
}

/// The event queue of a host.
pub struct CardQueue {
    clock: Clock,
    patience: Patience,
}

impl CardQueue {
    pub(super) fn new(clock: Clock, patience: Patience) -> Self {
        CardQueue { clock, patience }
    }

    /// What is there; and whether a tripwire that only wakes has fired.
    fn look(&self, notices: &mut Vec<Notice>, max: usize) -> (usize, bool) {
        let mut inner = self.clock.lock();
        let host = self.clock.host;
        inner.go_on(host);
        let inner = &mut *inner;
        let it = &mut inner.cabinet.hosts[host as usize];
        let desk = &mut inner.desks[host as usize];
        let mut found = 0;
        while found < max {
            let Some(number) = desk.drain.next_source(&it.words) else {
                // No bit is set, so the numbers given back can have no bit set either.
                if !doorbell::pending(&it.words) {
                    desk.free.append(&mut desk.given_back);
                }
                break;
            };
            let source = &desk.sources[number as usize];
            if source.entry.is_some() {
                notices.push(source.notice);
                found += 1;
            }
        }
        (found, std::mem::take(&mut it.woken))
    }
}

impl EventSource for CardQueue {
    type Error = std::convert::Infallible;

    fn poll_notices(&self, notices: &mut Vec<Notice>, max: usize) -> Result<usize, Self::Error> {
        let (found, woken) = self.look(notices, max);
        // A wake-up that nobody waited for ends the next wait.
        self.clock.lock().cabinet.hosts[self.clock.host as usize].woken |= woken;
        Ok(found)
    }

    fn wait_notices(
        &self,
        notices: &mut Vec<Notice>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize, Self::Error> {
        let mut go_on = (self.patience)(timeout);
        loop {
            let (found, woken) = self.look(notices, max);
            if found > 0 || woken {
                return Ok(found);
            }
            let under_way = self.clock.lock().ahead();
            if !under_way && !go_on() {
                return Ok(0);
            }
        }
    }
}
