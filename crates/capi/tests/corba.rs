//! The transport for omniORB (`corba/`): programs that know nothing of it, and those of Debian's omniORB, over it.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use barewire::Node;

use common::{folder, installed, run, said, skipped, source};

/// Options for both ways in which omniORB hands calls to threads.
const THREADING: [&[&str]; 2] = [
    &["-ORBthreadPerConnectionPolicy", "1"],
    &["-ORBthreadPerConnectionPolicy", "0"],
];

/// Whether omniORB is installed. If not, the test counts as skipped.
fn has_omniorb(test: &str) -> bool {
    let on_path = |program: &str| {
        std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join(program).exists())
        })
    };
    let version = Command::new("pkg-config")
        .args(["--modversion", "omniORB4"])
        .output();
    let is_42 = version.is_ok_and(|output| output.stdout.starts_with(b"4.2."));
    let all = is_42
        && ["omniidl", "omniNames", "nameclt"]
            .iter()
            .all(|p| on_path(p));
    if !all {
        skipped(
            test,
            "no omniORB 4.2: install libomniorb4-dev, omniidl, omniorb, omniorb-nameserver, pkg-config",
        );
    }
    all
}

fn done(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

/// What is built once: the library, and the programs that use omniORB.
struct Built {
    library: PathBuf,
    programs: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let prefix = installed();
        // Without optimization, which takes most of the time.
        done(
            Command::new(source("../../scripts/install-corba.sh"))
                .env("PREFIX", prefix)
                .env("CXXFLAGS", "-O0 -Werror")
                .env_remove("DESTDIR")
                .env_remove("LIBDIR"),
        );
        let programs = folder().join("corba");
        fs::create_dir_all(&programs).expect("a folder");
        let sources = source("../../corba/tests");
        done(
            Command::new("omniidl")
                .args(["-bcxx", "-C"])
                .arg(&programs)
                .arg(sources.join("echo.idl")),
        );
        let compile = |what: &[&str], from: &[PathBuf], to: &str| {
            done(
                Command::new("c++")
                    .args(["-std=c++17", "-O0", "-g", "-Wall", "-pthread", "-I"])
                    .arg(&programs)
                    .args(from)
                    .arg("-o")
                    .arg(programs.join(to))
                    .args(what),
            );
        };
        let stub = programs.join("echo.o");
        compile(&["-c"], &[programs.join("echoSK.cc")], "echo.o");
        for program in ["server", "client"] {
            compile(
                &["-lomniORB4", "-lomniDynamic4", "-lomnithread"],
                &[sources.join(format!("{program}.cpp")), stub.clone()],
                program,
            );
        }
        Built {
            library: prefix.join("lib/libbarewire-omniorb.so"),
            programs,
        }
    })
}

/// A name that no other test has.
fn unused_name() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only counts.
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    format!("corba-{}-{number}", std::process::id())
}

/// A program with what it is told by variables, so that it can be started by another. Settings of the machine for omniORB
/// do not count.
fn program(path: &Path, preloaded: bool, config: &str) -> Command {
    let mut command = Command::new("env");
    command.arg(format!("OMNIORB_CONFIG={config}"));
    if preloaded {
        command.arg(format!("LD_PRELOAD={}", built().library.display()));
    }
    command.arg(path);
    command
}

fn client(preloaded: bool, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = program(&built().programs.join("client"), preloaded, "/dev/null");
    command.args(options).args(arguments);
    command
}

fn said_ok(output: &Output) -> bool {
    output.status.success() && output.stdout.ends_with(b"ok\n")
}

/// Runs a client that must end well.
#[track_caller]
fn call(options: &[&str], arguments: &[&str]) {
    let output = run(&client(true, options, arguments));
    assert!(said_ok(&output), "{arguments:?}: {}", said(&output));
}

/// What a program says, line by line. A thread reads it, so that a program that says nothing does not stop the test.
struct Lines(Receiver<String>);

impl Lines {
    fn of(output: impl Read + Send + 'static) -> Lines {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody may be interested any more. The program is not to wait for that.
                let _ = sender.send(line);
            }
        });
        Lines(receiver)
    }

    /// The next line; empty at the end.
    fn next(&self) -> String {
        match self.0.recv_timeout(Duration::from_secs(120)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => panic!("a program hangs"),
        }
    }

    /// The next line with this in it.
    fn next_with(&self, wanted: &str) -> String {
        loop {
            let line = self.next();
            assert!(!line.is_empty(), "it ended without {wanted:?}");
            if line.contains(wanted) {
                return line;
            }
        }
    }
}

