//! The log of unmodified programs (`BAREWIRE_LOG`): what it tells, where it goes, and that it harms no program.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use common::{barewire, library};

/// Echoes, each connection in a thread, until its input ends.
const SERVER: &str = "
import socket, sys, threading
listener = socket.create_server(('127.0.0.1', 0))
def echo(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
def serve():
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
";

/// What all clients begin with: `talk` makes enough round trips for an upgrade.
const TALK: &str = "
import os, signal, socket, sys
def dial():
    return socket.create_connection(('127.0.0.1', int(sys.argv[1])))
def talk(connection):
    for round in range(5000):
        connection.sendall(b'x' * 64)
        left = 64
        while left:
            left -= len(connection.recv(left))
";

/// A server, which ends with this.
struct Server {
    child: Child,
    _input: ChildStdin,
    port: String,
}

impl Server {
    fn start(mut command: Command) -> Server {
        command.args(["python3", "-c", SERVER]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let input = child.stdin.take().expect("piped");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut port)
            .expect("text");
        Server {
            child,
            _input: input,
            port: port.trim().to_owned(),
        }
    }

    fn preloaded() -> Server {
        Server::start(barewire(&["run"]))
    }

    /// A client with this log, and what it does after [`TALK`].
    fn client(&self, log: Option<&str>, does: &str) -> Command {
        let program = format!("{TALK}{does}");
        let mut client = barewire(&["run", "python3", "-c", &program, &self.port]);
        if let Some(log) = log {
            client.env("BAREWIRE_LOG", log);
        }
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ran(mut command: Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    output
}

/// The lines of a log, without their times.
fn lines(log: &str) -> Vec<String> {
    let without_time = |line: &str| {
        let (time, rest) = line.split_once(' ').expect("a time");
        let (seconds, millis) = time.split_once('.').expect("milliseconds");
        let is_time = seconds.parse::<u64>().is_ok() && millis.len() == 3;
        assert!(is_time, "{line}");
        rest.to_owned()
    };
    log.lines().map(without_time).collect()
}

fn log_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("barewire-cli-log-{}-{name}", std::process::id()))
}

#[test]
fn an_upgrade_and_a_stranger_are_told_and_a_level_leaves_them_out() {
    let server = Server::preloaded();
    let stranger = Server::start(Command::new("env"));
    let file = log_file("upgrade");
    let wanted = format!("info:{}", file.display());
    let does = format!(
        "talk(dial())\nsys.argv[1] = '{}'\ntalk(dial())",
        stranger.port
    );
    let output = ran(server.client(Some(&wanted), &does));
    assert_eq!(text(&output.stderr), "", "all is in the file");
    let told = std::fs::read_to_string(&file).expect("the log");
    std::fs::remove_file(&file).expect("removed");
    let told = lines(&told);
    let of = |port: &str, what: &str| {
        let end = format!("127.0.0.1:{port}: {what}");
        let is_it = |line: &&String| line.starts_with("info barewire[") && line.contains(&end);
        told.iter().filter(is_it).count()
    };
    assert_eq!(of(&server.port, "is upgraded after "), 1, "{told:#?}");
    let why = "stays with the kernel: the other end runs without barewire";
    assert_eq!(of(&stranger.port, why), 1, "{told:#?}");
    for quiet in [Some("warn"), Some("off"), Some(""), None] {
        let output = ran(server.client(quiet, &does));
        assert_eq!(text(&output.stderr), "", "{quiet:?}");
    }
}

#[test]
fn a_connection_that_goes_back_to_the_kernel_is_told() {
    let server = Server::preloaded();
    let does = "
one = dial()
talk(one)
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
one.close()";
    let output = ran(server.client(Some("info"), does));
    let told = lines(&text(&output.stderr));
    let back = ": goes back to the kernel: used in a way that only the kernel serves";
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains(": is upgraded after "), "{told:#?}");
    assert!(told[1].ends_with(back), "{told:#?}");
}

#[test]
fn a_peer_that_was_killed_is_told_as_a_warning() {
    let mut server = Server::preloaded();
    let does = "
one = dial()
talk(one)
print('talked', flush=True)
while one.recv(1):
    pass";
    let mut client = server.client(Some("warn"), does);
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    let mut said = String::new();
    BufReader::new(client.stdout.take().expect("piped"))
        .read_line(&mut said)
        .expect("text");
    server.child.kill().expect("it lives");
    let output = client.wait_with_output().expect("it ends");
    let told = lines(&text(&output.stderr));
    assert_eq!(told.len(), 1, "{told:#?}");
    let is_it = told[0].starts_with("warn barewire[") && told[0].contains("killed, crashed");
    assert!(is_it, "{told:#?}");
}

