//! Speeds of the formats and protocol cores on one core, beside a plain `memcpy` of the
//! same bytes in the same run: `make bench-wire`.
//!
//! Exits with 1 only if it cannot run. A missed target is shown and counted, not an
//! error: figures depend on the machine.
#![forbid(unsafe_code)]

mod cells;
mod checks;
mod harness;
mod lines;

use std::time::Duration;

use clap::Parser;
use harness::Effort;

/// Measure the formats and protocol cores.
#[derive(Debug, Parser)]
struct Arguments {
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
    let arguments = Arguments::parse();
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
        ("cells", cells::scrambler),
        ("4b5b", lines::line_code),
    ];
    let wanted = arguments.filter.unwrap_or_default();
    let chosen = groups.iter().filter(|(name, _)| name.contains(&wanted));
    let missed: usize = chosen.map(|(_, group)| group(effort)).sum();
    println!("\ntargets missed: {missed}");
}
