//! How far the laboratory is off on this machine, measured by short runs of the shapes that matter, and kept in
//! a file with the machine that it is good for.
//!
//! The laboratory knows neither caches nor what processes take from each other; how much that is depends on the
//! machine, the transport, the number of parts and the size of fragments, and little on the rest of a
//! configuration. So each of these shapes is run with all other keys at their defaults, and predicted; what a
//! configuration is predicted is the laboratory's figure times the ratio of the shapes next to it. The numbers of
//! parts of the configuration that the calibration was asked for are among the shapes.
//!
//! Where more parts are busy than there are processors, the kernel places them now well and now badly, for half a
//! second each. A run of 2 x 1 at 64 KiB had 7 to 13 GB/s on two processors. So each shape is run twice, for half a
//! second, and not twice in a row. The mean counts.
//!
//! Such a ratio holds only beside the costs that the laboratory was given for it. So the host and the costs of the
//! program's own parts are kept, too. A machine may be twice as fast a minute later. So what another configuration
//! costs is measured in turn with the default one, and only the ratio of the two is used.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use barewire_bench::environment::{BUILD_PROFILE, kernel, processor_name};
use barewire_daq::config::{Config, Transport};
use barewire_daq::costs::Costs;
use barewire_sys::process::allowed_cpus;
use barewire_tables::{Entry, Over, ResultColumn, ResultTable};
use serde::{Deserialize, Serialize};

use super::compare::{ALONE, cell, number, problem, wrong};
use super::laboratory::{FRAGMENTS, Host, Laboratory};
use crate::daq::error::DaqError;
use crate::daq::scan::{self, BUILT};

/// Of the file.
const FORMAT: u32 = 2;
/// Sources and builders, beside those of the configuration.
const PARTS: [(u16, u16); 3] = [(1, 1), (2, 1), (4, 4)];
/// A configuration with more parts is not run: that would take more than a minute.
const OWN_PARTS_MAX: u16 = 16;
/// Denser about 8 KiB: there the model and TCP change from many fragments in a write to one.
const SIZES: &str = "fragment_size=256 B, 2 KiB, 4 KiB, 8 KiB, 16 KiB, 128 KiB, 1 MiB";
/// Of each shape, and how long each takes.
const RUNS: usize = 2;
const RUN_TIME: &str = "500 ms";
/// The column of busy processors.
const BUSY: &str = "processor time";

/// What a calibration is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub processor: String,
    /// How many may be used.
    pub processors: usize,
    /// System and version.
    pub kernel: String,
    /// Of this program, and how it was built.
    pub barewire: String,
}

impl Machine {
    /// The present one.
    pub fn here() -> Self {
        Self {
            processor: processor_name(),
            processors: allowed_cpus().len(),
            kernel: kernel(),
            barewire: format!("{} {BUILD_PROFILE}", env!("CARGO_PKG_VERSION")),
        }
    }

    fn in_words(&self) -> String {
        let Self {
            processor,
            processors,
            kernel,
            barewire,
        } = self;
        format!("{processors} processors {processor}, {kernel}, barewire {barewire}")
    }
}

/// What was run, and how often more than the laboratory says it gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// `ring` or `tcp`.
    is_tcp: bool,
    sources: u16,
    builders: u16,
    fragment_bytes: u64,
    /// MB/s.
    laboratory: f64,
    measured: f64,
    /// Processors.
    laboratory_busy: f64,
    measured_busy: f64,
}

/// By what the laboratory's figures are to be multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// Bandwidth.
    pub built: f64,
    /// Processors that are busy.
    pub busy: f64,
}

/// A calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    format: u32,
    machine: Machine,
    /// What `barewire lab calibrate` has measured.
    pub host: String,
    /// Of the default configuration.
    #[serde(with = "KeptCosts")]
    costs: Costs,
    shapes: Vec<Shape>,
}

