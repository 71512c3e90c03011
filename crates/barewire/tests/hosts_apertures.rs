//! Apertures between hosts, over TCP on the loopback interface: nodes that are told to take each other for strangers.

#![forbid(unsafe_code)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    AccessError, Action, Aperture, ApertureConfig, ConnectOptions, Connection, Error, Event,
    HostsConfig, Listener, Memory, Mode, Node, NodeConfig, Port, RemoteAperture, Rights,
};
use barewire_sys::process::{Signal, open_fd_count};
use common::*;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("puppet") => puppet(),
        Some("again") => again_and_again(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

fn node() -> Node {
    Node::with_config(patient()).unwrap()
}

fn at_once() -> ConnectOptions {
    ConnectOptions {
        wait_for_name: false,
        ..ConnectOptions::default()
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed) % 251) as u8).collect()
}

/// A node that owns apertures, and reaches others as if they were on other hosts.
struct Owner {
    node: Node,
    listener: Listener,
    port: Port,
}

/// One that imports: its node, the connection, and the owner's end of it.
struct Importer {
    node: Node,
    connection: Box<Connection>,
    accepted: Connection,
}

impl Owner {
    fn new(of: &str) -> Owner {
        Owner::of(of, node())
    }

    fn of(of: &str, node: Node) -> Owner {
        let listener = node.listen(&name(of)).unwrap();
        let port = node.listen_on("127.0.0.1:0").unwrap();
        Owner {
            node,
            listener,
            port,
        }
    }

    fn importer(&self) -> Importer {
        self.importer_of(node())
    }

    fn importer_of(&self, node: Node) -> Importer {
        let address = format!("{}/{}", self.port.address(), self.listener.name());
        node.start_connect(&address, &at_once()).unwrap();
        let accepted = self.node.next_request(SOON).unwrap().accept().unwrap();
        let Some(Event::Connected(connection)) = node.next_event(SOON).unwrap() else {
            panic!("not connected");
        };
        Importer {
            node,
            connection,
            accepted,
        }
    }

    fn export(&self, len_bytes: usize, rights: Rights) -> Aperture {
        self.node
            .export(ApertureConfig::new(len_bytes, rights))
            .unwrap()
    }
}

impl Importer {
    fn grant(&self, aperture: &Aperture) -> RemoteAperture {
        self.accepted.grant(aperture, 5).unwrap();
        let (cookie, far) = self.connection.import(SOON).unwrap();
        assert_eq!(cookie, 5);
        far
    }
}

/// An owner in another process, which does nothing but obey, and an aperture of it.
fn owner_process(
    of: &str,
    len_bytes: usize,
    client: Node,
) -> (Child, Node, Box<Connection>, RemoteAperture) {
    let mut puppet = spawn("puppet", &[("timeout_ms", "10000")]);
    let listened = name(of);
    puppet.must(&format!("listen {listened}"));
    let port = puppet.must("port");
    let address = format!("{port}/{listened}");
    client.start_connect(&address, &at_once()).unwrap();
    puppet.must("accept");
    let Some(Event::Connected(opened)) = client.next_event(SOON).unwrap() else {
        panic!("not connected");
    };
    puppet.must(&format!("grant 0 {len_bytes}"));
    let (_, far) = opened.import(SOON).unwrap();
    (puppet, client, opened, far)
}

/// While an owner polls, the descriptor of its link tells nothing. It is to tell again when the owner goes over to other things,
/// and not only with the next sign of life, which comes after 100 s here.
#[test]
fn an_owner_that_has_polled_need_not_go_on() {
    let _dog = watchdog("no more polls", LONG);
    let quiet = || NodeConfig {
        hosts: HostsConfig {
            timeout: Duration::from_secs(400),
            ..strangers()
        },
        ..NodeConfig::default()
    };
    let owner = Owner::of("no-more-polls", Node::with_config(quiet()).unwrap());
    let mut importer = owner.importer_of(Node::with_config(quiet()).unwrap());
    let aperture = owner.export(64, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    for round in 0..20_u64 {
        let (one, other) = (&mut importer.connection, &mut importer.accepted);
        let mut buffer = [0; 8];
        for _ in 0..100 {
            one.send(&round.to_le_bytes()).unwrap();
            while !matches!(other.try_recv(&mut buffer), Ok(Some(8))) {}
            other.send(&buffer).unwrap();
            while !matches!(one.try_recv(&mut buffer), Ok(Some(8))) {}
        }
        // Nobody drives the owner's end now but its own thread.
        assert_eq!(far.add(8, 1), Ok(round));
        // Nor is it asleep for ever for who sleeps on it.
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(other.recv(&mut [0; 8]), Ok(8)));
            one.send(&buffer).unwrap();
        });
    }
}

