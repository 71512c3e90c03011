//! Captures that we write are accepted by `check` and opened by Wireshark; what is wrong in
//! them is counted for its circuit.

use barewire_wire::capture::{Buffer, ByteOrder, LinkType, Pcapng, Reader, erf};
use serde_json::Value;

use super::ordinary::{Folder, SCRIPT_ARGUMENTS};
use super::{Scratch, barewire, encoded, faulty, numbered, sound, text};

/// Encodes into a capture.
fn captured(name: &str, arguments: &[&str]) -> Scratch {
    let capture = Scratch::new(name);
    encoded(&[arguments, &["--pcapng", capture.path()]].concat());
    capture
}

/// What `check` says: the errors by circuit and name, and all of it.
fn checked(capture: &Scratch, options: &[&str]) -> (Vec<(String, String, u64)>, Value) {
    let output = barewire(&[&["check", capture.path(), "--json"], options].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut errors = Vec::new();
    for circuit in report["circuits"].as_array().unwrap() {
        for (name, count) in circuit["errors"].as_object().unwrap() {
            let circuit = circuit["circuit"].as_str().unwrap().to_owned();
            errors.push((circuit, name.clone(), count.as_u64().unwrap()));
        }
    }
    assert_eq!(
        output.status.code(),
        Some(i32::from(!errors.is_empty())),
        "{report:#}"
    );
    (errors, report)
}

#[track_caller]
fn assert_errors(capture: &Scratch, options: &[&str], expected: &[(&str, &str, u64)]) {
    let (errors, report) = checked(capture, options);
    let errors: Vec<(&str, &str, u64)> = errors
        .iter()
        .map(|(circuit, name, count)| (&circuit[..], &name[..], *count))
        .collect();
    assert_eq!(errors, expected, "{report:#}");
}

/// What `encode` takes, a field to break, and who is blamed for what.
const CAPTURES: [(&[&str], &str, &str, &str); 14] = [
    (
        &["atm", "--pt", "5", "--hex", "18"],
        "function-specific",
        "VC 0/42",
        "CRC-10",
    ),
    (&["oam"], "CRC-10", "VC 0/42", "CRC-10"),
    (
        &["aal5", "--vc", "7/300", "--hex", "0102"],
        "crc32",
        "VC 7/300",
        "crc32",
    ),
    (
        &["aal5", "--cells", "--hex", "0102"],
        "hec",
        "VC 0/42",
        "HEC corrected",
    ),
    (
        &["aal5", "--cells", "--hex", "0102"],
        "payload",
        "VC 0/42",
        "crc32",
    ),
    (
        &["aal34", "--hex", "0001000000010000"],
        "crc10",
        "VC 0/42",
        "crc10",
    ),
    (
        &["aal34-cpcs", "--cells", "--hex", "0102"],
        "payload",
        "VC 0/42",
        "crc10",
    ),
    (&["cbn", "--full", "0000"], "crc", "link", "crc"),
    (
        &["cbn-cell", "--sar", "0x101"],
        "SAR",
        "VCI 0x0042",
        "orphans",
    ),
    (
        &["msdl", "--vci", "7", "--hex", "0102"],
        "start",
        "VCI 0x0007",
        "orphans",
    ),
    (&["msnl"], "checksum", "link", "checksum"),
    (&["jetstream", "--hex", "0102"], "crc32", "VC 0/42", "crc32"),
    (
        &["jetstream", "--token"],
        "complement",
        "link",
        "complement",
    ),
    (
        &["llc", "--ethertype", "0x86dd", "--hex", "60"],
        "dsap",
        "link",
        "dsap",
    ),
];

#[test]
fn what_is_encoded_is_checked_and_a_broken_field_is_counted() {
    for (arguments, at, circuit, name) in CAPTURES {
        if arguments[0] != "atm" {
            let capture = captured("good", arguments);
            assert_errors(&capture, &[], &[]);
            let tree = sound(&["decode", capture.path()]);
            assert!(tree.contains("packet 1"), "{tree}");
        }
        let capture = captured("bad", &[arguments, &["--break", at]].concat());
        assert_errors(&capture, &[], &[(circuit, name, 1)]);
    }
}

#[test]
fn other_captures_are_accepted_too() {
    let long = numbered(1000);
    let kinds: [&[&str]; 5] = [
        &["atmarp", "--sender-ip", "10.0.0.1"],
        &[
            "ip-checksum",
            "--hex",
            "4500003044224000800600008c7c19acae241e2b",
        ],
        &["sonet", "--frames", "3"],
        &["sonet", "--frames", "3", "--sts12c"],
        &["msdl", "--hex", &long[..2000]],
    ];
    for arguments in kinds {
        let capture = captured("other", arguments);
        assert_errors(&capture, &[], &[]);
        sound(&["decode", capture.path()]);
    }
    let capture = captured("parity", &["sonet", "--frames", "3", "--break", "2:B1"]);
    // B1 covers B1 of the frame before, too.
    assert_errors(&capture, &[], &[("link", "B1", 2)]);
}

/// A capture with one packet.
fn with_packet(name: &str, link_type: LinkType, packet: &[u8]) -> Scratch {
    let mut room = vec![0; packet.len() + 1024];
    let mut buffer = Buffer::new(&mut room);
    let mut written = Pcapng::new(&mut buffer, ByteOrder::Little).unwrap();
    let port = written.interface(link_type, 0, "").unwrap();
    written.packet(port, 0, &[packet], "").unwrap();
    Scratch::with(name, buffer.written())
}

/// An IPv4 header with its checksum.
fn ip_header() -> Vec<u8> {
    vec![
        0x45, 0, 0, 0x30, 0x44, 0x22, 0x40, 0, 0x80, 6, 0x44, 0x2e, 0x8c, 0x7c, 0x19, 0xac, 0xae,
        0x24, 0x1e, 0x2b,
    ]
}

/// A SunATM packet of circuit 3/100: LLC/SNAP with this `EtherType`, and what it carries.
fn sun_llc(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = ethertype.to_be_bytes();
    let header = [0x02, 3, 0, 100, 0xaa, 0xaa, 3, 0, 0, 0, high, low];
    [&header[..], payload].concat()
}

#[test]
fn what_llc_announces_is_checked_too() {
    let mut header = ip_header();
    header[8] ^= 1;
    let arp = encoded(&["atmarp", "--sender-ip", "10.0.0.1"]);
    let mut arp: Vec<u8> = (0..arp.trim().len() / 2)
        .map(|at| u8::from_str_radix(&arp[at * 2..at * 2 + 2], 16).unwrap())
        .collect();
    let capture = with_packet("arp", LinkType::SUNATM, &sun_llc(0x0806, &arp));
    assert_errors(&capture, &[], &[]);
    arp[1] ^= 1;
    for (ethertype, payload, name) in [
        (0x0800, &header[..], "ip checksum"),
        (0x0800, &header[..19], "ip header"),
        (0x0800, &[0x60; 40], "ip header"),
        (0x0806, &arp, "hrd"),
    ] {
        let packet = sun_llc(ethertype, payload);
        let capture = with_packet("llc-content", LinkType::SUNATM, &packet);
        assert_errors(&capture, &[], &[("VC 3/100", name, 1)]);
        let capture = with_packet("llc-content", LinkType::ATM_RFC1483, &packet[4..]);
        assert_errors(&capture, &[], &[("link", name, 1)]);
    }
}

/// A capture whose packets are cut after `snap_bytes`.
fn cut_off(name: &str, link_type: LinkType, packet: &[u8], snap_bytes: u32) -> Scratch {
    let mut room = vec![0; packet.len() + 1024];
    let mut buffer = Buffer::new(&mut room);
    let mut written = Pcapng::new(&mut buffer, ByteOrder::Little).unwrap();
    let port = written.interface(link_type, snap_bytes, "").unwrap();
    written.packet(port, 0, &[packet], "").unwrap();
    Scratch::with(name, buffer.written())
}

#[test]
fn a_cut_packet_belongs_to_the_circuit_that_its_pseudo_header_names() {
    let sun = sun_llc(0x0800, &ip_header());
    let capture = cut_off("cut-sun", LinkType::SUNATM, &sun, 20);
    assert_errors(&capture, &[], &[("VC 3/100", "cut", 1)]);
    let erf = erf_cell(&[0x5a; 48]);
    let capture = cut_off("cut-erf", LinkType::ERF, &erf, 30);
    assert_errors(&capture, &[], &[("VC 0/42", "cut", 1)]);
    let capture = cut_off("cut-early", LinkType::ERF, &erf, 18);
    assert_errors(&capture, &[], &[("link", "cut", 1)]);
}

#[test]
fn a_cell_of_a_wrong_length_belongs_to_its_circuit() {
    let whole = captured("length", &["atm", "--vc", "1/50", "--pt", "1"]);
    let file = std::fs::read(whole.path()).unwrap();
    let packet = Reader::new(&file).next().unwrap().unwrap();
    let short = &packet.data[..packet.data.len() - 1];
    let capture = with_packet("short", packet.link_type, short);
    assert_errors(&capture, &[], &[("VC 1/50", "short cell", 1)]);
}

/// Packets of captures in turn, those of each on an interface of its own.
fn in_turn(name: &str, captures: [&Scratch; 2]) -> Scratch {
    let files = captures.map(|capture| std::fs::read(capture.path()).unwrap());
    let packets = |file| Reader::new(file).map(Result::unwrap).collect::<Vec<_>>();
    let [first, second] = [packets(&files[0]), packets(&files[1])];
    assert_eq!(first.len(), second.len());
    let mut room = vec![0; files[0].len() + files[1].len() + 1024];
    let mut buffer = Buffer::new(&mut room);
    let mut written = Pcapng::new(&mut buffer, ByteOrder::Little).unwrap();
    let ports = [&first, &second].map(|of| written.interface(of[0].link_type, 0, "").unwrap());
    for pair in first.iter().zip(&second) {
        written.packet(ports[0], 0, &[pair.0.data], "").unwrap();
        written.packet(ports[1], 0, &[pair.1.data], "").unwrap();
    }
    Scratch::with(name, buffer.written())
}

#[test]
fn interfaces_do_not_mix() {
    let cells = |text: &str| captured(text, &["aal5", "--cells", "--hex", &numbered(400)]);
    let both = in_turn("cells-in-turn", [&cells("one"), &cells("other")]);
    assert_errors(&both, &[], &[]);
    let cell = encoded(&["atm", "--hex", "01"]);
    let sonet =
        |text: &str, cells: &str| captured(text, &["sonet", "--frames", "3", "--hex", cells]);
    let both = in_turn(
        "frames-in-turn",
        [&sonet("idle", ""), &sonet("cells", &cell)],
    );
    assert_errors(&both, &[], &[]);
    let msdl = |text: &str| captured(text, &["msdl", "--hex", &numbered(400)]);
    let both = in_turn("blocks-in-turn", [&msdl("one-block"), &msdl("other-block")]);
    assert_errors(&both, &[], &[]);
}

/// A record with a whole SONET frame or what is left of one.
fn erf_frame(frame: &[u8]) -> Vec<u8> {
    let payload_bytes = frame.len() as u16;
    let record = erf::RecordRepr {
        time_ns: 0,
        kind: erf::Kind::RawLink,
        interface: 0,
        payload_bytes,
        wire_bytes: payload_bytes,
    };
    [&record.to_bytes()[..], frame].concat()
}

#[test]
fn a_frame_of_a_wrong_length_is_no_frame_before() {
    let whole = captured("frames", &["sonet", "--frames", "3"]);
    let file = std::fs::read(whole.path()).unwrap();
    let mut room = vec![0; file.len() + 1024];
    let mut buffer = Buffer::new(&mut room);
    let mut written = Pcapng::new(&mut buffer, ByteOrder::Little).unwrap();
    let port = written.interface(LinkType::ERF, 0, "").unwrap();
    for (number, packet) in Reader::new(&file).map(Result::unwrap).enumerate() {
        let frame = &packet.data[erf::HEADER_BYTES..];
        let frame = if number == 1 { &frame[..2000] } else { frame };
        written.packet(port, 0, &[&erf_frame(frame)], "").unwrap();
    }
    let capture = Scratch::with("short-frame", buffer.written());
    assert_errors(&capture, &[], &[("link", "frame", 1)]);
}

#[test]
fn a_payload_of_sunatm_has_no_trailer_that_could_be_wrong() {
    let mut packet = sun_llc(0x0800, &ip_header());
    let capture = with_packet("sun", LinkType::SUNATM, &packet);
    assert_errors(&capture, &[], &[]);
    sound(&["decode", capture.path()]);
    packet[4] = 0xab;
    let capture = with_packet("sun-bad", LinkType::SUNATM, &packet);
    assert_errors(&capture, &[], &[("VC 3/100", "dsap", 1)]);
}

#[test]
fn an_ipv4_header_must_be_whole() {
    for (packet, errors) in [
        (&[0x45, 0, 0][..], &[("link", "ip header", 1)][..]),
        (&[0x41; 40], &[("link", "ip header", 1)]),
        (&[0x45; 20], &[("link", "ip checksum", 1)]),
        (&[0x60; 40], &[]),
        (&[0x10; 40], &[("link", "ip header", 1)]),
    ] {
        let capture = with_packet("ip", LinkType(101), packet);
        assert_errors(&capture, &[], errors);
    }
}

/// A record with a cell of circuit 0/42 that has no HEC.
fn erf_cell(payload: &[u8]) -> Vec<u8> {
    let payload_bytes = payload.len() as u16 + 4;
    let record = erf::RecordRepr {
        time_ns: 0,
        kind: erf::Kind::Cell,
        interface: 0,
        payload_bytes,
        wire_bytes: payload_bytes,
    };
    [&record.to_bytes()[..], &[0, 0, 2, 0xa0], payload].concat()
}

#[test]
fn a_cell_without_hec_is_wrong_where_it_is_wrong() {
    let mut payload = [0; 48];
    payload[0] = 0x80;
    let capture = with_packet("erf", LinkType::ERF, &erf_cell(&payload));
    let (errors, report) = checked(&capture, &["--aal34", "0/42"]);
    assert_eq!(errors, [("VC 0/42".to_owned(), "crc10".to_owned(), 1)]);
    let file = std::fs::read(capture.path()).unwrap();
    let packet = Reader::new(&file).next().unwrap().unwrap();
    let crc_at = packet.offset_bytes + packet.data.len() - 2;
    let what = report["errors"][0]["what"].as_str().unwrap();
    assert!(what.contains(&format!("at byte {crc_at} bit 6 ")), "{what}");
}

#[test]
fn a_cell_without_hec_has_48_bytes_of_payload() {
    let mut cut = erf_cell(&[]);
    cut[11] -= 1;
    let capture = with_packet("erf-header", LinkType::ERF, &cut);
    assert_errors(&capture, &[], &[("link", "record", 1)]);
    let shown = barewire(&["decode", capture.path()]);
    assert_eq!(shown.status.code(), Some(1), "{}", text(&shown.stdout));
    for payload_bytes in [0, 47, 49] {
        let packet = erf_cell(&vec![0x5a; payload_bytes]);
        let capture = with_packet("erf-length", LinkType::ERF, &packet);
        assert_errors(&capture, &[], &[("VC 0/42", "payload", 1)]);
        let shown = barewire(&["decode", capture.path()]);
        assert_eq!(shown.status.code(), Some(1), "{}", text(&shown.stdout));
    }
}

/// The same packets without those whose numbers are given, counted from 1.
fn without(capture: &Scratch, dropped: &[usize]) -> Scratch {
    let file = std::fs::read(capture.path()).unwrap();
    let mut room = vec![0; file.len() + 1024];
    let mut buffer = Buffer::new(&mut room);
    let mut written = Pcapng::new(&mut buffer, ByteOrder::Big).unwrap();
    let packets: Vec<_> = Reader::new(&file).map(Result::unwrap).collect();
    let port = written.interface(packets[0].link_type, 0, "").unwrap();
    for (number, packet) in (1..).zip(&packets) {
        if !dropped.contains(&number) {
            written.packet(port, 0, &[packet.data], "").unwrap();
        }
    }
    Scratch::with("less", buffer.written())
}

#[test]
fn lost_cells_are_counted_for_their_circuit() {
    let message = numbered(400);
    let aal34 = captured(
        "aal34",
        &["aal34-cpcs", "--cells", "--vc", "1/50", "--hex", &message],
    );
    assert_errors(
        &without(&aal34, &[3, 4]),
        &[],
        &[("VC 1/50", "lost cells", 2), ("VC 1/50", "orphans", 5)],
    );
    let aal5 = captured(
        "aal5",
        &["aal5", "--cells", "--vc", "1/51", "--hex", &message],
    );
    assert_errors(&without(&aal5, &[3]), &[], &[("VC 1/51", "crc32", 1)]);
    assert_errors(&without(&aal5, &[9]), &[], &[("VC 1/51", "unfinished", 1)]);
    let msdl = captured("msdl", &["msdl", "--vci", "9", "--hex", &message]);
    assert_errors(
        &without(&msdl, &[2, 3, 4]),
        &[],
        &[("VCI 0x0009", "lost cells", 3)],
    );
    assert_errors(
        &without(&msdl, &[13]),
        &[],
        &[("VCI 0x0009", "unfinished", 1)],
    );
    assert_errors(&aal34, &["--aal34", "1/50"], &[]);
}

#[test]
fn the_report_is_a_table_and_a_list() {
    let capture = captured(
        "report",
        &[
            "aal5",
            "--cells",
            "--hex",
            &numbered(100),
            "--break",
            "2:hec",
        ],
    );
    let output = barewire(&["check", capture.path()]);
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stdout);
    let line = |start: &str| report.lines().find(|line| line.starts_with(start)).unwrap();
    assert_eq!(line("3 packets"), "3 packets");
    assert_eq!(
        line("VC 0/42").split_whitespace().collect::<Vec<_>>(),
        ["VC", "0/42", "1", "100", "3"]
    );
    assert!(
        line("packet 2, VC 0/42").contains("the HEC corrected bit 39"),
        "{report}"
    );
    let good = captured("good-report", &["aal5", "--hex", "01"]);
    assert!(sound(&["check", good.path()]).ends_with("no errors\n"));
}

