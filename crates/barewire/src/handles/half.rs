//! What the message and the stream view of a connection have in common, for each half.

use std::sync::Arc;

use barewire_fabric::frame::{STATE_DEAF, STATE_FINISHED};
use barewire_fabric::ring::{RingReceiver, RingSender};
use barewire_fabric::{MessageReceiver, Violation};
use barewire_shm::Window;
use barewire_shm::counters::{Counter, QueueCounter, SlotCounters};
use barewire_sys::clock::monotonic_ns;

use crate::config::OUT_OF_BAND_BYTES_MAX;
use crate::error::{Error, Result};
use crate::links::connection::ConnectionCore;
use crate::messages::control::Message;
use crate::node::capture::Tap;
use crate::node::core::NodeCore;
use crate::node::wait::Step;

/// Fruitless attempts between two looks at the clock, and perhaps at the sockets.
const IDLE_POLLS_PER_LOOK: u32 = 256;

type Out = RingSender<Window, Window>;
type In = RingReceiver<Window, Window>;

/// The sending half, but for how bytes become frames.
pub(crate) struct TxSide {
    pub node: Arc<NodeCore>,
    pub common: Arc<ConnectionCore>,
    counters: Option<SlotCounters>,
    messages: u64,
    bytes: u64,
    full: u64,
    bells: u64,
    closed: bool,
    failed: Option<Error>,
    tap: Option<Arc<Tap>>,
}

impl TxSide {
    pub fn new(
        node: Arc<NodeCore>,
        common: Arc<ConnectionCore>,
        counters: Option<SlotCounters>,
    ) -> TxSide {
        TxSide {
            tap: node.tap.clone(),
            node,
            common,
            counters,
            messages: 0,
            bytes: 0,
            full: 0,
            bells: 0,
            closed: false,
            failed: None,
        }
    }

    /// Why the connection is down, if so.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.common.link.check()
    }

    /// Why nothing can be sent, if so.
    #[inline]
    pub fn check_sending(&self, ring: &Out) -> Result<()> {
        self.check()?;
        if self.closed || ring.peer_deaf() {
            return Err(self.why_not());
        }
        Ok(())
    }

    #[cold]
    fn why_not(&self) -> Error {
        match &self.failed {
            Some(error) => error.clone(),
            None if self.closed => Error::Closed,
            None => Error::PeerDeaf,
        }
    }

    /// Counts what was published and rings the receiver if it wants.
    #[inline]
    pub fn sent(&mut self, ring: &Out, messages: u64, bytes: usize) {
        self.bell(ring);
        self.common.had_room();
        self.messages += messages;
        self.bytes += bytes as u64;
        if let Some(counters) = &self.counters {
            counters.store(Counter::MessagesOut, self.messages);
            counters.store(Counter::BytesOut, self.bytes);
        }
    }

    /// Records what was sent, if there is a tap.
    #[inline]
    pub fn tap<'a>(&self, messages: impl IntoIterator<Item = &'a [u8]>) {
        if let Some(tap) = &self.tap {
            for message in messages {
                tap.sent(self.common.link.peer.pid as u32, message);
            }
        }
    }

    /// Whether there is a tap.
    #[inline]
    pub fn tapped(&self) -> bool {
        self.tap.is_some()
    }

    #[inline]
    pub fn bell(&mut self, ring: &Out) {
        if ring.must_ring(&*self.common.link) {
            self.common.link.ring(self.common.peer_source);
            self.bells += 1;
            if let Some(counters) = &self.counters {
                counters.store(Counter::Bells, self.bells);
            }
        }
    }

    /// There was no room for what was to be sent: readiness will be announced when there is.
    #[cold]
    pub fn was_full(&mut self) {
        self.count_full();
        if self.common.want_room() {
            self.node.note_disarmed(&self.common);
        }
    }

    fn count_full(&mut self) {
        self.full += 1;
        if self.full % u64::from(IDLE_POLLS_PER_LOOK) == 0 {
            // Failing to look is reported by whoever waits.
            let _ = self.node.look_now_and_then(monotonic_ns());
        }
        if let Some(counters) = &self.counters {
            counters.store(Counter::Full, self.full);
        }
    }

    /// The peer broke the protocol on this connection: ends it.
    #[cold]
    pub fn violated(&mut self, violation: Violation) -> Error {
        self.node.base.counters.add(QueueCounter::Violations, 1);
        let error = Error::from(violation);
        self.failed = Some(error.clone());
        self.closed = true;
        self.common.say(STATE_FINISHED | STATE_DEAF);
        error
    }

    /// Nothing more will be sent.
    pub fn close(&mut self) {
        self.closed = true;
        self.common.say(STATE_FINISHED);
    }

    /// Sleep is near: has the receiver ring when it returns credit. The attempt to send
    /// has to be made again after this.
    #[cold]
    pub fn arm(&mut self, ring: &mut Out, next_bytes: usize) {
        self.count_full();
        // What it finds, impossible credit included, the attempt finds too.
        let _ = ring.arm(&*self.common.link, next_bytes);
    }

    pub fn stop_waiting(&self, ring: &mut Out) {
        ring.disarm();
    }

    /// As [`TxSide::check`], but asks the kernel: for what nobody would miss who sent it to
    /// the dead.
    pub fn check_alive(&self) -> Result<()> {
        self.check()?;
        if self.common.link.has_ended() {
            self.node.look_after_peer_of(self.common.number);
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
        let mut state = self.node.state();
        let Some((link, connection)) = state.route(self.common.number) else {
            return Err(Error::PeerGone);
        };
        if state.peers[link].congested() {
            return Ok(false);
        }
        let message = Message::OutOfBand { connection, data };
        state.send(link, &message, &[]);
        Ok(true)
    }
}

