//! `barewire capture` as a user meets it: what two unmodified programs say to each other through
//! shared memory comes out of the file again, byte by byte; and the programs do not notice.

mod common;
#[path = "common/wait.rs"]
mod wait;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use barewire_wire::capture::{LinkType, Reader};
use barewire_wire::checksum::Sum;
use common::barewire;

/// What both programs begin with: much is sent out of a file, by the kernel.
const BOTH: &str = "
import socket, sys, tempfile
flip = bytes(255 - byte for byte in range(256))
def give(connection, body):
    if len(body) < 100000:
        return connection.sendall(body)
    with tempfile.TemporaryFile() as file:
        file.write(body)
        file.seek(0)
        connection.sendfile(file)
";
/// Answers each message of 4 bytes of length and so many others with these, inverted.
const SERVER: &str = "
listener = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
while True:
    connection = listener.accept()[0]
    while head := connection.recv(4, socket.MSG_WAITALL):
        connection.recv(1, socket.MSG_PEEK)
        body = connection.recv(int.from_bytes(head, 'big'), socket.MSG_WAITALL)
        give(connection, body.translate(flip))
    connection.close()
";
/// Asks as it is told: `ROUNDS BYTES` on a line; says what it sent is answered.
const CLIENT: &str = "
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
for line in sys.stdin:
    rounds, size = map(int, line.split())
    for round in range(rounds):
        body = bytes((round * 7 + at) % 251 for at in range(97)) * (size // 97 + 1)
        body = body[:size]
        connection.sendall(len(body).to_bytes(4, 'big'))
        give(connection, body)
        assert connection.recv(len(body), socket.MSG_WAITALL) == body.translate(flip)
    print('done', flush=True)
connection.shutdown(socket.SHUT_WR)
assert connection.recv(1) == b''
print('closed', flush=True)
";

/// What the client above sends.
fn asked(rounds: usize, size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for round in 0..rounds {
        all.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        all.extend((0..size).map(|at| ((round * 7 + at % 97) % 251) as u8));
    }
    all
}

/// What the server above answers.
fn answered(rounds: usize, size: usize) -> Vec<u8> {
    let with_heads = asked(rounds, size);
    let bodies = with_heads.chunks(size + 4).flat_map(|chunk| &chunk[4..]);
    bodies.map(|byte| !byte).collect()
}

fn skip(reason: &str) {
    let name = std::thread::current()
        .name()
        .unwrap_or("capture_pid")
        .to_owned();
    let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") else {
        return eprintln!("SKIPPED: {name}: {reason}");
    };
    let mut options = std::fs::File::options();
    let mut file = options.append(true).create(true).open(log).unwrap();
    writeln!(file, "SKIPPED: {name}: {reason}").unwrap();
}

