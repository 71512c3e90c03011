//! `barewire lab emulate`: what it refuses; and as root, packets between namespaces, over a ring of 1991.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "common/seat.rs"]
mod seat;
#[path = "common/skip.rs"]
mod skip;

use seat::Seat;
use skip::skip;

/// Only a broken program takes so long.
const LONG: Duration = Duration::from_secs(120);
/// The two ends of a ring.
const RING: [&str; 7] = [
    "lab", "emulate", "cbn-ping", "--tap", "left=0", "--tap", "right=1",
];

fn emulate(arguments: &[&str]) -> Command {
    emulate_plan(RING[2], arguments)
}

fn emulate_plan(plan: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    let ring = [&RING[..2], &[plan], &RING[3..]].concat();
    command.args(ring).args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine lacks what it takes; then the test counts as skipped.
fn is_skipped(name: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(name, "network namespaces need root");
        return true;
    }
    let output = emulate(&["--duration", "1 ms"])
        .output()
        .expect("it starts");
    let said = text(&output.stderr);
    if !output.status.success() {
        skip(name, &format!("no emulation here: {}", said.trim()));
    }
    !output.status.success()
}

/// The numbers of the account: taken, given out, lost, inside.
fn account(output: &Output) -> [u64; 4] {
    let said = text(&output.stdout);
    let line = said.lines().find(|line| line.starts_with("packets: "));
    let line = line.unwrap_or_else(|| panic!("no report: {said}{}", text(&output.stderr)));
    let before = |words: &str| {
        let (head, _) = line.split_once(words).expect(words);
        let number = head.split_whitespace().last().expect("a number");
        number.parse().expect("a number")
    };
    [" taken", " given out", " lost", " inside"].map(before)
}

#[track_caller]
fn adds_up(output: &Output) -> [u64; 4] {
    let all @ [taken, given, lost, inside] = account(output);
    assert_eq!(taken, given + lost + inside, "{}", text(&output.stdout));
    all
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |arguments: &[&str], reason: &str| {
        let output = emulate(arguments).output().expect("it starts");
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(reason), "{said}");
    };
    refused(&["--tap", "left=2"], "two devices are named left");
    refused(&["--tap", "third=1"], "two devices at station 1");
    refused(&["--run", "middle=true"], "no TAP device middle");
    refused(&["--shell", "2"], "no TAP device 2");
    refused(&["--mtu", "9000"], "mtu: found 9000");
    refused(&["--tap", "far=64"], "stations: found 65");
    refused(&["--duration", "48 h"], "--duration: expected at most");
    refused(&["--lose", "2"], "lose: found 2");
    refused(&["--tap", "x"], "expected NAME=NODE");
    let plan = [
        "lab",
        "emulate",
        "rdma-ping",
        "--tap",
        "a=0",
        "--tap",
        "b=1",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    let output = command.args(plan).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(said.contains("rdma carries no packets"), "{said}");
}

/// Bytes of a file come out as they went in, and every packet is accounted for.
#[test]
fn a_transfer_over_tcp_arrives_whole() {
    const NAME: &str = "emulate::a_transfer_over_tcp_arrives_whole";
    if is_skipped(NAME) {
        return;
    }
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        return skip(NAME, "no python3");
    }
    let capture = scratch("transfer.pcapng");
    let server = "right=python3 -c 'import socket,hashlib\n\
        s=socket.create_server((\"10.0.0.2\",5000)); c,_=s.accept(); h=hashlib.sha256(); n=0\n\
        while True:\n d=c.recv(65536)\n if not d: break\n h.update(d); n+=len(d)\n\
        c.sendall(h.hexdigest().encode()); c.close()'";
    // The server may not listen yet.
    let client = "left=python3 -c 'import socket,hashlib,time\n\
        end=time.monotonic()+100\n\
        while True:\n try:\n  c=socket.create_connection((\"10.0.0.2\",5000)); break\n\
        \x20except ConnectionRefusedError:\n  assert time.monotonic()<end\n\
        d=bytes(i*7%251 for i in range(200000)); c.sendall(d); c.shutdown(1)\n\
        got=c.makefile().read(); assert got==hashlib.sha256(d).hexdigest(), got; print(\"whole\")'";
    let path = capture.to_string_lossy().into_owned();
    let arguments = ["--run", server, "--run", client, "--capture", &path];
    // Busy machines are late: that is for the report to say, not for this test.
    let bound = ["--bound", "1 h", "--lose", "0.0002"];
    let output = emulate(&arguments).args(bound).output().expect("it starts");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.contains("whole"), "{said}");
    let [taken, given, ..] = adds_up(&output);
    assert!(taken > 200 && given > 200, "{said}");
    let bytes = std::fs::read(&capture).expect("a capture");
    std::fs::remove_file(&capture).expect("removed");
    assert!(bytes.len() > 400_000, "{} bytes", bytes.len());
}

