//! Links between two processes in two network namespaces with a cable (veth) between them: as between two hosts.
//!
//! They need root, for the namespaces; elsewhere they count as skipped.

#![forbid(unsafe_code)]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Connection, Error, Event, Node, NodeConfig};
use barewire_sys::lan::{Lan, LanHost};
use barewire_sys::process::Signal;
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("many") => many(),
        _ => return,
    }
    std::process::exit(0);
}

/// Two hosts. The calling thread is on the first from now on. `None`: they can not be made here, and the test is skipped.
fn two_hosts(test: &str) -> Option<Lan> {
    let made = Lan::pair().and_then(|lan| {
        lan.hosts[0].net.enter()?;
        Ok(lan)
    });
    match made {
        Ok(lan) => Some(lan),
        Err(error) => {
            skip(test, &format!("network namespaces need root: {error}"));
            None
        }
    }
}

/// A process on a host.
fn spawn_at(host: &LanHost, role: &str, args: &[(&str, &str)]) -> Child {
    host.net.visit(|| spawn(role, args)).unwrap()
}

/// A process on the second host that listens, and its name there.
fn listener(lan: &Lan, of: &str) -> (Child, String) {
    let mut puppet = spawn_at(&lan.hosts[1], "puppet", &[]);
    let listened = name(of);
    puppet.must(&format!("listen {listened}"));
    let port = puppet.must(&format!("port {}", lan.hosts[1].address));
    (puppet, format!("{port}/{listened}"))
}

fn node() -> Node {
    Node::with_config(spins(false)).unwrap()
}

/// Connects, and has the process at the other end accept.
fn connect(client: &Node, puppet: &mut Child, address: &str) -> Connection {
    let options = ConnectOptions {
        wait_for_name: false,
        ..ConnectOptions::default()
    };
    client.start_connect(address, &options).unwrap();
    puppet.must("accept");
    loop {
        match client.next_event(SOON).unwrap() {
            Some(Event::Connected(connection)) => return *connection,
            Some(Event::Ready(_)) => {}
            other => panic!("not connected: {other:?}"),
        }
    }
}

/// Receives messages that a puppet has sent.
fn receive(from: &mut Connection, seed: u64, numbers: std::ops::Range<u64>) {
    let (mut expected, mut buffer) = (Vec::new(), Vec::new());
    for number in numbers {
        let came = from.receiver().recv_into_timeout(&mut buffer, SOON);
        assert!(came.unwrap().is_some(), "message {number}");
        message(seed, number, &mut expected);
        assert!(buffer == expected, "message {number}");
    }
}

/// The other host is lost, and this is told after at most three times the time that was set.
fn assert_lost(error: &Error, since: Instant) {
    assert!(matches!(error, Error::HostLost { .. }), "{error:?}");
    let took = since.elapsed();
    assert!(took < strangers().timeout * 3, "told after {took:?}");
}

#[test]
fn messages_and_streams_cross() {
    let _dog = watchdog("cross", LONG * 2);
    let Some(lan) = two_hosts("messages_and_streams_cross") else {
        return;
    };
    let (mut puppet, address) = listener(&lan, "cross");
    let client = node();
    let mut one = connect(&client, &mut puppet, &address);
    let peer = one.remote().unwrap();
    assert!(address.starts_with(&peer.address), "{peer:?}");
    puppet.tell("recv 0 9 0 500");
    let mut buffer = Vec::new();
    for number in 0..500 {
        message(9, number, &mut buffer);
        one.send(&buffer).unwrap();
    }
    assert_eq!(puppet.hear().trim(), "ok");
    puppet.tell("send 0 5 0 500");
    receive(&mut one, 5, 0..500);
    assert_eq!(puppet.hear().trim(), "ok");
    let two = connect(&client, &mut puppet, &address);
    puppet.tell("stream 1 3 3000000");
    let sent: Vec<u8> = (0..3_000_000).map(|at| stream_byte(3, at)).collect();
    let mut received = vec![0; sent.len()];
    let mut stream = two.into_stream();
    std::io::Write::write_all(&mut stream, &sent).unwrap();
    std::io::Read::read_exact(&mut stream, &mut received).unwrap();
    assert!(received == sent);
    assert_eq!(puppet.hear(), "ok true");
}

