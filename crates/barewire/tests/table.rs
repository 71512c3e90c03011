//! A table that one process writes and others wait for: readers are told of each change by
//! the owner's stores alone, though the owner never polls its node.

#![forbid(unsafe_code)]

mod common;

use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    AccessError, Action, Aperture, ApertureConfig, Connection, Error, Event, ListenOptions,
    Listener, Memory, Mode, Node, Policy, RemoteAperture, Rights, Tripwire,
};
use barewire_sys::process::own_credentials;
use common::*;

/// Rows of a line each: a version, then bytes of it.
const ROWS: usize = 300;
const ROW_BYTES: usize = 64;
const TABLE_BYTES: usize = ROWS * ROW_BYTES;
/// The version that says that all is over.
const LAST: u64 = u64::MAX;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("reader") => reader(),
        Some("owner") => owner(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn at(row: usize) -> usize {
    row * ROW_BYTES
}

/// Waits for every change of its row, until the last; says what it saw.
fn reader() {
    let _dog = watchdog("reader", Duration::from_secs(100));
    let row = arg_number("row") as usize;
    let one_shot = arg("mode") == "one-shot";
    let node = Node::with_config(spins(arg("spin") == "no")).unwrap();
    let options = barewire::ConnectOptions {
        owner: Some(arg_number("uid") as u32),
        ..barewire::ConnectOptions::default()
    };
    let connection = node.connect_with(&arg("name"), &options).unwrap();
    let (_, table) = connection.import(SOON).unwrap();
    let arm = |mode| {
        table
            .tripwire_on_owner(at(row), 8, mode, Action::Wake)
            .unwrap()
    };
    let mut trap: Tripwire = arm(Mode::Sticky);
    say("waiting");
    let (mut seen, mut waits) = (0, 0_u64);
    let mut events = Vec::new();
    loop {
        if one_shot {
            trap = arm(Mode::OneShot);
        }
        let version = table.load(at(row)).unwrap();
        if version == LAST {
            break;
        }
        assert!(version >= seen, "version {version} after {seen}");
        if version != seen {
            // What was stored before the version is there with it.
            let mut bytes = [0; 8];
            table.get(at(row) + 8, &mut bytes).unwrap();
            let at_least = u64::from_le_bytes(bytes);
            assert!(at_least >= version, "bytes {at_least} of version {version}");
            seen = version;
            say(&seen.to_string());
            continue;
        }
        waits += 1;
        node.wait(&mut events, 64, None).unwrap();
        events.clear();
    }
    drop(trap);
    say(&format!("over after {waits} waits"));
}

struct Table {
    name: String,
    node: Node,
    _listener: Listener,
    aperture: Aperture,
    connections: Vec<Connection>,
    uid: u32,
}

impl Table {
    fn new(of: &str) -> Table {
        let name = name(of);
        let node = Node::with_config(spins(true)).unwrap();
        let policy = Policy::same_user().and_user(OTHER_UID);
        let options = ListenOptions { policy };
        let _listener = node.listen_with(&name, options).unwrap();
        let config = ApertureConfig::new(TABLE_BYTES, Rights::Read);
        let aperture = node.export(config).unwrap();
        Table {
            name,
            node,
            _listener,
            aperture,
            connections: Vec::new(),
            uid: own_credentials().uid,
        }
    }

    /// Starts a reader and grants it the table.
    fn admit(&mut self, row: usize, mode: &str, spin: &str, user: Option<(u32, u32)>) -> Child {
        let (row, uid) = (row.to_string(), self.uid.to_string());
        let args = [
            ("name", self.name.as_str()),
            ("row", &row),
            ("mode", mode),
            ("spin", spin),
            ("uid", &uid),
        ];
        let child = spawn_as("reader", &args, user);
        let connection = self.node.next_request(SOON).unwrap().accept().unwrap();
        connection.grant(&self.aperture, 0).unwrap();
        self.connections.push(connection);
        assert_eq!(child.hear(), "waiting");
        child
    }

    /// Stores a row; the version last, which is what readers wait for.
    fn write(&self, row: usize, version: u64, how: u64) {
        let (table, at) = (&self.aperture, at(row));
        table.put(at + 8, &version.to_le_bytes()).unwrap();
        match how % 4 {
            0 => table.store(at, version).unwrap(),
            1 => table.put(at, &version.to_le_bytes()).unwrap(),
            2 => {
                let before = table.load(at).unwrap();
                table.add(at, version.wrapping_sub(before)).unwrap();
            }
            _ => {
                let before = table.load(at).unwrap();
                let done = table.compare_exchange(at, before, version).unwrap();
                assert_eq!(done, Ok(before));
            }
        }
    }
}

/// A user that is not ours.
const OTHER_UID: u32 = 54_321;

/// Writes versions until each reader has said that it saw the last of them.
fn all_readers_see_everything(table: &Table, readers: &[(usize, Child)]) {
    for version in 1..=200 {
        for (row, _) in readers {
            // Rows that nobody waits for lie all around.
            table.write(row + 1, version, 0);
            table.write(*row, version, version);
        }
        if version % 3 == 0 {
            continue; // several in a row
        }
        for (row, reader) in readers {
            while reader.hear() != version.to_string() {}
            assert_eq!(table.aperture.load(at(*row)), Ok(version));
        }
    }
    for (row, reader) in readers {
        table.write(*row, LAST, 0);
        while !reader.hear().starts_with("over") {}
    }
}

#[test]
fn readers_who_wait_see_every_change() {
    let _dog = watchdog("readers", Duration::from_secs(90));
    let mut table = Table::new("table");
    let kinds = [
        ("sticky", "no"),
        ("one-shot", "no"),
        ("sticky", "yes"),
        ("one-shot", "yes"),
    ];
    let mut readers = Vec::new();
    for (i, (mode, spin)) in kinds.into_iter().enumerate() {
        // Two of them wait for the same row.
        let row = if i < 2 { 7 } else { i * 70 };
        readers.push((row, table.admit(row, mode, spin, None)));
    }
    // From here on the owner's node is not polled any more.
    all_readers_see_everything(&table, &readers);
}

#[test]
fn a_reader_of_another_user_is_told_too() {
    let _dog = watchdog("other user", Duration::from_secs(90));
    if own_credentials().uid != 0 {
        return skip("a_reader_of_another_user_is_told_too", "needs root");
    }
    let mut table = Table::new("table-foreign");
    let own = table.admit(3, "sticky", "no", None);
    let foreign = table.admit(5, "one-shot", "no", Some((OTHER_UID, OTHER_UID)));
    all_readers_see_everything(&table, &[(3, own), (5, foreign)]);
}

#[test]
fn a_reader_killed_while_it_waits_disturbs_nobody() {
    let _dog = watchdog("killed reader", Duration::from_secs(90));
    let mut table = Table::new("table-killed");
    let mut victim = table.admit(9, "sticky", "no", None);
    let other = table.admit(9, "sticky", "no", None);
    table.write(9, 1, 0);
    while victim.hear() != "1" {}
    victim.kill();
    // The owner does not know of it, and stores as before.
    for version in 2..100 {
        table.write(9, version, version);
    }
    while other.hear() != "99" {}
    // Once it polls, it knows; and new readers come.
    while table
        .node
        .next_event(Some(Duration::from_millis(50)))
        .unwrap()
        .is_some()
    {}
    let late = table.admit(9, "one-shot", "no", None);
    table.write(9, 100, 0);
    while late.hear() != "100" {}
    while other.hear() != "100" {}
    table.write(9, LAST, 0);
    for reader in [other, late] {
        while !reader.hear().starts_with("over") {}
    }
}

/// Grants a table to whoever connects; stores what it is told to; waits to be killed.
fn owner() {
    let _dog = watchdog("owner", Duration::from_secs(100));
    let mut table = Table::new("table-owner");
    say(&table.name);
    loop {
        let connection = table.node.next_request(None).unwrap().accept().unwrap();
        connection.grant(&table.aperture, 0).unwrap();
        table.connections.push(connection);
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).unwrap() > 0 {
            match line.trim() {
                "revoke" => table.aperture.revoke().unwrap(),
                version => table.write(0, version.parse().unwrap(), 0),
            }
            say("done");
            line.clear();
        }
    }
}

