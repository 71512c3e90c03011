//! What may be lost with a link to another host is counted: nothing that was accepted disappears without being named.
//!
//! Over TCP on the loopback interface, between nodes that are told to take each other for strangers.

#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use barewire::{ConnectOptions, Connection, Error, Event, HostsConfig, Lost, Node, NodeConfig};
use barewire_sys::process::Signal;
use common::*;

/// Words of the board.
const READ: usize = 0;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("reader") => reader(),
        _ => return,
    }
    std::process::exit(0);
}

fn config(ring_bytes: u64) -> NodeConfig {
    NodeConfig {
        hosts: HostsConfig {
            ring_bytes: ring_bytes as usize,
            ..strangers()
        },
        ..spins(false)
    }
}

/// Accepts one connection and receives, and says after each message how many that were.
fn reader() {
    let _dog = watchdog("reader", LONG * 2);
    let board = Board::open(&arg("board"));
    let node = Node::with_config(config(arg_number("ring_bytes"))).unwrap();
    let listener = node.listen(&name("reader")).unwrap();
    let port = node.listen_on("127.0.0.1:0").unwrap();
    say(&format!("{}/{}", port.address(), listener.name()));
    let mut connection = node.next_request(SOON).unwrap().accept().unwrap();
    let (mut buffer, mut expected) = (Vec::new(), Vec::new());
    for number in 0.. {
        if connection.receiver().recv_into(&mut buffer).is_err() {
            return;
        }
        message(4, number, &mut expected);
        assert!(buffer == expected, "message {number}");
        board.atomic_store(READ, number + 1);
    }
}

fn connected(node: &Node, address: &str) -> Connection {
    let options = ConnectOptions {
        wait_for_name: false,
        ..ConnectOptions::default()
    };
    node.connect_with(address, &options).unwrap()
}

/// Sends until that fails, and calls `at` before each message. The error, and the lengths of what was accepted.
fn send_until_lost(connection: &mut Connection, mut at: impl FnMut(u64)) -> (Error, Vec<u64>) {
    let (mut accepted, mut buffer) = (Vec::new(), Vec::new());
    loop {
        at(accepted.len() as u64);
        message(4, accepted.len() as u64, &mut buffer);
        match connection.send(&buffer) {
            Ok(()) => accepted.push(buffer.len() as u64),
            Err(error) => return (error, accepted),
        }
    }
}

#[test]
fn what_a_killed_reader_had_not_read_is_counted() {
    let _dog = watchdog("killed reader", LONG * 4);
    let seed = seed("killed reader");
    for round in 0..12_u64 {
        let ring_bytes = [4096, 64 << 10, 256 << 10][round as usize % 3];
        let board = Board::new();
        let (path, ring_bytes) = (board.path(), format!("{ring_bytes}"));
        let args = [("board", &path[..]), ("ring_bytes", &ring_bytes)];
        let child = spawn("reader", &args);
        let node = Node::with_config(config(4096)).unwrap();
        let mut connection = connected(&node, &child.hear());
        let last = mix(seed ^ round) % 3000;
        let (error, accepted) = send_until_lost(&mut connection, |number| {
            if number == last {
                child.signal(Signal::Kill);
            }
        });
        let lost = assert_lost_of(&error, &accepted);
        let read = board.words.atomic_load(READ);
        let sent = accepted.len() as u64;
        let counted = lost.messages + lost.unread_messages;
        assert!(read <= sent, "{read} of {sent}");
        // The reader may have been killed when it had one more, and had not said so.
        assert!(read + 1 + counted >= sent, "{read} of {sent}, {lost:?}");
        // It may be killed before it was sent anything.
        let is_said = error.to_string().contains("not known");
        assert_eq!(is_said, counted > 0, "{error}");
        // The receiving half, and the event, say the same.
        let received = connection.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(received, error);
        eventually("the event comes", || {
            match node.next_event(Duration::from_millis(10)).unwrap() {
                Some(Event::Closed { reason, .. }) => {
                    assert_eq!(reason, error);
                    true
                }
                _ => false,
            }
        });
    }
}

