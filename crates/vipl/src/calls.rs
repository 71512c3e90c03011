//! The functions of the header. What they mean stands there, and in `docs/via.md`.

mod completions;
mod connections;
mod memory;
mod names;
mod nics;
mod transfers;
mod vis;
