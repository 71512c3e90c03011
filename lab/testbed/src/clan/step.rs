//! What a program does next.

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
