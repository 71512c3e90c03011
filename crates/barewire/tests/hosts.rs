//! Links between hosts, over TCP on the loopback interface: nodes that are told to take each other for strangers.

#![forbid(unsafe_code)]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    ConnectOptions, Connection, Error, Event, Fault, HostsConfig, How, ListenOptions, Listener,
    Node, NodeConfig, Policy, Port, Security, Transport,
};
use barewire_carrier::tls::{GenerateOptions, generate, trust};
use barewire_sys::process::{Signal, open_fd_count};
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("many") => many_connections(),
        Some("resources") => resources(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn node() -> Node {
    Node::with_config(spins(false)).unwrap()
}

/// A node that other hosts reach, its name, and what they call that.
fn server(of: &str) -> (Node, Listener, Port, String) {
    let node = node();
    let listener = node.listen(&name(of)).unwrap();
    let port = node.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    (node, listener, port, address)
}

/// Two ends of a connection between hosts with their nodes, that of the listener first.
fn pair(of: &str) -> [(Node, Connection); 2] {
    let (server, _listener, _port, address) = server(of);
    let opening = thread::spawn(move || {
        let client = node();
        let connection = client.connect(&address).unwrap();
        (client, connection)
    });
    let accepted = server.next_request(SOON).unwrap().accept().unwrap();
    [(server, accepted), opening.join().unwrap()]
}

/// A puppet in a process of its own, its address, and a connection to it, which is its number 0.
fn connected_to_puppet(of: &str) -> (Child, String, Node, Connection) {
    let mut puppet = spawn("puppet", &[]);
    let listened = name(of);
    puppet.must(&format!("listen {listened}"));
    let port = puppet.must("port");
    let client = node();
    client
        .start_connect(&format!("{port}/{listened}"), &at_once())
        .unwrap();
    puppet.must("accept");
    let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() else {
        panic!("not connected");
    };
    (puppet, port, client, *opened)
}

fn at_once() -> ConnectOptions {
    ConnectOptions {
        wait_for_name: false,
        ..ConnectOptions::default()
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn messages_of_all_lengths_go_both_ways() {
    let _dog = watchdog("lengths", LONG);
    let [(_server, mut one), (_client, mut other)] = pair("lengths");
    assert!(one.remote().is_some_and(|peer| peer.transport == "tcp"));
    assert!(other.remote().is_some_and(|peer| !peer.is_encrypted));
    let mut buffer = vec![0; 1 << 20];
    for len in [0, 1, 8, 56, 57, 1000, 4096, 100_000, 1 << 20] {
        let message = bytes(len);
        thread::scope(|scope| {
            scope.spawn(|| other.send(&message).unwrap());
            assert_eq!(one.recv(&mut buffer), Ok(len));
        });
        assert!(buffer[..len] == message, "{len} bytes");
        one.send(&len.to_le_bytes()).unwrap();
        assert_eq!(other.recv(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], len.to_le_bytes());
    }
    drop(other);
    assert_eq!(one.recv(&mut buffer), Err(Error::Finished));
}

#[test]
fn events_tell_of_requests_messages_and_the_end() {
    let _dog = watchdog("events", LONG);
    let (server, _listener, _port, address) = server("events");
    let client = node();
    client.start_connect(&address, &at_once()).unwrap();
    let Some(Event::Request(request)) = server.next_event(SOON).unwrap() else {
        panic!("no request");
    };
    let mut accepted = request.accept().unwrap();
    let Some(Event::Connected(mut opened)) = client.next_event(SOON).unwrap() else {
        panic!("not connected");
    };
    opened.send(b"message").unwrap();
    opened.send_out_of_band(b"aside").unwrap();
    let (mut is_ready, mut aside, mut buffer) = (false, Vec::new(), [0; 64]);
    while !is_ready || aside.is_empty() {
        match server.next_event(SOON).unwrap() {
            Some(Event::Ready(id)) if id == accepted.id() => {
                is_ready |= accepted.try_recv(&mut buffer).unwrap().is_some();
            }
            Some(Event::OutOfBand { data, .. }) => aside = data,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((&buffer[..7], &aside[..]), (&b"message"[..], &b"aside"[..]));
    drop(opened);
    drop(client);
    eventually("the end is told", || {
        let event = server.next_event(Duration::from_millis(10)).unwrap();
        matches!(event, Some(Event::Closed { .. }))
    });
}

#[test]
fn what_was_sent_arrives_though_the_sender_does_nothing_more() {
    let _dog = watchdog("idle sender", LONG);
    let [(server, mut one), (client, mut other)] = pair("idle-sender");
    let message = bytes(1900);
    while other.try_send(&message).unwrap() {}
    let mut received = 0;
    let mut buffer = vec![0; 4096];
    while let Some(len) = one
        .recv_timeout(&mut buffer, Duration::from_millis(300))
        .unwrap()
    {
        assert!(buffer[..len] == message);
        received += 1;
    }
    assert!(received > 0);
    // And when its node goes away at once.
    let mut sent = 0;
    while other.try_send(&message).unwrap() {
        sent += 1;
    }
    drop(other);
    drop(client);
    for _ in 0..sent {
        assert_eq!(one.recv(&mut buffer), Ok(message.len()));
    }
    let end = one.recv(&mut buffer).unwrap_err();
    assert_eq!(end, Error::Finished);
    drop(server);
}

#[test]
fn messages_are_stored_while_the_receiver_does_nothing() {
    let _dog = watchdog("idle receiver", LONG);
    let (mut puppet, _port, client, mut opened) = connected_to_puppet("idle-receiver");
    // The puppet's node is not polled before its next command.
    let (mut count, mut buffer) = (0, Vec::new());
    message(9, 0, &mut buffer);
    while let Ok(true) = opened.sender().try_send(&buffer) {
        count += 1;
        message(9, count, &mut buffer);
    }
    let _ = opened.recv_timeout(&mut [0; 8], Duration::from_millis(100));
    drop(opened);
    drop(client);
    // What is left of the sender is what the receiver's own thread has taken.
    puppet.must(&format!("recv 0 9 0 {count}"));
    assert!(puppet.must("ends 0").contains("Finished"));
}

#[test]
fn a_slow_connection_holds_up_no_other_of_the_same_link() {
    let _dog = watchdog("slow", LONG);
    let (server, _listener, _port, address) = server("slow");
    let client = node();
    let connect = || {
        client.start_connect(&address, &at_once()).unwrap();
        let accepted = server.next_request(SOON).unwrap().accept().unwrap();
        loop {
            if let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() {
                return (accepted, opened);
            }
        }
    };
    let (_stuck, mut to_stuck) = connect();
    let (mut quick, mut to_quick) = connect();
    while to_stuck.try_send(&[7; 1000]).unwrap() {}
    let mut buffer = [0; 64];
    for number in 0..100_u64 {
        to_quick.send(&number.to_le_bytes()).unwrap();
        assert_eq!(quick.recv_timeout(&mut buffer, SOON), Ok(Some(8)));
        assert_eq!(buffer[..8], number.to_le_bytes());
    }
}

/// Whoever counts descriptors needs a process in which nothing else opens any.
/// One thread of a node sleeps in the kernel and drives the link. It must not keep to itself what is for the other.
#[test]
fn each_thread_that_sleeps_is_woken_for_its_own_connection() {
    const ROUNDS: u64 = 3000;
    let _dog = watchdog("threads", LONG);
    let (server, _listener, _port, address) = server("threads");
    let client = node();
    let mut opened = Vec::new();
    let mut echoing = Vec::new();
    for _ in 0..2 {
        client.start_connect(&address, &at_once()).unwrap();
        let mut accepted = server.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(ours)) = client.next_event(SOON).unwrap() else {
            panic!("not connected");
        };
        opened.push(*ours);
        echoing.push(thread::spawn(move || {
            let mut buffer = [0; 8];
            for number in 0..ROUNDS {
                assert_eq!(accepted.recv_timeout(&mut buffer, SOON), Ok(Some(8)));
                assert_eq!(buffer, number.to_le_bytes());
                accepted.send(&buffer).unwrap();
            }
        }));
    }
    for number in 0..ROUNDS {
        for (at, connection) in opened.iter_mut().enumerate() {
            // The second comes while the thread of the first goes to sleep again, sooner or later.
            for _ in 0..at as u64 * (number % 300) * 10 {
                std::hint::spin_loop();
            }
            connection.send(&number.to_le_bytes()).unwrap();
        }
        for connection in &mut opened {
            assert_eq!(connection.recv_timeout(&mut [0; 8], SOON), Ok(Some(8)));
        }
    }
    for thread in echoing {
        thread.join().unwrap();
    }
}

#[test]
fn many_connections_share_one_socket() {
    assert_eq!(spawn("many", &[]).end(), Some(0));
}

fn many_connections() {
    let _dog = watchdog("many", LONG * 2);
    let (server, _listener, _port, address) = server("many");
    let client = node();
    let mut ends = Vec::new();
    let mut before = 0;
    for number in 0..500 {
        client.start_connect(&address, &at_once()).unwrap();
        let accepted = server.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() else {
            panic!("connection {number}");
        };
        ends.push((accepted, opened));
        if number == 100 {
            before = open_fd_count().unwrap();
        }
    }
    // Memory comes in segments, each of which has a descriptor at either end.
    assert!(open_fd_count().unwrap() <= before + 16);
    let mut buffer = [0; 8];
    for (number, (accepted, opened)) in ends.iter_mut().enumerate() {
        accepted.send(&number.to_le_bytes()).unwrap();
        assert_eq!(opened.recv_timeout(&mut buffer, SOON), Ok(Some(8)));
        assert_eq!(buffer, number.to_le_bytes());
    }
}

#[test]
fn resources_are_back_when_all_is_closed() {
    assert_eq!(spawn("resources", &[]).end(), Some(0));
}

fn resources() {
    let _dog = watchdog("resources", LONG);
    let (server, _listener, _port, address) = server("resources");
    let mut before = 0;
    for round in 0..4 {
        let client = node();
        client.start_connect(&address, &at_once()).unwrap();
        let accepted = server.next_request(SOON).unwrap().accept().unwrap();
        drop(accepted);
        drop(client);
        eventually("the link is forgotten", || {
            let _ = server.next_event(Duration::from_millis(1)).unwrap();
            let now = open_fd_count().unwrap();
            if round == 1 {
                before = now;
            }
            round < 2 || now <= before
        });
    }
}

#[test]
fn a_killed_host_is_told_and_what_it_had_sent_is_there() {
    let _dog = watchdog("killed", LONG);
    let (mut puppet, port, _client, mut opened) = connected_to_puppet("killed");
    puppet.must("send 0 5 0 3");
    let (mut expected, mut buffer) = (Vec::new(), Vec::new());
    puppet.kill();
    for number in 0..3 {
        opened.receiver().recv_into(&mut buffer).unwrap();
        message(5, number, &mut expected);
        assert!(buffer == expected, "message {number}");
    }
    let error = opened.receiver().recv_into(&mut buffer).unwrap_err();
    let Error::HostLost { host, reason, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*host, port);
    assert!(
        reason.contains("ended") || reason.contains("reset"),
        "{reason}"
    );
    assert_eq!(error.fault(), Fault::Peer);
    assert!(opened.send(b"more").is_err());
}

#[test]
fn room_is_told_though_the_reader_looks_no_more() {
    let _dog = watchdog("room", LONG);
    let [(_server, mut one), (_client, mut other)] = pair("room");
    let message = bytes(16 << 10);
    let mut buffer = vec![0; message.len()];
    // Up to what the ring and the two nodes take.
    while other.try_send(&message).unwrap() {}
    let quarter = HostsConfig::default().ring_bytes / 4;
    for _ in 0..=quarter / message.len() {
        assert_eq!(one.recv(&mut buffer), Ok(message.len()));
    }
    // The reader does something else now.
    let sent = other.sender().send_timeout(&message, SOON);
    assert_eq!(sent, Ok(()));
}

#[test]
fn a_host_that_stops_is_lost_within_the_time_set() {
    let _dog = watchdog("stopped", LONG);
    let (mut puppet, _port, _client, mut opened) = connected_to_puppet("stopped");
    // An idle link lives: each side shows that it is there.
    let mut buffer = [0; 64];
    let idle = opened.recv_timeout(&mut buffer, strangers().timeout * 3);
    assert_eq!(idle, Ok(None));
    puppet.signal(Signal::Stop);
    let begin = Instant::now();
    let error = opened.recv(&mut buffer).unwrap_err();
    assert!(
        matches!(&error, Error::HostLost { reason, .. } if reason.contains("nothing came")),
        "{error}"
    );
    assert!(
        begin.elapsed() < strangers().timeout * 3,
        "{:?}",
        begin.elapsed()
    );
    puppet.signal(Signal::Cont);
    // It has been given up meanwhile, and finds out.
    let answer = puppet.must("ends 0");
    assert!(answer.contains("HostLost"), "{answer}");
}

#[test]
fn strangers_at_the_port_do_no_harm() {
    let _dog = watchdog("strangers", LONG);
    let (server, _listener, port, address) = server("strangers");
    let mut silent = Vec::new();
    // More of them stay silent than may greet at a time.
    for round in 0..1200_u32 {
        let mut stranger = TcpStream::connect(port.address()).unwrap();
        match round % 4 {
            0 => stranger
                .write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
                .unwrap(),
            1 => stranger.write_all(&[0xff; 64]).unwrap(),
            2 => stranger.write_all(b"barewire").unwrap(),
            _ => {}
        }
        silent.push(stranger);
    }
    let client = node();
    client.start_connect(&address, &at_once()).unwrap();
    server.next_request(SOON).unwrap().accept().unwrap();
    // Those who said what is wrong find the connection closed, behind our greeting.
    silent[1].set_read_timeout(SOON).unwrap();
    let mut answer = Vec::new();
    let _ = silent[1].read_to_end(&mut answer);
    assert!(answer.len() <= 72, "{answer:?}");
}

#[test]
fn what_is_no_node_is_named() {
    let _dog = watchdog("no node", LONG);
    let refused = |address: &str| {
        node()
            .connect_with(address, &at_once())
            .unwrap_err()
            .to_string()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let web_server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let answer = [b'x'; 200];
        stream.write_all(&answer).unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let error = refused(&format!("{address}/name"));
    assert!(error.contains("right port"), "{error}");
    web_server.join().unwrap();
    let error = refused(&format!("{address}/name"));
    assert!(error.contains("refused"), "{error}");
    let error = refused("no-such-host.invalid:7400/name");
    assert!(
        error.contains("no-such-host.invalid:7400 can not be reached"),
        "{error}"
    );
    let error = refused("192.0.2.1:7400/name");
    assert!(error.contains("neither loopback nor private"), "{error}");
    let (server, _listener, port, _) = server("no-node");
    let asking = thread::spawn(move || {
        let address = format!("{}/other", port.address());
        node().connect_with(&address, &at_once()).unwrap_err()
    });
    while !asking.is_finished() {
        server.next_event(Duration::from_millis(10)).unwrap();
    }
    let error = asking.join().unwrap();
    assert!(matches!(error, Error::NoSuchName { .. }), "{error}");
}

#[test]
fn nothing_is_open_that_was_not_asked_for() {
    let closed = Node::new().unwrap();
    let error = closed.listen_on("127.0.0.1:0").unwrap_err().to_string();
    assert!(error.contains("HostsConfig::security"), "{error}");
    let error = closed
        .connect_with("127.0.0.1:1/name", &at_once())
        .unwrap_err()
        .to_string();
    assert!(error.contains("HostsConfig::security"), "{error}");
    let error = node().listen_on("0.0.0.0:0").unwrap_err().to_string();
    assert!(error.contains("neither loopback nor private"), "{error}");
    let error = node().listen_on("nonsense").unwrap_err().to_string();
    assert!(error.contains("no address to listen at"), "{error}");
}

#[test]
fn nodes_on_one_host_meet_in_shared_memory() {
    let _dog = watchdog("one host", LONG);
    let config = || NodeConfig {
        hosts: HostsConfig {
            security: Security::Insecure,
            ..HostsConfig::default()
        },
        ..NodeConfig::default()
    };
    let server = Node::with_config(config()).unwrap();
    let listener = server.listen(&name("one-host")).unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let opening = thread::spawn(move || {
        let client = Node::with_config(config()).unwrap();
        let connection = client.connect(&address).unwrap();
        (client, connection)
    });
    let mut accepted = server.next_request(SOON).unwrap().accept().unwrap();
    let (_client, mut opened) = opening.join().unwrap();
    assert_eq!((accepted.remote(), opened.remote()), (None, None));
    opened.send(b"hello").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(accepted.recv(&mut buffer), Ok(5));
}

/// Nodes with these settings for other hosts: a pair as [`pair`] gives.
fn pair_of(of: &str, [one, other]: [HostsConfig; 2], policy: Policy) -> [(Node, Connection); 2] {
    let node = |hosts: HostsConfig| {
        let config = NodeConfig {
            hosts: HostsConfig {
                shortcut: false,
                ..hosts
            },
            ..NodeConfig::default()
        };
        Node::with_config(config).unwrap()
    };
    let (server, client) = (node(one), node(other));
    let listener = server
        .listen_with(&name(of), ListenOptions { policy })
        .unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let opening = thread::spawn(move || {
        let connection = client.connect(&address).unwrap();
        (client, connection)
    });
    let accepted = server.next_request(SOON).unwrap().accept().unwrap();
    [(server, accepted), opening.join().unwrap()]
}

/// Messages of some lengths there and back.
fn exchange(one: &mut Connection, other: &mut Connection) {
    let (mut there, mut back) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for len in [1, 100, 10_000, 1 << 20] {
        let message = bytes(len);
        thread::scope(|scope| {
            scope.spawn(|| {
                let len = one.recv(&mut there).unwrap();
                one.send(&there[..len]).unwrap();
            });
            other.send(&message).unwrap();
            assert_eq!(other.recv(&mut back), Ok(len));
        });
        assert!(back[..len] == message, "{len} bytes");
    }
}

fn keys(folder: &Path) -> HostsConfig {
    HostsConfig {
        security: Security::Keys {
            folder: Some(folder.to_owned()),
        },
        ..HostsConfig::default()
    }
}

/// Two folders with keys; each trusts the other one, under the names `one` and `other`.
fn key_folders(of: &str) -> [PathBuf; 2] {
    let folders = ["one", "other"].map(|own| {
        let folder = std::env::temp_dir().join(format!("{}-{own}", name(of)));
        let options = GenerateOptions {
            is_secret: false,
            name: own.to_owned(),
            replace: false,
        };
        generate(&folder, &options).unwrap();
        folder
    });
    for (at, trusted) in ["other", "one"].iter().enumerate() {
        let certificate = folders[1 - at].join("certificate.pem");
        trust(&folders[at], &certificate, trusted, false).unwrap();
    }
    folders
}

#[test]
fn certificates_say_who_is_there_and_policies_name_them() {
    let _dog = watchdog("certificates", LONG);
    let folders = key_folders("keys");
    let settings = || [keys(&folders[0]), keys(&folders[1])];
    let policy = Policy::same_user().and_certificate("other");
    let [(_server, mut one), (_client, mut other)] = pair_of("keys", settings(), policy);
    let (seen_by_one, seen_by_other) = (one.remote().unwrap(), other.remote().unwrap());
    assert_eq!(
        (seen_by_one.identity.name.as_str(), seen_by_one.identity.how),
        ("other", How::Certificate)
    );
    assert_eq!(
        (
            seen_by_other.identity.name.as_str(),
            seen_by_other.identity.how
        ),
        ("one", How::Certificate)
    );
    assert!(seen_by_one.is_encrypted && seen_by_other.is_encrypted);
    exchange(&mut one, &mut other);

    // A name that does not let this certificate in, and a host that is not trusted at all.
    let [one, _] = settings().map(|hosts| NodeConfig {
        hosts: HostsConfig {
            shortcut: false,
            ..hosts
        },
        ..NodeConfig::default()
    });
    let server = Node::with_config(one).unwrap();
    let listener = server.listen(&name("keys")).unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let stranger = key_folders("stranger");
    for (folder, reason) in [(&folders[1], "policy"), (&stranger[1], "not in trusted/")] {
        let (folder, address) = (folder.clone(), address.clone());
        let asking = thread::spawn(move || {
            let hosts = HostsConfig {
                shortcut: false,
                ..keys(&folder)
            };
            let node = Node::with_config(NodeConfig {
                hosts,
                ..NodeConfig::default()
            })
            .unwrap();
            node.connect_with(&address, &at_once())
                .unwrap_err()
                .to_string()
        });
        while !asking.is_finished() {
            server.next_event(Duration::from_millis(10)).unwrap();
        }
        let error = asking.join().unwrap();
        assert!(error.contains(reason), "{error}");
    }
    // Nor one that proves nothing.
    let plain = node().connect_with(&address, &at_once()).unwrap_err();
    assert!(matches!(plain, Error::HostUnreachable { .. }), "{plain}");
    for folder in folders.iter().chain(&stranger) {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// What a new node with these keys gets from connecting to this address of a node that is polled meanwhile.
fn ask(server: &Node, keys: HostsConfig, address: &str) -> Result<(), String> {
    let hosts = HostsConfig {
        shortcut: false,
        ..keys
    };
    let config = NodeConfig {
        hosts,
        ..NodeConfig::default()
    };
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let node = Node::with_config(config).unwrap();
            let connected = node.connect_with(address, &at_once());
            connected.map(drop).map_err(|error| error.to_string())
        });
        while !asking.is_finished() {
            let event = server.next_event(Duration::from_millis(10)).unwrap();
            if let Some(Event::Request(request)) = event {
                // Whoever asks may have gone already.
                let _ = request.accept();
            }
        }
        asking.join().unwrap()
    })
}

/// A node with these keys that listens: itself, what it listens by, and `HOST:PORT/NAME`.
fn keyed_server(of: &str, folder: &Path) -> (Node, (Listener, Port), String) {
    let hosts = HostsConfig {
        shortcut: false,
        ..keys(folder)
    };
    let config = NodeConfig {
        hosts,
        ..NodeConfig::default()
    };
    let node = Node::with_config(config).unwrap();
    let policy = Policy::anyone();
    let listener = node
        .listen_with(&name(of), ListenOptions { policy })
        .unwrap();
    let port = node.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    (node, (listener, port), address)
}

#[test]
fn only_the_host_that_is_meant_is_talked_to() {
    let _dog = watchdog("meant", LONG);
    let (folders, third) = (key_folders("meant"), key_folders("third"));
    trust(
        &folders[1],
        &third[0].join("certificate.pem"),
        "third",
        false,
    )
    .unwrap();
    let (server, _listening, address) = keyed_server("meant", &folders[0]);
    let ask = |address: &str| ask(&server, keys(&folders[1]), address);
    assert_eq!(ask(&address), Ok(()), "any that is trusted");
    assert_eq!(ask(&format!("one@{address}")), Ok(()));
    let other = ask(&format!("third@{address}")).unwrap_err();
    assert!(
        other.contains("third was to be reached, and one answered"),
        "{other}"
    );
    let nobody = ask(&format!("nobody@{address}")).unwrap_err();
    assert!(nobody.contains("has the name nobody"), "{nobody}");
    let plain = node().connect_with(&format!("one@{address}"), &at_once());
    let plain = plain.unwrap_err().to_string();
    assert!(plain.contains("nothing is proved"), "{plain}");
    for folder in folders.iter().chain(&third) {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn keys_are_read_again_while_a_node_runs() {
    let _dog = watchdog("reload", LONG);
    let folders = key_folders("reload");
    let (server, _listening, address) = keyed_server("reload", &folders[0]);
    let ask = || ask(&server, keys(&folders[1]), &address);
    assert_eq!(ask(), Ok(()));
    let trusted = folders[0].join("trusted");
    let (file, kept) = (trusted.join("other.pem"), folders[0].join("kept.pem"));
    std::fs::rename(&file, &kept).unwrap();
    let refused = std::iter::repeat_with(ask).find_map(Result::err).unwrap();
    assert!(refused.contains("does not trust"), "{refused}");
    std::fs::rename(&kept, &file).unwrap();
    assert!(std::iter::repeat_with(ask).any(|asked| asked.is_ok()));
    for folder in &folders {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_secret_joins_all_who_have_it() {
    let _dog = watchdog("secret", LONG);
    let folder = std::env::temp_dir().join(name("secret"));
    let options = GenerateOptions {
        is_secret: true,
        name: "secret".to_owned(),
        replace: false,
    };
    generate(&folder, &options).unwrap();
    let settings = [keys(&folder), keys(&folder)];
    let [(_server, mut one), (_client, mut other)] =
        pair_of("secret", settings, Policy::same_user());
    assert!(
        one.remote()
            .is_some_and(|peer| peer.identity.how == How::Secret && peer.is_encrypted)
    );
    exchange(&mut one, &mut other);
    std::fs::remove_dir_all(&folder).unwrap();
    let error = Node::with_config(NodeConfig {
        hosts: keys(&folder),
        ..NodeConfig::default()
    })
    .unwrap()
    .listen_on("127.0.0.1:0")
    .unwrap_err()
    .to_string();
    assert!(error.contains("barewire node keygen"), "{error}");
}

fn over_libfabric() -> HostsConfig {
    HostsConfig {
        security: Security::Insecure,
        transport: Transport::Libfabric {
            provider: Some("tcp".to_owned()),
        },
        ..HostsConfig::default()
    }
}

#[test]
fn links_move_to_libfabric_where_both_want_it() {
    let _dog = watchdog("libfabric", LONG);
    let there = Node::with_config(NodeConfig {
        hosts: over_libfabric(),
        ..NodeConfig::default()
    })
    .unwrap()
    .listen_on("127.0.0.1:0");
    if let Err(error) = there {
        assert!(error.to_string().contains("libfabric1"), "{error}");
        return skip(
            "links_move_to_libfabric_where_both_want_it",
            &error.to_string(),
        );
    }
    let settings = [over_libfabric(), over_libfabric()];
    let [(_server, mut one), (client, mut other)] = pair_of("ofi", settings, Policy::same_user());
    assert_eq!(one.remote().unwrap().transport, "ofi:tcp");
    exchange(&mut one, &mut other);
    one.send(b"last words").unwrap();
    drop(other);
    drop(client);
    // Where only one of them does, they stay where they are.
    let settings = [over_libfabric(), strangers()];
    let [(_server, mut one), (_client, mut other)] = pair_of("stay", settings, Policy::same_user());
    assert_eq!(one.remote().unwrap().transport, "tcp");
    exchange(&mut one, &mut other);
}
