//! The two halves of a connection, below messages and streams. Each owns its end of a ring,
//! counts what goes through it, and rings the peer.

use std::sync::Arc;

use barewire_fabric::copying::PIECES_FROM_BYTES;
use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED};
use barewire_fabric::ring::{RingReceiver, RingSender};
use barewire_fabric::{MessageReceiver, MessageSender, StreamReceiver, StreamSender, Violation};
use barewire_shm::Window;
use barewire_shm::counters::{Counter, QueueCounter, SlotCounters};
use barewire_sys::clock::monotonic_ns;

use crate::config::OUT_OF_BAND_BYTES_MAX;
use crate::error::{Error, Result};
use crate::links::connection::ConnectionCore;
use crate::links::cork::Cork;
use crate::links::driven::{DIRECT_BYTES_MIN, DirectBuffer, Driven, DrivesAll, StoredFrame};
use crate::log::{self, Level};
use crate::node::capture::{Ends, Tap};
use crate::node::core::NodeCore;
use crate::node::pace::Pace;
use crate::node::wait::{Deadline, Step};

/// Fruitless attempts between two looks at the clock, and perhaps at the sockets.
const EMPTY_POLLS_PER_SOCKET_POLL: u64 = 256;

/// Attempts to receive before anything slower is done.
const POLLS_BEFORE_CLOCK: u32 = 64;

/// How bytes become frames of a ring: as messages or as a stream.
pub(crate) trait Sending {
    fn ring(&mut self) -> &mut RingSender<Window, Window>;
}

impl Sending for MessageSender<Window, Window> {
    #[inline]
    fn ring(&mut self) -> &mut RingSender<Window, Window> {
        MessageSender::ring(self)
    }
}

impl Sending for StreamSender<Window, Window> {
    #[inline]
    fn ring(&mut self) -> &mut RingSender<Window, Window> {
        StreamSender::ring(self)
    }
}

/// How frames of a ring become bytes: as messages or as a stream.
pub(crate) trait Receiving {
    fn ring(&mut self) -> &mut RingReceiver<Window, Window>;
    /// Whether something may be there.
    fn maybe_ready(&self) -> bool;
    /// Whether something has begun and not ended.
    fn cut_off(&self) -> bool;
    /// Whether the next frame may be stored elsewhere than in the ring.
    fn is_between_messages(&self) -> bool;
    /// Whether credit was told to the sender since this was last asked.
    fn take_told(&mut self) -> bool;
}

impl Receiving for MessageReceiver<Window, Window> {
    #[inline]
    fn ring(&mut self) -> &mut RingReceiver<Window, Window> {
        MessageReceiver::ring(self)
    }
    #[inline]
    fn maybe_ready(&self) -> bool {
        MessageReceiver::maybe_ready(self)
    }
    fn cut_off(&self) -> bool {
        MessageReceiver::cut_off(self)
    }
    #[inline]
    fn is_between_messages(&self) -> bool {
        MessageReceiver::is_between_messages(self)
    }
    #[inline]
    fn take_told(&mut self) -> bool {
        MessageReceiver::take_told(self)
    }
}

impl Receiving for StreamReceiver<Window, Window> {
    #[inline]
    fn ring(&mut self) -> &mut RingReceiver<Window, Window> {
        StreamReceiver::ring(self)
    }
    #[inline]
    fn maybe_ready(&self) -> bool {
        StreamReceiver::maybe_ready(self)
    }
    fn cut_off(&self) -> bool {
        false
    }
    fn is_between_messages(&self) -> bool {
        false
    }
    #[inline]
    fn take_told(&mut self) -> bool {
        StreamReceiver::take_told(self)
    }
}

/// How a wait for a message ended.
pub(crate) enum Waited {
    /// An attempt will find something, or fail.
    Ready,
    /// The next frame is published, and its payload is where the message is wanted.
    Stored(StoredFrame),
    /// The deadline has passed.
    Expired,
}

