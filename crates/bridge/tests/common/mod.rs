//! A bridge between two hosts that are network namespaces, or behind a TAP device, with clients beside it. All of it goes
//! with the test.
#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barewire::Node;
use barewire_bridge::{Bridge, BridgeConfig, BridgeError, Device, Prefixed, Summary};
use barewire_edge::{Ask, Lease, LeaseOptions, PacketHeader, Protocol};
use barewire_proto::edge::offload::complete;
use barewire_proto::edge::packet::{Body, Packet, Segment, write_header};
use barewire_sys::ethtool::set_send_checksums;
use barewire_sys::frames::{FrameDevice, FrameError, Want};
use barewire_sys::lan::Lan;
use barewire_sys::links::{add_address_in, index};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;
use barewire_sys::wake::EventFd;

/// Longer than anything takes that works.
pub const LONG: Duration = Duration::from_secs(60);

/// Says that a test can not run here.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

pub fn prefixed(text: &str) -> Prefixed {
    text.parse().unwrap()
}

/// Which network a bridge is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Behind a TAP device; the peer is the kernel of the same namespace.
    Tap,
    /// At an interface; the peer is the kernel of another namespace.
    Interface,
    /// As `Interface`, by AF_XDP.
    Xdp,
}

/// Hosts that are there for a test.
pub struct Place {
    pub kind: Kind,
    /// Where the bridge and its clients are.
    pub home: NetNamespace,
    /// Where the peer is.
    pub peer: NetNamespace,
}

impl Place {
    pub fn new(kind: Kind) -> io::Result<Place> {
        match kind {
            Kind::Tap => {
                let home = NetNamespace::create()?;
                let peer = home.run(NetNamespace::current)?;
                Ok(Place { kind, home, peer })
            }
            Kind::Interface | Kind::Xdp => {
                let mut hosts = Lan::pair()?.hosts;
                let (home, peer) = (hosts.remove(1).net, hosts.remove(0).net);
                peer.run(|| {
                    let mut socket = RouteSocket::open()?;
                    let nic = index(&mut socket, "nic")?;
                    if kind == Kind::Xdp {
                        // As on a line: a cable between namespaces leaves checksums open, and nothing would say so.
                        set_send_checksums("nic", false)?;
                    }
                    add_address_in(&mut socket, nic, "fd77::1".parse().unwrap(), 64)
                })?;
                Ok(Place { kind, home, peer })
            }
        }
    }

    /// The address of the peer.
    pub fn peer_address(&self, is_v6: bool) -> IpAddr {
        if is_v6 {
            "fd77::1".parse().unwrap()
        } else {
            [10, 77, 0, 1].into()
        }
    }

    pub fn config(&self, offload: bool) -> BridgeConfig {
        let device = match self.kind {
            Kind::Tap => Device::Tap {
                name: "bw0".to_owned(),
                host: vec![prefixed("10.77.0.1/24"), prefixed("fd77::1/64")],
            },
            Kind::Interface => Device::Interface {
                name: "nic".to_owned(),
            },
            Kind::Xdp => Device::Xdp {
                name: "nic".to_owned(),
            },
        };
        BridgeConfig {
            addresses: vec![prefixed("10.77.0.9/24"), prefixed("fd77::9/64")],
            spin: Duration::ZERO,
            offload,
            ..BridgeConfig::new(device)
        }
    }
}

/// A bridge in a thread of its own, which has given up its rights.
pub struct Running {
    stop: EventFd,
    thread: JoinHandle<Result<Summary, BridgeError>>,
}

impl Running {
    pub fn start(place: &Place, config: BridgeConfig) -> Result<Running, BridgeError> {
        let stop = EventFd::new().unwrap();
        let (seen, home) = (
            stop.try_clone().unwrap(),
            place.home.run(NetNamespace::current).unwrap(),
        );
        let (tell, ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            home.enter().unwrap();
            let opened = Bridge::open(&config);
            let mut bridge = match opened {
                Ok(bridge) => bridge,
                Err(error) => {
                    drop(tell);
                    return Err(error);
                }
            };
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(
                status.contains("CapEff:\t0000000000000000"),
                "it keeps rights: {status}"
            );
            tell.send(()).unwrap();
            bridge
                .serve(&seen, &mut |_| {})
                .inspect_err(|error| eprintln!("the bridge has ended: {error}"))?;
            Ok(bridge.summary())
        });
        match ready.recv() {
            Ok(()) => Ok(Running { stop, thread }),
            Err(_) => Err(thread.join().unwrap().expect_err("it did not open")),
        }
    }

    /// Stops it, and says what it has counted.
    pub fn stop(self) -> Summary {
        self.stop.signal().unwrap();
        self.thread.join().unwrap().unwrap()
    }
}

