//! Compares the declarations of `raw.rs` with the header of libfabric that is installed.
//!
//! It writes a C file of assertions, and lets the C compiler judge.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

const HEADERS: &[&str] = &[
    "fabric.h",
    "fi_domain.h",
    "fi_endpoint.h",
    "fi_cm.h",
    "fi_eq.h",
    "fi_tagged.h",
    "fi_rma.h",
    "fi_atomic.h",
    "fi_errno.h",
    "providers/fi_prov.h",
];

/// All of it as a C file.
fn program(layouts: &[Layout]) -> String {
    let mut c = String::from("#include <stddef.h>\n");
    for header in HEADERS {
        writeln!(c, "#include <rdma/{header}>").unwrap();
    }
    for Layout {
        name,
        size,
        members,
    } in layouts
    {
        let (relation, bytes) = match *size {
            Size::Exact(bytes) => ("==", bytes),
            Size::Prefix(bytes) => (">=", bytes),
        };
        let assertion = format!("sizeof(struct {name}) {relation} {bytes}");
        writeln!(c, "_Static_assert({assertion}, \"size of {name}\");").unwrap();
        for (member, offset) in members {
            let member = member.trim_start_matches("r#");
            let assertion = format!("offsetof(struct {name}, {member}) == {offset}");
            writeln!(
                c,
                "_Static_assert({assertion}, \"place of {name}.{member}\");"
            )
            .unwrap();
        }
    }
    for (name, value) in constants() {
        let assertion = format!("(uint64_t)({name}) == {value}ULL");
        writeln!(c, "_Static_assert({assertion}, \"value of {name}\");").unwrap();
    }
    c
}

/// What the compiler says of the assertions; empty if all hold.
fn judge(c: &str) -> String {
    let mut compiler = Command::new("cc")
        .args(["-std=gnu11", "-Werror", "-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler, which Rust needs to link");
    let mut input = compiler.stdin.take().unwrap();
    input.write_all(c.as_bytes()).unwrap();
    drop(input);
    let output = compiler.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

/// Whether the header is there; if not, that goes to the list of skipped tests.
fn has_header(test: &str) -> bool {
    let there = Path::new("/usr/include/rdma/providers/fi_prov.h").exists();
    if !there {
        let line = format!("SKIPPED: {test}: no header of libfabric: install libfabric-dev\n");
        eprint!("{line}");
        if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
            let mut log = std::fs::OpenOptions::new();
            let mut log = log.append(true).create(true).open(path).unwrap();
            log.write_all(line.as_bytes()).unwrap();
        }
    }
    there
}

#[test]
fn declarations_are_those_of_the_header() {
    if has_header("declarations_are_those_of_the_header") {
        let said = judge(&program(&layouts()));
        assert!(said.is_empty(), "{said}");
    }
}

#[test]
fn canary_a_wrong_place_is_found() {
    if has_header("canary_a_wrong_place_is_found") {
        let mut layouts = layouts();
        let attr = layouts.iter_mut().find(|l| l.name == "fi_ops_tagged");
        let send = attr.unwrap().members.iter_mut().find(|m| m.0 == "send");
        send.unwrap().1 += 8;
        let said = judge(&program(&layouts));
        assert!(said.contains("place of fi_ops_tagged.send"), "{said}");
    }
}
