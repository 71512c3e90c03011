//! Long messages between hosts go from where the sender has them to where the receiver wants them, and arrive as others do:
//! whole, once, in order, whatever else is under way and however they are received. Over TCP and TLS on the loopback
//! interface.

#![forbid(unsafe_code)]

mod common;

use std::thread;
use std::time::Duration;

use barewire::{Connection, Error, HostsConfig, Node, NodeConfig, Receiver, Security, Sender};
use barewire_carrier::tls::{GenerateOptions, generate};
use barewire_sys::lan::Lan;
use barewire_units::Rng;
use common::*;

/// Two nodes that take each other for strangers, and both ends of `count` connections.
fn connected(of: &str, config: &NodeConfig, count: usize) -> ([Node; 2], Vec<[Connection; 2]>) {
    let node = || Node::with_config(config.clone()).unwrap();
    let (server, client) = (node(), node());
    let listener = server.listen(&name(of)).unwrap();
    let port = server.listen_on("127.0.0.1:0").unwrap();
    let address = format!("{}/{}", port.address(), listener.name());
    let ends = (0..count).map(|_| {
        thread::scope(|scope| {
            let opened = scope.spawn(|| client.connect(&address).unwrap());
            let accepted = server.next_request(SOON).unwrap().accept().unwrap();
            [opened.join().unwrap(), accepted]
        })
    });
    let ends = ends.collect();
    ([server, client], ends)
}

/// A message whose bytes say which one it is.
fn fill(len: usize, number: u64) -> Vec<u8> {
    let word = |at: usize| mix(number ^ (at as u64) << 32).to_le_bytes();
    (0..len.div_ceil(8)).flat_map(word).take(len).collect()
}

/// Lengths around those from which on something is done in another way: messages go directly out, and directly in, take
/// two frames, and do not go directly any more.
fn telling_lengths() -> Vec<usize> {
    let frame = (256 << 10) / 4 - 64;
    let around = |len: usize| len - 2..len + 3;
    let around_all = [1024, 4096, frame, 1 << 16, 2 * frame, (128 << 10) - 4096];
    around_all.into_iter().flat_map(around).collect()
}

#[test]
fn every_length_arrives_in_every_buffer() {
    let _dog = watchdog("direct, lengths", LONG);
    let (_nodes, mut ends) = connected("direct-lengths", &patient(), 1);
    let [mut one, mut other] = ends.pop().unwrap();
    let lengths = telling_lengths();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 20];
            while let Ok(len) = other.recv(&mut buffer) {
                other.send(&buffer[..len]).unwrap();
            }
        });
        let mut number = 0;
        for more_bytes in [0, 1, 40, 100, 1 << 16] {
            for &len in &lengths {
                // The second one finds that the one before was long.
                for _ in 0..2 {
                    number += 1;
                    let message = fill(len, number);
                    one.send(&message).unwrap();
                    let mut buffer = vec![0; len + more_bytes];
                    assert_eq!(one.recv(&mut buffer), Ok(len), "+ {more_bytes}");
                    assert!(buffer[..len] == message[..], "{len} + {more_bytes}");
                }
            }
        }
        one.finish();
    });
}

#[test]
fn a_message_that_does_not_fit_stays() {
    let _dog = watchdog("direct, too small", LONG);
    let (_nodes, mut ends) = connected("direct-small", &patient(), 1);
    let [mut one, mut other] = ends.pop().unwrap();
    let mut buffer = vec![0; 1 << 17];
    for (number, len) in telling_lengths().into_iter().enumerate() {
        let message = fill(len, number as u64);
        // After this one the next is expected to be alike.
        one.send(&message).unwrap();
        assert_eq!(other.recv(&mut buffer), Ok(len));
        one.send(&message).unwrap();
        let short = other.recv(&mut buffer[..len - 1]);
        let too_small = Error::BufferTooSmall {
            needed_bytes: len,
            buffer_bytes: len - 1,
        };
        assert_eq!(short, Err(too_small));
        buffer.fill(0);
        assert_eq!(other.recv(&mut buffer), Ok(len));
        assert!(buffer[..len] == message[..], "{len}");
    }
}

#[test]
fn whoever_reads_late_gets_all() {
    let _dog = watchdog("direct, late", LONG);
    let (_nodes, mut ends) = connected("direct-late", &patient(), 2);
    let mut buffer = vec![0; 1 << 17];
    for (of, [one, other]) in ends.iter_mut().enumerate() {
        for round in 0..20 {
            let len = [5000, 40_000, 70_000, 120_000][round % 4];
            let number = |at: usize| (of * 1000 + round * 100 + at) as u64;
            one.send(&fill(len, number(0))).unwrap();
            let mut message = fill(len, number(1));
            let mut sent = 1;
            while one.try_send(&message).unwrap() {
                // No memory of the sender's is used after the call.
                message.fill(0);
                sent += 1;
                message = fill(len, number(sent));
            }
            for at in 0..sent {
                assert_eq!(other.recv(&mut buffer), Ok(len));
                assert!(buffer[..len] == fill(len, number(at))[..], "{at} of {sent}");
            }
            // Whoever looks for more returns credit.
            assert_eq!(other.try_recv(&mut buffer), Ok(None));
        }
    }
}

