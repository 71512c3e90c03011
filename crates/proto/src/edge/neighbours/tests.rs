//! The table of neighbours: who may change it, and that it stays small.

use std::string::ToString;
use std::vec;

use barewire_units::Graph;
use proptest::prelude::*;

use super::*;

const A: Ethernet = [2, 0, 0, 0, 0, 1];
const B: Ethernet = [2, 0, 0, 0, 0, 2];

fn host(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Duration::from_s(seconds)
}

fn table() -> Neighbours {
    Neighbours::new(HashKey::new([1, 2]))
}

/// A table that knows host 1 since second 0.
fn knowing() -> Neighbours {
    let mut all = table();
    assert_eq!(
        all.way(at(0), host(1)),
        (
            Way::Unknown,
            Some(Question {
                about: host(1),
                to: None
            })
        )
    );
    all.hold(host(1), vec![1]);
    assert_eq!(
        all.hear(at(0), host(1), A, true),
        Heard::Answer(vec![vec![1]])
    );
    all
}

#[test]
fn the_table_stays() {
    let graph = Graph::<NeighbourState>::new().to_string();
    let expected = "Asked --Answer--> Known\nKnown --Contradiction--> Old\nKnown --Timeout--> Old\n\
                    Old --Use--> Checked\nChecked --Answer--> Known\n";
    assert_eq!(graph, expected);
}

#[test]
fn nobody_answers() {
    let mut all = table();
    all.way(at(0), host(1));
    all.hold(host(1), vec![1]);
    let question = Some(Question {
        about: host(1),
        to: None,
    });
    assert_eq!(all.handle_time(at(0)), None);
    assert_eq!(all.handle_time(at(1)), question);
    assert_eq!(all.handle_time(at(1)), None);
    assert_eq!(all.handle_time(at(2)), question);
    assert_eq!(all.handle_time(at(3)), None);
    assert_eq!(
        (all.len(), all.take_dropped(), all.next_deadline()),
        (0, 1, None)
    );
    assert_eq!(all.take_unanswered(), [vec![1]]);
    assert!(all.take_unanswered().is_empty());
}

#[test]
fn an_address_is_used_and_asked_for_again() {
    let mut all = knowing();
    assert_eq!(all.way(at(29), host(1)), (Way::To(A), None));
    assert_eq!(all.handle_time(at(30)), None);
    assert_eq!(all.next_deadline(), None);
    let itself = Some(Question {
        about: host(1),
        to: Some(A),
    });
    assert_eq!(all.way(at(40), host(1)), (Way::To(A), itself));
    assert_eq!(all.way(at(40), host(1)), (Way::To(A), None));
    assert_eq!(all.handle_time(at(41)), itself);
    assert_eq!(all.handle_time(at(42)), itself);
    assert_eq!(
        all.handle_time(at(43)),
        Some(Question {
            about: host(1),
            to: None
        })
    );
    assert_eq!(all.hear(at(44), host(1), B, true), Heard::Answer(vec![]));
    assert_eq!(all.way(at(45), host(1)), (Way::To(B), None));
}

#[test]
fn what_comes_unasked_changes_no_address() {
    let mut all = table();
    assert_eq!(all.hear(at(0), host(1), A, true), Heard::Unasked);
    assert_eq!(all.len(), 0, "a stranger makes no entry");
    let mut all = knowing();
    assert_eq!(all.hear(at(1), host(1), B, true), Heard::Unasked);
    // It is asked at the next use.
    assert_eq!(
        all.way(at(2), host(1)),
        (
            Way::To(A),
            Some(Question {
                about: host(1),
                to: Some(A)
            })
        )
    );
    let mut all = knowing();
    all.hear(at(1), host(1), A, false);
    assert_eq!(all.way(at(2), host(1)), (Way::To(A), None));
    let mut asking = table();
    asking.way(at(0), host(1));
    for wrong in [BROADCAST, [0; 6], [3, 0, 0, 0, 0, 0]] {
        assert_eq!(asking.hear(at(0), host(1), wrong, true), Heard::Unasked);
    }
}

#[test]
fn the_table_is_bounded() {
    let mut all = table();
    for number in 0..5000_u32 {
        let address = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        all.way(at(0), address);
        assert!(all.asked <= ASKED_MAX && all.len() <= ASKED_MAX);
    }
    for number in 0..5000_u32 {
        let address = IpAddr::from((0x0b00_0000 + number).to_be_bytes());
        all.way(at(0), address);
        all.hear(at(0), address, A, true);
        assert!(all.len() <= ENTRIES_MAX);
    }
    for _ in 0..100 {
        all.way(at(0), host(9));
        all.hold(host(9), vec![0; 10]);
    }
    assert_eq!(
        all.table.get(&host(9)).map(|it| it.held.len()),
        Some(HELD_MAX)
    );
}

proptest! {
    #[test]
    fn any_calls_keep_the_table_right(calls in prop::collection::vec((0_u8..5, 0_u8..6, 0_u64..20, any::<bool>()), 0..200)) {
        let (mut all, mut now) = (table(), Instant::ORIGIN);
        for (what, last, seconds, flag) in calls {
            now = now.saturating_add(Duration::from_s(seconds));
            match what {
                0 => { all.way(now, host(last)); }
                1 => all.hold(host(last), vec![last]),
                2 => { all.hear(now, host(last), if flag { A } else { B }, flag); }
                _ => while all.handle_time(now).is_some() {},
            }
            let asked = all.table.values().filter(|it| it.state == NeighbourState::Asked).count();
            prop_assert_eq!(asked, all.asked);
            for (deadline, of) in &all.deadlines {
                prop_assert_eq!(all.table[of].deadline, Some(*deadline));
            }
            let with_deadline = all.table.values().filter(|it| it.deadline.is_some()).count();
            prop_assert_eq!(with_deadline, all.deadlines.len());
        }
    }
}

/// Where an instant goes no further, a deadline would never come. From another origin it does, when it should.
#[test]
fn deadlines_keep_their_distance_when_time_counts_from_a_later_origin() {
    let last = Instant::ORIGIN + Duration::MAX - Duration::from_s(1);
    let by = Duration::MAX - Duration::from_s(10);
    let [mut plain, mut moved] = [knowing(), knowing()];
    for all in [&mut plain, &mut moved] {
        assert_eq!(all.handle_time(last), None);
        assert!(matches!(
            all.way(last - Duration::from_s(1), host(1)),
            (Way::To(A), Some(_))
        ));
        assert!(matches!(all.way(last, host(2)), (Way::Unknown, Some(_))));
    }
    moved.rebase(by);
    loop {
        let at = plain.next_deadline();
        assert_eq!(at.map(|at| at - by), moved.next_deadline());
        let Some(at) = at.filter(|at| *at < Instant::ORIGIN + Duration::MAX) else {
            break;
        };
        assert_eq!(plain.handle_time(at), moved.handle_time(at - by));
    }
    // Where the one ends, the other goes on: nobody answers, and both are given up.
    for second in 0..100 {
        while moved
            .handle_time(last - by + Duration::from_s(second))
            .is_some()
        {}
    }
    assert_eq!((moved.len(), moved.next_deadline()), (0, None));
}
