//! Forks: a child can not use what it inherited, does not disturb its parent by holding or
//! dropping it, does not hide its parent's death, and works with a node of its own.

#![forbid(unsafe_code)]

mod common;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    Action, ApertureConfig, ConnectOptions, Connection, Error, Event, Listener, Memory, Mode, Node,
    Rights, StreamReader,
};
use barewire_sys::process::{ForkedChild, Signal, fork_child, getpid, send_signal};
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("forker") => forker(),
        Some("granter") => granter(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

/// A node of ours with a connection to a puppet, in which it is number 0.
fn with_puppet(of: &str) -> (String, Node, Listener, Connection, Child) {
    let name = name(of);
    let node = Node::with_config(spins(true)).unwrap();
    let listener = node.listen(&name).unwrap();
    let mut puppet = spawn("puppet", &[]);
    puppet.tell(&format!("connect {name}"));
    let connection = node.next_request(SOON).unwrap().accept().unwrap();
    assert!(puppet.hear().starts_with("ok"));
    (name, node, listener, connection, puppet)
}

/// Runs `f` in a forked child, which must not take long; fails with the line that it names.
#[track_caller]
fn in_child(f: impl FnOnce()) {
    let code = || {
        f();
        0
    };
    ends_well(&fork_child(code).unwrap());
}

#[track_caller]
fn ends_well(child: &ForkedChild) {
    let status = child.wait().unwrap();
    assert!(status.success(), "the forked child: {status}");
}

/// Both sides still send and receive from `first` on.
fn goes_on(connection: &mut Connection, puppet: &mut Child, first: u64) {
    puppet.tell(&format!("send 0 1 {first} 20"));
    let (mut got, mut expected) = (Vec::new(), Vec::new());
    for i in first..first + 20 {
        let came = connection.receiver().recv_into_timeout(&mut got, SOON);
        assert!(came.is_ok_and(|len| len.is_some()), "message {i}");
        message(1, i, &mut expected);
        assert!(got == expected, "message {i}");
    }
    assert_eq!(puppet.hear(), "ok ");
    puppet.tell(&format!("recv 0 1 {first} 20"));
    for i in first..first + 20 {
        message(1, i, &mut got);
        connection.sender().send_timeout(&got, SOON).unwrap();
    }
    assert_eq!(puppet.hear(), "ok ");
}

#[test]
fn in_a_child_every_inherited_connection_says_forked() {
    let _dog = watchdog("forked", Duration::from_secs(60));
    let (name, node, listener, mut connection, mut puppet) = with_puppet("forked");
    // Short ones, so that they all lie in the ring.
    for i in 0..3 {
        puppet.must(&format!("send 0 {} 0 1", short_seed(i)));
    }
    in_child(|| {
        let mut buffer = [0; 5000];
        let mut into = Vec::new();
        let mut events = Vec::new();
        let now = Some(Duration::ZERO);
        let forked = Error::Forked;
        // With messages that could be received.
        assert_eq!(connection.try_recv(&mut buffer), Err(forked.clone()));
        assert_eq!(connection.recv(&mut buffer), Err(forked.clone()));
        let receiver = connection.receiver();
        assert_eq!(
            receiver.recv_into_timeout(&mut into, now),
            Err(forked.clone())
        );
        assert_eq!(receiver.recv_batch(3, |_| ()), Err(forked.clone()));
        assert_eq!(receiver.try_recv_message().err(), Some(forked.clone()));
        assert_eq!(connection.try_send(b"child"), Err(forked.clone()));
        assert_eq!(connection.send(b"child"), Err(forked.clone()));
        let sender = connection.sender();
        assert_eq!(sender.send_batch(&[b"child"]), Err(forked.clone()));
        assert_eq!(sender.reserve(5).err(), Some(forked.clone()));
        assert_eq!(connection.send_out_of_band(b"child"), Err(forked.clone()));
        assert_eq!(connection.import(now).err(), Some(forked.clone()));
        assert_eq!(node.poll(&mut events, 8), Err(forked.clone()));
        assert_eq!(node.wait(&mut events, 8, now), Err(forked.clone()));
        assert_eq!(node.next_request(now).err(), Some(forked.clone()));
        assert_eq!(node.connect(&name).err(), Some(forked.clone()));
        assert_eq!(node.listen("child").err(), Some(forked.clone()));
        let started = node.start_connect(&name, &ConnectOptions::default());
        assert_eq!(started.err(), Some(forked.clone()));
        let export = node.export(ApertureConfig::new(4096, Rights::Read));
        assert_eq!(export.err(), Some(forked));
        connection.finish();
    });
    let (mut got, mut expected) = (Vec::new(), Vec::new());
    for i in 0..3 {
        assert!(
            connection
                .receiver()
                .recv_into_timeout(&mut got, SOON)
                .unwrap()
                .is_some()
        );
        message(short_seed(i), 0, &mut expected);
        assert!(got == expected, "message {i}");
    }
    goes_on(&mut connection, &mut puppet, 0);
    drop(listener);
}

/// The `i`th seed whose first message is short.
fn short_seed(i: usize) -> u64 {
    let short = |s: &u64| message_len(*s, 0) < 100;
    (0..).filter(short).nth(i).unwrap()
}

#[test]
fn streams_say_forked_too() {
    use std::io::Read;
    let _dog = watchdog("forked streams", Duration::from_secs(60));
    let (_name, _node, _listener, connection, mut puppet) = with_puppet("forked-stream");
    puppet.must(&format!("send 0 {} 0 1", short_seed(0)));
    let mut stream = connection.into_stream();
    in_child(|| {
        let mut buffer = [0; 64];
        let reader: &mut StreamReader = stream.reader();
        assert_eq!(reader.try_read(&mut buffer), Err(Error::Forked));
        assert!(reader.read(&mut buffer).is_err());
        assert_eq!(stream.writer().try_write(b"child"), Err(Error::Forked));
        assert!(stream.write(b"child").is_err());
        stream.finish();
    });
    assert!(stream.write(b"parent").unwrap() > 0);
    let mut expected = Vec::new();
    message(short_seed(0), 0, &mut expected);
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == expected);
}

