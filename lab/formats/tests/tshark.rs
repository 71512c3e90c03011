//! Captures of ours, judged by Wireshark: it must show what we put in, and find exactly the
//! errors that we planted.

#[path = "tshark/build.rs"]
mod build;
#[path = "tshark/ordinary.rs"]
mod ordinary;
#[path = "tshark/script.rs"]
mod script;
#[path = "tshark/sniffer.rs"]
mod sniffer;
#[path = "tshark/tool.rs"]
mod tool;

use barewire_formats::aal5::{Pdu, PduRepr};
use barewire_formats::aal34::{SarPdu, SarRepr, SegmentType};
use barewire_formats::atm::hec::{self, Verdict};
use barewire_formats::atm::oam::{OamRepr, OamType, Payload as OamPayload};
use barewire_formats::atm::{self, Interface, PayloadType, Vc};
use barewire_formats::atmarp::{self, AtmAddress, Operation, PacketRepr, Party};
use barewire_formats::llc::{EtherType, HeaderRepr};
use barewire_formats::sonet;
use barewire_wire::capture::{
    ByteOrder, LinkType, PACKET_BYTES_MAX, Pcap, Pcapng, Reader, Resolution, erf, exported, sunatm,
};

use build::{
    CellBytes, Memory, aal5, cell, erf_record, exported, llc, llc_ipv4, numbered, pcapng,
    sniffer_file, sunatm_header, time_ns, user,
};
use sniffer::Payload;
use tool::{Tool, line};

/// A time as Wireshark prints it.
fn seconds(time_ns: u64) -> String {
    let second = 1_000_000_000;
    format!("{}.{:09}", time_ns / second, time_ns % second)
}

#[test]
fn cell_headers_are_what_we_wrote() {
    let Some(tool) = Tool::of("cell_headers_are_what_we_wrote") else {
        return;
    };
    let payload = [0x6a; 48];
    let headers: Vec<atm::HeaderRepr> = (0_u16..24)
        .map(|i| atm::HeaderRepr {
            gfc: (i % 16) as u8,
            vc: Vc {
                vpi: i * 11,
                vci: 32 + i * 2_800,
            },
            payload_type: PayloadType::new((i % 4) as u8),
            loss_priority: i % 3 == 0,
        })
        .collect();
    let cells: Vec<CellBytes> = headers.iter().map(|h| cell(*h, &payload)).collect();
    let names = ["GFC", "vpi", "vci", "payload_type", "cell_loss_priority"];
    let fields: Vec<String> = names.iter().map(|name| format!("atm.{name}")).collect();
    let mut fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let expected = |h: &atm::HeaderRepr| {
        let numbers = [
            h.gfc.into(),
            h.vc.vpi,
            h.vc.vci,
            h.payload_type.get().into(),
        ];
        let mut row = numbers.map(|n| n.to_string()).to_vec();
        row.push(u8::from(h.loss_priority).to_string());
        row
    };
    // ERF keeps no HEC; the Sniffer does.
    let records = cells.iter().zip(&headers);
    let records = records.map(|(c, h)| erf_record(erf::Kind::Cell, Some(*h), &c[5..]));
    let file = pcapng(LinkType::ERF, &records.collect::<Vec<_>>());
    let rows = tool.fields(&file, &[], &fields);
    assert_eq!(rows, headers.iter().map(expected).collect::<Vec<_>>());

    fields.extend(["atm.header_error_check", "frame.time_epoch"]);
    let rows = tool.fields(&sniffer_file(Payload::Unknown, &cells), &[], &fields);
    let with_hec = headers.iter().zip(&cells).enumerate().map(|(i, (h, c))| {
        let mut row = expected(h);
        row.push(format!("0x{:02x}", c[4]));
        row.push(seconds(time_ns(i) / 100 * 100));
        row
    });
    assert_eq!(rows, with_hec.collect::<Vec<_>>());
    tool.done();
}