/// That a half of a connection is in use. The peer and the node learn when it is not any more.
struct Hold {
    node: Arc<NodeCore>,
    core: Arc<ConnectionCore>,
    counters: Option<SlotCounters>,
    /// What the peer is told in the end.
    last_word: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.node.base.check_fork().is_err() {
            return;
        }
        self.core.publish_state(self.last_word);
        if self.core.half_gone() {
            if let Some(counters) = &self.counters {
                counters.close();
            }
            self.node.state().drop_handle(self.core.number);
        }
    }
}

/// The sending half.
pub(crate) struct SendingHalf<Q> {
    pub queue: Q,
    hold: Hold,
    messages: u64,
    bytes: u64,
    full: u64,
    bells: u64,
    /// How often the other half had tried to receive before the last long message.
    attempts_before: u64,
    closed: bool,
    failed: Option<Error>,
    tap: Option<(Arc<Tap>, Ends)>,
}

impl<Q> SendingHalf<Q> {
    pub fn new(
        node: &Arc<NodeCore>,
        core: Arc<ConnectionCore>,
        counters: Option<SlotCounters>,
        queue: Q,
    ) -> SendingHalf<Q> {
        let tap = tap_of(node, &core);
        SendingHalf {
            queue,
            hold: Hold {
                node: Arc::clone(node),
                core,
                counters,
                last_word: STATE_FINISHED,
            },
            messages: 0,
            bytes: 0,
            full: 0,
            bells: 0,
            attempts_before: 0,
            closed: false,
            failed: None,
            tap,
        }
    }

    /// The same half, with another queue over its ring.
    pub fn map<R>(self, queue: impl FnOnce(Q) -> R) -> SendingHalf<R> {
        SendingHalf {
            queue: queue(self.queue),
            hold: self.hold,
            messages: self.messages,
            bytes: self.bytes,
            full: self.full,
            bells: self.bells,
            attempts_before: self.attempts_before,
            closed: self.closed,
            failed: self.failed,
            tap: self.tap,
        }
    }

    #[inline]
    pub fn node(&self) -> &Arc<NodeCore> {
        &self.hold.node
    }

    #[inline]
    pub fn core(&self) -> &Arc<ConnectionCore> {
        &self.hold.core
    }

    /// Why the connection is down, if so.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.hold.core.check()
    }

    #[cold]
    fn why_not(&self) -> Error {
        match &self.failed {
            Some(error) => error.clone(),
            None if self.closed => Error::Closed,
            None => Error::PeerDeaf,
        }
    }

    /// Records what was sent, if there is a tap.
    #[inline]
    pub fn tap<'a>(&self, messages: impl IntoIterator<Item = &'a [u8]>) {
        if let Some((tap, ends)) = &self.tap {
            for message in messages {
                tap.sent(ends, message);
            }
        }
    }

    /// Whether there is a tap.
    #[inline]
    pub fn tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// There was no room for what was to be sent: readiness will be announced when there is.
    #[cold]
    pub fn was_full(&mut self) {
        self.count_full();
        if self.hold.core.want_room() {
            self.hold.node.note_disarmed(&self.hold.core);
        }
    }

    fn count_full(&mut self) {
        self.full += 1;
        if let Some(remote) = self.hold.core.link.remote() {
            if !DrivesAll::is_so() {
                remote.drive();
            }
        }
        if self.full % EMPTY_POLLS_PER_SOCKET_POLL == 0 {
            // Failing to look is reported by whoever waits.
            let _ = self.hold.node.poll_sockets_if_due(monotonic_ns());
        }
        if let Some(counters) = &self.hold.counters {
            counters.store(Counter::Full, self.full);
        }
    }

    /// The peer broke the protocol on this connection: ends it.
    #[cold]
    pub fn violated(&mut self, violation: Violation) -> Error {
        let counters = &self.hold.node.base.counters;
        counters.add(QueueCounter::Violations, 1);
        log_violation(self.hold.core.number, violation);
        let error = Error::from(violation);
        self.failed = Some(error.clone());
        self.closed = true;
        self.hold.core.publish_state(STATE_FINISHED | STATE_DEAF);
        error
    }

    /// Nothing more will be sent.
    pub fn close(&mut self) {
        self.closed = true;
        self.hold.core.publish_state(STATE_FINISHED);
    }

    /// As [`SendingHalf::check`], but asks the kernel: for what nobody would miss who sent it
    /// to the dead.
    pub fn check_alive(&self) -> Result<()> {
        self.check()?;
        if self.hold.core.link.has_ended() {
            self.hold.node.check_peer_of(self.hold.core.number);
            self.check()?;
        }
        Ok(())
    }

    pub fn send_out_of_band(&self, data: &[u8]) -> Result<bool> {
        self.check_alive()?;
        if data.len() > OUT_OF_BAND_BYTES_MAX {
            return Err(Error::OutOfLimits {
                what: "length of an out-of-band message",
                value: data.len() as u64,
                min: 0,
                max: OUT_OF_BAND_BYTES_MAX as u64,
            });
        }
        let mut state = self.hold.node.state();
        state.send_out_of_band(self.hold.core.number, data)
    }
}

