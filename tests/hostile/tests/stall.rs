//! Strangers who send descriptors whose close waits: nobody else waits for them.
//!
//! `BAREWIRE_STALL_SECONDS` says for how long the test of the tail is run.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barewire::{Connection, Event, ListenOptions, Node, Policy};
use barewire_hostile::stall::LINGER;
use barewire_hostile::users;
use barewire_sys::process::{SpawnOpts, own_credentials, spawn_with};

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire-hostile");
/// Far more than a turn takes on a machine under contention, and far less than one close.
const TURN_MAX: Duration = Duration::from_secs(2);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn name(what: &str) -> String {
    format!("stall-{what}-{}", std::process::id())
}

fn stranger(name: &str, time: Duration) -> Child {
    let mut command = Command::new(PROGRAM);
    let owner = own_credentials().uid.to_string();
    command.args(["stall", name, &owner, &time.as_millis().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let opts = SpawnOpts {
        uid_gid: Some((users::OTHER, users::OTHER)),
        pdeathsig: false,
        ..SpawnOpts::default()
    };
    spawn_with(&mut command, opts).unwrap()
}

/// How often the stranger came.
fn visits(stranger: Child) -> u64 {
    let output = stranger.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("visits "));
    line.unwrap().parse().unwrap()
}

/// Serves in a thread: answers everything that comes. Gives the longest of its turns.
fn serve(node: &Node, stop: &AtomicBool) -> Duration {
    let (mut longest, mut events, mut buffer) = (Duration::ZERO, Vec::new(), [0; 64]);
    let mut clients: Vec<Connection> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let pause = Duration::from_millis(10);
        let begun = Instant::now();
        node.wait(&mut events, 64, Some(pause)).unwrap();
        for event in events.drain(..) {
            if let Event::Request(request) = event {
                clients.extend(request.accept());
            }
        }
        for client in &mut clients {
            while let Ok(Some(len)) = client.try_recv(&mut buffer) {
                let _ = client.try_send(&buffer[..len]);
            }
        }
        longest = longest.max(begun.elapsed().saturating_sub(pause));
    }
    longest
}

/// Round trips of an honest client until `done`: their times.
fn round_trips(connection: &mut Connection, mut done: impl FnMut() -> bool) -> Vec<Duration> {
    let (mut times, mut buffer) = (Vec::new(), [0; 64]);
    while !done() {
        let begun = Instant::now();
        connection.send(b"honest").unwrap();
        let receiver = connection.receiver();
        let len = receiver.recv_timeout(&mut buffer, PATIENCE).unwrap();
        assert_eq!(&buffer[..len.unwrap()], b"honest");
        times.push(begun.elapsed());
        std::thread::sleep(Duration::from_micros(200));
    }
    times
}

/// Another program with a node of its own, which a stranger can visit in place of ours.
struct Neighbour(Child);

impl Neighbour {
    fn start(name: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["victim", name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn_with(&mut command, SpawnOpts::default()).unwrap();
        let mut line = String::new();
        let said = child.stdout.as_mut().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        assert_eq!(line, "serving\n");
        Self(child)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What became of a node that a stranger visited, and of its client.
struct Attacked {
    longest_turn: Duration,
    /// The client's round trips without a stranger.
    undisturbed: Vec<Duration>,
    /// While a stranger visits a neighbour: it uses the same processors.
    beside: Vec<Duration>,
    /// While a stranger visits the node itself.
    attacked: Vec<Duration>,
}

/// Three times `time`: without a stranger, with one at a neighbour's, and with one at the node.
fn attack(policy: Policy, time: Duration) -> Attacked {
    let name = name("victim");
    let node = Node::new().unwrap();
    let listener = node.listen_with(&name, ListenOptions { policy }).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&node, &stop));
        let mut connection = Node::new().unwrap().connect(&name).unwrap();
        let until = Instant::now() + time;
        let undisturbed = round_trips(&mut connection, || Instant::now() > until);
        let mut visited = |name: &str| {
            let mut child = stranger(name, time);
            let times = round_trips(&mut connection, || child.try_wait().unwrap().is_some());
            let came = visits(child);
            println!("{came} visits, {} round trips", times.len());
            assert!(came > 5, "the stranger came {came} times");
            times
        };
        let neighbours_name = format!("{name}-neighbour");
        let neighbour = Neighbour::start(&neighbours_name);
        let beside = visited(&neighbours_name);
        drop(neighbour);
        let attacked = visited(&name);
        // Also who gives the name up does not wait.
        let begun = Instant::now();
        drop(listener);
        assert!(begun.elapsed() < TURN_MAX, "{:?}", begun.elapsed());
        stop.store(true, Ordering::Relaxed);
        Attacked {
            longest_turn: server.join().unwrap(),
            undisturbed,
            beside,
            attacked,
        }
    })
}

fn longest(of: &[Duration]) -> Duration {
    of.iter().copied().max().unwrap_or_default()
}

/// Both who is refused and who is let in.
#[test]
fn nobody_waits_for_what_a_stranger_sent() {
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip("nobody_waits_for_what_a_stranger_sent", reason);
    }
    for policy in [Policy::same_user(), Policy::anyone()] {
        let end = attack(policy.clone(), Duration::from_secs(2));
        let (turn, trip) = (end.longest_turn, longest(&end.attacked));
        println!("{policy:?}: longest turn {turn:?}, round trip {trip:?}");
        assert!(
            turn < TURN_MAX && TURN_MAX < LINGER,
            "{policy:?}: a turn of {turn:?}"
        );
        assert!(trip < TURN_MAX, "{policy:?}");
    }
}

/// The tail of an honest client's round trips under attack is as without a stranger, or as beside one
/// who uses the processors as much but visits somebody else. For a machine that has nothing else to do:
/// `cargo test --release -p barewire-hostile -- --ignored the_tail`.
#[test]
#[ignore = "a measurement, for a quiet machine"]
fn the_tail_of_the_honest_is_as_without_a_stranger() {
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip("the_tail_of_the_honest_is_as_without_a_stranger", reason);
    }
    let seconds = std::env::var("BAREWIRE_STALL_SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(60);
    let end = attack(Policy::same_user(), Duration::from_secs(seconds));
    let tail = |what: &str, mut times: Vec<Duration>| {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
        println!("{what}: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}");
        p999
    };
    let undisturbed = tail("undisturbed", end.undisturbed);
    let beside = tail("a stranger at a neighbour's", end.beside);
    let attacked = tail("a stranger at this node", end.attacked);
    let bound = 2 * undisturbed.max(beside);
    assert!(attacked < bound, "{attacked:?}, at most {bound:?}");
}
