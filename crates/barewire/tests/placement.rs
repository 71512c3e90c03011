//! Nodes whose memory is locked, near a NUMA node or on huge pages: what the kernel says of it,
//! that everything works over it, and who is refused why.

#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use barewire::{ApertureConfig, Connection, Error, HugePages, Memory, Node, NodeConfig, Rights};
use barewire_sys::SysError;
use barewire_sys::memory::huge_page_bytes;
use barewire_sys::process::own_credentials;
use common::*;
use rustix::process::{Resource, Rlimit, setrlimit};

/// A node, or a skip if this machine does not let us have it so.
fn node(test: &str, config: NodeConfig) -> Option<Node> {
    match Node::with_config(config) {
        Err(Error::System(
            error @ (SysError::LockedMemoryLimit { .. }
            | SysError::NoHugePages { .. }
            | SysError::Unsupported { .. }),
        )) => {
            skip(test, &error.to_string());
            None
        }
        made => Some(made.unwrap()),
    }
}

fn locked() -> NodeConfig {
    NodeConfig {
        lock_memory: true,
        ..spins(true)
    }
}

fn huge(huge_pages: HugePages) -> NodeConfig {
    NodeConfig {
        huge_pages,
        ..spins(true)
    }
}

/// A connection from an ordinary node to this one: this one's end, the other's node, its end.
fn connected(server: &Node) -> barewire::Result<(Connection, Node, Connection)> {
    let name = name("placed");
    let _listener = server.listen(&name)?;
    let client = std::thread::spawn(move || {
        let node = Node::with_config(spins(true))?;
        let connection = node.connect(&name)?;
        Ok::<_, Error>((node, connection))
    });
    let accepted = server
        .next_request(SOON)
        .and_then(barewire::Request::accept);
    let (node, connection) = client.join().unwrap()?;
    Ok((accepted?, node, connection))
}

/// Messages both ways, long ones too.
fn talk(one: &mut Connection, other: &mut Connection) {
    for number in 0..200 {
        pass(number, one, other);
        pass(number, other, one);
    }
}

fn pass(number: u64, from: &mut Connection, to: &mut Connection) {
    let (mut sent, mut got) = (Vec::new(), Vec::new());
    message(1, number, &mut sent);
    std::thread::scope(|scope| {
        scope.spawn(|| from.send(&sent).unwrap());
        to.receiver().recv_into_timeout(&mut got, SOON).unwrap();
    });
    assert_eq!(got, sent);
}

/// What /proc/self/smaps says of each mapping of memfds of this name: lines of field and value.
fn in_smaps(name: &str) -> Vec<Vec<String>> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<(bool, Vec<String>)> = Vec::new();
    for line in smaps.lines() {
        match found.last_mut() {
            Some((_, fields)) if line.split_whitespace().next().unwrap().ends_with(':') => {
                fields.push(line.to_owned());
            }
            _ => found.push((line.contains(&format!("/memfd:{name} ")), Vec::new())),
        }
    }
    let ours = found.into_iter().filter(|(is_ours, _)| *is_ours);
    ours.map(|(_, fields)| fields).collect()
}

/// A field of a mapping, in bytes.
fn bytes(fields: &[String], field: &str) -> u64 {
    let value = fields
        .iter()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = value
        .expect("the field")
        .trim()
        .strip_suffix(" kB")
        .unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// Bytes that are there of the locked mappings of memfds of this name.
fn locked_in(name: &str) -> u64 {
    let mappings = in_smaps(name);
    // (The field `Locked` divides each page by those who map it.)
    let is_locked = |fields: &&Vec<String>| {
        let flags = fields.iter().find_map(|line| line.strip_prefix("VmFlags:"));
        flags.unwrap().split_whitespace().any(|flag| flag == "lo")
    };
    mappings
        .iter()
        .filter(is_locked)
        .map(|fields| bytes(fields, "Rss"))
        .sum()
}

/// Bytes on huge pages of mappings of memfds of this name.
fn huge_in(name: &str) -> u64 {
    let mappings = in_smaps(name);
    mappings
        .iter()
        .map(|fields| bytes(fields, "ShmemPmdMapped"))
        .sum()
}

/// The kernel's count of this process's locked memory, in bytes.
fn locked_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.trim().parse::<u64>().unwrap() * 1024
}

