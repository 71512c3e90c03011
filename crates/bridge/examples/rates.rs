//! TCP through a bridge beside the kernel's, over the same pair of interfaces. Needs root.
//!
//! `rates [--xdp] [--congestion=NAME] [SECONDS [ROUNDS [WORD]]]`. Two network namespaces are joined by a pair of veth
//! interfaces. In one is an ordinary server on the kernel's TCP. In the other, a client uses the kernel's TCP and that in the program in turn: it sends a stream,
//! receives one, exchanges 64 bytes, and exchanges 64 bytes over 10 and over 1000 connections. For each, the example prints the
//! median of the rounds and their range, and the ratio of each round likewise. With WORD, only the rows whose names have it.
//!
//! With `--xdp`, two more bridges take their turns: one by AF_XDP, and one that leaves no checksums and segments to the device
//! either. Each has a pair of interfaces of its own, whose other end completes checksums, as AF_XDP demands.
//!
//! `--congestion` has the kernel control congestion otherwise than is usual on this machine (`cubic` or `bbr`, for instance;
//! `sysctl net.ipv4.tcp_available_congestion_control`). The streams of both ways depend on it, since the server's TCP is the
//! kernel's.
//!
//! In the rows that say so both clients poll: with reads that do not wait. The server never does.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::Node;
use barewire_bridge::{BridgeConfig, Device};
use barewire_edge::{Edge, EdgeStream, StreamOptions};
use barewire_sys::wake::{Epoll, Interest};
use common::{Kind, Place, Running};

type Failure = Box<dyn std::error::Error>;

/// Bytes of a write and of a read of a stream.
const CHUNK_BYTES: usize = 64 * 1024;
const MESSAGE_BYTES: usize = 64;

/// How the kernel controls congestion in the network namespace of the thread that reads it.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

const READABLE: Interest = Interest {
    readable: true,
    ..Interest::NONE
};

/// What the client asks the server for, by the first byte of a connection.
const SINK: u8 = 1;
const SOURCE: u8 = 2;
const ECHO: u8 = 3;

/// Serves connections, each in a thread of its own; those that are echoed over and over by one.
fn serve(listener: &TcpListener, over: &AtomicBool) -> io::Result<()> {
    std::thread::scope(|scope| {
        let (tell, echoes) = std::sync::mpsc::channel();
        scope.spawn(move || echo_all(&echoes, over));
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream?, tell.clone());
            // Relaxed, partner the store in `main`: the connection that follows it orders it.
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            scope.spawn(move || -> io::Result<()> {
                stream.set_nodelay(true)?;
                let mut buffer = vec![0; CHUNK_BYTES];
                stream.read_exact(&mut buffer[..1])?;
                match buffer[0] {
                    SINK => while stream.read(&mut buffer)? > 0 {},
                    SOURCE => while stream.write(&buffer).is_ok() {},
                    _ => {
                        stream.set_nonblocking(true)?;
                        let _ = tell.send(stream);
                    }
                }
                Ok(())
            });
        }
        Ok(())
    })
}

/// Sends back what comes on any of the connections.
fn echo_all(arrivals: &std::sync::mpsc::Receiver<TcpStream>, over: &AtomicBool) -> io::Result<()> {
    let epoll = Epoll::new()?;
    let mut streams = HashMap::new();
    let (mut events, mut buffer, mut next) = (Vec::with_capacity(256), [0; MESSAGE_BYTES], 0);
    // Relaxed: as above; it ends within 100 ms.
    while !over.load(Ordering::Relaxed) {
        for stream in arrivals.try_iter() {
            epoll.add(&stream, next, READABLE)?;
            streams.insert(next, stream);
            next += 1;
        }
        epoll.wait(&mut events, Some(Duration::from_millis(1)))?;
        for event in events.drain(..) {
            let Some(stream) = streams.get_mut(&event.token) else {
                continue;
            };
            let answered = match stream.read(&mut buffer) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => stream.write_all(&buffer[..len]),
                Err(error) => Err(error),
            };
            if answered.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                streams.remove(&event.token);
            }
        }
    }
    Ok(())
}

