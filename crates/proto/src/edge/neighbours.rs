//! Which Ethernet address the hosts near the bridge have: ARP (RFC 826) and neighbour discovery (RFC 4861) have one
//! table here.
//!
//! | state | the bridge | an answer | time |
//! |---|---|---|---|
//! | Asked | holds packets, asks all hosts each second, three times | Known | the entry goes, and the packets come back |
//! | Known, for 30 s | uses the address | is unasked for | Old |
//! | Old | uses the address, and at the next use asks the host | is unasked for | stays |
//! | Checked | uses the address, asks the host three times, then all | Known | the entry goes |
//!
//! An entry is made only for what a client sends: no stranger makes one. Only an answer to a question changes an
//! address. What comes unasked, also the sender of a question, does no more than this: where it names another address
//! than the one that is known, the entry becomes Old, so the bridge asks.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use barewire_units::{Duration, Instant, transitions};

use super::flow::{HashKey, Keyed, rebased};

/// An Ethernet address.
pub type Ethernet = [u8; 6];

/// To all hosts.
pub const BROADCAST: Ethernet = [0xff; 6];

/// How long an address is known: REACHABLE_TIME of RFC 4861, 10.
const KNOWN: Duration = Duration::from_s(30);
/// Between questions: RETRANS_TIMER there.
const BETWEEN: Duration = Duration::from_s(1);
/// Questions to all, and questions to the host itself: MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT there.
const QUESTIONS: u8 = 3;
/// Entries at most.
const ENTRIES_MAX: usize = 1024;
/// Entries without an address at most.
const ASKED_MAX: usize = 64;
/// Packets that wait for one address at most.
const HELD_MAX: usize = 4;

/// How much is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Nothing yet.
    Asked,
    /// Its address, from an answer.
    Known,
    /// Its address, from an answer some time ago.
    Old,
    /// Its address, and the bridge asks again.
    Checked,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourEvent {
    /// An answer that may be one to a question.
    Answer,
    /// Something unasked names another address.
    Contradiction,
    /// The time is over.
    Timeout,
    /// A packet goes there.
    Use,
}

transitions! {
    NeighbourState on NeighbourEvent {
        Asked + Answer => Known,
        Known + Contradiction => Old,
        Known + Timeout => Old,
        Old + Use => Checked,
        Checked + Answer => Known,
    }
}

#[derive(Debug)]
struct Neighbour {
    state: NeighbourState,
    address: Ethernet,
    asked: u8,
    deadline: Option<Instant>,
    held: Vec<Vec<u8>>,
}

/// What to do with a packet for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Send it there.
    To(Ethernet),
    /// It may be held: [`Neighbours::hold`].
    Unknown,
}

/// A question to be sent: about this address, to this Ethernet address or, with `None`, to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whose Ethernet address is asked for.
    pub about: IpAddr,
    /// Who is asked.
    pub to: Option<Ethernet>,
}

/// What was heard of a neighbour.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// An answer that was waited for, with the packets that waited.
    Answer(Vec<Vec<u8>>),
    /// Nothing that was waited for.
    Unasked,
}

/// All neighbours.
#[derive(Debug)]
pub struct Neighbours {
    table: Keyed<IpAddr, Neighbour>,
    deadlines: BTreeSet<(Instant, IpAddr)>,
    asked: usize,
    /// Packets that were dropped since nobody answered, or there were too many.
    dropped: u64,
    /// Those for hosts that have not answered any question.
    unanswered: Vec<Vec<u8>>,
}

impl Neighbours {
    /// None yet.
    #[must_use]
    pub fn new(key: HashKey) -> Self {
        Self {
            table: Keyed::with_hasher(key),
            deadlines: BTreeSet::new(),
            asked: 0,
            dropped: 0,
            unanswered: Vec::new(),
        }
    }

    /// How many are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Packets that were dropped since nobody answered, or there were too many; from then on counted from zero.
    pub fn take_dropped(&mut self) -> u64 {
        core::mem::take(&mut self.dropped)
    }

