//! The network between threads of one process: each thread has a node of its own, and
//! everything goes the way it goes between processes.

mod common;

use std::thread;
use std::time::Duration;

use barewire::{
    Action, ApertureConfig, ConnectOptions, Connection, Error, Event, Memory, Mode, Node,
    NodeConfig, Rights, Spin,
};
use common::WatchedThread;

const SECOND: Option<Duration> = Some(Duration::from_secs(5));

/// A name that no other test uses.
fn name(of: &str) -> String {
    format!("test-{}-{of}", std::process::id())
}

/// Two ends of a connection, each on a node of its own.
fn pair(of: &str) -> ((Node, Connection), (Node, Connection)) {
    let name = name(of);
    let server = Node::new().unwrap();
    let listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let connection = node.connect(&name).unwrap();
        (node, connection)
    });
    let request = server.next_request(SECOND).unwrap();
    let connection = request.accept().unwrap();
    drop(listener);
    ((server, connection), client.join().unwrap())
}

#[test]
fn messages_go_both_ways() {
    let ((_a, mut a), (_b, mut b)) = pair("both-ways");
    let mut buffer = [0; 64];
    for i in 0..10_000_u64 {
        a.send(&i.to_le_bytes()).unwrap();
        assert_eq!(b.recv(&mut buffer).unwrap(), 8);
        assert_eq!(buffer[..8], i.to_le_bytes());
        b.send(&buffer[..(i % 57) as usize]).unwrap();
        assert_eq!(a.recv(&mut buffer).unwrap(), (i % 57) as usize);
    }
}

#[test]
fn a_long_message_crosses_a_small_ring() {
    let ((_a, mut a), (_b, mut b)) = pair("long");
    let long: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let expected = long.clone();
    let sender = thread::spawn(move || {
        a.send(&long).unwrap();
        a.send(b"after").unwrap();
        a
    });
    let mut got = Vec::new();
    assert!(
        b.receiver()
            .recv_into_timeout(&mut got, SECOND)
            .unwrap()
            .is_some()
    );
    assert_eq!(got, expected);
    assert!(
        b.receiver()
            .recv_into_timeout(&mut got, SECOND)
            .unwrap()
            .is_some()
    );
    assert_eq!(got, b"after");
    drop(sender.join().unwrap());
    let end = b.receiver().recv_into_timeout(&mut got, SECOND);
    assert_eq!(end, Err(Error::Finished));
}

