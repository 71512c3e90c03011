//! The arguments of `barewire bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::case::{Habits, Transport};
use crate::session::Place;

/// Which test to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TestChoice {
    /// Round trips: one message to the other process and back
    Rtt,
    /// One way: as many messages or bytes as possible
    Stream,
    /// Requests and replies of 64 B between one server and 1 to 10 000 connections
    Transactions,
    /// Round trips of 8 B, where both processes sleep
    Wake,
    /// All tests, interleaved
    All,
}

/// How both ends wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WaitingChoice {
    /// Both poll (kernel transports: non-blocking calls)
    #[default]
    Polling,
    /// Both sleep
    Blocking,
    /// Polling first, then blocking
    Both,
}

/// Of `barewire bench --help`, its beginning.
pub const LONG: &str = "\
Measure this machine's limits, the kernel's transports and barewire, side by side.

Two processes, each on its own processor if there are two, exchange messages over each
transport in turn. Samples of all transports are interleaved and repeated, so that other
load affects all transports alike. Every figure is shown with the limit of this machine:
the same exchange with plain loads and stores and no protocol.

On shared virtual machines the virtual processors move between physical cores. The
distance between the two cores affects a result more than the transport does. Two short
probes therefore measure, before and after each sample, how long a cache line takes to
the other core and back. A sample is dropped and counted if its probes disagree, or if
other programs ran on the two processors. The remaining samples are grouped into bands
(A: below 135 ns, B: to 270, C: to 600, D: above), and a figure is compared only with the
limit of its own band.

Latencies are round trips in nanoseconds. The median is over samples; p99 and p99.9 are
over single round trips. Rates are per second; p99 and p99.9 are then the rates that
99 % and 99.9 % of all milliseconds reached. Processor use is given for both processes.";

/// And its end.
pub const AFTER: &str = "\
Examples:
  barewire bench all --quick                        everything, in under a minute
  barewire bench rtt --size 8,64,4096               round trips of three sizes
  barewire bench rtt --waiting blocking             the same, both processes asleep
  barewire bench stream --transport barewire,unix   one way, two transports
  barewire bench transactions --connections 1,1000
  barewire bench all --json r.json --html r.html    results to keep and to look at
  barewire bench rtt --transport hosts              a link between hosts, over loopback
  barewire bench rtt --namespaces --waiting both    between two network namespaces (root)
  barewire bench stream --peer node3:7400           to another host, with `bench serve`
  barewire bench copy                               copies of memory, by size
  barewire bench programs --quick                   unmodified programs

The JSON format is described in docs/bench.md.";

/// Of `barewire bench serve --help`.
pub const SERVE: &str = "\
Be the server for `barewire bench --peer` on other hosts, until stopped.

It serves one client after the other, over kernel TCP and over links between Barewire nodes. Whoever reaches the port
may keep this host busy: nobody proves who he is, and nothing is encrypted. Links are made between private and
loopback addresses only. Both hosts need the same version of this program.";

/// Be the server for `bench --peer`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7400")]
    pub listen: String,
    /// Do not say who comes and goes
    #[arg(long, short)]
    pub quiet: bool,
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct BenchArgs {
    /// What to measure.
    pub test: TestChoice,
    /// How to measure it.
    pub options: Options,
}

/// How long both ends think, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Think {
    /// The client.
    pub client_ns: u64,
    /// The server.
    pub server_ns: u64,
}

/// One number for both, or `client,server`.
fn parse_think(text: &str) -> Result<Think, String> {
    let (client, server) = text.split_once(',').unwrap_or((text, text));
    let ns = |part: &str| {
        let number = part.parse::<u32>().map(u64::from);
        number.map_err(|_| format!("`{part}` is no number of nanoseconds, such as 50 or 0,1000"))
    };
    Ok(Think {
        client_ns: ns(client)?,
        server_ns: ns(server)?,
    })
}

