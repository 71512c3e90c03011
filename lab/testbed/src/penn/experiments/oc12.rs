//! `oc12`: the same design at four times the rate: which stage limits, and what it takes.
//!
//! Each stage is measured alone, with all others made so fast that they do not count; then
//! those that are too slow are made wider, until a run carries every cell of the line.

use barewire_models::parameters::{Cycles, Parameters as _};
use barewire_models::penn::ReassemblerConfig as Stages;
use barewire_units::{ByteSize, Duration, Rate};

use super::common::{BLOCK_MAX, CHOICES, POINTS_MAX, Policy, WRITES, check_volume, us};
use super::pipeline::{lost_per_cent, mbps};
use crate::error::SystemError;
use crate::experiment::{Cell, Experiment, Outcome, Setting, Table, mix_hashes};
use crate::penn::parameters::{Machine, Parameters};
use crate::penn::program::Program;
use crate::penn::world::{Observed, flood, observe};
use crate::refuse::{few_points, inputs, up_to, up_to_time};
use crate::sweep::sweep;

pub const OC12: Experiment = Experiment {
    name: "oc12",
    question: "The same design at OC-12c: which stage limits, and how many cell managers and what \
        bus does line rate take?",
    inputs: include_str!("../../../plans/penn-oc12.toml"),
    check: |setting| read(setting).map(drop),
    run,
};

/// Faster than anything in the experiment.
const NO_LIMIT: Rate = Rate::from_gbps(1_000);
/// Cells to measure a stage of the reassembler with.
const FLOOD_CELLS: u64 = 2_000;
/// Most cell managers, and enough for any line.
const MANAGERS_MAX: usize = 64;
/// Longest pause and slowest clock that are looked at.
const TIME_MAX: Duration = Duration::from_us(10);

inputs! {
    struct Inputs {
        line: Rate => Rate::from_mbps(1)..=Rate::from_gbps(100),
        managers: Vec<usize> => 1..=MANAGERS_MAX,
        words: Vec<ByteSize> => up_to(ByteSize::from_bytes(64)),
        reloads: Vec<Duration> => up_to_time(TIME_MAX),
        clocks: Vec<Duration> => Duration::from_ps(1)..=TIME_MAX,
        policies: Vec<Policy> => CHOICES,
        // Enough to see whether the line has a gap.
        block: ByteSize => ByteSize::from_kib(16)..=BLOCK_MAX,
        writes: u64 => WRITES,
    }
}

fn read(setting: &Setting<'_>) -> Result<(Parameters, Inputs), SystemError> {
    let inputs: Inputs = setting.checked_inputs()?;
    let mut parameters = Parameters::parse(setting.parameters)?;
    check_volume(inputs.block, inputs.writes)?;
    few_points(&[inputs.words.len(), inputs.reloads.len()], POINTS_MAX)?;
    let words = inputs
        .words
        .iter()
        .map(|word| word.as_bytes())
        .max()
        .unwrap_or(0);
    let needed = words * parameters.bus.words + parameters.segmenter.payload.as_bytes();
    if parameters.segmenter.fifo.as_bytes() < needed {
        return Err(SystemError::Contradiction(format!(
            "words: found {words} B, a burst for which segmenter.fifo has no room: expected less"
        )));
    }
    parameters.line.rate = inputs.line;
    Ok((parameters, inputs))
}

/// The parameters, with parts made so fast that they do not count.
#[derive(Clone)]
struct Design(Parameters);

impl Design {
    fn free_host(mut self) -> Self {
        self.0.host.times_mut(&mut |cost| *cost = Duration::ZERO);
        self
    }

    fn free_bus(mut self) -> Self {
        self.0.bus.word_time = Duration::from_ps(1);
        self.0.bus.reload = Duration::ZERO;
        self
    }

    fn free_header(mut self) -> Self {
        self.0.segmenter.header_cycles = Cycles(0);
        self
    }

    fn free_line(mut self) -> Self {
        self.0.line.rate = NO_LIMIT;
        self
    }