#[test]
fn echo_through_the_event_queue_asleep() {
    let config = NodeConfig {
        spin: Spin::Never,
        ..NodeConfig::default()
    };
    let name = name("events");
    let server = Node::with_config(config.clone()).unwrap();
    let _listener = server.listen(&name).unwrap();
    let client = thread::spawn(move || {
        let node = Node::with_config(config).unwrap();
        let mut connection = node.connect(&name).unwrap();
        let mut buffer = [0; 16];
        for i in 0..500_u64 {
            connection.send(&i.to_le_bytes()).unwrap();
            assert_eq!(connection.recv(&mut buffer).unwrap(), 8);
            assert_eq!(buffer[..8], i.to_le_bytes());
        }
    });
    let mut connection = None;
    let mut events = Vec::new();
    let mut buffer = [0; 16];
    'serving: loop {
        assert!(server.wait(&mut events, 16, SECOND).unwrap() > 0);
        for event in events.drain(..) {
            match event {
                Event::Request(request) => connection = Some(request.accept().unwrap()),
                Event::Ready(id) => {
                    let connection: &mut Connection = connection.as_mut().unwrap();
                    assert_eq!(connection.id(), id);
                    loop {
                        match connection.try_recv(&mut buffer) {
                            Ok(Some(len)) => connection.send(&buffer[..len]).unwrap(),
                            Ok(None) => break,
                            Err(Error::Finished) => break 'serving,
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                Event::Closed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    client.join().unwrap();
}

#[test]
fn refusals_come_with_their_reason() {
    let name = name("refusal");
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    let client = {
        let name = name.clone();
        thread::spawn(move || {
            let node = Node::new().unwrap();
            let options = ConnectOptions {
                data: b"let me in".to_vec(),
                ..ConnectOptions::default()
            };
            let first = node.connect_with(&name, &options).unwrap_err();
            let second = node.connect_with(&name, &options).unwrap_err();
            (first, second)
        })
    };
    let request = server.next_request(SECOND).unwrap();
    assert_eq!(request.data(), b"let me in");
    request.reject("no room");
    drop(server.next_request(SECOND).unwrap());
    let (first, second) = client.join().unwrap();
    let refused = |reason: &str| Error::Refused {
        reason: reason.into(),
    };
    assert_eq!(first, refused("no room"));
    assert_eq!(second, refused("the listener did not accept"));
}

#[test]
fn a_missing_name_is_named_and_a_late_one_awaited() {
    let name = name("late");
    let node = Node::new().unwrap();
    let at_once = ConnectOptions {
        wait_for_name: false,
        ..ConnectOptions::default()
    };
    let error = node.connect_with(&name, &at_once).unwrap_err();
    assert!(matches!(error, Error::NoSuchName { .. }), "{error}");
    let server = {
        let (name, client) = (name.clone(), WatchedThread::current());
        thread::spawn(move || {
            client.wait_until_asleep();
            let node = Node::new().unwrap();
            let _listener = node.listen(&name).unwrap();
            let request = node.next_request(SECOND).unwrap();
            request.accept().unwrap().send(b"hello").unwrap();
        })
    };
    let mut connection = node.connect(&name).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(connection.recv(&mut buffer).unwrap(), 5);
    server.join().unwrap();
}

#[test]
fn a_taken_name_says_who_has_it() {
    let name = name("taken");
    let first = Node::new().unwrap();
    let _listener = first.listen(&name).unwrap();
    let error = Node::new().unwrap().listen(&name).unwrap_err();
    let Error::NameTaken { holder, .. } = error else {
        panic!("{error}");
    };
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
}

#[test]
fn apertures_and_tripwires() {
    let ((a, to_b), (b, mut to_a)) = pair("aperture");
    let aperture = a
        .export(ApertureConfig::new(100_000, Rights::ReadWrite))
        .unwrap();
    to_b.grant(&aperture, 42).unwrap();
    let (cookie, remote) = to_a.import(SECOND).unwrap();
    assert_eq!(cookie, 42);
    assert_eq!(remote.len_bytes(), 100_000);

    let enqueue = |cookie| Action::Enqueue { cookie };
    let once = aperture.tripwire(64, 8, Mode::OneShot, enqueue(7)).unwrap();
    let count = aperture
        .tripwire(0, 100_000, Mode::Sticky, Action::Count)
        .unwrap();
    let ours = remote.tripwire(64, 1, Mode::Sticky, enqueue(9)).unwrap();
    remote.put(70, b"hi").unwrap();
    remote.put(99_998, b"xy").unwrap();
    let mut got = [0; 2];
    aperture.get(70, &mut got).unwrap();
    assert_eq!(&got, b"hi");
    assert_eq!(count.count(), 2);
    assert!(matches!(
        a.next_event(SECOND).unwrap(),
        Some(Event::Tripwire { cookie: 7, aperture: at }) if at == aperture.id()
    ));
    assert!(!once.is_armed());
    assert!(
        b.next_event(Some(Duration::ZERO)).unwrap().is_none(),
        "64 was not touched"
    );
    remote.store(64, 5).unwrap();
    assert_eq!(aperture.load(64), Ok(5));
    assert!(matches!(
        b.next_event(SECOND).unwrap(),
        Some(Event::Tripwire { cookie: 9, aperture: at }) if at == remote.id() && at == ours.aperture()
    ));
    ours.disarm();
    assert_eq!(remote.add(64, 3), Ok(5));
    assert_eq!(remote.compare_exchange(64, 8, 1), Ok(Ok(8)));
    assert_eq!(remote.compare_exchange(64, 8, 2), Ok(Err(1)));
    assert_eq!(count.count(), 5);

    remote.bulk_put(1000, vec![3; 50_000], 11).unwrap();
    match b.next_event(SECOND).unwrap() {
        Some(Event::Completion { cookie: 11, result }) => assert_eq!(result.unwrap().len(), 50_000),
        other => panic!("{other:?}"),
    }
    assert_eq!(aperture.load(1000), Ok(0x0303_0303_0303_0303));

    aperture.revoke().unwrap();
    assert!(remote.put(0, &[1]).is_err());
    assert_eq!(aperture.load(0), Ok(0));
    to_a.send(b"still there").unwrap();
}

/// The same cookie on several apertures, at both ends: the event says which it was.
#[test]
fn a_tripwire_says_which_aperture_it_was_on() {
    let ((a, to_b), (b, to_a)) = pair("which");
    let config = ApertureConfig::new(64, Rights::ReadWrite);
    let near: Vec<_> = (0..3).map(|_| a.export(config).unwrap()).collect();
    let far: Vec<_> = (0..3)
        .map(|i| {
            to_b.grant(&near[i], i as u64).unwrap();
            to_a.import(SECOND).unwrap().1
        })
        .collect();
    let same = Action::Enqueue { cookie: 1 };
    let trap = |t: barewire::Result<barewire::Tripwire>| t.unwrap();
    let _near_traps: Vec<_> = (near.iter())
        .map(|m| trap(m.tripwire(0, 64, Mode::Sticky, same)))
        .collect();
    let _far_traps: Vec<_> = (far.iter())
        .map(|m| trap(m.clone().tripwire(0, 64, Mode::Sticky, same)))
        .collect();
    let mut ids: Vec<_> = near.iter().map(|m| m.id()).collect();
    ids.extend(far.iter().map(|m| m.id()));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6, "each its own");
    let which = |node: &Node| loop {
        match node.next_event(SECOND).unwrap() {
            Some(Event::Tripwire {
                cookie: 1,
                aperture,
            }) => break aperture,
            Some(_) => {}
            None => panic!("no tripwire"),
        }
    };
    for i in [2, 0, 1, 1, 2] {
        far[i].store(8, 1).unwrap();
        assert_eq!(which(&a), near[i].id(), "aperture {i}, its owner");
        assert_eq!(which(&b), far[i].id(), "aperture {i}, its importer");
    }
}

#[test]
fn out_of_band_messages_arrive_as_events() {
    let ((a, _to_b), (_b, to_a)) = pair("oob");
    assert!(to_a.send_out_of_band(b"urgent").unwrap());
    match a.next_event(SECOND).unwrap() {
        Some(Event::OutOfBand { data, .. }) => assert_eq!(data, b"urgent"),
        other => panic!("{other:?}"),
    }
}

/// As `Node::wait` promises, also over several waits and connections.
#[test]
fn out_of_band_messages_of_a_node_come_in_order() {
    const COUNT: u8 = 60;
    let name = format!("oob-order-{}", std::process::id());
    let a = Node::new().unwrap();
    let _listener = a.listen(&name).unwrap();
    let called = name.clone();
    let caller = thread::spawn(move || {
        let b = Node::new().unwrap();
        let (x, y) = (b.connect(&called).unwrap(), b.connect(&called).unwrap());
        for i in 0..COUNT {
            let connection = if i % 2 == 0 { &y } else { &x };
            assert!(connection.send_out_of_band(&[i]).unwrap());
        }
        (b, x, y)
    });
    let _kept = [0, 1].map(|_| a.next_request(SECOND).unwrap().accept().unwrap());
    let mut heard = Vec::new();
    while heard.len() < usize::from(COUNT) {
        match a.next_event(SECOND).unwrap() {
            Some(Event::OutOfBand { data, .. }) => heard.extend(data),
            Some(_) => {}
            None => panic!("only {heard:?}"),
        }
    }
    assert!(heard.is_sorted(), "{heard:?}");
    drop(caller.join().unwrap());
}

#[test]
fn streams() {
    use std::io::{Read, Write};
    let ((_a, a), (_b, b)) = pair("stream");
    let (mut a, mut b) = (a.into_stream(), b.into_stream());
    let data: Vec<u8> = (0..300_000_u32).map(|i| (i * 7) as u8).collect();
    let expected = data.clone();
    let writer = thread::spawn(move || {
        for piece in data.chunks(777) {
            a.write_all(piece).unwrap();
        }
        a.finish();
        let mut answer = String::new();
        a.read_to_string(&mut answer).unwrap();
        answer
    });
    let mut got = Vec::new();
    b.read_to_end(&mut got).unwrap();
    assert!(got == expected);
    b.write_all(b"thanks").unwrap();
    drop(b);
    assert_eq!(writer.join().unwrap(), "thanks");
}

#[test]
fn many_connections_over_one_link() {
    let name = name("many");
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    const MANY: usize = 2000;
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        let mut connections = Vec::new();
        for _ in 0..MANY {
            connections.push(node.connect(&name).unwrap());
        }
        let mut buffer = [0; 8];
        for (i, connection) in connections.iter_mut().enumerate() {
            connection.send(&(i as u64).to_le_bytes()).unwrap();
        }
        for (i, connection) in connections.iter_mut().enumerate() {
            assert_eq!(connection.recv(&mut buffer).unwrap(), 8);
            assert_eq!(buffer, (i as u64).to_le_bytes());
        }
    });
    let before = barewire_sys::process::open_fd_count().unwrap();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::new();
    let mut answered = 0;
    while answered < MANY {
        assert!(server.wait(&mut events, 64, SECOND).unwrap() > 0);
        for event in events.drain(..) {
            match event {
                Event::Request(request) => {
                    let connection = request.accept().unwrap();
                    let at = connection.id().index();
                    connections.resize_with(connections.len().max(at + 1), || None);
                    connections[at] = Some(connection);
                }
                Event::Ready(id) => {
                    let connection = connections[id.index()].as_mut().unwrap();
                    let mut buffer = [0; 8];
                    while let Ok(Some(len)) = connection.try_recv(&mut buffer) {
                        connection.send(&buffer[..len]).unwrap();
                        answered += 1;
                    }
                }
                _ => {}
            }
        }
    }
    let after = barewire_sys::process::open_fd_count().unwrap();
    // The other tests of this process have some as well.
    assert!(
        after < before + MANY / 4,
        "{before} descriptors before, {after} after"
    );
    client.join().unwrap();
}

/// Who accepts a request that was given up meanwhile is told the end, in every way.
#[test]
fn a_connection_that_was_given_up_while_it_was_accepted_ends() {
    let name = name("given-up");
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    let _listener = server.listen(&name).unwrap();
    let options = ConnectOptions::default();
    let moment = Duration::from_millis(1);
    for second_connection in [false, true] {
        let id = client.start_connect(&name, &options).unwrap();
        // The greeting of the first needs both to poll.
        let request = loop {
            client.poll(&mut Vec::new(), 0).unwrap();
            if let Ok(request) = server.next_request(moment) {
                break request;
            }
        };
        client.cancel_connect(id);
        let mut accepted = request.accept().unwrap();
        let answering = thread::spawn({
            let client = client.clone();
            move || client.next_event(Duration::from_millis(100)).unwrap()
        });
        let received = accepted.receiver().recv_timeout(&mut [0; 8], SECOND);
        assert_eq!(received, Err(Error::Finished), "{second_connection}");
        let sent = accepted.send(b"x").unwrap_err();
        assert_eq!(sent, Error::PeerDeaf, "{second_connection}");
        assert!(answering.join().unwrap().is_none());
    }
}

/// What arrives between the answer to a request and the making of the handle is announced
/// like everything else.
#[test]
fn the_first_message_is_announced_however_early_it_comes() {
    let name = name("early");
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    const ROUNDS: u64 = 500;
    let client = thread::spawn(move || {
        let node = Node::new().unwrap();
        for i in 0..ROUNDS {
            let mut connection = node.connect(&name).unwrap();
            connection.send(&i.to_le_bytes()).unwrap();
            assert_eq!(connection.recv(&mut [0; 8]).unwrap(), 8);
        }
    });
    let mut events = Vec::new();
    let mut connection: Option<Connection> = None;
    let mut answered = 0;
    while answered < ROUNDS {
        let started = std::time::Instant::now();
        server.wait(&mut events, 16, SECOND).unwrap();
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "round {answered}"
        );
        for event in events.drain(..) {
            match event {
                Event::Request(request) => connection = Some(request.accept().unwrap()),
                Event::Ready(id) => {
                    let current = connection.as_mut().filter(|c| c.id() == id);
                    let Some(current) = current else { continue };
                    if let Ok(Some(len)) = current.try_recv(&mut [0; 8]) {
                        assert_eq!(len, 8);
                        current.send(&[0; 8]).unwrap();
                        answered += 1;
                    }
                }
                _ => {}
            }
        }
    }
    client.join().unwrap();
}

/// A producer in an event loop is told when there is room again.
#[test]
fn room_is_announced_to_whoever_found_none() {
    let ((a, mut to_b), (b, mut to_a)) = pair("room");
    const COUNT: u64 = 20_000;
    let consumer = thread::spawn(move || {
        let _b = b;
        let mut buffer = [0; 64];
        for i in 0..COUNT {
            if i % 1000 == 0 {
                thread::sleep(Duration::from_millis(3));
            }
            assert_eq!(to_a.recv(&mut buffer).unwrap(), 56);
            assert_eq!(buffer[..8], i.to_le_bytes());
        }
    });
    let (mut events, mut message, mut sent) = (Vec::new(), [0; 56], 0_u64);
    while sent < COUNT {
        message[..8].copy_from_slice(&sent.to_le_bytes());
        if to_b.try_send(&message).unwrap() {
            sent += 1;
            continue;
        }
        let found = a.wait(&mut events, 16, SECOND).unwrap();
        assert!(found > 0, "no room announced after {sent}");
        events.clear();
    }
    consumer.join().unwrap();
}
