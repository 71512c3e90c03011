//! The core beside plain models: the states by rules, the work queue by a log, flow control by two ends that exchange
//! messages, descriptors by their bytes.

use std::collections::VecDeque;
use std::string::ToString;
use std::vec::Vec;

use barewire_units::{Graph, Machine};
use proptest::prelude::*;

use super::credit::{Breach, Credit, Offered};
use super::descriptor::{self, Control, Limits, Operation, SEGMENTS_MAX, Segment, Side, status};
use super::protection::{Access, Region, Regions};
use super::queue::WorkQueue;
use super::state::{Posting, ViEvent, ViState};

const STATES: [ViState; 4] = [
    ViState::Idle,
    ViState::ConnectPending,
    ViState::Connected,
    ViState::Error,
];

const EVENTS: [ViEvent; 7] = [
    ViEvent::Request,
    ViEvent::Accept,
    ViEvent::Established,
    ViEvent::Refused,
    ViEvent::Disconnect,
    ViEvent::Lost,
    ViEvent::Fault,
];

/// The states as three facts.
fn facts(state: ViState) -> (bool, bool, bool) {
    let pending = state == ViState::ConnectPending;
    let connected = state == ViState::Connected;
    (pending, connected, state == ViState::Error)
}

/// Every pair of state and event, by rules of one line each.
#[test]
fn each_event_in_each_state() {
    for state in STATES {
        let (pending, connected, broken) = facts(state);
        let idle = !pending && !connected && !broken;
        for event in EVENTS {
            let expected = match event {
                ViEvent::Disconnect => Some((false, false, false)),
                ViEvent::Request => idle.then_some((true, false, false)),
                ViEvent::Accept => idle.then_some((false, true, false)),
                ViEvent::Established => pending.then_some((false, true, false)),
                ViEvent::Refused => pending.then_some((false, false, false)),
                ViEvent::Lost | ViEvent::Fault => connected.then_some((false, false, true)),
            };
            assert_eq!(state.on(event).map(facts), expected, "{state:?} {event:?}");
        }
        assert_eq!(state.posted_send() == Posting::Process, connected);
        assert_eq!(state.posted_send() == Posting::Flush, !connected);
        let receive = match (connected, broken) {
            (true, _) => Posting::Process,
            (_, true) => Posting::Flush,
            _ => Posting::Hold,
        };
        assert_eq!(state.posted_receive(), receive);
    }
    assert_eq!(ViState::TRANSITIONS.len(), 10);
}

#[test]
fn the_table_is_as_it_was() {
    let expected = "Idle --Request--> ConnectPending\n\
                    Idle --Accept--> Connected\n\
                    Idle --Disconnect--> Idle\n\
                    ConnectPending --Established--> Connected\n\
                    ConnectPending --Refused--> Idle\n\
                    ConnectPending --Disconnect--> Idle\n\
                    Connected --Disconnect--> Idle\n\
                    Connected --Lost--> Error\n\
                    Connected --Fault--> Error\n\
                    Error --Disconnect--> Idle\n";
    assert_eq!(Graph::<ViState>::new().to_string(), expected);
}

/// The queue as a log of all descriptors: whether each has begun, has ended, was told and was taken.
#[derive(Default)]
struct Log(Vec<[bool; 4]>);

const BEGUN: usize = 0;
const ENDED: usize = 1;
const TOLD: usize = 2;
const TAKEN: usize = 3;

impl Log {
    fn first(&self, is_it: impl Fn(&[bool; 4]) -> bool) -> Option<usize> {
        self.0.iter().position(is_it)
    }

    fn step(&mut self, queue: &mut WorkQueue<usize>, kind: u8, which: usize) {
        match kind {
            0 => {
                let held = self.0.iter().filter(|of| !of[TAKEN]).count();
                let expected = (held < 8).then_some(self.0.len() as u64);
                assert_eq!(queue.post(self.0.len()), expected);
                if expected.is_some() {
                    self.0.push([false; 4]);
                }
            }
            1 => {
                let next = self.first(|of| !of[BEGUN] && !of[ENDED]);
                let shown = queue.peek().map(|(number, &work)| (number, work));
                assert_eq!(shown, next.map(|at| (at as u64, at)));
                queue.begin();
                next.into_iter().for_each(|at| self.0[at][BEGUN] = true);
            }
            2 => {
                // Those that were taken out have ended, and their numbers mean nothing any more.
                if let Some(of) = self.0.get_mut(which) {
                    of[ENDED] = true;
                }
                let open = self.first(|of| !of[ENDED]).unwrap_or(self.0.len());
                let fresh = self.0[..open].iter().filter(|of| !of[TOLD]).count();
                assert_eq!(queue.end(which as u64), fresh);
                self.0[..open].iter_mut().for_each(|of| of[TOLD] = true);
            }
            _ => {
                let front = self.first(|of| !of[TAKEN]);
                let expected = front.filter(|&at| self.0[at][TOLD]);
                assert_eq!(queue.take(), expected);
                expected.into_iter().for_each(|at| self.0[at][TAKEN] = true);
            }
        }
        let held = self.0.iter().filter(|of| !of[TAKEN]).count();
        assert_eq!((queue.len(), queue.is_empty()), (held, held == 0));
        let not_ended = self.0.iter().filter(|of| !of[ENDED]).count();
        assert_eq!(queue.open_len(), not_ended);
        let open = self.first(|of| !of[ENDED]).map(|at| at as u64);
        assert_eq!(queue.first_open().map(|(number, _)| number), open);
    }
}

