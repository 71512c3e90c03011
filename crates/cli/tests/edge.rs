//! `barewire run --edge`: programs that know nothing of it, with their connections through a bridge, to a kernel in
//! another network namespace. It needs root.

mod common;
#[path = "common/edge.rs"]
mod place;
#[path = "common/skip.rs"]
mod skip;
#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use common::barewire;
use place::{
    BRIDGE, Folder, LONG, PEER, Place, Running, accept, finish, gateway_of, hello, said, send,
    start, text, web,
};
use rustix::process::Signal;

#[test]
fn curl_gets_pages_through_the_bridge() {
    const NAME: &str = "curl_gets_pages_through_the_bridge";
    let Some(place) = Place::with(NAME, &["curl", "python3"]) else {
        return;
    };
    let (folder, bytes) = Folder::new("curl");
    let (mut server, port) = web(&place.peer, &folder, Command::new("env"));
    let url = format!("http://{PEER}:{port}/file");
    let page = place.output(&[
        "curl",
        "-sS",
        &url,
        &url,
        "-w",
        "%{remote_ip} %{local_ip}\n",
    ]);
    assert!(page.status.success(), "{}", text(&page.stderr));
    let ends = format!("{PEER} {BRIDGE}\n");
    let whole = [&bytes, ends.as_bytes()].concat().repeat(2);
    assert!(page.stdout == whole, "{} bytes", page.stdout.len());
    let refused = place.output(&["curl", "-sS", &format!("http://{PEER}:9/")]);
    // As curl says of a connection that was refused.
    assert_eq!(refused.status.code(), Some(7), "{}", text(&refused.stderr));
    // The server tells who has asked.
    server.0.kill().unwrap();
    let mut log = String::new();
    server
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(log.matches(BRIDGE).count(), 2, "{log}");
}

/// What sockets of all kinds do, in Python: it ends with `ok`.
const SOCKETS: &str = "
import errno, select, socket, sys, time
at = ('10.77.0.1', int(sys.argv[1]))
# Blocking, both addresses, and half a close.
one = socket.create_connection(at)
assert one.getpeername() == at, one.getpeername()
assert one.getsockname()[0] == '10.77.0.9', one.getsockname()
one.sendall(b'x' * 300000)
one.shutdown(socket.SHUT_WR)
got = b''
while piece := one.recv(65536):
    got += piece
assert got == b'x' * 300000, len(got)
one.close()
# Without waiting.
one = socket.socket()
one.setblocking(False)
waiting = select.epoll()
waiting.register(one, select.EPOLLOUT)
error = one.connect_ex(at)
assert error == errno.EINPROGRESS, error
assert one.connect_ex(at) in (errno.EALREADY, errno.EISCONN, 0)
waiting.poll(30)
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert one.getpeername() == at
one.close()
# An IPv6 socket, to an address of IPv4.
one = socket.socket(socket.AF_INET6)
one.connect(('::ffff:10.77.0.1', at[1]))
assert one.getpeername()[0] == '::ffff:10.77.0.1', one.getpeername()
one.close()
# Refused, in every way.
one = socket.socket()
assert one.connect_ex(('10.77.0.1', 9)) == errno.ECONNREFUSED
one = socket.socket()
one.setblocking(False)
assert one.connect_ex(('10.77.0.1', 9)) == errno.EINPROGRESS
poll = select.poll()
poll.register(one, select.POLLOUT)
assert poll.poll(30000)[0][1] & select.POLLERR
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
one = socket.socket()
one.setblocking(False)
assert one.connect_ex(('10.77.0.1', 9)) == errno.EINPROGRESS
poll = select.poll()
poll.register(one, select.POLLOUT)
assert poll.poll(30000)[0][1] & select.POLLERR
assert one.connect_ex(('10.77.0.1', 9)) == errno.ECONNREFUSED
# No way there; a limit on the time; this host itself.
one = socket.socket()
assert one.connect_ex(('192.0.2.1', 9)) == errno.EHOSTUNREACH
one = socket.socket()
one.settimeout(0.2)
begun = time.monotonic()
try:
    one.connect(('10.77.0.77', 9))
    raise AssertionError('nobody is there')
