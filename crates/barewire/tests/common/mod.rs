//! What the tests with several processes share: children that play a role, puppets that
//! obey commands, messages that can be checked, and a watchdog.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use barewire::{Aperture, ApertureConfig, Memory, Rights};
use barewire::{ConnectOptions, Connection, ListenOptions, Listener, Node, NodeConfig, Policy};
use barewire::{HostsConfig, Lost, Port, Request, Security, Spin};
use barewire_shm::Window;
use barewire_sys::memory::{Access, Memfd, PeerAccess};
use barewire_sys::process::{Signal, SpawnOpts, random_bytes, send_signal, spawn_with};

/// Long enough for anything that is not stuck.
pub const LONG: Duration = Duration::from_secs(20);
pub const SOON: Option<Duration> = Some(LONG);

const ROLE: &str = "BAREWIRE_TEST_ROLE";
const ARG: &str = "BAREWIRE_TEST_ARG_";

/// A name that no other test uses.
pub fn name(of: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only has to be another number each time.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{of}-{number}", std::process::id())
}

/// The seed of this run: `BAREWIRE_SEED`, or a new one; it is printed.
pub fn seed(of: &str) -> u64 {
    let given = std::env::var("BAREWIRE_SEED").ok();
    let seed = given.and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        random_bytes(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    });
    println!("{of}: BAREWIRE_SEED={seed}");
    seed
}

/// A number from the environment.
pub fn number_or(variable: &str, otherwise: usize) -> usize {
    let given = std::env::var(variable).ok();
    given.and_then(|s| s.parse().ok()).unwrap_or(otherwise)
}

/// Says that a test can not run here.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    print!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        log.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Ends the process if it is not dropped in time: no test may hang.
pub struct Watchdog(#[allow(dead_code, reason = "its drop is the signal")] mpsc::Sender<()>);

/// Starts a [`Watchdog`].
pub fn watchdog(of: &'static str, limit: Duration) -> Watchdog {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        if receiver.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{of}: still running after {limit:?}: ending the process");
            std::process::exit(86);
        }
    });
    Watchdog(sender)
}

/// Waits until a condition holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "not so after {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread of this process, for others to see whether it sleeps.
pub struct WatchedThread(PathBuf);

impl WatchedThread {
    pub fn current() -> Self {
        let of_proc = std::fs::read_link("/proc/thread-self").unwrap();
        Self(Path::new("/proc").join(of_proc).join("stat"))
    }

    /// Waits until the thread sleeps in the kernel, and not only in passing.
    pub fn wait_until_asleep(&self) {
        let is_asleep = || {
            let stat = std::fs::read_to_string(&self.0).unwrap();
            let (_, state) = stat.rsplit_once(") ").unwrap();
            state.starts_with('S')
        };
        eventually("the thread sleeps", || (0..20).all(|_| is_asleep()));
    }
}

pub fn median(mut of: Vec<Duration>) -> Duration {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Which role this process plays, if it is a child of a test.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// What the parent passed to it.
pub fn arg(name: &str) -> String {
    let variable = format!("{ARG}{name}");
    std::env::var(&variable).unwrap_or_else(|_| panic!("no {variable}"))
}

pub fn arg_number(name: &str) -> u64 {
    arg(name).parse().unwrap()
}

/// Tells the parent something.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "@@{text}").unwrap();
    out.flush().unwrap();
}

/// A child; killed, if it still runs, when dropped.
pub struct Child {
    process: std::process::Child,
    lines: mpsc::Receiver<String>,
}

/// Starts this program once more, to play `role` in its test `child_entry`.
pub fn spawn(role: &str, args: &[(&str, &str)]) -> Child {
    spawn_as(role, args, None)
}

