//! A run of the event builder in the laboratory: the host, the program's own costs, and the plan with the
//! configuration as its inputs.

use std::path::PathBuf;

use barewire_daq::config::{Config, Shape, SinkKind, SourceKind, Transport, Trigger};
use barewire_daq::costs::Costs;
use barewire_proto::evb::{Flow, Policy, WhenFull};
use barewire_sys::process::{allowed_cpus, pin_to_cpus};
use barewire_tables::plan::{PlanSource, Wanted};
use barewire_tables::runs::{Watch, run as run_plans};
use barewire_tables::{Change, ResultTable};

use super::compare::{problem, wrong};
use crate::daq::error::DaqError;
use crate::daq::scan::{self, Point};
use crate::lab::calibrate::{self, CalibrateArgs};

/// The plan that is run.
const PLAN: &str = "workbench-events";
/// Fragments of a simulated run: enough for a rate, and soon over.
pub const FRAGMENTS: u64 = 40_000;
const EVENTS_MAX: u64 = 20_000;
/// What TCP's own buffers hold on loopback, beside what the program gathers. OPEN.
const TCP_ROOM: &str = "2 MiB";

/// A host for the plan; a file that was made for it goes with it.
pub struct Host {
    /// For people.
    pub name: String,
    /// For the plan: a preset, or a file.
    pub with: String,
    made: bool,
}

impl Host {
    /// The host of `--with`, or else this machine, measured now.
    pub fn of(with: Option<&str>) -> Result<Self, DaqError> {
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
    pub fn of_text(text: &str) -> Result<Self, DaqError> {
        let (host, path) = Self::in_temp("this machine, of the calibration");
        std::fs::write(&path, text).map_err(|error| scan::io(&path, error))?;
        Ok(host)
    }

    /// This machine, measured for some ten seconds.
    pub fn measured_now() -> Result<Self, DaqError> {
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
pub struct Laboratory<'a> {
    /// What the program's own work costs.
    pub costs: Costs,
    /// The host: a preset, or a file.
    pub with: &'a str,
    /// Those that all processes share.
    pub processors: usize,
    /// How many fragments a simulated run has, about.
    pub fragments: u64,
}

impl Laboratory<'_> {
    /// The laboratory's rates: a row for each point.
    pub fn predicted(&self, points: &[Point]) -> Result<ResultTable, DaqError> {
        let lab = PlanSource::default();
        let draft = lab.open(PLAN).map_err(problem)?;
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
            lab.resolve(&draft, &wanted).map_err(problem)
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
            // Nobody asks for "hosts": `predict` has refused it.
            Transport::Tcp | Transport::Hosts => ("tcp", TCP_ROOM.to_owned()),
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
pub fn left_out(config: &Config) -> Option<String> {
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

pub fn in_words(costs: &Costs) -> String {
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