proptest! {
    #[test]
    fn a_work_queue_is_as_its_log(steps in proptest::collection::vec((0..4_u8, 0..30_usize), 0..200)) {
        let (mut log, mut queue) = (Log::default(), WorkQueue::new(8));
        for (kind, which) in steps {
            log.step(&mut queue, kind, which);
        }
    }

    /// Two ends: messages are never without a receive, and as long as there is a receive that was told, one can be sent.
    #[test]
    fn no_message_is_without_a_receive(steps in proptest::collection::vec(0..4_u8, 0..300)) {
        let (mut offered, mut credit) = (Offered::default(), Credit::default());
        let (mut numbers, mut messages) = (VecDeque::new(), 0);
        let (mut posted, mut sent, mut taken) = (0, 0, 0);
        for step in steps {
            match step {
                0 if posted - taken < 32 => {
                    offered.post();
                    posted += 1;
                }
                1 if credit.has() => {
                    credit.spend();
                    messages += 1;
                    sent += 1;
                }
                2 if messages > 0 => {
                    messages -= 1;
                    taken += 1;
                    prop_assert_eq!(offered.take(), Ok(()));
                }
                3 if !numbers.is_empty() => {
                    let number = numbers.pop_front().unwrap_or_default();
                    prop_assert_eq!(credit.hear(number, 32), Ok(()));
                }
                _ => {}
            }
            if offered.should_tell() {
                numbers.push_back(offered.number());
                offered.told();
            }
            prop_assert!(sent <= posted && taken <= sent);
        }
        // Nobody waits for ever: when all is delivered, whoever may not send has taken every receive that was posted.
        while let Some(number) = numbers.pop_front() {
            prop_assert_eq!(credit.hear(number, 32), Ok(()));
        }
        prop_assert!(credit.has() || sent == posted || posted - sent < 16 && taken < sent);
    }

    #[test]
    fn a_peer_that_lies_is_found_out(posts in 0..40_u32, number in any::<u32>()) {
        let mut offered = Offered::default();
        (0..posts).for_each(|_| offered.post());
        offered.told();
        for _ in 0..posts {
            prop_assert_eq!(offered.take(), Ok(()));
        }
        prop_assert_eq!(offered.take(), Err(Breach::NoReceive));
        let mut credit = Credit::default();
        prop_assert_eq!(credit.hear(number, 40).is_ok(), number <= 40);
        prop_assert_eq!(credit.hear(number.wrapping_add(41), 40), Err(Breach::Number));
    }

    #[test]
    fn memory_is_as_its_regions_say(
        start in 1..50_u64, len in 0..20_u64, handle in 0..3_u32,
        region in (1..50_u64, 1..30_u64, any::<bool>(), any::<bool>()), tag in 0..2_u64
    ) {
        let (from, len_bytes, rdma_write, rdma_read) = region;
        let mut regions = Regions::new();
        let region = Region { start: from, len_bytes, tag: 1, rdma_write, rdma_read };
        prop_assert_eq!(regions.register(region, 1), Some(1));
        prop_assert_eq!(regions.register(region, 1), None);
        let bytes_inside = (start..start + len).all(|at| (from..from + len_bytes).contains(&at));
        // No bytes lie where their place is inside, or just behind.
        let inside = bytes_inside && (from..=from + len_bytes).contains(&start);
        let usable = inside && handle == 1 && tag == 1;
        let allows = |how| regions.allows(handle, start, len, tag, how);
        prop_assert_eq!(allows(Access::Local), usable);
        prop_assert_eq!(allows(Access::RemoteWrite), usable && rdma_write);
        prop_assert_eq!(allows(Access::RemoteRead), usable && rdma_read);
        prop_assert!(!regions.allows(1, start, u64::MAX, 1, Access::Local));
    }
}