    fn free_reassembler(mut self) -> Self {
        let stages = &mut self.0.reassembler;
        stages.manager_cycles = Cycles(0);
        (stages.cam_cycles, stages.list_cycles) = (Cycles(0), Cycles(0));
        self
    }

    fn reassembler(mut self, change: impl FnOnce(&mut Stages)) -> Self {
        change(&mut self.0.reassembler);
        self
    }

    fn managers(self, managers: usize) -> Self {
        self.reassembler(|stages| stages.managers = managers)
    }

    fn clock(mut self, cycle: Duration) -> Self {
        self.0.clock.cycle = cycle;
        self
    }

    fn bus(mut self, word: ByteSize, reload: Duration) -> Self {
        self.0.bus.word = word;
        self.0.bus.reload = reload;
        self
    }

    /// One block, streamed without a pause for the host.
    fn block(mut self, block: ByteSize) -> Observed {
        self.0.driver.buffer = block;
        self.observe(Policy::Trust, block, 1, 0)
    }

    fn observe(&self, policy: Policy, block: ByteSize, writes: u64, packets: usize) -> Observed {
        let program = Program::new(block.as_bytes(), writes, None);
        observe(&self.0, policy.path(), program, packets)
    }
}

/// Everything that the experiment collects.
struct Study<'a> {
    setting: &'a Setting<'a>,
    inputs: Inputs,
    design: Design,
    hashes: Vec<u64>,
    outcome: Outcome,
}

fn run(setting: &Setting<'_>) -> Result<Outcome, SystemError> {
    let (parameters, inputs) = read(setting)?;
    let mut study = Study {
        setting,
        inputs,
        design: Design(parameters),
        hashes: Vec::new(),
        outcome: Outcome::default(),
    };
    study.stages();
    study.managers();
    study.buses();
    study.clocks();
    study.hosts();
    study.needed();
    study.outcome.trace_hash = mix_hashes(0, study.hashes);
    Ok(study.outcome)
}