    /// Packets that were held for hosts which have not answered any question, each once. They are among the dropped ones.
    /// At most `HELD_MAX` for each of `ASKED_MAX` hosts.
    pub fn take_unanswered(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.unanswered)
    }

    /// The way to a neighbour to which a packet goes now, and a question that has to be sent first or beside it.
    pub fn way(&mut self, now: Instant, to: IpAddr) -> (Way, Option<Question>) {
        match self.table.get_mut(&to) {
            Some(neighbour) if neighbour.state == NeighbourState::Asked => (Way::Unknown, None),
            Some(neighbour) => {
                let (address, before) = (neighbour.address, neighbour.state);
                neighbour.state = before.on(NeighbourEvent::Use).unwrap_or(before);
                let begins = neighbour.state != before;
                if begins {
                    neighbour.asked = 1;
                    self.set_deadline(to, Some(now.saturating_add(BETWEEN)));
                }
                let question = Question {
                    about: to,
                    to: Some(address),
                };
                (Way::To(address), begins.then_some(question))
            }
            None => {
                self.make_room();
                let neighbour = Neighbour {
                    state: NeighbourState::Asked,
                    address: BROADCAST,
                    asked: 1,
                    deadline: None,
                    held: Vec::new(),
                };
                self.table.insert(to, neighbour);
                self.asked += 1;
                self.set_deadline(to, Some(now.saturating_add(BETWEEN)));
                (
                    Way::Unknown,
                    Some(Question {
                        about: to,
                        to: None,
                    }),
                )
            }
        }
    }

    /// Holds a packet until the address of this neighbour is known. If there are too many, the oldest is dropped.
    pub fn hold(&mut self, to: IpAddr, packet: Vec<u8>) {
        match self.table.get_mut(&to) {
            Some(neighbour) if neighbour.state == NeighbourState::Asked => {
                if neighbour.held.len() >= HELD_MAX {
                    neighbour.held.remove(0);
                    self.dropped += 1;
                }
                neighbour.held.push(packet);
            }
            _ => self.dropped += 1,
        }
    }

    /// Somebody says which Ethernet address a neighbour has. `is_answer`: it may be the answer to a question.
    pub fn hear(&mut self, now: Instant, of: IpAddr, address: Ethernet, is_answer: bool) -> Heard {
        let Some(neighbour) = self.table.get_mut(&of) else {
            return Heard::Unasked;
        };
        if address[0] & 1 != 0 || address == [0; 6] {
            return Heard::Unasked;
        }
        let before = neighbour.state;
        let answered = if is_answer {
            before.on(NeighbourEvent::Answer)
        } else {
            None
        };
        match answered {
            Some(after) => {
                neighbour.state = after;
                neighbour.address = address;
                let held = core::mem::take(&mut neighbour.held);
                self.asked -= usize::from(before == NeighbourState::Asked);
                self.set_deadline(of, Some(now.saturating_add(KNOWN)));
                Heard::Answer(held)
            }
            None => {
                let contradiction = if neighbour.address == address {
                    None
                } else {
                    before.on(NeighbourEvent::Contradiction)
                };
                if let Some(after) = contradiction {
                    neighbour.state = after;
                    self.set_deadline(of, None);
                }
                Heard::Unasked
            }
        }
    }

    /// Does what is due. Call it until it returns `None`; each question is to be sent.
    pub fn handle_time(&mut self, now: Instant) -> Option<Question> {
        while let Some(&(deadline, of)) = self.deadlines.first() {
            if deadline > now {
                return None;
            }
            let Some(neighbour) = self.table.get_mut(&of) else {
                self.deadlines.pop_first();
                continue;
            };
            if let Some(after) = neighbour.state.on(NeighbourEvent::Timeout) {
                neighbour.state = after;
                self.set_deadline(of, None);
                continue;
            }
            // The host itself is asked first, if an address of it is known, and then all.
            let is_known = neighbour.state == NeighbourState::Checked;
            let most = if is_known { 2 * QUESTIONS } else { QUESTIONS };
            if neighbour.asked >= most {
                self.dropped += neighbour.held.len() as u64;
                self.unanswered.append(&mut neighbour.held);
                self.remove(of);
                continue;
            }
            neighbour.asked += 1;
            let to = (is_known && neighbour.asked <= QUESTIONS).then_some(neighbour.address);
            self.set_deadline(of, Some(now.saturating_add(BETWEEN)));
            return Some(Question { about: of, to });
        }
        None
    }

    /// Time counts from `by` later on.
    pub fn rebase(&mut self, by: Duration) {
        for neighbour in self.table.values_mut() {
            neighbour.deadline = neighbour.deadline.map(|at| rebased(at, by));
        }
        let deadlines = core::mem::take(&mut self.deadlines).into_iter();
        self.deadlines = deadlines.map(|(at, of)| (rebased(at, by), of)).collect();
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn set_deadline(&mut self, of: IpAddr, deadline: Option<Instant>) {
        let Some(neighbour) = self.table.get_mut(&of) else {
            return;
        };
        if let Some(before) = core::mem::replace(&mut neighbour.deadline, deadline) {
            self.deadlines.remove(&(before, of));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, of));
        }
    }

    fn remove(&mut self, of: IpAddr) {
        self.set_deadline(of, None);
        if let Some(gone) = self.table.remove(&of) {
            self.asked -= usize::from(gone.state == NeighbourState::Asked);
            self.dropped += gone.held.len() as u64;
        }
    }

    /// Has room for one more: the entry goes that was asked for first, or one that is old, or the one that will be
    /// old first.
    fn make_room(&mut self) {
        let first = |is_it: &dyn Fn(NeighbourState) -> bool, this: &Self| {
            let of_deadlines = this.deadlines.iter().map(|(_, of)| *of);
            of_deadlines
                .into_iter()
                .find(|of| this.table.get(of).is_some_and(|it| is_it(it.state)))
        };
        if self.asked >= ASKED_MAX {
            if let Some(of) = first(&|state| state == NeighbourState::Asked, self) {
                self.remove(of);
            }
        }
        if self.table.len() >= ENTRIES_MAX {
            let old = self
                .table
                .iter()
                .find(|(_, it)| it.state == NeighbourState::Old);
            let goes = old.map(|(of, _)| *of).or_else(|| first(&|_| true, self));
            goes.into_iter().for_each(|of| self.remove(of));
        }
    }
}

#[cfg(test)]
mod tests;
