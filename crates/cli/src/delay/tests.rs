//! Which ends belong together, and real counters pages under the prober.

use std::time::{Duration, Instant};

use barewire_shm::Region;
use barewire_shm::counters::{
    CounterPage, CounterView, Identity, SlotCounters, SlotInfo, page_bytes,
};

use super::histogram::BUCKETS;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);
const SLOTS: u32 = 4;

/// A node, as it is seen, and its page.
struct FakeNode {
    pid: u32,
    region: Region,
    page: CounterPage,
    view: CounterView,
    /// Of the last connection.
    serial: std::cell::Cell<u64>,
}

impl FakeNode {
    fn new(pid: u32, id: u64) -> FakeNode {
        let region = Region::private(page_bytes(SLOTS));
        let identity = Identity {
            pid,
            uid: 0,
            started_ns: 0,
            node_id: [id, 0],
        };
        let page = CounterPage::create(&region, SLOTS, identity).expect("it is large enough");
        let view = CounterView::open(&region).expect("it was made");
        FakeNode {
            pid,
            region,
            page,
            view,
            serial: std::cell::Cell::new(0),
        }
    }

    fn connect(&self, number: u32, to: &FakeNode, peer: u32, name: &str) -> SlotCounters {
        self.serial.set(self.serial.get() + 1);
        let about = SlotInfo {
            connection: number,
            serial: self.serial.get(),
            peer_connection: Some(peer),
            peer_pid: to.pid,
            peer_uid: 0,
            remote: None,
            ring_bytes_out: 4096,
            ring_bytes_in: 4096,
            region: None,
            name,
        };
        self.page.open_slot(number, &about).expect("there is room")
    }

    fn sample(&self) -> NodeSample {
        let slots = (0..SLOTS).filter_map(|number| self.view.slot(number));
        NodeSample {
            pid: i32::try_from(self.pid).expect("it is small"),
            comm: "fake".to_owned(),
            uid: 0,
            id: format!("{:x}", self.view.identity().node_id[0]),
            age: Duration::ZERO,
            queue: Vec::new(),
            hosts: Vec::new(),
            hosts_uncounted: 0,
            connections: slots.collect(),
            view: Some(self.view.clone()),
        }
    }
}

fn sample(nodes: &[&FakeNode]) -> Sample {
    Sample {
        took: Duration::ZERO,
        nodes: nodes.iter().map(|node| node.sample()).collect(),
        processes: Vec::new(),
    }
}

/// Each pair as (node, number) of the sender and of the receiver.
fn found(nodes: &[&FakeNode]) -> Vec<[(usize, u32); 2]> {
    let nodes: Vec<NodeSample> = nodes.iter().map(|node| node.sample()).collect();
    let named = |place: pairs::Place| {
        let connection = &nodes[place.node].connections[place.connection];
        (place.node, connection.connection)
    };
    let pairs = pairs::pairs(&nodes).into_iter();
    let mut pairs: Vec<_> = pairs
        .map(|pair| [named(pair.sender), named(pair.receiver)])
        .collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn ends_are_paired_by_process_and_number() {
    let (one, other) = (FakeNode::new(10, 1), FakeNode::new(20, 2));
    one.connect(0, &other, 3, "a");
    one.connect(1, &other, 2, "b");
    other.connect(3, &one, 0, "a");
    // The name is not the same, and the other end of number 1 is not seen.
    other.connect(1, &one, 2, "b");
    assert_eq!(found(&[&one, &other]), [[(0, 0), (1, 3)], [(1, 3), (0, 0)]]);
    assert_eq!(found(&[&one]), [[(0, 0); 2]; 0]);
    // A node that is connected to itself.
    let own = FakeNode::new(30, 3);
    own.connect(0, &own, 1, "own");
    own.connect(1, &own, 0, "own");
    assert_eq!(found(&[&own]), [[(0, 0), (0, 1)], [(0, 1), (0, 0)]]);
}

#[test]
fn what_is_ambiguous_is_not_paired() {
    // Two nodes of one process, each connected to one of two nodes of another, with the same numbers.
    let nodes = [(10, 1), (10, 2), (20, 3), (20, 4)].map(|(pid, id)| FakeNode::new(pid, id));
    nodes[0].connect(0, &nodes[2], 0, "a");
    nodes[2].connect(0, &nodes[0], 0, "a");
    let all: Vec<&FakeNode> = nodes.iter().collect();
    assert_eq!(found(&all).len(), 2);
    nodes[1].connect(0, &nodes[3], 0, "a");
    nodes[3].connect(0, &nodes[1], 0, "a");
    assert_eq!(found(&all), [[(0, 0); 2]; 0]);
    // Two nodes of one process that are connected to each other.
    let pair = [FakeNode::new(30, 5), FakeNode::new(30, 6)];
    pair[0].connect(0, &pair[1], 0, "a");
    pair[1].connect(0, &pair[0], 0, "a");
    assert_eq!(
        found(&[&pair[0], &pair[1]]),
        [[(0, 0), (1, 0)], [(1, 0), (0, 0)]]
    );
    let third = FakeNode::new(30, 7);
    third.connect(0, &third, 0, "a");
    assert_eq!(found(&[&pair[0], &pair[1], &third]), [[(0, 0); 2]; 0]);
}

/// Follows until a connection of the first node has this.
fn follow_until(prober: &mut Prober, nodes: &[&FakeNode], is_it: impl Fn(&Recorded) -> bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let sample = sample(nodes);
        let delays = prober.follow(&sample);
        let connection = &sample.nodes[0].connections[0];
        let recorded = delays.of(&sample.nodes[0], connection);
        if recorded.is_some_and(&is_it) {
            return;
        }
        assert!(Instant::now() < until, "{recorded:?}");
        std::thread::yield_now();
    }
}

