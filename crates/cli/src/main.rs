//! The `barewire` command: one program with a sub-command for each thing it can do, each in a
//! module of its own. Without the feature `full` there are only those that concern the network.
//! `bench` is a crate of its own, `barewire-bench`.
//!
//! ```layers
//! nodes: the nodes of this host, seen from outside
//! hosts: links of nodes to nodes on other hosts
//! sockets: the accelerated sockets of unmodified programs, seen from outside
//! run: run an unmodified program with the preload library
//! doctor: check whether programs can be accelerated here
//! stat: counters of a process
//! dump: messages that wait in queues
//! set: change settings of a live node
//! service: services of systemd that are to be accelerated
//! sample: everything on this host at one time
//! delay: how long what connections send waits, found out from outside
//! metrics: counters for Prometheus and others
//! terminal: the terminal, taken whole and given back
//! top: a live view of all of it
//! ls: list nodes and sockets
//! node: keys with which nodes of different hosts prove who they are
//! capture: packets of an unmodified program, for Wireshark
//! explain: what errors, states, reasons and exit codes mean
//! bridge: a bridge to ordinary hosts
//! manual: manual pages, and completions for shells
//! stream: measure a stream between hosts
//! wire: decode, encode and check formats of classic networks
//! lab: the laboratory
//! daq: the event builder; `kek` runs it through an emulated switch
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "full")]
mod bridge;
mod capture;
#[cfg(feature = "full")]
mod daq;
mod delay;
mod doctor;
mod dump;
mod explain;
mod hosts;
#[cfg(feature = "full")]
mod lab;
mod ls;
mod manual;
mod metrics;
mod node;
mod nodes;
mod run;
mod sample;
mod service;
mod set;
mod sockets;
mod stat;
#[cfg(feature = "full")]
mod stream;
#[cfg(feature = "full")]
mod terminal;
#[cfg(feature = "full")]
mod top;
#[cfg(feature = "full")]
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

use barewire_report::terminal::{Colour, choose_colour};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

/// A user-level network through shared memory: run programs over it, inspect it, measure it.
#[derive(Debug, Parser)]
#[command(name = "barewire", version, arg_required_else_help = true)]
struct Arguments {
    /// Use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value_t,
        hide_possible_values = true,
        display_order = 900
    )]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// Reads the command line. Help and errors have colours as it says, too.
    fn read() -> Arguments {
        let choice = asked_colour(std::env::args_os().skip(1));
        let mut matches = Arguments::command().color(choice).get_matches();
        Arguments::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
    }
}