/// A program with the preload library, which is controlled by lines.
struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Program {
    fn start(code: &str, arguments: &[&str]) -> Program {
        let code = [BOTH, code].concat();
        let mut command = barewire(&["run", "--profile", "latency", "python3", "-c", &code]);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Program { child, lines }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Of the client: asks.
    fn ask(&mut self, rounds: usize, size: usize) {
        let mut input = self.child.stdin.as_ref().unwrap();
        writeln!(input, "{rounds} {size}").unwrap();
        assert_eq!(self.line(), "done");
    }

    /// Of the client: closes, and waits for the server to do so.
    fn close(&mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.line(), "closed");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server, and a client that is connected to it.
fn pair(address: &str) -> (Program, Program) {
    let (server, port) = server(address);
    let client = client(address, &port);
    (server, client)
}

fn server(address: &str) -> (Program, String) {
    let mut server = Program::start(SERVER, &[address]);
    let port = server.line();
    assert!(!port.is_empty(), "the server does not begin");
    (server, port)
}

fn client(address: &str, port: &str) -> Program {
    let mut client = Program::start(CLIENT, &[address, port]);
    assert_eq!(client.line(), "ready");
    client
}

/// A capture that goes on.
struct Capture {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    file: PathBuf,
}

impl Capture {
    fn of(program: &Program, name: &str) -> Capture {
        let name = format!("capture-{}-{name}.pcapng", std::process::id());
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut command = barewire(&["capture", "--pid", &program.pid(), "-w"]);
        command.arg(&file).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("capturing"), "{line}");
        Capture { child, lines, file }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Ends it; gives the file's bytes, and what it says.
    fn end(&mut self, signal: Option<&str>) -> (Vec<u8>, String) {
        if let Some(signal) = signal {
            self.signal(signal);
        }
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        (std::fs::read(&self.file).unwrap(), said)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// One direction of a connection, put together.
#[derive(Default)]
struct Stream {
    flags: Vec<u8>,
    first: u32,
    bytes: Vec<u8>,
    gaps: usize,
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

/// Puts the streams of a capture together, by source and destination; checks all checksums,
/// and that nothing is acknowledged that was not sent.
fn streams(capture: &[u8]) -> BTreeMap<(Vec<u8>, Vec<u8>), Stream> {
    let mut streams: BTreeMap<_, Stream> = BTreeMap::new();
    for packet in Reader::new(capture) {
        let packet = packet.unwrap();
        assert_eq!(packet.link_type, LinkType(101));
        let ip = packet.data;
        let (addresses, tcp) = match ip[0] >> 4 {
            4 => (&ip[12..20], &ip[20..]),
            _ => (&ip[8..40], &ip[40..]),
        };
        if ip[0] >> 4 == 4 {
            let mut header = Sum::default();
            header.update(&ip[..20]);
            assert!(header.is_valid());
            assert_eq!(usize::from(ip[2]) << 8 | usize::from(ip[3]), ip.len());
        }
        let mut sum = Sum::default();
        sum.update(addresses);
        sum.update(&(tcp.len() as u32).to_be_bytes());
        sum.update(&[0, 6]);
        sum.update(tcp);
        assert!(sum.is_valid());
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let from = [from, &tcp[..2]].concat();
        let to = [to, &tcp[2..4]].concat();
        let other = streams.get(&(to.clone(), from.clone()));
        if tcp[13] & ACK != 0 {
            let sent = other.map(|it| it.first.wrapping_add(1 + it.bytes.len() as u32));
            let ahead = number(&tcp[8..12]).wrapping_sub(sent.unwrap());
            assert!(ahead <= 1 || other.unwrap().gaps > 0, "{ahead}");
        }
        let stream = streams.entry((from, to)).or_default();
        stream.flags.push(tcp[13]);
        if tcp[13] & SYN != 0 {
            stream.first = number(&tcp[4..8]);
            continue;
        }
        let data = &tcp[usize::from(tcp[12] >> 4) * 4..];
        let at = number(&tcp[4..8]).wrapping_sub(stream.first) as usize - 1;
        if data.is_empty() {
            continue;
        }
        stream.gaps += usize::from(at != stream.bytes.len());
        stream.bytes.resize(at.max(stream.bytes.len()), 0);
        stream.bytes.extend_from_slice(data);
    }
    streams
}

/// The two streams of the only connection: to the server, and from it.
fn only(capture: &[u8], port: &str) -> [Stream; 2] {
    let port = port.parse::<u16>().unwrap().to_be_bytes();
    let mut streams = streams(capture);
    assert_eq!(streams.len(), 2);
    let (first, second) = (streams.pop_first().unwrap(), streams.pop_first().unwrap());
    match first.0.1.ends_with(&port) {
        true => [first.1, second.1],
        false => [second.1, first.1],
    }
}

/// Waits until `barewire ls` calls a connection of it accelerated.
fn wait_for_acceleration(program: &Program) {
    wait::until(Duration::from_secs(10), || {
        let output = barewire(&["ls", "--json", &program.pid()])
            .output()
            .unwrap();
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_accelerated = listed.contains("\"accelerated\"");
        is_accelerated.then_some(()).ok_or(listed)
    });
}

/// Rounds and bytes of what the tests ask: some through the kernel, then through the ring,
/// then out of a file, through the kernel again.
const PLAN: [(usize, usize); 3] = [(200, 60), (50, 5000), (3, 300_000)];

fn ask_all(client: &mut Program, server: &Program) {
    for (rounds, size) in PLAN {
        client.ask(rounds, size);
        wait_for_acceleration(server);
    }
}

fn all(of: fn(usize, usize) -> Vec<u8>) -> Vec<u8> {
    PLAN.iter()
        .flat_map(|&(rounds, size)| of(rounds, size))
        .collect()
}

#[test]
fn both_streams_of_a_connection_come_out_whole() {
    let (server, port) = server("127.0.0.1");
    let mut capture = Capture::of(&server, "whole");
    let mut client = client("127.0.0.1", &port);
    ask_all(&mut client, &server);
    client.close();
    let (file, said) = capture.end(Some("-INT"));
    assert!(
        said.contains("1 connections") && !said.contains("missing"),
        "{said}"
    );
    let [to_server, from_server] = only(&file, &port);
    assert!(to_server.bytes == all(asked));
    assert!(from_server.bytes == all(answered));
    assert_eq!(to_server.gaps + from_server.gaps, 0);
    assert_eq!(to_server.flags[0], SYN);
    assert_eq!(from_server.flags[0], SYN | ACK);
    for stream in [&to_server, &from_server] {
        let ends = stream.flags.iter().filter(|flags| *flags & FIN != 0);
        assert_eq!(ends.count(), 1);
    }
}

#[test]
fn tshark_follows_the_streams() {
    let tshark = Command::new("tshark").arg("--version").output();
    if !tshark.is_ok_and(|output| output.status.success()) {
        return skip("tshark is not installed");
    }
    let (server, mut client) = pair("::1");
    // In the middle of the connection, and at the client.
    client.ask(100, 64);
    let mut capture = Capture::of(&client, "tshark");
    ask_all(&mut client, &server);
    client.close();
    // It ends with the program.
    let (_, said) = capture.end(None);
    assert!(!said.contains("missing"), "{said}");
    let tshark = |arguments: &[&str]| {
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&capture.file)
            .args(["-o", "tcp.check_checksum:TRUE"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let wrong = "tcp.analysis.flags || tcp.checksum.status != 1 || _ws.malformed";
    assert_eq!(tshark(&["-Y", wrong]), "");
    assert_eq!(tshark(&["-Y", "tcp.flags.fin == 1"]).lines().count(), 2);
    let followed = tshark(&["-q", "-z", "follow,tcp,raw,0"]);
    let mut sides = [Vec::new(), Vec::new()];
    for line in followed.lines() {
        let hex = line.trim();
        if !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let bytes = (0..hex.len()).step_by(2);
            let bytes = bytes.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            sides[usize::from(line.starts_with('\t'))].extend(bytes);
        }
    }
    assert!(sides[0] == all(asked), "{} bytes", sides[0].len());
    assert!(sides[1] == all(answered), "{} bytes", sides[1].len());
}

/// Private memory of a process, in KiB.
fn private_kib(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_capture_that_is_killed_leaves_nothing_on() {
    let (server, mut client) = pair("127.0.0.1");
    client.ask(100, 64);
    client.ask(5, 500_000);
    let before = private_kib(&server);
    let capture = Capture::of(&server, "killed");
    // Another leaves its file as it is: it may be the first one's.
    let file = capture.file.with_extension("busy");
    std::fs::write(&file, "kept").unwrap();
    let busy = barewire(&["capture", "--pid", &server.pid(), "-w"])
        .arg(&file)
        .output();
    let busy = String::from_utf8(busy.unwrap().stderr).unwrap();
    assert!(busy.contains("captured already"), "{busy}");
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    std::fs::remove_file(&file).unwrap();
    // More than fits into the memory for captures: 16 MiB.
    client.ask(30, 500_000);
    capture.signal("-KILL");
    let captured = std::fs::metadata(&capture.file).unwrap().len();
    assert!(captured > 1_000_000, "{captured}");
    // The program finds out within some seconds, in a call.
    wait::until(Duration::from_secs(20), || {
        let is_given_back = private_kib(&server) <= before + 8_000;
        if !is_given_back {
            client.ask(1, 64);
        }
        is_given_back
            .then_some(())
            .ok_or("the memory is not given back")
    });
    let mut next = Capture::of(&server, "next");
    client.ask(5, 1000);
    let (file, _) = next.end(Some("-INT"));
    let streams: Vec<Stream> = streams(&file).into_values().collect();
    assert!(streams.iter().any(|stream| stream.bytes == asked(5, 1000)));
    client.close();
}

#[test]
fn a_capture_that_is_slow_loses_packets_and_not_the_programs_time() {
    let (server, mut client) = pair("127.0.0.1");
    client.ask(100, 64);
    let mut capture = Capture::of(&server, "slow");
    capture.signal("-STOP");
    // More than there is room for. The answers come as ever.
    client.ask(60, 500_000);
    capture.signal("-CONT");
    client.ask(1, 64);
    let (_, said) = capture.end(Some("-INT"));
    assert!(said.contains("missing"), "{said}");
    client.close();
}

#[test]
fn a_capture_that_nobody_reads_any_more_is_over() {
    let (server, mut client) = pair("127.0.0.1");
    client.ask(100, 64);
    let mut command = barewire(&["capture", "--pid", &server.pid(), "-w", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut capture = command.spawn().unwrap();
    let mut start = [0; 4];
    let mut packets = capture.stdout.take().unwrap();
    packets.read_exact(&mut start).unwrap();
    assert_eq!(start, [0x0a, 0x0d, 0x0d, 0x0a]);
    drop(packets);
    let begin = Instant::now();
    while capture.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it goes on");
        client.ask(1, 64);
    }
    let output = capture.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && !said.contains("Broken"),
        "{said}"
    );
    client.close();
}

#[test]
fn processes_that_cannot_be_captured_are_explained() {
    let of = |pid: &str| {
        let output = barewire(&["capture", "--pid", pid, "-w", "/dev/null"])
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let own = std::process::id().to_string();
    assert!(of(&own).contains("has no preload library"), "{}", of(&own));
    assert!(of("0").contains("--pid"), "{}", of("0"));
    let help = barewire(&["capture", "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let fits = help.lines().count() <= 24 && help.lines().all(|line| line.len() <= 100);
    assert!(fits, "{help}");
}
