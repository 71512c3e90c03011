//! A vocabulary in which tests speak the protocol, after packetdrill: segments are lines of text with
//! sequence numbers from zero, for both ends.
//!
//! ```text
//! S 0:0(0) win 65535 <mss 1460,sack,wscale 7>
//! S. 0:0(0) ack 1 win 65535 <mss 1460,sack,ts 700 0>
//! P. 1:11(10) ack 1 win 2048 <blocks 21:31 41:51>
//! ```
//!
//! Flags are `S`, `F`, `R`, `P` and `.` for an acknowledgement; then the first sequence number, the one
//! behind the last byte, and the number of bytes. Of timestamps (`ts`), those of the connection's own clock
//! count from what it says first; they stand behind the other options of what it sends: ` ts 10 700`.
#![allow(dead_code, reason = "each test file uses its part of this")]

use barewire_tcp::{Checked, Config, Endpoint, Error, State, Tcp};
use barewire_units::{Duration, Instant};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket,
    TcpRepr, TcpSeqNumber, TcpTimestampRepr,
};
use std::net::{IpAddr, SocketAddr};

/// The other end's first sequence number: near the end of the numbers, so that they wrap.
const OTHER_FIRST: u32 = u32::MAX - 20_000;

/// A connection, the other end of which is the test.
pub struct Script {
    pub tcp: Tcp,
    pub now: Instant,
    own_first: Option<u32>,
    /// What its clock has said first.
    own_clock: Option<u32>,
    config: Config,
}

/// The settings of most tests.
pub fn config() -> Config {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let mut config = Config::new(address("192.0.2.1:40000"), address("192.0.2.2:80"), 5);
    config.send_buffer_bytes = 100_000;
    config.receive_buffer_bytes = 60_000;
    config
}

impl Script {
    /// One that opens the connection.
    pub fn connecting(config: &Config) -> Self {
        Self::connecting_at(config, Instant::ORIGIN)
    }

    /// Likewise, at a later time.
    pub fn connecting_at(config: &Config, now: Instant) -> Self {
        Self {
            tcp: Tcp::connect(config, now).expect("it can connect"),
            now,
            own_first: None,
            own_clock: None,
            config: *config,
        }
    }

    /// One that opens the connection, which the other end has accepted, with a round-trip time of
    /// 10 ms. `options` are those of the other end, `window` is the one that it grants.
    pub fn open(config: &Config, options: &str, window: u16) -> Self {
        let mut script = Self::connecting(config);
        script.skip();
        script.after_ms(10);
        script.send(&format!("S. 0:0(0) ack 1 win {window} <{options}>"));
        script.recv("1:1(0) ack 1");
        script
    }

    /// One that answers a SYN of the other end.
    pub fn accepting(config: &Config, syn: &str) -> Self {
        let now = Instant::ORIGIN;
        let packet = packet(config, syn, 0, 0);
        let tcp = Tcp::accept(config, &packet, Checked::No, now).expect("it is a SYN");
        Self {
            tcp,
            now,
            own_first: None,
            own_clock: None,
            config: *config,
        }
    }

    /// Lets time pass.
    pub fn after_ms(&mut self, ms: u64) {
        self.now = self.now.saturating_add(Duration::from_ms(ms));
    }

    /// Time counts from a later origin, `ms` ago.
    pub fn begin_anew(&mut self, ms: u64) {
        let by = self.now.since_origin() - Duration::from_ms(ms);
        self.tcp.rebase(by);
        self.now = Instant::ORIGIN + Duration::from_ms(ms);
    }

    /// Goes on to the next deadline, and says after how many ms it comes.
    #[track_caller]
    pub fn wait_for_deadline(&mut self) -> u64 {
        let next = self.tcp.next_deadline().expect("it waits for something");
        let wait = next.saturating_duration_since(self.now);
        self.now = next;
        wait.as_ms()
    }

    /// The other end sends a segment.
    #[track_caller]
    pub fn send(&mut self, line: &str) {
        let mut packet = self.packet(line);
        self.tcp.handle_packet(&mut packet, Checked::No, self.now);
    }

    /// The other end sends a segment with bytes, one of which changes on the way.
    #[track_caller]
    pub fn send_broken(&mut self, line: &str) {
        let mut packet = self.packet(line);
        if let Some(last) = packet.last_mut() {
            *last ^= 1;
        }
        self.tcp.handle_packet(&mut packet, Checked::No, self.now);
    }

    /// A host on the way says something about the segment that begins at `seq`: type and code of
    /// ICMP, and an MTU.
    pub fn icmp(&mut self, kind: u8, code: u8, mtu: u16, seq: u32) {
        let seq = self.own_first.unwrap_or(0).wrapping_add(seq);
        let mut packet = icmp(&self.config, [kind, code], mtu, seq);
        self.tcp.handle_packet(&mut packet, Checked::No, self.now);
    }