/// What `--color` says, before the rest is read. What stands behind `run` may belong to the program.
fn asked_colour(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let is_ours = |argument: &OsString| argument != "--" && argument != "run";
    let ours = arguments
        .take_while(is_ours)
        .filter_map(|it| it.into_string().ok());
    let mut is_next = false;
    for argument in ours {
        let value = match argument.strip_prefix("--color") {
            _ if is_next => Some(&*argument),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(choice) = value.and_then(|value| value.parse().ok()) {
            return choice;
        }
        is_next = argument == "--color";
    }
    ColorChoice::Auto
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure this machine's limits, the kernel's transports and barewire, side by side
    Bench(Box<barewire_bench::BenchCommand>),
    #[cfg(feature = "full")]
    /// A bridge between ordinary hosts and programs on Barewire, which lease its ports
    #[command(after_help = bridge::AFTER)]
    Bridge(Box<bridge::BridgeArgs>),
    /// Capture what a program under `run` sends and receives, as packets for Wireshark
    #[command(after_help = capture::AFTER)]
    Capture(capture::CaptureArgs),
    /// Write completions for a shell to standard output
    Completions(manual::CompletionsArgs),
    #[cfg(feature = "full")]
    /// The event builder: sources, builders and a manager
    #[command(subcommand)]
    Daq(daq::DaqCommand),
    /// Undo `enable`
    Disable(service::DisableArgs),
    /// Check whether unmodified programs can be accelerated here, and report what to change
    Doctor(doctor::DoctorArgs),
    /// Show the messages that wait in the queues of a process, header by header
    Dump(dump::DumpArgs),
    /// Have systemd start a service with its TCP connections on this host accelerated
    Enable(service::EnableArgs),
    /// Say what an error, a state, a reason or an exit code means, and what to do next
    Explain(explain::ExplainArgs),
    #[cfg(feature = "full")]
    /// Traffic shaping by the kernel, as KEK measured it, and event building through a switch
    /// (root)
    Kek(daq::kek::KekArgs),
    #[cfg(feature = "full")]
    /// The laboratory: simulations of published systems, beside their published figures
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// List the nodes on this host, and the sockets of programs under `run`
    Ls(ls::LsArgs),
    /// Write manual pages
    Man(manual::ManArgs),
    /// Print counters of nodes, links and sockets in the format of OpenMetrics, or serve them
    /// over HTTP
    Metrics(metrics::MetricsArgs),
    /// Keys with which nodes of different hosts prove who they are
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Run a program with its TCP connections on this host accelerated
    Run(run::RunArgs),
    /// Change settings of a live node, or show those that can be changed
    Set(set::SetArgs),
    /// Show the counters of a process: its event queues and every connection
    Stat(stat::StatArgs),
    #[cfg(feature = "full")]
    /// Measure how fast a stream goes to a host and back, over the kernel's TCP or barewire
    #[command(after_help = stream::AFTER)]
    Stream(stream::StreamArgs),
    #[cfg(feature = "full")]
    /// Show all nodes, connections, links to other hosts and accelerated sockets, live
    Top(top::TopArgs),
    #[cfg(feature = "full")]
    /// Decode, encode and check formats of classic networks: ATM, AAL5, AAL3/4, CBN, Jetstream,
    /// ...
    Wire(Box<wire::WireArgs>),
}

/// What this program starts itself as. Not among the others, so that nobody is asked whether
/// he meant one of these.
#[derive(Debug, Parser)]
#[command(name = "barewire")]
enum Inner {
    /// The server process of the benchmark; started by `bench`, of no use by hand
    #[command(name = barewire_bench::SERVER)]
    BenchServer,
    /// A program of `bench programs`; started by it, of no use by hand
    #[command(name = barewire_bench::PROGRAM)]
    BenchProgram,
    /// One end of the test that `doctor` makes, of no use by hand
    #[command(name = "doctor-end")]
    DoctorEnd(doctor::EndArgs),
    #[cfg(feature = "full")]
    /// The gateway of `run --edge`; started by it, of no use by hand
    #[command(name = run::edge::GATEWAY)]
    EdgeGateway(run::edge::GatewayArgs),
}

impl Inner {
    /// Whether we were started as one of these.
    fn is_asked_for() -> bool {
        let first = std::env::args_os().nth(1);
        let inner = Inner::command();
        first.is_some_and(|name| inner.get_subcommands().any(|it| *it.get_name() == *name))
    }

    fn run(self) -> Result<ExitCode, Box<dyn std::error::Error>> {
        match self {
            Inner::BenchProgram => barewire_bench::serve_program()?,
            Inner::BenchServer => barewire_bench::serve()?,
            Inner::DoctorEnd(args) => doctor::end(&args)?,
            #[cfg(feature = "full")]
            Inner::EdgeGateway(args) => run::edge::gateway(&args)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Has the program end quietly when nobody reads its standard output any more, as in `barewire lab list | head`:
/// as other programs do, which leave this to the signal. Here the signal is ignored, since sockets are to
/// fail with an error, and printing panics.
fn end_when_nobody_reads() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        let is_closed = |text: &&String| {
            text.starts_with("failed printing to stdout") && text.contains("Broken pipe")
        };
        if text.filter(is_closed).is_some() {
            std::process::exit(barewire_report::columns::NOBODY_READS);
        }
        otherwise(panic);
    }));
}

