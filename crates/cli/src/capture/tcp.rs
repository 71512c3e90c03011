//! TCP packets made up from what a program sent and received: with addresses, sequence
//! numbers and checksums, so that whoever reads the capture puts the streams together again.
//!
//! Source: RFC 791, RFC 8200 (IP), RFC 9293 (TCP), RFC 7323 (window scale).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use barewire_wire::capture::{ByteOrder, LinkType, Output, Pcapng, Port};
use barewire_wire::checksum::{Sum, checksum, sum};

use super::attached::Entry;

/// Packets begin with the IP header, of either version.
const RAW_IP: LinkType = LinkType(101);

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// On a SYN: windows are counted in units of 2^14 bytes; so none is ever full.
const WINDOW_SCALE: [u8; 4] = [1, 3, 3, 14];
const TCP: u8 = 6;
const HOPS: u8 = 64;
/// Longest header: IPv6, TCP, options.
const HEADERS_BYTES: usize = 40 + 20 + 4;

/// On the packets that open a connection in the file.
const MADE_UP: &str = "made up by barewire capture: here it first saw this connection";

/// Whose bytes: the program's.
const OWN: usize = 0;
/// The other end's.
const OTHER: usize = 1;

/// A capture file of TCP packets.
pub struct Packets<O: Output> {
    file: Pcapng<O>,
    port: Port,
    /// By the number of the record.
    flows: BTreeMap<u32, Flow>,
    connections: u32,
    packets: u64,
    bytes: [u64; 2],
    last_ns: u64,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    generation: u32,
    ends: [SocketAddr; 2],
    /// Sequence number of each end's SYN.
    first: [u32; 2],
    /// Position in each end's stream where the capture began.
    begin: [u64; 2],
    /// Position up to which the file has been told.
    reached: [u64; 2],
    has_ended: [bool; 2],
}

impl Flow {
    /// What is told of a connection: `capture::Kind::Names` of the library.
    fn parse(bytes: &[u8], generation: u32, number: u32) -> Option<(Flow, bool)> {
        let end = |at: usize| {
            let address: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
            let port: [u8; 2] = bytes.get(at + 16..at + 18)?.try_into().ok()?;
            let address = Ipv6Addr::from(address).to_canonical();
            Some(SocketAddr::new(address, u16::from_be_bytes(port)))
        };
        let position = |at: usize| {
            let bytes: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        let begin = [position(40)?, position(48)?];
        let flow = Flow {
            generation,
            ends: [end(0)?, end(18)?],
            // Far from those of an earlier connection between the same ports.
            first: [0, 0x8000_0000]
                .map(|first: u32| first.wrapping_add(number.wrapping_mul(0x0100_0001))),
            begin,
            reached: begin,
            has_ended: [false; 2],
        };
        Some((flow, bytes[36] != 0))
    }

    /// The sequence number of a position in a stream.
    fn number(&self, whose: usize, position: u64) -> u32 {
        let behind = position.wrapping_sub(self.begin[whose]) as u32;
        self.first[whose].wrapping_add(1).wrapping_add(behind)
    }

    /// The sequence number behind all that an end has sent.
    fn next(&self, whose: usize) -> u32 {
        let end = u32::from(self.has_ended[whose]);
        self.number(whose, self.reached[whose]).wrapping_add(end)
    }
}

impl<O: Output> Packets<O> {
    /// Begins the file.
    pub fn new(out: O) -> Result<Self, O::Error> {
        let mut file = Pcapng::new(out, ByteOrder::NATIVE)?;
        let port = file.interface(RAW_IP, 0, "barewire")?;
        Ok(Packets {
            file,
            port,
            flows: BTreeMap::new(),
            connections: 0,
            packets: 0,
            bytes: [0; 2],
            last_ns: 0,
        })
    }

    /// The file.
    pub fn output(&mut self) -> &mut O {
        self.file.output()
    }

    /// Writes what an entry says.
    pub fn add(&mut self, entry: &Entry<'_>) -> Result<(), O::Error> {
        self.last_ns = entry.time_ns;
        let [record, generation] = entry.connection;
        if entry.kind == 1 {
            return self.open(entry, record, generation);
        }
        let known = self.flows.get(&record).copied();
        let Some(mut flow) = known.filter(|flow| flow.generation == generation) else {
            return Ok(());
        };
        match entry.kind {
            2 => self.data(&mut flow, OWN, entry)?,
            3 => self.data(&mut flow, OTHER, entry)?,
            4 => self.end_at(&mut flow, OWN, entry.position)?,
            5 => self.end_at(&mut flow, OTHER, entry.position)?,
            6 => {
                self.write(&flow, OTHER, RST | ACK, flow.next(OTHER), &[])?;
                self.flows.remove(&record);
                return Ok(());
            }
            7 => {
                self.end_at(&mut flow, OWN, entry.position)?;
                self.end(&mut flow, OTHER)?;
                self.flows.remove(&record);
                return Ok(());
            }
            // Of a newer library.
            _ => {}
        }
        self.flows.insert(record, flow);
        Ok(())
    }

