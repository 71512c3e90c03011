//! Connections over leases of a bridge that the test plays: behind it is a host that sends back what
//! it gets. No device and no root is needed.

use barewire::{Connection, Error, Node};
use barewire_edge::{
    Ask, Checksum, Edge, EdgeError, EdgeNode, EdgeStream, LeaseError, LeaseOptions, PacketHeader,
    StreamOptions, Takes,
};
use barewire_proto::edge::message::{Answer, Granted, MESSAGE_BYTES_MAX, Refusal};
use barewire_tcp::{Checked, Config, Endpoint, State, Tcp};
use barewire_units::Instant;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Nothing listens at this port.
const CLOSED_PORT: u16 = 9;

/// The bridge refuses leases to this port.
const REFUSED_PORT: u16 = 13;

fn options(name: &str) -> StreamOptions {
    StreamOptions {
        lease: LeaseOptions {
            name: name.to_owned(),
            ..LeaseOptions::default()
        },
        ..StreamOptions::default()
    }
}

/// A bridge in a thread of its own, which serves so many leases and ends.
fn bridge(test: &str, leases: usize, takes: Takes) -> (String, std::thread::JoinHandle<()>) {
    let name = format!("edge-{test}-{}", std::process::id());
    let node = Node::new().expect("a node");
    let listener = node.listen(&name).expect("the name is free");
    let bridge = std::thread::spawn(move || {
        let hosts: Vec<_> = (0..leases)
            .map(|number| {
                let request = node.next_request(LONG).expect("a client asks");
                let connection = request.accept_with_ring(256 << 10).expect("it is there");
                std::thread::spawn(move || serve(connection, number, takes))
            })
            .collect();
        drop(listener);
        for host in hosts {
            host.join().expect("the host does not panic");
        }
    });
    (name, bridge)
}

/// One lease, and the host behind it.
fn serve(mut connection: Connection, number: usize, takes: Takes) {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let len = connection.recv(&mut message).expect("it asks");
    let ask = Ask::parse(&message[..len]).expect("it asks for a lease");
    if ask.remote.port() == REFUSED_PORT {
        let refused = Answer::Refused(Refusal::PortTaken(REFUSED_PORT));
        connection
            .send(refused.to_bytes().as_ref())
            .expect("it hears of it");
        return;
    }
    let port = 40_000 + u16::try_from(number).expect("few leases");
    let granted = Granted {
        protocol: ask.protocol,
        takes,
        local: SocketAddr::from(([192, 0, 2, 1], port)),
        mtu_bytes: 1500,
        packet_bytes_max: 65_535,
    };
    connection
        .send(Answer::Granted(granted).to_bytes().as_ref())
        .expect("it hears of it");
    let mut host = Host {
        tcp: None,
        config: Config::new(ask.remote, granted.local, number as u64),
        start: std::time::Instant::now(),
        echo: Vec::new(),
    };
    while host.step(&mut connection, &mut message) {}
}

/// A host that sends back what it gets.
struct Host {
    tcp: Option<Tcp>,
    config: Config,
    start: std::time::Instant,
    echo: Vec<u8>,
}

impl Host {
    fn now(&self) -> Instant {
        let ns = self.start.elapsed().as_nanos() as u64;
        Instant::ORIGIN + barewire_units::Duration::from_ns(ns)
    }

    /// False once the lease has ended.
    fn step(&mut self, connection: &mut Connection, message: &mut [u8]) -> bool {
        let deadline = self.tcp.as_ref().and_then(Endpoint::next_deadline);
        let wait = deadline.map_or(LONG, |at| {
            Duration::from_nanos(at.saturating_duration_since(self.now()).as_ns())
        });
        match connection.recv_timeout(message, wait) {
            Ok(Some(len)) => self.packet(connection, &mut message[..len]),
            Ok(None) => {}
            Err(Error::Finished | Error::PeerGone) => return false,
            Err(error) => panic!("{error}"),
        }
        self.echo_all();
        let now = self.now();
        let Some(tcp) = &mut self.tcp else {
            return true;
        };
        let mut packet = [0; 1500];
        while let Some(sent) = tcp.poll_packet(&mut packet, now) {
            let header = PacketHeader::default().to_bytes();
            let whole = [&header[..], &packet[..sent.bytes]].concat();
            if connection.send(&whole).is_err() {
                return false;
            }
        }
        true
    }