/// An echo request of ICMP with four bytes of data, and its answer.
const PING: &str = "left=python3 -c 'import socket,struct\n\
        s=socket.socket(socket.AF_INET,socket.SOCK_RAW,1); s.settimeout(100)\n\
        b=struct.pack(\"!BBHHH\",8,0,0,7,1)+bytes(4)\n\
        t=sum(struct.unpack(\"!6H\",b)); t=(t&65535)+(t>>16)\n\
        b=b[:2]+struct.pack(\"!H\",~t&65535)+b[4:]\n\
        s.sendto(b,(\"10.0.0.2\",0))\n\
        while s.recv(99)[20]!=0: pass\n\
        print(\"it is back\")'";

/// By the kernel of the other namespace.
#[test]
fn a_ping_comes_back() {
    const NAME: &str = "emulate::a_ping_comes_back";
    if is_skipped(NAME) {
        return;
    }
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        return skip(NAME, "no python3");
    }
    let arguments = ["--run", PING, "--bound", "1 h", "--host-era", "none"];
    let output = emulate(&arguments).output().expect("it starts");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        output.status.success() && said.contains("it is back"),
        "{said}"
    );
    let [taken, given, lost, inside] = adds_up(&output);
    assert!((taken, given, lost, inside) == (2, 2, 0, 0), "{said}");
}

/// Of each system, over hosts that are as slow as they were. A loop that polls always is as good as one that sleeps.
#[test]
fn a_ping_comes_back_over_each_network() {
    const NAME: &str = "emulate::a_ping_comes_back_over_each_network";
    if is_skipped(NAME) {
        return;
    }
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        return skip(NAME, "no python3");
    }
    let plans = [
        ("jetstream-ring", "Jetstream", "0 us"),
        ("penn-write", "Penn", "0 us"),
        ("kek-stream", "KEK", "0 us"),
        ("clan-ping", "CLAN", "1 s"),
    ];
    for (plan, system, poll) in plans {
        let arguments = ["--run", PING, "--bound", "1 h", "--poll", poll];
        let output = emulate_plan(plan, &arguments).output().expect("it starts");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{plan}: {said}");
        assert!(
            said.contains("it is back") && said.contains(system),
            "{plan}: {said}"
        );
        let [taken, given, lost, inside] = adds_up(&output);
        assert!((taken, given, lost, inside) == (2, 2, 0, 0), "{said}");
    }
}

/// Between a station of a ring and one on ATM, beyond an interworking unit: a ping, and a capture with frames and cells.
#[test]
fn packets_pass_the_interworking_unit() {
    const NAME: &str = "emulate::packets_pass_the_interworking_unit";
    if is_skipped(NAME) {
        return;
    }
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        return skip(NAME, "no python3");
    }
    let capture = scratch("interworking.pcapng");
    let path = capture.to_string_lossy().into_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(["lab", "emulate", "jetstream-interworking"]);
    command.args(["--tap", "left=0", "--tap", "right=4", "--capture", &path]);
    let ping = PING.replace("10.0.0.2", "10.0.0.5");
    command.args(["--run", &ping, "--bound", "1 h"]);
    // An idle ring that is so long has few events, and an unoptimised model keeps up with it.
    command.args([
        "--set",
        "inputs.length_m=100000",
        "--set",
        "inputs.ttrt=4 ms",
    ]);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        output.status.success() && said.contains("it is back"),
        "{said}"
    );
    let all = adds_up(&output);
    assert!(all == [2, 2, 0, 0], "{said}");
    // 32 bytes and LLC/SNAP are a cell each way.
    let counts = "1 frames into the unit, 1 cells out of it, 1 cells into it, 1 frames out of it";
    assert!(said.contains(counts), "{said}");
    let bytes = std::fs::read(&capture).expect("a capture");
    std::fs::remove_file(&capture).expect("removed");
    let has = |name: &str| {
        let mut parts = bytes.windows(name.len());
        assert!(parts.any(|part| part == name.as_bytes()), "no {name}");
    };
    has("ring 0, station 0 to 1");
    has("interworking unit to ATM switch");
    has("ATM switch to station 4");
}

