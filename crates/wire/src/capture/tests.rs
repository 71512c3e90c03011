//! Captures: round trips, hand-built files of others, every planted fault at its place.

use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::collection::vec as some;
use proptest::prelude::*;

use super::exported::{Endpoint, TagsRepr};
use super::*;
use crate::error::Fault;
use crate::tree::{Sink, Value};

impl Output for Vec<u8> {
    type Error = core::convert::Infallible;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Checks that groups nest and that fields stay inside of the input.
struct Checker {
    open: usize,
    wrong: Vec<Error>,
    bits: core::ops::Range<usize>,
}

impl Checker {
    fn run(describe: Describe, bytes: &[u8]) -> Vec<Error> {
        let mut checker = Self {
            open: 0,
            wrong: Vec::new(),
            bits: 100..100 + bytes.len() * 8,
        };
        describe(bytes, 100, &mut checker);
        assert_eq!(checker.open, 0);
        checker.wrong
    }

    fn within(&self, bits: &core::ops::Range<usize>) {
        let inside = self.bits.start <= bits.start && bits.end <= self.bits.end;
        assert!(
            inside && bits.start <= bits.end,
            "{bits:?} of {:?}",
            self.bits
        );
    }
}

impl Sink for Checker {
    fn open(&mut self, _: &str, bits: core::ops::Range<usize>) {
        self.within(&bits);
        self.open += 1;
    }

    fn close(&mut self) {
        self.open -= 1;
    }

    fn field(&mut self, _: &str, bits: core::ops::Range<usize>, _: Value<'_>) {
        assert!(self.open > 0);
        self.within(&bits);
    }

    fn wrong(&mut self, error: Error) {
        assert!(error.first_bit >= 100);
        self.wrong.push(error);
    }
}

type Describe = fn(&[u8], usize, &mut dyn Sink);

const DESCRIBE: [Describe; 4] = [
    describe,
    sunatm::describe,
    erf::describe,
    exported::describe,
];

fn read(bytes: &[u8]) -> Result<Vec<Packet<'_>>, Error> {
    Reader::new(bytes).collect()
}

/// Words of a hand-built file.
fn words(order: ByteOrder, words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| order.put_u32(*w)).collect()
}

fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = 12 + body.len().next_multiple_of(4);
    let mut bytes = words(order, &[kind, length as u32]);
    bytes.extend(body);
    bytes.resize(length - 4, 0);
    bytes.extend(order.put_u32(length as u32));
    bytes
}

fn section(order: ByteOrder) -> Vec<u8> {
    let mut body = words(order, &[0x1a2b_3c4d]);
    body.extend(order.put_u16(1));
    body.extend([0, 0]);
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: ByteOrder, link_type: u16, snap: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = order.put_u16(link_type).to_vec();
    body.extend([0, 0]);
    body.extend(order.put_u32(snap));
    body.extend(option_list(order, options));
    block(order, 1, &body)
}