#[test]
fn an_owner_need_not_poll() {
    let _dog = watchdog("no poll", LONG);
    let (mut owner, client, _opened, far) = owner_process("no-poll", 1 << 20, node());
    assert_eq!(
        (far.len_bytes(), far.rights()),
        (1 << 20, Rights::ReadWrite)
    );
    let data = bytes(1, 300_000);
    far.put(100, &data).unwrap();
    far.store(8, 7).unwrap();
    let mut got = vec![0; data.len()];
    far.get(100, &mut got).unwrap();
    assert!(got == data);
    assert_eq!(far.add(8, 1), Ok(7));
    assert_eq!(far.compare_exchange(8, 8, 9), Ok(Ok(8)));
    assert_eq!(far.compare_exchange(8, 8, 9), Ok(Err(9)));
    assert_eq!(owner.must("load 0 8"), "9");
    // It tells of its stores, too.
    let action = Action::Enqueue { cookie: 3 };
    let trap = far.tripwire_on_owner(16, 8, Mode::Sticky, action).unwrap();
    owner.must("store 0 24 1");
    owner.must("store 0 16 1");
    let event = client.next_event(SOON).unwrap();
    assert!(
        matches!(event, Some(Event::Tripwire { cookie: 3, .. })),
        "{event:?}"
    );
    assert_eq!(far.load(16), Ok(1));
    drop(trap);
}

#[test]
fn nothing_outside_and_nothing_read_only_is_asked_for() {
    let owner = Owner::new("refused");
    let importer = owner.importer();
    let aperture = owner.export(1000, Rights::Read);
    let far = importer.grant(&aperture);
    assert_eq!(far.put(0, &[1]), Err(AccessError::ReadOnly));
    assert_eq!(far.add(0, 1), Err(AccessError::ReadOnly));
    let outside = |error| matches!(error, AccessError::OutOfRange { .. });
    assert!(far.get(999, &mut [0; 2]).is_err_and(outside));
    assert!(far.load(1000).is_err_and(outside));
    assert_eq!(far.load(4), Err(AccessError::Misaligned { offset: 4 }));
    let armed = far.tripwire_on_owner(996, 5, Mode::Sticky, Action::Wake);
    assert!(matches!(armed, Err(Error::Arm(_))), "{armed:?}");
    assert_eq!(far.load(0), Ok(0), "the link stands");
}

#[test]
fn transfers_in_the_background_are_complete_when_told() {
    let _dog = watchdog("bulk", LONG);
    let owner = Owner::new("bulk");
    let importer = owner.importer();
    let aperture = owner.export(3 << 20, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    let trap = aperture.tripwire(0, 3 << 20, Mode::Sticky, Action::Count);
    let trap = trap.unwrap();
    let data = bytes(2, (3 << 20) - 9);
    far.bulk_put(4, data.clone(), 1).unwrap();
    let completed = |cookie| match importer.node.next_event(SOON).unwrap() {
        Some(Event::Completion { cookie: c, result }) if c == cookie => result.unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(completed(1) == data);
    let mut there = vec![0; data.len()];
    aperture.get(4, &mut there).unwrap();
    assert!(there == data);
    assert_eq!(trap.count(), 1, "one put, though in pieces");
    far.bulk_get(4, data.len(), 2).unwrap();
    assert!(completed(2) == data);
}

#[test]
fn a_word_tells_of_long_puts_before_it() {
    let _dog = watchdog("order", LONG);
    const LEN: usize = 400_000;
    const ROUNDS: u64 = 40;
    let owner = Owner::new("order");
    let (writer, reader) = (owner.importer(), owner.importer());
    let aperture = owner.export(LEN + 16, Rights::ReadWrite);
    let (to_write, to_read) = (writer.grant(&aperture), reader.grant(&aperture));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                to_write.put(16, &[round as u8; LEN]).unwrap();
                to_write.store(0, round).unwrap();
                eventually("the round is over", || to_write.load(8) == Ok(round));
            }
        });
        let mut there = vec![0; LEN];
        for round in 1..=ROUNDS {
            let by_owner = round % 2 == 0;
            let memory: &dyn Memory = if by_owner { &aperture } else { &to_read };
            eventually("a word", || memory.load(0) == Ok(round));
            memory.get(16, &mut there).unwrap();
            assert!(there.iter().all(|b| *b == round as u8), "round {round}");
            to_read.store(8, round).unwrap();
        }
    });
}