#[test]
fn events_tell_of_the_other_host() {
    let _dog = watchdog("events", LONG);
    let Some(lan) = two_hosts("events_tell_of_the_other_host") else {
        return;
    };
    let server = node();
    let listener = server.listen(&name("events")).unwrap();
    let port = server
        .listen_on(&format!("{}:0", lan.hosts[0].address))
        .unwrap();
    let mut puppet = spawn_at(&lan.hosts[1], "puppet", &[]);
    puppet.tell(&format!(
        "connect {}/{} 0 once",
        port.address(),
        listener.name()
    ));
    let Some(Event::Request(request)) = server.next_event(SOON).unwrap() else {
        panic!("no request");
    };
    let mut accepted = request.accept().unwrap();
    assert!(puppet.hear().starts_with("ok"));
    puppet.must("send 0 4 0 1");
    let Some(Event::Ready(id)) = server.next_event(SOON).unwrap() else {
        panic!("not ready");
    };
    assert_eq!(id, accepted.id());
    receive(&mut accepted, 4, 0..1);
    puppet.must("exit_node");
    eventually("the end is told", || {
        let event = server.next_event(Duration::from_millis(10)).unwrap();
        matches!(event, Some(Event::Closed { .. }))
    });
}

#[test]
fn a_cable_that_is_pulled_is_told_at_both_ends() {
    let _dog = watchdog("cable", LONG);
    let Some(lan) = two_hosts("a_cable_that_is_pulled_is_told_at_both_ends") else {
        return;
    };
    let (mut puppet, address) = listener(&lan, "cable");
    let client = node();
    let mut quiet = connect(&client, &mut puppet, &address);
    let mut busy = connect(&client, &mut puppet, &address);
    puppet.must("send 0 5 0 3");
    puppet.tell("send 1 7 0 100000000");
    // What goes over one link keeps its order: the three messages are here, too.
    receive(&mut busy, 7, 0..200);
    lan.hosts[1].set_cable(false).unwrap();
    let pulled = Instant::now();
    let mut buffer = Vec::new();
    let error = loop {
        match busy.receiver().recv_into_timeout(&mut buffer, SOON) {
            Ok(came) => assert!(came.is_some(), "neither a message nor an end"),
            Err(error) => break error,
        }
    };
    assert_lost(&error, pulled);
    let answer = puppet.hear();
    assert!(answer.contains("HostLost"), "{answer}");
    assert!(pulled.elapsed() < strangers().timeout * 3);
    receive(&mut quiet, 5, 0..3);
    let error = quiet.receiver().recv_into(&mut buffer).unwrap_err();
    assert!(matches!(error, Error::HostLost { .. }), "{error:?}");
    assert!(quiet.send(b"more").is_err());
}

#[test]
fn what_was_sent_arrives_or_is_counted_as_lost() {
    let _dog = watchdog("counted", LONG * 2);
    let Some(lan) = two_hosts("what_was_sent_arrives_or_is_counted_as_lost") else {
        return;
    };
    let (mut puppet, address) = listener(&lan, "counted");
    let client = node();
    let mut connection = connect(&client, &mut puppet, &address);
    puppet.tell("drain 0 6");
    let mut accepted = Vec::new();
    let mut buffer = Vec::new();
    let error = loop {
        if accepted.len() == 2000 {
            lan.hosts[1].set_cable(false).unwrap();
        }
        message(6, accepted.len() as u64, &mut buffer);
        match connection.send(&buffer) {
            Ok(()) => accepted.push(buffer.len() as u64),
            Err(error) => break error,
        }
    };
    let lost = assert_lost_of(&error, &accepted);
    let answer = puppet.hear();
    let delivered = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    let delivered: u64 = delivered.unwrap_or_else(|| panic!("{answer}"));
    assert!(answer.contains("HostLost"), "{answer}");
    let sent = accepted.len() as u64;
    // Whatever fits the ring was accepted after the cable was pulled.
    assert!(sent > 2000 && delivered < sent, "{delivered} of {sent}");
    assert!(
        delivered + lost.messages >= sent,
        "{delivered} of {sent} arrived, {lost:?}"
    );
}

#[test]
fn a_process_that_is_killed_is_told_at_once() {
    let _dog = watchdog("killed", LONG);
    let Some(lan) = two_hosts("a_process_that_is_killed_is_told_at_once") else {
        return;
    };
    let (mut puppet, address) = listener(&lan, "killed");
    let client = node();
    let mut connection = connect(&client, &mut puppet, &address);
    puppet.must("send 0 5 0 3");
    puppet.kill();
    let begin = Instant::now();
    receive(&mut connection, 5, 0..3);
    let error = connection
        .receiver()
        .recv_into(&mut Vec::new())
        .unwrap_err();
    assert_lost(&error, begin);
    let said = error.to_string();
    assert!(said.contains("ended") || said.contains("reset"), "{said}");
}

