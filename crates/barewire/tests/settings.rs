//! Settings of a live node, changed from another process and from this one: that they hold, who
//! may, and what becomes of a request that nobody takes.

#![forbid(unsafe_code)]

mod common;

use std::time::Duration;

use barewire::settings::{AskError, NodeAddress, ask};
use barewire::{ConnectOptions, Error, Node, NodeConfig, Spin};
use barewire_shm::counters::CounterView;
use barewire_sys::discover::{find_counter_pages, open_counter_page};
use barewire_sys::process::own_credentials;
use common::*;

/// Where the only node of a process is found.
fn address_of(pid: i32) -> NodeAddress {
    let pages = find_counter_pages().into_iter();
    let found = pages.filter(|page| page.pid == pid).find_map(|page| {
        let region = open_counter_page(page.pid, page.fd_number).ok()?;
        Some(CounterView::open(&region)?.identity().node_id)
    });
    let node_id = found.expect("a node");
    NodeAddress { pid, node_id }
}

fn value(settings: &[barewire::settings::Setting], key: &str) -> String {
    let found = settings.iter().find(|setting| setting.key == key);
    found.expect("a setting").value.clone()
}

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("sleeper") => sleeper(),
        Some("idler") => idler(),
        Some("spinner") => spinner(),
        Some("stranger") => stranger(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

/// Sleeps in its node until it is ended.
fn sleeper() {
    let node = Node::with_config(spins(true)).unwrap();
    say("ready");
    let _dog = watchdog("sleeper", Duration::from_secs(60));
    node.next_event(None).unwrap();
}

/// Does nothing with its node until it is told to; says what a setting is then.
fn idler() {
    let node = Node::with_config(spins(true)).unwrap();
    say("ready");
    let _dog = watchdog("idler", Duration::from_secs(60));
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let started = std::time::Instant::now();
    while value(&node.settings(), "backlog_max") != "7" && started.elapsed() < LONG {
        node.next_event(Duration::from_millis(10)).unwrap();
    }
    say(&value(&node.settings(), "backlog_max"));
}

/// Spins in one wait that has no end of its own.
fn spinner() {
    let node = Node::with_config(NodeConfig {
        spin: Spin::Forever,
        ..NodeConfig::default()
    });
    let node = node.unwrap();
    say("ready");
    let _dog = watchdog("spinner", Duration::from_secs(60));
    node.next_event(None).unwrap();
}

fn stranger() {
    let node = NodeAddress {
        pid: arg_number("pid") as i32,
        node_id: [arg_number("low"), arg_number("high")],
    };
    let asked = ask(node, &[("backlog_max", "3")], LONG);
    say(&format!("{asked:?}"));
}

#[test]
fn a_sleeping_node_of_another_process_takes_it_at_once() {
    let _dog = watchdog("sleeping", Duration::from_secs(60));
    let child = spawn("sleeper", &[]);
    assert_eq!(child.hear(), "ready");
    let node = address_of(child.pid());
    let before = ask(node, &[], LONG).unwrap();
    assert_eq!(value(&before, "spin"), "never");
    let after = ask(node, &[("spin", "30us"), ("backlog_max", "5")], LONG).unwrap();
    assert_eq!(value(&after, "spin"), "30000ns");
    assert_eq!(value(&after, "backlog_max"), "5");
    // And it stands.
    assert_eq!(ask(node, &[], LONG).unwrap(), after);
}

#[test]
fn a_bad_value_is_refused_with_the_reason_and_changes_nothing() {
    let _dog = watchdog("bad value", Duration::from_secs(60));
    let child = spawn("sleeper", &[]);
    assert_eq!(child.hear(), "ready");
    let node = address_of(child.pid());
    let before = ask(node, &[], LONG).unwrap();
    for (key, bad, reason) in [
        ("spin", "soon", "not a time"),
        ("ring_bytes", "5000", "power of two"),
        ("connections_max", "4294967295", "allowed:"),
        ("lock_memory", "true", "fixed when the node is made"),
        ("colour", "red", "these can be set: spin, ring_bytes"),
        ("capture", "on", "without a capture file"),
    ] {
        let refused = ask(node, &[("backlog_max", "9"), (key, bad)], LONG);
        let Err(AskError::Refused(said)) = refused else {
            panic!("{key}={bad}: {refused:?}");
        };
        assert!(said.contains(reason) && said.contains(key), "{said}");
    }
    assert_eq!(ask(node, &[], LONG).unwrap(), before);
}

#[test]
fn who_is_not_polled_is_said_not_to_be_and_takes_it_later() {
    let _dog = watchdog("not polled", Duration::from_secs(60));
    let mut child = spawn("idler", &[]);
    assert_eq!(child.hear(), "ready");
    let node = address_of(child.pid());
    let waited = Duration::from_millis(20);
    let asked = ask(node, &[("backlog_max", "7")], waited);
    assert_eq!(asked, Err(AskError::NotPolled { waited }));
    child.tell("poll");
    assert_eq!(child.hear(), "7");
}

#[test]
fn a_thread_that_spins_without_end_stops_when_it_is_told() {
    let _dog = watchdog("spinning", Duration::from_secs(60));
    let child = spawn("spinner", &[]);
    assert_eq!(child.hear(), "ready");
    ask(address_of(child.pid()), &[("spin", "never")], LONG).unwrap();
    // In the kernel, and not for want of a processor.
    let is_asleep = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid())).unwrap();
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('S'))
        })
    };
    eventually("all threads sleep", || (0..20).all(|_| is_asleep()));
}

