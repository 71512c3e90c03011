//! This process: its threads, forks and signals, its memory, locks and settings, its sandbox.

pub mod at_fork;
pub mod clock;
pub mod copies;
pub mod deferred_close;
pub mod edge;
pub mod family;
pub mod fault;
pub mod ids;
pub mod kept_text;
pub mod lock;
pub mod log;
pub mod memory;
pub mod open_files;
pub mod privilege;
pub mod sandbox;
pub mod sandbox_probe;
pub mod settings;
pub mod spin;
pub mod thread_words;
pub mod trial;
pub mod words;
