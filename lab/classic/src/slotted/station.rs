//! A station: what it does to a frame that passes, its FIFOs, and what becomes of its cells.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use barewire_formats::cbn::{CELL_BYTES, SLOTS};
use barewire_units::{Duration, Instant};

use super::slot::{Cell, SlotState, SlottedFrame, Verdict};
use super::{Channel, FIFO_CELLS, FRAMES, ROTATION};

/// Most frames that a station can count.
const FRAMES_MAX: usize = 65_536;

/// Whether a station can receive and transmit at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplex {
    /// It does not transmit in a frame in which it receives: its buffer memory has time for
    /// one of the two only.
    Half,
    /// Both in the same frame.
    Full,
}

/// What a station is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames on the ring, at most 65 536. A wrong number makes the station lose its own
    /// cells, but never release those of others.
    pub frames: usize,
    /// The channel that it receives from.
    pub receive_channel: Channel,
    /// Its size: the slots of one frame that it may fill, 1 to 4.
    pub channels_at_once: usize,
    /// Whether it transmits while it receives.
    pub duplex: Duplex,
    /// Cells that the receive FIFO holds.
    pub receive_fifo_cells: usize,
    /// Cells that each of the four transmit FIFOs holds.
    pub transmit_fifo_cells: usize,
    /// How long no frame may come before the ring counts as broken. OPEN in the source.
    pub silence: Duration,
}

impl Config {
    /// The V1S station on the measured ring, listening to `receive_channel`: half duplex,
    /// FIFOs of 256 cells, one slot of a frame; patient for two rotations.
    #[must_use]
    pub const fn v1s(receive_channel: Channel) -> Self {
        Self {
            frames: FRAMES,
            receive_channel,
            channels_at_once: 1,
            duplex: Duplex::Half,
            receive_fifo_cells: FIFO_CELLS,
            transmit_fifo_cells: FIFO_CELLS,
            silence: Duration::from_ps(2 * ROTATION.as_ps()),
        }
    }
}

/// Why a station can not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No frames, or too many to count.
    #[error("{0} frames on the ring; 1 to {FRAMES_MAX} can be counted")]
    Frames(usize),
    /// A size that no station has.
    #[error("{0} channels at once; a frame has 1 to {SLOTS}")]
    ChannelsAtOnce(usize),
    /// A FIFO that holds nothing.
    #[error("a FIFO of no cells")]
    Fifo,
}

/// Why a cell is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The transmit FIFO of the channel is full. The cell is not taken.
    #[error("the FIFO of channel {} is full with {cells} cells", channel.index())]
    Full {
        /// The channel.
        channel: Channel,
        /// Cells that wait there.
        cells: usize,
    },
}

/// Names one cell given to [`Station::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It came round; receivers said this. Sending again is the caller's matter.
    Returned(Verdict),
    /// What receivers said is not known.
    Lost(Loss),
}

/// How a cell was lost on the ring. It may have been received all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its frame was damaged.
    Damaged,
    /// Its slot came back empty.
    Emptied,
    /// Its slot came back with another cell, which was left alone.
    Replaced,
    /// No frame came any more.
    RingSilent,
    /// The ring was formed anew.
    RingReformed,
}

/// The end of one cell's journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which cell.
    pub ticket: Ticket,
    /// The channel that it was sent on.
    pub channel: Channel,
    /// What became of it.
    pub outcome: Outcome,
}

/// What the station did to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The frame came with a wrong header or CRC.
    pub damaged: bool,
    /// Own slots that it emptied.
    pub released: [bool; SLOTS],
    /// Slots that it filled.
    pub filled: [bool; SLOTS],
    /// It copied a cell.
    pub received: bool,
    /// A cell that it listens to found the receive FIFO full.
    pub refused: bool,
}

