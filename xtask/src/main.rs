//! The project's own tasks: `cargo xtask tidy` checks the rules that no
//! compiler checks.
#![forbid(unsafe_code)]

mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  tidy    check the rules of the house: tiers, unsafe, headers, atomics,
          clocks, let chains, file lengths, addresses, links";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::main(),
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
