//! Running Wireshark's programs on captures of ours, in a folder of their own.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::ordinary::{Folder, SCRIPT_ARGUMENTS};

/// A test's own folder, which goes when the test passes.
pub struct Tool {
    folder: Folder,
}

impl Tool {
    /// The tool for the test with this name; `None`, and the test counted as skipped, where
    /// Wireshark's programs are not installed.
    pub fn of(test: &str) -> Option<Self> {
        static INSTALLED: OnceLock<bool> = OnceLock::new();
        let runs = || Command::new("tshark").arg("-v").output().is_ok();
        if !INSTALLED.get_or_init(runs) {
            skipped(test, "tshark is not installed");
            return None;
        }
        Some(Self {
            folder: Folder::new(test),
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        self.folder.write(name, bytes);
    }

    /// What `program` prints; its success is demanded.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.folder.command(program);
        let output = command.args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        // A script that does not load is only a warning to tshark.
        assert!(!errors.contains("Lua"), "{program} {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn tshark(&self, file: &[u8], options: &[&str]) -> String {
        self.write("file", file);
        let [option, script] = SCRIPT_ARGUMENTS;
        let fixed = ["-n", "-r", "file", option, script];
        self.run("tshark", &[&fixed, options].concat())
    }

    /// The values of `fields` in every packet, several values of one field joined by commas.
    /// What is true is `1`, as with Wireshark 4.0; 4.4 prints `True`.
    pub fn fields(&self, file: &[u8], options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
        let mut all = vec!["-T", "fields", "-E", "separator=|"];
        fields.iter().for_each(|field| all.extend(["-e", field]));
        all.extend(options);
        let text = self.tshark(file, &all);
        let row = |line: &str| line.split('|').map(as_numbers).collect();
        text.lines().map(row).collect()
    }

    /// The trees of all packets as text.
    pub fn trees(&self, file: &[u8]) -> Vec<String> {
        let text = self.tshark(file, &["-V"]);
        let mut trees: Vec<String> = Vec::new();
        for line in text.lines() {
            if line.starts_with("Frame ") {
                trees.push(String::new());
            }
            if let Some(tree) = trees.last_mut() {
                tree.push_str(line);
                tree.push('\n');
            }
        }
        trees
    }

    /// The test is over: the folder goes.
    pub fn done(self) {}
}

/// The values of a field, with `1` and `0` for those that are words of truth.
fn as_numbers(values: &str) -> String {
    let number = |value| match value {
        "True" => "1",
        "False" => "0",
        other => other,
    };
    values.split(',').map(number).collect::<Vec<_>>().join(",")
}

/// The line of a tree that begins with `name`, without it.
#[track_caller]
pub fn line<'a>(tree: &'a str, name: &str) -> &'a str {
    let found = tree.lines().find_map(|line| line.trim().strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name:?} in:\n{tree}"))
}

/// Says that a test did not run, where the test script counts it.
fn skipped(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut f| f.write_all(line.as_bytes())).unwrap();
    }
}