/// What a station has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationStats {
    /// Frames that passed.
    pub frames: u64,
    /// Frames that arrived with a wrong header or CRC.
    pub damaged_frames: u64,
    /// Cells put on the ring: the sum of the eight numbers that follow, and the cells that
    /// are on it.
    pub sent: u64,
    /// Cells that came back accepted.
    pub accepted: u64,
    /// Cells that came back accepted by some and refused by others.
    pub marked: u64,
    /// Cells that came back refused.
    pub refused: u64,
    /// Cells that nobody listened to.
    pub nobody: u64,
    /// Cells lost with a damaged frame.
    pub lost_damaged: u64,
    /// Cells whose slot came back empty.
    pub lost_emptied: u64,
    /// Cells whose slot came back with another one.
    pub lost_replaced: u64,
    /// Cells that were on a ring which fell silent or was formed anew.
    pub lost_with_ring: u64,
    /// Cells copied into the receive FIFO.
    pub received: u64,
    /// Cells refused because the receive FIFO was full.
    pub refused_full: u64,
    /// Frames in which a half-duplex station that has cells to send received instead.
    pub held_receiving: u64,
    /// Cells not copied again when their slot came round twice.
    pub duplicates: u64,
    /// Cells not taken by [`Station::send`] because the transmit FIFO was full.
    pub transmit_full: u64,
}

/// A cell that waits for a slot.
#[derive(Clone, Debug)]
struct Queued<C> {
    ticket: Ticket,
    cell: C,
}

/// A cell that is on the ring, known by its place and its first word.
#[derive(Clone, Copy, Debug)]
struct Sent {
    ticket: Ticket,
    word: u32,
}

/// A transmit FIFO.
#[derive(Clone, Debug)]
struct Queue<C> {
    cells: VecDeque<Queued<C>>,
    /// Number of the last service among those of the station's queues.
    served: u64,
}

impl<C> Queue<C> {
    const EMPTY: Self = Self {
        cells: VecDeque::new(),
        served: 0,
    };
}

/// What a station knows of one frame of the ring.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Its own cells there.
    sent: [Option<Sent>; SLOTS],
    /// First word of the cell copied from there in the last rotation.
    copied: Option<u32>,
}

/// The medium access of one station.
#[derive(Clone, Debug)]
pub struct Station<C = [u8; CELL_BYTES]> {
    config: Config,
    listening: BTreeSet<u16>,
    queues: [Queue<C>; SLOTS],
    received: VecDeque<C>,
    places: Vec<Place>,
    /// Index in `places` of the frame that comes next.
    next_place: usize,
    /// What it did to the frame that came last.
    passage: Passage,
    in_flight: usize,
    last_frame: Instant,
    next_ticket: u64,
    services: u64,
    reports: VecDeque<Report>,
    stats: StationStats,
}

