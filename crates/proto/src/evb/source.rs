//! A source: fragments that wait, and the rule by which they go.
//!
//! | input | what changes |
//! |---|---|
//! | `offer` | the fragment waits, or is dropped with account, or is refused: wait and offer again |
//! | `lack` | there will be no fragment of the event: its builder is to be told |
//! | `handle_assign` | the fragment has a builder, and with [`Flow::Scheduled`] a start |
//! | `handle_grant` | with [`Flow::Credits`]: the fragment may go |
//! | `handle_withdrawn` | the same: it never will, and is dropped with account |
//! | `handle_full`, `handle_room` | the transport takes nothing for a builder, or does again |
//! | `handle_lost` | what waits for that builder is dropped with account; sequence numbers begin again |
//! | `handle_entered` | the manager counts on this source from an event on: what is older is dropped with account |
//! | `abort` | everything is, and whatever is offered after that |
//!
//! Assignment and grant may come before the fragment. Of those that may go the oldest event
//! goes first. What `lack` says is told to the builder of the event as soon as that is known
//! ([`Source::poll_lack`]), so that no builder waits for it. The link pulls: call [`Source::transmit`] when it is free, again while it gives
//! something, and then at [`Source::next_deadline`] or after the next input.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use barewire_units::{ByteSize, Instant, Rate};

use super::events::EventMap;
use super::flow::{Barrel, Flow};
use super::ledger::SourceAccount;
use super::run::{BuilderId, SourceId};
use crate::shaping::tbf::{self, Tbf};
use crate::shaping::{ETHERTYPE_IPV4, Packet, Qdisc as _, Timer};

/// Events whose assignment came before their fragment: beyond this the oldest is forgotten.
const EARLY_MAX: usize = 1 << 16;

/// What a source does with a fragment for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Refuses it: the detector must wait.
    Block,
    /// Drops it with account.
    Drop,
}

/// What a source is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceConfig {
    /// Its number.
    pub id: SourceId,
    /// Bytes of fragments that may wait.
    pub buffer_bytes: u64,
    /// What happens to a fragment beyond that.
    pub full: WhenFull,
    /// Most bytes of a fragment that go at a time.
    pub piece_bytes: u64,
    /// What buckets and slots count for each piece beside its bytes: headers and gaps.
    pub overhead_bytes: u64,
    /// What it waits for.
    pub flow: Flow,
}

/// Why there can be no such source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Pieces of nothing, or of more than 1 GiB.
    #[error(
        "pieces of {piece_bytes} bytes and {overhead_bytes} beside them; at least 1, together 2^30 at most"
    )]
    Piece {
        /// Bytes of a piece.
        piece_bytes: u64,
        /// Beside them.
        overhead_bytes: u64,
    },
    /// A whole piece would never find enough tokens.
    #[error(
        "a bucket of {burst_bytes} bytes, and pieces of {piece_bytes} with what is beside them"
    )]
    Burst {
        /// Depth of the buckets.
        burst_bytes: u64,
        /// A whole piece with its overhead.
        piece_bytes: u64,
    },
    /// A whole piece would never end within its slot.
    #[error("a slot for {slot_bytes} bytes, and pieces of {piece_bytes} with what is beside them")]
    Slot {
        /// What the link sends in a slot.
        slot_bytes: u64,
        /// A whole piece with its overhead.
        piece_bytes: u64,
    },
    /// A period in which not every builder has a turn.
    #[error("a period of {period} slots for {builders} builders and source {source_number}")]
    Period {
        /// Slots.
        period: u16,
        /// Builders.
        builders: u16,
        /// The source.
        source_number: u16,
    },
}

/// What became of a fragment that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits.
    Queued,
    /// It is dropped with account: the buffer is full.
    DroppedFull,
    /// It is dropped with account: it is larger than the buffer.
    DroppedTooLarge,
    /// It is dropped with account: its builder was lost before it came.
    DroppedBuilderLost,
    /// It is dropped with account: its event was closed before it came.
    DroppedWithdrawn,
    /// It is dropped with account: the run was aborted.
    DroppedAborted,
}

