//! TCP at user level against the kernel's: hosts of the kernel in network namespaces of their own,
//! each behind a TAP device, and a modelled path that loses packets, in real time.
#![forbid(unsafe_code)]

pub mod programs;

use barewire_sys::frames::{FrameDevice, FrameError};
use barewire_sys::links::{add_address_in, link, set_state};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;
use barewire_tcp::path::{Path, PathConfig};
use barewire_tcp::{Checked, Endpoint};
use barewire_units::{Duration, Instant, Rng};
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// Where the kernel's host is.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Where the other host is.
pub const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// No run takes longer than this, unless something is stuck.
pub const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

const ETHERNET_BYTES: usize = 14;
const FRAME_BYTES_MAX: usize = 2048;

/// The Ethernet address at the far end of each TAP device.
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// What keeps a test from running here.
#[derive(Debug)]
pub struct CannotRun(pub String);

impl From<io::Error> for CannotRun {
    fn from(error: io::Error) -> Self {
        Self(format!("no network namespaces: {error}"))
    }
}

impl From<FrameError> for CannotRun {
    fn from(error: FrameError) -> Self {
        Self(error.to_string())
    }
}

/// A host of the kernel in a namespace of its own.
pub struct KernelHost {
    /// The namespace: run programs in it.
    pub net: NetNamespace,
    tap: FrameDevice,
}

impl KernelHost {
    /// A host at `address`.
    ///
    /// # Errors
    ///
    /// Not root, or no TAP devices here.
    pub fn new(address: Ipv4Addr) -> Result<Self, CannotRun> {
        let net = NetNamespace::create()?;
        let tap = net.run(|| {
            let tap = FrameDevice::tap("bw0", None).map_err(io::Error::other)?;
            let mut socket = RouteSocket::open()?;
            set_state(&mut socket, "lo", true)?;
            set_state(&mut socket, "bw0", true)?;
            let index = link(&mut socket, "bw0")?.index;
            add_address_in(&mut socket, index, IpAddr::V4(address), 24)?;
            Ok(tap)
        })?;
        Ok(Self { net, tap })
    }

    /// The next IP packet that the kernel has sent, if there is one; requests for Ethernet
    /// addresses are answered on the way.
    fn receive<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b mut [u8]> {
        loop {
            let len = self.tap.try_receive(buffer).ok()??;
            match buffer.get(12..ETHERNET_BYTES)? {
                [8, 0] => return buffer.get_mut(ETHERNET_BYTES..len),
                // A host that only says that it is there asks for its own address.
                [8, 6]
                    if buffer.get(21) == Some(&1)
                        && buffer.get(28..32)? != buffer.get(38..42)? =>
                {
                    let reply = arp_reply(buffer.get(..42)?);
                    let _ = self.tap.try_send(&reply);
                }
                _ => {}
            }
        }
    }

    /// Hands an IP packet to the kernel.
    fn send(&self, packet: &[u8]) {
        let mut frame = Vec::with_capacity(ETHERNET_BYTES + packet.len());
        frame.extend_from_slice(&self.tap.hardware_address());
        frame.extend_from_slice(&FAR);
        frame.extend_from_slice(&[8, 0]);
        frame.extend_from_slice(packet);
        let _ = self.tap.try_send(&frame);
    }
}

/// The answer of the far end: every address is there.
fn arp_reply(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    reply[..6].copy_from_slice(&request[6..12]);
    reply[6..12].copy_from_slice(&FAR);
    reply[21] = 2;
    reply[22..28].copy_from_slice(&FAR);
    reply[28..32].copy_from_slice(&request[38..42]);
    reply[32..42].copy_from_slice(&request[22..32]);
    reply
}

/// Both directions of the path to the kernel's host, and the time.
struct Line {
    start: std::time::Instant,
    to_kernel: Path,
    from_kernel: Path,
}

impl Line {
    fn new(there: PathConfig, back: PathConfig, seed: u64) -> Self {
        let rng = Rng::from_seed(seed);
        Self {
            start: std::time::Instant::now(),
            to_kernel: Path::new(there, rng.fork("to the kernel")),
            from_kernel: Path::new(back, rng.fork("from the kernel")),
        }
    }

    fn now(&self) -> Instant {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::ORIGIN.saturating_add(Duration::from_ns(ns))
    }

