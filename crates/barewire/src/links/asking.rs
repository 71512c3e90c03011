//! Threads that access memory on another host: they ask, drive the link, and wait.
//!
//! A thread that waits looks for as long as its node spins, and then sleeps. One thread of each link sleeps on the descriptors
//! of its node's links, and wakes the others. Whoever drives the link wakes all whose answers have come.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use barewire_sys::clock::monotonic_ns;

use crate::links::driven::{Driven, DrivenSet};
use crate::links::far::{
    Bed, Far, FarAperture, OVERHEAD_BYTES, PIECE_BYTES, Queues, Refusal, Request, Ticket, WordOp,
};

/// Pieces of one get that are under way at a time.
const PIECES_AT_ONCE: usize = 4;

/// One thread that accesses one aperture.
pub(crate) struct Asking<'a> {
    pub driven: &'a Arc<dyn Driven>,
    /// All links of the node.
    pub set: &'a DrivenSet,
    pub aperture: &'a FarAperture,
    /// How long to look before sleeping.
    pub spin_ns: u64,
}

type Asked<T = ()> = Result<T, Refusal>;

impl Asking<'_> {
    fn far(&self) -> &Far {
        self.driven.far()
    }

    /// Drives the link until `step` gives something.
    fn wait<T>(&self, mut step: impl FnMut(&mut Queues) -> Option<T>) -> T {
        let far = self.far();
        let began_ns = monotonic_ns();
        let found = loop {
            self.set.drive();
            let found = step(&mut far.queues());
            if let Some(found) = found {
                break found;
            }
            if monotonic_ns().saturating_sub(began_ns) < self.spin_ns {
                core::hint::spin_loop();
                continue;
            }
            if let Some(found) = far.sleep(self.set.as_fd(), |bed| self.lie_down(bed), &mut step) {
                break found;
            }
        };
        // We do not drive any more.
        self.set.leave_to_thread();
        found
    }

    fn lie_down(&self, bed: &Bed) {
        let sleeper = self.set.begin_sleep();
        if sleeper.may_sleep {
            bed.sleep();
        }
    }

    /// Whether anything stands in the way of asking.
    fn check(&self, queues: &Queues) -> Asked {
        if queues.ended {
            return Err(Refusal::Gone);
        }
        if self.aperture.is_revoked() {
            return Err(Refusal::Revoked);
        }
        Ok(())
    }

    /// Adds a request that is not answered. Waits for room.
    fn post(&self, request: Request) -> Asked {
        let far = self.far();
        let cost_bytes = request.cost_bytes();
        let mut request = Some(request);
        let mut step = |queues: &mut Queues| {
            if let Err(refusal) = self.check(queues) {
                return Some(Err(refusal));
            }
            if !queues.has_room(cost_bytes, None) {
                return None;
            }
            far.push(queues, request.take()?);
            Some(Ok(()))
        };
        let posted = step(&mut far.queues());
        match posted {
            Some(posted) => posted,
            None => self.wait(step),
        }
    }

    /// As [`Asking::ask`], if there is room.
    fn try_ask(
        &self,
        queues: &mut Queues,
        answer_bytes: usize,
        request: impl FnOnce(u32) -> Request,
    ) -> Option<Asked<u32>> {
        if let Err(refusal) = self.check(queues) {
            return Some(Err(refusal));
        }
        // No request that is answered has a longer payload.
        if !queues.has_room(2 * OVERHEAD_BYTES, Some(answer_bytes)) {
            return None;
        }
        let ticket = queues.add_ticket(answer_bytes);
        self.far().push(queues, request(ticket));
        Some(Ok(ticket))
    }

    /// Adds a request that is answered by so many bytes. Waits for room.
    fn ask(&self, answer_bytes: usize, request: impl Fn(u32) -> Request) -> Asked<u32> {
        let asked = self.try_ask(&mut self.far().queues(), answer_bytes, &request);
        match asked {
            Some(asked) => asked,
            None => self.wait(|queues| self.try_ask(queues, answer_bytes, &request)),
        }
    }

    /// Waits for an answer.
    fn answer(&self, ticket: u32) -> Asked<Vec<u8>> {
        // Who drives already may have sent what there was before.
        self.driven.push();
        self.wait(|queues| {
            let key = ticket as usize;
            match queues.tickets.get(key) {
                Some(Ticket::Answered(_)) => match queues.tickets.remove(key) {
                    Ticket::Answered(answer) => Some(answer),
                    Ticket::Awaited(_) | Ticket::Abandoned(_) => None,
                },
                _ if queues.ended => {
                    queues.tickets.try_remove(key);
                    Some(Err(Refusal::Gone))
                }
                _ => None,
            }
        })
    }

    /// Nobody waits for these answers any more.
    fn abandon(&self, tickets: impl Iterator<Item = u32>) {
        let mut queues = self.far().queues();
        for ticket in tickets {
            let key = ticket as usize;
            match queues.tickets.get(key) {
                Some(Ticket::Awaited(bytes)) if !queues.ended => {
                    queues.tickets[key] = Ticket::Abandoned(*bytes);
                }
                _ => drop(queues.tickets.try_remove(key)),
            }
        }
    }

    /// Stores bytes: posted. An error if it is known by now that they would not be stored.
    pub fn put(&self, offset: usize, bytes: &[u8]) -> Asked {
        // A revocation that has come counts.
        self.driven.settle();
        let (aperture, offset) = (self.aperture.number, offset as u64);
        let fires = bytes.len() <= PIECE_BYTES;
        for (nth, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            self.post(Request::Put {
                aperture,
                offset: offset + (nth * PIECE_BYTES) as u64,
                bytes: piece.to_vec(),
                fires,
            })?;
            self.driven.push();
        }
        if !fires {
            let len_bytes = bytes.len() as u64;
            self.post(Request::Fire {
                aperture,
                offset,
                len_bytes,
            })?;
            self.driven.push();
        }
        Ok(())
    }

    /// Loads bytes.
    pub fn get(&self, offset: usize, into: &mut [u8]) -> Asked {
        let mut asked = VecDeque::with_capacity(PIECES_AT_ONCE);
        let result = self.get_pieces(offset, into, &mut asked);
        if result.is_err() {
            self.abandon(asked.into_iter().map(|(ticket, _)| ticket));
        }
        result
    }

    fn get_pieces<'b>(
        &self,
        offset: usize,
        into: &'b mut [u8],
        asked: &mut VecDeque<(u32, &'b mut [u8])>,
    ) -> Asked {
        let mut at = offset as u64;
        let mut pieces = into.chunks_mut(PIECE_BYTES);
        loop {
            while asked.len() < PIECES_AT_ONCE {
                let Some(piece) = pieces.next() else { break };
                let ticket = self.ask(piece.len(), |ticket| Request::Get {
                    aperture: self.aperture.number,
                    offset: at,
                    len_bytes: piece.len() as u32,
                    ticket,
                })?;
                at += piece.len() as u64;
                asked.push_back((ticket, piece));
            }
            let Some((ticket, piece)) = asked.pop_front() else {
                return Ok(());
            };
            piece.copy_from_slice(&self.answer(ticket)?);
        }
    }

    /// Loads or changes a word; what it was, 0 after a store.
    pub fn word(&self, offset: usize, op: WordOp, operands: [u64; 2]) -> Asked<u64> {
        let ticket = self.ask(8, |ticket| Request::Word {
            aperture: self.aperture.number,
            offset: offset as u64,
            op,
            operands,
            ticket,
        })?;
        let answer = self.answer(ticket)?;
        let mut word = [0; 8];
        word.copy_from_slice(&answer);
        Ok(u64::from_le_bytes(word))
    }

    /// Sets a tripwire on the owner's stores; its number. `source`: the bit to ring, if one is to be rung.
    pub fn arm(&self, offset: u64, len_bytes: u64, source: Option<u32>) -> Asked<u32> {
        let trap = self.far().add_trap(source);
        let armed = self
            .ask(0, |ticket| Request::Arm {
                aperture: self.aperture.number,
                offset,
                len_bytes,
                trap,
                ticket,
            })
            .and_then(|ticket| self.answer(ticket));
        match armed {
            Ok(_) => Ok(trap),
            Err(refusal) => {
                self.far().remove_trap(trap);
                Err(refusal)
            }
        }
    }
}

/// Takes a tripwire on the owner's stores away. Never waits. There are never more such requests in the queue than there were
/// tripwires, and no other is set before they are sent.
pub(crate) fn disarm(driven: &Arc<dyn Driven>, trap: u32) {
    let far = driven.far();
    if far.remove_trap(trap) {
        let mut queues = far.queues();
        if !queues.ended {
            far.push(&mut queues, Request::Disarm { trap });
        }
        drop(queues);
        driven.push();
    }
}