impl<Q: Sending> SendingHalf<Q> {
    /// Why nothing can be sent, if so.
    #[inline(always)]
    pub fn check_sending(&mut self) -> Result<()> {
        self.check()?;
        if self.closed || self.queue.ring().peer_deaf() {
            return Err(self.why_not());
        }
        Ok(())
    }

    /// Sends a long message to another host from where it lies ([`Driven::send_direct`](crate::links::driven::Driven));
    /// `announce` publishes it in the ring, but for its bytes. `false`: it has to go through the ring.
    pub fn send_direct(
        &mut self,
        message: &[u8],
        announce: impl Fn(&mut Q) -> std::result::Result<bool, Violation>,
    ) -> Result<bool> {
        let core = &self.hold.core;
        let Some(remote) = core.link.remote() else {
            return Ok(false);
        };
        if Cork::holds(remote) {
            return Ok(false);
        }
        let mut violation = None;
        let mut announce = || match announce(&mut self.queue) {
            Ok(has_room) => has_room,
            Err(found) => {
                violation = Some(found);
                false
            }
        };
        let is_sent = remote.send_direct(core.peer_source, message, &mut announce);
        if is_sent {
            core.paid_credit();
        }
        match violation {
            Some(violation) => Err(self.violated(violation)),
            None => Ok(is_sent),
        }
    }

    /// Counts what was published and rings the receiver if it wants.
    #[inline(always)]
    pub fn sent(&mut self, messages: u64, bytes: usize) {
        self.bell();
        self.count(messages, bytes);
    }

    /// Counts what was sent.
    #[inline(always)]
    pub fn count(&mut self, messages: u64, bytes: usize) {
        self.hold.core.had_room();
        self.messages += messages;
        self.bytes += bytes as u64;
        if let Some(counters) = &self.hold.counters {
            counters.store(Counter::MessagesOut, self.messages);
            counters.store(Counter::BytesOut, self.bytes);
        }
    }

    /// Before a long message: whether anything was received, or looked for, since the one before.
    pub fn note_direction(&mut self) {
        let attempts = self.hold.core.attempts();
        let is_one_way = attempts == self.attempts_before;
        self.attempts_before = attempts;
        self.queue.ring().set_one_way(is_one_way);
    }

    /// Rings the receiver if it wants.
    #[inline]
    pub fn bell(&mut self) {
        let core = &self.hold.core;
        if self.queue.ring().must_ring(&*core.link) {
            core.link.ring(core.peer_source);
            core.paid_credit();
            self.bells += 1;
            if let Some(counters) = &self.hold.counters {
                counters.store(Counter::Bells, self.bells);
            }
        }
    }

    /// Sleep is near: has the receiver ring when it returns credit. The attempt to send
    /// `next_bytes` has to be made again after this.
    #[cold]
    pub fn arm(&mut self, next_bytes: usize) {
        self.count_full();
        // What it finds, impossible credit included, the attempt finds too.
        let _ = self.queue.ring().arm(&*self.hold.core.link, next_bytes);
    }

