//! Connections that others open, through a bridge that the test plays and that does not answer: it
//! holds up nobody, and strangers make no state beyond the backlog.

use barewire::{Connection, Error, Node};
use barewire_edge::{
    Ask, Edge, EdgeError, LeaseError, LeaseOptions, PacketHeader, Refusal, StreamOptions, Takes,
};
use barewire_proto::edge::message::{Answer, Granted, MESSAGE_BYTES_MAX};
use barewire_tcp::{Checked, Config, Endpoint, Tcp};
use barewire_units::Instant;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Where the program listens.
const LOCAL: ([u8; 4], u16) = ([192, 0, 2, 1], 8080);

/// How many hosts connect, and how many of them may be on the way at a time.
const HOSTS: u16 = 40;
const BACKLOG: usize = 8;

/// A host that connects to the program.
struct Host {
    tcp: Tcp,
    start: std::time::Instant,
}

impl Host {
    fn new(number: u16) -> Self {
        let local = SocketAddr::from(([192, 0, 2, 2], 1000 + number));
        let config = Config::new(local, LOCAL.into(), u64::from(number));
        Self {
            tcp: Tcp::connect(&config, Instant::ORIGIN).expect("an address"),
            start: std::time::Instant::now(),
        }
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + barewire_units::Duration::from_ns(self.start.elapsed().as_nanos() as u64)
    }

    /// Sends what is ready. False once the lease has ended.
    fn send(&mut self, to: &mut Connection) -> bool {
        let (mut packet, now) = ([0; 1500], self.now());
        while let Some(sent) = self.tcp.poll_packet(&mut packet, now) {
            let header = PacketHeader::default().to_bytes();
            if to
                .send(&[&header[..], &packet[..sent.bytes]].concat())
                .is_err()
            {
                return false;
            }
        }
        true
    }

    /// Sends back what comes, until the lease ends.
    fn serve(mut self, mut lease: Connection) {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        while self.send(&mut lease) {
            let wait = self.tcp.next_deadline().map_or(LONG, |at| {
                Duration::from_nanos(at.saturating_duration_since(self.now()).as_ns())
            });
            match lease.recv_timeout(&mut message, wait) {
                Ok(Some(len)) => {
                    let (_, packet) = PacketHeader::parse(&message[..len]).expect("a packet");
                    let (mut packet, now) = (packet.to_vec(), self.now());
                    self.tcp.handle_packet(&mut packet, Checked::No, now);
                }
                Ok(None) => {}
                Err(Error::Finished | Error::PeerGone) => return,
                Err(error) => panic!("{error}"),
            }
            let mut buffer = [0; 1000];
            while let Ok(count @ 1..) = self.tcp.receive(&mut buffer) {
                self.tcp.send(&buffer[..count]).expect("it is open");
            }
        }
    }
}

/// What a client asks for over a connection that it has opened.
fn asked(node: &Node) -> (Connection, Ask) {
    let request = node.next_request(LONG).expect("a client asks");
    let mut connection = request.accept_with_ring(256 << 10).expect("it is there");
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let len = connection.recv(&mut message).expect("it asks");
    let ask = Ask::parse(&message[..len]).expect("it asks for a lease");
    (connection, ask)
}

fn grant(to: &mut Connection, ask: &Ask) {
    let granted = Granted {
        protocol: ask.protocol,
        takes: Takes::NOTHING,
        local: LOCAL.into(),
        mtu_bytes: 1500,
        packet_bytes_max: 65_535,
    };
    let answer = Answer::Granted(granted);
    to.send(answer.to_bytes().as_ref()).expect("it hears of it");
}

/// Grants a lease to a host that is open already, and one to listen. Then each host sends its SYN twice, and
/// nobody is answered until `goes_on`.
fn bridge(node: &Node, goes_on: &Receiver<()>) {
    let mut others = Vec::new();
    let (mut lease, ask) = asked(node);
    grant(&mut lease, &ask);
    let far = Config::new(ask.remote, LOCAL.into(), 7);
    others.push(std::thread::spawn(move || open(lease, &far)));
    let (mut port, ask) = asked(node);
    assert!(ask.is_listening());
    grant(&mut port, &ask);
    let mut hosts: HashMap<_, _> = (0..HOSTS)
        .map(|number| {
            let mut host = Host::new(number);
            let mut packet = [0; 1500];
            let now = host.now();
            let sent = host.tcp.poll_packet(&mut packet, now).expect("a SYN");
            let header = PacketHeader::default().to_bytes();
            for _ in 0..2 {
                let message = [&header[..], &packet[..sent.bytes]].concat();
                port.send(&message).expect("there is room");
            }
            (host.tcp.config().local, host)
        })
        .collect();
    goes_on.recv().expect("the test goes on");
    while !hosts.is_empty() {
        let (mut lease, ask) = asked(node);
        match hosts.remove(&ask.remote) {
            Some(host) => {
                grant(&mut lease, &ask);
                others.push(std::thread::spawn(move || host.serve(lease)));
            }
            // Its SYN came twice, and it has a lease.
            None => {
                let refused = Answer::Refused(Refusal::PortTaken(LOCAL.1));
                lease.send(refused.to_bytes().as_ref()).expect("it hears");
            }
        }
    }
    goes_on.recv().expect("the test ends");
    drop(port);
    for other in others {
        other.join().expect("the host does not panic");
    }
}

/// The host to which the program has connected.
fn open(mut lease: Connection, config: &Config) {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let len = lease.recv(&mut message).expect("a SYN");
    let (_, syn) = PacketHeader::parse(&message[..len]).expect("a packet");
    let tcp = Tcp::accept(config, syn, Checked::No, Instant::ORIGIN).expect("a SYN");
    let start = std::time::Instant::now();
    Host { tcp, start }.serve(lease);
}