#[test]
fn strangers_are_turned_away() {
    if own_credentials().uid != 0 {
        return skip(
            "strangers_are_turned_away",
            "not root, so it can not become other users",
        );
    }
    let _dog = watchdog("strangers", Duration::from_secs(60));
    let child = spawn_as("sleeper", &[], Some((54_321, 54_321)));
    assert_eq!(child.hear(), "ready");
    let node = address_of(child.pid());
    let (pid, [low, high]) = (
        node.pid.to_string(),
        node.node_id.map(|half| half.to_string()),
    );
    let args = [("pid", &*pid), ("low", &*low), ("high", &*high)];
    let stranger = spawn_as("stranger", &args, Some((54_322, 54_322)));
    assert_eq!(stranger.hear(), "Err(TurnedAway)");
    let own = spawn_as("stranger", &args, Some((54_321, 54_321)));
    assert!(own.hear().starts_with("Ok("));
    // Root looks after everybody's.
    let settings = ask(node, &[], LONG).unwrap();
    assert_eq!(value(&settings, "backlog_max"), "3");
}

#[test]
fn the_dead_and_who_is_another_are_told() {
    let _dog = watchdog("dead", Duration::from_secs(60));
    let mut child = spawn("sleeper", &[]);
    assert_eq!(child.hear(), "ready");
    let node = address_of(child.pid());
    let other = NodeAddress { pid: 1, ..node };
    let asked = ask(other, &[], LONG);
    let found = child.pid();
    assert_eq!(asked, Err(AskError::Stranger { expected: 1, found }));
    child.kill();
    assert_eq!(ask(node, &[], LONG), Err(AskError::NotHere));
}

#[test]
fn limits_hold_for_what_comes_next() {
    let _dog = watchdog("limits", Duration::from_secs(60));
    let (server, client) = (Node::new().unwrap(), Node::new().unwrap());
    let name = name("limits");
    let _listener = server.listen(&name).unwrap();
    server
        .set(&[("message_bytes_max", "3000"), ("ring_bytes", "8192")])
        .unwrap();
    let accepting = std::thread::spawn(move || {
        let connection = server.next_request(SOON).unwrap().accept().unwrap();
        (server, connection)
    });
    let mut connection = client.connect(&name).unwrap();
    let (server, accepted) = accepting.join().unwrap();
    let error = connection.try_send(&[0; 3001]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooLong {
                max_bytes: 3000,
                ..
            }
        ),
        "{error:?}"
    );
    // The old connection keeps what was agreed.
    server.set(&[("message_bytes_max", "9000")]).unwrap();
    assert!(connection.try_send(&[0; 3001]).is_err());
    assert!(connection.try_send(&[0; 3000]).unwrap());
    assert_eq!(connection.sender().reserve_bytes_max(), 2048 - 64);

    client.set(&[("connections_max", "1")]).unwrap();
    let error = client
        .connect_with(&name, &ConnectOptions::default())
        .unwrap_err();
    assert!(
        matches!(error, Error::LimitReached { limit: 1, .. }),
        "{error:?}"
    );
    drop(accepted);
}
