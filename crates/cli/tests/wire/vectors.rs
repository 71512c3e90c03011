//! Everything that can be encoded decodes without a fault, and so do the vectors of the
//! standards (docs/sources/vectors.md).

use super::{barewire_on, decoded, encoded, field, numbered, sound, text};

/// What `encode` takes, and what it makes.
const KINDS: [(&[&str], &str); 30] = [
    (&["atm"], "atm"),
    (
        &[
            "atm",
            "--vc",
            "255/65535",
            "--pt",
            "7",
            "--clp",
            "--gfc",
            "0xf",
        ],
        "atm",
    ),
    (&["atm", "--vc", "4095/33", "--nni"], "atm-nni"),
    (&["oam"], "oam"),
    (&["oam", "--type", "2", "--function", "0"], "oam"),
    (&["aal5"], "aal5"),
    (&["aal5", "--uu", "0x11", "--vc", "1/33"], "aal5"),
    (&["aal5", "--cells", "--vc", "1/33"], "atm"),
    (&["aal34"], "aal34"),
    (
        &["aal34", "--st", "eom", "--sn", "15", "--mid", "1023"],
        "aal34",
    ),
    (&["aal34-cpcs", "--tag", "0xa5"], "aal34-cpcs"),
    (&["aal34-cpcs", "--basize", "0xffff"], "aal34-cpcs"),
    (
        &["aal34-cpcs", "--cells", "--mid", "3", "--sn", "14"],
        "atm",
    ),
    (&["cbn"], "cbn"),
    (
        &[
            "cbn",
            "--full",
            "1111",
            "--monitor",
            "1010",
            "--response",
            "0001",
        ],
        "cbn",
    ),
    (&["cbn", "--type", "1000", "--qualifier", "0011"], "cbn"),
    (&["cbn-cell", "--vci", "0x1234", "--sar", "7"], "cbn-cell"),
    (&["msdl", "--vci", "0x1234", "--rid", "0x2a"], "msdl"),
    (&["jetstream"], "jetstream"),
    (
        &["jetstream", "--src", "2", "--dst", "3", "--monitor"],
        "jetstream",
    ),
    (&["jetstream", "--bare"], "jetstream"),
    (&["sonet"], "sonet"),
    (&["sonet", "--sts12c", "--frames", "3"], "sonet"),
    (&["llc"], "llc"),
    (&["llc", "--bridged"], "llc"),
    (&["ip-checksum"], "ip-checksum"),
    (&["jetstream", "--token", "--src", "4"], "jetstream"),
    (&["jetstream", "--ring-up", "3"], "jetstream"),
    (&["msnl"], "msnl"),
    (&["atmarp"], "atmarp"),
];

/// Payloads that fit the kind.
fn payloads(arguments: &[&str]) -> Vec<String> {
    let sizes: &[usize] = match arguments {
        ["msnl" | "atmarp", ..] | [_, "--token" | "--ring-up", ..] => &[0],
        [_, "--bare", ..] => &[4, 48, 400],
        ["aal34", ..] => &[8, 44],
        ["cbn", ..] => &[0, 36, 144],
        ["cbn-cell" | "msdl", ..] => &[0, 1, 31, 32],
        ["atm" | "oam", ..] => &[0, 45],
        ["sonet", ..] => &[0],
        ["ip-checksum", ..] => &[0, 2, 40],
        ["llc", ..] => &[20, 60],
        _ => &[1, 40, 41, 1500],
    };
    sizes.iter().map(|&size| numbered(size)).collect()
}

#[test]
fn every_kind_is_encoded_and_decoded() {
    for (arguments, kind) in KINDS {
        for payload in payloads(arguments) {
            let hex = encoded(&[arguments, &["--hex", &payload]].concat());
            for unit in hex.lines().filter(|_| kind != "sonet") {
                let (is_sound, tree) = decoded(kind, unit);
                assert!(is_sound, "{arguments:?} --hex {payload}\n{tree:#}");
            }
            let (is_sound, tree) = decoded(kind, &hex);
            let is_one = hex.lines().count() == 1 || ["atm", "sonet"].contains(&kind);
            assert!(
                is_sound || !is_one,
                "{arguments:?} --hex {payload}\n{tree:#}"
            );
        }
    }
}