    /// The connection sends a segment now, whose line contains this one.
    #[track_caller]
    pub fn recv(&mut self, line: &str) {
        let sent = self.next();
        let is_it = sent.as_ref().is_some_and(|sent| sent.contains(line));
        assert!(is_it, "expected «{line}», and it sent {sent:?}");
    }

    /// The connection sends nothing now.
    #[track_caller]
    pub fn quiet(&mut self) {
        let sent = self.next();
        assert_eq!(sent, None, "it should be quiet");
    }

    /// Throws away what the connection sends now.
    pub fn skip(&mut self) {
        while self.next().is_some() {}
    }

    /// The program sends so many bytes.
    #[track_caller]
    pub fn write(&mut self, bytes: usize) {
        assert_eq!(self.tcp.send(&vec![7; bytes]), Ok(bytes));
    }

    /// The program reads so many bytes.
    #[track_caller]
    pub fn read(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes];
        assert_eq!(self.tcp.receive(&mut buffer), Ok(bytes));
    }

    /// The connection has ended, in this way.
    #[track_caller]
    pub fn ended(&self, error: Option<Error>) {
        assert_eq!(self.tcp.state(), State::Closed);
        assert_eq!(self.tcp.error(), error);
    }

    #[track_caller]
    fn packet(&self, line: &str) -> Vec<u8> {
        let (first, clock) = (self.own_first.unwrap_or(0), self.own_clock.unwrap_or(0));
        packet(&self.config, line, first, clock)
    }

    fn next(&mut self) -> Option<String> {
        let mut out = vec![0; 65_535];
        let sent = self.tcp.poll_packet(&mut out, self.now)?;
        let bytes = &out[..sent.bytes];
        let tcp_at = if self.config.local.is_ipv6() { 40 } else { 20 };
        let view = TcpPacket::new_checked(&bytes[tcp_at..]).expect("a TCP segment");
        let from = IpAddress::from(self.config.local.ip());
        let to = IpAddress::from(self.config.remote.ip());
        if sent.checksum.is_none() {
            assert!(view.verify_checksum(&from, &to));
        }
        let repr = TcpRepr::parse(&view, &from, &to, &ChecksumCapabilities::ignored())
            .expect("a TCP segment");
        let first = *self.own_first.get_or_insert(repr.seq_number.0 as u32);
        let mut line = shown(&repr, first);
        if let Some(stamp) = repr.timestamp {
            let clock = *self.own_clock.get_or_insert(stamp.tsval);
            let own = stamp.tsval.wrapping_sub(clock);
            line += &format!(" ts {own} {}", stamp.tsecr);
        }
        if let Some(bytes) = sent.segment_bytes {
            line += &format!(" cut {bytes}");
        }
        Some(line)
    }
}

fn shown(repr: &TcpRepr<'_>, own_first: u32) -> String {
    let flags = match repr.control {
        TcpControl::None => "",
        TcpControl::Psh => "P",
        TcpControl::Syn => "S",
        TcpControl::Fin => "F",
        TcpControl::Rst => "R",
    };
    let dot = if repr.ack_number.is_some() { "." } else { "" };
    let start = (repr.seq_number.0 as u32).wrapping_sub(own_first);
    let len = repr.payload.len();
    let end = u64::from(start) + len as u64;
    let mut line = format!("{flags}{dot} {start}:{end}({len})");
    let other = |number: u32| number.wrapping_sub(OTHER_FIRST);
    if let Some(ack) = repr.ack_number {
        line += &format!(" ack {}", other(ack.0 as u32));
    }
    line += &format!(" win {}", repr.window_len);
    let mut options = Vec::new();
    options.extend(repr.max_seg_size.map(|mss| format!("mss {mss}")));
    options.extend(repr.sack_permitted.then(|| "sack".to_owned()));
    options.extend(repr.window_scale.map(|shift| format!("wscale {shift}")));
    let blocks: Vec<_> = repr
        .sack_ranges
        .iter()
        .flatten()
        .map(|&(from, until)| format!("{}:{}", other(from), other(until)))
        .collect();
    if !blocks.is_empty() {
        options.push(format!("blocks {}", blocks.join(" ")));
    }
    if !options.is_empty() {
        line += &format!(" <{}>", options.join(","));
    }
    line
}