#[test]
fn header_errors_are_found_to_the_bit() {
    let Some(tool) = Tool::of("header_errors_are_found_to_the_bit") else {
        return;
    };
    let good = cell(user(5, 0x1234), &[0; 48]);
    let mut cells = vec![good];
    let flip = |cell: &mut CellBytes, bit: usize| cell[bit / 8] ^= 0x80 >> (bit % 8);
    for bit in 0..40 {
        let mut one = good;
        flip(&mut one, bit);
        let mut two = one;
        flip(&mut two, (bit + 1 + bit % 7) % 40);
        cells.extend([one, two]);
    }
    let wireshark = tool.trees(&sniffer_file(Payload::Unknown, &cells));
    let packets: Vec<Vec<u8>> = cells.iter().map(|c| exported(exported::CELL, c)).collect();
    let file = pcapng(LinkType::UPPER_PDU, &packets);
    let fields = [
        "barewire.cell.hec_ok",
        "barewire.cell.hec_bit",
        "barewire.cell.bad_hec",
    ];
    let script = tool.fields(&file, &[], &fields);
    assert_eq!((wireshark.len(), script.len()), (81, 81));
    for ((cell, tree), row) in cells.iter().zip(&wireshark).zip(&script) {
        let verdict = hec::check(cell.first_chunk().unwrap());
        let expected = match verdict {
            Verdict::Good => "(correct)".to_owned(),
            Verdict::SingleBit(bit) => format!("(error in bit {bit})"),
            Verdict::Bad => "(uncorrectable error)".to_owned(),
        };
        assert!(
            line(tree, "Header Error Check:").ends_with(&expected),
            "{tree}"
        );
        let bit = match verdict {
            Verdict::SingleBit(bit) => bit.to_string(),
            _ => String::new(),
        };
        let is_good = verdict == Verdict::Good;
        assert_eq!((row[0] == "1", &row[1]), (is_good, &bit));
        assert_eq!(row[2].is_empty(), is_good);
    }
    tool.done();
}

#[test]
fn oam_cells_are_checked() {
    let Some(tool) = Tool::of("oam_cells_are_checked") else {
        return;
    };
    let cells: Vec<CellBytes> = (0..8)
        .map(|i| {
            let mut payload = OamPayload::new_unchecked([0; 48]);
            let repr = OamRepr {
                oam_type: OamType::new(1),
                function: 8,
                function_specific: [i; 45],
            };
            repr.emit(&mut payload);
            let mut payload = payload.into_inner();
            payload[20] ^= u8::from(i == 3 || i == 6);
            let vc = Vc { vpi: 1, vci: 40 };
            cell(
                atm::HeaderRepr::user(vc, PayloadType::OAM_SEGMENT),
                &payload,
            )
        })
        .collect();
    let packets: Vec<Vec<u8>> = cells.iter().map(|c| exported(exported::CELL, c)).collect();
    let file = pcapng(LinkType::UPPER_PDU, &packets);
    let script = tool.fields(&file, &[], &["barewire.cell.oam_ok"]);
    for (i, tree) in tool
        .trees(&sniffer_file(Payload::Oam, &cells))
        .iter()
        .enumerate()
    {
        let is_good = i != 3 && i != 6;
        let crc = tree.lines().find(|l| l.contains("= CRC-10:")).unwrap();
        assert_eq!(crc.ends_with("(correct))"), is_good, "{tree}");
        assert!(tree.contains("OAM Cell Loopback (8)"), "{tree}");
        assert_eq!(script[i], [u8::from(is_good).to_string()]);
    }
    tool.done();
}