fn option_list(order: ByteOrder, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (code, value) in options {
        bytes.extend(order.put_u16(*code));
        bytes.extend(order.put_u16(value.len() as u16));
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn enhanced(order: ByteOrder, number: u32, stamp: u64, original: u32, data: &[u8]) -> Vec<u8> {
    let (high, low) = ((stamp >> 32) as u32, stamp as u32);
    let mut body = words(order, &[number, high, low, data.len() as u32, original]);
    body.extend(data);
    block(order, 6, &body)
}

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

#[test]
fn what_others_write_is_read() {
    for order in ORDERS {
        let mut file = section(order);
        file.extend(block(order, 0xbad, &[1, 2, 3]));
        file.extend(interface(order, 123, 4, &[(2, b"atm0"), (0, b"")]));
        file.extend(block(
            order,
            3,
            &[order.put_u32(9).as_slice(), &[1, 2, 3, 4]].concat(),
        ));
        file.extend(enhanced(order, 0, 5, 3, b"abc"));
        // An obsolete packet block: interface and drops share a word.
        let mut old = order.put_u16(0).to_vec();
        old.extend(order.put_u16(7));
        old.extend(words(order, &[0, 6, 1, 1, 0xaa00_0000]));
        file.extend(block(order, 2, &old));
        let packets = read(&file).unwrap();
        assert_eq!(packets.len(), 3);
        assert_eq!(packets[0].data, [1, 2, 3, 4]);
        assert_eq!((packets[0].time_ns, packets[0].original_bytes), (None, 9));
        assert!(packets[0].is_cut());
        assert_eq!(
            (packets[1].time_ns, packets[1].data),
            (Some(5_000), &b"abc"[..])
        );
        assert_eq!(packets[2].time_ns, Some(6_000));
        assert!(packets.iter().all(|p| p.link_type == LinkType::SUNATM));
        for packet in packets {
            assert_eq!(
                &file[packet.offset_bytes..][..packet.data.len()],
                packet.data
            );
        }
    }
}

#[test]
fn a_section_brings_its_own_byte_order_and_interfaces() {
    let mut file = section(ByteOrder::Big);
    file.extend(interface(ByteOrder::Big, 1, 0, &[]));
    file.extend(enhanced(ByteOrder::Big, 0, 1, 1, b"a"));
    file.extend(section(ByteOrder::Little));
    let begin_of_wrong = file.len();
    file.extend(interface(ByteOrder::Little, 197, 0, &[]));
    file.extend(interface(ByteOrder::Little, 252, 0, &[]));
    file.extend(enhanced(ByteOrder::Little, 1, 2, 1, b"b"));
    let packets = read(&file).unwrap();
    let seen = [packets[0], packets[1]].map(|p| (p.interface, p.link_type));
    assert_eq!(seen, [(0, LinkType::ETHERNET), (1, LinkType::UPPER_PDU)]);
    // Without the interfaces of the second section, those of the first do not count.
    let mut without = file[..begin_of_wrong].to_vec();
    without.extend(enhanced(ByteOrder::Little, 0, 2, 1, b"b"));
    let error = Reader::new(&without).last().unwrap().unwrap_err();
    assert_eq!(error.field, "interface");
    assert_eq!(error.first_bit, (begin_of_wrong + 8) * 8);
}

#[test]
fn times_follow_the_options_of_the_interface() {
    let second = 1_000_000_000;
    /// The options, the time stamp, the time.
    type Case = (&'static [u8], Option<i64>, u64, Option<u64>);
    let cases: [Case; 10] = [
        (&[], None, 7, Some(7_000)),
        (&[0], None, 7, Some(7 * second)),
        (&[9], None, 7, Some(7)),
        (&[12], None, 7_999, Some(7)),
        (&[127], None, u64::MAX, Some(0)),
        (&[0x80 | 1], None, 3, Some(1_500_000_000)),
        (&[0x80 | 32], None, 1 << 31, Some(500_000_000)),
        (&[9], Some(-1), second, Some(0)),
        (&[9], Some(2), 1, Some(2 * second + 1)),
        (&[0], None, u64::MAX, None),
    ];
    for order in ORDERS {
        for (resolution, offset_s, stamp, time_ns) in cases {
            let offset = offset_s.map(|s| match order {
                ByteOrder::Little => s.to_le_bytes(),
                ByteOrder::Big => s.to_be_bytes(),
            });
            let mut options: Vec<(u16, &[u8])> = Vec::new();
            if !resolution.is_empty() {
                options.push((9, resolution));
            }
            if let Some(offset) = &offset {
                options.push((14, offset));
            }
            let mut file = section(order);
            file.extend(interface(order, 1, 0, &options));
            let begin = file.len();
            file.extend(enhanced(order, 0, stamp, 0, b""));
            match read(&file) {
                Ok(packets) => assert_eq!(packets[0].time_ns, time_ns),
                Err(error) => {
                    assert_eq!((error.field, time_ns), ("time", None));
                    assert_eq!(error.first_bit, (begin + 12) * 8);
                }
            }
        }
    }
}

/// A file with all that we know of, its interface block at 28 and its packet at `.1`.
fn good(order: ByteOrder) -> (Vec<u8>, usize) {
    let mut file = section(order);
    file.extend(interface(order, 1, 0, &[(9, &[9]), (0, b"")]));
    let begin = file.len();
    file.extend(enhanced(order, 0, 5, 3, b"abc"));
    (file, begin)
}

#[test]
fn a_planted_fault_is_reported_at_its_field() {
    for order in ORDERS {
        let (file, packet) = good(order);
        assert_eq!(read(&file).unwrap().len(), 1);
        let end = file.len();
        let put = |at: usize, value: u32| (at, order.put_u32(value).to_vec());
        let cases = [
            ("magic", put(0, 0x1234_5678), 0),
            ("block length", put(4, 30), 4),
            ("block length", put(4, 24), 4),
            ("byte-order magic", put(8, 0), 8),
            ("major version", (12, order.put_u16(2).to_vec()), 12),
            ("length at the end", put(24, 32), 24),
            ("block length", put(32, 12), 32),
            ("block length", put(32, 0x7fff_fffc), 32),
            ("option length", (46, order.put_u16(3).to_vec()), 46),
            ("option", (46, order.put_u16(200).to_vec()), 44),
            ("block length", put(packet + 4, 28), packet + 4),
            ("interface", put(packet + 8, 1), packet + 8),
            ("captured length", put(packet + 20, 4), packet + 20),
            ("length at the end", put(end - 4, 0), end - 4),
        ];
        for (field, (at, bytes), begin) in cases {
            let mut broken = file.clone();
            broken[at..at + bytes.len()].copy_from_slice(&bytes);
            let error = read(&broken).unwrap_err();
            assert_eq!(
                (error.field, error.first_bit / 8),
                (field, begin),
                "{error}"
            );
            assert_eq!(Checker::run(describe, &broken), [error.shifted(100)]);
        }
        // More captured than the block has room for.
        let mut broken = file.clone();
        broken[packet + 20..packet + 24].copy_from_slice(&order.put_u32(9));
        broken[packet + 24..packet + 28].copy_from_slice(&order.put_u32(9));
        assert_eq!(read(&broken).unwrap_err().field, "captured length");
    }
}

#[test]
fn a_file_that_ends_early_says_where() {
    let (file, packet) = good(ByteOrder::Little);
    for end in 0..file.len() {
        let result = read(&file[..end]);
        // Between blocks a file may end.
        if [28, packet].contains(&end) {
            assert_eq!(result.unwrap(), []);
            continue;
        }
        let error = result.unwrap_err();
        assert!(matches!(error.fault, Fault::Short { .. }), "{error}");
        assert_eq!(error.first_bit, end * 8);
    }
}

#[test]
fn pcap_faults_are_reported_at_their_field() {
    let mut file = Vec::new();
    let (order, resolution) = (ByteOrder::Big, Resolution::Microseconds);
    let mut pcap = Pcap::new(&mut file, order, resolution, LinkType::ERF, 0).unwrap();
    pcap.packet(1_500_000_000, &[b"abc"]).unwrap();
    assert_eq!(read(&file).unwrap()[0].time_ns, Some(1_500_000_000));
    let cases = [
        (5, 9, "major version", 4),
        (28, 0xff, "fraction", 28),
        (32, 0xff, "captured length", 32),
        (39, 2, "captured length", 32),
    ];
    for (at, value, field, begin) in cases {
        let mut broken = file.clone();
        broken[at] = value;
        let error = read(&broken).unwrap_err();
        assert_eq!(
            (error.field, error.first_bit / 8),
            (field, begin),
            "{error}"
        );
    }
    for end in (1..24).chain(25..file.len()) {
        assert!(matches!(
            read(&file[..end]).unwrap_err().fault,
            Fault::Short { .. }
        ));
    }
    assert!(read(&file[..24]).unwrap().is_empty());
}

#[test]
fn a_buffer_takes_what_it_has_room_for() {
    let mut room = [0; 30];
    let mut buffer = Buffer::new(&mut room);
    let mut file = Pcapng::new(&mut buffer, ByteOrder::NATIVE).unwrap();
    assert_eq!(file.interface(LinkType::ERF, 0, ""), Err(Full));
    assert_eq!(buffer.written().len(), 28);
}

#[test]
fn too_many_interfaces_are_an_error_and_not_a_mistake() {
    let mut file = Vec::new();
    let mut pcapng = Pcapng::new(&mut file, ByteOrder::NATIVE).unwrap();
    for _ in 0..=INTERFACES_MAX {
        pcapng.interface(LinkType::ERF, 0, "").unwrap();
    }
    assert_eq!(read(&file).unwrap_err().field, "interface");
}

#[test]
fn the_interface_outlives_its_snap_length() {
    let mut file = Vec::new();
    let mut pcapng = Pcapng::new(&mut file, ByteOrder::NATIVE).unwrap();
    let long = vec![7; PACKET_BYTES_MAX];
    let port = pcapng.interface(LinkType::ETHERNET, 0, "").unwrap();
    pcapng.packet(port, 0, &[&[1, 2, 3], &long], "").unwrap();
    let packets = read(&file).unwrap();
    assert_eq!(packets[0].data.len(), PACKET_BYTES_MAX);
    assert_eq!(packets[0].original_bytes as usize, PACKET_BYTES_MAX + 3);
}

/// A packet as a test invents it: time, parts, comment.
type Invented = (u64, Vec<Vec<u8>>, String);

fn invented() -> impl Strategy<Value = Vec<Invented>> {
    let parts = some(some(any::<u8>(), 0..20), 0..4);
    some((any::<u64>(), parts, ".{0,9}"), 0..8)
}

fn link_types() -> impl Strategy<Value = LinkType> {
    prop_oneof![
        Just(LinkType::ETHERNET),
        Just(LinkType::SUNATM),
        Just(LinkType::ERF),
        Just(LinkType::UPPER_PDU),
        any::<u16>().prop_map(LinkType),
    ]
}

fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

/// What must be read of a packet: data, original length.
fn expected(parts: &[Vec<u8>], snap_bytes: u32) -> (Vec<u8>, u32) {
    let whole = parts.concat();
    let end = match snap_bytes {
        0 => whole.len(),
        snap_bytes => whole.len().min(snap_bytes as usize),
    };
    (whole[..end].to_vec(), whole.len() as u32)
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}

/// What a decoder gives that gets its input in pieces of at most `piece` bytes.
fn decode_in_pieces(bytes: &[u8], piece: usize) -> (Vec<(usize, Vec<u8>)>, Option<Error>) {
    let (mut decoder, mut packets) = (Decoder::new(), Vec::new());
    let (mut held, mut fed) = (Vec::new(), 0);
    loop {
        match decoder.step(&held) {
            Err(error) => return (packets, Some(error)),
            Ok(Step::Done { used_bytes, packet }) => {
                packets.extend(packet.map(|p| (p.offset_bytes, p.data.to_vec())));
                assert!(used_bytes > 0);
                held.drain(..used_bytes);
            }
            Ok(Step::More { needed_bytes }) => {
                assert!(needed_bytes > held.len());
                if fed == bytes.len() {
                    return (packets, decoder.finish(&held).err());
                }
                let end = bytes.len().min(fed + piece);
                held.extend(&bytes[fed..end]);
                fed = end;
            }
        }
    }
}

fn reading_never_panics(bytes: &[u8]) {
    let mut packets = Vec::new();
    let mut error = None;
    for item in Reader::new(bytes) {
        match item {
            Ok(packet) => packets.push((packet.offset_bytes, packet.data.to_vec())),
            Err(e) => error = Some(e),
        }
    }
    assert_eq!(decode_in_pieces(bytes, 7), (packets, error));
    for packet in Reader::new(bytes).flatten() {
        let _ = packet.open();
        assert!(packet.comments().count() <= bytes.len());
    }
    for describe in DESCRIBE {
        Checker::run(describe, bytes);
    }
    let _ = TagsRepr::parse(bytes);
    if let Ok(record) = erf::Record::new_checked(bytes) {
        assert!(record.payload_range().end <= bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn pcapng_round_trips(
        order in orders(), link_type in link_types(), snap in 0_u32..30, name in ".{0,9}",
        packets in invented(),
    ) {
        let mut file = Vec::new();
        let mut pcapng = Pcapng::new(&mut file, order).unwrap();
        pcapng.interface(LinkType::ETHERNET, 0, "").unwrap();
        let port = pcapng.interface(link_type, snap, &name).unwrap();
        for (time_ns, parts, comment) in &packets {
            pcapng.packet(port, *time_ns, &slices(parts), comment).unwrap();
        }
        let read = read(&file).unwrap();
        prop_assert_eq!(read.len(), packets.len());
        for (packet, (time_ns, parts, comment)) in read.iter().zip(&packets) {
            let (data, original_bytes) = expected(parts, snap);
            prop_assert_eq!(packet.data, data);
            prop_assert_eq!(packet.original_bytes, original_bytes);
            prop_assert_eq!(packet.time_ns, Some(*time_ns));
            prop_assert_eq!((packet.interface, packet.link_type), (1, link_type));
            let comments: Vec<&str> = packet.comments().collect();
            prop_assert_eq!(comments.concat(), comment.as_str());
        }
        reading_never_panics(&file);
    }

    #[test]
    fn pcap_round_trips(
        order in orders(), link_type in link_types(), snap in 0_u32..30, packets in invented(),
        is_nano in any::<bool>(),
    ) {
        let (resolution, unit_ns) = match is_nano {
            true => (Resolution::Nanoseconds, 1),
            false => (Resolution::Microseconds, 1000),
        };
        let mut file = Vec::new();
        let mut pcap = Pcap::new(&mut file, order, resolution, link_type, snap).unwrap();
        for (time_ns, parts, _) in &packets {
            pcap.packet(time_ns / 8, &slices(parts)).unwrap();
        }
        let read = read(&file).unwrap();
        prop_assert_eq!(read.len(), packets.len());
        for (packet, (time_ns, parts, _)) in read.iter().zip(&packets) {
            let (data, original_bytes) = expected(parts, snap);
            let time_ns = time_ns / 8 / unit_ns * unit_ns;
            prop_assert_eq!(packet.data, data);
            prop_assert_eq!(packet.original_bytes, original_bytes);
            prop_assert_eq!(packet.time_ns, Some(time_ns));
            prop_assert_eq!(packet.link_type, link_type);
        }
        reading_never_panics(&file);
    }

    #[test]
    fn anything_is_read_without_panic(mut bytes in some(any::<u8>(), 0..200), kind in 0_u8..6) {
        let head: &[u8] = match kind {
            0 => &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0],
            1 => &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2],
            2 => &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0],
            3 => &[0, 12, 0, 4],
            _ => &[],
        };
        let length = head.len().min(bytes.len());
        bytes[..length].copy_from_slice(&head[..length]);
        reading_never_panics(&bytes);
    }

    #[test]
    fn a_damaged_file_is_read_without_panic(
        order in orders(), damage in some((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (mut file, _) = good(order);
        file.extend(good(order).0);
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        reading_never_panics(&file);
    }

    #[test]
    fn pseudo_headers_round_trip(
        is_sent in any::<bool>(), code in 0_u8..16, vpi in any::<u8>(), vci in any::<u16>(),
        time in any::<u64>(), kind in 0_u8..128, interface in 0_u8..4,
        payload_bytes in 0_u16..=65_519, wire_bytes in any::<u16>(),
    ) {
        let traffic = sunatm::Traffic::from_code(code);
        let header = sunatm::HeaderRepr { is_sent, traffic, vpi, vci };
        let bytes = header.to_bytes();
        let view = sunatm::Header::new_checked(bytes).unwrap();
        prop_assert_eq!(sunatm::HeaderRepr::parse(&view), Ok(header));
        prop_assert_eq!(traffic.code(), code);

        let time_ns = time % (1_000_000_000 << 32);
        let kind = erf::Kind::from_code(kind);
        let record = erf::RecordRepr { time_ns, kind, interface, payload_bytes, wire_bytes };
        let view = erf::Record::new_checked(record.to_bytes()).unwrap();
        prop_assert_eq!(erf::RecordRepr::parse(&view), Ok(record));
    }

    #[test]
    fn tags_round_trip(
        dissector in "[a-z.]{0,9}", protocol in "[a-z.]{0,9}",
        ends in any::<Option<[(Result<[u8; 4], [u8; 16]>, u32); 2]>>(), packet in some(any::<u8>(), 0..9),
    ) {
        let end = |(address, port): (Result<[u8; 4], [u8; 16]>, u32)| Endpoint {
            address: address.map_or_else(Into::into, Into::into),
            port,
        };
        let ends = ends.map(|[source, destination]| (end(source), end(destination)));
        let tags = TagsRepr { dissector: &dissector, protocol: &protocol, ends };
        let mut bytes = vec![0xff; tags.buffer_len()];
        prop_assert_eq!(tags.emit(&mut bytes).unwrap().len(), tags.buffer_len());
        prop_assert!(tags.emit(&mut bytes[1..].to_vec()).is_err());
        bytes.extend(&packet);
        prop_assert_eq!(TagsRepr::parse(&bytes), Ok((tags, tags.buffer_len())));
    }
}

#[test]
fn faults_of_pseudo_headers_are_reported_at_their_field() {
    let error = |bytes: &[u8]| TagsRepr::parse(bytes).unwrap_err();
    assert_eq!(error(&[0, 12, 0]).first_bit, 24);
    assert_eq!(
        error(&[0, 12, 0, 4, b'a', 0xff, 0, 0, 0, 0, 0, 0]).first_bit,
        32
    );
    assert_eq!(error(&[0, 25, 0, 2, 0, 0, 0, 0, 0, 0]).first_bit, 32);
    assert_eq!(error(&[0, 12, 0, 4, b'a']).first_bit, 40);

    let repr = erf::RecordRepr {
        time_ns: 0,
        kind: erf::Kind::Cell,
        interface: 0,
        payload_bytes: 52,
        wire_bytes: 53,
    };
    let mut record = repr.to_bytes().to_vec();
    record[8] |= 0x80;
    let error = |bytes: &[u8]| erf::Record::new_checked(bytes).unwrap_err();
    assert_eq!(error(&record).field, "extension header");
    record.extend([0; 8]);
    let view = erf::Record::new_checked(&record).unwrap();
    assert_eq!(view.payload_range(), 24..24);
    record[10..12].copy_from_slice(&[0, 23]);
    assert_eq!(
        (error(&record).field, error(&record).first_bit),
        ("record length", 80)
    );
}

#[test]
fn a_packet_opens_to_what_its_link_type_says() {
    let mut file = Vec::new();
    let mut pcapng = Pcapng::new(&mut file, ByteOrder::NATIVE).unwrap();
    let header = sunatm::HeaderRepr {
        is_sent: true,
        traffic: sunatm::Traffic::Llc,
        vpi: 1,
        vci: 32,
    };
    let tags = TagsRepr::new(exported::CBN);
    let mut room = [0; 64];
    let tag_bytes = tags.emit(&mut room).unwrap();
    let ports = [LinkType::SUNATM, LinkType::UPPER_PDU, LinkType::ATM_RFC1483]
        .map(|link_type| pcapng.interface(link_type, 0, "").unwrap());
    pcapng
        .packet(ports[0], 0, &[&header.to_bytes(), b"pdu"], "")
        .unwrap();
    pcapng
        .packet(ports[1], 0, &[tag_bytes, b"frame"], "")
        .unwrap();
    pcapng.packet(ports[2], 0, &[b"llc"], "").unwrap();
    pcapng.packet(ports[0], 0, &[b"no"], "").unwrap();
    let packets = read(&file).unwrap();
    let opened = [0, 1, 2].map(|i: usize| packets[i].open().unwrap());
    assert_eq!(opened[0], Content::SunAtm(header, b"pdu"));
    assert_eq!(opened[1], Content::Exported(tags, b"frame"));
    assert_eq!(opened[2], Content::Plain(LinkType::ATM_RFC1483, b"llc"));
    let error = packets[3].open().unwrap_err();
    assert_eq!(error.first_bit, (packets[3].offset_bytes + 2) * 8);
}
