//! A card that writes into other hosts' memory (RDMA), and the switches between such cards.
//!
//! | part | what it does | model |
//! |---|---|---|
//! | link | makes writes of what the frame ring has stored: the lines of a frame, its header last | [`Writer`] |
//! | queue pair | numbers packets, waits for room in its window, repeats what was lost | [`Pair`] |
//! | card | doorbell, work request, transfers over PCIe, contexts of queue pairs that it holds | [`Card`] |
//! | network | outputs with queues; switches with a shared buffer, as one or as leaves and spines | [`Network`] |
//!
//! The program's memory is that of the CLAN card ([`crate::clan::Memory`]): stores are noted in
//! their order, and a link takes them. So the rings and queues of `barewire-fabric` run over it
//! unchanged. Left out: marks for congestion (ECN) and what a card makes of them (DCQCN), several
//! classes of traffic, address translation in the card, and the card's own buffers.

mod card;
mod network;
mod pair;
#[cfg(test)]
mod tests;
mod writes;

pub use card::{Card, CardConfig, Segment};
pub use network::{Action, LineConfig, Network, Node, Packet, SwitchConfig, Topology};
pub use pair::{Accepted, Outgoing, Pair, Recovery, Reply};
pub use writes::{Write, Writer};