/// Opens the interface of a place by AF_XDP.
pub fn xdp(place: &Place) -> Result<FrameDevice, FrameError> {
    let want = Want {
        v4: Some([10, 77, 0, 9].into()),
        v6: None,
    };
    let opened = place.home.run(|| Ok(FrameDevice::xdp("nic", &want)));
    opened.unwrap()
}

/// Does a test in each kind of place where this process may make one, in the bridge's namespace.
///
/// Tests run one after the other: a child that one of them forks would keep the devices of the others open.
pub fn everywhere(test: &str, kinds: &[Kind], work: impl Fn(&Place) + Sync) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in kinds {
        let place = match Place::new(*kind) {
            Ok(place) => place,
            Err(error) => return skip(test, &format!("no network namespaces: {error}")),
        };
        if *kind == Kind::Tap && !std::path::Path::new("/dev/net/tun").exists() {
            return skip(test, "no /dev/net/tun");
        }
        if *kind == Kind::Xdp {
            if let Err(FrameError::NoXdp { what, errno }) = xdp(&place) {
                return skip(test, &format!("no AF_XDP here: {what}: {errno}"));
            }
        }
        let result = place.home.run(|| {
            work(&place);
            Ok(())
        });
        result.unwrap();
    }
}

/// An IP packet with the right checksum. `tcp`: sequence and acknowledgment numbers, and flags; otherwise it is UDP.
pub fn packet(
    source: SocketAddr,
    target: SocketAddr,
    tcp: Option<(u32, u32, u8)>,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; 80];
    let (protocol, header_bytes) = if tcp.is_some() { (6, 20) } else { (17, 8) };
    let behind_bytes = header_bytes + payload.len();
    let at = write_header(
        &mut bytes,
        source.ip(),
        target.ip(),
        protocol,
        64,
        behind_bytes,
    );
    bytes.truncate(at + header_bytes);
    let behind = &mut bytes[at..];
    behind[..2].copy_from_slice(&source.port().to_be_bytes());
    behind[2..4].copy_from_slice(&target.port().to_be_bytes());
    match tcp {
        Some((sequence, acknowledgment, flags)) => {
            behind[4..8].copy_from_slice(&sequence.to_be_bytes());
            behind[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
            behind[12..16].copy_from_slice(&[5 << 4, flags, 0xff, 0xff]);
        }
        None => behind[4..6].copy_from_slice(&(behind_bytes as u16).to_be_bytes()),
    }
    bytes.extend_from_slice(payload);
    let parsed = Packet::parse(&bytes).unwrap();
    complete(&parsed, &mut bytes);
    bytes
}

/// A client with a lease, which makes its packets by hand.
pub struct Hand {
    pub lease: Lease,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    // Behind the lease, so that it goes later.
    _node: Node,
}

impl Hand {
    pub fn new(ask: &Ask) -> Hand {
        let node = Node::new().unwrap();
        let lease = Lease::new(&node, ask, &LeaseOptions::default()).unwrap();
        let local = lease.granted().local;
        Hand {
            lease,
            local,
            remote: ask.remote,
            _node: node,
        }
    }

    pub fn send(&mut self, tcp: Option<(u32, u32, u8)>, payload: &[u8]) {
        let packet = packet(self.local, self.remote, tcp, payload);
        self.lease
            .try_send(&PacketHeader::default(), &packet)
            .unwrap();
    }

    /// The next packet, with what is behind its headers.
    pub fn recv(&mut self) -> (Packet, Vec<u8>) {
        let (header, bytes) = self.lease.recv_timeout(LONG).unwrap().expect("a packet");
        let bytes = bytes.to_vec();
        let packet = Packet::parse(&bytes).unwrap();
        let is_open = matches!(header.checksum, barewire_edge::Checksum::Open { .. });
        assert!(is_open || barewire_proto::edge::offload::is_right(&packet, &bytes));
        let headers = match packet.body {
            Body::Tcp { segment, .. } => segment.header_bytes,
            _ => 8,
        };
        (packet, bytes[packet.header_bytes + headers..].to_vec())
    }

    pub fn segment(&mut self) -> Segment {
        match self.recv().0.body {
            Body::Tcp { segment, .. } => segment,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a TCP connection by hand; returns the numbers that come next, this side's first.
    pub fn open(&mut self) -> (u32, u32) {
        self.send(Some((1000, 0, SYN)), b"");
        let answer = self.segment();
        assert_eq!(
            (answer.flags & 0x17, answer.acknowledgment),
            (SYN | ACK, 1001)
        );
        let theirs = answer.sequence.wrapping_add(1);
        self.send(Some((1001, theirs, ACK)), b"");
        (1001, theirs)
    }
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

pub fn udp(remote: SocketAddr) -> Ask {
    Ask::connect(Protocol::Udp, remote)
}

pub fn tcp(remote: SocketAddr) -> Ask {
    Ask::connect(Protocol::Tcp, remote)
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let from = Instant::now();
    while !holds() {
        assert!(from.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::yield_now();
    }
}
