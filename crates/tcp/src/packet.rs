//! IP packets with a TCP segment or a UDP datagram: read with every length checked, and written.
//!
//! The formats are those of smoltcp; the checksums are those of `barewire-wire`. Fragments are not
//! put together: a packet that is one is refused.

use alloc::vec;
use alloc::vec::Vec;
use barewire_wire::checksum::{self, Sum};
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket,
    TcpRepr, TcpSeqNumber, TcpTimestampRepr, UDP_HEADER_LEN, UdpPacket,
};

/// How far a packet may travel.
const HOP_LIMIT: u8 = 64;

const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;

/// A packet that is ready to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing {
    /// Its length in bytes, with what was left out.
    pub bytes: usize,
    /// The checksum that the carrier still has to compute.
    pub checksum: Option<ChecksumPlace>,
    /// The payload of each segment that the carrier has to cut it into.
    pub segment_bytes: Option<u16>,
    /// The payload, where it was left out: [`crate::Endpoint::left_out`] says where it lies.
    pub left_out: Option<LeftOut>,
}

/// Bytes of a stream that were left out of a packet, by their offsets in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Where to write a packet.
pub(crate) struct Out<'a> {
    pub(crate) packet: &'a mut [u8],
    /// Whether a long payload may be left out.
    pub(crate) may_leave_out: bool,
}

/// Which checksum the carrier computes: over all from `start`, stored `offset` bytes behind it. The
/// sum of the pseudo-header already lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumPlace {
    /// Where the summed bytes begin, in bytes from the beginning of the packet.
    pub start: u16,
    /// Where the checksum lies, in bytes from `start`.
    pub offset: u16,
}

/// What the carrier knows of a packet that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checked {
    /// Nothing: the TCP or UDP checksum is computed here.
    #[default]
    No,
    /// That its checksum is right, or not computed yet since it never left this host.
    Yes,
}

/// The IP header of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ip {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) protocol: u8,
    /// Where the payload lies in the packet.
    pub(crate) payload: Range<usize>,
}

/// What is known of a TCP segment once it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) window: u16,
    pub(crate) control: TcpControl,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) sack: [Option<(u32, u32)>; 3],
    /// The clock of who sent it, and what it had last got of this end's.
    pub(crate) timestamp: Option<(u32, u32)>,
    /// Where the TCP header begins.
    pub(crate) tcp_at: usize,
    /// Where the payload lies in the packet.
    pub(crate) payload: Range<usize>,
}

impl Segment {
    /// How many sequence numbers it occupies.
    pub(crate) fn sequence_len(&self) -> u32 {
        let control = matches!(self.control, TcpControl::Syn | TcpControl::Fin);
        u32::try_from(self.payload.len())
            .unwrap_or(u32::MAX)
            .saturating_add(u32::from(control))
    }
}

/// Reads the IP header; `None` where the packet is broken or a fragment.
pub(crate) fn parse_ip(packet: &[u8]) -> Option<Ip> {
    match packet.first()? >> 4 {
        4 => {
            let view = Ipv4Packet::new_checked(packet).ok()?;
            let is_fragment = view.more_frags() || view.frag_offset() != 0;
            let header_bytes = usize::from(view.header_len());
            if view.version() != 4 || header_bytes < 20 || is_fragment || !view.verify_checksum() {
                return None;
            }
            Some(Ip {
                from: IpAddr::V4(view.src_addr()),
                to: IpAddr::V4(view.dst_addr()),
                protocol: view.next_header().into(),
                payload: header_bytes..usize::from(view.total_len()),
            })
        }
        6 => {
            let view = Ipv6Packet::new_checked(packet).ok()?;
            Some(Ip {
                from: IpAddr::V6(view.src_addr()),
                to: IpAddr::V6(view.dst_addr()),
                protocol: view.next_header().into(),
                payload: view.header_len()..view.total_len(),
            })
        }
        _ => None,
    }
}