    /// Tries until it works, waiting for room meanwhile; `None` if the deadline has passed.
    pub fn wait<T>(
        &mut self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Self, Step) -> Option<Result<T>>,
    ) -> Result<Option<T>> {
        let node = Arc::clone(&self.hold.node);
        let found = node.wait_until(deadline, true, |step| match self.check_sending() {
            Ok(()) => attempt(self, step),
            Err(error) => Some(Err(error)),
        });
        self.queue.ring().disarm();
        found?.transpose()
    }
}

/// An error that stays. Out of line, because so many kinds of errors are long to copy.
#[cold]
fn again(error: &Error) -> Error {
    error.clone()
}

/// The receiving half.
pub(crate) struct ReceivingHalf<Q> {
    pub queue: Q,
    hold: Hold,
    messages: u64,
    bytes: u64,
    /// How often nothing was there.
    idle: u64,
    pace: Pace,
    /// What the peer was told of how we receive; `None` before a long message was received.
    copies: Option<bool>,
    failed: Option<Error>,
    tap: Option<(Arc<Tap>, Ends)>,
}

impl<Q> ReceivingHalf<Q> {
    pub fn new(
        node: &Arc<NodeCore>,
        core: Arc<ConnectionCore>,
        counters: Option<SlotCounters>,
        queue: Q,
    ) -> ReceivingHalf<Q> {
        let tap = tap_of(node, &core);
        ReceivingHalf {
            queue,
            hold: Hold {
                node: Arc::clone(node),
                core,
                counters,
                last_word: STATE_DEAF,
            },
            messages: 0,
            bytes: 0,
            idle: 0,
            pace: Pace::default(),
            copies: None,
            failed: None,
            tap,
        }
    }

    /// The same half, with another queue over its ring.
    pub fn map<R>(self, queue: impl FnOnce(Q) -> R) -> ReceivingHalf<R> {
        ReceivingHalf {
            queue: queue(self.queue),
            hold: self.hold,
            messages: self.messages,
            bytes: self.bytes,
            idle: self.idle,
            pace: self.pace,
            copies: self.copies,
            failed: self.failed,
            tap: self.tap,
        }
    }

    #[inline]
    pub fn core(&self) -> &Arc<ConnectionCore> {
        &self.hold.core
    }

    /// The breach of the protocol that ended this half, if one did; in a forked child,
    /// that what is there is not for it.
    #[inline(always)]
    pub fn check_failed(&self) -> Result<()> {
        match &self.failed {
            None => self.hold.core.link.check_fork(),
            Some(error) => Err(again(error)),
        }
    }

    /// Records what was received, if there is a tap.
    #[inline]
    pub fn tap(&self, bytes: &[u8]) {
        if let Some((tap, ends)) = &self.tap {
            tap.received(ends, bytes);
        }
    }

    /// Whether there is a tap.
    #[inline]
    pub fn tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// Whether the link is down.
    fn is_down(&self) -> bool {
        !self.hold.core.link.is_up() || self.failed.is_some()
    }

    /// The peer broke the protocol on this connection: ends it. The error stays, because
    /// the ring is not advanced.
    #[cold]
    pub fn violated(&mut self, violation: Violation) -> Error {
        if let Some(error) = &self.failed {
            return error.clone();
        }
        let error = Error::from(violation);
        let (node, core) = (&self.hold.node, &self.hold.core);
        if let Violation::OverBudget(exceeded) = violation {
            // Before the connection: the peer is to learn why.
            node.state().end_link_of(core.number, exceeded.into());
        } else {
            node.base.counters.add(QueueCounter::Violations, 1);
            log_violation(core.number, violation);
        }
        self.failed = Some(error.clone());
        core.set_may_have_more(false);
        core.publish_state(STATE_FINISHED | STATE_DEAF);
        error
    }
}

impl<Q: Receiving> ReceivingHalf<Q> {
    /// Nothing was there. Who polls without the node's event queue has to learn of the
    /// peer's death all the same.
    #[inline]
    fn idle(&mut self) -> Result<()> {
        self.hold.core.set_may_have_more(false);
        self.idle += 1;
        self.note_attempt();
        if self.idle % EMPTY_POLLS_PER_SOCKET_POLL == 0 {
            self.hold.node.poll_sockets_if_due(monotonic_ns())?;
        }
        Ok(())
    }

