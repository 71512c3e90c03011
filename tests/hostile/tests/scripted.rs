//! Single attacks, each of which once did harm, against a node in this process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, Error, Event, ListenOptions, Node, Policy};
use barewire_hostile::link::Link;
use barewire_hostile::users;
use barewire_hostile::wire;
use barewire_sys::process::{SpawnOpts, own_credentials, spawn_with};

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire-hostile");
const SECOND: Option<Duration> = Some(Duration::from_secs(5));

fn name(what: &str) -> String {
    format!("scripted-{what}-{}", std::process::id())
}

fn listening(name: &str) -> (Node, barewire::Listener) {
    let node = Node::new().unwrap();
    let options = ListenOptions {
        policy: Policy::anyone(),
    };
    let listener = node.listen_with(name, options).unwrap();
    (node, listener)
}

/// Runs the node until `done`, and gives its events to `take`.
fn run(node: &Node, done: impl Fn() -> bool, mut take: impl FnMut(Event)) {
    let until = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < until, "no end");
        let event = node.next_event(Some(Duration::from_millis(5))).unwrap();
        event.into_iter().for_each(&mut take);
    }
}

/// A link whose connection the node has accepted.
fn joined(node: &Node, name: &str) -> (Link, Connection) {
    let uid = own_credentials().uid;
    let name = name.to_owned();
    let link = std::thread::spawn(move || {
        let mut link = Link::connect(&name, uid).unwrap();
        assert!(link.open_to(1, b""));
        link
    });
    let connection = node.next_request(SECOND).unwrap().accept().unwrap();
    while !link.is_finished() {
        node.next_event(Some(Duration::from_millis(1))).unwrap();
    }
    (link.join().unwrap(), connection)
}

/// Still works for others.
fn check(node: &Node, name: &str) {
    let name = name.to_owned();
    let honest = std::thread::spawn(move || {
        let node = Node::new().unwrap();
        let mut connection = node.connect(&name).unwrap();
        let mut buffer = [0; 8];
        let receiver = connection.receiver();
        let len = receiver.recv_timeout(&mut buffer, SECOND).unwrap().unwrap();
        assert_eq!(&buffer[..len], b"welcome");
    });
    let mut connection = node.next_request(SECOND).unwrap().accept().unwrap();
    connection.send(b"welcome").unwrap();
    honest.join().unwrap();
}

/// What comes after a good-bye is not handled: the link is no more.
#[test]
fn nothing_is_heard_after_a_goodbye() {
    let name = name("bye");
    let (node, _listener) = listening(&name);
    let (mut link, connection) = joined(&node, &name);
    let region = Link::own_region(20);
    link.send(&wire::open(20, region, 1, 100, name.as_bytes(), b""), &[]);
    let far = link.conns[0].far;
    link.send(&wire::bye(), &[]);
    link.send(&wire::numbered(wire::ABANDON, 20), &[]);
    link.send(&wire::open(21, region, 1, 100, name.as_bytes(), b""), &[]);
    link.send(&wire::out_of_band(far, b"boo"), &[]);
    link.send(&wire::numbered(wire::DETACH, far), &[]);
    drop(link);
    let until = Instant::now() + Duration::from_millis(100);
    let mut requests = 0;
    run(
        &node,
        || Instant::now() > until,
        |event| requests += usize::from(matches!(event, Event::Request(_))),
    );
    assert_eq!(requests, 0, "a request over a link that is no more");
    drop(connection);
    check(&node, &name);
}

