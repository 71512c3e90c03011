//! A bridge between real hosts: kernels in network namespaces on one side, clients with packets made by hand on the
//! other.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use barewire::{Error, Node};
use barewire_bridge::{Bridge, BridgeConfig, BridgeError, Device};
use barewire_edge::{
    Ask, Checksum, Lease, LeaseError, LeaseOptions, PacketHeader, Protocol, Refusal, Takes,
};
use barewire_proto::edge::packet::Packet;
use barewire_sys::frames::FrameError;
use barewire_sys::process::{Signal, fork_child, send_signal};
use common::*;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};

const ALL: [Kind; 3] = [Kind::Tap, Kind::Interface, Kind::Xdp];

fn peer_socket(place: &Place, is_v6: bool) -> UdpSocket {
    let at = (place.peer_address(is_v6), 0);
    let socket = place.peer.run(|| UdpSocket::bind(at)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

fn peer_listener(place: &Place, is_v6: bool) -> TcpListener {
    let at = (place.peer_address(is_v6), 0);
    place.peer.run(|| TcpListener::bind(at)).unwrap()
}

#[test]
fn a_client_exchanges_datagrams_with_a_kernel() {
    everywhere(
        "a_client_exchanges_datagrams_with_a_kernel",
        &ALL,
        |place| {
            for offload in [false, true] {
                let bridge = Running::start(place, place.config(offload)).unwrap();
                for is_v6 in [false, true] {
                    let kernel = peer_socket(place, is_v6);
                    let mut client = Hand::new(&udp(kernel.local_addr().unwrap()));
                    client.send(None, b"to the kernel");
                    let mut buffer = [0; 2000];
                    let (len, from) = kernel.recv_from(&mut buffer).unwrap();
                    assert_eq!(
                        (&buffer[..len], from),
                        (&b"to the kernel"[..], client.local)
                    );
                    for len in [0, 1, 1400] {
                        kernel.send_to(&vec![7; len], from).unwrap();
                        assert_eq!(client.recv().1, vec![7; len]);
                    }
                    // A server gets datagrams of all, and answers them.
                    let mut server = Hand::new(&Ask::listen(Protocol::Udp, 5353, is_v6));
                    kernel.send_to(b"who", server.local).unwrap();
                    assert_eq!(server.recv().1, b"who");
                    server.remote = kernel.local_addr().unwrap();
                    server.send(None, b"me");
                    let (len, from) = kernel.recv_from(&mut buffer).unwrap();
                    assert_eq!((&buffer[..len], from), (&b"me"[..], server.local));
                }
                let counters = bridge.stop().counters;
                assert_eq!(
                    (
                        counters.client_malformed,
                        counters.malformed,
                        counters.granted
                    ),
                    (0, 0, 4)
                );
            }
        },
    );
}

/// Sends an echo request as a program of the kernel does, and waits for the reply.
fn ping(to: IpAddr, payload: &[u8]) {
    let (family, protocol, request, reply) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let socket = rustix::net::socket(family, SocketType::RAW, Some(protocol)).unwrap();
    let mut message = vec![request, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend_from_slice(payload);
    // Of version 6 the kernel computes it.
    let check = barewire_wire::checksum::checksum(&message);
    message[2..4].copy_from_slice(&check.to_be_bytes());
    rustix::net::sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddr::new(to, 0),
    )
    .unwrap();
    let mut buffer = vec![0; 2000];
    loop {
        let (len, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()).unwrap();
        let header = if to.is_ipv4() { 20 } else { 0 };
        let icmp = &buffer[header..len];
        if icmp[0] == reply && icmp[4..] == message[4..] {
            return;
        }
    }
}

#[test]
fn pings_are_answered() {
    everywhere("pings_are_answered", &ALL, |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let pings = place.peer.run(|| {
            for len in [0, 56, 1400] {
                ping("10.77.0.9".parse().unwrap(), &vec![7; len]);
                ping("fd77::9".parse().unwrap(), &vec![7; len]);
            }
            Ok(())
        });
        pings.unwrap();
        assert_eq!(bridge.stop().counters.answers_sent, 6);
    });
}

#[test]
fn a_handshake_by_hand_gets_through() {
    everywhere("a_handshake_by_hand_gets_through", &ALL, |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        for is_v6 in [false, true] {
            let kernel = peer_listener(place, is_v6);
            let mut client = Hand::new(&tcp(kernel.local_addr().unwrap()));
            let (mine, theirs) = client.open();
            let (mut stream, from) = kernel.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(from, client.local);
            client.send(Some((mine, theirs, ACK)), b"hello");
            let mut buffer = [0; 5];
            stream.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"hello");
            assert_eq!(client.segment().acknowledgment, mine + 5);
            // The kernel sends as one large packet what it would have cut; the client takes it so.
            stream.write_all(&[5; 5000]).unwrap();
            let mut bytes = 0;
            while bytes < 5000 {
                let (_, payload) = client.recv();
                bytes += payload.len();
                client.send(
                    Some((mine + 5, theirs.wrapping_add(bytes as u32), ACK)),
                    b"",
                );
            }
            // The client goes without a word. Its peer is told.
            drop(client);
            let error = stream.read(&mut buffer).expect_err("a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let summary = bridge.stop();
        assert_eq!(
            (summary.counters.resets_sent, summary.waits, summary.leases),
            (2, 2, 0)
        );
    });
}

#[test]
fn a_kernel_gets_a_large_packet_in_segments() {
    everywhere("a_kernel_gets_a_large_packet_in_segments", &ALL, |place| {
        for (offload, is_v6) in [(true, false), (true, true), (false, false), (false, true)] {
            let bridge = Running::start(place, place.config(offload)).unwrap();
            let kernel = peer_listener(place, is_v6);
            let mut client = Hand::new(&tcp(kernel.local_addr().unwrap()));
            let (mine, theirs) = client.open();
            let (mut stream, _) = kernel.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let payload: Vec<u8> = (0..20_000_u32).map(|at| at as u8).collect();
            let mut bytes = packet(
                client.local,
                client.remote,
                Some((mine, theirs, ACK)),
                &payload,
            );
            let parsed = Packet::parse(&bytes).unwrap();
            let start = parsed.header_bytes;
            let pseudo = parsed.pseudo_sum(6).value();
            bytes[start + 16..start + 18].copy_from_slice(&pseudo.to_be_bytes());
            let checksum = Checksum::Open {
                start: start as u16,
                offset: 16,
            };
            let header = PacketHeader {
                checksum,
                segment_bytes: 1400,
            };
            client.lease.try_send(&header, &bytes).unwrap();
            let mut received = vec![0; payload.len()];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(received, payload);
            // By AF_XDP nothing is left to the device.
            let is_cut = !offload || place.kind == Kind::Xdp;
            assert_eq!(bridge.stop().counters.packets_cut, u64::from(is_cut));
        }
    });
}

#[test]
fn a_server_by_hand_accepts_a_kernel() {
    everywhere(
        "a_server_by_hand_accepts_a_kernel",
        &[Kind::Interface, Kind::Xdp],
        |place| {
            let bridge = Running::start(place, place.config(true)).unwrap();
            let mut server = Hand::new(&Ask::listen(Protocol::Tcp, 8080, false));
            let at = server.local;
            std::thread::scope(|scope| {
                let connecting =
                    scope.spawn(|| place.peer.run(|| std::net::TcpStream::connect(at)));
                let syn = server.recv().0;
                let (_, port, _) = syn.ports().unwrap();
                let remote = SocketAddr::new(syn.source, port);
                let mut accepted = Hand::new(&Ask {
                    local_port: 8080,
                    ..tcp(remote)
                });
                let barewire_proto::edge::packet::Body::Tcp { segment, .. } = syn.body else {
                    panic!("{syn:?}")
                };
                accepted.send(
                    Some((7000, segment.sequence.wrapping_add(1), SYN | ACK)),
                    b"",
                );
                let mut stream = connecting.join().unwrap().unwrap();
                assert_eq!(accepted.segment().acknowledgment, 7001);
                stream.write_all(b"x").unwrap();
                assert_eq!(accepted.recv().1, b"x");
                // A port where nobody listens is refused at once.
                let refused = place
                    .peer
                    .run(|| std::net::TcpStream::connect((at.ip(), 81)));
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
            });
            bridge.stop();
        },
    );
}

#[test]
fn clients_see_nothing_of_each_other_and_cannot_pass_for_another() {
    let name = "clients_see_nothing_of_each_other_and_cannot_pass_for_another";
    everywhere(name, &[Kind::Tap], |place| {
        let bridge = Running::start(place, place.config(true)).unwrap();
        let kernel = peer_socket(place, false);
        let at = kernel.local_addr().unwrap();
        let (mut one, mut two) = (Hand::new(&udp(at)), Hand::new(&udp(at)));
        assert_ne!(one.local, two.local);
        kernel.send_to(b"for one", one.local).unwrap();
        kernel.send_to(b"for two", two.local).unwrap();
        assert_eq!(
            (one.recv().1, two.recv().1),
            (b"for one".to_vec(), b"for two".to_vec())
        );
        assert_eq!(one.lease.try_recv().unwrap(), None);

        // False: another's port, another's address, another target. Then a right one.
        let own = one.local;
        one.local = two.local;
        one.send(None, b"false port");
        one.local = SocketAddr::new([10, 77, 0, 8].into(), own.port());
        one.send(None, b"false address");
        one.local = own;
        one.remote = SocketAddr::new(at.ip(), 1);
        one.send(None, b"false target");
        one.remote = at;
        one.send(None, b"right");
        let mut buffer = [0; 100];
        let (len, from) = kernel.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"right"[..], own));
        let counters = bridge.stop().counters;
        assert_eq!((counters.client_source, counters.client_target), (2, 1));
    });
}