/// Why a fragment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unoffered {
    /// No room: offer it again when something was sent.
    #[error("{queued_bytes} bytes wait, and there is no room for {bytes} more")]
    Full {
        /// What waits.
        queued_bytes: u64,
        /// The fragment.
        bytes: u64,
    },
    /// Not later than the event before it.
    #[error("event {event} after event {last}")]
    Order {
        /// The fragment's event.
        event: u64,
        /// The event before.
        last: u64,
    },
}

/// A piece of a fragment, to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The event.
    pub event: u64,
    /// Where to.
    pub builder: BuilderId,
    /// Number of the fragment among those to that builder.
    pub sequence: u64,
    /// Where in the fragment the piece begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of the fragment.
    pub fragment_bytes: u64,
}

impl Piece {
    /// Whether it is the last of its fragment.
    #[must_use]
    pub const fn ends(&self) -> bool {
        self.offset + self.bytes == self.fragment_bytes
    }
}

/// What is known of an event.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    bytes: Option<u64>,
    sent_bytes: u64,
    builder: Option<BuilderId>,
    start: Option<Instant>,
    granted: bool,
    /// What becomes of the fragment when it comes, if it is not wanted.
    dropped: Option<Offered>,
}

/// The way to a builder.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Events whose fragments may go, in ascending order.
    ready: VecDeque<u64>,
    sequence: u64,
    full: bool,
    bucket: Option<Box<Tbf>>,
    /// The event whose next piece is in the bucket's queue.
    in_bucket: Option<u64>,
    asleep: Option<Instant>,
    /// Under which event it stands among the active.
    active: Option<u64>,
}

impl Lane {
    /// Events mostly become ready in their order.
    fn insert(&mut self, event: u64) {
        if self.ready.back().is_none_or(|&last| last < event) {
            self.ready.push_back(event);
            return;
        }
        let at = self.ready.partition_point(|&it| it < event);
        if self.ready.get(at) != Some(&event) {
            self.ready.insert(at, event);
        }
    }

    /// Mostly the first one goes.
    fn remove(&mut self, event: u64) {
        if self.ready.front() == Some(&event) {
            self.ready.pop_front();
        } else if let Ok(at) = self.ready.binary_search(&event) {
            self.ready.remove(at);
        }
    }
}

/// A source.
#[derive(Clone, Debug)]
pub struct Source {
    config: SourceConfig,
    pending: EventMap<Pending>,
    /// By the builder's number.
    lanes: Vec<Lane>,
    /// Lanes that may send, by the oldest event that may go: sorted, and not longer than there
    /// are builders.
    active: Vec<(u64, BuilderId)>,
    /// Lanes whose bucket does not hold enough.
    asleep: BTreeSet<(Instant, BuilderId)>,
    /// Fragments that may go from some time on.
    timed: BTreeSet<(Instant, u64)>,
    /// Of what was offered or is lacking.
    last_offered: Option<u64>,
    /// Events of which there is no fragment, and whose builder is not known, in ascending order.
    lacking: VecDeque<u64>,
    /// What builders are to be told of that.
    lacks: VecDeque<(BuilderId, u64)>,
    /// Events that are pending without their fragment, in ascending order: whatever takes one
    /// out takes the first.
    early: VecDeque<u64>,
    queued_bytes: u64,
    aborted: bool,
    now: Instant,
    account: SourceAccount,
}

impl Source {
    /// A source with nothing to send.
    ///
    /// # Errors
    ///
    /// A configuration by which something would never go.
    pub fn new(config: SourceConfig) -> Result<Self, ConfigError> {
        check(&config)?;
        Ok(Self {
            config,
            pending: EventMap::new(),
            lanes: Vec::new(),
            active: Vec::new(),
            asleep: BTreeSet::new(),
            timed: BTreeSet::new(),
            last_offered: None,
            lacking: VecDeque::new(),
            lacks: VecDeque::new(),
            early: VecDeque::new(),
            queued_bytes: 0,
            aborted: false,
            now: Instant::ORIGIN,
            account: SourceAccount::default(),
        })
    }

    /// What it is made of.
    #[must_use]
    pub const fn config(&self) -> SourceConfig {
        self.config
    }

    /// Its account.
    #[must_use]
    pub const fn account(&self) -> &SourceAccount {
        &self.account
    }

    /// Bytes of the fragments that wait.
    #[must_use]
    pub const fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Whether the fragment of `event` was taken, and neither sent nor dropped: its bytes are needed.
    #[must_use]
    pub fn holds(&self, event: u64) -> bool {
        self.pending.get(event).is_some_and(|it| it.bytes.is_some())
    }

