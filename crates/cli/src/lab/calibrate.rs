//! `barewire lab calibrate`: what the present machine costs, as a host for the workbench.
//!
//! Everything is measured in user space, with the parts of `barewire bench` where it has them:
//! two processes, a line between them, eventfds, TCP over loopback. What a program cannot see
//! (interrupts, the bus) is taken over from the preset `modern-pc`, and marked.

mod figures;
mod fragment;
mod local;

use std::io::{self, Write};
use std::path::PathBuf;

use barewire_bench::case::{ChannelSpec, Habits, Test, Transport, Variant, Waiting, Work};
use barewire_bench::environment::Environment;
use barewire_bench::error::Error;
use barewire_bench::measure::bands::{Verdict, judge};
use barewire_bench::placement::Placement;
use barewire_bench::session::Session;
use barewire_sys::process::{allowed_cpus, pin_to_cpu};
use clap::Args;

use figures::{Figure, Figures, SAMPLES};

/// How long a sample takes.
const SAMPLE_NS: u64 = 40_000_000;
const PROBE_NS: u64 = 1_000_000;
/// Samples tried until there are enough with the processors to themselves, and how many of
/// those are enough without the others.
const TRIES: usize = 21;
const GOOD_LEAST: usize = 3;
/// A message that fits a line with its flag.
const SHORT: usize = 8;
/// Sizes of the comparison at the end of the file.
const EXCHANGED: [usize; 3] = [64, 4096, 65_536];

/// Measure this machine as a host for the workbench
#[derive(Clone, Debug, Args)]
#[command(long_about = LONG, after_help = AFTER)]
pub struct CalibrateArgs {
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The two processors to measure on, such as 0,1 [default: the first two]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub cpus: Vec<usize>,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
}

const LONG: &str = "\
Measure this machine as a host for the workbench.

Writes a part of a plan, with `[parameters.host]`: beside each value stands what was
measured, the median and spread of seven samples, or where the value was taken over from.
Takes about ten seconds; the machine should have nothing else to do.";

const AFTER: &str = "\
Example:
  barewire lab calibrate -o host.toml
  barewire lab run workbench-ping --with host.toml";

/// Why the machine was not measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A measurement failed.
    #[error(transparent)]
    Measure(#[from] Error),
    /// The host cannot be written.
    #[error("writing {}: {source}", path.display())]
    File {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Measures and writes.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), CalibrateError> {
    // Found out now, and not after the measuring; what is there already stays until then.
    if let Some(path) = &args.output {
        let opened = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        opened.map_err(|source| CalibrateError::File {
            path: path.clone(),
            source,
        })?;
    }
    let placement = Placement::choose(&args.cpus, false)?;
    let environment = Environment::look(placement);
    let say = |what: &str| {
        if !args.quiet {
            eprintln!("barewire: measuring {what}");
        }
    };
    if !args.quiet && environment.build == "debug" {
        eprintln!("barewire: this is a debug build; its figures mean little");
    }
    let figures = measure(placement, &say)?;
    let text = fragment::compose(&figures, &environment);
    match &args.output {
        None => {
            // A reader that closed the pipe has seen enough.
            let _ = io::stdout().lock().write_all(text.as_bytes());
        }
        Some(path) => std::fs::write(path, text).map_err(|source| CalibrateError::File {
            path: path.clone(),
            source,
        })?,
    }
    Ok(())
}

fn measure(placement: Placement, say: &dyn Fn(&str)) -> Result<Figures, CalibrateError> {
    let mut figures = Figures {
        processors: allowed_cpus().len(),
        ..Figures::default()
    };
    if let Placement::Pinned(client, _) = placement {
        say("two processes on two processors: a cache line, sleeping and waking, TCP, copies");
        between_two(placement, &mut figures)?;
        // The server that starts next inherits where this process runs.
        let pinned = pin_to_cpu(client);
        pinned.map_err(|error| Error::Transport(error.to_string()))?;
    }
    say("two processes on one processor: sleeping and waking");
    let mut together = Session::start(Placement::OneProcessor, PROBE_NS)?;
    let asleep = (Variant::Eventfd, Test::Wake, Waiting::Blocking);
    figures.asleep_together = sampled(
        &mut together,
        Transport::Limit,
        asleep,
        SHORT,
        &mut figures.failed,
    );
    drop(together);
    say("system calls, copies and sums in this process");
    figures.system_call = Figure::of(&local::system_call());
    figures.checksum_kib = Figure::of(&local::checksum());
    figures.copy_setup = Figure::of(&local::short_copy());
    let copies = local::copies();
    figures.cached_bps = copies.cached;
    figures.beyond_bps = copies.beyond;
    figures.cache_bytes = copies.cache_bytes;
    Ok(figures)
}

fn between_two(placement: Placement, figures: &mut Figures) -> Result<(), CalibrateError> {
    let mut session = Session::start(placement, PROBE_NS)?;
    let failed = &mut figures.failed;
    let mut sample = |transport, how, size| sampled(&mut session, transport, how, size, failed);
    let spinning = |variant| (variant, Test::Rtt, Waiting::Polling);
    figures.line = sample(Transport::Limit, spinning(Variant::PingPong), SHORT);
    let asleep = (Variant::Eventfd, Test::Wake, Waiting::Blocking);
    figures.asleep = sample(Transport::Limit, asleep, SHORT);
    figures.tcp = sample(Transport::Tcp, spinning(Variant::Plain), SHORT);
    for size in EXCHANGED {
        let exchange = sample(Transport::Limit, spinning(Variant::Exchange), size);
        figures.exchanges.push((size, exchange));
    }
    Ok(())
}

/// Round trips in nanoseconds. What cannot be measured is no reason to give up the rest.
fn sampled(
    session: &mut Session,
    transport: Transport,
    (variant, test, waiting): (Variant, Test, Waiting),
    size: usize,
    failed: &mut Vec<String>,
) -> Option<Figure> {
    let spec = ChannelSpec {
        transport,
        variant,
        size: if variant == Variant::Exchange {
            size
        } else {
            0
        },
        many: None,
        ring_bytes: 0,
        waiting: Waiting::Polling,
    };
    let work = Work {
        test,
        size,
        connections: 1,
        outstanding: 1,
        waiting,
        duration_ns: SAMPLE_NS,
        habits: Habits::default(),
    };
    let doing = format!("{} {} {size} B", transport.name(), variant.name());
    let samples = take(session, &spec, &work, &doing);
    match samples {
        Ok(samples) => Figure::of(&samples),
        Err(error) => {
            failed.push(format!("{doing}: {error}"));
            None
        }
    }
}

fn take(
    session: &mut Session,
    spec: &ChannelSpec,
    work: &Work,
    doing: &str,
) -> Result<Vec<f64>, Error> {
    session.open(0, spec)?;
    let (mut good, mut all) = (Vec::new(), Vec::new());
    while good.len() < SAMPLES && all.len() < TRIES {
        let sample = session.sample(0, work, doing)?;
        let verdict = sample.probes_ns.map(|(before, after)| judge(before, after));
        let steady = matches!(verdict, Some(Verdict::Keep(..)));
        if steady && !sample.disturbed {
            good.push(sample.per_operation_ns);
        }
        all.push(sample.per_operation_ns);
    }
    session.close(0)?;
    // On a machine that is never quiet there is nothing better than the median of all.
    Ok(if good.len() < GOOD_LEAST { all } else { good })
}
