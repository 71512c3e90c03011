//! Two hosts that are network namespaces, a bridge at one of them, and programs under `barewire run --edge`.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use barewire_sys::lan::Lan;
use barewire_sys::links::{add_address_in, index};
use barewire_sys::netlink::RouteSocket;
use barewire_sys::netns::NetNamespace;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::barewire;
use crate::skip::skip;
use crate::wait;

/// Only a broken program takes so long.
pub const LONG: Duration = Duration::from_secs(60);
/// The kernel of the other host.
pub const PEER: &str = "10.77.0.1";
/// The bridge, and the host's own kernel.
pub const BRIDGE: &str = "10.77.0.9";
/// The same, of IPv6. The host itself has no such address.
pub const PEER_V6: &str = "fd77::1";
pub const BRIDGE_V6: &str = "fd77::9";

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two hosts, and a bridge at one of them.
pub struct Place {
    pub home: NetNamespace,
    pub peer: NetNamespace,
    pub bridge: Running,
}

impl Place {
    /// One, if this machine has what it takes; otherwise the test counts as skipped.
    pub fn new(test: &str) -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            skip(test, "network namespaces need root");
            return None;
        }
        let mut hosts = match Lan::pair() {
            Ok(lan) => lan.hosts,
            Err(error) => {
                skip(test, &format!("no network namespaces: {error}"));
                return None;
            }
        };
        let (home, peer) = (hosts.remove(1).net, hosts.remove(0).net);
        let with_v6 = peer.run(|| {
            let mut socket = RouteSocket::open()?;
            let nic = index(&mut socket, "nic")?;
            add_address_in(&mut socket, nic, PEER_V6.parse().expect("an address"), 64)
        });
        with_v6.expect("an address of IPv6");
        let mut bridge = barewire(&["bridge", "--interface", "nic"]);
        bridge.args(["--address", "10.77.0.9/24", "--address", "fd77::9/64"]);
        let mut bridge = start(&home, bridge.stderr(Stdio::piped()));
        let said = bridge.0.stderr.take().expect("piped");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).expect("a line");
        assert!(line.contains(BRIDGE), "no bridge: {line}");
        Some(Place { home, peer, bridge })
    }

    /// One, if these programs are installed, too.
    pub fn with(test: &str, programs: &[&str]) -> Option<Place> {
        let missing = programs.iter().any(|program| is_missing(test, program));
        if missing { None } else { Place::new(test) }
    }

    /// A program under `run --edge`.
    pub fn edge(&self, program: &[&str]) -> Running {
        let mut command = barewire(&[&["run", "--edge", "--"], program].concat());
        command.stdin(Stdio::piped());
        start(
            &self.home,
            command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        )
    }

    /// Runs such a program to its end.
    pub fn output(&self, program: &[&str]) -> Output {
        finish(self.edge(program))
    }

    pub fn python(&self, code: &str) -> Running {
        self.edge(&["python3", "-c", code])
    }

    /// A listener of the other host's kernel.
    pub fn listener(&self) -> (TcpListener, SocketAddr) {
        let listener = self.peer.run(|| TcpListener::bind((PEER, 0))).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }
}

pub fn start(host: &NetNamespace, command: &mut Command) -> Running {
    let child = host.run(|| command.spawn());
    Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

pub fn finish(mut program: Running) -> Output {
    drop(program.0.stdin.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut out = program.0.stdout.take().expect("piped");
    let mut err = program.0.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        err.read_to_end(&mut stderr).expect("read");
        stderr
    });
    out.read_to_end(&mut stdout).expect("read");
    let status = wait::ended(&mut program.0, LONG);
    let stderr = reader.join().expect("a thread");
    Output {
        status,
        stdout,
        stderr,
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the program has written, if it ended well.
pub fn said(output: &Output) -> String {
    let said = text(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {said}{}",
        output.status,
        text(&output.stderr)
    );
    said
}

pub fn is_missing(test: &str, program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        skip(test, &format!("{program} is not installed"));
    }
    found.is_err()
}

/// Takes a connection of the bridge's.
pub fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), BRIDGE, "the kernel connected");
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// A folder that goes with the test, with a file of 1 MB.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> (Folder, Vec<u8>) {
        let path =
            std::env::temp_dir().join(format!("barewire-edge-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        std::fs::write(path.join("file"), &bytes).unwrap();
        (Folder(path), bytes)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Python's web server, once it listens.
pub fn web(host: &NetNamespace, folder: &Folder, mut command: Command) -> (Running, u16) {
    const CODE: &str = "import http.server, sys
server = http.server.ThreadingHTTPServer(('0.0.0.0', 0), http.server.SimpleHTTPRequestHandler)
print(server.server_address[1], flush=True)
server.serve_forever()";
    command
        .args(["python3", "-u", "-c", CODE])
        .current_dir(&folder.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = start(host, command.stderr(Stdio::piped()));
    let mut line = String::new();
    let out = server.0.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let port = line.trim().parse().expect("a port");
    (server, port)
}

pub fn hello(stream: &mut TcpStream) {
    let mut hello = [0; 5];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello");
}

pub fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The process id of a program's gateway.
pub fn gateway_of(program: u32) -> i32 {
    let wanted = format!("--program={program}");
    let found = std::fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.any(|word| word == wanted.as_bytes())
    });
    let found = found.expect("a gateway").file_name();
    found.to_string_lossy().parse().expect("a process id")
}
