//! The reassembler: a pipeline of stages on one clock.
//!
//! | stage | how many | time |
//! |---|---|---|
//! | cell manager | several in parallel | one cell time: it works while the cell comes in |
//! | CAM look-up controller | one | its longest operation |
//! | linked-list manager | one | its longest operation |
//!
//! There is no queue between the stages: a cell keeps its stage until the next one is
//! free. A cell that finds every cell manager taken is lost. Every operation is taken to
//! be the longest of its stage; the body of the cell follows the list manager into the
//! dual-ported buffer and costs no time of its own. Source: penn91.

use barewire_units::{Duration, Instant};

use crate::parameters::Cycles;

crate::parameters! {
    /// Cycles of the stages, and sizes of the memories, which bound the protocol core and not
    /// the times here.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ReassemblerConfig {
        /// Of a cell manager.
        pub manager_cycles: Cycles,
        /// Of the CAM look-up controller.
        pub cam_cycles: Cycles,
        /// Of the linked-list manager.
        pub list_cycles: Cycles,
        /// Cell managers.
        pub managers: usize,
        /// Places of the circuits' CAM.
        pub circuits: usize,
        /// Places of the datagrams' CAM.
        pub datagrams: usize,
        /// Cells that the buffer holds.
        pub buffer_cells: usize,
        /// How long a message may be without a cell.
        pub timeout: Duration,
    }
}

/// When a cell began each stage, and when it was in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The cell manager began.
    pub managed: Instant,
    /// The CAM look-up controller began.
    pub looked_up: Instant,
    /// The linked-list manager began.
    pub listed: Instant,
    /// It is in the buffer and on its list.
    pub stored: Instant,
}

/// The reassembler.
pub struct Reassembler {
    config: ReassemblerConfig,
    /// One clock cycle.
    cycle: Duration,
    /// From when on each cell manager is free.
    managers: Vec<Instant>,
    cam_free: Instant,
    lists_free: Instant,
    lost: u64,
}

impl Reassembler {
    /// A reassembler with nothing in it. It has at least one cell manager.
    #[must_use]
    pub fn new(config: ReassemblerConfig, cycle: Duration) -> Self {
        Self {
            config,
            cycle,
            managers: vec![Instant::ORIGIN; config.managers.max(1)],
            cam_free: Instant::ORIGIN,
            lists_free: Instant::ORIGIN,
            lost: 0,
        }
    }

    /// Takes a cell whose first byte comes now; none if every cell manager is taken.
    pub fn handle_cell(&mut self, now: Instant) -> Option<Passage> {
        let managed = self.clock_edge(now);
        let Some(manager) = self.managers.iter_mut().find(|free| **free <= managed) else {
            self.lost += 1;
            return None;
        };
        let cycle = self.cycle;
        let looked_up = (managed + cycle * self.config.manager_cycles).max(self.cam_free);
        let listed = (looked_up + cycle * self.config.cam_cycles).max(self.lists_free);
        let stored = listed + cycle * self.config.list_cycles;
        *manager = looked_up;
        self.cam_free = listed;
        self.lists_free = stored;
        Some(Passage {
            managed,
            looked_up,
            listed,
            stored,
        })
    }

    /// When the next cell manager is free.
    #[must_use]
    pub fn next_free(&self) -> Instant {
        self.managers.iter().copied().min().unwrap_or(Instant::MAX)
    }

    /// Cells lost for want of a cell manager.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    fn clock_edge(&self, time: Instant) -> Instant {
        let cycle_ps = self.cycle.as_ps().max(1);
        let edges = time.since_origin().as_ps().div_ceil(cycle_ps);
        Instant::ORIGIN + Duration::from_ps(edges * cycle_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reassembler(managers: usize) -> Reassembler {
        let config = ReassemblerConfig {
            manager_cycles: Cycles(52),
            cam_cycles: Cycles(11),
            list_cycles: Cycles(12),
            managers,
            circuits: 1,
            datagrams: 1,
            buffer_cells: 1,
            timeout: Duration::from_s(1),
        };
        Reassembler::new(config, Duration::from_ns(50))
    }

    fn at(ns: u64) -> Instant {
        Instant::ORIGIN + Duration::from_ns(ns)
    }

    #[test]
    fn one_cell_goes_through_in_the_sum_of_the_stages() {
        let passage = reassembler(1).handle_cell(at(101)).expect("a free manager");
        assert_eq!(passage.managed, at(150));
        assert_eq!(passage.looked_up, at(150 + 2600));
        assert_eq!(passage.listed, at(150 + 2600 + 550));
        assert_eq!(passage.stored, at(150 + 3750));
    }

    #[test]
    fn a_cell_keeps_its_stage_until_the_next_is_free() {
        let mut reassembler = reassembler(3);
        let cells: Vec<_> = (0..3)
            .filter_map(|_| reassembler.handle_cell(at(0)))
            .collect();
        let stored: Vec<_> = cells.iter().map(|cell| cell.stored).collect();
        assert_eq!(stored, [at(3750), at(4350), at(4950)]);
        // The third waits in its manager until the second has left the CAM for the lists.
        assert_eq!(cells[2].looked_up, at(3750));
        assert_eq!(reassembler.next_free(), at(2600));
        assert_eq!(reassembler.handle_cell(at(2599 - 49)), None);
        assert_eq!(reassembler.lost(), 1);
        assert!(reassembler.handle_cell(at(2600)).is_some());
    }
}
