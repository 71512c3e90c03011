//! The configuration: a TOML file in which every quantity has its unit. All of it is checked
//! before anything runs, and every fault is told with file, line, key, what stands there and
//! what was expected.

mod address;
mod admission;
mod faults;
mod flow;
mod hosts;
mod keys;
mod listening;
mod model;
mod quantities;
mod read;

use std::path::{Path, PathBuf};

use barewire_proto::evb::{
    BuilderConfig, BuilderId, Flow, ManagerConfig, Policy, Schedule, SourceConfig, SourceId,
    WhenFull,
};
use barewire_units::{ByteSize, Duration};

use crate::handed;
use crate::limits::{PIECE_BYTES_MAX, PIECE_HEADER_BYTES};
use flow::{check_shaping, read_flow};
use quantities::{positive_time, read_line, size, time};
use read::Reader;

pub use crate::limits::FRAGMENT_BYTES_MAX;
pub use address::HostPort;
pub use hosts::{Hosts, Start};
pub use keys::template;
pub use listening::{fault, unusable};
pub use model::{
    Config, Monitor, ReplayFiles, Shape, SinkKind, Sizes, SourceKind, Transport, Trigger,
};
pub use read::Fault;

/// Events that may be in flight: as many as a builder holds before their assignment.
const WINDOW_MAX: u64 = 4096;
/// Bytes of a source that may be in flight if the configuration leaves that open: small fragments need many, or most of
/// the time goes into wake-ups.
const IN_FLIGHT_BYTES: u64 = 1 << 20;

/// Parts say every 50 ms that they live, and the scheduler of a busy machine may keep them from it for tens of ms.
const LIVENESS_MIN: Duration = Duration::from_ms(200);

/// A batch of control messages fits half a ring.
const RING_BYTES_MIN: u64 = 256 << 10;

impl Config {
    /// Reads and checks a file; `-` is what `daq run` hands to a part that it starts through a command of `[start]`.
    ///
    /// # Errors
    ///
    /// All faults.
    pub fn load(path: &Path) -> Result<Self, Vec<Fault>> {
        let file = path.display().to_string();
        let text = match file == handed::STANDARD_INPUT {
            true => handed::take(),
            false => std::fs::read_to_string(path),
        };
        match text {
            Ok(text) => Self::parse(&text, &file),
            Err(error) => Err(vec![Fault {
                file,
                line: None,
                key: String::new(),
                found: String::new(),
                expected: error.to_string(),
            }]),
        }
    }

    /// Checks a text that is called `file` in messages.
    ///
    /// # Errors
    ///
    /// All faults.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader::new(text, file);
        let config = read(&mut reader, text);
        if reader.faults.is_empty() {
            return Ok(config);
        }
        reader.faults.sort_by_key(|fault| fault.line);
        Err(reader.faults)
    }
}

/// The text of a configuration with another value for a key, `section.key`; text needs no
/// quotation marks.
///
/// # Errors
///
/// The text is no TOML, or there is no such key.
pub fn with(text: &str, file: &str, key: &str, value: &str) -> Result<String, Fault> {
    let fault = |key: &str, expected: String| Fault {
        file: file.to_owned(),
        line: None,
        key: key.to_owned(),
        found: String::new(),
        expected,
    };
    let mut table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| fault("", format!("not TOML: {}", error.message())))?;
    let known = keys::KEYS
        .iter()
        .find(|it| key == format!("{}.{}", it.section, it.name));
    let Some(known) = known else {
        return Err(fault(key, "no such key".to_owned()));
    };
    let value = match known.default.starts_with('"') {
        true => toml::Value::String(value.trim_matches('"').to_owned()),
        false => format!("k = {value}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut it| it.remove("k"))
            .ok_or_else(|| fault(key, format!("`{value}` is no value")))?,
    };
    let section = table
        .entry(known.section)
        .or_insert_with(|| toml::Table::new().into());
    if let Some(section) = section.as_table_mut() {
        section.insert(known.name.to_owned(), value);
    }
    Ok(table.to_string())
}

