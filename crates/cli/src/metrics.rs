//! `barewire metrics`: counters of all nodes, links to other hosts and accelerated sockets in the format of
//! OpenMetrics, once or over HTTP.

mod families;
mod server;
mod text;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use barewire_report::columns::{PrintError, print};
use clap::Args;

use crate::delay::Prober;
use crate::sample::Sample;

/// Print counters of nodes, links and sockets in the format of OpenMetrics, or serve them over HTTP
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire metrics                            print them once
  barewire metrics --listen 127.0.0.1:9400    serve http://127.0.0.1:9400/metrics
  barewire metrics --listen 127.0.0.1:9400 --delays
  barewire metrics --listen 10.0.0.7:9400 --allow-remote
Run it as root to see the processes of all users. docs/operate.md has the list of the
metrics, and a dashboard for Grafana.")]
pub struct MetricsArgs {
    /// Serve them at this address until the command is ended; port 0: any free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Listen on an address that other hosts may reach
    #[arg(long, requires = "listen")]
    pub allow_remote: bool,
    /// Probe how long what connections and sockets send waits, and serve histograms of it
    #[arg(long, requires = "listen")]
    pub delays: bool,
    /// Print at most N connections of a node, and N sockets of a process
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
}

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Others could read them.
    #[error(
        "{0} is not a loopback address: everybody who reaches it could read the names and addresses of this host's \
         programs. If that is meant, add --allow-remote"
    )]
    Remote(SocketAddr),
    /// The address cannot be used.
    #[error("listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// There are no threads.
    #[error("starting the server: {0}")]
    Start(io::Error),
    /// Standard output takes no more.
    #[error(transparent)]
    Print(#[from] PrintError),
}

impl MetricsError {
    /// Whether an option is to blame.
    pub fn is_usage(&self) -> bool {
        matches!(self, MetricsError::Remote(_))
    }
}

/// Prints them, or serves them.
///
/// # Errors
/// The address is refused, or standard output takes no more.
pub fn run(args: &MetricsArgs) -> Result<(), MetricsError> {
    let limit = args.limit;
    let Some(address) = args.listen else {
        let families = families::of(&Sample::take(), limit, None);
        return Ok(print(&text::exposition(&families))?);
    };
    let is_local = address.ip().is_loopback();
    if !is_local && !args.allow_remote {
        return Err(MetricsError::Remote(address));
    }
    let listening = |error| MetricsError::Listen(address, error);
    let listener = TcpListener::bind(address).map_err(listening)?;
    let own = listener.local_addr().map_err(listening)?;
    let prober = match args.delays {
        true => {
            let mut prober = Prober::start().map_err(MetricsError::Start)?;
            // There is something to tell when somebody asks for the first time.
            prober.follow(&Sample::take());
            Some(Mutex::new(prober))
        }
        false => None,
    };
    let collect = || {
        let sample = Sample::take();
        let follow = |prober: &Mutex<Prober>| {
            let mut prober = prober.lock().unwrap_or_else(PoisonError::into_inner);
            prober.follow(&sample)
        };
        let delays = prober.as_ref().map(follow);
        text::exposition(&families::of(&sample, limit, delays.as_ref()))
    };
    eprintln!("barewire: serves http://{own}/metrics");
    server::serve(&listener, is_local, collect).map_err(MetricsError::Start)
}
