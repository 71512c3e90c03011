//! Connections that a node looks at itself, because all events come from them: no readiness is lost or kept from
//! others, whoever sleeps, stops in the middle, fills its ring or dies.

#![forbid(unsafe_code)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Event, Node};
use barewire_units::Rng;
use common::*;

/// A node with `count` accepted connections, the client's node and its ends of them.
fn connected(of: &str, count: usize) -> (Node, Vec<Connection>, Node, Vec<Connection>) {
    let name = name(of);
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let connections: Vec<_> = (0..count).map(|_| node.connect(&name).unwrap()).collect();
        (node, connections)
    });
    let accept = |_| server.next_request(SOON).unwrap().accept().unwrap();
    let accepted = (0..count).map(accept).collect();
    let (node, connections) = client.join().unwrap();
    (server, accepted, node, connections)
}

/// Polls until a connection is announced, and returns which.
fn polled(server: &Node, accepted: &[Connection]) -> usize {
    let mut events = Vec::new();
    eventually("a connection is ready", || {
        server.poll(&mut events, 1).unwrap() > 0
    });
    which(&events[0], accepted)
}

fn which(event: &Event, accepted: &[Connection]) -> usize {
    let Event::Ready(id) = event else {
        panic!("{event:?}");
    };
    accepted.iter().position(|c| c.id() == *id).unwrap()
}

/// Exchanges messages until the node has learnt that these connections are hot.
fn heat(server: &Node, accepted: &mut [Connection], connections: &mut [Connection]) {
    let mut buffer = [0; 8];
    for round in 0..200 {
        let at = round % connections.len();
        connections[at].send(b"message").unwrap();
        while accepted[at].try_recv(&mut buffer).unwrap().is_none() {
            polled(server, accepted);
        }
        assert_eq!(accepted[at].try_recv(&mut buffer), Ok(None));
    }
}

#[test]
fn what_is_left_of_a_batch_is_announced_again() {
    let _dog = watchdog("what is left", LONG * 2);
    let (server, mut accepted, _client, mut connections) = connected("batch", 1);
    heat(&server, &mut accepted, &mut connections);
    let messages: Vec<[u8; 1]> = (0..50).map(|at| [at]).collect();
    let sent = connections[0].sender().send_batch(&messages).unwrap();
    assert_eq!(sent, 50);
    // One is taken for each event.
    for expected in 0..50 {
        polled(&server, &accepted);
        let mut buffer = [0; 8];
        assert_eq!(accepted[0].try_recv(&mut buffer), Ok(Some(1)));
        assert_eq!(buffer[0], expected);
    }
}

#[test]
fn four_that_always_have_more_take_turns_with_each_other_and_with_a_fifth() {
    let _dog = watchdog("turns", LONG * 2);
    let (server, mut accepted, _client, mut connections) = connected("turns", 5);
    heat(&server, &mut accepted[..4], &mut connections[..4]);
    for connection in &mut connections[..4] {
        while connection.try_send(b"more").unwrap() {}
    }
    let mut turns = [0; 5];
    for _ in 0..400 {
        // The fifth is not hot: its peer rings.
        if turns[4] < 20 {
            connections[4].try_send(b"me too").unwrap();
        }
        let at = polled(&server, &accepted);
        if accepted[at].try_recv(&mut [0; 16]).unwrap().is_some() {
            turns[at] += 1;
            while at < 4 && connections[at].try_send(b"more").unwrap() {}
        }
    }
    assert!(turns.iter().all(|n| *n >= 15), "{turns:?}");
}

/// The end of the ring is skipped before the next message is there.
#[test]
fn a_message_behind_a_skipped_end_is_announced() {
    let _dog = watchdog("skip", LONG * 4);
    let (server, mut accepted, _client, mut connections) = connected("skip", 1);
    heat(&server, &mut accepted, &mut connections);
    let (mut events, mut buffer) = (Vec::new(), [0; 1000]);
    for round in 0..1000_usize {
        let len = 100 + round % 800;
        let sender = connections[0].sender();
        // The place is taken, and the end of the ring skipped; the owner looks before it is filled.
        let mut place = sender.reserve(len).unwrap().expect("room");
        server.poll(&mut events, 16).unwrap();
        events.clear();
        assert_eq!(accepted[0].try_recv(&mut buffer), Ok(None));
        place.write_at(0, &[round as u8; 100]);
        place.commit(len);
        polled(&server, &accepted);
        assert_eq!(accepted[0].try_recv(&mut buffer), Ok(Some(len)));
        assert_eq!(accepted[0].try_recv(&mut buffer), Ok(None));
    }
}

#[test]
fn room_is_announced_to_a_sender_whose_connection_is_hot() {
    let _dog = watchdog("room", LONG * 2);
    let (server, mut accepted, _client, mut connections) = connected("room", 1);
    heat(&server, &mut accepted, &mut connections);
    while accepted[0].try_send(&[1; 64]).unwrap() {}
    // Now and then a poll in between, as an event loop would.
    let mut events = Vec::new();
    server.poll(&mut events, 16).unwrap();
    events.clear();
    let mut buffer = [0; 64];
    while connections[0].try_recv(&mut buffer).unwrap().is_some() {}
    polled(&server, &accepted);
    assert_eq!(accepted[0].try_send(&[1; 64]), Ok(true));
}

