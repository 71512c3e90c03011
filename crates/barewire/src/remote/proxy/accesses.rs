//! A proxy's part in apertures: it sends what threads of this process ask for of the other host's memory, carries out what the
//! other host asks for of our node's, and sends the answers and firings.

use std::os::fd::OwnedFd;
use std::sync::Weak;

use barewire_fabric::aperture::Rights;

use crate::apertures::imported::import;
use crate::apertures::layout::ApertureConfig;
use crate::error::Error;
use crate::links::budget::Charges;
use crate::links::far::{Request, WordOp};
use crate::messages::control::Message;
use crate::messages::passed::Passed;
use crate::remote::lent::answer_of;
use crate::remote::proxy::inner::{Inner, Stop};
use crate::remote::proxy::to_host::Did;
use crate::remote::record::{HEADER, Head, Kind};

/// Bytes of answers, and of requests, that are sent before others get their turn.
const SHARE_BYTES: usize = 32 << 10;
/// Turns that one thread takes before it goes on with what it came for.
const TURNS_MAX: usize = 64;

/// How far something of bounded length came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// Nothing is left.
    All,
    /// Its share is used up.
    Used,
    /// The other host takes no more at present.
    Stuck,
}

/// Sending.
impl Inner {
    /// Sends messages, firings, answers and requests, in turn.
    pub fn send_all(&mut self) -> Result<Did, Stop> {
        // Whoever was first last time may have used up all room.
        self.accesses_first = !self.accesses_first;
        let mut are_accesses_next = self.accesses_first;
        let (mut messages, mut accesses) = (Did::Part, Share::Used);
        for _ in 0..TURNS_MAX {
            if are_accesses_next {
                accesses = self.send_accesses()?;
                if accesses == Share::Stuck {
                    return Ok(Did::Part);
                }
            } else {
                messages = self.mirror_listed()?;
                if messages == Did::Part {
                    return Ok(Did::Part);
                }
            }
            if messages == Did::All && accesses == Share::All {
                return Ok(Did::All);
            }
            are_accesses_next = !are_accesses_next;
        }
        // Others ask faster than we send. Our descriptor is writable: somebody goes on.
        Ok(Did::Part)
    }

    /// Whether there is anything to send for apertures.
    pub fn has_accesses(&self) -> bool {
        self.lent.has_answers() || self.far.has_requests() || !self.firings.is_empty()
    }

    fn send_accesses(&mut self) -> Result<Share, Stop> {
        if !self.has_accesses() {
            return Ok(Share::All);
        }
        // Records do not stand in the middle of a frame.
        if self.go_on_sending()? == Did::Part {
            return Ok(Share::Stuck);
        }
        let firings = self.send_firings()?;
        if firings == Share::Stuck {
            return Ok(Share::Stuck);
        }
        let answers = self.send_answers()?;
        if answers == Share::Stuck {
            return Ok(Share::Stuck);
        }
        let requests = self.send_requests()?;
        Ok(match (answers, requests) {
            (Share::All, other) => other,
            (_, Share::Stuck) => Share::Stuck,
            (_, _) => Share::Used,
        })
    }

    fn send_firings(&mut self) -> Result<Share, Stop> {
        while !self.firings.is_empty() {
            if !self.has_room(HEADER + 8)? {
                return Ok(Share::Stuck);
            }
            let firing = self.firings.take();
            if let Some((trap, times)) = firing.and_then(|source| self.lent.firing(source)) {
                let head = Head::access(Kind::Fired, trap, 0, 0, 8);
                self.outbox.push(&head.encode());
                self.outbox.push(&times.to_le_bytes());
            }
        }
        Ok(Share::All)
    }

    fn send_answers(&mut self) -> Result<Share, Stop> {
        let mut sent_bytes = 0;
        while self.lent.has_answers() {
            if sent_bytes >= SHARE_BYTES {
                return Ok(Share::Used);
            }
            let room_bytes = self.outbox.room_bytes();
            match self.lent.next_answer(|bytes| bytes <= room_bytes) {
                Some(record) => {
                    self.outbox.push(&record);
                    sent_bytes += record.len();
                }
                None if self.make_room(room_bytes)? => {}
                None => return Ok(Share::Stuck),
            }
        }
        Ok(Share::All)
    }

    fn send_requests(&mut self) -> Result<Share, Stop> {
        let mut sent_bytes = 0;
        while self.far.has_requests() {
            if sent_bytes >= SHARE_BYTES {
                return Ok(Share::Used);
            }
            let room_bytes = self.outbox.room_bytes();
            match self.far.next_request(|bytes| HEADER + bytes <= room_bytes) {
                Some(request) => sent_bytes += self.push_request(&request),
                None if self.make_room(room_bytes)? => {}
                None => return Ok(Share::Stuck),
            }
        }
        Ok(Share::All)
    }

    /// Sends the requests that were made before the count of all was `added`: what is to come after them may follow. No
    /// frame is under way.
    pub fn send_requests_before(&mut self, added: u64) -> Result<Did, Stop> {
        while !self.far.has_sent(added) {
            let room_bytes = self.outbox.room_bytes();
            match self.far.next_request(|bytes| HEADER + bytes <= room_bytes) {
                Some(request) => drop(self.push_request(&request)),
                None if self.make_room(room_bytes)? => {}
                None => return Ok(Did::Part),
            }
        }
        Ok(Did::All)
    }