fn main() -> ExitCode {
    end_when_nobody_reads();
    let outcome = if Inner::is_asked_for() {
        Inner::parse().run()
    } else {
        let arguments = Arguments::read();
        choose_colour(match arguments.color {
            ColorChoice::Auto => Colour::Auto,
            ColorChoice::Always => Colour::Always,
            ColorChoice::Never => Colour::Never,
        });
        arguments.command.run()
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("barewire: {error}");
            match says_faulty(&*error) {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

impl Command {
    fn run(self) -> Result<ExitCode, Box<dyn std::error::Error>> {
        let done = |()| ExitCode::SUCCESS;
        match self {
            Command::Bench(command) => {
                let library = || run::library().map_err(|error| error.to_string());
                let outcome = barewire_bench::run(*command, library);
                outcome.map(done).map_err(Into::into)
            }
            #[cfg(feature = "full")]
            Command::Bridge(args) => bridge::run(&args).map(done).map_err(Into::into),
            Command::Capture(args) => capture::run(&args).map(done).map_err(Into::into),
            Command::Completions(args) => manual::completions(&args, Arguments::command())
                .map(done)
                .map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Daq(command) => daq::run(&command).map_err(Into::into),
            Command::Doctor(args) => doctor::run(&args).map_err(Into::into),
            Command::Disable(args) => service::disable(&args).map_err(Into::into),
            Command::Dump(args) => dump::run(&args).map(done).map_err(Into::into),
            Command::Enable(args) => service::enable(&args).map_err(Into::into),
            Command::Explain(args) => explain::run(&args).map(done).map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Kek(args) => daq::kek::run(&args).map(done).map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Lab(command) => lab::run(&command).map(done).map_err(Into::into),
            Command::Ls(args) => ls::run(&args).map(done).map_err(Into::into),
            Command::Man(args) => manual::man(&args, Arguments::command())
                .map(done)
                .map_err(Into::into),
            Command::Metrics(args) => metrics::run(&args).map(done).map_err(Into::into),
            Command::Node(command) => node::run(&command).map(done).map_err(Into::into),
            Command::Run(args) => Ok(run::run(&args)),
            Command::Set(args) => set::run(&args).map_err(Into::into),
            Command::Stat(args) => stat::run(&args).map(done).map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Stream(args) => stream::run(&args).map(done).map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Top(args) => top::run(&args).map(done).map_err(Into::into),
            #[cfg(feature = "full")]
            Command::Wire(args) => wire::run(&args).map_err(Into::into),
        }
    }
}

/// Whether it says that an argument is faulty; or comes from `wire` or `daq check`, of which 1 says that what they
/// looked at is faulty.
fn says_faulty(error: &(dyn std::error::Error + 'static)) -> bool {
    #[cfg(feature = "full")]
    {
        let top = error.downcast_ref::<top::TopError>();
        if error.is::<wire::WireError>()
            || error.is::<daq::DaqError>()
            || top.is_some_and(top::TopError::is_usage)
        {
            return true;
        }
    }
    let metrics = error.downcast_ref::<metrics::MetricsError>();
    metrics.is_some_and(metrics::MetricsError::is_usage)
        || error.is::<explain::ExplainError>()
        || error.is::<manual::ManualError>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_of_colours_is_found_before_the_rest_is_read() {
        let asked = |line: &str| asked_colour(line.split(' ').map(OsString::from));
        assert_eq!(asked("ls --color never"), ColorChoice::Never);
        assert_eq!(asked("--color=always ls --help"), ColorChoice::Always);
        assert_eq!(
            asked("--color never run ls --color=always"),
            ColorChoice::Never
        );
        for line in [
            "run ls --color=always",
            "ls -- --color=always",
            "ls --color",
            "ls",
        ] {
            assert_eq!(asked(line), ColorChoice::Auto, "{line}");
        }
    }
}
