//! A table of rate against loss, in real time: a stream from the user level to the kernel, from the
//! kernel to the user level, and from kernel to kernel, over the same modelled path. Needs root.
//!
//! `cargo run -p barewire-kernel-tcp --example paths -- [MBIT/S [RTT_US [MIB [CONTROL]]]]`
//!
//! CONTROL is the congestion control of the kernel's senders: `cubic` unless given.
//!
//! `cargo run -p barewire-kernel-tcp --example paths -- programs [MBIT/S [RTT_US [SECONDS [ROUNDS [CONTROL]]]]]`
//!
//! That is iperf3, curl and nginx, on the kernel's TCP and under `barewire run --edge` in turn, over the same path. It needs
//! the command and the preload library of the same build: `cargo build -p barewire-cli -p barewire-sockets`.

use barewire_kernel_tcp::programs::{self, ProgramSetup};
use barewire_kernel_tcp::{CannotRun, KERNEL, KernelHost, LIMIT, OTHER, join, join_kernels};
use barewire_tcp::path::{CHANCE_ONE, PathConfig};
use barewire_tcp::{Config, Endpoint, Listener, Outgoing, State, Tcp};
use barewire_units::{Duration, Instant, Rate};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const PORT: u16 = 7000;

/// What all runs have in common.
struct Setup {
    total: u64,
    control: String,
    path: (PathConfig, PathConfig),
}

/// Reads so many bytes, and gives the time since the connection was there.
fn read(stream: &mut TcpStream, total: u64) -> io::Result<f64> {
    stream.set_read_timeout(Some(LIMIT))?;
    let start = std::time::Instant::now();
    let mut buffer = vec![0; 65_536];
    let mut left = total;
    while left > 0 {
        let count = stream.read(&mut buffer)? as u64;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= count;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn write(stream: &mut TcpStream, total: u64, control: &str) -> io::Result<()> {
    rustix::net::sockopt::set_tcp_congestion(&*stream, control)?;
    let bytes = vec![7; 65_536];
    let mut left = total;
    while left > 0 {
        let count = usize::try_from(left.min(65_536)).unwrap_or(65_536);
        stream.write_all(&bytes[..count])?;
        left -= count as u64;
    }
    Ok(())
}

fn mbit_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / seconds
}

/// From the user level to the kernel; the rate, and the packets sent again.
fn up(setup: &Setup, seed: u64) -> Result<(f64, u64), CannotRun> {
    let host = KernelHost::new(KERNEL)?;
    let there = SocketAddr::from((KERNEL, PORT));
    let listener = host.net.run(|| TcpListener::bind(there))?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&mut listener.accept()?.0, setup.total));
        let config = Config::new(SocketAddr::from((OTHER, 40_000)), there, seed);
        let mut tcp = Tcp::connect(&config, Instant::ORIGIN).expect("it can connect");
        let bytes = vec![7; 65_536];
        let mut left = setup.total;
        join(&host, &mut tcp, setup.path, seed, |tcp, _| {
            while tcp.state() == State::Open && left > 0 {
                let count = usize::try_from(left.min(65_536)).unwrap_or(65_536);
                match tcp.send(&bytes[..count]).expect("it is open") as u64 {
                    0 => break,
                    taken => left -= taken,
                }
            }
            reader.is_finished()
        });
        let seconds = reader.join().expect("the reader does not panic")?;
        Ok((mbit_per_s(setup.total, seconds), tcp.counts().packets_again))
    })
}

/// A listener that becomes its first connection.
struct First(Listener, Option<Tcp>);

