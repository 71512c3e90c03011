//! The ring of the Cambridge Backbone: slots that go round, stations that wait for an empty one.
//!
//! The stations are the V1S's of [`barewire_models::cbn`], each without the processor behind it:
//! what is attached to one takes a cell as soon as its last word is there. A station is offered
//! a cell only when the one before has found its slot, so a card's own FIFO is the only one.
//! Station `n` listens on channel `n` modulo 4, as the source's stations do on one of four.

use std::collections::VecDeque;

use barewire_classic::msdl::InterruptOn;
use barewire_formats::cbn::{Msdl, SLOTS};
use barewire_models::cbn::{Cell, Duplex, Generator, Line, Station, StationConfig};
use barewire_units::{Duration, Instant, Rng};

use super::common::{Carried, Out, RingTables, refused};
use crate::error::SystemError;
use crate::figures::us;

/// The circuit of station 0; the others have those behind it.
const VCI: u16 = 0x0100;
/// A circuit that nobody listens to.
const FALSE_VCI: u16 = 0xffff;
/// Bits of a code: what has come, of two; the station; the frame of the ring.
const ARRIVAL: u64 = 1 << 40;

/// False traffic, past all stations.
#[derive(Clone, Debug)]
pub(in crate::network) struct SlottedLoad {
    pub name: String,
    /// Stations of its own, behind all others.
    pub stations: usize,
    /// Cells offered, of those that the ring could carry: 1 fills every slot.
    pub share: f64,
    pub time: Duration,
}

/// What a ring is made of.
#[derive(Clone, Debug)]
pub(in crate::network) struct SlottedSpec {
    pub rotation: Duration,
    pub line: Line,
    pub fifo_cells: usize,
    /// Stations with something attached.
    pub stations: usize,
    pub load: Option<SlottedLoad>,
}

/// A ring.
pub(in crate::network) struct SlottedRing {
    spec: SlottedSpec,
    ring: barewire_models::cbn::Ring,
    stations: Vec<Station>,
    /// By number, what is under way; a cell's body holds the number.
    carried: Vec<Option<Carried>>,
    free: Vec<u32>,
    /// What each station has been offered, until it has a slot.
    offered: Vec<Option<Carried>>,
    pub(super) outs: VecDeque<Out>,
    cells: u64,
}

impl SlottedRing {
    pub(in crate::network) fn new(spec: SlottedSpec, rng: &Rng) -> Result<Self, SystemError> {
        let frames = spec.line.frames(spec.rotation);
        let ring = barewire_models::cbn::Ring::new(spec.rotation, frames)
            .ok_or_else(|| refused("a ring without a frame"))?;
        let loaders = spec.load.as_ref().map_or(0, |load| load.stations);
        let all = spec.stations + loaders;
        let mut stations = Vec::new();
        for number in 0..all {
            let mut station = Station::new(StationConfig {
                frames,
                receive_channel: number % SLOTS,
                fifo_cells: spec.fifo_cells,
                duplex: Duplex::Half,
                line: spec.line,
            })
            .map_err(refused)?;
            if number < spec.stations {
                station.listen(VCI + number as u16, InterruptOn::EveryCell);
            }
            stations.push(station);
        }
        let mut ring = Self {
            ring,
            stations,
            carried: Vec::new(),
            free: Vec::new(),
            offered: vec![None; all],
            outs: VecDeque::new(),
            cells: 0,
            spec,
        };
        ring.set_load(frames, rng);
        ring.turn();
        Ok(ring)
    }

    /// Generators at the loading stations, on all channels.
    fn set_load(&mut self, frames: usize, rng: &Rng) {
        let Some(load) = self.spec.load.clone().filter(|load| load.share > 0.0) else {
            return;
        };
        let generators = load.stations as f64 * SLOTS as f64;
        let slots = (frames * SLOTS) as f64;
        let interval_ps = self.spec.rotation.as_ps() as f64 * generators / (load.share * slots);
        let interval = Duration::from_ps(interval_ps.max(1.0) as u64);
        for number in 0..load.stations {
            for channel in 0..SLOTS {
                let index = (number as u64 + 2) << 2 | channel as u64;
                let body = vec![0; self.spec.line.body().bytes()];
                let cell = Cell {
                    msdl: msdl(FALSE_VCI),
                    body,
                };
                let generator = Generator::random(cell, interval, rng.fork_nth("loader", index));
                let station = &mut self.stations[self.spec.stations + number];
                station.set_generator(channel, Some(generator));
            }
        }
    }