#[test]
fn a_capture_that_is_cut_off_says_where() {
    let capture = captured("whole", &["aal5", "--hex", "01"]);
    let file = std::fs::read(capture.path()).unwrap();
    let cut = Scratch::with("cut", &file[..file.len() - 5]);
    let (errors, report) = checked(&cut, &[]);
    assert_eq!(errors.len(), 1, "{report:#}");
    assert!(
        report["errors"][0]["what"]
            .as_str()
            .unwrap()
            .contains("at byte"),
        "{report:#}"
    );
    let output = barewire(&["decode", cut.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        faulty(&serde_json::from_slice(&output.stdout).unwrap()).len(),
        1
    );
}

#[test]
fn one_packet_of_a_capture_can_be_shown() {
    let capture = captured("three", &["aal5", "--cells", "--hex", &numbered(100)]);
    let third = sound(&["decode", capture.path(), "--packet", "3"]);
    assert!(
        third.contains("packet 3") && !third.contains("packet 2"),
        "{third}"
    );
    let as_nni = sound(&["decode", capture.path(), "--packet", "1", "--as", "atm-nni"]);
    assert!(!as_nni.contains("GFC"), "{as_nni}");
    for wrong in ["0", "4"] {
        let message = super::refused(&["decode", capture.path(), "--packet", wrong]);
        assert!(message.contains("the capture has 3"), "{message}");
    }
    let file = std::fs::read(capture.path()).unwrap();
    let shown = sound(&["decode", capture.path(), "--as", "capture", "--json"]);
    let tree: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(tree["fields"][0]["bits"], file.len() * 8);
}

/// Wireshark's words about a capture, if it is installed; for our own formats by our script.
fn tshark(capture: &Scratch, is_ours: bool) -> Option<String> {
    let name = if is_ours { "ours" } else { "known" };
    let folder = Folder::new(name);
    folder.write("file", &std::fs::read(capture.path()).unwrap());
    let mut command = folder.command("tshark");
    if is_ours {
        command.args(SCRIPT_ARGUMENTS);
    }
    let output = command.args(["-V", "-r", "file"]).output().ok()?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout))
}