impl Endpoint for First {
    fn handle_packet(&mut self, packet: &mut [u8], checked: barewire_tcp::Checked, now: Instant) {
        match &mut self.1 {
            Some(tcp) => tcp.handle_packet(packet, checked, now),
            None => self.0.handle_packet(packet, checked, now),
        }
    }

    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing> {
        match &mut self.1 {
            Some(tcp) => tcp.poll_packet(out, now),
            None => self.0.poll_packet(out, now),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match &self.1 {
            Some(tcp) => tcp.next_deadline(),
            None => self.0.next_deadline(),
        }
    }
}

/// From the kernel to the user level.
fn down(setup: &Setup, seed: u64) -> Result<f64, CannotRun> {
    let host = KernelHost::new(KERNEL)?;
    let here = SocketAddr::from((OTHER, PORT));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            host.net.run(|| {
                let mut stream = TcpStream::connect(here)?;
                write(&mut stream, setup.total, &setup.control)?;
                // Until the other end has all of it.
                let _ = stream.read(&mut [0]);
                Ok(())
            })
        });
        let listener = Listener::new(&Config::new(here, here, seed), 1).expect("it can listen");
        let mut first = First(listener, None);
        let (mut begun, mut taken) = (None, Duration::ZERO);
        let mut left = setup.total;
        let mut buffer = vec![0; 65_536];
        let (there, back) = setup.path;
        join(&host, &mut first, (back, there), seed, |first, now| {
            if first.1.is_none() {
                first.1 = first.0.accept();
            }
            let Some(tcp) = &mut first.1 else {
                return false;
            };
            let begun = *begun.get_or_insert(now);
            while left > 0 {
                match tcp.receive(&mut buffer).expect("it is open") as u64 {
                    0 => return writer.is_finished(),
                    count => left -= count,
                }
            }
            // The time is taken once.
            if tcp.state() == State::Open {
                tcp.abort();
                taken = now.saturating_duration_since(begun);
            }
            tcp.state() == State::Closed
        });
        writer.join().expect("the writer does not panic")?;
        Ok(mbit_per_s(setup.total, taken.as_us() as f64 / 1e6))
    })
}

/// From kernel to kernel.
fn between_kernels(setup: &Setup, seed: u64) -> Result<f64, CannotRun> {
    let hosts = [KernelHost::new(KERNEL)?, KernelHost::new(OTHER)?];
    let there = SocketAddr::from((OTHER, PORT));
    let listener = hosts[1].net.run(|| TcpListener::bind(there))?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&mut listener.accept()?.0, setup.total));
        scope.spawn(|| {
            hosts[0].net.run(|| {
                let mut stream = TcpStream::connect(there)?;
                write(&mut stream, setup.total, &setup.control)
            })
        });
        join_kernels([&hosts[0], &hosts[1]], setup.path, seed, || {
            reader.is_finished()
        });
        let seconds = reader.join().expect("the reader does not panic")?;
        Ok(mbit_per_s(setup.total, seconds))
    })
}

/// The table of programs.
fn compare_programs(arguments: &[String]) -> Result<(), CannotRun> {
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (mbit, rtt_us) = (number(0, 100), number(1, 1000));
    let setup = ProgramSetup {
        path: PathConfig::new(Rate::new(mbit * 1_000_000), Duration::from_us(rtt_us / 2)),
        seconds: number(2, 4),
        rounds: number(3, 5),
        control: arguments.get(4).cloned().unwrap_or("cubic".to_owned()),
    };
    println!(
        "Programs at {mbit} Mbit/s, {rtt_us} us there and back, {} s each, {} rounds in turn; kernel: {}; Mbit/s, \
         median (range):\n",
        setup.seconds, setup.rounds, setup.control
    );
    println!("| program | loss | kernel | through the bridge | ratio |");
    println!("|---|---|---|---|---|");
    for lost in [0, 100, 1000] {
        for row in programs::compare(&setup, lost)? {
            println!("{row}");
        }
    }
    Ok(())
}

fn main() -> Result<(), CannotRun> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "programs") {
        return compare_programs(&arguments[1..]);
    }
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (mbit, rtt_us, mib) = (number(0, 200), number(1, 1000), number(2, 8));
    let control = arguments.get(3).cloned().unwrap_or("cubic".to_owned());
    println!(
        "{mib} MiB at {mbit} Mbit/s, {rtt_us} us there and back; kernel: {control}; Mbit/s:\n"
    );
    println!(
        "| loss | user level to kernel (packets again) | kernel to user level | kernel to kernel |"
    );
    println!("|---|---|---|---|");
    for lost in [0, 10, 100, 1000, 10_000] {
        let good = PathConfig::new(Rate::new(mbit * 1_000_000), Duration::from_us(rtt_us / 2));
        let setup = Setup {
            total: mib << 20,
            control: control.clone(),
            path: (PathConfig { lost, ..good }, good),
        };
        let (up, again) = up(&setup, 1)?;
        println!(
            "| {} | {up:.1} ({again}) | {:.1} | {:.1} |",
            lost as f64 / CHANCE_ONE as f64,
            down(&setup, 1)?,
            between_kernels(&setup, 1)?
        );
    }
    Ok(())
}
