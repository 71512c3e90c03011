//! A TCP connection to an ordinary host.

use crate::clock::Clock;
use crate::error::EdgeError;
use crate::lease::{Lease, LeaseOptions};
use crate::packets::Driven;
use barewire::{ConnectionId, Node};
use barewire_proto::edge::message::{Ask, Protocol};
use barewire_tcp::{Config, Counts, Offload, State, Tcp};
use barewire_units::Instant;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// The longest packet that this end leaves to the bridge to cut. Some of them fit into the queue to
/// it.
const LARGE_BYTES_MAX: usize = 61_440;

/// The longest queue to this program that is asked for because of its receive buffer.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// So often one call takes packets, until others have their turn: whoever sends faster than they are taken keeps no caller.
/// What is left makes another event.
const PUMPS_MAX: usize = 16;

/// Until something happens, or for ever: a call looks again after so long.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// How to find the bridge. Its queue is made longer where the receive buffer demands it.
    pub lease: LeaseOptions,
    /// The port of this end; 0: any that is free.
    pub local_port: u16,
    /// Bytes that wait to be sent or acknowledged, at most.
    pub send_buffer_bytes: usize,
    /// Bytes that were received and not read, at most.
    pub receive_buffer_bytes: usize,
    /// Whether short pieces wait until what was sent before is acknowledged.
    pub nagle: bool,
    /// After how long without a packet the other end is asked whether it still lives.
    pub keep_alive: Option<Duration>,
    /// How long the other end may leave what was sent unanswered.
    pub timeout: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            lease: LeaseOptions::default(),
            local_port: 0,
            send_buffer_bytes: 1 << 20,
            receive_buffer_bytes: 1 << 20,
            nagle: false,
            keep_alive: None,
            timeout: Duration::from_secs(120),
        }
    }
}

impl StreamOptions {
    /// How to find the bridge, with a queue that has room for all that the other end may send. Twice that: packets have
    /// headers, and lie at whole lines. What finds no room is lost, and TCP takes that for congestion.
    pub(crate) fn lease(&self) -> LeaseOptions {
        let queue = self.receive_buffer_bytes.saturating_mul(2);
        let queue = queue.min(QUEUE_BYTES_MAX).next_power_of_two();
        LeaseOptions {
            ring_bytes: self.lease.ring_bytes.max(queue),
            ..self.lease.clone()
        }
    }

    /// What to ask the bridge for.
    pub(crate) fn ask(&self, remote: SocketAddr) -> Ask {
        Ask {
            local_port: self.local_port,
            ..Ask::connect(Protocol::Tcp, remote)
        }
    }

    /// The settings of the connection itself, over a lease.
    pub(crate) fn config(
        &self,
        lease: &mut Lease,
        remote: SocketAddr,
    ) -> Result<Config, EdgeError> {
        let mut seed = [0; 8];
        barewire_sys::process::random_bytes(&mut seed)
            .map_err(|error| EdgeError::NoEntropy(error.to_string()))?;
        let time = |duration: Duration| {
            barewire_units::Duration::try_from(duration).unwrap_or(barewire_units::Duration::MAX)
        };
        let room = lease.room_bytes();
        let granted = lease.granted();
        let mtu = usize::from(granted.mtu_bytes);
        let large = LARGE_BYTES_MAX
            .min(granted.packet_bytes_max as usize)
            .min(room);
        Ok(Config {
            mtu,
            send_buffer_bytes: self.send_buffer_bytes,
            receive_buffer_bytes: self.receive_buffer_bytes,
            nagle: self.nagle,
            keep_alive: self.keep_alive.map(time),
            timeout: time(self.timeout),
            offload: Offload {
                checksum: granted.takes.open_checksum,
                segmentation_bytes_max: (granted.takes.large_tcp && large > mtu).then_some(large),
            },
            ..Config::new(granted.local, remote, u64::from_le_bytes(seed))
        })
    }
}

