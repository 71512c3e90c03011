//! Nobody who keeps a node busy keeps it from the others, however few events are asked for
//! at a time.

use std::thread;
use std::time::Duration;

use barewire::{Connection, Event, Node};

const SECOND: Option<Duration> = Some(Duration::from_secs(10));

/// A node with `count` accepted connections, the client's node and its ends of them.
fn connected(of: &str, count: usize) -> (Node, Vec<Connection>, Node, Vec<Connection>) {
    let name = format!("fairness-{}-{of}", std::process::id());
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let connect = |_| node.connect(&name).unwrap();
        let connections: Vec<_> = (0..count).map(connect).collect();
        (node, connections)
    });
    let accept = |_| server.next_request(SECOND).unwrap().accept().unwrap();
    let accepted = (0..count).map(accept).collect();
    let (node, connections) = client.join().unwrap();
    (server, accepted, node, connections)
}

/// Fills the rings of some connections, and takes one message at a time from them.
#[test]
fn those_who_always_have_more_do_not_starve_the_others() {
    let (server, mut accepted, _client, mut connections) = connected("starve", 4);
    for connection in &mut connections[..3] {
        while connection.try_send(b"more").unwrap() {}
    }
    connections[3].send(b"me too").unwrap();
    let ids: Vec<_> = accepted.iter().map(Connection::id).collect();
    for turn in 0.. {
        assert!(turn < 100, "told of the busy ones only");
        let event = server.next_event(SECOND).unwrap();
        let Some(Event::Ready(id)) = event else {
            panic!("{event:?}");
        };
        let at = ids.iter().position(|i| *i == id).unwrap();
        let taken = accepted[at].try_recv(&mut [0; 16]).unwrap();
        // What was taken is filled up again: they always have more.
        if at < 3 && taken.is_some() {
            while connections[at].try_send(b"more").unwrap() {}
        } else if at == 3 {
            return;
        }
    }
}

#[test]
fn those_who_always_have_more_take_turns() {
    let (server, mut accepted, _client, mut connections) = connected("turns", 3);
    for connection in &mut connections {
        while connection.try_send(b"more").unwrap() {}
    }
    let ids: Vec<_> = accepted.iter().map(Connection::id).collect();
    let mut turns = [0; 3];
    for _ in 0..90 {
        if let Some(Event::Ready(id)) = server.next_event(SECOND).unwrap() {
            let at = ids.iter().position(|i| *i == id).unwrap();
            if accepted[at].try_recv(&mut [0; 16]).unwrap().is_some() {
                while connections[at].try_send(b"more").unwrap() {}
            }
            turns[at] += 1;
        }
    }
    assert!(turns.iter().all(|n| *n > 10), "{turns:?}");
}

#[test]
fn no_more_events_than_asked_for() {
    let (server, mut accepted, _client, mut connections) = connected("max", 10);
    for connection in &mut connections {
        while connection.try_send(b"more").unwrap() {}
    }
    let mut events = Vec::new();
    while server.poll(&mut events, 64).unwrap() == 0 {}
    for connection in &mut accepted {
        connection.try_recv(&mut [0; 16]).unwrap();
    }
    for max in [1, 3] {
        events.clear();
        let found = server.poll(&mut events, max).unwrap();
        assert!(
            found <= max && events.len() == found,
            "{found} where {max} were wanted"
        );
    }
}
