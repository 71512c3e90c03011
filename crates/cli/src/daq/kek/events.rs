//! Event building through the emulated switch: N sources send to the same builder at the same
//! moment, with each way of flow control.

use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use barewire_daq::config::Config;
use barewire_daq::launch::{self, Role};
use barewire_daq::shape::LATENESS;
use barewire_daq::wire::PIECE_HEADER_BYTES;
use barewire_proto::evb::{BuilderId, Part, SourceId};
use barewire_sys::netns::NetNamespace;
use barewire_tables::{Entry, ResultTable};
use barewire_units::Rate;

use super::error::KekError;
use super::measurement::Measurement;
use super::star::{Line, Star, Wiring, limit};
use super::streams::losses;
use super::tables::{count, number, payload_share, table, text};
use crate::daq::report::Figures;
use crate::daq::start::HowTo;

const MTU_BYTES: u32 = 1500;
const FRAGMENT_BYTES: u64 = 8 << 10;
/// Of a port's buffer, for each source: all fragments of an event do not fit, even while the port
/// sends.
const BUFFER_SHARE_BYTES: u32 = 6 << 10;
/// Half of a fragment.
const PIECE_BYTES: u64 = 4 << 10;
/// Pieces in a slot of the barrel shifter.
const SLOT_PIECES: u64 = 4;
/// Events under way for each builder.
const EVENTS_EACH: u64 = 8;
/// Of the line, where a share of it is set: lines are never exactly as fast as they say.
const SHARE: f64 = 0.98;
/// Of a message on TCP, its length.
const LENGTH_BYTES: u64 = 4;

const METHODS: [&str; 5] = ["none", "credits", "barrel", "bucket", "kernel"];
/// So many sources, and as many builders. All lines together are as fast in each case.
const SIZES: [u16; 2] = [4, 8];

/// All sizes with all methods.
pub fn incast(kek: &Measurement) -> Result<ResultTable, KekError> {
    let mut rows = Vec::new();
    for parts in SIZES {
        let mbps = kek.together_mbps / u64::from(parts);
        for method in METHODS {
            kek.say(&format!(
                "{parts}x{parts}, {mbps} Mbit/s, flow control {method}"
            ));
            rows.push(one(kek, parts, mbps, method)?);
        }
    }
    let columns = [
        ("parts", ""),
        ("each line", "Mbit/s"),
        ("flow control", ""),
        ("payload built", "Mbit/s"),
        ("of the lines", ""),
        ("drops", ""),
        ("sent again", ""),
        ("building time, median", "ms"),
        ("building time, 99.9 %", "ms"),
    ];
    Ok(table("events through the switch", 3, &columns, rows))
}

fn one(kek: &Measurement, parts: u16, mbps: u64, method: &str) -> Result<Vec<Entry>, KekError> {
    let rate = Rate::from_mbps(mbps);
    let count_of = usize::from(parts);
    let wiring = Wiring {
        mtu_bytes: MTU_BYTES,
        segments_max: 1,
        congestion: &kek.congestion,
    };
    let mut star = Star::new(1 + 2 * count_of, &wiring)?;
    lines(&mut star, count_of, rate, method)?;
    let text_of = config(kek, &star, parts, rate, method);
    let file = in_memory(&text_of)?;
    let config = Config::load(&file.path).map_err(KekError::Config)?;
    let before = losses(&mut star)?;
    let built = events(&star, &config, &file.path)?;
    let after = losses(&mut star)?;
    let built_mbps = built.bytes as f64 * 8e3 / built.run_ns.max(1) as f64;
    let could = f64::from(parts) * mbps as f64 * payload_share(MTU_BYTES);
    Ok(vec![
        text(&format!("{parts}x{parts}")),
        count(mbps),
        text(method),
        number(built_mbps),
        number(built_mbps / could),
        count(after.0 - before.0),
        count(after.1 - before.1),
        number(built.building_ns[0] as f64 / 1e6),
        number(built.building_ns[3] as f64 / 1e6),
    ])
}

/// Host 0 is the manager's, then builders, then sources.
fn host_of(role: Role, builders: usize) -> usize {
    match role {
        Role::Manager => 0,
        Role::Part(Part::Builder(BuilderId(id))) => 1 + usize::from(id),
        Role::Part(Part::Source(SourceId(id))) => 1 + builders + usize::from(id),
    }
}

