//! Misuse from C, with and without valgrind; and the examples under valgrind.

mod common;

use std::process::Command;

use common::{compiled, has, run_under_valgrind, run_well};

#[test]
fn every_misuse_is_an_error() {
    let said = run_well(&Command::new(compiled("tests/hostile.c")));
    assert!(said.contains("misuses were errors"), "{said}");
}

/// What the wrapper does with handles that were moved, closed and taken.
#[test]
fn misuse_in_cpp_is_an_error() {
    let said = run_well(&Command::new(compiled("tests/moved.cpp")));
    assert!(said.contains("empty objects are errors"), "{said}");
}

/// Many threads open and close at the same time, and forked children do too.
#[test]
fn handles_are_opened_and_closed_everywhere() {
    let said = run_well(&Command::new(compiled("tests/handles.c")));
    assert!(said.contains("and forked 200 times"), "{said}");
}

#[track_caller]
fn is_clean(path: &str) {
    if has("valgrind", path) {
        run_under_valgrind(&compiled(path), &[]);
    }
}

#[test]
fn valgrind_finds_nothing_in_misuse() {
    let program = "tests/hostile.c";
    if has("valgrind", program) {
        // In a forked child the threads of the parent are gone, and what they had counts as lost.
        run_under_valgrind(&compiled(program), &["without-fork"]);
    }
    is_clean("tests/moved.cpp");
}

#[test]
fn valgrind_finds_nothing_in_messages() {
    is_clean("examples/cpp/echo.cpp");
}

#[test]
fn valgrind_finds_nothing_in_events() {
    is_clean("examples/c/own_loop.c");
    is_clean("examples/cpp/own_loop.cpp");
}

#[test]
fn valgrind_finds_nothing_in_streams() {
    is_clean("examples/c/stream_file.c");
    is_clean("examples/cpp/stream_file.cpp");
}

#[test]
fn valgrind_finds_nothing_in_apertures() {
    is_clean("examples/c/remote_counter.c");
    is_clean("examples/cpp/shared_table.cpp");
}

#[test]
fn valgrind_finds_nothing_between_hosts() {
    is_clean("examples/cpp/two_hosts.cpp");
}