/// Bytes a second that are written.
fn send(mut stream: impl Write, longest: Duration) -> io::Result<f64> {
    stream.write_all(&[SINK])?;
    let (chunk, from, mut sent) = (vec![7; CHUNK_BYTES], Instant::now(), 0);
    while from.elapsed() < longest {
        sent += stream.write(&chunk)?;
    }
    Ok(sent as f64 / from.elapsed().as_secs_f64())
}

/// Bytes a second that are read.
fn receive(mut stream: impl Read + Write, longest: Duration) -> io::Result<f64> {
    stream.write_all(&[SOURCE])?;
    let (mut chunk, from, mut received) = (vec![0; CHUNK_BYTES], Instant::now(), 0);
    while from.elapsed() < longest {
        received += stream.read(&mut chunk)?;
    }
    Ok(received as f64 / from.elapsed().as_secs_f64())
}

/// Exchanges a second, one after the other.
fn exchange(mut stream: impl Read + Write, longest: Duration) -> io::Result<f64> {
    stream.write_all(&[ECHO])?;
    let (mut message, from, mut times) = ([1; MESSAGE_BYTES], Instant::now(), 0);
    while from.elapsed() < longest {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        times += 1;
    }
    Ok(f64::from(times) / from.elapsed().as_secs_f64())
}

/// Exchanges a second, one after the other, with reads that do not wait: `None` is nothing yet.
fn exchange_polling<S: Write>(
    mut stream: S,
    try_read: impl Fn(&mut S, &mut [u8]) -> io::Result<Option<usize>>,
    longest: Duration,
) -> io::Result<f64> {
    stream.write_all(&[ECHO])?;
    let (mut message, from, mut times) = ([1; MESSAGE_BYTES], Instant::now(), 0);
    while from.elapsed() < longest {
        stream.write_all(&message)?;
        let mut read = 0;
        while read < MESSAGE_BYTES {
            match try_read(&mut stream, &mut message[read..])? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(len) => read += len,
                None => std::hint::spin_loop(),
            }
        }
        times += 1;
    }
    Ok(f64::from(times) / from.elapsed().as_secs_f64())
}

