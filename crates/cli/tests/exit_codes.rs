//! Every command ends with the codes that `docs/reference/exit-codes.md` (made of `explain`) says.

#[path = "common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::barewire;

/// With what a command ends, and what it says.
fn end(arguments: &[&str]) -> (Option<i32>, String) {
    let output = barewire(arguments).output().expect("barewire starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

/// The words of every command, from its committed help.
fn commands() -> Vec<Vec<String>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let files = std::fs::read_dir(folder).expect("the help").flatten();
    let words = |file: std::fs::DirEntry| {
        let help = std::fs::read_to_string(file.path()).expect("a page");
        let (_, usage) = help.split_once("Usage: ").expect("its usage");
        let words = usage.lines().next().expect("a line").split(' ').skip(1);
        let is_word = |word: &&str| word.starts_with(|one: char| one.is_ascii_lowercase());
        words.take_while(is_word).map(str::to_owned).collect()
    };
    files.map(words).collect()
}

#[test]
fn every_command_takes_help_and_refuses_what_it_does_not_know() {
    let all = commands();
    assert!(all.len() > 40, "{all:?}");
    for command in all {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        assert_eq!(end(&arguments).0, Some(0), "{arguments:?}");
        *arguments.last_mut().expect("one") = "--no-such-option";
        let (code, said) = end(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains("--no-such-option"), "{arguments:?}: {said}");
    }
}

#[test]
fn failures_and_faulty_arguments_are_told_apart() {
    for (arguments, code) in [
        (&["ls"][..], 0),
        (&["explain", "PeerDied"], 0),
        (&["explain", "Nonsense"], 2),
        (&["ls", "2147483647"], 1),
        (&["stat", "2147483647"], 1),
        (&["dump", "2147483647"], 1),
        (&["set", "2147483647"], 1),
        (&["set", "1", "nonsense"], 2),
        (&["capture", "--pid", "2147483647", "-w", "/dev/null"], 1),
        (&["metrics", "--listen", "0.0.0.0:0"], 2),
        (&["metrics", "--listen", "192.0.2.1:1", "--allow-remote"], 1),
        (&["man", "nonsense"], 2),
        (&["man", "--dir", "/dev/null/x"], 2),
        (&["completions", "nonsense"], 2),
        (&["top", "--once", "--sort", "nonsense"], 2),
        (&["node", "keys", "--dir", "/nonexistent"], 1),
        (&["lab", "show", "nonsense"], 1),
        (&["wire", "decode", "--as", "atm", "/nonexistent"], 2),
        (&["wire", "decode", "--as", "atm", "00"], 1),
        (&["daq", "check", "/nonexistent"], 2),
        (&["daq", "run", "/nonexistent"], 2),
        (&["run", "--set", "nonsense=1", "true"], 125),
        (&["run", "/dev/null"], 126),
        (&["run", "no-such-program-at-all"], 127),
        (&["run", "sh", "-c", "exit 7"], 7),
    ] {
        let (found, said) = end(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {said}");
        assert!(code == 7 || !said.is_empty(), "{arguments:?} says nothing");
    }
}

#[test]
fn who_prints_for_nobody_ends_quietly() {
    for arguments in [
        &["explain"][..],
        &["lab", "list"],
        &["man"],
        &["completions", "bash"],
        &["metrics"],
        &["ls"],
    ] {
        let mut command: Command = barewire(arguments);
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let output = command
            .spawn()
            .and_then(std::process::Child::wait_with_output);
        let output = output.expect("barewire starts");
        assert_eq!(output.status.code(), Some(141), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
