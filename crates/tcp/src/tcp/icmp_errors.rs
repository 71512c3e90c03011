//! What a connection does with ICMP errors about its packets: RFC 1122, section 4.2.3.9, with the
//! checks of RFC 5927.

use super::{MSS_MIN, Phase, Tcp};
use crate::config::{MTU_MIN, MTU_MIN_V6};
use crate::error::Error;
use crate::icmp::{Said, parse_icmp};
use crate::packet::Checked;
use barewire_units::Instant;

impl Tcp {
    /// Takes an ICMP error; says whether it is one about what this connection has in flight.
    pub(super) fn take_icmp(&mut self, packet: &[u8], checked: Checked, now: Instant) -> bool {
        let Some(error) = parse_icmp(packet, checked) else {
            return false;
        };
        if error.from != self.config.local || error.to != self.config.remote {
            return false;
        }
        if !self.is_in_flight(error.seq) {
            return false;
        }
        match (error.said, &self.phase) {
            (
                Said::Refused,
                Phase::Opening {
                    is_accepting: false,
                    ..
                },
            ) => self.finish(Some(Error::Refused)),
            // So does Linux (RFC 5461, section 4.1): whoever connects wants to know, and can try another address.
            (
                Said::Unreachable,
                Phase::Opening {
                    is_accepting: false,
                    ..
                },
            ) => self.finish(Some(Error::Unreachable)),
            // An open connection outlives it (RFC 5927, section 5.2).
            (Said::Refused | Said::Unreachable, Phase::Opening { .. } | Phase::Open) => {
                self.is_unreachable = true;
            }
            (Said::TooBig(mtu), Phase::Open) => self.shorten(mtu, now),
            _ => {}
        }
        true
    }

    /// Whether a segment that begins there was sent and is not acknowledged.
    fn is_in_flight(&self, seq: u32) -> bool {
        match (&self.phase, &self.sender) {
            (Phase::Opening { first_sent, .. }, _) => first_sent.is_some() && seq == self.own.first,
            (Phase::Open, Some(sender)) => {
                let from_una = seq.wrapping_sub(self.sequence(sender.una()));
                u64::from(from_una) < sender.next() - sender.una()
            }
            _ => false,
        }
    }

    /// The path takes packets of at most `mtu` bytes.
    fn shorten(&mut self, mtu: usize, now: Instant) {
        let (least, headers) = if self.config.local.is_ipv6() {
            (MTU_MIN_V6, 60)
        } else {
            (MTU_MIN, 40)
        };
        if self.config.local.is_ipv6() && mtu < least {
            // RFC 8201, section 4.
            return;
        }
        let mtu = mtu.max(least);
        let mss = ((mtu - headers) as u64).max(u64::from(MSS_MIN)) - u64::from(self.option_bytes());
        if self
            .sender
            .as_mut()
            .is_some_and(|sender| sender.shorten(mss, now))
        {
            self.path_mtu = mtu;
        }
    }
}