/// As [`spawn`], as another user and group.
pub fn spawn_as(role: &str, args: &[(&str, &str)], uid_gid: Option<(u32, u32)>) -> Child {
    let program = match uid_gid {
        None => std::env::current_exe().unwrap(),
        // The way to the program may be closed to others; this one is not.
        Some(_) => "/proc/self/exe".into(),
    };
    let mut command = Command::new(program);
    command
        .args(["--exact", "child_entry", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    for (name, value) in args {
        command.env(format!("{ARG}{name}"), value);
    }
    let options = SpawnOpts {
        uid_gid,
        pdeathsig: true,
        pin: None,
    };
    let mut process = spawn_with(&mut command, options).unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some((_, said)) = line.split_once("@@") {
                if sender.send(said.to_owned()).is_err() {
                    return;
                }
            }
        }
    });
    Child { process, lines }
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// The next thing that it says.
    pub fn hear(&self) -> String {
        match self.lines.recv_timeout(LONG) {
            Ok(line) => line,
            Err(error) => panic!("child {} says nothing: {error}", self.pid()),
        }
    }

    /// What it says next, if anything within this time.
    pub fn hear_within(&self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    /// Tells it something.
    pub fn tell(&mut self, text: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{text}").unwrap();
        input.flush().unwrap();
    }

    /// Gives a puppet a command and returns its answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.hear()
    }

    /// As [`Child::ask`], for a command that must work.
    pub fn must(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        match answer.strip_prefix("ok") {
            Some(rest) => rest.trim().to_owned(),
            None => panic!("{command}: {answer}"),
        }
    }

    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid(), signal).unwrap();
    }

    /// Kills and reaps it.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for its end; its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("child ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|s| s.code())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Words shared by parent and child, outside the network that is tested.
pub struct Board {
    memfd: Memfd,
    pub words: Window,
}

impl Board {
    pub fn new() -> Board {
        let memfd = Memfd::create_sealed("test-board", 4096).unwrap();
        let words = memfd.map(Access::ReadWrite).unwrap().whole();
        Board { memfd, words }
    }

    /// What a child opens it by.
    pub fn path(&self) -> String {
        use std::os::fd::AsFd;
        let fd = self.memfd.as_fd().as_raw_fd();
        format!("/proc/{}/fd/{fd}", std::process::id())
    }

    pub fn open(path: &str) -> Window {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(path).unwrap();
        let memfd = Memfd::from_peer(OwnedFd::from(file), 4096, PeerAccess::ReadWrite).unwrap();
        memfd.map(Access::ReadWrite).unwrap().whole()
    }
}

/// A number scattered over all bits.
pub fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The length of message `number`: most are short, some need several frames.
pub fn message_len(seed: u64, number: u64) -> usize {
    let r = mix(seed ^ mix(number));
    match r % 16 {
        0 => (r >> 8) as usize % 9,
        1..=10 => (r >> 8) as usize % 120,
        11..=14 => (r >> 8) as usize % 3000,
        _ => (r >> 8) as usize % 20_000,
    }
}

/// Message `number` of the sequence `seed`.
pub fn message(seed: u64, number: u64, into: &mut Vec<u8>) {
    let len = message_len(seed, number);
    into.clear();
    let mut word = mix(seed ^ number.rotate_left(32));
    while into.len() < len {
        into.extend_from_slice(&word.to_le_bytes());
        word = word
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(number);
    }
    into.truncate(len);
}

/// What an error says may be lost. Its bytes are those of the last of these accepted messages, of which the lengths are given.
pub fn assert_lost_of(error: &barewire::Error, accepted: &[u64]) -> Lost {
    let barewire::Error::HostLost {
        lost: Some(lost), ..
    } = error
    else {
        panic!("no loss of a connection: {error:?}");
    };
    let at = |count: u64| accepted.len().checked_sub(count as usize).unwrap();
    let (arrived, read) = (at(lost.messages), at(lost.messages + lost.unread_messages));
    assert_eq!(lost.bytes, accepted[arrived..].iter().sum::<u64>());
    assert_eq!(
        lost.unread_bytes,
        accepted[read..arrived].iter().sum::<u64>()
    );
    *lost
}

/// Byte `at` of the stream `seed`.
pub fn stream_byte(seed: u64, at: u64) -> u8 {
    mix(seed ^ (at >> 3)).to_le_bytes()[(at & 7) as usize]
}

