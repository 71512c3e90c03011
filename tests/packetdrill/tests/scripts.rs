//! Runs each script with the packetdrill that `BAREWIRE_PACKETDRILL` names, over IPv4 and IPv6.
//!
//! A script whose name begins with `v4-` or `v6-` is for that version only. `docs/edge.md` says how
//! to build packetdrill; nothing is fetched here.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

/// The variable that names packetdrill.
const VARIABLE: &str = "BAREWIRE_PACKETDRILL";

/// How long a script may take. Its time is virtual: only a broken one comes near.
const LIMIT: Duration = Duration::from_secs(60);

/// By how much the time of a packet may differ: packetdrill itself uses some of the virtual time.
const TOLERANCE_US: u32 = 1000;

/// The versions of IP, with the local address of each. packetdrill knows the others.
const VERSIONS: [(&str, &str, &str); 2] = [
    ("v4", "ipv4", "192.168.0.1"),
    ("v6", "ipv6", "fd3d:fa7b:d17d::1"),
];

/// Says that a test can not run here.
fn skip(reason: &str) {
    let line = format!("SKIPPED: packetdrill scripts: {reason}\n");
    eprint!("{line}");
    if let Some(path) = env::var_os("BAREWIRE_SKIP_LOG") {
        let mut log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("the log opens");
        log.write_all(line.as_bytes())
            .expect("the log takes a line");
    }
}

/// The library under test, which cargo puts beside this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("this test");
    test.with_file_name("libbarewire_packetdrill.so")
}

/// All scripts, by name.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let entries = fs::read_dir(folder).expect("the scripts");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension() == Some(OsStr::new("pkt")))
        .collect();
    paths.sort();
    paths
}

/// Waits for the end of `child`, and gives whether it succeeded and what it has said.
fn wait(mut child: Child) -> (bool, String) {
    let mut pipe = child.stderr.take().expect("its errors");
    let (sender, said) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    });
    // The pipe is closed when it ends.
    let text = said.recv_timeout(LIMIT);
    if text.is_err() {
        child.kill().expect("it can be killed");
    }
    let status = child.wait().expect("it has ended");
    reader.join().expect("the reader");
    let text = text.unwrap_or_else(|_| format!("it took longer than {LIMIT:?}"));
    (status.success(), text)
}

/// Runs a script; gives what is wrong, if anything is.
fn run(packetdrill: &Path, script: &Path, version: &str, local: &str) -> Result<(), String> {
    let child = Command::new(packetdrill)
        .arg(format!("--ip_version={version}"))
        .arg(format!("--local_ip={local}"))
        .arg(format!("--tolerance_usecs={TOLERANCE_US}"))
        .arg("--tolerance_percent=0")
        // Otherwise the values of timestamps are not looked at. What is echoed never is.
        .arg("--tcp_ts_tick_usecs=1000")
        .arg(format!("--so_filename={}", library().display()))
        .arg(format!("--so_flags=local={local}"))
        .arg(script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{VARIABLE} names no program that runs: {error}"));
    let (has_succeeded, said) = wait(child);
    // The library says at the end if it has sent what the script did not expect.
    if has_succeeded && said.is_empty() {
        Ok(())
    } else {
        Err(said)
    }
}

#[test]
fn all_scripts_pass() {
    let Some(packetdrill) = env::var_os(VARIABLE).map(PathBuf::from) else {
        skip(&format!(
            "{VARIABLE} does not name packetdrill; docs/edge.md says how to build it"
        ));
        return;
    };
    let mut waiting = VecDeque::new();
    for script in scripts() {
        let name = script.file_stem().expect("a name").to_string_lossy();
        let only = VERSIONS.iter().find(|of| name.starts_with(of.0));
        for version in VERSIONS {
            if only.is_none_or(|only| *only == version) {
                waiting.push_back((script.clone(), version));
            }
        }
    }
    assert!(waiting.len() >= 60, "only {} scripts", waiting.len());
    let mut failures = Vec::new();
    for (script, (_, version, local)) in waiting {
        let name = script.file_name().expect("a name").to_string_lossy();
        match run(&packetdrill, &script, version, local) {
            Ok(()) => {}
            Err(said) if said.contains("lockall(") => {
                skip("packetdrill may not lock memory here: run as root, or raise `ulimit -l`");
                return;
            }
            Err(said) => failures.push(format!("{name} over {version}: {said}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The runner finds out a script that expects something else, and a packet that none expects.
#[test]
fn a_wrong_script_fails() {
    let Some(packetdrill) = env::var_os(VARIABLE).map(PathBuf::from) else {
        skip(&format!("{VARIABLE} does not name packetdrill"));
        return;
    };
    let begin = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0 > S 0:0(0) <...>
+.01 < S. 0:0(0) ack 1 win 1000 <mss 1000>
+0 > . 1:1(0) ack 1
";
    let samples = [
        (
            "right",
            "+0 write(3, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n",
        ),
        (
            "number",
            "+0 write(3, ..., 10) = 10\n+0 > P. 2:12(10) ack 1\n",
        ),
        (
            "time",
            "+0 write(3, ..., 10) = 10\n+.1 > P. 1:11(10) ack 1\n",
        ),
        (
            "result",
            "+0 write(3, ..., 10) = 11\n+0 > P. 1:11(10) ack 1\n",
        ),
        ("nothing", "+0 > P. 1:11(10) ack 1\n"),
        ("unexpected", "+0 write(3, ..., 10) = 10\n"),
    ];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, end) in samples {
        let script = folder.join(format!("{name}.pkt"));
        fs::write(&script, format!("{begin}{end}")).expect("the script is written");
        let (_, version, local) = VERSIONS[0];
        let result = run(&packetdrill, &script, version, local);
        if result.as_ref().is_err_and(|said| said.contains("lockall(")) {
            skip("packetdrill may not lock memory here");
            return;
        }
        assert_eq!(result.is_ok(), name == "right", "{name}: {result:?}");
    }
}
