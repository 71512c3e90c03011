//! The MSDL driver: what each of its operations costs.
//!
//! To send a block: the call and the driver's preparation ([`DriverCosts::send_before`]); for each
//! cell its header ([`DriverCosts::transmit_cell`]) and the copy of its words; what is left and the
//! return ([`DriverCosts::send_after`]). To receive one: the interrupt ([`DriverCosts::interrupt`]); for
//! each cell the copy of its words and [`Costs::cell`]; then the program is woken and its call
//! returns ([`DriverCosts::wake`]).
//!
//! A word takes the processor and its bus [`StationCosts::word`], then [`StationCosts::access_milli_cycles`]
//! cycles of the memory to get through to it, the last of which is the memory's own and waits
//! for it. So a faster line makes the copy faster. An interrupt that comes while the handler
//! runs is acknowledged in a register of the station: [`StationCosts::word`], without the memory.
//!
//! | stage | taken away |
//! |---|---|
//! | 0 | nothing: FIFO to driver's buffer to association's buffer, an up-call for each cell |
//! | 1 | the second copy |
//! | 2 | the up-call |
//! | 3 | code, by rewriting |
//!
//! Source: cbn91, section on the implementation; the costs are parameters.

use barewire_units::Duration;

use crate::parameters::Parameters as _;

/// How far the receive side has been improved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The original: two copies and an up-call.
    Original,
    /// Copied once, into the association's buffer.
    DirectCopy,
    /// Reassembled in the interrupt handler.
    InHandler,
    /// Tighter code.
    TightCode,
}

impl Stage {
    /// Stages 0 to 3.
    pub const ALL: [Self; 4] = [
        Self::Original,
        Self::DirectCopy,
        Self::InHandler,
        Self::TightCode,
    ];
}

/// Who copies cells out of the receive FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copier {
    /// The processor, word by word.
    Processor,
    /// An engine that takes this long for a cell, waits included, while the processor works
    /// on the cell before.
    Engine(Duration),
}

crate::parameters! {
    /// What the operations of the driver and of the program's calls cost.
    #[derive(Copy, PartialEq, Eq)]
    pub struct DriverCosts {
        /// A send call, to where the first cell is begun.
        pub send_before: Duration,
        /// A cell of a block to send, but for its copy.
        pub transmit_cell: Duration,
        /// From the last cell of a block to the return of the send call, and round the program.
        pub send_after: Duration,
        /// From an interrupt to where the handler looks at the FIFO.
        pub interrupt: Duration,
        /// A cell received at stage 3, but for its copy.
        pub receive_cell: Duration,
        /// From the end of the handler to the return of the receive call.
        pub wake: Duration,
        /// What stage 1 takes away.
        pub second_copy: Duration,
        /// What stage 2 takes away.
        pub up_call: Duration,
        /// What stage 3 takes away.
        pub loose_code: Duration,
    }
}

crate::parameters! {
    /// A station, as the processor sees it.
    #[derive(Copy, PartialEq, Eq)]
    pub struct StationCosts {
        /// Cells that a FIFO holds.
        pub fifo_cells: usize,
        /// Memory cycles to get through to the memory, in thousandths; at least 1000.
        pub access_milli_cycles: u64,
        /// A word to or from a FIFO, but for the memory.
        pub word: Duration,
    }
}

/// What the operations of one processor cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Those of the driver.
    pub driver: DriverCosts,
    /// Those of the station's words.
    pub station: StationCosts,
}

impl Costs {
    /// Work on a cell received, but for the copy out of the FIFO.
    #[must_use]
    pub fn cell(&self, stage: Stage) -> Duration {
        let left = |cost, removed_by| {
            if stage < removed_by {
                cost
            } else {
                Duration::ZERO
            }
        };
        let costs = &self.driver;
        costs.receive_cell
            + left(costs.second_copy, Stage::DirectCopy)
            + left(costs.up_call, Stage::InHandler)
            + left(costs.loose_code, Stage::TightCode)
    }

    /// Those of a host so many times as fast. The cycles that an access takes to get through to
    /// the memory are the host's too, but for the memory's own.
    #[must_use]
    pub fn faster(&self, times: u64) -> Self {
        let mut faster = *self;
        let mut less =
            |cost: &mut Duration| *cost = Duration::from_ps(cost.as_ps().div_ceil(times));
        faster.driver.times_mut(&mut less);
        faster.station.times_mut(&mut less);
        let waits = self.station.access_milli_cycles - 1000;
        faster.station.access_milli_cycles = 1000 + waits / times;
        faster
    }

    /// A word until it wants the memory: all but the last of the cycles of `cycle`.
    #[must_use]
    pub fn to_memory(&self, cycle: Duration) -> Duration {
        let waits = self.station.access_milli_cycles.saturating_sub(1000);
        let synchronise_ps = cycle.as_ps() * waits / 1000;
        self.station.word + Duration::from_ps(synchronise_ps)
    }
}
