//! The kernel's TCP at the other end, over a path that loses, doubles and reorders packets.

use barewire_kernel_tcp::{CannotRun, KERNEL, KernelHost, LIMIT, OTHER, byte_at, join};
use barewire_tcp::path::PathConfig;
use barewire_tcp::{Config, Error, Listener, State, Tcp};
use barewire_units::{Duration, Instant, Rate};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

const PORT: u16 = 7000;

/// Says that a test can not run here.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("the log opens");
        log.write_all(line.as_bytes())
            .expect("the log takes a line");
    }
}

/// Runs a test beside a host of the kernel, or says why it cannot.
fn with_host(test: &str, work: impl FnOnce(&KernelHost)) {
    match KernelHost::new(KERNEL) {
        Ok(host) => work(&host),
        Err(CannotRun(reason)) => skip(test, &reason),
    }
}

fn here() -> SocketAddr {
    SocketAddr::from((OTHER, 40_000))
}

fn there() -> SocketAddr {
    SocketAddr::from((KERNEL, PORT))
}

/// A path of 100 Mbit/s and 1 ms, of which one direction treats packets badly.
fn bad_path(lost: u64) -> (PathConfig, PathConfig) {
    let good = PathConfig::new(Rate::new(100_000_000), Duration::from_us(500));
    let bad = PathConfig {
        lost,
        doubled: lost / 2,
        late: lost,
        late_by: Duration::from_ms(2),
        ..good
    };
    (bad, bad)
}

/// Reads a stream to its end, checks each byte, and gives their number.
fn read_all(stream: &mut TcpStream) -> io::Result<u64> {
    let mut buffer = vec![0; 65_536];
    let mut place = 0;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(place);
        }
        for &byte in &buffer[..count] {
            assert_eq!(byte, byte_at(place), "at {place}");
            place += 1;
        }
    }
}

fn write_all(stream: &mut TcpStream, total: u64) -> io::Result<()> {
    let bytes: Vec<u8> = (0..total).map(byte_at).collect();
    stream.write_all(&bytes)?;
    stream.shutdown(Shutdown::Write)
}

/// The user-level side of a test: writes and reads as much as it can.
#[derive(Default)]
struct Program {
    sent: u64,
    received: u64,
    has_shut_down: bool,
}

impl Program {
    fn step(&mut self, tcp: &mut Tcp, total: u64) {
        if tcp.state() == State::Open && !self.has_shut_down {
            while self.sent < total && tcp.writable_bytes() > 0 {
                let until = total.min(self.sent + 16_384);
                let bytes: Vec<u8> = (self.sent..until).map(byte_at).collect();
                self.sent += tcp.send(&bytes).expect("it is open") as u64;
            }
            if self.sent == total {
                tcp.shutdown();
                self.has_shut_down = true;
            }
        }
        let mut buffer = [0; 16_384];
        while tcp.readable_bytes() > 0 {
            let count = tcp.receive(&mut buffer).expect("there are bytes");
            for &byte in &buffer[..count] {
                assert_eq!(byte, byte_at(self.received), "at {}", self.received);
                self.received += 1;
            }
        }
    }
}

/// Whether both streams have ended.
fn is_done(tcp: &Tcp) -> bool {
    matches!(tcp.state(), State::TimeWait | State::Closed) && tcp.has_ended()
}

/// A stream each way at the same time, opened from the user level.
fn both_ways(host: &KernelHost, path: (PathConfig, PathConfig), total: u64, seed: u64) {
    let listener = host
        .net
        .run(|| TcpListener::bind(there()))
        .expect("the kernel listens");
    std::thread::scope(|scope| {
        let server = scope.spawn(move || -> io::Result<u64> {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(LIMIT))?;
            let mut writer = stream.try_clone()?;
            let writes = std::thread::spawn(move || write_all(&mut writer, total));
            let received = read_all(&mut stream)?;
            writes.join().expect("the writer does not panic")?;
            Ok(received)
        });
        let config = Config::new(here(), there(), seed);
        let mut tcp = Tcp::connect(&config, Instant::ORIGIN).expect("it can connect");
        let mut program = Program::default();
        join(host, &mut tcp, path, seed, |tcp, _| {
            program.step(tcp, total);
            is_done(tcp)
        });
        assert_eq!(tcp.error(), None);
        assert_eq!(program.received, total);
        let received = server.join().expect("the server does not panic");
        assert_eq!(received.expect("the kernel has no error"), total);
    });
}

