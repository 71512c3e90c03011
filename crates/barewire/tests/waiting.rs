//! Waiting: the node's descriptor in other event loops, many threads on one node, the spin
//! modes; no wake-up is lost, few are unneeded, and who waits idle uses no processor time.
// tidy: long file: every way to wait, one after another

#![forbid(unsafe_code)]

mod common;

use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Connection, Error, Event, Node, NodeConfig, Spin};
use barewire_sys::process::cpu_time_self;
use barewire_sys::wake::{Epoll, Interest};
use barewire_units::Rng;
use common::*;
use rustix::event::{PollFd, PollFlags, Timespec};

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("idler") => idler(),
        Some("pinger") => pinger(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

const FIVE: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

fn config(spin: Spin) -> NodeConfig {
    NodeConfig {
        spin,
        ..NodeConfig::default()
    }
}

/// Sends numbers on several connections, each when the last has come back, with pauses of
/// all lengths between.
fn pinger() {
    let _dog = watchdog("pinger", Duration::from_secs(100));
    let mut rng = Rng::from_seed(arg_number("seed"));
    let node = Node::with_config(spins(true)).unwrap();
    let mut connections: Vec<_> = (0..4)
        .map(|_| node.connect(&arg("name")).unwrap())
        .collect();
    let mut buffer = [0; 8];
    for round in 0..arg_number("rounds") {
        let at = rng.index(connections.len());
        let connection = &mut connections[at];
        connection.send(&round.to_le_bytes()).unwrap();
        let came = connection.receiver().recv_timeout(&mut buffer, SOON);
        if came != Ok(Some(8)) || buffer != round.to_le_bytes() {
            say(&format!("round {round}: {came:?}"));
            return;
        }
        match rng.below(8) {
            0 => thread::sleep(Duration::from_micros(rng.below(300))),
            1..=3 => (0..rng.below(2000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }
    say("all came back");
}

/// Answers pings; what an event loop of whatever kind calls when the node is readable.
#[derive(Default)]
struct Answerer {
    connections: Vec<Option<Connection>>,
    events: Vec<Event>,
    answered: u64,
    closed: usize,
    calls: u64,
    unneeded: u64,
}

impl Answerer {
    /// Polls until nothing is left. `true` when the peer has gone.
    fn turn(&mut self, node: &Node) -> bool {
        self.calls += 1;
        let mut found = 0;
        loop {
            found += node.poll(&mut self.events, 16).unwrap();
            if self.events.is_empty() {
                break;
            }
            for event in std::mem::take(&mut self.events) {
                self.handle(event);
            }
        }
        self.unneeded += u64::from(found == 0);
        self.closed == 4
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(request) => {
                let connection = request.accept().unwrap();
                let at = connection.id().index();
                let len = self.connections.len().max(at + 1);
                self.connections.resize_with(len, || None);
                self.connections[at] = Some(connection);
            }
            Event::Ready(id) => {
                let connection = self.connections[id.index()].as_mut().unwrap();
                let mut buffer = [0; 8];
                while let Ok(Some(len)) = connection.try_recv(&mut buffer) {
                    assert!(connection.try_send(&buffer[..len]).unwrap());
                    self.answered += 1;
                }
            }
            Event::Closed { .. } => self.closed += 1,
            other => panic!("{other:?}"),
        }
    }

    fn report(&self, how: &str, rounds: u64) {
        println!(
            "{how}: {rounds} events, {} wake-ups, {} unneeded",
            self.calls, self.unneeded
        );
        assert_eq!(self.answered, rounds);
        assert!(
            self.unneeded <= rounds / 20 + 20,
            "{} wake-ups unneeded",
            self.unneeded
        );
    }
}

/// Runs a pinger against a loop that blocks in `block` while nothing is there.
fn answer_with(how: &str, mut block: impl FnMut(&Node)) {
    let rounds = 5000_u64;
    let name = name("waiting");
    let node = Node::with_config(spins(true)).unwrap();
    let _listener = node.listen(&name).unwrap();
    let _ = node.as_fd();
    let args = [
        ("name", name.as_str()),
        ("rounds", &rounds.to_string()),
        ("seed", &seed(how).to_string()),
    ];
    let mut pinger = spawn("pinger", &args);
    let mut answerer = Answerer::default();
    while !answerer.turn(&node) {
        block(&node);
    }
    assert_eq!(pinger.hear(), "all came back", "{how}");
    answerer.report(how, rounds);
    // When the peer is gone for good, nothing more: not readable, not once.
    assert_eq!(pinger.end(), Some(0));
    while node.poll(&mut Vec::new(), 16).unwrap() > 0 {}
    let mut fds = [PollFd::new(&node, PollFlags::IN)];
    let tenth = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let ready = rustix::event::poll(&mut fds, Some(&tenth)).unwrap();
    assert_eq!(ready, 0, "{how}: readable without an event");
}

#[test]
fn with_poll() {
    let _dog = watchdog("poll", Duration::from_secs(100));
    answer_with("poll", |node| {
        let mut fds = [PollFd::new(node, PollFlags::IN)];
        let ready = rustix::event::poll(&mut fds, Some(&FIVE)).unwrap();
        assert_eq!(ready, 1, "lost");
    });
}

#[test]
fn with_epoll_level_and_edge() {
    let _dog = watchdog("epoll", Duration::from_secs(100));
    for (how, interest) in [
        ("epoll, level", Interest::READ),
        ("epoll, edge", Interest::READ_EDGE),
    ] {
        let mut epoll = None;
        let mut ready = Vec::new();
        answer_with(how, |node| {
            let epoll = epoll.get_or_insert_with(|| {
                let epoll = Epoll::new().unwrap();
                epoll.add(node, 1, interest).unwrap();
                epoll
            });
            ready.clear();
            let five = Some(Duration::from_secs(5));
            epoll.wait(&mut ready, five).unwrap();
            assert_eq!(ready.len(), 1, "lost");
        });
    }
}

/// With `select` of another program, since ours can be called from unsafe code only: the
/// descriptor is the same open file there.
#[test]
fn with_select() {
    let _dog = watchdog("select", Duration::from_secs(100));
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|p| p.status.success()) {
        return skip("with_select", "no python3, whose select() is used");
    }
    const SELECTS: &str = "
import select, sys
fd = int(sys.argv[1])
for line in sys.stdin:
    ready, _, _ = select.select([fd], [], [], 5)
    print(len(ready), flush=True)
";
    let mut helper: Option<std::process::Child> = None;
    answer_with("select", |node| {
        use std::io::{BufRead, BufReader, Write};
        let helper = helper.get_or_insert_with(|| {
            let fd = node.as_fd().try_clone_to_owned().unwrap();
            rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
            Command::new("python3")
                .args(["-c", SELECTS, &fd.as_raw_fd().to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        });
        writeln!(helper.stdin.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        // Not buffered beyond the line: one is written for each asked for.
        let mut out = BufReader::with_capacity(16, helper.stdout.as_mut().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "1", "lost");
    });
    let mut helper = helper.unwrap();
    drop(helper.stdin.take());
    helper.wait().unwrap();
}

#[test]
fn with_tokio() {
    let _dog = watchdog("tokio", Duration::from_secs(100));
    for (how, runtime) in [
        (
            "tokio, one thread",
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build(),
        ),
        (
            "tokio, two threads",
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build(),
        ),
    ] {
        let runtime = runtime.unwrap();
        let rounds = 5000_u64;
        let name = name("tokio");
        let node = Node::with_config(spins(true)).unwrap();
        let _listener = node.listen(&name).unwrap();
        let args = [
            ("name", name.as_str()),
            ("rounds", &rounds.to_string()),
            ("seed", &seed(how).to_string()),
        ];
        let pinger = spawn("pinger", &args);
        let answering = async move {
            #[allow(
                deprecated,
                reason = "its successor is unsafe; Node keeps its descriptor"
            )]
            let readable = tokio::io::unix::AsyncFd::new(node).unwrap();
            let mut answerer = Answerer::default();
            loop {
                if answerer.turn(readable.get_ref()) {
                    return answerer;
                }
                let five = Duration::from_secs(5);
                let guard = tokio::time::timeout(five, readable.readable()).await;
                let mut guard = guard.expect("lost").unwrap();
                // Readiness is taken back only if nothing came after it was told.
                if answerer.turn(readable.get_ref()) {
                    return answerer;
                }
                guard.clear_ready();
            }
        };
        let answerer = runtime.block_on(async { tokio::spawn(answering).await.unwrap() });
        assert_eq!(pinger.hear(), "all came back", "{how}");
        println!(
            "{how}: {rounds} events, {} turns, {} of them unneeded",
            answerer.calls, answerer.unneeded
        );
        assert_eq!(answerer.answered, rounds);
    }
}

/// A connection between two nodes of this process.
fn pair(a: &Node, b: &Node, name: &str) -> (Connection, Connection) {
    let listener = a.listen(name).unwrap();
    let pair = thread::scope(|scope| {
        let other = scope.spawn(|| b.connect(name).unwrap());
        let ours = a.next_request(SOON).unwrap().accept().unwrap();
        (ours, other.join().unwrap())
    });
    drop(listener);
    pair
}

#[test]
fn a_blocking_call_does_not_swallow_what_makes_the_descriptor_readable() {
    let _dog = watchdog("swallow", Duration::from_secs(100));
    for spin in [Spin::Never, Spin::For(Duration::from_millis(1))] {
        let (a, b) = (Node::with_config(config(spin)), Node::new());
        let (a, b) = (a.unwrap(), b.unwrap());
        let (mut x, mut far_x) = pair(&a, &b, &name("swallow-x"));
        let (mut y, mut far_y) = pair(&a, &b, &name("swallow-y"));
        for round in 0..200 {
            let _ = a.as_fd();
            let mut events = Vec::new();
            while a.poll(&mut events, 8).unwrap() > 0 {}
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_micros(300));
                    far_x.send(b"event").unwrap();
                    thread::sleep(Duration::from_micros(round % 5 * 100));
                    far_y.send(b"call").unwrap();
                });
                let mut buffer = [0; 8];
                let got = y.receiver().recv_timeout(&mut buffer, SOON);
                assert_eq!(got, Ok(Some(4)));
                // Until it is seen to be empty, it is an event in each poll.
                assert_eq!(y.try_recv(&mut buffer), Ok(None));
            });
            let mut fds = [PollFd::new(&a, PollFlags::IN)];
            let ready = rustix::event::poll(&mut fds, Some(&FIVE)).unwrap();
            assert_eq!(ready, 1, "{spin:?}, round {round}: the event of x is lost");
            let mut came = false;
            while a.poll(&mut events, 8).unwrap() > 0 {}
            for event in events.drain(..) {
                came |= matches!(event, Event::Ready(id) if id == x.id());
            }
            assert!(came, "{spin:?}, round {round}");
            while x.try_recv(&mut [0; 8]).unwrap().is_some() {}
        }
    }
}

