//! Unmodified programs under attack: by the other end of a connection, at the rendezvous socket and in
//! the shared memory, and by a third process. The sound programs go on, are never kept waiting for
//! long, and have afterwards what they had before. The programs are in `sockets/`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use barewire_hostile::users::{self, OTHER};
use barewire_hostile::wait;
use barewire_sys::process::{SpawnOpts, spawn_with};

#[path = "../../../crates/sockets/tests/built/mod.rs"]
mod built;

/// What nobody may be kept waiting longer for: with most attacks it was for ever, or minutes.
const LONGEST: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);
const ROUNDS: &str = "300";

/// The programs, which know nothing of the library.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sockets");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-sockets");
        let sources =
            ["sound.c", "rendezvous.c", "lie.c", "switch.c"].map(|name| folder.join(name));
        let status = Command::new("cc")
            .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&program)
            .args(sources)
            .status();
        assert!(status.expect("cc").success());
        program
    })
}

/// The library: from the environment, or built from the present sources.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("BAREWIRE_PRELOAD_LIB") {
            return path.into();
        }
        let test = std::env::current_exe().expect("this test");
        let folder = test.ancestors().nth(2).expect("the folder of a profile");
        built::build(folder).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// A process that is stopped with the test.
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(words: &[&str], has_library: bool, user: Option<u32>) -> Running {
        let path = match user {
            Some(_) => users::program(program().to_str().unwrap()),
            None => program().to_owned(),
        };
        let mut command = Command::new(path);
        command.args(words);
        if has_library {
            command.env("LD_PRELOAD", library());
            command.env("BAREWIRE_WHY", "-");
            command.stderr(Stdio::piped());
        }
        Running::from(command, user)
    }

    /// With the library; says at its end in `report` what became of it.
    fn start_reporting(words: &[&str], report: &Path) -> Running {
        let mut command = Command::new(program());
        command.args(words);
        command.env("LD_PRELOAD", library());
        command.env("BAREWIRE_SOCKETS_REPORT", report);
        Running::from(command, None)
    }

    fn from(mut command: Command, user: Option<u32>) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let opts = SpawnOpts {
            uid_gid: user.map(|user| (user, user)),
            pdeathsig: false,
            ..SpawnOpts::default()
        };
        let mut child = spawn_with(&mut command, opts).unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running {
            child,
            stdin,
            stdout,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.stdin.write_all(command.as_bytes()).unwrap();
        self.line()
    }

    /// Its last line, and what it said of its connections.
    fn finish(mut self, what: &str) -> (String, String) {
        let ended = wait::poll(PATIENCE, || self.child.try_wait().unwrap());
        assert!(ended.is_some(), "{what}: it does not end");
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        let mut whys = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut whys).unwrap();
        }
        let last = said.lines().last().unwrap_or_default();
        (last.to_owned(), whys)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Server {
    running: Running,
    port: String,
    descriptors: u64,
}

impl Server {
    fn start(mode: &str) -> Server {
        let mut running = Running::start(&["serve", mode, "0"], true, None);
        let line = running.line();
        let port = line.strip_prefix("serving ").unwrap().to_owned();
        let mut server = Server {
            running,
            port,
            descriptors: 0,
        };
        server.descriptors = server.count();
        server
    }

    fn count(&mut self) -> u64 {
        let report = self.running.ask("r");
        number_behind(&report, "fds")
    }

    /// It lives, and has no more descriptors than at the beginning, soon.
    fn check(&mut self, what: &str) {
        let are_closed = || (self.count() <= self.descriptors).then_some(());
        let closed = wait::poll(PATIENCE, are_closed);
        assert!(closed.is_some(), "{what}: descriptors are left");
    }

    /// A sound client, from a port of its own or from any (0).
    fn talk(&self, own_port: &str) -> Running {
        Running::start(&["talk", &self.port, own_port, ROUNDS], true, None)
    }
}

fn number_behind(text: &str, word: &str) -> u64 {
    let mut words = text.split_ascii_whitespace();
    let found = words.find(|it| *it == word).and(words.next());
    found
        .unwrap_or_else(|| panic!("no {word} in `{text}`"))
        .parse()
        .unwrap()
}

/// The sound client had all its answers, and none late.
fn check_talk(talk: Running, what: &str) -> String {
    let (said, whys) = talk.finish(what);
    assert!(said.starts_with("rounds"), "{what}: {said}");
    let slowest = Duration::from_micros(number_behind(&said, "slowest_us"));
    assert!(slowest < LONGEST, "{what}: an answer took {slowest:?}");
    whys
}

fn attack(words: &[&str]) -> Running {
    Running::start(words, false, None)
}

#[test]
fn what_the_other_end_leaves_at_the_rendezvous_socket() {
    let kinds = [
        "sound",
        "nothing",
        "no-proof",
        "pipe",
        "folder",
        "file",
        "tmpfs",
        "readonly",
        "short",
        "long",
        "shrinkable",
        "growable",
        "unwritable",
        "own-cookie",
        "other-cookie",
        "ring-size",
        "zeros",
        "half",
        "empty",
        "many",
        "file-proof",
        "other-proof",
        "slow-proof",
        "slow",
        "behind",
    ];
    let mut server = Server::start("events");
    for kind in kinds {
        let honest = server.talk("0");
        let greeter = attack(&["greet", kind, &server.port]);
        let (said, _) = greeter.finish(kind);
        assert_eq!(said, "left 1", "{kind}");
        let whys = check_talk(honest, kind);
        assert!(whys.contains(": accelerated"), "{kind}: {whys}");
        server.check(kind);
    }
}

