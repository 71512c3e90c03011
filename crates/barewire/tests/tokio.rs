//! Async code on tokio: messages and streams between tasks and processes, with back-pressure,
//! death of the peer, and futures that are dropped at any moment without a loss.

#![forbid(unsafe_code)]

mod common;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use ::tokio::runtime::{Builder, Runtime};
use ::tokio::time::{sleep, timeout};
use barewire::tokio::{AsyncConnection, AsyncNode, Events};
use barewire::{Action, ApertureConfig, ConnectOptions, Error, Event, Memory, Mode, Node, Rights};
use barewire_units::Rng;
use common::*;
use futures_util::{SinkExt, StreamExt};

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Runs it with one thread, then with two, each within a time that only a hang exceeds.
fn in_both<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for runtime in [one_thread(), two_threads()] {
        let done = runtime.block_on(async { timeout(3 * LONG, test()).await });
        done.expect("in time");
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("in time")
}

struct Pair {
    a: AsyncNode,
    b: AsyncNode,
    to_b: AsyncConnection,
    to_a: AsyncConnection,
    events_of_a: Events,
    events_of_b: Events,
}

/// Two nodes and a connection between them.
async fn pair() -> Pair {
    let name = name("async");
    let (a, events_of_a) = AsyncNode::with_events(Node::new().unwrap()).unwrap();
    let (b, events_of_b) = AsyncNode::with_events(Node::new().unwrap()).unwrap();
    let _listener = a.listen(&name).unwrap();
    let accepting = async { a.accept(a.next_request().await.unwrap()).unwrap() };
    let (to_b, to_a) = ::tokio::join!(accepting, async { b.connect(&name).await.unwrap() });
    Pair {
        a,
        b,
        to_b,
        to_a,
        events_of_a,
        events_of_b,
    }
}

#[test]
fn messages_of_all_lengths_come_back() {
    in_both(|| async {
        let Pair { to_b, mut to_a, .. } = pair().await;
        let echo = ::tokio::spawn(async move {
            let (sink, stream) = to_b.split();
            stream.forward(sink).await.unwrap();
        });
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for number in 0..600 {
            message(5, number, &mut out);
            soon(to_a.send(&out)).await.unwrap();
            assert_eq!(soon(to_a.recv_into(&mut back)).await, Ok(out.len()));
            assert!(out == back, "message {number}");
        }
        let huge = vec![7; 1_000_000];
        let sending = SinkExt::<Vec<u8>>::send(&mut to_a, huge.clone());
        soon(sending).await.unwrap();
        assert_eq!(soon(to_a.next()).await, Some(Ok(huge)));
        soon(to_a.finish()).await.unwrap();
        assert_eq!(soon(to_a.next()).await, None, "the other end finished, too");
        assert_eq!(soon(to_a.next()).await, None);
        soon(echo).await.unwrap();
    });
}

#[test]
fn many_connections_share_a_node() {
    in_both(|| async {
        const CLIENTS: usize = 40;
        let name = name("async-many");
        let server = AsyncNode::new(Node::new().unwrap()).unwrap();
        let _listener = server.listen(&name).unwrap();
        let serving = server.clone();
        let served = ::tokio::spawn(async move {
            let mut tasks = Vec::new();
            for _ in 0..CLIENTS {
                let request = serving.next_request().await.unwrap();
                let mut connection = serving.accept(request).unwrap();
                tasks.push(::tokio::spawn(async move {
                    let (mut buffer, mut count) = ([0; 64], 0_u64);
                    while let Ok(len) = connection.recv(&mut buffer).await {
                        connection.send(&buffer[..len]).await.unwrap();
                        count += 1;
                    }
                    count
                }));
            }
            let mut all = 0;
            for task in tasks {
                all += task.await.unwrap();
            }
            all
        });
        let client = AsyncNode::new(Node::new().unwrap()).unwrap();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|i| {
                let (client, name) = (client.clone(), name.clone());
                ::tokio::spawn(async move {
                    let mut connection = client.connect(&name).await.unwrap();
                    let mut buffer = [0; 64];
                    for round in 0..100 {
                        let sent = (i * 1000 + round).to_le_bytes();
                        connection.send(&sent).await.unwrap();
                        assert_eq!(soon(connection.recv(&mut buffer)).await, Ok(8));
                        assert_eq!(buffer[..8], sent);
                    }
                })
            })
            .collect();
        for client in clients {
            soon(client).await.unwrap();
        }
        assert_eq!(soon(served).await.unwrap(), 100 * CLIENTS as u64);
    });
}

