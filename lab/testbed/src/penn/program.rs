//! The programs that write: the paper's benchmark, and one that fills its blocks.

use barewire_models::penn::{Driver, Touch};
use barewire_units::{Duration, Rng};

/// Where the program's first block lies; the second follows it.
const BLOCKS: u64 = 1 << 28;

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
}

/// A program that writes blocks one after the other.
pub struct Program {
    bytes: u64,
    writes_left: u64,
    fills: Option<Fills>,
    block: u64,
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
            phase: Phase::Choose,
        }
    }

    fn address(&self) -> u64 {
        BLOCKS + self.block * self.bytes
    }

    /// Goes on: at the start, after a return of the driver, after [`Next::Run`].
    pub fn next(&mut self, driver: &mut Driver) -> Next {
        match self.phase {
            Phase::Choose if self.writes_left == 0 => Next::Ended,
            Phase::Choose => self.choose(driver),
            Phase::Fill => self.fill(driver),
            Phase::Write => self.write(driver),
        }
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
