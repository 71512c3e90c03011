//! The owner of an aperture is killed, and the importer never polls its node: every kind of
//! access says so all the same, soon, and from then on.

#![forbid(unsafe_code)]

mod common;

use std::thread;
use std::time::{Duration, Instant};

use barewire::{
    AccessError, Action, Aperture, ApertureConfig, Connection, Error, Event, Memory, Mode, Node,
    RemoteAperture, Rights,
};
use barewire_sys::process::{Signal, fork_child, send_signal};
use common::*;

/// From the kill to the error, at most. It is some hundred microseconds on an idle machine.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
const APERTURE_BYTES: usize = 1 << 20;

#[test]
fn child_entry() {
    match role().as_deref() {
        Some("owner") => owner(),
        Some(other) => panic!("no role {other}"),
        None => return,
    }
    std::process::exit(0);
}

/// Grants an aperture to whoever connects, and waits to be killed.
fn owner() {
    let _dog = watchdog("owner", Duration::from_secs(100));
    let node = Node::with_config(spins(true)).unwrap();
    let _listener = node.listen(&arg("name")).unwrap();
    say("listening");
    let mut kept: Vec<(Connection, Aperture)> = Vec::new();
    let fork = arg("fork") == "yes";
    loop {
        let connection = node.next_request(None).unwrap().accept().unwrap();
        let config = ApertureConfig::new(APERTURE_BYTES, Rights::ReadWrite);
        let aperture = node.export(config).unwrap();
        connection.grant(&aperture, 1).unwrap();
        kept.push((connection, aperture));
        if fork {
            // It holds the sockets and the memory until it is killed, or for half a minute.
            let child = fork_child(|| {
                thread::sleep(Duration::from_secs(30));
                0
            });
            say(&child.unwrap().pid.to_string());
        }
    }
}

struct Importer {
    owner: Child,
    /// The child of the owner that lives on, if it has one.
    _left_behind: Option<LeftBehind>,
    connection: Connection,
    far: RemoteAperture,
    node: Node,
}

fn importer(of: &str, fork: bool) -> Importer {
    let name = name(of);
    let fork_arg = if fork { "yes" } else { "no" };
    let owner = spawn("owner", &[("name", &name), ("fork", fork_arg)]);
    assert_eq!(owner.hear(), "listening");
    let node = Node::with_config(spins(true)).unwrap();
    let connection = node.connect(&name).unwrap();
    let (_, far) = connection.import(SOON).unwrap();
    let left_behind = fork.then(|| LeftBehind(owner.hear().parse().unwrap()));
    Importer {
        owner,
        _left_behind: left_behind,
        connection,
        far,
        node,
    }
}

impl Importer {
    /// Kills the owner while `access` goes on; how long after that it first failed.
    fn killed_during(
        &mut self,
        mut access: impl FnMut(&Importer) -> Result<(), Error>,
    ) -> (Duration, Error) {
        for _ in 0..100 {
            access(self).unwrap();
        }
        self.owner.signal(Signal::Kill);
        let killed = Instant::now();
        loop {
            if let Err(error) = access(self) {
                return (killed.elapsed(), error);
            }
            assert!(killed.elapsed() < LONG, "still Ok after {LONG:?}");
        }
    }

    /// What every access says once it is known.
    fn says_so_everywhere(&self) {
        let far = &self.far;
        let mut byte = [0];
        let gone = AccessError::PeerGone;
        assert_eq!(far.put(0, &[1]), Err(gone));
        assert_eq!(far.get(0, &mut byte), Err(gone));
        assert_eq!(far.load(0), Err(gone));
        assert_eq!(far.store(0, 1), Err(gone));
        assert_eq!(far.add(0, 1), Err(gone));
        assert_eq!(far.compare_exchange(0, 0, 1), Err(gone));
        let gone = Error::Access(gone);
        assert_eq!(far.bulk_put(0, vec![1], 1), Err(gone.clone()));
        assert_eq!(far.bulk_get(0, 1, 1), Err(gone.clone()));
        let trap = far.tripwire(0, 8, Mode::Sticky, Action::Wake);
        assert_eq!(trap.err(), Some(gone));
        let died = Error::PeerDied {
            pid: self.owner.pid(),
        };
        assert_eq!(self.connection.send_out_of_band(b"x"), Err(died.clone()));
        let config = ApertureConfig::new(8, Rights::Read);
        let own = self.node.export(config).unwrap();
        assert_eq!(self.connection.grant(&own, 1), Err(died));
    }
}

/// A process to be killed.
struct LeftBehind(i32);

impl Drop for LeftBehind {
    fn drop(&mut self) {
        let _ = send_signal(self.0, Signal::Kill);
    }
}

type Access = fn(&Importer) -> Result<(), Error>;

