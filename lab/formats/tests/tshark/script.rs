//! Our own formats, shown by `docs/wireshark/barewire.lua`.

use barewire_formats::atm::Vc;
use barewire_formats::cbn::{self, Msdl};
use barewire_formats::jetstream;
use barewire_formats::msnl::{self, Body, MessageRepr, Port, Reason};
use barewire_wire::capture::LinkType;
use barewire_wire::capture::exported::{self, Endpoint, TagsRepr};

use crate::build::{aal5, exported, llc_ipv4, numbered, pcapng};
use crate::tool::Tool;

#[test]
fn the_script_shows_cbn_frames() {
    let Some(tool) = Tool::of("the_script_shows_cbn_frames") else {
        return;
    };
    let broken = [3, 6];
    let frames: Vec<Vec<u8>> = (0..9)
        .map(|i: usize| {
            let mut frame = cbn::Frame::new_unchecked([0; cbn::FRAME_BYTES]);
            let word = Msdl {
                vci: 0x1200 + i as u16,
                sequence: 1 + i as u8,
                rid: 0x2a,
                part: true,
                start: i == 0,
            };
            frame.set_full(i % 4, true);
            frame.set_monitor_passed(i % 2, true);
            frame.set_response(3, true);
            frame.set_qualifier(0, true);
            let slot = frame.slot_mut(i % 4);
            slot[..4].copy_from_slice(&word.to_word().to_be_bytes());
            slot[35] = i as u8;
            frame.fill_crc();
            let mut frame = frame.into_inner();
            frame[20 + i] ^= u8::from(broken.contains(&i)) << (i % 8);
            frame.to_vec()
        })
        .collect();
    let packets: Vec<Vec<u8>> = frames.iter().map(|f| exported(exported::CBN, f)).collect();
    let file = pcapng(LinkType::UPPER_PDU, &packets);
    let cbn = [
        "full",
        "monitor",
        "response",
        "qualifier",
        "crc",
        "crc_ok",
        "bad_crc",
    ];
    let msdl = ["vci", "sequence", "rid", "part", "start", "valid"];
    let fields = cbn.iter().map(|n| format!("barewire.cbn.{n}"));
    let fields: Vec<String> = fields
        .chain(msdl.iter().map(|n| format!("barewire.msdl.{n}")))
        .collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let rows = tool.fields(&file, &[], &fields);
    let only = |slot: usize| {
        [0, 1, 2, 3]
            .map(|i| u8::from(i == slot).to_string())
            .join(",")
    };
    for (i, row) in rows.iter().enumerate() {
        let is_good = !broken.contains(&i);
        let frame = cbn::Frame::new_checked(&frames[i]).unwrap();
        assert_eq!(frame.crc_ok(), is_good);
        assert_eq!(row[..4], [only(i % 4), only(i % 2), only(3), only(0)]);
        assert_eq!(row[4], format!("0x{:04x}", frame.crc()));
        assert_eq!((row[5] == "1", row[6].is_empty()), (is_good, is_good));
        let numbers = [0x1200 + i, 1 + i, 0x2a, 1, usize::from(i == 0), i];
        assert_eq!(row[7..], numbers.map(|n| n.to_string()));
    }
    assert_eq!(rows.len(), 9);
    // A cell on its own.
    let cell = [&0x1234_05a9_u32.to_be_bytes(), numbered(32).as_slice()].concat();
    let file = pcapng(LinkType::UPPER_PDU, &[exported(exported::MSDL, &cell)]);
    let rows = tool.fields(&file, &[], &["barewire.msdl.vci", "barewire.msdl.body"]);
    let body: String = numbered(32).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(rows, [["4660".to_owned(), body]]);
    tool.done();
}