except TimeoutError:
    assert time.monotonic() - begun < 20
for own in '127.0.0.1', '10.77.0.2':
    server = socket.create_server((own, 0))
    one = socket.create_connection(server.getsockname())
    assert server.accept()[1] == one.getsockname()
print('ok')
";

#[test]
fn sockets_do_what_the_kernels_do() {
    const NAME: &str = "sockets_do_what_the_kernels_do";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    let server = std::thread::spawn(move || {
        let mut stream = accept(&listener);
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        drop(stream);
        for _ in 0..2 {
            // They end without a byte.
            assert_eq!(accept(&listener).read(&mut [0]).unwrap(), 0);
        }
    });
    let output = place.output(&["python3", "-c", SOCKETS, &at.port().to_string()]);
    assert_eq!(said(&output), "ok\n");
    server.join().unwrap();
}

/// Connects, says so, and waits for bytes.
const WAITS: &str = "
import socket, sys
one = socket.create_connection(('10.77.0.1', int(PORT)))
one.sendall(b'hello')
try:
    print('got', one.recv(10), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
";

fn waits(place: &Place, at: SocketAddr) -> Running {
    place.python(&WAITS.replace("PORT", &at.port().to_string()))
}

fn kill(pid: i32) {
    send(pid, Signal::KILL);
}

#[test]
fn a_reset_is_one_on_the_other_side() {
    const NAME: &str = "a_reset_is_one_on_the_other_side";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    // The other host resets: it closes with a byte that it has not read.
    let program = waits(&place, at);
    let mut stream = accept(&listener);
    wait::until(LONG, || match stream.peek(&mut [0; 5]) {
        Ok(5) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stream.read_exact(&mut [0]).unwrap();
    drop(stream);
    assert_eq!(said(&finish(program)), "ConnectionResetError\n");
    // The gateway is killed.
    let program = waits(&place, at);
    let mut stream = accept(&listener);
    hello(&mut stream);
    kill(gateway_of(program.0.id()));
    assert_eq!(said(&finish(program)), "ConnectionResetError\n");
    let error = stream.read(&mut [0]).expect_err("the bridge resets");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Connects to the gateway as a stranger may, who does not know the token: some are silent, some say something wrong.
/// Then the program connects to the other host. Says how many strangers were sent away.
const STRANGERS: &str = "
import os, socket, sys
name = '\\0barewire/edge/%016x' % int(os.environ['BAREWIRE_EDGE'].split(';')[1], 16)
def stranger():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(name)
    return one
silent = [stranger() for _ in range(400)]
for wrong in (b'', b'x', b'x' * 48, b'x' * 4096):
    one = stranger()
    one.send(wrong or b'x' * 47)
    assert one.recv(1) == b'', wrong
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
far.sendall(b'hello')
assert far.recv(1) == b''
away = 0
for one in silent:
    one.setblocking(False)
    try: away += one.recv(1) == b''
    except BlockingIOError: pass
print(away)
";

#[test]
fn strangers_at_the_gateway_keep_nobody_away() {
    const NAME: &str = "strangers_at_the_gateway_keep_nobody_away";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    let port = at.port().to_string();
    let program = place.edge(&["python3", "-c", STRANGERS, PEER, &port]);
    let mut stream = accept(&listener);
    hello(&mut stream);
    drop(stream);
    let away: usize = said(&finish(program)).trim().parse().unwrap();
    assert!((100..400).contains(&away), "{away} of 400");
}

#[test]
fn a_program_that_is_killed_leaves_nothing() {
    const NAME: &str = "a_program_that_is_killed_leaves_nothing";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    let mut program = waits(&place, at);
    let mut stream = accept(&listener);
    hello(&mut stream);
    let gateway = gateway_of(program.0.id());
    kill(program.0.id() as i32);
    let status = wait::ended(&mut program.0, LONG);
    assert_eq!(status.signal(), Some(9));
    // Its kernel ends the stream, as of every program that is killed.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    drop(stream);
    wait::until(LONG, || {
        let line = std::fs::read(format!("/proc/{gateway}/cmdline")).unwrap_or_default();
        match line.is_empty() {
            true => Ok(()),
            false => Err("the gateway is still there"),
        }
    });
}

#[test]
fn other_hosts_reach_a_program_that_listens() {
    const NAME: &str = "other_hosts_reach_a_program_that_listens";
    let Some(place) = Place::with(NAME, &["curl", "python3"]) else {
        return;
    };
    let (folder, bytes) = Folder::new("listens");
    let (mut server, port) = web(&place.home, &folder, barewire(&["run", "--edge", "--"]));
    // The gateway hears of the listener a moment later.
    let url = format!("http://{BRIDGE}:{port}/file");
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "--retry",
        "20",
        "--retry-connrefused",
        "--retry-delay",
        "1",
        &url,
    ]);
    let client = start(
        &place.peer,
        curl.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let page = finish(client);
    assert!(page.status.success(), "{}", text(&page.stderr));
    assert!(page.stdout == bytes, "{} bytes", page.stdout.len());
    server.0.kill().unwrap();
    let mut log = String::new();
    server
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    // The program sees who has asked.
    assert!(log.contains(PEER), "{log}");
}

#[test]
fn iperf3_sends_and_receives() {
    const NAME: &str = "iperf3_sends_and_receives";
    let Some(place) = Place::with(NAME, &["iperf3"]) else {
        return;
    };
    let mut server = Command::new("iperf3");
    server.args(["-s", "-B", PEER, "--forceflush"]);
    let mut server = start(&place.peer, server.stdout(Stdio::piped()));
    let mut out = BufReader::new(server.0.stdout.take().expect("piped"));
    let mut seen = String::new();
    while !seen.contains("listening") {
        assert!(out.read_line(&mut seen).expect("a line") > 0, "{seen}");
    }
    for way in [&["-P", "3"][..], &["-R"]] {
        let client = ["iperf3", "-c", PEER, "-t", "2", "-J"];
        let report = said(&place.output(&[&client, way].concat()));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let bytes = report["end"]["sum_received"]["bytes"].as_f64();
        // What the sender has counted may still be on the way when it ends.
        assert!(bytes.is_some_and(|bytes| bytes >= 1e6), "{report}");
        let from = &report["start"]["connected"][0]["local_host"];
        assert_eq!(from, BRIDGE);
    }
}

#[test]
fn redis_answers() {
    const NAME: &str = "redis_answers";
    let Some(place) = Place::with(NAME, &["redis-server", "redis-benchmark"]) else {
        return;
    };
    let mut server = Command::new("redis-server");
    server.args(["--bind", PEER, "--save", "", "--protected-mode", "no"]);
    let mut server = start(&place.peer, server.stdout(Stdio::piped()));
    let mut out = BufReader::new(server.0.stdout.take().expect("piped"));
    let mut seen = String::new();
    while !seen.contains("eady to accept connections") {
        assert!(out.read_line(&mut seen).expect("a line") > 0, "{seen}");
    }
    let client = ["redis-cli", "-h", PEER];
    let set = place.output(&[&client[..], &["set", "key", "value"]].concat());
    assert_eq!(said(&set), "OK\n");
    let get = place.output(&[&client[..], &["get", "key"]].concat());
    assert_eq!(said(&get), "value\n");
    let bench = [
        "redis-benchmark",
        "-h",
        PEER,
        "-t",
        "set,get",
        "-n",
        "2000",
        "--csv",
    ];
    let report = said(&place.output(&bench));
    assert!(
        report.contains("\"SET\"") && report.contains("\"GET\""),
        "{report}"
    );
}

#[test]
fn without_a_bridge_it_says_so() {
    let output = barewire(&["run", "--edge=nowhere", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stderr);
    assert!(said.contains("no bridge listens as `nowhere`"), "{said}");
    let output = barewire(&["run", "--edge-net", "10.0.0.0/8", "true"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}