/// Also while another thread keeps the queue full.
#[test]
fn a_message_tells_of_puts_before_it() {
    let _dog = watchdog("message", LONG * 2);
    const LEN: usize = 100_000;
    let owner = Owner::new("message");
    let mut importer = owner.importer();
    let aperture = owner.export(2 * LEN, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let data = vec![1; LEN];
            while !is_over.load(Ordering::SeqCst) {
                far.put(LEN, &data).unwrap();
            }
        });
        let (mut buffer, mut there) = ([0; 8], vec![0; LEN]);
        for round in 1..=200_u8 {
            let len = if round % 3 == 0 { LEN } else { 100 };
            far.put(0, &vec![round; len]).unwrap();
            if round % 2 == 0 {
                importer.connection.send(&[round]).unwrap();
                assert_eq!(importer.accepted.recv(&mut buffer), Ok(1));
            } else {
                eventually("room", || {
                    importer.connection.send_out_of_band(&[round]).unwrap()
                });
                loop {
                    let event = owner.node.next_event(SOON).unwrap();
                    if let Some(Event::OutOfBand { .. }) = event {
                        break;
                    }
                }
            }
            aperture.get(0, &mut there[..len]).unwrap();
            let right = there[..len].iter().all(|b| *b == round);
            if !right || round == 200 {
                is_over.store(true, Ordering::SeqCst);
            }
            assert!(right, "round {round}");
        }
    });
}

