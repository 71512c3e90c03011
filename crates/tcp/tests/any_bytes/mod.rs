//! A connection under anything: bytes say which packets come, when, and what the program does. It
//! never panics, keeps to its buffers, sends a bounded number of packets that are right, and never
//! asks to be called at a time that has come.
//!
//! The test `hostile` runs this with bytes by chance, the fuzz target `tcp` with those that it finds.

use barewire_tcp::{Checked, Config, Endpoint, Offload, State, Tcp};
use barewire_units::{Duration, Instant};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
    TcpTimestampRepr,
};
use std::net::{Ipv4Addr, SocketAddr};

const HERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SEND_BYTES: usize = 20_000;
const RECEIVE_BYTES: usize = 10_000;

/// No more packets than this come from one call: each byte of the buffer in a segment of the
/// smallest size, and answers.
const PACKETS_MAX: usize = SEND_BYTES / 36 + 64;

/// Takes the bytes of an input, zero where there are no more.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// A distance: mostly short, and of either sign.
    fn distance(&mut self) -> u32 {
        let value = i32::from(self.byte() as i8);
        let shift = u32::from(self.byte() % 24);
        let fine = i32::from(self.byte() as i8);
        (value << shift).wrapping_add(fine) as u32
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The other end, as far as it knows what would be right.
#[derive(Default)]
struct Other {
    /// What it would send next.
    seq: u32,
    /// What it would acknowledge.
    ack: u32,
}

/// Runs a connection over the bytes.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut now = Instant::ORIGIN;
    let setup = input.byte();
    let mut config = Config::new(
        SocketAddr::from((HERE, 40_000)),
        SocketAddr::from((THERE, 80)),
        u64::from(setup),
    );
    config.send_buffer_bytes = SEND_BYTES;
    config.receive_buffer_bytes = RECEIVE_BYTES;
    config.mtu = 576 + usize::from(setup);
    config.nagle = setup & 1 != 0;
    config.timestamps = setup & 32 == 0;
    config.keep_alive = (setup & 2 != 0).then_some(Duration::from_s(5));
    config.offload = Offload {
        checksum: setup & 4 != 0,
        segmentation_bytes_max: (setup & 8 != 0).then_some(9000),
    };
    let mut other = Other::default();
    let mut tcp = if setup & 16 == 0 {
        Tcp::connect(&config, now).expect("the settings are right")
    } else {
        let syn = segment(&mut input, &mut other, Some(TcpControl::Syn), false);
        match Tcp::accept(&config, &syn, Checked::Yes, now) {
            Ok(tcp) => tcp,
            Err(_) => return,
        }
    };
    settle(&mut tcp, &config, &mut other, now);
    while !input.is_empty() {
        let step = input.byte();
        now = now.saturating_add(Duration::from_us(u64::from(step & 0x0f) << (step >> 4)));
        disturb(&mut tcp, &mut input, &mut other, now);
        settle(&mut tcp, &config, &mut other, now);
    }
    run_out(&mut tcp, &config, &mut other, now);
}

/// With nobody at the other end, every connection ends by itself once the program wants that.
fn run_out(tcp: &mut Tcp, config: &Config, other: &mut Other, mut now: Instant) {
    tcp.close();
    for _ in 0..2000 {
        settle(tcp, config, other, now);
        if tcp.state() == State::Closed {
            return;
        }
        // Whoever has ended its stream, and had that acknowledged, may wait for the other for ever.
        let Some(deadline) = tcp.next_deadline() else {
            assert!(tcp.is_end_acknowledged(), "{tcp:?}");
            return;
        };
        now = deadline;
    }
    panic!("it never ends: {tcp:?}");
}

fn disturb(tcp: &mut Tcp, input: &mut Input<'_>, other: &mut Other, now: Instant) {
    match input.byte() % 16 {
        0 => {
            let bytes = vec![7; usize::from(input.word())];
            let _ = tcp.send(&bytes);
        }
        1 => {
            let mut bytes = vec![0; usize::from(input.word())];
            let _ = tcp.receive(&mut bytes);
        }
        2 => match input.byte() {
            0 => tcp.abort(),
            1 => tcp.close(),
            2..40 => tcp.shutdown(),
            _ => {}
        },
        3 => {
            let count = usize::from(input.byte());
            let mut packet: Vec<u8> = (0..count).map(|_| input.byte()).collect();
            tcp.handle_packet(&mut packet, Checked::Yes, now);
        }
        // What a handshake needs.
        4 | 5 => {
            let mut packet = segment(input, other, Some(TcpControl::Syn), true);
            tcp.handle_packet(&mut packet, Checked::Yes, now);
        }
        6 => {
            let mut packet = icmp(input, other);
            tcp.handle_packet(&mut packet, Checked::Yes, now);
        }
        _ => {
            let mut packet = segment(input, other, None, true);
            tcp.handle_packet(&mut packet, Checked::Yes, now);
        }
    }
}

/// An ICMP error about a segment near what was sent last.
fn icmp(input: &mut Input<'_>, other: &Other) -> Vec<u8> {
    let seq = other.ack.wrapping_sub(input.distance());
    let mtu = input.word();
    let quoted = Ipv4Repr {
        src_addr: HERE,
        dst_addr: THERE,
        next_header: IpProtocol::Tcp,
        payload_len: usize::from(input.word() % 9000),
        hop_limit: 64,
    };
    let outer = Ipv4Repr {
        src_addr: Ipv4Addr::new(198, 51, 100, 1),
        dst_addr: HERE,
        next_header: IpProtocol::Icmp,
        payload_len: 8 + 20 + 8,
        hop_limit: 64,
    };
    let mut bytes = vec![0; 20 + outer.payload_len];
    let sums = ChecksumCapabilities::default();
    outer.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &sums);
    bytes[20..22].copy_from_slice(&[[3, 11, 12][usize::from(mtu % 3)], input.byte() % 8]);
    bytes[26..28].copy_from_slice(&mtu.to_be_bytes());
    quoted.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[28..48]), &sums);
    bytes[48..50].copy_from_slice(&40_000_u16.to_be_bytes());
    bytes[50..52].copy_from_slice(&80_u16.to_be_bytes());
    bytes[52..56].copy_from_slice(&seq.to_be_bytes());
    bytes
}