#[test]
fn encoded_fields_come_out_again() {
    let (_, tree) = decoded(
        "atm",
        &encoded(&["atm", "--vc", "7/300", "--pt", "1", "--clp"]),
    );
    assert_eq!(field(&tree, "VPI")["value"], 7);
    assert_eq!(field(&tree, "VCI")["value"], 300);
    assert_eq!(field(&tree, "VCI")["first_bit"], 12);
    assert_eq!(field(&tree, "PT")["meaning"], "user, AUU");
    assert_eq!(field(&tree, "CLP")["value"], true);
    let (_, tree) = decoded("msdl", &encoded(&["msdl", "--vci", "5", "--hex", "010203"]));
    assert_eq!(field(&tree, "sequence")["value"], 1);
    assert_eq!(field(&tree, "valid")["value"], 3);
    let cells = encoded(&["msdl", "--hex", &numbered(70)]);
    assert_eq!(cells.lines().count(), 3);
    let (_, tree) = decoded("msdl", cells.lines().next().unwrap());
    assert_eq!(
        (
            &field(&tree, "sequence")["value"],
            &field(&tree, "start")["value"]
        ),
        (&3.into(), &true.into())
    );
    let arp = [
        "atmarp",
        "--sender-ip",
        "10.0.0.1",
        "--sender-atm",
        &numbered(20),
        "--target-ip",
        "10.0.0.2",
    ];
    let (is_sound, tree) = decoded("atmarp", &encoded(&arp));
    assert!(
        is_sound && tree.to_string().contains(&numbered(20)),
        "{tree:#}"
    );
    let (_, tree) = decoded(
        "msnl",
        &encoded(&["msnl", "--say", "close", "--reason", "2"]),
    );
    assert!(tree.to_string().contains("no resources"), "{tree:#}");
}

/// What the standards, and independent programs, say that the bytes are.
#[test]
fn the_vectors_are_what_is_encoded() {
    let (zeros, ones) = ("00".repeat(40), "ff".repeat(40));
    let words: String = (0..8)
        .map(|k| format!("{:08x}", 0x0001_0203_u32 + k * 0x0404_0404))
        .collect();
    let cell = format!("123405a9{words}");
    let empty = "0".repeat(3 * 72);
    let aal5 = [
        (vec!["--hex", &zeros], "00000028864d7f99"),
        (vec!["--hex", &ones], "00000028c55e457a"),
        (vec!["--hex", "41"], "00000001a5b7bf2f"),
        (vec![], "00000000386624c1"),
    ];
    for (arguments, trailer) in aal5 {
        let pdu = encoded(&[&["aal5"], &arguments[..]].concat());
        assert!(pdu.trim_end().ends_with(trailer), "{pdu}");
    }
    let headers: [(&[&str], &str); 5] = [
        (&["--vc", "0/0"], "0000000055"),
        (&["--vc", "0/0", "--clp"], "0000000152"),
        (&["--vc", "1/0x64"], "001006404e"),
        (
            &["--vc", "0x23/0x4567", "--gfc", "1", "--pt", "4"],
            "1234567849",
        ),
        (
            &["--vc", "255/65535", "--gfc", "15", "--pt", "7", "--clp"],
            "ffffffff8b",
        ),
    ];
    for (arguments, header) in headers {
        let cell = encoded(&[&["atm"], arguments].concat());
        assert!(cell.starts_with(header), "{cell}");
    }
    let frame = encoded(&["cbn", "--hex", &cell]);
    assert_eq!(frame, format!("0800{cell}{empty}006e20\n"));
    let ssm = encoded(&[
        "aal34-cpcs",
        "--cells",
        "--mid",
        "1",
        "--hex",
        &numbered(32),
    ]);
    assert!(ssm.trim_end().ends_with("0001002000000000a350"), "{ssm}");
    let header = "4500003044224000800600008c7c19acae241e2b";
    let filled = encoded(&["ip-checksum", "--hex", header]);
    assert_eq!(&filled[20..24], "442e");
}