const SOURCES_MAX: u64 = 1024;
const BUILDERS_MAX: u64 = 1024;
const EVER: u64 = i64::MAX as u64;

fn read(reader: &mut Reader, text: &str) -> Config {
    let r = reader;
    let name = r.text("run", "name");
    if name.is_empty() || name.len() > 40 || !name.bytes().all(|b| b.is_ascii_graphic()) {
        r.fault("run", "name", "expected 1 to 40 letters, digits and signs");
    }
    let transport = read_transport(r);
    let events = Some(r.number("run", "events", 0, EVER)).filter(|&it| it > 0);
    let duration = Some(time(r, "run", "duration")).filter(|it| !it.is_zero());
    let sources = r.number("parts", "sources", 1, SOURCES_MAX) as u16;
    let builders = r.number("parts", "builders", 1, BUILDERS_MAX) as u16;
    let piece_bytes = size(r, "source", "piece", 64, PIECE_BYTES_MAX);
    let (flow, schedule, shaping) = read_flow(r, sources, builders, piece_bytes);
    if let Some(shaping) = shaping {
        check_shaping(
            r,
            shaping,
            transport,
            u32::from(sources) * u32::from(builders),
        );
    }
    let policy = read_policy(r);
    let ring_bytes = read_ring(r, piece_bytes);
    let (tcp_manager, tcp_builders) = address::read_all(r, builders, transport != Transport::Ring);
    let trigger = read_trigger(r);
    let (sizes, buffer_bytes) = (read_sizes(r), size(r, "source", "buffer", 1, 1 << 40));
    if sizes.mean_bytes > buffer_bytes {
        let mean = ByteSize::from_bytes(sizes.mean_bytes);
        let wanted = format!("expected at least {mean}: a fragment of fragments.size");
        r.fault("source", "buffer", wanted);
    }
    let mean_bytes = sizes.mean_bytes;
    let source_kind = read_source_kind(r, trigger);
    let faults = faults::read_faults(r, &source_kind);
    Config {
        name,
        run: r.number("run", "number", 0, u64::from(u32::MAX)) as u32,
        transport,
        events,
        duration,
        restart: r.flag("run", "restart"),
        seed: r.number("run", "seed", 0, EVER),
        patience: positive_time(r, "parts", "patience"),
        tcp_manager,
        tcp_builders,
        hosts: hosts::read_hosts(r, ring_bytes),
        start: hosts::read_start(r, sources, builders),
        trigger,
        sizes,
        manager: read_manager(r, sources, builders, policy, schedule, mean_bytes),
        source_kind,
        faults,
        source: read_source(r, buffer_bytes, piece_bytes, flow),
        shaping,
        builder: read_builder(r, sources, flow, policy, mean_bytes),
        may_time_out: r.choice(
            "builder",
            "incomplete",
            &[("loss", false), ("allowed", true)],
        ),
        ring_bytes,
        sink: read_sink(r),
        sink_patience: time(r, "sink", "patience"),
        monitor: read_monitor(r),
        text: text.to_owned(),
        digest: crc_fast::crc32_iscsi(text.as_bytes()),
    }
}

fn read_transport(r: &mut Reader) -> Transport {
    let transports = [
        ("ring", Transport::Ring),
        ("tcp", Transport::Tcp),
        ("hosts", Transport::Hosts),
    ];
    r.choice("run", "transport", &transports)
}

/// `number`, or if that is 0 as many fragments of so many bytes as [`IN_FLIGHT_BYTES`] take, and at least `least`.
fn number_in_flight(number: u64, mean_bytes: u64, least: u64) -> u32 {
    let automatic = || (IN_FLIGHT_BYTES / mean_bytes.max(1)).clamp(least, WINDOW_MAX);
    let number = if number == 0 { automatic() } else { number };
    number as u32
}