fn imported(owner: &Child) -> (Node, Connection, RemoteAperture) {
    let node = Node::with_config(spins(true)).unwrap();
    let connection = node.connect(&owner.hear()).unwrap();
    let (_, table) = connection.import(SOON).unwrap();
    (node, connection, table)
}

/// Waits for events, as a thread beside the test: when it was woken, and by what.
fn waiting(node: &Node) -> thread::JoinHandle<(Instant, Vec<Event>)> {
    let node = node.clone();
    thread::spawn(move || {
        let mut events = Vec::new();
        let found = node.wait(&mut events, 64, SOON).unwrap();
        assert!(found > 0, "nothing within {SOON:?}");
        (Instant::now(), events)
    })
}

fn told(events: &[Event]) -> bool {
    let ours = |e: &Event| matches!(e, Event::Tripwire { cookie: 7, .. });
    events.iter().any(ours)
}

#[test]
fn who_waits_learns_of_the_owners_death_without_a_connection() {
    let _dog = watchdog("owner's death", Duration::from_secs(60));
    let mut owner = spawn("owner", &[]);
    let (node, connection, table) = imported(&owner);
    let enqueue = Action::Enqueue { cookie: 7 };
    let trap = table
        .tripwire_on_owner(0, 8, Mode::Sticky, enqueue)
        .unwrap();
    // No connection is left that would be told as closed.
    drop(connection);
    assert_eq!(owner.ask("5"), "done");
    assert!(told(&waiting(&node).join().unwrap().1));
    assert_eq!(table.load(0), Ok(5));
    let waits = waiting(&node);
    let killed = Instant::now();
    owner.kill();
    let (woken, events) = waits.join().unwrap();
    assert!(told(&events), "{events:?}");
    println!(
        "woken {:?} after the kill",
        woken.saturating_duration_since(killed)
    );
    assert_eq!(table.load(0), Err(AccessError::PeerGone));
    let again = table.tripwire_on_owner(0, 8, Mode::Sticky, enqueue);
    assert_eq!(again.err(), Some(Error::Access(AccessError::PeerGone)));
    drop(trap);
}

