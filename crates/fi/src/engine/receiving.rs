//! Receives: what comes from a connection, and what the program posts, peeks, claims and cancels.

use std::ffi::c_int;

use barewire::{Error, Message};
use barewire_proto::matching::{Envelope, Pattern};
use barewire_sys::process::read_process;

use super::state::{
    Arrived, Body, Completion, Engine, Out, Pulling, Purpose, Reading, Receive, received,
};
use crate::memory::{Context, Lent};
use crate::raw;
use crate::records::{HEAD_BYTES, Label, Long, RECORD_BYTES_MAX, Record};

/// From this length on, the receiver reads the sender's memory. Below, pieces through the connection are faster as long
/// as both take part: for the system call the kernel looks up and pins each page.
const READ_FROM_BYTES: u64 = 4 << 20;

/// What to do with the message that a peek finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peek {
    /// Leave it there.
    Look,
    /// Set it aside for the operation of this context.
    Claim,
    /// Drop it.
    Discard,
}

/// How a connection is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// By its memory alone.
    Quick,
    /// Because the node says that there is something: so that it learns what has become of that.
    Asked,
}

/// The bytes of a record: copied out already, or still where the sender has put them.
pub(super) trait Bytes {
    fn len_bytes(&self) -> usize;
    /// Copies bytes from offset `at`, all of which are there.
    fn read_at(&self, at: usize, into: &mut [u8]);
}

impl Bytes for &[u8] {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn read_at(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self[at..at + into.len()]);
    }
}

impl Bytes for Message<'_> {
    fn len_bytes(&self) -> usize {
        Message::len_bytes(self)
    }

    fn read_at(&self, at: usize, into: &mut [u8]) {
        Message::read_at(self, at, into);
    }
}

/// The completion of an operation that has found a message and received no bytes.
fn found_message(context: Context, envelope: &Envelope, arrived: &Arrived) -> Completion {
    Completion {
        len: arrived.len_bytes(),
        ..received(context, &arrived.label, Some(envelope.source as u32))
    }
}