    /// Whether sending has made more room than there was.
    fn make_room(&mut self, room_bytes: usize) -> Result<bool, Stop> {
        self.flush()?;
        Ok(self.outbox.room_bytes() > room_bytes)
    }

    /// Puts a request, for which there is room, into the outbox; its length.
    fn push_request(&mut self, request: &Request) -> usize {
        let len_bytes = request.payload_bytes();
        let (head, payload): (Head, [u64; 3]) = match *request {
            Request::Put {
                aperture,
                offset,
                ref bytes,
                fires,
            } => {
                let head = Head::access(Kind::Put, aperture, offset, u32::from(fires), len_bytes);
                self.outbox.push(&head.encode());
                self.outbox.push(bytes);
                return HEADER + len_bytes;
            }
            Request::Fire {
                aperture,
                offset,
                len_bytes: of_put,
            } => {
                let head = Head::access(Kind::Fire, aperture, offset, 0, len_bytes);
                (head, [of_put, 0, 0])
            }
            Request::Get {
                aperture,
                offset,
                len_bytes: wanted,
                ticket,
            } => {
                let head = Head::access(Kind::Get, aperture, offset, ticket, len_bytes);
                (head, [u64::from(wanted), 0, 0])
            }
            Request::Word {
                aperture,
                offset,
                op,
                operands: [one, two],
                ticket,
            } => {
                let head = Head::access(Kind::Access, aperture, offset, ticket, len_bytes);
                (head, [number_of(op), one, two])
            }
            Request::Arm {
                aperture,
                offset,
                len_bytes: watched,
                trap,
                ticket,
            } => {
                let head = Head::access(Kind::Arm, aperture, offset, ticket, len_bytes);
                (head, [watched, u64::from(trap), 0])
            }
            Request::Disarm { trap } => {
                let head = Head::access(Kind::Disarm, trap, 0, 0, len_bytes);
                (head, [0; 3])
            }
        };
        let mut bytes = [0; 24];
        for (at, word) in payload.into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.outbox.push(&head.encode());
        self.outbox.push(&bytes[..len_bytes]);
        HEADER + len_bytes
    }
}

fn number_of(op: WordOp) -> u64 {
    match op {
        WordOp::Load => 0,
        WordOp::Store => 1,
        WordOp::Add => 2,
        WordOp::Exchange => 3,
    }
}

/// Hearing.
impl Inner {
    /// Handles a record for apertures, which is at the front of the inbox.
    pub fn hear_access(&mut self, head: &Head) -> Result<(), Stop> {
        let record = self.inbox.bytes().get(HEADER..HEADER + head.payload_bytes);
        let payload = record.unwrap_or_default();
        match head.kind {
            Kind::Answer => {
                let answer = answer_of(head, payload).map_err(Stop::Misbehaved)?;
                let answered = self.far.answered(head.connection, answer);
                answered.map_err(Stop::Misbehaved)
            }
            Kind::Fired => {
                let mut times = [0; 8];
                times.copy_from_slice(payload);
                let source = self.far.fired(head.connection, u64::from_le_bytes(times));
                if let (Some(source), Some((link, _))) = (source, &self.link) {
                    link.ring_by_driver(source);
                }
                Ok(())
            }
            _ => self.lent.serve(head, payload).map_err(Stop::Misbehaved),
        }
    }

    /// Our node grants an aperture: we import it for the other host, which is told.
    pub fn hear_grant_of_node(
        &mut self,
        message: &Message<'_>,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Stop> {
        let &Message::Grant {
            aperture,
            len_bytes,
            tripwires,
            writable,
            receiver_tripwires,
            ..
        } = message
        else {
            return Err(Stop::Fault("not a grant"));
        };
        let Some((link, _)) = &self.link else {
            return Err(Stop::Fault("it grants an aperture before its hello"));
        };
        let config = ApertureConfig {
            len_bytes: usize::try_from(len_bytes).unwrap_or(usize::MAX),
            rights: if writable {
                Rights::ReadWrite
            } else {
                Rights::Read
            },
            tripwires_max: tripwires,
        };
        // Nothing rings at our node for us: what importers set on their own transfers stays with them.
        let imported = import(
            Weak::new(),
            link.clone(),
            (0, 0),
            (aperture, receiver_tripwires),
            config,
            Passed::new(fds, self.of_node.retirer.clone()),
            Charges::default(),
        );
        // It is our own node's: only memory, or numbers for mappings, may be missing.
        let imported = imported.map_err(|_| {
            Stop::System(Error::LimitReached {
                what: "apertures granted to one other host, for lack of mappings or descriptors",
                limit: self.lent.count() as u64,
            })
        })?;
        if !self.lent.grant(aperture, imported) {
            return Err(Stop::Fault("it grants an aperture twice"));
        }
        self.held = Some(message.encode());
        Ok(())
    }
}