/// Reads a packet with a TCP segment; `None` where it is broken or something else.
pub(crate) fn parse_tcp(packet: &[u8], checked: Checked) -> Option<Segment> {
    let ip = parse_ip(packet)?;
    if ip.protocol != u8::from(IpProtocol::Tcp) {
        return None;
    }
    let bytes = packet.get(ip.payload.clone())?;
    if checked == Checked::No && !is_checksum_right(&ip, bytes) {
        return None;
    }
    let view = TcpPacket::new_checked(bytes).ok()?;
    let (from, to) = (IpAddress::from(ip.from), IpAddress::from(ip.to));
    let repr = TcpRepr::parse(&view, &from, &to, &ChecksumCapabilities::ignored()).ok()?;
    let header_bytes = usize::from(view.header_len());
    Some(Segment {
        from: SocketAddr::new(ip.from, repr.src_port),
        to: SocketAddr::new(ip.to, repr.dst_port),
        seq: sequence(repr.seq_number),
        ack: repr.ack_number.map(sequence),
        window: repr.window_len,
        control: repr.control,
        mss: repr.max_seg_size,
        window_scale: repr.window_scale,
        sack_permitted: repr.sack_permitted,
        sack: repr.sack_ranges,
        timestamp: repr.timestamp.map(|stamp| (stamp.tsval, stamp.tsecr)),
        tcp_at: ip.payload.start,
        payload: ip.payload.start + header_bytes..ip.payload.end,
    })
}

/// Writes `ack` and a window that never closes over those of the segment whose TCP header begins
/// at `tcp_at`. The checksum does not fit any longer.
pub(crate) fn replace_ack(packet: &mut [u8], tcp_at: usize, ack: u32) {
    if let Some(bytes) = packet.get_mut(tcp_at..) {
        if bytes.len() >= 20 {
            let mut view = TcpPacket::new_unchecked(bytes);
            view.set_ack_number(TcpSeqNumber(ack as i32));
            view.set_window_len(u16::MAX);
        }
    }
}

/// Takes the bytes out of a segment, and gives it another sequence number, and an end of the stream or
/// none. Gives the length of what is left. The checksums do not fit any longer.
pub(crate) fn strip(packet: &mut [u8], segment: &Segment, seq: u32, is_end: bool) -> usize {
    let len = segment.payload.start;
    let (ip, tcp) = packet.split_at_mut(segment.tcp_at);
    let mut view = TcpPacket::new_unchecked(tcp);
    view.set_seq_number(TcpSeqNumber(seq as i32));
    view.set_fin(is_end);
    view.set_psh(false);
    match segment.from {
        SocketAddr::V4(_) => Ipv4Packet::new_unchecked(ip).set_total_len(len as u16),
        SocketAddr::V6(_) => Ipv6Packet::new_unchecked(ip).set_payload_len((len - 40) as u16),
    }
    len
}

/// Makes a segment that follows the SYN of one that has it. The checksum does not fit any longer.
pub(crate) fn remove_syn(packet: &mut [u8], tcp_at: usize) {
    if let Some(bytes) = packet.get_mut(tcp_at..) {
        if bytes.len() >= 20 {
            let mut view = TcpPacket::new_unchecked(bytes);
            let first = view.seq_number();
            view.set_syn(false);
            view.set_seq_number(TcpSeqNumber(first.0.wrapping_add(1)));
        }
    }
}

/// Writes "no operation" over the option that permits selective acknowledgements. The checksum does
/// not fit any longer.
pub(crate) fn hide_sack_permitted(packet: &mut [u8], segment: &Segment) {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const SACK_PERMITTED: u8 = 4;
    let mut at = segment.tcp_at + 20;
    while at + 1 < segment.payload.start {
        let Some(&[kind, length]) = packet.get(at..at + 2).and_then(<[u8]>::first_chunk) else {
            return;
        };
        match kind {
            END => return,
            NO_OPERATION => at += 1,
            _ => {
                if kind == SACK_PERMITTED && length == 2 {
                    packet[at..at + 2].fill(NO_OPERATION);
                }
                at += usize::from(length.max(2));
            }
        }
    }
}

/// A SYN of smoltcp's again, with the permission to acknowledge selectively.
pub(crate) fn permit_sack(packet: &[u8]) -> Option<Vec<u8>> {
    change_syn(packet, |repr| repr.sack_permitted = true)
}

/// A SYN of smoltcp's again, with timestamps.
pub(crate) fn stamp_syn(packet: &[u8], (tsval, tsecr): (u32, u32)) -> Option<Vec<u8>> {
    change_syn(packet, |repr| {
        repr.timestamp = Some(TcpTimestampRepr { tsval, tsecr });
    })
}