#[test]
fn a_sender_waits_for_a_slow_receiver_and_goes_on() {
    in_both(|| async {
        const COUNT: u64 = 5000;
        let Pair {
            mut to_b, mut to_a, ..
        } = pair().await;
        let sent = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&sent);
        let sending = ::tokio::spawn(async move {
            for i in 0..COUNT {
                let mut message = [0; 56];
                message[..8].copy_from_slice(&i.to_le_bytes());
                // By call and by sink in turn.
                match i % 2 {
                    0 => to_b.send(&message).await.unwrap(),
                    _ => SinkExt::<&[u8]>::send(&mut to_b, &message).await.unwrap(),
                }
                counting.store(i + 1, Ordering::SeqCst);
            }
            to_b.finish().await.unwrap();
        });
        sleep(Duration::from_millis(50)).await;
        let stopped_at = sent.load(Ordering::SeqCst);
        assert!(
            (16..64).contains(&stopped_at),
            "{stopped_at} in a ring of 4 KiB"
        );
        sleep(Duration::from_millis(50)).await;
        assert_eq!(sent.load(Ordering::SeqCst), stopped_at);
        for i in 0..COUNT {
            let message = soon(to_a.next()).await.unwrap().unwrap();
            assert_eq!(message[..8], i.to_le_bytes());
            if i % 500 == 0 {
                sleep(Duration::from_millis(2)).await;
            }
        }
        assert_eq!(soon(to_a.next()).await, None);
        soon(sending).await.unwrap();
    });
}

#[test]
fn streams_carry_bytes_until_they_are_shut_down() {
    in_both(|| async {
        let Pair { to_b, to_a, .. } = pair().await;
        let (mut near, far) = (to_b.into_stream(), to_a.into_stream());
        let echo = ::tokio::spawn(async move {
            let (mut read, mut write) = ::tokio::io::split(far);
            let copied = ::tokio::io::copy(&mut read, &mut write).await.unwrap();
            write.shutdown().await.unwrap();
            copied
        });
        let data: Vec<u8> = (0..1_500_000).map(|at| stream_byte(3, at)).collect();
        let expected = data.clone();
        assert_eq!(near.write(&[]).await.unwrap(), 0);
        let (mut read, mut write) = ::tokio::io::split(near);
        let writing = ::tokio::spawn(async move {
            for piece in data.chunks(777) {
                write.write_all(piece).await.unwrap();
            }
            write.flush().await.unwrap();
            write.shutdown().await.unwrap();
            let error = write.write(b"more").await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
        });
        let mut got = Vec::new();
        soon(read.read_to_end(&mut got)).await.unwrap();
        assert!(got == expected);
        assert_eq!(soon(echo).await.unwrap(), expected.len() as u64);
        soon(writing).await.unwrap();
    });
}

