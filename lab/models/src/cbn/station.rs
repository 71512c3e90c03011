//! The V1S station: the medium access of a slotted ring behind FIFOs in one buffer memory, with
//! interrupt conditions and generators of false traffic.
//!
//! What happens when a frame passes is [`barewire_classic::slotted::Station`]: own slots are
//! emptied, a cell is received, a cell is sent. Around it:
//!
//! | step | rule |
//! |---|---|
//! | receive | a cell takes the memory for as long as its words come in. Where the FIFO is full it is lost, and counted for its circuit |
//! | transmit | one cell a frame, which takes the memory too |
//! | false traffic | each generator whose cell is due fills an empty slot of its channel, without the memory |
//!
//! A cell received is in the FIFO when its last word is: [`Passage::received`] says when, and
//! [`Station::handle_arrival`] is to be called then. A cell that meets the interrupt
//! condition of its VCI sets the interrupt, which stays until [`Station::acknowledge`].
//!
//! MSDL does not look at the response bits, and nothing is sent again.
//!
//! Source: cbn91, section on the station interface.

use std::collections::BTreeMap;

use barewire_classic::msdl::InterruptOn;
use barewire_classic::slotted::{self, Channel, ConfigError, Duplex, SlottedFrame};
use barewire_formats::cbn::SLOTS;
use barewire_units::{Duration, Instant, Rng};

use super::{Cell, Line, Ram, Slots};

/// What a station is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationConfig {
    /// Frames on the ring.
    pub frames: usize,
    /// The channel that it receives from, 0 to 3.
    pub receive_channel: usize,
    /// Cells that each FIFO holds.
    pub fifo_cells: usize,
    /// Whether it has one memory, as the V1S, or one for each direction.
    pub duplex: Duplex,
    /// The line that it is attached to.
    pub line: Line,
}

/// A source of false traffic, which loads one channel of the ring and nothing else. Cells
/// that find no slot in time are sent as soon as they do: what is offered stays offered.
/// OPEN in the source: how the generators time their cells.
#[derive(Clone, Debug)]
pub struct Generator {
    /// What it sends.
    pub cell: Cell,
    /// Mean time from one cell to the next; zero fills every slot.
    pub interval: Duration,
    /// Draws the times, exponentially distributed; without it they are all equal.
    random: Option<Rng>,
    next_at: Instant,
}

impl Generator {
    /// A generator that begins at once and sends at equal intervals.
    #[must_use]
    pub const fn new(cell: Cell, interval: Duration) -> Self {
        Self {
            cell,
            interval,
            random: None,
            next_at: Instant::ORIGIN,
        }
    }

    /// A generator that sends at random, `interval` apart on average.
    #[must_use]
    pub fn random(cell: Cell, interval: Duration, mut rng: Rng) -> Self {
        Self {
            cell,
            interval,
            next_at: Instant::ORIGIN.saturating_add(exponential(&mut rng, interval)),
            random: Some(rng),
        }
    }

    fn sent(&mut self) {
        let gap = match &mut self.random {
            Some(rng) => exponential(rng, self.interval),
            None => self.interval,
        };
        self.next_at = self.next_at.saturating_add(gap);
    }
}

/// An exponentially distributed time, from comparisons alone and so the same everywhere: of
/// falling runs of random numbers, those of odd length begin with one that is so
/// distributed below 1; each run before it adds 1 (von Neumann, 1951).
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let mut whole = 0;
    loop {
        let first = rng.next_u64();
        let (mut least, mut length) = (first, 1);
        loop {
            let next = rng.next_u64();
            if next >= least {
                break;
            }
            least = next;
            length += 1;
        }
        if length % 2 == 1 {
            let part_ps = (u128::from(mean.as_ps()) * u128::from(first)) >> 64;
            let whole_ps = mean.as_ps().saturating_mul(whole);
            return Duration::from_ps(whole_ps.saturating_add(part_ps as u64));
        }
        whole += 1;
    }
}

/// What a station did to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// When the last word of a cell received will be in the FIFO.
    pub received: Option<Instant>,
    /// Slots emptied.
    pub released: usize,
    /// The channel on which it sent a cell, a true one.
    pub filled: Option<usize>,
}

/// What a station has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationStats {
    /// Cells sent from the FIFOs.
    pub transmitted: u64,
    /// Cells of the generators sent.
    pub false_transmitted: u64,
    /// Cells received.
    pub received: u64,
    /// Cells lost because the receive FIFO was full.
    pub receive_overflows: u64,
    /// Cells lost because a transmit FIFO was full.
    pub transmit_overflows: u64,
}

/// What a station has counted of a circuit that it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CircuitStats {
    /// Cells received, the last words of which may still be coming.
    pub received: u64,
    /// Cells lost because the receive FIFO was full.
    pub overflows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Circuit {
    condition: InterruptOn,
    stats: CircuitStats,
}

/// A station.
#[derive(Clone, Debug)]
pub struct Station {
    config: StationConfig,
    access: slotted::Station<Cell>,
    circuits: BTreeMap<u16, Circuit>,
    /// Cells of the receive FIFO whose last word is there.
    arrived: usize,
    transmit_ram: Ram,
    /// The same memory as `transmit_ram`, if `None`.
    receive_ram: Option<Ram>,
    interrupt: bool,
    generators: [Option<Generator>; SLOTS],
    stats: StationStats,
}

/// The channel of that number, modulo 4.
const fn channel(number: usize) -> Channel {
    Channel::ALL[number % SLOTS]
}

