//! The card's memory in one direction: equal blocks and two FIFOs.
//!
//! To send, the processor takes a block from `Tx_free`, fills it and puts it on `Tx_ready`;
//! the hardware sends it, and it is free again when the processor says so: header blocks
//! when they are sent, data blocks when they are acknowledged. To receive it is the
//! mirror: the hardware takes from `Rx_free` and puts on `Rx_ready`, and the
//! processor frees a block when it has moved the data out.

use std::collections::VecDeque;

/// The number of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block(pub u16);

/// The blocks of one direction.
#[derive(Clone, Debug)]
pub struct Blocks<T> {
    free: VecDeque<Block>,
    ready: VecDeque<(Block, T)>,
}

impl<T> Blocks<T> {
    /// All of `count` blocks free.
    #[must_use]
    pub fn new(count: u16) -> Self {
        Self {
            free: (0..count).map(Block).collect(),
            ready: VecDeque::new(),
        }
    }

    /// Free blocks.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Blocks on the ready FIFO.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The next free block.
    pub fn take(&mut self) -> Option<Block> {
        self.free.pop_front()
    }

    /// A block is filled.
    pub fn push_ready(&mut self, block: Block, contents: T) {
        self.ready.push_back((block, contents));
    }

    /// The next filled block.
    pub fn pop_ready(&mut self) -> Option<(Block, T)> {
        self.ready.pop_front()
    }

    /// A block may be filled again.
    pub fn release(&mut self, block: Block) {
        self.free.push_back(block);
    }
}