/// Polls that do not fall asleep see what comes, and the one that does sees what came right before it.
#[test]
fn polls_that_stay_awake_see_events_and_the_last_one_arms_the_descriptor() {
    let _dog = watchdog("awake", Duration::from_secs(100));
    let (a, b) = (Node::new().unwrap(), Node::new().unwrap());
    let (mut near, mut far) = pair(&a, &b, &name("awake"));
    let _ = a.as_fd();
    let mut events = Vec::new();
    let mut take = |awake: bool| {
        let found = match awake {
            true => a.poll_awake(&mut events, 8).unwrap(),
            false => a.poll(&mut events, 8).unwrap(),
        };
        let mut taken = 0;
        for event in events.drain(..) {
            assert!(
                matches!(event, Event::Ready(id) if id == near.id()),
                "{event:?}"
            );
            while near.try_recv(&mut [0; 8]).unwrap().is_some() {
                taken += 1;
            }
        }
        (found, taken)
    };
    for round in 0..200 {
        far.send(b"awake").unwrap();
        let mut taken = 0;
        while taken == 0 {
            taken = take(true).1;
        }
        assert_eq!(taken, 1, "round {round}");
        // Perhaps it comes before the last poll, perhaps behind it.
        let sent_first = round % 2 == 0;
        if sent_first {
            far.send(b"before").unwrap();
        }
        let mut taken = 0;
        loop {
            let (found, more) = take(false);
            taken += more;
            if found == 0 && taken == usize::from(sent_first) {
                break;
            }
        }
        if !sent_first {
            far.send(b"behind").unwrap();
            let mut fds = [PollFd::new(&a, PollFlags::IN)];
            let ready = rustix::event::poll(&mut fds, Some(&FIVE)).unwrap();
            assert_eq!(ready, 1, "round {round}: nothing woke it");
            let mut taken = 0;
            while taken == 0 {
                taken = take(true).1;
            }
            assert_eq!(taken, 1, "round {round}");
        }
    }
}