#[test]
fn the_vectors_decode_without_faults() {
    let bom = format!("8d5500a50028{}b2b8", numbered(40));
    let eom = format!("515500a50028{}12bf", "00".repeat(40));
    let abort = format!("5555{}fdfe", "00".repeat(44));
    for sar in [bom, eom, abort] {
        assert!(decoded("aal34", &sar).0, "{sar}");
    }
    let pdu = format!("{}{}acba602a", numbered(40), "11220028");
    let (is_sound, tree) = decoded("aal5", &pdu);
    assert!(!is_sound, "its CPI is 22");
    assert_eq!(super::faulty(&tree), ["cpi"], "and its CRC-32 right");
    let (_, tree) = decoded("ip-checksum", "0001f203f4f5f6f7");
    assert_eq!(field(&tree, "sum")["value"], 0xddf2);
    assert_eq!(field(&tree, "checksum")["value"], 0x220d);
    let msdl = format!("123401aa{}", "00".repeat(32));
    let (_, tree) = decoded("msdl", &msdl);
    assert_eq!(field(&tree, "RID")["value"], 0x2a);
    assert_eq!(field(&tree, "part")["value"], true);
    let idle = format!("0000000152{}", "6a".repeat(48));
    assert!(decoded("atm", &idle).0);
}

#[test]
fn the_tree_is_in_columns_with_bit_positions() {
    let cell = encoded(&["atm", "--hex", "0102"]);
    let tree = sound(&["decode", cell.trim(), "--as", "atm"]);
    let line = tree.lines().find(|line| line.contains("VCI")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["12-27", "VCI", "42"]);
    let payload = tree.lines().find(|line| line.contains("payload")).unwrap();
    assert!(
        payload.ends_with("01 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ..."),
        "{tree}"
    );
    let whole = sound(&["decode", cell.trim(), "--as", "atm", "--bytes"]);
    assert_eq!(
        whole.matches(" 00 00 00 00 00 00 00 00").count(),
        5,
        "{whole}"
    );
    assert!(!whole.contains("...") && whole.contains("+32"), "{whole}");
}

#[test]
fn bytes_come_in_many_ways() {
    let cell = encoded(&["atm", "--hex", "0102"]);
    let expected = sound(&["decode", cell.trim(), "--as", "atm"]);
    let bytes: Vec<u8> = (0..53)
        .map(|at| u8::from_str_radix(&cell[at * 2..at * 2 + 2], 16).unwrap())
        .collect();
    let raw = super::Scratch::with("raw", &bytes);
    let written = format!("# a cell\n0x{}", cell.replace("00", " 00:"));
    let hex = super::Scratch::with("hex", written.as_bytes());
    for file in [&raw, &hex] {
        assert_eq!(sound(&["decode", file.path(), "--as", "atm"]), expected);
    }
    let piped = barewire_on(&["decode", "-", "--as", "atm"], &bytes);
    assert_eq!(text(&piped.stdout), expected);
    let ascii = super::Scratch::with("ascii", &[b'a'; 53]);
    let raw = ["decode", ascii.path(), "--as", "atm", "--raw"];
    assert_eq!(
        super::barewire(&raw).status.code(),
        Some(1),
        "the HEC is not right"
    );
}

