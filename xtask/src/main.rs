//! The project's own tasks: `cargo xtask tidy` checks the rules that no
//! compiler checks.
//!
//! ```layers
//! tidy: the checks of sources, documents and manifests
//! commits: the check of the history
//! ```
#![forbid(unsafe_code)]

mod commits;
mod tidy;

use std::process::ExitCode;

use tidy::Task;

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  tidy             check the rules that no compiler checks
  tidy --shrink    the same, after taking off the lists in xtask/ratchet what is mended
  cycles [PREFIX]  print the cycles of files, of crates whose folders begin so
  commits          check the form of new commits";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::main(Task::Check),
        ["tidy", "--shrink"] => tidy::main(Task::Shrink),
        ["cycles"] => tidy::print_cycles(""),
        ["cycles", prefix] => tidy::print_cycles(prefix),
        ["commits"] => commits::main(),
        ["-h" | "--help" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
