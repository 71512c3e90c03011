//! A service under attack: it lives, its honest clients notice little, it names what was
//! done to it, and afterwards it has what it had before.
//!
//! `BAREWIRE_MUTATIONS` says how many words and messages are spoiled in all,
//! `BAREWIRE_SEED` with which seed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barewire::{ConnectOptions, Node};
use barewire_hostile::attack::KINDS;
use barewire_hostile::{users, wait};
use barewire_sys::process::{SpawnOpts, own_credentials, spawn_with};
use barewire_units::Rng;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire-hostile");
const HONEST: usize = 3;
/// What the honest may wait for an answer under attack: on a machine with few processors
/// most of it is spent waiting for one.
const P99_MAX: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(20);

struct Victim {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    name: String,
}

type Report = BTreeMap<String, u64>;

impl Victim {
    fn start(name: &str) -> Victim {
        let name = format!("{name}-{}", std::process::id());
        let mut command = Command::new(PROGRAM);
        command.args(["victim", &name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let opts = SpawnOpts {
            pdeathsig: false,
            ..SpawnOpts::default()
        };
        let mut child = spawn_with(&mut command, opts).unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "serving\n");
        Victim {
            child,
            stdin,
            stdout,
            name,
        }
    }

    fn report(&mut self) -> Report {
        self.check();
        self.stdin.write_all(b"report\n").unwrap();
        let mut report = Report::new();
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if line == "end" {
                break;
            }
            let (key, value) = line
                .rsplit_once('=')
                .or_else(|| line.rsplit_once(' '))
                .unwrap_or_else(|| panic!("`{line}` in a report"));
            report.insert(key.to_owned(), value.parse().unwrap());
        }
        let pages = barewire_sys::discover::find_counter_pages();
        let pid = self.child.id() as i32;
        if let Some(page) = pages.iter().find(|p| p.pid == pid) {
            let region = barewire_sys::discover::open_counter_page(pid, page.fd_number).unwrap();
            let view = barewire_shm::counters::CounterView::open(&region).unwrap();
            for (counter, name) in barewire_shm::counters::QUEUE_COUNTERS {
                report.insert(format!("node: {name}"), view.queue_counter(counter));
            }
        }
        report
    }