    /// Takes the fragment of `event`; events come in ascending order.
    ///
    /// # Errors
    ///
    /// The fragment was not taken, and is not accounted for.
    pub fn offer(&mut self, event: u64, bytes: u64) -> Result<Offered, Unoffered> {
        if let Some(last) = self.last_offered.filter(|&last| event <= last) {
            return Err(Unoffered::Order { event, last });
        }
        let dropped = self.reason_to_drop(event, bytes);
        if dropped == Some(Offered::DroppedFull) && self.config.full == WhenFull::Block {
            let queued_bytes = self.queued_bytes;
            return Err(Unoffered::Full {
                queued_bytes,
                bytes,
            });
        }
        self.account.offered += 1;
        self.last_offered = Some(event);
        self.forget_early(event);
        if let Some(dropped) = dropped {
            self.drop_offered(event, dropped);
            return Ok(dropped);
        }
        self.queued_bytes += bytes;
        self.account.queued += 1;
        self.not_early(event);
        match self.pending.get_mut(event) {
            Some(pending) => pending.bytes = Some(bytes),
            None => {
                let bytes = Some(bytes);
                let pending = Pending {
                    bytes,
                    ..Pending::default()
                };
                self.pending.insert(event, pending);
            }
        }
        self.admit(event);
        Ok(Offered::Queued)
    }

    /// There is no fragment of `event`, and there will be none. Events come in ascending order,
    /// also with those that are offered.
    pub fn lack(&mut self, event: u64) {
        if self.aborted || self.last_offered.is_some_and(|last| event <= last) {
            return;
        }
        self.last_offered = Some(event);
        self.forget_early(event);
        self.not_early(event);
        match self.pending.remove(event) {
            // It is closed, or its builder is gone.
            Some(Pending {
                dropped: Some(_), ..
            }) => {}
            Some(Pending {
                builder: Some(builder),
                ..
            }) => self.lacks.push_back((builder, event)),
            _ => {
                self.lacking.push_back(event);
                if self.lacking.len() > EARLY_MAX {
                    self.lacking.pop_front();
                }
            }
        }
    }

    /// A builder that is to be told that it will get no fragment of this event.
    pub fn poll_lack(&mut self) -> Option<(BuilderId, u64)> {
        self.lacks.pop_front()
    }

    fn reason_to_drop(&self, event: u64, bytes: u64) -> Option<Offered> {
        let pending = self.pending.get(event);
        if self.aborted {
            Some(Offered::DroppedAborted)
        } else if let Some(dropped) = pending.and_then(|it| it.dropped) {
            Some(dropped)
        } else if bytes > self.config.buffer_bytes {
            Some(Offered::DroppedTooLarge)
        } else if bytes > self.config.buffer_bytes - self.queued_bytes {
            Some(Offered::DroppedFull)
        } else {
            None
        }
    }

    fn drop_offered(&mut self, event: u64, why: Offered) {
        let drops = &mut self.account.dropped;
        match why {
            Offered::DroppedFull => drops.full += 1,
            Offered::DroppedTooLarge => drops.too_large += 1,
            Offered::DroppedBuilderLost => drops.builder_lost += 1,
            Offered::DroppedWithdrawn => drops.withdrawn += 1,
            Offered::DroppedAborted => drops.aborted += 1,
            Offered::Queued => {}
        }
        self.pending.remove(event);
        self.not_early(event);
    }

    /// Events before `event` that have no fragment will not get one any more.
    fn forget_early(&mut self, event: u64) {
        while let Some(&first) = self.early.front().filter(|&&first| first < event) {
            self.early.pop_front();
            self.pending.remove(first);
        }
    }

    /// `event` has its fragment, or is forgotten.
    fn not_early(&mut self, event: u64) {
        if let Ok(at) = self.early.binary_search(&event) {
            self.early.remove(at);
        }
    }

    /// The entry of an event that was assigned or granted; `None` if its fragment will not come.
    fn known(&mut self, event: u64) -> Option<&mut Pending> {
        if !self.pending.contains(event) {
            if self.last_offered.is_some_and(|last| event <= last) {
                return None;
            }
            let at = self.early.partition_point(|&it| it < event);
            self.early.insert(at, event);
            self.pending.insert(event, Pending::default());
            if self.early.len() > EARLY_MAX {
                let oldest = self.early.pop_front();
                oldest.and_then(|event| self.pending.remove(event));
            }
        }
        self.pending.get_mut(event)
    }

