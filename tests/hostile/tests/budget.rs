//! Budgets: what peers of another user use up here has limits, is counted, and is given back;
//! and a process that has run out of something stays alive.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use barewire::{Budget, ConnectOptions, Connection, ListenOptions, Node, NodeConfig, Policy};
use barewire_fabric::frame::region_bytes;
use barewire_hostile::link::Link;
use barewire_hostile::{users, wire};
use barewire_shm::counters::{CounterView, QueueCounter, UserCopy};
use barewire_sys::memory::{Memfd, SealSet};
use barewire_sys::process::{SpawnOpts, drop_privileges, fork_child, own_credentials, spawn_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire-hostile");
const LONG: Duration = Duration::from_secs(60);

const COUNTERS: [QueueCounter; 6] = [
    QueueCounter::ForeignLinks,
    QueueCounter::ForeignConnections,
    QueueCounter::ForeignPrivateBytes,
    QueueCounter::ForeignMappings,
    QueueCounter::ForeignDescriptors,
    QueueCounter::ForeignEvents,
];

fn small() -> Budget {
    Budget {
        links: 4,
        connections: 24,
        private_bytes: 128 << 10,
        mappings: 24,
        descriptors: 24,
        events: 24,
    }
}

fn name(what: &str) -> String {
    format!("budget-{what}-{}", std::process::id())
}

fn node_with(budget: Budget) -> Node {
    let config = NodeConfig {
        user_budget: budget.clone(),
        foreign_budget: budget,
        ..NodeConfig::default()
    };
    Node::with_config(config).unwrap()
}

fn listen(node: &Node, name: &str) -> barewire::Listener {
    let policy = Policy::anyone();
    node.listen_with(name, ListenOptions { policy }).unwrap()
}

/// The counters page of a node of this process, which has but one.
fn counters() -> CounterView {
    let pid = std::process::id() as i32;
    let pages = barewire_sys::discover::find_counter_pages();
    let mut views = pages.iter().filter(|page| page.pid == pid).map(|page| {
        let region = barewire_sys::discover::open_counter_page(pid, page.fd_number).unwrap();
        CounterView::open(&region).unwrap()
    });
    // A child has inherited the pages of nodes of other tests, too.
    let is_own = |view: &CounterView| view.identity().pid == pid.unsigned_abs();
    views.find(is_own).unwrap()
}

fn attacker(name: &str, kind: &str, seed: u64) -> Child {
    let owner = own_credentials().uid.to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["attack", name, &owner, kind, &seed.to_string(), "20000"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let opts = SpawnOpts {
        uid_gid: Some((users::OTHER, users::OTHER)),
        pdeathsig: false,
        ..SpawnOpts::default()
    };
    spawn_with(&mut command, opts).unwrap()
}

/// Random sequences of everything that an attacker can say, against a service that takes
/// requests and nothing else.
#[test]
fn no_budget_is_exceeded_and_all_is_given_back() {
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip("no_budget_is_exceeded_and_all_is_given_back", reason);
    }
    let seed = std::env::var("BAREWIRE_SEED").ok();
    let seed = seed.and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        barewire_sys::process::random_bytes(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    });
    println!("BAREWIRE_SEED={seed}");
    let child = fork_child(move || {
        under_attack(seed);
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

fn under_attack(seed: u64) {
    let name = name("random");
    let node = node_with(small());
    let _listener = listen(&node, &name);
    let view = counters();
    let b = small();
    let limits = [
        b.links,
        b.connections,
        b.private_bytes,
        b.mappings,
        b.descriptors,
        b.events,
    ];
    let mut most = [0; 6];
    let mut attackers: Vec<Child> = ["control", "grant", "silent", "flood", "mix"]
        .iter()
        .zip(seed..)
        .map(|(kind, seed)| attacker(&name, kind, seed))
        .collect();
    let mut held: Vec<Connection> = Vec::new();
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if let Ok(request) = node.next_request(Some(Duration::from_millis(1))) {
            held.extend(request.accept());
        }
        if held.len() > 16 {
            held.drain(..8);
        }
        for ((counter, limit), most) in COUNTERS.iter().zip(limits).zip(&mut most) {
            let now = view.queue_counter(*counter);
            assert!(now <= limit, "{counter:?} is {now} of {limit}");
            *most = now.max(*most);
        }
        for user in view.users() {
            assert_eq!(user.uid, users::OTHER);
            assert!(
                user.held
                    .iter()
                    .zip(limits)
                    .all(|(held, limit)| *held <= limit)
            );
        }
    }
    for attacker in &mut attackers {
        let _ = attacker.kill();
        attacker.wait().unwrap();
    }
    drop(held);
    println!("at most {most:?} of {limits:?}");
    assert!(
        view.queue_counter(QueueCounter::Refusals) > 0,
        "no limit was met"
    );
    let begun = Instant::now();
    while COUNTERS.iter().any(|c| view.queue_counter(*c) != 0) {
        let now = COUNTERS.map(|c| view.queue_counter(c));
        assert!(begun.elapsed() < LONG, "not given back: {now:?}");
        let _ = node.next_request(Some(Duration::from_millis(5)));
    }
    let nothing = |user: &UserCopy| user.held == [0; 6];
    assert!(view.users().iter().all(nothing), "{:?}", view.users());
}

/// What an attacker of another user does in a process of its own.
fn as_other(what: impl FnOnce() + Send) -> barewire_sys::process::ForkedChild {
    as_user(users::OTHER, what)
}

fn as_user(uid: u32, what: impl FnOnce() + Send) -> barewire_sys::process::ForkedChild {
    fork_child(move || {
        drop_privileges(uid, uid).unwrap();
        what();
        0
    })
    .unwrap()
}

fn run_node(node: &Node, time: Duration) {
    let until = Instant::now() + time;
    let mut held = Vec::new();
    while Instant::now() < until {
        let pause = Some(Duration::from_millis(5));
        if let Ok(Some(barewire::Event::Request(request))) = node.next_event(pause) {
            held.extend(request.accept());
        }
    }
}

/// Links with as many segments as they may have, from a process of another user.
fn map_all(name: &str, owner: u32) {
    let memory = Memfd::create("much", 4096).unwrap();
    memory.seal(SealSet::SHRINK | SealSet::GROW).unwrap();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let Some(mut link) = Link::connect(name, owner) else {
            break;
        };
        for number in 1..1024 {
            link.send(&wire::segment(number, 4096), &[memory.as_fd()]);
        }
        kept.push(link);
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// Mappings of this process.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().count()
}

#[test]
fn segments_do_not_use_up_all_mappings() {
    const TEST: &str = "segments_do_not_use_up_all_mappings";
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip(TEST, reason);
    }
    let name = name("segments");
    let child = fork_child(move || {
        let owner = own_credentials().uid;
        let node = Node::new().unwrap();
        let _listener = listen(&node, &name);
        let before = mappings();
        let attacker = as_other(|| map_all(&name, owner));
        let attack = std::thread::spawn(move || attacker.wait().unwrap());
        let mut most = 0;
        while !attack.is_finished() {
            run_node(&node, Duration::from_millis(5));
            most = most.max(mappings() - before);
        }
        println!("at most {most} mappings more");
        let max = Budget::of_one_user().mappings as usize;
        assert!((max / 2..max + 500).contains(&most), "{most}");
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

/// Private memory follows what the node allows, not what a peer names.
#[test]
fn a_ring_beyond_the_limit_is_refused_by_name() {
    const TEST: &str = "a_ring_beyond_the_limit_is_refused_by_name";
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip(TEST, reason);
    }
    let name = name("ring");
    let child = fork_child(move || {
        let owner = own_credentials().uid;
        let node = Node::new().unwrap();
        let _listener = listen(&node, &name);
        let view = counters();
        let attacker = as_other(|| name_large_rings(&name, owner));
        let attack = std::thread::spawn(move || attacker.wait().unwrap());
        let mut most = 0;
        while !attack.is_finished() {
            let none = node.next_request(Some(Duration::from_millis(1)));
            assert!(none.is_err(), "a request for a ring of 256 MiB");
            most = most.max(view.queue_counter(QueueCounter::ForeignPrivateBytes));
        }
        assert_eq!(attack.join().unwrap().code(), Some(0));
        assert!(most < 100_000, "{most} bytes");
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

fn name_large_rings(name: &str, owner: u32) {
    let mut link = Link::connect(name, owner).unwrap();
    let ring_bytes = 1_usize << 28;
    let memory = Memfd::create("large", region_bytes(ring_bytes).next_multiple_of(4096)).unwrap();
    memory.seal(SealSet::SHRINK | SealSet::GROW).unwrap();
    let segment = wire::segment(1, memory.len_bytes() as u64);
    link.send(&segment, &[memory.as_fd()]);
    for number in 0..100 {
        let region = (1, 0, ring_bytes as u32);
        let open = wire::open(number, region, 1, 100, name.as_bytes(), b"");
        link.send(&open, &[]);
    }
    let (mut refused, mut buffer, begun) = (0, [0; 8192], Instant::now());
    while refused < 100 {
        assert!(begun.elapsed() < LONG, "{refused} refused");
        let received = link.socket.recv(&mut buffer, &mut Vec::new()).unwrap();
        if let barewire_sys::socket::Received::Message(len) = received {
            let text = String::from_utf8_lossy(&buffer[..len]);
            refused += u32::from(buffer[0] == 5 && text.contains("ring"));
        }
    }
}

/// Long messages come in pieces, and are put together in private memory: on many connections
/// there may be no more of it than on one.
#[test]
fn messages_in_pieces_are_paid_for() {
    const TEST: &str = "messages_in_pieces_are_paid_for";
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip(TEST, reason);
    }
    let name = name("pieces");
    let child = fork_child(move || {
        let owner = own_credentials().uid;
        let private_bytes = 4 << 20;
        let node = node_with(Budget {
            private_bytes,
            ..Budget::of_one_user()
        });
        let _listener = listen(&node, &name);
        let view = counters();
        let attacker = as_other(|| send_until_refused(&name, owner));
        let attack = std::thread::spawn(move || attacker.wait().unwrap());
        let (mut held, mut most, mut buffer) = (Vec::new(), 0, [0; 64]);
        while !attack.is_finished() {
            if let Ok(request) = node.next_request(Some(Duration::from_millis(1))) {
                held.extend(request.accept());
            }
            for connection in &mut held {
                // Too small for any of them: each stays where it was put together.
                let received = connection.try_recv(&mut buffer);
                assert!(!matches!(received, Ok(Some(_))));
            }
            let now = view.queue_counter(QueueCounter::ForeignPrivateBytes);
            assert!(now <= private_bytes, "{now} bytes");
            most = most.max(now);
        }
        assert_eq!(attack.join().unwrap().code(), Some(0));
        assert!(most > private_bytes / 2, "{most} bytes");
        drop(held);
        let _ = node.next_request(Some(Duration::from_millis(100)));
        assert_eq!(view.queue_counter(QueueCounter::ForeignPrivateBytes), 0);
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}

fn send_until_refused(name: &str, owner: u32) {
    let node = Node::new().unwrap();
    let message = vec![7; 256 << 10];
    let mut kept = Vec::new();
    let refused = loop {
        let options = ConnectOptions {
            owner: Some(owner),
            ..ConnectOptions::default()
        };
        let sent = node
            .connect_with(name, &options)
            .and_then(|mut connection| {
                connection.send(&message)?;
                Ok(connection)
            });
        match sent {
            Ok(connection) => kept.push(connection),
            Err(error) => break error.to_string(),
        }
        assert!(kept.len() < 100, "nothing is refused");
    };
    assert!(refused.contains("private memory"), "{refused}");
}

/// In a child of its own, as each of these tests spoils its process: `limit` leaves little of
/// something to a node, which a stranger then asks for much. What it gives ends the shortage:
/// then an honest client is served.
fn starved<Lift: FnOnce()>(test: &str, limit: impl FnOnce() -> Lift + Send) {
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip(test, reason);
    }
    let name = name(test);
    let child = fork_child(move || {
        let owner = own_credentials().uid;
        let node = Node::new().unwrap();
        let _listener = listen(&node, &name);
        let (mut go, mut told) = UnixStream::pair().unwrap();
        let attacker = as_other(|| {
            // Not before there is little left.
            told.read_exact(&mut [0]).unwrap();
            map_all(&name, owner);
        });
        let lift = limit();
        go.write_all(&[1]).unwrap();
        run_node(&node, Duration::from_secs(2));
        drop(attacker);
        lift();
        serve_one(&node, &name, owner);
        0
    });
    let status = child.unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}: the node ended");
}

/// Answers an honest client.
fn serve_one(node: &Node, name: &str, owner: u32) {
    let client = fork_child(|| {
        let options = ConnectOptions {
            owner: Some(owner),
            timeout: LONG,
            ..ConnectOptions::default()
        };
        let node = Node::new().unwrap();
        let mut connection = node.connect_with(name, &options).unwrap();
        connection.send(b"honest").unwrap();
        let mut buffer = [0; 64];
        let len = connection.receiver().recv_timeout(&mut buffer, Some(LONG));
        assert_eq!(&buffer[..len.unwrap().unwrap()], b"honest");
        0
    });
    let mut request = node.next_request(Some(LONG)).unwrap().accept().unwrap();
    let mut buffer = [0; 64];
    let len = request.receiver().recv_timeout(&mut buffer, Some(LONG));
    request.send(&buffer[..len.unwrap().unwrap()]).unwrap();
    assert_eq!(client.unwrap().wait().unwrap().code(), Some(0));
}

#[test]
fn a_node_lives_without_mappings() {
    starved("a_node_lives_without_mappings", || {
        // Every other page is protected, so that no two mappings become one.
        let page = Memfd::create("page", 4096).unwrap();
        let mut kept = Vec::new();
        while let Ok(region) = page.map(barewire_sys::memory::Access::Read) {
            kept.push(region);
            if kept.len() % 2 == 0 {
                kept.extend(page.map(barewire_sys::memory::Access::ReadWrite).ok());
            }
        }
        // What an allocator needs.
        kept.truncate(kept.len().saturating_sub(40));
        assert!(kept.len() > 1000, "{}", kept.len());
        move || drop(kept)
    });
}

/// Lowers a limit of this process; what it gives raises it again.
fn limit_to(resource: Resource, most: u64) -> impl FnOnce() {
    let before = getrlimit(resource);
    let limit = Rlimit {
        current: Some(most),
        ..before
    };
    setrlimit(resource, limit).unwrap();
    move || setrlimit(resource, before).unwrap()
}

#[test]
fn a_node_lives_without_descriptors() {
    starved("a_node_lives_without_descriptors", || {
        let open = barewire_sys::process::open_fd_count().unwrap();
        limit_to(Resource::Nofile, open as u64 + 6)
    });
}

#[test]
fn a_node_lives_without_address_space() {
    starved("a_node_lives_without_address_space", || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
        // A little for the allocator.
        limit_to(Resource::As, pages * 4096 + (1 << 20))
    });
}

#[test]
fn a_node_lives_without_threads() {
    starved("a_node_lives_without_threads", || {
        // Root is not held to it.
        let me = users::OTHER + 1;
        drop_privileges(me, me).unwrap();
        let lift = limit_to(Resource::Nproc, 1);
        assert!(std::thread::Builder::new().spawn(|| ()).is_err());
        lift
    });
}

/// A process that may open few descriptors gives strangers some of them only.
#[test]
fn strangers_leave_a_node_descriptors_of_its_own() {
    const TEST: &str = "strangers_leave_a_node_descriptors_of_its_own";
    if let Some(reason) = users::why_not(PROGRAM) {
        return users::skip(TEST, reason);
    }
    let name = name("few");
    let child = fork_child(move || {
        let owner = own_credentials().uid;
        // Room for what one message can bring, beside what strangers may keep.
        let open = barewire_sys::process::open_fd_count().unwrap() as u64;
        let limit = open + 500;
        let _lift = limit_to(Resource::Nofile, limit);
        let node = Node::new().unwrap();
        let _listener = listen(&node, &name);
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        // A user of its own: the kernel holds what all of a user's processes have sent and nobody has
        // received against the limit of descriptors of the one that sends, which is low here.
        let attacker = as_user(users::OTHER + 2, || {
            let links: Vec<_> = (0..128)
                .map_while(|_| Link::connect(&name, owner))
                .collect();
            assert!(links.len() < 128, "nobody is refused");
            // The links stay until the node's side has counted them.
            theirs.write_all(&[0]).unwrap();
            theirs.read_exact(&mut [0]).unwrap();
        });
        let attack = std::thread::spawn(move || attacker.wait().unwrap());
        let view = counters();
        let mut most = 0;
        ours.set_nonblocking(true).unwrap();
        let mut is_over = false;
        while !is_over && !attack.is_finished() {
            is_over = ours.read(&mut [0]).is_ok();
            run_node(&node, Duration::from_millis(5));
            most = most.max(view.queue_counter(QueueCounter::ForeignDescriptors));
            // What the node's own program needs.
            let own = (0..100).map(|_| std::fs::File::open("/dev/null"));
            assert!(own.collect::<Vec<_>>().iter().all(Result::is_ok));
        }
        ours.write_all(&[0]).unwrap();
        assert_eq!(attack.join().unwrap().code(), Some(0));
        assert!((limit / 8..=limit / 4).contains(&most), "{most} of {limit}");
        serve_one(&node, &name, owner);
        0
    });
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
}
