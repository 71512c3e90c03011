//! Speeds of one core: `make bench-wire` measures formats and protocol cores beside a
//! plain `memcpy` of the same bytes, `make bench-lab` the event kernel beside other
//! simulators.
//!
//! Exits with 1 only if it cannot run. A missed target is shown and counted, not an
//! error: figures depend on the machine.
//!
//! ```layers
//! harness: cases measured side by side, and their targets
//! yardstick: the bytes of a case, and the `memcpy` beside it
//! checks: check codes
//! cells: cells and their headers
//! lines: line codes
//! lab: the event kernel beside other simulators
//! ```
#![forbid(unsafe_code)]

mod cells;
mod checks;
mod harness;
mod lab;
mod lines;
mod yardstick;

use std::time::Duration;

use clap::{Parser, Subcommand};
use harness::Effort;

/// Measure on one core.
#[derive(Debug, Parser)]
#[command(arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Formats and protocol cores, beside memcpy
    Wire(WireArgs),
    /// The event kernel, beside the simulators whose programs are named
    Lab(lab::LabArgs),
}

#[derive(Debug, clap::Args)]
struct WireArgs {
    /// Only the groups whose name contains this
    filter: Option<String>,
    /// Rounds; each gives one sample of every case
    #[arg(long, default_value_t = 401)]
    rounds: usize,
    /// Microseconds of one sample
    #[arg(long, default_value_t = 200)]
    sample_us: u64,
}

/// A group of measurements: prints its tables, gives the number of missed targets.
type Group = fn(Effort) -> usize;

fn main() {
    let missed = match Arguments::parse().what {
        What::Wire(arguments) => wire(&arguments),
        What::Lab(arguments) => lab::run(&arguments),
    };
    println!("\ntargets missed: {missed}");
}

fn wire(arguments: &WireArgs) -> usize {
    let effort = Effort {
        rounds: arguments.rounds.max(1),
        sample: Duration::from_micros(arguments.sample_us.max(1)),
    };
    let groups: [(&str, Group); 7] = [
        ("crc32", checks::crc32),
        ("checksum", checks::checksum),
        ("hec", cells::hec),
        ("aal5", cells::aal5),
        ("aal34", cells::aal34),
        ("scrambler", cells::scrambler),
        ("4b5b", lines::line_code),
    ];
    let wanted = arguments.filter.as_deref().unwrap_or_default();
    let chosen = groups.iter().filter(|(name, _)| name.contains(wanted));
    chosen.map(|(_, group)| group(effort)).sum()
}