#[test]
fn the_death_of_a_peer_is_told_after_what_it_sent() {
    in_both(|| async {
        let name = name("async-death");
        let (node, mut events) = AsyncNode::with_events(Node::new().unwrap()).unwrap();
        let _listener = node.listen(&name).unwrap();
        let mut puppet = spawn("puppet", &[]);
        for _ in 0..2 {
            puppet.tell(&format!("connect {name}"));
        }
        let mut receiving = node
            .accept(soon(node.next_request()).await.unwrap())
            .unwrap();
        let mut sending = node
            .accept(soon(node.next_request()).await.unwrap())
            .unwrap();
        let id = receiving.id();
        puppet.hear();
        puppet.hear();
        puppet.tell("send 0 7 0 5");
        let pid = receiving.peer().pid;
        let blocked = ::tokio::spawn(async move {
            loop {
                if let Err(error) = sending.send(&[0; 500]).await {
                    return error;
                }
            }
        });
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        soon(receiving.recv_into(&mut got)).await.unwrap();
        message(7, 0, &mut expected);
        assert!(got == expected);
        let waiting = ::tokio::task::spawn_blocking(move || {
            let said = puppet.hear();
            puppet.kill();
            said
        });
        for number in 1..5 {
            // So that the last are taken when it is dead.
            sleep(Duration::from_millis(20)).await;
            soon(receiving.recv_into(&mut got)).await.unwrap();
            message(7, number, &mut expected);
            assert!(got == expected, "message {number}");
        }
        let died = Error::PeerDied { pid };
        assert_eq!(soon(receiving.recv_into(&mut got)).await, Err(died.clone()));
        assert_eq!(soon(receiving.next()).await, Some(Err(died.clone())));
        assert_eq!(soon(receiving.next()).await, None);
        assert_eq!(soon(receiving.send(b"x")).await, Err(died.clone()));
        assert_eq!(soon(blocked).await.unwrap(), died);
        loop {
            match soon(events.next()).await.unwrap() {
                Event::Closed { connection, reason } if connection == id => {
                    assert_eq!(reason, died);
                    break;
                }
                Event::Closed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(waiting.await.unwrap(), "ok ");
    });
}

/// Polls a future at most so many times, then drops it.
async fn at_most<T>(polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let (mut left, mut future) = (polls, Box::pin(future));
    let outcome = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if left == 1 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    });
    let outcome = outcome.await;
    if outcome.is_none() {
        drop(future);
        ::tokio::task::yield_now().await;
    }
    outcome
}

/// Receives and sends, each given up at random again and again.
#[test]
fn futures_that_are_dropped_lose_nothing_and_repeat_nothing() {
    let seed = seed("cancel");
    in_both(|| async move {
        const COUNT: u64 = 400;
        let Pair {
            mut to_b, mut to_a, ..
        } = pair().await;
        let mut rng = Rng::from_seed(seed);
        let sending = ::tokio::spawn(async move {
            let (mut out, mut number, mut cut) = (Vec::new(), 0, 0);
            while number < COUNT {
                message(9, number, &mut out);
                let flushed = at_most(1 + rng.below(3), to_b.flush()).await;
                if flushed.is_none() {
                    cut += 1;
                    continue;
                }
                assert!(to_b.is_flushed());
                match at_most(1 + rng.below(3), to_b.send(&out)).await {
                    Some(sent) => {
                        sent.unwrap();
                        number += 1;
                    }
                    // Not sent, or begun: the rest of it goes out with the next.
                    None => {
                        cut += 1;
                        number += u64::from(!to_b.is_flushed());
                    }
                }
            }
            to_b.finish().await.unwrap();
            cut
        });
        let mut rng = Rng::from_seed(!seed);
        let (mut got, mut expected, mut number, mut cut) = (Vec::new(), Vec::new(), 0, 0);
        loop {
            let receiving = to_a.recv_into(&mut got);
            let Some(received) = at_most(1 + rng.below(3), receiving).await else {
                cut += 1;
                continue;
            };
            match received {
                Ok(_) => {}
                Err(Error::Finished) => break,
                Err(error) => panic!("{error}"),
            }
            message(9, number, &mut expected);
            assert!(got == expected, "message {number}");
            number += 1;
            if rng.below(20) == 0 {
                sleep(Duration::from_micros(rng.below(2000))).await;
            }
        }
        let cut_sending = soon(sending).await.unwrap();
        println!("{cut} receives and {cut_sending} sends were given up");
        assert_eq!(number, COUNT);
        assert!(cut > 20 && cut_sending > 20, "nothing was tested");
    });
}