/// What became of `far` echoing until its peer finishes.
fn echo(mut far: Connection) {
    let mut buffer = [0; 64];
    loop {
        match far.receiver().recv_timeout(&mut buffer, SOON) {
            Ok(Some(len)) => far.sender().send_timeout(&buffer[..len], SOON).unwrap(),
            Ok(None) => panic!("lost"),
            Err(error) => return assert_eq!(error, Error::Finished),
        }
    }
}

/// Pings from one thread per connection, all of one node, to threads of one other node.
fn many_threads(spin: Spin, threads: usize, rounds: u64, pauses: bool) {
    let how = format!("{threads} threads, {spin:?}");
    let seed = seed(&how);
    let a = Node::with_config(config(spin)).unwrap();
    let b = Node::with_config(config(spin)).unwrap();
    let pairs: Vec<_> = (0..threads)
        .map(|_| pair(&a, &b, &name("threads")))
        .collect();
    let longest = AtomicU64::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for (i, (mut near, far)) in pairs.into_iter().enumerate() {
            scope.spawn(move || echo(far));
            let longest = &longest;
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed).fork_nth("thread", i as u64);
                let mut buffer = [0; 64];
                for round in 0..rounds {
                    let began = Instant::now();
                    near.send(&round.to_le_bytes()).unwrap();
                    let got = near.receiver().recv_timeout(&mut buffer, SOON);
                    assert_eq!(got, Ok(Some(8)), "thread {i}, round {round}");
                    assert_eq!(buffer[..8], round.to_le_bytes());
                    let took = began.elapsed().as_nanos() as u64;
                    longest.fetch_max(took, Ordering::Relaxed);
                    if pauses && rng.ratio(1, 4) {
                        thread::sleep(Duration::from_micros(rng.below(200)));
                    }
                }
            });
        }
    });
    let longest = Duration::from_nanos(longest.into_inner());
    println!(
        "{how}: {rounds} rounds each in {:?}, the longest round {longest:?}",
        started.elapsed()
    );
    // A wake-up that is lost and made good by somebody else's shows here.
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

