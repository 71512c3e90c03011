//! A table of rate against loss, in virtual time: a stream of some MiB between two ends of this
//! crate, and between two ends of plain smoltcp, over the same modelled path.
//!
//! `cargo run --release -p barewire-tcp --example loss -- [MBIT/S [RTT_US [MIB [BUFFER_KIB]]]]`

use barewire_tcp::path::{CHANCE_ONE, PathConfig};
use barewire_tcp::{Checked, Config, Endpoint, Outgoing, State, Tcp};
use barewire_units::{Duration, Instant, Rate};
use core::net::SocketAddr;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::collections::VecDeque;

#[path = "../tests/pair/mod.rs"]
mod pair;
use pair::{Pair, Server};

/// What a stream is sent over.
trait Stream: Endpoint {
    fn write(&mut self, bytes: &[u8]) -> usize;
    fn read(&mut self, into: &mut [u8]) -> usize;
}

impl Stream for Tcp {
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.send(bytes).unwrap_or(0)
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        self.receive(into).unwrap_or(0)
    }
}

impl Stream for Server {
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.tcp().map_or(0, |tcp| tcp.write(bytes))
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        self.tcp().map_or(0, |tcp| tcp.read(into))
    }
}

/// smoltcp alone.
struct Plain {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Wire,
}

#[derive(Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
}

struct Incoming(Vec<u8>);