    /// The rest of a message is on its way: it comes by itself, or out of the link to another host.
    #[inline]
    pub fn await_fragment(&self) {
        match self.hold.core.link.remote() {
            Some(remote) => remote.drive(),
            None => core::hint::spin_loop(),
        }
    }

    /// The ring was found empty. `true` if it is to be tried again; an error if nothing
    /// will come any more. If `drives`, a link to another host is asked for more first.
    #[inline]
    pub fn nothing(&mut self, drives: bool) -> Result<bool> {
        if let Some(remote) = self.hold.core.link.remote() {
            if drives && !DrivesAll::is_so() {
                remote.drive();
                self.hold.core.paid_credit();
                if self.queue.maybe_ready() {
                    return Ok(true);
                }
            }
        }
        if let Some(ended) = self.ended() {
            // What was published before the end is visible now, if it was not before.
            if self.queue.maybe_ready() {
                return Ok(true);
            }
            // An end is told once as well, and not in every poll.
            self.hold.core.set_may_have_more(false);
            let cut_off = self.queue.cut_off() && ended == Error::Finished;
            return Err(if cut_off { Error::PeerGone } else { ended });
        }
        self.idle()?;
        Ok(false)
    }

    /// Why nothing will be published any more, if so.
    #[inline]
    fn ended(&mut self) -> Option<Error> {
        if self.queue.ring().peer_finished() {
            return Some(Error::Finished);
        }
        let down = self.hold.core.check().err();
        down.or_else(|| self.failed.clone())
    }

    /// If credit was told to the sender: rings it if it waits for the room.
    #[inline]
    pub fn credit_told(&mut self) {
        if !self.queue.take_told() {
            return;
        }
        let (ring, core) = (self.queue.ring(), &self.hold.core);
        // Shown to who looks from outside: never behind what the sender may use again.
        if let Some(counters) = &self.hold.counters {
            counters.store_reader(ring.tail_lines());
        }
        if ring.must_ring(&*core.link) {
            core.ring_for_credit();
        }
    }

    /// The node may look at the ring itself: it has to know how far we are. Returns that, in lines of the ring.
    #[inline]
    fn note_attempt(&mut self) -> u64 {
        let tail_lines = self.queue.ring().tail_lines();
        let attempts = self.messages + self.idle;
        self.hold.core.set_received(tail_lines, attempts);
        tail_lines
    }

    /// Counts what was taken.
    #[inline(always)]
    pub fn received(&mut self, bytes: usize) {
        self.credit_told();
        self.hold.core.set_may_have_more(true);
        self.messages += 1;
        let tail_lines = self.note_attempt();
        self.bytes += bytes as u64;
        if let Some(counters) = &self.hold.counters {
            counters.store_reader(tail_lines);
            counters.store(Counter::MessagesIn, self.messages);
            counters.store(Counter::BytesIn, self.bytes);
        }
    }

    /// A long message was copied into the caller's buffer. The peer may send them in pieces from now on, unless one was
    /// ever read in place.
    #[inline]
    pub fn copied_out(&mut self, bytes: usize) {
        if self.copies.is_none() && bytes >= PIECES_FROM_BYTES {
            self.set_copies(true);
        }
    }

    /// The caller reads messages in place: they are to come as a whole.
    #[inline]
    pub fn reads_in_place(&mut self) {
        if self.copies != Some(false) {
            self.set_copies(false);
        }
    }

    #[cold]
    fn set_copies(&mut self, copies: bool) {
        if self.copies.unwrap_or(false) != copies {
            self.hold.core.publish_copies(copies);
        }
        self.copies = Some(copies);
    }

    /// Tries to receive a few times, which takes less time than to read the clock. Where the peer rings, once.
    #[inline]
    pub fn poll_briefly<T>(&mut self, mut attempt: impl FnMut(&mut Q) -> Option<T>) -> Option<T> {
        let polls = if self.hold.core.is_armed() || self.hold.core.link.remote().is_some() {
            1
        } else {
            POLLS_BEFORE_CLOCK
        };
        let measured = self.pace.begin();
        for poll in 0..polls {
            // What the first poll finds may have been in our cache for long.
            if measured && poll > 0 {
                self.pace.measure(|| self.queue.maybe_ready());
            }
            let found = attempt(&mut self.queue);
            if found.is_some() {
                return found;
            }
            self.pace.pause();
        }
        None
    }