impl Drop for TxSide {
    fn drop(&mut self) {
        if self.node.base.check_fork().is_ok() {
            self.common.say(STATE_FINISHED);
            drop_half(&self.node, &self.common, self.counters.as_ref());
        }
    }
}

impl core::fmt::Debug for TxSide {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TxSide")
            .field("connection", &self.common.number)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// The receiving half, but for how frames become bytes.
pub(crate) struct RxSide {
    pub node: Arc<NodeCore>,
    pub common: Arc<ConnectionCore>,
    counters: Option<SlotCounters>,
    messages: u64,
    bytes: u64,
    /// Times in a row that nothing was there.
    idle: u32,
    failed: Option<Error>,
    tap: Option<Arc<Tap>>,
}

impl RxSide {
    pub fn new(
        node: Arc<NodeCore>,
        common: Arc<ConnectionCore>,
        counters: Option<SlotCounters>,
    ) -> RxSide {
        RxSide {
            tap: node.tap.clone(),
            node,
            common,
            counters,
            messages: 0,
            bytes: 0,
            idle: 0,
            failed: None,
        }
    }

    /// The ring was found empty. `true` if it is to be tried again; an error if nothing
    /// will come any more.
    #[inline]
    pub fn nothing(&mut self, queue: &mut MessageReceiver<Window, Window>) -> Result<bool> {
        if let Some(ended) = self.ended(queue.ring()) {
            // What was published before the end is visible now, if it was not before.
            if queue.maybe_ready() {
                return Ok(true);
            }
            // An end is told once as well, and not in every poll.
            self.common.set_taking(false);
            let cut_off = queue.cut_off() && ended == Error::Finished;
            return Err(if cut_off { Error::PeerGone } else { ended });
        }
        self.idle()?;
        Ok(false)
    }

    /// Nothing was there. Who polls without the node's event queue has to learn of the
    /// peer's death all the same.
    #[inline]
    pub fn idle(&mut self) -> Result<()> {
        self.common.set_taking(false);
        self.idle = self.idle.wrapping_add(1);
        if self.idle % IDLE_POLLS_PER_LOOK == 0 {
            self.node.look_now_and_then(monotonic_ns())?;
        }
        Ok(())
    }