    fn packet(&mut self, connection: &mut Connection, message: &mut [u8]) {
        let (header, packet) = PacketHeader::parse(message).expect("a packet");
        let checked = match header.checksum {
            Checksum::Present => Checked::No,
            Checksum::Verified | Checksum::Open { .. } => Checked::Yes,
        };
        let mut packet = packet.to_vec();
        let now = self.now();
        match &mut self.tcp {
            Some(tcp) => tcp.handle_packet(&mut packet, checked, now),
            None if self.config.local.port() == CLOSED_PORT => {
                let reset = refuse(&packet);
                let header = PacketHeader::default().to_bytes();
                let _ = connection.send(&[&header[..], &reset].concat());
            }
            None => self.tcp = Tcp::accept(&self.config, &packet, checked, now).ok(),
        }
    }

    fn echo_all(&mut self) {
        let Some(tcp) = &mut self.tcp else {
            return;
        };
        let mut buffer = [0; 8192];
        while self.echo.len() < 100_000 {
            match tcp.receive(&mut buffer) {
                Ok(count @ 1..) => self.echo.extend_from_slice(&buffer[..count]),
                _ => break,
            }
        }
        if let Ok(count) = tcp.send(&self.echo) {
            self.echo.drain(..count);
        }
        if tcp.has_ended() && self.echo.is_empty() {
            tcp.shutdown();
        }
    }
}

/// The reset with which a host refuses a SYN over IPv4.
fn refuse(syn: &[u8]) -> Vec<u8> {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpAddress, Ipv4Packet, TcpControl, TcpPacket, TcpRepr};
    let ip = Ipv4Packet::new_checked(syn).expect("an IPv4 packet");
    let (from, to) = (
        IpAddress::Ipv4(ip.src_addr()),
        IpAddress::Ipv4(ip.dst_addr()),
    );
    let view = TcpPacket::new_checked(ip.payload()).expect("a segment");
    let ignored = ChecksumCapabilities::ignored();
    let syn = TcpRepr::parse(&view, &from, &to, &ignored).expect("a segment");
    let reset = TcpRepr {
        src_port: syn.dst_port,
        dst_port: syn.src_port,
        control: TcpControl::Rst,
        seq_number: smoltcp::wire::TcpSeqNumber(0),
        ack_number: Some(syn.seq_number + 1),
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let mut packet = vec![0; 20 + reset.buffer_len()];
    let header = smoltcp::wire::Ipv4Repr {
        src_addr: ip.dst_addr(),
        dst_addr: ip.src_addr(),
        next_header: smoltcp::wire::IpProtocol::Tcp,
        payload_len: reset.buffer_len(),
        hop_limit: 64,
    };
    let all = ChecksumCapabilities::default();
    header.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &all);
    reset.emit(
        &mut TcpPacket::new_unchecked(&mut packet[20..]),
        &to,
        &from,
        &all,
    );
    packet
}