    /// Asks for the first passage of each frame at each station.
    fn turn(&mut self) {
        let all = self.stations.len() as u64;
        for number in 0..self.stations.len() {
            let way_ps = self.ring.rotation().as_ps() / all * number as u64;
            for frame in 0..self.ring.frames() {
                let at = self.ring.first_passage(Duration::from_ps(way_ps), frame);
                self.passage(at, number, frame);
            }
        }
    }

    fn passage(&mut self, at: Instant, station: usize, frame: usize) {
        let code = (station as u64) << 16 | frame as u64;
        let order = station as u16;
        self.outs.push_back(Out::At { at, code, order });
    }

    pub(super) fn offer(&mut self, station: usize, to: usize, carried: Carried) {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.carried.push(None);
                (self.carried.len() - 1) as u32
            }
        };
        self.carried[number as usize] = Some(carried);
        self.offered[station] = Some(carried);
        let mut body = vec![0; self.spec.line.body().bytes()];
        for (byte, of_number) in body.iter_mut().zip(number.to_be_bytes()) {
            *byte = of_number;
        }
        let cell = Cell {
            msdl: msdl(VCI + to as u16),
            body,
        };
        self.stations[station].handle_written(to % SLOTS, cell);
    }

    pub(super) fn happen(&mut self, code: u64, now: Instant) {
        let station = (code >> 16) as usize & 0xffff;
        if code & ARRIVAL != 0 {
            self.arrive(station);
            return;
        }
        let frame = (code & 0xffff) as usize;
        let slots = self.ring.slots_mut(frame);
        let passage = self.stations[station].handle_frame(now, slots);
        if let Some(at) = passage.received {
            let code = ARRIVAL | (station as u64) << 16;
            let order = station as u16;
            self.outs.push_back(Out::At { at, code, order });
        }
        if passage.filled.is_some() {
            if let Some(carried) = self.offered[station].take() {
                let step = carried.step;
                self.outs.push_back(Out::Left { station, step });
            }
        }
        let again = now.saturating_add(self.ring.rotation());
        self.passage(again, station, frame);
    }

    /// The last word of a cell is in the FIFO of a station.
    fn arrive(&mut self, station: usize) {
        let it = &mut self.stations[station];
        it.handle_arrival();
        it.acknowledge();
        let Some(cell) = it.handle_read() else {
            return;
        };
        let number = cell.body.iter().take(4);
        let number = number.fold(0_u32, |number, &byte| number << 8 | u32::from(byte));
        let carried = self.carried.get_mut(number as usize);
        if let Some(Carried { frame, step }) = carried.and_then(Option::take) {
            self.free.push(number);
            self.cells += 1;
            self.outs.push_back(Out::Came {
                station,
                frame,
                step,
            });
        }
    }

    pub(super) fn is_done(&self, now: Instant) -> bool {
        let load = self.spec.load.as_ref();
        load.is_none_or(|load| now.since_origin() >= load.time)
    }

    pub(super) fn tell(&self, name: &str, end: Instant, tables: &mut RingTables) {
        let turns = us(end.since_origin()) / us(self.ring.rotation());
        let slots = turns * (self.ring.frames() * SLOTS) as f64;
        let sum = |count: fn(&Station) -> u64| self.stations.iter().map(count).sum::<u64>();
        let sent = sum(|station| station.stats().transmitted);
        let filled = sum(|station| station.stats().false_transmitted);
        let lost = sum(|station| station.stats().receive_overflows);
        tables.slotted.row([
            ("ring", "", name.into()),
            ("stations", "", self.stations.len().into()),
            ("frames", "", self.ring.frames().into()),
            ("cells sent", "", sent.into()),
            ("cells received", "", self.cells.into()),
            ("lost at a full FIFO", "", lost.into()),
            ("false cells", "", filled.into()),
            (
                "slots used",
                "%",
                (100.0 * (sent + filled) as f64 / slots).into(),
            ),
        ]);
        if let Some(load) = &self.spec.load {
            tables.cells.row([
                ("program", "", load.name.as_str().into()),
                ("ring", "", name.into()),
                ("load offered", "of the ring", load.share.into()),
                (
                    "load carried",
                    "of the ring",
                    (filled as f64 / slots).into(),
                ),
            ]);
        }
    }
}

const fn msdl(vci: u16) -> Msdl {
    Msdl {
        vci,
        sequence: 1,
        rid: 0,
        part: false,
        start: true,
    }
}