    fn open(&mut self, entry: &Entry<'_>, record: u32, generation: u32) -> Result<(), O::Error> {
        let known = self.flows.get(&record);
        if known.is_some_and(|flow| flow.generation == generation) {
            return Ok(());
        }
        let Some((flow, is_opener)) = Flow::parse(entry.bytes, generation, self.connections) else {
            return Ok(());
        };
        self.connections += 1;
        let (opener, other) = if is_opener {
            (OWN, OTHER)
        } else {
            (OTHER, OWN)
        };
        self.write(&flow, opener, SYN, flow.first[opener], &[])?;
        self.write(&flow, other, SYN | ACK, flow.first[other], &[])?;
        self.write(&flow, opener, ACK, flow.next(opener), &[])?;
        self.flows.insert(record, flow);
        Ok(())
    }

    fn data(&mut self, flow: &mut Flow, whose: usize, entry: &Entry<'_>) -> Result<(), O::Error> {
        let number = flow.number(whose, entry.position);
        self.write(flow, whose, PSH | ACK, number, entry.bytes)?;
        let len = entry.bytes.len() as u64;
        self.bytes[whose] += len;
        let reached = entry.position.wrapping_add(len);
        flow.reached[whose] = flow.reached[whose].max(reached);
        Ok(())
    }

    /// The end of a stream, behind what is not in the file.
    fn end_at(&mut self, flow: &mut Flow, whose: usize, position: u64) -> Result<(), O::Error> {
        flow.reached[whose] = flow.reached[whose].max(position);
        self.end(flow, whose)
    }

    fn end(&mut self, flow: &mut Flow, whose: usize) -> Result<(), O::Error> {
        if flow.has_ended[whose] {
            return Ok(());
        }
        self.write(flow, whose, FIN | ACK, flow.next(whose), &[])?;
        flow.has_ended[whose] = true;
        if flow.has_ended == [true; 2] {
            self.write(flow, 1 - whose, ACK, flow.next(1 - whose), &[])?;
        }
        Ok(())
    }

    /// The program has ended, and all its connections with it.
    pub fn end_all(&mut self) -> Result<(), O::Error> {
        let flows = std::mem::take(&mut self.flows);
        flows.into_values().try_for_each(|mut flow| {
            self.end(&mut flow, OWN)?;
            self.end(&mut flow, OTHER)
        })
    }

    /// What the file holds.
    pub fn summary(&self) -> String {
        let [sent, received] = self.bytes;
        format!(
            "{} packets of {} connections: {sent} bytes sent, {received} received",
            self.packets, self.connections
        )
    }

    /// Writes a packet from one of the two ends to the other.
    fn write(
        &mut self,
        flow: &Flow,
        from: usize,
        flags: u8,
        number: u32,
        bytes: &[u8],
    ) -> Result<(), O::Error> {
        let ends = [flow.ends[from], flow.ends[1 - from]];
        let acknowledged = match flags & ACK {
            0 => 0,
            _ => flow.next(1 - from),
        };
        let mut headers = [0; HEADERS_BYTES];
        let len = fill_in(&mut headers, ends, [number, acknowledged], flags, bytes);
        let comment = if flags & SYN == 0 { "" } else { MADE_UP };
        self.packets += 1;
        let parts = [&headers[..len], bytes];
        self.file.packet(self.port, self.last_ns, &parts, comment)
    }
}

/// Writes the headers of a packet with these bytes; returns their length.
fn fill_in(
    headers: &mut [u8; HEADERS_BYTES],
    [from, to]: [SocketAddr; 2],
    numbers: [u32; 2],
    flags: u8,
    bytes: &[u8],
) -> usize {
    let options: &[u8] = if flags & SYN == 0 { &[] } else { &WINDOW_SCALE };
    let tcp_bytes = 20 + options.len();
    let (mut sum, ip_bytes) = ip_header(headers, from.ip(), to.ip(), tcp_bytes + bytes.len());
    let tcp = &mut headers[ip_bytes..ip_bytes + tcp_bytes];
    tcp[..2].copy_from_slice(&from.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&to.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&numbers[0].to_be_bytes());
    tcp[8..12].copy_from_slice(&numbers[1].to_be_bytes());
    tcp[12] = (tcp_bytes as u8 / 4) << 4;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    tcp[20..].copy_from_slice(options);
    sum.update(tcp);
    sum.update(bytes);
    tcp[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    ip_bytes + tcp_bytes
}

/// Writes the IP header; returns the sum of what TCP's checksum takes from it, and its length.
fn ip_header(
    header: &mut [u8; HEADERS_BYTES],
    from: IpAddr,
    to: IpAddr,
    behind_bytes: usize,
) -> (Sum, usize) {
    let mut pseudo = sum(&(behind_bytes as u32).to_be_bytes());
    pseudo.update(&[0, TCP]);
    let len = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(20 + behind_bytes as u16).to_be_bytes());
            header[8..10].copy_from_slice(&[HOPS, TCP]);
            header[12..16].copy_from_slice(&from.octets());
            header[16..20].copy_from_slice(&to.octets());
            pseudo.update(&header[12..20]);
            let own = checksum(&header[..20]);
            header[10..12].copy_from_slice(&own.to_be_bytes());
            20
        }
        _ => {
            let octets = |address| match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(behind_bytes as u16).to_be_bytes());
            header[6..8].copy_from_slice(&[TCP, HOPS]);
            header[8..24].copy_from_slice(&octets(from));
            header[24..40].copy_from_slice(&octets(to));
            pseudo.update(&header[8..40]);
            40
        }
    };
    (pseudo, len)
}