#[test]
fn who_waits_learns_that_the_owner_revoked() {
    let _dog = watchdog("revoked", Duration::from_secs(60));
    let mut owner = spawn("owner", &[]);
    let (node, _connection, table) = imported(&owner);
    let enqueue = Action::Enqueue { cookie: 7 };
    let _trap = table
        .tripwire_on_owner(0, 8, Mode::OneShot, enqueue)
        .unwrap();
    let waits = waiting(&node);
    assert_eq!(owner.ask("revoke"), "done");
    assert!(told(&waits.join().unwrap().1));
    assert_eq!(table.load(0), Err(AccessError::Revoked));
    assert_eq!(owner.ask("6"), "done", "its own memory stays");
    owner.kill();
}

#[test]
fn counts_and_limits() {
    let _dog = watchdog("counts", Duration::from_secs(60));
    let mut owner = spawn("owner", &[]);
    let (_node, _connection, table) = imported(&owner);
    let count = table
        .tripwire_on_owner(0, 16, Mode::Sticky, Action::Count)
        .unwrap();
    let once = table
        .tripwire_on_owner(0, 8, Mode::OneShot, Action::Count)
        .unwrap();
    for version in 1..=10 {
        assert_eq!(owner.ask(&version.to_string()), "done");
    }
    // A row is stored in two transfers.
    assert_eq!((count.count(), once.count()), (20, 1));
    assert!(count.is_armed() && !once.is_armed());
    count.disarm();
    assert_eq!(owner.ask("11"), "done");
    assert_eq!(count.count(), 20);
    let mut set = Vec::new();
    let refused = loop {
        let at = set.len() * 8 % TABLE_BYTES;
        match table.tripwire_on_owner(at, 8, Mode::Sticky, Action::Wake) {
            Ok(trap) => set.push(trap),
            Err(error) => break error,
        }
    };
    // Of the two set before, one was disarmed; the other is not taken out by a count.
    assert_eq!(set.len(), 1023, "{refused}");
    assert!(refused.to_string().contains("1024"), "{refused}");
    owner.kill();
}