#[test]
fn what_a_child_drops_its_parent_keeps() {
    let _dog = watchdog("child drops", Duration::from_secs(60));
    let (name, node, listener, connection, mut puppet) = with_puppet("drops");
    let mut waiting = spawn("puppet", &[]);
    waiting.tell(&format!("connect {name}"));
    let request = node.next_request(SOON).unwrap();
    let aperture = node
        .export(ApertureConfig::new(4096, Rights::ReadWrite))
        .unwrap();
    let mut everything = Some((node, listener, connection, request, aperture));
    in_child(|| drop(everything.take()));
    // A child that accepts, revokes and the like is refused.
    let (node, listener, mut connection, request, aperture) = everything.unwrap();
    goes_on(&mut connection, &mut puppet, 0);

    let mut taken = Some(request);
    in_child(|| {
        let accepted = taken.take().unwrap().accept();
        assert_eq!(accepted.err(), Some(Error::Forked));
    });
    let _second = taken.unwrap().accept().unwrap();
    assert!(waiting.hear().starts_with("ok"));
    // The name is still listened to.
    let mut third = spawn("puppet", &[]);
    third.tell(&format!("connect {name}"));
    let _third = node.next_request(SOON).unwrap().accept().unwrap();
    assert!(third.hear().starts_with("ok"));
    // Events still come when asleep.
    puppet.must("send 0 1 20 1");
    let mut events = Vec::new();
    while !events.iter().any(|e| matches!(e, Event::Ready(_))) {
        assert!(node.wait(&mut events, 8, SOON).unwrap() > 0);
    }
    drop((aperture, listener));
}

/// Puts into the aperture that it is granted whenever told to.
fn granter() {
    let _dog = watchdog("granter", Duration::from_secs(60));
    let node = Node::with_config(spins(true)).unwrap();
    let connection = node.connect(&arg("name")).unwrap();
    let (_, remote) = connection.import(SOON).unwrap();
    say("has it");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let at: usize = line.parse().unwrap();
        say(&format!("{:?}", remote.put(at, b"hello")));
    }
}