#[test]
fn aal5_errors_are_found_where_they_are() {
    let Some(tool) = Tool::of("aal5_errors_are_found_where_they_are") else {
        return;
    };
    let lengths = [1, 39, 40, 41, 48, 1500, 9180, 65_535, 40, 88];
    let broken = [2, 5, 9];
    let pdus: Vec<Vec<u8>> = lengths
        .iter()
        .enumerate()
        .map(|(i, length)| {
            let mut pdu = aal5(&numbered(*length), i as u8);
            pdu[length / 2] ^= if broken.contains(&i) { 0x10 } else { 0 };
            pdu
        })
        .collect();
    let header = user(7, 0xabcd);
    // The longest PDU does not fit into an ERF record.
    let fits: Vec<usize> = (0..pdus.len())
        .filter(|i| pdus[*i].len() < 65_500)
        .collect();
    let records = fits.iter().map(|i| &pdus[*i]);
    let records = records.map(|pdu| erf_record(erf::Kind::Aal5, Some(header), pdu));
    let trees = tool.trees(&pcapng(LinkType::ERF, &records.collect::<Vec<_>>()));
    assert_eq!(trees.len(), pdus.len() - 1);
    for (tree, i) in trees.iter().zip(fits) {
        let verdict = if broken.contains(&i) {
            "(incorrect)"
        } else {
            "(correct)"
        };
        assert!(line(tree, "AAL5 CRC:").ends_with(verdict), "{i}: {tree}");
        assert_eq!(line(tree, "AAL5 UU:"), format!(" 0x{i:02x}"));
        assert_eq!(line(tree, "AAL5 len:"), format!(" {}", lengths[i]));
        assert_eq!(line(tree, "Cells:"), format!(" {}", pdus[i].len() / 48));
        assert_eq!((line(tree, "VPI:"), line(tree, "VCI:")), (" 7", " 43981"));
    }
    let head = atm::HeaderRepr::user(header.vc, PayloadType::USER_END).to_bytes(Interface::Uni);
    let packets = pdus.iter().map(|pdu| [&head, pdu.as_slice()].concat());
    let packets: Vec<_> = packets.map(|p| exported(exported::AAL5, &p)).collect();
    let fields = ["hec_ok", "uu", "length", "crc_ok", "length_ok"];
    let fields: Vec<String> = (fields.iter().enumerate())
        .map(|(i, f)| format!("barewire.{}.{f}", if i == 0 { "cell" } else { "aal5" }))
        .collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let rows = tool.fields(&pcapng(LinkType::UPPER_PDU, &packets), &[], &fields);
    for (i, row) in rows.iter().enumerate() {
        let is_good = !broken.contains(&i);
        let expected = [1, i, lengths[i], is_good.into(), 1];
        assert_eq!(row[..], expected.map(|n| n.to_string()));
        assert_eq!(
            PduRepr::parse(&Pdu::new_checked(&pdus[i]).unwrap()).is_ok(),
            is_good
        );
    }
    assert_eq!(rows.len(), pdus.len());
    tool.done();
}

#[test]
fn aal34_errors_are_found_where_they_are() {
    use SegmentType::{Bom, Com, Eom, Ssm};
    let Some(tool) = Tool::of("aal34_errors_are_found_where_they_are") else {
        return;
    };
    let segments = [
        (Bom, 44),
        (Com, 44),
        (Eom, 4),
        (Ssm, 8),
        (Bom, 40),
        (Ssm, 4),
        (Eom, 63),
        (Ssm, 45),
    ];
    let broken = [1, 3, 8, 12];
    let sar: Vec<[u8; 48]> = (0..16)
        .map(|i| {
            let (segment_type, length) = segments[i % 8];
            let mut pdu = SarPdu::new_unchecked([0; 48]);
            pdu.segment_mut().copy_from_slice(&numbered(44));
            let repr = SarRepr {
                segment_type,
                sequence: (i % 16) as u8,
                mid: 0x155 + i as u16,
                payload_bytes: 44,
            };
            repr.emit(&mut pdu);
            pdu.set_length(length);
            pdu.fill_crc10();
            let mut bytes = pdu.into_inner();
            bytes[2 + i] ^= u8::from(broken.contains(&i));
            bytes
        })
        .collect();
    let cells: Vec<CellBytes> = sar.iter().map(|pdu| cell(user(1, 99), pdu)).collect();
    let trees = tool.trees(&sniffer_file(Payload::Aal34, &cells));
    let packets: Vec<Vec<u8>> = cells.iter().map(|c| exported(exported::AAL34, c)).collect();
    let names = ["st", "sn", "mid", "li", "crc_ok", "li_ok"];
    let script: Vec<String> = names
        .iter()
        .map(|n| format!("barewire.aal34.{n}"))
        .collect();
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let script = tool.fields(&pcapng(LinkType::UPPER_PDU, &packets), &[], &script);
    assert_eq!((trees.len(), script.len()), (16, 16));
    for (i, tree) in trees.iter().enumerate() {
        let (segment_type, length) = segments[i % 8];
        let is_good = !broken.contains(&i);
        let li_allowed = ![4, 5, 7].contains(&(i % 8));
        let verdict = if is_good {
            "(correct))"
        } else {
            "(incorrect))"
        };
        let crc = tree.lines().find(|l| l.contains("= CRC:")).unwrap();
        assert!(crc.ends_with(verdict), "{i}: {crc}");
        let shown = [
            format!("= Segment Type: {} (", segment_type.name()),
            format!("= Sequence Number: {i}\n"),
            format!("= Multiplex ID: {}\n", 0x155 + i),
            format!("= Length Indicator: Unknown ({length})"),
        ];
        for text in shown {
            assert!(tree.contains(&text), "{i}: {text} in {tree}");
        }
        let numbers = [usize::from(sar[i][0] >> 6), i, 0x155 + i, length.into()];
        let mut row = numbers.map(|n| n.to_string()).to_vec();
        row.extend([is_good, li_allowed].map(|b| u8::from(b).to_string()));
        assert_eq!(script[i], row);
        // And what we say ourselves.
        let parsed = SarRepr::parse(&SarPdu::new_checked(&sar[i]).unwrap());
        let field = match (is_good, li_allowed) {
            (false, _) => Some("crc10"),
            (true, false) => Some("li"),
            (true, true) => None,
        };
        assert_eq!(parsed.err().map(|e| e.field), field, "{i}");
    }
    tool.done();
}

