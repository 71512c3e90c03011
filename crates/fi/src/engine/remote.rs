//! Memory that peers read and write: what the program begins, and what peers ask for.
//!
//! The process that has the memory carries everything out, when its program calls: it checks key, bounds and rights. A
//! short write brings its bytes along. A long one is fetched as a long message is, and a read is answered in pieces.

use std::ffi::c_int;

use super::receiving::Bytes;
use super::sending::{BACKLOG_MAX, INJECT_BYTES_MAX, Outgoing, WHOLE_BYTES_MAX};
use super::state::{
    Ending, Engine, LongSend, Out, Pulling, Purpose, Queued, RECEIVES, Receive, received,
};
use crate::arithmetic::{ATOMIC_BYTES_MAX, Form, Kind};
use crate::memory::{Context, Lent};
use crate::raw;
use crate::records::{Label, Long, RECORD_BYTES_MAX, Record, WRITE_HEAD_BYTES};
use crate::regions::Place;

/// An atomic operation.
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) len_bytes: usize,
    pub(crate) with: Lent,
    pub(crate) compare: Option<Lent>,
    pub(crate) result: Option<Lent>,
}

impl Engine {
    /// Whether an operation on a peer's memory can begin. `None`: it has ended already, with an error.
    fn begin(&mut self, peer: usize, ending: &Ending) -> Result<Option<()>, c_int> {
        if let Out::Lost(error) = self.peers[peer].out {
            self.end_send(ending, Some(error));
            return Ok(None);
        }
        match self.peers[peer].backlog.len() >= BACKLOG_MAX {
            true => Err(raw::FI_EAGAIN),
            false => Ok(Some(())),
        }
    }

    /// Begins to write into a peer's memory.
    ///
    /// # Errors
    /// An error number of libfabric: nothing was begun.
    pub(crate) fn write(
        &mut self,
        peer: usize,
        memory: Lent,
        place: Place,
        sent: &Outgoing,
    ) -> Result<(), c_int> {
        if sent.inject && memory.len_bytes() > INJECT_BYTES_MAX {
            return Err(raw::FI_EMSGSIZE);
        }
        let ending = sent.ending_of(raw::FI_RMA | raw::FI_WRITE);
        if self.begin(peer, &ending)?.is_none() {
            return Ok(());
        }
        let (send, data, len_bytes) = (self.number(), sent.label.data, memory.len_bytes());
        let is_short = len_bytes <= WHOLE_BYTES_MAX;
        let address = memory.address().unwrap_or(0);
        let mut record = [0; RECORD_BYTES_MAX];
        let mut short = Vec::new();
        if is_short {
            let head_bytes = Record::Write { send, data, place }.write(&mut record);
            short.extend_from_slice(&record[..head_bytes]);
            memory.append_to(0..len_bytes, &mut short);
        }
        let long_send = LongSend {
            peer,
            memory: if is_short { Lent::nothing() } else { memory },
            ending: Some(ending),
            pulled: is_short,
            region: 0,
        };
        self.sends.insert(send, long_send);
        if is_short {
            self.say_bytes(peer, short);
        } else {
            let long = Long {
                send,
                len_bytes: len_bytes as u64,
                address,
                mark_address: (&raw const *self.mark).expose_provenance() as u64,
                mark: *self.mark,
            };
            self.say(peer, Record::LongWrite { data, place, long });
        }
        Ok(())
    }

    /// Begins to read from a peer's memory.
    ///
    /// # Errors
    /// An error number of libfabric: nothing was begun.
    pub(crate) fn read(
        &mut self,
        peer: usize,
        memory: Lent,
        place: Place,
        sent: &Outgoing,
    ) -> Result<(), c_int> {
        let ending = sent.ending_of(raw::FI_RMA | raw::FI_READ);
        if self.begin(peer, &ending)?.is_none() {
            return Ok(());
        }
        let (receive, len_bytes) = (self.number(), memory.len_bytes() as u64);
        self.await_pieces(receive, peer, memory, ending);
        let read = Record::Read {
            receive,
            place,
            len_bytes,
        };
        self.say(peer, read);
        Ok(())
    }

    /// What comes in pieces under this number is what was to be read.
    fn await_pieces(&mut self, number: u64, peer: usize, memory: Lent, ending: Ending) {
        let len_bytes = memory.len_bytes();
        let pulling = Pulling {
            receive: Receive {
                memory,
                context: ending.context,
                report: ending.report,
                share: None,
            },
            purpose: Purpose::Read(ending),
            region: 0,
            peer,
            label: Label {
                tag: None,
                data: None,
            },
            send: 0,
            len_bytes,
            at: 0,
            wanted: len_bytes,
        };
        self.pulls.insert(number, pulling);
    }