#[test]
fn many_threads_block_on_one_node() {
    let _dog = watchdog("many threads", Duration::from_secs(200));
    many_threads(Spin::Never, 2, 3000, true);
    many_threads(Spin::Never, 8, 1500, true);
    many_threads(Spin::Never, 8, 1500, false);
    many_threads(NodeConfig::default().spin, 4, 1500, true);
    many_threads(Spin::For(Duration::from_micros(50)), 3, 1500, true);
}

/// With nobody else's wake-ups to make good a lost one.
#[test]
fn two_threads_of_one_node_in_turns() {
    let _dog = watchdog("in turns", Duration::from_secs(100));
    for spin in [Spin::Never, Spin::For(Duration::from_micros(20))] {
        let mut rng = Rng::from_seed(seed("in turns"));
        let a = Node::with_config(config(spin)).unwrap();
        let b = Node::with_config(spins(true)).unwrap();
        let (near_1, mut far_1) = pair(&a, &b, &name("turns-1"));
        let (near_2, mut far_2) = pair(&a, &b, &name("turns-2"));
        let mut longest = Duration::ZERO;
        thread::scope(|scope| {
            scope.spawn(move || echo(near_1));
            scope.spawn(move || echo(near_2));
            let mut buffer = [0; 64];
            for round in 0..5000_u32 {
                // At most one message is under way; both threads mostly sleep.
                let far = if rng.ratio(1, 2) {
                    &mut far_1
                } else {
                    &mut far_2
                };
                (0..rng.below(3000)).for_each(|_| std::hint::spin_loop());
                let began = Instant::now();
                far.send(&round.to_le_bytes()).unwrap();
                let five = Some(Duration::from_secs(5));
                let got = far.receiver().recv_timeout(&mut buffer, five);
                assert_eq!(got, Ok(Some(4)), "{spin:?}: lost in round {round}");
                longest = longest.max(began.elapsed());
            }
            far_1.finish();
            far_2.finish();
        });
        println!("in turns, {spin:?}: the longest round {longest:?}");
    }
}

