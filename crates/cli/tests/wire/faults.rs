//! Faults that were planted are named by field and bit, and bad input by its place.

use super::{Scratch, barewire, decoded, encoded, faulty, field, numbered, refused, text};

/// What is broken in what, and the fields that must be blamed, no more and no less.
const PLANTED: [(&[&str], &str, &str, &[&str]); 22] = [
    (&["atm"], "atm", "hec", &["HEC"]),
    (&["atm"], "atm", "VCI", &["HEC"]),
    (&["atm", "--nni"], "atm-nni", "7", &["HEC"]),
    (&["oam"], "oam", "CRC-10", &["CRC-10"]),
    (&["aal5", "--hex", "0102"], "aal5", "crc32", &["crc32"]),
    (&["aal5", "--hex", "0102"], "aal5", "payload", &["crc32"]),
    (
        &["aal5", "--hex", "0102", "--length", "99"],
        "aal5",
        "",
        &["length"],
    ),
    (
        &["aal5", "--hex", "0102", "--cpi", "1"],
        "aal5",
        "",
        &["cpi"],
    ),
    (
        &["aal34", "--hex", "0102030405060708"],
        "aal34",
        "crc10",
        &["crc10"],
    ),
    (
        &["aal34", "--hex", "0102030405060708"],
        "aal34",
        "mid",
        &["crc10"],
    ),
    (
        &["aal34", "--hex", "0102030405060708", "--li", "45"],
        "aal34",
        "",
        &["li"],
    ),
    (
        &["aal34-cpcs", "--hex", "0102"],
        "aal34-cpcs",
        "etag",
        &["etag"],
    ),
    (
        &["aal34-cpcs", "--hex", "0102"],
        "aal34-cpcs",
        "al",
        &["al"],
    ),
    (
        &["aal34-cpcs", "--hex", "0102", "--basize", "1"],
        "aal34-cpcs",
        "",
        &["basize"],
    ),
    (&["cbn"], "cbn", "crc", &["crc"]),
    (&["cbn"], "cbn", "slot 3", &["crc"]),
    (&["cbn"], "cbn", "header", &["header"]),
    (&["jetstream", "--hex", "01"], "jetstream", "SRC_RID", &[]),
    (&["jetstream", "--hex", "01"], "jetstream", "HEC", &["HEC"]),
    (
        &["jetstream", "--token"],
        "jetstream",
        "complement",
        &["complement"],
    ),
    (&["msnl"], "msnl", "checksum", &["checksum"]),
    (
        &[
            "ip-checksum",
            "--hex",
            "4500003044224000800600008c7c19acae241e2b",
        ],
        "ip-checksum",
        "checksum",
        &["checksum"],
    ),
];

#[test]
fn a_planted_fault_is_named_by_its_field() {
    for (arguments, kind, at, blamed) in PLANTED {
        let breaks: &[&str] = if at.is_empty() { &[] } else { &["--break", at] };
        let (is_sound, tree) = decoded(kind, &encoded(&[arguments, breaks].concat()));
        assert_eq!(faulty(&tree), blamed, "{arguments:?} {at}\n{tree:#}");
        assert_eq!(is_sound, blamed.is_empty());
    }
}

#[test]
fn a_fault_has_its_bits() {
    let (_, tree) = decoded(
        "aal5",
        &encoded(&["aal5", "--hex", "0102", "--break", "crc32"]),
    );
    let fault = &field(&tree, "crc32")["faults"][0];
    assert_eq!(
        (&fault["first_bit"], &fault["bits"]),
        (&(44 * 8).into(), &32.into())
    );
    let reason = fault["reason"].as_str().unwrap();
    assert!(reason.starts_with("check code 0x"), "{reason}");
    let cell = encoded(&["atm", "--break", "17"]);
    let output = barewire(&["decode", cell.trim(), "--as", "atm"]);
    let shown = text(&output.stdout);
    let accused = shown.lines().find(|line| line.contains("accuses")).unwrap();
    assert!(accused.trim_start().starts_with("17 "), "{shown}");
    let wrong: Vec<&str> = shown.lines().filter(|line| line.starts_with('!')).collect();
    assert!(
        wrong[0].contains("32-39") && wrong[1].contains("HEC at byte 4"),
        "{shown}"
    );
    assert!(shown.ends_with("1 thing wrong\n"));
}

#[test]
fn the_second_of_several_units_can_be_broken() {
    let cells = encoded(&[
        "aal5",
        "--cells",
        "--hex",
        &numbered(100),
        "--break",
        "2:hec",
    ]);
    let (_, tree) = decoded("atm", &cells);
    assert_eq!(faulty(&tree), ["HEC"]);
    let fault = super::nodes(&tree)
        .into_iter()
        .find(|node| !node["faults"].is_null())
        .unwrap();
    assert_eq!(fault["first_bit"], (53 + 4) * 8);
}

#[test]
fn too_short_and_too_long_input_is_reported() {
    for kind in [
        "atm",
        "oam",
        "aal5",
        "aal34",
        "aal34-cpcs",
        "cbn",
        "cbn-cell",
        "msdl",
        "msnl",
        "jetstream",
        "sonet",
        "llc",
        "atmarp",
        "line",
        "cfr",
        "mux-ip",
        "mux-eth",
        "mux-eth-fcs",
    ] {
        for hex in ["", "01", "0102030405"] {
            let (is_sound, tree) = decoded(kind, hex);
            assert!(!is_sound, "{kind} of {hex:?}: {tree:#}");
        }
    }
    for kind in ["atm", "oam", "aal5", "cbn", "cbn-cell", "msnl", "sonet"] {
        let longer = format!("{}00", encoded(&[kind]).trim());
        assert!(!decoded(kind, &longer).0, "{kind}");
    }
}