impl Station {
    /// A station that knows no VCI. Channels above 3 are taken modulo 4.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] where a number is out of range.
    pub fn new(config: StationConfig) -> Result<Self, ConfigError> {
        let ram = Ram::new(config.line.word_time());
        let access = slotted::Station::new(slotted::Config {
            frames: config.frames,
            duplex: config.duplex,
            receive_fifo_cells: config.fifo_cells,
            transmit_fifo_cells: config.fifo_cells,
            ..slotted::Config::v1s(channel(config.receive_channel))
        })?;
        Ok(Self {
            access,
            circuits: BTreeMap::new(),
            arrived: 0,
            receive_ram: (config.duplex == Duplex::Full).then(|| ram.clone()),
            transmit_ram: ram,
            interrupt: false,
            generators: [const { None }; SLOTS],
            stats: StationStats::default(),
            config,
        })
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> StationStats {
        self.stats
    }

    /// What it has counted of the circuit `vci`; nothing of one that it does not know.
    #[must_use]
    pub fn circuit(&self, vci: u16) -> CircuitStats {
        let circuit = self.circuits.get(&vci);
        circuit.map_or_else(CircuitStats::default, |circuit| circuit.stats)
    }

    /// Cells in the transmit FIFOs.
    #[must_use]
    pub fn queued(&self) -> usize {
        let queued = Channel::ALL.map(|channel| self.access.queued(channel));
        queued.into_iter().sum()
    }

    /// Whether the transmit FIFO of channel `number` takes a cell, with `coming` on their way to it.
    #[must_use]
    pub fn has_room(&self, number: usize, coming: usize) -> bool {
        self.access.queued(channel(number)) + coming < self.config.fifo_cells
    }

    /// Receives cells of `vci` from now on, and interrupts where `condition` says.
    pub fn listen(&mut self, vci: u16, condition: InterruptOn) {
        let stats = CircuitStats::default();
        self.circuits.insert(vci, Circuit { condition, stats });
        self.access.listen(vci);
    }

    /// Sends false traffic on `channel` from now on, or none.
    pub fn set_generator(&mut self, channel: usize, generator: Option<Generator>) {
        self.generators[channel % SLOTS] = generator;
    }

    /// The memory, as the processor meets it on its way to a transmit FIFO.
    pub fn transmit_ram(&mut self) -> &mut Ram {
        &mut self.transmit_ram
    }

    /// The memory, as the processor meets it on its way to the receive FIFO.
    pub fn receive_ram(&mut self) -> &mut Ram {
        self.receive_ram.as_mut().unwrap_or(&mut self.transmit_ram)
    }

    /// The last word of `cell` has been written into the FIFO of channel `number`. A full FIFO
    /// loses it: nobody asks before writing, since the source takes sending to be always possible.
    pub fn handle_written(&mut self, number: usize, cell: Cell) {
        let sent = self.access.send(channel(number), cell);
        self.stats.transmit_overflows += u64::from(sent.is_err());
    }

    /// A frame begins to pass.
    pub fn handle_frame(&mut self, now: Instant, slots: &mut Slots) -> Passage {
        let heard = slots.cell(channel(self.config.receive_channel).index());
        let heard = heard.map(|cell| cell.msdl.vci);
        let passage = self.access.handle_frame(now, slots);
        let words = self.config.line.cell_words();
        if let Some(circuit) = heard.and_then(|vci| self.circuits.get_mut(&vci)) {
            circuit.stats.received += u64::from(passage.received);
            circuit.stats.overflows += u64::from(passage.refused);
        }
        self.stats.receive_overflows += u64::from(passage.refused);
        let received = passage
            .received
            .then(|| self.receive_ram().access(now, words));
        let filled = passage.filled.into_iter().position(|filled| filled);
        if filled.is_some() {
            self.transmit_ram.access(now, words);
            self.stats.transmitted += 1;
        }
        self.generate(now, slots);
        // Nothing waits for what becomes of a cell.
        while self.access.poll_report().is_some() {}
        Passage {
            received,
            released: passage.released.into_iter().filter(|&own| own).count(),
            filled,
        }
    }

    fn generate(&mut self, now: Instant, slots: &mut Slots) {
        for (generator, channel) in self.generators.iter_mut().zip(Channel::ALL) {
            let Some(generator) = generator.as_mut().filter(|due| due.next_at <= now) else {
                continue;
            };
            let inserted = self
                .access
                .insert(slots, channel, || generator.cell.clone());
            if inserted.is_some() {
                generator.sent();
                self.stats.false_transmitted += 1;
            }
        }
    }

    /// So many frames have passed that were empty, while it had nothing to send. The same as
    /// [`Station::handle_frame`] for each of them.
    pub fn handle_empty_frames(&mut self, frames: u64) {
        self.access.handle_empty_frames(frames);
    }

    /// The last word of a cell is in the receive FIFO.
    pub fn handle_arrival(&mut self) {
        let Some(cell) = self.access.received().nth(self.arrived) else {
            return;
        };
        let circuit = self.circuits.get(&cell.msdl.vci);
        self.interrupt |= circuit.is_some_and(|circuit| circuit.condition.matches(cell.msdl));
        self.arrived += 1;
        self.stats.received += 1;
    }

    /// Whether the interrupt is set.
    #[must_use]
    pub const fn interrupt(&self) -> bool {
        self.interrupt
    }

    /// Takes the interrupt back.
    pub fn acknowledge(&mut self) {
        self.interrupt = false;
    }

    /// Cells in the receive FIFO.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.arrived
    }

    /// The last word of the cell at the head of the receive FIFO has been read: it is gone.
    pub fn handle_read(&mut self) -> Option<Cell> {
        self.arrived = self.arrived.checked_sub(1)?;
        self.access.poll_received()
    }
}