impl<C: Cell> Station<C> {
    /// A station that listens to nothing yet.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] where a number is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if !(1..=SLOTS).contains(&config.channels_at_once) {
            return Err(ConfigError::ChannelsAtOnce(config.channels_at_once));
        }
        if config.receive_fifo_cells == 0 || config.transmit_fifo_cells == 0 {
            return Err(ConfigError::Fifo);
        }
        Ok(Self {
            config,
            listening: BTreeSet::new(),
            queues: [const { Queue::EMPTY }; SLOTS],
            received: VecDeque::new(),
            places: places(config.frames)?,
            next_place: 0,
            passage: Passage::default(),
            in_flight: 0,
            last_frame: Instant::ORIGIN,
            next_ticket: 0,
            services: 0,
            reports: VecDeque::new(),
            stats: StationStats::default(),
        })
    }

    /// What it was made of; `frames` as last told.
    #[must_use]
    pub const fn config(&self) -> Config {
        self.config
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> StationStats {
        self.stats
    }

    /// Own cells that are on the ring.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Cells that wait for a slot of `channel`.
    #[must_use]
    pub fn queued(&self, channel: Channel) -> usize {
        self.queues[channel.index()].cells.len()
    }

    /// Receives cells of `vci` from now on.
    pub fn listen(&mut self, vci: u16) {
        self.listening.insert(vci);
    }

    /// Receives cells of `vci` no more.
    pub fn stop_listening(&mut self, vci: u16) {
        self.listening.remove(&vci);
    }

    /// Queues `cell` for `channel`, the one that its destination listens to. What became
    /// of it comes later, as a [`Report`] with this ticket.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`]; the cell is not taken, and counted.
    pub fn send(&mut self, channel: Channel, cell: C) -> Result<Ticket, SendError> {
        let cells = &mut self.queues[channel.index()].cells;
        if cells.len() >= self.config.transmit_fifo_cells {
            self.stats.transmit_full += 1;
            return Err(SendError::Full {
                channel,
                cells: cells.len(),
            });
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        cells.push_back(Queued { ticket, cell });
        Ok(ticket)
    }

    /// A frame passes. What it left behind is in [`Station::poll_received`] and
    /// [`Station::poll_report`].
    pub fn handle_frame<F: SlottedFrame<Cell = C>>(
        &mut self,
        now: Instant,
        frame: &mut F,
    ) -> Passage {
        self.last_frame = now;
        self.stats.frames += 1;
        let place = self.next_place;
        self.next_place = (place + 1) % self.places.len();

        self.passage = Passage {
            damaged: !frame.admit(),
            ..Passage::default()
        };
        self.stats.damaged_frames += u64::from(self.passage.damaged);
        self.take_back(place, frame);
        self.receive(place, frame);
        self.transmit(place, frame);
        frame.seal();
        self.passage
    }

    /// So many frames have passed that were sound and empty, a rotation and more after the last
    /// cell, while nothing waited here: they are counted, so that places are still known. For
    /// whoever leaves the passages of an idle ring out.
    pub fn handle_empty_frames(&mut self, frames: u64) {
        self.stats.frames += frames;
        let places = self.places.len();
        // At most as many as there are places.
        let ahead = (frames % places.max(1) as u64) as usize;
        self.next_place = (self.next_place + ahead) % places;
    }

    /// Puts a cell into the frame that has just passed [`Station::handle_frame`], ahead of what
    /// waits: a generator of false traffic. `None` where the station may not fill that slot.
    pub fn insert<F: SlottedFrame<Cell = C>>(
        &mut self,
        frame: &mut F,
        channel: Channel,
        cell: impl FnOnce() -> C,
    ) -> Option<Ticket> {
        if !self.may_fill(frame, channel.index()) {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let frames = self.places.len();
        let place = (self.next_place + frames - 1) % frames;
        let queued = Queued {
            ticket,
            cell: cell(),
        };
        self.put(place, frame, channel.index(), queued);
        frame.seal();
        Some(ticket)
    }

    /// The cells in the receive FIFO, the first one first.
    pub fn received(&self) -> impl ExactSizeIterator<Item = &C> {
        self.received.iter()
    }

    /// The next cell out of the receive FIFO.
    pub fn poll_received(&mut self) -> Option<C> {
        self.received.pop_front()
    }

    /// What became of a cell; one report for each that was put on the ring. They wait until
    /// they are taken.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// When [`Station::handle_timeout`] wants to be called, if no frame comes before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.in_flight > 0).then(|| self.last_frame.saturating_add(self.config.silence))
    }

    /// Time has passed. After too long a silence every cell on the ring is lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.lose_all(Loss::RingSilent);
        }
    }

    /// The ring was formed anew with `frames` frames: cells on it are lost, those in the
    /// FIFOs stay.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Frames`]; nothing changes.
    pub fn reform(&mut self, frames: usize) -> Result<(), ConfigError> {
        let places = places(frames)?;
        self.lose_all(Loss::RingReformed);
        self.config.frames = frames;
        self.places = places;
        self.next_place = 0;
        Ok(())
    }

    fn lose_all(&mut self, loss: Loss) {
        for place in 0..self.places.len() {
            for channel in Channel::ALL {
                let sent = self.places[place].sent[channel.index()].take();
                if let Some(sent) = sent {
                    self.report(sent, channel, Outcome::Lost(loss));
                }
            }
            self.places[place].copied = None;
        }
    }

    /// Source release: reads the verdict on own slots, and empties them.
    fn take_back<F: SlottedFrame<Cell = C>>(&mut self, place: usize, frame: &mut F) {
        for channel in Channel::ALL {
            let slot = channel.index();
            let Some(sent) = self.places[place].sent[slot].take() else {
                continue;
            };
            let outcome = outcome_of(frame, slot, sent);
            self.report(sent, channel, outcome);
            if !matches!(outcome, Outcome::Lost(Loss::Emptied | Loss::Replaced)) {
                frame.empty(slot);
                self.passage.released[slot] = true;
            }
        }
    }

    fn report(&mut self, sent: Sent, channel: Channel, outcome: Outcome) {
        let stats = &mut self.stats;
        let counter = match outcome {
            Outcome::Returned(Verdict::Accepted) => &mut stats.accepted,
            Outcome::Returned(Verdict::Marked) => &mut stats.marked,
            Outcome::Returned(Verdict::Refused) => &mut stats.refused,
            Outcome::Returned(Verdict::Nobody) => &mut stats.nobody,
            Outcome::Lost(Loss::Damaged) => &mut stats.lost_damaged,
            Outcome::Lost(Loss::Emptied) => &mut stats.lost_emptied,
            Outcome::Lost(Loss::Replaced) => &mut stats.lost_replaced,
            Outcome::Lost(Loss::RingSilent | Loss::RingReformed) => &mut stats.lost_with_ring,
        };
        *counter += 1;
        self.in_flight -= 1;
        self.reports.push_back(Report {
            ticket: sent.ticket,
            channel,
            outcome,
        });
    }

    /// Copies the cell on the receive channel if it is for this station and there is room, and
    /// says so in R and Q.
    fn receive<F: SlottedFrame<Cell = C>>(&mut self, place: usize, frame: &mut F) {
        let slot = self.config.receive_channel.index();
        let copied_before = self.places[place].copied.take();
        let Some(cell) = frame.cell(slot) else {
            return;
        };
        let word = cell.first_word();
        if !self.listening.contains(&vci_of(word)) {
            return;
        }
        let verdict = frame.verdict(slot);
        let was_taken = matches!(verdict, Verdict::Accepted | Verdict::Marked);
        if copied_before == Some(word) && was_taken {
            self.places[place].copied = copied_before;
            self.stats.duplicates += 1;
            return;
        }
        let has_room = self.received.len() < self.config.receive_fifo_cells;
        if has_room {
            self.received.push_back(cell.clone());
            self.places[place].copied = Some(word);
        }
        frame.set_verdict(slot, verdict.and(has_room));
        self.stats.received += u64::from(has_room);
        self.stats.refused_full += u64::from(!has_room);
        (self.passage.received, self.passage.refused) = (has_room, !has_room);
    }

    /// Fills slots from the queues: among those that may fill theirs the ones served longest
    /// ago, as many as the station's size allows; none in half duplex, if it received.
    fn transmit<F: SlottedFrame<Cell = C>>(&mut self, place: usize, frame: &mut F) {
        let mut waiting: [bool; SLOTS] =
            core::array::from_fn(|slot| !self.queues[slot].cells.is_empty());
        if !waiting.contains(&true) {
            return;
        }
        if self.passage.received && self.config.duplex == Duplex::Half {
            self.stats.held_receiving += 1;
            return;
        }
        for _ in 0..self.config.channels_at_once {
            let candidates = (0..SLOTS).filter(|&slot| waiting[slot] && self.may_fill(frame, slot));
            let Some(slot) = candidates.min_by_key(|&slot| self.queues[slot].served) else {
                return;
            };
            waiting[slot] = false;
            if let Some(queued) = self.queues[slot].cells.pop_front() {
                self.put(place, frame, slot, queued);
                self.services += 1;
                self.queues[slot].served = self.services;
                self.passage.filled[slot] = true;
            }
        }
    }

    /// Whether `slot` of a frame that is passing is empty, and not for having been its own.
    fn may_fill<F: SlottedFrame<Cell = C>>(&self, frame: &F, slot: usize) -> bool {
        !self.passage.released[slot] && frame.state(slot) == SlotState::Empty
    }

    fn put<F: SlottedFrame<Cell = C>>(
        &mut self,
        place: usize,
        frame: &mut F,
        slot: usize,
        Queued { ticket, cell }: Queued<C>,
    ) {
        let word = cell.first_word();
        frame.fill(slot, cell);
        self.places[place].sent[slot] = Some(Sent { ticket, word });
        self.in_flight += 1;
        self.stats.sent += 1;
    }
}

/// What the slot of an own cell says when it is back.
fn outcome_of<F: SlottedFrame>(frame: &F, slot: usize, sent: Sent) -> Outcome {
    match frame.state(slot) {
        SlotState::Empty => Outcome::Lost(Loss::Emptied),
        SlotState::Void | SlotState::VoidPassed => Outcome::Lost(Loss::Damaged),
        SlotState::Fresh | SlotState::Passed => match frame.cell(slot) {
            Some(cell) if cell.first_word() == sent.word => Outcome::Returned(frame.verdict(slot)),
            _ => Outcome::Lost(Loss::Replaced),
        },
    }
}

/// The VCI in the first word of a cell.
const fn vci_of(word: u32) -> u16 {
    (word >> 16) as u16
}

fn places(frames: usize) -> Result<Vec<Place>, ConfigError> {
    if (1..=FRAMES_MAX).contains(&frames) {
        Ok(vec![Place::default(); frames])
    } else {
        Err(ConfigError::Frames(frames))
    }
}