/// How to measure.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Transports to measure; `limit` is always included on one machine, and `tcp` beside `hosts`
    /// [default: all but hosts; between hosts: hosts,tcp]
    #[arg(long, value_enum, value_delimiter = ',', help_heading = "What")]
    pub transport: Vec<Transport>,
    /// Ways of using barewire [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = ["message", "in-place", "batch", "stream", "stream-8k", "event-queue", "tripwire"],
        help_heading = "What"
    )]
    pub variant: Vec<String>,
    /// Message sizes in bytes, 8 and up [default: 8 B to 1 MiB]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES",
        help_heading = "What"
    )]
    pub size: Vec<usize>,
    /// Numbers of connections for `transactions` [default: 1,10,100,1000,10000]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "What")]
    pub connections: Vec<u32>,
    /// Requests outstanding on each connection [default: 16; 4 above 100 connections,
    /// 2 above 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "What")]
    pub outstanding: Option<u32>,
    /// How both processes wait, in `rtt` and `transactions`, and between hosts in `stream`
    #[arg(long, value_enum, default_value_t, help_heading = "What")]
    pub waiting: WaitingChoice,
    /// Have the sender write each line of a message before it sends it, as a program does that
    /// has something new to say; without this, the same bytes are sent again and again
    #[arg(long, conflicts_with = "rivals", help_heading = "What")]
    pub fresh: bool,
    /// How long each end of `rtt` is busy with something else after it has received: `20`, or
    /// client and server: `0,1000`
    #[arg(
        long,
        value_name = "NS",
        value_parser = parse_think,
        conflicts_with = "rivals",
        help_heading = "What"
    )]
    pub think: Option<Think>,
    /// With --think: from nothing to twice as long, at random
    #[arg(long, requires = "think", help_heading = "What")]
    pub think_at_random: bool,
    /// Also run programs of other projects, those that are here: ucx_perftest and fi_pingpong
    /// if they are installed, and what `make rivals` has built for iceoryx2, Aeron and Open MPI
    #[arg(long, help_heading = "What")]
    pub rivals: bool,

    /// Fewer sizes and samples: all tests in under a minute
    #[arg(long, help_heading = "How long")]
    pub quick: bool,
    /// Length of a sample [default: 30; 20 with --quick]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000), help_heading = "How long")]
    pub duration_ms: Option<u64>,
    /// Samples of each case [default: 21; 7 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "How long")]
    pub samples: Option<u32>,
    /// Length of a probe
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 5.0,
        help_heading = "How long"
    )]
    pub probe_ms: f64,
    /// Stop sampling after this time [default: 900; 50 with --quick]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "How long")]
    pub max_seconds: Option<u64>,

    /// Measure between this host and another, where `barewire bench serve` listens there. What is
    /// sent is not encrypted, and nobody proves who he is
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["rivals", "cpus"], help_heading = "Where")]
    pub peer: Option<String>,
    /// Measure between two network namespaces of this machine with a cable (veth) between them, as
    /// between two hosts; needs root. They go with the program, however it ends
    #[arg(long, conflicts_with_all = ["peer", "rivals"], help_heading = "Where")]
    pub namespaces: bool,
    /// The two processors to use [default: the first two allowed]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CLIENT,SERVER",
        help_heading = "Where"
    )]
    pub cpus: Vec<usize>,
    /// Let the kernel choose the processors
    #[arg(long, conflicts_with = "cpus", help_heading = "Where")]
    pub no_pin: bool,

    /// Report every band that has samples, not only the band with the most
    #[arg(long, help_heading = "Results")]
    pub all_bands: bool,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Write the results as comma-separated values
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub csv: Option<PathBuf>,
    /// Write one self-contained page with tables and plots
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub html: Option<PathBuf>,
    /// Begin the page with the results that `bench programs --json` wrote to this file
    #[arg(long, value_name = "FILE", requires = "html", help_heading = "Results")]
    pub programs: Option<PathBuf>,
    /// Print no table and no progress bar
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,
}

impl Options {
    /// What both ends do besides sending and receiving.
    pub fn habits(&self) -> Habits {
        let think = self.think.unwrap_or_default();
        Habits {
            is_fresh: self.fresh,
            client_think_ns: think.client_ns,
            server_think_ns: think.server_ns,
            is_random: self.think_at_random,
        }
    }

    /// Where the server is.
    pub fn place(&self) -> Place {
        match &self.peer {
            Some(address) => Place::Peer(address.clone()),
            None if self.namespaces => Place::Namespaces,
            None => Place::Here,
        }
    }

    /// The transports to measure: what was asked for, with what it is to be seen beside: the limit, and for links between
    /// hosts TCP.
    ///
    /// # Errors
    /// One of them does not reach another host.
    pub fn transports(&self) -> Result<Vec<Transport>, String> {
        use Transport as T;
        let is_here = self.place() == Place::Here;
        let away = self.transport.iter().find(|it| !it.is_between_hosts());
        if let (Some(bad), false) = (away, is_here) {
            let name = bad.name();
            return Err(format!(
                "--transport {name}: between hosts there are hosts and tcp"
            ));
        }
        let is_asked = |it: Transport| self.transport.contains(&it);
        let is_wanted = |it: &Transport| match *it {
            T::Hosts if is_here => is_asked(T::Hosts),
            T::Hosts => self.transport.is_empty() || is_asked(T::Hosts),
            T::Tcp if is_asked(T::Hosts) => true,
            T::Limit => is_here,
            other if self.transport.is_empty() => is_here || other.is_between_hosts(),
            other => is_asked(other),
        };
        Ok(Transport::ALL.into_iter().filter(is_wanted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::parse_think;

    #[test]
    fn one_number_is_for_both_ends() {
        let of = |text| parse_think(text).map(|think| (think.client_ns, think.server_ns));
        assert_eq!(of("20"), Ok((20, 20)));
        assert_eq!(of("0,1000"), Ok((0, 1000)));
        assert!(of("1,2,3").is_err() && of("").is_err() && of("rtt").is_err());
    }
}