struct Reply<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Reply<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Reply<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Incoming, Reply<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Incoming(packet), Reply(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Reply<'_>> {
        // As many as a transmit ring has.
        (self.outgoing.len() < 256).then_some(Reply(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

fn time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(i64::try_from(now.since_origin().as_us()).unwrap_or(0))
}

impl Plain {
    fn new(local: SocketAddr, remote: Option<SocketAddr>, seed: u64, buffer_bytes: usize) -> Self {
        let mut wire = Wire::default();
        let mut settings = smoltcp::iface::Config::new(HardwareAddress::Ip);
        settings.random_seed = seed;
        let mut interface = Interface::new(settings, &mut wire, time(Instant::ORIGIN));
        interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(local.ip().into(), 0))
                .expect("there is room for an address");
        });
        let buffer = || tcp::SocketBuffer::new(vec![0; buffer_bytes]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        match remote {
            Some(remote) => {
                let to = (smoltcp::wire::IpAddress::from(remote.ip()), remote.port());
                socket
                    .connect(interface.context(), to, local.port())
                    .expect("the address is right");
            }
            None => socket.listen(local.port()).expect("the port is right"),
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self {
            interface,
            sockets,
            handle,
            wire,
        }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

impl Endpoint for Plain {
    fn handle_packet(&mut self, packet: &mut [u8], _: Checked, now: Instant) {
        self.wire.incoming.push_back(packet.to_vec());
        self.interface
            .poll_ingress_single(time(now), &mut self.wire, &mut self.sockets);
    }

    fn poll_packet(&mut self, out: &mut [u8], now: Instant) -> Option<Outgoing> {
        if self.wire.outgoing.is_empty() {
            self.interface
                .poll_egress(time(now), &mut self.wire, &mut self.sockets);
        }
        let packet = self.wire.outgoing.pop_front()?;
        out[..packet.len()].copy_from_slice(&packet);
        Some(Outgoing {
            bytes: packet.len(),
            checksum: None,
            segment_bytes: None,
            left_out: None,
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        // smoltcp wants itself to be changed for the answer: one look each millisecond will do.
        None
    }
}

impl Stream for Plain {
    fn write(&mut self, bytes: &[u8]) -> usize {
        let socket = self.socket();
        if socket.may_send() {
            socket.send_slice(bytes).unwrap_or(0)
        } else {
            0
        }
    }

    fn read(&mut self, into: &mut [u8]) -> usize {
        self.socket().recv_slice(into).unwrap_or(0)
    }
}

/// Sends `total` bytes from `a` to `b`; gives the rate in Mbit/s, or `None` after `limit`.
fn stream<A: Stream, B: Stream>(
    pair: &mut Pair<A, B>,
    total: u64,
    limit: Duration,
) -> Result<f64, u64> {
    let bytes = vec![0x5a; 65_536];
    let mut buffer = vec![0; 65_536];
    let (mut sent, mut received) = (0, 0);
    while received < total {
        loop {
            let count = usize::try_from((total - sent).min(65_536)).unwrap_or(65_536);
            let taken = pair.a.write(&bytes[..count]);
            sent += taken as u64;
            pair.settle();
            let mut read = 0;
            loop {
                let count = pair.b.read(&mut buffer);
                read += count;
                if count == 0 {
                    break;
                }
            }
            received += read as u64;
            if taken == 0 && read == 0 {
                break;
            }
        }
        let before = pair.now;
        let is_alive = pair.advance();
        // Also a look each millisecond, for ends that have no deadlines.
        let tick = before.saturating_add(Duration::from_ms(1));
        pair.now = if is_alive { pair.now.min(tick) } else { tick };
        if pair.now > Instant::ORIGIN.saturating_add(limit) {
            return Err(received);
        }
    }
    let us = pair.now.since_origin().as_us().max(1);
    Ok(total as f64 * 8.0 / us as f64)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        arguments
            .next()
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let (mbit, rtt_us, mib, buffer_kib) = (number(1000), number(200), number(16), number(1024));
    let buffer_bytes = usize::try_from(buffer_kib).expect("a number of KiB") << 10;
    let here: SocketAddr = "192.0.2.1:40000".parse().expect("an address");
    let there: SocketAddr = "192.0.2.2:5001".parse().expect("an address");
    println!(
        "{mib} MiB at {mbit} Mbit/s, {rtt_us} us there and back, buffers of {buffer_kib} KiB, in Mbit/s of payload:\n"
    );
    println!("| loss | this crate | packets again, timeouts | smoltcp alone |");
    println!("|---|---|---|---|");
    for lost in [0, 10, 100, 1000, 10_000] {
        let rate = Rate::new(mbit * 1_000_000);
        let mut to_b = PathConfig::new(rate, Duration::from_us(rtt_us / 2));
        to_b.lost = lost;
        let to_a = PathConfig::new(rate, Duration::from_us(rtt_us / 2));
        let limit = Duration::from_s(60);
        let ours = {
            let now = Instant::ORIGIN;
            let config = |local, remote, seed| {
                let mut config = Config::new(local, remote, seed);
                config.send_buffer_bytes = buffer_bytes;
                config.receive_buffer_bytes = buffer_bytes;
                config
            };
            let a = Tcp::connect(&config(here, there, 1), now).expect("it can connect");
            let b = Server::Waiting(config(there, here, 2));
            let mut pair = Pair::new(a, b, to_b, to_a, 7);
            let rate = stream(&mut pair, mib << 20, limit);
            let counts = pair.a.counts();
            assert!(pair.a.state() == State::Open);
            (rate, counts)
        };
        let plain = {
            let a = Plain::new(here, Some(there), 1, buffer_bytes);
            let b = Plain::new(there, None, 2, buffer_bytes);
            let mut pair = Pair::new(a, b, to_b, to_a, 7);
            stream(&mut pair, mib << 20, limit)
        };
        println!(
            "| {} | {} | {}, {} | {} |",
            lost as f64 / CHANCE_ONE as f64,
            shown(ours.0),
            ours.1.packets_again,
            ours.1.timeouts,
            shown(plain)
        );
    }
}

fn shown(rate: Result<f64, u64>) -> String {
    match rate {
        Ok(rate) => format!("{rate:.1}"),
        Err(bytes) => format!("{:.2} (not done in 60 s)", bytes as f64 * 8.0 / 60e6),
    }
}
