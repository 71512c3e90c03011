//! One node of the ring: what it does with frames, fills and time.

use alloc::collections::VecDeque;

use barewire_formats::jetstream::link::Fill;
use barewire_formats::jetstream::{
    AddrType, FrameRepr, HeaderRepr, Kind, OVERHEAD_BYTES, RID_MASTER, RID_MAX,
};
use barewire_units::{Duration, Instant};
use thiserror::Error;

use super::rotation::Rotation;
use super::{ActiveList, Config, ConfigError, Event, Role, State};

/// How a frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Within the allotment, each rotation; beyond it as asynchronous.
    Synchronous,
    /// While the token is early.
    Asynchronous,
}

/// A frame that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The caller's name for it.
    pub id: u64,
    /// How it is to be sent.
    pub class: Class,
    /// Length of the whole frame, headers included.
    pub frame_bytes: usize,
}

/// Why a frame can not wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// No frame is that short, or none on this ring that long.
    #[error("a frame of {frame_bytes} bytes, where {bytes_min} to {bytes_max} are allowed")]
    Length {
        /// Of the frame offered.
        frame_bytes: usize,
        /// Headers alone.
        bytes_min: usize,
        /// Of the budget.
        bytes_max: usize,
    },
    /// As many wait as may.
    #[error("{frames} frames of this class wait already")]
    QueueFull {
        /// Frames that wait.
        frames: usize,
    },
}

/// What a station does of its own accord, in the order of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this fill between frames from now on. FW0 also ends a frame that is being sent.
    Fill(Fill),
    /// Send this RING_UP or token.
    Frame(FrameRepr),
    /// Send the offered frame, its SRC_RID `src_rid`. `handle_timer` is due at `ends`.
    Send {
        /// The caller's name for it.
        id: u64,
        /// This station.
        src_rid: u8,
        /// What it is paid from: the allotment, or THT. Asynchronous on a full-duplex link.
        paid: Class,
        /// When its last bit is sent.
        ends: Instant,
    },
}

/// What to do with a frame that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Copy it to the host.
    pub copy: bool,
    /// Pass it on with these headers, or `None`: take it off the ring.
    pub forward: Option<FrameRepr>,
}

impl Verdict {
    const REMOVE: Self = Self::pass(None);

    const fn pass(forward: Option<FrameRepr>) -> Self {
        Self {
            copy: false,
            forward,
        }
    }
}

/// What a station has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Frames sent from the allotment.
    pub sent_synchronous: u64,
    /// Frames sent from THT, or on a full-duplex link.
    pub sent_asynchronous: u64,
    /// Frames that a restart cut off.
    pub aborted: u64,
    /// Frames copied to the host.
    pub copied: u64,
    /// Frames removed because their SRC_RID is our own.
    pub stripped_own: u64,
    /// Master: frames removed because they passed before.
    pub stripped_by_monitor: u64,
    /// Frames of others removed because we were sending, or on a full-duplex link.
    pub removed: u64,
    /// Tokens that arrived and were not superfluous.
    pub tokens: u64,
    /// Of these, the late ones.
    pub tokens_late: u64,
    /// Of these, those with TRT over more than once: the budget was broken, or a token lost.
    pub tokens_late_twice: u64,
    /// Tokens removed because one is held, or none may be about.
    pub tokens_removed: u64,
    /// Master: tokens issued after a loss.
    pub tokens_replaced: u64,
    /// Times that the station fell back to FW0.
    pub restarts: u64,
    /// Master: restarts because there were too many hosts.
    pub rings_too_large: u64,
}

