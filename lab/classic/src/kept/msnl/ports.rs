//! VCIs and channels on which a station receives.
//!
//! VCIs are given out in turn, so that one rests as long as possible before it comes again. No
//! VCI is given out twice at a time, whatever the channel. Of the channels that the station
//! listens to, the one with the fewest calls is chosen, and the lowest of those.

use alloc::collections::BTreeSet;
use core::ops::RangeInclusive;

use barewire_formats::msnl::{CHANNELS, Port};

use super::types::Error;

#[derive(Clone, Debug)]
pub(super) struct Ports {
    vcis: RangeInclusive<u16>,
    next: u16,
    used: BTreeSet<u16>,
    /// Channels that the station listens to, bit n for channel n.
    channels: u8,
    /// Ports given out, by channel.
    load: [usize; CHANNELS as usize],
}

impl Ports {
    /// `vcis` and `channels` are not empty.
    pub(super) fn new(vcis: RangeInclusive<u16>, channels: u8) -> Self {
        Self {
            next: *vcis.start(),
            vcis,
            used: BTreeSet::new(),
            channels,
            load: [0; CHANNELS as usize],
        }
    }

    pub(super) fn allocate(&mut self) -> Result<Port, Error> {
        let none = Error::NoVci {
            vcis: self.vcis.len(),
        };
        let from_next = self.next..=*self.vcis.end();
        let vci = from_next
            .chain(self.vcis.clone())
            .find(|vci| !self.used.contains(vci))
            .ok_or(none)?;
        let listened = (0..CHANNELS).filter(|channel| self.channels >> channel & 1 == 1);
        let channel = listened
            .min_by_key(|&channel| self.load[usize::from(channel)])
            .ok_or(none)?;
        self.used.insert(vci);
        self.load[usize::from(channel)] += 1;
        self.next = if vci == *self.vcis.end() {
            *self.vcis.start()
        } else {
            vci + 1
        };
        Ok(Port { vci, channel })
    }

    pub(super) fn release(&mut self, port: Port) {
        if self.used.remove(&port.vci) {
            self.load[usize::from(port.channel)] -= 1;
        }
    }
}