    /// The manager has given `event` to `builder`, with [`Flow::Scheduled`] from `start` on.
    pub fn handle_assign(&mut self, event: u64, builder: BuilderId, start: Option<Instant>) {
        if let Ok(at) = self.lacking.binary_search(&event) {
            self.lacking.remove(at);
            self.lacks.push_back((builder, event));
            return;
        }
        let Some(pending) = self.known(event) else {
            return;
        };
        if pending.builder.is_some() {
            return;
        }
        pending.builder = Some(builder);
        pending.start = start;
        self.admit(event);
    }

    /// The builder of `event` lets it come.
    pub fn handle_grant(&mut self, event: u64) {
        let Some(pending) = self.known(event) else {
            return;
        };
        pending.granted = true;
        self.admit(event);
    }

    /// The builder of `event` has closed it, and does not want its fragment. One that is under way in
    /// pieces is sent to its end.
    pub fn handle_withdrawn(&mut self, event: u64) {
        let flow = self.config.flow;
        let Some(pending) = self.known(event) else {
            return;
        };
        if pending.bytes.is_none() {
            pending.dropped = Some(Offered::DroppedWithdrawn);
        } else if pending.sent_bytes == 0 && flow == Flow::Credits {
            let builder = pending.builder;
            self.forget(event);
            self.account.dropped.withdrawn += 1;
            let Some(builder) = builder else {
                return;
            };
            self.lane(builder).remove(event);
            self.refresh(builder);
        }
    }

    /// Lets the fragment of `event` go if nothing but time is missing.
    fn admit(&mut self, event: u64) {
        let Some(pending) = self.pending.get(event) else {
            return;
        };
        let (Some(_), Some(builder)) = (pending.bytes, pending.builder) else {
            return;
        };
        match (self.config.flow, pending.start) {
            (Flow::Credits, _) if !pending.granted => {}
            (Flow::Scheduled { slot }, Some(start)) => {
                let before = slot.checked_mul(u64::from(self.config.id.0));
                let at = before.map_or(Instant::MAX, |before| start.saturating_add(before));
                self.timed.insert((at, event));
            }
            _ => {
                self.lane(builder).insert(event);
                self.refresh(builder);
            }
        }
    }