/// The rate is told by all framing bytes, not by one that may be the broken one.
#[test]
fn a_broken_framing_byte_is_the_only_thing_wrong_with_a_frame() {
    for rate in [&["sonet", "--sts12c"][..], &["sonet"]] {
        for bit in ["0", "24", "47"] {
            let broken = ["--frames", "1", "--break", bit];
            let (_, tree) = decoded("sonet", &encoded(&[rate, &broken].concat()));
            assert_eq!(faulty(&tree).len(), 1, "{rate:?} {bit} {tree:#}");
        }
    }
}

#[test]
fn hex_with_a_comment_in_any_language_is_hex() {
    let hex = Scratch::with("comment", "45 # café\n01".as_bytes());
    let shown = text(&barewire(&["decode", hex.path(), "--as", "ip-checksum"]).stdout);
    assert!(shown.contains("0x4501"), "{shown}");
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let message = refused(&["decode", "0a bg", "--as", "atm"]);
    assert!(
        message.contains("neither a file nor hex")
            && message.contains("'g' at character 4 (byte 1)"),
        "{message}"
    );
    assert!(refused(&["decode", "0a0", "--as", "atm"]).contains("character 2 (byte 1)"));
    assert!(refused(&["decode", "0a0b"]).contains("--as KIND"));
    let prose = Scratch::with("prose", b"00 01\n02 0z\n");
    let message = refused(&["decode", prose.path(), "--as", "atm"]);
    assert!(
        message.contains("'z' at character 10 (byte 3)") && message.contains("--raw"),
        "{message}"
    );
    assert!(refused(&["check", prose.path()]).contains("not a pcap or pcapng file"));
    assert!(refused(&["check", "/nowhere/at/all"]).contains("/nowhere/at/all: "));
    let message = refused(&["encode", "atm", "--hex", &numbered(49)]);
    assert!(
        message.contains("49 bytes") && message.contains("48"),
        "{message}"
    );
    let message = refused(&["encode", "aal5", "--break", "nothing"]);
    assert!(
        message.contains("no field `nothing`") && message.contains("crc32"),
        "{message}"
    );
    assert!(refused(&["encode", "aal5", "--break", "2:crc32"]).contains("there are 1 units"));
    assert!(refused(&["encode", "atm", "--break", "424"]).contains("bits 0 to 423"));
    assert!(refused(&["encode", "atm", "--vc", "256/1"]).contains("VPI 256"));
    assert!(refused(&["encode", "sonet", "--hex", "00"]).contains("53 bytes each"));
    assert!(refused(&["encode", "jetstream", "--bare", "--hex", "00"]).contains("words of 4"));
    let message = refused(&["encode", "aal34", "--st", "bom", "--hex", "01"]);
    assert!(
        message.contains("li") && message.contains("44"),
        "{message}"
    );
    let capture = Scratch::new("nni");
    let message = refused(&["encode", "atm", "--nni", "--pcapng", capture.path()]);
    assert!(message.contains("no link type"), "{message}");
    let message = refused(&["decode", "45", "--as", "llc", "--packet", "1"]);
    assert!(message.contains("not a pcap or pcapng file"), "{message}");
    for ignored in [["--token", "--vc", "1/2"], ["--ring-up=3", "--src", "5"]] {
        let output = barewire(&[&["encode", "jetstream"], &ignored[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{ignored:?}");
    }
    for wrong in [
        ["atm", "--vc", "1"],
        ["atm", "--pt", "8"],
        ["cbn", "--full", "10102"],
        ["atm", "--hex", "0"],
        ["atmarp", "--sender-atm", "e164:12ab"],
    ] {
        let output = barewire(&[&["encode"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_message_has_no_options_of_another() {
    for (say, option) in [
        ("reject", "--vci"),
        ("close", "--channel"),
        ("accept", "--service"),
        ("connect", "--reason"),
        ("probe", "--reason"),
    ] {
        let message = refused(&["encode", "msnl", "--say", say, option, "1"]);
        assert!(
            message.contains(option) && message.contains(say),
            "{message}"
        );
    }
    for (say, option) in [
        ("connect", "--vci=0x50"),
        ("connect", "--service=2"),
        ("accept", "--channel=2"),
        ("reject", "--reason=2"),
    ] {
        let hex = encoded(&["msnl", "--say", say, option]);
        assert!(decoded("msnl", &hex).0, "{say} {option}");
    }
}

/// 1 is for what is wrong with the bytes, 2 for what kept us from looking at them.
#[test]
fn the_exit_status_distinguishes_faulty_from_unreadable_bytes() {
    let code = |arguments: &[&str]| barewire(arguments).status.code();
    let cell = encoded(&["atm"]);
    let broken = encoded(&["atm", "--break", "hec"]);
    assert_eq!(code(&["decode", cell.trim(), "--as", "atm"]), Some(0));
    assert_eq!(code(&["decode", broken.trim(), "--as", "atm"]), Some(1));
    let directory = std::env::temp_dir();
    let directory = directory.to_str().unwrap();
    for unreadable in [
        &["decode", directory, "--as", "atm"][..],
        &["decode", "/nowhere/at/all", "--as", "atm"],
        &["check", directory],
        &["encode", "atm", "--hex", "@/nowhere/at/all"],
        &["encode", "atm", "--pcapng", "/nowhere/at/all"],
    ] {
        assert_eq!(code(unreadable), Some(2), "{unreadable:?}");
    }
    for command in ["decode", "encode", "check"] {
        let help = text(&barewire(&[command, "--help"]).stdout);
        assert!(help.contains("exit status") && help.contains('2'), "{help}");
    }
}
