//! One card on the ring: the MAC behind the latency of its data path.
//!
//! What comes in is heard by the MAC when the latency is over, and what the MAC passes on
//! or begins is on the line at that same instant. So the latency counts once for each
//! card that a frame passes, and once where it ends.
//!
//! A frame that breaks in the elastic buffer goes on as a broken one, which its receiver
//! finds by its check; a token or RING_UP that breaks is no more. That the headers of a
//! broken frame still lead it is ours: the buffer breaks the end of a long frame.

use std::collections::{BTreeMap, VecDeque};

use barewire_classic::token::{
    Action, Class, Config, ConfigError, Offer, OfferError, State, Station, Stats,
};
use barewire_formats::atm::Vc;
use barewire_formats::jetstream::link::Fill;
use barewire_formats::jetstream::{FrameRepr, Kind, RID_MASTER};
use barewire_units::{ByteSize, Duration, Instant};

use super::{Clocks, Elastic};

const WORD_BYTES: u64 = 2;

/// What a card is told before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardConfig {
    /// The MAC.
    pub station: Config,
    /// From receiver to transmitter.
    pub latency: Duration,
    /// The clocks on both sides of the elastic buffer; without them it never breaks a frame.
    pub clocks: Option<Clocks>,
    /// Words of fill that it leaves behind each frame. The elastic buffers on the way lose one for
    /// each frame, and as many as their clocks differ; without a gap a long run of
    /// frames overruns them.
    pub gap_words: usize,
}

/// A frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// Its headers.
    pub repr: FrameRepr,
    /// The sender's name for a data frame; zero for any other.
    pub id: u64,
    /// It was damaged on its way.
    pub broken: bool,
}

/// What is on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The fill between frames.
    Fill(Fill),
    /// The first bit of a frame.
    Frame(Transit),
}

/// What a card does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// It puts this on the line.
    Line(Signal),
    /// It begins to send its host's frame, which ends then.
    Begins {
        /// The host's name for it.
        id: u64,
        /// When its last bit is sent, and the gap behind it.
        ends: Instant,
    },
    /// It has copied a frame to its host, whose last bit came then.
    Received {
        /// The sender's name for it.
        id: u64,
        /// When it was whole.
        whole: Instant,
        /// Whether it is damaged.
        broken: bool,
    },
    /// The MAC has taken the token.
    Token,
}

/// A card.
pub struct Card {
    config: CardConfig,
    station: Station,
    /// Heard, and not yet through the data path.
    path: VecDeque<(Instant, Signal)>,
    elastic: Option<Elastic>,
    slips: u64,
    /// Frames that the host has offered, with the headers that it wants.
    offered: BTreeMap<u64, FrameRepr>,
    fill: Fill,
    outputs: VecDeque<Output>,
}

impl Card {
    /// A card that was just switched on.
    ///
    /// # Errors
    /// What the MAC refuses.
    pub fn new(config: CardConfig, now: Instant) -> Result<Self, ConfigError> {
        let mut card = Self {
            config,
            station: Station::new(config.station, now)?,
            path: VecDeque::new(),
            elastic: config.clocks.map(Elastic::new),
            slips: 0,
            offered: BTreeMap::new(),
            fill: Fill::Fw0,
            outputs: VecDeque::new(),
        };
        card.act();
        Ok(card)
    }