/// An empty message reads like a hang-up, but whoever sent it may go on talking.
#[test]
fn the_last_words_of_a_peer_end() {
    let name = name("words");
    let (node, _listener) = listening(&name);
    let (link, connection) = joined(&node, &name);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let wake = wire::wake();
                while !stop.load(Ordering::Relaxed) {
                    let flags = rustix::net::SendFlags::NOSIGNAL;
                    let _ = rustix::net::send(&link.socket, &[], flags);
                    for _ in 0..1000 {
                        if link.socket.send(&wake, &[]).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        let mut longest = Duration::ZERO;
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            let begun = Instant::now();
            node.next_event(Some(Duration::from_millis(1))).unwrap();
            longest = longest.max(begun.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
        println!("longest look {longest:?}");
        assert!(longest < Duration::from_millis(250), "{longest:?}");
    });
    drop(connection);
    check(&node, &name);
}

/// Whoever takes another's node id does not get its connections.
#[test]
fn a_node_id_can_not_be_taken() {
    let uid = own_credentials().uid;
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip("a_node_id_can_not_be_taken", reason);
    }
    let (served, called) = (name("model"), name("caller"));
    let stop = AtomicBool::new(false);
    let (node, _listener) = listening(&called);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (model, _listener) = listening(&served);
            let mut kept = Vec::new();
            run(
                &model,
                || stop.load(Ordering::Relaxed),
                |event| {
                    if let Event::Request(request) = event {
                        let mut connection = request.accept().unwrap();
                        // The first look for the name only.
                        let _ = connection.send(b"it is me");
                        kept.push(connection);
                    }
                },
            );
        });
        // Until the name is there.
        drop(Node::new().unwrap().connect(&served).unwrap());
        let mut command = Command::new(users::program(PROGRAM));
        command.args(["imitate", &served, &called, &uid.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let opts = SpawnOpts {
            uid_gid: Some((users::OTHER, users::OTHER)),
            ..SpawnOpts::default()
        };
        let mut imitator = spawn_with(&mut command, opts).unwrap();
        let mut line = String::new();
        let stdout = imitator.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        });
        while !reader.is_finished() {
            node.next_event(Some(Duration::from_millis(1))).unwrap();
        }
        assert_eq!(reader.join().unwrap(), "in place\n");
        let options = ConnectOptions {
            timeout: Duration::from_secs(2),
            ..ConnectOptions::default()
        };
        let connected = node.connect_with(&served, &options);
        stop.store(connected.is_err(), Ordering::Relaxed);
        let mut connection = connected.unwrap();
        assert_eq!(connection.peer().uid, uid, "hijacked");
        let mut buffer = [0; 16];
        let receiver = connection.receiver();
        let len = receiver.recv_timeout(&mut buffer, SECOND).unwrap();
        assert_eq!(&buffer[..len.unwrap()], b"it is me");
        stop.store(true, Ordering::Relaxed);
        drop(imitator.stdin.take());
        imitator.wait().unwrap();
    });
}

/// A connection given up and accepted at the same time is closed by both in peace.
#[test]
fn giving_up_crosses_with_being_accepted() {
    let name = name("cross");
    let uid = own_credentials().uid;
    let full = format!("barewire/1/{uid}/{name}");
    let listener = barewire_sys::socket::Listener::bind(full.as_bytes(), 4).unwrap();
    let node = Node::new().unwrap();
    let first = node
        .start_connect(&name, &ConnectOptions::default())
        .unwrap();
    let _second = node
        .start_connect(&name, &ConnectOptions::default())
        .unwrap();
    let socket = listener.accept().unwrap().unwrap();
    let mut link = Link::over(socket, &name, uid);
    link.say_hello();
    let begun = Instant::now();
    while link.calls.len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        node.next_event(Some(Duration::from_millis(1))).unwrap();
        link.pump();
    }
    let numbers: Vec<u32> = link.calls.iter().map(|call| call.0).collect();
    node.cancel_connect(first);
    link.send(
        &wire::accept(numbers[0], 1, Link::own_region(1), 1, 100),
        &[],
    );
    // Its last handle goes at once, too.
    link.send(&wire::numbered(wire::DETACH, numbers[0]), &[]);
    link.send(
        &wire::accept(numbers[1], 2, Link::own_region(2), 2, 100),
        &[],
    );
    let until = Instant::now() + Duration::from_millis(200);
    let mut connected = Vec::new();
    run(
        &node,
        || Instant::now() > until,
        |event| match event {
            Event::Connected(connection) => connected.push(connection),
            Event::Closed { reason, .. } => panic!("{reason}"),
            other => println!("{other:?}"),
        },
    );
    assert_eq!(connected.len(), 1);
    let sent = connected[0].try_send(b"x");
    assert!(sent.is_ok(), "{sent:?}");
}

