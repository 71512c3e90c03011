//! `barewire daq predict`: the same configuration in the laboratory, beside what was measured.
//!
//! The host is the workbench's, measured by `barewire lab calibrate` or given; what the program
//! itself takes is measured here, without any transport. Nothing is fitted on a whole run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::{Config, Shape, SinkKind, SourceKind, Transport, Trigger};
use barewire_daq::costs::Costs;
use barewire_proto::evb::{Flow, Policy, WhenFull};
use barewire_sys::process::allowed_cpus;
use barewire_tables::plan::{Shelf, Wanted};
use barewire_tables::runs::{Watch, run as run_plans};
use barewire_tables::{Change, Entry, Over, Page, ResultColumn, ResultTable};
use barewire_units::ByteSize;
use clap::Args;

use super::DaqError;
use super::scan::{self, BUILT, Outputs, Point};
use crate::lab::calibrate::{self, CalibrateArgs};

/// The plan that is run.
const PLAN: &str = "workbench-events";
/// Fragments of a simulated run: enough for a rate, and soon over.
const FRAGMENTS: u64 = 40_000;
const EVENTS_MAX: u64 = 20_000;
/// What TCP's own buffers hold on loopback, beside what the program gathers. OPEN.
const TCP_ROOM: &str = "2 MiB";

/// What to predict.
#[derive(Clone, Debug, Args)]
pub struct PredictArgs {
    /// The configuration
    config: PathBuf,
    /// Sizes of fragments
    #[arg(
        long,
        value_name = "fragment_size=VALUES",
        default_value = "fragment_size=256 B..1 MiB times 4"
    )]
    over: Over,
    /// The host: a file of `barewire lab calibrate`, or a preset such as modern-pc; otherwise this
    /// machine is measured now, which takes some ten seconds
    #[arg(long, value_name = "FILE|NAME")]
    with: Option<String>,
    /// Processors that the processes share; otherwise as many as there are for this command
    #[arg(long, value_name = "N")]
    processors: Option<usize>,
    /// Measure it too: so many runs for each size
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "3")]
    measure: Option<u16>,
    /// What was measured: a .json of `barewire daq scan --over fragment_size=...`
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    measured: Option<PathBuf>,
    /// Write the table too: .csv or .json; or with its plots: .html or .svg. May be repeated
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
}

fn wrong<T>(text: String) -> Result<T, DaqError> {
    Err(DaqError::Scan(text))
}

fn problem(error: impl ToString) -> DaqError {
    DaqError::Scan(error.to_string())
}

/// Predicts it.
pub fn run(args: &PredictArgs) -> Result<ExitCode, DaqError> {
    if !matches!(args.over.key.as_str(), "fragment_size" | "fragments.size") {
        return wrong(format!(
            "--over {}: expected fragment_size=VALUES",
            args.over.key
        ));
    }
    let points = scan::points(&args.config, core::slice::from_ref(&args.over))?;
    let Some(first) = points.first() else {
        return wrong("no sizes".to_owned());
    };
    let outputs = Outputs::check(&args.out, points.len())?;
    let costs = Costs::measure(&first.config).map_err(problem)?;
    let host = Host::of(args.with.as_deref())?;
    let processors = args.processors.unwrap_or(allowed_cpus().len());
    let laboratory = Laboratory {
        costs,
        with: &host.with,
        processors,
        fragments: FRAGMENTS,
    };
    let predicted = laboratory.predicted(&points)?;
    let measured = match (&args.measured, args.measure) {
        (Some(file), _) => Some(read(file)?),
        (None, Some(runs)) => Some(scan::measure(&args.over, &points, runs)?),
        (None, None) => None,
    };
    let table = beside(&args.over, &predicted, measured.as_ref());
    let mut notes = vec![
        format!(
            "Host: {}; {processors} processors. The program, measured by itself: {}.",
            host.name,
            in_words(&costs)
        ),
        "Not in the model: caches and the bandwidth of memory that processes share, copies from \
         another processor's cache, anything else that runs, the system's scheduler beside its \
         slices, reports, files. Nothing was fitted on a whole run."
            .to_owned(),
    ];
    notes.extend(left_out(&first.config));
    notes.extend(not_built(&predicted));
    notes.extend(measured.is_some().then(|| how_far_off(&table)));
    print!("{}", table.to_text());
    notes.iter().for_each(|note| println!("{note}"));
    let page = Page {
        heading: format!("barewire daq predict {}", args.config.display()),
        notes,
        tables: vec![table],
    };
    outputs.write(&page, &[])?;
    Ok(ExitCode::SUCCESS)
}

