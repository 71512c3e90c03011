//! What a proxy knows of the apertures of its node that the other host holds: the proxy is their importer, and carries out
//! what the other host asks for.
//!
//! Everything that comes from the other host is checked here. What it is answered waits here until it is sent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use barewire_shm::watch::{ArmError, FLAG_COUNT, FLAG_ENQUEUE};
use slab::Slab;

use crate::apertures::exported::settle_watch;
use crate::apertures::imported::Imported;
use crate::apertures::serving::Unserved;
use crate::error::Error;
use crate::links::driven::TRAPS_FROM;
use crate::links::far::{ANSWER_BYTES_MAX, OVERHEAD_BYTES, PIECE_BYTES, Refusal, WordOp};
use crate::remote::record::{HEADER, Head, Kind};

/// Tripwires that the other host may set on our node's stores, over one link.
const TRAPS_MAX: usize = 16 * 1024;

const DONE: u64 = 0;
const REVOKED: u64 = 1;
const TABLE_FULL: u64 = 2;
const PLACE_FULL: u64 = 3;

/// An aperture that the other host holds.
enum Held {
    Granted {
        memory: Arc<Imported>,
        /// What has come in pieces of puts that have not fired yet.
        unfired_bytes: u64,
    },
    /// Our node has withdrawn it, and the other host need not know yet.
    Revoked,
}

/// A tripwire that the other host has set on our node's stores.
struct Trap {
    aperture: u32,
    memory: Arc<Imported>,
    slot: u32,
    /// By the other host.
    number: u32,
    /// How many firings it knows of.
    told: u64,
}

/// The apertures of our node that the other host holds.
#[derive(Default)]
pub(crate) struct Lent {
    held: HashMap<u32, Held>,
    /// Index: their bits from [`TRAPS_FROM`] on.
    traps: Slab<Trap>,
    /// By the other host's numbers.
    trap_numbers: HashMap<u32, usize>,
    answers: VecDeque<Vec<u8>>,
    answer_bytes: usize,
}

type Checked<T = ()> = Result<T, &'static str>;

const UNKNOWN: &str = "access to an aperture that it does not hold";