/// The core of the manager.
fn read_manager(
    r: &mut Reader,
    sources: u16,
    builders: u16,
    policy: Policy,
    schedule: Option<Schedule>,
    mean_bytes: u64,
) -> ManagerConfig {
    let window = r.number("assignment", "window", 0, WINDOW_MAX);
    ManagerConfig {
        sources,
        builders,
        policy,
        window: Some(number_in_flight(window, mean_bytes, 256)),
        backlog: r.number("assignment", "backlog", 1, 1 << 20) as u32,
        schedule,
        liveness: read_liveness(r),
        goes_on: r.flag("run", "goes_on"),
    }
}

/// The core of source 0.
fn read_source(r: &mut Reader, buffer_bytes: u64, piece_bytes: u64, flow: Flow) -> SourceConfig {
    let full = [("block", WhenFull::Block), ("drop", WhenFull::Drop)];
    SourceConfig {
        id: SourceId(0),
        buffer_bytes,
        full: r.choice("source", "full", &full),
        piece_bytes,
        overhead_bytes: PIECE_HEADER_BYTES as u64,
        flow,
    }
}

/// The core of builder 0.
fn read_builder(
    r: &mut Reader,
    sources: u16,
    flow: Flow,
    policy: Policy,
    mean_bytes: u64,
) -> BuilderConfig {
    let credits = r.number("flow", "credits", 0, 1 << 20);
    let credits = number_in_flight(credits, mean_bytes, 64);
    let pull = r.number("assignment", "pull", 1, 4096) as u32;
    BuilderConfig {
        id: BuilderId(0),
        run: 0,
        sources,
        timeout: positive_time(r, "builder", "timeout"),
        credits: (flow == Flow::Credits).then_some(credits),
        pull: (policy == Policy::Pulled).then_some(pull),
        remembered_events: r.number("builder", "remembered", 0, 1 << 24) as usize,
    }
}

fn read_policy(r: &mut Reader) -> Policy {
    let policies = [
        ("round-robin", Policy::RoundRobin),
        ("least-loaded", Policy::LeastLoaded),
        ("pulled", Policy::Pulled),
        ("hash", Policy::Hash),
    ];
    r.choice("assignment", "policy", &policies)
}

fn read_ring(r: &mut Reader, piece_bytes: u64) -> usize {
    // A message in one frame takes a quarter of the ring, less a line.
    let least = (piece_bytes + 1024).saturating_mul(4).max(RING_BYTES_MIN);
    let ring = size(r, "network", "ring", 1, 256 << 20);
    if !ring.is_power_of_two() || ring < least {
        let least = ByteSize::from_bytes(least.next_power_of_two());
        let wanted = format!("expected a power of two of at least {least} for such pieces");
        r.fault("network", "ring", wanted);
    }
    ring as usize
}

/// A shorter one takes parts for lost that live.
fn read_liveness(r: &mut Reader) -> Duration {
    let liveness = positive_time(r, "parts", "liveness");
    if liveness < LIVENESS_MIN {
        let wanted =
            format!("expected at least {LIVENESS_MIN}: parts say every 50 ms that they live");
        r.fault("parts", "liveness", wanted);
    }
    liveness
}

fn read_trigger(r: &mut Reader) -> Trigger {
    let period = positive_time(r, "trigger", "period");
    let modes = [
        ("max", Trigger::Max),
        ("clock", Trigger::Clock(period)),
        ("poisson", Trigger::Poisson(period)),
        ("sources", Trigger::Sources),
    ];
    r.choice("trigger", "mode", &modes)
}

#[derive(Clone, Copy)]
enum SourceChoice {
    Generator,
    Replay,
    Own,
}

