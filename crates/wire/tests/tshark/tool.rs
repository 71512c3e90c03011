//! Running Wireshark's programs on captures of ours, in a folder of their own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The script under test.
const LUA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/wireshark/barewire.lua"
);

/// A test's own folder, which goes when the test passes.
pub struct Tool {
    folder: PathBuf,
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
        let name = format!("tshark-{}-{test}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Some(Self { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What `program` prints; its success is demanded. Neither the settings of the user nor
    /// those of the system are read.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            .env("WIRESHARK_CONFIG_DIR", &self.folder)
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        // A script that does not load is only a warning to tshark.
        assert!(!errors.contains("Lua"), "{program} {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn tshark(&self, file: &[u8], options: &[&str]) -> String {
        fs::write(self.path("file"), file).unwrap();
        let script = format!("lua_script:{LUA}");
        let fixed = ["-n", "-r", "file", "-X", &script];
        self.run("tshark", &[&fixed, options].concat())
    }

    /// The values of `fields` in every packet, several values of one field joined by commas.
    pub fn fields(&self, file: &[u8], options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
        let mut all = vec!["-T", "fields", "-E", "separator=|"];
        fields.iter().for_each(|field| all.extend(["-e", field]));
        all.extend(options);
        let text = self.tshark(file, &all);
        let row = |line: &str| line.split('|').map(String::from).collect();
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

    /// The test is over: the folder may go.
    pub fn done(self) {
        fs::remove_dir_all(self.folder).unwrap();
    }
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