#[test]
fn a_child_does_not_take_the_parents_tripwires_or_apertures() {
    let _dog = watchdog("fork tripwire", Duration::from_secs(60));
    let name = name("fork-tripwire");
    let node = Node::with_config(spins(true)).unwrap();
    let _listener = node.listen(&name).unwrap();
    let mut putter = spawn("granter", &[("name", &name)]);
    let connection = node.next_request(SOON).unwrap().accept().unwrap();
    let aperture = node
        .export(ApertureConfig::new(4096, Rights::ReadWrite))
        .unwrap();
    connection.grant(&aperture, 1).unwrap();
    assert_eq!(putter.hear(), "has it");
    let action = Action::Enqueue { cookie: 5 };
    let tripwire = aperture.tripwire(100, 8, Mode::Sticky, action).unwrap();
    let mut taken = Some(tripwire);
    in_child(|| {
        taken.as_ref().unwrap().disarm();
        drop(taken.take());
        assert!(aperture.revoke().is_err(), "revoked by a child");
        let armed = aperture.tripwire(0, 8, Mode::Sticky, Action::Wake);
        assert!(armed.is_err(), "armed by a child");
    });
    assert_eq!(putter.ask("100"), "Ok(())");
    let mut fired = false;
    let started = Instant::now();
    while !fired && started.elapsed() < LONG {
        let event = node.next_event(Some(Duration::from_millis(500))).unwrap();
        fired = matches!(event, Some(Event::Tripwire { cookie: 5, .. }));
        if event.is_none() {
            break;
        }
    }
    assert!(fired, "the parent's tripwire is gone");
    let mut got = [0; 5];
    aperture.get(100, &mut got).unwrap();
    assert_eq!(&got, b"hello");
    assert!(taken.unwrap().is_armed());
}

#[test]
fn a_child_makes_a_node_of_its_own() {
    let _dog = watchdog("own node", Duration::from_secs(60));
    let (_name, _node, _listener, mut connection, mut puppet) = with_puppet("own-node");
    let theirs = name("own-node-theirs");
    puppet.must(&format!("listen {theirs}"));
    puppet.tell("accept");
    let child = fork_child(|| {
        let node = Node::with_config(spins(true)).unwrap();
        let mut own = node.connect(&theirs).unwrap();
        assert_ne!(own.peer().pid, getpid());
        assert_eq!(connection.try_send(b"x"), Err(Error::Forked));
        let (mut out, mut got) = (Vec::new(), Vec::new());
        for i in 0..200 {
            message(3, i, &mut out);
            own.sender().send_timeout(&out, SOON).unwrap();
            assert!(
                own.receiver()
                    .recv_into_timeout(&mut got, SOON)
                    .unwrap()
                    .is_some()
            );
            assert!(got == out);
        }
        own.finish();
        let end = own.receiver().recv_into_timeout(&mut got, SOON);
        assert!(end.is_ok_and(|len| len.is_some()), "the farewell");
        // A child of the child, once more.
        let grandchild = fork_child(|| {
            i32::from(own.try_send(b"x") != Err(Error::Forked) || Node::new().is_err())
        });
        ends_well(&grandchild.unwrap());
        0
    })
    .unwrap();
    let about = puppet.hear();
    assert!(about.starts_with(&format!("ok {} ", child.pid)), "{about}");
    assert_eq!(puppet.must("echo 1"), "200");
    puppet.must(&format!("send 1 {} 0 1", short_seed(0)));
    ends_well(&child);
    goes_on(&mut connection, &mut puppet, 0);
}

/// Connects, forks a child that holds all of it and lives on, and waits to be killed.
fn forker() {
    let _dog = watchdog("forker", Duration::from_secs(60));
    let node = Node::with_config(spins(true)).unwrap();
    let mut connection = node.connect(&arg("name")).unwrap();
    connection.send(b"before").unwrap();
    let child = fork_child(|| {
        // Until killed; should that fail, not much longer.
        thread::sleep(Duration::from_secs(30));
        0
    });
    let child = child.unwrap();
    say(&child.pid.to_string());
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_child_that_lives_on_does_not_hide_its_parents_death() {
    let _dog = watchdog("lives on", Duration::from_secs(60));
    let mut took = Vec::new();
    for _ in 0..5 {
        let name = name("lives-on");
        let node = Node::with_config(spins(true)).unwrap();
        let _listener = node.listen(&name).unwrap();
        let mut parent = spawn("forker", &[("name", &name)]);
        let mut connection = node.next_request(SOON).unwrap().accept().unwrap();
        let child: i32 = parent.hear().parse().unwrap();
        let died = Error::PeerDied { pid: parent.pid() };
        let killed = Instant::now();
        parent.kill();
        let mut buffer = [0; 16];
        assert_eq!(connection.recv(&mut buffer), Ok(6));
        assert_eq!(connection.recv(&mut buffer), Err(died.clone()));
        took.push(killed.elapsed());
        assert_eq!(connection.send(b"x"), Err(died));
        // It was alive all the time, and held the sockets.
        send_signal(child, Signal::Kill).unwrap();
    }
    let longest = *took.iter().max().unwrap();
    println!("death of a parent whose child lives on: told within {longest:?}");
    assert!(longest < Duration::from_millis(500));
}