/// Threads that put without end hold up neither messages nor what is given back.
#[test]
fn puts_hold_up_no_other_traffic() {
    let _dog = watchdog("traffic", LONG * 2);
    let owner = Owner::new("traffic");
    let mut importer = owner.importer();
    let aperture = owner.export(1 << 20, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..2 {
            let (far, is_over) = (&far, &is_over);
            scope.spawn(move || {
                let data = vec![at as u8; 300_000];
                while !is_over.load(Ordering::SeqCst) {
                    far.put(at * 300_000, &data).unwrap();
                }
            });
        }
        let mut buffer = [0; 8];
        for round in 0..50_u64 {
            let small = owner.export(64, Rights::ReadWrite);
            importer.accepted.grant(&small, round).unwrap();
            let (cookie, far_small) = importer.connection.import(SOON).unwrap();
            assert_eq!(cookie, round);
            assert_eq!(far_small.add(0, 1), Ok(0));
            importer.connection.send(&round.to_le_bytes()).unwrap();
            let received = importer.accepted.recv_timeout(&mut buffer, SOON);
            assert_eq!(received, Ok(Some(8)));
            importer.accepted.send(&buffer).unwrap();
            let received = importer.connection.recv_timeout(&mut buffer, SOON);
            assert_eq!(received, Ok(Some(8)));
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn additions_from_two_hosts_and_the_owner_all_count() {
    let _dog = watchdog("additions", LONG * 2);
    const EACH: u64 = 2000;
    let owner = Owner::new("additions");
    let (one, other) = (owner.importer(), owner.importer());
    let aperture = owner.export(64, Rights::ReadWrite);
    let (far_one, far_other) = (one.grant(&aperture), other.grant(&aperture));
    let near: &(dyn Memory + Sync) = &aperture;
    let memories = [
        near, near, &far_one, &far_one, &far_one, &far_other, &far_other, &far_other,
    ];
    thread::scope(|scope| {
        for memory in memories {
            scope.spawn(move || {
                for _ in 0..EACH {
                    memory.add(24, 1).unwrap();
                }
            });
        }
    });
    for memory in [near, &far_one, &far_other] {
        assert_eq!(memory.load(24), Ok(8 * EACH));
    }
}

/// Every kind of access, again and again, until it fails; the errors.
fn errors_of_all(far: &RemoteAperture, began: &AtomicU64, end: impl FnOnce()) -> Vec<AccessError> {
    let long = vec![3; 200_000];
    let until_error = |access: &(dyn Fn() -> Result<(), AccessError> + Sync)| {
        for nth in 0.. {
            if let Err(error) = access() {
                return error;
            }
            if nth == 0 {
                // Relaxed: a count.
                began.fetch_add(1, Ordering::Relaxed);
            }
        }
        unreachable!()
    };
    let accesses: [&(dyn Fn() -> Result<(), AccessError> + Sync); 7] = [
        &|| far.put(64, &[1; 100]),
        &|| far.put(64, &long),
        &|| far.get(64, &mut vec![0; 200_000]),
        &|| far.load(0).map(drop),
        &|| far.store(8, 1),
        &|| far.add(16, 1).map(drop),
        &|| far.compare_exchange(24, 0, 1).map(drop),
    ];
    thread::scope(|scope| {
        let threads: Vec<_> = accesses
            .iter()
            .map(|access| scope.spawn(|| until_error(*access)))
            .collect();
        // Relaxed: a count.
        eventually("all have begun", || began.load(Ordering::Relaxed) == 7);
        end();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn a_killed_owner_is_told_to_all_who_wait() {
    let _dog = watchdog("killed owner", LONG);
    let (mut owner, client, _opened, far) = owner_process("killed-owner", 1 << 20, node());
    let trap = far.tripwire_on_owner(0, 8, Mode::Sticky, Action::Wake);
    let errors = errors_of_all(&far, &AtomicU64::new(0), || owner.kill());
    assert_eq!(errors, [AccessError::PeerGone; 7]);
    assert_eq!(far.load(0), Err(AccessError::PeerGone));
    assert_eq!(far.put(0, &[1]), Err(AccessError::PeerGone));
    drop(trap);
    // It may not have been told when it begins; then its end says so.
    let begun = far.bulk_get(0, 8, 1);
    let gone = Error::Access(AccessError::PeerGone);
    while let Ok(()) = begun {
        let event = client.next_event(SOON).unwrap().unwrap();
        if let Event::Completion { result, .. } = event {
            assert_eq!(result, Err(gone));
            return;
        }
    }
    assert_eq!(begun, Err(gone));
}

#[test]
fn an_owner_that_stops_stops_puts_and_is_lost_in_time() {
    let _dog = watchdog("stopped owner", LONG);
    let impatient = Node::with_config(spins(false)).unwrap();
    let (owner, _client, _opened, far) = owner_process("stopped-owner", 1 << 20, impatient);
    owner.signal(Signal::Stop);
    eventually("all its threads have stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", owner.pid())).unwrap();
        threads.map(Result::unwrap).all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap();
            stat.contains(") T ")
        })
    });
    let (begin, data) = (Instant::now(), vec![9; 1 << 20]);
    let mut taken = 0;
    while far.put(0, &data).is_ok() {
        taken += 1;
    }
    assert!(begin.elapsed() < LONG / 2, "{taken}");
    assert!(taken < 64, "{taken} MiB were taken for one who takes none");
    assert_eq!(far.load(0), Err(AccessError::PeerGone));
    owner.signal(Signal::Cont);
}

#[test]
fn a_revocation_ends_accesses_under_way() {
    let _dog = watchdog("revocation", LONG);
    let owner = Owner::new("revocation");
    let importer = owner.importer();
    let aperture = owner.export(1 << 20, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    let of_other = owner.export(64, Rights::ReadWrite);
    let other = importer.grant(&of_other);
    let mut kept = vec![0; 1 << 20];
    let errors = errors_of_all(&far, &AtomicU64::new(0), || {
        aperture.revoke().unwrap();
        aperture.get(0, &mut kept).unwrap();
    });
    assert_eq!(errors, [AccessError::Revoked; 7]);
    let mut after = vec![0; 1 << 20];
    aperture.get(0, &mut after).unwrap();
    assert!(after == kept, "stored after the revocation");
    assert_eq!(other.load(0), Ok(0), "others stand");
    drop(aperture);
    drop(far);
    assert_eq!(other.load(0), Ok(0));
}

#[test]
fn who_waits_for_the_owner_is_woken_by_its_end() {
    let _dog = watchdog("woken", LONG);
    let owner = Owner::new("woken");
    let importer = owner.importer();
    let aperture = owner.export(64, Rights::Read);
    let far = importer.grant(&aperture);
    let action = Action::Enqueue { cookie: 1 };
    let _trap = far.tripwire_on_owner(0, 8, Mode::Sticky, action).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(aperture);
            // Its node has to hear what it is told: nothing else is done with it.
            while !is_over.load(Ordering::SeqCst) {
                owner.node.next_event(Some(Duration::from_millis(1))).ok();
            }
        });
        let event = importer.node.next_event(SOON).unwrap();
        is_over.store(true, Ordering::SeqCst);
        assert!(
            matches!(event, Some(Event::Tripwire { cookie: 1, .. })),
            "{event:?}"
        );
    });
    assert_eq!(far.load(0), Err(AccessError::Revoked));
}

