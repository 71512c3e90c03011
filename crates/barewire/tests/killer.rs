//! Processes killed in the middle of traffic. What a survivor is owed: every message that
//! was sent, whole and in order, then the news of the death, then nothing.
//!
//! `BAREWIRE_KILLS` says how many are killed.

#![forbid(unsafe_code)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    Connection, Error, Event, Node, NodeConfig, Receiver, Sender, Spin, StreamReader, StreamWriter,
};
use barewire_shm::Window;
use barewire_sys::process::open_fd_count;
use barewire_units::Rng;
use common::*;

/// Words of the board.
const SENT: usize = 0;
const RECEIVED: usize = 8;
const BROKEN: usize = 16;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("victim") => victim(),
        Some("echo client") => echo_client(),
        Some("restless") => restless(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn config(ring_bytes: usize, spin: u64) -> NodeConfig {
    NodeConfig {
        ring_bytes,
        spin: match spin % 3 {
            0 => Spin::Never,
            1 => Spin::Adaptive { at_most: None },
            _ => Spin::For(Duration::from_micros(200)),
        },
        ..NodeConfig::default()
    }
}

/// Sends for ever; tells the board of each message that has been sent.
fn send_messages(sender: &mut Sender, seed: u64, how: u64, sent: &dyn Fn(u64)) -> Error {
    let mut done = 0;
    let mut buffers = vec![Vec::new(); 8];
    loop {
        let result = match how % 3 {
            0 => {
                message(seed, done, &mut buffers[0]);
                sender.send(&buffers[0]).map(|()| 1)
            }
            1 => {
                for (i, buffer) in buffers.iter_mut().enumerate() {
                    message(seed, done + i as u64, buffer);
                }
                sender.send_batch(&buffers)
            }
            _ => {
                message(seed, done, &mut buffers[0]);
                let len = buffers[0].len();
                match sender.reserve(len) {
                    Ok(Some(mut place)) => {
                        let half = len / 2;
                        place.write_at(half, &buffers[0][half..]);
                        place.write_at(0, &buffers[0][..half]);
                        place.commit(len);
                        Ok(1)
                    }
                    Ok(None) => Ok(0),
                    Err(Error::OutOfLimits { .. }) => sender.send(&buffers[0]).map(|()| 1),
                    Err(error) => Err(error),
                }
            }
        };
        match result {
            Ok(0) => thread::yield_now(),
            Ok(more) => {
                done += more as u64;
                sent(done);
            }
            // Too long to be batched on this ring.
            Err(Error::OutOfLimits { .. }) if how % 3 == 1 => {
                if let Err(error) = sender.send(&buffers[0]) {
                    return error;
                }
                done += 1;
                sent(done);
            }
            Err(error) => return error,
        }
    }
}

fn send_stream(writer: &mut StreamWriter, seed: u64, sent: &dyn Fn(u64)) -> Error {
    let mut done = 0;
    let mut bytes = Vec::new();
    loop {
        let len = 1 + mix(seed ^ done) % 3000;
        bytes.clear();
        bytes.extend((done..done + len).map(|at| stream_byte(seed, at)));
        match writer.write_timeout(&bytes, None) {
            Ok(written) => {
                done += written as u64;
                sent(done);
            }
            Err(error) => return error,
        }
    }
}

/// Receives to the end, and checks all of it; returns how much that was and how it ended.
fn receive_messages(
    node: &Node,
    receiver: &mut Receiver,
    seed: u64,
    how: u64,
    received: &dyn Fn(u64),
) -> (u64, Error) {
    let mut done = 0;
    let mut buffer = vec![0; 20_000];
    let mut into = Vec::new();
    let mut expected = Vec::new();
    let mut events = Vec::new();
    let mut check = |got: &[u8], done: &mut u64| {
        message(seed, *done, &mut expected);
        assert_eq!(got.len(), expected.len(), "length of message {done}");
        assert!(got == expected, "message {done} is corrupt");
        *done += 1;
        received(*done);
    };
    loop {
        let result = match how % 4 {
            0 => receiver.recv_timeout(&mut buffer, SOON).map(|len| {
                check(&buffer[..len.expect("in time")], &mut done);
            }),
            1 => receiver.recv_into_timeout(&mut into, SOON).map(|came| {
                assert!(came.is_some(), "in time");
                check(&into, &mut done);
            }),
            2 => receiver
                .recv_batch(7, |got| check(got, &mut done))
                .and_then(|count| {
                    if count == 0 {
                        let came = node.wait(&mut events, 8, SOON)?;
                        assert!(came > 0, "in time");
                        events.clear();
                    }
                    Ok(())
                }),
            _ => match receiver.try_recv(&mut buffer) {
                Ok(Some(len)) => {
                    check(&buffer[..len], &mut done);
                    Ok(())
                }
                Ok(None) => node.poll(&mut events, 8).map(|_| events.clear()),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = result {
            return (done, error);
        }
    }
}

fn receive_stream(reader: &mut StreamReader, seed: u64, received: &dyn Fn(u64)) -> (u64, Error) {
    let mut done = 0;
    let mut buffer = vec![0; 4000];
    loop {
        match reader.read_timeout(&mut buffer, SOON) {
            Ok(len) => {
                for byte in &buffer[..len.expect("in time")] {
                    assert_eq!(*byte, stream_byte(seed, done), "byte {done}");
                    done += 1;
                }
                received(done);
            }
            Err(error) => return (done, error),
        }
    }
}

/// Traffic both ways for ever, with everything that was sent or received written down.
fn victim() {
    let _dog = watchdog("victim", Duration::from_secs(60));
    let board = Board::open(&arg("board"));
    let (seed, how) = (arg_number("seed"), arg_number("how"));
    let node = Node::with_config(config(arg_number("ring") as usize, how)).unwrap();
    let (_listener, connection) = if arg("listens") == "true" {
        let listener = node.listen(&arg("name")).unwrap();
        let request = node.next_request(SOON).unwrap();
        (Some(listener), request.accept().unwrap())
    } else {
        (None, node.connect(&arg("name")).unwrap())
    };
    let (broken, words) = (board.clone(), board.clone());
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("victim: {info}");
        broken.atomic_store(BROKEN, 1);
    }));
    let error = traffic(&node, connection, seed, mix(seed), how, how >> 8, &words);
    // The survivor never ends it.
    eprintln!("victim: {error}");
    board.atomic_store(BROKEN, 2);
}