/// Kinds of lies; see `sockets/lie.c`.
const LIES: [&str; 22] = [
    "head",
    "far-head",
    "short-bytes",
    "48-short-bytes",
    "dated-short-bytes",
    "many-short-bytes",
    "far-short-bytes",
    "tokens",
    "many-tokens",
    "bound",
    "far-epoch",
    "epoch-back",
    "tail",
    "reached",
    "in-line",
    "armed",
    "take-back",
    "leaving",
    "in-ring",
    "spoil",
    "spoil-slowly",
    "flap",
];

#[test]
fn lies_in_the_shared_memory() {
    let mut server = Server::start("events");
    for kind in LIES {
        let honest = server.talk("0");
        let (said, _) = attack(&["lie", kind, &server.port]).finish(kind);
        assert_eq!(said, "lied", "{kind}");
        check_talk(honest, kind);
        server.check(kind);
    }
}

#[test]
fn lies_to_threads_that_wait() {
    let mut server = Server::start("threads");
    let honest = server.talk("0");
    let liars = LIES.map(|kind| (kind, attack(&["lie", kind, &server.port])));
    for (kind, liar) in liars {
        assert_eq!(liar.finish(kind).0, "lied", "{kind}");
    }
    check_talk(honest, "all lies");
    server.check("all lies");
}

#[test]
fn promises_that_are_not_kept_hold_up_another_program_once() {
    let mut server = Server::start("events");
    let mut liars: Vec<_> = (0..6)
        .map(|_| attack(&["lie", "promise", &server.port]))
        .collect();
    for liar in &mut liars {
        assert_eq!(liar.line(), "upgraded");
    }
    assert_eq!(server.running.ask("u"), "unread");
    for liar in &mut liars {
        assert_eq!(liar.ask("x"), "lying");
    }
    let took = Duration::from_micros(number_behind(&server.running.ask("s"), "spawn_us"));
    // A second each would be six.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// How often both ends have gone from the ring to the line in all, as they say when they end.
fn falls_back(report: &str) -> u64 {
    let number = |line: &str| number_behind(&line.replace('=', " "), "stepped_back");
    report.lines().map(number).sum()
}

#[test]
fn lanes_change_thousands_of_times_under_load() {
    const CALLS: &str = "60000";
    const STEPS: u64 = 5000;
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("switches.txt");
    let mut most = 0;
    // With all processors busy elsewhere the receivers sleep often: then fewer steps are worth it.
    for _ in 0..3 {
        // What an earlier run has left.
        let _ = std::fs::remove_file(&report);
        let start = |words: &[&str]| Running::start_reporting(words, &report);
        let mut waits = start(&["switch", "wait", "0", CALLS]);
        let line = waits.line();
        let port = line.strip_prefix("serving ").unwrap();
        let dials = start(&["switch", "dial", port, CALLS]);
        let ends = [waits.finish("switch"), dials.finish("switch")]
            .map(|(said, _)| ["sent", "received"].map(|word| number_behind(&said, word)));
        assert_eq!(ends[0][0], ends[1][1]);
        assert_eq!(ends[1][0], ends[0][1]);
        most = most.max(falls_back(&std::fs::read_to_string(&report).unwrap()));
        if most >= STEPS {
            return;
        }
    }
    panic!("only {most} returns to the kernel in a connection");
}

/// A port that is free, below those that the kernel gives out.
fn free_port() -> String {
    let first = 20_000 + std::process::id() % 5_000;
    let is_free = |port: &u32| TcpListener::bind(("127.0.0.1", *port as u16)).is_ok();
    let found = (first..32_000).find(is_free);
    found.expect("a free port").to_string()
}

fn third_process(user: Option<u32>) {
    for kind in ["hold", "hold-slow", "visit", "visit-sound", "visit-slow"] {
        let what = format!("{kind} by {user:?}");
        let mut server = Server::start("events");
        let own_port = free_port();
        let words = ["squat", kind, &server.port, &own_port];
        let mut third = Running::start(&words, false, user);
        assert_eq!(third.line(), "there");
        let whys = check_talk(server.talk(&own_port), &what);
        server.check(&what);
        let said = third.ask("x");
        if kind.starts_with("hold") {
            assert!(number_behind(&said, "come") > 0, "{what}: {said}");
            assert_eq!(number_behind(&said, "taken"), 0, "{what}: {said}");
            assert!(whys.contains("could not prove"), "{what}: {whys}");
        }
    }
}

#[test]
fn a_third_process_of_the_same_user() {
    third_process(None);
}

#[test]
fn a_third_process_of_another_user() {
    let program = program().to_str().unwrap();
    if let Some(reason) = users::why_not(program) {
        return users::skip("a_third_process_of_another_user", reason);
    }
    third_process(Some(OTHER));
}
