//! `barewire kek`: the paper of KEK on a kernel of today, between network namespaces, and event
//! building through an emulated switch.
//!
//! | table | question |
//! |---|---|
//! | shaped: set and measured | does the rate that comes out follow the setting? |
//! | not shaped: 1 Gbit/s shared | how do streams share a line by themselves? |
//! | processor time of shaping | what does it cost? |
//! | shaped by the script (`--tc`) | what does a script of `tc` commands make of three streams? |
//! | events through the switch | which flow control keeps a small buffer from dropping, at what rate? |
//!
//! Nothing of it is seen outside, and nothing stays: see `star.rs`.

mod error;
mod events;
mod measurement;
mod script;
mod shaping;
mod star;
mod streams;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use barewire_tables::ResultTable;
use barewire_units::Rate;
use clap::Args;

use error::KekError;
use measurement::Measurement;
use star::{Line, Star, Wiring, limit};

/// What to measure.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples (as root):
  barewire kek                                 everything, in about three minutes
  barewire kek --only events --time 2000       only events, 2 s for each row
  barewire kek --only streams --congestion cubic
  barewire kek --full --page docs/studies/event-builder.md
It creates network namespaces and removes them; the host's network is not changed.")]
pub struct KekArgs {
    /// Measure for longer: ten minutes instead of three
    #[arg(long)]
    full: bool,
    /// Measure only streams, or only events
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// TCP congestion control; reno is always available
    #[arg(long, default_value = RENO)]
    congestion: String,
    /// Length of each measurement in milliseconds, whatever --full says
    #[arg(long, value_name = "MS")]
    time: Option<u64>,
    /// Total rate of all lines to builders; this machine's processors must be able to carry it
    #[arg(long, default_value = "100 Mbit/s")]
    together: Rate,
    /// Only streams from one source to three, shaped by this script of `tc` commands: the source is
    /// 198.18.0.1, they go to 198.18.0.2, .3 and .4; the name of the device is free
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "page"])]
    tc: Option<PathBuf>,
    /// Replace the tables in this page by the new ones
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Streams,
    Events,
}

fn measurement(args: &KekArgs) -> Measurement {
    let (time_ms, run_ms, alternations) = if args.full {
        (10_000, 20_000, 10)
    } else {
        (2_000, 5_000, 3)
    };
    Measurement {
        congestion: args.congestion.clone(),
        time: Duration::from_millis(args.time.unwrap_or(time_ms)),
        run_time: Duration::from_millis(args.time.unwrap_or(run_ms)),
        together_mbps: args.together.as_bps() / 1_000_000,
        alternations,
    }
}

/// Measures it.
pub fn run(args: &KekArgs) -> Result<(), KekError> {
    // Before anything that takes time, and where nothing can be emulated too.
    let script = args.tc.as_deref().map(script::Script::read).transpose()?;
    if let Err(reason) = probe() {
        println!(
            "SKIPPED: kek: {reason}; it needs root, network namespaces, veth, a bridge, HTB and bfifo"
        );
        return Ok(());
    }
    let kek = measurement(args);
    let mut text = heading(args);
    let mut add = |table: ResultTable| {
        let shown = format!("\n{}\n{}", table.name, table.to_text());
        print!("{shown}");
        text += &shown;
    };
    if let Some(script) = &script {
        add(script::measure(&kek, script)?);
        return Ok(());
    }
    if args.only != Some(Only::Events) {
        add(shaping::settings(&kek)?);
        add(shaping::fairness(&kek)?);
        add(shaping::cost(&kek)?);
    }
    if args.only != Some(Only::Streams) {
        add(events::incast(&kek)?);
    }
    match &args.page {
        Some(page) => put(page, &text),
        None => Ok(()),
    }
}

/// What there is wherever there is any.
const WIRING: Wiring<'_> = Wiring {
    mtu_bytes: 1500,
    segments_max: 1,
    congestion: RENO,
};

/// Whether a switch can be emulated here.
fn probe() -> Result<(), KekError> {
    let mut star = Star::new(2, &WIRING)?;
    let line = Line {
        rate: Rate::from_mbps(100),
        buffer_bytes: Some(100_000),
    };
    Ok(limit(&mut star.hosts[0].port, line)?)
}

/// The command, and where it ran.
fn heading(args: &KekArgs) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let full = if args.full { " --full" } else { "" };
    format!(
        "{COMMAND}{full}\nTCP with {}, no slow start after idle; Linux {}; {processors} processors\n",
        args.congestion,
        kernel.trim()
    )
}

const RENO: &str = "reno";
const COMMAND: &str = "$ barewire kek";

/// Puts the tables in place of the block of a page that begins with the command.
fn put(page: &Path, tables: &str) -> Result<(), KekError> {
    let wrong = |reason: String| KekError::Page {
        page: page.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(page).map_err(|it| wrong(it.to_string()))?;
    let text = replaced(&text, tables)
        .ok_or_else(|| wrong(format!("no block that begins with `{COMMAND}`")))?;
    std::fs::write(page, text).map_err(|it| wrong(it.to_string()))
}

fn replaced(page: &str, tables: &str) -> Option<String> {
    let start = page.find(&format!("\n{COMMAND}"))? + 1;
    let end = start + page[start..].find("\n```")? + 1;
    Some(format!("{}{tables}{}", &page[..start], &page[end..]))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use barewire_daq::shape::{Class, ClassId};

    use super::streams::Stream;
    use super::*;

    /// Where there is no root or no HTB.
    fn skip(reason: &KekError) {
        let line = format!("SKIPPED: kek::streams_between_namespaces_are_shaped: {reason}");
        let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") else {
            return eprintln!("{line}");
        };
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.expect("the log of skipped tests"), "{line}").expect("written");
    }

    #[test]
    fn streams_between_namespaces_are_shaped() {
        if let Err(reason) = probe() {
            return skip(&reason);
        }
        let mut star = Star::new(3, &WIRING).expect("a switch");
        let rate = Rate::from_mbps(20);
        let line = Line {
            rate: Rate::from_mbps(50),
            // As much as comes in 200 ms: a machine that stands still so long loses nothing.
            buffer_bytes: Some(1_000_000),
        };
        limit(&mut star.hosts[2].port, line).expect("a line");
        let class = Class {
            rate,
            burst_bytes: 20_000,
        };
        let streams = [0, 1].map(|from| Stream {
            from,
            to: 2,
            class: Some(ClassId::ours(7)),
            paced: None,
        });
        for host in &mut star.hosts[..2] {
            host.nic
                .set_root(ClassId::ours(7).queue, None)
                .expect("a queue");
            host.nic
                .set_class(ClassId::ours(7), class)
                .expect("a class");
        }
        let time = Duration::from_millis(500);
        let measured = streams::run(&mut star, &streams, time).expect("measured");
        // How fast it gets is the machine's affair; faster than set, or lost, is ours.
        for mbps in &measured.mbps {
            assert!(*mbps > 0.0 && *mbps < 22.0, "{measured:?}");
        }
        assert_eq!(measured.drops, 0, "{measured:?}");
        assert!(star.hosts[2].port_taken().expect("counted").bytes > 0);
    }

    #[test]
    fn tables_replace_those_of_a_page() {
        let page = "# A\n\n```text\n$ barewire kek\nold\n```\n\nmore\n```text\nx\n```\n";
        let new = replaced(page, "$ barewire kek --full\nnew\n").expect("a block");
        assert_eq!(
            new,
            "# A\n\n```text\n$ barewire kek --full\nnew\n```\n\nmore\n```text\nx\n```\n"
        );
        assert_eq!(replaced("# A\n", "x"), None);
    }
}