#[test]
fn ipv4_in_llc_snap_is_decoded() {
    let Some(tool) = Tool::of("ipv4_in_llc_snap_is_decoded") else {
        return;
    };
    let broken = [1, 4];
    let packets: Vec<Vec<u8>> = (0..6)
        .map(|i| {
            let mut packet = llc_ipv4(i as u16);
            packet[16] ^= u8::from(broken.contains(&i));
            packet
        })
        .collect();
    let header = sunatm_header(sunatm::Traffic::Llc, 3, 100);
    let sun = packets.iter().map(|p| [&header, p.as_slice()].concat());
    let erf = packets.iter().map(|p| aal5(p, 0));
    let erf = erf.map(|pdu| erf_record(erf::Kind::Aal5, Some(user(3, 100)), &pdu));
    let files = [
        (LinkType::SUNATM, sun.collect(), ["3", "100"]),
        (LinkType::ERF, erf.collect(), ["3", "100"]),
        // Here the connection is not told.
        (LinkType::ATM_RFC1483, packets.clone(), ["", ""]),
    ];
    let fields = "atm.vpi atm.vci ip.id ip.src ip.dst ip.checksum.status udp.dstport llc.type";
    let fields: Vec<&str> = fields.split(' ').collect();
    for (link_type, packets, vc) in files {
        let file = pcapng(link_type, &packets);
        let rows = tool.fields(&file, &["-o", "ip.check_checksum:TRUE"], &fields);
        assert_eq!(rows.len(), 6);
        for (i, row) in rows.iter().enumerate() {
            let status = if broken.contains(&i) { "0" } else { "1" };
            let id = format!("0x{i:04x}");
            let packet = [&id, "10.0.0.1", "10.0.0.2", status, "54321", "0x0800"];
            assert_eq!(
                (&row[..2], &row[2..]),
                (&vc.map(String::from)[..], &packet.map(String::from)[..])
            );
        }
    }
    tool.done();
}

#[test]
fn what_else_llc_snap_carries_is_decoded() {
    let Some(tool) = Tool::of("what_else_llc_snap_carries_is_decoded") else {
        return;
    };
    let party = |nsap, ip| Party {
        number: AtmAddress::nsap(nsap).unwrap(),
        subaddress: AtmAddress::NONE,
        ip,
    };
    let numbers = [[0x47; 20], [0x39; 20]];
    let repr = PacketRepr {
        operation: Operation::Reply,
        sender: party(&numbers[0], Some([10, 0, 0, 1])),
        target: party(&numbers[1], Some([10, 0, 0, 2])),
    };
    let mut arp = atmarp::Packet::new_unchecked(vec![0; repr.buffer_len()]);
    repr.emit(&mut arp);
    // To 02:…:01 from 02:…:02, a type without a dissector.
    let frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, 1, 2, 3];
    let packets = [
        llc(HeaderRepr::Routed(EtherType::Arp), &arp.into_inner()),
        llc(HeaderRepr::BridgedEthernet { fcs: false }, &frame),
    ];
    let records = packets.map(|p| erf_record(erf::Kind::Aal5, Some(user(0, 32)), &aal5(&p, 0)));
    let fields = "arp.opcode arp.src.atm_num_nsap arp.src.proto_ipv4 arp.dst.proto_ipv4 \
                  eth.dst eth.src eth.type";
    let fields: Vec<&str> = fields.split(' ').collect();
    let rows = tool.fields(&pcapng(LinkType::ERF, &records), &[], &fields);
    let rows: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
    let number = "47".repeat(20);
    let expected = [
        format!("2|{number}|10.0.0.1|10.0.0.2|||"),
        "||||02:00:00:00:00:01|02:00:00:00:00:02|0x88b5".to_owned(),
    ];
    assert_eq!(rows, expected);
    tool.done();
}

