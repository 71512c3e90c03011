//! The driver's `write()`: two pinned buffers, or the user's own pages.
//!
//! | from | event | to |
//! |---|---|---|
//! | Outside | Call: the program calls | Entering |
//! | Entering | Copy: there is a buffer to fill | Copying |
//! | Entering | Prepared: the block lies where the interface will read it | Waiting |
//! | Copying | Prepared | Waiting |
//! | Waiting | DeviceIdle: the block before it has gone | Mapping |
//! | Mapping | Copy: started, and more of this write to come | Copying |
//! | Mapping | Prepared: the same without a copy | Waiting |
//! | Mapping | Return: started, the call returns while the interface streams | Outside |
//! | Mapping | Block: started, the call waits | Blocked |
//! | Blocked | DeviceIdle | Outside |
//! | Outside | Fault: the program stores into a block that streams | Faulted |
//! | Faulted | DeviceIdle | Resuming |
//! | Resuming | Return: the store is repeated | Outside |
//!
//! While one buffer streams, the program and the copy into the other go on; the program
//! waits only in Waiting, Blocked and Faulted. A write that is longer than a buffer is
//! split. How it waits is OPEN in the source: here it watches the status flag.
//! Source: penn91, device driver and its future work.

use std::collections::VecDeque;

use barewire_units::{Duration, transitions};

use super::processor::Processor;

/// Where a block is when the interface reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// In one of the driver's two buffers: the call returns when the transfer has begun.
    Copied,
    /// In the user's pages; the call returns when the transfer is over.
    Block,
    /// In the user's pages; the call returns when the transfer has begun, and the program
    /// is trusted to leave the block alone.
    Trust,
    /// In the user's pages; a program that stores into one of them waits for the end of
    /// the transfer.
    FaultOnWrite,
}

/// Where a `write()` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The program runs.
    Outside,
    /// On the way in; the way out is counted here too.
    Entering,
    /// Copies into a buffer.
    Copying,
    /// Waits for the interface before it starts the block.
    Waiting,
    /// Makes the block readable for the interface.
    Mapping,
    /// Waits for the end of its own transfer.
    Blocked,
    /// A store waits for the end of the transfer.
    Faulted,
    /// The trap's way back.
    Resuming,
}

/// What happens to a `write()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The program calls.
    Call,
    /// A block has to be copied.
    Copy,
    /// A block lies where the interface will read it.
    Prepared,
    /// The interface has nothing to do.
    DeviceIdle,
    /// Back to the program.
    Return,
    /// The transfer has begun and the call waits for its end.
    Block,
    /// A store met a page of the block that streams.
    Fault,
}

transitions! {
    State on Event {
        Outside + Call => Entering,
        Entering + Copy => Copying,
        Entering + Prepared => Waiting,
        Copying + Prepared => Waiting,
        Waiting + DeviceIdle => Mapping,
        Mapping + Copy => Copying,
        Mapping + Prepared => Waiting,
        Mapping + Return => Outside,
        Mapping + Block => Blocked,
        Blocked + DeviceIdle => Outside,
        Outside + Fault => Faulted,
        Faulted + DeviceIdle => Resuming,
        Resuming + Return => Outside,
    }
}

/// What the driver wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The processor works so long; then [`Driver::handle_done`].
    Run(Duration),
    /// The interface streams this many bytes; then [`Driver::handle_idle`].
    Start(u64),
    /// The program goes on.
    Return,
}

/// What became of a store into the program's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Nothing streams from there.
    Free,
    /// The block that streams is no longer what was written.
    Torn,
    /// The program waits; the driver returns when it may go on.
    Faulted,
}

/// What the driver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that returned.
    pub calls: u64,
    /// Transfers started.
    pub blocks: u64,
    /// Stores that had to wait.
    pub faults: u64,
    /// Stores that spoilt a block.
    pub torn: u64,
}

#[derive(Clone, Copy)]
struct Block {
    address: u64,
    bytes: u64,
}

impl Block {
    /// The whole pages that hold it.
    fn pages(&self, page_bytes: u64) -> Self {
        let page_bytes = page_bytes.max(1);
        let address = self.address / page_bytes * page_bytes;
        let end = (self.address + self.bytes).next_multiple_of(page_bytes);
        Self {
            address,
            bytes: end - address,
        }
    }

    const fn overlaps(&self, address: u64, bytes: u64) -> bool {
        address < self.address + self.bytes && self.address < address + bytes
    }
}

/// The driver, with the processor that it and the program share.
pub struct Driver {
    path: Path,
    processor: Processor,
    /// Where the two buffers lie, which follow each other.
    buffers: u64,
    buffer_bytes: u64,
    /// The buffer that does not stream.
    inactive: u64,
    state: State,
    /// What of the write is not yet prepared.
    rest: Block,
    /// What is prepared, or being mapped.
    prepared: Block,
    /// What streams.
    active: Option<Block>,
    actions: VecDeque<Action>,
    stats: Stats,
}

