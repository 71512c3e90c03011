//! Implements the traits of `barewire-fabric`, which the conformance suite is written against.

use std::time::Duration;

use barewire_fabric::aperture::{
    Action, ByteStream, EventSource, Mode, Notice, OwnerTripwires, Received, Transport, Trap,
    TripwireSet,
};

use crate::error::{Error, Result};
use crate::handles::aperture::Aperture;
use crate::handles::connection::Connection;
use crate::handles::event::Event;
use crate::handles::node::Node;
use crate::handles::remote::RemoteAperture;
use crate::handles::stream::Stream;
use crate::handles::tripwire::Tripwire;

impl Trap for Tripwire {
    fn is_armed(&self) -> bool {
        Tripwire::is_armed(self)
    }
    fn count(&self) -> u64 {
        Tripwire::count(self)
    }
    fn disarm(&self) {
        Tripwire::disarm(self);
    }
}

impl TripwireSet for Aperture {
    type Trap = Tripwire;
    type Error = Error;
    fn arm(&self, offset: usize, len: usize, mode: Mode, action: Action) -> Result<Tripwire> {
        self.tripwire(offset, len, mode, action)
    }
}

impl TripwireSet for RemoteAperture {
    type Trap = Tripwire;
    type Error = Error;
    fn arm(&self, offset: usize, len: usize, mode: Mode, action: Action) -> Result<Tripwire> {
        self.tripwire(offset, len, mode, action)
    }
}

impl OwnerTripwires for RemoteAperture {
    fn arm_on_owner(
        &self,
        offset: usize,
        len: usize,
        mode: Mode,
        action: Action,
    ) -> Result<Tripwire> {
        self.tripwire_on_owner(offset, len, mode, action)
    }
}

fn notice(event: &Event) -> Notice {
    match event {
        Event::Tripwire { cookie, .. } => Notice::Tripwire { cookie: *cookie },
        Event::Ready(id) => Notice::Ready {
            connection: id.index() as u64,
        },
        _ => Notice::Other,
    }
}

/// Events that are more than a notice (requests, apertures) are dropped: for programs that
/// have what they need.
impl EventSource for Node {
    type Error = Error;
    fn poll_notices(&self, notices: &mut Vec<Notice>, max: usize) -> Result<usize> {
        let mut events = Vec::new();
        let found = self.poll(&mut events, max)?;
        notices.extend(events.iter().map(notice));
        Ok(found)
    }
    fn wait_notices(
        &self,
        notices: &mut Vec<Notice>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize> {
        let mut events = Vec::new();
        let found = self.wait(&mut events, max, Some(timeout))?;
        notices.extend(events.iter().map(notice));
        Ok(found)
    }
}

impl Transport for Connection {
    type Error = Error;
    fn number(&self) -> u64 {
        self.id().index() as u64
    }
    fn message_bytes_max(&self) -> usize {
        usize::try_from(self.sender.message_bytes_max()).unwrap_or(usize::MAX)
    }
    fn try_send(&mut self, message: &[u8]) -> Result<bool> {
        Connection::try_send(self, message)
    }
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<()> {
        self.sender().send_timeout(message, Some(timeout))
    }
    fn try_recv(&mut self, into: &mut Vec<u8>) -> Result<Received> {
        Transport::recv(self, into, Duration::ZERO)
    }
    fn recv(&mut self, into: &mut Vec<u8>, timeout: Duration) -> Result<Received> {
        match self.receiver().recv_into_timeout(into, timeout) {
            Ok(Some(_)) => Ok(Received::Message),
            Ok(None) => Ok(Received::Nothing),
            Err(Error::Finished) => Ok(Received::Finished),
            Err(error) => Err(error),
        }
    }
    fn finish(&mut self) {
        Connection::finish(self);
    }
}

impl ByteStream for Stream {
    type Error = Error;
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<usize> {
        self.writer().write_timeout(bytes, Some(timeout))
    }
    fn read(&mut self, into: &mut [u8], timeout: Duration) -> Result<Option<usize>> {
        self.reader().read_timeout(into, Some(timeout))
    }
    fn finish(&mut self) {
        Stream::finish(self);
    }
}