    /// One step of waiting for something to come.
    fn step(&mut self, step: Step) {
        let (ring, core) = (self.queue.ring(), &self.hold.core);
        match step {
            Step::Spin if core.is_armed() => {
                core.set_armed(false, || ring.disarm());
                if core.list() {
                    self.hold.node.note_disarmed(core);
                }
            }
            Step::Arm if !core.is_armed() => {
                // Whether something is there already is looked at after this step.
                core.set_armed(true, || {
                    ring.arm(&*core.link);
                });
            }
            _ => {}
        }
    }

    /// Waits until something can be received, or an error will be returned instead. `false` if
    /// the deadline has passed.
    pub fn wait(&mut self, deadline: Deadline) -> Result<bool> {
        let node = Arc::clone(&self.hold.node);
        let found = node.wait_until(deadline, true, |step| {
            self.step(step);
            self.is_worth_a_try().then_some(())
        })?;
        Ok(found.is_some())
    }

    /// As [`ReceivingHalf::wait`], for a message that is wanted in `memory`: of one from another host, the first frame may
    /// be there afterwards.
    pub fn wait_into(&mut self, deadline: Deadline, memory: &mut [u8]) -> Result<Waited> {
        let Some(remote) = self.remote_into(memory).cloned() else {
            return self.wait(deadline).map(|ready| match ready {
                true => Waited::Ready,
                false => Waited::Expired,
            });
        };
        let node = Arc::clone(&self.hold.node);
        let found = node.wait_driving(deadline, true, |step, driven| {
            if step.is_look() {
                let mut buffer = self.buffer(memory);
                driven.drive_into(&remote, &mut buffer);
                if let Some(frame) = buffer.stored {
                    return Some(Waited::Stored(frame));
                }
            }
            self.step(step);
            self.is_worth_a_try().then_some(Waited::Ready)
        })?;
        Ok(found.unwrap_or(Waited::Expired))
    }

    /// Asks the link to another host for more, if `memory` is a place for the next message. `None`: it is not. Then a frame
    /// of it that is there now.
    #[inline]
    pub fn drive_into(&mut self, memory: &mut [u8]) -> Option<Option<StoredFrame>> {
        let remote = self.remote_into(memory).cloned()?;
        let mut buffer = self.buffer(memory);
        remote.drive_into(&mut buffer);
        let stored = buffer.stored;
        self.hold.core.paid_credit();
        Some(stored)
    }

    /// The link to another host, if this thread is to drive it, and `memory` suits what may come.
    #[inline]
    fn remote_into(&self, memory: &[u8]) -> Option<&Arc<dyn Driven>> {
        let suits = memory.len() >= DIRECT_BYTES_MIN && !DrivesAll::is_so();
        let remote = self.hold.core.link.remote();
        remote.filter(|_| suits && self.queue.is_between_messages())
    }

    fn buffer<'b>(&mut self, memory: &'b mut [u8]) -> DirectBuffer<'b> {
        DirectBuffer {
            source: self.hold.core.peer_source,
            tail_lines: self.queue.ring().tail_lines(),
            memory,
            stored: None,
        }
    }

    /// Whether an attempt to receive will find something, or fail.
    fn is_worth_a_try(&mut self) -> bool {
        self.queue.maybe_ready() || self.queue.ring().peer_finished() || self.is_down()
    }
}

/// The node's tap, if it has one, and what it shows of this connection.
fn tap_of(node: &NodeCore, core: &ConnectionCore) -> Option<(Arc<Tap>, Ends)> {
    let tap = node.tap.as_ref()?;
    Some((Arc::clone(tap), tap.ends(&core.link)))
}

fn log_violation(connection: u32, violation: Violation) {
    log::line(Level::Error, || {
        format!("connection {connection} ends, the peer broke the protocol: {violation}")
    });
}
