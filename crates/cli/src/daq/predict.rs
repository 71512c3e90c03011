//! `barewire daq predict`: the same configuration in the laboratory, beside what was measured.
//!
//! The host is the workbench's, measured by `barewire lab calibrate` or given; what the program
//! itself takes is measured here, without any transport. With a calibration what the laboratory says is
//! corrected by what short runs on this machine gave.

mod calibration;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire_daq::config::{Config, Shape, SinkKind, SourceKind, Transport, Trigger};
use barewire_daq::costs::Costs;
use barewire_proto::evb::{Flow, Policy, WhenFull};
use barewire_sys::process::{allowed_cpus, pin_to_cpus};
use barewire_tables::plan::{Shelf, Wanted};
use barewire_tables::runs::{Watch, run as run_plans};
use barewire_tables::{Change, Entry, Over, Page, ResultColumn, ResultTable};
use barewire_units::ByteSize;
use clap::Args;

use super::DaqError;
use super::scan::{self, BUILT, Outputs, Point};
use crate::lab::calibrate::{self, CalibrateArgs};
use calibration::Calibration;

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
    /// A key and its values; may be repeated: then every combination is predicted
    #[arg(
        long,
        value_name = "KEY=VALUES",
        default_value = "fragment_size=256 B..1 MiB times 4"
    )]
    over: Vec<Over>,
    /// The host: a file of `barewire lab calibrate`, or a preset such as modern-pc; otherwise this
    /// machine is measured now, which takes some ten seconds
    #[arg(long, value_name = "FILE|NAME")]
    with: Option<String>,
    /// Calibrate: run short shapes on this machine for about a minute, which should have nothing else to do, keep
    /// in FILE by how much the laboratory is off, and predict with that
    #[arg(long, value_name = "FILE", conflicts_with = "with")]
    calibrate: Option<PathBuf>,
    /// Predict with a file of --calibrate, of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["with", "calibrate", "processors"])]
    calibration: Option<PathBuf>,
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
    let of_sizes = matches!(&args.over[..], [it] if is_size(&it.key));
    if args.measured.is_some() && !of_sizes {
        return wrong("--measured goes with --over fragment_size=VALUES alone".to_owned());
    }
    let points = scan::points(&args.config, &args.over)?;
    let Some(first) = points.first() else {
        return wrong("no values".to_owned());
    };
    let outputs = Outputs::check(&args.out, points.len())?;
    let processors = args.processors.unwrap_or(allowed_cpus().len());
    let calibration = calibration_of(args, processors)?;
    let costs = match &calibration {
        Some(found) => found.costs(&first.config)?,
        None => Costs::measure(&first.config).map_err(problem)?,
    };
    let host = match &calibration {
        Some(found) => Host::of_text(&found.host)?,
        None => Host::of(args.with.as_deref())?,
    };
    let laboratory = Laboratory {
        costs,
        with: &host.with,
        processors,
        fragments: FRAGMENTS,
    };
    let mut predicted = laboratory.predicted(&points)?;
    let lost = not_built(&predicted);
    if let Some(calibration) = &calibration {
        laboratory.correct(calibration, &points, &mut predicted)?;
    }
    let measured = match (&args.measured, args.measure) {
        (Some(file), _) => Some(Measured::by_sizes(read(file)?, &args.over[0])),
        (None, Some(runs)) => Some(Measured::in_order(scan::measure(
            &args.over, &points, runs,
        )?)),
        (None, None) => None,
    };
    let table = beside(&args.over, &points, &predicted, measured.as_ref());
    let mut notes = vec![format!(
        "Host: {}; {processors} processors. The program, measured by itself: {}.",
        host.name,
        in_words(&costs)
    )];
    notes.push(match &calibration {
        Some(found) => found.in_words(),
        None => "Not in the model: caches and the bandwidth of memory that processes share, copies from \
                 another processor's cache, anything else that runs, the system's scheduler beside its \
                 slices, reports, files. Nothing was fitted on a whole run; --calibrate does."
            .to_owned(),
    });
    notes.extend(left_out(&first.config));
    notes.extend(lost);
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

fn is_size(key: &str) -> bool {
    matches!(key, "fragment_size" | "fragments.size")
}