/// The packet of a line, from the other end.
#[track_caller]
fn packet(config: &Config, line: &str, own_first: u32, own_clock: u32) -> Vec<u8> {
    let (line, options) = line.split_once(" <").unwrap_or((line, ""));
    let mut words = line.split(' ');
    let flags = words.next().expect("flags");
    let range = words.next().expect("a range");
    let (start, rest) = range.split_once(':').expect("a start");
    let (_, count) = rest.split_once('(').expect("a number of bytes");
    let number = |text: &str| text.trim_end_matches(')').parse::<u32>().expect("a number");
    let after = |name: &str| {
        let mut all = line.split(' ');
        all.find(|word| *word == name)?;
        all.next().map(number)
    };
    let ack = after("ack");
    let payload = vec![9; number(count) as usize];
    let mut repr = TcpRepr {
        src_port: config.remote.port(),
        dst_port: config.local.port(),
        control: match flags.trim_end_matches('.') {
            "S" => TcpControl::Syn,
            "F" => TcpControl::Fin,
            "R" => TcpControl::Rst,
            "P" => TcpControl::Psh,
            _ => TcpControl::None,
        },
        seq_number: TcpSeqNumber(OTHER_FIRST.wrapping_add(number(start)) as i32),
        ack_number: ack.map(|ack| TcpSeqNumber(own_first.wrapping_add(ack) as i32)),
        window_len: u16::try_from(after("win").unwrap_or(60_000)).expect("a window"),
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &payload,
    };
    for option in options.trim_end_matches('>').split(',') {
        match option.split_once(' ').unwrap_or((option, "")) {
            ("mss", mss) => repr.max_seg_size = Some(mss.parse().expect("a segment size")),
            ("wscale", shift) => repr.window_scale = Some(shift.parse().expect("a shift")),
            ("ts", values) => {
                let (value, echo) = values.split_once(' ').expect("two values");
                let echo = own_clock.wrapping_add(number(echo));
                repr.timestamp = Some(TcpTimestampRepr::new(number(value), echo));
            }
            ("sack", _) => repr.sack_permitted = true,
            ("blocks", blocks) => {
                for (slot, block) in repr.sack_ranges.iter_mut().zip(blocks.split(' ')) {
                    let (from, until) = block.split_once(':').expect("a block");
                    let place = |text: &str| own_first.wrapping_add(number(text));
                    *slot = Some((place(from), place(until)));
                }
            }
            _ => {}
        }
    }
    in_ip(config, &repr)
}

/// An ICMP error with the beginning of a segment of the connection.
fn icmp(config: &Config, [kind, code]: [u8; 2], mtu: u16, seq: u32) -> Vec<u8> {
    let (IpAddr::V4(local), IpAddr::V4(remote)) = (config.local.ip(), config.remote.ip()) else {
        panic!("only for version 4");
    };
    let sums = ChecksumCapabilities::default();
    let header = |src_addr, dst_addr, next_header, payload_len| Ipv4Repr {
        src_addr,
        dst_addr,
        next_header,
        payload_len,
        hop_limit: 64,
    };
    let mut bytes = vec![0; 20 + 8 + 20 + 8];
    let router = "198.51.100.1".parse().expect("an address");
    header(router, local, IpProtocol::Icmp, 36)
        .emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &sums);
    bytes[20..22].copy_from_slice(&[kind, code]);
    bytes[26..28].copy_from_slice(&mtu.to_be_bytes());
    header(local, remote, IpProtocol::Tcp, 1480)
        .emit(&mut Ipv4Packet::new_unchecked(&mut bytes[28..48]), &sums);
    bytes[48..50].copy_from_slice(&config.local.port().to_be_bytes());
    bytes[50..52].copy_from_slice(&config.remote.port().to_be_bytes());
    bytes[52..56].copy_from_slice(&seq.to_be_bytes());
    let sum = bytes[20..].chunks(2).fold(0_u32, |sum, two| {
        sum + u32::from(two[0]) * 256 + u32::from(two[1])
    });
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    bytes[22..24].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    bytes
}

fn in_ip(config: &Config, repr: &TcpRepr<'_>) -> Vec<u8> {
    let (next_header, hop_limit) = (IpProtocol::Tcp, 64);
    let payload_len = repr.buffer_len();
    let mut bytes = vec![0; 60 + payload_len];
    let header_bytes = match (config.remote.ip(), config.local.ip()) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let ip = Ipv4Repr {
                src_addr,
                dst_addr,
                next_header,
                payload_len,
                hop_limit,
            };
            let mut view = Ipv4Packet::new_unchecked(&mut bytes[..]);
            ip.emit(&mut view, &ChecksumCapabilities::default());
            20
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let ip = Ipv6Repr {
                src_addr,
                dst_addr,
                next_header,
                payload_len,
                hop_limit,
            };
            ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..]));
            40
        }
        _ => panic!("two kinds of addresses"),
    };
    bytes.truncate(header_bytes + payload_len);
    repr.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[header_bytes..]),
        &config.remote.ip().into(),
        &config.local.ip().into(),
        &ChecksumCapabilities::default(),
    );
    bytes
}
