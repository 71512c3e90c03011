//! The soak: mixed traffic between processes with the library and without it, with random stepping
//! back, forks and kills; every byte is verified, and nothing may be left. What it does stands
//! in `soak/soak.h`.
//!
//! | Variable | Default | Meaning |
//! |---|---|---|
//! | `SOAK_SECONDS` | 6, twice | how long the only run takes, without the end |
//! | `SOAK_SEED` | one fixed, and one random | seed of the only run |
//!
//! `make soak` runs it for an hour. A fault names its scenario, which can be run alone, many
//! times: `SOAK_PRELOAD=LIBRARY soak one SCENARIO TIMES`. `soak` without words says the rest.

use std::ffi::OsString;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use barewire_programs::{Mode, Observed, Scenario, Stage, built};

/// How long a run takes, if nobody says.
const SECONDS: u64 = 6;
/// The seed of the run that is the same each time.
const FIXED_SEED: u64 = 1;
/// Scenarios that stalled once in some thousand times, before that was mended: a token for which the line
/// had no room, until what was read there was acknowledged.
const ONCE_STALLED: [&str; 1] = ["8052071557232419048"];
/// How often each of them runs.
const TIMES: &str = "3000";
/// The ends of all scenarios, and of all processes, come at the latest so long after.
const END_S: u64 = 240;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let value = text.parse();
    Some(value.unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// One run. It starts what has the library by itself: the supervisor has not.
fn soak(stage: &Stage, program: &Path, words: [&str; 3], limit_s: u64) {
    let library = stage.preload_of(true).map(OsString::from);
    println!("soak: {}: {}", stage.mode().name(), words.join(" "));
    let said = stage
        .tool(program)
        .args(words)
        .env("SOAK_PRELOAD", library.unwrap_or_default())
        // Few of its connections move as much as is upgraded by default.
        .env("BAREWIRE_BYTES_BEFORE", "65536")
        .env("BAREWIRE_SOCKETS_REPORT", stage.path("reports/all"))
        .run(limit_s);
    println!("{}", said.stdout);
    assert!(
        said.status.success(),
        "{}{}\nalone: SOAK_PRELOAD=LIBRARY {} one SCENARIO 1000",
        said.stdout,
        said.stderr,
        program.display()
    );
}

/// Without patience every connection seems to stall: says what the soak tells of a process then.
fn evidence(stage: &Stage, program: &Path) {
    let library = stage.preload_of(true).map(OsString::from);
    let said = stage
        .tool(program)
        .args(["one", ONCE_STALLED[0], TIMES])
        .env("SOAK_PRELOAD", library.unwrap_or_default())
        .env("SOAK_PATIENCE_S", "0")
        // Nobody is to look at this one: it would stay for ever.
        .env("SOAK_KEEP", "0")
        .run(END_S);
    assert!(!said.status.success(), "{}", said.stdout);
    for part in ["FAULT: scenario", "  process ", "; schedstat "] {
        assert!(said.stdout.contains(part), "no {part} in {}", said.stdout);
    }
}

#[test]
fn nothing_is_lost_and_nothing_left() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let random = now.as_nanos() as u64;
    let asked = number("SOAK_SECONDS");
    let seeds = match (number("SOAK_SEED"), asked) {
        (Some(seed), _) => vec![seed],
        (None, Some(_)) => vec![random],
        (None, None) => vec![FIXED_SEED, random],
    };
    let seconds = asked.unwrap_or(SECONDS);
    Scenario::new("soak").run(&["cc"], |stage| {
        let program = built("soak", env!("CARGO_TARGET_TMPDIR"));
        // Without the library one run shows that the soak itself is sound.
        let is_plain = stage.mode() == Mode::Plain;
        let runs = if is_plain { 1 } else { seeds.len() };
        for &seed in &seeds[..runs] {
            let (seconds_text, seed_text) = (seconds.to_string(), seed.to_string());
            let words = ["run", &seconds_text, &seed_text];
            soak(stage, &program, words, seconds + END_S);
        }
        for scenario in ONCE_STALLED.iter().filter(|_| !is_plain) {
            soak(stage, &program, ["one", scenario, TIMES], END_S);
        }
        evidence(stage, &program);
        Observed::new()
    });
}
