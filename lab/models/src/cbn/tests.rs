//! The rules of ring, memory, station and node, one by one.

use barewire_classic::msdl::{BodySize, InterruptOn};
use barewire_formats::cbn::Msdl;
use barewire_units::{Duration, Instant, Rate, Rng};
use proptest::prelude::*;

use super::*;

const VCI: u16 = 7;
const START: Instant = Instant::ORIGIN;

fn line() -> Line {
    Line::new(Rate::from_mbps(512), BodySize::BACKBONE)
}

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn cell(sequence: u8, start: bool) -> Cell {
    let msdl = Msdl {
        vci: VCI,
        sequence,
        rid: 0,
        part: false,
        start,
    };
    let body = vec![sequence; 32];
    Cell { msdl, body }
}

/// A station that receives from channel 0, on a ring of one frame.
fn station(duplex: Duplex) -> Station {
    let config = StationConfig {
        frames: 1,
        receive_channel: 0,
        fifo_cells: 4,
        duplex,
        line: line(),
    };
    Station::new(config).expect("in range")
}

/// A frame with `cell` in slot 0.
fn carrying(cell: Cell) -> Slots {
    let mut slots = Slots::default();
    slots.0[0] = Slot::full(cell);
    slots
}

#[test]
fn the_published_line_times() {
    let line = line();
    assert_eq!(line.word_time(), Duration::from_ps(312_500));
    // 1485 line bits.
    assert_eq!(line.frame_time(), Duration::from_ps(2_900_390));
    assert_eq!(line.frames(Duration::from_ns(22_700)), 7);
    assert_eq!(line.frames(Duration::from_ns(2_900)), 0);
    let fast = Line::new(Rate::from_gbps(1), BodySize::BACKBONE);
    assert_eq!(fast.word_time(), Duration::from_ns(160));
    assert_eq!(fast.cell_words(), 9);
}

#[test]
fn frames_pass_at_equal_distances() {
    let ring = Ring::new(us(21), 7).expect("frames");
    assert_eq!((ring.frames(), ring.rotation()), (7, us(21)));
    assert_eq!(ring.first_passage(us(5), 0), START + us(5));
    assert_eq!(ring.first_passage(us(5), 6), START + us(23));
    assert!(Ring::new(us(21), 0).is_none());
}

#[test]
fn the_memory_serves_in_turn() {
    let mut ram = Ram::new(us(1));
    assert_eq!(ram.access(START, 9), START + us(9));
    assert_eq!(ram.access(START + us(2), 1), START + us(10));
    assert_eq!(ram.access(START + us(20), 1), START + us(21));
}

#[test]
fn a_sender_empties_its_slot_and_lets_it_pass() {
    let mut station = station(Duplex::Half);
    let mut slots = Slots::default();
    for sequence in [2, 1] {
        station.handle_written(3, cell(sequence, false));
    }
    let filled = station.handle_frame(START, &mut slots);
    assert_eq!(filled.filled, Some(3));
    assert_eq!(slots.0[3], Slot::full(cell(2, false)));
    let released = station.handle_frame(START + us(23), &mut slots);
    assert_eq!((released.released, released.filled), (1, None));
    assert_eq!(slots, Slots::default());
    let filled = station.handle_frame(START + us(46), &mut slots);
    assert_eq!(filled.filled, Some(3));
    assert_eq!(slots.0[3], Slot::full(cell(1, false)));
}

#[test]
fn only_the_v1s_cannot_send_while_it_receives() {
    for (duplex, sends) in [(Duplex::Half, false), (Duplex::Full, true)] {
        let mut station = station(duplex);
        station.listen(VCI, InterruptOn::EveryCell);
        station.handle_written(1, cell(1, true));
        let mut slots = carrying(cell(1, true));
        let passage = station.handle_frame(START, &mut slots);
        let words = Duration::from_ps(9 * 312_500);
        assert_eq!(passage.received, Some(START + words));
        assert_eq!(passage.filled.is_some(), sends, "{duplex:?}");
    }
}

#[test]
fn a_full_fifo_loses_and_counts() {
    let mut station = station(Duplex::Half);
    station.listen(VCI, InterruptOn::EveryCell);
    for arrival in 0..6_u64 {
        let mut slots = carrying(cell(1, true));
        let passage = station.handle_frame(START + us(arrival * 4), &mut slots);
        if passage.received.is_some() {
            station.handle_arrival();
        }
    }
    assert_eq!(station.waiting(), 4);
    let stats = station.stats();
    assert_eq!((stats.received, stats.receive_overflows), (4, 2));
    for _ in 0..6 {
        station.handle_written(2, cell(1, true));
    }
    assert_eq!(station.stats().transmit_overflows, 2);
}