/// Sends a byte over a connection, and gets it back.
fn exchange(edge: &mut Edge<'_>, id: barewire::ConnectionId) {
    let start = std::time::Instant::now();
    let mut sent = 0;
    loop {
        assert!(start.elapsed() < LONG / 2, "the connection stands still");
        let stream = edge.stream(id).expect("it is there");
        if sent == 0 {
            sent = stream.try_write(b"x").expect("it is open");
        }
        if stream.try_read(&mut [0]).expect("it is open") == Some(1) {
            return;
        }
        edge.wait(Some(LONG)).expect("the node is well");
    }
}

#[test]
fn a_bridge_that_is_silent_holds_no_listener_up() {
    let name = format!("edge-accepts-{}", std::process::id());
    let far = Node::new().expect("a node");
    let listener = far.listen(&name).expect("the name is free");
    let (go, goes_on) = channel();
    let bridge = std::thread::spawn(move || {
        bridge(&far, &goes_on);
        drop(listener);
    });
    let node = Node::new().expect("a node");
    let mut edge = Edge::new(&node);
    let options = StreamOptions {
        lease: LeaseOptions {
            name,
            // Whoever waits for the bridge fails the test: there are eight to wait for.
            timeout: LONG / 3,
            ..LeaseOptions::default()
        },
        ..StreamOptions::default()
    };
    let remote = SocketAddr::from(([192, 0, 2, 2], 7));
    let one = edge.start_connect(remote, &options).expect("a bridge");
    while edge.stream(one).is_none() {
        edge.wait(Some(LONG)).expect("the node is well");
    }
    exchange(&mut edge, one);
    let port = edge.start_listen(false, BACKLOG, &options);
    let port = port.expect("a bridge");
    assert_eq!(edge.listening(port), None);
    // All of the backlog waits for the bridge, and the others in the queue of the port.
    let start = std::time::Instant::now();
    while edge.len() < 1 + BACKLOG {
        assert!(start.elapsed() < LONG / 2, "{}", edge.len());
        edge.wait(Some(LONG)).expect("the node is well");
    }
    for _ in 0..100 {
        exchange(&mut edge, one);
    }
    assert_eq!(edge.len(), 1 + BACKLOG);
    assert_eq!(edge.listening(port), Some(LOCAL.into()));
    // Each was there twice, and one more was looked at.
    assert_eq!(edge.ignored(), BACKLOG as u64);
    go.send(()).expect("the bridge is there");
    let mut told = HashSet::new();
    while told.len() < usize::from(HOSTS) {
        assert!(start.elapsed() < LONG, "{told:?}");
        for id in edge.wait(Some(LONG)).expect("the node is well") {
            if id != one && id != port {
                let stream = edge.stream(id).expect("only such are told of");
                told.insert((id, stream.remote()));
            }
        }
        assert!(edge.len() <= 1 + told.len() + BACKLOG);
    }
    for &(id, _) in &told {
        exchange(&mut edge, id);
    }
    assert_eq!(
        told.iter()
            .map(|(_, host)| host)
            .collect::<HashSet<_>>()
            .len(),
        usize::from(HOSTS)
    );
    // The bridge ends the lease of the port: that is told.
    go.send(()).expect("the bridge is there");
    let gone = loop {
        edge.wait(Some(LONG)).expect("the node is well");
        assert!(start.elapsed() < LONG, "nobody hears of it");
        if let Some(gone) = edge.take_failure(port) {
            break gone;
        }
    };
    assert!(matches!(gone, EdgeError::Lease(LeaseError::Gone(_))));
    assert_eq!(edge.listening(port), None);
    assert_eq!(edge.given_up(), 0);
    drop(edge);
    bridge.join().expect("the bridge does not panic");
}

/// Grants a lease to listen, and one to each host. Those but the last never answer.
fn bridge_of_strangers(node: &Node) {
    let (mut port, ask) = asked(node);
    grant(&mut port, &ask);
    let mut silent = Vec::new();
    for number in 0..=BACKLOG as u16 {
        let mut host = Host::new(number);
        assert!(host.send(&mut port));
        if usize::from(number) < BACKLOG {
            let (mut lease, ask) = asked(node);
            grant(&mut lease, &ask);
            silent.push(lease);
            continue;
        }
        let (mut lease, ask) = asked(node);
        assert_eq!(ask.remote, host.tcp.config().local);
        grant(&mut lease, &ask);
        host.serve(lease);
    }
}

#[test]
fn strangers_who_do_not_answer_keep_nobody_away() {
    let name = format!("edge-strangers-{}", std::process::id());
    let far = Node::new().expect("a node");
    let listener = far.listen(&name).expect("the name is free");
    let bridge = std::thread::spawn(move || {
        bridge_of_strangers(&far);
        drop(listener);
    });
    let node = Node::new().expect("a node");
    let mut edge = Edge::new(&node);
    let mut options = StreamOptions::default();
    options.lease.name = name;
    edge.listen(false, BACKLOG, &options).expect("a lease");
    let start = std::time::Instant::now();
    let told = loop {
        assert!(start.elapsed() < LONG, "it is never accepted");
        let told = edge.wait(Some(LONG)).expect("the node is well");
        if let Some(&id) = told.first() {
            break id;
        }
        assert!(edge.len() <= BACKLOG);
    };
    // One of the strangers had to go, and only after a while.
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert_eq!((edge.given_up(), edge.len()), (1, BACKLOG));
    exchange(&mut edge, told);
    drop(edge);
    bridge.join().expect("the bridge does not panic");
}