/// The second frame of a framer, as it was before the scrambler, and with B2 errors to tell.
fn sonet_frame<const FRAME_BYTES: usize>() -> Vec<u8> {
    let mut framer = sonet::Framer::<FRAME_BYTES>::new();
    let mut line = [0; FRAME_BYTES];
    framer.emit(&mut line, || Some(cell(user(1, 40), &[7; 48])));
    framer.report(sonet::Report {
        b2_errors: 3,
        ..sonet::Report::NONE
    });
    framer.emit(&mut line, || None);
    let rate = sonet::Framer::<FRAME_BYTES>::RATE;
    let mut frame = sonet::Frame::new_checked(rate, line.to_vec()).unwrap();
    frame.scramble();
    frame.into_inner()
}

#[test]
fn sonet_frames_are_decoded() {
    let Some(tool) = Tool::of("sonet_frames_are_decoded") else {
        return;
    };
    let cases = [
        (
            sonet::Rate::Sts3c,
            "OC-3",
            sonet_frame::<{ sonet::STS3C_FRAME_BYTES }>(),
        ),
        (
            sonet::Rate::Sts12c,
            "OC-12",
            sonet_frame::<{ sonet::STS12C_FRAME_BYTES }>(),
        ),
    ];
    for (rate, name, bytes) in cases {
        let frame = sonet::Frame::new_checked(rate, &bytes).unwrap();
        let record = erf_record(erf::Kind::RawLink, None, &bytes);
        let name = format!("sdh.data.rate:{name}");
        let fields = "sdh.a1 sdh.a2 sdh.j0 sdh.b1 sdh.h1 sdh.h2 sdh.k2 sdh.s1 sdh.m1 sdh.au sdh.b2";
        let fields: Vec<&str> = fields.split(' ').collect();
        let rows = tool.fields(&pcapng(LinkType::ERF, &[record]), &["-o", &name], &fields);
        let n = rate.sts1s();
        let hex = |row, columns: std::ops::Range<usize>| -> String {
            let bytes = columns.map(|column| frame.byte(row, column));
            bytes.map(|byte| format!("{byte:02x}")).collect()
        };
        let byte = |row, column| format!("0x{}", hex(row, column..column + 1));
        let expected = [
            "f6".repeat(n),
            "28".repeat(n),
            byte(0, 2 * n),
            byte(1, 0),
            byte(3, 0),
            byte(3, n),
            byte(4, 2 * n),
            byte(8, 0),
            "3".to_owned(),
            frame.pointer_word().value().to_string(),
            hex(4, 0..n),
        ];
        assert_eq!(rows, [expected]);
    }
    tool.done();
}

/// The same three packets in every format that we write.
fn all_formats() -> Vec<(String, Vec<u8>)> {
    let packets = [numbered(60), numbered(1), numbered(200)];
    let mut files = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = Memory(Vec::new());
        let Ok(mut pcapng) = Pcapng::new(&mut file, order);
        let Ok(_) = pcapng.interface(LinkType::ETHERNET, 0, "");
        let Ok(port) = pcapng.interface(LinkType::ETHERNET, 100, "eth0");
        for (i, packet) in packets.iter().enumerate() {
            let Ok(()) = pcapng.packet(port, time_ns(i), &[packet], "a comment");
        }
        files.push((format!("pcapng {order:?}"), file.0));
        for resolution in [Resolution::Microseconds, Resolution::Nanoseconds] {
            let mut file = Memory(Vec::new());
            let Ok(mut pcap) = Pcap::new(&mut file, order, resolution, LinkType::ETHERNET, 100);
            for (i, packet) in packets.iter().enumerate() {
                let Ok(()) = pcap.packet(time_ns(i), &[packet]);
            }
            files.push((format!("pcap {order:?} {resolution:?}"), file.0));
        }
    }
    files
}