#[test]
fn a_cell_interrupts_where_its_circuit_says() {
    let conditions = [
        (InterruptOn::StartOfBlock, [true, false, false]),
        (InterruptOn::EndOfBlock, [false, false, true]),
        (InterruptOn::StartAndEnd, [true, false, true]),
        (InterruptOn::EveryCell, [true, true, true]),
    ];
    for (condition, expected) in conditions {
        let mut station = station(Duplex::Half);
        station.listen(VCI, condition);
        let cells = [cell(3, true), cell(2, false), cell(1, false)];
        let interrupts = cells.map(|cell| {
            let mut slots = carrying(cell);
            station.handle_frame(START, &mut slots);
            station.acknowledge();
            station.handle_arrival();
            station.interrupt()
        });
        assert_eq!(interrupts, expected, "{condition:?}");
    }
}

#[test]
fn false_traffic_keeps_its_interval() {
    let mut station = station(Duplex::Half);
    let generator = Generator::new(cell(1, true), us(10));
    station.set_generator(2, Some(generator));
    let filled = [0, 4, 9, 10, 19, 20].map(|at| {
        let mut slots = Slots::default();
        station.handle_frame(START + us(at), &mut slots);
        slots.0[2] != Slot::Empty
    });
    assert_eq!(filled, [true, false, false, true, false, true]);
    assert_eq!(station.stats().false_transmitted, 3);
    station.set_generator(2, None);
    let mut slots = Slots::default();
    station.handle_frame(START + us(90), &mut slots);
    assert_eq!(slots, Slots::default());
}

#[test]
fn random_false_traffic_offers_what_it_should() {
    let mut station = station(Duplex::Half);
    let rng = Rng::from_seed(3);
    let generator = Generator::random(cell(1, true), us(10), rng);
    station.set_generator(2, Some(generator));
    let (mut in_a_row, mut longest) = (0, 0);
    for at in 0..100_000 {
        let mut slots = Slots::default();
        station.handle_frame(START + us(at), &mut slots);
        in_a_row = if slots.0[2] == Slot::Empty {
            0
        } else {
            in_a_row + 1
        };
        longest = in_a_row.max(longest);
    }
    let sent = station.stats().false_transmitted;
    // The deviation of the count is 100; and cells that come together queue.
    assert!((9_700..10_300).contains(&sent), "{sent}");
    assert!((4..12).contains(&longest), "{longest}");
}

fn costs() -> Costs {
    Costs {
        driver: DriverCosts {
            send_before: us(100),
            transmit_cell: us(4),
            send_after: us(50),
            interrupt: us(30),
            receive_cell: us(6),
            wake: us(60),
            second_copy: us(8),
            up_call: us(9),
            loose_code: us(7),
        },
        station: StationCosts {
            fifo_cells: 1,
            access_milli_cycles: 2000,
            word: us(1),
        },
    }
}

#[test]
fn a_faster_host_has_all_costs_but_those_of_the_memory() {
    let faster = costs().faster(4);
    assert_eq!(faster.driver.send_before, us(25));
    assert_eq!(faster.driver.loose_code, Duration::from_ns(1750));
    assert_eq!(faster.station.word, Duration::from_ns(250));
    assert_eq!(faster.station.access_milli_cycles, 1250);
}

#[test]
fn stages_differ_by_what_is_taken_away() {
    let cells = Stage::ALL.map(|stage| costs().cell(stage));
    assert_eq!(cells, [us(30), us(22), us(13), us(6)]);
    assert_eq!(costs().to_memory(us(1)), us(2));
}

fn node(station: u16, condition: InterruptOn, copier: Copier, program: Program) -> Node {
    let config = node_config(station, condition, copier);
    Node::new(config, program, Rng::from_seed(5)).expect("in range")
}

fn node_config(station: u16, condition: InterruptOn, copier: Copier) -> NodeConfig {
    let other = 1 - station;
    NodeConfig {
        station: StationConfig {
            frames: 7,
            receive_channel: usize::from(station),
            fifo_cells: 256,
            duplex: Duplex::Half,
            line: line(),
        },
        costs: costs(),
        stage: Stage::TightCode,
        processors: Processors::One,
        copier,
        transmit_copier: Copier::Processor,
        waits_for_room: false,
        send_vci: VCI + other,
        send_channel: usize::from(other),
        receive_vci: Some(VCI + station),
        interrupt_on: condition,
    }
}

/// What is due at a node: frames come first, then arrivals, then what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Frame(usize),
    Arrival,
    Due(Due),
}

