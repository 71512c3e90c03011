//! Users: who may connect to whom, what each gets to see of the other, and that it works
//! between them. Needs root, to become other users.

#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use barewire::{ConnectOptions, Error, ListenOptions, Node, Policy};
use barewire_sys::process::own_credentials;
use barewire_sys::socket::{Listener as RawListener, Received};
use common::*;

const ALICE: (u32, u32) = (54_321, 54_321);
const BOB: (u32, u32) = (54_322, 54_399);
const CAROL: (u32, u32) = (54_323, 54_323);

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("squatter") => squatter(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn is_root(test: &str) -> bool {
    let root = own_credentials().uid == 0;
    if !root {
        skip(test, "not root, so it can not become other users");
    }
    root
}

fn puppet_as(who: (u32, u32)) -> Child {
    spawn_as("puppet", &[], Some(who))
}

#[test]
fn by_default_nobody_else_may_connect() {
    if !is_root("by_default_nobody_else_may_connect") {
        return;
    }
    let _dog = watchdog("nobody else", Duration::from_secs(60));
    let name = name("nobody-else");
    let mut alice = puppet_as(ALICE);
    alice.must(&format!("listen {name}"));
    alice.tell("accept");
    for (whom, who) in [("nobody", (65_534, 65_534)), ("bob", BOB)] {
        let mut other = puppet_as(who);
        let answer = other.ask(&format!("connect {name} {} now", ALICE.0));
        assert!(answer.starts_with("err Refused"), "{whom}: {answer}");
        assert!(answer.contains("policy"), "{whom}: {answer}");
        // Under their own names there is nothing.
        let answer = other.ask(&format!("connect {name} {} now", who.0));
        assert!(answer.starts_with("err NoSuchName"), "{whom}: {answer}");
    }
    // Root neither: it has to be allowed as everybody else.
    let options = ConnectOptions {
        owner: Some(ALICE.0),
        ..ConnectOptions::default()
    };
    let node = Node::new().unwrap();
    let error = node.connect_with(&name, &options).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    // Alice herself, from another process, may; and the refused have done no harm.
    let mut again = puppet_as(ALICE);
    assert!(again.ask(&format!("connect {name}")).starts_with("ok"));
    assert!(alice.hear().starts_with(&format!("ok {} ", again.pid())));
}

#[test]
fn who_is_allowed_by_user_or_group_may_connect() {
    if !is_root("who_is_allowed_by_user_or_group_may_connect") {
        return;
    }
    let _dog = watchdog("allowed", Duration::from_secs(120));
    let rules = [
        format!("user:{}", BOB.0),
        format!("group:{}", BOB.1),
        "anyone".to_owned(),
    ];
    for rule in rules {
        let name = name("allowed");
        let mut alice = puppet_as(ALICE);
        alice.must(&format!("listen {name} {rule}"));
        alice.tell("accept");
        if rule != "anyone" {
            let mut carol = puppet_as(CAROL);
            let answer = carol.ask(&format!("connect {name} {} now", ALICE.0));
            assert!(answer.starts_with("err Refused"), "{rule}: {answer}");
        }
        let mut bob = puppet_as(BOB);
        // Each sees who the other is.
        let answer = bob.ask(&format!("connect {name} {}", ALICE.0));
        let seen = alice.hear();
        let expected = format!("ok {} {} {}", bob.pid(), BOB.0, BOB.1);
        assert_eq!(seen, expected, "{rule}");
        let expected = format!("ok {} {} {}", alice.pid(), ALICE.0, ALICE.1);
        assert_eq!(answer, expected, "{rule}");
        // Puppets sleep at once where they wait, so each of these messages wakes somebody,
        // over the socket: no eventfd is shared between users.
        alice.tell("echo 0");
        for i in 0..50 {
            bob.must(&format!("send 0 6 {i} 1"));
            bob.must(&format!("recv 0 6 {i} 1"));
            if i % 10 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // More than the rings hold, so that senders sleep too.
        bob.must("finish 0");
        assert_eq!(alice.hear(), "ok 50");
        bob.tell("recv 0 7 0 500");
        alice.must("send 0 7 0 500");
        assert_eq!(bob.hear(), "ok ");
    }
}

#[test]
fn data_streams_between_users_while_both_sleep() {
    if !is_root("data_streams_between_users_while_both_sleep") {
        return;
    }
    let _dog = watchdog("between users", Duration::from_secs(60));
    let name = name("between-users");
    let node = Node::with_config(spins(true)).unwrap();
    let options = ListenOptions {
        policy: Policy::same_user().and_user(BOB.0),
    };
    let _listener = node.listen_with(&name, options).unwrap();
    let mut bob = puppet_as(BOB);
    bob.tell(&format!("connect {name} 0"));
    let request = node.next_request(SOON).unwrap();
    assert_eq!(request.peer().uid, BOB.0);
    assert_eq!(request.peer().gid, BOB.1);
    assert_eq!(request.peer().pid, bob.pid());
    let mut connection = request.accept().unwrap();
    assert!(bob.hear().starts_with("ok"));
    bob.tell("echo 0");
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    for i in 0..1000 {
        message(8, i, &mut out);
        out.truncate(200);
        let started = std::time::Instant::now();
        connection.sender().send_timeout(&out, SOON).unwrap();
        assert!(
            connection
                .receiver()
                .recv_into_timeout(&mut back, SOON)
                .unwrap()
                .is_some()
        );
        times.push(started.elapsed());
        assert!(out == back);
    }
    println!("round trip between users, both asleep: {:?}", median(times));
    connection.finish();
    assert_eq!(bob.hear(), "ok 1000");
}

/// Holds a name that belongs to somebody else, and counts what it is sent.
fn squatter() {
    let _dog = watchdog("squatter", Duration::from_secs(60));
    let socket_name = format!("barewire/1/{}/{}", arg("owner"), arg("name"));
    let listener = RawListener::bind(socket_name.as_bytes(), 16).unwrap();
    say("sits");
    let (mut sockets, mut messages, mut descriptors) = (0, 0, 0);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    while let Some(socket) = listener.accept().unwrap() {
        sockets += 1;
        let (mut buffer, mut fds) = ([0; 9000], Vec::new());
        while let Ok(Received::Message(_)) = socket.recv(&mut buffer, &mut fds) {
            messages += 1;
        }
        descriptors += fds.len();
    }
    say(&format!("{sockets} {messages} {descriptors}"));
}

#[test]
fn a_squatter_is_named_and_gets_nothing() {
    if !is_root("a_squatter_is_named_and_gets_nothing") {
        return;
    }
    let _dog = watchdog("squatter", Duration::from_secs(60));
    let name = name("squatted");
    let owner = ALICE.0.to_string();
    let args = [("name", name.as_str()), ("owner", owner.as_str())];
    let mut carol = spawn_as("squatter", &args, Some(CAROL));
    assert_eq!(carol.hear(), "sits");
    let mut alice = puppet_as(ALICE);
    let answer = alice.ask(&format!("listen {name}"));
    assert!(answer.starts_with("err NameTaken"), "{answer}");
    assert!(answer.contains(&carol.pid().to_string()), "{answer}");
    assert!(answer.contains(&CAROL.0.to_string()), "{answer}");
    for who in [ALICE, BOB] {
        let mut client = puppet_as(who);
        let answer = client.ask(&format!("connect {name} {}", ALICE.0));
        assert!(answer.starts_with("err WrongOwner"), "{answer}");
        assert!(answer.contains(&CAROL.0.to_string()), "{answer}");
    }
    let said = carol.ask("count");
    let counts: Vec<u32> = said.split(' ').map(|n| n.parse().unwrap()).collect();
    assert!(counts[0] >= 3, "{said}");
    assert_eq!(&counts[1..], [0, 0], "messages and descriptors it got");
}

/// Memory of this process that others may want to open: /proc/PID/fd/N, and what it is.
fn shared_memory(pid: i32) -> Vec<(String, String)> {
    let dir = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&dir).unwrap().flatten();
    entries
        .filter_map(|entry| {
            let target = std::fs::read_link(entry.path()).ok()?;
            let target = target.to_string_lossy().into_owned();
            let path = entry.path().to_string_lossy().into_owned();
            target.contains("memfd:").then_some((path, target))
        })
        .collect()
}

#[test]
fn a_third_user_can_not_open_the_memory_of_two() {
    if !is_root("a_third_user_can_not_open_the_memory_of_two") {
        return;
    }
    let _dog = watchdog("third user", Duration::from_secs(60));
    let name = name("third-user");
    let mut alice = puppet_as(ALICE);
    alice.must(&format!("listen {name} user:{}", BOB.0));
    let mut bob = puppet_as(BOB);
    bob.tell(&format!("connect {name} {}", ALICE.0));
    alice.must("accept");
    assert!(bob.hear().starts_with("ok"));
    let mut carol = puppet_as(CAROL);
    let mut twin = puppet_as(ALICE);
    let mut looked_at = 0;
    for of in [&alice, &bob] {
        let memory = shared_memory(of.pid());
        assert!(memory.iter().any(|(_, m)| m.contains("barewire-arena")));
        for (path, what) in memory {
            let answer = carol.must(&format!("open {path}"));
            assert_eq!(answer, "PermissionDenied", "{what}");
            looked_at += 1;
        }
        let answer = carol.must(&format!("open /proc/{}/mem", of.pid()));
        assert_eq!(answer, "PermissionDenied");
    }
    // The same way does open it for the same user, so the question was well put.
    let (path, _) = &shared_memory(alice.pid())[0];
    assert_eq!(twin.must(&format!("open {path}")), "opened");
    println!("{looked_at} memfds of the two, none opened by a third user");
}