impl Driver {
    /// A driver with two buffers of `buffer_bytes` (at least one) from address `buffers`.
    #[must_use]
    pub fn new(path: Path, processor: Processor, buffers: u64, buffer_bytes: u64) -> Self {
        let none = Block {
            address: 0,
            bytes: 0,
        };
        Self {
            path,
            processor,
            buffers,
            buffer_bytes: buffer_bytes.max(1),
            inactive: 0,
            state: State::Outside,
            rest: none,
            prepared: none,
            active: None,
            actions: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Where its call is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The processor, for what the program does with it.
    pub fn processor(&mut self) -> &mut Processor {
        &mut self.processor
    }

    /// What it wants done next. After each input, to be asked until there is nothing.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The program writes `bytes` from `address`. Only from outside.
    pub fn write(&mut self, address: u64, bytes: u64) {
        if self.step(Event::Call) {
            self.rest = Block { address, bytes };
            self.run(self.processor.costs().system_call);
        }
    }

    /// The program is about to store `bytes` at `address`. Only from outside.
    pub fn touch(&mut self, address: u64, bytes: u64) -> Touch {
        let page_bytes = self.processor.costs().page.as_bytes();
        let streams = self.active.is_some_and(|block| match self.path {
            // The entries that forbid a store are those of pages.
            Path::FaultOnWrite => block.pages(page_bytes).overlaps(address, bytes),
            _ => block.overlaps(address, bytes),
        });
        if !streams || self.state != State::Outside {
            return Touch::Free;
        }
        match self.path {
            // The call that streams has not returned, or streams something else.
            Path::Copied | Path::Block => Touch::Free,
            Path::Trust => {
                self.stats.torn += 1;
                Touch::Torn
            }
            Path::FaultOnWrite => {
                self.step(Event::Fault);
                self.stats.faults += 1;
                Touch::Faulted
            }
        }
    }

    /// The processor has done what the last [`Action::Run`] said.
    pub fn handle_done(&mut self) {
        match self.state {
            State::Entering => self.prepare(),
            State::Copying => self.wait(),
            State::Mapping => self.begin(),
            State::Resuming => self.leave(Event::Return),
            State::Outside | State::Waiting | State::Blocked | State::Faulted => {}
        }
    }

    /// The interface has sent the last cell of the block.
    pub fn handle_idle(&mut self) {
        self.active = None;
        match self.state {
            State::Waiting => self.map(),
            State::Blocked => {
                self.stats.calls += 1;
                self.leave(Event::DeviceIdle);
            }
            State::Faulted => {
                self.step(Event::DeviceIdle);
                self.run(self.processor.costs().fault);
            }
            _ => {}
        }
    }

    /// Puts the next part of the write where the interface will read it.
    fn prepare(&mut self) {
        let bytes = self.rest.bytes.min(self.buffer_bytes);
        let source = self.rest.address;
        self.rest.address += bytes;
        self.rest.bytes -= bytes;
        if self.path == Path::Copied {
            let address = self.buffers + self.inactive * self.buffer_bytes;
            self.prepared = Block { address, bytes };
            self.step(Event::Copy);
            let time = self.processor.copy(source, address, bytes);
            self.run(time);
        } else {
            self.prepared = Block {
                address: source,
                bytes,
            };
            self.wait();
        }
    }

    fn wait(&mut self) {
        self.step(Event::Prepared);
        if self.active.is_none() {
            self.map();
        }
    }

    fn map(&mut self) {
        self.step(Event::DeviceIdle);
        let Block { address, bytes } = self.prepared;
        let time = self.processor.map(address, bytes);
        self.run(time);
    }

    fn begin(&mut self) {
        self.active = Some(self.prepared);
        self.inactive = 1 - self.inactive;
        self.stats.blocks += 1;
        self.actions.push_back(Action::Start(self.prepared.bytes));
        if self.rest.bytes > 0 {
            self.prepare();
        } else if self.path == Path::Block {
            self.step(Event::Block);
        } else {
            self.stats.calls += 1;
            self.leave(Event::Return);
        }
    }

    fn leave(&mut self, event: Event) {
        self.step(event);
        self.actions.push_back(Action::Return);
    }

    fn run(&mut self, time: Duration) {
        self.actions.push_back(Action::Run(time));
    }

    /// Whether the table has the transition.
    fn step(&mut self, event: Event) -> bool {
        let next = self.state.on(event);
        if let Some(next) = next {
            self.state = next;
        }
        next.is_some()
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