#[test]
fn the_exit_code_says_whether_it_counts() {
    const NAME: &str = "emulate::the_exit_code_says_whether_it_counts";
    if is_skipped(NAME) {
        return;
    }
    let arguments = ["--run", PING, "--bound", "1 ns"];
    let output = emulate(&arguments).output().expect("it starts");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("INVALID") && said.contains("the run is invalid"),
        "{said}"
    );
    assert!(said.contains("it is back"), "{said}");
    let output = emulate(&["--run", "left=exit 3"])
        .output()
        .expect("it starts");
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("exit status: 3"),
        "{said}"
    );
}

/// Killed without a chance to tidy up: the kernel does.
#[test]
fn a_kill_leaves_nothing_behind() {
    const NAME: &str = "emulate::a_kill_leaves_nothing_behind";
    if is_skipped(NAME) {
        return;
    }
    let mut command = emulate(&["--run", "left=exec sleep 1000"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let namespace = namespace(&mut child);
    let program = waits_for(|| members(&namespace).first().copied());
    child.kill().expect("a child of ours");
    child.wait().expect("it ends");
    waits_for(|| (!Path::new(&format!("/proc/{program}")).exists()).then_some(()));
    // Nobody is in it, nobody holds it, and this process has it not either: it is gone with its device.
    waits_for(|| members(&namespace).is_empty().then_some(()));
    let names = std::fs::read_dir("/sys/class/net").expect("the devices here");
    let names: Vec<_> = names
        .filter_map(Result::ok)
        .map(|it| it.file_name())
        .collect();
    assert!(
        !names.iter().any(|name| name == "left" || name == "right"),
        "{names:?}"
    );
}

/// The namespace of the first device, as its inode says: what the command says of it is a descriptor.
fn namespace(child: &mut Child) -> PathBuf {
    let said = child.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(said).lines();
    let line = lines.find_map(|line| {
        let line = line.expect("text");
        let at = line.find("--net=")? + "--net=".len();
        Some(
            line[at..]
                .split_whitespace()
                .next()
                .expect("a path")
                .to_owned(),
        )
    });
    // Whatever else it says has somewhere to go.
    std::thread::spawn(move || {
        let mut rest = lines.map_while(Result::ok);
        while rest.next().is_some() {}
    });
    std::fs::read_link(line.expect("the path of a namespace")).expect("a namespace")
}

/// The processes that are in a namespace.
fn members(namespace: &Path) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc");
    let pids = all.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_in = |pid: &u32| {
        let link = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        link.is_ok_and(|link| link == namespace)
    };
    pids.filter(is_in).collect()
}

fn waits_for<T>(what: impl Fn() -> Option<T>) -> T {
    let from = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(from.elapsed() < LONG, "it does not happen");
        std::thread::yield_now();
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    folder.join(format!("{}-{name}", std::process::id()))
}

#[test]
fn the_live_view_draws_the_ring() {
    const NAME: &str = "emulate::the_live_view_draws_the_ring";
    if is_skipped(NAME) {
        return;
    }
    let mut command = emulate(&["--live", "--duration", "100 s"]);
    command.env("TERM", "xterm");
    let mut seat = Seat::start(command);
    seat.wait_for("frames");
    seat.wait_for("lateness");
    seat.press("q");
    assert!(seat.child.wait().expect("it ends").success());
}
