//! A server and a client on two hosts: the first sends every message back, the second measures how long that takes.
//!
//! ```sh
//! cargo run --release --example two_hosts -- serve 0.0.0.0:7400      # on one host
//! cargo run --release --example two_hosts -- call HOST:7400/echo     # on another
//! cargo run --release --example two_hosts                            # both here, as if on two hosts
//! ```
//!
//! Both hosts need keys first: `barewire node keygen --secret` on one, and the file that it names copied to the other.
//! With `--libfabric` on both sides, the link moves to libfabric.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use barewire::{Error, HostsConfig, Node, NodeConfig, Policy, Security, Transport};
use barewire::{ListenOptions, Spin};
use barewire_carrier::tls::{GenerateOptions, generate};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_libfabric = arguments.iter().any(|argument| argument == "--libfabric");
    arguments.retain(|argument| argument != "--libfabric");
    let transport = match is_libfabric {
        true => Transport::Libfabric { provider: None },
        false => Transport::Stream,
    };
    // The keys are where `barewire node keygen` puts them.
    let hosts = |folder| HostsConfig {
        security: Security::Keys { folder },
        transport: transport.clone(),
        ..HostsConfig::default()
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(hosts(None), address, |_| {}),
        ["call", name] => call(hosts(None), name),
        [] => demonstrate(hosts),
        _ => Err("usage: two_hosts [serve ADDRESS | call HOST:PORT/NAME] [--libfabric]".into()),
    }
}

/// Serves for ever, under the name `echo`, at this address.
fn serve(hosts: HostsConfig, address: &str, ready: impl FnOnce(String)) -> Result {
    let node = node(hosts)?;
    // Whoever has proved to be a host that we trust may connect.
    let policy = Policy::anyone();
    let _listener = node.listen_with("echo", ListenOptions { policy })?;
    let port = node.listen_on(address)?;
    println!("serving {}/echo", port.address());
    ready(format!("{}/echo", port.address()));
    loop {
        let mut connection = node.next_request(None)?.accept()?;
        let remote = connection.remote();
        println!(
            "from {}",
            remote.map_or("this host".to_owned(), |peer| peer.address)
        );
        thread::spawn(move || {
            let mut message = Vec::new();
            while connection.receiver().recv_into(&mut message).is_ok() {
                if connection.send(&message).is_err() {
                    return;
                }
            }
        });
    }
}

/// Measures round trips to a name on another host.
fn call(hosts: HostsConfig, name: &str) -> Result {
    let node = node(hosts)?;
    let mut connection = node.connect(name)?;
    match connection.remote() {
        Some(peer) => println!(
            "connected to {} ({}), over {}, {}",
            peer.address,
            peer.identity.name,
            peer.transport,
            if peer.is_encrypted {
                "encrypted"
            } else {
                "not encrypted"
            }
        ),
        None => println!("connected in shared memory: it is on this host"),
    }
    let mut answer = vec![0; 65_536];
    for size in [8, 512, 4096, 65_536] {
        let message = vec![7; size];
        let mut round_trips = Vec::new();
        for _ in 0..2000 {
            let begin = Instant::now();
            connection.send(&message)?;
            let len = connection.recv(&mut answer)?;
            round_trips.push(begin.elapsed());
            if answer[..len] != message[..] {
                return Err("the answer is another one".into());
            }
        }
        round_trips.sort();
        println!("{size:>6} bytes there and back: {:?}", round_trips[1000]);
    }
    connection.finish();
    match connection.recv(&mut answer) {
        Err(Error::Finished) => Ok(()),
        other => Err(format!("not the end: {other:?}").into()),
    }
}

fn node(hosts: HostsConfig) -> Result<Node> {
    Ok(Node::with_config(NodeConfig {
        hosts,
        // Both ends poll for a while: an answer comes after some ten microseconds.
        spin: Spin::For(Duration::from_micros(200)),
        ..NodeConfig::default()
    })?)
}

/// Both ends in this process, with a secret that is made for it.
fn demonstrate(hosts: impl Fn(Option<PathBuf>) -> HostsConfig) -> Result {
    let folder = std::env::temp_dir().join(format!("barewire-two-hosts-{}", std::process::id()));
    let options = GenerateOptions {
        is_secret: true,
        name: "two-hosts".to_owned(),
        replace: false,
    };
    generate(&folder, &options)?;
    let hosts = || HostsConfig {
        // Otherwise the two nodes would find out that they are on one host.
        shortcut: false,
        ..hosts(Some(folder.clone()))
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let serving = hosts();
    thread::spawn(move || serve(serving, "127.0.0.1:0", |name| drop(sender.send(name))));
    let called = receiver.recv_timeout(Duration::from_secs(10));
    let outcome = called
        .map_err(Into::into)
        .and_then(|name| call(hosts(), &name));
    std::fs::remove_dir_all(&folder)?;
    outcome
}