fn read_source_kind(r: &mut Reader, trigger: Trigger) -> SourceKind {
    let program = Some(r.text("source", "program")).filter(|it| !it.is_empty());
    let files = r.list("replay", "files");
    let paces = [("max", false), ("recorded", true)];
    let replay = ReplayFiles {
        files: files.into_iter().map(PathBuf::from).collect(),
        paced: r.choice("replay", "pace", &paces),
        repeat: r.flag("replay", "repeat"),
    };
    let by_sources = trigger == Trigger::Sources;
    let kinds = [
        ("generator", SourceChoice::Generator),
        ("replay", SourceChoice::Replay),
        ("own", SourceChoice::Own),
    ];
    match r.choice("source", "kind", &kinds) {
        SourceChoice::Replay => {
            if !by_sources {
                let wanted = "expected \"sources\": recorded fragments have their numbers";
                r.fault("trigger", "mode", wanted);
            }
            if replay.files.is_empty() || !replay.files.iter().all(|it| it.is_file()) {
                r.fault("replay", "files", "expected a list of files that exist");
            }
            SourceKind::Replay(replay)
        }
        SourceChoice::Own => SourceKind::Own(program.map(PathBuf::from)),
        SourceChoice::Generator => {
            if by_sources {
                let wanted = "the generator waits for triggers: expected another one, or kind = \"replay\" or \"own\"";
                r.fault("trigger", "mode", wanted);
            }
            SourceKind::Generator
        }
    }
}

fn read_sizes(r: &mut Reader) -> Sizes {
    let sigma = r.fraction("fragments", "sigma", 0.0, 4.0);
    let shapes = [
        ("fixed", Shape::Fixed),
        ("uniform", Shape::Uniform),
        ("exponential", Shape::Exponential),
        ("log-normal", Shape::LogNormal(sigma)),
    ];
    let sizes = Sizes {
        shape: r.choice("fragments", "sizes", &shapes),
        mean_bytes: size(r, "fragments", "size", 0, FRAGMENT_BYTES_MAX),
        bytes_min: size(r, "fragments", "size_min", 0, FRAGMENT_BYTES_MAX),
        bytes_max: size(r, "fragments", "size_max", 0, FRAGMENT_BYTES_MAX),
    };
    if sizes.bytes_min > sizes.mean_bytes || sizes.mean_bytes > sizes.bytes_max {
        r.fault("fragments", "size", "expected it from size_min to size_max");
    }
    sizes
}

#[derive(Clone, Copy)]
enum SinkChoice {
    Discard,
    File { hdf5: bool },
    HandOver,
}

fn read_sink(r: &mut Reader) -> SinkKind {
    let directory = PathBuf::from(r.text("sink", "directory"));
    let room_bytes = size(r, "sink", "buffer", 1, 1 << 40);
    let policies = [("wait", None), ("drop", Some(room_bytes))];
    let room_bytes = r.choice("sink", "consumer", &policies);
    let kinds = [
        ("discard", SinkChoice::Discard),
        ("file", SinkChoice::File { hdf5: false }),
        ("hdf5", SinkChoice::File { hdf5: true }),
        ("hand-over", SinkChoice::HandOver),
    ];
    let hdf5 = match r.choice("sink", "kind", &kinds) {
        SinkChoice::Discard => return SinkKind::Discard,
        SinkChoice::HandOver => return SinkKind::HandOver { room_bytes },
        SinkChoice::File { hdf5 } => hdf5,
    };
    if !directory.is_dir() {
        r.fault("sink", "directory", "expected a directory that exists");
    }
    SinkKind::File { directory, hdf5 }
}

fn read_monitor(r: &mut Reader) -> Monitor {
    let prometheus = Some(r.text("monitor", "prometheus")).filter(|it| !it.is_empty());
    let log = Some(r.text("monitor", "log")).filter(|it| !it.is_empty());
    Monitor {
        period: positive_time(r, "monitor", "period"),
        prometheus: prometheus.and_then(|it| address::read(r, "monitor", "prometheus", &it)),
        log: log.map(PathBuf::from),
        line: read_line(r, "monitor"),
    }
}

#[cfg(test)]
mod tests;