#[test]
fn a_process_that_is_stopped_is_told_in_time() {
    let _dog = watchdog("stopped", LONG);
    let Some(lan) = two_hosts("a_process_that_is_stopped_is_told_in_time") else {
        return;
    };
    let (mut puppet, address) = listener(&lan, "stopped");
    let client = node();
    let mut connection = connect(&client, &mut puppet, &address);
    puppet.signal(Signal::Stop);
    let begin = Instant::now();
    let error = connection
        .receiver()
        .recv_into(&mut Vec::new())
        .unwrap_err();
    assert_lost(&error, begin);
    assert!(error.to_string().contains("nothing came"), "{error}");
    puppet.signal(Signal::Cont);
    let answer = puppet.must("ends 0");
    assert!(answer.contains("HostLost"), "{answer}");
}

/// What `tshark` says of each message in a capture; `None` if it is not installed.
fn shown(path: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields"]);
    for field in ["ipv4_src", "src_port", "ipv4_dst", "dst_port"] {
        command.args(["-e", &format!("exported_pdu.{field}")]);
    }
    let output = command.args(["-e", "data.len"]).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn a_capture_at_either_end_shows_both_hosts() {
    const TEST: &str = "a_capture_at_either_end_shows_both_hosts";
    let _dog = watchdog("captured", LONG);
    let Some(lan) = two_hosts(TEST) else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let paths = ["here", "there"].map(|end| folder.join(format!("{}.pcapng", name(end))));
    let args = [("capture", paths[1].to_str().unwrap())];
    let mut puppet = spawn_at(&lan.hosts[1], "puppet", &args);
    let listened = name("captured");
    puppet.must(&format!("listen {listened}"));
    let port = puppet.must(&format!("port {}", lan.hosts[1].address));
    let client = Node::with_config(NodeConfig {
        capture: Some(paths[0].clone()),
        ..spins(false)
    });
    let client = client.unwrap();
    let mut connection = connect(&client, &mut puppet, &format!("{port}/{listened}"));
    let mut buffer = Vec::new();
    for number in 0..3 {
        message(9, number, &mut buffer);
        connection.send(&buffer).unwrap();
    }
    puppet.must("recv 0 9 0 3");
    puppet.must("send 0 5 0 2");
    receive(&mut connection, 5, 0..2);
    client.flush_capture().unwrap();
    let pids = [std::process::id(), puppet.pid() as u32];
    puppet.must("exit_node");
    let ends: Vec<String> = (0..2)
        .map(|at| format!("{}\t{}", lan.hosts[at].address, pids[at]))
        .collect();
    let line = |from: usize, seed: u64, number: u64| {
        let len = message_len(seed, number);
        format!("{}\t{}\t{len}", ends[from], ends[1 - from])
    };
    let expected = [
        line(0, 9, 0),
        line(0, 9, 1),
        line(0, 9, 2),
        line(1, 5, 0),
        line(1, 5, 1),
    ];
    for path in paths {
        let Some(lines) = shown(&path) else {
            return skip(TEST, "tshark is not installed");
        };
        assert_eq!(lines, expected, "{}", path.display());
        std::fs::remove_file(path).unwrap();
    }
}

/// How long a packet is under way in the test of a long path.
const DELAY: Duration = Duration::from_millis(5);

/// Delays what a host sends; why that is not possible.
fn delay(host: &LanHost) -> Result<(), String> {
    let delay = format!("{}ms", DELAY.as_millis());
    let mut command = Command::new("tc");
    command.args([
        "qdisc", "add", "dev", "nic", "root", "netem", "delay", &delay,
    ]);
    let ran = host.net.visit(|| command.output()).unwrap();
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("tc: {error}")),
    }
}

#[test]
fn messages_keep_their_order_over_a_long_path() {
    const TEST: &str = "messages_keep_their_order_over_a_long_path";
    let _dog = watchdog("long path", LONG);
    let Some(lan) = two_hosts(TEST) else {
        return;
    };
    if let Some(reason) = lan.hosts.iter().find_map(|host| delay(host).err()) {
        return skip(TEST, &reason);
    }
    let (mut puppet, address) = listener(&lan, "long-path");
    let client = node();
    let mut connection = connect(&client, &mut puppet, &address);
    puppet.tell("send 0 8 0 300");
    let begin = Instant::now();
    receive(&mut connection, 8, 0..300);
    let took = begin.elapsed();
    assert_eq!(puppet.hear().trim(), "ok");
    let bytes: usize = (0..300).map(|number| message_len(8, number)).sum();
    // A ring takes 4 KiB each time that its credit goes there and back. With three times as long the rate is still sane.
    let laps = bytes as u32 / 4096 + 1;
    let longest = DELAY * 2 * laps * 3 + strangers().timeout;
    assert!(took < longest, "{bytes} bytes took {took:?}");
    let mut shown = None;
    eventually("the round trip is known", || {
        let _ = client.next_event(Duration::from_millis(1)).unwrap();
        shown = connection.remote().and_then(|peer| peer.round_trip);
        shown.is_some()
    });
    let shown = shown.unwrap();
    assert!(shown >= DELAY * 2 && shown < LONG, "{shown:?}");
}

