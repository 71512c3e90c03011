//! An event builder: sources, builders and an event manager as processes, on one host or several, over
//! the user-level network or TCP.
//!
//! ```layers
//! limits: sizes and numbers that configuration, messages and files agree on
//! scatter: numbers that look random and follow from others
//! clock: the clock of a run
//! signals: what asks a run to end
//! disk: files on a file system that may be full, read-only, faulty or gone
//! credential: what lets a part into a run
//! handed: what a part is handed that is started through a command
//! spread: histograms of times and sizes
//! shape: shaping by the kernel: queues set, measured, removed
//! faults: fragments that are faulty on purpose
//! accounts: what parts report
//! wire: what parts say to each other
//! config: the configuration, checked before anything runs
//! generate: triggers, sizes and contents that follow from a seed
//! net: messages over any transport
//! detector: what a program of the user's is to be a source
//! record: the file of events: written, recovered, verified
//! replay: a detector that gives recorded fragments again
//! sink: where built events go
//! consumer: what a program of the user's is to take built events
//! costs: what the work of the parts costs here
//! monitor: the view, the event log, figures for Prometheus
//! part: source, builder and manager: event loops around the cores of `barewire-proto`
//! launch: all processes of a run, watched
//! ```
//!
//! The cores decide; what is here moves bytes and waits. Each part keeps an account that
//! balances by itself; the manager puts them together at the end.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod clock;
pub mod config;
pub mod consumer;
pub mod costs;
pub mod credential;
pub mod detector;
pub mod disk;
pub mod faults;
pub mod generate;
mod handed;
pub mod launch;
mod limits;
pub mod monitor;
pub mod net;
pub mod part;
pub mod record;
pub mod replay;
mod scatter;
pub mod shape;
pub mod signals;
pub mod sink;
pub mod spread;
pub mod wire;