    fn check(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the victim is gone: {status}");
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients that send and want the same back.
struct Honest {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    nanoseconds: Arc<Mutex<Vec<u64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Honest {
    fn start(name: &str) -> Honest {
        let honest = Honest {
            stop: Arc::default(),
            rounds: Arc::default(),
            nanoseconds: Arc::default(),
            threads: Vec::new(),
        };
        let threads = (0..HONEST).map(|i| {
            let (stop, rounds) = (Arc::clone(&honest.stop), Arc::clone(&honest.rounds));
            let (name, nanoseconds) = (name.to_owned(), Arc::clone(&honest.nanoseconds));
            std::thread::spawn(move || client(&name, i as u64, &stop, &rounds, &nanoseconds))
        });
        let threads = threads.collect();
        Honest { threads, ..honest }
    }

    /// Rounds and latencies (median, 99th of a hundred, longest) since last asked.
    fn take(&self) -> (usize, Duration, Duration, Duration) {
        let mut all = core::mem::take(&mut *self.nanoseconds.lock().unwrap());
        all.sort_unstable();
        let at = |part: usize| {
            let index = (all.len() * part / 100).min(all.len().saturating_sub(1));
            Duration::from_nanos(all.get(index).copied().unwrap_or(0))
        };
        (all.len(), at(50), at(99), at(100))
    }

    fn check(&self) {
        let dead = self.threads.iter().any(JoinHandle::is_finished);
        assert!(!dead, "an honest client has given up");
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("an honest client was harmed");
        }
    }
}

fn client(
    name: &str,
    number: u64,
    stop: &AtomicBool,
    rounds: &AtomicU64,
    latencies: &Mutex<Vec<u64>>,
) {
    let node = Node::new().unwrap();
    let mut rng = Rng::from_seed(number).fork("honest");
    let options = ConnectOptions {
        timeout: PATIENCE,
        // Room for the longest answer at once.
        ring_bytes: Some(128 << 10),
        ..ConnectOptions::default()
    };
    let mut connection = node.connect_with(name, &options).unwrap();
    let (mut message, mut buffer) = (vec![0; 40_000], vec![0; 40_000]);
    let mut count = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let len = match rng.below(64) {
            0 => 40_000,
            1..=8 => rng.in_range(16..=3000),
            _ => rng.in_range(16..=200),
        } as usize;
        rng.fill_bytes(&mut message[..len]);
        message[..8].copy_from_slice(&count.to_le_bytes());
        message[8..16].copy_from_slice(&number.to_le_bytes());
        let begun = Instant::now();
        let sender = connection.sender();
        sender
            .send_timeout(&message[..len], Some(PATIENCE))
            .unwrap();
        let got = connection
            .receiver()
            .recv_timeout(&mut buffer, Some(PATIENCE));
        let got = got.unwrap().expect("an answer in time");
        assert!(
            buffer[..got] == message[..len],
            "client {number} got another answer"
        );
        let took = begun.elapsed().as_nanos() as u64;
        latencies.lock().unwrap().push(took);
        rounds.fetch_add(1, Ordering::Relaxed);
        count += 1;
        // A new connection now and then: the front door has to work too.
        if count % 512 == 0 {
            connection = node.connect_with(name, &options).unwrap();
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

struct Attack {
    child: Child,
    what: String,
    begun: Instant,
}

impl Attack {
    fn start(victim: &Victim, kind: &str, user: Option<u32>, seed: u64, mutations: u64) -> Attack {
        let owner = own_credentials().uid;
        let mut command = Command::new(users::program(PROGRAM));
        command.args(["attack", &victim.name, &owner.to_string(), kind]);
        command.args([seed.to_string(), mutations.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        if kind == "die" {
            command.stderr(Stdio::null());
        }
        let opts = SpawnOpts {
            uid_gid: user.map(|uid| (uid, uid)),
            ..SpawnOpts::default()
        };
        Attack {
            child: spawn_with(&mut command, opts).unwrap(),
            what: format!("{kind} by user {}", user.unwrap_or(owner)),
            begun: Instant::now(),
        }
    }

    /// Waits for its end while the others are looked at; how many mutations it made.
    fn end(mut self, victim: &mut Victim, honest: &Honest) -> u64 {
        let mut rounds = honest.rounds.load(Ordering::Relaxed);
        let mut moved = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            victim.check();
            honest.check();
            let now = honest.rounds.load(Ordering::Relaxed);
            if now != rounds {
                (rounds, moved) = (now, Instant::now());
            }
            assert!(
                moved.elapsed() < PATIENCE,
                "{}: the victim hangs",
                self.what
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut line = String::new();
        let stdout = self.child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace().skip(1).step_by(2);
        let made = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        println!(
            "{:24} {:8.2?} {}",
            self.what,
            self.begun.elapsed(),
            line.trim_end()
        );
        assert!(made > 0, "{}: no attack", self.what);
        made
    }
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.replace('_', "").parse().expect("a number"),
        Err(_) => default,
    }
}

/// How the mutations are shared out.
fn shares(total: u64) -> Vec<(&'static str, u64)> {
    let weight = |kind: &str| match kind {
        "ring" => 50,
        "doorbell" => 20,
        "grant" | "mix" => 10,
        "memory" => 4,
        "control" => 2,
        _ => 0,
    };
    let sum: u64 = KINDS.iter().map(|k| weight(k)).sum();
    let share = |kind: &&'static str| {
        let part = total * weight(kind) / sum;
        let least = match *kind {
            "callee" => 100,
            "silent" => 1500,
            "flood" => 15_000,
            _ => 1000,
        };
        // Those that are slow get more of the longer runs, but not in proportion.
        let part = match *kind {
            "control" | "memory" => part.min(200_000),
            _ => part,
        };
        (*kind, part.max(least + total / 2000))
    };
    KINDS.iter().map(share).collect()
}

/// What of the attackers is still there.
fn left_over(before: &Report, after: &Report) -> Option<&'static str> {
    let grew = |key: &str| after.get(key).unwrap_or(&0).saturating_sub(before[key]);
    let honest = HONEST as u64;
    let kinds = [
        // Two are those of the thread that watches those who grant.
        ("descriptors", grew("descriptors") <= 2 + 2),
        // Eight imported apertures are held, of four each. Threads have stacks, and heaps of two each, the more of them the
        // more threads have contended for memory. What leaks with an attack would be hundreds.
        ("mappings", grew("mappings") <= 120),
        ("memory", grew("private_kib") < 150 << 10),
        ("links", after["node: links"] == honest),
        // An honest one may just be changing over to a new one.
        (
            "connections",
            (honest..=2 * honest).contains(&after["node: connections"]),
        ),
    ];
    kinds
        .into_iter()
        .find(|(_, fits)| !fits)
        .map(|(kind, _)| kind)
}

/// One at a time: they measure.
static TURN: Mutex<()> = Mutex::new(());

fn attack(users: &[Option<u32>]) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let total = number("BAREWIRE_MUTATIONS", 200_000) / 2;
    let seed = number("BAREWIRE_SEED", 1);
    println!("BAREWIRE_MUTATIONS={} BAREWIRE_SEED={seed}", total * 2);
    let mut victim = Victim::start(&format!("attacked-{}", users.len()));
    let honest = Honest::start(&victim.name);
    std::thread::sleep(Duration::from_millis(700));
    let (rounds, p50, p99, longest) = honest.take();
    println!("before: {rounds} rounds, p50 {p50:?}, p99 {p99:?}, longest {longest:?}");
    let before = victim.report();
    let begun = Instant::now();
    let mut made = 0;
    let mut worst = Duration::ZERO;
    let shares = shares(total);
    let only = std::env::var("BAREWIRE_ATTACK").ok();
    for (at, (kind, share)) in shares.iter().enumerate() {
        if only.as_deref().is_some_and(|only| only != *kind) {
            continue;
        }
        let count = users.len() as u64;
        let attacks: Vec<Attack> = users
            .iter()
            .enumerate()
            .map(|(i, user)| {
                let seed = seed * 1000 + at as u64 * 10 + i as u64;
                Attack::start(&victim, kind, *user, seed, share / count)
            })
            .collect();
        for attack in attacks {
            made += attack.end(&mut victim, &honest);
        }
        let (rounds, p50, p99, longest) = honest.take();
        println!("  honest: {rounds} rounds, p50 {p50:?}, p99 {p99:?}, longest {longest:?}");
        if rounds >= 100 {
            worst = worst.max(p99);
        }
    }
    println!("{made} mutations in {:?}", begun.elapsed());
    // What does not come back in time is named below.
    wait::poll(PATIENCE, || {
        left_over(&before, &victim.report()).is_none().then_some(())
    });
    honest.take();
    std::thread::sleep(Duration::from_millis(500));
    let (rounds, p50, p99, longest) = honest.take();
    println!("after: {rounds} rounds, p50 {p50:?}, p99 {p99:?}, longest {longest:?}");
    let after = victim.report();
    honest.check();
    honest.stop();
    for (key, value) in &after {
        println!("{key}: {value} (before: {})", before.get(key).unwrap_or(&0));
    }
    assert!(worst < P99_MAX, "p99 of the honest {worst:?}");
    assert!(rounds > 50, "{rounds} rounds when it was over");
    assert_eq!(left_over(&before, &after), None);
    if only.is_none() {
        assert!(after["node: violations"] > 100, "nothing was noticed");
        let named = after.keys().filter(|k| k.contains("misconduct")).count();
        assert!(named >= 8, "only {named} violations were named");
    }
}

#[test]
fn a_service_survives_attackers_of_its_own_user() {
    attack(&[None]);
}

#[test]
fn a_service_survives_attackers_of_other_users() {
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip("a_service_survives_attackers_of_other_users", reason);
    }
    attack(&[Some(users::OTHER), Some(users::OTHER + 1)]);
}
