//! Measures what TLS costs: round trips of 8 bytes and a stream of 64 KiB writes over the loopback,
//! two polling threads, TCP and TLS in turn.
//!
//! ```text
//! cargo run --release -p barewire-carrier --example speed [ROUNDS]
//! ```

use std::error::Error;
use std::hint::spin_loop;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use barewire_carrier::tcp::TcpCarrier;
use barewire_carrier::tls::{GenerateOptions, Handshake, Identity, Step, generate};
use barewire_carrier::{Arrival, Broken, Carrier};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const MESSAGE_BYTES: usize = 8;
const TRIPS: usize = 20_000;
const STREAM_BYTES: usize = 256 << 20;
const WRITE_BYTES: usize = 64 << 10;

fn connection() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    Ok((one, listener.accept()?.0))
}

/// A handshake to its end.
fn shake(handshake: Outcome<Handshake>) -> Outcome<Box<dyn Carrier>> {
    let mut handshake = handshake?;
    loop {
        match handshake.step()? {
            Step::Done(carrier, _) => return Ok(carrier),
            Step::Wait(_) => std::thread::yield_now(),
        }
    }
}

type Pair = (Box<dyn Carrier>, Box<dyn Carrier>);

fn tcp() -> Outcome<Pair> {
    let (one, other) = connection()?;
    let other = TcpCarrier::new(other)?;
    Ok((Box::new(TcpCarrier::new(one)?), Box::new(other)))
}

fn tls(identity: &Identity) -> Outcome<Pair> {
    let (one, other) = connection()?;
    let identity_there = identity.clone();
    let server = std::thread::spawn(move || {
        shake(Handshake::accept(other, &identity_there).map_err(Into::into))
    });
    let client = shake(Handshake::connect(one, identity, None).map_err(Into::into))?;
    let server = server.join().map_err(|_| "the server panicked")??;
    Ok((client, server))
}

fn send(carrier: &mut dyn Carrier, bytes: &[u8]) -> Result<(), Broken> {
    let mut sent = 0;
    while sent < bytes.len() {
        sent += carrier.write(&bytes[sent..])?;
    }
    while !carrier.flush()? {
        spin_loop();
    }
    Ok(())
}

fn receive(carrier: &mut dyn Carrier, into: &mut [u8]) -> Result<bool, Broken> {
    let mut count = 0;
    while count < into.len() {
        match carrier.read(&mut into[count..])? {
            Arrival::Bytes(more) => count += more,
            Arrival::Nothing => spin_loop(),
            Arrival::End => return Ok(false),
        }
    }
    Ok(true)
}

/// The median round trip, in nanoseconds.
fn round_trip((mut one, mut other): Pair) -> Outcome<u64> {
    let echo = std::thread::spawn(move || -> Result<(), Broken> {
        let mut message = [0; MESSAGE_BYTES];
        while receive(&mut *other, &mut message)? {
            send(&mut *other, &message)?;
        }
        Ok(())
    });
    let mut message = [7; MESSAGE_BYTES];
    let mut times = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let start = Instant::now();
        send(&mut *one, &message)?;
        receive(&mut *one, &mut message)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    one.finish()?;
    echo.join().map_err(|_| "the echo panicked")??;
    times.sort_unstable();
    Ok(times[TRIPS / 2])
}

/// Bytes of the stream in a nanosecond, which are GB/s.
fn stream((mut one, mut other): Pair) -> Outcome<f64> {
    let reader = std::thread::spawn(move || -> Result<(), Broken> {
        let mut buffer = vec![0; WRITE_BYTES];
        loop {
            match other.read(&mut buffer)? {
                Arrival::End => return Ok(()),
                Arrival::Bytes(_) => {}
                Arrival::Nothing => spin_loop(),
            }
        }
    });
    let block = vec![7; WRITE_BYTES];
    let start = Instant::now();
    for _ in 0..STREAM_BYTES / WRITE_BYTES {
        send(&mut *one, &block)?;
    }
    one.finish()?;
    while !one.flush()? {
        spin_loop();
    }
    reader.join().map_err(|_| "the reader panicked")??;
    Ok(STREAM_BYTES as f64 / start.elapsed().as_nanos() as f64)
}

fn median<T: Copy + PartialOrd>(mut of: Vec<T>) -> Option<T> {
    of.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    of.get(of.len() / 2).copied()
}

fn main() -> Outcome<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(5), |it| it.parse())?;
    let folder = std::env::temp_dir().join(format!("barewire-speed-{}", std::process::id()));
    let options = GenerateOptions {
        is_secret: true,
        name: String::new(),
        replace: false,
    };
    generate(&folder, &options)?;
    let identity = Identity::load(&folder);
    std::fs::remove_dir_all(&folder)?;
    let identity = identity?;
    let (mut trips, mut streams) = ([vec![], vec![]], [vec![], vec![]]);
    let mut shakes = Vec::new();
    for _ in 0..rounds {
        trips[0].push(round_trip(tcp()?)?);
        trips[1].push(round_trip(tls(&identity)?)?);
        streams[0].push(stream(tcp()?)?);
        let start = Instant::now();
        let pair = tls(&identity)?;
        shakes.push(start.elapsed().as_micros());
        streams[1].push(stream(pair)?);
    }
    println!("median of {rounds} rounds           tcp       tls");
    let [tcp, tls] = trips.map(median);
    println!(
        "8 B round trip, ns     {:>9} {:>9}",
        tcp.unwrap_or(0),
        tls.unwrap_or(0)
    );
    let [tcp, tls] = streams.map(median);
    println!(
        "64 KiB stream, GB/s    {:>9.2} {:>9.2}",
        tcp.unwrap_or(0.0),
        tls.unwrap_or(0.0)
    );
    println!(
        "handshake, µs          {:>9} {:>9}",
        "",
        median(shakes).unwrap_or(0)
    );
    Ok(())
}