/// One node: host or master.
///
/// Time must not run backwards; an earlier `now` counts as the latest one seen. After each
/// call drain [`Station::poll_action`]; call [`Station::handle_timer`] at
/// [`Station::next_deadline`].
#[derive(Clone, Debug)]
pub struct Station {
    config: Config,
    state: State,
    rid: Option<u8>,
    hosts: Option<u8>,
    active: ActiveList,
    rotation: Rotation,
    /// What is left of the allotment, and of THT, while the token is held.
    synchronous_left: Duration,
    tht: Duration,
    sending: bool,
    /// End of sending (Holding, Duplex), token due (Waiting), end of the response time
    /// (Recovering), or of a timeout (Fw1, Numbering).
    timer: Option<Instant>,
    now: Instant,
    /// Master: until when it does not answer FW0, so that FW0 gets once round.
    deaf_until: Instant,
    token_seen: Instant,
    synchronous: VecDeque<Offer>,
    asynchronous: VecDeque<Offer>,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Station {
    /// A station that was just switched on: sends FW0.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config, now: Instant) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            state: State::Fw0,
            rid: None,
            hosts: None,
            active: ActiveList::new(),
            rotation: Rotation::start(now, config.budget.ttrt),
            synchronous_left: Duration::ZERO,
            tht: Duration::ZERO,
            sending: false,
            timer: None,
            now,
            deaf_until: now.saturating_add(config.budget.ring_latency),
            token_seen: now,
            synchronous: VecDeque::new(),
            asynchronous: VecDeque::new(),
            actions: VecDeque::from([Action::Fill(Fill::Fw0)]),
            stats: Stats::default(),
        })
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Its number on the ring, once it has one.
    #[must_use]
    pub fn rid(&self) -> Option<u8> {
        self.rid
    }

    /// Master: the hosts on the ring, once they are counted.
    #[must_use]
    pub fn hosts(&self) -> Option<u8> {
        self.hosts
    }

    /// What it has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Frames of both classes that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.synchronous.len() + self.asynchronous.len()
    }

    /// The VCs that it receives.
    pub fn active_vcs(&mut self) -> &mut ActiveList {
        &mut self.active
    }

    /// The next thing to do; `None` when all is done.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Station::handle_timer`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timer
    }

    /// A frame wants to be sent.
    ///
    /// # Errors
    /// [`OfferError`]: it does not wait here.
    pub fn offer(&mut self, now: Instant, offer: Offer) -> Result<(), OfferError> {
        self.advance(now);
        let bytes_max = self.config.budget.frame_bytes_max;
        let frame_bytes = offer.frame_bytes;
        if !(OVERHEAD_BYTES..=bytes_max).contains(&frame_bytes) {
            return Err(OfferError::Length {
                frame_bytes,
                bytes_min: OVERHEAD_BYTES,
                bytes_max,
            });
        }
        let frames_max = self.config.queue_frames_max;
        let queue = match offer.class {
            Class::Synchronous => &mut self.synchronous,
            Class::Asynchronous => &mut self.asynchronous,
        };
        if queue.len() >= frames_max {
            let frames = queue.len();
            return Err(OfferError::QueueFull { frames });
        }
        queue.push_back(offer);
        if self.state == State::Duplex && !self.sending {
            self.send_next();
        }
        Ok(())
    }

    /// A fill was received. The line is never silent: call it for each fill, or again and
    /// again while the same is heard.
    pub fn handle_fill(&mut self, now: Instant, fill: Fill) {
        self.advance(now);
        if self.state == State::Fw0 && self.is_master() && self.now < self.deaf_until {
            return;
        }
        self.happen(match (self.config.role, fill) {
            (Role::Host, Fill::Fw0) => Event::HostHearsFw0,
            (Role::Host, Fill::Fw1) => Event::HostHearsFw1,
            (Role::Master, Fill::Fw0) => Event::MasterHearsFw0,
            (Role::Master, Fill::Fw1) => Event::MasterHearsFw1,
        });
    }

    /// The receiver has no signal: fibre cut, neighbour off.
    pub fn handle_link_lost(&mut self, now: Instant) {
        self.advance(now);
        self.happen(Event::LinkLost);
    }

    /// The headers of a frame arrive.
    #[must_use]
    pub fn handle_frame(&mut self, now: Instant, frame: FrameRepr) -> Verdict {
        self.advance(now);
        match (frame.kind, self.config.role) {
            (Kind::Data { .. }, _) => self.data(frame),
            (Kind::Token, _) => self.token(frame),
            (Kind::RingUp { hop_count }, Role::Host) => self.ring_up_passes(hop_count),
            (Kind::RingUp { hop_count }, Role::Master) => self.ring_up_returns(hop_count),
        }
    }

    /// The deadline has come.
    pub fn handle_timer(&mut self, now: Instant) {
        self.advance(now);
        if self.timer.is_none_or(|timer| timer > self.now) {
            return;
        }
        self.timer = None;
        match self.state {
            State::Holding | State::Duplex => self.send_next(),
            State::Waiting => self.happen(Event::TokenLost),
            _ => self.happen(Event::Timeout),
        }
    }

    /// Whether it waits for the token, has nothing to send, and the token was early when it came last. So it will be
    /// the next time, if that is within TTRT.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let waits = self.state == State::Waiting && self.actions.is_empty();
        waits && self.waiting() == 0 && self.rotation.was_early(self.token_seen)
    }

    /// So many tokens have come and gone while it was idle, one each `rotation`, which is at most TTRT, and the last
    /// at `last`: it is as if [`Station::handle_frame`] had been called for each. For whoever leaves the turns of an
    /// idle ring out.
    pub fn handle_idle_tokens(&mut self, last: Instant, rotation: Duration, tokens: u64) {
        let ttrt = self.config.budget.ttrt;
        if tokens == 0 {
            return;
        }
        self.advance(last);
        self.rotation = Rotation::start(self.now, ttrt);
        self.tht = ttrt.saturating_sub(rotation);
        self.synchronous_left = self.config.synchronous;
        self.token_seen = self.now;
        self.stats.tokens += tokens;
        self.expect_token();
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn after(&self, duration: Duration) -> Instant {
        self.now.saturating_add(duration)
    }

    fn is_master(&self) -> bool {
        self.config.role == Role::Master
    }

    /// Takes the transition for `event`, if there is one, and does what it calls for.
    fn happen(&mut self, event: Event) {
        let Some(next) = self.state.on(event) else {
            return;
        };
        let from = core::mem::replace(&mut self.state, next);
        match next {
            State::Fw0 => self.enter_fw0(),
            State::Fw1 => self.enter_fw1(from),
            State::Numbering => self.enter_numbering(),
            State::Waiting => self.enter_waiting(from, event),
            State::Holding => self.enter_holding(),
            State::Recovering => self.timer = Some(self.after(self.config.response)),
            State::Duplex => {
                self.stop_sending();
                self.send_next();
            }
        }
    }

    fn enter_fw0(&mut self) {
        self.stop_sending();
        self.actions.clear();
        self.actions.push_back(Action::Fill(Fill::Fw0));
        self.deaf_until = self.after(self.config.budget.ring_latency);
        self.rid = None;
        self.hosts = None;
        self.stats.restarts += 1;
    }

    fn enter_fw1(&mut self, from: State) {
        self.stop_sending();
        if from == State::Fw0 {
            self.actions.push_back(Action::Fill(Fill::Fw1));
        }
        if self.is_master() {
            self.timer = Some(self.after(self.config.link_timeout));
        }
    }

    fn enter_numbering(&mut self) {
        self.rid = Some(RID_MASTER);
        self.rotation = Rotation::start(self.now, self.config.budget.ttrt);
        self.actions.push_back(Action::Frame(FrameRepr::ring_up(0)));
        self.timer = Some(self.after(self.config.numbering_timeout));
    }

    fn enter_waiting(&mut self, from: State, event: Event) {
        if event == Event::Released {
            self.issue_token();
        } else if self.is_master() {
            // RING_UP is back, or the interrupt for a lost token is served.
            if from == State::Recovering {
                self.stats.tokens_replaced += 1;
            }
            self.rotation = Rotation::start(self.now, self.config.budget.ttrt);
            self.token_seen = self.now;
            self.issue_token();
        } else {
            self.stop_sending();
            self.rotation = Rotation::start(self.now, self.config.budget.ttrt);
        }
        self.expect_token();
    }

    fn issue_token(&mut self) {
        let rid = self.rid.unwrap_or(RID_MASTER);
        self.actions.push_back(Action::Frame(FrameRepr::token(rid)));
    }

    /// The master waits for the token no longer than 2 · TTRT from when it came last.
    fn expect_token(&mut self) {
        let ttrt = self.config.budget.ttrt;
        let due = self.token_seen.saturating_add(ttrt.saturating_add(ttrt));
        // At the end of time there is no later: it would be lost again and again.
        let waits = self.is_master() && due < Instant::MAX;
        self.timer = waits.then_some(due);
    }

    fn enter_holding(&mut self) {
        let (tht, late_count) = self.rotation.token(self.now);
        self.tht = tht;
        self.synchronous_left = self.config.synchronous;
        self.token_seen = self.now;
        self.stats.tokens += 1;
        self.stats.tokens_late += u64::from(late_count > 0);
        self.stats.tokens_late_twice += u64::from(late_count > 1);
        self.send_next();
    }

    /// Forgets the frame that is being sent, and any timer.
    fn stop_sending(&mut self) {
        self.stats.aborted += u64::from(self.sending);
        self.sending = false;
        self.timer = None;
    }

    /// Sends the next frame that may be sent, or gives the token away.
    fn send_next(&mut self) {
        let Some((offer, paid, duration)) = self.choose() else {
            self.sending = false;
            self.timer = None;
            self.happen(Event::Released);
            return;
        };
        match paid {
            Class::Synchronous => self.stats.sent_synchronous += 1,
            Class::Asynchronous => self.stats.sent_asynchronous += 1,
        }
        let ends = self.after(duration);
        self.sending = true;
        self.timer = Some(ends);
        self.actions.push_back(Action::Send {
            id: offer.id,
            src_rid: self.rid.unwrap_or(RID_MASTER),
            paid,
            ends,
        });
    }

    /// Takes the frame to be sent now from its queue, and its time from the allotment or THT.
    fn choose(&mut self) -> Option<(Offer, Class, Duration)> {
        let time = |offer: &Offer| self.config.budget.time(offer.frame_bytes);
        let fits =
            |offer: &&Offer| self.state == State::Holding && time(offer) <= self.synchronous_left;
        if let Some(offer) = self.synchronous.front().filter(fits).copied() {
            let duration = time(&offer);
            self.synchronous_left = self.synchronous_left.saturating_sub(duration);
            self.synchronous.pop_front();
            return Some((offer, Class::Synchronous, duration));
        }
        if self.state == State::Holding && self.tht.is_zero() {
            return None;
        }
        let first = self.synchronous.pop_front();
        let offer = first.or_else(|| self.asynchronous.pop_front())?;
        let duration = self.config.budget.time(offer.frame_bytes);
        self.tht = self.tht.saturating_sub(duration);
        Some((offer, Class::Asynchronous, duration))
    }

    fn token(&mut self, token: FrameRepr) -> Verdict {
        match self.state {
            State::Waiting | State::Recovering => {
                self.happen(Event::TokenArrives);
                Verdict::REMOVE
            }
            State::Fw1 if !self.is_master() => Verdict::pass(Some(token)),
            _ => {
                self.stats.tokens_removed += 1;
                Verdict::REMOVE
            }
        }
    }

    /// A host counts itself and takes the count as its number.
    fn ring_up_passes(&mut self, hop_count: u8) -> Verdict {
        if self.state == State::Fw0 {
            return Verdict::REMOVE;
        }
        let hop_count = hop_count.saturating_add(1);
        self.rid = (hop_count <= RID_MAX).then_some(hop_count);
        let event = self.numbered(self.rid.is_some());
        self.happen(event);
        Verdict::pass(Some(FrameRepr::ring_up(hop_count)))
    }

    /// The master learns how many hosts there are.
    fn ring_up_returns(&mut self, hop_count: u8) -> Verdict {
        if self.state != State::Numbering {
            return Verdict::REMOVE;
        }
        let hosts_max = if self.config.full_duplex { 1 } else { RID_MAX };
        let event = self.numbered(hop_count <= hosts_max);
        self.stats.rings_too_large += u64::from(event == Event::TooManyHosts);
        self.hosts = Some(hop_count);
        self.happen(event);
        Verdict::REMOVE
    }

    fn numbered(&self, enough: bool) -> Event {
        match (enough, self.config.full_duplex) {
            (false, _) => Event::TooManyHosts,
            (true, true) => Event::NumberedDuplex,
            (true, false) => Event::Numbered,
        }
    }

    fn data(&mut self, frame: FrameRepr) -> Verdict {
        let master = self.is_master();
        let Some(rid) = self.rid else {
            // A host that has no number yet is a repeater; the master keeps the ring clean.
            let repeat = self.state == State::Fw1 && !master;
            return Verdict::pass(repeat.then_some(frame));
        };
        let circled = master && frame.header.monitor;
        let copy = !circled && self.is_addressed(rid, frame);
        self.stats.copied += u64::from(copy);
        let forward = if circled {
            self.stats.stripped_by_monitor += 1;
            None
        } else if frame.header.src_rid == rid {
            self.stats.stripped_own += 1;
            None
        } else if !matches!(self.state, State::Waiting | State::Recovering) {
            self.stats.removed += 1;
            None
        } else {
            let monitor = frame.header.monitor || master;
            let header = HeaderRepr {
                monitor,
                ..frame.header
            };
            Some(FrameRepr { header, ..frame })
        };
        Verdict { copy, forward }
    }

    fn is_addressed(&self, rid: u8, frame: FrameRepr) -> bool {
        match (frame.header.addr_type, frame.kind) {
            (AddrType::Rid, _) => frame.header.dst_rid == rid,
            (AddrType::Vc, Kind::Data { cell_header, .. }) => self.active.contains(cell_header.vc),
            _ => false,
        }
    }
}