    /// Why nothing will be published any more, if so.
    #[inline]
    pub fn ended(&self, ring: &In) -> Option<Error> {
        if ring.peer_finished() {
            return Some(Error::Finished);
        }
        self.common
            .link
            .check()
            .err()
            .or_else(|| self.failed.clone())
    }

    /// The breach of the protocol that ended this half, if one did; in a forked child,
    /// that what is there is not for it.
    #[inline]
    pub fn check_failed(&self) -> Result<()> {
        match &self.failed {
            None => self.common.link.check_fork(),
            Some(error) => Err(error.clone()),
        }
    }

    /// Records what was received, if there is a tap.
    #[inline]
    pub fn tap(&self, bytes: &[u8]) {
        if let Some(tap) = &self.tap {
            tap.received(self.common.link.peer.pid as u32, bytes);
        }
    }

    /// Whether there is a tap.
    #[inline]
    pub fn tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// Whether the link is down.
    pub fn is_down(&self) -> bool {
        !self.common.link.is_up() || self.failed.is_some()
    }

    /// Credit was told to the sender: rings it if it waits for the room.
    #[inline]
    pub fn credit_told(&self, ring: &In) {
        // Shown to who looks from outside: never behind what the sender may use again.
        if let Some(counters) = &self.counters {
            counters.store_reader(ring.tail_lines());
        }
        if ring.must_ring(&*self.common.link) {
            self.common.link.ring(self.common.peer_source);
        }
    }

    /// Counts what was taken; `told` says whether that told credit.
    #[inline]
    pub fn received(&mut self, ring: &In, told: bool, bytes: usize) {
        if told {
            self.credit_told(ring);
        }
        self.common.set_taking(true);
        self.messages += 1;
        self.bytes += bytes as u64;
        if let Some(counters) = &self.counters {
            counters.store_reader(ring.tail_lines());
            counters.store(Counter::MessagesIn, self.messages);
            counters.store(Counter::BytesIn, self.bytes);
        }
    }

    /// The peer broke the protocol on this connection: ends it. The error stays, because
    /// the ring is not advanced.
    #[cold]
    pub fn violated(&mut self, violation: Violation) -> Error {
        if let Some(error) = &self.failed {
            return error.clone();
        }
        let error = Error::from(violation);
        if let Violation::OverBudget(exceeded) = violation {
            // Before the connection: the peer is to learn why.
            let mut state = self.node.state();
            state.end_link_of(self.common.number, exceeded.into());
        } else {
            self.node.base.counters.add(QueueCounter::Violations, 1);
        }
        self.failed = Some(error.clone());
        self.common.set_taking(false);
        self.common.say(STATE_FINISHED | STATE_DEAF);
        error
    }

    /// One step of waiting for something to come.
    pub fn step(&mut self, ring: &mut In, step: Step) {
        match step {
            Step::Spin if self.common.is_armed() => {
                self.common.set_armed(false, || ring.disarm());
                if self.common.list() {
                    self.node.note_disarmed(&self.common);
                }
            }
            Step::Arm if !self.common.is_armed() => {
                // Whether something is there already is looked at after this step.
                let link = &*self.common.link;
                self.common.set_armed(true, || {
                    ring.arm(link);
                });
            }
            _ => {}
        }
    }
}

impl Drop for RxSide {
    fn drop(&mut self) {
        if self.node.base.check_fork().is_ok() {
            self.common.say(STATE_DEAF);
            drop_half(&self.node, &self.common, self.counters.as_ref());
        }
    }
}

impl core::fmt::Debug for RxSide {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RxSide")
            .field("connection", &self.common.number)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

fn drop_half(node: &NodeCore, common: &ConnectionCore, counters: Option<&SlotCounters>) {
    if common.half_gone() {
        if let Some(counters) = counters {
            counters.close();
        }
        node.state().drop_handle(common.number);
    }
}