#[test]
fn sending_and_receiving_block_in_two_threads_of_one_connection() {
    let _dog = watchdog("both ways", Duration::from_secs(100));
    for spin in [Spin::Never, NodeConfig::default().spin] {
        let a = Node::with_config(config(spin)).unwrap();
        let b = Node::with_config(config(spin)).unwrap();
        let (near, far) = pair(&a, &b, &name("both-ways"));
        let started = Instant::now();
        thread::scope(|scope| {
            for (connection, out, inn) in [(near, 1, 2), (far, 2, 1)] {
                let (mut sender, mut receiver) = connection.split();
                scope.spawn(move || {
                    let mut message_out = Vec::new();
                    for i in 0..3000 {
                        message(out, i, &mut message_out);
                        sender.send_timeout(&message_out, SOON).unwrap();
                    }
                });
                scope.spawn(move || {
                    let (mut got, mut expected) = (Vec::new(), Vec::new());
                    for i in 0..3000 {
                        assert!(
                            receiver
                                .recv_into_timeout(&mut got, SOON)
                                .unwrap()
                                .is_some(),
                            "lost: {i}"
                        );
                        message(inn, i, &mut expected);
                        assert!(got == expected, "message {i}");
                        if i % 97 == 0 {
                            thread::sleep(Duration::from_micros(200));
                        }
                    }
                });
            }
        });
        println!("both ways, {spin:?}: {:?}", started.elapsed());
    }
}

#[test]
fn an_event_loop_and_blocked_receivers_share_a_node() {
    let _dog = watchdog("loop and receivers", Duration::from_secs(100));
    for own_loop in [true, false] {
        let a = Node::with_config(spins(true)).unwrap();
        let b = Node::with_config(spins(true)).unwrap();
        let (mut x, mut far_x) = pair(&a, &b, &name("share-x"));
        let pairs: Vec<_> = (0..3).map(|_| pair(&a, &b, &name("share"))).collect();
        let stop = AtomicBool::new(false);
        let mut far = Vec::new();
        thread::scope(|scope| {
            for (near, other) in pairs {
                scope.spawn(move || echo(near));
                far.push(other);
            }
            let (a, stop) = (&a, &stop);
            if own_loop {
                let _ = a.as_fd();
            }
            scope.spawn(move || {
                let mut events = Vec::new();
                let mut buffer = [0; 64];
                while !stop.load(Ordering::SeqCst) {
                    if own_loop {
                        // The descriptor becomes readable with what comes after this.
                        while a.poll(&mut events, 8).unwrap() > 0 {}
                    } else {
                        let five = Some(Duration::from_secs(5));
                        a.wait(&mut events, 8, five).unwrap();
                    }
                    events.clear();
                    while let Ok(Some(len)) = x.try_recv(&mut buffer) {
                        x.send(&buffer[..len]).unwrap();
                    }
                    if own_loop {
                        let mut fds = [PollFd::new(a, PollFlags::IN)];
                        rustix::event::poll(&mut fds, Some(&FIVE)).unwrap();
                    }
                }
            });
            let mut rng = Rng::from_seed(seed("share"));
            let mut longest = Duration::ZERO;
            let mut buffer = [0; 64];
            for round in 0..3000_u32 {
                let which = rng.index(far.len() + 1);
                let connection = far.get_mut(which).unwrap_or(&mut far_x);
                (0..rng.below(3000)).for_each(|_| std::hint::spin_loop());
                let began = Instant::now();
                connection.send(&round.to_le_bytes()).unwrap();
                // Longer than the loop's own 5 s: what it makes good is seen below.
                let got = connection.receiver().recv_timeout(&mut buffer, SOON);
                assert_eq!(got, Ok(Some(4)), "{which}: lost in round {round}");
                longest = longest.max(began.elapsed());
            }
            println!("loop and receivers, own loop {own_loop}: longest {longest:?}");
            assert!(longest < Duration::from_secs(4), "lost for {longest:?}");
            stop.store(true, Ordering::SeqCst);
            far_x.send(b"stop").unwrap();
            for connection in &mut far {
                connection.finish();
            }
        });
    }
}