/// Sends bytes and reads them back, from two threads' point of view: as much as goes each way.
fn exchange(stream: &mut EdgeStream, total: usize) {
    let bytes: Vec<u8> = (0..total).map(|i| (i * 7 / 3) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let mut buffer = vec![0; 65_536];
    while received.len() < total {
        if sent < total {
            sent += stream.try_write(&bytes[sent..]).expect("it is open");
        }
        // Part of what was sent must come back.
        let count = stream.read(&mut buffer).expect("it is open");
        assert!(count > 0, "the stream has ended");
        received.extend_from_slice(&buffer[..count]);
    }
    assert!(received == bytes, "other bytes came back");
}

#[test]
fn a_connection_sends_receives_and_ends() {
    for (test, takes) in [("plain", Takes::NOTHING), ("offload", Takes::ALL)] {
        let (name, bridge) = bridge(test, 1, takes);
        let node = Node::new().expect("a node");
        let mut stream = node
            .tcp_connect_with("192.0.2.2:7", &options(&name))
            .expect("it connects");
        assert_eq!(stream.local().port(), 40_000);
        assert_eq!(stream.remote().port(), 7);
        exchange(&mut stream, 3_000_000);
        stream.write_all(b"the end").expect("it is open");
        stream.shutdown().expect("the bridge is there");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("it ends well");
        assert_eq!(rest, "the end");
        stream.finish(LONG).expect("all is acknowledged");
        bridge.join().expect("the bridge does not panic");
    }
}

#[test]
fn many_connections_share_an_event_queue() {
    const STREAMS: usize = 20;
    let (name, bridge) = bridge("many", STREAMS, Takes::ALL);
    let node = Node::new().expect("a node");
    let mut edge = Edge::new(&node);
    let options = options(&name);
    let mut left: HashMap<_, _> = (0..STREAMS)
        .map(|_| {
            let remote = SocketAddr::from(([192, 0, 2, 2], 7));
            let id = edge.start_connect(remote, &options).expect("a lease");
            (id, (0_usize, 0_usize))
        })
        .collect();
    const TOTAL: usize = 50_000;
    let start = std::time::Instant::now();
    while !left.is_empty() {
        assert!(start.elapsed() < LONG, "{left:?}");
        for id in edge.wait(Some(LONG)).expect("the node is well") {
            let Some((sent, received)) = left.get_mut(&id) else {
                continue;
            };
            let stream = edge.stream(id).expect("it is there");
            if stream.state() == State::Open && *sent < TOTAL {
                let bytes = vec![7; TOTAL - *sent];
                *sent += stream.try_write(&bytes).expect("it is open");
            }
            let mut buffer = [0; 8192];
            while let Some(count @ 1..) = stream.try_read(&mut buffer).expect("no error") {
                *received += count;
            }
            if *received == TOTAL {
                left.remove(&id);
                let stream = edge.remove(id).expect("it is there");
                stream.finish(LONG).expect("all is acknowledged");
            }
        }
    }
    assert!(edge.is_empty());
    bridge.join().expect("the bridge does not panic");
}

#[test]
fn a_bridge_that_is_silent_holds_nobody_up() {
    let name = format!("edge-silent-{}", std::process::id());
    let silent = Node::new().expect("a node");
    let _listener = silent.listen(&name).expect("the name is free");
    let node = Node::new().expect("a node");
    let mut edge = Edge::new(&node);
    let mut options = options(&name);
    let remote = SocketAddr::from(([192, 0, 2, 2], 7));
    for accepts in [false, true] {
        options.lease.timeout = Duration::from_millis(300);
        let id = edge.start_connect(remote, &options).expect("a bridge");
        assert!(edge.is_asking(id) && edge.stream(id).is_none() && edge.len() == 1);
        // It takes no answer.
        let held = accepts.then(|| silent.next_request(LONG).expect("one").accept());
        let start = std::time::Instant::now();
        let error = loop {
            assert!(start.elapsed() < LONG, "it waits for ever");
            if edge
                .wait(Some(LONG))
                .expect("the node is well")
                .contains(&id)
            {
                break edge.take_failure(id).expect("a failure");
            }
        };
        let is_expected = match &error {
            EdgeError::Lease(LeaseError::NoBridge { error, .. }) => {
                !accepts && *error == barewire::Error::Timeout
            }
            EdgeError::Lease(LeaseError::Gone(error)) => {
                accepts && *error == barewire::Error::Timeout
            }
            _ => false,
        };
        assert!(is_expected, "{error:?}");
        assert!(start.elapsed() >= options.lease.timeout / 2);
        assert!(edge.is_empty() && edge.take_failure(id).is_none());
        drop(held);
    }
    // What is given up before is not heard of again.
    options.lease.timeout = Duration::from_millis(50);
    let id = edge.start_connect(remote, &options).expect("a bridge");
    assert!(edge.remove(id).is_none() && edge.is_empty());
    let heard = edge.wait(Some(Duration::from_millis(100)));
    assert_eq!(heard.expect("the node is well"), []);
    // Nobody listens there: that is known at once.
    options.lease.name = format!("edge-nobody-{}", std::process::id());
    let error = edge.start_connect(remote, &options).expect_err("nobody");
    assert!(matches!(
        error,
        EdgeError::Lease(LeaseError::NoBridge { .. })
    ));
}

#[test]
fn what_goes_wrong_is_said() {
    let (name, bridge) = bridge("wrong", 2, Takes::NOTHING);
    let node = Node::new().expect("a node");
    let options = options(&name);
    let refused = node.tcp_connect_with(&format!("192.0.2.2:{CLOSED_PORT}"), &options);
    assert_eq!(
        refused.expect_err("nothing listens"),
        EdgeError::Transport(barewire_tcp::Error::Refused)
    );
    let refused = node.tcp_connect_with(&format!("192.0.2.2:{REFUSED_PORT}"), &options);
    assert_eq!(
        refused.expect_err("no lease"),
        EdgeError::Lease(LeaseError::Refused(Refusal::PortTaken(REFUSED_PORT)))
    );
    let error = node.tcp_connect("not an address").expect_err("it is none");
    assert!(error.to_string().contains("198.51.100.7:80"), "{error}");
    bridge.join().expect("the bridge does not panic");
}

#[test]
fn a_bridge_that_goes_is_noticed() {
    let (name, bridge) = bridge("gone", 1, Takes::NOTHING);
    let node = Node::new().expect("a node");
    let stream = node
        .tcp_connect_with("192.0.2.2:7", &options(&name))
        .expect("it connects");
    drop(stream);
    bridge.join().expect("the host hears of the end");
    let mut short = options(&name);
    short.lease.timeout = Duration::from_millis(50);
    let error = node
        .tcp_connect_with("192.0.2.2:7", &short)
        .expect_err("the bridge is gone");
    assert!(
        matches!(error, EdgeError::Lease(LeaseError::NoBridge { .. })),
        "{error}"
    );
}
