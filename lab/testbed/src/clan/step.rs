//! What a program does next, and what its operations cost.

use barewire_fabric::frame::{lines_for, payload_offset};
use barewire_models::clan::Transfer;
use barewire_units::Duration;

/// What a program does next.
pub enum Step {
    /// The processor works so long.
    Run(Duration),
    /// Nothing until the card interrupts.
    Sleep,
    /// The card transfers; the program is over.
    Transfer(Transfer),
    /// The program is over.
    Rest,
    /// The program is over, and with it the run.
    End,
}

/// What operations cost the processor.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// One look at memory that has not changed.
    pub poll: Duration,
    /// Send a message, beside its stores.
    pub send: Duration,
    /// Receive a message, beside its lines.
    pub receive: Duration,
    /// Load a line that the card has stored.
    pub line: Duration,
    /// Take an event from the queue and call back.
    pub dispatch: Duration,
    /// How long an idle server polls before it sleeps.
    pub poll_window: Duration,
}

impl Costs {
    pub fn receive(&self, payload_bytes: usize) -> Duration {
        let lines = lines_for(payload_offset(payload_bytes), payload_bytes);
        self.receive + self.line * lines
    }
}

/// Microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_ps() as f64 / 1e6
}
