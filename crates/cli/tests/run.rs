//! `barewire run`, `barewire ls --sockets` and `barewire doctor` as a user meets them.

mod common;
#[path = "run/rights.rs"]
mod rights;
#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use common::{barewire, library};
use serde_json::Value;

const BAREWIRE: &str = env!("CARGO_BIN_EXE_barewire");

fn run(arguments: &[&str]) -> Output {
    barewire(&[&["run"], arguments].concat())
        .output()
        .expect("barewire starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("barewire-run-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    /// Compiles, if there is such a compiler that can.
    fn built(&self, compiler: &[&str], source: &str, code: &str) -> Option<String> {
        let source = self.file(source, code, 0o644);
        let program = self.path("program");
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-o", &program, &source]);
        command
            .env("HOME", &self.0)
            .env("GO111MODULE", "off")
            .env("GOFLAGS", "");
        let why_not = why_not_built(&mut command);
        if let Some(why) = &why_not {
            skip(why);
        }
        why_not.is_none().then_some(program)
    }
}

/// Why a compiler built nothing, in words for the list of what was skipped.
fn why_not_built(compiler: &mut Command) -> Option<String> {
    let name = compiler.get_program().to_string_lossy().into_owned();
    match compiler.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("no {name} compiler is installed"))
        }
        Err(error) => Some(format!("the {name} compiler cannot be started: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = text(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            let said = last.unwrap_or("it does not say why");
            Some(format!("{name} compiles nothing here: {said}"))
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn skip(reason: &str) {
    let name = std::thread::current().name().unwrap_or("run").to_owned();
    let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") else {
        return eprintln!("SKIPPED: {name}: {reason}");
    };
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(log)
        .unwrap();
    writeln!(file, "SKIPPED: {name}: {reason}").unwrap();
}

#[test]
fn a_compiler_that_builds_nothing_is_named_with_the_reason() {
    let why = |words: &[&str]| why_not_built(Command::new(words[0]).args(&words[1..]));
    let none = why(&["barewire-no-such-compiler"]).unwrap();
    assert_eq!(none, "no barewire-no-such-compiler compiler is installed");
    let broken = why(&["sh", "-c", "echo no linker >&2; exit 1"]).unwrap();
    assert_eq!(broken, "sh compiles nothing here: no linker");
    assert_eq!(why(&["true"]), None);
}

#[test]
fn the_status_is_the_programs() {
    assert_eq!(run(&["true"]).status.code(), Some(0));
    let output = run(&["--", "sh", "-c", "echo out; echo err >&2; exit 42"]);
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("out\n".into(), "err\n".into())
    );
    let killed = run(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
}

#[test]
fn it_is_the_process_that_was_started() {
    let child = barewire(&["run", "sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout).trim(), pid.to_string());
}

#[test]
fn exit_statuses_are_those_of_a_shell() {
    let folder = Folder::new("missing");
    let plain = folder.file("plain", "text", 0o644);
    let nowhere = folder.path("nowhere");
    let lost = folder.file("lost", "#!/nonexistent/interpreter\n", 0o755);
    for (program, code, words) in [
        (nowhere.as_str(), 127, "no such program"),
        ("barewire-no-such-program", 127, "no such program"),
        (plain.as_str(), 126, "cannot be executed"),
        (folder.0.to_str().unwrap(), 126, "it is a directory"),
        (lost.as_str(), 126, "cannot be executed"),
    ] {
        let output = run(&[program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        let said = text(&output.stderr);
        assert!(said.contains(words) && said.contains(program), "{said}");
    }
    assert_eq!(run(&[]).status.code(), Some(2));
}

#[test]
fn a_script_without_an_interpreter_is_for_the_shell() {
    let folder = Folder::new("shell");
    let script = folder.file("script", "echo \"$0 $1\"; exit 9\n", 0o755);
    let output = run(&[&script, "-x"]);
    assert_eq!(output.status.code(), Some(9));
    assert_eq!(text(&output.stdout), format!("{script} -x\n"));
}

#[test]
fn static_programs_run_and_are_reported() {
    let folder = Folder::new("static");
    let code = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 7; }\n";
    let Some(program) = folder.built(&["cc", "-static"], "p.c", code) else {
        return;
    };
    let told = |output: &Output, words: &[&str]| {
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(7), "hello\n".into())
        );
        let said = text(&output.stderr);
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    told(
        &run(&[&program]),
        &["is not accelerated", "statically linked"],
    );
    let script = folder.file("script", &format!("#!{program}\n"), 0o755);
    told(
        &run(&[&script]),
        &["it is a script for", "statically linked"],
    );
    let quiet = run(&["--quiet", &program]);
    assert_eq!(
        (quiet.status.code(), text(&quiet.stderr)),
        (Some(7), String::new())
    );
}

#[test]
fn go_programs_run_and_are_reported() {
    let folder = Folder::new("go");
    let code = "package main\n\nfunc main() { println(\"hello\") }\n";
    let Some(program) = folder.built(&["go", "build"], "p.go", code) else {
        return;
    };
    let output = run(&[&program]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(
        said.contains("it is a Go program") && said.ends_with("hello\n"),
        "{said}"
    );
}

#[test]
fn privileged_and_foreign_programs_are_reported() {
    let folder = Folder::new("privileged");
    let own = std::fs::read("/bin/true").unwrap();
    let program = folder.path("program");
    // Whose the file is, is for root only to change.
    std::fs::write(&program, &own).unwrap();
    if std::os::unix::fs::chown(&program, Some(1), Some(1)).is_ok() {
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        let output = run(&[&program]);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output.stderr).contains("set-user-id bit"),
            "{}",
            text(&output.stderr)
        );
    } else {
        skip("only root can try a set-user-id program");
    }
    let mut foreign = own;
    foreign[18] ^= 0x80;
    let program = folder.path("foreign");
    std::fs::write(&program, &foreign).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(text(&run(&[&program]).stderr).contains("is not accelerated: it is for"));
}

#[test]
fn signals_and_descriptors_are_those_of_the_caller() {
    let shell = |arguments: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-c", arguments])
            .env("B", BAREWIRE)
            .env("BAREWIRE_SOCKETS_LIB", library());
        let output = sh.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for before in ["", "trap '' PIPE; ", "trap '' PIPE HUP; "] {
        let question = "grep -E 'Sig(Ign|Blk)' /proc/self/status";
        let with = shell(&format!("{before} \"$B\" run {question}"));
        assert_eq!(with, shell(&format!("{before} {question}")), "{before}");
    }
    let open = "sh -c 'for fd in 0 1 2; do test -e /proc/self/fd/$fd && echo $fd; done; true'";
    assert_eq!(shell(&format!("\"$B\" run {open} <&- 2>&-")), "1\n");
}

#[test]
fn earlier_preloads_are_kept() {
    let mut command = barewire(&["run", "sh", "-c", "echo $LD_PRELOAD"]);
    let output = command.env("LD_PRELOAD", library()).output().unwrap();
    assert_eq!(text(&output.stdout).trim(), library().to_str().unwrap());
    let missing = barewire(&["run", "true"])
        .env("BAREWIRE_SOCKETS_LIB", "/nonexistent.so")
        .output();
    let missing = missing.unwrap();
    assert_eq!(missing.status.code(), Some(125));
    assert!(text(&missing.stderr).contains("looked at: /nonexistent.so"));
}

#[test]
fn settings_reach_the_program_or_are_refused_where_they_are_wrong() {
    let folder = Folder::new("settings");
    let file = folder.file(
        "s.toml",
        "spin_us = 3\n[program.sh]\ncalls_before = 5\n",
        0o644,
    );
    let echo = "echo $BAREWIRE_SETTINGS $BAREWIRE_SPIN_US $BAREWIRE_PROFILE";
    let output = run(&[
        "--config",
        &file,
        "--profile",
        "quiet",
        "--set",
        "spin_us=9",
        "sh",
        "-c",
        echo,
    ]);
    let settings = "spin_us=3;calls_before=5;[sh];calls_before=5; 9 quiet\n";
    assert_eq!(text(&output.stdout), settings, "{}", text(&output.stderr));
    let bad = folder.file(
        "bad.toml",
        "spin_us = 3\n\n[program.sh]\nspeed = 5\n",
        0o644,
    );
    for (arguments, words) in [
        (
            vec!["--config", &bad],
            format!("{bad}:4: no setting `speed`"),
        ),
        (
            vec!["--config", "/nonexistent"],
            "/nonexistent: No such file".to_owned(),
        ),
        (
            vec!["--set", "spin_us=long"],
            "--set: `spin_us` must be a number".to_owned(),
        ),
        (
            vec!["--profile", "fast"],
            "--profile: `profile` must be one of".to_owned(),
        ),
    ] {
        let output = run(&[&arguments[..], &["true"]].concat());
        assert_eq!(output.status.code(), Some(125));
        assert!(
            text(&output.stderr).contains(&words),
            "{}",
            text(&output.stderr)
        );
    }
    let variable = barewire(&["run", "true"])
        .env("BAREWIRE_SPIN_US", "-")
        .output()
        .unwrap();
    assert!(text(&variable.stderr).contains("BAREWIRE_SPIN_US: `spin_us` must be"));
}

#[test]
fn the_help_fits_a_screen() {
    let [short, long] = ["-h", "--help"].map(|it| text(&run(&[it]).stdout));
    // 24 lines of 80 characters, of which the next prompt needs one.
    assert!(short.lines().count() <= 23, "{short}");
    let lines = || short.lines().chain(long.lines());
    assert!(lines().all(|line| line.len() <= 80), "{short}{long}");
    assert!(
        long.contains("spin_us") && long.contains("Exit status:"),
        "{long}"
    );
}

#[test]
fn wrong_options_are_reported_before_anything_runs() {
    let folder = Folder::new("options");
    let mistyped = run(&["--sett", "off=1", "true"]);
    assert_eq!(mistyped.status.code(), Some(2));
    assert!(text(&mistyped.stderr).contains("'--set'"));
    let options = run(&["echo", "--set", "-q", "--", "-x"]);
    assert_eq!(text(&options.stdout), "--set -q -- -x\n");
    let nowhere = format!("--why={}", folder.path("no/such/folder"));
    let nobody_reads = format!("--why={}", folder.0.display());
    let [file, link, second] = ["lines", "link", "second"].map(|name| folder.path(name));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::fs::hard_link(&file, &second).unwrap();
    for (why, words) in [
        (nowhere, "No such file"),
        (nobody_reads, "not a file"),
        (format!("--why={link}"), "symbolic link"),
        (format!("--why={second}"), "another name"),
    ] {
        let output = run(&[&why, "true"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(text(&output.stderr).contains(words), "{output:?}");
    }
    let none = folder.file("library.so", "text", 0o644);
    let output = barewire(&["run", "true"])
        .env("BAREWIRE_SOCKETS_LIB", &none)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("it is no library"));
    // The folder of settings is another's, or none at all.
    let elsewhere = barewire(&["run", "true"])
        .env("XDG_CONFIG_HOME", &none)
        .output()
        .unwrap();
    assert_eq!(elsewhere.status.code(), Some(0), "{elsewhere:?}");
}

const SERVER: &str = "
import socket, threading
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
def serve(connection):
    while data := connection.recv(64):
        connection.sendall(data)
    connection.close()
while True:
    threading.Thread(target=serve, args=listener.accept()[:1]).start()
";
const CLIENT: &str = "
import socket, sys
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for round in range(int(sys.argv[2])):
    connection.sendall(b'x' * 64)
    left = 64
    while left:
        left -= len(connection.recv(left))
print('done', flush=True)
sys.stdin.read()
connection.close()
";

/// Rounds after which the ends have found each other, on a busy machine too.
const MANY: &str = "5000";

/// A program that says something, and ends when its input does.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    said: String,
}

impl Running {
    fn start(mut command: Command) -> Running {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        Running {
            child,
            input,
            said: said.trim().to_owned(),
        }
    }

    fn server(options: &[&str]) -> Running {
        Running::start(barewire(
            &[&["run"], options, &["python3", "-c", SERVER]].concat(),
        ))
    }

    fn client(&self, is_preloaded: bool, options: &[&str], rounds: &str) -> Running {
        let arguments = ["python3", "-c", CLIENT, &self.said, rounds];
        let client = Running::start(if is_preloaded {
            barewire(&[&["run"], options, &arguments].concat())
        } else {
            let mut command = Command::new(arguments[0]);
            command.args(&arguments[1..]);
            command
        });
        assert_eq!(client.said, "done");
        client
    }

    /// Lets it end by itself; what it wrote as an error.
    fn finish(mut self) -> String {
        drop(self.input.take());
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The connections of a process, as `ls` sees them.
fn connections(pid: u32) -> Vec<Value> {
    let output = barewire(&["ls", "--json", &pid.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let processes: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sockets = processes[0]["sockets"].as_array().unwrap().iter();
    sockets
        .filter(|socket| !socket["remote"].is_null())
        .cloned()
        .collect()
}

/// Waits for a moment at which they are so.
fn when(pid: u32, so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    wait::until(Duration::from_secs(10), || {
        let found = connections(pid);
        match so(&found) {
            true => Ok(found),
            false => Err(format!("{found:#?}")),
        }
    })
}

#[test]
fn sockets_are_listed_with_their_path_and_reason() {
    let server = Running::server(&[]);
    let fast = server.client(true, &["--profile", "latency"], MANY);
    let few = server.client(true, &[], "1");
    let stranger = server.client(false, &[], "500");
    let (pid, peer) = (server.child.id(), fast.child.id());
    let found = when(pid, |found| found.len() == 3);
    let of = |client: &Running| {
        let wanted = Value::from(client.child.id());
        found
            .iter()
            .find(|socket| socket["peer_pid"] == wanted)
            .expect("a socket of it")
    };
    let ours = of(&fast);
    assert_eq!(
        (&ours["state"], &ours["why"]),
        (&"accelerated".into(), &"".into())
    );
    // Which way the last bytes went depends on whether their receiver slept.
    for lane in ours["lanes"].as_array().unwrap() {
        assert!(["ring", "kernel"].map(Value::from).contains(lane), "{lane}");
    }
    let carried = [0, 1].map(|way| ours["ring_bytes"][way].as_u64().unwrap());
    for bytes in carried {
        assert!(
            (1..=5000 * 64).contains(&bytes) && bytes % 64 == 0,
            "{bytes}"
        );
    }
    let other = when(peer, |found| found.len() == 1).remove(0);
    assert_eq!(
        (&other["peer_pid"], &other["local"]),
        (&pid.into(), &ours["remote"])
    );
    let crossed = serde_json::json!([carried[1], carried[0]]);
    assert_eq!(other["ring_bytes"], crossed);
    assert_eq!(
        (&of(&few)["state"], &of(&few)["why"]),
        (&"candidate".into(), &"too little traffic so far".into())
    );
    assert_eq!(of(&stranger)["why"], "the other end runs without barewire");
    let table = text(&barewire(&["ls"]).output().unwrap().stdout);
    assert!(
        table.contains("accelerated") && table.contains(&pid.to_string()),
        "{table}"
    );
    let settings = barewire(&["ls", "--json", &peer.to_string()])
        .output()
        .unwrap();
    let settings: Value = serde_json::from_slice(&settings.stdout).unwrap();
    assert_eq!(settings[0]["settings"]["spin_ns"], 1_000_000);
    let not = barewire(&["ls", &std::process::id().to_string()])
        .output()
        .unwrap();
    assert!(!not.status.success() && text(&not.stderr).contains("has no preload library"));
    let gone = barewire(&["ls", &i32::MAX.to_string()]).output().unwrap();
    assert!(!gone.status.success() && text(&gone.stderr).contains("there is no process"));
    let table = text(
        &barewire(&["ls", &peer.to_string()])
            .output()
            .unwrap()
            .stdout,
    );
    assert!(table.ends_with("(spin_us = 1000, calls_before = 4, bytes_before = 16384)\n"));
}

#[test]
fn connections_are_reported_at_their_end() {
    let folder = Folder::new("why");
    let server = Running::server(&[]);
    let client = |rounds| server.client(true, &["--why"], rounds).finish();
    let said = client(MANY);
    assert!(
        said.contains(": accelerated, ring ")
            && said.contains(&format!("127.0.0.1:{}", server.said)),
        "{said}"
    );
    // All but the first calls went through the rings, each way.
    assert!(
        !said.contains("ring 0 B") && !said.contains(", 0 B in"),
        "{said}"
    );
    assert!(client("1").contains("kernel, over before it was worth more: 2 calls, 128 B"));
    let pattern = folder.path("%p.txt");
    let client = server.client(true, &[&format!("--why={pattern}"), "--set", "off=0"], MANY);
    let file = folder.path(&format!("{}.txt", client.child.id()));
    assert_eq!(client.finish(), "");
    let said = std::fs::read_to_string(file).unwrap();
    assert!(said.contains("accelerated"), "{said}");
    let off = server.client(true, &["--set", "off=1"], "500");
    let process = text(
        &barewire(&["ls", &off.child.id().to_string()])
            .output()
            .unwrap()
            .stdout,
    );
    assert!(
        process.contains("the library does nothing there"),
        "{process}"
    );
}

/// Hangs up at once; whoever reads slowly finds nobody any more.
const HASTY_SERVER: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
connection = listener.accept()[0]
connection.sendall(b'x' * 100)
connection.close()
listener.accept()
";
/// Reads byte by byte, and has lost its environment.
const LATE_CLIENT: &str = "
import os, socket, sys, time
os.environ.clear()
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
time.sleep(0.2)
while connection.recv(1):
    pass
connection.close()
";

#[test]
fn an_end_that_has_hung_up_is_not_blamed() {
    let server = Running::start(barewire(&["run", "python3", "-c", HASTY_SERVER]));
    let client = run(&["--why", "python3", "-c", LATE_CLIENT, &server.said]);
    let said = text(&client.stderr);
    assert!(
        said.ends_with(": kernel, over before the other end was found\n"),
        "{said}"
    );
}

#[test]
fn the_doctor_accepts_this_machine() {
    let output = barewire(&["doctor", "--json"]).output().unwrap();
    let checks: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = checks.as_array().unwrap();
    assert!(checks.len() >= 15);
    let bad = checks.iter().any(|check| check["grade"] == "bad");
    assert_eq!(output.status.code(), Some(i32::from(bad)), "{checks:#?}");
    let trial = checks
        .iter()
        .find(|check| check["name"] == "trial")
        .unwrap();
    assert!(
        trial["found"]
            .as_str()
            .unwrap()
            .starts_with("accelerated: 64 bytes"),
        "{checks:#?}"
    );
    for check in checks {
        assert!(
            check["grade"] == "good" || check["change"].is_string(),
            "{check}"
        );
    }
}

#[test]
fn the_doctor_reports_problems() {
    let limited = |limit: &str| {
        let command = format!("ulimit {limit}; exec \"$B\" doctor");
        let mut sh = Command::new("sh");
        sh.args(["-c", &command])
            .env("B", BAREWIRE)
            .env("BAREWIRE_SOCKETS_LIB", library());
        let output = sh.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stdout)
    };
    let said = limited("-f 0");
    assert!(
        said.contains("BAD   file size") && said.contains("change: ulimit -f 1024"),
        "{said}"
    );
    let said = limited("-v 4000000");
    assert!(
        said.contains("BAD   address space") && said.contains("NOT accelerated"),
        "{said}"
    );
    // What the doctor itself needs, and no more.
    let said = limited("-n 5");
    assert!(said.contains("change: see below: ulimit -n"), "{said}");
    let missing = barewire(&["doctor"])
        .env("BAREWIRE_SOCKETS_LIB", "/nonexistent.so")
        .env("BAREWIRE_IO_URING", "refuse")
        .output();
    let missing = missing.unwrap();
    assert_eq!(missing.status.code(), Some(1));
    let said = text(&missing.stdout);
    assert!(said.contains("looked at: /nonexistent.so"), "{said}");
    assert!(
        said.contains("setting refuse: programs get no ring"),
        "{said}"
    );
}

/// Ends whoever makes a system call, and runs a program like that.
const SANDBOX: &str = "
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **arguments) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof code / sizeof *code, code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 99;
    execv(arguments[1], arguments + 1);
    return 98;
}
";

#[test]
fn the_doctor_survives_a_sandbox_that_kills() {
    let folder = Folder::new("sandbox");
    let Some(sandbox) = folder.built(&["cc"], "sandbox.c", SANDBOX) else {
        return;
    };
    let output = Command::new(sandbox)
        .args([BAREWIRE, "doctor"])
        .env("BAREWIRE_SOCKETS_LIB", library())
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("BAD   sealed memory"), "{said}");
    assert!(
        said.contains("whoever tries it is ended: signal: 31"),
        "{said}"
    );
    assert!(said.contains("good  abstract Unix sockets"), "{said}");
}

#[test]
fn nobody_is_a_user_like_others_where_all_are_known() {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if !map.split_ascii_whitespace().eq(["0", "0", "4294967295"]) {
        return skip("this user namespace does not know all users");
    }
    let folder = Folder::new("nobody");
    let command = folder.path("barewire");
    std::fs::copy(BAREWIRE, &command).unwrap();
    std::fs::copy(library(), folder.path("libbarewire_sockets.so")).unwrap();
    let mut doctor = Command::new(&command);
    doctor
        .arg("doctor")
        .current_dir("/")
        .uid(65_534)
        .gid(65_534);
    match doctor.output() {
        Ok(output) => {
            let said = text(&output.stdout);
            // Whether it is faster is not told so well beside other tests.
            assert!(said.contains("trial    "), "{said}");
            assert!(said.contains("accelerated: 64 bytes"), "{said}");
        }
        Err(error) => skip(&format!("this user cannot become another: {error}")),
    }
}
