//! What the tests share: the library, programs compiled against it, and how they are run.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// A program that takes longer hangs, in seconds.
const DEADLINE_S: &str = "120";

/// A path of this package.
pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder of the library, which is built if it is not there or old.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("this test");
        let built = test.ancestors().nth(2).expect("where cargo builds");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "barewire-vipl"]);
        // What cargo tells this test of its package would have build scripts of others run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        if built.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.env(
            "CARGO_TARGET_DIR",
            built.parent().expect("the target folder"),
        );
        assert!(
            cargo.status().expect("cargo").success(),
            "the library builds"
        );
        built.to_owned()
    })
}

/// Compiles a program of `tests/programs` without a warning.
pub fn compiled(name: &str) -> PathBuf {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("vipl-{name}"));
    let output = Command::new("cc")
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-std=gnu11",
            "-g",
            "-O1",
            "-pthread",
        ])
        .arg(source(&format!("tests/programs/{name}.c")))
        .arg("-o")
        .arg(&program)
        .arg("-I")
        .arg(source("include"))
        .arg("-L")
        .arg(folder())
        .arg(format!("-Wl,-rpath,{}", folder().display()))
        .arg("-lvipl")
        .output()
        .expect("cc");
    assert!(output.status.success(), "{name}: {}", said(&output));
    program
}

/// What a program said, on both ways.
pub fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A text that no other run has.
pub fn run_name(of: &str) -> String {
    format!("{of}{:x}", std::process::id())
}

/// Runs a program to its end, which has to be a good one; what it said. It is killed when it hangs.
#[track_caller]
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=5", DEADLINE_S])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("timeout of coreutils");
    assert!(
        output.status.success(),
        "{program:?} {arguments:?}: {}: {}",
        output.status,
        said(&output)
    );
    said(&output)
}
