//! The carrier.

use std::os::fd::BorrowedFd;

use barewire_carrier::{Arrival, Broken, Carrier, Properties, Sleep};

use crate::linger;
use crate::link::Link;

/// A carrier over a pair of connected endpoints of libfabric.
///
/// It holds 16 messages of 64 KiB for each direction. When it is dropped, a thread sends what
/// the other side has not read yet, see [`wait_until_sent`](crate::wait_until_sent).
pub struct OfiCarrier {
    /// There until it is dropped.
    link: Option<Link>,
    properties: Properties,
}

impl OfiCarrier {
    pub(crate) fn new(link: Link, properties: Properties) -> OfiCarrier {
        OfiCarrier {
            link: Some(link),
            properties,
        }
    }

    fn link(&mut self) -> &mut Link {
        self.link.as_mut().expect("taken only by drop")
    }
}

impl std::fmt::Debug for OfiCarrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OfiCarrier")
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

impl Carrier for OfiCarrier {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.link().write(bytes)
    }

    fn flush(&mut self) -> Result<bool, Broken> {
        self.link().flush()
    }

    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        self.link().read(into)
    }

    fn finish(&mut self) -> Result<(), Broken> {
        self.link().finish()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        let link = self.link.as_ref().expect("taken only by drop");
        link.descriptor()
    }

    fn before_sleep(&mut self) -> Sleep {
        self.link().before_sleep()
    }

    fn properties(&self) -> Properties {
        self.properties.clone()
    }
}

impl Drop for OfiCarrier {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            linger::close(link);
        }
    }
}
