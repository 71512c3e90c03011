//! `barewire wire`: what is encoded decodes, planted faults are named, captures are checked,
//! and bad input is told from good with its place.

#[path = "wire/captures.rs"]
mod captures;
#[path = "wire/faults.rs"]
mod faults;
#[path = "../../../lab/formats/tests/tshark/ordinary.rs"]
mod ordinary;
#[path = "wire/vectors.rs"]
mod vectors;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program with these arguments and this on its standard input.
fn barewire_on(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .arg("wire")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("barewire starts");
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("barewire ends")
}

fn barewire(arguments: &[&str]) -> Output {
    barewire_on(arguments, &[])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a command that must find nothing wrong.
#[track_caller]
fn sound(arguments: &[&str]) -> String {
    let output = barewire(arguments);
    let all = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{all}");
    text(&output.stdout)
}

/// The message of a command that cannot do its work.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = barewire(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    text(&output.stderr)
}

/// Encodes: hex, and its kind.
#[track_caller]
fn encoded(arguments: &[&str]) -> String {
    sound(&[&["encode"], arguments].concat())
}

/// Decodes hex: whether nothing was wrong, and the tree.
#[track_caller]
fn decoded(kind: &str, hex: &str) -> (bool, Value) {
    let output = barewire_on(&["decode", "-", "--as", kind, "--json"], hex.as_bytes());
    let tree = serde_json::from_slice(&output.stdout);
    let tree: Value = tree.unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let faults = tree["faults"].as_u64().expect("a count");
    assert_eq!(
        output.status.code(),
        Some(i32::from(faults > 0)),
        "{tree:#}"
    );
    (faults == 0, tree)
}

/// All groups and fields of a tree, in order.
fn nodes(tree: &Value) -> Vec<&Value> {
    let fields = tree["fields"].as_array().into_iter().flatten();
    fields
        .flat_map(|node| [vec![node], nodes(node)].concat())
        .collect()
}

/// The first field of that name.
#[track_caller]
fn field<'a>(tree: &'a Value, name: &str) -> &'a Value {
    let mut found = nodes(tree).into_iter().filter(|node| node["name"] == name);
    found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {tree:#}"))
}

/// The names of the fields that are wrong.
fn faulty(tree: &Value) -> Vec<String> {
    let faults = nodes(tree)
        .into_iter()
        .filter_map(|node| node["faults"].as_array())
        .flatten();
    faults
        .map(|fault| fault["field"].as_str().expect("a name").to_owned())
        .collect()
}

/// A file for one test, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("barewire-wire-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn with(name: &str, bytes: &[u8]) -> Self {
        let scratch = Self::new(name);
        std::fs::write(&scratch.0, bytes).expect("a temporary file");
        scratch
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Hex of `count` bytes 1, 2, 3 ...
fn numbered(count: usize) -> String {
    (0..count)
        .map(|number| format!("{:02x}", (number + 1) as u8))
        .collect()
}