#[test]
fn every_file_format_is_accepted() {
    let Some(tool) = Tool::of("every_file_format_is_accepted") else {
        return;
    };
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "frame.comment",
    ];
    for (name, file) in all_formats() {
        let rows = tool.fields(&file, &[], &fields);
        let lengths = [(60, 60), (1, 1), (200, 100)];
        assert_eq!(rows.len(), 3, "{name}");
        for (i, (row, (original, captured))) in rows.iter().zip(lengths).enumerate() {
            let unit_ns = if name.contains("Micro") { 1000 } else { 1 };
            let time_ns = time_ns(i) / unit_ns * unit_ns;
            let time = format!("{}.{:09}", time_ns / 1_000_000_000, time_ns % 1_000_000_000);
            let comment = if name.contains("pcapng") {
                "a comment"
            } else {
                ""
            };
            let expected = [&time, &original.to_string(), &captured.to_string(), comment];
            assert_eq!(row[..], expected, "{name}");
        }
    }
    tool.done();
}

#[test]
fn the_longest_packet_is_accepted() {
    let Some(tool) = Tool::of("the_longest_packet_is_accepted") else {
        return;
    };
    let packet = exported(exported::DATA, &vec![7; PACKET_BYTES_MAX]);
    let rows = tool.fields(
        &pcapng(LinkType::UPPER_PDU, std::slice::from_ref(&packet)),
        &[],
        &["frame.cap_len", "frame.len"],
    );
    let lengths = [PACKET_BYTES_MAX, packet.len()];
    assert_eq!(rows, [lengths.map(|n| n.to_string())]);
    tool.done();
}

#[test]
fn what_wireshark_writes_is_read_back() {
    let Some(tool) = Tool::of("what_wireshark_writes_is_read_back") else {
        return;
    };
    for (name, file) in all_formats() {
        tool.write("in", &file);
        let ours: Vec<_> = Reader::new(&file).map(Result::unwrap).collect();
        for format in ["pcap", "nsecpcap", "pcapng"] {
            tool.run("editcap", &["-F", format, "in", "out"]);
            let copy = std::fs::read(tool.path("out")).unwrap();
            let theirs: Vec<_> = Reader::new(&copy).map(Result::unwrap).collect();
            assert_eq!(theirs.len(), 3, "{name} to {format}");
            for (a, b) in ours.iter().zip(&theirs) {
                let unit_ns = if format == "pcap" { 1000 } else { 1 };
                let time_ns = a.time_ns.map(|ns| ns / unit_ns * unit_ns);
                assert_eq!((a.data, a.original_bytes), (b.data, b.original_bytes));
                assert_eq!((time_ns, a.link_type), (b.time_ns, b.link_type));
            }
        }
    }
    // Two files into one of two interfaces, with pseudo-headers on the way.
    let header = sunatm_header(sunatm::Traffic::Llc, 3, 77);
    let payload = [&header, llc_ipv4(1).as_slice()].concat();
    let record = erf_record(erf::Kind::Cell, Some(user(2, 55)), &[7; 48]);
    let files = [(LinkType::SUNATM, payload), (LinkType::ERF, record)];
    for (name, (link_type, packet)) in ["a", "b"].iter().zip(&files) {
        let file = pcapng(*link_type, std::slice::from_ref(packet));
        tool.write(name, &file);
    }
    tool.run("mergecap", &["-a", "-w", "merged", "a", "b"]);
    let merged = std::fs::read(tool.path("merged")).unwrap();
    let packets: Vec<_> = Reader::new(&merged).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 2);
    for (packet, (link_type, bytes)) in packets.iter().zip(&files) {
        assert_eq!(
            (packet.link_type, packet.data),
            (*link_type, bytes.as_slice())
        );
        assert_eq!(packet.time_ns, Some(time_ns(0)));
    }
    tool.done();
}