#[test]
fn memory_ends_where_addresses_end() {
    let mut regions = Regions::new();
    let region = |start, len_bytes| Region {
        start,
        len_bytes,
        tag: 1,
        rdma_write: true,
        rdma_read: true,
    };
    assert_eq!(regions.register(region(u64::MAX - 3, 8), 9), None);
    assert_eq!(regions.register(region(8, 0), 9), None);
    assert_eq!(regions.register(region(8, 8), 9), Some(1));
    assert!(regions.uses_tag(1) && !regions.uses_tag(2));
    assert!(!regions.deregister(1, 9) && regions.deregister(1, 8) && !regions.deregister(1, 8));
}

const LIMITS: Limits = Limits {
    transfer_bytes_max: 1000,
    rdma_read: true,
};

fn control(bits: u16, segments: u16, len_bytes: u32) -> Control {
    Control {
        segments,
        bits,
        immediate: 77,
        len_bytes,
    }
}

fn segment(len_bytes: u32) -> Segment {
    Segment {
        address: 64,
        handle: 3,
        len_bytes,
    }
}

#[test]
fn what_is_wrong_with_a_descriptor() {
    let two = [segment(400), segment(100)];
    let many = std::vec![segment(0); usize::from(SEGMENTS_MAX) + 1];
    let check = |side, control: Control, segments: &[Segment]| {
        descriptor::check(side, &control, segments, &LIMITS, |s| s.handle == 3)
            .map(|work| (work.operation, work.immediate, work.len_bytes))
    };
    let send = |control, segments| check(Side::Send, control, segments);
    let receive = |control, segments| check(Side::Receive, control, segments);
    // Right ones.
    let sent = Ok((Operation::Send, None, 500));
    assert_eq!(send(control(0, 2, 500), &two), sent);
    assert_eq!(
        send(control(4, 0, 0), &[]),
        Ok((Operation::Send, Some(77), 0))
    );
    let write = Ok((Operation::RdmaWrite, Some(77), 100));
    assert_eq!(send(control(5, 2, 100), &two), write);
    let read = Ok((Operation::RdmaRead, None, 100));
    assert_eq!(send(control(2 | 8, 2, 100), &two), read);
    let received = Ok((Operation::Receive, None, 500));
    assert_eq!(receive(control(4 | 8, 2, 9), &two), received);
    let room = [segment(900), segment(900)];
    assert_eq!(
        receive(control(0, 2, 0), &room),
        Ok((Operation::Receive, None, 1800))
    );
    // Wrong formats: reserved bits and operation, RDMA that receives, or without an address, too many segments.
    for wrong in [
        send(control(0x10, 2, 500), &two),
        send(control(3, 2, 500), &two),
        receive(control(1, 2, 500), &two),
        send(control(1, 0, 0), &[]),
        send(control(2 | 4, 2, 100), &two),
        send(control(0, SEGMENTS_MAX + 1, 0), &many),
        send(control(0, 3, 500), &two),
    ] {
        assert_eq!(wrong, Err(status::FORMAT));
    }
    // Wrong lengths.
    assert_eq!(send(control(0, 2, 499), &two), Err(status::LENGTH));
    assert_eq!(send(control(0, 2, 1800), &room), Err(status::LENGTH));
    // Memory of somebody else.
    let other = [
        segment(400),
        Segment {
            handle: 4,
            ..two[1]
        },
    ];
    assert_eq!(send(control(0, 2, 500), &other), Err(status::PROTECTION));
    assert_eq!(receive(control(0, 2, 0), &other), Err(status::PROTECTION));
    let no_reads = Limits {
        rdma_read: false,
        ..LIMITS
    };
    let read = descriptor::check(Side::Send, &control(2, 2, 100), &two, &no_reads, |_| true);
    assert_eq!(read, Err(status::FORMAT));
}

#[test]
fn descriptors_are_read_from_their_bytes() {
    let mut bytes = [0; descriptor::CONTROL_BYTES];
    bytes[12..16].copy_from_slice(&[2, 1, 0x0c, 0]);
    bytes[20..28].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let expected = Control {
        segments: 0x0102,
        bits: 0x0c,
        immediate: 0x0403_0201,
        len_bytes: 0x0807_0605,
    };
    assert_eq!(Control::read(&bytes), expected);
    let segment = Segment::read(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
    let expected = Segment {
        address: 1 | 2 << 32,
        handle: 3,
        len_bytes: 4,
    };
    assert_eq!(segment, expected);
}
