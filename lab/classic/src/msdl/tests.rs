//! The table, every error, and what holds under any interleaving.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use std::collections::BTreeMap;

use barewire_formats::cbn::Msdl;
use barewire_units::{Duration, Graph, Instant, Rng};
use proptest::prelude::*;

use super::*;

const VCI: u16 = 0x1234;
const START: Instant = Instant::ORIGIN;

type Cell = (Msdl, Vec<u8>);

fn cells_of(size: BodySize, vci: u16, rid: u8, block: &[u8]) -> Vec<Cell> {
    let mut fragments = Fragments::new(size, vci, rid, block).expect("a block that fits");
    let mut cells = Vec::new();
    let mut body = vec![0xaa; size.bytes()];
    while let Some(msdl) = fragments.next_into(&mut body) {
        cells.push((msdl, body.clone()));
    }
    cells
}

fn cells(rid: u8, block: &[u8]) -> Vec<Cell> {
    cells_of(BodySize::BACKBONE, VCI, rid, block)
}

/// A block whose every body differs from those of other ids.
fn block(id: u64, bytes: usize) -> Vec<u8> {
    let mut block = vec![0; bytes];
    Rng::from_seed(id).fill_bytes(&mut block);
    block
}

fn receiver(config: Config) -> Reassembler {
    let mut receiver = Reassembler::new(config);
    assert!(receiver.open(VCI));
    receiver
}

fn drain(receiver: &mut Reassembler) -> Vec<Event> {
    core::iter::from_fn(|| receiver.poll_event()).collect()
}

/// What a receiver tells about some cells.
fn told(config: Config, cells: &[Cell]) -> Vec<Event> {
    let mut receiver = receiver(config);
    for (msdl, body) in cells {
        receiver.handle_cell(START, *msdl, body);
    }
    drain(&mut receiver)
}

fn whole(rid: u8, bytes: &[u8]) -> Event {
    let bytes = bytes.to_vec();
    Event::Block {
        vci: VCI,
        rid,
        bytes,
    }
}

fn failed(rid: u8, error: BlockError, bytes_lost: usize) -> Event {
    Event::Failed {
        vci: VCI,
        rid,
        error,
        bytes_lost,
    }
}

#[test]
fn table() {
    assert_eq!(
        Graph::<State>::new().to_string(),
        "Idle --First--> Filling\n\
         Idle --Only--> Idle\n\
         Idle --Broken--> Spoilt\n\
         Idle --BrokenLast--> Idle\n\
         Filling --Next--> Filling\n\
         Filling --Last--> Idle\n\
         Filling --First--> Filling\n\
         Filling --Only--> Idle\n\
         Filling --Broken--> Spoilt\n\
         Filling --BrokenLast--> Idle\n\
         Filling --Expired--> Idle\n\
         Spoilt --First--> Filling\n\
         Spoilt --Only--> Idle\n\
         Spoilt --Broken--> Spoilt\n\
         Spoilt --BrokenLast--> Idle\n\
         Spoilt --Expired--> Idle\n"
    );
}

/// The fields that cbn91 gives, for blocks at the edges.
#[test]
fn cells_of_a_block() {
    let shape = |bytes: usize| -> Vec<(u8, bool, bool, u8)> {
        cells(7, &block(1, bytes))
            .iter()
            .map(|(msdl, body)| {
                assert_eq!((msdl.vci, msdl.rid), (VCI, 7));
                let count = if msdl.part { body[31] } else { 32 };
                (msdl.sequence, msdl.start, msdl.part, count)
            })
            .collect()
    };
    assert_eq!(shape(0), [(1, true, true, 0)]);
    assert_eq!(shape(31), [(1, true, true, 31)]);
    assert_eq!(shape(32), [(1, true, false, 32)]);
    assert_eq!(shape(33), [(2, true, false, 32), (1, false, true, 1)]);
    assert_eq!(shape(64), [(2, true, false, 32), (1, false, false, 32)]);
    let longest = shape(8160);
    assert_eq!((longest.len(), longest[0]), (255, (255, true, false, 32)));
    assert_eq!(longest[254], (1, false, false, 32));
    let error = Fragments::new(BodySize::BACKBONE, VCI, 7, block(1, 8161)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a block of 8161 bytes, where at most 8160 fit"
    );
    assert!(Fragments::new(BodySize::BACKBONE, VCI, 64, []).is_err());
}

/// The published words: five cells under RID 2A, the last one partly filled.
#[test]
fn published_words() {
    let cells = cells(0x2a, &block(1, 130));
    assert_eq!(cells[0].0.to_word(), 0x1234_05a9);
    assert_eq!(cells[4].0.to_word(), 0x1234_01aa);
}