/// A TCP connection to an ordinary host. Dropping it ends it at once, and what was not acknowledged
/// may be lost: [`finish`](Self::finish) waits for that.
///
/// `read` and `write` of [`std::io`] wait. Whoever has many connections uses those that begin with
/// `try_`, and [`Edge`](crate::Edge).
#[derive(Debug)]
pub struct EdgeStream {
    driven: Driven<Tcp>,
}

impl EdgeStream {
    /// Opens a connection, and waits until it is open.
    ///
    /// # Errors
    /// The bridge gives no lease; the other end refuses, or does not answer.
    pub fn connect(
        node: &Node,
        remote: SocketAddr,
        options: &StreamOptions,
    ) -> Result<Self, EdgeError> {
        let mut stream = Self::start_connect(node, remote, options)?;
        stream.wait_until(None, |tcp| tcp.state() != State::Opening)?;
        match stream.driven.endpoint.error() {
            Some(error) => Err(error.into()),
            None => Ok(stream),
        }
    }

    /// Begins to open a connection. It waits for the bridge, but not for the other end.
    ///
    /// # Errors
    /// The bridge gives no lease, or the settings are wrong.
    pub fn start_connect(
        node: &Node,
        remote: SocketAddr,
        options: &StreamOptions,
    ) -> Result<Self, EdgeError> {
        let lease = Lease::new(node, &options.ask(remote), &options.lease())?;
        Self::start_over(lease, remote, options)
    }

    /// Begins to open a connection over a lease for it.
    pub(crate) fn start_over(
        mut lease: Lease,
        remote: SocketAddr,
        options: &StreamOptions,
    ) -> Result<Self, EdgeError> {
        let config = options.config(&mut lease, remote)?;
        let clock = Clock::new();
        let tcp = Tcp::connect(&config, clock.now())?;
        let mut stream = Self::around(tcp, lease, clock);
        stream.pump()?;
        Ok(stream)
    }

    pub(crate) fn around(tcp: Tcp, lease: Lease, clock: Clock) -> Self {
        Self {
            driven: Driven::new(tcp, lease, clock),
        }
    }