/// Sends sequence `out` and receives sequence `inn`, both to the end.
fn traffic(
    node: &Node,
    connection: Connection,
    out: u64,
    inn: u64,
    how_out: u64,
    how_in: u64,
    board: &Window,
) -> Error {
    let sent = |n| board.atomic_store(SENT, n);
    let received = |n| board.atomic_store(RECEIVED, n);
    thread::scope(|scope| {
        if how_out % 4 == 3 {
            let (mut reader, mut writer) = connection.into_stream().split();
            scope.spawn(move || send_stream(&mut writer, out, &sent));
            receive_stream(&mut reader, inn, &received).1
        } else {
            let (mut sender, mut receiver) = connection.split();
            scope.spawn(move || send_messages(&mut sender, out, how_out, &sent));
            receive_messages(node, &mut receiver, inn, how_in, &received).1
        }
    })
}

#[test]
fn whoever_survives_gets_all_that_was_sent() {
    let kills = number_or("BAREWIRE_KILLS", 100);
    let _dog = watchdog("killer", Duration::from_secs(60 + kills as u64));
    let seed = seed("killer");
    let fds = open_fd_count().unwrap();
    let (mut units, mut unsaid, mut nothing) = (0, 0, 0);
    let started = Instant::now();
    for kill in 0..kills {
        let rng = Rng::from_seed(seed).fork_nth("kill", kill as u64);
        let (got, reported) = one_kill(rng, kill);
        units += got;
        unsaid += got - reported;
        nothing += u64::from(got == 0);
    }
    println!(
        "{kills} kills in {:?}: {units} messages and stream bytes arrived, {unsaid} more than \
         the victims lived to report; {nothing} kills before the first",
        started.elapsed()
    );
    let after = open_fd_count().unwrap();
    assert!(after <= fds + 8, "{fds} descriptors before, {after} after");
}