fn change_syn(packet: &[u8], change: impl FnOnce(&mut TcpRepr<'_>)) -> Option<Vec<u8>> {
    let ip = parse_ip(packet)?;
    let view = TcpPacket::new_checked(packet.get(ip.payload.clone())?).ok()?;
    let (from, to) = (IpAddress::from(ip.from), IpAddress::from(ip.to));
    let mut repr = TcpRepr::parse(&view, &from, &to, &ChecksumCapabilities::ignored()).ok()?;
    change(&mut repr);
    let mut out = vec![0; ip.payload.start + repr.buffer_len()];
    let tcp_at = write_ip(ip.from, ip.to, IpProtocol::Tcp, repr.buffer_len(), &mut out)?;
    let mut view = TcpPacket::new_unchecked(out.get_mut(tcp_at..)?);
    repr.emit(&mut view, &from, &to, &ChecksumCapabilities::default());
    Some(out)
}

/// A TCP segment to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewSegment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) window: u16,
    pub(crate) control: TcpControl,
    pub(crate) sack: [Option<(u32, u32)>; 3],
    pub(crate) timestamp: Option<(u32, u32)>,
    /// The payload, in two parts since buffers are rings.
    pub(crate) payload: (&'a [u8], &'a [u8]),
    /// Into segments of how many bytes the carrier cuts the payload.
    pub(crate) segment_bytes: Option<u16>,
    /// Whether the carrier computes the checksum.
    pub(crate) offload_checksum: bool,
    /// Where the payload lies in the stream, if it is not to be written. Then the carrier computes the checksum.
    pub(crate) left_out: Option<LeftOut>,
}

/// Writes a packet to the beginning of `out`; `None` where it does not fit.
pub(crate) fn write_tcp(new: &NewSegment<'_>, out: &mut [u8]) -> Option<Outgoing> {
    let repr = TcpRepr {
        src_port: new.from.port(),
        dst_port: new.to.port(),
        control: new.control,
        seq_number: TcpSeqNumber(new.seq as i32),
        ack_number: new.ack.map(|ack| TcpSeqNumber(ack as i32)),
        window_len: new.window,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: new.sack,
        timestamp: new
            .timestamp
            .map(|(tsval, tsecr)| TcpTimestampRepr { tsval, tsecr }),
        payload: &[],
    };
    let header_bytes = repr.header_len();
    let payload_bytes = new.payload.0.len() + new.payload.1.len();
    let tcp_at = write_ip(
        new.from.ip(),
        new.to.ip(),
        IpProtocol::Tcp,
        header_bytes + payload_bytes,
        out,
    )?;
    let bytes = tcp_at + header_bytes + payload_bytes;
    let written = match new.left_out {
        Some(_) => tcp_at + header_bytes,
        None => bytes,
    };
    let tcp = out.get_mut(tcp_at..written)?;
    let (header, payload) = tcp.split_at_mut(header_bytes);
    let (from, to) = (new.from.ip().into(), new.to.ip().into());
    let mut view = TcpPacket::new_unchecked(&mut *header);
    repr.emit(&mut view, &from, &to, &ChecksumCapabilities::ignored());
    header[TCP_CHECKSUM_AT..TCP_CHECKSUM_AT + 2].fill(0);
    let mut sum = pseudo_header(new.from.ip(), new.to.ip(), 6, header_bytes + payload_bytes);
    let value = if new.left_out.is_some() {
        sum.value()
    } else {
        let (first, second) = payload.split_at_mut(new.payload.0.len());
        if new.offload_checksum {
            first.copy_from_slice(new.payload.0);
            second.copy_from_slice(new.payload.1);
            sum.value()
        } else {
            sum.update(header);
            sum.update_with_copy(first, new.payload.0);
            sum.update_with_copy(second, new.payload.1);
            sum.checksum()
        }
    };
    header[TCP_CHECKSUM_AT..TCP_CHECKSUM_AT + 2].copy_from_slice(&value.to_be_bytes());
    Some(Outgoing {
        bytes,
        checksum: place(new.offload_checksum, tcp_at, TCP_CHECKSUM_AT),
        segment_bytes: new.segment_bytes,
        left_out: new.left_out,
    })
}

/// What is known of a UDP datagram once it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Where the payload lies in the packet.
    pub(crate) payload: Range<usize>,
}

