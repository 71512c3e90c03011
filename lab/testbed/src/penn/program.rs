//! The programs that write: the paper's benchmark, one that fills its blocks, and one that
//! gathers records.

use barewire_models::penn::{Driver, Touch};
use barewire_units::{Duration, Rng};

/// Where the program's first block lies; the second follows it.
const BLOCKS: u64 = 1 << 28;
/// Where a program that gathers has its record.
const RECORD: u64 = 1 << 27;

/// What the program does next.
pub enum Next {
    /// It is in the driver, and goes on when the driver returns.
    InDriver,
    /// It computes so long.
    Run(Duration),
    /// It is over.
    Ended,
}

/// How a program fills the blocks that it writes.
pub struct Fills {
    /// Draws whether to fill the block that it has just written.
    pub rng: Rng,
    /// How often it fills that one, of 100 times; else the other of its two.
    pub same_per_cent: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    Choose,
    Fill,
    Write,
    Gather,
}

/// A program that writes blocks one after the other.
pub struct Program {
    /// Of a block, or of a record.
    bytes: u64,
    /// Blocks, or records.
    writes_left: u64,
    fills: Option<Fills>,
    block: u64,
    /// Records in a block.
    records: u64,
    /// Of the block that is being gathered.
    gathered: u64,
    phase: Phase,
}

impl Program {
    /// Writes `writes` times `bytes`. Without `fills` it writes the same block each time
    /// and never stores into it, as the paper's benchmark does.
    pub fn new(bytes: u64, writes: u64, fills: Option<Fills>) -> Self {
        Self {
            bytes,
            writes_left: writes,
            fills,
            block: 0,
            records: 1,
            gathered: 0,
            phase: Phase::Choose,
        }
    }

    /// Copies `records` of what it would write into a block of its own, and writes that. It
    /// has two such blocks and takes them in turns, so it never meets one that streams: a
    /// write has returned only when the transfer before it is over.
    pub fn gathering(bytes: u64, writes: u64, records: u64) -> Self {
        let phase = if records > 1 {
            Phase::Gather
        } else {
            Phase::Choose
        };
        Self {
            records: records.max(1),
            phase,
            ..Self::new(bytes, writes, None)
        }
    }

    fn address(&self) -> u64 {
        BLOCKS + self.block * self.bytes * self.records
    }

    /// Goes on: at the start, after a return of the driver, after [`Next::Run`].
    pub fn next(&mut self, driver: &mut Driver) -> Next {
        match self.phase {
            Phase::Choose if self.writes_left == 0 => Next::Ended,
            Phase::Choose => self.choose(driver),
            Phase::Fill => self.fill(driver),
            Phase::Write => self.write(driver),
            Phase::Gather => self.gather(driver),
        }
    }

    fn gather(&mut self, driver: &mut Driver) -> Next {
        let full = self.gathered == self.records || self.writes_left == 0;
        if full && self.gathered == 0 {
            return Next::Ended;
        }
        if full {
            driver.write(self.address(), self.gathered * self.bytes);
            self.gathered = 0;
            self.block = 1 - self.block;
            return Next::InDriver;
        }
        let to = self.address() + self.gathered * self.bytes;
        self.gathered += 1;
        self.writes_left -= 1;
        Next::Run(driver.processor().copy(RECORD, to, self.bytes))
    }

    fn choose(&mut self, driver: &mut Driver) -> Next {
        self.writes_left -= 1;
        let Some(fills) = &mut self.fills else {
            return self.write(driver);
        };
        if fills.rng.below(100) >= fills.same_per_cent {
            self.block = 1 - self.block;
        }
        self.phase = Phase::Fill;
        match driver.touch(self.address(), self.bytes) {
            Touch::Faulted => Next::InDriver,
            Touch::Free | Touch::Torn => self.fill(driver),
        }
    }

    fn fill(&mut self, driver: &mut Driver) -> Next {
        self.phase = Phase::Write;
        Next::Run(driver.processor().store(self.address(), self.bytes))
    }

    fn write(&mut self, driver: &mut Driver) -> Next {
        self.phase = Phase::Choose;
        driver.write(self.address(), self.bytes);
        Next::InDriver
    }
}
