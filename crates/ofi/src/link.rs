//! Bytes over an endpoint: what a carrier does, and what is left to do when it is dropped.
//!
//! Bytes are copied into slots, which are sent as messages when they are full or when the caller
//! flushes. What arrives stays in its slot until it is read; then the slot is posted again. Both
//! sides count messages, so that no message meets a side without a posted slot (`flow.rs`).
//!
//! A failed operation or an event is not told at once: first everything that has arrived is
//! read, since providers report the loss of a connection on what was to be sent earlier than on
//! what was received.

use std::collections::VecDeque;

use barewire_carrier::{Arrival, Broken, Sleep};

use crate::connection::{Connection, Done, Sizes};
use crate::flow::{CLOSED, FINISHED, Flow, HEADER_BYTES};
use crate::objects::{CANCELLED, Event};

/// Slots of a side to send from, and to receive into.
pub(crate) const SLOTS: usize = 16;

/// Bytes of a slot, with the header of the message.
pub(crate) const SLOT_BYTES: usize = 64 << 10;

/// After how many empty polls the queue of events is polled, too: it costs a system call.
const POLLS_PER_EVENT_POLL: u32 = 256;

/// How many completions are dealt with in one call, at most.
const COMPLETIONS_PER_CALL: usize = 4 * SLOTS;

/// The sizes of our side of each link. The last slot to send from is for messages without bytes.
pub(crate) const SIZES: Sizes = Sizes {
    sends: SLOTS + 1,
    receives: SLOTS,
    slot_bytes: SLOT_BYTES,
};

/// Whether the other side knows that no more bytes will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    No,
    /// These flags are to be sent after all bytes.
    Wanted(u8),
    Sent(u8),
}

/// A message in a slot: header and bytes end at `end`.
#[derive(Clone, Copy, Debug)]
struct Message {
    slot: usize,
    end: usize,
}

/// One side of a link.
pub(crate) struct Link {
    connection: Connection,
    flow: Flow,
    /// The longest message that both sides have room for, with its header.
    message_bytes_max: usize,
    /// Slots to send from that are empty.
    free: Vec<usize>,
    /// The message that bytes are copied to.
    filling: Option<Message>,
    /// Messages that wait to be sent.
    queued: VecDeque<Message>,
    /// Messages that the provider has not finished sending.
    in_flight: usize,
    /// Messages that have arrived.
    ready: VecDeque<Message>,
    /// How far the first of them has been read.
    ready_at: usize,
    finish: Finish,
    /// What the other side has said of its end.
    peer_flags: u8,
    /// Why the link will be broken, once all that has arrived was taken.
    dying: Option<String>,
    broken: Option<Broken>,
    empty_polls: u32,
    /// The caller may have slept: there may be an event.
    has_slept: bool,
    /// A write found no room; a flush left something.
    wants_room: bool,
    wants_flush: bool,
    has_told_end: bool,
}

impl Link {
    /// Over a connection whose receives are not posted yet, to a side with so many slots of so
    /// many bytes.
    pub(crate) fn new(connection: Connection, peer_slots: u32, peer_slot_bytes: usize) -> Link {
        Link {
            message_bytes_max: connection.slot_bytes().min(peer_slot_bytes),
            connection,
            flow: Flow::new(SLOTS as u32, peer_slots),
            free: (0..SIZES.sends - 1).rev().collect(),
            filling: None,
            queued: VecDeque::with_capacity(SIZES.sends),
            in_flight: 0,
            ready: VecDeque::with_capacity(SIZES.receives),
            ready_at: HEADER_BYTES,
            finish: Finish::No,
            peer_flags: 0,
            dying: None,
            broken: None,
            empty_polls: 0,
            has_slept: false,
            wants_room: false,
            wants_flush: false,
            has_told_end: false,
        }
    }