#[test]
fn a_client_that_does_not_read_stops_nobody() {
    everywhere(
        "a_client_that_does_not_read_stops_nobody",
        &[Kind::Tap],
        |place| {
            let bridge = Running::start(place, place.config(true)).unwrap();
            let kernel = peer_socket(place, false);
            let stuck = Hand::new(&udp(kernel.local_addr().unwrap()));
            let mut other = Hand::new(&udp(kernel.local_addr().unwrap()));
            // Few at once, and the first only when the bridge is known as a neighbour: the kernel drops what its own
            // queues have no room for.
            for _ in 0..20 {
                kernel.send_to(b"through", other.local).unwrap();
                assert_eq!(other.recv().1, b"through");
                for _ in 0..50 {
                    kernel.send_to(&[1; 1400], stuck.local).unwrap();
                }
            }
            kernel.send_to(b"through", other.local).unwrap();
            assert_eq!(other.recv().1, b"through");
            let counters = bridge.stop().counters;
            assert!(counters.queue_full > 0, "{counters:?}");
            drop(stuck);
        },
    );
}

/// A client in a process of its own, which does some steps of a connection, says so by a datagram, and waits for its end.
fn client_of_steps(remote: SocketAddr, local_port: u16, steps: u32, told: SocketAddr) -> i32 {
    let ask = Ask {
        local_port,
        takes: Takes::ALL,
        ..tcp(remote)
    };
    let mut client = Hand::new(&ask);
    if steps == 1 {
        client.send(Some((1000, 0, SYN)), b"");
    }
    if steps > 1 {
        let (mine, theirs) = client.open();
        if steps > 2 {
            client.send(Some((mine, theirs, ACK)), b"data");
            client.segment();
        }
        if steps > 3 {
            client.send(Some((mine + 4, theirs, ACK | FIN)), b"");
            client.segment();
        }
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"done", told).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_client_is_killed_at_any_point() {
    everywhere("a_client_is_killed_at_any_point", &[Kind::Tap], |place| {
        let mut socket = barewire_sys::netlink::RouteSocket::open().unwrap();
        barewire_sys::links::set_state(&mut socket, "lo", true).unwrap();
        let mut config = place.config(true);
        config.limits.time_wait = barewire_units::Duration::from_ms(1500);
        let bridge = Running::start(place, config).unwrap();
        let told = UdpSocket::bind("127.0.0.1:0").unwrap();
        told.set_read_timeout(Some(LONG)).unwrap();
        let tell_at = told.local_addr().unwrap();
        for steps in 0..5 {
            let kernel = peer_listener(place, false);
            let (at, port) = (kernel.local_addr().unwrap(), 5000 + steps as u16);
            let child = fork_child(|| client_of_steps(at, port, steps, tell_at)).unwrap();
            told.recv(&mut [0; 10]).unwrap();
            let accepted = (steps > 1).then(|| kernel.accept().unwrap().0);
            send_signal(child.pid, Signal::Kill).unwrap();
            if let Some(mut stream) = accepted {
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut all = Vec::new();
                let error = loop {
                    match stream.read_to_end(&mut all) {
                        // After its FIN the end of the stream comes first: the reset is seen by who writes.
                        Ok(_) => match stream.write_all(b"more") {
                            Ok(()) => std::thread::yield_now(),
                            Err(error) => break error,
                        },
                        Err(error) => break error,
                    }
                };
                let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
            // The port comes back: at once if nothing was sent, otherwise after the wait.
            let node = Node::new().unwrap();
            let ask = Ask {
                local_port: port,
                ..tcp(at)
            };
            let mut refusals = Vec::new();
            eventually("the port comes back", || {
                match Lease::new(&node, &ask, &LeaseOptions::default()) {
                    Ok(_) => true,
                    Err(LeaseError::Refused(refusal)) => {
                        refusals.push(refusal);
                        false
                    }
                    Err(other) => panic!("{other}"),
                }
            });
            let waited = refusals.contains(&Refusal::TimeWait(port));
            assert_eq!(waited, steps > 0, "{refusals:?}");
        }
        let counters = bridge.stop().counters;
        assert_eq!(counters.resets_sent, 4);
    });
}

#[test]
fn clients_are_told_when_the_bridge_dies() {
    everywhere(
        "clients_are_told_when_the_bridge_dies",
        &[Kind::Tap],
        |place| {
            let config = place.config(true);
            let child = fork_child(|| {
                let mut bridge = Bridge::open(&config).unwrap();
                let stop = barewire_sys::wake::EventFd::new().unwrap();
                i32::from(bridge.serve(&stop, &mut |_| {}).is_err())
            });
            let child = child.unwrap();
            let mut client = Hand::new(&udp(SocketAddr::new(place.peer_address(false), 7)));
            send_signal(child.pid, Signal::Kill).unwrap();
            let error = client.lease.recv_timeout(LONG).expect_err("it is dead");
            assert_eq!(error, LeaseError::Gone(Error::PeerDied { pid: child.pid }));
            assert!(error.to_string().contains("start it again"));
            let options = LeaseOptions {
                timeout: Duration::from_millis(50),
                ..LeaseOptions::default()
            };
            let none = Lease::new(&Node::new().unwrap(), &udp(client.remote), &options)
                .expect_err("no bridge");
            assert!(
                none.to_string().contains("no bridge listens as `bridge`"),
                "{none}"
            );
        },
    );
}

#[test]
fn no_program_stays_at_the_interface_when_the_bridge_is_killed() {
    let name = "no_program_stays_at_the_interface_when_the_bridge_is_killed";
    everywhere(name, &[Kind::Xdp], |place| {
        let config = place.config(true);
        let child = fork_child(|| {
            let mut bridge = Bridge::open(&config).unwrap();
            let stop = barewire_sys::wake::EventFd::new().unwrap();
            i32::from(bridge.serve(&stop, &mut |_| {}).is_err())
        });
        let child = child.unwrap();
        let kernel = peer_socket(place, false);
        let mut client = Hand::new(&udp(kernel.local_addr().unwrap()));
        client.send(None, b"it works");
        kernel.recv_from(&mut [0; 10]).unwrap();
        // What is for the kernel of this host goes to it meanwhile, and what it sends goes out.
        let own = UdpSocket::bind("10.77.0.2:0").unwrap();
        own.set_read_timeout(Some(LONG)).unwrap();
        kernel
            .send_to(b"for the kernel", own.local_addr().unwrap())
            .unwrap();
        let (len, from) = own.recv_from(&mut [0; 100]).unwrap();
        assert_eq!((len, from), (14, kernel.local_addr().unwrap()));
        let error = xdp(place).expect_err("it has a program");
        assert_eq!(error, FrameError::OtherProgram("nic".to_owned()));
        assert!(error.to_string().contains("ip link"), "{error}");
        send_signal(child.pid, Signal::Kill).unwrap();
        child.wait().unwrap();
        // With a program that is still there, this would be refused.
        drop(xdp(place).unwrap());
    });
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    everywhere(
        "what_is_asked_for_wrongly_is_refused",
        &[Kind::Tap],
        |place| {
            let mut config = place.config(true);
            config.limits.user_leases_max = 3;
            let bridge = Running::start(place, config).unwrap();
            let node = Node::new().unwrap();
            let refused = |ask: &Ask| match Lease::new(&node, ask, &LeaseOptions::default()) {
                Err(LeaseError::Refused(refusal)) => refusal,
                other => panic!("{other:?}"),
            };
            assert_eq!(
                refused(&udp("198.51.100.7:53".parse().unwrap())),
                Refusal::NoRoute
            );
            let _server = Hand::new(&Ask::listen(Protocol::Tcp, 8080, false));
            assert_eq!(
                refused(&Ask::listen(Protocol::Tcp, 8080, false)),
                Refusal::PortTaken(8080)
            );
            let peer = SocketAddr::new(place.peer_address(false), 7);
            let _more = [Hand::new(&udp(peer)), Hand::new(&udp(peer))];
            assert_eq!(refused(&udp(peer)), Refusal::TooManyOfUser(3));
            // What is no request at all.
            let mut connection = node.connect("bridge").unwrap();
            connection.send(b"GET / HTTP/1.1").unwrap();
            let mut answer = Vec::new();
            connection.recv_into(&mut answer).unwrap();
            use barewire_proto::edge::message::Answer;
            assert_eq!(
                Answer::parse(&answer),
                Ok(Answer::Refused(Refusal::BadRequest))
            );
            assert!(connection.recv(&mut [0; 64]).is_err());
            let counters = bridge.stop().counters;
            assert_eq!((counters.granted, counters.refused), (3, 3));
        },
    );
}

#[test]
fn a_bridge_says_why_it_cannot_be() {
    everywhere("a_bridge_says_why_it_cannot_be", &[Kind::Tap], |place| {
        let failure = |config: BridgeConfig| match Running::start(place, config) {
            Err(error) => error,
            Ok(_) => panic!("it runs"),
        };
        let none = BridgeConfig {
            addresses: Vec::new(),
            ..place.config(true)
        };
        assert!(matches!(failure(none), BridgeError::NoAddress));
        let own = BridgeConfig {
            addresses: vec![prefixed("10.77.0.1/24")],
            ..place.config(true)
        };
        let error = failure(own).to_string();
        assert!(
            error.contains("10.77.0.1 is an address of this host"),
            "{error}"
        );
        let missing = Device::Interface {
            name: "nosuch0".to_owned(),
        };
        let error = failure(BridgeConfig {
            device: missing,
            ..place.config(true)
        })
        .to_string();
        assert!(error.contains("no network interface `nosuch0`"), "{error}");
        let gateway = BridgeConfig {
            gateways: vec![[10, 78, 0, 1].into()],
            ..place.config(true)
        };
        assert!(
            failure(gateway)
                .to_string()
                .contains("not in the network of 10.77.0.9/24")
        );
        let status = fork_child(|| {
            barewire_sys::process::drop_privileges(65_534, 65_534).unwrap();
            let error = Bridge::open(&place.config(true))
                .expect_err("no rights")
                .to_string();
            i32::from(!(error.contains("CAP_NET_ADMIN") && error.contains("run as root")))
        });
        assert_eq!(status.unwrap().wait().unwrap().code(), Some(0));
    });
}

/// tshark looks at all that a bridge and a kernel send each other, checksums included, and has nothing to say.
#[test]
fn tshark_finds_nothing_wrong() {
    let name = "tshark_finds_nothing_wrong";
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(name, "no `tshark`");
    }
    let file = std::env::temp_dir().join(format!("barewire-bridge-{}.pcapng", std::process::id()));
    everywhere(name, &[Kind::Interface, Kind::Xdp], |place| {
        let capture = place.peer.run(|| {
            let mut tshark = Command::new("tshark");
            tshark
                .args(["-q", "-i", "nic", "-w"])
                .arg(&file)
                .stderr(std::process::Stdio::piped())
                .spawn()
        });
        let mut capture = capture.unwrap();
        let mut said = std::io::BufReader::new(capture.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Capture started") {
            line.clear();
            let len = std::io::BufRead::read_line(&mut said, &mut line).unwrap();
            assert!(len > 0, "tshark has ended");
        }
        let bridge = Running::start(place, place.config(false)).unwrap();
        for is_v6 in [false, true] {
            let kernel = peer_listener(place, is_v6);
            let mut client = Hand::new(&tcp(kernel.local_addr().unwrap()));
            let (mine, theirs) = client.open();
            let (mut stream, _) = kernel.accept().unwrap();
            client.send(Some((mine, theirs, ACK)), b"hello");
            client.segment();
            // What is not read makes the kernel end with a reset.
            stream.read_exact(&mut [0; 5]).unwrap();
            stream.write_all(b"world").unwrap();
            assert_eq!(client.recv().1, b"world");
            client.send(Some((mine + 5, theirs.wrapping_add(5), ACK | FIN)), b"");
            drop(stream);
            // The rest of what was sent, and its FIN.
            while client.segment().flags & FIN == 0 {}
            client.send(Some((mine + 6, theirs.wrapping_add(6), ACK)), b"");
            let socket = peer_socket(place, is_v6);
            let mut datagrams = Hand::new(&udp(socket.local_addr().unwrap()));
            datagrams.send(None, b"datagram");
            socket.recv(&mut [0; 100]).unwrap();
        }
        // One with a wrong checksum, which tshark must find.
        let mut wrong = Hand::new(&udp(SocketAddr::new(place.peer_address(false), 9)));
        let mut bytes = packet(wrong.local, wrong.remote, None, b"wrong");
        bytes[27] ^= 1;
        wrong
            .lease
            .try_send(&PacketHeader::default(), &bytes)
            .unwrap();
        let checks = ["ip", "tcp", "udp"].map(|of| format!("{of}.check_checksum:TRUE"));
        let shown = |filter: &str| {
            let mut tshark = Command::new("tshark");
            tshark.arg("-r").arg(&file).args(["-Y", filter]);
            checks.iter().for_each(|check| {
                tshark.args(["-o", check]);
            });
            String::from_utf8(tshark.output().unwrap().stdout).unwrap()
        };
        // The last packet of all; it is in the file some time later.
        eventually("it is captured", || !shown("udp.dstport == 9").is_empty());
        assert_eq!(bridge.stop().counters.resets_sent, 0);
        send_signal(capture.id() as i32, Signal::Term).unwrap();
        capture.wait().unwrap();
        // The kernel leaves its own checksums to a card that a cable between namespaces has not.
        let of_bridge = "(ip.src == 10.77.0.9 || ipv6.src == fd77::9 || arp)";
        let wrong = |filter: &str| shown(&format!("{filter} && _ws.expert.severity >= 0x600000"));
        assert_eq!(wrong(&format!("{of_bridge} && !(udp.dstport == 9)")), "");
        assert_eq!(wrong("udp.dstport == 9").lines().count(), 1);
        assert!(shown(of_bridge).lines().count() >= 12);
    });
    let _ = std::fs::remove_file(&file);
}