    /// Address and port of this end.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.driven.lease().granted().local
    }

    /// Address and port of the other end.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.driven.endpoint.config().remote
    }

    /// The number of the connection to the bridge: events of the node name it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.driven.id()
    }

    /// Where the connection stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.driven.endpoint.state()
    }

    /// Why it has ended, if not because both ends wanted it.
    #[must_use]
    pub fn error(&self) -> Option<barewire_tcp::Error> {
        self.driven.endpoint.error()
    }

    /// How the sending side fares.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.driven.endpoint.counts()
    }

    /// Moves packets that are there, without waiting: after an event of the node that names
    /// [`id`](Self::id), and when [`next_deadline`](Self::next_deadline) has come.
    ///
    /// # Errors
    /// [`EdgeError::Lease`]: the bridge is gone.
    pub fn pump(&mut self) -> Result<(), EdgeError> {
        for _ in 0..PUMPS_MAX {
            if !self.driven.pump()? {
                break;
            }
        }
        Ok(())
    }

    /// When to call [`pump`](Self::pump) even if there is no event, from now on.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let deadline = self.driven.next_deadline()?;
        Some(crate::clock::until(deadline, self.driven.now()))
    }

    /// Writes as many bytes as there is room for, and gives their number: 0 while the connection is
    /// not open yet.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, EdgeError> {
        self.pump()?;
        if self.state() == State::Opening {
            return Ok(0);
        }
        let count = self.driven.endpoint.send(bytes)?;
        self.pump()?;
        Ok(count)
    }

    /// Reads as many bytes as there are and fit. `None`: there is nothing now; 0: the other end has
    /// ended its stream.
    ///
    /// # Errors
    /// Why the connection has ended, once all is read.
    pub fn try_read(&mut self, into: &mut [u8]) -> Result<Option<usize>, EdgeError> {
        let pumped = self.pump_for(into.len());
        if self.state() == State::Opening {
            return pumped.map(|()| None);
        }
        let count = self.driven.endpoint.receive(into)?;
        if count > 0 {
            // The window may have to be told, but what was read is not lost if that fails.
            let _ = self.driven.pump_until(|_| true);
            return Ok(Some(count));
        }
        if self.driven.endpoint.has_ended() || into.is_empty() {
            return Ok(Some(0));
        }
        pumped?;
        Ok(None)
    }

    /// As [`pump`](Self::pump), but takes no more than gives so many bytes to read: the rest would only leave the
    /// processor's cache on the way.
    fn pump_for(&mut self, bytes: usize) -> Result<(), EdgeError> {
        let has_enough = |tcp: &Tcp| tcp.readable_bytes() >= bytes.max(1);
        for _ in 0..PUMPS_MAX {
            if !self.driven.pump_until(has_enough)? || has_enough(&self.driven.endpoint) {
                break;
            }
        }
        Ok(())
    }

    /// Ends the stream to the other end. The other direction stays open.
    ///
    /// # Errors
    /// [`EdgeError::Lease`]: the bridge is gone.
    pub fn shutdown(&mut self) -> Result<(), EdgeError> {
        self.driven.endpoint.shutdown();
        self.pump()
    }

    /// Ends the stream to the other end, and waits until that has acknowledged all of it, for at
    /// most `longest`.
    ///
    /// # Errors
    /// [`EdgeError::TimedOut`], or why the connection has ended before.
    pub fn finish(mut self, longest: Duration) -> Result<(), EdgeError> {
        self.driven.endpoint.close();
        self.wait_until(Some(longest), |tcp| {
            tcp.is_end_acknowledged() || tcp.state() == State::Closed
        })?;
        match self.driven.endpoint.error() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Waits until something holds of the connection, or it has ended.
    fn wait_until(
        &mut self,
        longest: Option<Duration>,
        holds: impl Fn(&Tcp) -> bool,
    ) -> Result<(), EdgeError> {
        let end = longest.map(|longest| std::time::Instant::now() + longest);
        self.pump()?;
        while !holds(&self.driven.endpoint) && self.state() != State::Closed {
            let left = match end {
                None => LONGEST_WAIT,
                Some(end) => end.saturating_duration_since(std::time::Instant::now()),
            };
            if left.is_zero() {
                return Err(EdgeError::TimedOut);
            }
            self.driven.wait(left)?;
        }
        Ok(())
    }

    pub(crate) fn deadline(&self) -> Option<(Instant, Instant)> {
        Some((self.driven.next_deadline()?, self.driven.now()))
    }
}

impl Read for EdgeStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(count) = self.try_read(into)? {
                return Ok(count);
            }
            self.wait_until(None, |tcp| tcp.readable_bytes() > 0 || tcp.has_ended())?;
        }
    }
}

impl Write for EdgeStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let count = self.try_write(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            self.wait_until(None, |tcp| tcp.writable_bytes() > 0)?;
        }
    }

    /// Does nothing: what was written is sent as soon as the other end takes it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_has_room_for_the_receive_buffer() {
        let queue = |receive_buffer_bytes, ring_bytes| {
            let mut options = StreamOptions {
                receive_buffer_bytes,
                ..StreamOptions::default()
            };
            options.lease.ring_bytes = ring_bytes;
            options.lease().ring_bytes
        };
        assert_eq!(queue(1 << 20, 256 << 10), 2 << 20);
        assert_eq!(queue(300_000, 256 << 10), 1 << 20);
        // What is asked for stays, and large packets need it.
        assert_eq!(queue(16 << 10, 256 << 10), 256 << 10);
        assert_eq!(queue(1 << 20, 16 << 20), 16 << 20);
        assert_eq!(queue(usize::MAX, 4096), QUEUE_BYTES_MAX);
    }
}