/// Reads a packet with a UDP datagram; `None` where it is broken or something else.
pub(crate) fn parse_udp(packet: &[u8], checked: Checked) -> Option<Datagram> {
    let ip = parse_ip(packet)?;
    if ip.protocol != u8::from(IpProtocol::Udp) {
        return None;
    }
    let bytes = packet.get(ip.payload.clone())?;
    let view = UdpPacket::new_checked(bytes).ok()?;
    let datagram = bytes.get(..usize::from(view.len()))?;
    // Over IPv4 a checksum of zero says that there is none.
    let has_checksum = view.checksum() != 0 || ip.from.is_ipv6();
    if checked == Checked::No && has_checksum && !is_checksum_right(&ip, datagram) {
        return None;
    }
    Some(Datagram {
        from: SocketAddr::new(ip.from, view.src_port()),
        to: SocketAddr::new(ip.to, view.dst_port()),
        payload: ip.payload.start + UDP_HEADER_LEN..ip.payload.start + datagram.len(),
    })
}

/// Writes a packet with a datagram to the beginning of `out`; `None` where it does not fit.
pub(crate) fn write_udp(
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
    offload_checksum: bool,
    out: &mut [u8],
) -> Option<Outgoing> {
    let udp_bytes = UDP_HEADER_LEN + payload.len();
    let udp_at = write_ip(from.ip(), to.ip(), IpProtocol::Udp, udp_bytes, out)?;
    let udp = out.get_mut(udp_at..udp_at + udp_bytes)?;
    let mut view = UdpPacket::new_unchecked(&mut *udp);
    view.set_src_port(from.port());
    view.set_dst_port(to.port());
    view.set_len(u16::try_from(udp_bytes).ok()?);
    view.set_checksum(0);
    udp[UDP_HEADER_LEN..].copy_from_slice(payload);
    let mut sum = pseudo_header(from.ip(), to.ip(), 17, udp_bytes);
    let value = if offload_checksum {
        sum.value()
    } else {
        sum.update(udp);
        // Zero would mean that there is no checksum.
        match sum.checksum() {
            0 => 0xffff,
            other => other,
        }
    };
    udp[UDP_CHECKSUM_AT..UDP_CHECKSUM_AT + 2].copy_from_slice(&value.to_be_bytes());
    Some(Outgoing {
        bytes: udp_at + udp_bytes,
        checksum: place(offload_checksum, udp_at, UDP_CHECKSUM_AT),
        segment_bytes: None,
        left_out: None,
    })
}

fn place(offload: bool, start: usize, offset: usize) -> Option<ChecksumPlace> {
    if !offload {
        return None;
    }
    Some(ChecksumPlace {
        start: u16::try_from(start).ok()?,
        offset: u16::try_from(offset).ok()?,
    })
}

/// Writes the IP header and gives its length.
fn write_ip(
    from: IpAddr,
    to: IpAddr,
    next_header: IpProtocol,
    payload_len: usize,
    out: &mut [u8],
) -> Option<usize> {
    match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let repr = Ipv4Repr {
                src_addr,
                dst_addr,
                next_header,
                payload_len,
                hop_limit: HOP_LIMIT,
            };
            if 20 + payload_len > usize::from(u16::MAX) {
                return None;
            }
            let mut view = Ipv4Packet::new_unchecked(out.get_mut(..20 + payload_len)?);
            repr.emit(&mut view, &ChecksumCapabilities::ignored());
            view.fill_checksum();
            Some(20)
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let repr = Ipv6Repr {
                src_addr,
                dst_addr,
                next_header,
                payload_len,
                hop_limit: HOP_LIMIT,
            };
            if payload_len > usize::from(u16::MAX) {
                return None;
            }
            let mut view = Ipv6Packet::new_unchecked(out.get_mut(..40 + payload_len)?);
            repr.emit(&mut view);
            Some(40)
        }
        _ => None,
    }
}

fn is_checksum_right(ip: &Ip, bytes: &[u8]) -> bool {
    let mut sum = pseudo_header(ip.from, ip.to, ip.protocol, bytes.len());
    sum.update(bytes);
    sum.is_valid()
}

/// The sum of what TCP and UDP checksums cover of the IP header.
pub(crate) fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, bytes: usize) -> Sum {
    let mut sum = Sum::default();
    for address in [from, to] {
        match address {
            IpAddr::V4(v4) => sum.update(&v4.octets()),
            IpAddr::V6(v6) => sum.update(&v6.octets()),
        }
    }
    sum.update(&[0, protocol]);
    let length = u32::try_from(bytes).unwrap_or(u32::MAX);
    sum.combine(checksum::sum(&length.to_be_bytes()))
}

fn sequence(number: TcpSeqNumber) -> u32 {
    number.0 as u32
}