/// [`Costs`] as they stand in the file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Costs")]
struct KeptCosts {
    fragment_out: f64,
    make_kib: f64,
    fragment_in: f64,
    verify_kib: f64,
    event: f64,
    message: f64,
    message_event: f64,
}

/// What `costs` of the default configuration become for another one.
fn costs_for(costs: &Costs, config: &Config) -> Result<Costs, DaqError> {
    let usual = Config::parse("", "(defaults)").map_err(DaqError::Config)?;
    let (usual, own) = Costs::measure_both(&usual, config).map_err(problem)?;
    Ok(costs.scaled(&own, &usual))
}

fn size_of(config: &Config) -> f64 {
    (config.sizes.mean_bytes.max(1) as f64).log2()
}

impl Calibration {
    /// Measures this machine, with the numbers of parts of `wanted` too; about a minute.
    pub fn measure(processors: usize, wanted: &Config) -> Result<Self, DaqError> {
        let host = Host::measured_now()?;
        let usual = Config::parse("", "(defaults)").map_err(DaqError::Config)?;
        let (costs, _) = Costs::measure_both(&usual, &usual).map_err(problem)?;
        let mut shapes = Vec::new();
        let mut all_parts = PARTS.to_vec();
        let own = (wanted.manager.sources, wanted.manager.builders);
        if own.0.saturating_add(own.1) <= OWN_PARTS_MAX && !all_parts.contains(&own) {
            all_parts.push(own);
        }
        for (sources, builders) in all_parts {
            let parts = format!("[parts]\nsources = {sources}\nbuilders = {builders}\n");
            let config = Config::parse(&parts, "(calibration)").map_err(DaqError::Config)?;
            let laboratory = Laboratory {
                costs: costs_for(&costs, &config)?,
                with: &host.with,
                processors,
                fragments: FRAGMENTS,
            };
            for is_tcp in [false, true] {
                let transport = if is_tcp { "tcp" } else { "ring" };
                eprintln!("calibration: {transport}, {sources} x {builders}");
                shapes.extend(of_parts(&laboratory, is_tcp, (sources, builders))?);
            }
        }
        Ok(Self {
            format: FORMAT,
            machine: Machine::here(),
            host: std::fs::read_to_string(&host.with).map_err(problem)?,
            costs,
            shapes,
        })
    }

    /// The costs to give to the laboratory for a configuration; measures for three seconds.
    pub fn costs(&self, config: &Config) -> Result<Costs, DaqError> {
        costs_for(&self.costs, config)
    }