/// A host for the plan; a file that was made for it goes with it.
struct Host {
    name: String,
    with: String,
    made: bool,
}

impl Host {
    fn of(with: Option<&str>) -> Result<Self, DaqError> {
        if let Some(with) = with {
            return Ok(Self {
                name: with.to_owned(),
                with: with.to_owned(),
                made: false,
            });
        }
        let path = std::env::temp_dir().join(format!("barewire-host-{}.toml", std::process::id()));
        let host = Self {
            name: "this machine, measured now".to_owned(),
            with: path.display().to_string(),
            made: true,
        };
        calibrate::calibrate(&CalibrateArgs {
            output: Some(path),
            cpus: Vec::new(),
            quiet: false,
        })
        .map_err(problem)?;
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.made {
            let _ = std::fs::remove_file(&self.with);
        }
    }
}

/// What the laboratory is given beside configurations.
struct Laboratory<'a> {
    costs: Costs,
    /// The host.
    with: &'a str,
    processors: usize,
    /// Of a simulated run, about.
    fragments: u64,
}

impl Laboratory<'_> {
    /// The laboratory's rates: a row for each point.
    fn predicted(&self, points: &[Point]) -> Result<ResultTable, DaqError> {
        let shelf = Shelf::default();
        let draft = shelf.open(PLAN).map_err(problem)?;
        let plan = |point: &Point| {
            let inputs = self.inputs(&point.config);
            let set = inputs.into_iter().map(|(key, value)| {
                let key = format!("inputs.{key}");
                ("daq predict", Change { key, value })
            });
            let wanted = Wanted {
                with: vec![self.with.to_owned()],
                set: set.collect(),
            };
            shelf.resolve(&draft, &wanted).map_err(problem)
        };
        let plans = points.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let found = run_plans(&plans, 0, &Watch::new(&plans)).map_err(problem)?;
        let mut tables = found
            .into_iter()
            .filter_map(|it| it.tables.into_iter().next());
        let Some(mut table) = tables.next() else {
            return wrong("the laboratory gave nothing".to_owned());
        };
        tables.for_each(|more| table.rows.extend(more.rows));
        Ok(table)
    }

    /// The configuration as inputs of the plan.
    fn inputs(&self, config: &Config) -> Vec<(&'static str, String)> {
        let costs = &self.costs;
        let (manager, source, builder) = (&config.manager, &config.source, &config.builder);
        let (sources, builders) = (u64::from(manager.sources), u64::from(manager.builders));
        let size = |bytes: u64| format!("{bytes} B");
        let ns = |ns: f64| format!("{ns:.2} ns");
        let window = manager.window.unwrap_or(256);
        let pieces = config.sizes.mean_bytes.div_ceil(source.piece_bytes).max(1);
        // The beginning and the end of a run are not what is asked for.
        let least = 8 * u64::from(window);
        let events = (self.fragments / (sources * pieces)).clamp(least.min(EVENTS_MAX), EVENTS_MAX);
        let (distribution, sigma) = match config.sizes.shape {
            Shape::Fixed | Shape::Uniform => ("fixed", 0.5),
            Shape::Exponential => ("exponential", 0.5),
            Shape::LogNormal(sigma) => ("log-normal", sigma),
        };
        let (triggers, period) = match config.trigger {
            Trigger::Max | Trigger::Sources => ("full", None),
            Trigger::Clock(period) => ("clocked", Some(period)),
            Trigger::Poisson(period) => ("poisson", Some(period)),
        };
        let assignment = match manager.policy {
            Policy::RoundRobin => "round robin",
            Policy::LeastLoaded => "least loaded",
            Policy::Pulled => "pulled",
            Policy::Hash => "hash",
        };
        let (transport, room) = match config.transport {
            Transport::Ring => ("ring", size(config.ring_bytes as u64)),
            Transport::Tcp => ("tcp", TCP_ROOM.to_owned()),
        };
        // The plan takes none of nothing.
        let fragment = size(config.sizes.mean_bytes.max(1));
        let mut inputs = vec![
            ("transport", transport.to_owned()),
            ("sources", sources.to_string()),
            ("builders", builders.to_string()),
            ("processors", self.processors.to_string()),
            ("fragments", fragment),
            ("distribution", distribution.to_owned()),
            ("fragment_largest", size(config.sizes.bytes_max.max(1))),
            ("sigma", format!("{sigma:?}")),
            ("events", events.to_string()),
            ("triggers", triggers.to_owned()),
            ("assignment", assignment.to_owned()),
            ("window", window.to_string()),
            ("piece", size(source.piece_bytes)),
            ("source_buffer", size(source.buffer_bytes)),
            ("timeout", format!("{} ps", builder.timeout.as_ps())),
            ("room", room),
            ("fragment_out", ns(costs.fragment_out)),
            ("make_kib", ns(costs.make_kib)),
            ("fragment_in", ns(costs.fragment_in)),
            ("verify_kib", ns(costs.verify_kib)),
            ("event", ns(costs.event)),
            ("message", ns(costs.message)),
            ("message_event", ns(costs.message_event)),
        ];
        inputs.extend(period.map(|it| ("period", format!("{} ps", it.as_ps()))));
        inputs.extend(builder.pull.map(|it| ("pulled_events", it.to_string())));
        inputs.extend(builder.credits.map(|it| ("credits", it.to_string())));
        inputs.extend(flow(source.flow, manager.schedule.map(|it| it.lead)));
        inputs
    }
}