    /// Whether its MAC is in service.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !matches!(self.state(), State::Fw0 | State::Fw1 | State::Numbering)
    }

    /// Where its MAC stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.station.state()
    }

    /// Its number on the ring, once it has one.
    #[must_use]
    pub fn rid(&self) -> Option<u8> {
        self.station.rid()
    }

    /// What the MAC has counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.station.stats()
    }

    /// Frames and tokens that broke in its elastic buffer.
    #[must_use]
    pub fn slips(&self) -> u64 {
        self.slips
    }

    /// Receives the frames of `vc` from now on; false outside the space of the ring.
    pub fn receive(&mut self, vc: Vc) -> bool {
        self.station.active_vcs().insert(vc)
    }

    /// Frames that wait to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.station.waiting()
    }

    /// The host has a frame for the ring.
    ///
    /// # Errors
    /// The MAC's queue is full, or the frame has a length that the ring does not allow.
    pub fn offer(
        &mut self,
        now: Instant,
        id: u64,
        class: Class,
        repr: FrameRepr,
    ) -> Result<(), OfferError> {
        let gap_bytes = self.config.gap_words.saturating_mul(WORD_BYTES as usize);
        let frame_bytes = repr.buffer_len().saturating_add(gap_bytes);
        let offer = Offer {
            id,
            class,
            frame_bytes,
        };
        self.station.offer(now, offer)?;
        self.offered.insert(id, repr);
        self.act();
        Ok(())
    }

    /// Something comes in: a fill, or the first bit of a frame.
    pub fn handle(&mut self, now: Instant, signal: Signal) {
        let due = now.saturating_add(self.config.latency);
        self.path.push_back((due, signal));
    }

    /// The line repeats its fill for as long as there is no frame; a caller that does not
    /// want to hear of each asks for one when the other end is to hear it.
    pub fn repeat_fill(&mut self) {
        self.outputs
            .push_back(Output::Line(Signal::Fill(self.fill)));
    }

    /// When [`Card::handle_timer`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let path = self.path.front().map(|(due, _)| *due);
        match (path, self.station.next_deadline()) {
            (Some(path), Some(station)) => Some(path.min(station)),
            (path, station) => path.or(station),
        }
    }

    /// The deadline has come.
    pub fn handle_timer(&mut self, now: Instant) {
        while self.path.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, signal)) = self.path.pop_front() {
                self.hear(now, signal);
            }
        }
        self.station.handle_timer(now);
        self.act();
    }

    /// What it was told.
    #[must_use]
    pub fn config(&self) -> CardConfig {
        self.config
    }

    /// Whether it has nothing to do but to pass tokens on, and when it next does, if one is on its way through
    /// the data path.
    #[must_use]
    pub fn idle(&self) -> Option<Option<Instant>> {
        if !self.station.is_idle() || !self.outputs.is_empty() {
            return None;
        }
        match (self.path.front(), self.path.len()) {
            (None, _) => Some(None),
            (Some((due, signal)), 1) if signal.is_token() => Some(Some(*due)),
            _ => None,
        }
    }

    /// So many tokens have passed it while it was idle, one each `rotation`, and its MAC has heard the last at `last`:
    /// see [`Station::handle_idle_tokens`]. None is on its way through it any more.
    pub fn handle_idle_tokens(&mut self, last: Instant, rotation: Duration, tokens: u64) {
        if tokens == 0 {
            return;
        }
        self.path.clear();
        if let Some(elastic) = &mut self.elastic {
            // Of those before nothing is left in the buffer, which has room for a token whatever the clocks.
            let token = FrameRepr::token(RID_MASTER);
            let passed = elastic.pass(last, token.buffer_len() as u64 / WORD_BYTES);
            debug_assert!(passed.is_ok());
        }
        self.station.handle_idle_tokens(last, rotation, tokens);
    }

    /// The token, as it leaves this card.
    #[must_use]
    pub fn token(&self) -> Signal {
        let rid = self.station.rid().unwrap_or(RID_MASTER);
        Signal::Frame(Transit::new(FrameRepr::token(rid), 0))
    }

    /// The next thing that it does.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn hear(&mut self, now: Instant, signal: Signal) {
        let mut transit = match signal {
            Signal::Fill(fill) => {
                self.station.handle_fill(now, fill);
                return self.act();
            }
            Signal::Frame(transit) => transit,
        };
        let bytes = ByteSize::from(transit.repr.buffer_len());
        let words = bytes.as_bytes() / WORD_BYTES;
        let elastic = self.elastic.as_mut();
        if elastic.is_some_and(|elastic| elastic.pass(now, words).is_err()) {
            self.slips += 1;
            transit.broken = true;
            if !matches!(transit.repr.kind, Kind::Data { .. }) {
                return;
            }
        }
        let tokens = self.station.stats().tokens;
        let verdict = self.station.handle_frame(now, transit.repr);
        if self.station.stats().tokens > tokens {
            self.outputs.push_back(Output::Token);
        }
        if verdict.copy {
            let rate = self.config.station.budget.rate;
            self.outputs.push_back(Output::Received {
                id: transit.id,
                whole: now.saturating_add(rate.time_to_send(bytes)),
                broken: transit.broken,
            });
        }
        if let Some(repr) = verdict.forward {
            let signal = Signal::Frame(Transit { repr, ..transit });
            self.outputs.push_back(Output::Line(signal));
        }
        self.act();
    }

    /// Does what the MAC wants.
    fn act(&mut self) {
        while let Some(action) = self.station.poll_action() {
            match action {
                Action::Fill(fill) => {
                    self.fill = fill;
                    self.repeat_fill();
                }
                Action::Frame(repr) => {
                    let signal = Signal::Frame(Transit::new(repr, 0));
                    self.outputs.push_back(Output::Line(signal));
                }
                Action::Send {
                    id, src_rid, ends, ..
                } => self.send(id, src_rid, ends),
            }
        }
    }

    fn send(&mut self, id: u64, src_rid: u8, ends: Instant) {
        let Some(mut repr) = self.offered.remove(&id) else {
            return;
        };
        repr.header.src_rid = src_rid;
        self.outputs.push_back(Output::Begins { id, ends });
        let signal = Signal::Frame(Transit::new(repr, id));
        self.outputs.push_back(Output::Line(signal));
    }
}

impl Transit {
    const fn new(repr: FrameRepr, id: u64) -> Self {
        Self {
            repr,
            id,
            broken: false,
        }
    }
}

impl Signal {
    /// Whether it is a token.
    #[must_use]
    pub fn is_token(&self) -> bool {
        matches!(self, Self::Frame(transit) if transit.repr.kind == Kind::Token)
    }
}