    fn lane(&mut self, builder: BuilderId) -> &mut Lane {
        let at = usize::from(builder.0);
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, Lane::default);
        }
        &mut self.lanes[at]
    }

    /// Puts a lane where it belongs after a change.
    fn refresh(&mut self, builder: BuilderId) {
        let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) else {
            return;
        };
        let open = !lane.full && lane.asleep.is_none();
        let head = lane.ready.front().copied().filter(|_| open);
        if head == lane.active {
            return;
        }
        let before = core::mem::replace(&mut lane.active, head);
        if let Some(event) = before {
            self.deactivate(event, builder);
        }
        if let Some(event) = head {
            let at = self.active.partition_point(|it| *it < (event, builder));
            self.active.insert(at, (event, builder));
        }
    }

    fn deactivate(&mut self, event: u64, builder: BuilderId) {
        if let Ok(at) = self.active.binary_search(&(event, builder)) {
            self.active.remove(at);
        }
    }

    /// The transport takes no more for `builder` until [`Source::handle_room`].
    pub fn handle_full(&mut self, builder: BuilderId) {
        self.lane(builder).full = true;
        self.refresh(builder);
    }

    /// The transport takes pieces for `builder` again.
    pub fn handle_room(&mut self, builder: BuilderId) {
        if let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) {
            lane.full = false;
        }
        self.refresh(builder);
    }

    /// `builder` is lost, or begins again: what waits for it is dropped.
    pub fn handle_lost(&mut self, builder: BuilderId) {
        self.lacks.retain(|&(to, _)| to != builder);
        let its = |(event, it): (u64, &Pending)| (it.builder == Some(builder)).then_some(event);
        for event in self.pending.iter().filter_map(its).collect::<Vec<_>>() {
            let early = self.pending.get_mut(event).filter(|it| it.bytes.is_none());
            if let Some(early) = early {
                early.dropped = Some(Offered::DroppedBuilderLost);
            } else {
                self.forget(event);
                self.account.dropped.builder_lost += 1;
            }
        }
        if let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) {
            let lane = core::mem::take(lane);
            if let Some(event) = lane.active {
                self.deactivate(event, builder);
            }
            lane.asleep.map(|at| self.asleep.remove(&(at, builder)));
        }
    }

    /// The manager counts on this source from `event` on: after it was lost, or when the run
    /// starts. What is older is not waited for and dropped; sequence numbers begin again.
    pub fn handle_entered(&mut self, event: u64) {
        let older = self.pending.events().take_while(|&it| it < event);
        for event in older.collect::<Vec<_>>() {
            let builder = self.pending.get(event).and_then(|it| it.builder);
            let dropped = self.forget(event);
            self.account.dropped.left_out += u64::from(dropped);
            if let Some(lane) = builder.and_then(|it| self.lanes.get_mut(usize::from(it.0))) {
                lane.remove(event);
                if lane.in_bucket == Some(event) {
                    lane.in_bucket = None;
                    lane.bucket = None;
                }
            }
            builder
                .into_iter()
                .for_each(|builder| self.refresh(builder));
        }
        self.lacking.retain(|&it| it >= event);
        for lane in &mut self.lanes {
            lane.sequence = 0;
        }
    }

    /// The run is aborted: drops everything, and what comes after.
    pub fn abort(&mut self) {
        self.aborted = true;
        for event in self.pending.events().collect::<Vec<_>>() {
            let dropped = self.forget(event);
            self.account.dropped.aborted += u64::from(dropped);
        }
        self.lacking.clear();
        self.lacks.clear();
        self.lanes.clear();
        self.active.clear();
        self.asleep.clear();
        self.timed.clear();
    }

    /// Takes `event` out of the books; whether there was a fragment.
    fn forget(&mut self, event: u64) -> bool {
        let Some(pending) = self.pending.remove(event) else {
            return false;
        };
        let Some(bytes) = pending.bytes else {
            self.not_early(event);
            return false;
        };
        self.queued_bytes -= bytes;
        self.account.queued -= 1;
        true
    }

    /// The link is free: the piece to send now, or `None`: nothing may go.
    pub fn transmit(&mut self, now: Instant) -> Option<Piece> {
        self.now = self.now.max(now);
        let now = self.now;
        self.wake(now);
        match self.config.flow {
            Flow::Barrel(barrel) => self.transmit_in_slot(now, &barrel),
            Flow::Shaped { rate, burst } => self.transmit_shaped(now, rate, burst),
            _ => {
                let &(event, builder) = self.active.first()?;
                self.take(event, builder)
            }
        }
    }

    /// Lets go what waited for a time that has come.
    fn wake(&mut self, now: Instant) {
        while let Some(&(at, event)) = self.timed.first().filter(|(at, _)| *at <= now) {
            self.timed.remove(&(at, event));
            let builder = self.pending.get(event).and_then(|it| it.builder);
            if let Some(builder) = builder {
                self.lane(builder).insert(event);
                self.refresh(builder);
            }
        }
        while let Some(&(at, builder)) = self.asleep.first().filter(|(at, _)| *at <= now) {
            self.asleep.remove(&(at, builder));
            if let Some(lane) = self.lanes.get_mut(usize::from(builder.0)) {
                lane.asleep = None;
            }
            self.refresh(builder);
        }
    }

    fn transmit_in_slot(&mut self, now: Instant, barrel: &Barrel) -> Option<Piece> {
        let turn = barrel.turn(self.config.id, now);
        let builder = turn.builder?;
        let event = self.lanes.get(usize::from(builder.0))?.active?;
        let needed = self.next_bytes(event)? + self.config.overhead_bytes;
        if needed > barrel.room(&turn, now) {
            return None;
        }
        self.take(event, builder)
    }

    fn transmit_shaped(&mut self, now: Instant, rate: Rate, burst: ByteSize) -> Option<Piece> {
        while let Some(&(head, builder)) = self.active.first() {
            let lane = self.lanes.get(usize::from(builder.0))?;
            let event = lane.in_bucket.unwrap_or(head);
            let len_bytes = self.next_bytes(event)? + self.config.overhead_bytes;
            let lane = self.lanes.get_mut(usize::from(builder.0))?;
            let bucket = lane
                .bucket
                .get_or_insert_with(|| Box::new(new_bucket(rate, burst)));
            if lane.in_bucket.is_none() {
                let packet = Packet {
                    id: event,
                    // `check` has seen to it that it fits.
                    len_bytes: u32::try_from(len_bytes).unwrap_or(u32::MAX),
                    protocol: ETHERTYPE_IPV4,
                    bytes: Vec::new(),
                };
                // Neither too long, by `check`, nor is there another in the queue.
                let _ = bucket.enqueue(now, packet);
                lane.in_bucket = Some(event);
            }
            if bucket.dequeue(now).is_some() {
                lane.in_bucket = None;
                return self.take(event, builder);
            }
            let at = bucket.next_deadline().unwrap_or(Instant::MAX);
            lane.asleep = Some(at);
            self.asleep.insert((at, builder));
            self.refresh(builder);
        }
        None
    }

    /// Bytes of the next piece of `event`.
    fn next_bytes(&self, event: u64) -> Option<u64> {
        let pending = self.pending.get(event)?;
        let left = pending.bytes?.saturating_sub(pending.sent_bytes);
        Some(left.min(self.config.piece_bytes))
    }

    fn take(&mut self, event: u64, builder: BuilderId) -> Option<Piece> {
        let bytes = self.next_bytes(event)?;
        let pending = self.pending.get_mut(event)?;
        let lane = self.lanes.get_mut(usize::from(builder.0))?;
        let piece = Piece {
            event,
            builder,
            sequence: lane.sequence,
            offset: pending.sent_bytes,
            bytes,
            fragment_bytes: pending.bytes?,
        };
        pending.sent_bytes += bytes;
        if piece.ends() {
            lane.sequence += 1;
            lane.remove(event);
            self.pending.remove(event);
            self.queued_bytes -= piece.fragment_bytes;
            self.account.queued -= 1;
            self.account.sent += 1;
            self.account.sent_bytes += piece.fragment_bytes;
            self.refresh(builder);
        }
        Some(piece)
    }

    /// When to call [`Source::transmit`] although nothing else happens; at once if that
    /// instant has passed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let timed = self.timed.first().map(|&(at, _)| at);
        let asleep = self.asleep.first().map(|&(at, _)| at);
        let ready = (!self.active.is_empty()).then(|| match self.config.flow {
            Flow::Barrel(barrel) => barrel.turn(self.config.id, self.now).ends,
            _ => self.now,
        });
        [timed, asleep, ready].into_iter().flatten().min()
    }
}