#[test]
fn the_end_of_a_hot_connection_is_announced() {
    let _dog = watchdog("end", LONG * 2);
    let (server, mut accepted, _client, mut connections) = connected("end", 1);
    heat(&server, &mut accepted, &mut connections);
    connections[0].send(b"the last").unwrap();
    drop(connections);
    let (mut events, mut closed, mut last) = (Vec::new(), false, false);
    eventually("closed", || {
        server.poll(&mut events, 16).unwrap();
        closed |= events
            .drain(..)
            .any(|it| matches!(it, Event::Closed { .. }));
        last |= accepted[0].try_recv(&mut [0; 16]) == Ok(Some(8));
        closed && last
    });
    assert_eq!(accepted[0].try_recv(&mut [0; 16]), Err(Error::Finished));
    // Its place is free: another becomes hot.
    drop(accepted);
    let (mut accepted, mut connections) = {
        let (_server, accepted, _client, connections) = connected("end-again", 1);
        (accepted, connections)
    };
    connections[0].send(b"x").unwrap();
    assert_eq!(accepted[0].recv(&mut [0; 8]), Ok(1));
}

/// Long enough for others to fall asleep, sometimes.
fn pause(length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        thread::yield_now();
    }
}

/// One thread polls and makes the connections hot, another sleeps at the same node; both stop and begin at any time.
#[test]
fn no_message_waits_for_a_thread_that_has_stopped_polling() {
    let _dog = watchdog("two threads", LONG * 6);
    let mut rng = Rng::from_seed(seed("two threads"));
    let (server, accepted, _client, mut connections) = connected("threads", 2);
    let accepted: Vec<_> = accepted.into_iter().map(std::sync::Mutex::new).collect();
    let ids: Vec<_> = accepted.iter().map(|c| c.lock().unwrap().id()).collect();
    let (ended, polls) = (AtomicBool::new(false), AtomicBool::new(true));
    // Answers what was announced.
    let answer = |event: &Event| {
        let Event::Ready(id) = event else {
            panic!("{event:?}");
        };
        let at = ids.iter().position(|it| it == id).unwrap();
        let mut connection = accepted[at].lock().unwrap();
        let mut buffer = [0; 8];
        while let Some(len) = connection.try_recv(&mut buffer).unwrap() {
            connection.send(&buffer[..len]).unwrap();
        }
    };
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut events = Vec::new();
            // Relaxed: flags of a test.
            while !ended.load(Ordering::Relaxed) {
                if polls.load(Ordering::Relaxed) {
                    server.poll(&mut events, 4).unwrap();
                    events.drain(..).for_each(|event| answer(&event));
                } else {
                    thread::yield_now();
                }
            }
        });
        threads.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let event = server.next_event(SOON).unwrap();
                event.iter().for_each(&answer);
            }
        });
        for round in 0..20_000_u64 {
            let at = rng.index(2);
            connections[at].send(&round.to_le_bytes()).unwrap();
            let mut buffer = [0; 8];
            let came = connections[at].receiver().recv_timeout(&mut buffer, SOON);
            assert_eq!(
                (came, buffer),
                (Ok(Some(8)), round.to_le_bytes()),
                "{round}"
            );
            match rng.below(64) {
                0 => polls.store(!polls.load(Ordering::Relaxed), Ordering::Relaxed),
                1 => pause(Duration::from_micros(rng.below(2000))),
                2..8 => (0..rng.below(3000)).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
        }
        ended.store(true, Ordering::Relaxed);
        // Wakes the one that sleeps.
        connections[0].send(&[0; 8]).unwrap();
    });
}

#[test]
fn a_poll_of_memory_takes_messages_and_does_not_tell_of_the_end() {
    let (_server, mut accepted, _client, mut connections) = connected("once", 1);
    let (receiver, mut buffer) = (accepted[0].receiver(), [0; 8]);
    assert_eq!(receiver.poll_once(&mut buffer), Ok(None));
    for len in [0, 7, 8] {
        connections[0].send(&b"12345678"[..len]).unwrap();
        assert_eq!(receiver.poll_once(&mut buffer), Ok(Some(len)));
        assert_eq!(buffer[..len], b"12345678"[..len]);
    }
    connections[0].send(&[1; 20]).unwrap();
    let too_small = receiver.poll_once(&mut buffer).unwrap_err();
    assert!(matches!(too_small, Error::BufferTooSmall { needed_bytes, .. } if needed_bytes == 20));
    let mut long = Vec::new();
    assert_eq!(receiver.try_recv_into(&mut long), Ok(Some(20)));
    assert!(long.iter().all(|&byte| byte == 1));
    drop(connections);
    eventually("the end is there", || {
        assert_eq!(receiver.poll_once(&mut buffer), Ok(None));
        receiver.try_recv(&mut buffer) == Err(Error::Finished)
    });
}