impl Study<'_> {
    /// Runs `designs` with one block each.
    fn blocks(&mut self, designs: &[Design]) -> Vec<Observed> {
        let block = self.inputs.block;
        let points = sweep(self.setting, designs, |design, _| {
            design.clone().block(block)
        });
        self.hashes
            .extend(points.iter().map(|point| point.run.hash));
        points
    }

    /// Each stage alone: what it would put on a line without a limit.
    fn stages(&mut self) {
        let free = self.design.clone().free_line().free_reassembler();
        let wire = free.clone().free_host();
        let (block, writes) = (self.inputs.block, self.inputs.writes);
        let mut rows = Vec::new();
        for policy in self.inputs.policies.clone() {
            let host = free.clone().free_bus().free_header();
            let run = host.observe(policy, block, writes, 0).run;
            self.hashes.push(run.hash);
            rows.push((format!("host, {}", policy.name()), run.cells.bps() / 1e6));
        }
        let line = self.design.clone().free_host().free_bus();
        let alone = [
            wire.clone().free_header(),
            wire.free_bus(),
            line.free_header().free_reassembler(),
        ];
        let points = self.blocks(&alone);
        for (name, point) in ["bus", "header generator", "line"].iter().zip(&points) {
            rows.push(((*name).into(), point.run.cells.bps() / 1e6));
        }
        let stage = |keep: fn(&mut Stages)| self.design.clone().reassembler(keep);
        let receivers = [
            (
                "one cell manager",
                stage(|r| {
                    (r.managers, r.cam_cycles, r.list_cycles) = (1, Cycles(0), Cycles(0));
                }),
            ),
            (
                "CAM look-up controller",
                stage(|r| (r.manager_cycles, r.list_cycles) = (Cycles(0), Cycles(0))),
            ),
            (
                "list manager",
                stage(|r| (r.manager_cycles, r.cam_cycles) = (Cycles(0), Cycles(0))),
            ),
        ];
        for (name, design) in receivers {
            let (stored, hash) = flood(&design.0, FLOOD_CELLS);
            self.hashes.push(hash);
            rows.push((name.into(), stored.bps() / 1e6));
        }
        let columns = [("stage", ""), ("cells", "Mbit/s"), ("of the line", "%")];
        let mut table = Table::new("each stage alone", &columns);
        let line_mbps = self.inputs.line.as_bps() as f64 / 1e6;
        for (name, mbps) in rows {
            table.push([name.into(), mbps.into(), (mbps * 100.0 / line_mbps).into()]);
        }
        self.outcome.tables.push(table);
    }

    /// A full line into so many cell managers.
    fn managers(&mut self) {
        let full = self.full_line();
        let managers = self.inputs.managers.clone();
        let designs: Vec<_> = managers.iter().map(|&m| full.clone().managers(m)).collect();
        let points = self.blocks(&designs);
        let columns = [
            ("cell managers", ""),
            ("cells sent", "Mbit/s"),
            ("cells stored", "Mbit/s"),
            ("lost", "%"),
            ("line to buffer", "us"),
            ("line to buffer, p99", "us"),
        ];
        let mut table = Table::new("cell managers", &columns);
        for (managers, point) in managers.into_iter().zip(&points) {
            table.push([
                managers.into(),
                mbps(point.run.cells),
                mbps(point.run.stored),
                lost_per_cent(point).into(),
                point.latency.mean_us().into(),
                point.latency.p99_us().into(),
            ]);
        }
        self.outcome.tables.push(table);
    }

    /// The bus, wider and with shorter pauses.
    fn buses(&mut self) {
        let base = self.design.clone().free_host().free_reassembler();
        let mut cases = Vec::new();
        for &word in &self.inputs.words {
            cases.extend(self.inputs.reloads.iter().map(|&reload| (word, reload)));
        }
        let designs: Vec<_> = cases
            .iter()
            .map(|&(word, reload)| base.clone().bus(word, reload))
            .collect();
        let points = self.blocks(&designs);
        let columns = [
            ("reload", "us"),
            ("word", "B"),
            ("bus", "Mbit/s"),
            ("cells sent", "Mbit/s"),
        ];
        let mut table = Table::new("bus", &columns);
        for ((word, reload), point) in cases.into_iter().zip(&points) {
            table.push([
                us(reload).into(),
                word.as_bytes().into(),
                mbps(point.run.bus),
                mbps(point.run.cells),
            ]);
        }
        self.outcome.tables.push(table);
    }

    /// The clock of segmenter and reassembler.
    fn clocks(&mut self) {
        let full = self
            .design
            .clone()
            .free_host()
            .free_bus()
            .managers(MANAGERS_MAX);
        let clocks = self.inputs.clocks.clone();
        let designs: Vec<_> = clocks
            .iter()
            .map(|&clock| full.clone().clock(clock))
            .collect();
        let points = self.blocks(&designs);
        let columns = [
            ("clock", "ns"),
            ("cells sent", "Mbit/s"),
            ("cells stored", "Mbit/s"),
            ("lost", "%"),
        ];
        let mut table = Table::new("clock, with 64 cell managers", &columns);
        for (clock, point) in clocks.into_iter().zip(&points) {
            table.push([
                (clock.as_ps() as f64 * 1e-3).into(),
                mbps(point.run.cells),
                mbps(point.run.stored),
                lost_per_cent(point).into(),
            ]);
        }
        self.outcome.tables.push(table);
    }

    /// The whole path, from the program: each machine with its own bus and with one that does
    /// not count.
    fn hosts(&mut self) {
        let mut cases = Vec::new();
        for machine in [Machine::Workstation, Machine::Present] {
            for bus_counts in [true, false] {
                let policies = self.inputs.policies.iter();
                cases.extend(policies.map(|&policy| (machine, bus_counts, policy)));
            }
        }
        let (block, writes) = (self.inputs.block, self.inputs.writes);
        let points = sweep(
            self.setting,
            &cases,
            |&(machine, bus_counts, policy), packets| {
                let design = Design(self.design.0.on(machine)).managers(MANAGERS_MAX);
                let design = if bus_counts {
                    design
                } else {
                    design.free_bus()
                };
                design.observe(policy, block, writes, packets)
            },
        );
        let mut table = Table::named("from the program");
        for ((machine, bus_counts, policy), point) in cases.into_iter().zip(&points) {
            table.row([
                ("machine", "", machine.name().into()),
                (
                    "bus",
                    "",
                    (if bus_counts { "its own" } else { "no limit" }).into(),
                ),
                ("driver", "", policy.name().into()),
                ("payload on the line", "Mbit/s", mbps(point.run.payload)),
                ("lost", "%", lost_per_cent(point).into()),
            ]);
        }
        self.hashes
            .extend(points.iter().map(|point| point.run.hash));
        self.outcome.tables.push(table);
        let captures = points.into_iter().filter_map(|point| point.capture);
        self.outcome.links.extend(captures);
    }

    /// A line without a gap, and one cell manager or more behind it.
    fn full_line(&self) -> Design {
        self.design.clone().free_host().free_bus().free_header()
    }

    /// What a full line without a loss takes, each found by runs.
    fn needed(&mut self) {
        let mut table = Table::new(
            "needed for a full line without a loss",
            &[("part", ""), ("at", ""), ("value", ""), ("unit", "")],
        );
        let full = self.full_line();
        let managers =
            (1..=MANAGERS_MAX).find(|&managers| self.keeps_up(full.clone().managers(managers)));
        table.push([
            "cell managers".into(),
            "at least".into(),
            managers.into(),
            "".into(),
        ]);
        let cycle = self.largest(TIME_MAX.as_ps(), |study, ps| {
            let design = study
                .design
                .clone()
                .free_host()
                .free_bus()
                .managers(MANAGERS_MAX);
            study.keeps_up(design.clock(Duration::from_ps(ps)))
        });
        table.push(longest("cycle of the reassembler", cycle));
        let segmenter = self.largest(TIME_MAX.as_ps(), |study, ps| {
            let design = study
                .design
                .clone()
                .free_host()
                .free_bus()
                .free_reassembler();
            study.line_full(design.clock(Duration::from_ps(ps)))
        });
        table.push(longest("cycle of the segmenter", segmenter));
        for word in self.inputs.words.clone() {
            let reload = self.largest(TIME_MAX.as_ps(), |study, ps| {
                let design = study.design.clone().free_host().free_reassembler();
                study.line_full(design.bus(word, Duration::from_ps(ps)))
            });
            table.push(longest(&format!("reload, words of {word}"), reload));
        }
        self.outcome.tables.push(table);
    }

    /// Whether the reassembler loses nothing, and does not fall behind either.
    fn keeps_up(&mut self, design: Design) -> bool {
        let run = self.blocks(&[design])[0].run;
        run.lost_cells == 0 && run.stored.bps() >= 0.999 * run.cells.bps()
    }

    /// Whether a cell leaves in every slot, but for the beginning.
    fn line_full(&mut self, design: Design) -> bool {
        let line = self.inputs.line.as_bps() as f64;
        self.blocks(&[design])[0].run.cells.bps() >= 0.999 * line
    }

    /// The largest value up to `most` for which `holds`, which then holds for all below.
    fn largest(&mut self, most: u64, mut holds: impl FnMut(&mut Self, u64) -> bool) -> Option<u64> {
        if !holds(self, 1) {
            return None;
        }
        let (mut held, mut failed) = (1, most + 1);
        // To a thousandth.
        while failed - held > 1 + held / 1_000 {
            let middle = held + (failed - held) / 2;
            if holds(self, middle) {
                held = middle;
            } else {
                failed = middle;
            }
        }
        Some(held)
    }
}

fn longest(part: &str, ps: Option<u64>) -> [Cell; 4] {
    let ns = ps.map(|ps| ps as f64 * 1e-3);
    [part.into(), "at most".into(), ns.into(), "ns".into()]
}