const NETWORKS: usize = 8;
const NODES_EACH: usize = 8;

/// So many nodes in so many namespaces, all to all; and what the links need of memory.
#[test]
fn sixty_four_nodes_talk_all_to_all() {
    const TEST: &str = "sixty_four_nodes_talk_all_to_all";
    let _dog = watchdog("all to all", LONG * 4);
    let lan = match Lan::around_bridge(NETWORKS) {
        Ok(lan) => lan,
        Err(error) => return skip(TEST, &format!("network namespaces need root: {error}")),
    };
    let mut children: Vec<Child> = lan
        .hosts
        .iter()
        .map(|host| spawn_at(host, "many", &[("address", &host.address.to_string())]))
        .collect();
    let addresses: Vec<String> = children
        .iter()
        .flat_map(|child| (0..NODES_EACH).map(|_| child.hear()).collect::<Vec<_>>())
        .collect();
    for (at, child) in children.iter_mut().enumerate() {
        child.tell(&format!("{} {}", at * NODES_EACH, addresses.join(" ")));
    }
    let mut grown_bytes = 0;
    for child in &children {
        let said = child.hear();
        let grown = said
            .strip_prefix("done ")
            .unwrap_or_else(|| panic!("{said}"));
        grown_bytes += grown.parse::<usize>().unwrap();
    }
    let nodes = NETWORKS * NODES_EACH;
    let pairs = nodes * (nodes - 1) / 2;
    println!(
        "{pairs} pairs: {} B of memory for each, both ends together",
        grown_bytes / pairs
    );
    // All children are there until all are done.
    children.iter_mut().for_each(|child| child.tell("end"));
}

/// Memory of this process that is its own or shared, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

/// The nodes of one namespace. Each connects to all nodes after it, and says its number to each; whoever hears one
/// answers with his own.
fn many() {
    let _dog = watchdog("all to all's child", LONG * 4);
    let address = arg("address");
    let mut open = Vec::new();
    for number in 0..NODES_EACH {
        let mut config = spins(true);
        // So many threads take their time.
        config.hosts.timeout = LONG;
        let node = Node::with_config(config).unwrap();
        let listener = node.listen(&name(&format!("many-{number}"))).unwrap();
        let port = node.listen_on(&format!("{address}:0")).unwrap();
        say(&format!("{}/{}", port.address(), listener.name()));
        open.push((node, listener, port));
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut words = line.split_whitespace();
    let first: usize = words.next().unwrap().parse().unwrap();
    let addresses: Vec<&str> = words.collect();
    let before = resident_bytes();
    let kept = std::thread::scope(|scope| {
        let members: Vec<_> = open
            .iter()
            .enumerate()
            .map(|(at, (node, ..))| {
                let addresses = &addresses;
                scope.spawn(move || member(node, first + at, addresses))
            })
            .collect();
        let kept: Vec<_> = members
            .into_iter()
            .map(|member| member.join().unwrap())
            .collect();
        kept
    });
    say(&format!("done {}", resident_bytes().saturating_sub(before)));
    std::io::stdin().read_line(&mut line).unwrap();
    drop(kept);
}

/// One node, until it has heard of all others.
fn member(node: &Node, number: usize, addresses: &[&str]) -> Vec<Connection> {
    // A few at a time: two thousand at once would wait for each other longer than a greeting may take.
    let mut to_reach = addresses[number + 1..].iter();
    let mut reach_another = || {
        if let Some(address) = to_reach.next() {
            let options = ConnectOptions::default();
            node.start_connect(address, &options).unwrap();
        }
    };
    (0..3).for_each(|_| reach_another());
    let mut kept: Vec<Connection> = Vec::new();
    let mut heard = std::collections::HashSet::new();
    let mut buffer = [0; 8];
    while heard.len() + 1 < addresses.len() {
        match node.next_event(SOON).unwrap() {
            Some(Event::Request(request)) => kept.push(request.accept().unwrap()),
            Some(Event::Connected(mut connection)) => {
                connection.send(&(number as u64).to_le_bytes()).unwrap();
                kept.push(*connection);
                reach_another();
            }
            Some(Event::Ready(id)) => {
                let connection = kept.iter_mut().find(|it| it.id() == id).unwrap();
                while let Some(8) = connection.try_recv(&mut buffer).unwrap() {
                    let other = u64::from_le_bytes(buffer) as usize;
                    assert!(heard.insert(other), "{number} hears {other} twice");
                    if other < number {
                        connection.send(&(number as u64).to_le_bytes()).unwrap();
                    }
                }
            }
            other => panic!("node {number}: {other:?}"),
        }
    }
    kept
}