/// A death is told to every thread that waits on the node, however they wait.
#[test]
fn a_death_wakes_all_threads_of_a_node() {
    let _dog = watchdog("all threads", Duration::from_secs(100));
    for spin in [Spin::Never, Spin::For(Duration::from_millis(3))] {
        for _ in 0..15 {
            let name = name("all-threads");
            let node = Node::with_config(config(spin)).unwrap();
            let _listener = node.listen(&name).unwrap();
            let mut puppet = spawn("puppet", &[]);
            let mut connections = Vec::new();
            for _ in 0..4 {
                puppet.tell(&format!("connect {name}"));
                connections.push(node.next_request(SOON).unwrap().accept().unwrap());
                assert!(puppet.hear().starts_with("ok"));
            }
            let died = Error::PeerDied { pid: puppet.pid() };
            let took: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = connections
                    .into_iter()
                    .enumerate()
                    .map(|(i, mut connection)| {
                        let died = died.clone();
                        scope.spawn(move || {
                            let mut buffer = [0; 64];
                            let end = match i {
                                0 => connection.recv(&mut buffer).unwrap_err(),
                                1 => loop {
                                    if let Err(error) = connection.send(&buffer) {
                                        break error;
                                    }
                                },
                                2 => loop {
                                    let some = Some(Duration::from_millis(7));
                                    let got = connection.receiver().recv_timeout(&mut buffer, some);
                                    if let Err(error) = got {
                                        break error;
                                    }
                                },
                                _ => connection.import(SOON).unwrap_err(),
                            };
                            assert_eq!(end, died, "thread {i}");
                            Instant::now()
                        })
                    })
                    .collect();
                thread::sleep(Duration::from_millis(5));
                let killed = Instant::now();
                puppet.kill();
                let ends = threads.into_iter().map(|t| t.join().unwrap() - killed);
                ends.collect()
            });
            let longest = took.iter().max().unwrap();
            assert!(*longest < Duration::from_secs(2), "{spin:?}: {took:?}");
        }
    }
}

#[test]
fn a_server_that_is_always_busy_still_hears_of_new_clients_and_deaths() {
    let _dog = watchdog("always busy", Duration::from_secs(100));
    let name = name("always-busy");
    let node = Node::with_config(spins(true)).unwrap();
    let _listener = node.listen(&name).unwrap();
    let mut first = spawn("puppet", &[]);
    first.tell(&format!("connect {name}"));
    let mut connection = node.next_request(SOON).unwrap().accept().unwrap();
    assert!(first.hear().starts_with("ok"));
    // One message is taken and others left, so there is an event whenever one is asked for.
    first.must("send 0 1 0 3");
    assert!(connection.try_recv(&mut [0; 20_000]).unwrap().is_some());
    let mut second = spawn("puppet", &[]);
    second.tell(&format!("connect {name}"));
    let (mut events, mut accepted, mut died) = (Vec::new(), None, false);
    let (started, mut killed) = (Instant::now(), None);
    while !died {
        assert!(started.elapsed() < LONG, "accepted: {accepted:?}");
        assert!(node.wait(&mut events, 8, SOON).unwrap() > 0);
        for event in events.drain(..) {
            match event {
                Event::Request(request) => {
                    accepted = Some(request.accept().unwrap());
                    second.kill();
                    killed = Some(Instant::now());
                }
                Event::Closed { reason, .. } => {
                    assert_eq!(reason, Error::PeerDied { pid: second.pid() });
                    died = true;
                }
                _ => {}
            }
        }
    }
    println!(
        "always busy: death told after {:?}",
        killed.unwrap().elapsed()
    );
}