    /// Begins an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// An error number of libfabric: nothing was begun.
    pub(crate) fn atomic(
        &mut self,
        peer: usize,
        operation: Operation,
        place: Place,
        sent: &Outgoing,
    ) -> Result<(), c_int> {
        let direction = match operation.result {
            Some(_) => raw::FI_READ,
            None => raw::FI_WRITE,
        };
        let ending = sent.ending_of(raw::FI_ATOMIC | direction);
        if self.begin(peer, &ending)?.is_none() {
            return Ok(());
        }
        let (number, len_bytes) = (self.number(), operation.len_bytes);
        let record = Record::Atomic {
            number,
            kind: operation.kind,
            wants_old: operation.result.is_some(),
            compares: operation.compare.is_some(),
            place,
        };
        let mut head = [0; RECORD_BYTES_MAX];
        let head_bytes = record.write(&mut head);
        let mut bytes = head[..head_bytes].to_vec();
        operation.with.append_to(0..len_bytes, &mut bytes);
        // What is only read, is read with nothing.
        bytes.resize(head_bytes + len_bytes, 0);
        if let Some(compare) = &operation.compare {
            compare.append_to(0..len_bytes, &mut bytes);
        }
        if let Some(memory) = operation.result {
            self.await_pieces(number, peer, memory, ending);
        } else {
            let waiting = LongSend {
                peer,
                memory: Lent::nothing(),
                ending: Some(ending),
                pulled: true,
                region: 0,
            };
            self.sends.insert(number, waiting);
        }
        self.say_bytes(peer, bytes);
        Ok(())
    }

    /// A peer wants memory to be changed.
    pub(super) fn arrived_atomic(
        &mut self,
        peer: usize,
        number: u64,
        (kind, wants_old, compares): (Kind, bool, bool),
        place: Place,
        message: &impl Bytes,
    ) {
        let body_bytes = message.len_bytes() - WRITE_HEAD_BYTES;
        let len_bytes = body_bytes / if compares { 2 } else { 1 };
        let mut body = [0; 2 * ATOMIC_BYTES_MAX];
        let changed = match body.get_mut(..body_bytes) {
            Some(body) => {
                message.read_at(WRITE_HEAD_BYTES, body);
                self.change(kind, place, (wants_old, compares), body.split_at(len_bytes))
            }
            None => Err(raw::FI_EINVAL),
        };
        match changed {
            Ok(old) if wants_old => {
                let mut head = [0; RECORD_BYTES_MAX];
                let head_bytes = Record::Piece { receive: number }.write(&mut head);
                self.say_bytes(peer, [&head[..head_bytes], &old[..]].concat());
            }
            Ok(_) => {
                let (send, error) = (number, 0);
                self.say(peer, Record::Done { send, error });
            }
            Err(error) => {
                let error = error.unsigned_abs();
                let answer = match wants_old {
                    true => Record::Answer {
                        receive: number,
                        error,
                    },
                    false => Record::Done {
                        send: number,
                        error,
                    },
                };
                self.say(peer, answer);
            }
        }
    }

    /// Changes elements of a region, if the peer may, and returns what was there before.
    fn change(
        &mut self,
        kind: Kind,
        place: Place,
        (wants_old, compares): (bool, bool),
        (with, compare): (&[u8], &[u8]),
    ) -> Result<Vec<u8>, c_int> {
        let form = match (compares, wants_old) {
            (true, _) => Form::Compare,
            (false, true) => Form::Fetch,
            (false, false) => Form::Write,
        };
        kind.count_max(form).ok_or(raw::FI_EOPNOTSUPP)?;
        let element_bytes = kind.element_bytes().ok_or(raw::FI_EOPNOTSUPP)?;
        let whole = with.len() % element_bytes == 0 && with.len() <= ATOMIC_BYTES_MAX;
        if !whole || with.is_empty() || (compares && compare.len() != with.len()) {
            return Err(raw::FI_EINVAL);
        }
        let changes = kind.op != raw::FI_ATOMIC_READ;
        let access =
            u64::from(changes) * raw::FI_REMOTE_WRITE | u64::from(wants_old) * raw::FI_REMOTE_READ;
        let mut memory = self.regions.part(place, with.len(), access)?;
        let mut old = Vec::new();
        memory.append_to(0..with.len(), &mut old);
        let mut new = old.clone();
        let compare = if compares { compare } else { with };
        kind.combine(&mut new, with, compare)
            .ok_or(raw::FI_EOPNOTSUPP)?;
        if changes {
            memory.write(0..new.len(), |at, into| {
                into.copy_from_slice(&new[at..at + into.len()]);
            });
            self.count(raw::FI_REMOTE_WRITE, false);
        } else {
            self.count(raw::FI_REMOTE_READ, false);
        }
        Ok(old)
    }

    /// A peer writes, and the bytes are here.
    pub(super) fn arrived_write(
        &mut self,
        peer: usize,
        (send, data, place): (u64, Option<u32>, Place),
        message: &impl Bytes,
    ) {
        let len_bytes = message.len_bytes() - WRITE_HEAD_BYTES;
        let part = self.regions.part(place, len_bytes, raw::FI_REMOTE_WRITE);
        let error = match part {
            Ok(mut memory) => {
                memory.write(0..len_bytes, |at, into| {
                    message.read_at(WRITE_HEAD_BYTES + at, into);
                });
                self.tell_written(peer, data, len_bytes);
                0
            }
            Err(error) => error.unsigned_abs(),
        };
        self.say(peer, Record::Done { send, error });
    }