/// A daemon closes 0 to 2, and its next connection is descriptor 2.
#[test]
fn nothing_goes_into_a_connection_that_has_the_number_of_standard_error() {
    let server = Server::preloaded();
    let sink = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = sink.local_addr().expect("an address").port();
    let does = format!(
        "
for fd in (0, 1, 2):
    os.close(fd)
socks = [socket.create_connection(('127.0.0.1', {port})) for _ in range(3)]
assert [one.fileno() for one in socks] == [0, 1, 2]
CLOSE_ALL
talk(dial())
for one in socks:
    one.sendall(b'own')
"
    );
    let kept = does.replace("CLOSE_ALL", "");
    let closed = does.replace("CLOSE_ALL", "os.closerange(3, 70000)");
    for (does, told_count) in [(kept, 1), (closed, 0)] {
        let mut client = server.client(Some("info"), &does);
        client.stderr(Stdio::piped());
        let client = client.spawn().expect("it starts");
        for _ in 0..3 {
            let mut came = String::new();
            let (mut one, _) = sink.accept().expect("it comes");
            one.read_to_string(&mut came).expect("text");
            assert_eq!(
                came, "own",
                "bytes of the library in the program's connection"
            );
        }
        let output = client.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        let told = lines(&text(&output.stderr));
        let upgrades = told.iter().filter(|line| line.contains(": is upgraded "));
        assert_eq!(upgrades.count(), told_count, "{told:#?}");
    }
}

#[test]
fn it_goes_on_after_fork_and_in_another_program() {
    let server = Server::preloaded();
    let does = format!(
        "
child = os.fork()
if child == 0:
    talk(dial())
    os._exit(0)
os.waitpid(child, 0)
os.close(0)
os.execvp('python3', ['python3', '-c', '''{TALK}
print(os.getpid(), {{child}})
talk(dial())'''.format(child=child), sys.argv[1]])"
    );
    let output = ran(server.client(Some("info"), &does));
    let told = lines(&text(&output.stderr));
    let said = text(&output.stdout);
    let (own, child) = said.trim().split_once(' ').expect("two ids");
    for process in [own, child] {
        let begin = format!("info barewire[{process}]: ");
        let upgrades = |line: &&String| line.starts_with(&begin) && line.contains(": is upgraded ");
        assert_eq!(told.iter().filter(upgrades).count(), 1, "{told:#?}");
    }
}

#[test]
fn a_reader_that_has_gone_or_is_slow_ends_or_delays_no_program() {
    let server = Server::preloaded();
    // With the signal as it is by default, which would end the program.
    let does = "
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
MEANWHILE
talk(dial())
print('lives')";
    let fills = "
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b'.' * 4096)
except BlockingIOError:
    os.set_blocking(2, True)";
    let mut client = server.client(Some("info"), &does.replace("MEANWHILE", ""));
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    drop(client.stderr.take());
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout), "lives\n", "{output:?}");
    let mut client = server.client(Some("info"), &does.replace("MEANWHILE", fills));
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    let mut said = String::new();
    let mut out = client.stdout.take().expect("piped");
    // It ends though nobody reads what fills the pipe.
    out.read_to_string(&mut said).expect("text");
    assert_eq!(said, "lives\n");
    let output = client.wait_with_output().expect("it ends");
    assert!(!text(&output.stderr).contains("upgraded"));
}

#[test]
fn what_is_not_understood_is_told() {
    let preloaded = |variables: &[(&str, &str)]| {
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", library());
        command.envs(variables.iter().copied());
        text(&ran(command).stderr)
    };
    let told = preloaded(&[
        ("BAREWIRE_LOG", "warn"),
        ("BAREWIRE_SPIN_US", "fast"),
        ("BAREWIRE_PROFILE", "best\n"),
        ("BAREWIRE_SETTINGS", "unix=yes;colour=red;[true];off"),
    ]);
    let told = lines(&told);
    for what in [
        "spin_us=fast is not understood, and left out",
        r"profile=best\n is not understood, and left out",
        "unix=yes is not understood, and left out",
        "colour=red is not known, and left out",
        "off is not known, and left out",
    ] {
        let of = |line: &&String| line.ends_with(&format!("the setting {what}"));
        assert_eq!(told.iter().filter(of).count(), 1, "{what}: {told:#?}");
    }
    assert_eq!(told.len(), 5, "{told:#?}");
    let good = [
        ("BAREWIRE_LOG", "info"),
        ("BAREWIRE_SETTINGS", "unix=1;[x];off=0;"),
    ];
    assert_eq!(preloaded(&good), "");
    for wrong in ["loud", "info:/nonexistent/file"] {
        let said = preloaded(&[("BAREWIRE_LOG", wrong)]);
        let begin = format!("barewire: BAREWIRE_LOG={wrong}: ");
        assert!(
            said.starts_with(&begin) && said.lines().count() == 1,
            "{said}"
        );
    }
}

/// What inetd and its like start: the peer must not get the log.
#[test]
fn a_network_connection_as_standard_error_gets_no_log() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut peer = std::net::TcpStream::connect(address).expect("it listens");
    let (accepted, _) = listener.accept().expect("it came");
    let mut command = Command::new("sh");
    command
        .args(["-c", "echo own >&2"])
        .env("LD_PRELOAD", library())
        .env("BAREWIRE_LOG", "info")
        .env("BAREWIRE_SPIN_US", "fast")
        .stderr(std::os::fd::OwnedFd::from(accepted));
    assert!(command.status().expect("it starts").success());
    drop(command);
    peer.flush().expect("nothing to do");
    let mut came = String::new();
    peer.read_to_string(&mut came).expect("text");
    assert_eq!(came, "own\n");
}