/// Nobody speaks on a connection that does not stand yet, nor for one that has taken over
/// its number.
#[test]
fn out_of_band_needs_a_connection() {
    let name = name("early");
    let (node, _listener) = listening(&name);
    let uid = own_credentials().uid;
    let attacker = {
        let name = name.clone();
        std::thread::spawn(move || {
            let mut link = Link::connect(&name, uid).unwrap();
            let region = Link::own_region(0);
            link.send(&wire::open(0, region, 1, 100, name.as_bytes(), b""), &[]);
            for number in 0..4 {
                link.send(&wire::out_of_band(number, b"too early"), &[]);
            }
            std::thread::sleep(Duration::from_millis(50));
        })
    };
    let until = Instant::now() + Duration::from_millis(200);
    run(
        &node,
        || Instant::now() > until,
        |event| assert!(!matches!(event, Event::OutOfBand { .. }), "{event:?}"),
    );
    attacker.join().unwrap();
    check(&node, &name);
}

/// A refusal during the greeting arrives as what it is.
#[test]
fn a_refusal_by_policy_is_told() {
    let name = name("policy");
    let uid = own_credentials().uid;
    let full = format!("barewire/1/{uid}/{name}");
    let listener = barewire_sys::socket::Listener::bind(full.as_bytes(), 4).unwrap();
    let node = Node::new().unwrap();
    node.start_connect(&name, &ConnectOptions::default())
        .unwrap();
    let socket = listener.accept().unwrap().unwrap();
    socket.send(&wire::reject(0, 2, b"not you"), &[]).unwrap();
    let event = node.next_event(SECOND).unwrap().unwrap();
    let Event::ConnectFailed { error, .. } = event else {
        panic!("{event:?}");
    };
    let reason = "not you".into();
    assert_eq!(error, Error::Refused { reason });
}

/// Who asks without end and reads no answer is cut off, whatever is being done for it.
#[test]
fn answers_do_not_pile_up_for_ever() {
    let name = name("pile");
    let (node, _listener) = listening(&name);
    let (mut link, connection) = joined(&node, &name);
    let region = Link::own_region(20);
    let asked = name.clone();
    let flood = std::thread::spawn(move || {
        for number in 0..400_000 {
            link.send(&wire::open(20, region, 1, 100, b"nobody", b""), &[]);
            if number % 100 == 0 {
                link.send(
                    &wire::open(number, region, 1, 100, asked.as_bytes(), b""),
                    &[],
                );
            }
            if !link.up {
                return number;
            }
        }
        400_000
    });
    let mut closed = None;
    let mut kept = Vec::new();
    run(
        &node,
        || flood.is_finished(),
        |event| match event {
            Event::Request(request) => kept.extend(request.accept()),
            Event::Closed { reason, .. } => closed = Some(reason),
            _ => {}
        },
    );
    println!("cut off after {} questions", flood.join().unwrap());
    let until = Instant::now() + Duration::from_millis(50);
    run(
        &node,
        || Instant::now() > until,
        |event| {
            if let Event::Closed { reason, .. } = event {
                closed = Some(reason);
            }
        },
    );
    let text = closed.map(|reason| reason.to_string()).unwrap_or_default();
    assert!(text.contains("does not read its control channel"), "{text}");
    drop((kept, connection));
    check(&node, &name);
}

/// A message may be long, but not without end.
#[test]
fn a_message_ends_at_the_limit() {
    let name = name("endless");
    let config = barewire::NodeConfig {
        message_bytes_max: 20_000,
        ..barewire::NodeConfig::default()
    };
    let node = Node::with_config(config).unwrap();
    let _listener = node.listen(&name).unwrap();
    let (mut link, mut connection) = joined(&node, &name);
    let mut buffer = [0; 20_000];
    for _ in 0..1000 {
        link.conns[0].go_on();
        match connection.try_recv(&mut buffer) {
            Ok(None) => {}
            Ok(Some(len)) => panic!("a message of {len} bytes"),
            Err(error) => {
                assert!(
                    error.to_string().contains("longer than the limit"),
                    "{error}"
                );
                assert!(link.conns[0].is_refused());
                return;
            }
        }
    }
    panic!("no end, {} lines sent", link.conns[0].head);
}