impl Engine {
    /// Takes messages out of a connection, at most `max`. Returns how many.
    #[inline]
    pub(super) fn drain(&mut self, index: usize, max: usize, look: Look) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some(Some(link)) = self.links.get_mut(index) else {
                break;
            };
            let (receiver, peer) = (link.connection.receiver(), link.peer);
            let found = match look {
                Look::Quick => receiver.poll_once(&mut self.arriving),
                Look::Asked => receiver.try_recv(&mut self.arriving),
            };
            match found {
                Ok(Some(len_bytes)) => {
                    let buffer = std::mem::take(&mut self.arriving);
                    if let Some(first) = buffer.first_chunk() {
                        self.arrived(peer, first, &&buffer[..len_bytes]);
                    }
                    self.arriving = buffer;
                }
                Ok(None) => break,
                Err(error) if self.take_in_place(index, &error) => {}
                Err(_) => break,
            }
            taken += 1;
        }
        taken
    }

    /// Takes a record that is worth to be copied once only. Returns whether it was there. Any other error than that it
    /// is too long is the end of the connection, which the node reports as well.
    #[cold]
    #[inline(never)]
    fn take_in_place(&mut self, index: usize, error: &Error) -> bool {
        if !matches!(error, Error::BufferTooSmall { .. }) {
            return false;
        }
        let Some(mut link) = self.links[index].take() else {
            return false;
        };
        let message = link.connection.receiver().try_recv_message();
        let taken = match message {
            Ok(Some(message)) => {
                let mut first = [0; RECORD_BYTES_MAX];
                let len_bytes = message.len_bytes().min(RECORD_BYTES_MAX);
                message.read_at(0, &mut first[..len_bytes]);
                self.arrived(link.peer, &first, &message);
                message.release();
                true
            }
            _ => false,
        };
        self.links[index] = Some(link);
        taken
    }

    /// Handles a message, which begins with the bytes `first` (behind its end, they have no meaning). One that is no
    /// record is passed over: only the peer that sent it loses something.
    #[inline]
    fn arrived(&mut self, peer: usize, first: &[u8; RECORD_BYTES_MAX], message: &impl Bytes) {
        match Record::read(first, message.len_bytes()) {
            Some(Record::Whole(label)) => self.arrived_whole(peer, label, message),
            Some(Record::Long(label, long)) => {
                let keep = || Arrived {
                    label,
                    body: Body::Long(long),
                };
                let envelope = envelope(peer, &label);
                let len_bytes = usize::try_from(long.len_bytes).unwrap_or(usize::MAX);
                let split = |receive: &mut Receive| receive.split(len_bytes);
                let matching = self.matching(label.tag.is_some());
                if let Some(receive) = matching.arrive_sharing(envelope, split, keep) {
                    self.begin_receive(&receive);
                    self.fetch(receive, peer, label, &long);
                }
            }
            Some(Record::Done { send, error }) => self.delivered(peer, send, error),
            Some(Record::Pull {
                send,
                receive,
                wanted_bytes,
            }) => self.pulled(peer, send, receive, wanted_bytes),
            Some(Record::Piece { receive }) => self.piece(peer, receive, message),
            Some(Record::Write { send, data, place }) => {
                self.arrived_write(peer, (send, data, place), message);
            }
            Some(Record::LongWrite { data, place, long }) => {
                self.arrived_long_write(peer, data, place, &long);
            }
            Some(Record::Read {
                receive,
                place,
                len_bytes,
            }) => self.arrived_read(peer, receive, place, len_bytes),
            Some(Record::Answer { receive, error }) => self.answered(peer, receive, error),
            Some(Record::Atomic {
                number,
                kind,
                wants_old,
                compares,
                place,
            }) => self.arrived_atomic(peer, number, (kind, wants_old, compares), place, message),
            None => {}
        }
    }

    #[inline]
    fn arrived_whole(&mut self, peer: usize, label: Label, message: &impl Bytes) {
        let len_bytes = message.len_bytes() - HEAD_BYTES;
        let keep = || {
            let mut bytes = vec![0; len_bytes];
            message.read_at(HEAD_BYTES, &mut bytes);
            Arrived {
                label,
                body: Body::Whole(bytes),
            }
        };
        let split = |receive: &mut Receive| receive.split(len_bytes);
        let matching = self.matching(label.tag.is_some());
        let found = matching.arrive_sharing(envelope(peer, &label), split, keep);
        if let Some(mut receive) = found {
            self.begin_receive(&receive);
            receive.memory.write(0..len_bytes, |at, into| {
                message.read_at(HEAD_BYTES + at, into);
            });
            self.end_receive(&receive, &label, peer, len_bytes);
        }
    }

    /// A receive gets its message.
    #[inline]
    fn begin_receive(&mut self, receive: &Receive) {
        if let Some(share) = receive.share {
            self.buffers.begin(share);
        }
    }

    /// Posts a buffer that takes messages without tags until less than so many bytes are left of it.
    pub(crate) fn receive_many(
        &mut self,
        pattern: Pattern,
        mut receive: Receive,
        bytes_min: usize,
    ) {
        receive.share = Some(self.buffers.add(bytes_min));
        while let Some((envelope, arrived)) = self.plain.find(&pattern) {
            let peer = envelope.source as usize;
            let Some(part) = receive.split(arrived.len_bytes()) else {
                return self.deliver(receive, peer, arrived);
            };
            self.deliver(part, peer, arrived);
        }
        self.receive(false, pattern, receive);
    }

    /// Posts a receive of messages that have tags, or of those that have none.
    pub(crate) fn receive(&mut self, tagged: bool, pattern: Pattern, receive: Receive) {
        let lost = match pattern.source.map(|peer| self.peers[peer as usize].out) {
            Some(Out::Lost(error)) => Some(error),
            _ => None,
        };
        if let (Some(error), None) = (lost, self.matching(tagged).peek(&pattern)) {
            return self.withdraw_receive(&receive, &wanted(tagged, &pattern), error);
        }
        if let Some((receive, envelope, arrived)) = self.matching(tagged).post(pattern, receive) {
            self.deliver(receive, envelope.source as usize, arrived);
        }
    }

    /// Looks for a message that has arrived, and tells of it, or that there is none.
    pub(crate) fn peek(&mut self, tagged: bool, pattern: &Pattern, context: Context, peek: Peek) {
        let matching = self.matching(tagged);
        let found = match peek {
            Peek::Look => matching.peek(pattern),
            Peek::Claim | Peek::Discard => matching.claim(pattern, context),
        };
        let Some((envelope, arrived)) = found else {
            return self.fail_receive(context, &wanted(tagged, pattern), raw::FI_ENOMSG);
        };
        let done = found_message(context, envelope, arrived);
        self.tell_found(done);
        if peek == Peek::Discard {
            self.drop_claimed(tagged, context);
        }
    }

    /// Receives the message that was claimed under this context. Returns whether there was one.
    pub(crate) fn receive_claimed(&mut self, tagged: bool, receive: Receive) -> bool {
        let Some((envelope, arrived)) = self.matching(tagged).take(&receive.context) else {
            return false;
        };
        self.deliver(receive, envelope.source as usize, arrived);
        true
    }

    /// Drops the message that was claimed under this context, and tells of it. Returns whether there was one.
    pub(crate) fn discard(&mut self, tagged: bool, context: Context) -> bool {
        let Some(done) = self.drop_claimed(tagged, context) else {
            return false;
        };
        self.tell_found(done);
        true
    }

    /// Drops the message that was claimed under this context, if there is one. Returns what tells of it.
    fn drop_claimed(&mut self, tagged: bool, context: Context) -> Option<Completion> {
        let (envelope, arrived) = self.matching(tagged).take(&context)?;
        let done = found_message(context, &envelope, &arrived);
        if let Body::Long(long) = arrived.body {
            let done = Record::Done {
                send: long.send,
                error: 0,
            };
            self.say(envelope.source as usize, done);
        }
        Some(done)
    }

    /// Ends the first posted receive of this context. Returns whether there was one.
    pub(crate) fn cancel(&mut self, context: Context) -> bool {
        for tagged in [true, false] {
            let is_it = |receive: &Receive| receive.context == context;
            if let Some(receive) = self.matching(tagged).cancel(is_it) {
                let label = Label {
                    tag: tagged.then_some(0),
                    data: None,
                };
                self.withdraw_receive(&receive, &label, raw::FI_ECANCELED);
                return true;
            }
        }
        false
    }

    fn deliver(&mut self, mut receive: Receive, peer: usize, arrived: Arrived) {
        self.begin_receive(&receive);
        match arrived.body {
            Body::Whole(bytes) => {
                receive.memory.write(0..bytes.len(), |at, into| {
                    into.copy_from_slice(&bytes[at..at + into.len()]);
                });
                self.end_receive(&receive, &arrived.label, peer, bytes.len());
            }
            Body::Long(long) => self.fetch(receive, peer, arrived.label, &long),
        }
    }

    /// Gets a long message: from the sender's memory, or in pieces.
    fn fetch(&mut self, receive: Receive, peer: usize, label: Label, long: &Long) {
        self.fetch_for(Purpose::Message, 0, receive, peer, label, long);
    }

    /// As [`Engine::fetch`], for this purpose, into memory of this region.
    pub(super) fn fetch_for(
        &mut self,
        purpose: Purpose,
        region: u64,
        receive: Receive,
        peer: usize,
        label: Label,
        long: &Long,
    ) {
        let len_bytes = usize::try_from(long.len_bytes).unwrap_or(usize::MAX);
        let wanted = len_bytes.min(receive.memory.len_bytes());
        let mut pulling = Pulling {
            receive,
            purpose,
            region,
            peer,
            label,
            send: long.send,
            len_bytes,
            at: 0,
            wanted,
        };
        if let Out::Lost(error) = self.peers[peer].out {
            return self.end_pull(&pulling, Some(error));
        }
        if wanted == 0 || self.read_long(peer, long, &mut pulling.receive.memory, wanted) {
            let done = Record::Done {
                send: long.send,
                error: 0,
            };
            self.say(peer, done);
            return self.end_pull(&pulling, None);
        }
        let number = self.number();
        self.pulls.insert(number, pulling);
        let pull = Record::Pull {
            send: long.send,
            receive: number,
            wanted_bytes: wanted as u64,
        };
        self.say(peer, pull);
    }

    /// Copies a very long message from the sender's memory, if that is allowed.
    fn read_long(&mut self, peer: usize, long: &Long, into: &mut Lent, wanted: usize) -> bool {
        let Some(pid) = self.peers[peer].pid else {
            return false;
        };
        let short = long.len_bytes < READ_FROM_BYTES;
        if short || long.address == 0 || self.peers[peer].reading == Reading::Refused {
            return false;
        }
        if self.peers[peer].reading == Reading::Untried {
            let mut mark = [0; 8];
            let read = read_process(pid, long.mark_address, &mut mark).is_ok();
            let works = read && u64::from_le_bytes(mark) == long.mark;
            self.peers[peer].reading = match works {
                true => Reading::Works,
                false => Reading::Refused,
            };
            if !works {
                return false;
            }
        }
        let mut all = true;
        into.write(0..wanted, |at, part| {
            all &= read_process(pid, long.address.wrapping_add(at as u64), part).is_ok();
        });
        all
    }

    fn piece(&mut self, peer: usize, number: u64, message: &impl Bytes) {
        let Some(pulling) = self.pulls.get_mut(&number) else {
            return;
        };
        if pulling.peer != peer {
            return;
        }
        let came = message.len_bytes() - HEAD_BYTES;
        let end = pulling.wanted.min(pulling.at + came);
        pulling.receive.memory.write(pulling.at..end, |at, into| {
            message.read_at(HEAD_BYTES + at, into);
        });
        pulling.at = end;
        if end == pulling.wanted {
            if let Some(done) = self.pulls.remove(&number) {
                if !matches!(done.purpose, Purpose::Read(_)) {
                    let told = Record::Done {
                        send: done.send,
                        error: 0,
                    };
                    self.say(peer, told);
                }
                self.end_pull(&done, None);
            }
        }
    }

    /// Ends what only a peer could have served that is gone.
    pub(super) fn lose_receives(&mut self, peer: usize, error: c_int) {
        let of_peer = |(number, pull): (&u64, &Pulling)| (pull.peer == peer).then_some(*number);
        let mut pulls: Vec<u64> = self.pulls.iter().filter_map(of_peer).collect();
        pulls.sort_unstable();
        for pull in pulls {
            if let Some(pulling) = self.pulls.remove(&pull) {
                self.end_pull(&pulling, Some(error));
            }
        }
        for tagged in [true, false] {
            while let Some(receive) = self.matching(tagged).orphan(peer as u64) {
                let label = Label {
                    tag: tagged.then_some(0),
                    data: None,
                };
                self.withdraw_receive(&receive, &label, error);
            }
        }
    }
}

#[inline]
fn envelope(peer: usize, label: &Label) -> Envelope {
    Envelope {
        source: peer as u64,
        tag: label.tag.unwrap_or_default(),
    }
}

/// What is told of a receive that got no message.
fn wanted(tagged: bool, pattern: &Pattern) -> Label {
    Label {
        tag: tagged.then_some(pattern.tag),
        data: None,
    }
}
