//! What a node asks of the program that runs on it.

use barewire_units::{Duration, Instant};

/// What an end of a connection has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// Segments or acknowledgements sent, repeated ones among them.
    pub sent: u64,
    /// Repetitions after three equal acknowledgements.
    pub fast_repeats: u64,
    /// Time-outs.
    pub time_outs: u64,
    /// Bytes that the receiving program has read.
    pub read_bytes: u64,
    /// When it had read them all.
    pub read_all_at: Option<Instant>,
    /// Blocks that were no segment, or whose checksum was wrong.
    pub bad: u64,
}

/// What a program does next.
#[derive(Debug)]
pub(super) enum Step {
    /// Calls to send a block.
    Send(Vec<u8>),
    /// Works by itself.
    Work(Duration),
    /// Waits for a block or for its deadline.
    Wait,
}

/// A program that runs.
pub(super) trait Runs: Send {
    /// It has nothing to do; what now? The same again as long as the answer is to wait.
    fn next(&mut self, now: Instant) -> Step;

    /// Its send call has returned.
    fn handle_sent(&mut self) {}

    /// Whether it would take a block now.
    fn takes_blocks(&self) -> bool {
        true
    }

    /// Its receive call has returned; whether the block is what it should be.
    fn handle_block(&mut self, _now: Instant, _block: Vec<u8>) -> bool {
        true
    }

    /// When it wants to be asked again, if nothing comes before.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// It has done what it was to do.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether it takes a block from outside the model now.
    fn takes_from_outside(&self) -> bool {
        false
    }

    /// A block from outside the model, to be sent next. A program that takes none drops it.
    fn handle_from_outside(&mut self, _block: Vec<u8>) {}

    /// A block that it has received for somebody outside the model.
    fn poll_outside(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// What its TCP has counted.
    fn tcp_stats(&self) -> TcpStats {
        TcpStats::default()
    }
}