/// Waits idle in several ways and says how much processor time that took.
fn idler() {
    let _dog = watchdog("idler", Duration::from_secs(60));
    let node = Node::new().unwrap();
    let mut connection = node.connect(&arg("name")).unwrap();
    let time = Some(Duration::from_millis(300));
    let mut events = Vec::new();
    while node
        .wait(&mut events, 8, Some(Duration::from_millis(50)))
        .unwrap()
        > 0
    {}
    events.clear();
    let measure = |how: &str, wait: &mut dyn FnMut()| {
        // Spinning learns that it does not pay.
        wait();
        let before = cpu_time_self();
        let started = Instant::now();
        wait();
        let used = cpu_time_self() - before;
        assert!(started.elapsed() >= Duration::from_millis(299), "{how}");
        say(&format!("{how}: {}", used.as_micros()));
    };
    measure("wait", &mut || {
        assert_eq!(node.wait(&mut events, 8, time), Ok(0));
    });
    measure("recv", &mut || {
        let got = connection.receiver().recv_timeout(&mut [0; 8], time);
        assert_eq!(got, Ok(None));
    });
    measure("poll", &mut || {
        let _ = node.as_fd();
        while node.poll(&mut Vec::new(), 8).unwrap() > 0 {}
        let mut fds = [PollFd::new(&node, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 300_000_000,
        };
        let ready = rustix::event::poll(&mut fds, Some(&timeout)).unwrap();
        assert_eq!(ready, 0, "readable without an event");
    });
    while connection.try_send(&[0; 500]).unwrap() {}
    measure("send", &mut || {
        let sent = connection.sender().send_timeout(&[0; 500], time);
        assert_eq!(sent, Err(Error::Timeout));
    });
    say("done");
}

#[test]
fn who_waits_idle_uses_no_processor_time() {
    let _dog = watchdog("idle", Duration::from_secs(60));
    let name = name("idle");
    let node = Node::new().unwrap();
    let _listener = node.listen(&name).unwrap();
    let idler = spawn("idler", &[("name", &name)]);
    let _connection = node.next_request(SOON).unwrap().accept().unwrap();
    loop {
        let said = idler.hear();
        if said == "done" {
            break;
        }
        println!("processor time of 300 ms of {said} µs");
        let micros: u64 = said.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(micros < 10_000, "{said}");
    }
}

#[test]
fn all_spin_modes_work() {
    let _dog = watchdog("spin modes", Duration::from_secs(100));
    for spin in [
        Spin::Never,
        Spin::For(Duration::ZERO),
        Spin::For(Duration::from_micros(20)),
        Spin::Adaptive { at_most: None },
        Spin::Adaptive {
            at_most: Some(Duration::from_micros(30)),
        },
        Spin::Forever,
    ] {
        let name = name("spin");
        let node = Node::with_config(config(spin)).unwrap();
        let _listener = node.listen(&name).unwrap();
        let mut puppet = spawn("puppet", &[]);
        puppet.tell(&format!("connect {name}"));
        let mut connection = node.next_request(SOON).unwrap().accept().unwrap();
        assert!(puppet.hear().starts_with("ok"));
        puppet.tell("echo 0");
        let (mut out, mut back, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..500 {
            message(2, i, &mut out);
            out.truncate(900);
            let began = Instant::now();
            connection.sender().send_timeout(&out, SOON).unwrap();
            assert!(
                connection
                    .receiver()
                    .recv_into_timeout(&mut back, SOON)
                    .unwrap()
                    .is_some()
            );
            times.push(began.elapsed());
            assert!(out == back, "{spin:?}: message {i}");
        }
        // Time-outs keep to the time in all modes.
        let began = Instant::now();
        let some = Some(Duration::from_millis(20));
        let got = connection.receiver().recv_timeout(&mut [0; 8], some);
        assert_eq!(got, Ok(None), "{spin:?}");
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(20) && took < Duration::from_secs(2));
        connection.finish();
        assert_eq!(puppet.hear(), "ok 500", "{spin:?}");
        println!("{spin:?}: median round trip {:?}", median(times));
    }
}

#[test]
fn an_end_is_told_once_even_if_the_connection_is_kept() {
    let _dog = watchdog("end once", Duration::from_secs(60));
    let (a, b) = (Node::new().unwrap(), Node::new().unwrap());
    for as_stream in [false, true] {
        let (mut near, mut far) = pair(&a, &b, &name("end-once"));
        far.send(b"last words").unwrap();
        drop(far);
        let mut events = Vec::new();
        let mut buffer = [0; 64];
        while !events.iter().any(|e| matches!(e, Event::Closed { .. })) {
            assert!(a.wait(&mut events, 8, SOON).unwrap() > 0);
        }
        // Taken, with the end already there when it is looked for.
        let kept: Box<dyn std::any::Any> = if as_stream {
            let mut stream = near.into_stream();
            assert_eq!(stream.reader().try_read(&mut buffer), Ok(Some(10)));
            assert_eq!(stream.reader().try_read(&mut buffer), Ok(Some(0)));
            Box::new(stream)
        } else {
            assert_eq!(near.try_recv(&mut buffer), Ok(Some(10)));
            assert_eq!(near.try_recv(&mut buffer), Err(Error::Finished));
            Box::new(near)
        };
        events.clear();
        for _ in 0..100 {
            a.poll(&mut events, 8).unwrap();
        }
        assert!(
            events.len() < 5,
            "{} events of what has ended",
            events.len()
        );
        drop(kept);
    }
}