/// The calibration that is asked for, measured now or read.
fn calibration_of(args: &PredictArgs, processors: usize) -> Result<Option<Calibration>, DaqError> {
    let Some(file) = &args.calibrate else {
        let file = args.calibration.as_deref();
        return file.map(Calibration::read).transpose();
    };
    // Found out now, and not after a minute.
    crate::lab::store::try_file(file).map_err(|error| scan::io(file, error))?;
    let found = Calibration::measure(processors)?;
    found.write(file)?;
    Ok(Some(found))
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
        Self::measured_now()
    }

    fn in_temp(name: &str) -> (Self, PathBuf) {
        let path = std::env::temp_dir().join(format!("barewire-host-{}.toml", std::process::id()));
        let host = Self {
            name: name.to_owned(),
            with: path.display().to_string(),
            made: true,
        };
        (host, path)
    }

    /// What `barewire lab calibrate` has written.
    fn of_text(text: &str) -> Result<Self, DaqError> {
        let (host, path) = Self::in_temp("this machine, of the calibration");
        std::fs::write(&path, text).map_err(|error| scan::io(&path, error))?;
        Ok(host)
    }

    fn measured_now() -> Result<Self, DaqError> {
        let (host, path) = Self::in_temp("this machine, measured now");
        // It ties this thread to a processor: what is started after it, to be measured, is to have all.
        let before = allowed_cpus();
        let measured = calibrate::calibrate(&CalibrateArgs {
            output: Some(path),
            cpus: Vec::new(),
            quiet: false,
        });
        pin_to_cpus(&before).map_err(problem)?;
        measured.map_err(problem)?;
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

    /// Corrects what was predicted by what a calibration says; the laboratory's own figure gets a column.
    fn correct(
        &self,
        calibration: &Calibration,
        points: &[Point],
        predicted: &mut ResultTable,
    ) -> Result<(), DaqError> {
        let column = |table: &ResultTable, name: &str| {
            let at = table.columns.iter().position(|it| it.name == name);
            at.ok_or_else(|| problem(format!("the laboratory gave no {name}")))
        };
        let [built, events, busy] = [
            column(predicted, BUILT)?,
            column(predicted, "events")?,
            column(predicted, "processor time")?,
        ];
        predicted.columns.push(ResultColumn {
            name: ALONE.to_owned(),
            unit: "MB/s".to_owned(),
        });
        for (point, row) in points.iter().zip(&mut predicted.rows) {
            let alone = row[built].number().unwrap_or(0.0);
            row.push(number(alone));
            let Some(ratios) = calibration.ratios(&point.config) else {
                continue;
            };
            // What triggers or shaping hold down is only as much as the machine can at most.
            let most = match point.saturated() {
                None => alone * ratios.built,
                Some(point) => {
                    let table = self.predicted(&[point])?;
                    let most = table.rows.first().and_then(|it| it.get(built)?.number());
                    most.unwrap_or(alone) * ratios.built
                }
            };
            let is_held_down = point.saturated().is_some();
            let found = if is_held_down { alone.min(most) } else { most };
            let share = if alone > 0.0 { found / alone } else { 1.0 };
            let scale = |entry: &mut Entry, by: f64| {
                if let Some(value) = entry.number() {
                    *entry = number(value * by);
                }
            };
            scale(&mut row[built], share);
            scale(&mut row[events], share);
            // What a MB costs is corrected, however many there are.
            scale(&mut row[busy], share * ratios.busy / ratios.built);
        }
        Ok(())
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

/// The laboratory's figure before it was corrected, and how far off that is.
const ALONE: &str = "built, the laboratory alone";
const OFF_ALONE: &str = "built, the laboratory alone against measurement";

/// What was measured, and its row for each that was predicted.
struct Measured {
    table: ResultTable,
    rows: Vec<Option<usize>>,
}

impl Measured {
    fn in_order(table: ResultTable) -> Self {
        let rows = (0..table.rows.len()).map(Some).collect();
        Self { table, rows }
    }

    fn by_sizes(table: ResultTable, over: &Over) -> Self {
        let (first, values) = over.column();
        let row = |value| row_at(&table, bytes(value, &first.unit)?);
        let rows = values.iter().map(row).collect();
        Self { table, rows }
    }

    fn row(&self, at: usize) -> Option<&Vec<Entry>> {
        self.table.rows.get((*self.rows.get(at)?)?)
    }
}

/// Prediction beside measurement.
fn beside(
    over: &[Over],
    points: &[Point],
    predicted: &ResultTable,
    measured: Option<&Measured>,
) -> ResultTable {
    let (mut columns, values): (Vec<_>, Vec<_>) = over.iter().map(Over::column).unzip();
    for (name, unit) in COMPARED {
        for of in ["predicted", "measured"] {
            columns.push(ResultColumn {
                name: format!("{name}, {of}"),
                unit: unit.to_owned(),
            });
        }
    }
    let is_corrected = predicted.columns.iter().any(|it| it.name == ALONE);
    let alone = [(ALONE, "MB/s"), (OFF_ALONE, "%")];
    let more = [(OFF, "%"), (OFF_OF_A_MB, "%")].into_iter();
    let more = more.chain(alone.into_iter().filter(|_| is_corrected));
    columns.extend(more.map(|(name, unit)| ResultColumn {
        name: name.to_owned(),
        unit: unit.to_owned(),
    }));
    let rows = points.iter().zip(&predicted.rows).enumerate();
    let rows = rows.map(|(at, (point, row))| {
        let other = measured.and_then(|it| Some((&it.table, it.row(at)?)));
        let real = |name| other.and_then(|(table, row)| cell(table, row, name).number());
        let axes = point.at.iter().zip(&values);
        let mut cells: Vec<_> = axes.map(|(&at, values)| values[at].clone()).collect();
        for (name, _) in COMPARED {
            cells.push(cell(predicted, row, name));
            cells.push(other.map_or(Entry::Missing, |(table, row)| cell(table, row, name)));
        }
        for what in [BUILT, OF_A_MB] {
            cells.push(off(cell(predicted, row, what).number(), real(what)));
        }
        if is_corrected {
            let alone = cell(predicted, row, ALONE);
            cells.push(alone.clone());
            cells.push(off(alone.number(), real(BUILT)));
        }
        cells
    });
    let mut table = ResultTable {
        name: "prediction".to_owned(),
        keys: over.len(),
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

fn row_at(table: &ResultTable, wanted: u64) -> Option<usize> {
    let unit = &table.columns.first()?.unit;
    let is_it = |row: &Vec<Entry>| row.first().and_then(|it| bytes(it, unit)) == Some(wanted);
    table.rows.iter().position(is_it)
}

fn how_far_off(table: &ResultTable) -> String {
    let sorted = |name| {
        let rows = table.rows.iter();
        let off = rows.filter_map(|row| cell(table, row, name).number());
        let mut off: Vec<f64> = off.map(f64::abs).collect();
        off.sort_by(f64::total_cmp);
        off
    };
    let (built, cost, alone) = (sorted(OFF), sorted(OFF_OF_A_MB), sorted(OFF_ALONE));
    let near = built.iter().filter(|it| **it <= NEAR_PERCENT).count();
    let alone = match in_words_of(&alone) {
        Some(of_alone) => format!(" The laboratory alone is off by {of_alone}."),
        None => String::new(),
    };
    match (in_words_of(&built), in_words_of(&cost)) {
        (Some(of_built), Some(of_cost)) => format!(
            "Of {} shapes, the predicted bandwidth is off by {of_built}, and by less than {NEAR_PERCENT} % of {near}; \
             the processor time of a MB by {of_cost}. Whatever else runs takes bandwidth away, and little else.{alone}",
            built.len()
        ),
        _ => "No shape was both predicted and measured.".to_owned(),
    }
}

/// Of sorted figures.
fn in_words_of(off: &[f64]) -> Option<String> {
    let worst = off.last()?;
    let middle = off[off.len() / 2];
    Some(format!(
        "{middle:.0} % in the middle and {worst:.0} % at worst"
    ))
}

/// What counts as near.
const NEAR_PERCENT: f64 = 20.0;

#[cfg(test)]
mod tests;