/// A puppet that has accepted a connection, which is its number 0.
fn connected_to_puppet(of: &str) -> (Child, Node, Connection) {
    let mut puppet = spawn("puppet", &[]);
    let listened = name(of);
    puppet.must(&format!("listen {listened}"));
    let port = puppet.must("port");
    let node = Node::with_config(spins(false)).unwrap();
    let options = ConnectOptions::default();
    node.start_connect(&format!("{port}/{listened}"), &options)
        .unwrap();
    puppet.must("accept");
    let Some(Event::Connected(connection)) = node.next_event(SOON).unwrap() else {
        panic!("not connected");
    };
    (puppet, node, *connection)
}

fn send(connection: &mut Connection, seed: u64, count: u64) -> Vec<u64> {
    let mut buffer = Vec::new();
    let mut send = |number| {
        message(seed, number, &mut buffer);
        connection.send(&buffer).unwrap();
        buffer.len() as u64
    };
    (0..count).map(&mut send).collect()
}

fn lost_of_next_receive(connection: &mut Connection, accepted: &[u64]) -> Lost {
    let error = connection.receiver().recv_into(&mut Vec::new());
    assert_lost_of(&error.unwrap_err(), accepted)
}

#[test]
fn an_answer_says_that_what_it_answers_has_arrived() {
    let _dog = watchdog("answered", LONG);
    let (mut puppet, _node, mut connection) = connected_to_puppet("answered");
    let accepted = send(&mut connection, 3, 20);
    puppet.must("recv 0 3 0 20");
    puppet.must("send 0 5 0 1");
    assert!(connection.receiver().recv_into(&mut Vec::new()).is_ok());
    puppet.kill();
    let lost = lost_of_next_receive(&mut connection, &accepted);
    assert_eq!((lost.messages, lost.bytes), (0, 0));
}

#[test]
fn what_has_arrived_is_known_after_a_sign_of_life() {
    let _dog = watchdog("arrived", LONG);
    let (mut puppet, _node, mut connection) = connected_to_puppet("arrived");
    let accepted = send(&mut connection, 3, 20);
    // Each side shows that it is there every quarter of this time.
    let idle = connection.recv_timeout(&mut [0; 8], strangers().timeout * 2);
    assert_eq!(idle, Ok(None));
    puppet.kill();
    let lost = lost_of_next_receive(&mut connection, &accepted);
    // Nobody has read anything.
    assert_eq!((lost.messages, lost.unread_messages), (0, 20));
}

#[test]
fn what_a_host_that_stopped_takes_later_and_what_is_lost_are_all() {
    let _dog = watchdog("stopped", LONG * 2);
    let (mut puppet, _node, mut connection) = connected_to_puppet("stopped");
    let (error, accepted) = send_until_lost(&mut connection, |number| {
        if number == 10 {
            puppet.signal(Signal::Stop);
        }
    });
    let lost = assert_lost_of(&error, &accepted);
    puppet.signal(Signal::Cont);
    let answer = puppet.must("drain 0 4");
    let delivered = answer.split(' ').next().unwrap().parse::<u64>();
    let delivered = delivered.unwrap_or_else(|_| panic!("{answer}"));
    let sent = accepted.len() as u64;
    assert!(
        delivered + lost.messages >= sent,
        "{delivered} of {sent} arrived, {lost:?}"
    );
    assert!(lost.messages > 0 && delivered <= sent);
}

#[test]
fn a_stream_counts_its_bytes() {
    use std::io::{Read, Write};
    let _dog = watchdog("stream", LONG);
    let (mut puppet, _node, connection) = connected_to_puppet("stream");
    let mut stream = connection.into_stream();
    let mut written = 0;
    while written < 100_000 {
        stream.write_all(&[7; 1000]).unwrap();
        written += 1000;
    }
    puppet.kill();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    let error = error.into_inner().unwrap();
    let Some(Error::HostLost {
        lost: Some(lost), ..
    }) = error.downcast_ref::<Error>()
    else {
        panic!("{error:?}");
    };
    assert_eq!(lost.bytes + lost.unread_bytes, written);
}
