//! The `barewire` command: one program with a sub-command for each thing it can do.
//!
//! `bench` measures; each sub-command lives in its own module.
#![forbid(unsafe_code)]

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Processes that talk through shared memory: measure it, look at it.
#[derive(Debug, Parser)]
#[command(name = "barewire", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure this machine's limits, the kernel's transports and barewire, side by side
    Bench(Box<bench::args::BenchArgs>),
    /// The server process of the benchmark; started by `bench`, of no use by hand
    #[command(name = "bench-server", hide = true)]
    BenchServer,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::BenchServer => bench::child::serve(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("barewire: {error}");
            ExitCode::FAILURE
        }
    }
}
