//! The processes of the test: `victim NAME`, `attack NAME OWNER KIND SEED MUTATIONS`,
//! `imitate MODEL NAME OWNER`, `stall NAME OWNER MILLISECONDS`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use barewire_hostile::{attack, stall, victim};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["victim", name] => victim::run(name),
        ["attack", name, owner, kind, seed, mutations] => {
            let number = |text: &str| text.parse().unwrap_or(0);
            let owner = number(owner) as u32;
            attack::run(name, owner, kind, number(seed), number(mutations));
        }
        ["imitate", model, name, owner] => {
            attack::imitate(model, name, owner.parse().unwrap_or(0));
        }
        ["stall", name, owner, time] => {
            let time = Duration::from_millis(time.parse().unwrap_or(0));
            stall::run(name, owner.parse().unwrap_or(0), time);
        }
        _ => {
            eprintln!("usage: barewire-hostile victim NAME");
            eprintln!("       barewire-hostile attack NAME OWNER KIND SEED MUTATIONS");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
