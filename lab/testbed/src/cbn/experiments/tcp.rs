//! `tcp`: a bulk transfer by TCP over cells, against window, segment, load and loss.
//!
//! A segment is one MSDL block, so a segment that loses a cell is lost as a whole. The rate
//! is that of the data, from the first call until the receiving program has read the last byte.

use barewire_classic::msdl::BLOCK_CELLS_MAX;
use barewire_formats::cbn::BODY_BYTES;
use barewire_models::cbn::{Program, TCP_HEADER_BYTES};
use barewire_units::{ByteSize, Duration};

use super::common::take;
use super::inputs::{
    Condition, FullFifo, LOADED_STATIONS, Length, POINTS_MAX, SHARES, refusal, run_on,
};
use crate::cbn::parameters::Parameters;
use crate::cbn::runs::{Load, Observed, Run, Towards, Until};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::figures::us;
use crate::refuse::{AboveZero, each_within, few_points, inputs, up_to};
use crate::sweep::try_sweep;

/// TCP over cells.
pub(super) const TCP: Experiment = Experiment {
    name: "tcp",
    question: "How fast is TCP over cells, by window and segment, under load, and what does a \
               lost cell cost?",
    inputs: include_str!("../../../plans/cbn-tcp.toml"),
    check: |setting| plan(setting).map(drop),
    run,
};

const BYTES_MAX: ByteSize = ByteSize::from_bytes(1_000_000_000);
const WINDOW_MAX: ByteSize = ByteSize::from_bytes(65_535);
const SEGMENT_BYTES_MAX: u64 = (BLOCK_CELLS_MAX * BODY_BYTES - TCP_HEADER_BYTES) as u64;
const AT_MOST: Duration = Duration::from_s(60);

inputs! {
    struct Inputs {
        bytes: ByteSize => up_to(BYTES_MAX),
        segments: Vec<u64> => 1..=SEGMENT_BYTES_MAX,
        windows: Vec<ByteSize> => up_to(WINDOW_MAX),
        loaded_segment: u64 => 1..=SEGMENT_BYTES_MAX,
        loaded_windows: Vec<ByteSize>,
        stations: u16 => LOADED_STATIONS,
        passing: Vec<f64> => SHARES,
        addressed: Vec<f64> => SHARES,
        condition: Condition,
        full_fifo: FullFifo,
        at_most: Duration => AboveZero(AT_MOST),
    }
}

impl Inputs {
    fn check(&self) -> Result<(), SystemError> {
        let least = ByteSize::from_bytes(self.loaded_segment);
        each_within("loaded_windows", &self.loaded_windows, least..=WINDOW_MAX)?;
        let least = self.segments.iter().copied().min().unwrap_or(0);
        if self.windows.iter().all(|window| window.as_bytes() < least) {
            return Err(refusal(format!(
                "no window holds a segment of {least} bytes: expected one at least"
            )));
        }
        let pairs = self.segments.len().saturating_mul(self.windows.len());
        let loads = 2 + self.passing.len() + self.addressed.len();
        let loaded = loads.saturating_mul(self.loaded_windows.len());
        few_points(&[pairs.saturating_add(loaded)], POINTS_MAX)
    }
}

/// A transfer.
struct Point {
    run: Run,
    segment: u64,
    window: ByteSize,
    /// The cell to lose, of those that carry the stream: the middle one.
    loses: bool,
}

struct Plan {
    inputs: Inputs,
    parameters: Parameters,
    /// Of the table by window and segment, the two under load, and that with loss.
    free: Vec<Point>,
    loaded: [Vec<(f64, Point)>; 2],
    lossy: Vec<Point>,
}

fn plan(setting: &Setting<'_>) -> Result<Plan, SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    inputs.check()?;
    let mut run = run_on(&parameters, &Length::Measured, 2)?;
    run.interrupt_on = inputs.condition.interrupt_on();
    run.waits_for_room = inputs.full_fifo == FullFifo::Wait;
    let point = |run: &Run, window, segment| Point {
        run: run.clone(),
        segment,
        window,
        loses: false,
    };
    let mut free = Vec::new();
    for &window in &inputs.windows {
        let fit = |segment: &&u64| **segment <= window.as_bytes();
        let segments = inputs.segments.iter().filter(fit);
        free.extend(segments.map(|&segment| point(&run, window, segment)));
    }
    let mut busy = run_on(&parameters, &Length::Measured, inputs.stations)?;
    (busy.interrupt_on, busy.waits_for_room) = (run.interrupt_on, run.waits_for_room);
    let mut one_loader = busy.clone();
    one_loader.stations = 3;
    let kinds = [
        (Towards::Nobody, &busy, &inputs.passing),
        (Towards::Node1, &one_loader, &inputs.addressed),
    ];
    let loaded = kinds.map(|(towards, ring, shares)| {
        let mut points = Vec::new();
        for &window in &inputs.loaded_windows {
            for &share in shares {
                let mut point = point(ring, window, inputs.loaded_segment);
                point.run.load = Load { share, towards };
                points.push((share, point));
            }
        }
        points
    });
    let mut lossy = Vec::new();
    for &window in &inputs.loaded_windows {
        for loses in [false, true] {
            let mut point = point(&run, window, inputs.loaded_segment);
            point.loses = loses;
            lossy.push(point);
        }
    }
    Ok(Plan {
        inputs,
        parameters,
        free,
        loaded,
        lossy,
    })
}

