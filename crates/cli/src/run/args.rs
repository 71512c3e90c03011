//! The arguments of `barewire run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  barewire run redis-server &
  barewire run redis-benchmark -t get,set           both ends: accelerated
  barewire run --why -- curl http://localhost:8000  report each connection
  barewire run --profile latency --set spin_us=100 -- PROGRAM
Connections on this host are accelerated if both ends run this way; all others
use the kernel. See also `barewire ls` and `barewire doctor`.";

/// What `-h` leaves out: its page fits a screen.
const SETTINGS: &str = "\
Settings, in the file also under [program.NAME] for programs of that name:
  spin_us        longest time to poll before a sleep, in us [200]
  calls_before   upgrade a connection after so many calls, or never [16]
  bytes_before   or after so many bytes [1048576]
  unix           1: accelerate Unix sockets too (not for sandboxed programs) [0]
  io_uring       inspect, leave or refuse: see docs/sockets.md [inspect]
  off            1: the library does nothing [0]
Exit status: the program's; 127 no such program, 126 it cannot be executed,
125 wrong settings or no library, 2 wrong options.";

/// Run a program with its TCP connections and Unix sockets on this host accelerated
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "barewire run [OPTIONS] [--] PROGRAM [ARGUMENTS]...",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n{SETTINGS}")
)]
pub struct RunArgs {
    /// Defaults: balanced, latency, throughput or quiet
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Change one setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Settings [default: ~/.config/barewire/sockets.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Report how each connection was carried, or why not
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub why: Option<PathBuf>,
    /// With --why: report as JSON, an object a line
    #[arg(long, requires = "why")]
    pub json: bool,
    /// Connect to other hosts by this bridge [bridge]
    #[cfg(feature = "full")]
    #[arg(long, value_name = "BRIDGE", num_args = 0..=1, require_equals = true, default_missing_value = "bridge")]
    pub edge: Option<String>,
    /// With --edge: only to this network; may be repeated
    #[cfg(feature = "full")]
    #[arg(long, value_name = "NETWORK", requires = "edge", value_parser = super::edge::network)]
    pub edge_net: Vec<barewire_proto::edge::program::Network>,
    /// Print nothing if the program cannot be accelerated
    #[arg(short, long)]
    pub quiet: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        hide = true
    )]
    pub program: Vec<OsString>,
}