#[test]
fn interrupt_conditions() {
    use InterruptOn::{EndOfBlock, EveryCell, StartAndEnd, StartOfBlock};
    let count = |on: InterruptOn, bytes: usize| {
        let cells = cells(0, &block(1, bytes));
        cells.iter().filter(|(msdl, _)| on.matches(*msdl)).count()
    };
    for (on, long, one) in [
        (EndOfBlock, 1, 1),
        (StartOfBlock, 1, 1),
        (StartAndEnd, 2, 1),
        (EveryCell, 5, 1),
    ] {
        assert_eq!((count(on, 160), count(on, 20)), (long, one), "{on:?}");
    }
    let cells = cells(0, &block(1, 160));
    assert!(EndOfBlock.matches(cells[4].0) && !EndOfBlock.matches(cells[0].0));
    assert!(StartOfBlock.matches(cells[0].0) && !StartOfBlock.matches(cells[4].0));
}

#[test]
fn lost_cell() {
    let gap = |expected, found| BlockError::SequenceGap { expected, found };
    for (lost, error, bytes_lost) in [
        (0, BlockError::NoStart { sequence: 4 }, 0),
        (1, gap(4, 3), 32),
        (2, gap(3, 2), 64),
        (3, gap(2, 1), 96),
    ] {
        let mut cells = cells(3, &block(1, 160));
        cells.remove(lost);
        let told = told(Config::default(), &cells);
        assert_eq!(told, [failed(3, error, bytes_lost)]);
    }
}

#[test]
fn repeated_cell() {
    let block = block(1, 96);
    let repeat = |at: usize| {
        let mut cells = cells(3, &block);
        cells.insert(at, cells[at].clone());
        told(Config::default(), &cells)
    };
    let inside = failed(3, BlockError::StartInside { expected: 2 }, 32);
    assert_eq!(repeat(0), [inside, whole(3, &block)]);
    let gap = BlockError::SequenceGap {
        expected: 1,
        found: 2,
    };
    assert_eq!(repeat(1), [failed(3, gap, 64)]);
    let stray = failed(3, BlockError::NoStart { sequence: 1 }, 0);
    assert_eq!(repeat(2), [whole(3, &block), stray]);
}

#[test]
fn start_inside_a_block() {
    let (one, two) = (block(1, 160), block(2, 64));
    let mut cells = cells(3, &one);
    cells.truncate(2);
    cells.extend(self::cells(3, &two));
    assert_eq!(
        told(Config::default(), &cells),
        [
            failed(3, BlockError::StartInside { expected: 3 }, 64),
            whole(3, &two)
        ]
    );
}

/// A broken first cell inside a block fails both blocks, and nothing else.
#[test]
fn broken_start_inside_a_block() {
    let mut cells = cells(3, &block(1, 160));
    cells.truncate(2);
    let mut second = self::cells(3, &block(2, 96));
    second[0].0.sequence = 0;
    cells.extend(second);
    assert_eq!(
        told(Config::default(), &cells),
        [
            failed(3, BlockError::StartInside { expected: 3 }, 64),
            failed(3, BlockError::NoCells, 0)
        ]
    );
}

#[test]
fn part_is_checked() {
    let mut early = cells(3, &block(1, 96));
    early[1].0.part = true;
    let error = BlockError::PartEarly { sequence: 2 };
    assert_eq!(told(Config::default(), &early), [failed(3, error, 32)]);

    let mut count = cells(3, &block(1, 80));
    assert_eq!(count[2].1[31], 16);
    count[2].1[31] = 32;
    let error = BlockError::PartCount {
        count: 32,
        allowed: 31,
    };
    assert_eq!(told(Config::default(), &count), [failed(3, error, 64)]);
}

#[test]
fn limits_of_the_receiver() {
    let config = Config {
        block_bytes_max: 100,
        ..Config::default()
    };
    assert_eq!(
        told(config, &cells(3, &block(1, 100))),
        [whole(3, &block(1, 100))]
    );
    // With five cells it is too long at its start, with four only at its end.
    let too_long = |block_bytes, bytes_lost| {
        let error = BlockError::TooLong {
            block_bytes,
            allowed_bytes: 100,
        };
        [failed(3, error, bytes_lost)]
    };
    assert_eq!(told(config, &cells(3, &block(1, 160))), too_long(128, 0));
    assert_eq!(told(config, &cells(3, &block(1, 101))), too_long(101, 96));

    let mut short = cells(3, &block(1, 64));
    short[1].1.pop();
    let error = BlockError::BodySize {
        expected_bytes: 32,
        found_bytes: 31,
    };
    assert_eq!(told(Config::default(), &short), [failed(3, error, 32)]);
}

