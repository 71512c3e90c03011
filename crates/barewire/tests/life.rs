//! How a connection ends: by death, by a halt, by exit, by another program, in good order.
//! In every case nothing that was accepted for sending is lost, and the end is told soon.

#![forbid(unsafe_code)]

mod common;

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Event, Listener, Node, NodeConfig, Spin};
use barewire_sys::process::{Signal, open_fd_count, send_signal};
use barewire_sys::wake::{Epoll, Interest};
use common::*;

/// Until when a death must be told; on an idle machine it takes far less than 10 ms.
const TOLD: Duration = Duration::from_millis(500);

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("sender") => sender(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

/// A node of ours with a connection to a puppet; the puppet's connection is its number 0.
fn with_puppet(of: &str, config: NodeConfig) -> (Node, Listener, Connection, Child) {
    let name = name(of);
    let node = Node::with_config(config).unwrap();
    let listener = node.listen(&name).unwrap();
    let mut puppet = spawn("puppet", &[]);
    puppet.tell(&format!("connect {name}"));
    let connection = node.next_request(SOON).unwrap().accept().unwrap();
    let answer = puppet.hear();
    assert!(answer.starts_with("ok"), "{answer}");
    (node, listener, connection, puppet)
}

fn config(spin: Spin) -> NodeConfig {
    NodeConfig {
        spin,
        ..NodeConfig::default()
    }
}

/// Kills while `survive` waits, several times; how long it took to be told.
fn time_of_death(
    of: &str,
    spin: Spin,
    survive: impl Fn(&Node, &mut Connection) -> Error + Sync,
) -> Duration {
    let mut took = Vec::new();
    for _ in 0..10 {
        let (node, _listener, mut connection, mut puppet) = with_puppet("death", config(spin));
        let died = Error::PeerDied { pid: puppet.pid() };
        let pid = puppet.pid();
        let killed = thread::scope(|scope| {
            let killer = scope.spawn(move || {
                thread::sleep(Duration::from_millis(10));
                let at = Instant::now();
                send_signal(pid, Signal::Kill).unwrap();
                at
            });
            let told = survive(&node, &mut connection);
            let at = Instant::now();
            assert_eq!(told, died, "{of}");
            at - killer.join().unwrap()
        });
        took.push(killed);
        assert!(killed < TOLD, "{of}: told after {killed:?}");
        // Only once; and from now on everybody says so.
        while let Some(event) = node.next_event(Some(Duration::ZERO)).unwrap() {
            assert!(!of.contains("wait()") || !matches!(event, Event::Closed { .. }));
        }
        let mut buffer = [0; 8];
        assert_eq!(connection.try_recv(&mut buffer), Err(died.clone()));
        assert_eq!(connection.try_send(b"x"), Err(died.clone()));
        assert_eq!(connection.send(b"x"), Err(died));
        puppet.kill();
    }
    let longest = *took.iter().max().unwrap();
    let middle = median(took);
    println!("death told, survivor {of}: median {middle:?}, longest {longest:?}");
    middle
}

/// The reason that comes with the end of a connection.
fn closed(node: &Node, timeout: Duration) -> Option<Error> {
    let mut events = Vec::new();
    node.wait(&mut events, 8, Some(timeout)).unwrap();
    events.into_iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn a_death_is_told_to_a_sleeper_on_the_event_queue() {
    let _dog = watchdog("death wait", Duration::from_secs(60));
    time_of_death("sleeps in wait()", Spin::Never, |node, _| {
        loop {
            if let Some(reason) = closed(node, LONG) {
                return reason;
            }
        }
    });
}

#[test]
fn a_death_is_told_to_a_sleeping_receiver() {
    let _dog = watchdog("death recv", Duration::from_secs(60));
    time_of_death("sleeps in recv()", Spin::Never, |_, connection| {
        connection.recv(&mut [0; 8]).unwrap_err()
    });
    time_of_death("waits in recv(), default", config_default(), |_, c| {
        c.recv(&mut [0; 8]).unwrap_err()
    });
}

fn config_default() -> Spin {
    NodeConfig::default().spin
}

#[test]
fn a_death_is_told_to_a_blocked_sender() {
    let _dog = watchdog("death send", Duration::from_secs(60));
    time_of_death("sleeps in send()", Spin::Never, |_, connection| {
        loop {
            if let Err(error) = connection.send(&[1; 500]) {
                return error;
            }
        }
    });
}

#[test]
fn a_death_is_told_through_an_epoll_set_of_ones_own() {
    let _dog = watchdog("death epoll", Duration::from_secs(60));
    for (how, interest) in [("level", Interest::READ), ("edge", Interest::READ_EDGE)] {
        let of = format!("sleeps in its own epoll, {how}");
        time_of_death(&of, Spin::Never, |node, _| {
            let epoll = Epoll::new().unwrap();
            epoll.add(node.as_fd(), 1, interest).unwrap();
            let (mut ready, mut events) = (Vec::new(), Vec::new());
            loop {
                while node.poll(&mut events, 8).unwrap() > 0 {}
                for event in events.drain(..) {
                    if let Event::Closed { reason, .. } = event {
                        return reason;
                    }
                }
                ready.clear();
                epoll.wait(&mut ready, SOON).unwrap();
                assert!(!ready.is_empty(), "slept through it");
            }
        });
    }
}

#[test]
fn a_death_is_told_to_who_spins() {
    let _dog = watchdog("death spin", Duration::from_secs(120));
    time_of_death("spins in recv()", Spin::Forever, |_, connection| {
        connection.recv(&mut [0; 8]).unwrap_err()
    });
    time_of_death("spins in wait()", Spin::Forever, |node, _| {
        loop {
            if let Some(reason) = closed(node, LONG) {
                return reason;
            }
        }
    });
    time_of_death("calls poll() for ever", Spin::Never, |node, _| {
        let mut events = Vec::new();
        loop {
            node.poll(&mut events, 8).unwrap();
            for event in events.drain(..) {
                if let Event::Closed { reason, .. } = event {
                    return reason;
                }
            }
        }
    });
    time_of_death("calls try_recv() for ever", Spin::Never, |_, connection| {
        let started = Instant::now();
        loop {
            if let Err(error) = connection.try_recv(&mut [0; 8]) {
                return error;
            }
            assert!(started.elapsed() < LONG, "never told");
        }
    });
    time_of_death("calls try_send() for ever", Spin::Never, |_, connection| {
        let started = Instant::now();
        loop {
            if let Err(error) = connection.try_send(&[0; 100]) {
                return error;
            }
            assert!(started.elapsed() < LONG, "never told");
        }
    });
}

/// What /proc says that a process does.
fn state_of(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn a_halted_peer_pushes_back_and_goes_on_with_nothing_lost() {
    let _dog = watchdog("halt", Duration::from_secs(60));
    for spin in [Spin::Never, NodeConfig::default().spin] {
        let (node, _listener, mut connection, mut puppet) = with_puppet("halt", config(spin));
        puppet.tell("echo 0");
        puppet.signal(Signal::Stop);
        eventually("it has halted", || state_of(puppet.pid()) == Some('T'));
        let mut out = Vec::new();
        let mut sent = 0;
        loop {
            message(1, sent, &mut out);
            out.truncate(900);
            match connection.try_send(&out).unwrap() {
                true => sent += 1,
                false => break,
            }
        }
        assert!(sent > 0);
        let short = Some(Duration::from_millis(30));
        let before = Instant::now();
        let error = connection.sender().send_timeout(&out, short);
        assert_eq!(error, Err(Error::Timeout));
        let took = before.elapsed();
        assert!(took >= Duration::from_millis(30) && took < LONG, "{took:?}");
        assert_eq!(connection.try_send(&out), Ok(false), "still full");
        let mut buffer = [0; 1000];
        let got = connection.receiver().recv_timeout(&mut buffer, short);
        assert_eq!(got, Ok(None));
        assert!(node.next_event(Some(Duration::ZERO)).is_ok());
        assert!(!matches!(
            closed(&node, Duration::from_millis(30)),
            Some(Error::PeerDied { .. })
        ));

        let (pid, sender) = (puppet.pid(), WatchedThread::current());
        let going_on = thread::spawn(move || {
            sender.wait_until_asleep();
            send_signal(pid, Signal::Cont).unwrap();
        });
        // One that has to wait for the peer to go on.
        connection.sender().send_timeout(b"last", SOON).unwrap();
        going_on.join().unwrap();
        for i in 0..sent {
            let len = connection.receiver().recv_timeout(&mut buffer, SOON);
            let len = len.unwrap().expect("in time");
            message(1, i, &mut out);
            out.truncate(900);
            assert!(buffer[..len] == out, "message {i}");
        }
        let len = connection.receiver().recv_timeout(&mut buffer, SOON);
        assert_eq!(&buffer[..len.unwrap().unwrap()], b"last");
        connection.finish();
        assert_eq!(puppet.hear(), format!("ok {}", sent + 1));
    }
}

#[test]
fn a_long_message_that_times_out_half_sent_closes_its_half_only() {
    let _dog = watchdog("half sent", Duration::from_secs(60));
    let (_node, _listener, mut connection, mut puppet) =
        with_puppet("half-sent", NodeConfig::default());
    let short = Some(Duration::from_millis(20));
    let error = connection.sender().send_timeout(&[7; 100_000], short);
    assert_eq!(error, Err(Error::Timeout));
    assert_eq!(connection.try_send(b"more"), Err(Error::Closed));
    let ends = puppet.must("ends 0");
    assert_eq!(
        ends, "Err(PeerGone)",
        "half a message is not an orderly end"
    );
    puppet.must("send 0 3 0 5");
    let (mut got, mut expected) = (Vec::new(), Vec::new());
    for i in 0..5 {
        assert!(
            connection
                .receiver()
                .recv_into_timeout(&mut got, SOON)
                .unwrap()
                .is_some()
        );
        message(3, i, &mut expected);
        assert!(got == expected);
    }
}

#[test]
fn leaving_without_good_bye_is_a_death_after_all_that_was_sent() {
    let _dog = watchdog("exit", Duration::from_secs(60));
    for end in ["exit", "exec /bin/sleep 30"] {
        let (node, _listener, mut connection, mut puppet) =
            with_puppet("exit", NodeConfig::default());
        let pid = puppet.pid();
        puppet.tell("send 0 9 0 300");
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        // Most of it before the end, the rest after it.
        for i in 0..300 {
            if i == 298 {
                assert!(puppet.hear().starts_with("ok"));
                puppet.tell(end);
                let gone = Instant::now();
                while closed(&node, Duration::from_millis(10)) != Some(Error::PeerDied { pid }) {
                    assert!(gone.elapsed() < LONG, "{end}: not told");
                }
                println!("{end}: told after {:?}", gone.elapsed());
            }
            assert!(
                connection
                    .receiver()
                    .recv_into_timeout(&mut got, SOON)
                    .unwrap()
                    .is_some()
            );
            message(9, i, &mut expected);
            assert!(got == expected, "{end}: message {i}");
        }
        let end_told = connection.receiver().recv_into_timeout(&mut got, SOON);
        assert_eq!(end_told, Err(Error::PeerDied { pid }));
        assert_eq!(connection.send(b"x"), Err(Error::PeerDied { pid }));
        puppet.kill();
    }
}

/// How many messages of the sequence fit the default ring, unread.
fn few() -> u64 {
    let mut bytes = 0;
    (0..)
        .find(|i| {
            bytes += message_len(4, *i) + 80;
            bytes > 2000
        })
        .unwrap()
}

#[test]
fn nothing_accepted_is_lost_when_both_close_with_unread_data() {
    let _dog = watchdog("unread", Duration::from_secs(60));
    let few = few();
    assert!(few >= 2);
    // The puppet ends its side in several ways while both rings hold unread messages.
    for how in ["finish 0", "drop 0", "exit"] {
        let (node, _listener, mut connection, mut puppet) =
            with_puppet("unread", NodeConfig::default());
        let pid = puppet.pid();
        let mut out = Vec::new();
        for i in 0..few {
            message(4, i, &mut out);
            assert_eq!(connection.try_send(&out), Ok(true));
        }
        puppet.must(&format!("send 0 4 0 {few}"));
        match how {
            "exit" => {
                puppet.tell(how);
                assert_eq!(puppet.end(), Some(7));
            }
            _ => drop(puppet.must(how)),
        }
        let mut got = Vec::new();
        for i in 0..few {
            let came = connection.receiver().recv_into_timeout(&mut got, SOON);
            assert!(
                came.is_ok_and(|len| len.is_some()),
                "{how}: message {i} of {few}"
            );
            message(4, i, &mut out);
            assert!(got == out, "{how}: message {i}");
        }
        let end = connection.receiver().recv_into_timeout(&mut got, SOON);
        let send = connection.send(b"x");
        match how {
            "finish 0" => {
                assert_eq!(end, Err(Error::Finished));
                assert_eq!(send, Ok(()));
                // Its other half is as it was: all we sent is there.
                assert_eq!(puppet.must(&format!("recv 0 4 0 {few}")), "");
                connection.finish();
                assert_eq!(connection.send(b"x"), Err(Error::Closed));
                drop(connection);
                puppet.ask("ends 0"); // the x
                let ends = puppet.must("ends 0");
                assert_eq!(ends, "Err(Finished)");
            }
            "drop 0" => {
                assert_eq!(end, Err(Error::Finished));
                assert_eq!(send, Err(Error::PeerDeaf));
                assert_eq!(closed(&node, LONG), Some(Error::PeerGone));
            }
            _ => {
                assert_eq!(end, Err(Error::PeerDied { pid }));
                assert_eq!(send, Err(Error::PeerDied { pid }));
            }
        }
    }
}

#[test]
fn a_node_that_leaves_in_good_order_says_so() {
    let _dog = watchdog("good order", Duration::from_secs(60));
    let name = name("good-order");
    let node = Node::new().unwrap();
    let _listener = node.listen(&name).unwrap();
    let child = spawn("sender", &[("name", &name)]);
    let mut connection = node.next_request(SOON).unwrap().accept().unwrap();
    assert_eq!(child.hear(), "gone");
    drop(child);
    let (mut got, mut expected) = (Vec::new(), Vec::new());
    for i in 0..few() {
        assert!(
            connection
                .receiver()
                .recv_into_timeout(&mut got, SOON)
                .unwrap()
                .is_some()
        );
        message(4, i, &mut expected);
        assert!(got == expected);
    }
    let end = connection.receiver().recv_into_timeout(&mut got, SOON);
    assert_eq!(end, Err(Error::Finished));
    let gone = connection.send(b"x").unwrap_err();
    assert!(
        matches!(gone, Error::PeerGone | Error::PeerDeaf),
        "not a death: {gone:?}"
    );
}

/// Sends, and drops everything at once.
fn sender() {
    let _dog = watchdog("sender", Duration::from_secs(60));
    let node = Node::new().unwrap();
    let mut connection = node.connect(&arg("name")).unwrap();
    let mut out = Vec::new();
    for i in 0..few() {
        message(4, i, &mut out);
        connection.send(&out).unwrap();
    }
    drop(connection);
    drop(node);
    say("gone");
}

fn listing(dir: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

fn abstract_names(of: &str) -> usize {
    let text = std::fs::read_to_string("/proc/net/unix").unwrap();
    text.lines().filter(|line| line.contains(of)).count()
}

#[test]
fn the_killed_leave_nothing_behind() {
    let _dog = watchdog("nothing", Duration::from_secs(60));
    let dirs = ["/dev/shm", "/tmp", "/run", "/var/tmp"];
    let before: Vec<_> = dirs.iter().map(|dir| listing(dir)).collect();
    let name = name("left-behind");
    let node = Node::new().unwrap();
    let fds = open_fd_count().unwrap();
    for _ in 0..10 {
        let mut listening = spawn("puppet", &[]);
        listening.must(&format!("listen {name}"));
        assert!(abstract_names(&name) > 0, "it is a name in /proc/net/unix");
        listening.tell("accept");
        let mut connection = node.connect(&name).unwrap();
        assert!(listening.hear().starts_with("ok"));
        listening.must("send 0 1 0 1");
        listening.kill();
        assert_eq!(abstract_names(&name), 0);
        let mut got = Vec::new();
        assert!(
            connection
                .receiver()
                .recv_into_timeout(&mut got, SOON)
                .unwrap()
                .is_some()
        );
        let end = connection.receiver().recv_into_timeout(&mut got, SOON);
        assert!(matches!(end, Err(Error::PeerDied { .. })), "{end:?}");
    }
    for (dir, before) in dirs.iter().zip(before) {
        let new = listing(dir);
        let new: Vec<_> = new.difference(&before).collect();
        let ours: Vec<_> = new
            .iter()
            .filter(|n| *dir == "/dev/shm" || n.contains("barewire") || n.contains("memfd"))
            .collect();
        assert!(ours.is_empty(), "left in {dir}: {ours:?}");
    }
    // Each child's two pipes are closed with it; other tests run beside this one.
    println!(
        "{fds} descriptors before, {} after",
        open_fd_count().unwrap()
    );
    // The name can be had again.
    drop(node.listen(&name).unwrap());
}

mod bounds {
    //! What may cross threads, told by the compiler.
    use barewire::*;

    const fn send<T: Send>() {}
    const fn sync<T: Sync>() {}

    const _: () = {
        send::<Node>();
        sync::<Node>();
        send::<Listener>();
        send::<Request>();
        send::<Event>();
        send::<Connection>();
        send::<Sender>();
        send::<Receiver>();
        send::<Stream>();
        send::<StreamReader>();
        send::<StreamWriter>();
        send::<SharedSender>();
        sync::<SharedSender>();
        send::<Aperture>();
        sync::<Aperture>();
        send::<RemoteAperture>();
        sync::<RemoteAperture>();
        send::<Tripwire>();
        send::<Error>();
        sync::<Error>();
    };

    /// Ambiguous, and so refused by the compiler, for a type that is `Sync`.
    trait NotSync<A> {
        const IS_SO: () = ();
    }
    struct Sure;
    impl<T: ?Sized> NotSync<()> for T {}
    impl<T: ?Sized + Sync> NotSync<Sure> for T {}

    const _: () = <Connection as NotSync<_>>::IS_SO;
}

/// Answers each message of every client, as the server in the README does, until `stop` is heard.
fn serve(node: &Node) -> barewire::Result<()> {
    let mut connections: HashMap<_, Connection> = HashMap::new();
    let (mut events, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        node.wait(&mut events, 64, SOON)?;
        assert!(!events.is_empty(), "nobody comes any more");
        for event in events.drain(..) {
            match event {
                Event::Request(request) => {
                    if let Ok(connection) = request.accept() {
                        connections.insert(connection.id(), connection);
                    }
                }
                Event::Ready(id) => {
                    let Some(connection) = connections.get_mut(&id) else {
                        continue;
                    };
                    let answered = match connection.try_recv(&mut buffer) {
                        Ok(Some(len)) if &buffer[..len] == b"stop" => return Ok(()),
                        Ok(Some(len)) => connection.send(&buffer[..len]),
                        Ok(None) => Ok(()),
                        Err(error) => Err(error),
                    };
                    if answered.is_err() {
                        connections.remove(&id);
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_server_outlives_clients_that_leave_without_their_answers() {
    let name = name("rude");
    let server = Node::new().unwrap();
    let _listener = server.listen(&name).unwrap();
    let serving = thread::spawn(move || serve(&server));
    // Killed, after a request that nobody has answered yet.
    let mut puppet = spawn("puppet", &[]);
    puppet.tell(&format!("connect {name}"));
    assert!(puppet.hear().starts_with("ok"));
    send_signal(puppet.pid(), Signal::Kill).unwrap();
    // Gone in good order, with answers under way.
    let client = Node::new().unwrap();
    let mut connection = client.connect(&name).unwrap();
    for _ in 0..20 {
        connection.send(b"question").unwrap();
    }
    drop((connection, client));
    let client = Node::new().unwrap();
    let mut connection = client.connect(&name).unwrap();
    connection.send(b"question").unwrap();
    let mut answer = [0; 64];
    assert_eq!(connection.recv(&mut answer).unwrap(), 8);
    connection.send(b"stop").unwrap();
    serving.join().unwrap().unwrap();
}
