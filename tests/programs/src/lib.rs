//! A harness that runs programs which we did not write, with and without the preload
//! library, and compares.
//!
//! A [`Scenario`] is run once for each [`Mode`], on a fresh [`Stage`]: a folder, free ports,
//! processes that are stopped and counted. What a scenario observed must be the same in
//! every mode. The scenarios stand in `tests/`; the C programs among them in
//! `torture/`, `soak/`, `lockstep/`, `firewall/` and `warm/`; small programs on libraries that we did not
//! write in `echo/`.
//!
//! Settings by environment:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `BAREWIRE_PRELOAD_LIB` | the library; else it is built from the present sources, with the profile of the tests |
//! | `BAREWIRE_PROGRAMS_MODES` | only these modes: `plain,preloaded,server-only,client-only` |
//! | `BAREWIRE_PROGRAMS_LONG` | `1`: larger amounts and all modules |
//! | `BAREWIRE_PROGRAMS_KEEP` | `1`: keep the folders of what passed too |
//! | `BAREWIRE_PROGRAMS_CASES` | only these cases of the torture pair, by name |
//! | `BAREWIRE_PROGRAMS_ROUNDS` | measure: so many rounds without and with the library in turn, with larger amounts |
//!
//! What a file imports, from the lowest layer up:
//!
//! ```layers
//! wait: waits with a deadline
//! ports: which TCP ports are in use
//! installed: programs that are installed here
//! compiled: the C programs of this crate
//! crates/sockets/tests/built: the preload library, built from the present sources
//! library: where the preload library is
//! report: what the library says at the exit of a process
//! why: what the library says of each connection
//! mode: which programs are given the library
//! figures: figures that scenarios measure, over several rounds
//! folder: the folder of a scenario, with logs and reports, and its process groups
//! leftovers: processes that a scenario has left behind
//! process: programs: what is given to them, how they end
//! stage: a folder, ports and programs for one run of a scenario
//! scenario: a scenario, run once in each mode and compared
//! ```
#![forbid(unsafe_code)]

mod compiled;
mod figures;
mod folder;
mod installed;
mod leftovers;
mod library;
mod mode;
mod ports;
mod process;
mod report;
mod scenario;
mod stage;
mod wait;
mod why;

pub use compiled::{built, built_shared, compile, made, run, source};
pub use installed::{Need, find, missing};
pub use mode::Mode;
pub use process::{Output, Program, Running};
pub use report::Report;
pub use scenario::{Observed, Scenario, is_long, skip};
pub use stage::Stage;
pub use why::Whys;
