//! `barewire lab run` and `barewire lab sweep`: plans, run; what comes out shown and kept.

use std::path::PathBuf;

use barewire_report::columns::print;
use barewire_tables::plan::{Plan, PlanSource};
use barewire_tables::runs::{Watch, run as run_plans};
use barewire_tables::{Axes, Axis, Change, Results, pcapng};
use clap::Args;

use super::args::PlanArgs;
use super::error::{LabError, Result};
use super::store::{self, Folder};
use super::versions::versions;
use super::{progress, reproduce};

pub const AFTER_RUN: &str = "\
Examples:
  barewire lab run cbn-ping                                 a built-in plan
  barewire lab run cbn-ping --set driver.wake='30 us'       with a parameter of your own
  barewire lab run mine.toml --replications 10 -o mine      your plan, kept in the folder mine
  barewire lab run mine --seed 7                            the plan of that result, again

The tables go to standard output, all else to standard error. The folder of -o has result.json,
a CSV file for each table, plan.toml (the whole plan: run, it gives the same trace), and with
--pcap links.pcapng. docs/laboratory.md has it all.";

pub const AFTER_SWEEP: &str = "\
Values:
  1,2,5                    those; with units: '10 us, 1 ms'
  1..5                     1, 2, 3, 4, 5
  '10 us..50 us step 20'   10 us, 30 us, 50 us
  '1..1000 times 10'       1, 10, 100, 1000
  '1..100 log 5'           5 values, evenly on a logarithmic axis
  '0, 1..64 times 2'       lists and ranges together

Examples:
  barewire lab sweep cbn-ping --over 'driver.wake=10 us..100 us step 10 us' -o wake
  barewire lab sweep kek-stream --set inputs.mtu='1500 B' \\
    --over '(inputs.tx_coal, inputs.rx_coal)=(40 us, 12 us), (400 us, 120 us), (996 us, 1000 us)'
  barewire lab sweep clan-ping --over 'bus.clock=15 ns, 30 ns' --over 'host.poll=25 ns, 50 ns'
  barewire lab sweep cbn --over 'ring.line_rate=512 Mbit/s,1000 Mbit/s' --only table-1";

/// Packets that are recorded of each link, if their number is not said.
const PACKETS_PER_LINK: &str = "10000";

/// Run a plan and show its tables
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Keep the result in this folder, in place of an older result
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Record at most so many packets of each link, in DIR/links.pcapng
    #[arg(
        long,
        value_name = "PACKETS",
        requires = "out",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = PACKETS_PER_LINK,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pcap: Option<u32>,
}

/// Run a plan as keys of it take several values, or a system's published tables
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// A key, as for --set, and its values. Given twice, every combination is run. Keys that
    /// change together: '(KEY, KEY)=(VALUE, VALUE), (VALUE, VALUE)'
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    over: Vec<Axis>,
    /// For a plan: keep the result in this folder, in place of an older result
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// For a system: only quantities whose table, row or name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// For a system: write the values as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Runs a plan.
pub fn run(lab: PlanSource, args: &RunArgs) -> Result<()> {
    let draft = lab.open(&args.plan.plan)?;
    let plan = lab.resolve(&draft, &args.plan.wanted())?;
    let folder = args.out.as_deref().map(Folder::look).transpose()?;
    let plans = [plan];
    let watch = Watch::new(&plans);
    let packets = args.pcap.map_or(0, |packets| packets as usize);
    let found = progress::shown(&watch, || run_plans(&plans, packets, &watch))?;
    // One plan gives one thing.
    let results: Vec<Results> = found
        .iter()
        .map(|found| Results::of_plan(&plans[0], found, versions()))
        .collect();
    for (results, found) in results.iter().zip(&found) {
        print(&results.to_text())?;
        let Some(folder) = &folder else { continue };
        let mut more = Vec::new();
        if args.pcap.is_some() {
            match found.links.is_empty() {
                true => eprintln!("{} records no links", results.plan),
                false => more.push((store::LINKS.to_owned(), pcapng(&found.links))),
            }
        }
        keep(folder, results, more)?;
    }
    Ok(())
}

/// Runs a plan, or the published tables of a system, at each point.
pub fn sweep(lab: PlanSource, args: &SweepArgs) -> Result<()> {
    let name = &args.plan.plan;
    let over =
        Axes::cross(&args.over).map_err(|error| LabError::Usage(format!("--over: {error}")))?;
    if let Some(system) = lab.system(name) {
        args.only_of_a_plan()?;
        let sweep = reproduce::SystemSweep {
            system,
            over: &over,
            set: &args.plan.set,
            seed: args.plan.seed.unwrap_or(1),
            only: args.only.as_deref(),
            csv: args.csv.as_deref(),
        };
        return sweep.run();
    }
    if args.only.is_some() || args.csv.is_some() {
        let problem = "--only and --csv are for the published tables of a system; what a plan \
                       gives is kept with -o DIR";
        return Err(LabError::Usage(problem.to_owned()));
    }
    let draft = lab.open(name)?;
    let base = lab.resolve(&draft, &args.plan.wanted())?;
    let at_point = |index| {
        let mut wanted = args.plan.wanted();
        let change = |(key, value): (&str, &str)| Change {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let changes = over.point(index).map(change);
        wanted.set.extend(changes.map(|change| ("--over", change)));
        lab.resolve(&draft, &wanted)
    };
    let plans: Vec<Plan> = (0..over.len())
        .map(at_point)
        .collect::<std::result::Result<_, _>>()?;
    let folder = args.out.as_deref().map(Folder::look).transpose()?;
    let watch = Watch::new(&plans);
    let found = progress::shown(&watch, || run_plans(&plans, 0, &watch))?;
    let results = Results::of_sweep(&base, over, &found, versions());
    print(&results.to_text())?;
    match &folder {
        Some(folder) => keep(folder, &results, Vec::new()),
        None => Ok(()),
    }
}

impl SweepArgs {
    /// Refuses, for a system, what only plans have.
    fn only_of_a_plan(&self) -> Result<()> {
        let given = [
            ("--with", !self.plan.with.is_empty()),
            ("--replications", self.plan.replications.is_some()),
            ("--out", self.out.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(LabError::Usage(format!(
                "{option} is for plans, and `{}` is a system; `barewire lab list` has its plans",
                self.plan.plan
            ))),
        }
    }
}

fn keep(folder: &Folder, results: &Results, more: Vec<(String, Vec<u8>)>) -> Result<()> {
    let json = results.to_json().map_err(|error| LabError::Result {
        path: store::RESULT.into(),
        problem: error.to_string(),
    })?;
    let mut files = vec![
        (store::RESULT.to_owned(), json.into_bytes()),
        (
            store::PLAN.to_owned(),
            results.resolved_plan.clone().into_bytes(),
        ),
    ];
    let tables = results.to_csvs().into_iter();
    files.extend(tables.map(|(name, text)| (name, text.into_bytes())));
    let links = !more.is_empty();
    files.extend(more);
    folder.write(&files)?;
    let verb = if folder.replaces() {
        "replaced"
    } else {
        "wrote"
    };
    let tables = match results.tables.len() {
        1 => "a table".to_owned(),
        tables => format!("{tables} tables"),
    };
    let capture = if links {
        ", what went over the links"
    } else {
        ""
    };
    eprintln!(
        "{verb} {}: result, plan and {tables} as CSV{capture}",
        folder.path().display()
    );
    for link in &results.links {
        let more = match link.not_recorded {
            0 => String::new(),
            more => format!(", {more} more not recorded"),
        };
        eprintln!("  {}: {} packets{more}", link.link, link.packets);
    }
    Ok(())
}