/// A number in a payload whose length was checked.
fn word(payload: &[u8], at: usize) -> u64 {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// As [`word`], of half the length.
fn half(payload: &[u8], at: usize) -> u32 {
    let bytes = payload.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// For our node.
impl Lent {
    /// Our node has granted one, which is announced later; `false` if the other host holds it already.
    pub fn grant(&mut self, number: u32, memory: Arc<Imported>) -> bool {
        let held = Held::Granted {
            memory,
            unfired_bytes: 0,
        };
        self.held.insert(number, held).is_none()
    }

    /// Our node has withdrawn one.
    pub fn revoke(&mut self, number: u32) {
        if let Some(held) = self.held.get_mut(&number) {
            *held = Held::Revoked;
        }
        self.remove_traps_of(number);
    }

    pub fn count(&self) -> usize {
        self.held.len()
    }

    fn remove_traps_of(&mut self, aperture: u32) {
        self.traps.retain(|index, trap| {
            let stays = trap.aperture != aperture;
            if !stays {
                trap.memory.disarm_on_owner(trap.slot, source_of(index));
            }
            stays
        });
        let traps = &self.traps;
        self.trap_numbers.retain(|_, index| traps.contains(*index));
    }
}

/// For the other host.
impl Lent {
    /// It gives one back.
    pub fn release(&mut self, number: u32) -> Checked {
        self.remove_traps_of(number);
        let held = self.held.remove(&number);
        held.map(drop)
            .ok_or("gives back an aperture that it does not hold")
    }

    fn find(&self, number: u32) -> Checked<Option<&Arc<Imported>>> {
        match self.held.get(&number) {
            Some(Held::Granted { memory, .. }) => Ok(Some(memory)),
            Some(Held::Revoked) => Ok(None),
            None => Err(UNKNOWN),
        }
    }

    /// Carries out what is asked for.
    pub fn serve(&mut self, head: &Head, payload: &[u8]) -> Checked {
        let (number, place) = (head.connection, head.place());
        match head.kind {
            Kind::Put | Kind::Fire => self.put(head, payload),
            Kind::Get => self.get(head, half(payload, 0)),
            Kind::Access => {
                let op = match word(payload, 0) {
                    0 => WordOp::Load,
                    1 => WordOp::Store,
                    2 => WordOp::Add,
                    3 => WordOp::Exchange,
                    _ => return Err("access of an unknown kind to a word"),
                };
                let operands = [word(payload, 8), word(payload, 16)];
                let answered = match self.find(number)? {
                    Some(aperture) => aperture.serve_word(place, op, operands),
                    None => Err(Unserved::Revoked),
                };
                match answered {
                    Ok(was) => self.answer(head, DONE, 0, &was.to_le_bytes()),
                    Err(unserved) => self.answer_unserved(head, unserved),
                }
            }
            Kind::Arm => self.arm(head, word(payload, 0), half(payload, 8)),
            Kind::Disarm => {
                // Those on an aperture that was withdrawn are gone already.
                if let Some(index) = self.trap_numbers.remove(&number) {
                    if let Some(trap) = self.traps.try_remove(index) {
                        trap.memory.disarm_on_owner(trap.slot, source_of(index));
                    }
                }
                Ok(())
            }
            _ => Err("record that asks for nothing"),
        }
    }

    /// A put, a piece of one, or the end of one that has come in pieces. To look for what the last fires takes longer the
    /// longer it is: so it is only done for what was put.
    fn put(&mut self, head: &Head, payload: &[u8]) -> Checked {
        let (memory, unfired_bytes) = match self.held.get_mut(&head.connection) {
            Some(Held::Granted {
                memory,
                unfired_bytes,
            }) => (memory, unfired_bytes),
            Some(Held::Revoked) => return Ok(()),
            None => return Err(UNKNOWN),
        };
        if head.kind == Kind::Put {
            let fires = head.number != 0;
            if !fires {
                *unfired_bytes = unfired_bytes.saturating_add(payload.len() as u64);
            }
            return unless_revoked(memory.serve_put(head.place(), payload, fires));
        }
        let len_bytes = word(payload, 0);
        let left_bytes = unfired_bytes.checked_sub(len_bytes);
        *unfired_bytes = left_bytes.ok_or("fires for more than was put")?;
        unless_revoked(memory.serve_fire(head.place(), len_bytes))
    }

    fn get(&mut self, head: &Head, len_bytes: u32) -> Checked {
        let len_bytes = len_bytes as usize;
        if !(1..=PIECE_BYTES).contains(&len_bytes) {
            return Err("get of an impossible length");
        }
        let Some(aperture) = self.find(head.connection)? else {
            return self.answer_unserved(head, Unserved::Revoked);
        };
        let mut record = vec![0; HEADER + len_bytes];
        match aperture.serve_get(head.place(), &mut record[HEADER..]) {
            Ok(()) => {
                let answer = Head::access(Kind::Answer, head.number, DONE, 0, len_bytes);
                record[..HEADER].copy_from_slice(&answer.encode());
                self.keep(record)
            }
            Err(unserved) => self.answer_unserved(head, unserved),
        }
    }

    fn arm(&mut self, head: &Head, len_bytes: u64, number: u32) -> Checked {
        if self.trap_numbers.contains_key(&number) {
            return Err("uses the number of a tripwire twice");
        }
        let Some(memory) = self.find(head.connection)?.map(Arc::clone) else {
            return self.answer_unserved(head, Unserved::Revoked);
        };
        let index = self.traps.vacant_key();
        if index >= TRAPS_MAX {
            return self.answer(head, TABLE_FULL, TRAPS_MAX as u32, &[]);
        }
        let flags = FLAG_COUNT | FLAG_ENQUEUE;
        let armed = memory.arm_on_owner(head.place(), len_bytes, source_of(index), flags);
        let (slot, told) = match armed {
            Ok(armed) => armed,
            Err(Error::Arm(ArmError::TableFull { slots })) => {
                return self.answer(head, TABLE_FULL, slots, &[]);
            }
            Err(Error::Arm(ArmError::PlaceFull)) => return self.answer(head, PLACE_FULL, 0, &[]),
            Err(_) => return Err("tripwire outside an aperture"),
        };
        // Whatever our node stores once this is answered fires it.
        settle_watch();
        self.traps.insert(Trap {
            aperture: head.connection,
            memory,
            slot,
            number,
            told,
        });
        self.trap_numbers.insert(number, index);
        self.answer(head, DONE, 0, &[])
    }

    fn answer_unserved(&mut self, head: &Head, unserved: Unserved) -> Checked {
        match unserved {
            Unserved::Revoked => self.answer(head, REVOKED, 0, &[]),
            Unserved::Wrong(what) => Err(what),
        }
    }

    fn answer(&mut self, head: &Head, status: u64, number: u32, payload: &[u8]) -> Checked {
        let answer = Head::access(Kind::Answer, head.number, status, number, payload.len());
        let mut record = Vec::with_capacity(HEADER + payload.len());
        record.extend_from_slice(&answer.encode());
        record.extend_from_slice(payload);
        self.keep(record)
    }

    /// Keeps an answer until it is sent.
    fn keep(&mut self, record: Vec<u8>) -> Checked {
        self.answer_bytes += record.len();
        if self.answer_bytes > ANSWER_BYTES_MAX {
            return Err("asks for more than it may at a time");
        }
        self.answers.push_back(record);
        Ok(())
    }
}

const _: () = assert!(HEADER <= OVERHEAD_BYTES);
const _: () = assert!(TRAPS_MAX as u32 <= barewire_fabric::doorbell::SOURCES_MAX - TRAPS_FROM);

/// What is to be sent.
impl Lent {
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// The next answer, if `fits` says that there is room for so many bytes.
    pub fn next_answer(&mut self, fits: impl FnOnce(usize) -> bool) -> Option<Vec<u8>> {
        let len_bytes = self.answers.front()?.len();
        if !fits(len_bytes) {
            return None;
        }
        self.answer_bytes -= len_bytes;
        self.answers.pop_front()
    }

    /// What the other host is to hear of a tripwire whose bit was rung: its number, and how often it has fired since.
    pub fn firing(&mut self, source: u32) -> Option<(u32, u64)> {
        let index = source.checked_sub(TRAPS_FROM)? as usize;
        let trap = self.traps.get_mut(index)?;
        let count = trap.memory.count_on_owner(trap.slot);
        let times = count.wrapping_sub(core::mem::replace(&mut trap.told, count));
        (times != 0).then_some((trap.number, times))
    }
}

fn source_of(index: usize) -> u32 {
    TRAPS_FROM + index as u32
}

/// A put that comes too late is not stored; it need not be told.
fn unless_revoked(served: Result<(), Unserved>) -> Checked {
    match served {
        Ok(()) | Err(Unserved::Revoked) => Ok(()),
        Err(Unserved::Wrong(what)) => Err(what),
    }
}

/// What an answer says, if its status is one.
pub(crate) fn answer_of<'a>(head: &Head, payload: &'a [u8]) -> Checked<Result<&'a [u8], Refusal>> {
    let refusal = match head.place() {
        DONE => return Ok(Ok(payload)),
        REVOKED => Refusal::Revoked,
        TABLE_FULL => Refusal::TableFull(head.number),
        PLACE_FULL => Refusal::PlaceFull,
        _ => return Err("answer of an unknown kind"),
    };
    match payload {
        [] => Ok(Err(refusal)),
        _ => Err("answer of another length than asked for"),
    }
}
