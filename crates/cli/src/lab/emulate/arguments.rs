//! What the command line of `barewire lab emulate` says.

use std::path::PathBuf;
use std::str::FromStr;

use barewire_units::Duration;
use clap::{Args, ValueEnum};

use crate::lab::args::PlanArgs;
use crate::lab::error::{LabError, Result};

pub const AFTER: &str = "\
Systems whose networks carry packets:
  cbn        Cambridge Backbone: IP over MSDL
  jetstream  one ring of Jetstream, or several at a switch: IP behind LLC/SNAP in AAL5, a frame each
  penn       two workstations with Penn's ATM interface: IP behind LLC/SNAP in AAL5, cell by cell
  kek        PCs of KEK with Gigabit Ethernet, shaped as the plan says
  clan       hosts of CLAN: IP in messages of its queues

Examples (as root):
  barewire lab emulate cbn-ping --tap a=0 --tap b=1 --run a='ping -c 5 10.0.0.2'
  barewire lab emulate cbn-tcp --tap a=0 --tap b=1 --run b='iperf3 -s -1' --run a='iperf3 -c 10.0.0.2'
  barewire lab emulate cbn-ping --tap a=0 --tap b=1 --host-era none --shell a
  barewire lab emulate cbn-ping --tap a=0 --tap b=1 --live

Station N has the address 10.0.0.(N+1). The report says how late packets left the network, against
the model's time. If the 99th percentile is above the bound, the run is invalid and the exit code 1.";

/// Longest emulation: the event kernel counts 2^40 events.
const DURATION_MAX: Duration = Duration::from_s(24 * 3600);

/// Run a plan's network in real time between TAP devices, for ordinary programs (root)
#[derive(Clone, Debug, Args)]
pub struct EmulateArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// A TAP device of this name, at this station of the network, in a network namespace of its own
    #[arg(long, value_name = "NAME=NODE", required = true)]
    pub tap: Vec<TapWish>,
    /// Run a command (by `sh -c`) beside a TAP device. When the last of those given ends, so does the emulation
    #[arg(long, value_name = "NAME=COMMAND")]
    pub run: Vec<RunWish>,
    /// Open a shell beside a TAP device, named by its name or its station. When it ends, so does the emulation
    #[arg(long, value_name = "NODE", conflicts_with_all = ["run", "live"])]
    pub shell: Option<String>,
    /// How fast hosts are: as slow as the plan says (1991), or taking no time (none)
    #[arg(long, value_enum, default_value_t = Era::Plan)]
    pub host_era: Era,
    /// Stations on the network, those without a TAP device among them
    #[arg(long, value_name = "N")]
    pub stations: Option<u16>,
    /// Longest packet, in bytes [default: what the system suggests]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<usize>,
    /// Lose so many of the cells or frames that are sent, at random: 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub lose: f64,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// Call the run invalid if the 99th percentile of lateness is above this
    #[arg(long, value_name = "TIME", default_value = "250 us")]
    pub bound: Duration,
    /// After a packet, poll for the next one so long before sleeping: a sleeping loop is woken late. Costs up to so much
    /// of a processor for each packet
    #[arg(long, value_name = "TIME", default_value = "100 us")]
    pub poll: Duration,
    /// Record packets, and the cells or frames of the network, in this pcapng file
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Show the network live, in the whole terminal; q ends it
    #[arg(long)]
    pub live: bool,
}

/// How fast hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Era {
    #[value(name = "1991")]
    Plan,
    #[value(name = "none")]
    None,
}

/// A TAP device that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapWish {
    pub name: String,
    pub station: u16,
}

impl FromStr for TapWish {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let expected = || "expected NAME=NODE, such as a=0".to_owned();
        let (name, station) = text.split_once('=').ok_or_else(expected)?;
        let station = station.parse().map_err(|_| expected())?;
        let name = name.to_owned();
        Ok(Self { name, station })
    }
}

/// A command that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWish {
    pub name: String,
    pub command: String,
}

impl FromStr for RunWish {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('=');
        let (name, command) = parts.ok_or("expected NAME=COMMAND, such as a='ping 10.0.0.2'")?;
        let (name, command) = (name.to_owned(), command.to_owned());
        Ok(Self { name, command })
    }
}

impl EmulateArgs {
    /// Refuses what does not go together.
    pub fn check(&self) -> Result<()> {
        let usage = |text: String| Err(LabError::Usage(text));
        for (index, one) in self.tap.iter().enumerate() {
            let others = &self.tap[..index];
            if others.iter().any(|other| other.name == one.name) {
                return usage(format!("--tap: two devices are named {}", one.name));
            }
            if others.iter().any(|other| other.station == one.station) {
                return usage(format!("--tap: two devices at station {}", one.station));
            }
        }
        let runs = self.run.iter().map(|wish| ("--run", &wish.name));
        for (option, name) in runs.chain(self.shell.iter().map(|name| ("--shell", name))) {
            if !self.tap.iter().any(|tap| tap.is_named(name)) {
                return usage(format!(
                    "{option}: no TAP device {name}; give it with --tap"
                ));
            }
        }
        if self.duration.is_some_and(|it| it > DURATION_MAX) {
            return usage(format!("--duration: expected at most {DURATION_MAX}"));
        }
        Ok(())
    }
}

impl TapWish {
    /// Whether that is its name, or the number of its station.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.station.to_string() == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_commands_are_named() {
        let tap: TapWish = "left=7".parse().expect("a device");
        assert_eq!((tap.name.as_str(), tap.station), ("left", 7));
        assert!(tap.is_named("7") && tap.is_named("left") && !tap.is_named("right"));
        let run: RunWish = "a=x=1 ping".parse().expect("a command");
        assert_eq!((run.name.as_str(), run.command.as_str()), ("a", "x=1 ping"));
        for wrong in ["left", "left=", "left=x", "left=-1", "left=70000"] {
            assert!(wrong.parse::<TapWish>().is_err(), "{wrong}");
        }
    }
}