/// Returns how much arrived and how much the victim had reported.
fn one_kill(mut rng: Rng, kill: usize) -> (u64, u64) {
    let what = format!("kill {kill} of {}", rng.seed());
    let name = name("killer");
    let board = Board::new();
    let mine = Board::new();
    let (out, how) = (rng.next_u64(), rng.next_u64());
    let victim_listens = rng.ratio(1, 2);
    let ring = |rng: &mut Rng| 1024 << rng.below(7);
    let (theirs, ours) = (ring(&mut rng), ring(&mut rng));
    let mut victim = spawn(
        "victim",
        &[
            ("board", &board.path()),
            ("name", &name),
            ("seed", &out.to_string()),
            ("how", &how.to_string()),
            ("ring", &theirs.to_string()),
            ("listens", &victim_listens.to_string()),
        ],
    );
    let pid = victim.pid();
    let node = Node::with_config(config(ours, rng.next_u64())).unwrap();
    let (_listener, connection) = if victim_listens {
        (None, node.connect(&name).unwrap())
    } else {
        let listener = node.listen(&name).unwrap();
        let request = node.next_request(SOON).unwrap();
        (Some(listener), request.accept().unwrap())
    };
    assert_eq!(connection.peer().pid, pid);
    let delay = Duration::from_micros(match rng.below(3) {
        0 => rng.below(200),
        1 => rng.below(2000),
        _ => rng.below(8000),
    });
    let how_in = rng.next_u64();
    let words = &mine.words;
    let inn = out;
    let back = mix(out);
    let (got, sent) = thread::scope(|scope| {
        let killer = scope.spawn(move || {
            thread::sleep(delay);
            victim.kill();
        });
        let sent = |n| words.atomic_store(SENT, n);
        let died = Error::PeerDied { pid };
        // Which way it is sent is the victim's choice; streams on one side are streams on
        // the other.
        let result = if how % 4 == 3 {
            let (mut reader, mut writer) = connection.into_stream().split();
            let sending = scope.spawn(move || send_stream(&mut writer, back, &sent));
            let (got, end) = receive_stream(&mut reader, inn, &|_| ());
            assert_eq!(end, died, "{what}");
            let mut buffer = [0; 10];
            for _ in 0..3 {
                assert_eq!(reader.try_read(&mut buffer), Err(died.clone()), "{what}");
            }
            (got, sending.join().unwrap())
        } else {
            let (mut sender, mut receiver) = connection.split();
            let sending = scope.spawn(move || send_messages(&mut sender, back, how_in, &sent));
            let (got, end) = receive_messages(&node, &mut receiver, inn, how_in >> 8, &|_| ());
            assert_eq!(end, died, "{what}");
            let mut buffer = vec![0; 20_000];
            for _ in 0..3 {
                assert_eq!(receiver.try_recv(&mut buffer), Err(died.clone()), "{what}");
                let again = receiver.recv_timeout(&mut buffer, SOON);
                assert_eq!(again, Err(died.clone()), "{what}");
            }
            (got, sending.join().unwrap())
        };
        assert_eq!(result.1, died, "{what}: what the sending side was told");
        killer.join().unwrap();
        (result.0, words.atomic_load(SENT))
    });
    let reported = board.words.atomic_load(SENT);
    assert_eq!(board.words.atomic_load(BROKEN), 0, "{what}: the victim");
    assert!(got >= reported, "{what}: {got} arrived, {reported} sent");
    let taken = board.words.atomic_load(RECEIVED);
    assert!(taken <= sent + 9000, "{what}: {taken} taken, {sent} sent");
    (got, reported)
}

