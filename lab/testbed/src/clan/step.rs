//! What a program does next.

use barewire_models::clan::Transfer;
use barewire_units::{Duration, Instant};

/// What a program does next.
pub enum Step {
    /// The processor works so long.
    Run(Duration),
    /// Nothing until the card interrupts.
    Sleep,
    /// Looks at its memory every `poll`, which holds nothing new: the looks are left out up to the first one after
    /// something has arrived, or from `until` on.
    Watch {
        poll: Duration,
        until: Option<Instant>,
    },
    /// The card transfers; the program is over.
    Transfer(Transfer),
    /// The program is over.
    Rest,
    /// The program is over, and with it the run.
    End,
}
