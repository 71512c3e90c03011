//! Admission control: what it is worth to those that are let in.
//!
//! Each source asks `barewire-proto`'s admission control for a rate to the one destination,
//! one after the other. What is let in sends through a token bucket of the rate that it
//! reserved; what is refused sends nothing. The same is then run with nobody refused: every
//! source has its bucket, and together they are more than the line carries.
//!
//! The paper names admission control as the first of four parts of quality of service
//! (kek00), and measured without it.

use barewire_proto::shaping::admission::{Admission, Destination, Flow};
use barewire_units::{Duration, Instant, Rate};

use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::kek::host::{Host, Width};
use crate::kek::parameters::Parameters;
use crate::kek::plan::{Plan, payload_mbps};
use crate::kek::world::{Run, run};
use crate::refuse::{AboveZero, inputs, up_to_time, within};
use crate::sweep::try_sweep;

/// The experiment as a plan names it.
pub const ADMISSION: Experiment = Experiment {
    name: "admission",
    question: "what do streams get that reserve their rate, with admission control and without?",
    inputs: include_str!("../../../plans/kek-admission.toml"),
    check: |setting| prepare(setting).map(drop),
    run: answer,
};

/// The only destination.
const DESTINATION: u8 = 0;

inputs! {
    struct Inputs {
        asked: Vec<Rate> => Rate::from_mbps(1)..=Rate::from_gbps(1),
        capacity: Rate => Rate::from_mbps(1)..=Rate::from_gbps(10),
        host: Host,
        pci_bits: Width,
        warm_up: Duration => up_to_time(LONGEST),
        time: Duration => AboveZero(LONGEST),
    }
}

/// Longest time of a run.
const LONGEST: Duration = Duration::from_s(10);

impl Inputs {
    fn check(&self, parameters: &Parameters) -> Result<(), SystemError> {
        within(
            "the number of asked",
            self.asked.len(),
            1..=parameters.switch.ports - 1,
        )
    }

    /// What admission control says to each source, in their order.
    fn decisions(&self) -> Vec<Result<(), String>> {
        let mut admission = Admission::new(self.capacity, Duration::MAX);
        let ask = |(flow, rate): (u64, &Rate)| {
            let to = Destination(DESTINATION.into());
            let asked = admission.reserve(Instant::ORIGIN, Flow(flow), to, *rate);
            asked.map_err(|rejected| rejected.to_string())
        };
        (1..).zip(&self.asked).map(ask).collect()
    }

    /// A run of the sources with these numbers, which are those of their PCs.
    fn plan(&self, parameters: &Parameters, sources: &[u8]) -> Plan {
        let rate = |source: &u8| self.asked[usize::from(*source) - 1];
        let streams: Vec<_> = sources.iter().map(|&it| (it, DESTINATION)).collect();
        Plan {
            hosts: vec![(self.host, self.pci_bits); 1 + self.asked.len()],
            reserved: sources.iter().map(rate).collect(),
            ..Plan::builder(parameters, &streams, None)
        }
    }
}

fn prepare(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let mut parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    inputs.check(&parameters)?;
    let runs = &mut parameters.runs;
    (runs.switched_warm_up, runs.switched_time) = (inputs.warm_up, inputs.time);
    Ok((parameters, inputs))
}

/// What the stream of a source has got; 0 if it had none.
fn got_mbps(plan: &Plan, run: &Run, source: u8) -> f64 {
    let at = plan.streams.iter().position(|stream| stream.0 == source);
    at.map_or(0.0, |at| run.mbps[at])
}

/// The PCs of the sources that are let in.
fn admitted(decisions: &[Result<(), String>]) -> Vec<u8> {
    let numbered = (1..).zip(decisions);
    let admitted = numbered.filter(|(_, decision)| decision.is_ok());
    admitted.map(|(source, _)| source).collect()
}

/// The run of those that are let in.
pub fn first(setting: &Setting<'_>) -> Result<(Parameters, Plan), SystemError> {
    let (parameters, inputs) = prepare(setting)?;
    let plan = inputs.plan(&parameters, &admitted(&inputs.decisions()));
    Ok((parameters, plan))
}

fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = prepare(setting)?;
    let decisions = inputs.decisions();
    let all: Vec<u8> = (1..).take(inputs.asked.len()).collect();
    let admitted = admitted(&decisions);
    let plans = [admitted, all.clone()].map(|it| inputs.plan(&parameters, &it));
    let runs = try_sweep(setting, &plans, |plan, packets| {
        run(&parameters, &plan.recorded(packets), setting.seed)
    })?;
    let mut table = Table::named("what each source asks for and gets");
    for (source, decision) in all.iter().zip(&decisions) {
        let asked = inputs.asked[usize::from(*source) - 1];
        let got = |at: usize| Cell::from(got_mbps(&plans[at], &runs[at], *source));
        table.row([
            ("source", "", source.to_string().into()),
            ("asks for", "Mbit/s", (asked.as_bps() as f64 * 1e-6).into()),
            (
                "payload of that",
                "Mbit/s",
                payload_mbps(asked, plans[0].mtu).into(),
            ),
            ("with admission control", "Mbit/s", got(0)),
            ("without", "Mbit/s", got(1)),
            (
                "answer",
                "",
                Cell::from(match decision {
                    Ok(()) => "admitted".to_owned(),
                    Err(reason) => format!("refused: {reason}"),
                }),
            ),
        ]);
    }
    let mut outcome = Outcome::default();
    for run in runs {
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
        let inputs = replaced(ADMISSION.inputs, changes);
        asked::ask(&ADMISSION, System.parameters(), &inputs, (1, 0))
    }

    fn number(cell: &Cell) -> f64 {
        match cell {
            Cell::Number(number) => *number,
            other => panic!("{other:?}"),
        }
    }

    fn text(cell: &Cell) -> &str {
        match cell {
            Cell::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    /// 900 Mbit/s are taken by the first three. With the others let in too, what is asked is
    /// 1.2 Gbit/s, and somebody's reservation does not hold.
    #[test]
    fn whoever_is_let_in_gets_what_was_reserved() {
        let outcome = ask(&[]).expect("good inputs");
        let rows = &outcome.tables[0].rows;
        assert_eq!(rows.len(), 5);
        for row in &rows[..3] {
            assert_eq!(text(&row[5]), "admitted");
            let share = number(&row[3]) / number(&row[2]);
            assert!((share - 1.0).abs() < 0.03, "{row:?}");
        }
        for row in &rows[3..] {
            assert!(
                text(&row[5]).contains("0 bit/s of 900Mbit/s are left"),
                "{row:?}"
            );
            assert_eq!(number(&row[3]), 0.0, "{row:?}");
        }
        let share = |row: &Vec<Cell>| number(&row[4]) / number(&row[2]);
        let worst = rows.iter().map(share).fold(1.0, f64::min);
        assert!(worst < 0.9, "without admission control: {worst}");
    }

    /// A smaller wish fits where a larger one did not.
    #[test]
    fn what_is_left_is_given_to_whom_it_is_enough() {
        let changes = [("\"900 Mbit/s\"", "\"700 Mbit/s\""), ("500 ms", "100 ms")];
        let outcome = ask(&changes).expect("good inputs");
        let answers: Vec<bool> = outcome.tables[0]
            .rows
            .iter()
            .map(|row| text(&row[5]) == "admitted")
            .collect();
        assert_eq!(answers, [true, true, false, false, true]);
    }

    #[test]
    fn inputs_are_checked() {
        let refused = |from: &str, to: &str| match ask(&[(from, to)]) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{to} was taken"),
        };
        assert!(refused("\"300 Mbit/s\"", "\"3 Gbit/s\"").contains("asked"));
        assert!(
            refused("capacity = \"900 Mbit/s\"", "capacity = \"1 bit/s\"").contains("capacity")
        );
        assert!(refused("pci_bits = 64", "pci_bits = 16").contains("pci_bits"));
        assert!(refused("time = \"500 ms\"", "time = \"0 us\"").contains("time"));
        let nine = ["\"1 Mbit/s\""; 9].join(", ");
        let before =
            "\"300 Mbit/s\", \"300 Mbit/s\", \"300 Mbit/s\", \"200 Mbit/s\", \"100 Mbit/s\"";
        assert!(refused(before, &nine).contains("asked: found 9"));
    }
}
