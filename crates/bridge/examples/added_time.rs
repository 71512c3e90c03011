//! What a bridge adds to the time of a datagram, and how many go through it in a second. Needs root.
//!
//! One thread plays all parts in turn, so that no time is spent in waking anybody. A kernel's UDP socket sends 64 bytes and
//! gets the answer. They are answered at a TAP device by who reads the frames itself; then by a client of a bridge at such
//! a device. Half of the difference is what the bridge adds to one way, both queues and the client's part included.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use barewire::Node;
use barewire_bridge::{Bridge, BridgeConfig, Device};
use barewire_edge::{Ask, Lease, LeaseOptions, PacketHeader, Protocol};
use barewire_proto::edge::packet::write_header;
use barewire_sys::frames::{FRAME_HEADER_BYTES, FrameDevice, TapOffload};
use barewire_sys::links::{add_address_in, set_state};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;

const ROUNDS: usize = 9;
const TURNS: usize = 4000;
/// Turns that do not count: addresses are asked for, caches filled.
const FIRST: usize = 200;

type Failure = Box<dyn std::error::Error>;

/// Turns an IP packet with UDP round. The checksum stays right, as the sums do.
fn turn(packet: &mut [u8]) {
    let (mut source, mut target) = ([0; 4], [0; 4]);
    source.copy_from_slice(&packet[12..16]);
    target.copy_from_slice(&packet[16..20]);
    packet[12..16].copy_from_slice(&target);
    packet[16..20].copy_from_slice(&source);
    packet[20..24].rotate_left(2);
}

/// Sends 64 bytes to and fro; the median of the times, in ns. `answer` does all that has to be done between.
fn times(
    socket: &UdpSocket,
    to: SocketAddr,
    mut answer: impl FnMut() -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut all = Vec::with_capacity(TURNS);
    let mut buffer = [0; 100];
    for number in 0..TURNS + FIRST {
        let from = Instant::now();
        socket.send_to(&[1; 64], to)?;
        while socket.recv(&mut buffer).is_err() {
            answer()?;
            if from.elapsed() > Duration::from_secs(2) {
                return Err(format!("no answer from {to}").into());
            }
        }
        if number >= FIRST {
            all.push(from.elapsed().as_nanos() as u64);
        }
    }
    all.sort_unstable();
    Ok(all[TURNS / 2])
}

/// A TAP device whose frames are answered without a bridge.
struct Frames {
    device: FrameDevice,
    buffer: Vec<u8>,
}

impl Frames {
    fn new() -> Result<Frames, Failure> {
        let all = TapOffload {
            checksum: true,
            tcp_segments: true,
        };
        let device = FrameDevice::tap("raw0", Some(all))?;
        let mut socket = RouteSocket::open()?;
        set_state(&mut socket, "raw0", true)?;
        add_address_in(&mut socket, device.index(), "10.78.0.1".parse()?, 24)?;
        Ok(Frames {
            device,
            buffer: vec![0; 70_000],
        })
    }

    fn answer(&mut self) -> Result<(), Failure> {
        let Some(len) = self.device.try_receive(&mut self.buffer)? else {
            return Ok(());
        };
        let frame = &mut self.buffer[FRAME_HEADER_BYTES..len];
        if frame[12..14] == [8, 6] && frame[38..42] == [10, 78, 0, 9] {
            let (asker, address) = (frame[22..28].to_vec(), frame[28..32].to_vec());
            frame[21] = 2;
            frame[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 9, 10, 78, 0, 9]);
            frame[32..38].copy_from_slice(&asker);
            frame[38..42].copy_from_slice(&address);
        } else if frame[12..14] == [8, 0] && frame[23] == 17 {
            turn(&mut frame[14..]);
        } else {
            return Ok(());
        }
        frame.copy_within(6..12, 0);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        self.device.try_send(&self.buffer[..len])?;
        Ok(())
    }
}

/// A lease from a bridge that another thread would serve; here it is served in between.
fn lease(bridge: &mut Bridge, node: &Node, ask: &Ask) -> Result<Lease, Failure> {
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| Lease::new(node, ask, &LeaseOptions::default()));
        while !asking.is_finished() {
            bridge.poll_once()?;
            std::thread::yield_now();
        }
        match asking.join() {
            Ok(lease) => Ok(lease?),
            Err(_) => Err("the client has panicked".into()),
        }
    })
}

/// Bytes in a second from a client to a kernel's socket, with datagrams of 1400 bytes; and how many came.
fn rate(bridge: &mut Bridge, node: &Node, socket: &UdpSocket) -> Result<f64, Failure> {
    let ask = Ask::connect(Protocol::Udp, socket.local_addr()?);
    let mut lease = lease(bridge, node, &ask)?;
    let (local, remote) = (lease.granted().local, ask.remote);
    let mut packet = vec![0; 28 + 1400];
    write_header(&mut packet, local.ip(), remote.ip(), 17, 64, 1408);
    packet[20..22].copy_from_slice(&local.port().to_be_bytes());
    packet[22..24].copy_from_slice(&remote.port().to_be_bytes());
    packet[24..26].copy_from_slice(&1408_u16.to_be_bytes());
    let (from, mut received, mut buffer) = (Instant::now(), 0_u64, [0; 2000]);
    while from.elapsed() < Duration::from_secs(1) {
        for _ in 0..32 {
            lease.try_send(&PacketHeader::default(), &packet)?;
        }
        bridge.poll_once()?;
        while socket.recv(&mut buffer).is_ok() {
            received += 1;
        }
    }
    Ok(received as f64 / from.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failure> {
    NetNamespace::create()?.enter()?;
    let mut frames = Frames::new()?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let peer = UdpSocket::bind("0.0.0.0:0")?;
    let mut config = BridgeConfig::new(Device::Tap {
        name: "bw0".to_owned(),
        host: vec!["10.77.0.1/24".parse()?],
    });
    config.addresses = vec!["10.77.0.9/24".parse()?];
    let mut bridge = Bridge::open(&config)?;
    let node = Node::new()?;
    let mut server = lease(&mut bridge, &node, &Ask::listen(Protocol::Udp, 7, false))?;
    socket.set_nonblocking(true)?;
    let (mut added, mut packet) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let raw = times(&socket, "10.78.0.9:7".parse()?, || frames.answer())?;
        let bridged = times(&socket, "10.77.0.9:7".parse()?, || {
            bridge.poll_once()?;
            let Some((header, bytes)) = server.try_recv()? else {
                return Ok(());
            };
            packet.clear();
            packet.extend_from_slice(bytes);
            turn(&mut packet);
            server.try_send(&header, &packet)?;
            bridge.poll_once()?;
            Ok(())
        })?;
        println!("to and fro: by frames {raw} ns, by the bridge {bridged} ns");
        added.push((bridged as i64 - raw as i64) / 2);
    }
    added.sort_unstable();
    println!(
        "the bridge adds to one way: median {} ns, from {} to {}",
        added[ROUNDS / 2],
        added[0],
        added[ROUNDS - 1]
    );
    let address = SocketAddr::new("10.77.0.1".parse()?, peer.local_addr()?.port());
    drop(peer);
    let peer = UdpSocket::bind(address)?;
    peer.set_nonblocking(true)?;
    println!(
        "a client's datagrams of 1400 bytes: {:.0} in a second",
        rate(&mut bridge, &node, &peer)?
    );
    println!("{}", bridge.summary());
    Ok(())
}