pub fn spins(never: bool) -> NodeConfig {
    NodeConfig {
        spin: if never {
            Spin::Never
        } else {
            NodeConfig::default().spin
        },
        hosts: strangers(),
        ..NodeConfig::default()
    }
}

/// As [`spins`], for nodes that do not give up another host that a busy machine holds up.
pub fn patient() -> NodeConfig {
    NodeConfig {
        hosts: HostsConfig {
            timeout: Duration::from_secs(10),
            ..strangers()
        },
        ..NodeConfig::default()
    }
}

/// How nodes on this host reach each other as if they were on different ones.
pub fn strangers() -> HostsConfig {
    HostsConfig {
        security: Security::Insecure,
        shortcut: false,
        timeout: Duration::from_millis(number_or("BAREWIRE_TEST_ARG_timeout_ms", 800) as u64),
        ..HostsConfig::default()
    }
}

/// Plays a puppet: obeys commands from standard input until it is closed.
pub fn puppet() {
    let _dog = watchdog("puppet", Duration::from_secs(120));
    let mut puppet = Puppet::default();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match puppet.obey(&words) {
            Ok(text) => format!("ok {text}"),
            Err(error) => format!("err {error:?} | {error}"),
        };
        say(&answer);
    }
}

#[derive(Default)]
struct Puppet {
    node: Option<Node>,
    listener: Option<Listener>,
    port: Option<Port>,
    request: Option<Request>,
    connections: Vec<Option<Connection>>,
    apertures: Vec<Aperture>,
}

fn uid(connection: &Connection) -> String {
    let who = connection.peer();
    format!("{} {} {}", who.pid, who.uid, who.gid)
}

impl Puppet {
    fn node(&mut self) -> barewire::Result<Node> {
        if self.node.is_none() {
            let config = NodeConfig {
                capture: std::env::var_os(format!("{ARG}capture")).map(PathBuf::from),
                ..spins(true)
            };
            self.node = Some(Node::with_config(config)?);
        }
        Ok(self.node.clone().unwrap())
    }

    fn connection(&mut self, words: &[&str]) -> &mut Connection {
        let index: usize = words[1].parse().unwrap();
        self.connections[index].as_mut().unwrap()
    }

