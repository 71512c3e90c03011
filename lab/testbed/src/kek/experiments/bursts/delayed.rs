//! Delayed acknowledgements: where they cost time, and how much.
//!
//! A receiver acknowledges every second segment at once and a single one only after a delay.
//! A stream without end never waits for that, because the next segment comes. A message does,
//! if Nagle's rule holds its last, short segment back until everything before is
//! acknowledged, and an odd number of whole segments went before: the last of them is the
//! single one.
//!
//! One source, one builder, one fragment at a time, over the connections of the experiment
//! `bursts`.

use barewire_units::{ByteSize, Duration};

use super::BURSTS;
use super::inputs::{Assignment, Control, Inputs, Point, Transport, Triggers};
use super::shape::Shape;
use super::world::{self, Found};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::kek::host::MTU;
use crate::kek::parameters::Parameters;
use crate::refuse::{AtMost, few_points, inputs, up_to, up_to_time};
use crate::sizes::Distribution;
use crate::sweep::try_sweep;

/// The experiment as a plan names it.
pub const DELAYED_ACK: Experiment = Experiment {
    name: "delayed-ack",
    question: "when does a fragment wait for a delayed acknowledgement, and how long?",
    inputs: include_str!("../../../../plans/kek-delayed-ack.toml"),
    check: |setting| prepare(setting).map(drop),
    run: answer,
};

inputs! {
    struct DelayInputs {
        fragments: Vec<ByteSize> => up_to(ByteSize::from_mib(1)),
        delays: Vec<Duration> => up_to_time(Duration::from_s(10)),
        nagle: Vec<bool> => AtMost(RUNS_MAX),
        between: Duration => Duration::from_us(1)..=Duration::from_s(100),
        fragments_sent: u64 => 4..=100_000,
        mtu: ByteSize => MTU,
    }
}

/// Most runs of a plan.
const RUNS_MAX: usize = 10_000;

impl DelayInputs {
    /// The inputs of `bursts` for one source and one builder with an idle network.
    fn bursts(&self, fragment: ByteSize, nagle: bool) -> Result<Inputs, SystemError> {
        let inputs: Inputs = toml::from_str(BURSTS.inputs)?;
        Ok(Inputs {
            fragment,
            fragment_largest: fragment,
            events: self.fragments_sent,
            triggers: Triggers::Clocked,
            assignment: Assignment::RoundRobin,
            mtu: self.mtu,
            nagle,
            // Nothing is given up and nothing is lost: only the acknowledgements take time.
            timeout: Duration::from_s(100),
            port_buffer: ByteSize::from_gib(1),
            source_buffer: ByteSize::from_gib(1),
            ..inputs
        })
    }

    fn points(&self) -> Vec<(ByteSize, bool, Duration)> {
        let mut points = Vec::new();
        for &fragment in &self.fragments {
            for &nagle in &self.nagle {
                points.extend(self.delays.iter().map(|&delay| (fragment, nagle, delay)));
            }
        }
        points
    }
}

const POINT: Point = Point {
    sources: 1,
    builders: 1,
    distribution: Distribution::Fixed,
    transport: Transport::Tcp,
    control: Control::None,
};

fn prepare(setting: &Setting<'_>) -> Result<(Parameters, DelayInputs), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: DelayInputs = setting.checked_inputs()?;
    let lengths = [
        inputs.fragments.len(),
        inputs.delays.len(),
        inputs.nagle.len(),
    ];
    few_points(&lengths, RUNS_MAX)?;
    Ok((parameters, inputs))
}

fn run_point(
    (parameters, inputs): (&Parameters, &DelayInputs),
    (fragment, nagle, delay): (ByteSize, bool, Duration),
    (seed, packets): (u64, usize),
) -> Result<(u64, Found), SystemError> {
    let mut parameters = parameters.clone();
    parameters.tcp.ack_delay = delay;
    let bursts = inputs.bursts(fragment, nagle)?;
    let mut shape = Shape::new(&parameters, &bursts, &POINT);
    shape.interval = inputs.between;
    let whole_segments = fragment.as_bytes() / shape.payload_bytes;
    world::run(&shape, seed, packets).map(|found| (whole_segments, found))
}

fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = prepare(setting)?;
    let points = inputs.points();
    let runs = try_sweep(setting, &points, |&point, packets| {
        run_point((&parameters, &inputs), point, (setting.seed, packets))
    })?;
    let mut table = Table::named("building time against the delay");
    let mut outcome = Outcome::default();
    for (&(fragment, nagle, delay), (whole_segments, run)) in points.iter().zip(runs) {
        table.row([
            ("fragment", "B", fragment.as_bytes().into()),
            ("whole segments", "", whole_segments.into()),
            ("Nagle", "", Cell::from(if nagle { "on" } else { "off" })),
            ("delay", "ms", (delay.as_ps() as f64 * 1e-9).into()),
            ("building time, mean", "ms", run.building_mean_ms().into()),
            (
                "building time, longest",
                "ms",
                run.building_ms(1_000).into(),
            ),
            ("segments repeated", "", run.segments_repeated.into()),
        ]);
        outcome.add_run(run.hash, run.links);
    }
    Ok(outcome.with([table]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::{self, replaced};
    use crate::kek::System;
    use crate::system::System as _;

    fn ask(changes: &[(&str, &str)]) -> Result<Outcome, SystemError> {
        let inputs = replaced(DELAYED_ACK.inputs, changes);
        asked::ask(&DELAYED_ACK, System.parameters(), &inputs, (1, 0))
    }

    fn number(cell: &Cell) -> f64 {
        match cell {
            Cell::Number(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    /// Fragment, whether Nagle's rule is on, delay and mean building time.
    fn rows(outcome: &Outcome) -> Vec<(f64, bool, f64, f64)> {
        let row = |row: &Vec<Cell>| {
            let nagle = matches!(&row[2], Cell::Text(text) if text == "on");
            (number(&row[0]), nagle, number(&row[3]), number(&row[4]))
        };
        outcome.tables[0].rows.iter().map(row).collect()
    }

    /// The acknowledgement comes with the first tick after the delay, half a tick late in the
    /// mean; nothing else takes as long as a millisecond.
    #[test]
    fn a_rest_behind_an_odd_number_of_segments_waits_for_the_delay() {
        let outcome = ask(&[]).expect("good inputs");
        let rows = rows(&outcome);
        assert_eq!(rows.len(), 7 * 3 * 2);
        for (bytes, nagle, delay_ms, mean_ms) in rows {
            let whole = (bytes / 1448.0).floor();
            let waits = nagle && whole % 2.0 == 1.0;
            let expected = if waits { delay_ms + 5.0 } else { 0.0 };
            let error = mean_ms - expected;
            assert!(
                error.abs() < 1.5,
                "{bytes} B, Nagle {nagle}, {delay_ms} ms: {mean_ms} ms"
            );
        }
        let repeated = |row: &Vec<Cell>| number(&row[6]);
        assert_eq!(
            outcome.tables[0].rows.iter().map(repeated).sum::<f64>(),
            0.0
        );
    }

    /// What comes next ends the wait, so a busy connection is held up for less.
    #[test]
    fn the_next_fragment_ends_the_wait() {
        let one = ("\"1 KiB\", \"2 KiB\", \"4 KiB\", \"6 KiB\", ", "");
        let rest = (", \"12 KiB\", \"16 KiB\"", "");
        let often = ask(&[one, rest, ("503 ms", "7 ms")]).expect("good inputs");
        let slowest = rows(&often).iter().map(|row| row.3).fold(0.0, f64::max);
        assert!(slowest < 10.0, "{slowest} ms");
    }

    #[test]
    fn inputs_are_checked() {
        let refused = |from: &str, to: &str| match ask(&[(from, to)]) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{to} was taken"),
        };
        assert!(refused("[true, false]", "[]").contains("nagle"));
        assert!(refused("\"1 KiB\"", "\"2 MiB\"").contains("fragments"));
        assert!(refused("\"20 ms\"", "\"20 s\"").contains("delays"));
        assert!(refused("503 ms", "0 us").contains("between"));
        assert!(refused("fragments_sent = 60", "fragments_sent = 1").contains("fragments_sent"));
        assert!(refused("1500 B", "100 B").contains("mtu"));
    }
}