/// Every access that can fail with the owner.
const ACCESSES: [(&str, Access); 6] = [
    ("put", |i| Ok(i.far.put(8, &[7; 100])?)),
    ("get", |i| Ok(i.far.get(8, &mut [0; 100])?)),
    ("load", |i| Ok(i.far.load(8).map(drop)?)),
    ("store", |i| Ok(i.far.store(8, 9)?)),
    ("add", |i| Ok(i.far.add(8, 9).map(drop)?)),
    ("compare-and-swap", |i| {
        Ok(i.far.compare_exchange(16, 0, 0).map(drop)?)
    }),
];

#[test]
fn every_access_says_that_the_owner_was_killed() {
    let _dog = watchdog("every access", Duration::from_secs(90));
    for fork in [false, true] {
        for (what, access) in ACCESSES {
            let mut importer = importer("dead-access", fork);
            let (took, error) = importer.killed_during(access);
            println!("{what}: told after {took:?}; owner's child lives: {fork}");
            assert_eq!(error, Error::Access(AccessError::PeerGone), "{what}");
            assert!(took < TOLD_WITHIN, "{what}: only after {took:?}");
            importer.says_so_everywhere();
        }
    }
}

#[test]
fn the_first_access_after_a_long_silence_says_so() {
    let _dog = watchdog("silence", Duration::from_secs(60));
    let mut importer = importer("dead-silent", false);
    importer.far.store(0, 5).unwrap();
    importer.owner.kill();
    // Nothing is called meanwhile: not even the access that would notice.
    thread::sleep(TOLD_WITHIN);
    assert_eq!(importer.far.load(0), Err(AccessError::PeerGone));
    importer.says_so_everywhere();
}

#[test]
fn bulk_transfers_say_that_the_owner_was_killed() {
    let _dog = watchdog("bulk", Duration::from_secs(60));
    for put in [true, false] {
        let mut importer = importer("dead-bulk", false);
        let mut transfers = 0;
        let (took, error) = importer.killed_during(|i| {
            let begun = match put {
                true => i.far.bulk_put(0, vec![1; APERTURE_BYTES], 1),
                false => i.far.bulk_get(0, APERTURE_BYTES, 1),
            };
            match begun {
                Err(Error::LimitReached { .. }) => Ok(()),
                begun => {
                    transfers += usize::from(begun.is_ok());
                    begun
                }
            }
        });
        assert_eq!(error, Error::Access(AccessError::PeerGone));
        assert!(took < TOLD_WITHIN, "only after {took:?}");
        // Those begun before end, well or not.
        let mut events = Vec::new();
        let mut results = Vec::new();
        eventually("the transfers end", || {
            importer.node.poll(&mut events, 1000).unwrap();
            results.extend(events.drain(..).filter_map(|event| match event {
                Event::Completion { result, .. } => Some(result),
                _ => None,
            }));
            results.len() == transfers
        });
        for result in results {
            match result {
                Ok(data) => assert_eq!(data.len(), APERTURE_BYTES),
                Err(error) => assert_eq!(error, Error::Access(AccessError::PeerGone)),
            }
        }
        importer.says_so_everywhere();
    }
}

#[test]
fn out_of_band_messages_and_grants_say_so_at_once() {
    let _dog = watchdog("out of band", Duration::from_secs(60));
    for fork in [false, true] {
        let mut importer = importer("dead-oob", fork);
        // Without an import, no thread watches: the call itself asks the kernel.
        let own = importer
            .node
            .export(ApertureConfig::new(8, Rights::Read))
            .unwrap();
        let pid = importer.owner.pid();
        importer.owner.kill();
        let died = Error::PeerDied { pid };
        assert_eq!(
            importer.connection.send_out_of_band(b"x"),
            Err(died.clone())
        );
        assert_eq!(importer.connection.grant(&own, 1), Err(died));
        importer.says_so_everywhere();
    }
}

#[test]
fn a_full_control_channel_does_not_hide_the_death() {
    let _dog = watchdog("congested", Duration::from_secs(60));
    let mut importer = importer("dead-congested", false);
    importer.owner.signal(Signal::Stop);
    while importer.connection.send_out_of_band(&[1; 4096]).unwrap() {}
    let pid = importer.owner.pid();
    importer.owner.kill();
    let said = importer.connection.send_out_of_band(b"x");
    assert_eq!(said, Err(Error::PeerDied { pid }));
}

#[test]
fn an_imported_aperture_keeps_its_node() {
    let _dog = watchdog("keeps", Duration::from_secs(60));
    let Importer {
        mut owner,
        connection,
        far,
        node,
        ..
    } = importer("dead-alone", false);
    drop((connection, node));
    far.store(0, 1).unwrap();
    owner.kill();
    eventually("the access says so", || {
        far.load(0) == Err(AccessError::PeerGone)
    });
}
