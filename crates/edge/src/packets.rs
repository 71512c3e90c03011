//! Packets between a lease and what they belong to: a connection, a socket.

use crate::clock::{Clock, Rebase, until};
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

impl<E: Endpoint + Rebase> Driven<E> {
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
                let now = self.clock.advance(&mut self.endpoint);
                self.endpoint.handle_packet(packet, checked, now);
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
            let now = self.clock.advance(&mut self.endpoint);
            let next = match self.waiting.take() {
                Some(waiting) => Some(waiting),
                None => self
                    .endpoint
                    .poll_head(&mut self.buffer[PACKET_HEADER_BYTES..], now),
            };
            let Some(outgoing) = next else {
                return Ok(());
            };
            if self.send(&outgoing)? == Sent::Full {
                self.waiting = Some(Outgoing {
                    left_out: None,
                    ..outgoing
                });
                return Ok(());
            }
        }
    }

    /// Sends a packet whose beginning is in `buffer`. If the queue is full, the whole packet is there then.
    fn send(&mut self, outgoing: &Outgoing) -> Result<Sent, EdgeError> {
        let header = header(outgoing);
        let len = PACKET_HEADER_BYTES + outgoing.bytes;
        let payload = self.endpoint.left_out(outgoing);
        let [first, second] = payload.map(<[u8]>::len);
        let (head, rest) = self.buffer[..len].split_at_mut(len - first - second);
        let mut sent = None;
        if !rest.is_empty() {
            sent = self.lease.try_send_parts(&header, head, payload)?;
            if sent != Some(Sent::Queued) {
                rest[..first].copy_from_slice(payload[0]);
                rest[first..].copy_from_slice(payload[1]);
            }
        }
        match sent {
            Some(sent) => Ok(sent),
            None => Ok(self
                .lease
                .try_send_message(&header, &mut self.buffer[..len])?),
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

/// What the bridge is told of a packet.
fn header(outgoing: &Outgoing) -> PacketHeader {
    PacketHeader {
        checksum: outgoing
            .checksum
            .map_or(Checksum::Present, |place| Checksum::Open {
                start: place.start,
                offset: place.offset,
            }),
        segment_bytes: outgoing.segment_bytes.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire::{Connection, Node};
    use barewire_proto::edge::message::{Answer, Ask, Granted, MESSAGE_BYTES_MAX, Protocol, Takes};
    use barewire_tcp::{Config, State, Tcp};
    use std::net::SocketAddr;

    const LONG: std::time::Duration = std::time::Duration::from_secs(60);

    /// Grants a lease, behind which is a host that sends back what comes. Its clock runs for so long already, too.
    fn bridge(mut connection: Connection, ago: std::time::Duration) {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let len = connection.recv(&mut message).expect("it asks");
        let ask = Ask::parse(&message[..len]).expect("it asks for a lease");
        let granted = Granted {
            protocol: ask.protocol,
            takes: Takes::NOTHING,
            local: SocketAddr::from(([192, 0, 2, 1], 40_000)),
            mtu_bytes: 1500,
            packet_bytes_max: 65_535,
        };
        let answer = Answer::Granted(granted);
        connection
            .send(answer.to_bytes().as_ref())
            .expect("it hears of it");
        let config = Config::new(ask.remote, granted.local, 1);
        let (mut clock, mut host) = (Clock::begun(ago), None::<Tcp>);
        let mut out = vec![0; 1500];
        while let Ok(received) = connection.recv_timeout(&mut message, LONG) {
            let len = received.expect("it is not silent");
            let (_, packet) = PacketHeader::parse(&message[..len]).expect("a packet");
            let mut packet = packet.to_vec();
            let Some(tcp) = &mut host else {
                host = Tcp::accept(&config, &packet, Checked::No, clock.now()).ok();
                send(host.as_mut(), &mut clock, &mut out, &mut connection);
                continue;
            };
            let now = clock.advance(tcp);
            tcp.handle_packet(&mut packet, Checked::No, now);
            let mut buffer = [0; 1000];
            while let Ok(count @ 1..) = tcp.receive(&mut buffer) {
                tcp.send(&buffer[..count]).expect("it is open");
            }
            send(host.as_mut(), &mut clock, &mut out, &mut connection);
        }
    }

    fn send(host: Option<&mut Tcp>, clock: &mut Clock, out: &mut [u8], to: &mut Connection) {
        let host = host.expect("a SYN came first");
        let now = clock.advance(host);
        while let Some(sent) = host.poll_packet(out, now) {
            let header = PacketHeader::default().to_bytes();
            let _ = to.send(&[&header[..], &out[..sent.bytes]].concat());
        }
    }

    #[test]
    fn a_connection_goes_on_where_its_origin_moves() {
        let day = std::time::Duration::from_secs(86_400);
        let node = Node::new().expect("a node");
        for (days, wait_ms, left) in [(0, 0, 0), (150, 200, 50), (210, 0, 110), (1000, 0, 100)] {
            let name = format!("edge-origins-{days}-{}", std::process::id());
            let far = Node::new().expect("a node");
            let listener = far.listen(&name).expect("the name is free");
            // The origin moves in the middle of it, or at the first packet of a clock that has stood still.
            let ago = (day * days).saturating_sub(std::time::Duration::from_millis(wait_ms));
            let host = std::thread::spawn(move || {
                let request = far.next_request(LONG).expect("a client asks");
                bridge(request.accept().expect("it is there"), ago);
                drop(listener);
            });
            let remote = SocketAddr::from(([192, 0, 2, 2], 7));
            let options = crate::lease::LeaseOptions {
                name,
                ..Default::default()
            };
            let lease = Lease::new(&node, &Ask::connect(Protocol::Tcp, remote), &options);
            let lease = lease.expect("a lease");
            let clock = Clock::begun(ago);
            let config = Config::new(lease.granted().local, remote, 2);
            let tcp = Tcp::connect(&config, clock.now()).expect("an address");
            let mut driven = Driven::new(tcp, lease, clock);
            let begun = std::time::Instant::now();
            let until_ms = 2 * wait_ms;
            let (mut sent, mut received) = (0, 0);
            while received < 10_000 || begun.elapsed().as_millis() < until_ms.into() {
                assert!(begun.elapsed() < LONG / 2, "{days} days: {received} bytes");
                if driven.endpoint.state() == State::Open && sent == received {
                    sent += driven.endpoint.send(&[7; 1000]).expect("it is open");
                }
                driven.wait(LONG).expect("the bridge is there");
                let mut buffer = [0; 1000];
                while let Ok(count @ 1..) = driven.endpoint.receive(&mut buffer) {
                    received += count;
                }
            }
            assert_eq!(driven.now().since_origin().as_s() / 86_400, left);
            drop(driven);
            host.join().expect("the host does not panic");
        }
    }

    /// A connection of this program, and the bridge's end of its lease.
    fn lease(node: &Node, far: &Node, name: &str) -> (Lease, Connection) {
        let _listener = far.listen(name).expect("the name is free");
        let remote = SocketAddr::from(([192, 0, 2, 2], 7));
        std::thread::scope(|scope| {
            let granting = scope.spawn(|| {
                let request = far.next_request(LONG).expect("a client asks");
                let mut connection = request.accept().expect("it is there");
                let mut message = vec![0; MESSAGE_BYTES_MAX];
                let len = connection.recv(&mut message).expect("it asks");
                let ask = Ask::parse(&message[..len]).expect("it asks for a lease");
                let granted = Granted {
                    protocol: ask.protocol,
                    takes: Takes::ALL,
                    local: SocketAddr::from(([192, 0, 2, 1], 40_000)),
                    mtu_bytes: 1500,
                    packet_bytes_max: 65_535,
                };
                let answer = Answer::Granted(granted).to_bytes();
                connection.send(answer.as_ref()).expect("it hears of it");
                connection
            });
            let options = crate::lease::LeaseOptions {
                name: name.to_owned(),
                ..Default::default()
            };
            let lease = Lease::new(node, &Ask::connect(Protocol::Tcp, remote), &options);
            let connection = granting.join().expect("it does not panic");
            (lease.expect("a lease"), connection)
        })
    }

    #[test]
    fn long_payloads_arrive_whole_by_queues_that_are_often_full() {
        let node = Node::new().expect("a node");
        // One that takes a large packet in one piece, and one that does not.
        for ring_bytes in [256 << 10, 128 << 10] {
            let far = Node::with_config(barewire::NodeConfig {
                ring_bytes,
                ..barewire::NodeConfig::default()
            })
            .expect("a node");
            let name = format!("edge-parts-{ring_bytes}-{}", std::process::id());
            let (lease, mut connection) = lease(&node, &far, &name);
            let (local, remote) = (lease.granted().local, SocketAddr::from(([192, 0, 2, 2], 7)));
            let mut config = Config::new(local, remote, 2);
            config.offload.checksum = true;
            config.offload.segmentation_bytes_max = Some(60_000);
            let mut clock = Clock::new();
            let tcp = Tcp::connect(&config, clock.now()).expect("an address");
            let mut driven = Driven::new(tcp, lease, Clock::new());
            let far_config = Config::new(remote, local, 1);
            let mut host = None::<Tcp>;
            let (mut message, mut out) = (vec![0; MESSAGE_BYTES_MAX], vec![0; 1500]);
            let (mut sent, mut received, mut is_full, mut is_long) = (0_usize, 0_usize, 0, 0);
            let byte = |at: usize| (at % 251) as u8;
            while received < 8 << 20 {
                if driven.endpoint.state() == State::Open {
                    let more: Vec<u8> = (sent..sent + 100_000).map(byte).collect();
                    sent += driven.endpoint.send(&more).expect("it is open");
                }
                driven.pump().expect("the bridge is there");
                is_full += u32::from(driven.waiting.is_some());
                let Some(len) = connection.try_recv(&mut message).expect("it is there") else {
                    continue;
                };
                let (_, packet) = PacketHeader::parse(&message[..len]).expect("a packet");
                is_long += u32::from(packet.len() > 50_000);
                let (mut packet, now) = (packet.to_vec(), clock.now());
                match &mut host {
                    Some(host) => host.handle_packet(&mut packet, Checked::Yes, now),
                    None => host = Tcp::accept(&far_config, &packet, Checked::Yes, now).ok(),
                }
                let mut buffer = [0; 65_536];
                let tcp = host.as_mut().expect("a SYN came first");
                while let Ok(count @ 1..) = tcp.receive(&mut buffer) {
                    let expected: Vec<u8> = (received..received + count).map(byte).collect();
                    assert!(buffer[..count] == expected, "at {received}");
                    received += count;
                }
                send(Some(tcp), &mut clock, &mut out, &mut connection);
            }
            assert!(is_full > 0 && is_long > 10, "{is_full}, {is_long}");
        }
    }
}