/// Whoever counts descriptors needs a process in which nothing else opens any.
#[test]
fn tripwires_and_apertures_can_be_had_again_and_again() {
    assert_eq!(spawn("again", &[]).end(), Some(0));
}

fn again_and_again() {
    let _dog = watchdog("again", LONG * 2);
    let owner = Owner::new("again");
    let importer = owner.importer();
    let mut before = 0;
    for round in 0..6 {
        for _ in 0..20 {
            let aperture = owner.export(8192, Rights::ReadWrite);
            let far = importer.grant(&aperture);
            let traps: Vec<_> = (0..10)
                .map(|at| far.tripwire_on_owner(at * 8, 8, Mode::Sticky, Action::Count))
                .collect::<Result<_, _>>()
                .unwrap();
            aperture.store(72, 1).unwrap();
            eventually("it is counted", || traps[9].count() == 1);
            assert_eq!(traps[8].count(), 0);
            far.store(0, 1).unwrap();
        }
        // What was given back is read by the owner when it polls.
        eventually("all is given back", || {
            let _ = owner.node.next_event(Some(Duration::from_millis(1)));
            let _ = importer.node.next_event(Some(Duration::from_millis(1)));
            let now = open_fd_count().unwrap();
            if round == 1 {
                before = now;
            }
            round < 2 || now <= before
        });
    }
}

#[test]
fn an_aperture_can_be_granted_again_once_it_was_given_back() {
    let _dog = watchdog("once more", LONG);
    let owner = Owner::new("once-more");
    let importer = owner.importer();
    let aperture = owner.export(64, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    far.put(0, &[7; 8]).unwrap();
    assert_eq!(
        importer.accepted.grant(&aperture, 6),
        Err(Error::GrantedAlready)
    );
    drop(far);
    eventually("it is given back", || {
        let _ = owner.node.next_event(Some(Duration::from_millis(1)));
        importer.accepted.grant(&aperture, 6).is_ok()
    });
    let (_, again) = importer.connection.import(SOON).unwrap();
    assert_eq!(again.load(0), Ok(u64::from_ne_bytes([7; 8])));
}

#[test]
fn puts_that_were_accepted_are_stored_though_the_importer_goes() {
    let _dog = watchdog("goes", LONG);
    let owner = Owner::new("goes");
    let importer = owner.importer();
    let aperture = owner.export(1 << 20, Rights::ReadWrite);
    let far = importer.grant(&aperture);
    let data = bytes(5, 1 << 20);
    far.put(0, &data).unwrap();
    drop(far);
    drop(importer);
    let mut there = vec![0; 1 << 20];
    eventually("all of it", || {
        aperture.get(0, &mut there).unwrap();
        there == data
    });
}