    fn next_arrival(&self) -> Option<Instant> {
        [
            self.to_kernel.next_arrival(),
            self.from_kernel.next_arrival(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Waits for a frame from one of the hosts, or until `deadline`.
    fn wait(&self, hosts: &[&KernelHost], deadline: Option<Instant>) {
        let longest = Duration::from_ms(20);
        let now = self.now();
        let wait = deadline.map_or(longest, |at| at.saturating_duration_since(now));
        let wait = wait.min(longest);
        let timeout = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(wait.as_ns()).unwrap_or(0),
        };
        let mut fds: Vec<PollFd<'_>> = hosts
            .iter()
            .map(|host| PollFd::new(&host.tap, PollFlags::IN))
            .collect();
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }
}

impl AsFd for KernelHost {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }
}

/// Joins an endpoint at user level with the kernel's host until `program`, which is called again
/// and again, says that it is done; gives the time it took.
///
/// # Panics
///
/// It takes longer than [`LIMIT`].
pub fn join<E: Endpoint>(
    host: &KernelHost,
    endpoint: &mut E,
    (there, back): (PathConfig, PathConfig),
    seed: u64,
    mut program: impl FnMut(&mut E, Instant) -> bool,
) -> std::time::Duration {
    let mut line = Line::new(there, back, seed);
    let mut frame = vec![0; FRAME_BYTES_MAX];
    let mut out = vec![0; 65_535];
    while !program(endpoint, line.now()) {
        assert!(line.start.elapsed() < LIMIT, "it is stuck");
        while let Some(packet) = host.receive(&mut frame) {
            let now = line.now();
            line.from_kernel.send(packet, now);
        }
        let now = line.now();
        while let Some(mut packet) = line.from_kernel.receive(now) {
            endpoint.handle_packet(&mut packet, Checked::No, now);
        }
        let now = line.now();
        while let Some(sent) = endpoint.poll_packet(&mut out, now) {
            line.to_kernel.send(&out[..sent.bytes], now);
        }
        while let Some(packet) = line.to_kernel.receive(line.now()) {
            host.send(&packet);
        }
        let deadline = [endpoint.next_deadline(), line.next_arrival()];
        line.wait(&[host], deadline.into_iter().flatten().min());
    }
    let took = line.start.elapsed();
    // What was sent last is not lost with the path.
    while let Some(sent) = endpoint.poll_packet(&mut out, line.now()) {
        let now = line.now();
        line.to_kernel.send(&out[..sent.bytes], now);
    }
    while let Some(arrives) = line.to_kernel.next_arrival() {
        if let Some(packet) = line.to_kernel.receive(arrives) {
            host.send(&packet);
        }
    }
    took
}

/// Joins two hosts of the kernel until `is_done`.
///
/// # Panics
///
/// It takes longer than [`LIMIT`].
pub fn join_kernels(
    hosts: [&KernelHost; 2],
    path: (PathConfig, PathConfig),
    seed: u64,
    is_done: impl Fn() -> bool,
) {
    let start = std::time::Instant::now();
    join_hosts(hosts, path, seed, || {
        assert!(start.elapsed() < LIMIT, "it is stuck");
        is_done()
    });
}

/// As [`join_kernels`], for as long as it takes.
fn join_hosts(
    hosts: [&KernelHost; 2],
    (there, back): (PathConfig, PathConfig),
    seed: u64,
    is_done: impl Fn() -> bool,
) {
    let mut line = Line::new(there, back, seed);
    let mut frame = vec![0; FRAME_BYTES_MAX];
    while !is_done() {
        while let Some(packet) = hosts[0].receive(&mut frame) {
            let now = line.now();
            line.to_kernel.send(packet, now);
        }
        while let Some(packet) = hosts[1].receive(&mut frame) {
            let now = line.now();
            line.from_kernel.send(packet, now);
        }
        while let Some(packet) = line.to_kernel.receive(line.now()) {
            hosts[1].send(&packet);
        }
        while let Some(packet) = line.from_kernel.receive(line.now()) {
            hosts[0].send(&packet);
        }
        line.wait(&hosts, line.next_arrival());
    }
}

/// The byte at a place of a stream: no two stretches of some length look the same.
#[must_use]
pub fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}
