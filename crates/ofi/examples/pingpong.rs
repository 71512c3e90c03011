//! Measures carriers over loopback, both sides polling, in turn: libfabric's `tcp`, plain TCP,
//! and beside them libfabric's own `fi_pingpong`, if it is installed.
//!
//! `cargo run --release -p barewire-ofi --example pingpong -- [ROUNDS [ofi:tcp | fi_pingpong | tcp]]`
//!
//! Prints medians of several rounds, and the least and the most of them: the round trip of 8 B
//! and 4 KiB in microseconds, and a stream in writes of 64 KiB in MB/s. The two sides are two
//! processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use barewire_carrier::tcp::TcpCarrier;
use barewire_carrier::{Arrival, Carrier};
use barewire_ofi::Fabric;

const TRIPS: usize = 2_000;
const WARM_UP: usize = 200;
const STREAM_BYTES: usize = 64 << 20;
const WRITE_BYTES: usize = 64 << 10;
const SIZES: [usize; 2] = [8, 4096];

fn read_exact(carrier: &mut dyn Carrier, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        match carrier.read(&mut into[at..]).expect("the other side") {
            Arrival::Bytes(count) => at += count,
            Arrival::Nothing => {}
            Arrival::End => panic!("the end"),
        }
    }
}

fn write_all(carrier: &mut dyn Carrier, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let taken = carrier.write(bytes).expect("the other side");
        bytes = &bytes[taken..];
    }
    carrier.flush().expect("the other side");
}

/// The side that answers.
fn echo(carrier: &mut dyn Carrier) {
    for size in SIZES {
        let mut buffer = vec![0; size];
        for _ in 0..WARM_UP + TRIPS {
            read_exact(carrier, &mut buffer);
            write_all(carrier, &buffer);
        }
    }
    let mut buffer = vec![0; WRITE_BYTES];
    for _ in 0..STREAM_BYTES / WRITE_BYTES {
        read_exact(carrier, &mut buffer);
    }
    write_all(carrier, &[1]);
    // Until the other side has gone.
    while let Ok(Arrival::Nothing | Arrival::Bytes(_)) = carrier.read(&mut buffer) {}
}

/// The side that measures: two round trips in microseconds, and a stream in MB/s.
fn measure(carrier: &mut dyn Carrier) -> [f64; 3] {
    let mut results = [0.0; 3];
    for (size, result) in SIZES.into_iter().zip(&mut results) {
        let mut buffer = vec![7; size];
        // The median of single trips, since another process may take a processor in between.
        let mut trips = Vec::with_capacity(WARM_UP + TRIPS);
        for _ in 0..WARM_UP + TRIPS {
            let started = Instant::now();
            write_all(carrier, &buffer);
            read_exact(carrier, &mut buffer);
            trips.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let trips = &mut trips[WARM_UP..];
        trips.sort_by(f64::total_cmp);
        *result = trips[TRIPS / 2];
    }
    let data = vec![7; WRITE_BYTES];
    let started = Instant::now();
    for _ in 0..STREAM_BYTES / WRITE_BYTES {
        let mut left = &data[..];
        while !left.is_empty() {
            left = &left[carrier.write(left).expect("the other side")..];
        }
    }
    while !carrier.flush().expect("the other side") {}
    read_exact(carrier, &mut [0]);
    results[2] = STREAM_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64();
    results
}

fn fabric() -> Fabric {
    Fabric::open(Some("tcp"), IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("libfabric")
}

/// This program again, as the other side.
fn other_side(kind: &str) -> Child {
    Command::new(std::env::current_exe().expect("a name"))
        .arg(kind)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// As the other side: over the kind of carrier that is named.
fn answer(kind: &str) {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).expect("an offer");
    if kind == "ofi" {
        let mut pending = fabric().answer(&bytes).expect("an offer");
        loop {
            if let Some(mut carrier) = pending.poll().expect("a connection") {
                return echo(&mut carrier);
            }
        }
    }
    let address = String::from_utf8(bytes).expect("an address");
    let stream = TcpStream::connect(address).expect("a connection");
    echo(&mut TcpCarrier::new(stream).expect("a carrier"));
}

fn over_ofi() -> [f64; 3] {
    let (mut offer, bytes) = fabric().offer().expect("an offer");
    let mut child = other_side("ofi");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&bytes).expect("a process");
    drop(input);
    let mut carrier = loop {
        if let Some(carrier) = offer.poll().expect("a connection") {
            break carrier;
        }
    };
    let results = measure(&mut carrier);
    drop(carrier);
    child.wait().expect("its end");
    results
}

fn over_tcp() -> [f64; 3] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let mut child = other_side("tcp");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(address.as_bytes()).expect("a process");
    drop(input);
    let (stream, _) = listener.accept().expect("a connection");
    let mut carrier = TcpCarrier::new(stream).expect("a carrier");
    let results = measure(&mut carrier);
    drop(carrier);
    child.wait().expect("its end");
    results
}

/// libfabric's own program: its round trips, and the rate of its messages of 64 KiB, which it
/// sends one by one.
fn fi_pingpong() -> Option<[f64; 3]> {
    let mut results = [0.0; 3];
    for (place, size) in [8, 4096, WRITE_BYTES].into_iter().enumerate() {
        let size = size.to_string();
        let trips = TRIPS.to_string();
        let arguments = ["-p", "tcp", "-e", "msg", "-I", &trips, "-S", &size];
        let mut server = Command::new("fi_pingpong")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        // It says nothing when it listens; until then connecting fails.
        let output = loop {
            let output = Command::new("fi_pingpong")
                .args(arguments)
                .arg("127.0.0.1")
                .stderr(Stdio::null())
                .output()
                .ok()?;
            if output.status.success() {
                break output;
            }
        };
        server.wait().ok()?;
        // bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
        let line = BufReader::new(&output.stdout[..])
            .lines()
            .map_while(Result::ok);
        let line = line.last()?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [.., rate, transfer, _] = fields[..] else {
            return None;
        };
        results[place] = match place {
            // A transfer is half of a round trip.
            0 | 1 => transfer.parse::<f64>().ok()? * 2.0,
            _ => rate.parse().ok()?,
        };
    }
    Some(results)
}

fn show(name: &str, rounds: &[[f64; 3]]) {
    let column = |at: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        format!("{:.2} ({least:.2} to {most:.2})", values[values.len() / 2])
    };
    println!(
        "{name:12} {:>26} {:>26} {:>32}",
        column(0),
        column(1),
        column(2)
    );
}

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    if argument == "ofi" || argument == "tcp" {
        return answer(&argument);
    }
    let rounds = argument.parse().unwrap_or(5_usize).max(1);
    let only = std::env::args().nth(2);
    let is_wanted = |name| only.as_ref().is_none_or(|only| only == name);
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        if is_wanted("ofi:tcp") {
            all[0].push(over_ofi());
        }
        if is_wanted("fi_pingpong") {
            all[1].extend(fi_pingpong());
        }
        if is_wanted("tcp") {
            all[2].push(over_tcp());
        }
    }
    println!(
        "{:12} {:>26} {:>26} {:>32}",
        "", "8 B there and back, us", "4 KiB there and back, us", "64 KiB writes, MB/s"
    );
    for (name, rounds) in ["ofi:tcp", "fi_pingpong", "tcp"].into_iter().zip(&all) {
        match rounds.is_empty() {
            true => println!("{name:12} not asked for, not installed, or failed"),
            false => show(name, rounds),
        }
    }
}
