//! What a connection, a listener and a UDP socket have in common: packets and the time go in,
//! packets and the next deadline come out.

use crate::packet::{Checked, Outgoing};
use barewire_units::Instant;

/// One end of something that packets belong to.
///
/// After each call, also those of the type itself, take packets until there is none. Nothing here
/// panics, whatever comes in; time that goes backwards does no harm.
pub trait Endpoint {
    /// Takes an IP packet. Bytes of it may be changed.
    fn handle_packet(&mut self, packet: &mut [u8], checked: Checked, now: Instant);

    /// Writes the next packet to the beginning of `out`, which has room for the longest one.
    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing>;

    /// As [`Self::poll_packet`], but a long payload may be left out of the packet: then only the headers are written, and what
    /// [`Self::left_out`] gives is to follow them. Its checksum is then left to the carrier.
    fn poll_head(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing> {
        self.poll_packet(out, now)
    }

    /// The payload that [`Self::poll_head`] has left out of a packet, in two parts since buffers are rings. Once anything else
    /// has happened here it may be shorter: what has been acknowledged is forgotten.
    fn left_out(&self, _: &Outgoing) -> [&[u8]; 2] {
        [&[]; 2]
    }

    /// When [`Self::poll_packet`] wants to be called again if nothing happens before; asked when it
    /// has given `None`.
    fn next_deadline(&self) -> Option<Instant>;
}
