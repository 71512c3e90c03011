//! `barewire run --edge`: targets of IPv6, hosts that do not answer, a bridge that is stopped, and nginx. It needs root.

mod common;
#[path = "common/edge.rs"]
mod place;
#[path = "common/skip.rs"]
mod skip;
#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use barewire_sys::loopback::Pending;
use barewire_sys::netns::NetNamespace;
use common::barewire;
use place::{
    BRIDGE, BRIDGE_V6, Folder, LONG, PEER, PEER_V6, Place, Running, accept, finish, gateway_of,
    hello, said, send, start, text,
};
use rustix::process::Signal;

/// As `SOCKETS`, of IPv6.
const SOCKETS_V6: &str = "
import errno, select, socket, sys
at = ('fd77::1', int(sys.argv[1]), 0, 0)
one = socket.create_connection(at[:2])
assert one.getpeername() == at, one.getpeername()
assert one.getsockname()[0] == 'fd77::9', one.getsockname()
one.sendall(b'x' * 300000)
one.shutdown(socket.SHUT_WR)
got = b''
while piece := one.recv(65536):
    got += piece
assert got == b'x' * 300000, len(got)
one.close()
one = socket.socket(socket.AF_INET6)
one.setblocking(False)
assert one.connect_ex(at) == errno.EINPROGRESS
poll = select.poll()
poll.register(one, select.POLLOUT)
assert poll.poll(30000)[0][1] & select.POLLOUT
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
assert one.getpeername() == at
one.close()
# Refused; no way there; this host itself.
one = socket.socket(socket.AF_INET6)
assert one.connect_ex(('fd77::1', 9)) == errno.ECONNREFUSED
one = socket.socket(socket.AF_INET6)
assert one.connect_ex(('2001:db8::1', 9)) == errno.EHOSTUNREACH
server = socket.create_server(('::1', 0), family=socket.AF_INET6)
one = socket.create_connection(server.getsockname()[:2])
assert server.accept()[1][:2] == one.getsockname()[:2]
print('ok')
";

#[test]
fn targets_of_ipv6_are_reached() {
    const NAME: &str = "targets_of_ipv6_are_reached";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let bound = place.peer.run(|| TcpListener::bind((PEER_V6, 0)));
    let listener = bound.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = std::thread::spawn(move || {
        let accept = || {
            let (stream, from) = listener.accept().unwrap();
            assert_eq!(from.ip().to_string(), BRIDGE_V6, "the kernel connected");
            stream.set_read_timeout(Some(LONG)).unwrap();
            stream
        };
        let (mut stream, mut all) = (accept(), Vec::new());
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        drop(stream);
        assert_eq!(accept().read(&mut [0]).unwrap(), 0);
    });
    let output = place.output(&["python3", "-c", SOCKETS_V6, &port]);
    assert_eq!(said(&output), "ok\n");
    server.join().unwrap();
}

/// Listens at all addresses of both versions, and says who has come.
const LISTENS: &str = "
import socket
server = socket.create_server(('::', 8083), family=socket.AF_INET6, dualstack_ipv6=True)
print('listens', flush=True)
for _ in range(2):
    one, at = server.accept()
    print(at[0], one.getpeername()[0], one.getsockname()[:2], flush=True)
    one.sendall(b'hello')
";

#[test]
fn other_hosts_reach_a_listener_of_both_versions() {
    const NAME: &str = "other_hosts_reach_a_listener_of_both_versions";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let mut program = place.python(LISTENS);
    let mut out = BufReader::new(program.0.stdout.take().expect("piped")).lines();
    let mut next = || out.next().expect("a line").expect("a line");
    assert_eq!(next(), "listens");
    let ends = [
        ("[fd77::9]:8083", "fd77::1 fd77::1 ('fd77::9', 8083)"),
        (
            "10.77.0.9:8083",
            "::ffff:10.77.0.1 ::ffff:10.77.0.1 ('::ffff:10.77.0.9', 8083)",
        ),
    ];
    for (at, said) in ends {
        // The gateway hears of the listener a moment later.
        let mut stream = wait::until(LONG, || place.peer.run(|| TcpStream::connect(at)));
        stream.set_read_timeout(Some(LONG)).unwrap();
        hello(&mut stream);
        assert_eq!(next(), said);
    }
    assert!(wait::ended(&mut program.0, LONG).success());
}

/// How long `connect` takes to fail, and why.
const FAILS: &str = "
import errno, socket, sys, time
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
one = socket.socket(family)
if sys.argv[3:]:
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, int(sys.argv[3]))
begun = time.monotonic()
error = one.connect_ex((sys.argv[1], int(sys.argv[2])))
print(errno.errorcode[error], time.monotonic() - begun)
";

