//! What arrives under random faults is what was sent, or is reported lost; and both
//! reassemblers say the same.

use barewire_classic::sar::penn::Penn;
use barewire_classic::sar::{Pool, Report, Stream};
use barewire_units::Rng;
use proptest::prelude::*;

use crate::bench::{AAL5, AAL34, Bench, CellBytes, Make, SIZES, Sender, stream};
use crate::drive::drive;

const STREAMS: [Stream; 4] = [AAL5, stream(51, None), AAL34, stream(34, Some(7))];

/// Messages are shorter than 16 cells, so that sequence numbers are theirs alone.
const MESSAGE_BYTES_MAX: usize = 600;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Drop,
    Double,
    Exchange,
    Flip(usize),
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Drop),
        Just(Fault::Double),
        Just(Fault::Exchange),
        (0_usize..53 * 8).prop_map(Fault::Flip),
    ]
}

/// What was sent, by stream, and the cells of all streams, interleaved.
struct Line {
    sent: [Vec<Vec<u8>>; 4],
    cells: Vec<CellBytes>,
}

fn line(lengths: &[(usize, usize)], seed: u64) -> Line {
    let mut rng = Rng::from_seed(seed);
    let mut sent = [const { Vec::new() }; 4];
    let mut queues = [const { Vec::new() }; 4];
    let mut senders = STREAMS.map(Sender::new);
    for &(which, len) in lengths {
        let mut payload = vec![0; len];
        rng.fill_bytes(&mut payload);
        queues[which].extend(senders[which].cells(&payload));
        sent[which].push(payload);
    }
    let mut cells = Vec::new();
    let mut queues = queues.map(Vec::into_iter);
    while queues.iter().any(|queue| queue.len() > 0) {
        cells.extend(queues[rng.index(queues.len())].next());
    }
    Line { sent, cells }
}

fn spoil(cells: &mut Vec<CellBytes>, faults: &[(prop::sample::Index, Fault)]) {
    for (at, fault) in faults {
        if cells.len() < 2 {
            return;
        }
        let at = at.index(cells.len() - 1);
        match *fault {
            Fault::Drop => {
                cells.remove(at);
            }
            Fault::Double => cells.insert(at, cells[at]),
            Fault::Exchange => cells.swap(at, at + 1),
            Fault::Flip(bit) => cells[at][bit / 8] ^= 0x80 >> (bit % 8),
        }
    }
}

fn run<R: Make>(cells: &[CellBytes]) -> Vec<(Report, Vec<u8>)> {
    let mut bench = Bench::<R>::new(SIZES);
    let mut reports = Vec::new();
    for cell in cells {
        bench.send(core::slice::from_ref(cell));
        reports.extend(bench.reports());
    }
    bench.assert_balanced();
    reports
}

fn lengths() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((0_usize..4, 1..MESSAGE_BYTES_MAX), 1..12)
}

/// What arrived on a stream.
fn arrived(reports: &[(Report, Vec<u8>)], stream: Stream) -> Vec<Vec<u8>> {
    let delivered = |(report, payload): &(Report, Vec<u8>)| {
        let here = report.stream == stream && report.result.is_ok();
        here.then(|| payload.clone())
    };
    reports.iter().filter_map(delivered).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn without_faults_everything_arrives(lengths in lengths(), seed: u64) {
        let Line { sent, cells } = line(&lengths, seed);
        for reports in [run::<Pool>(&cells), run::<Penn>(&cells)] {
            prop_assert!(reports.iter().all(|(report, _)| report.result.is_ok()));
            for (stream, sent) in STREAMS.iter().zip(&sent) {
                prop_assert_eq!(&arrived(&reports, *stream), sent);
            }
        }
    }

    /// No fault makes anything arrive that was not sent.
    #[test]
    fn with_faults_nothing_false_arrives(
        lengths in lengths(),
        seed: u64,
        faults in proptest::collection::vec((any::<prop::sample::Index>(), any_fault()), 1..8),
    ) {
        let Line { sent, mut cells } = line(&lengths, seed);
        spoil(&mut cells, &faults);
        let reports = run::<Pool>(&cells);
        prop_assert_eq!(&reports, &run::<Penn>(&cells));
        for (stream, sent) in STREAMS.iter().zip(&sent) {
            for payload in arrived(&reports, *stream) {
                prop_assert!(sent.contains(&payload), "{} bytes on {}", payload.len(), stream);
            }
        }
    }

    /// A fault costs at most the messages that it touches: two for one fault.
    #[test]
    fn one_fault_costs_at_most_two_messages(
        lengths in lengths(),
        seed: u64,
        fault in (any::<prop::sample::Index>(), any_fault()),
    ) {
        let Line { sent, mut cells } = line(&lengths, seed);
        spoil(&mut cells, &[fault]);
        let reports = run::<Pool>(&cells);
        let count: usize = STREAMS.iter().map(|stream| arrived(&reports, *stream).len()).sum();
        let all: usize = sent.iter().map(Vec::len).sum();
        prop_assert!(count + 2 >= all, "{count} of {all}");
    }

    #[test]
    fn any_commands_and_cells_leave_everything_in_order(
        steps in proptest::collection::vec(any::<[u8; 3]>(), 0..200),
    ) {
        drive(steps.as_flattened());
    }
}