/// Mostly long ones.
fn random_len(rng: &mut Rng) -> usize {
    let most = [20, 2000, 9000, 70_000, 135_000][rng.below(5) as usize];
    rng.below(most) as usize
}

fn send_somehow(rng: &mut Rng, to: &mut Sender, message: &[u8]) {
    match rng.below(4) {
        0 => to.send_timeout(message, SOON).unwrap(),
        1 if message.len() <= to.try_send_bytes_max() => {
            while !to.try_send(message).unwrap() {
                thread::yield_now();
            }
        }
        2 => {
            while to.send_batch(&[message]).map_or(0, |sent| sent) == 0 {
                if message.len() > to.try_send_bytes_max() {
                    return to.send(message).unwrap();
                }
                thread::yield_now();
            }
        }
        _ => to.send(message).unwrap(),
    }
}

fn receive_somehow(rng: &mut Rng, from: &mut Receiver, into: &mut Vec<u8>) {
    into.resize(140_000, 0);
    let received = match rng.below(5) {
        0 => loop {
            match from.try_recv(into).unwrap() {
                Some(len) => break Ok(len),
                None => thread::yield_now(),
            }
        },
        1 => from.recv_into(into),
        2 => {
            let len = rng.below(10_000) as usize;
            match from.recv(&mut into[..len]) {
                Err(Error::BufferTooSmall { .. }) => from.recv(into),
                other => other,
            }
        }
        3 => loop {
            // Perhaps nothing has come, or a part.
            match from.recv_timeout(into, Duration::from_micros(50)) {
                Ok(None) => {}
                other => break other.map(Option::unwrap_or_default),
            }
        },
        _ => from.recv(into),
    };
    into.truncate(received.unwrap());
}

/// Messages of random lengths go over several connections of one link in both directions, in random order, and are sent
/// and received in random ways, by a thread for each end.
fn mixed(of: &str, config: &NodeConfig, messages: u64) {
    let seed = seed(of);
    let (_nodes, ends) = connected(of, config, 3);
    thread::scope(|scope| {
        for (at, end) in ends.into_iter().flatten().enumerate() {
            // Both ends of a connection send the same, and expect it.
            let stream = mix(seed ^ at as u64 / 2);
            let (mut sender, mut receiver) = end.split();
            let of = move |number: u64| {
                let mut rng = Rng::from_seed(mix(stream ^ number));
                fill(random_len(&mut rng), stream ^ number)
            };
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed ^ at as u64 ^ 1 << 20);
                for number in 0..messages {
                    send_somehow(&mut rng, &mut sender, &of(number));
                }
                sender
            });
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed ^ at as u64 ^ 2 << 20);
                let mut into = Vec::new();
                for number in 0..messages {
                    receive_somehow(&mut rng, &mut receiver, &mut into);
                    assert!(into == of(number), "{at}: message {number}");
                }
                receiver
            });
        }
    });
}

#[test]
fn everything_arrives_whatever_else_is_under_way() {
    let _dog = watchdog("direct, mixed", LONG);
    mixed("direct-mixed", &patient(), 300);
}

#[test]
fn everything_arrives_though_the_kernel_takes_little_at_a_time() {
    let _dog = watchdog("direct, little", LONG);
    let limited = Lan::pair().and_then(|lan| {
        lan.hosts[0].net.enter()?;
        // Of this namespace only. Threads that are started from here are in it, too.
        for limits in ["tcp_wmem", "tcp_rmem"] {
            std::fs::write(format!("/proc/sys/net/ipv4/{limits}"), "4096 9000 9000")?;
        }
        Ok(lan)
    });
    match limited {
        Ok(_lan) => mixed("direct-little", &patient(), 40),
        Err(error) => skip(
            "everything_arrives_though_the_kernel_takes_little_at_a_time",
            &format!("a network namespace with limits of its own needs root: {error}"),
        ),
    }
}

#[test]
fn everything_arrives_over_tls() {
    let _dog = watchdog("direct, TLS", LONG);
    let folder = std::env::temp_dir().join(name("direct-keys"));
    let options = GenerateOptions {
        is_secret: true,
        name: "direct".to_owned(),
        replace: false,
    };
    generate(&folder, &options).unwrap();
    let config = NodeConfig {
        hosts: HostsConfig {
            security: Security::Keys {
                folder: Some(folder.clone()),
            },
            ..patient().hosts
        },
        ..NodeConfig::default()
    };
    mixed("direct-tls", &config, 100);
    std::fs::remove_dir_all(folder).unwrap();
}