/// Notes that a test could not run; `scripts/test.sh` counts it.
fn skipped(name: &str) {
    eprintln!("skipped: {name}: tshark is not installed");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        let line = format!("SKIPPED: wire::captures::{name}: tshark is not installed\n");
        log.and_then(|mut log| std::io::Write::write_all(&mut log, line.as_bytes()))
            .expect("the skip log can be written");
    }
}

fn assert_shown(is_ours: bool, shown: &[(&[&str], &[&str])]) {
    for (arguments, expected) in shown {
        let capture = captured(if is_ours { "ours" } else { "shark" }, arguments);
        let Some(tree) = tshark(&capture, is_ours) else {
            skipped(if is_ours { "our_script" } else { "wireshark" });
            return;
        };
        for words in *expected {
            assert!(tree.contains(words), "{arguments:?}: no {words} in\n{tree}");
        }
    }
}

const UDP: &str = "4500001e00000000401100000a0000010a00000200010002000a0000";

#[test]
fn wireshark_opens_what_is_encoded() {
    let llc = format!("aaaa030000000800{UDP}");
    assert_shown(
        false,
        &[
            (
                &["aal5", "--vc", "7/300", "--hex", &llc],
                &[
                    "VCI: 300",
                    "AAL5 CRC: 0x",
                    "(correct)",
                    "User Datagram Protocol",
                ],
            ),
            (
                &["aal5", "--hex", &llc, "--break", "crc32"],
                &["AAL5 CRC: 0x", "(incorrect)"],
            ),
            (
                &["llc", "--hex", UDP],
                &["Logical-Link Control", "Dst: 10.0.0.2"],
            ),
            (
                &["ip-checksum", "--hex", UDP],
                &["Internet Protocol Version 4", "Dst: 10.0.0.2"],
            ),
            (&["atmarp", "--target-ip", "10.0.0.7"], &["10.0.0.7"]),
            (&["sonet"], &["SDH"]),
        ],
    );
}

#[test]
fn wireshark_shows_our_formats_by_our_script() {
    assert_shown(
        true,
        &[
            (&["cbn", "--hex", "123405a9"], &["[CRC-12 correct: True]"]),
            (&["cbn", "--break", "crc"], &["[CRC-12 correct: False]"]),
            (
                &["atm", "--break", "hec"],
                &["[HEC correct: False]", "would correct: 39"],
            ),
            (
                &["aal34", "--hex", "0001000000010000"],
                &["[CRC-10 correct: True]"],
            ),
            (
                &["aal34", "--st", "eom", "--break", "crc10"],
                &["[CRC-10 correct: False]"],
            ),
            (&["msdl", "--hex", "0102"], &["Valid bytes: 2"]),
            (&["msnl"], &["[Checksum correct: True]"]),
            (
                &["jetstream", "--hex", "01"],
                &["[AAL5 CRC-32 correct: True]"],
            ),
            (
                &["jetstream", "--hex", "01", "--break", "crc32"],
                &["[AAL5 CRC-32 correct: False]"],
            ),
        ],
    );
}