    /// Reads a file, and looks whether it is good for this machine.
    pub fn read(file: &Path) -> Result<Self, DaqError> {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| scan::io(file, error))?;
        let found: Self = serde_json::from_str(&text)
            .map_err(|error| problem(format!("{name}: no file of --calibrate: {error}")))?;
        let is_possible = |it: &Shape| {
            let figures = [
                it.laboratory,
                it.measured,
                it.laboratory_busy,
                it.measured_busy,
            ];
            figures.iter().all(|it| it.is_finite() && *it > 0.0)
        };
        if found.format != FORMAT || !found.shapes.iter().all(is_possible) {
            return wrong(format!(
                "{name}: no calibration of this release; make another with --calibrate"
            ));
        }
        let here = Machine::here();
        if found.machine != here {
            return wrong(format!(
                "{name} is of another machine: {}. This is {}. Make another with --calibrate",
                found.machine.in_words(),
                here.in_words()
            ));
        }
        Ok(found)
    }

    /// Writes it.
    pub fn write(&self, file: &Path) -> Result<(), DaqError> {
        let text = serde_json::to_string_pretty(self).map_err(problem)? + "\n";
        crate::lab::store::write(file, text).map_err(problem)
    }

    /// Those for a configuration: between sizes in a straight line, all in logarithms; of numbers of
    /// parts that were not run, the nearer the more.
    pub fn ratios(&self, config: &Config) -> Option<Ratios> {
        let is_tcp = config.transport == Transport::Tcp;
        let (mut built, mut busy, mut weights) = (0.0, 0.0, 0.0);
        let all_parts = self.shapes.iter().map(|it| (it.sources, it.builders));
        for parts in all_parts.collect::<BTreeSet<_>>() {
            let of_parts = |it: &&Shape| it.is_tcp == is_tcp && (it.sources, it.builders) == parts;
            let mut shapes: Vec<_> = self.shapes.iter().filter(of_parts).collect();
            shapes.sort_by_key(|it| it.fragment_bytes);
            let Some((of_built, of_busy)) = between(&shapes, size_of(config)) else {
                continue;
            };
            let off = |own: u16, other: u16| (f64::from(own) / f64::from(other)).log2();
            let sources = off(config.manager.sources, parts.0);
            let builders = off(config.manager.builders, parts.1);
            let weight = 1.0 / (sources * sources + builders * builders + 1e-6);
            built += of_built * weight;
            busy += of_busy * weight;
            weights += weight;
        }
        (weights > 0.0).then(|| Ratios {
            built: (built / weights).exp2(),
            busy: (busy / weights).exp2(),
        })
    }

    /// Corrects what the laboratory predicted; the laboratory's own figure gets a column.
    pub fn correct(
        &self,
        laboratory: &Laboratory<'_>,
        points: &[scan::Point],
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
            let Some(ratios) = self.ratios(&point.config) else {
                continue;
            };
            // What triggers or shaping hold down is only as much as the machine can at most.
            let most = match point.saturated() {
                None => alone * ratios.built,
                Some(point) => {
                    let table = laboratory.predicted(&[point])?;
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

    /// For people.
    pub fn in_words(&self) -> String {
        let off = |it: &Shape| (it.measured / it.laboratory).log2().abs();
        let worst = self.shapes.iter().map(off).fold(0.0, f64::max).exp2();
        format!(
            "Calibrated by {} shapes on {}; of these the laboratory alone was off by a factor of {worst:.1} at most.",
            self.shapes.len(),
            self.machine.in_words()
        )
    }
}

/// Logarithms of the ratios of bandwidth and of busy processors, for the logarithm of a size.
fn between(shapes: &[&Shape], size: f64) -> Option<(f64, f64)> {
    let of = |it: &Shape| {
        (
            (it.measured / it.laboratory).log2(),
            (it.measured_busy / it.laboratory_busy).log2(),
        )
    };
    let place = |it: &Shape| (it.fragment_bytes.max(1) as f64).log2();
    let (first, last) = (shapes.first()?, shapes.last()?);
    let size = size.clamp(place(first), place(last));
    let above = shapes.iter().position(|it| place(it) >= size)?;
    let (upper, lower) = (shapes[above], shapes[above.saturating_sub(1)]);
    let width = place(upper) - place(lower);
    let share = if width > 0.0 {
        (size - place(lower)) / width
    } else {
        0.0
    };
    let (low, high) = (of(lower), of(upper));
    let mix = |low: f64, high: f64| low + share * (high - low);
    Some((mix(low.0, high.0), mix(low.1, high.1)))
}

/// A file that goes with this.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Addresses that nobody has, for a manager and builders.
fn free_addresses(count: usize) -> std::io::Result<Vec<String>> {
    // All held until the last is known.
    let all = (0..count).map(|_| TcpListener::bind("127.0.0.1:0"));
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    all.iter()
        .map(|it| it.local_addr().map(|it| format!("\"{it}\"")))
        .collect()
}

fn of_parts(
    laboratory: &Laboratory<'_>,
    is_tcp: bool,
    (sources, builders): (u16, u16),
) -> Result<Vec<Shape>, DaqError> {
    let own = std::process::id();
    let addresses = free_addresses(usize::from(builders) + 1).map_err(problem)?;
    let transport = if is_tcp { "tcp" } else { "ring" };
    let text = format!(
        "[run]\nname = \"calibrate-{own}\"\ntransport = \"{transport}\"\nevents = 0\nduration = \"{RUN_TIME}\"\n\
         [parts]\nsources = {sources}\nbuilders = {builders}\nliveness = \"10 s\"\n\
         [builder]\ntimeout = \"10 s\"\n\
         [tcp]\nmanager = {}\nbuilders = [{}]\n",
        addresses[0],
        addresses[1..].join(", ")
    );
    let name = format!("barewire-daq-calibrate-{own}.toml");
    let file = Written(std::env::temp_dir().join(name));
    std::fs::write(&file.0, text).map_err(|it| scan::io(&file.0, it))?;
    let over: Over = SIZES.parse().map_err(problem)?;
    let over = [over];
    let points = scan::points(&file.0, &over)?;
    let predicted = laboratory.predicted(&points)?;
    // All sizes, then all again: what disturbs one run is over by the next one of the same shape.
    let measured: Vec<_> = (0..RUNS)
        .map(|_| scan::measure(&over, &points, 1))
        .collect::<Result<_, _>>()?;
    let figure = |table: &ResultTable, row: usize, name| {
        let found = cell(table, &table.rows[row], name).number();
        let found = found.filter(|it| *it > 0.0);
        found.ok_or_else(|| problem(format!("a run of the calibration gave no {name}")))
    };
    let shape = |(row, point): (usize, &scan::Point)| {
        let mean = |name| {
            let figures = measured.iter().map(|table| figure(table, row, name));
            let sum: Result<f64, _> = figures.sum();
            sum.map(|it| it / RUNS as f64)
        };
        Ok(Shape {
            is_tcp,
            sources,
            builders,
            fragment_bytes: point.config.sizes.mean_bytes,
            laboratory: figure(&predicted, row, BUILT)?,
            measured: mean(BUILT)?,
            laboratory_busy: figure(&predicted, row, BUSY)?,
            measured_busy: mean(BUSY)?,
        })
    };
    points.iter().enumerate().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        fragment_out: 100.0,
        make_kib: 50.0,
        fragment_in: 100.0,
        verify_kib: 50.0,
        event: 100.0,
        message: 200.0,
        message_event: 5.0,
    };

    fn calibration() -> Calibration {
        let shape = |is_tcp, (sources, builders), fragment_bytes, ratio: f64| Shape {
            is_tcp,
            sources,
            builders,
            fragment_bytes,
            laboratory: 100.0,
            measured: 100.0 * ratio,
            laboratory_busy: 2.0,
            measured_busy: ratio,
        };
        let shapes = vec![
            shape(false, (1, 1), 1 << 10, 0.5),
            shape(false, (1, 1), 1 << 14, 2.0),
            shape(false, (4, 4), 1 << 10, 0.125),
            shape(true, (2, 1), 1 << 10, 3.0),
        ];
        Calibration {
            format: FORMAT,
            machine: Machine::here(),
            host: "a".to_owned(),
            costs: COSTS,
            shapes,
        }
    }

    fn ratio(transport: &str, sources: u16, builders: u16, size: &str) -> f64 {
        let text = format!(
            "[run]\ntransport = \"{transport}\"\n[parts]\nsources = {sources}\nbuilders = {builders}\n\
             [fragments]\nsize = \"{size}\"\n"
        );
        let config = Config::parse(&text, "a.toml").expect("good");
        let ratios = calibration().ratios(&config).expect("shapes");
        assert!((ratios.busy - ratios.built / 2.0).abs() < 1e-9);
        ratios.built
    }

    #[test]
    fn ratios_are_those_of_the_shapes_next_to_it() {
        let is = |found: f64, wanted: f64| {
            assert!((found / wanted - 1.0).abs() < 1e-3, "{found}, {wanted}")
        };
        is(ratio("ring", 1, 1, "1 KiB"), 0.5);
        is(ratio("ring", 1, 1, "4 KiB"), 1.0);
        is(ratio("ring", 1, 1, "16 KiB"), 2.0);
        // Beyond the ends as at the ends.
        is(ratio("ring", 1, 1, "16 B"), 0.5);
        is(ratio("ring", 1, 1, "1 MiB"), 2.0);
        // Half way from 1 x 1 to 4 x 4.
        is(ratio("ring", 2, 2, "1 KiB"), 0.25);
        is(ratio("tcp", 3, 7, "5 KiB"), 3.0);
        let mut none = calibration();
        none.shapes.clear();
        assert_eq!(
            none.ratios(&Config::parse("", "a.toml").expect("good")),
            None
        );
    }

    /// What the laboratory says of a configuration, corrected: columns by name.
    fn corrected(text: &str) -> impl Fn(&str) -> f64 + use<> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // Relaxed: only that each is another one.
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("barewire-corrected-{}-{number}.toml", std::process::id());
        let file = Written(std::env::temp_dir().join(name));
        std::fs::write(&file.0, text).expect("written");
        let points = scan::points(&file.0, &["fragment_size=1 KiB".parse().expect("a size")]);
        let points = points.expect("good");
        let laboratory = Laboratory {
            costs: COSTS,
            with: "modern-pc",
            processors: 2,
            fragments: 2_000,
        };
        let mut table = laboratory.predicted(&points).expect("it runs");
        let corrected = calibration().correct(&laboratory, &points, &mut table);
        corrected.expect("it has all columns");
        move |name| {
            cell(&table, &table.rows[0], name)
                .number()
                .expect("a number")
        }
    }

    #[test]
    fn what_the_machine_holds_down_is_corrected_and_what_triggers_hold_down_is_not() {
        let parts = "[parts]\nsources = 1\nbuilders = 1\n[assignment]\nwindow = 256\n[flow]\ncredits = 64\n";
        let is = |found: f64, wanted: f64| {
            assert!((found / wanted - 1.0).abs() < 1e-3, "{found}, {wanted}")
        };
        let full = corrected(parts);
        is(full(BUILT), 0.5 * full(ALONE));
        is(full("events"), full(BUILT) * 1e6 / 1024.0);
        let slow = "[trigger]\nmode = \"clock\"\nperiod = \"1 ms\"\n";
        let slow = corrected(&format!("{parts}{slow}"));
        is(slow(BUILT), slow(ALONE));
        is(slow(BUILT), 1.024);
        // More than the machine can.
        let fast = "[trigger]\nmode = \"clock\"\nperiod = \"500 ns\"\n";
        let fast = corrected(&format!("{parts}{fast}"));
        assert!(
            fast(BUILT) < 0.95 * fast(ALONE),
            "{} {}",
            fast(BUILT),
            fast(ALONE)
        );
    }

    #[test]
    fn a_calibration_is_for_its_machine() {
        let file =
            std::env::temp_dir().join(format!("barewire-calibration-{}.json", std::process::id()));
        let file = Written(file);
        let mut own = calibration();
        own.write(&file.0).expect("written");
        assert_eq!(Calibration::read(&file.0).expect("read"), own);
        own.machine.processors += 1;
        own.write(&file.0).expect("written");
        let refused = Calibration::read(&file.0)
            .expect_err("another one")
            .to_string();
        assert!(refused.contains("is of another machine"), "{refused}");
        own.machine.processors -= 1;
        own.shapes[0].measured = 0.0;
        own.write(&file.0).expect("written");
        assert!(Calibration::read(&file.0).is_err());
        std::fs::write(&file.0, "{}").expect("written");
        let refused = Calibration::read(&file.0).expect_err("none").to_string();
        assert!(refused.contains("no file of --calibrate"), "{refused}");
    }
}