#[test]
fn full_table() {
    let config = Config {
        blocks_max: 2,
        ..Config::default()
    };
    let block = block(1, 64);
    let mut receiver = receiver(config);
    let mut send = |rid: u8, at: usize| {
        let (msdl, body) = &cells(rid, &block)[at];
        receiver.handle_cell(START, *msdl, body);
        drain(&mut receiver)
    };
    assert_eq!(send(0, 0), []);
    assert_eq!(send(1, 0), []);
    let error = BlockError::TableFull { places: 2 };
    assert_eq!(send(2, 0), [failed(2, error, 0)]);
    // The rest of it is dropped without another word.
    assert_eq!(send(2, 1), []);
    assert_eq!(send(1, 1), [whole(1, &block)]);
    assert_eq!(send(3, 0), []);
    assert_eq!(send(0, 1), [whole(0, &block)]);
}

#[test]
fn other_rid() {
    let (one, two) = (block(1, 96), block(2, 64));
    let mut mixed = cells(1, &one);
    mixed.splice(1..1, cells(2, &two));
    assert_eq!(
        told(Config::default(), &mixed),
        [whole(2, &two), whole(1, &one)]
    );
    let config = Config {
        interleave: Interleave::Never,
        ..Config::default()
    };
    let change = BlockError::RidChange {
        expected: 2,
        found: 2,
    };
    assert_eq!(
        told(config, &mixed),
        [failed(1, change, 32), whole(2, &two)]
    );
}

#[test]
fn time_out() {
    let config = Config {
        time_out: Duration::from_us(10),
        ..Config::default()
    };
    let block = block(1, 96);
    let cells = cells(5, &block);
    let mut receiver = receiver(config);
    let at = |us: u64| Instant::from_ps(us * 1_000_000);
    assert_eq!(receiver.next_deadline(), None);
    receiver.handle_cell(at(0), cells[0].0, &cells[0].1);
    receiver.handle_cell(at(7), cells[1].0, &cells[1].1);
    assert_eq!(receiver.next_deadline(), Some(at(17)));
    receiver.handle_timeout(at(16));
    assert_eq!(drain(&mut receiver), []);
    receiver.handle_timeout(at(17));
    let error = BlockError::TimeOut { expected: 1 };
    assert_eq!(drain(&mut receiver), [failed(5, error, 64)]);
    assert_eq!(receiver.next_deadline(), None);
    receiver.handle_cell(at(18), cells[2].0, &cells[2].1);
    let error = BlockError::NoStart { sequence: 1 };
    assert_eq!(drain(&mut receiver), [failed(5, error, 0)]);
}

#[test]
fn who_is_due_first_fails_first() {
    let mut receiver = receiver(Config::default());
    let block = block(1, 96);
    let later = START + Duration::from_us(1);
    for (rid, now) in [(9, START), (5, later)] {
        let (msdl, body) = &cells(rid, &block)[0];
        receiver.handle_cell(now, *msdl, body);
    }
    receiver.handle_timeout(later + Config::default().time_out);
    let error = BlockError::TimeOut { expected: 2 };
    let lost = [failed(9, error, 32), failed(5, error, 32)];
    assert_eq!(drain(&mut receiver), lost);
}

#[test]
fn a_time_out_of_for_ever_never_comes() {
    let config = Config {
        time_out: Duration::MAX,
        ..Config::default()
    };
    let mut receiver = receiver(config);
    let (msdl, body) = &cells(5, &block(1, 96))[0];
    receiver.handle_cell(START, *msdl, body);
    assert_eq!(receiver.next_deadline(), None);
    receiver.handle_timeout(Instant::MAX);
    assert_eq!(receiver.state(VCI, 5), State::Filling);
}

#[test]
fn closed_from_one_side() {
    let block = block(1, 160);
    let mut receiver = receiver(Config::default());
    for (rid, count) in [(1, 3), (2, 1), (9, 5)] {
        for (msdl, body) in &cells(rid, &block)[..count] {
            receiver.handle_cell(START, *msdl, body);
        }
    }
    assert_eq!(drain(&mut receiver), [whole(9, &block)]);
    let closed = Closed {
        blocks: 2,
        bytes: 128,
    };
    assert_eq!(receiver.close(VCI), Some(closed));
    assert_eq!(receiver.close(VCI), None);
    assert_eq!(receiver.next_deadline(), None);
    // What still comes is told once for each block.
    for (msdl, body) in &cells(9, &block) {
        receiver.handle_cell(START, *msdl, body);
    }
    let stray = failed(9, BlockError::NoAssociation, 0);
    assert_eq!(drain(&mut receiver), [stray]);
    assert_eq!(
        receiver.stats(),
        Stats {
            cells: 14,
            cells_dropped: 5,
            blocks: 1,
            bytes: 160,
            blocks_failed: 1,
            blocks_closed: 2,
            bytes_lost: 128,
        }
    );
}

