//! The single figures of the paper: rotation, capacity, memory, copy, limits, forecasts.

use barewire_classic::msdl::InterruptOn;
use barewire_des::{Class, Event, Node as Entity, Simulator, World};
use barewire_formats::cbn::SLOTS;
use barewire_models::cbn::{Copier, Generator, Line, Ram};
use barewire_units::{Duration, Instant};

use super::parameters::Parameters;
use super::runs::{FALSE_VCI, Observed, Run};
use super::world::Backbone;
use crate::error::SystemError;
use crate::figures::us;
use crate::reproduction::Reproduction;
use crate::system::Finding;

/// Cells of the longest block of the tables.
const LONG_CELLS: usize = 250;
/// For how long the memory is driven.
const RAM_TIME: Duration = Duration::from_ms(1);

pub(super) fn measure(parameters: &Parameters, seed: u64) -> Result<Reproduction, SystemError> {
    let mut found = Scalars::default();
    let paper = Run::new(parameters).cells(LONG_CELLS);
    let line = parameters.line();

    found.add("ring", "frames", "count", paper.ring()?.frames() as f64);
    let all = found.carried_mbps(&paper, parameters, SLOTS)?;
    found.add("ring", "data capacity", "Mbit/s", all);
    let one = found.carried_mbps(&paper, parameters, 1)?;
    found.add("channel", "data capacity", "Mbit/s", one);

    let stream = found.memory_mbps(line, 1);
    found.add("memory, one stream", "bandwidth", "Mbit/s", stream);
    // A word enters and leaves, on its way out and on its way in.
    let duplex = found.memory_mbps(line, 4);
    found.add("memory, duplex", "bandwidth each way", "Mbit/s", duplex);

    let sent = found.seen(paper.transmit(seed)?);
    let rotation_us = sent.rotation.map_or(0.0, us);
    found.add("ring", "rotation", "us", rotation_us);
    let received = found.seen(paper.ping(seed)?);
    found.add("512 MHz", "copy of a cell", "us", received.copy_us());
    let mut fast = paper.clone();
    fast.line = parameters.fast_line();
    let fast = found.seen(fast.ping(seed)?);
    found.add("1000 MHz", "copy of a cell", "us", fast.copy_us());

    let cell_bits = (line.cell_words() * 32) as f64;
    let (send_us, receive_us) = (sent.cell_sent_us(), received.cell_received_us());
    for (row, bits) in [
        ("in a block", data_bits(line)),
        ("in a block, with headers", cell_bits),
    ] {
        found.add(row, "transmit rate", "Mbit/s", bits / send_us);
        found.add(row, "transfer rate", "Mbit/s", bits / receive_us);
    }

    let mut engine = paper;
    engine.copier = Copier::Engine(parameters.future.engine_cell);
    let parallel_us = found.drained_us(&engine, parameters.driver.receive_cell, seed)?;
    let speed_up = receive_us / parallel_us;
    found.add("engine", "speed-up of receiving", "x", speed_up);
    let copy_us = found.drained_us(&engine, Duration::ZERO, seed)?;
    found.add("engine", "copy of a cell", "us", copy_us);

    let long = parameters.long_line().map_err(SystemError::Contradiction)?;
    for (row, line) in [("32 B cells", line), ("48 B cells", long)] {
        engine.line = line;
        let cell_us = found.drained_us(&engine, parameters.future.cell_work, seed)?;
        let rate = data_bits(line) / cell_us;
        found.add(row, "limit of work per cell", "Mbit/s", rate);
    }
    Ok(found.0)
}

fn data_bits(line: Line) -> f64 {
    (line.body().bytes() * 8) as f64
}

#[derive(Default)]
struct Scalars(Reproduction);

impl Scalars {
    fn add(&mut self, row: &str, quantity: &'static str, unit: &'static str, value: f64) {
        self.0.findings.push(Finding {
            table: "scalars",
            row: row.to_owned(),
            quantity,
            unit,
            value,
        });
    }

    fn seen(&mut self, observed: Observed) -> Observed {
        self.0.hashes.push(observed.trace_hash);
        observed
    }

    /// Time from cell to cell with `work` on each, out of a FIFO that holds the whole block
    /// when the interrupt comes: the sender is no limit.
    fn drained_us(&mut self, run: &Run, work: Duration, seed: u64) -> Result<f64, SystemError> {
        let mut run = run.clone().interrupt_on(InterruptOn::EndOfBlock);
        run.costs.driver.receive_cell = work;
        Ok(self.seen(run.ping(seed)?).cell_received_us())
    }

    /// What the first `channels` carry, full of false traffic.
    fn carried_mbps(
        &mut self,
        run: &Run,
        parameters: &Parameters,
        channels: usize,
    ) -> Result<f64, SystemError> {
        let loaders = 0..parameters.runs.loaders;
        let all_slots = |cell, _| Generator::new(cell, Duration::ZERO);
        let nodes = loaders
            .map(|_| run.loader(FALSE_VCI, 0..channels, all_slots))
            .collect::<Result<_, _>>()?;
        let mut sim = Simulator::new();
        let mut world = Backbone::new(run.ring()?, nodes, Instant::ORIGIN, &mut sim);
        let sent = |world: &Backbone| -> u64 {
            let stats = world.nodes.iter().map(|node| node.station().stats());
            stats.map(|stats| stats.false_transmitted).sum()
        };
        let time = parameters.runs.load_time;
        sim.run_until(Instant::ORIGIN + time, &mut world);
        let before = sent(&world);
        sim.run_until(Instant::ORIGIN + time * 2, &mut world);
        self.0.hashes.push(sim.trace_hash());
        let cells = (sent(&world) - before) as f64;
        Ok(cells * data_bits(run.line) / us(time))
    }

    /// What each of `streams` gets of the memory of a station.
    fn memory_mbps(&mut self, line: Line, streams: u16) -> f64 {
        let mut world = Streams {
            ram: Ram::new(line.word_time()),
            words: vec![0; usize::from(streams)],
        };
        let mut sim = Simulator::new();
        for stream in 0..streams {
            let first = world.ram.access(Instant::ORIGIN, 1);
            sim.at(first, Class::NORMAL, Entity(stream), Word(stream));
        }
        sim.run_until(Instant::ORIGIN + RAM_TIME, &mut world);
        self.0.hashes.push(sim.trace_hash());
        let least = world.words.into_iter().min().unwrap_or(0);
        (least * 32) as f64 / us(RAM_TIME)
    }
}

/// Streams of words that all want the memory of a station all the time.
struct Streams {
    ram: Ram,
    words: Vec<u64>,
}

/// A word of a stream is done.
#[derive(Clone, Copy)]
struct Word(u16);

impl Event for Word {
    fn digest(&self) -> u64 {
        u64::from(self.0)
    }
}

impl World for Streams {
    type Event = Word;

    fn handle(&mut self, Word(stream): Word, sim: &mut Simulator<Word>) {
        self.words[usize::from(stream)] += 1;
        let done = self.ram.access(sim.now(), 1);
        sim.at(done, Class::NORMAL, Entity(stream), Word(stream));
    }
}