/// Checks how `connect` fails, and within how many seconds.
fn fails(place: &Place, arguments: &[&str], error: &str, seconds: std::ops::Range<f64>) {
    let output = place.output(&[&["python3", "-c", FAILS], arguments].concat());
    let said = said(&output);
    let (what, took) = said.trim().split_once(' ').expect("two words");
    assert_eq!(what, error, "{said}");
    assert!(seconds.contains(&took.parse().unwrap()), "{said}");
}

#[test]
fn a_host_that_does_not_answer_fails_as_with_the_kernel() {
    const NAME: &str = "a_host_that_does_not_answer_fails_as_with_the_kernel";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    // Nobody has the address: three questions, a second apart.
    for nobody in ["10.77.0.77", "fd77::77"] {
        fails(&place, &[nobody, "9"], "EHOSTUNREACH", 2.5..30.0);
    }
    // The host is there, and drops what comes. The program wants two tries.
    let silent = place
        .peer
        .run(|| Pending::open(PEER.parse().expect("an address")));
    let silent = silent.unwrap();
    let port = silent.local().port().to_string();
    fails(&place, &[PEER, &port, "1"], "ETIMEDOUT", 2.5..30.0);
}

/// While the bridge is stopped, and the program begins to listen: what the gateway is asked about another connection is
/// answered, and an attempt fails.
const STOPPED: &str = "
import errno, select, socket, sys, time
at = ('10.77.0.1', int(sys.argv[1]))
one = socket.create_connection(at)
print('open', flush=True)
sys.stdin.readline()
two = socket.socket()
two.setblocking(False)
assert two.connect_ex(at) == errno.EINPROGRESS
server = socket.create_server(('0.0.0.0', 0))
begun = time.monotonic()
assert one.getpeername() == at, one.getpeername()
assert time.monotonic() - begun < 1
poll = select.poll()
poll.register(two, select.POLLOUT)
assert poll.poll(60000)[0][1] & select.POLLERR
assert two.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT
print('ok', flush=True)
sys.stdin.readline()
# It goes on where it was.
one.sendall(b'hello')
two = socket.create_connection(at)
two.sendall(b'hello')
";

#[test]
fn a_bridge_that_is_stopped_holds_up_nothing_else() {
    const NAME: &str = "a_bridge_that_is_stopped_holds_up_nothing_else";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    let mut program = place.edge(&["python3", "-c", STOPPED, &at.port().to_string()]);
    let mut stream = accept(&listener);
    let mut out = BufReader::new(program.0.stdout.take().expect("piped"));
    let mut input = program.0.stdin.take().expect("piped");
    let mut wait_for = |word: &str| {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        line.trim() == word
    };
    let bridge = place.bridge.0.id() as i32;
    assert!(wait_for("open"));
    send(bridge, Signal::STOP);
    input.write_all(b"\n").unwrap();
    let is_ok = wait_for("ok");
    send(bridge, Signal::CONT);
    input.write_all(b"\n").unwrap();
    let mut error = String::new();
    if !is_ok {
        let mut err = program.0.stderr.take().expect("piped");
        err.read_to_string(&mut error).expect("read");
    }
    assert!(is_ok, "{error}");
    hello(&mut stream);
    hello(&mut accept(&listener));
    assert!(wait::ended(&mut program.0, LONG).success());
}

/// While the bridge is stopped, and another host has just connected: what the gateway is asked about another connection
/// is answered.
const ACCEPTS: &str = "
import socket, sys, time
at = ('10.77.0.1', int(sys.argv[1]))
server = socket.create_server(('0.0.0.0', 0))
one = socket.create_connection(at)
print(server.getsockname()[1], flush=True)
server.accept()
print('first', flush=True)
sys.stdin.readline()
until = time.monotonic() + 0.5
while (begun := time.monotonic()) < until:
    assert one.getpeername() == at, one.getpeername()
    assert time.monotonic() - begun < 1
print('ok', flush=True)
# It goes on where it was, and so does the other host.
one.sendall(b'hello')
server.accept()[0].sendall(b'hello')
";

/// Stops a process, and waits until it stands.
fn stop(pid: i32) {
    send(pid, Signal::STOP);
    wait::until(LONG, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        // The state is behind the name, which is in brackets.
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        match state {
            Some('T') => Ok(()),
            other => Err(format!("process {pid} has state {other:?}")),
        }
    });
}

/// A socket that has begun to connect.
fn begin_connect(to: SocketAddr) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a socket");
    let error = connect(&socket, &to).expect_err("nobody has answered yet");
    assert_eq!(error, rustix::io::Errno::INPROGRESS);
    socket
}

