//! An event builder: sources, builders and an event manager as processes, on one host over
//! the user-level network or anywhere over TCP.
//!
//! | module | what it is |
//! |---|---|
//! | [`config`] | the configuration, checked before anything runs |
//! | [`costs`] | what the work of the parts costs here |
//! | [`wire`] | what parts say to each other |
//! | [`net`] | messages over either transport |
//! | [`detector`] | what a program of the user's is to be a source |
//! | [`replay`] | a detector that gives recorded fragments again |
//! | [`sink`] | where built events go |
//! | [`consumer`] | what a program of the user's is to take built events |
//! | [`generate`] | triggers, sizes and contents that follow from a seed |
//! | [`part`] | source, builder and manager: event loops around the cores of `barewire-proto` |
//! | [`credential`] | what lets a part into a run |
//! | [`shape`] | shaping by the kernel: queues set, measured, removed |
//! | [`signals`] | what asks a run to end |
//! | [`spread`] | histograms of times and sizes |
//! | [`disk`] | files on a file system that may be full, read-only, faulty or gone |
//! | [`record`] | the file of events: written, recovered, verified |
//! | [`monitor`] | the view, the event log, figures for Prometheus |
//! | [`launch`] | all processes of a run on this host, watched |
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
pub mod launch;
pub mod monitor;
pub mod net;
pub mod part;
pub mod record;
pub mod replay;
pub mod shape;
pub mod signals;
pub mod sink;
pub mod spread;
pub mod wire;
