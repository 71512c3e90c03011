//! What the tests share: the library as it is installed, programs compiled against it, and how they are run.

#![allow(dead_code)] // each test uses a part

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Only a program that hangs takes as long.
const SECONDS_MAX: &str = "120";

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where the tests keep what they make.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capi")
}

/// Where the library is installed, as `scripts/install-c.sh` does it.
pub fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let prefix = folder().join("installed");
        let test = std::env::current_exe().expect("this test");
        // target/PROFILE/deps/TEST
        let target = test.ancestors().nth(3).expect("where cargo builds");
        let profile = if cfg!(debug_assertions) {
            "dev"
        } else {
            "release"
        };
        let mut script = Command::new(source("../../scripts/install-c.sh"));
        // What cargo tells this test of its package would have build scripts of others run again.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
                script.env_remove(&name);
            }
        }
        let output = script
            .env("CARGO_TARGET_DIR", target)
            .env("PREFIX", &prefix)
            .env("PROFILE", profile)
            .env_remove("DESTDIR")
            .env_remove("LIBDIR")
            .output()
            .expect("the script starts");
        assert!(output.status.success(), "{}", said(&output));
        prefix
    })
}

/// What a program said, on both ways.
pub fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A program of C or C++, compiled without a warning against the installed library: once for all tests of a file.
pub fn compiled(path: &str) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = programs.get(path) {
        return program.clone();
    }
    let program = compile(path);
    programs.insert(path.to_owned(), program.clone());
    program
}

fn compile(path: &str) -> PathBuf {
    let prefix = installed();
    let source = source(path);
    let (compiler, standard) = match source.extension().and_then(|e| e.to_str()) {
        Some("c") => ("cc", "-std=c11"),
        _ => ("c++", "-std=c++17"),
    };
    let name = path.replace(['/', '.'], "-");
    let program = folder().join(name);
    let output = Command::new(compiler)
        .args([
            "-Wall", "-Wextra", "-Werror", standard, "-g", "-O1", "-pthread",
        ])
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-I")
        .arg(prefix.join("include"))
        .arg("-L")
        .arg(prefix.join("lib"))
        .arg(format!("-Wl,-rpath,{}/lib", prefix.display()))
        .arg("-lbarewire")
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{path}: {}", said(&output));
    program
}

/// Runs a command to its end. It is killed when it hangs.
#[track_caller]
pub fn run(command: &Command) -> Output {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", SECONDS_MAX]);
    limited.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    let output = limited
        .stdin(Stdio::null())
        .output()
        .expect("timeout of coreutils");
    let hangs = matches!(output.status.code(), Some(124 | 137));
    assert!(!hangs, "{command:?} hangs: {}", said(&output));
    output
}

/// Runs a command that must end well and not complain; what it said.
#[track_caller]
pub fn run_well(command: &Command) -> String {
    let output = run(command);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complained.is_empty(),
        "{command:?}: {}: {}",
        output.status,
        said(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a program is there. If not, the test counts as skipped.
pub fn has(program: &str, test: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    skipped(test, &format!("{program} is not installed"));
    false
}

/// Counts a test as skipped.
pub fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let mut log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .expect("the log of skipped tests");
        writeln!(log, "{line}").expect("written");
    }
}

/// Runs a program under valgrind, which must find nothing. One at a time: all of them together take so long that nodes
/// give up waiting for each other.
#[track_caller]
pub fn run_under_valgrind(program: &Path, arguments: &[&str]) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new("valgrind");
    command
        .args([
            "--quiet",
            "--trace-children=yes",
            "--leak-check=full",
            // A thread of the library that still runs holds what glibc has made for it.
            "--errors-for-leak-kinds=definite,indirect",
            "--show-leak-kinds=definite,indirect",
            "--error-exitcode=99",
            // One thread runs at a time; a thread that polls must not keep the others from it.
            "--fair-sched=yes",
        ])
        .arg(program)
        .args(arguments);
    let output = run(&command);
    assert!(output.status.success(), "{program:?}: {}", said(&output));
}
