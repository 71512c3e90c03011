//! A node that connects to a name that it listens to itself: it works where somebody
//! accepts, and says what is missing where nobody can.

#![forbid(unsafe_code)]

mod common;

use std::thread;
use std::time::Duration;

use barewire::{ConnectOptions, Connection, Error, Event, Fault, Node};
use common::*;

/// Sends numbers to and fro, each end in a thread.
fn exchange(mut near: Connection, mut far: Connection) {
    let echo = thread::spawn(move || {
        let mut buffer = [0; 8];
        while let Ok(len) = far.recv(&mut buffer) {
            far.send(&buffer[..len]).unwrap();
        }
    });
    let mut buffer = [0; 8];
    for i in 0..2000_u64 {
        near.send(&i.to_le_bytes()).unwrap();
        assert_eq!(near.receiver().recv_timeout(&mut buffer, SOON), Ok(Some(8)));
        assert_eq!(buffer, i.to_le_bytes());
    }
    drop(near);
    echo.join().unwrap();
}

#[test]
fn another_thread_accepts() {
    let _dog = watchdog("another thread", Duration::from_secs(60));
    let name = name("own");
    let node = Node::new().unwrap();
    let _listener = node.listen(&name).unwrap();
    let (near, far) = thread::scope(|scope| {
        let opening = scope.spawn(|| node.connect(&name).unwrap());
        let accepted = node.next_request(SOON).unwrap().accept().unwrap();
        (accepted, opening.join().unwrap())
    });
    assert_ne!(near.id(), far.id());
    exchange(near, far);
}

#[test]
fn one_thread_does_both_in_its_event_loop() {
    let _dog = watchdog("event loop", Duration::from_secs(60));
    let name = name("own");
    let node = Node::new().unwrap();
    let _listener = node.listen(&name).unwrap();
    let id = node
        .start_connect(&name, &ConnectOptions::default())
        .unwrap();
    let (mut near, mut far) = (None, None);
    while near.is_none() || far.is_none() {
        match node.next_event(SOON).unwrap().expect("an event in time") {
            Event::Request(request) => near = Some(request.accept().unwrap()),
            Event::Connected(connection) => far = Some(*connection),
            _ => {}
        }
    }
    let (near, far) = (near.unwrap(), far.unwrap());
    assert_eq!(far.id(), id);
    exchange(near, far);
}

#[test]
fn nobody_can_accept_while_the_only_thread_waits() {
    let name = name("own");
    let node = Node::new().unwrap();
    let listener = node.listen(&name).unwrap();
    let options = ConnectOptions {
        timeout: Duration::from_millis(50),
        ..ConnectOptions::default()
    };
    let error = node.connect_with(&name, &options).unwrap_err();
    assert_eq!(error, Error::OwnName { name: name.clone() });
    assert_eq!(error.fault(), Fault::Caller);
    assert!(error.to_string().contains("start_connect"), "{error}");
    // What it began is refused or gone, and the next attempt works.
    while node
        .next_event(Duration::from_millis(50))
        .unwrap()
        .is_some()
    {}
    let opening = {
        let (node, name) = (node.clone(), name.clone());
        thread::spawn(move || node.connect(&name).unwrap())
    };
    let accepted = node.next_request(SOON).unwrap().accept().unwrap();
    exchange(accepted, opening.join().unwrap());

    // A name of another node is late, and no more than that.
    let other = Node::new().unwrap();
    let error = other.connect_with(&name, &options).unwrap_err();
    assert_eq!(error, Error::Timeout);
    drop(listener);
}
