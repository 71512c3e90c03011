//! Two nodes that connect to each other at the same moment, with their first contact.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use barewire::{ConnectOptions, Event, Node};

/// Far more than it takes.
const DEADLINE: Duration = Duration::from_secs(10);

/// Connects to `other` when the barrier opens, and accepts what comes. Returns once there are both connections.
fn meet(own: &str, other: &str, begin: &Barrier) {
    let node = Node::new().unwrap();
    let _listener = node.listen(own).unwrap();
    begin.wait();
    node.start_connect(other, &ConnectOptions::default())
        .unwrap();
    let (mut connected, mut accepted) = (None, None);
    while connected.is_none() || accepted.is_none() {
        match node.next_event(DEADLINE).unwrap() {
            Some(Event::Connected(connection)) => connected = Some(connection),
            Some(Event::Request(request)) => accepted = Some(request.accept().unwrap()),
            Some(Event::Ready(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    let (mut connected, mut accepted) = (connected.unwrap(), accepted.unwrap());
    connected.send(own.as_bytes()).unwrap();
    let mut name = Vec::new();
    accepted.recv_into(&mut name).unwrap();
    assert_eq!(name, other.as_bytes());
    begin.wait();
}

#[test]
fn both_connections_are_made() {
    for round in 0..100 {
        let name = |side| format!("crossing-{side}-{round}-{}", std::process::id());
        let (a, b) = (name("a"), name("b"));
        let begin = Arc::new(Barrier::new(2));
        let there = Arc::clone(&begin);
        let (own, other) = (b.clone(), a.clone());
        let peer = thread::spawn(move || meet(&own, &other, &there));
        meet(&a, &b, &begin);
        peer.join().unwrap();
    }
}
