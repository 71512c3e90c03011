//! A card of one's own design, and the switch between such cards.
//!
//! A message goes to the card in pieces: whole blocks if the card cuts them into frames, else
//! what fits a frame. The models count bytes; their contents do not matter to times.
//!
//! ```text
//! processor or engine --> transmit FIFO --> frames on the link --> output buffer of the switch
//!                     --> receive FIFO --> processor or engine --> pieces, in one piece or not at all
//! ```
//!
//! | part | model |
//! |---|---|
//! | what a frame or cell is | [`Framing`] |
//! | FIFO to the link: cuts pieces into frames | [`Transmitter`] |
//! | FIFO from the link: puts pieces together, has buffers for them in the host | [`Receiver`] |
//! | an output of the switch | [`Output`](crate::output::Output) |
//!
//! The host's side is [`crate::host`]; both meet in the laboratory's workbench.

mod framing;
mod receiver;
#[cfg(test)]
mod tests;
mod transmitter;

pub use framing::{Frame, Framing, Piece};
pub use receiver::{Missing, Receiver, ReceiverConfig, ReceiverStats, Taker};
pub use transmitter::{Transmitter, TransmitterConfig};