/// What the module header says cannot be seen is not seen.
#[test]
fn splice_of_two_blocks_is_not_seen() {
    let (one, two) = (block(1, 96), block(2, 96));
    let mut cells = cells(3, &one);
    cells.truncate(2);
    cells.push(self::cells(3, &two)[2].clone());
    let spliced = [&one[..64], &two[64..]].concat();
    assert_eq!(told(Config::default(), &cells), [whole(3, &spliced)]);
}

#[test]
fn sender_takes_rids_in_turn() {
    let mut sender = Sender::new(BodySize::BACKBONE, VCI);
    for rid in 0..64 {
        assert_eq!(sender.submit(block(1, 64)), Ok(rid));
    }
    let full = FragmentError::NoRid { vci: VCI };
    assert_eq!(sender.submit(vec![]), Err(full));
    assert_eq!((sender.blocks(), sender.cells()), (64, 128));
    assert!(sender.poll_cell(&mut [0; 31]).is_none());
    let mut body = [0; 32];
    let rids: Vec<u8> = core::iter::from_fn(|| sender.poll_cell(&mut body))
        .map(|msdl| msdl.rid)
        .collect();
    let in_turn: Vec<u8> = (0..64).chain(0..64).collect();
    assert_eq!(rids, in_turn);
    // Not 63 or any of the latest again.
    assert_eq!(sender.submit(vec![]), Ok(0));
}

fn any_size() -> impl Strategy<Value = BodySize> {
    prop::sample::select(vec![2, 16, 32, 44, 48, 256])
        .prop_map(|bytes| BodySize::new(bytes).expect("a size"))
}

/// Lengths of blocks in cells and bytes beyond: edges as often as the rest.
fn any_lengths(count: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec(
        (0..12_usize, prop_oneof![Just(0_usize), 0..256_usize]),
        1..count,
    )
}

/// Blocks of some circuits as cells, in an order that keeps that of each block.
fn interleaved(size: BodySize, lengths: &[(usize, usize)], rng: &mut Rng) -> (Sent, Vec<Cell>) {
    let mut sent = Sent::new();
    let mut queues = Vec::new();
    for (i, &(cells, beyond)) in lengths.iter().enumerate() {
        let key = (VCI + (i % 3) as u16, (i / 3) as u8);
        let bytes = block(i as u64, cells * size.bytes() + beyond % size.bytes());
        queues.push(cells_of(size, key.0, key.1, &bytes));
        sent.insert(key, bytes);
    }
    queues.iter_mut().for_each(|cells| cells.reverse());
    let mut cells = Vec::new();
    while !queues.is_empty() {
        let at = rng.index(queues.len());
        match queues[at].pop() {
            Some(cell) => cells.push(cell),
            None => drop(queues.swap_remove(at)),
        }
    }
    (sent, cells)
}

type Sent = BTreeMap<(u16, u8), Vec<u8>>;