/// What a sink has taken goes out, though the future that waited for it was dropped.
#[test]
fn a_sink_keeps_what_it_has_taken() {
    in_both(|| async {
        let Pair {
            mut to_b, mut to_a, ..
        } = pair().await;
        let mut taken = 0_u64;
        loop {
            let long = [taken as u8; 900];
            let sending = SinkExt::<&[u8]>::send(&mut to_b, &long);
            let in_time = timeout(Duration::from_millis(20), sending).await;
            taken += 1;
            if in_time.is_err() {
                break;
            }
            assert!(taken < 100, "no back-pressure");
        }
        let receiving = ::tokio::spawn(async move {
            let mut got = 0_u64;
            while let Some(message) = to_a.next().await {
                assert_eq!(message.unwrap(), [got as u8; 900]);
                got += 1;
            }
            got
        });
        soon(SinkExt::<&[u8]>::close(&mut to_b)).await.unwrap();
        assert_eq!(soon(receiving).await.unwrap(), taken);
    });
}

#[test]
fn a_flood_leaves_other_tasks_their_turn() {
    one_thread().block_on(async {
        let Pair {
            mut to_b, mut to_a, ..
        } = pair().await;
        let flood = ::tokio::spawn(async move { while to_b.send(b"flood").await.is_ok() {} });
        let reading = ::tokio::spawn(async move { while to_a.recv(&mut [0; 8]).await.is_ok() {} });
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let began = Instant::now();
            sleep(Duration::from_millis(1)).await;
            longest = longest.max(began.elapsed());
        }
        println!("a sleep of 1 ms took at most {longest:?}");
        assert!(longest < Duration::from_secs(2));
        reading.abort();
        soon(flood).await.unwrap();
    });
}

#[test]
fn connecting_waits_for_the_name_and_says_why_not() {
    in_both(|| async {
        let (first, second) = (name("async-late"), name("async-late"));
        let node = AsyncNode::new(Node::new().unwrap()).unwrap();
        let at_once = ConnectOptions {
            wait_for_name: false,
            ..ConnectOptions::default()
        };
        let error = node.connect_with(&first, &at_once).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchName { .. }), "{error}");
        let briefly = ConnectOptions {
            timeout: Duration::from_millis(50),
            ..ConnectOptions::default()
        };
        let error = node.connect_with(&first, &briefly).await.unwrap_err();
        assert!(matches!(error, Error::NoSuchName { .. }), "{error}");

        let server = AsyncNode::new(Node::new().unwrap()).unwrap();
        let late = async {
            sleep(Duration::from_millis(30)).await;
            let listener = server.listen(&first).unwrap();
            let accepted = server.accept(server.next_request().await.unwrap()).unwrap();
            (listener, accepted)
        };
        let (connection, (listener, _accepted)) = ::tokio::join!(node.connect(&first), late);
        let connection = connection.unwrap();
        let error = server
            .adopt(node_connection(&node, &first, &server).await)
            .unwrap_err();
        assert_eq!(error, Error::OtherNode);

        let refusing = async { server.next_request().await.unwrap().reject("no room") };
        let (refused, ()) = ::tokio::join!(node.connect(&first), refusing);
        let reason = "no room".to_owned();
        assert_eq!(refused.map(drop).unwrap_err(), Error::Refused { reason });
        drop(listener);

        // Given up: the listener is told, and the link serves the next.
        let _listener = server.listen(&second).unwrap();
        let given_up = timeout(Duration::from_millis(20), node.connect(&second)).await;
        assert!(given_up.is_err());
        let next = async {
            loop {
                // One that was given up is refused, or ends.
                let request = server.next_request().await.unwrap();
                let Ok(mut accepted) = server.accept(request) else {
                    continue;
                };
                let sent = accepted.send(b"hello").await;
                if sent.is_ok() && accepted.recv(&mut [0; 8]).await == Ok(3) {
                    break;
                }
            }
        };
        let asking = async {
            let mut connection = node.connect(&second).await.unwrap();
            assert_eq!(soon(connection.recv(&mut [0; 8])).await, Ok(5));
            connection.send(b"yes").await.unwrap();
            connection
        };
        let (_connection, ()) = ::tokio::join!(asking, soon(next));
        drop(connection);
    });
}