    /// A peer writes, and has the bytes fetched.
    pub(super) fn arrived_long_write(
        &mut self,
        peer: usize,
        data: Option<u32>,
        place: Place,
        long: &Long,
    ) {
        let len_bytes = usize::try_from(long.len_bytes).unwrap_or(usize::MAX);
        match self.regions.part(place, len_bytes, raw::FI_REMOTE_WRITE) {
            Ok(memory) => {
                let receive = Receive {
                    memory,
                    context: Context(std::ptr::null_mut()),
                    report: false,
                    share: None,
                };
                let label = Label { tag: None, data };
                self.fetch_for(Purpose::Write, place.key, receive, peer, label, long);
            }
            Err(error) => {
                let (send, error) = (long.send, error.unsigned_abs());
                self.say(peer, Record::Done { send, error });
            }
        }
    }

    /// A peer wants to read.
    pub(super) fn arrived_read(&mut self, peer: usize, receive: u64, place: Place, len: u64) {
        let len_bytes = usize::try_from(len).unwrap_or(usize::MAX);
        match self.regions.part(place, len_bytes, raw::FI_REMOTE_READ) {
            Ok(memory) if len_bytes > 0 => {
                let send = self.number();
                let long_send = LongSend {
                    peer,
                    memory,
                    ending: None,
                    pulled: true,
                    region: place.key,
                };
                self.sends.insert(send, long_send);
                let pieces = Queued::Pieces {
                    send,
                    receive,
                    at: 0,
                    end: len_bytes,
                };
                self.queue(peer, pieces);
                self.flush(peer);
            }
            found => {
                let error = found.map_or_else(c_int::unsigned_abs, |_| 0);
                self.say(peer, Record::Answer { receive, error });
            }
        }
    }

    /// A read has ended without bytes.
    pub(super) fn answered(&mut self, peer: usize, receive: u64, error: u32) {
        let is_it = |pull: &Pulling| pull.peer == peer && matches!(pull.purpose, Purpose::Read(_));
        if !self.pulls.get(&receive).is_some_and(is_it) {
            return;
        }
        let Some(pulling) = self.pulls.remove(&receive) else {
            return;
        };
        let error = match (error, pulling.wanted) {
            (0, 0) => None,
            (0, _) => Some(raw::FI_EOTHER),
            (error, _) => Some(c_int::try_from(error).unwrap_or(raw::FI_EOTHER)),
        };
        self.end_pull(&pulling, error);
    }

    /// A receive has ended that its message came to in pieces, or at once, or that served something else.
    pub(super) fn end_pull(&mut self, done: &Pulling, error: Option<c_int>) {
        match (&done.purpose, error) {
            (Purpose::Message, None) => {
                self.end_receive(&done.receive, &done.label, done.peer, done.len_bytes);
            }
            (Purpose::Message, Some(error)) => {
                self.lose_receive(&done.receive, &done.label, error);
            }
            (Purpose::Write, None) => {
                self.tell_written(done.peer, done.label.data, done.len_bytes);
            }
            (Purpose::Write, Some(_)) => {}
            (Purpose::Read(ending), error) => self.end_send(ending, error),
        }
    }

    /// Tells the program that a peer has written, if that came with data for it.
    fn tell_written(&mut self, peer: usize, data: Option<u32>, len_bytes: usize) {
        self.count(raw::FI_REMOTE_WRITE, false);
        if data.is_some() {
            let label = Label { tag: None, data };
            let mut done = received(
                Context(std::ptr::null_mut()),
                &label,
                u32::try_from(peer).ok(),
            );
            done.flags = raw::FI_RMA | raw::FI_REMOTE_WRITE | raw::FI_REMOTE_CQ_DATA;
            done.len = len_bytes;
            self.ended.push(RECEIVES, done);
        }
    }

    /// The program takes a region back: what peers are doing with it ends with an error, for them.
    pub(crate) fn forget_region(&mut self, key: u64) {
        let error = raw::FI_ENOKEY.unsigned_abs();
        let reads = self.sends.iter().filter(|(_, long)| long.region == key);
        let reads: Vec<u64> = reads.map(|(number, _)| *number).collect();
        // The peer waits for pieces that do not come any more.
        for peer in 0..self.peers.len() {
            let cut = |queued: &Queued| match queued {
                Queued::Pieces { send, receive, .. } => reads.contains(send).then_some(*receive),
                _ => None,
            };
            let receives: Vec<u64> = self.peers[peer].backlog.iter().filter_map(cut).collect();
            for receive in receives {
                self.say(peer, Record::Answer { receive, error });
            }
        }
        for read in reads {
            self.sends.remove(&read);
        }
        let writes = self.pulls.iter().filter(|(_, pull)| pull.region == key);
        let writes: Vec<u64> = writes.map(|(number, _)| *number).collect();
        for write in writes {
            if let Some(pull) = self.pulls.remove(&write) {
                let send = pull.send;
                self.say(pull.peer, Record::Done { send, error });
            }
        }
    }
}