fn open_all(size: BodySize) -> Reassembler {
    let mut receiver = receiver(Config {
        body: size,
        block_bytes_max: size.block_bytes_max(),
        ..Config::default()
    });
    assert!(receiver.open(VCI + 1) && receiver.open(VCI + 2));
    receiver
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Reassembly gives exactly what fragmentation was given, however blocks are mixed.
    #[test]
    fn blocks_arrive(size in any_size(), lengths in any_lengths(24), seed: u64) {
        let mut rng = Rng::from_seed(seed);
        let (mut sent, cells) = interleaved(size, &lengths, &mut rng);
        let mut receiver = open_all(size);
        for (msdl, body) in &cells {
            receiver.handle_cell(START, *msdl, body);
        }
        for event in drain(&mut receiver) {
            let Event::Block { vci, rid, bytes } = event else {
                return Err(TestCaseError::fail(std::format!("{event:?}")));
            };
            prop_assert_eq!(sent.remove(&(vci, rid)), Some(bytes));
        }
        prop_assert!(sent.is_empty());
        prop_assert_eq!(receiver.next_deadline(), None);
        prop_assert_eq!(receiver.stats().cells_dropped, 0);
    }

    /// Cells lost, repeated and exchanged: every block handed out was sent, and of every block
    /// that was not handed out, but came in part, a failure tells.
    #[test]
    fn no_wrong_block(
        size in any_size(),
        lengths in any_lengths(24),
        seed: u64,
        faults in 1_u64..20,
    ) {
        let mut rng = Rng::from_seed(seed);
        let (sent, mut cells) = interleaved(size, &lengths, &mut rng);
        for _ in 0..faults {
            if cells.len() < 2 {
                break;
            }
            let (one, two) = (rng.index(cells.len()), rng.index(cells.len()));
            match rng.below(3) {
                0 => drop(cells.remove(one)),
                1 => cells.insert(one, cells[two].clone()),
                _ => cells.swap(one, two),
            }
        }
        let mut receiver = open_all(size);
        for (msdl, body) in &cells {
            receiver.handle_cell(START, *msdl, body);
        }
        receiver.handle_timeout(Instant::MAX);
        prop_assert_eq!(receiver.next_deadline(), None);
        let mut told = BTreeMap::new();
        for event in drain(&mut receiver) {
            match event {
                Event::Block { vci, rid, bytes } => {
                    prop_assert_eq!(Some(&bytes), sent.get(&(vci, rid)));
                    told.insert((vci, rid), ());
                }
                Event::Failed { vci, rid, .. } => drop(told.insert((vci, rid), ())),
            }
        }
        for (msdl, _) in &cells {
            prop_assert!(told.contains_key(&(msdl.vci, msdl.rid)));
        }
    }

    /// The sender keeps every block and hands its cells out in an order that arrives.
    #[test]
    fn sender_and_receiver_agree(lengths in prop::collection::vec(0_usize..2000, 1..80)) {
        let mut sender = Sender::new(BodySize::BACKBONE, VCI);
        let mut receiver = receiver(Config::default());
        let mut under_way = BTreeMap::new();
        let mut body = [0; 32];
        let mut lengths = lengths.into_iter().enumerate().peekable();
        while lengths.peek().is_some() || sender.blocks() > 0 {
            if let Some((i, bytes)) = lengths.next() {
                let block = block(i as u64, bytes);
                if let Ok(rid) = sender.submit(block.clone()) {
                    prop_assert_eq!(under_way.insert(rid, block), None);
                }
            }
            for _ in 0..10 {
                if let Some(msdl) = sender.poll_cell(&mut body) {
                    receiver.handle_cell(START, msdl, &body);
                }
            }
            for event in drain(&mut receiver) {
                let Event::Block { rid, bytes, .. } = event else {
                    return Err(TestCaseError::fail(std::format!("{event:?}")));
                };
                prop_assert_eq!(under_way.remove(&rid), Some(bytes));
            }
        }
        prop_assert!(under_way.is_empty());
    }

    /// As the fuzz target `proto_msdl` drives it.
    #[test]
    fn anything_goes(
        script in prop::collection::vec((any::<u8>(), any::<u32>(), any::<u8>()), 0..300),
        never: bool,
        blocks_max in 0_usize..5,
    ) {
        let mut receiver = Reassembler::new(Config {
            interleave: if never { Interleave::Never } else { Interleave::ByRid },
            blocks_max,
            block_bytes_max: 300,
            time_out: Duration::from_us(3),
            ..Config::default()
        });
        let mut now = START;
        for (what, word, count) in script {
            now = now.saturating_add(Duration::from_ns(u64::from(what)));
            let msdl = Msdl::from_word(word & 0x0001_030f | u32::from(what & 1) << 8);
            match what % 16 {
                0 => drop(receiver.open(msdl.vci)),
                1 => drop(receiver.close(msdl.vci)),
                2 => receiver.handle_timeout(now),
                3 => receiver.handle_cell(now, Msdl::from_word(word), &[count; 31]),
                _ => receiver.handle_cell(now, msdl, &[count % 34; 32]),
            }
            let filling = (0..=1)
                .flat_map(|vci| (0..64).map(move |rid| (vci, rid)))
                .filter(|&(vci, rid)| receiver.state(vci, rid) == State::Filling)
                .count();
            prop_assert!(filling <= blocks_max);
            drain(&mut receiver);
        }
        receiver.close(0);
        receiver.close(1);
        let open = receiver.next_deadline();
        prop_assert_eq!(open, None);
        let stats = receiver.stats();
        prop_assert!(stats.cells_dropped <= stats.cells);
    }
}
