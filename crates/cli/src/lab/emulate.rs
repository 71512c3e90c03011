//! `barewire lab emulate`: the network of a plan carries the packets of real programs, in real time.
//!
//! ```text
//! program -- kernel -- TAP -- | pace: reads frames, runs the model to the time of the clock | -- TAP -- kernel -- program
//! ```
//! | module | what it does |
//! |---|---|
//! | `arguments` | what the command line says |
//! | `taps` | a TAP device for each station, in a network namespace of its own |
//! | `ethernet` | frames of the TAP devices to packets and back; answers to ARP |
//! | `programs` | programs and a shell in those namespaces |
//! | `lateness` | how late packets left, against the model's time |
//! | `pace` | the loop |
//! | `live` | the full-screen view |
//!
//! Namespaces and devices have no names outside this process, and go when it ends, whichever way.

mod arguments;
mod ethernet;
mod lateness;
mod live;
mod pace;
mod programs;
mod taps;

use std::io::stdout;
use std::time::Duration;

use barewire_report::columns::print;
use barewire_report::terminal::may_redraw;
use barewire_sys::interrupt::Interrupt;
use barewire_sys::process::wake_on_time;
use barewire_tables::pcapng;
use barewire_tables::plan::{Plan, PlanSource};
use barewire_testbed::emulation::{Emulated, HostEra, Wanted};
use barewire_testbed::{Progress, Setting, SystemError};

pub use arguments::{AFTER, EmulateArgs};

use super::error::{LabError, Result};
use super::store;
use arguments::Era;
use live::Live;
use pace::{Ended, Pace};
use programs::Programs;
use taps::Tap;

/// Packets that are recorded of each link.
const PACKETS_PER_LINK: usize = 100_000;

/// Runs the network until the time is up, the last program ends, or the user wants it to end.
pub fn emulate(lab: PlanSource, args: &EmulateArgs) -> Result<()> {
    let draft = lab.open(&args.plan.plan)?;
    let plan = lab.resolve(&draft, &args.plan.wanted())?;
    args.check()?;
    if let Some(path) = &args.capture {
        store::try_file(path).map_err(|source| LabError::File {
            path: path.clone(),
            source,
        })?;
    }
    let mut network = network(&plan, args)?;
    // Before there are threads, which would take the signals.
    let interrupt = Interrupt::catch().map_err(LabError::Emulation)?;
    wake_on_time().map_err(LabError::Emulation)?;
    let taps = args
        .tap
        .iter()
        .map(|wish| Tap::open(wish, network.mtu_bytes()));
    let taps = taps.collect::<Result<Vec<_>>>()?;
    tell(&*network, &taps);
    let live = match args.live && may_redraw(&stdout()) {
        true => Some(Live::start(&plan.name, &taps)?),
        false => None,
    };
    let mut programs = Programs::start(&taps, &args.run, args.shell.as_deref())?;
    let duration = args.duration.map(|it| Duration::from_nanos(it.as_ns()));
    let poll = Duration::from_nanos(args.poll.as_ns());
    let mut pace = Pace::new(&taps, &mut *network, poll)?;
    let ended = pace.run(duration, &interrupt, &mut programs, live.as_ref())?;
    drop(live);
    let said = programs.end();
    let bound = Duration::from_nanos(args.bound.as_ns());
    let report = pace.report(bound);
    print(&(said + &report.to_text()))?;
    if let Some(path) = &args.capture {
        store::write(path, pcapng(&network.take_links()))?;
        eprintln!("wrote {}", path.display());
    }
    if let Ended::Failed(what) = ended {
        return Err(LabError::Program(what));
    }
    report.verdict()
}

fn network(plan: &Plan, args: &EmulateArgs) -> Result<Box<dyn Emulated>> {
    let last = args.tap.iter().map(|wish| wish.station).max().unwrap_or(0);
    let wanted = Wanted {
        stations: args.stations.unwrap_or(2).max(last.saturating_add(1)),
        host_era: match args.host_era {
            Era::Plan => HostEra::Plan,
            Era::None => HostEra::None,
        },
        mtu_bytes: args.mtu,
        lose: args.lose,
        packets_per_link: args.capture.as_ref().map_or(0, |_| PACKETS_PER_LINK),
    };
    let setting = Setting {
        parameters: &plan.parameters,
        inputs: &plan.inputs,
        seed: plan.seed,
        packets_per_link: 0,
        progress: &Progress::default(),
    };
    let network = plan.system.emulate(plan.experiment.name, &setting, &wanted);
    network.map_err(|error| match error {
        SystemError::Contradiction(text) => LabError::Usage(text),
        other => LabError::NotEmulated(other),
    })
}

/// Says what there is, and how to get there.
fn tell(network: &dyn Emulated, taps: &[Tap]) {
    eprintln!(
        "{}; packets of {} bytes at most",
        network.describe(),
        network.mtu_bytes()
    );
    for tap in taps {
        eprintln!(
            "  {}: station {}, {}; nsenter --net={} COMMAND",
            tap.name(),
            tap.station(),
            tap.address(),
            tap.namespace_path().display()
        );
    }
}