/// Drives two nodes half a rotation apart until the first is done, or for `span`, without
/// a simulator: at each step the earliest of what is due.
fn drive(mut nodes: [Node; 2], span: Duration) -> [Node; 2] {
    let mut ring = Ring::new(us(22), 7).expect("frames");
    let mut pending: Vec<(Instant, usize, What)> = Vec::new();
    for (at, node) in nodes.iter_mut().enumerate() {
        for frame in 0..7 {
            let first = ring.first_passage(us(11) * at as u64, frame);
            pending.push((first, at, What::Frame(frame)));
        }
        node.start(START);
    }
    loop {
        for (at, node) in nodes.iter_mut().enumerate() {
            let due = std::iter::from_fn(|| node.poll());
            pending.extend(due.map(|(time, due)| (time, at, What::Due(due))));
        }
        let order = |&(time, at, what): &(Instant, usize, What)| match what {
            What::Frame(frame) => (time, 0, at, frame),
            What::Arrival => (time, 1, at, 0),
            What::Due(_) => (time, 2, at, 0),
        };
        let earliest = pending.iter().enumerate().min_by_key(|(_, one)| order(one));
        let Some((index, &(now, at, what))) = earliest else {
            return nodes;
        };
        if now >= START + span || nodes[0].is_done() {
            return nodes;
        }
        pending.swap_remove(index);
        match what {
            What::Frame(frame) => {
                pending.push((now + us(22), at, what));
                let passage = nodes[at].handle_frame(now, ring.slots_mut(frame));
                pending.extend(passage.received.map(|time| (time, at, What::Arrival)));
            }
            What::Arrival => nodes[at].handle_arrival(now),
            What::Due(Due::Processor(processor)) => nodes[at].handle_processor(now, processor),
            What::Due(Due::Engine) => nodes[at].handle_engine(now),
            What::Due(Due::Timer) => nodes[at].handle_timer(now),
        }
    }
}

fn intact(node: &Node) -> usize {
    let received = |&&(_, mark): &&(Instant, Mark)| mark == Mark::Received { intact: true };
    node.marks().iter().filter(received).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the size, the condition and the copier, each block comes back as it was sent.
    #[test]
    fn blocks_come_back(
        block_bytes in 0_usize..1500,
        condition in prop::sample::select(vec![
            InterruptOn::StartOfBlock,
            InterruptOn::EndOfBlock,
            InterruptOn::StartAndEnd,
            InterruptOn::EveryCell,
        ]),
        engine_us in prop::option::of(1_u64..40),
        transmit_engine_us in prop::option::of(1_u64..40),
        hand_over_us in prop::option::of(0_u64..40),
    ) {
        let transmit_copier =
            transmit_engine_us.map_or(Copier::Processor, |time| Copier::Engine(us(time)));
        let processors = hand_over_us.map_or(Processors::One, |time| Processors::Two {
            hand_over: us(time),
        });
        let copier = engine_us.map_or(Copier::Processor, |time| Copier::Engine(us(time)));
        let program = Program::Ping { blocks: 3, block_bytes, patience: None };
        let nodes = [(0, program), (1, Program::Echo)].map(|(number, program)| {
            let mut config = node_config(number, condition, copier);
            (config.processors, config.transmit_copier) = (processors, transmit_copier);
            Node::new(config, program, Rng::from_seed(5)).expect("in range")
        });
        let nodes = drive(nodes, Duration::from_ms(40));
        prop_assert!(nodes[0].is_done());
        prop_assert_eq!(intact(&nodes[0]), 3);
        let overflows = nodes[1].station().stats().receive_overflows;
        prop_assert_eq!(overflows, 0);
    }
}

#[test]
fn one_cell_takes_the_sum_of_its_operations() {
    let program = Program::Ping {
        blocks: 1,
        block_bytes: 32,
        patience: None,
    };
    let nodes = [
        node(0, InterruptOn::EveryCell, Copier::Processor, program),
        node(1, InterruptOn::EveryCell, Copier::Processor, Program::Echo),
    ];
    let nodes = drive(nodes, Duration::from_ms(2));
    let &(end, mark) = nodes[0].marks().last().expect("marks");
    assert_eq!(mark, Mark::Received { intact: true });
    // Nine words of 1 us and two cycles of 312.5 ns, twice for each way; the ring's 11 us,
    // 2.8 us for the words to come in, and at most 22 / 7 us until a frame passes.
    let copy_ps = 9 * (1_000_000 + 625_000);
    let way_ps = (100 + 4 + 30 + 6 + 60 + 11) * 1_000_000 + 2 * copy_ps + 2_812_500;
    let waited_ps = end.since_origin().as_ps() - 2 * way_ps;
    assert!(waited_ps <= 2 * 3_142_857, "waited {waited_ps} ps");
}

#[test]
fn a_sender_nobody_waits_for_fills_the_fifo_and_loses() {
    // A cell received takes longer than one sent, so 600 are too many for 256 places.
    let program = Program::Transmit {
        blocks: 4,
        block_bytes: 150 * 32,
    };
    let slow = Copier::Engine(us(60));
    let nodes = [
        node(0, InterruptOn::EndOfBlock, Copier::Processor, program),
        node(1, InterruptOn::EndOfBlock, slow, Program::Echo),
    ];
    let nodes = drive(nodes, Duration::from_ms(20));
    assert!(nodes[0].is_done());
    assert!(nodes[1].station().stats().receive_overflows > 0);
    assert!(nodes[1].processors()[0].busy_time() > Duration::from_ms(5));
}