fn flow(flow: Flow, lead: Option<barewire_units::Duration>) -> Vec<(&'static str, String)> {
    let time = |time: barewire_units::Duration| format!("{} ps", time.as_ps());
    let rate = |rate: barewire_units::Rate| format!("{} bit/s", rate.as_bps());
    let control = |name: &str| ("control", name.to_owned());
    match flow {
        Flow::Free => vec![control("none")],
        Flow::Credits => vec![control("credits")],
        Flow::Shaped { rate: at, burst } => vec![
            control("bucket"),
            ("rate", rate(at)),
            ("burst", format!("{} B", burst.as_bytes())),
        ],
        Flow::Barrel(barrel) => vec![
            control("barrel"),
            ("rate", rate(barrel.rate)),
            ("slot", time(barrel.slot)),
        ],
        Flow::Scheduled { slot } => vec![
            control("schedule"),
            ("slot", time(slot)),
            ("lead", time(lead.unwrap_or_default())),
        ],
    }
}

/// What of this configuration the model does otherwise.
fn left_out(config: &Config) -> Option<String> {
    let all = [
        (
            config.sizes.shape == Shape::Uniform,
            "sizes are taken as fixed, not uniform",
        ),
        (
            config.source.full == WhenFull::Drop,
            "sources block, and do not drop",
        ),
        (
            config.sink != SinkKind::Discard,
            "events are neither recorded nor handed over",
        ),
        (
            config.source_kind != SourceKind::Generator,
            "fragments are generated, of the sizes in the configuration",
        ),
        (config.faults.any(), "no fragment is faulty"),
        (
            config.trigger == Trigger::Sources,
            "sources always have a fragment",
        ),
    ];
    let some: Vec<_> = all.iter().filter(|it| it.0).map(|it| it.1).collect();
    (!some.is_empty()).then(|| format!("Other than in the configuration: {}.", some.join("; ")))
}

/// Whether the model says that the configuration loses events.
fn not_built(predicted: &ResultTable) -> Option<String> {
    let each = predicted.rows.iter();
    let lost: f64 = each
        .filter_map(|row| cell(predicted, row, "events not built").number())
        .sum();
    (lost > 0.0).then(|| {
        format!("In the model {lost} events were not built: they were open for longer than builder.timeout.")
    })
}

fn in_words(costs: &Costs) -> String {
    format!(
        "a fragment {:.0} ns out and {:.0} ns in, a KiB {:.0} ns made and {:.0} ns verified, \
         an event {:.0} ns, a control message {:.0} ns and {:.1} ns for each event",
        costs.fragment_out,
        costs.fragment_in,
        costs.make_kib,
        costs.verify_kib,
        costs.event,
        costs.message,
        costs.message_event
    )
}

/// A table that `scan` has written.
fn read(file: &Path) -> Result<ResultTable, DaqError> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| scan::io(file, error))?;
    let tables: Vec<ResultTable> =
        serde_json::from_str(&text).map_err(|error| problem(format!("{name}: {error}")))?;
    let has_sizes = |it: &ResultTable| {
        let first = it.columns.first();
        first.is_some_and(|it| it.name.ends_with("fragment_size") || it.name == "fragments.size")
    };
    let table = tables.into_iter().find(has_sizes);
    table.ok_or_else(|| problem(format!("{name}: no table over fragment_size")))
}