#[test]
fn a_bridge_that_is_stopped_holds_up_no_listener() {
    const NAME: &str = "a_bridge_that_is_stopped_holds_up_no_listener";
    let Some(place) = Place::with(NAME, &["python3"]) else {
        return;
    };
    let (listener, at) = place.listener();
    let mut program = place.edge(&["python3", "-c", ACCEPTS, &at.port().to_string()]);
    let mut one = accept(&listener);
    let mut out = BufReader::new(program.0.stdout.take().expect("piped"));
    let mut input = program.0.stdin.take().expect("piped");
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    };
    let port: u16 = line().parse().expect("a port");
    // The gateway hears of the listener a moment later.
    let connect = || place.peer.run(|| TcpStream::connect((BRIDGE, port)));
    let _first = wait::until(LONG, || connect().map_err(|error| error.to_string()));
    assert_eq!(line(), "first");
    let (bridge, gateway) = (place.bridge.0.id() as i32, gateway_of(program.0.id()));
    // The gateway finds the packet that opens a connection, and a bridge that does not answer.
    stop(gateway);
    let at = (BRIDGE.parse::<Ipv4Addr>().expect("an address"), port);
    let other = place.peer.run(|| Ok(begin_connect(at.into()))).unwrap();
    // The bridge takes frames in order: this one is answered after the other was taken.
    let refused = place.peer.run(|| TcpStream::connect((BRIDGE, 9)));
    stop(bridge);
    send(gateway, Signal::CONT);
    input.write_all(b"\n").unwrap();
    let is_ok = line() == "ok";
    send(bridge, Signal::CONT);
    let error = refused.expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let mut error = String::new();
    if !is_ok {
        let mut err = program.0.stderr.take().expect("piped");
        err.read_to_string(&mut error).expect("read");
    }
    assert!(is_ok, "{error}");
    hello(&mut one);
    let mut other = TcpStream::from(other);
    other.set_nonblocking(false).unwrap();
    other.set_read_timeout(Some(LONG)).unwrap();
    hello(&mut other);
    assert!(wait::ended(&mut program.0, LONG).success());
}

/// nginx, which ends with the test, and its workers with it: they outlive a parent that is killed.
struct Nginx(Running);

impl Drop for Nginx {
    fn drop(&mut self) {
        send(self.0.0.id() as i32, Signal::TERM);
        wait::ended(&mut self.0.0, LONG);
    }
}

/// nginx with the file of a folder, once it listens.
fn nginx(host: &NetNamespace, folder: &Folder, mut command: Command, port: u16) -> Nginx {
    let root = folder.0.display();
    let settings = format!(
        "daemon off; worker_processes 2; user root; error_log stderr notice; pid {root}/pid;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {root}/t; proxy_temp_path {root}/t; fastcgi_temp_path {root}/t;
uwsgi_temp_path {root}/t; scgi_temp_path {root}/t;
server {{ listen 0.0.0.0:{port}; listen [::]:{port}; root {root}; }} }}"
    );
    let file = folder.0.join("nginx.conf");
    std::fs::write(&file, settings).unwrap();
    command
        .args(["nginx", "-c"])
        .arg(&file)
        .arg("-p")
        .arg(&folder.0);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = start(host, command.stderr(Stdio::piped()));
    let mut said = BufReader::new(server.0.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("start worker process ") {
        line.clear();
        assert!(said.read_line(&mut line).expect("a line") > 0, "no nginx");
    }
    // What it says later is read, so that it never waits for that; the thread ends with it.
    std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    Nginx(server)
}

#[test]
fn nginx_serves_both_ways() {
    const NAME: &str = "nginx_serves_both_ways";
    let Some(place) = Place::with(NAME, &["curl", "nginx"]) else {
        return;
    };
    let (folder, bytes) = Folder::new("nginx");
    let get = |host: &NetNamespace, mut curl: Command, at: &str| {
        // A gateway hears of a listener a moment later.
        curl.args([
            "curl",
            "-sS",
            "--fail",
            "--retry",
            "20",
            "--retry-connrefused",
        ]);
        curl.args(["--retry-delay", "1", &format!("http://{at}/file")]);
        curl.stdin(Stdio::piped()).stdout(Stdio::piped());
        let page = finish(start(host, curl.stderr(Stdio::piped())));
        assert!(page.status.success(), "{at}: {}", text(&page.stderr));
        assert!(page.stdout == bytes, "{at}: {} bytes", page.stdout.len());
    };
    let edge = || barewire(&["run", "--edge", "--"]);
    let server = nginx(&place.peer, &folder, Command::new("env"), 8081);
    for at in ["10.77.0.1:8081", "[fd77::1]:8081"] {
        get(&place.home, edge(), at);
    }
    drop(server);
    let _server = nginx(&place.home, &folder, edge(), 8082);
    get(&place.peer, Command::new("env"), "10.77.0.9:8082");
    // Its other listener takes IPv6 only: such a one stays with the kernel.
    let mut curl = Command::new("curl");
    curl.args(["-sS", "http://[fd77::9]:8082/file"]);
    curl.stdin(Stdio::piped()).stdout(Stdio::piped());
    let refused = finish(start(&place.peer, curl.stderr(Stdio::piped())));
    assert_eq!(refused.status.code(), Some(7), "{}", text(&refused.stderr));
}
