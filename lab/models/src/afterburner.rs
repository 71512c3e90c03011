//! Afterburner and the two hosts that talk through it: a card whose memory holds the
//! data once, from the program's copy to the acknowledgement.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | card memory | equal blocks; free and ready FIFOs, one pair for each direction | [`Blocks`] |
//! | costs | what each operation of the processor takes, on either stack | [`Costs`], [`Stack`] |
//! | loss | congestion window and retransmission | [`Recovery`] |
//! | TCP | segments, cumulative acknowledgements, scaled window | [`Window`], [`Segment`], [`Acknowledgement`] |
//! | sending host | program, socket layer, TCP output, driver | [`Sender`] |
//! | receiving host | driver, TCP input, socket layer, block mover, program | [`Receiver`] |
//!
//! A host does one operation at a time. An interrupt is taken between two of them, and comes
//! before the program. A copy is one operation, so an interrupt may wait for a
//! block's worth of it; that costs no throughput, as nothing overflows meanwhile.
//!
//! On the single-copy stack the socket layer sums the checksum while it copies into the
//! card, and the card has summed it on the way in. The conventional stack copies into buffers of
//! the kernel, reads them to sum, and copies between these and the card.
//!
//! Source: jet93, sections 4 and 5.

mod blocks;
mod congestion;
mod costs;
mod receiver;
mod sender;
mod tcp;
#[cfg(test)]
mod tests;

pub use blocks::{Block, Blocks};
pub use congestion::{Recovery, TcpTimes};
pub use costs::{Costs, Stack};
pub use receiver::Receiver;
pub use sender::{Sender, SenderConfig};
pub use tcp::{Acknowledgement, Segment, Window};