impl Plan {
    fn transfer(&self, point: &Point, packets: usize, seed: u64) -> Result<Observed, SystemError> {
        let bytes = self.inputs.bytes.as_bytes();
        let window = point.window.as_bytes();
        let config = self.parameters.tcp(bytes, point.segment, window);
        let programs = [Program::TcpSend(config), Program::TcpReceive(config)];
        let mut run = point.run.recorded(packets);
        if point.loses {
            run.lose_cell = Some(middle_cell(bytes, point.segment));
        }
        run.run(seed, programs, Until::Done(self.inputs.at_most))
    }

    fn all(&self, setting: &Setting<'_>, points: &[&Point]) -> Result<Vec<Observed>, SystemError> {
        try_sweep(setting, points, |point, packets| {
            // Only the first of all tables is recorded.
            let first = self
                .free
                .first()
                .is_some_and(|first| std::ptr::eq(first, *point));
            self.transfer(point, if first { packets } else { 0 }, setting.seed)
        })
    }
}

/// The middle one of the cells that a transfer without loss takes.
fn middle_cell(bytes: u64, segment: u64) -> u64 {
    let cells = |data: u64| (data + TCP_HEADER_BYTES as u64).div_ceil(BODY_BYTES as u64);
    let (whole, rest) = (bytes / segment, bytes % segment);
    let rest_cells = if rest > 0 { cells(rest) } else { 0 };
    (whole * cells(segment) + rest_cells) / 2
}

const MEASURED: [(&str, &str); 8] = [
    ("time", "ms"),
    ("rate", "Mbit/s"),
    ("segments sent", ""),
    ("acknowledgements", ""),
    ("fast repeats", ""),
    ("time-outs", ""),
    ("cells lost before the ring", ""),
    ("behind it", ""),
];

/// The columns of [`MEASURED`].
fn measured(observed: &Observed, bytes: u64) -> [Cell; MEASURED.len()] {
    let time = time_us(observed);
    let [sender, receiver] = &observed.sides;
    let lost = sender.station.transmit_overflows + receiver.station.transmit_overflows;
    [
        time.map(|us| us / 1e3).into(),
        time.map(|us| (bytes * 8) as f64 / us).into(),
        sender.tcp.sent.into(),
        receiver.tcp.sent.into(),
        sender.tcp.fast_repeats.into(),
        sender.tcp.time_outs.into(),
        lost.into(),
        (sender.circuit.overflows + receiver.circuit.overflows).into(),
    ]
}

fn time_us(observed: &Observed) -> Option<f64> {
    let end = observed.sides[1].tcp.read_all_at?;
    Some(us(end - observed.start))
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let plan = plan(setting)?;
    let bytes = plan.inputs.bytes.as_bytes();
    let mut outcome = Outcome::default();

    let points: Vec<&Point> = plan.free.iter().collect();
    let mut columns = vec![("window", "B"), ("segment", "B")];
    columns.extend(MEASURED);
    let mut table = Table::new("by window and segment", &columns);
    let results = plan.all(setting, &points)?;
    for (point, mut observed) in points.into_iter().zip(results) {
        let mut row: Vec<Cell> = vec![point.window.as_bytes().into(), point.segment.into()];
        row.extend(measured(&observed, bytes));
        table.rows.push(row);
        take(&mut outcome, &mut observed);
    }
    outcome.tables.push(table);

    let names = ["load that passes by", "load to the receiver"];
    for (name, points) in names.into_iter().zip(&plan.loaded) {
        let mut columns = vec![("load offered", "of the ring"), ("window", "B")];
        columns.extend(MEASURED);
        let mut table = Table::new(name, &columns);
        let transfers: Vec<&Point> = points.iter().map(|(_, point)| point).collect();
        let results = plan.all(setting, &transfers)?;
        for ((share, point), mut observed) in points.iter().zip(results) {
            let mut row: Vec<Cell> = vec![(*share).into(), point.window.as_bytes().into()];
            row.extend(measured(&observed, bytes));
            table.rows.push(row);
            take(&mut outcome, &mut observed);
        }
        outcome.tables.push(table);
    }
    let table = lossy(setting, &plan, &mut outcome)?;
    Ok(outcome.with([table]))
}

fn lossy(setting: &Setting<'_>, plan: &Plan, outcome: &mut Outcome) -> Result<Table, SystemError> {
    let mut table = Table::named("one lost cell");
    let points: Vec<&Point> = plan.lossy.iter().collect();
    let results = plan.all(setting, &points)?;
    for (pair, seen) in plan.lossy.chunks_exact(2).zip(results.chunks_exact(2)) {
        let ms = |observed| time_us(observed).map(|us| us / 1e3);
        let (without, with) = (ms(&seen[0]), ms(&seen[1]));
        let tcp = &seen[1].sides[0].tcp;
        table.row([
            ("window", "B", pair[0].window.as_bytes().into()),
            ("segment", "B", pair[0].segment.into()),
            ("time without loss", "ms", without.into()),
            ("with one lost cell", "ms", with.into()),
            (
                "it costs",
                "ms",
                without
                    .zip(with)
                    .map(|(without, with)| with - without)
                    .into(),
            ),
            ("fast repeats", "", tcp.fast_repeats.into()),
            ("time-outs", "", tcp.time_outs.into()),
        ]);
        for observed in seen {
            outcome.add_run(observed.trace_hash, []);
        }
    }
    Ok(table)
}
