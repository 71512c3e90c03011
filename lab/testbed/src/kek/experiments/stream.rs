//! The basic measurement: netperf streams from n sources to m destinations, with settings of
//! one's own, and the frames on each PC's link.

use barewire_proto::shaping::{Timer, Tree};
use barewire_units::{ByteSize, Duration, Rate};

use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table};
use crate::figures::seconds;
use crate::kek::host::{Host, MTU, Tuning, Width};
use crate::kek::parameters::Parameters;
use crate::kek::plan::Plan;
use crate::kek::world::{Run, run};
use crate::refuse::{AboveZero, inputs, up_to, up_to_time, wrong};
use crate::sweep::try_sweep;

/// The experiment as a plan names it.
pub const STREAM: Experiment = Experiment {
    name: "stream",
    question: "what rate has each TCP stream, and how busy are the PCs?",
    inputs: include_str!("../../../plans/kek-stream.toml"),
    check: |setting| prepare(setting).map(drop),
    run: answer,
};

inputs! {
    struct Inputs {
        sources: u8,
        destinations: u8,
        host: Host,
        pci_bits: Width,
        mtu: ByteSize => MTU,
        tx_coal: Duration => up_to_time(Duration::from_ms(10)),
        rx_coal: Duration => up_to_time(Duration::from_ms(10)),
        buffer: ByteSize => ByteSize::from_kib(64)..=ByteSize::from_mib(64),
        message: ByteSize => up_to(ByteSize::from_mib(16)),
        nagle: bool,
        shaping: String,
        tc: String,
        switched: bool,
        port_buffer: ByteSize => ByteSize::from_kib(16)..=ByteSize::from_gib(1),
        warm_up: Duration => up_to_time(Duration::from_s(10)),
        time: Duration => AboveZero(Duration::from_s(10)),
    }
}

impl Inputs {
    fn check(&self, parameters: &Parameters) -> Result<(), SystemError> {
        let pcs = usize::from(self.sources) + usize::from(self.destinations);
        let ports = parameters.switch.ports;
        if self.sources == 0 || self.destinations == 0 || pcs > ports {
            let found = format!("{} and {}", self.sources, self.destinations);
            let expected = format!("1 each at least, {ports} together at most");
            return Err(wrong("sources, destinations", found, expected));
        }
        if pcs > 2 && !self.switched {
            return Err(wrong("switched", false, "true with more than two PCs"));
        }
        if self.shaping != "none" && !self.tc.is_empty() {
            let expected = "\"none\" with commands in tc, which shape by themselves";
            return Err(wrong("shaping", &self.shaping, expected));
        }
        self.script()?;
        self.shaped().map(drop)
    }

    /// The commands for each source, if there are any; checked, so that a mistake is told with
    /// its line before anything runs.
    fn script(&self) -> Result<Option<String>, SystemError> {
        if self.tc.trim().is_empty() {
            return Ok(None);
        }
        match Tree::parse(&self.tc, Timer::EXACT) {
            Ok(_) => Ok(Some(self.tc.clone())),
            Err(error) => Err(SystemError::Contradiction(format!("tc: {error}"))),
        }
    }

    fn shaped(&self) -> Result<Option<Rate>, SystemError> {
        if self.shaping == "none" {
            return Ok(None);
        }
        let rate: Option<Rate> = self.shaping.parse().ok();
        let range = Rate::from_mbps(1)..=Rate::from_gbps(1);
        let good = rate.filter(|rate| range.contains(rate));
        let expected = "\"none\", or 1 Mbit/s to 1 Gbit/s";
        good.map(Some)
            .ok_or_else(|| wrong("shaping", format!("{:?}", self.shaping), expected))
    }

    /// The parameters with what the inputs say of them.
    fn apply(&self, mut parameters: Parameters) -> Parameters {
        parameters.tcp.nagle = self.nagle;
        parameters.tcp.message = self.message;
        parameters.switch.buffer = self.port_buffer;
        let runs = &mut parameters.runs;
        (runs.warm_up, runs.switched_warm_up) = (self.warm_up, self.warm_up);
        (runs.time, runs.switched_time) = (self.time, self.time);
        parameters
    }

    fn plan(&self, packets_per_link: usize) -> Result<Plan, SystemError> {
        let pcs = self.sources + self.destinations;
        let to = |source| (self.sources..pcs).map(move |destination| (source, destination));
        Ok(Plan {
            hosts: vec![(self.host, self.pci_bits); usize::from(pcs)],
            streams: (0..self.sources).flat_map(to).collect(),
            mtu: self.mtu.as_bytes(),
            tuning: Tuning {
                send: self.tx_coal,
                receive: self.rx_coal,
            },
            buffer: self.buffer,
            shaped: self.shaped()?,
            reserved: Vec::new(),
            script: self.script()?,
            bucket: None,
            switched: self.switched,
            packets_per_link,
        })
    }
}

/// The parameters and the plan of these inputs.
pub fn prepare(setting: &Setting<'_>) -> Result<(Parameters, Plan), SystemError> {
    let parameters = Parameters::parse(setting.parameters)?;
    let inputs: Inputs = setting.checked_inputs()?;
    inputs.check(&parameters)?;
    let plan = inputs.plan(setting.packets_per_link)?;
    Ok((inputs.apply(parameters), plan))
}

fn answer(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, plan) = prepare(setting)?;
    let runs = try_sweep(setting, &[()], |(), _| {
        run(&parameters, &plan, setting.seed)
    })?;
    let mut outcome = Outcome::default();
    for run in runs {
        outcome
            .tables
            .extend([streams(&plan, &run), pcs(&run), switch(&run)]);
        outcome.add_run(run.hash, run.links);
    }
    Ok(outcome)
}

fn streams(plan: &Plan, run: &Run) -> Table {
    let mut table = Table::named("streams");
    let rows = plan.streams.iter().zip(&run.mbps).zip(&run.senders);
    for ((&(from, to), &mbps), sender) in rows {
        table.row([
            ("stream", "", (format!("{from} to {to}")).into()),
            ("rate", "Mbit/s", mbps.into()),
            ("segments", "", sender.segments.into()),
            ("short segments", "", sender.short.into()),
            ("fast repetitions", "", sender.fast_repeats.into()),
            ("time-outs", "", sender.time_outs.into()),
        ]);
    }
    table
}

fn pcs(run: &Run) -> Table {
    let mut table = Table::named("PCs");
    let seconds = seconds(run.time);
    for (number, pc) in run.pcs.iter().enumerate() {
        table.row([
            ("PC", "", number.to_string().into()),
            ("processor busy", "%", run.busy_per_cent(number).into()),
            (
                "in traffic control",
                "%",
                run.shaping_per_cent(number).into(),
            ),
            ("interrupts", "1/s", (pc.interrupts as f64 / seconds).into()),
            ("frames the card lost", "", pc.overruns.into()),
            ("packets the discipline refused", "", pc.dropped.into()),
        ]);
    }
    table
}

fn switch(run: &Run) -> Table {
    let columns = [("switch", ""), ("frames", ""), ("bytes", "")];
    let mut table = Table::new("switch", &columns);
    let row = |name: &str, frames: Cell, bytes: Cell| [Cell::from(name), frames, bytes];
    table.push(row("lost", run.switch_lost.into(), Cell::Missing));
    let highest = run.switch_highest_bytes;
    table.push(row(
        "held at most by an output",
        Cell::Missing,
        highest.into(),
    ));
    table
}