#[test]
fn the_prober_finds_what_waits_what_does_not_and_what_never_goes_on() {
    let (one, other) = (FakeNode::new(10, 1), FakeNode::new(20, 2));
    let sender = one.connect(0, &other, 0, "a");
    let receiver = other.connect(0, &one, 0, "a");
    let mut prober = Prober::start().expect("a thread");
    let nodes = [&one, &other];
    let sent = std::cell::Cell::new(0);
    let send = |is_taken: bool| {
        sent.set(sent.get() + 1);
        if is_taken {
            receiver.store(Counter::BytesIn, sent.get());
        }
        sender.store(Counter::BytesOut, sent.get());
    };
    follow_until(&mut prober, &nodes, |recorded| {
        send(true);
        recorded.recent.counts()[0] > 3
    });
    // It is never taken: a second later that is said.
    send(false);
    follow_until(&mut prober, &nodes, |recorded| {
        recorded.total.counts()[BUCKETS - 1] > 0
    });
    // Another connection gets the numbers: all begins anew.
    receiver.close();
    sender.close();
    other.connect(0, &one, 0, "b");
    one.connect(0, &other, 0, "b");
    follow_until(&mut prober, &nodes, |recorded| recorded.total.count() == 0);
}

#[test]
fn pages_of_which_every_word_changes_do_no_harm() {
    let mut chance = barewire_units::Rng::from_seed(11);
    let nodes = [FakeNode::new(10, 1), FakeNode::new(20, 2)];
    let both = [&nodes[0], &nodes[1]];
    let mut prober = Prober::start().expect("a thread");
    let first = page_bytes(0) / 8;
    let words = page_bytes(SLOTS) / 8 - first;
    let mut paired = 0;
    for _ in 0..300 {
        for (own, peer) in [(0, 1), (1, 0)] {
            nodes[own].connect(0, &nodes[peer], 0, "a");
        }
        paired += prober.follow(&sample(&both)).0.len();
        for node in both {
            for _ in 0..200 {
                let value = [chance.next_u64(), chance.below(30), u64::MAX][chance.index(3)];
                let word = first + chance.index(words);
                node.region.whole().atomic_store(word * 8, value);
            }
        }
        let delays = prober.follow(&sample(&both));
        assert!(delays.0.len() <= 2 * SLOTS as usize);
    }
    assert!(paired > 0);
    // The prober goes on all the same.
    for number in 0..SLOTS as usize {
        for node in both {
            let word = page_bytes(number as u32);
            node.region.whole().atomic_store(word, 0);
        }
    }
    let sender = nodes[0].connect(0, &nodes[1], 0, "a");
    let receiver = nodes[1].connect(0, &nodes[0], 0, "a");
    let sent = std::cell::Cell::new(0);
    follow_until(&mut prober, &both, |recorded| {
        sent.set(sent.get() + 1);
        receiver.store(Counter::BytesIn, sent.get());
        sender.store(Counter::BytesOut, sent.get());
        recorded.total.counts()[0] > 0
    });
}