#[test]
fn a_payload_comes_in_many_ways() {
    let payload: Vec<u8> = (0..60_000_u32).map(|at| (at * 7 / 8) as u8).collect();
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let short = encoded(&["aal5", "--hex", &hex[..2000]]);
    let encode = |arguments: &[&str], input: &[u8]| {
        let output = barewire_on(&[&["encode", "aal5"], arguments].concat(), input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let whole = encode(&["--hex", "-"], &payload);
    assert!(whole.starts_with(&hex[..119_000]));
    assert_eq!(encode(&["--hex", "-"], hex.as_bytes()), whole);
    assert_eq!(encode(&["--hex", "-"], &payload[..1000]), short);
    for bytes in [&payload, hex.as_bytes()] {
        let file = super::Scratch::with("payload", bytes);
        let at_file = format!("@{}", file.path());
        assert_eq!(encode(&["--hex", &at_file], &[]), whole);
    }
    // Text is hex, unless it is said to be what it looks like.
    let as_hex = encode(&["--hex", "-"], b"6162");
    assert_eq!(as_hex, encoded(&["aal5", "--hex", "6162"]));
    let as_text = encode(&["--hex", "-", "--raw"], b"6162");
    assert_eq!(as_text, encoded(&["aal5", "--hex", "36313632"]));
    let prose = barewire_on(&["encode", "aal5", "--hex", "-"], b"words");
    assert_eq!(prose.status.code(), Some(2));
    assert!(text(&prose.stderr).contains("--raw"));
    let help = sound(&["encode", "aal5", "--help"]);
    assert!(
        help.contains("@FILE") && help.contains("standard input"),
        "{help}"
    );
}

#[test]
fn a_long_stream_of_cells_goes_into_frames() {
    let cells = encoded(&["aal5", "--cells", "--hex", &numbered(9000)]);
    let output = barewire_on(&["encode", "sonet", "--hex", "-"], cells.as_bytes());
    let frames = text(&output.stdout);
    // 188 cells, 44.15 in a frame.
    assert_eq!(frames.lines().count(), 5, "{}", text(&output.stderr));
    assert!(decoded("sonet", &frames).0);
}

#[test]
fn a_line_shows_the_frames_on_it() {
    let frame = encoded(&["cbn", "--hex", "123405a9"]);
    let twice = frame.repeat(2);
    let line = encoded(&["line", "--hex", &twice, "--before", "3", "--after", "1"]);
    // 2 * (3 + 297) + 1 blocks, filled up to 608, of 5 bits.
    assert_eq!(line.trim().len(), 608 * 5 / 4);
    let (is_sound, tree) = decoded("line", &line);
    assert!(is_sound, "{tree:#}");
    let vcis = super::nodes(&tree)
        .into_iter()
        .filter(|node| node["name"] == "VCI" && node["value"] == 0x1234);
    let places: Vec<u64> = vcis.filter_map(|vci| vci["first_bit"].as_u64()).collect();
    // Behind three gap symbols, syn and the three blocks of flags.
    assert_eq!(places, [35, 35 + 1500]);
    assert_eq!(field(&tree, "gap symbols")["value"], 3);
    let level = encoded(&["line", "--hex", &frame, "--break", "1000"]);
    let (is_sound, tree) = decoded("line", &level);
    assert!(!is_sound, "{tree:#}");
    for wrong in ["", "00"] {
        let message = super::refused(&["encode", "line", "--hex", wrong]);
        assert!(message.contains("149 bytes each"), "{message}");
    }
}

#[test]
fn circuits_for_one_protocol_and_fast_ring_cells_are_shown() {
    let header = "4500003044224000800600008c7c19acae241e2b";
    let filled = encoded(&["ip-checksum", "--hex", header]);
    assert!(decoded("mux-ip", &filled).0);
    let (_, tree) = decoded("mux-ip", header);
    assert_eq!(super::faulty(&tree), ["ip checksum"]);
    assert_eq!(super::faulty(&decoded("mux-ip", "4500").1), ["ip header"]);
    let ethernet = format!("0000{}0800{}", numbered(12), "00".repeat(50));
    assert!(decoded("mux-eth", &ethernet).0);
    let (_, tree) = decoded("mux-eth-fcs", &ethernet);
    assert_eq!(super::faulty(&tree), ["fcs"]);
    let (_, tree) = decoded("mux-eth", &ethernet.replacen("0000", "0001", 1));
    assert_eq!(super::faulty(&tree), ["pad"]);
    let cell = format!("1234{}", numbered(32));
    let (is_sound, tree) = decoded("cfr", &cell);
    assert!(
        is_sound && field(&tree, "address")["value"] == 0x1234,
        "{tree:#}"
    );
    assert!(!decoded("cfr", &cell[2..]).0);
}