/// In a process of its own, since the kernel counts for the whole process.
#[test]
fn child_entry() {
    match role().as_deref() {
        Some("locks") => locks(),
        Some("huge") => takes_huge_pages(),
        Some("poor") => may_not_lock(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn locks() {
    let _dog = watchdog("locks", Duration::from_secs(60));
    let Some(server) = node("a_locked_node_is_locked", locked()) else {
        return say("skipped");
    };
    let doorbells = locked_bytes();
    assert!(doorbells > 0, "the doorbell page");
    let (mut accepted, _node, mut connection) = connected(&server).unwrap();
    // The first segment of the link, and none of the other node's.
    assert_eq!(locked_bytes() - doorbells, 256 << 10);
    assert_eq!(locked_in("barewire-arena"), 256 << 10);
    talk(&mut accepted, &mut connection);
    let aperture = server
        .export(ApertureConfig::new(64 << 10, Rights::ReadWrite))
        .unwrap();
    assert_eq!(locked_in("barewire-aperture"), 64 << 10);
    aperture.put(100, b"there").unwrap();
    aperture.revoke().unwrap();
    let mut bytes = [0; 5];
    aperture.get(100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    drop((aperture, accepted, connection, _node, server));
    eventually("all of it is given back", || locked_bytes() == 0);
    say("done");
}

#[test]
fn a_locked_node_is_locked() {
    let child = spawn("locks", &[]);
    assert!(["done", "skipped"].contains(&&*child.hear()));
}

fn takes_huge_pages() {
    let _dog = watchdog("huge", Duration::from_secs(60));
    let huge_bytes = huge_page_bytes().unwrap_or_default() as u64;
    let Some(server) = node("a_node_lies_on_huge_pages", huge(HugePages::Require)) else {
        return say("skipped");
    };
    let (mut accepted, _node, mut connection) = connected(&server).unwrap();
    assert_eq!(huge_in("barewire-arena") % huge_bytes, 0);
    assert!(huge_in("barewire-arena") >= huge_bytes);
    talk(&mut accepted, &mut connection);
    let small = ApertureConfig::new(64 << 10, Rights::ReadWrite);
    let error = server.export(small).unwrap_err();
    assert!(error.to_string().contains("huge pages"), "{error}");
    let large = ApertureConfig::new(huge_bytes as usize, Rights::Read);
    let aperture = server.export(large).unwrap();
    assert!(huge_in("barewire-aperture") >= huge_bytes);
    // An importer takes it as any other.
    aperture.put(huge_bytes as usize - 4, b"last").unwrap();
    accepted.grant(&aperture, 5).unwrap();
    let (_, remote) = connection.import(SOON).unwrap();
    let mut bytes = [0; 4];
    remote.get(huge_bytes as usize - 4, &mut bytes).unwrap();
    assert_eq!(&bytes, b"last");
    say("done");
}

#[test]
fn a_node_lies_on_huge_pages() {
    let child = spawn("huge", &[]);
    assert!(["done", "skipped"].contains(&&*child.hear()));
}

#[test]
fn huge_pages_that_are_only_tried_never_fail() {
    let server = Node::with_config(huge(HugePages::Try)).unwrap();
    let (mut accepted, _node, mut connection) = connected(&server).unwrap();
    talk(&mut accepted, &mut connection);
    let odd = ApertureConfig::new((2 << 20) + 24, Rights::ReadWrite);
    let aperture = server.export(odd).unwrap();
    aperture.put(2 << 20, b"the rest").unwrap();
}

#[test]
fn a_node_near_a_numa_node_works_and_one_near_none_is_refused() {
    let near = |numa_node| NodeConfig {
        numa_node: Some(numa_node),
        ..spins(true)
    };
    let test = "a_node_near_a_numa_node_works_and_one_near_none_is_refused";
    let error = Node::with_config(near(5000)).unwrap_err();
    let refused = matches!(
        error,
        Error::System(SysError::NoNumaNode { node: 5000, .. })
    );
    assert!(refused, "{error:?}");
    let listed = std::fs::read_to_string("/sys/devices/system/node/has_memory");
    let first = listed
        .ok()
        .and_then(|list| list.split([',', '-', '\n']).next()?.parse().ok());
    let Some(first) = first else {
        return skip(test, "no NUMA in this kernel");
    };
    let Some(server) = node(test, near(first)) else {
        return;
    };
    let (mut accepted, _node, mut connection) = connected(&server).unwrap();
    talk(&mut accepted, &mut connection);
}

fn may_not_lock() {
    let limit = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Memlock, limit).unwrap();
    say(&Node::with_config(locked()).unwrap_err().to_string());
}

#[test]
fn who_may_not_lock_gets_no_node_and_is_told_why() {
    // Root may lock whatever the limit is.
    let is_root = own_credentials().uid == 0;
    let child = spawn_as("poor", &[], is_root.then_some((65_534, 65_534)));
    let said = child.hear();
    assert!(
        said.contains("RLIMIT_MEMLOCK") && said.contains("0 bytes"),
        "{said}"
    );
}

#[test]
fn by_default_nothing_is_locked_nor_taken_before_it_is_used() {
    let config = NodeConfig::default();
    assert!(!config.lock_memory && config.numa_node.is_none());
    assert_eq!(config.huge_pages, HugePages::Never);
}
