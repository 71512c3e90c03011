//! The receiving half of the driver: what the interrupt handler does.

use barewire_classic::msdl::{Event, InterruptOn, State};
use barewire_units::{Duration, Instant};

use super::phase::Handling;
use super::{Mark, Node, Processors};
use crate::cbn::{Cell, Copier};

impl Node {
    /// An interrupt calls the handler; on a processor of its own it sees a cell without.
    pub(super) fn look_for_cells(&mut self) {
        if self.handling != Handling::Off {
            return;
        }
        let called = match self.config.processors {
            Processors::One => self.station.interrupt(),
            Processors::Two { .. } => self.station.waiting() > 0,
        };
        if called {
            self.station.acknowledge();
            self.handling = Handling::Entry;
        }
    }

    pub(super) fn handler_cost(&mut self, now: Instant) -> Option<Duration> {
        let costs = &self.config.costs;
        Some(match self.handling {
            Handling::Off | Handling::Spin => return None,
            Handling::Entry if self.config.processors == Processors::One => costs.driver.interrupt,
            Handling::Entry | Handling::Acknowledge => costs.station.word,
            Handling::Bus => costs.to_memory(self.config.station.line.word_time()),
            Handling::Memory => self.station.receive_ram().access(now, 1) - now,
            Handling::Engine => match self.engine_done {
                Some(done) => done.saturating_duration_since(now),
                None => Duration::ZERO,
            },
            Handling::Work => costs.cell(self.config.stage),
        })
    }

    pub(super) fn handler_goes_on(&mut self, now: Instant) {
        match self.handling {
            Handling::Off | Handling::Spin => {}
            Handling::Entry | Handling::Acknowledge => self.look(now),
            Handling::Bus => self.handling = Handling::Memory,
            Handling::Memory => {
                self.receiving_words -= 1;
                if self.receiving_words > 0 {
                    self.handling = Handling::Bus;
                } else {
                    self.take_cell(now);
                }
            }
            Handling::Engine => {
                self.take_cell(now);
                self.engine_done = None;
                if self.station.waiting() > 0 {
                    self.prepare_engine(now);
                }
            }
            Handling::Work => {
                self.reassemble(now);
                self.look(now);
            }
        }
    }

    /// The engine begins with the next cell while the processor works on the one before.
    pub(super) fn prepare_engine(&mut self, now: Instant) {
        if let (Copier::Engine(time), Handling::Work) = (self.config.copier, self.handling) {
            self.engine_done.get_or_insert(now + time);
        }
    }

    /// What the handler does next: see the head of the parent.
    pub(super) fn look(&mut self, now: Instant) {
        let interrupted = self.config.processors == Processors::One && self.station.interrupt();
        if interrupted {
            self.station.acknowledge();
            self.handling = Handling::Acknowledge;
            return;
        }
        self.handling = match self.config.copier {
            _ if self.station.waiting() == 0 && self.spins() => Handling::Spin,
            _ if self.station.waiting() == 0 => Handling::Off,
            Copier::Processor => {
                self.receiving_words = self.config.station.line.cell_words();
                self.marks.push((now, Mark::ReadBegun));
                Handling::Bus
            }
            Copier::Engine(time) => {
                self.engine_done.get_or_insert(now + time);
                Handling::Engine
            }
        };
    }

    /// Whether the block of the last cell is under way, and no cell of it would call.
    fn spins(&self) -> bool {
        let silent = self.config.interrupt_on == InterruptOn::StartOfBlock
            && self.config.processors == Processors::One;
        let state = |(vci, rid)| self.reassembler.state(vci, rid);
        silent && self.last_handled.map(state) == Some(State::Filling)
    }

    fn take_cell(&mut self, now: Instant) {
        self.marks.push((now, Mark::ReadDone));
        self.received_cell = self.station.handle_read();
        self.handling = Handling::Work;
    }

    fn reassemble(&mut self, now: Instant) {
        let Some(Cell { msdl, body }) = self.received_cell.take() else {
            return;
        };
        self.last_handled = Some((msdl.vci, msdl.rid));
        self.reassembler.handle_cell(now, msdl, &body);
        self.marks.push((now, Mark::Handled));
        self.take_blocks();
    }

    /// Gives the program its blocks; those of other circuits nobody asks for.
    pub(super) fn take_blocks(&mut self) {
        while let Some(event) = self.reassembler.poll_event() {
            match event {
                Event::Block { vci, bytes, .. } if self.program_vcis.contains(&vci) => {
                    self.program_bytes += bytes.len() as u64;
                    self.delivered.push_back(bytes);
                }
                Event::Block { .. } | Event::Failed { .. } => {}
            }
        }
    }
}
