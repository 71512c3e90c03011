//! What a bridge adds to the time of a datagram, and how many go through it in a second. Needs root.
//!
//! A kernel's UDP socket sends 64 bytes and polls for the answer. They are answered by a program that reads frames of the
//! TAP device itself; then by a client of a bridge at that device. Half of the difference is what the bridge adds to one
//! way, the client's queues included. The two are measured in turn.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use barewire::Node;
use barewire_bridge::{Bridge, BridgeConfig, Device};
use barewire_edge::{Ask, Lease, LeaseOptions, PacketHeader, Protocol};
use barewire_sys::frames::{FRAME_HEADER_BYTES, FrameDevice, TapOffload};
use barewire_sys::links::{add_address_in, set_state};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;
use barewire_sys::wake::EventFd;

const ROUNDS: usize = 5;
const TURNS: usize = 4000;
const BRIDGE: &str = "10.77.0.9:7";

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

/// Sends 64 bytes to and fro; the median of the times, in ns.
fn times(socket: &UdpSocket, to: SocketAddr) -> std::io::Result<u64> {
    let mut all = Vec::with_capacity(TURNS);
    let mut buffer = [0; 100];
    for number in 0..TURNS + 100 {
        let from = Instant::now();
        socket.send_to(&[1; 64], to)?;
        while socket.recv(&mut buffer).is_err() {
            // Lost, as the first ones may be while the address of the other end is asked for.
            if from.elapsed() > Duration::from_millis(200) {
                socket.send_to(&[1; 64], to)?;
                break;
            }
        }
        if number >= 100 {
            all.push(from.elapsed().as_nanos() as u64);
        }
    }
    all.sort_unstable();
    Ok(all[TURNS / 2])
}

/// Answers by the frames themselves, until it is told to end.
fn answer_frames(end: &AtomicBool, ready: &mpsc::Sender<()>) -> Result<(), Failure> {
    let all = TapOffload {
        checksum: true,
        tcp_segments: true,
    };
    let device = FrameDevice::tap("raw0", Some(all))?;
    let mut socket = RouteSocket::open()?;
    set_state(&mut socket, "raw0", true)?;
    add_address_in(&mut socket, device.index(), "10.78.0.1".parse()?, 24)?;
    ready.send(())?;
    let mut buffer = vec![0; 70_000];
    // Relaxed: it is looked at again and again, and nothing else goes with it.
    while !end.load(Ordering::Relaxed) {
        let Some(len) = device.try_receive(&mut buffer)? else {
            continue;
        };
        let frame = &mut buffer[FRAME_HEADER_BYTES..len];
        let is_question = frame[12..14] == [8, 6] && frame[38..42] == [10, 78, 0, 9];
        if is_question {
            let (asker, address) = (frame[22..28].to_vec(), frame[28..32].to_vec());
            frame[21] = 2;
            frame[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 9, 10, 78, 0, 9]);
            frame[32..38].copy_from_slice(&asker);
            frame[38..42].copy_from_slice(&address);
        } else if frame[12..14] == [8, 0] && frame[23] == 17 {
            turn(&mut frame[14..]);
        } else {
            continue;
        }
        frame.copy_within(6..12, 0);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        device.try_send(&buffer[..len])?;
    }
    Ok(())
}

/// Answers as a client of the bridge, until it is told to end.
fn answer_packets(end: &AtomicBool, ready: &mpsc::Sender<()>) -> Result<(), Failure> {
    let node = Node::new()?;
    let mut lease = Lease::new(
        &node,
        &Ask::listen(Protocol::Udp, 7, false),
        &LeaseOptions::default(),
    )?;
    ready.send(())?;
    let mut packet = Vec::new();
    // Relaxed: as above.
    while !end.load(Ordering::Relaxed) {
        let header = match lease.try_recv()? {
            Some((header, bytes)) => {
                packet.clear();
                packet.extend_from_slice(bytes);
                header
            }
            None => continue,
        };
        turn(&mut packet);
        let plain = PacketHeader {
            segment_bytes: 0,
            ..header
        };
        lease.try_send(&plain, &packet)?;
    }
    Ok(())
}

/// Datagrams that a client sends and a kernel's socket receives in a second.
fn rate(socket: &UdpSocket) -> Result<f64, Failure> {
    let node = Node::new()?;
    let ask = Ask::connect(Protocol::Udp, socket.local_addr()?);
    let mut lease = Lease::new(&node, &ask, &LeaseOptions::default())?;
    let (local, remote) = (lease.granted().local, ask.remote);
    let mut packet = vec![0; 28 + 1400];
    barewire_proto::edge::packet::write_header(&mut packet, local.ip(), remote.ip(), 17, 64, 1408);
    packet[20..22].copy_from_slice(&local.port().to_be_bytes());
    packet[22..24].copy_from_slice(&remote.port().to_be_bytes());
    packet[24..26].copy_from_slice(&1408_u16.to_be_bytes());
    let (from, mut received, mut buffer) = (Instant::now(), 0_u64, [0; 2000]);
    while from.elapsed() < Duration::from_secs(2) {
        lease.try_send(&PacketHeader::default(), &packet)?;
        while socket.recv(&mut buffer).is_ok() {
            received += 1;
        }
    }
    Ok(received as f64 / from.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failure> {
    NetNamespace::create()?.enter()?;
    let mut config = BridgeConfig::new(Device::Tap {
        name: "bw0".to_owned(),
        host: vec!["10.77.0.1/24".parse()?],
    });
    config.addresses = vec!["10.77.0.9/24".parse()?];
    let stop = EventFd::new()?;
    let (seen, end) = (stop.try_clone()?, AtomicBool::new(false));
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_nonblocking(true)?;
    std::thread::scope(|scope| -> Result<(), Failure> {
        let (tell, ready) = mpsc::channel();
        let (tell_raw, tell_client) = (tell.clone(), tell.clone());
        scope.spawn(move || {
            let mut bridge = Bridge::open(&config).expect("a bridge");
            tell.send(()).expect("somebody waits");
            bridge.serve(&seen, &mut |_| {}).expect("it serves");
            println!("{}", bridge.summary());
        });
        ready.recv()?;
        let end = &end;
        scope.spawn(move || answer_frames(end, &tell_raw).expect("frames are answered"));
        scope.spawn(move || answer_packets(end, &tell_client).expect("packets are answered"));
        ready.recv()?;
        ready.recv()?;
        let mut added = Vec::new();
        for _ in 0..ROUNDS {
            let (raw, bridged) = (
                times(&socket, "10.78.0.9:7".parse()?)?,
                times(&socket, BRIDGE.parse()?)?,
            );
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
        // Relaxed: as above.
        end.store(true, Ordering::Relaxed);
        let peer = UdpSocket::bind("10.77.0.1:0")?;
        peer.set_nonblocking(true)?;
        println!(
            "a client's datagrams of 1400 bytes: {:.0} in a second",
            rate(&peer)?
        );
        stop.signal()?;
        Ok(())
    })
}