/// A plain connection of the first node.
async fn node_connection(node: &AsyncNode, name: &str, server: &AsyncNode) -> barewire::Connection {
    let plain = node.get_ref().clone();
    let name = name.to_owned();
    let opening = ::tokio::task::spawn_blocking(move || plain.connect(&name).unwrap());
    let _accepted = server.accept(server.next_request().await.unwrap()).unwrap();
    opening.await.unwrap()
}

#[test]
fn other_events_are_handed_out_and_none_is_lost() {
    in_both(|| async {
        let pair = pair().await;
        let Pair {
            a,
            b,
            to_b,
            to_a,
            mut events_of_a,
            mut events_of_b,
        } = pair;
        assert!(to_a.get_ref().send_out_of_band(b"unheard").unwrap());
        // When enough wait, nothing is taken from the node any more, and the peer is told so.
        let (mut sent, mut refused) = (0_u64, 0);
        while refused < 100 {
            if to_b
                .get_ref()
                .send_out_of_band(&sent.to_le_bytes())
                .unwrap()
            {
                (sent, refused) = (sent + 1, 0);
            } else {
                refused += 1;
                sleep(Duration::from_millis(1)).await;
            }
            assert!(sent < 20_000, "no limit");
        }
        println!("{sent} were sent before the first was taken");
        assert!(sent >= 1024, "{sent}");
        for expected in 0..sent {
            match soon(events_of_b.next()).await.unwrap() {
                Event::OutOfBand { data, .. } => assert_eq!(data, expected.to_le_bytes()),
                other => panic!("{other:?}"),
            }
        }
        // Memory of b, which a stores into.
        let config = ApertureConfig::new(64, Rights::ReadWrite);
        let near = b.get_ref().export(config).unwrap();
        let _trap = near
            .tripwire(0, 8, Mode::Sticky, Action::Enqueue { cookie: 3 })
            .unwrap();
        to_a.get_ref().grant(&near, 1).unwrap();
        loop {
            match soon(events_of_a.next()).await.unwrap() {
                Event::Granted {
                    cookie: 1,
                    aperture,
                    ..
                } => break aperture.store(0, 7).unwrap(),
                Event::OutOfBand { data, .. } => assert_eq!(data, b"unheard"),
                other => panic!("{other:?}"),
            }
        }
        match soon(events_of_b.next()).await.unwrap() {
            Event::Tripwire {
                cookie: 3,
                aperture,
            } => assert_eq!(aperture, near.id()),
            other => panic!("{other:?}"),
        }
        // Without somebody who takes them they are dropped, and messages go on.
        drop(events_of_b);
        for _ in 0..3000 {
            near.load(0).unwrap();
            while !to_b.get_ref().send_out_of_band(b"unheard").unwrap() {
                ::tokio::task::yield_now().await;
            }
        }
        drop((a, b));
    });
}

#[test]
fn without_a_runtime_it_says_so() {
    let error = AsyncNode::new(Node::new().unwrap()).unwrap_err();
    assert_eq!(error, Error::NoRuntime);
    let first = one_thread();
    let Pair {
        a, mut to_a, to_b, ..
    } = first.block_on(pair());
    let waiting = one_thread();
    // The runtime ends in the middle of the wait.
    let receiver = WatchedThread::current();
    let ending = std::thread::spawn(move || {
        receiver.wait_until_asleep();
        drop(first);
    });
    waiting.block_on(async {
        assert_eq!(soon(to_a.recv(&mut [0; 8])).await, Err(Error::NoRuntime));
        let error = soon(a.next_request()).await.map(drop).unwrap_err();
        assert_eq!(error, Error::NoRuntime);
        let error = soon(a.connect("nobody")).await.map(drop).unwrap_err();
        assert_eq!(error, Error::NoRuntime);
    });
    ending.join().unwrap();
    drop(to_b);
}