/// A segment near what would be right; all of it comes from the input.
fn segment(
    input: &mut Input<'_>,
    other: &mut Other,
    control: Option<TcpControl>,
    has_ack: bool,
) -> Vec<u8> {
    let what = input.byte();
    let control = control.unwrap_or(match what >> 4 {
        0 => TcpControl::Fin,
        1 => TcpControl::Rst,
        2 => TcpControl::Syn,
        3..8 => TcpControl::Psh,
        _ => TcpControl::None,
    });
    let seq_off = if what & 1 == 0 { 0 } else { input.distance() };
    let ack_off = if what & 2 == 0 { 0 } else { input.distance() };
    let mut sack_ranges = [None; 3];
    if what & 4 != 0 {
        for range in &mut sack_ranges[..1 + usize::from(input.byte() % 3)] {
            let from = other.ack.wrapping_add(input.distance());
            *range = Some((from, from.wrapping_add(u32::from(input.word()))));
        }
    }
    let payload = vec![
        9;
        if what & 8 == 0 {
            0
        } else {
            usize::from(input.word() % 3000)
        }
    ];
    let options = input.byte();
    let seq = other.seq.wrapping_add(seq_off);
    let is_syn = control == TcpControl::Syn;
    // There is room for 40 bytes of options.
    let has_stamp = options & 8 != 0 && !(is_syn && sack_ranges[0].is_some());
    let repr = TcpRepr {
        src_port: 80,
        dst_port: 40_000,
        control,
        seq_number: TcpSeqNumber(seq as i32),
        ack_number: has_ack.then_some(TcpSeqNumber(other.ack.wrapping_add(ack_off) as i32)),
        window_len: input.word(),
        window_scale: (is_syn && options & 1 != 0).then_some(options >> 4),
        max_seg_size: (is_syn && options & 2 != 0).then(|| input.word()),
        sack_permitted: is_syn && options & 4 != 0,
        sack_ranges,
        timestamp: has_stamp.then(|| TcpTimestampRepr::new(input.distance(), input.distance())),
        payload: &payload,
    };
    if seq_off == 0 {
        let taken = payload.len() + repr.control.len();
        other.seq = seq.wrapping_add(u32::try_from(taken).unwrap_or(0));
    }
    packet(&repr)
}

fn packet(repr: &TcpRepr<'_>) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: THERE,
        dst_addr: HERE,
        next_header: IpProtocol::Tcp,
        payload_len: repr.buffer_len(),
        hop_limit: 64,
    };
    let mut bytes = vec![0; 20 + repr.buffer_len()];
    let mut view = Ipv4Packet::new_unchecked(&mut bytes[..]);
    ip.emit(&mut view, &ChecksumCapabilities::default());
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[20..]),
        &IpAddress::Ipv4(THERE),
        &IpAddress::Ipv4(HERE),
        &ChecksumCapabilities::ignored(),
    );
    bytes
}

/// Takes all packets, and checks them and what the connection holds.
fn settle(tcp: &mut Tcp, config: &Config, other: &mut Other, now: Instant) {
    let mut out = vec![0; 65_535];
    let mut count = 0;
    while let Some(sent) = tcp.poll_head(&mut out, now) {
        count += 1;
        assert!(count <= PACKETS_MAX, "{tcp:?}");
        let payload = tcp.left_out(&sent).concat();
        assert_eq!(payload.is_empty(), sent.left_out.is_none(), "{sent:?}");
        out[sent.bytes - payload.len()..sent.bytes].copy_from_slice(&payload);
        let bytes = &out[..sent.bytes];
        let may_cut = config.offload.segmentation_bytes_max.is_some();
        assert!(sent.segment_bytes.is_none() || may_cut, "{sent:?}");
        let longest = if sent.segment_bytes.is_some() {
            9000
        } else {
            config.mtu
        };
        assert!(bytes.len() <= longest, "{} bytes, {sent:?}", bytes.len());
        let ip = Ipv4Packet::new_checked(bytes).expect("an IPv4 packet");
        assert!(ip.verify_checksum() && usize::from(ip.total_len()) == bytes.len());
        let view = TcpPacket::new_checked(ip.payload()).expect("a TCP segment");
        let (from, to) = (IpAddress::Ipv4(HERE), IpAddress::Ipv4(THERE));
        assert!(sent.checksum.is_some() || view.verify_checksum(&from, &to));
        let repr = TcpRepr::parse(&view, &from, &to, &ChecksumCapabilities::ignored())
            .expect("a TCP segment");
        if repr.control != TcpControl::Rst {
            other.ack = (repr.seq_number.0 as u32).wrapping_add(repr.segment_len() as u32);
        }
    }
    assert!(tcp.readable_bytes() <= RECEIVE_BYTES);
    assert!(tcp.unacknowledged_bytes() <= SEND_BYTES);
    assert!(
        tcp.next_deadline().is_none_or(|deadline| deadline > now),
        "it asks for now, and does nothing: {tcp:?}"
    );
}