/// The columns that are compared, with the model's name and the scan's.
const COMPARED: [(&str, &str); 5] = [
    (BUILT, "MB/s"),
    ("events", "1/s"),
    ("processor time", "processors"),
    (OF_A_MB, "us/MB"),
    ("building time, median", "us"),
];
/// Not in the tables, but follows from them; what else runs on the machine changes it little.
const OF_A_MB: &str = "processor time of a MB";
const OFF: &str = "built, prediction against measurement";
const OFF_OF_A_MB: &str = "processor time of a MB, prediction against measurement";

/// Prediction beside measurement.
fn beside(over: &Over, predicted: &ResultTable, measured: Option<&ResultTable>) -> ResultTable {
    let (first, values) = over.column();
    let mut columns = vec![first.clone()];
    for (name, unit) in COMPARED {
        for of in ["predicted", "measured"] {
            columns.push(ResultColumn {
                name: format!("{name}, {of}"),
                unit: unit.to_owned(),
            });
        }
    }
    columns.extend([OFF, OFF_OF_A_MB].map(|name| ResultColumn {
        name: name.to_owned(),
        unit: "%".to_owned(),
    }));
    let rows = values.into_iter().zip(&predicted.rows).map(|(value, row)| {
        let at = bytes(&value, &first.unit);
        let other = measured.and_then(|it| Some((it, row_at(it, at?)?)));
        let mut cells = vec![value];
        for (name, _) in COMPARED {
            cells.push(cell(predicted, row, name));
            cells.push(other.map_or(Entry::Missing, |(table, row)| cell(table, row, name)));
        }
        for what in [BUILT, OF_A_MB] {
            let model = cell(predicted, row, what).number();
            let real = other.and_then(|(table, row)| cell(table, row, what).number());
            cells.push(off(model, real));
        }
        cells
    });
    let mut table = ResultTable {
        name: "prediction".to_owned(),
        keys: 1,
        columns,
        rows: rows.collect(),
    };
    if measured.is_none() {
        only_predicted(&mut table);
    }
    table
}

/// Without a measurement there are no columns for it.
fn only_predicted(table: &mut ResultTable) {
    let is_kept = |name: &str| !name.ends_with("measurement") && !name.ends_with(", measured");
    let kept: Vec<bool> = table.columns.iter().map(|it| is_kept(&it.name)).collect();
    let mut at = kept.iter();
    table.columns.retain(|_| at.next() == Some(&true));
    for row in &mut table.rows {
        let mut at = kept.iter();
        row.retain(|_| at.next() == Some(&true));
    }
}

fn number(value: f64) -> Entry {
    Entry::Number {
        value,
        half_width: None,
    }
}

/// By how many percent the model is off.
fn off(model: Option<f64>, real: Option<f64>) -> Entry {
    match (model, real) {
        (Some(model), Some(real)) if real > 0.0 => number(100.0 * (model / real - 1.0)),
        _ => Entry::Missing,
    }
}

fn cell(table: &ResultTable, row: &[Entry], name: &str) -> Entry {
    if name == OF_A_MB {
        let of = |name| cell(table, row, name).number();
        let (busy, built) = (of("processor time"), of(BUILT));
        return match (busy, built.filter(|it| *it > 0.0)) {
            (Some(busy), Some(built)) => number(1e6 * busy / built),
            _ => Entry::Missing,
        };
    }
    let at = table.columns.iter().position(|it| it.name == name);
    at.and_then(|at| row.get(at))
        .cloned()
        .unwrap_or(Entry::Missing)
}

/// A size in a column of this unit.
fn bytes(entry: &Entry, unit: &str) -> Option<u64> {
    let text = match entry {
        Entry::Number { value, .. } => format!("{value} {unit}"),
        Entry::Text(text) => text.clone(),
        Entry::Missing => return None,
    };
    text.parse::<ByteSize>().ok().map(ByteSize::as_bytes)
}

fn row_at(table: &ResultTable, wanted: u64) -> Option<&Vec<Entry>> {
    let unit = &table.columns.first()?.unit;
    let is_it = |row: &&Vec<Entry>| row.first().and_then(|it| bytes(it, unit)) == Some(wanted);
    table.rows.iter().find(is_it)
}

