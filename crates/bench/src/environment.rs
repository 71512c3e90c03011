//! Where and with what the results were measured.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::placement::Placement;

/// The compiler that built this program.
pub const RUST_VERSION: &str = env!("BAREWIRE_RUSTC");
/// `release`, or `debug`, whose figures mean little.
pub const BUILD_PROFILE: &str = env!("BAREWIRE_BUILD_PROFILE");

/// The environment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of this program.
    pub barewire_version: String,
    /// The compiler that built it.
    pub rust_version: String,
    /// `release`, or `debug`, whose figures mean little.
    pub build: String,
    /// The processor's own name.
    pub processor: String,
    /// How many processors this process may use.
    pub cores: u64,
    /// Whether the processor says that it is a virtual one.
    pub virtual_machine: bool,
    /// System and version.
    pub kernel: String,
    /// Which process ran where.
    pub placement: String,
    /// Where the server was, if not in the network of the client.
    #[serde(default)]
    pub path: String,
    /// When the run began, in UTC.
    pub date: String,
    /// The command line.
    pub command: String,
    /// How long the run took.
    pub seconds: f64,
    /// Samples kept and dropped.
    pub samples_kept: u64,
    /// Samples dropped because their probes disagreed.
    pub samples_dropped: u64,
    /// Rivals that were measured, with their versions.
    #[serde(default)]
    pub rivals: Vec<String>,
    /// What was asked for and could not be measured, and why.
    pub not_measured: Vec<String>,
}

impl Environment {
    /// Looks around.
    pub fn look(placement: Placement) -> Environment {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Environment {
            barewire_version: env!("CARGO_PKG_VERSION").to_owned(),
            rust_version: RUST_VERSION.to_owned(),
            build: BUILD_PROFILE.to_owned(),
            processor: processor(&cpuinfo),
            cores: barewire_sys::process::allowed_cpus().len() as u64,
            virtual_machine: cpuinfo
                .lines()
                .any(|line| line.starts_with("flags") && line.contains(" hypervisor")),
            kernel: kernel(),
            placement: placement.describe(),
            path: String::new(),
            date: utc(seconds),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            seconds: 0.0,
            samples_kept: 0,
            samples_dropped: 0,
            rivals: Vec::new(),
            not_measured: Vec::new(),
        }
    }
}

/// System and version.
pub fn kernel() -> String {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let arch = std::env::consts::ARCH;
    format!("{} {} {arch}", read("ostype"), read("osrelease"))
}

/// The processor's own name.
pub fn processor_name() -> String {
    processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo
            .lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let name = field("model name").or_else(|| field("Processor"));
    match (name, field("cpu family"), field("model\t")) {
        (Some(name), Some(family), Some(model)) => {
            format!("{name} (family {family}, model {model})")
        }
        (Some(name), ..) => name,
        (None, ..) => field("CPU part").map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |part| format!("{} part {part}", std::env::consts::ARCH),
        ),
    }
}

/// Seconds since 1970 as ISO 8601.
fn utc(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
    }

    #[test]
    fn processors_have_names() {
        let text = "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n";
        assert_eq!(processor(text), "AMD EPYC (family 25, model 17)");
        assert_eq!(processor(""), std::env::consts::ARCH);
    }
}