    fn obey(&mut self, words: &[&str]) -> barewire::Result<String> {
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let mut buffer = Vec::new();
        match words[0] {
            "listen" => {
                let mut policy = Policy::same_user();
                for word in &words[2..] {
                    policy = match word.split_once(':') {
                        Some(("user", uid)) => policy.and_user(uid.parse().unwrap()),
                        Some(("group", gid)) => policy.and_group(gid.parse().unwrap()),
                        _ => Policy::anyone(),
                    };
                }
                let options = ListenOptions { policy };
                self.listener = Some(self.node()?.listen_with(words[1], options)?);
            }
            // port [ADDRESS]: lets nodes reach us as from another host; answers with the address and its port.
            "port" => {
                let address = words.get(1).copied().unwrap_or("127.0.0.1");
                let port = self.node()?.listen_on(&format!("{address}:0"))?;
                let address = port.address().to_string();
                self.port = Some(port);
                return Ok(address);
            }
            "connect" => {
                let options = ConnectOptions {
                    owner: words.get(2).map(|uid| uid.parse().unwrap()),
                    wait_for_name: words.len() < 4,
                    ..ConnectOptions::default()
                };
                let connection = self.node()?.connect_with(words[1], &options)?;
                let about = uid(&connection);
                self.connections.push(Some(connection));
                return Ok(about);
            }
            "accept" => {
                let request = self.node()?.next_request(SOON)?;
                let connection = request.accept()?;
                let about = uid(&connection);
                self.connections.push(Some(connection));
                return Ok(about);
            }
            // send CONNECTION SEED FIRST COUNT
            "send" => {
                let (seed, first, count) = (number(2), number(3), number(4));
                let connection = self.connection(words);
                for i in first..first + count {
                    message(seed, i, &mut buffer);
                    connection.sender().send_timeout(&buffer, SOON)?;
                }
            }
            // recv CONNECTION SEED FIRST COUNT
            "recv" => {
                let (seed, first, count) = (number(2), number(3), number(4));
                let (connection, mut expected) = (self.connection(words), Vec::new());
                for i in first..first + count {
                    if connection
                        .receiver()
                        .recv_into_timeout(&mut buffer, SOON)?
                        .is_none()
                    {
                        return Err(barewire::Error::Timeout);
                    }
                    message(seed, i, &mut expected);
                    if buffer != expected {
                        return Ok(format!("CORRUPT {i}"));
                    }
                }
            }
            // drain CONNECTION SEED: messages 0 and so on until there are no more; answers with how many and the error
            "drain" => {
                let (seed, connection) = (number(2), self.connection(words));
                let (mut expected, mut count) = (Vec::new(), 0);
                let error = loop {
                    match connection.receiver().recv_into(&mut buffer) {
                        Ok(_) => message(seed, count, &mut expected),
                        Err(error) => break error,
                    }
                    if buffer != expected {
                        return Ok(format!("CORRUPT {count}"));
                    }
                    count += 1;
                };
                return Ok(format!("{count} {error:?}"));
            }
            // ends CONNECTION: what comes after the last message
            "ends" => {
                let got = self
                    .connection(words)
                    .receiver()
                    .recv_into_timeout(&mut buffer, SOON)
                    .map(|came| came.is_some());
                return Ok(format!("{got:?}"));
            }
            // stream CONNECTION SEED COUNT: as a stream, so many bytes in, and then as many out
            "stream" => {
                use std::io::{Read, Write};
                let (seed, count) = (number(2), number(3));
                let connection = self.connections[number(1) as usize].take().unwrap();
                let mut stream = connection.into_stream();
                let mut bytes = vec![0; count as usize];
                stream.read_exact(&mut bytes).unwrap();
                let is_right = |(at, byte): (u64, &u8)| *byte == stream_byte(seed, at);
                let is_whole = (0..).zip(&bytes).all(is_right);
                stream.write_all(&bytes).unwrap();
                return Ok(is_whole.to_string());
            }
            // echo CONNECTION: until the other side finishes
            "echo" => {
                let connection = self.connection(words);
                let mut count = 0;
                while let Ok(Some(_)) = connection.receiver().recv_into_timeout(&mut buffer, SOON) {
                    connection.send(&buffer)?;
                    count += 1;
                }
                return Ok(count.to_string());
            }
            "finish" => self.connection(words).finish(),
            "drop" => self.connections[number(1) as usize] = None,
            "exit" => std::process::exit(7),
            // Lets go of connections, listener and node.
            "exit_node" => *self = Puppet::default(),
            "exec" => {
                use std::os::unix::process::CommandExt;
                let error = Command::new(words[1]).args(&words[2..]).exec();
                return Ok(format!("no exec: {error}"));
            }
            // open PATH: whether we may
            "open" => {
                let opened = std::fs::OpenOptions::new().read(true).open(words[1]);
                return Ok(match opened {
                    Ok(_) => "opened".to_owned(),
                    Err(error) => format!("{:?}", error.kind()),
                });
            }
            // grant CONNECTION BYTES: an aperture
            "grant" => {
                let config = ApertureConfig::new(number(2) as usize, Rights::ReadWrite);
                let aperture = self.node()?.export(config)?;
                self.connection(words).grant(&aperture, 0)?;
                self.apertures.push(aperture);
            }
            // load APERTURE OFFSET
            "load" => {
                let aperture = &self.apertures[number(1) as usize];
                return Ok(aperture.load(number(2) as usize)?.to_string());
            }
            // store APERTURE OFFSET VALUE
            "store" => {
                let aperture = &self.apertures[number(1) as usize];
                aperture.store(number(2) as usize, number(3))?;
            }
            "fds" => return Ok(barewire_sys::process::open_fd_count()?.to_string()),
            other => panic!("no such command: {other}"),
        }
        Ok(String::new())
    }
}