fn new_bucket(rate: Rate, burst: ByteSize) -> Tbf {
    let config = tbf::Config {
        rate,
        burst,
        limit: ByteSize::MAX,
        peak: None,
    };
    Tbf::new(config, Timer::EXACT)
}

/// Whether every piece can go some time.
fn check(config: &SourceConfig) -> Result<(), ConfigError> {
    const PIECE_BYTES_MAX: u64 = 1 << 30;
    let whole = config.piece_bytes.saturating_add(config.overhead_bytes);
    if config.piece_bytes == 0 || whole > PIECE_BYTES_MAX {
        return Err(ConfigError::Piece {
            piece_bytes: config.piece_bytes,
            overhead_bytes: config.overhead_bytes,
        });
    }
    match config.flow {
        Flow::Shaped { burst, .. } if burst.as_bytes() < whole => Err(ConfigError::Burst {
            burst_bytes: burst.as_bytes(),
            piece_bytes: whole,
        }),
        Flow::Barrel(barrel) => check_barrel(config, &barrel, whole),
        _ => Ok(()),
    }
}

fn check_barrel(config: &SourceConfig, barrel: &Barrel, whole: u64) -> Result<(), ConfigError> {
    let slot_bytes = barrel.rate.bytes_in(barrel.slot).as_bytes();
    if slot_bytes < whole {
        return Err(ConfigError::Slot {
            slot_bytes,
            piece_bytes: whole,
        });
    }
    if barrel.period < barrel.builders || barrel.period <= config.id.0 {
        return Err(ConfigError::Period {
            period: barrel.period,
            builders: barrel.builders,
            source_number: config.id.0,
        });
    }
    Ok(())
}
