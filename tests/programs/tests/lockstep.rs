//! Lockstep: random calls on sockets, one at a time, by processes with the library and by the same
//! without. What the calls said must be the same, line by line. Which calls stands in
//! `lockstep/lockstep.h`.
//!
//! | Variable | Default | Meaning |
//! |---|---|---|
//! | `LOCKSTEP_SEED` | 60000 | the first seed |
//! | `LOCKSTEP_SEEDS` | 20 | how many |
//!
//! Times are real: a busy machine changes now and then what a call that waits says. So a seed differs only
//! if it does so three times in the same line, in which the kernel says the same each time.
//! One that does can be made smaller: `lockstep SEED STEPS SKIP,SKIP-SKIP` leaves steps out.

use barewire_programs::{Mode, Observed, Scenario, Stage, built};

const FIRST_SEED: u64 = 60_000;
const SEEDS: u64 = 20;
const STEPS: &str = "120";
/// Tries of a seed that differs.
const TRIES: u32 = 3;
/// Longer than any run: each call that waits does so for some milliseconds.
const LIMIT_S: u64 = 120;

fn number(variable: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else {
        return otherwise;
    };
    let value = text.parse();
    value.unwrap_or_else(|_| panic!("{variable}={text}: not a number"))
}

/// A line that one run says otherwise than another, and its number; `None` in place of a line: there is
/// no more.
type Difference = (usize, Option<String>, Option<String>);

fn difference(one: &str, other: &str) -> Option<Difference> {
    let (mut of_one, mut of_other) = (one.lines(), other.lines());
    for at in 1.. {
        let lines = (of_one.next(), of_other.next());
        if lines == (None, None) {
            break;
        }
        if lines.0 != lines.1 {
            return Some((at, lines.0.map(String::from), lines.1.map(String::from)));
        }
    }
    None
}

/// What differs each time, where the kernel is of one mind.
fn differs(kernel: impl Fn() -> String, library: impl Fn() -> String) -> Option<Difference> {
    let mut seen = None;
    for _ in 0..TRIES {
        let said = kernel();
        let found = difference(&said, &library())?;
        let is_certain = difference(&said, &kernel()).is_none_or(|(at, ..)| at > found.0);
        if !is_certain || *seen.get_or_insert_with(|| found.clone()) != found {
            return None;
        }
    }
    seen
}

fn lockstep(stage: &Stage) -> Observed {
    let program = built("lockstep", env!("CARGO_TARGET_TMPDIR"));
    let kernel = |seed: &str| stage.tool(&program).args([seed, STEPS]).run(LIMIT_S);
    let library = |seed: &str| stage.server(&program).args([seed, STEPS]).run(LIMIT_S);
    let first = number("LOCKSTEP_SEED", FIRST_SEED);
    for seed in first..first + number("LOCKSTEP_SEEDS", SEEDS) {
        let seed = seed.to_string();
        let said = differs(|| kernel(&seed).stdout, || library(&seed).stdout);
        if let Some((line, kernel, library)) = said {
            panic!("seed {seed}, line {line}:\nkernel:  {kernel:?}\nlibrary: {library:?}");
        }
        let end = kernel(&seed).success().stdout;
        assert!(end.contains("\n100 "), "seed {seed} ended early: {end}");
    }
    Observed::new()
}

#[test]
fn calls_say_the_same() {
    Scenario::new("lockstep").run(&["cc"], |stage| match stage.mode() {
        Mode::Preloaded => lockstep(stage),
        // What is compared is in the other mode.
        _ => Observed::new(),
    });
}
