//! Streams like netperf's: each writes as fast as it may, and what arrives is counted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use barewire_daq::shape::ClassId;
use barewire_sys::tcp::set_priority;

use super::star::Star;

/// Until windows are open and buffers full, nothing is counted.
const SETTLE: Duration = Duration::from_millis(700);
/// How long a call may take before the stream looks whether all is over.
const CALL: Duration = Duration::from_millis(100);
/// Until all are connected: their first packets may be lost behind those of the streams before them, and are
/// sent again after a second, then after two more.
const CONNECT: Duration = Duration::from_secs(20);
const CHUNK_BYTES: usize = 64 << 10;
const PORT: u16 = 5200;

/// A stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Number of a host.
    pub from: usize,
    /// Number of another.
    pub to: usize,
    /// Of the NIC at which it starts.
    pub class: Option<ClassId>,
    /// The program writes no faster, in bytes per second of payload.
    pub paced: Option<f64>,
}

/// What came of some streams that ran at the same time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Payload of each, in Mbit/s.
    pub mbps: Vec<f64>,
    /// Packets that found no room at a port.
    pub drops: u64,
    pub retransmitted: u64,
    /// Time that all processors of this machine were busy with anything, per second; `None` if
    /// they were hardly ever idle, which says nothing about the streams.
    pub processors: Option<f64>,
}

/// Runs streams for a time.
pub fn run(star: &mut Star, streams: &[Stream], time: Duration) -> io::Result<Measured> {
    // Listening before anybody connects.
    let listeners = (0_u16..).zip(streams).map(|(number, stream)| {
        let host = &star.hosts[stream.to];
        let address = SocketAddr::from((host.address, PORT + number));
        let listener = host.net.run(|| TcpListener::bind(address))?;
        Ok((address, listener))
    });
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let counts: Vec<_> = streams.iter().map(|_| AtomicU64::new(0)).collect();
    let (over, connected) = (AtomicBool::new(false), AtomicUsize::new(0));
    let before = losses(star)?;
    let hosts = &star.hosts;
    let (took, received, busy) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for ((stream, (address, listener)), count) in streams.iter().zip(listeners).zip(&counts) {
            let (over, connected) = (&over, &connected);
            threads.push(scope.spawn(move || receive(&listener, count, connected, over)));
            let net = &hosts[stream.from].net;
            threads.push(scope.spawn(move || net.run(|| send(address, stream, over))));
        }
        let begun = Instant::now();
        while connected.load(Relaxed) < streams.len() && begun.elapsed() < CONNECT {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(SETTLE);
        let read = || counts.iter().map(|it| it.load(Relaxed)).collect::<Vec<_>>();
        let (start, busy, first) = (Instant::now(), busy_ticks(), read());
        std::thread::sleep(time);
        let (took, busy_then, last) = (start.elapsed(), busy_ticks(), read());
        // Before anything that may fail: threads end by this alone.
        over.store(true, Relaxed);
        let ended = threads.into_iter().map(|it| it.join());
        let mut ended = ended.map(|it| it.unwrap_or_else(|_| Err(ErrorKind::Other.into())));
        ended.try_for_each(|it| it)?;
        if connected.load(Relaxed) < streams.len() {
            let text = format!("a stream did not connect within {CONNECT:?}");
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        let received: Vec<_> = first.iter().zip(last).map(|it| it.1 - it.0).collect();
        io::Result::Ok((took.as_secs_f64(), received, busy_then? - busy?))
    })?;
    let after = losses(star)?;
    Ok(Measured {
        mbps: received.iter().map(|&it| it as f64 * 8e-6 / took).collect(),
        drops: after.0 - before.0,
        retransmitted: after.1 - before.1,
        processors: Some(busy as f64 / TICKS_PER_S / took)
            .filter(|it| *it < BUSY_MAX * there_are()),
    })
}

/// Drops at ports, and segments sent again.
pub fn losses(star: &mut Star) -> io::Result<(u64, u64)> {
    let mut all = (0, 0);
    for host in &mut star.hosts {
        all.0 += u64::from(host.port_taken()?.drops);
        all.1 += host.retransmitted()?;
    }
    Ok(all)
}

/// The connection, if it comes before all is over.
fn accept(listener: &TcpListener, over: &AtomicBool) -> io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    while !over.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            Err(error) if waits(&error) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn receive(
    listener: &TcpListener,
    count: &AtomicU64,
    connected: &AtomicUsize,
    over: &AtomicBool,
) -> io::Result<()> {
    let Some(mut stream) = accept(listener, over)? else {
        return Ok(());
    };
    // Read by the thread that measures; nothing else depends on it.
    connected.fetch_add(1, Relaxed);
    stream.set_read_timeout(Some(CALL))?;
    let mut buffer = vec![0; CHUNK_BYTES];
    while !over.load(Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            // Read by the thread that measures, when it likes.
            Ok(bytes) => drop(count.fetch_add(bytes as u64, Relaxed)),
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send(to: SocketAddr, stream: &Stream, over: &AtomicBool) -> io::Result<()> {
    let mut socket = TcpStream::connect(to)?;
    socket.set_write_timeout(Some(CALL))?;
    if let Some(class) = stream.class {
        set_priority(&socket, class.number())?;
    }
    let chunk = vec![0x55; CHUNK_BYTES];
    let start = Instant::now();
    let mut written = 0.0;
    while !over.load(Relaxed) {
        match socket.write(&chunk) {
            Ok(bytes) => written += bytes as f64,
            Err(error) if waits(&error) => {}
            // The other end has seen that all is over first.
            Err(_) if over.load(Relaxed) => break,
            Err(error) => return Err(error),
        }
        let due = stream
            .paced
            .map(|rate| Duration::from_secs_f64(written / rate));
        let early = due.and_then(|it| it.checked_sub(start.elapsed()));
        std::thread::sleep(early.unwrap_or_default());
    }
    Ok(())
}

fn waits(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// As the kernel counts for programs, on every machine.
const TICKS_PER_S: f64 = 100.0;
/// Of all processors.
const BUSY_MAX: f64 = 0.95;

fn there_are() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

/// What all processors have done since the start, in ticks.
fn busy_ticks() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    busy_in(&text).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// user, nice, system, idle, iowait, irq, softirq: all but the fourth and the fifth.
fn busy_in(text: &str) -> Option<u64> {
    let figures = text.lines().next()?.strip_prefix("cpu")?.split_whitespace();
    let figures = figures
        .map(|it| it.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    let [user, nice, system, _, _, irq, softirq, ..] = figures[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_not_idle_is_busy() {
        let text = "cpu  100 20 300 4000 50 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7\n";
        assert_eq!(busy_in(text), Some(433));
        assert_eq!(busy_in("cpu 1 2 3\n"), None);
    }
}
