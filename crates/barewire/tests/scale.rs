//! Many connections, one after the other and at a time, and many tripwires: what they cost
//! and that all of it comes back.
//!
//! `BAREWIRE_CONNECTIONS` says how many at a time the largest test opens.

#![forbid(unsafe_code)]

mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use barewire::{
    Action, ApertureConfig, ConnectOptions, Connection, Event, Memory, Mode, Node, NodeConfig,
    Rights, Tripwire,
};
use barewire_units::Rng;
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("server") => server(),
        Some("cycler") => cycler(),
        Some("opener") => opener(),
        Some("putter") => putter(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holds {
    descriptors: i64,
    mappings: i64,
    /// All memory that is resident, shared memory included.
    resident_bytes: i64,
    /// Memory that is only its own.
    own_bytes: i64,
    /// Its part of the shared memory, where others have it mapped too.
    shared_part_bytes: i64,
}

fn holds(pid: i32) -> Holds {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let rollup = read("smaps_rollup");
    let kib = |key: &str| -> i64 {
        let line = rollup.lines().find(|l| l.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    Holds {
        descriptors: fds.count() as i64,
        mappings: read("maps").lines().count() as i64,
        resident_bytes: kib("Rss:") * 1024,
        own_bytes: kib("Pss_Anon:") * 1024,
        shared_part_bytes: kib("Pss_Shmem:") * 1024,
    }
}

/// Echoes on every connection until killed.
fn server() {
    let _dog = watchdog("server", Duration::from_secs(500));
    let node = Node::new().unwrap();
    let _listener = node.listen(&arg("name")).unwrap();
    say("listens");
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::new();
    let mut buffer = [0; 256];
    loop {
        node.wait(&mut events, 64, None).unwrap();
        for event in events.drain(..) {
            match event {
                Event::Request(request) => {
                    let Ok(connection) = request.accept() else {
                        continue;
                    };
                    let at = connection.id().index();
                    connections.resize_with(connections.len().max(at + 1), || None);
                    connections[at] = Some(connection);
                }
                Event::Ready(id) => {
                    let Some(connection) = connections[id.index()].as_mut() else {
                        continue;
                    };
                    loop {
                        match connection.try_recv(&mut buffer) {
                            Ok(Some(len)) => connection.send(&buffer[..len]).unwrap(),
                            Ok(None) => break,
                            Err(_) => {
                                connections[id.index()] = None;
                                break;
                            }
                        }
                    }
                }
                Event::Closed { connection, .. } => connections[connection.index()] = None,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn there_and_back(connection: &mut Connection, number: u64) {
    let mut buffer = [0; 8];
    connection.send(&number.to_le_bytes()).unwrap();
    let got = connection.receiver().recv_timeout(&mut buffer, SOON);
    assert_eq!(got, Ok(Some(8)));
    assert_eq!(buffer, number.to_le_bytes());
}

/// Connects, sends, receives and closes, again and again, and never looks at its events.
fn cycler() {
    let _dog = watchdog("cycler", Duration::from_secs(200));
    let node = Node::with_config(spins(arg("sleeps") == "true")).unwrap();
    for cycles in [2000, arg_number("cycles")] {
        let started = Instant::now();
        for i in 0..cycles {
            let mut connection = node.connect(&arg("name")).unwrap();
            there_and_back(&mut connection, i);
        }
        say(&format!("{:?}", started.elapsed()));
        go();
    }
}

#[test]
fn ten_thousand_connections_one_after_the_other_leave_nothing() {
    let _dog = watchdog("one after the other", Duration::from_secs(300));
    for sleeps in ["true", "false"] {
        let name = name("cycles");
        let server = spawn("server", &[("name", &name)]);
        assert_eq!(server.hear(), "listens");
        let args = [
            ("name", name.as_str()),
            ("cycles", "10000"),
            ("sleeps", sleeps),
        ];
        let mut cycler = spawn("cycler", &args);
        let hear = || match cycler.hear_within(Duration::from_secs(100)) {
            Some(line) => line,
            None => panic!("the cycler says nothing"),
        };
        hear();
        std::thread::sleep(Duration::from_millis(50));
        let before = [holds(server.pid()), holds(cycler.pid())];
        cycler.tell("go");
        let hear = || match cycler.hear_within(Duration::from_secs(100)) {
            Some(line) => line,
            None => panic!("the cycler says nothing"),
        };
        let took = hear();
        let holding = || [holds(server.pid()), holds(cycler.pid())];
        eventually("the descriptors are closed", || {
            let descriptors = |of: &[Holds; 2]| of.each_ref().map(|it| it.descriptors);
            descriptors(&holding()) == descriptors(&before)
        });
        let after = holding();
        println!("10000 cycles, sleeping {sleeps}: {took}");
        for (who, before, after) in [
            ("server", before[0], after[0]),
            ("client", before[1], after[1]),
        ] {
            println!(
                "  {who}: descriptors {} -> {}, mappings {} -> {}, resident {} -> {} KiB",
                before.descriptors,
                after.descriptors,
                before.mappings,
                after.mappings,
                before.resident_bytes / 1024,
                after.resident_bytes / 1024
            );
            assert_eq!(before.descriptors, after.descriptors, "{who}");
            assert!(after.mappings <= before.mappings + 3, "{who}");
            let grown = after.resident_bytes - before.resident_bytes;
            assert!(grown < 400 << 10, "{who}: {grown} bytes more");
        }
    }
}

/// Opens many connections at a time, and uses each once.
fn opener() {
    let _dog = watchdog("opener", Duration::from_secs(500));
    let node = Node::new().unwrap();
    let name = arg("name");
    let mut connections = vec![node.connect(&name).unwrap()];
    there_and_back(&mut connections[0], 0);
    say("base");
    go();
    let count = arg_number("count") as usize;
    let started = Instant::now();
    if arg("piped") == "true" {
        open_piped(&node, &name, count, &mut connections);
    } else {
        while connections.len() < count {
            connections.push(node.connect(&name).unwrap());
        }
    }
    let opened = started.elapsed();
    let started = Instant::now();
    for (i, connection) in connections.iter_mut().enumerate() {
        there_and_back(connection, i as u64);
    }
    say(&format!(
        "opened in {opened:?}, a round trip on each in {:?}",
        started.elapsed()
    ));
    go();
    let started = Instant::now();
    connections.truncate(1);
    there_and_back(&mut connections[0], 0);
    say(&format!("closed in {:?}", started.elapsed()));
    go();
}

/// Without waiting for the answer to one before asking for the next.
fn open_piped(node: &Node, name: &str, count: usize, connections: &mut Vec<Connection>) {
    let mut events = Vec::new();
    let mut asked = connections.len();
    while connections.len() < count {
        while asked < count && asked - connections.len() < 256 {
            node.start_connect(name, &ConnectOptions::default())
                .unwrap();
            asked += 1;
        }
        assert!(node.wait(&mut events, 64, SOON).unwrap() > 0, "stuck");
        for event in events.drain(..) {
            match event {
                Event::Connected(connection) => connections.push(*connection),
                Event::ConnectFailed { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
    }
}

fn many_at_a_time(count: usize, piped: bool) {
    let name = name("at-a-time");
    let server = spawn("server", &[("name", &name)]);
    assert_eq!(server.hear(), "listens");
    let args = [
        ("name", name.as_str()),
        ("count", &count.to_string()),
        ("piped", &piped.to_string()),
    ];
    let mut opener = spawn("opener", &args);
    let long = Duration::from_secs(300);
    let next = |opener: &Child| opener.hear_within(long).expect("in time");
    next(&opener);
    let before = [holds(server.pid()), holds(opener.pid())];
    opener.tell("go");
    println!("{count} connections, piped {piped}: {}", next(&opener));
    let open = [holds(server.pid()), holds(opener.pid())];
    opener.tell("go");
    println!("  {}", next(&opener));
    std::thread::sleep(Duration::from_millis(100));
    let closed = [holds(server.pid()), holds(opener.pid())];
    let mut shared = 0;
    for (i, who) in ["server", "client"].into_iter().enumerate() {
        let per = |of: fn(&Holds) -> i64| (of(&open[i]) - of(&before[i])) / count as i64;
        let (resident, own) = (per(|h| h.resident_bytes), per(|h| h.own_bytes));
        println!(
            "  {who}: {resident} B resident per connection, {own} B of it its own; descriptors \
             {} -> {} -> {}; mappings {} -> {} -> {}; resident afterwards {} KiB more",
            before[i].descriptors,
            open[i].descriptors,
            closed[i].descriptors,
            before[i].mappings,
            open[i].mappings,
            closed[i].mappings,
            (closed[i].resident_bytes - before[i].resident_bytes) / 1024,
        );
        shared += per(|h| h.shared_part_bytes);
        assert!(resident <= 16 << 10, "{who}: {resident} B per connection");
        assert!(open[i].descriptors < before[i].descriptors + 50, "{who}");
        assert!(open[i].mappings < before[i].mappings + 200, "{who}");
        assert!(closed[i].descriptors <= open[i].descriptors, "{who}");
    }
    println!("  shared memory of both together: {shared} B per connection");
    assert!(shared <= 16 << 10, "{shared} B of shared memory each");
}

#[test]
fn ten_thousand_connections_at_a_time() {
    let _dog = watchdog("ten thousand", Duration::from_secs(300));
    many_at_a_time(10_000, false);
}

#[test]
fn as_many_connections_as_asked_for() {
    let _dog = watchdog("as many", Duration::from_secs(900));
    let count = number_or("BAREWIRE_CONNECTIONS", 20_000);
    many_at_a_time(count, true);
}

const TRIPWIRES: usize = 100_000;
const STRIDE: usize = 64;

/// Puts where it is told.
fn putter() {
    let _dog = watchdog("putter", Duration::from_secs(200));
    let node = Node::new().unwrap();
    let connection = node.connect(&arg("name")).unwrap();
    let (_, remote) = connection.import(SOON).unwrap();
    say("has it");
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).unwrap() > 0 {
        for number in line.split_whitespace() {
            let at = number.parse::<usize>().unwrap() * STRIDE;
            remote.put(at + 3, b"!").unwrap();
        }
        line.clear();
        say("put");
    }
}

#[test]
fn a_hundred_thousand_tripwires_on_one_queue() {
    let _dog = watchdog("tripwires", Duration::from_secs(200));
    let mut rng = Rng::from_seed(seed("tripwires"));
    let name = name("tripwires");
    let config = NodeConfig::default();
    let node = Node::with_config(config).unwrap();
    let _listener = node.listen(&name).unwrap();
    let mut putter = spawn("putter", &[("name", &name)]);
    let connection = node.next_request(SOON).unwrap().accept().unwrap();
    let mut config = ApertureConfig::new(TRIPWIRES * STRIDE, Rights::ReadWrite);
    config.tripwires_max = TRIPWIRES as u32;
    let aperture = node.export(config).unwrap();
    let started = Instant::now();
    let tripwires: Vec<Tripwire> = (0..TRIPWIRES)
        .map(|i| {
            // Every third can fire once only.
            let mode = if i % 3 == 0 {
                Mode::OneShot
            } else {
                Mode::Sticky
            };
            let action = Action::Enqueue { cookie: i as u64 };
            aperture.tripwire(i * STRIDE, 8, mode, action).unwrap()
        })
        .collect();
    println!("{TRIPWIRES} tripwires set in {:?}", started.elapsed());
    connection.grant(&aperture, 0).unwrap();
    assert_eq!(putter.hear(), "has it");

    let mut spent = BTreeSet::new();
    let (mut fired, started) = (0, Instant::now());
    for round in 0..10 {
        let mut chosen = BTreeSet::new();
        while chosen.len() < 2000 {
            chosen.insert(rng.index(TRIPWIRES));
        }
        if round == 0 {
            chosen.extend([0, 1, TRIPWIRES - 1]);
        }
        if round > 0 {
            // One-shots that have fired stay silent.
            chosen.extend(spent.iter().copied().take(200));
        }
        let mut order: Vec<_> = chosen.iter().copied().collect();
        rng.shuffle(&mut order);
        let numbers: Vec<String> = order.iter().map(usize::to_string).collect();
        // What is put several times before we look is told once.
        putter.tell(&numbers.join(" "));
        let expected: BTreeSet<_> = chosen.difference(&spent).copied().collect();
        let mut got = BTreeSet::new();
        let mut events = Vec::new();
        while got.len() < expected.len() {
            let found = node.wait(&mut events, 256, SOON).unwrap();
            assert!(found > 0, "{} of {} came", got.len(), expected.len());
            take(&mut events, &mut got);
        }
        assert_eq!(putter.hear(), "put");
        let some = Some(Duration::from_millis(20));
        node.wait(&mut events, 256, some).unwrap();
        take(&mut events, &mut got);
        assert!(got == expected, "another set than was put");
        fired += got.len();
        spent.extend(expected.iter().filter(|i| *i % 3 == 0));
    }
    println!("{fired} events, each once, in {:?}", started.elapsed());
    for (i, tripwire) in tripwires.iter().enumerate() {
        assert_eq!(tripwire.is_armed(), !spent.contains(&i), "tripwire {i}");
    }
    let started = Instant::now();
    drop(tripwires);
    println!("{TRIPWIRES} tripwires dropped in {:?}", started.elapsed());
    putter.tell("1 2 3");
    assert_eq!(putter.hear(), "put");
    let mut events = Vec::new();
    let some = Some(Duration::from_millis(20));
    while node.wait(&mut events, 16, some).unwrap() > 0 {}
    let mut got = BTreeSet::new();
    take(&mut events, &mut got);
    assert!(got.is_empty(), "fired after they were dropped: {got:?}");
}

fn take(events: &mut Vec<Event>, got: &mut BTreeSet<usize>) {
    for event in events.drain(..) {
        if let Event::Tripwire { cookie, .. } = event {
            assert!(got.insert(cookie as usize), "tripwire {cookie} twice");
        }
    }
}