#[test]
fn the_script_shows_msnl_messages() {
    let Some(tool) = Tool::of("the_script_shows_msnl_messages") else {
        return;
    };
    let receive_at = Port {
        vci: 0x1234,
        channel: 3,
    };
    let bodies = [
        Body::Connect {
            receive_at,
            service: 0x0123_4567_89ab_cdef,
        },
        Body::Accept { receive_at },
        Body::Reject(Reason::NoResources),
        Body::Close(Reason::TimedOut),
        Body::Closed,
        Body::Confirm,
        Body::Probe,
    ];
    let messages: Vec<[u8; 32]> = (0_u16..)
        .zip(bodies)
        .map(|(i, body)| {
            let message = MessageRepr {
                source: 10 + i,
                destination: 20,
                source_reference: 0x1_0000 + u32::from(i),
                destination_reference: u32::from(i),
                body,
            };
            let mut bytes = message.to_bytes();
            bytes[9] ^= u8::from(i == 2);
            bytes
        })
        .collect();
    // Each on its own, and the first once more, as it goes on the ring.
    let mut packets: Vec<Vec<u8>> = messages
        .iter()
        .map(|m| exported(exported::MSNL, m))
        .collect();
    let word = Msdl {
        vci: msnl::SIGNALLING_VCI,
        sequence: 1,
        rid: 0,
        part: false,
        start: true,
    };
    let cell = [&word.to_word().to_be_bytes(), messages[0].as_slice()].concat();
    packets.push(exported(exported::MSDL, &cell));
    let names = "kind source destination source_ref destination_ref vci channel reason \
                 service checksum_ok";
    let fields: Vec<String> = names
        .split(' ')
        .map(|name| format!("barewire.msnl.{name}"))
        .collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let rows = tool.fields(&pcapng(LinkType::UPPER_PDU, &packets), &[], &fields);
    let rows: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
    let none = "0x0000000000000000";
    let connect = "1|10|20|65536|0|4660|3|0|0x0123456789abcdef|1".to_owned();
    let expected = [
        connect.clone(),
        format!("2|11|20|65537|1|4660|3|0|{none}|1"),
        format!("3|12|20|2|2|0|0|2|{none}|0"),
        format!("4|13|20|65539|3|0|0|4|{none}|1"),
        format!("5|14|20|65540|4|0|0|0|{none}|1"),
        format!("6|15|20|65541|5|0|0|0|{none}|1"),
        format!("7|16|20|65542|6|0|0|0|{none}|1"),
        connect,
    ];
    assert_eq!(rows, expected);
    tool.done();
}

#[test]
fn the_script_shows_jetstream_frames() {
    let Some(tool) = Tool::of("the_script_shows_jetstream_frames") else {
        return;
    };
    let frame = |repr: jetstream::FrameRepr, pdu: &[u8]| {
        let mut frame = jetstream::Frame::new_unchecked(vec![0; repr.buffer_len()]);
        repr.emit(&mut frame);
        let mut bytes = frame.into_inner();
        if !pdu.is_empty() {
            bytes[jetstream::OVERHEAD_BYTES..].copy_from_slice(pdu);
        }
        bytes
    };
    let vc = Vc {
        vpi: 0,
        vci: 0x2801,
    };
    let data = |pdu: &[u8]| frame(jetstream::FrameRepr::on_vc(5, vc, pdu.len()), pdu);
    let good = aal5(&llc_ipv4(1), 0);
    let mut bad = good.clone();
    bad[44] ^= 1;
    let mut damaged = frame(jetstream::FrameRepr::token(2), &[]);
    damaged[2] ^= 8;
    let frames = [
        data(&good),
        data(&bad),
        frame(jetstream::FrameRepr::ring_up(3), &[]),
        frame(jetstream::FrameRepr::token(0), &[]),
        damaged,
    ];
    let packets = frames.map(|f| exported(exported::JETSTREAM, &f));
    let fields = [
        "barewire.jetstream.addr_type",
        "barewire.jetstream.control",
        "barewire.jetstream.src_rid",
        "barewire.jetstream.hop_count",
        "barewire.jetstream.complement_ok",
        "barewire.cell.vci",
        "barewire.cell.hec_ok",
        "barewire.aal5.crc_ok",
        "ip.src",
    ];
    let rows = tool.fields(&pcapng(LinkType::UPPER_PDU, &packets), &[], &fields);
    let expected = [
        "1|0|5|||10241|1|1|10.0.0.1",
        "1|0|5|||10241|1|0|10.0.0.1",
        "2|1|0|3|1||||",
        "2|2|0|0|1||||",
        "2|2|10|0|0||||",
    ];
    assert_eq!(
        rows.iter().map(|r| r.join("|")).collect::<Vec<_>>(),
        expected
    );
    tool.done();
}

#[test]
fn the_script_shows_messages_of_the_live_network() {
    let Some(tool) = Tool::of("the_script_shows_messages_of_the_live_network") else {
        return;
    };
    let end = |port| Endpoint {
        address: [127, 0, 0, 1].into(),
        port,
    };
    let tags = TagsRepr {
        dissector: exported::DATA,
        protocol: "Barewire",
        ends: Some((end(1234), end(70_000))),
    };
    let mut room = [0; 100];
    let packet = [tags.emit(&mut room).unwrap(), b"question"].concat();
    let others = exported(exported::DATA, b"no message");
    let file = pcapng(LinkType::UPPER_PDU, &[packet, others]);
    let fields = ["barewire.from", "barewire.to", "data.data"];
    let rows = tool.fields(&file, &[], &fields);
    assert_eq!(rows[0], ["1234", "70000", "7175657374696f6e"]);
    assert_eq!(rows[1][..2], ["", ""]);
    tool.done();
}
