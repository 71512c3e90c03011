//! Packets between a lease and what they belong to: a connection, a socket.

use crate::clock::{Clock, until};
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseError, Sent};
use barewire::ConnectionId;
use barewire_proto::edge::message::{Checksum, PACKET_HEADER_BYTES, PacketHeader};
use barewire_tcp::{Checked, Endpoint, MTU_MAX, Outgoing};
use barewire_units::{Duration, Instant};

/// How many packets one call takes from the bridge, so that others get their turn.
const PACKETS_MAX: usize = 256;

/// How long to wait before a full queue to the bridge is tried again.
const FULL_WAIT: Duration = Duration::from_ms(1);

/// An endpoint and the lease whose packets it gets.
#[derive(Debug)]
pub(crate) struct Driven<E> {
    pub(crate) endpoint: E,
    lease: Lease,
    clock: Clock,
    /// A packet to be sent, behind room for its header.
    buffer: Vec<u8>,
    /// That of `buffer` that the queue had no room for.
    waiting: Option<Outgoing>,
    gone: Option<LeaseError>,
}

impl<E: Endpoint> Driven<E> {
    pub(crate) fn new(endpoint: E, lease: Lease, clock: Clock) -> Self {
        Self {
            endpoint,
            lease,
            clock,
            buffer: vec![0; PACKET_HEADER_BYTES + MTU_MAX],
            waiting: None,
            gone: None,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.lease.id()
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Moves all packets that are there, both ways, without waiting. Says whether one came.
    ///
    /// # Errors
    /// [`EdgeError::Lease`] once all that came before the end was taken.
    pub(crate) fn pump(&mut self) -> Result<bool, EdgeError> {
        self.pump_until(|_| false)
    }

    /// As [`Self::pump`], but takes no more packets once this holds.
    ///
    /// # Errors
    /// As [`Self::pump`].
    pub(crate) fn pump_until(&mut self, holds: impl Fn(&E) -> bool) -> Result<bool, EdgeError> {
        let mut has_come = false;
        for _ in 0..PACKETS_MAX {
            if holds(&self.endpoint) || !self.take(None)? {
                break;
            }
            has_come = true;
        }
        self.send_all()?;
        Ok(has_come)
    }

    /// Moves packets, and waits for one to come, for a deadline of the endpoint, or for `longest`.
    ///
    /// # Errors
    /// As [`Self::pump`].
    pub(crate) fn wait(&mut self, longest: std::time::Duration) -> Result<(), EdgeError> {
        if self.pump()? {
            return Ok(());
        }
        let wake = self.next_deadline().map(|at| until(at, self.now()));
        let longest = wake.map_or(longest, |wake| longest.min(wake));
        self.take(Some(longest))?;
        self.pump()?;
        Ok(())
    }

    /// Takes a packet from the bridge; says whether there was one.
    fn take(&mut self, longest: Option<std::time::Duration>) -> Result<bool, EdgeError> {
        if let Some(gone) = &self.gone {
            return Err(gone.clone().into());
        }
        match self.lease.recv_mut(longest) {
            Ok(Some((header, packet))) => {
                let checked = match header.checksum {
                    Checksum::Present => Checked::No,
                    Checksum::Verified | Checksum::Open { .. } => Checked::Yes,
                };
                self.endpoint
                    .handle_packet(packet, checked, self.clock.now());
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.gone = Some(error.clone());
                Err(error.into())
            }
        }
    }

    fn send_all(&mut self) -> Result<(), EdgeError> {
        loop {
            let now = self.clock.now();
            let next = match self.waiting.take() {
                Some(waiting) => Some(waiting),
                None => self
                    .endpoint
                    .poll_packet(&mut self.buffer[PACKET_HEADER_BYTES..], now),
            };
            let Some(outgoing) = next else {
                return Ok(());
            };
            let header = PacketHeader {
                checksum: outgoing
                    .checksum
                    .map_or(Checksum::Present, |place| Checksum::Open {
                        start: place.start,
                        offset: place.offset,
                    }),
                segment_bytes: outgoing.segment_bytes.unwrap_or(0),
            };
            let message = &mut self.buffer[..PACKET_HEADER_BYTES + outgoing.bytes];
            let sent = self.lease.try_send_message(&header, message)?;
            if sent == Sent::Full {
                self.waiting = Some(outgoing);
                return Ok(());
            }
        }
    }

    /// When to call [`Self::pump`] even if nothing comes.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.waiting {
            // Until there is room, the endpoint is not asked, so its deadline may have passed.
            Some(_) => Some(self.now().saturating_add(FULL_WAIT)),
            None => self.endpoint.next_deadline(),
        }
    }
}