/// A read of the kernel's that does not wait.
fn try_read_kernel(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(into) {
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Exchanges a second over so many of the kernel's connections, one outstanding on each.
fn exchange_kernel(at: SocketAddr, connections: u64, longest: Duration) -> Result<f64, Failure> {
    let epoll = Epoll::new()?;
    let mut streams = HashMap::new();
    for token in 0..connections {
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.write_all(&[ECHO])?;
        stream.set_nonblocking(true)?;
        epoll.add(&stream, token, READABLE)?;
        streams.insert(token, stream);
    }
    let mut message = [1; MESSAGE_BYTES];
    for stream in streams.values_mut() {
        stream.write_all(&message)?;
    }
    let (mut events, from, mut times) = (Vec::with_capacity(256), Instant::now(), 0);
    while from.elapsed() < longest {
        epoll.wait(&mut events, Some(Duration::from_millis(100)))?;
        for event in events.drain(..) {
            let stream = streams.get_mut(&event.token).ok_or("no such connection")?;
            match stream.read(&mut message) {
                Ok(_) => {
                    times += 1;
                    stream.write_all(&message)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(f64::from(times) / from.elapsed().as_secs_f64())
}

/// Exchanges a second over so many connections through the bridge, one outstanding on each.
fn exchange_edge(at: SocketAddr, connections: u64, longest: Duration) -> Result<f64, Failure> {
    let node = Node::new()?;
    let mut edge = Edge::new(&node);
    let mut options = StreamOptions::default();
    (options.send_buffer_bytes, options.receive_buffer_bytes) = (16 << 10, 16 << 10);
    let mut begun = HashSet::new();
    let (mut from, mut times, mut started) = (Instant::now(), 0, 0);
    let mut message = [1; MESSAGE_BYTES];
    loop {
        // Some at a time: the answer to a SYN that is dropped comes a second later.
        while started < connections && started < begun.len() as u64 + 16 {
            edge.start_connect(at, &options)?;
            started += 1;
        }
        for id in edge.wait(Some(Duration::from_secs(5)))? {
            let Some(stream) = edge.stream(id) else {
                edge.take_failure(id).map_or(Ok(()), Err)?;
                continue;
            };
            if !begun.contains(&id) {
                if stream.try_write(&[ECHO])? == 0 {
                    continue;
                }
                begun.insert(id);
                if begun.len() as u64 == connections {
                    (from, times) = (Instant::now(), 0);
                }
                stream.try_write(&message)?;
            }
            while let Some(1..) = stream.try_read(&mut message)? {
                times += 1;
                stream.try_write(&message)?;
            }
        }
        if begun.len() as u64 == connections && from.elapsed() >= longest {
            return Ok(f64::from(times) / from.elapsed().as_secs_f64());
        }
    }
}

/// What is measured of each row.
struct Plan {
    longest: Duration,
    rounds: usize,
    /// Only rows whose names have this.
    word: String,
}

/// A way to the server.
struct Way<'p> {
    name: &'static str,
    place: &'p Place,
    /// The server.
    at: SocketAddr,
    /// Otherwise it is the kernel's.
    has_bridge: bool,
}

impl Way<'_> {
    /// A connection of the kernel's.
    fn kernel(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.at)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// One through the bridge.
    fn edge(&self) -> Result<(Node, EdgeStream), Failure> {
        let node = Node::new()?;
        let stream = EdgeStream::connect(&node, self.at, &StreamOptions::default())?;
        Ok((node, stream))
    }
}

/// The median of some values, and their range.
fn shown(mut column: Vec<f64>) -> String {
    column.sort_by(f64::total_cmp);
    let (least, most) = (column[0], column[column.len() - 1]);
    format!("{:.4} ({least:.4} to {most:.4})", column[column.len() / 2])
}

/// Measures one row by all ways, in turn. A ratio is that to the first of them.
fn row(
    name: &str,
    plan: &Plan,
    ways: &[Way<'_>],
    measured: impl Fn(&Way<'_>) -> Result<f64, Failure>,
) -> Result<(), Failure> {
    if !name.contains(&plan.word) {
        return Ok(());
    }
    let mut all = vec![Vec::new(); ways.len()];
    for _ in 0..plan.rounds {
        for (column, way) in all.iter_mut().zip(ways) {
            way.place.home.enter()?;
            column.push(measured(way)?);
        }
    }
    println!("{name}:");
    for (column, way) in all.iter().zip(ways) {
        let ratios = column.iter().zip(&all[0]).map(|(own, first)| own / first);
        println!(
            "  {}: {}, ratio {}",
            way.name,
            shown(column.clone()),
            shown(ratios.collect())
        );
    }
    Ok(())
}

/// A pair of interfaces with a bridge at one end, and a listener of the kernel's at the other.
struct Pair {
    place: Place,
    bridge: Running,
    listener: TcpListener,
}

impl Pair {
    /// `kind` says what the other end does with checksums.
    fn new(kind: Kind, set: impl FnOnce(&mut BridgeConfig)) -> Result<Pair, Failure> {
        let place = Place::new(kind)?;
        let mut config = place.config(true);
        config.spin = BridgeConfig::new(config.device.clone()).spin;
        (config.limits.leases_max, config.limits.user_leases_max) = (4000, 4000);
        set(&mut config);
        let bridge = Running::start(&place, config)?;
        let listener = place.peer.run(|| TcpListener::bind("10.77.0.1:0"))?;
        Ok(Pair {
            place,
            bridge,
            listener,
        })
    }

    fn way(&self, name: &'static str, has_bridge: bool) -> io::Result<Way<'_>> {
        Ok(Way {
            name,
            place: &self.place,
            at: self.listener.local_addr()?,
            has_bridge,
        })
    }
}

fn pairs(with_xdp: bool) -> Result<Vec<(&'static str, Pair)>, Failure> {
    let mut pairs = vec![("bridge", Pair::new(Kind::Interface, |_| {})?)];
    if with_xdp {
        let plain = Pair::new(Kind::Xdp, |config| {
            let name = config.device.name().to_owned();
            config.device = Device::Interface { name };
            config.offload = false;
        })?;
        pairs.push(("bridge without offload", plain));
        pairs.push(("bridge by AF_XDP", Pair::new(Kind::Xdp, |_| {})?));
    }
    Ok(pairs)
}

fn main() -> Result<(), Failure> {
    let (flags, arguments): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let (mut with_xdp, mut congestion) = (false, None);
    for flag in flags {
        match flag.strip_prefix("--congestion=") {
            Some(name) => congestion = Some(name.to_owned()),
            None if flag == "--xdp" => with_xdp = true,
            None => return Err(format!("there is no option {flag}").into()),
        }
    }
    let mut arguments = arguments.into_iter();
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let plan = Plan {
        longest: Duration::from_secs_f64(seconds),
        rounds: arguments.next().map_or(Ok(5), |text| text.parse())?,
        word: arguments.next().unwrap_or_default(),
    };
    let pairs = pairs(with_xdp)?;
    if let Some(name) = congestion {
        for place in pairs.iter().map(|(_, pair)| &pair.place) {
            place.home.run(|| control_congestion_by(&name))?;
            place.peer.run(|| control_congestion_by(&name))?;
        }
    }
    let mut ways = vec![pairs[0].1.way("kernel", false)?];
    for (name, pair) in &pairs {
        ways.push(pair.way(name, true)?);
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving: Vec<_> = pairs
            .iter()
            .map(|(_, pair)| scope.spawn(|| serve(&pair.listener, &over)))
            .collect();
        if let Err(error) = measure(&ways, &plan) {
            // The server may wait for a client that is no more.
            eprintln!("{error}");
            std::process::exit(1);
        }
        // Relaxed, partner the loads in the server: the connections below order it.
        over.store(true, Ordering::Relaxed);
        for way in &ways {
            way.place.home.enter()?;
            drop(TcpStream::connect(way.at)?);
        }
        for server in serving {
            server.join().map_err(|_| "the server has panicked")??;
        }
        Ok::<_, Failure>(())
    })?;
    drop(ways);
    for (name, pair) in pairs {
        println!("{name}: {:?}", pair.bridge.stop().counters);
    }
    Ok(())
}

/// Has the kernel control congestion so in the network namespace of the thread.
fn control_congestion_by(name: &str) -> io::Result<()> {
    std::fs::write(CONGESTION, name)
        .map_err(|error| io::Error::new(error.kind(), format!("{CONGESTION}: {name}: {error}")))
}

/// Measures all rows.
fn measure(ways: &[Way<'_>], plan: &Plan) -> Result<(), Failure> {
    let longest = plan.longest;
    ways[0].place.home.enter()?;
    let usual = std::fs::read_to_string(CONGESTION)?;
    println!("the kernel controls congestion by {}", usual.trim_end());
    row("send, bytes a second", plan, ways, |way| {
        Ok(match way.has_bridge {
            false => send(way.kernel()?, longest)?,
            true => {
                let (_node, stream) = way.edge()?;
                send(stream, longest)?
            }
        })
    })?;
    row("receive, bytes a second", plan, ways, |way| {
        Ok(match way.has_bridge {
            false => receive(way.kernel()?, longest)?,
            true => {
                let (_node, stream) = way.edge()?;
                receive(stream, longest)?
            }
        })
    })?;
    row("64 B to and fro, a second", plan, ways, |way| {
        Ok(match way.has_bridge {
            false => exchange(way.kernel()?, longest)?,
            true => {
                let (_node, stream) = way.edge()?;
                exchange(stream, longest)?
            }
        })
    })?;
    row("64 B to and fro, polling, a second", plan, ways, |way| {
        if way.has_bridge {
            let try_read = |stream: &mut EdgeStream, into: &mut [u8]| Ok(stream.try_read(into)?);
            let (_node, stream) = way.edge()?;
            return Ok(exchange_polling(stream, try_read, longest)?);
        }
        let stream = way.kernel()?;
        stream.set_nonblocking(true)?;
        Ok(exchange_polling(stream, try_read_kernel, longest)?)
    })?;
    for connections in [10, 1000] {
        let name = format!("64 B over {connections} connections, a second");
        row(&name, plan, ways, |way| match way.has_bridge {
            false => exchange_kernel(way.at, connections, longest),
            true => exchange_edge(way.at, connections, longest),
        })?;
    }
    Ok(())
}
