//! What networks look at in a packet, and by what chance they lose it.

use barewire_units::Rng;

/// LLC/SNAP of an IPv4 packet (RFC 2684).
pub(crate) const SNAP: [u8; 8] = [0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00];
/// What is lost at random is counted in millionths.
const MILLION: u64 = 1_000_000;

/// Whether a packet is one of TCP with headers only.
pub(crate) fn is_acknowledgement(packet: &[u8]) -> bool {
    let header_bytes = |at: usize, nibble: u8| {
        let byte = packet.get(at).copied().unwrap_or(0);
        usize::from(byte >> nibble & 15) * 4
    };
    let ip = header_bytes(0, 0);
    packet.get(9) == Some(&6) && packet.len() <= ip + header_bytes(ip + 12, 4)
}

/// So many of a million are lost at random.
pub(crate) struct Losses {
    rng: Rng,
    of_a_million: u64,
}

impl Losses {
    pub(crate) const fn new(rng: Rng, of_a_million: u64) -> Self {
        Self { rng, of_a_million }
    }

    /// `share` of all, 0 to 1, by a seed.
    pub(crate) fn share(share: f64, seed: u64) -> Self {
        let of_a_million = (share * MILLION as f64).round() as u64;
        Self::new(Rng::from_seed(seed).fork("lose"), of_a_million)
    }

    /// Whether the next is.
    pub(crate) fn hit(&mut self) -> bool {
        self.of_a_million > 0 && self.rng.ratio(self.of_a_million, MILLION)
    }
}