/// Sends a number and waits for it to come back, again and again.
fn echo_client() {
    let _dog = watchdog("echo client", Duration::from_secs(120));
    let node = Node::with_config(spins(true)).unwrap();
    let mut connection = node.connect(&arg("name")).unwrap();
    say("connected");
    let stop = AtomicBool::new(false);
    let (count, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            stop.store(true, Ordering::SeqCst);
        });
        let (mut out, mut back) = (Vec::new(), Vec::new());
        while !stop.load(Ordering::SeqCst) {
            let number = count.fetch_add(1, Ordering::SeqCst);
            message(5, number, &mut out);
            let started = Instant::now();
            connection.sender().send_timeout(&out, SOON).unwrap();
            assert!(
                connection
                    .receiver()
                    .recv_into_timeout(&mut back, SOON)
                    .unwrap()
                    .is_some()
            );
            assert!(out == back, "message {number} came back changed");
            longest.fetch_max(started.elapsed().as_nanos() as u64, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(200));
        }
    });
    let (count, longest) = (count.into_inner(), longest.into_inner());
    say(&format!("{count} {longest}"));
}

/// Connects, sends and closes again and again, over new links and old.
fn restless() {
    let _dog = watchdog("restless", Duration::from_secs(60));
    let name = arg("name");
    say("begins");
    loop {
        let node = Node::with_config(spins(true)).unwrap();
        for _ in 0..5 {
            let Ok(mut connection) = node.connect(&name) else {
                continue;
            };
            let _ = connection.send(b"for a moment");
        }
    }
}

/// A server that echoes, in one thread, until told to stop.
fn echo_server(node: &Node, stop: &AtomicBool) {
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::new();
    let mut buffer = vec![0; 20_000];
    while !stop.load(Ordering::SeqCst) {
        let tick = Some(Duration::from_millis(20));
        node.wait(&mut events, 16, tick).unwrap();
        for event in events.drain(..) {
            match event {
                Event::Request(request) => {
                    if let Ok(connection) = request.accept() {
                        let at = connection.id().index();
                        connections.resize_with(connections.len().max(at + 1), || None);
                        connections[at] = Some(connection);
                    }
                }
                Event::Ready(id) => {
                    let Some(connection) = connections[id.index()].as_mut() else {
                        continue;
                    };
                    let ended = loop {
                        match connection.try_recv(&mut buffer) {
                            Ok(Some(len)) => {
                                let out = connection.sender();
                                if out.send_timeout(&buffer[..len], SOON).is_err() {
                                    break true;
                                }
                            }
                            Ok(None) => break false,
                            Err(_) => break true,
                        }
                    };
                    if ended {
                        connections[id.index()] = None;
                    }
                }
                Event::Closed { connection, .. } => connections[connection.index()] = None,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_third_party_is_not_disturbed() {
    let _dog = watchdog("third party", Duration::from_secs(120));
    let mut rng = Rng::from_seed(seed("third party"));
    let name = name("third");
    let node = Node::with_config(spins(true)).unwrap();
    let _listener = node.listen(&name).unwrap();
    let stop = AtomicBool::new(false);
    let before = open_fd_count().unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| echo_server(&node, &stop));
        let mut bystander = spawn("echo client", &[("name", &name)]);
        assert_eq!(bystander.hear(), "connected");
        for i in 0..40 {
            let role = if i % 2 == 0 {
                "echo client"
            } else {
                "restless"
            };
            let mut victim = spawn(role, &[("name", &name)]);
            victim.hear();
            thread::sleep(Duration::from_micros(rng.below(20_000)));
            victim.kill();
        }
        bystander.tell("stop");
        let said = bystander.hear();
        let (count, longest) = said.split_once(' ').unwrap();
        let longest = Duration::from_nanos(longest.parse().unwrap());
        println!("bystander: {count} round trips, the longest {longest:?}");
        assert!(count.parse::<u64>().unwrap() > 100);
        assert!(longest < Duration::from_secs(2));
        assert_eq!(bystander.end(), Some(0));
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::SeqCst);
        serving.join().unwrap();
    });
    // The children's pipes are gone; another test's may be there.
    println!(
        "{before} descriptors before, {} after",
        open_fd_count().unwrap()
    );
}