fn how_far_off(table: &ResultTable) -> String {
    let sorted = |name| {
        let rows = table.rows.iter();
        let off = rows.filter_map(|row| cell(table, row, name).number());
        let mut off: Vec<f64> = off.map(f64::abs).collect();
        off.sort_by(f64::total_cmp);
        off
    };
    let (built, cost) = (sorted(OFF), sorted(OFF_OF_A_MB));
    let in_words = |off: &[f64]| {
        let worst = off.last()?;
        let middle = off[off.len() / 2];
        Some(format!(
            "{middle:.0} % in the middle and {worst:.0} % at worst"
        ))
    };
    match (in_words(&built), in_words(&cost)) {
        (Some(of_built), Some(of_cost)) => format!(
            "Of {} sizes, the predicted bandwidth is off by {of_built}, the processor time of a MB by {of_cost}. \
             Whatever else runs takes bandwidth away, and little else.",
            built.len()
        ),
        _ => "No size was both predicted and measured.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_a_plan_that_runs() {
        let costs = Costs {
            fragment_out: 100.0,
            make_kib: 50.0,
            fragment_in: 100.0,
            verify_kib: 50.0,
            event: 100.0,
            message: 200.0,
            message_event: 5.0,
        };
        let laboratory = Laboratory {
            costs,
            with: "modern-pc",
            processors: 2,
            fragments: 2_000,
        };
        let slot = "slot = \"2 ms\"\nlead = \"1 ms\"\nburst = \"128 KiB\"";
        let texts = ["none", "credits", "barrel", "bucket", "schedule"].map(|control| {
            format!("[flow]\ncontrol = \"{control}\"\n{slot}\n[run]\ntransport = \"tcp\"\n[builder]\ntimeout = \"100 s\"\n[assignment]\nwindow = 32\n")
        });
        let policies = ["least-loaded", "pulled", "hash"].map(|policy| {
            format!("[assignment]\npolicy = \"{policy}\"\nwindow = 32\n[fragments]\nsizes = \"log-normal\"\n[trigger]\nmode = \"poisson\"\n")
        });
        let dir =
            std::env::temp_dir().join(format!("barewire-predict-{}.toml", std::process::id()));
        for text in texts.iter().chain(&policies) {
            std::fs::write(&dir, text).expect("written");
            let over: Over = "fragment_size=1 KiB, 100 KiB".parse().expect("sizes");
            let points = scan::points(&dir, core::slice::from_ref(&over)).expect("good");
            let table = laboratory.predicted(&points).expect(text);
            let shown = beside(&over, &table, None);
            assert_eq!(shown.columns.len(), 6, "{text}");
            let built = |row: usize| cell(&shown, &shown.rows[row], "built, predicted").number();
            assert!(built(0) > Some(0.0) && built(1) > Some(0.0), "{text}");
            for row in &table.rows {
                assert_eq!(
                    cell(&table, row, "events not built").number(),
                    Some(0.0),
                    "{text}"
                );
            }
        }
        let _ = std::fs::remove_file(dir);
    }

    #[test]
    fn measurements_are_found_by_their_sizes() {
        let column = |name: &str, unit: &str| ResultColumn {
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        let predicted = ResultTable {
            name: "rates".to_owned(),
            keys: 1,
            columns: vec![
                column("fragment", "B"),
                column(BUILT, "MB/s"),
                column("processor time", "processors"),
            ],
            rows: vec![
                vec![number(1024.0), number(90.0), number(2.0)],
                vec![number(4096.0), number(100.0), number(2.0)],
            ],
        };
        let measured = ResultTable {
            name: "scan".to_owned(),
            keys: 1,
            columns: vec![
                column("fragment_size", "KiB"),
                column(BUILT, "MB/s"),
                column("processor time", "processors"),
            ],
            rows: vec![vec![number(4.0), number(80.0), number(1.0)]],
        };
        let over: Over = "fragment_size=1024 B, 4096 B".parse().expect("sizes");
        let table = beside(&over, &predicted, Some(&measured));
        let off = |row: usize| cell(&table, &table.rows[row], OFF);
        assert_eq!(off(0), Entry::Missing);
        assert_eq!(off(1).number(), Some(25.0));
        let cost = cell(&table, &table.rows[1], OFF_OF_A_MB).number();
        assert!((cost.expect("a number") - 60.0).abs() < 1e-9);
        let said = how_far_off(&table);
        assert!(
            said.contains("25 % at worst") && said.contains("60 % at worst"),
            "{said}"
        );
    }
}
