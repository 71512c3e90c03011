//! Programs in C that use the library as others do, and the header beside the library.

mod common;

use std::fs;
use std::process::Command;

use common::{compiled, folder, run, run_name, said, source};

#[test]
fn two_processes_exchange_messages() {
    let said = run(&compiled("two"), &[&run_name("t")]);
    assert!(said.contains("have exchanged messages"), "{said}");
}

/// What the figures of the page are measured with: every length, polling and blocking.
#[test]
fn round_trips_can_be_measured() {
    let said = run(&compiled("ping"), &[&run_name("p")]);
    assert_eq!(said.lines().count(), 16, "{said}");
}

#[test]
fn transfers_are_as_specified() {
    let said = run(&compiled("transfers"), &[&run_name("x")]);
    assert!(said.ends_with("12 cases\n"), "{said}");
}

#[test]
fn connections_are_as_specified() {
    let said = run(&compiled("connections"), &[&run_name("y")]);
    assert!(said.ends_with("7 cases\n"), "{said}");
}

#[test]
fn objects_are_as_specified() {
    let said = run(&compiled("objects"), &[&run_name("z")]);
    assert!(said.ends_with("6 cases\n"), "{said}");
}

#[test]
fn a_killed_server_is_noticed() {
    let said = run(&compiled("kill"), &[&run_name("k")]);
    assert!(said.contains("killed servers were noticed"), "{said}");
}

/// The functions that the header declares.
fn declared(header: &str) -> Vec<String> {
    let mut names: Vec<String> = header
        .split('(')
        .filter_map(|before| before.rsplit([' ', '*', '\n']).next())
        .filter(|name| name.starts_with("Vip"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Each function of the header is exported, and nothing else is.
#[test]
fn the_library_exports_the_functions_of_the_header() {
    let header = fs::read_to_string(source("include/vipl.h")).expect("the header");
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(folder().join("libvipl.so"))
        .output()
        .expect("nm of binutils");
    assert!(output.status.success(), "{}", said(&output));
    let symbols = said(&output);
    let mut exported: Vec<String> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    exported.sort();
    let declared = declared(&header);
    assert_eq!(declared.len(), 41);
    assert_eq!(exported, declared);
}

/// The layouts that `raw.rs` asserts for Rust hold for C, and the header is one for C++, too.
#[test]
fn the_header_has_the_layouts_of_the_library() {
    for compiler in ["cc", "c++"] {
        let program = source("tests/programs/layout.c");
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
        command.arg(source("include"));
        if compiler == "c++" {
            command.args(["-x", "c++", "-Dstatic_assertion=static_assert"]);
        }
        let output = command.arg(program).output().expect(compiler);
        assert!(output.status.success(), "{compiler}: {}", said(&output));
    }
}