/// A program that runs beside a test. It is killed when it is dropped.
struct Running {
    child: Child,
    output: Lines,
    complaints: Option<Lines>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = Lines::of(child.stdout.take().expect("its output"));
        let complaints = child.stderr.take().map(Lines::of);
        Running {
            child,
            output,
            complaints,
        }
    }

    /// The next line of its output; empty at the end.
    fn line(&self) -> String {
        self.output.next()
    }

    /// What it complains of, if that was asked for.
    fn complaints(&self) -> &Lines {
        self.complaints.as_ref().expect("standard error is a pipe")
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server, and the reference to what it serves.
struct Server {
    running: Running,
    reference: String,
    /// Under which it listens, if `start` has chosen that.
    name: String,
}

impl Server {
    fn start_with(mut command: Command, options: &[&str]) -> Server {
        command.args(options);
        let running = Running::start(command);
        let reference = running.line();
        assert!(reference.starts_with("IOR:"), "{reference}");
        Server {
            running,
            reference,
            name: String::new(),
        }
    }

    /// One on Barewire alone, unless the options add to that.
    fn start(options: &[&str]) -> Server {
        let name = unused_name();
        let mut command = program(&built().programs.join("server"), true, "/dev/null");
        command.args(["-ORBendPoint", &format!("giop:barewire:{name}")]);
        Server {
            name,
            ..Server::start_with(command, options)
        }
    }

    /// Has it end, which it must do well.
    #[track_caller]
    fn stop(mut self) {
        call(&[], &["stop", &self.reference]);
        assert_eq!(self.running.line(), "ended");
        assert!(self.running.child.wait().expect("ended").success());
    }
}

#[test]
fn calls_in_both_ways_of_threading() {
    if !has_omniorb("calls_in_both_ways_of_threading") {
        return;
    }
    for threading in THREADING {
        let server = Server::start(threading);
        let at_once = ["-ORBmaxGIOPConnectionPerServer", "20"];
        call(threading, &["call", &server.reference, "300"]);
        call(threading, &["large", &server.reference, "1048576"]);
        call(&at_once, &["threads", &server.reference, "8"]);
        call(&at_once, &["meet", &server.reference, "8"]);
        server.stop();
    }
}

/// How often threads of a process have slept, all together. Those that have ended do not count.
fn sleeps(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let of_task = |task: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}

/// The thread that serves the connection waits in the kernel itself, and not behind one that waits for new connections.
#[test]
fn a_call_after_a_pause_wakes_one_thread() {
    if !has_omniorb("a_call_after_a_pause_wakes_one_thread") {
        return;
    }
    let server = Server::start(THREADING[0]);
    // The thread of the connection lives as long as the client.
    let mut client = client(true, &[], &["pauses", &server.reference, "300"]);
    client.stderr(Stdio::null());
    let client = Running::start(client);
    assert_eq!(client.line(), "called");
    let before = sleeps(server.running.child.id());
    assert_eq!(client.line(), "paused");
    let slept = sleeps(server.running.child.id()) - before;
    // Two of them would be 600. Of the others some see the call while they still poll.
    assert!(slept < 500, "{slept}");
    drop(client);
    server.stop();
}

/// Several calls at a time share a connection: while one waits in the server, it must notice the next.
#[test]
fn calls_that_share_a_connection() {
    if !has_omniorb("calls_that_share_a_connection") {
        return;
    }
    for threading in THREADING {
        let server = Server::start(threading);
        let one = [
            "-ORBoneCallPerConnection",
            "0",
            "-ORBmaxGIOPConnectionPerServer",
            "1",
        ];
        call(&one, &["meet", &server.reference, "6"]);
        call(&one, &["threads", &server.reference, "6"]);
        server.stop();
    }
}

#[test]
fn calls_back() {
    if !has_omniorb("calls_back") {
        return;
    }
    let rule = "* barewire,bidir";
    for threading in THREADING {
        let options = [
            threading,
            &[
                "-ORBacceptBiDirectionalGIOP",
                "1",
                "-ORBserverTransportRule",
                rule,
            ],
        ];
        let server = Server::start(&options.concat());
        // Over a connection of the server's own, to another name.
        let own = format!("giop:barewire:{}", unused_name());
        let options = [threading, &["-ORBendPoint", &own]].concat();
        call(&options, &["call_back", &server.reference, "200"]);
        // Over the connection of the client: its own endpoint for TCP refuses everybody.
        let options = [
            threading,
            &[
                "-ORBofferBiDirectionalGIOP",
                "1",
                "-ORBclientTransportRule",
                rule,
                "-ORBserverTransportRule",
                "* none",
            ],
        ];
        call(&options.concat(), &["call_back", &server.reference, "200"]);
        server.stop();
    }
}

#[test]
fn a_reference_serves_who_has_the_transport_and_who_has_not() {
    if !has_omniorb("a_reference_serves_who_has_the_transport_and_who_has_not") {
        return;
    }
    // With the transport, nobody comes over TCP, though the reference has an address for that first.
    let tcp = ["-ORBendPoint", "giop:tcp:127.0.0.1:"];
    let strict = [&tcp[..], &["-ORBserverTransportRule", "* barewire"]].concat();
    let server = Server::start(&strict);
    call(&[], &["call", &server.reference]);
    let refused = run(&client(false, &[], &["call", &server.reference]));
    assert!(!said_ok(&refused));
    server.stop();

    let server = Server::start(&tcp);
    call(&[], &["call", &server.reference]);
    // Without it, and where the user does not want it.
    let without = run(&client(false, &[], &["call", &server.reference]));
    assert!(said_ok(&without), "{}", said(&without));
    let unwanted = ["-ORBclientTransportRule", "* tcp"];
    call(&unwanted, &["call", &server.reference]);
    server.stop();

    let server = Server::start(&[]);
    let unreachable = run(&client(false, &[], &["call", &server.reference]));
    assert_eq!(said(&unreachable), "TRANSIENT\n");
    server.stop();
}

/// The component of a reference that names the server is broken, or nobody listens under the name: the reference's address
/// for TCP serves.
#[test]
fn broken_references() {
    if !has_omniorb("broken_references") {
        return;
    }
    let server = Server::start(&["-ORBendPoint", "giop:tcp:127.0.0.1:"]);
    // The tag and the length, the order of bytes and the version of the layout, the length of the first text.
    let tag = server.reference.find("01005742").expect("the component");
    let (layout, text) = (tag + 18, tag + 24);
    let named: String = server.name.bytes().map(|b| format!("{b:02x}")).collect();
    let name = server.reference.find(&named).expect("the name");
    let changes = [
        (layout, "02"),
        (text, "ffffffff"),
        (text, "00000000"),
        (name, "58"),
    ];
    for (at, bytes) in changes {
        let mut broken = server.reference.clone();
        broken.replace_range(at..at + bytes.len(), bytes);
        assert_ne!(broken, server.reference);
        call(&[], &["call", &broken, "10"]);
        let barewire = ["-ORBclientTransportRule", "* barewire"];
        let nowhere = run(&client(true, &barewire, &["call", &broken]));
        assert_eq!(said(&nowhere), "TRANSIENT\n", "{at}: {bytes}");
    }
    server.stop();
}

/// Peers that are not ORBs, or break off: others are served as before.
#[test]
fn peers_that_are_no_orbs() {
    if !has_omniorb("peers_that_are_no_orbs") {
        return;
    }
    let node = Node::new().expect("a node");
    // Of a message that says it has 4 GiB, the beginning; and one that ends in its header.
    let long = b"GIOP\x01\x02\x01\x00\xf0\xff\xff\xff and so on";
    let told: [&[u8]; 5] = [b"", b"?", &[0; 4000], long, b"GIOP\x01\x02"];
    for threading in THREADING {
        let server = Server::start(threading);
        let mut open = Vec::new();
        for bytes in told {
            let mut stream = node.connect(&server.name).expect("a peer").into_stream();
            stream.write_all(bytes).expect("written");
            open.push(stream);
            // Messages, where a byte stream is expected.
            let mut connection = node.connect(&server.name).expect("a peer");
            connection.send(bytes).expect("sent");
            drop(connection);
            call(&[], &["call", &server.reference, "20"]);
        }
        drop(open);
        call(&[], &["call", &server.reference, "20"]);
        server.stop();
    }
}

#[test]
fn an_endpoint_from_a_file_of_settings() {
    if !has_omniorb("an_endpoint_from_a_file_of_settings") {
        return;
    }
    let file = folder().join("corba").join("omniORB.cfg");
    let path = built().programs.join("server");
    fs::write(
        &file,
        format!("endPoint = giop:barewire:{}\n", unused_name()),
    )
    .expect("written");
    let server = Server::start_with(program(&path, true, &file.to_string_lossy()), &[]);
    call(&[], &["call", &server.reference]);
    server.stop();
}

#[test]
fn a_name_that_is_taken_or_none() {
    if !has_omniorb("a_name_that_is_taken_or_none") {
        return;
    }
    let endpoint = format!("giop:barewire:{}", unused_name());
    let command = || program(&built().programs.join("server"), true, "/dev/null");
    let server = Server::start_with(command(), &["-ORBendPoint", &endpoint]);
    let long = format!("giop:barewire:{}", "n".repeat(81));
    for wrong in [&endpoint, &long, "giop:barewire:a:b", "giop:barewire:a/b"] {
        let output = run(command().args(["-ORBendPoint", wrong]));
        assert!(
            said(&output).contains("server: INITIALIZE"),
            "{wrong}: {}",
            said(&output)
        );
    }
    server.stop();
    // Without a name it gets one of its own.
    let server = Server::start_with(command(), &["-ORBendPoint", "giop:barewire:"]);
    call(&[], &["call", &server.reference]);
    server.stop();
}

#[test]
fn many_clients() {
    if !has_omniorb("many_clients") {
        return;
    }
    for threading in THREADING {
        let server = Server::start(threading);
        let mut clients = Vec::new();
        for _ in 0..30 {
            let command = client(true, &[], &["call", &server.reference, "100"]);
            clients.push(Running::start(command));
        }
        for client in &clients {
            assert_eq!(client.line(), "ok");
        }
        drop(clients);
        server.stop();
    }
}

#[test]
fn a_call_with_a_limit_of_time_ends_by_it() {
    if !has_omniorb("a_call_with_a_limit_of_time_ends_by_it") {
        return;
    }
    for threading in THREADING {
        let server = Server::start(threading);
        call(threading, &["late", &server.reference, "200"]);
        server.stop();
    }
}

/// A server that is killed while a call waits, or while calls go on: the client gets an exception at once.
#[test]
fn a_killed_server() {
    if !has_omniorb("a_killed_server") {
        return;
    }
    for what in ["hang", "for_ever"] {
        for threading in THREADING {
            let mut server = Server::start(threading);
            let mut command = client(true, threading, &[what, &server.reference]);
            command.stderr(Stdio::piped());
            let client = Running::start(command);
            assert_eq!(client.line(), "called");
            server.running.kill();
            assert_eq!(client.line(), "", "{what}: no exception");
            let exception = client.complaints().next();
            assert!(
                ["COMM_FAILURE", "TRANSIENT"].contains(&exception.as_str()),
                "{what}: {exception}"
            );
        }
    }
}

/// Clients that are killed while a call waits, or while calls go on: the server serves others, and ends well.
#[test]
fn killed_clients() {
    if !has_omniorb("killed_clients") {
        return;
    }
    for threading in THREADING {
        let server = Server::start(threading);
        for _ in 0..3 {
            for what in ["hang", "for_ever"] {
                let mut running = Running::start(client(true, &[], &[what, &server.reference]));
                assert_eq!(running.line(), "called");
                running.kill();
                call(&[], &["call", &server.reference, "20"]);
            }
        }
        server.stop();
    }
}

/// omniORB closes connections that are not used, while a thread waits for what comes on them.
#[test]
fn an_idle_connection_is_closed() {
    if !has_omniorb("an_idle_connection_is_closed") {
        return;
    }
    for threading in THREADING {
        let mut command = program(&built().programs.join("server"), true, "/dev/null");
        command
            .args(["-ORBendPoint", &format!("giop:barewire:{}", unused_name())])
            .args(["-ORBinConScanPeriod", "1", "-ORBscanGranularity", "1"])
            .args(["-ORBtraceLevel", "20"])
            .stderr(Stdio::piped());
        let server = Server::start_with(command, threading);
        let mut client = Running::start(client(true, &[], &["for_ever", &server.reference]));
        assert_eq!(client.line(), "called");
        let pid = client.child.id().to_string();
        done(Command::new("kill").args(["-STOP", &pid]));
        // It holds its end open, and says nothing.
        let closed = "Server close connection from giop:barewire";
        server.running.complaints().next_with(closed);
        client.kill();
        server.stop();
    }
}

#[test]
fn the_naming_service_of_omniorb() {
    if !has_omniorb("the_naming_service_of_omniorb") {
        return;
    }
    let data = folder().join("corba").join(unused_name());
    fs::create_dir_all(&data).expect("a folder");
    let mut command = program(Path::new("omniNames"), true, "/dev/null");
    command
        // A port is told, and not used: the endpoint takes the place of that for TCP.
        .args(["-start", "28109", "-datadir"])
        .arg(&data)
        .args(["-ORBendPoint", &format!("giop:barewire:{}", unused_name())])
        .stderr(Stdio::piped());
    let service = Running::start(command);
    let line = service.complaints().next_with("IOR:");
    let at = line.find("IOR:").expect("just seen");
    let given = format!("NameService={}", line[at..].trim_end());
    let given = ["-ORBInitRef", &given];
    let name_client = |arguments: &[&str]| {
        let mut command = program(Path::new("nameclt"), true, "/dev/null");
        let output = run(command.args(given).args(arguments));
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };

    let name = unused_name();
    let mut command = program(&built().programs.join("server"), true, "/dev/null");
    command
        .args(given)
        .args(["-ORBendPoint", &format!("giop:barewire:{}", unused_name())])
        .arg(&name);
    let server = Running::start(command);
    assert_eq!(server.line(), "registered");
    name_client(&["bind_new_context", "drawer"]);
    let listed = name_client(&["list"]);
    assert!(
        listed.contains("drawer/") && listed.contains(&name),
        "{listed}"
    );
    call(&given, &["call", &name, "50"]);
    name_client(&["remove_context", "drawer"]);
    call(&given, &["stop", &name]);
    assert_eq!(server.line(), "ended");
}
