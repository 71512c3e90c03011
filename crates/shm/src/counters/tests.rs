//! A page is written by a node and read from outside, in one process.

use super::*;

#[test]
fn what_is_written_is_read() {
    let region = Region::private(page_bytes(4));
    assert!(CounterView::open(&region).is_none());
    let identity = Identity {
        pid: 7,
        uid: 8,
        started_ns: 9,
        node_id: [1, 2],
    };
    let page = CounterPage::create(&region, 4, identity).unwrap();
    let view = CounterView::open(&region).unwrap();
    assert_eq!(view.identity(), identity);
    assert_eq!(view.slots_used(), 0);
    let about = SlotInfo {
        connection: 3,
        serial: 0x12_3456_789a,
        peer_connection: Some(0),
        peer_pid: 11,
        peer_uid: 12,
        remote: Some(0),
        ring_bytes_out: 4096,
        ring_bytes_in: 8192,
        region: Some(RegionPlace {
            fd_number: 0,
            offset_bytes: 8256,
        }),
        name: "a name that is longer than thirty-two bytes",
    };
    assert!(page.open_slot(4, &about).is_none());
    let slot = page.open_slot(2, &about).unwrap();
    slot.store(Counter::BytesIn, 77);
    slot.store_reader(1 << 40);
    page.add(QueueCounter::Events, 5);
    let copy = view.slot(2).unwrap();
    assert_eq!((copy.connection, copy.peer_pid, copy.peer_uid), (3, 11, 12));
    assert_eq!(
        (copy.state, copy.peer_connection),
        (1 << 32 | 0x56_789a << 8 | 1, Some(0))
    );
    assert_eq!(copy.remote, Some(0));
    assert_eq!((copy.ring_bytes_out, copy.ring_bytes_in), (4096, 8192));
    assert_eq!(copy.counters[Counter::BytesIn as usize], 77);
    assert_eq!((copy.region, copy.reader), (about.region, 1 << 40));
    assert_eq!(copy.name, "a name that is longer than thirt");
    assert_eq!(view.queue_counter(QueueCounter::Events), 5);
    assert_eq!(view.slots_used(), 3);
    slot.close();
    assert!(view.slot(2).is_none());
}

#[test]
fn a_slot_is_watched_until_another_connection_has_it() {
    let region = Region::private(page_bytes(2));
    let identity = Identity {
        pid: 7,
        uid: 8,
        started_ns: 9,
        node_id: [1, 2],
    };
    let page = CounterPage::create(&region, 2, identity).unwrap();
    let view = CounterView::open(&region).unwrap();
    let mut about = SlotInfo {
        connection: 1,
        serial: 5,
        peer_connection: Some(u32::MAX),
        peer_pid: 11,
        peer_uid: 12,
        remote: None,
        ring_bytes_out: 4096,
        ring_bytes_in: 4096,
        region: None,
        name: "name",
    };
    let slot = page.open_slot(1, &about).unwrap();
    slot.store(Counter::BytesOut, 77);
    let copy = view.slot(1).unwrap();
    // A number without room is not said.
    assert_eq!(copy.peer_connection, None);
    let watched = view.watch(1, copy.state).unwrap();
    assert_eq!(watched.counter(Counter::BytesOut), Some(77));
    slot.close();
    assert_eq!(watched.counter(Counter::BytesOut), None);
    about.serial = 6;
    let _slot = page.open_slot(1, &about).unwrap();
    assert_eq!(watched.counter(Counter::BytesOut), None);
    assert!(view.watch(2, copy.state).is_none());
    // What is free has no counters, whatever is asked for.
    assert_eq!(view.watch(0, 0).unwrap().counter(Counter::BytesIn), None);
}

#[test]
fn what_does_not_fit_or_was_never_said_is_not_told() {
    let far = RegionPlace {
        fd_number: 1,
        offset_bytes: 64 << 32,
    };
    let none = RegionPlace {
        fd_number: u32::MAX,
        offset_bytes: 0,
    };
    for place in [None, Some(far), Some(none)] {
        assert_eq!(RegionPlace::pack(place), (0, 0));
    }
    assert_eq!(RegionPlace::unpack(3, 4), None);
    assert_eq!(Placed::unpack(0), Placed::default());
    for huge_pages in [Huge::No, Huge::Tried, Huge::Required] {
        for numa_node in [None, Some(0), Some(u32::MAX)] {
            for locked in [false, true] {
                let placed = Placed {
                    locked,
                    numa_node,
                    huge_pages,
                };
                assert_eq!(Placed::unpack(placed.pack()), placed);
            }
        }
    }
}

#[test]
fn users_come_and_go() {
    let region = Region::private(page_bytes(1));
    let identity = Identity {
        pid: 7,
        uid: 8,
        started_ns: 9,
        node_id: [1, 2],
    };
    let page = CounterPage::create(&region, 1, identity).unwrap();
    let view = CounterView::open(&region).unwrap();
    let all: Vec<_> = (0..USERS_MAX as u32)
        .map(|uid| page.open_user(uid))
        .collect();
    assert!(all.iter().all(Option::is_some));
    assert!(page.open_user(99).is_none());
    let third = all[3].as_ref().unwrap();
    third.add(Held::Mappings, 5);
    third.sub(Held::Mappings, 3);
    let users = view.users();
    assert_eq!(users.len(), USERS_MAX);
    let held = [0, 0, 0, 2, 0, 0];
    assert_eq!(users[3], UserCopy { uid: 3, held });
    third.sub(Held::Mappings, 2);
    third.close();
    assert_eq!(view.users().len(), USERS_MAX - 1);
    assert!(page.open_user(u32::MAX).is_some());
    assert_eq!(view.users()[3].uid, u32::MAX);
}