    /// Posts all receives. To be done before the other side can send.
    ///
    /// # Errors
    /// What libfabric says.
    pub(crate) fn post_all(&mut self) -> Result<(), String> {
        for slot in SIZES.sends..SIZES.sends + SIZES.receives {
            if !self.connection.post_receive(slot)? {
                return Err("the provider takes fewer receives than it said".to_owned());
            }
        }
        Ok(())
    }

    /// The connection, to be connected.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The descriptor to wait on.
    pub(crate) fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.connection.events.descriptor()
    }

    // What arrives.

    /// Lets the provider work, and takes what has completed.
    fn poll(&mut self) {
        for _ in 0..COMPLETIONS_PER_CALL {
            match self.connection.next() {
                None => {
                    self.empty_polls = self.empty_polls.wrapping_add(1);
                    if self.has_slept || self.empty_polls % POLLS_PER_EVENT_POLL == 0 {
                        self.poll_events();
                    } else if let Some(reason) = self.dying.take() {
                        // All that had arrived was taken.
                        self.fail(Broken::Failed { reason });
                    } else {
                        return;
                    }
                    continue;
                }
                Some(Done::Slot(slot, _)) if slot < SIZES.sends => self.sent(slot),
                Some(Done::Slot(slot, bytes)) => self.arrived(slot, bytes),
                Some(Done::Failed(reason)) => self.die(reason),
            }
            if self.broken.is_some() {
                return;
            }
            // Another look would drive the provider once more, which costs system calls.
            if !self.connection.has_batch() && self.dying.is_none() {
                return;
            }
        }
    }

    /// Takes what the queue of events has.
    fn poll_events(&mut self) {
        self.has_slept = false;
        self.empty_polls = 1;
        while let Some(event) = self.connection.events.next() {
            match event {
                Event::Shutdown => {
                    // What was cancelled for this reason tells less.
                    self.dying.take_if(|reason| reason == CANCELLED);
                    self.die("the other host closed the connection, or is gone".into());
                }
                Event::Failed(reason) => self.die(reason),
                // Whoever else wants to connect comes too late.
                Event::Request(..) | Event::Connected(_) => {}
            }
        }
    }

    fn die(&mut self, reason: String) {
        self.dying.get_or_insert(reason);
        self.has_slept = true;
    }

    fn fail(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// Our fault or that of the other side: it can not go on.
    fn protocol(&mut self, reason: &str) {
        self.fail(Broken::Protocol {
            reason: reason.to_owned(),
        });
    }

    fn sent(&mut self, slot: usize) {
        self.in_flight -= 1;
        if slot != SIZES.sends - 1 {
            self.free.push(slot);
        }
    }

    /// A message has arrived in a slot, which is ours.
    fn arrived(&mut self, slot: usize, end: usize) {
        if end < HEADER_BYTES {
            return self.protocol("a message without a header");
        }
        let mut header = [0; HEADER_BYTES];
        self.connection.load(slot, 0, &mut header);
        let has_bytes = end > HEADER_BYTES;
        if has_bytes && self.peer_flags & FINISHED != 0 {
            return self.protocol("bytes after the end");
        }
        match self.flow.arrive(header, has_bytes) {
            Ok(flags) => self.peer_flags |= flags,
            Err(reason) => return self.protocol(reason),
        }
        if self.peer_flags & CLOSED != 0 {
            self.forget_unsent();
        }
        self.ready.push_back(Message { slot, end });
        // What has no bytes is used up at once, unless bytes before it were not read.
        self.skip_read();
    }

    /// Nobody will read what was not sent.
    fn forget_unsent(&mut self) {
        self.queued.extend(self.filling.take());
        self.free
            .extend(self.queued.drain(..).map(|message| message.slot));
    }

    /// Uses up the first messages as far as all of their bytes were read.
    fn skip_read(&mut self) {
        while let Some(&Message { slot, end }) = self.ready.front() {
            if self.ready_at < end {
                return;
            }
            match self.connection.post_receive(slot) {
                Ok(true) => {}
                Ok(false) => return self.die("the provider takes no receive".into()),
                // It is going down: what has arrived can still be read.
                Err(reason) => self.die(reason),
            }
            self.ready.pop_front();
            self.ready_at = HEADER_BYTES;
            self.flow.consume();
        }
    }

    /// Copies out what has arrived, at most `into.len()` bytes.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut taken = 0;
        while taken < into.len() {
            let Some(&Message { slot, end }) = self.ready.front() else {
                break;
            };
            let count = (end - self.ready_at).min(into.len() - taken);
            let place = &mut into[taken..taken + count];
            self.connection.load(slot, self.ready_at, place);
            self.ready_at += count;
            taken += count;
            self.skip_read();
        }
        taken
    }

    /// See `Carrier::read`.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        if into.is_empty() {
            return Ok(Arrival::Nothing);
        }
        let mut taken = self.take(into);
        if taken == 0 && self.broken.is_none() {
            self.poll();
            taken = self.take(into);
        }
        self.pump(self.wants_flush);
        self.answer();
        if taken > 0 {
            return Ok(Arrival::Bytes(taken));
        }
        if self.is_at_end() {
            self.has_told_end = true;
            return Ok(Arrival::End);
        }
        match &self.broken {
            Some(broken) => Err(broken.clone()),
            None => Ok(Arrival::Nothing),
        }
    }

    fn is_at_end(&self) -> bool {
        self.peer_flags & FINISHED != 0 && self.ready.is_empty()
    }

    // What is sent.

    /// Why nothing can be written, if so.
    fn refusal(&self) -> Result<(), Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let reason = match self.peer_flags & CLOSED != 0 {
            true => "the other host has closed the connection",
            false if self.finish != Finish::No => "this side has said that it writes no more",
            false => return Ok(()),
        };
        Err(Broken::Failed {
            reason: reason.to_owned(),
        })
    }

    /// See `Carrier::write`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.refusal()?;
        let mut taken = self.fill(bytes);
        if taken < bytes.len() {
            self.poll();
            self.pump(false);
            self.refusal()?;
            taken += self.fill(&bytes[taken..]);
        }
        self.wants_room = taken < bytes.len();
        Ok(taken)
    }

    /// Copies into slots as much as there is room for, and sends those that are full.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let mut message = match self.filling.take() {
                Some(message) => message,
                None => match self.free.pop() {
                    Some(slot) => Message {
                        slot,
                        end: HEADER_BYTES,
                    },
                    None => break,
                },
            };
            let count = (self.message_bytes_max - message.end).min(bytes.len() - taken);
            let place = &bytes[taken..taken + count];
            self.connection.store(message.slot, message.end, place);
            message.end += count;
            taken += count;
            if message.end == self.message_bytes_max {
                self.queued.push_back(message);
                self.pump(false);
            } else {
                self.filling = Some(message);
            }
        }
        taken
    }

    /// Sends what waits, as far as credits and the provider allow; also the message that is not
    /// full, if `all`.
    fn pump(&mut self, all: bool) {
        if self.broken.is_some() {
            return;
        }
        if all || self.finish != Finish::No {
            self.queued.extend(self.filling.take());
        }
        while let Some(&Message { slot, end }) = self.queued.front() {
            if !self.flow.may_send() {
                return;
            }
            let is_last = self.queued.len() == 1;
            let flags = match self.finish {
                Finish::Wanted(flags) if is_last => flags,
                _ => 0,
            };
            if !self.send(slot, end, flags) {
                return;
            }
            self.queued.pop_front();
            if !self.connection.is_lent(slot) {
                self.free.push(slot);
            }
        }
        if let Finish::Wanted(flags) = self.finish {
            if self.flow.may_send() {
                self.send(SIZES.sends - 1, HEADER_BYTES, flags);
            }
        }
    }

    /// Sends one message. `false` if that is not possible now.
    fn send(&mut self, slot: usize, end: usize, flags: u8) -> bool {
        if self.connection.is_lent(slot) {
            return false;
        }
        let header = self.flow.header(flags);
        self.connection.store(slot, 0, &header);
        match self.connection.send(slot, end) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(reason) => {
                self.die(reason);
                return false;
            }
        }
        self.flow.sent(end > HEADER_BYTES || flags != 0);
        self.in_flight += usize::from(self.connection.is_lent(slot));
        if flags != 0 {
            self.finish = Finish::Sent(flags);
        }
        true
    }

    /// Tells the other side what was read, if that is worth a message.
    fn answer(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let waits = self.peer_flags != 0 && self.flow.may_answer();
        if self.flow.should_tell() || waits {
            self.send(SIZES.sends - 1, HEADER_BYTES, 0);
        }
    }

    /// See `Carrier::flush`.
    pub(crate) fn flush(&mut self) -> Result<bool, Broken> {
        self.pump(true);
        if self.in_flight > 0 || !self.queued.is_empty() {
            self.poll();
            self.pump(true);
        }
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.finish == Finish::No {
            self.refusal()?;
        }
        self.wants_flush = !self.is_flushed();
        Ok(!self.wants_flush)
    }

    /// Whether the provider has finished with all that was taken.
    fn is_flushed(&self) -> bool {
        let is_closed = self.peer_flags & CLOSED != 0;
        let is_finished = is_closed || !matches!(self.finish, Finish::Wanted(_));
        self.filling.is_none() && self.queued.is_empty() && self.in_flight == 0 && is_finished
    }

    /// See `Carrier::finish`.
    pub(crate) fn finish(&mut self) -> Result<(), Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.finish == Finish::No {
            self.finish = Finish::Wanted(FINISHED);
        }
        self.pump(true);
        Ok(())
    }

    /// See `Carrier::before_sleep`.
    pub(crate) fn before_sleep(&mut self) -> Sleep {
        self.has_slept = true;
        if self.broken.is_none() && self.ready.is_empty() {
            self.poll();
            self.pump(self.wants_flush);
            self.answer();
        }
        let has_room = self.filling.is_some() || !self.free.is_empty();
        let can_read = !self.ready.is_empty() || (self.is_at_end() && !self.has_told_end);
        let is_due = self.broken.is_some()
            || self.dying.is_some()
            || can_read
            || (self.wants_room && (has_room || self.peer_flags & CLOSED != 0))
            || (self.wants_flush && self.is_flushed());
        match is_due || !self.connection.may_sleep() {
            true => Sleep::NotYet,
            false => {
                self.has_slept = true;
                Sleep::UntilReadable
            }
        }
    }

    // The end.

    /// Says that this side neither writes nor reads any more.
    pub(crate) fn close(&mut self) {
        let flags = FINISHED | CLOSED;
        if self.finish != Finish::Sent(flags) {
            self.finish = Finish::Wanted(flags);
        }
        self.pump(true);
    }

    /// Goes on with [`Link::close`], and throws away what arrives. `true` if nothing is left to
    /// do: the other side has read all, reads no more, or is gone.
    pub(crate) fn go_on_closing(&mut self) -> bool {
        self.poll();
        let mut scratch = [0; 4096];
        while self.take(&mut scratch) > 0 {}
        self.pump(true);
        self.answer();
        let is_sent = matches!(self.finish, Finish::Sent(flags) if flags & CLOSED != 0);
        let is_peer_closed = self.peer_flags & CLOSED != 0;
        self.broken.is_some() || (is_sent && (is_peer_closed || self.flow.is_all_read()))
    }

    /// Whether a thread that closes may sleep on the descriptor.
    pub(crate) fn may_sleep_closing(&mut self) -> bool {
        self.has_slept = true;
        self.connection.may_sleep()
    }

    /// How many messages of ours the other side has not read: less of them is progress.
    pub(crate) fn unread_messages(&self) -> usize {
        self.queued.len() + self.flow.unacknowledged() as usize
    }
}