/// A line to each builder, and one from each source; where the sources shape, their classes
/// together are the line.
fn lines(star: &mut Star, builders: usize, rate: Rate, method: &str) -> Result<(), KekError> {
    let to_builder = Line {
        rate,
        buffer_bytes: Some(BUFFER_SHARE_BYTES * builders as u32),
    };
    let from_source = Line {
        rate,
        buffer_bytes: None,
    };
    for host in &mut star.hosts[1..=builders] {
        limit(&mut host.port, to_builder)?;
    }
    for host in &mut star.hosts[1 + builders..] {
        if method != "kernel" {
            limit(&mut host.nic, from_source)?;
        }
    }
    Ok(())
}

fn config(kek: &Measurement, star: &Star, parts: u16, line: Rate, method: &str) -> String {
    let line_bps = line.as_bps() as f64;
    let payload_bps = line_bps * SHARE * payload_share(MTU_BYTES);
    // Half of an event fits, with its headers.
    let credits = parts / 2;
    let piece_bytes = PIECE_BYTES + PIECE_HEADER_BYTES as u64 + LENGTH_BYTES;
    let rate = match method {
        "kernel" => line_bps * SHARE / f64::from(parts),
        "bucket" => payload_bps / f64::from(parts),
        _ => payload_bps,
    };
    let rate = Rate::from_bps(rate as u64);
    let least = rate.bytes_in(LATENESS).as_bytes();
    let burst = match method {
        "kernel" => least.max(u64::from(2 * MTU_BYTES)),
        _ => piece_bytes,
    };
    let slot_ns = (SLOT_PIECES * piece_bytes * 8) as f64 / payload_bps * 1e9;
    let address = |host: usize, port: u16| format!("\"{}:{port}\"", star.hosts[host].address);
    let builders: Vec<_> = (1..=usize::from(parts))
        .map(|it| address(it, 7110))
        .collect();
    format!(
        "[run]\nname = \"kek\"\ntransport = \"tcp\"\nevents = 0\nduration = \"{} ms\"\nrestart = false\n\
         [parts]\nsources = {parts}\nbuilders = {parts}\nliveness = \"10 s\"\npatience = \"30 s\"\n\
         [tcp]\nmanager = {}\nbuilders = [{}]\n\
         [fragments]\nsize = \"{FRAGMENT_BYTES} B\"\n\
         [assignment]\nwindow = {}\n\
         [flow]\ncontrol = \"{method}\"\ncredits = {credits}\nrate = \"{} bit/s\"\nburst = \"{burst} B\"\n\
         slot = \"{} ns\"\n[source]\npiece = \"{PIECE_BYTES} B\"\n[builder]\ntimeout = \"20 s\"\n",
        kek.run_time.as_millis(),
        address(0, 7100),
        builders.join(", "),
        EVENTS_EACH * u64::from(parts),
        rate.as_bps(),
        slot_ns.ceil() as u64,
    )
}

/// A file that all parts can read and that goes with this process.
struct InMemory {
    path: PathBuf,
    _file: std::fs::File,
}

fn in_memory(text: &str) -> io::Result<InMemory> {
    let fd = rustix::fs::memfd_create("kek.toml", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(text.as_bytes())?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok(InMemory {
        path: path.into(),
        _file: file,
    })
}

/// One run; each part in its host's namespace.
fn events(star: &Star, config: &Config, file: &Path) -> Result<Figures, KekError> {
    let program = std::env::current_exe()?;
    let builders = usize::from(config.manager.builders);
    let home = NetNamespace::current()?;
    let mut moved = Ok(());
    let command = |role: Role| {
        // What this thread starts is where the thread is.
        let entered = star.hosts[host_of(role, builders)].net.enter();
        if moved.is_ok() {
            moved = entered;
        }
        let mut command = HowTo::quietly(&program, file, &config.start).command(role);
        if role == Role::Manager {
            command.arg("--json");
        }
        command
    };
    let outcome = launch::run(config, command, |_, _, _| {});
    home.enter()?;
    let outcome = outcome?;
    moved?;
    match serde_json::from_str::<Figures>(&outcome.ledger) {
        Ok(built) if built.good && outcome.deaths.is_empty() => Ok(built),
        _ => Err(KekError::Run(format!(
            "status {}, {}\n{}",
            outcome.code,
            outcome.deaths.join(", "),
            outcome.ledger
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_host() {
        let role = |part| host_of(Role::Part(part), 4);
        assert_eq!(host_of(Role::Manager, 4), 0);
        assert_eq!(role(Part::Builder(BuilderId(3))), 4);
        assert_eq!(role(Part::Source(SourceId(0))), 5);
    }
}
