//! The sending half of the driver: blocks to cells, cells to the station.

use barewire_units::{Duration, Instant};

use super::phase::Sending;
use super::{Due, Mark, Node};
use crate::cbn::{Cell, Copier};

impl Node {
    pub(super) fn sender_cost(&mut self, now: Instant) -> Option<Duration> {
        if self.sending == Sending::Off && !self.outgoing.is_empty() {
            self.sending = Sending::Header;
        }
        let costs = &self.config.costs;
        Some(match self.sending {
            Sending::Off => return None,
            Sending::Header => costs.driver.transmit_cell,
            Sending::Full => costs.station.word,
            Sending::Bus => costs.to_memory(self.config.station.line.word_time()),
            Sending::Memory => self.station.transmit_ram().access(now, 1) - now,
            Sending::Engine => self.transmit_engine_free_at.saturating_duration_since(now),
        })
    }

    pub(super) fn sender_goes_on(&mut self, now: Instant) {
        match self.sending {
            Sending::Off => {}
            Sending::Header | Sending::Full => self.begin_cell(now),
            Sending::Bus => self.sending = Sending::Memory,
            Sending::Memory => self.word_written(now),
            Sending::Engine => self.start_engine(now),
        }
    }

    fn begin_cell(&mut self, now: Instant) {
        let channel = self.config.send_channel;
        let full = !self.station.has_room(channel, self.in_engine.len());
        // Without a cost of looking, time would stand still.
        if full && self.config.waits_for_room && !self.config.costs.station.word.is_zero() {
            self.sending = Sending::Full;
            return;
        }
        let mut body = vec![0; self.config.station.line.body().bytes()];
        let fragments = self.outgoing.front_mut();
        let msdl = fragments.and_then(|fragments| fragments.next_into(&mut body));
        self.sending_cell = msdl.map(|msdl| Cell { msdl, body });
        self.sending_words = self.config.station.line.cell_words();
        self.sending = match self.config.transmit_copier {
            Copier::Processor => Sending::Bus,
            Copier::Engine(_) => Sending::Engine,
        };
        self.marks.push((now, Mark::CopyBegun));
    }

    fn word_written(&mut self, now: Instant) {
        self.sending = Sending::Bus;
        self.sending_words -= 1;
        if self.sending_words > 0 {
            return;
        }
        if let Some(cell) = self.sending_cell.take() {
            self.cell_written(now, cell);
        }
        self.cell_left();
    }

    fn start_engine(&mut self, now: Instant) {
        if let Copier::Engine(time) = self.config.transmit_copier {
            self.transmit_engine_free_at = now + time;
            self.due.push_back((now + time, Due::Engine));
        }
        self.in_engine.extend(self.sending_cell.take());
        self.cell_left();
    }

    /// The processor is done with a cell.
    fn cell_left(&mut self) {
        let left = self.outgoing.front().map_or(0, |block| block.cells_left());
        if left > 0 {
            self.sending = Sending::Header;
            return;
        }
        self.outgoing.pop_front();
        self.sending = Sending::Off;
        self.block_sent();
    }

    pub(super) fn cell_written(&mut self, now: Instant, cell: Cell) {
        self.marks.push((now, Mark::CopyDone));
        self.station.handle_written(self.config.send_channel, cell);
    }
}
