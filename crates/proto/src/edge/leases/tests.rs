//! Who gets which port, and when it comes back.

use std::vec::Vec;

use barewire_units::Rng;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::super::packet::{Segment, tcp_flags};
use super::*;

const HOME: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 9));

fn limits() -> Limits {
    Limits {
        leases_max: 40,
        user_leases_max: 20,
        waits_max: 8,
        ports: 40_000..=40_029,
        ..Limits::default()
    }
}

fn leases() -> Leases {
    Leases::new(limits(), HashKey::new([3, 4]), Rng::from_seed(1))
}

fn peer(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

fn to_peer(last: u8, local_port: u16) -> Ask {
    Ask {
        local_port,
        ..Ask::connect(Protocol::Tcp, peer(last))
    }
}

/// Lets a connection be opened.
fn open(leases: &mut Leases, id: LeaseId) {
    let syn = Segment {
        sequence: 1,
        acknowledgment: 0,
        flags: tcp_flags::SYN,
        header_bytes: 20,
        payload_bytes: 0,
    };
    leases.get_mut(id).expect("a lease").track.from_client(&syn);
}

#[test]
fn ports_are_a_users() {
    let mut all = leases();
    let listen = |port: u16| Ask::listen(Protocol::Tcp, port, false);
    assert_eq!(
        all.grant(5, &listen(80), HOME),
        Err(Refusal::PortReserved(80))
    );
    assert!(all.grant(0, &listen(80), HOME).is_ok());
    let server = all.grant(5, &listen(8080), HOME).expect("a port");
    assert_eq!(
        all.grant(5, &listen(8080), HOME),
        Err(Refusal::PortTaken(8080))
    );
    assert_eq!(
        all.grant(6, &listen(8080), HOME),
        Err(Refusal::PortTaken(8080))
    );
    assert_eq!(
        all.grant(6, &to_peer(1, 8080), HOME),
        Err(Refusal::PortTaken(8080))
    );
    assert!(
        all.grant(6, &Ask::listen(Protocol::Udp, 8080, false), HOME)
            .is_ok(),
        "another protocol"
    );
    let accepted = all
        .grant(5, &to_peer(1, 8080), HOME)
        .expect("a connection of the server");
    assert_eq!(
        all.grant(5, &to_peer(1, 8080), HOME),
        Err(Refusal::PortTaken(8080))
    );
    all.end(Instant::ORIGIN, server);
    assert_eq!(
        all.grant(6, &listen(8080), HOME),
        Err(Refusal::PortTaken(8080))
    );
    all.end(Instant::ORIGIN, accepted);
    assert!(all.grant(6, &listen(8080), HOME).is_ok());
}

#[test]
fn a_port_comes_back_after_its_wait() {
    let mut all = leases();
    let id = all.grant(5, &to_peer(1, 5000), HOME).expect("a lease");
    open(&mut all, id);
    let ended = all.end(Instant::ORIGIN, id).expect("it was there");
    assert_eq!((ended.ending, all.waits()), (Ending::Abort, 1));
    assert_eq!(
        all.grant(5, &to_peer(1, 5000), HOME),
        Err(Refusal::TimeWait(5000))
    );
    assert_eq!(
        all.grant(6, &to_peer(2, 5000), HOME),
        Err(Refusal::TimeWait(5000))
    );
    let other = all
        .grant(5, &to_peer(2, 5000), HOME)
        .expect("to another peer");
    all.end(Instant::ORIGIN, other);
    let over = Instant::ORIGIN + Duration::from_s(60);
    assert_eq!(all.next_deadline(), Some(over));
    all.handle_time(over);
    assert_eq!((all.waits(), all.next_deadline()), (0, None));
    assert!(all.grant(6, &to_peer(1, 5000), HOME).is_ok());
}

#[test]
fn a_user_who_listens_may_open_anew() {
    let mut all = leases();
    all.grant(5, &Ask::listen(Protocol::Tcp, 5000, false), HOME)
        .expect("a port");
    let id = all.grant(5, &to_peer(1, 5000), HOME).expect("a lease");
    open(&mut all, id);
    all.end(Instant::ORIGIN, id);
    assert!(all.grant(5, &to_peer(1, 5000), HOME).is_ok());
    assert_eq!(all.waits(), 0);
}

#[test]
fn numbers_are_bounded() {
    let mut all = leases();
    let mut of_user = |user: u32, count: u8| -> Vec<_> {
        (0..count)
            .map(|last| all.grant(user, &to_peer(last, 0), HOME))
            .collect()
    };
    assert!(of_user(5, 20).iter().all(Result::is_ok));
    assert_eq!(of_user(5, 1), [Err(Refusal::TooManyOfUser(20))]);
    let others = of_user(6, 11);
    assert!(others[..10].iter().all(Result::is_ok));
    assert_eq!(others[10], Err(Refusal::NoPorts(30)));
    let listen = |port: u16| Ask::listen(Protocol::Udp, port, false);
    for port in 0..10 {
        all.grant(7, &listen(2000 + port), HOME).expect("a port");
    }
    assert_eq!(all.grant(7, &listen(3000), HOME), Err(Refusal::TooMany(40)));
    assert_eq!(all.len(), 40);
}

#[test]
fn too_many_waits_cut_the_oldest_short() {
    let mut all = leases();
    for last in 0..9 {
        let id = all
            .grant(5, &to_peer(last, 5000 + u16::from(last)), HOME)
            .expect("a lease");
        open(&mut all, id);
        let ended = all.end(Instant::ORIGIN, id).expect("it was there");
        assert_eq!(ended.cut_short, last == 8);
    }
    assert_eq!(all.waits(), 8);
    assert!(all.grant(6, &to_peer(0, 5000), HOME).is_ok());
}

proptest! {
    /// A plain model: after any calls, what is leased is what was granted and has not ended, and when all have ended
    /// and waited, nothing is left.
    #[test]
    fn nothing_is_lost(calls in prop::collection::vec((0_u8..6, 1_u32..4, 0_u8..3, 4990_u16..4996, any::<bool>()), 0..300)) {
        let (mut all, mut now, mut held) = (leases(), Instant::ORIGIN, Vec::new());
        for (what, user, last, port, flag) in calls {
            let port = if flag { 0 } else { port };
            let ask = match what {
                0 | 1 => to_peer(last, port),
                2 => Ask::listen(if flag { Protocol::Tcp } else { Protocol::Udp }, port, false),
                3 => {
                    if let Some(id) = held.pop() {
                        open(&mut all, id);
                        held.insert(0, id);
                    }
                    continue;
                }
                4 => {
                    if !held.is_empty() {
                        let id = held.remove(usize::from(port) % held.len());
                        prop_assert!(all.end(now, id).is_some());
                        prop_assert!(all.end(now, id).is_none());
                    }
                    continue;
                }
                _ => {
                    now = now.saturating_add(Duration::from_s(u64::from(last) * 20));
                    all.handle_time(now);
                    continue;
                }
            };
            if let Ok(id) = all.grant(user, &ask, HOME) {
                prop_assert!(!held.contains(&id));
                held.push(id);
                let lease = *all.get(id).expect("granted");
                prop_assert_eq!(lease.owner, user);
                let key = PortKey::of(lease.protocol, lease.local);
                let found = lease.flow().map_or(all.listening(&key), |flow| all.connected(&flow));
                prop_assert_eq!(found, Some(id));
                let others = held.iter().filter_map(|it| all.get(*it)).filter(|it| PortKey::of(it.protocol, it.local) == key);
                prop_assert!(others.into_iter().all(|other| other.owner == user), "a port is one user's");
            }
            prop_assert_eq!(all.len(), held.len());
        }
        for id in held {
            all.end(now, id);
        }
        all.handle_time(now.saturating_add(Duration::from_s(61)));
        prop_assert!(all.is_empty() && all.ports.is_empty() && all.users.is_empty());
        prop_assert!(all.connected.is_empty() && all.listening.is_empty() && all.waits() == 0);
    }
}

/// A port that begins to wait where instants end would wait for ever. From another origin it comes back in time.
#[test]
fn a_wait_at_the_end_of_time_ends_after_a_rebase() {
    let mut all = leases();
    let last = Instant::ORIGIN + Duration::MAX - Duration::from_s(100);
    let by = Duration::MAX - Duration::from_s(200);
    let id = all.grant(5, &to_peer(1, 40_000), HOME).expect("a lease");
    open(&mut all, id);
    assert!(all.end(last, id).is_some());
    assert_eq!(all.waits(), 1);
    all.rebase(by);
    let over = Instant::ORIGIN + Duration::from_s(100) + limits().time_wait;
    assert_eq!(all.next_deadline(), Some(over));
    all.handle_time(over - Duration::from_ns(1));
    assert_eq!(all.waits(), 1);
    all.handle_time(over);
    assert_eq!(all.waits(), 0);
    assert!(all.grant(6, &to_peer(1, 40_000), HOME).is_ok());
}