#[test]
fn streams_go_both_ways() {
    with_host("streams_go_both_ways", |host| {
        both_ways(host, bad_path(0), 2_000_000, 1);
    });
}

#[test]
fn streams_go_both_ways_over_a_bad_path() {
    with_host("streams_go_both_ways_over_a_bad_path", |host| {
        for (seed, lost) in [(2, 1_000), (3, 10_000), (4, 50_000)] {
            both_ways(host, bad_path(lost), 500_000, seed);
        }
    });
}

#[test]
fn the_kernel_connects_and_each_syn_is_a_connection() {
    with_host("the_kernel_connects_and_each_syn_is_a_connection", |host| {
        const CLIENTS: usize = 5;
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(move || {
                        host.net.run(|| {
                            let mut stream = TcpStream::connect(here())?;
                            stream.set_read_timeout(Some(LIMIT))?;
                            write_all(&mut stream, 50_000)?;
                            read_all(&mut stream)
                        })
                    })
                })
                .collect();
            serve(host, CLIENTS);
            for client in clients {
                let received = client.join().expect("the client does not panic");
                assert_eq!(received.expect("the kernel has no error"), 30_000);
            }
        });
    });
}

/// Accepts so many connections at the user level, and serves them all at once.
fn serve(host: &KernelHost, clients: usize) {
    let listener = Listener::new(&Config::new(here(), here(), 9), 2).expect("it can listen");
    let mut server = Server {
        listener,
        open: Vec::new(),
    };
    join(host, &mut server, bad_path(2_000), 5, |server, _| {
        while let Some(tcp) = server.listener.accept() {
            server.open.push((tcp, Program::default()));
        }
        for (tcp, program) in &mut server.open {
            program.step(tcp, 30_000);
        }
        server.open.len() == clients && server.open.iter().all(|(tcp, _)| is_done(tcp))
    });
    for (tcp, program) in &server.open {
        assert_eq!(tcp.error(), None);
        assert_eq!(program.received, 50_000);
    }
}

/// A listener and its connections, as one endpoint.
struct Server {
    listener: Listener,
    open: Vec<(Tcp, Program)>,
}

impl barewire_tcp::Endpoint for Server {
    fn handle_packet(&mut self, packet: &mut [u8], checked: barewire_tcp::Checked, now: Instant) {
        // The port of the client tells the connections apart.
        let port = packet
            .get(20..22)
            .map(|port| u16::from_be_bytes([port[0], port[1]]));
        let known = self
            .open
            .iter_mut()
            .find(|(tcp, _)| Some(tcp.config().remote.port()) == port);
        match known {
            Some((tcp, _)) => tcp.handle_packet(packet, checked, now),
            None => self.listener.handle_packet(packet, checked, now),
        }
    }

    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<barewire_tcp::Outgoing> {
        let of_open = self
            .open
            .iter_mut()
            .find_map(|(tcp, _)| tcp.poll_packet(out, now));
        of_open.or_else(|| self.listener.poll_packet(out, now))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let of_open = self.open.iter().filter_map(|(tcp, _)| tcp.next_deadline());
        of_open.chain(self.listener.next_deadline()).min()
    }
}

#[test]
fn nobody_listens() {
    with_host("nobody_listens", |host| {
        let config = Config::new(here(), there(), 1);
        let mut tcp = Tcp::connect(&config, Instant::ORIGIN).expect("it can connect");
        join(host, &mut tcp, bad_path(0), 6, |tcp, _| {
            tcp.state() == State::Closed
        });
        assert_eq!(tcp.error(), Some(Error::Refused));
    });
}

#[test]
fn the_kernel_resets() {
    with_host("the_kernel_resets", |host| {
        let listener = host
            .net
            .run(|| TcpListener::bind(there()))
            .expect("the kernel listens");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("somebody connects");
                // What it does not read makes the kernel reset the connection at its end.
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a byte comes");
            });
            let config = Config::new(here(), there(), 1);
            let mut tcp = Tcp::connect(&config, Instant::ORIGIN).expect("it can connect");
            let mut sent = 0;
            join(host, &mut tcp, bad_path(0), 7, |tcp, _| {
                if tcp.state() == State::Open && sent < 1_000_000 {
                    sent += tcp.send(&[7; 10_000]).unwrap_or(0);
                }
                tcp.state() == State::Closed
            });
            assert_eq!(tcp.error(), Some(Error::Reset));
        });
    });
}
