//! A scenario, run once in each mode and compared.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::figures::{self, Figures};
use crate::installed::{Need, find, missing};
use crate::mode::Mode;
use crate::report::Report;
use crate::stage::Stage;
use crate::{leftovers, library};

/// What a scenario saw that must not depend on the mode: sums, answers, errors.
pub type Observed = String;

/// One scenario: what it needs, in which modes it runs and what it expects of the library.
pub struct Scenario {
    name: &'static str,
    modes: &'static [Mode],
    upgrades: bool,
    own_connections: bool,
    unix: bool,
    explains: bool,
    never_upgraded: bool,
}

impl Scenario {
    /// A scenario with and without the library, whose connections are worth an upgrade.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            modes: &Mode::ALL[..2],
            upgrades: true,
            own_connections: false,
            unix: false,
            explains: false,
            never_upgraded: false,
        }
    }

    /// Also with the library at one end only.
    #[must_use]
    pub fn one_sided(mut self) -> Self {
        self.modes = &Mode::ALL;
        self
    }

    /// The programs at one end connect to one another, too: with the library at one end,
    /// upgrades are to be expected.
    #[must_use]
    pub fn with_own_connections(mut self) -> Self {
        self.own_connections = true;
        self
    }

    /// Unix sockets are carried, too.
    #[must_use]
    pub fn with_unix(mut self) -> Self {
        self.unix = true;
        self
    }

    /// Its connections are too short, or not of a kind, to be upgraded.
    #[must_use]
    pub fn without_upgrades(mut self) -> Self {
        self.upgrades = false;
        self
    }

    /// None of its connections may be upgraded.
    #[must_use]
    pub fn never_upgraded(mut self) -> Self {
        self.upgrades = false;
        self.never_upgraded = true;
        self
    }

    /// The library says of each connection why it is not upgraded.
    #[must_use]
    pub fn explained(mut self) -> Self {
        self.explains = true;
        self
    }

    /// Runs it, unless a package is missing: then it counts as skipped.
    pub fn run_with(&self, needs: &[Need], play: impl Fn(&Stage) -> Observed) {
        match missing(needs) {
            Some(reason) => skip(self.name, &reason),
            None => self.run_always(play),
        }
    }

    /// Runs it, unless a program is missing: then it counts as skipped.
    pub fn run(&self, programs: &[&str], play: impl Fn(&Stage) -> Observed) {
        if let Some(missing) = programs.iter().find(|program| find(program).is_none()) {
            return skip(self.name, &format!("{missing} is not installed"));
        }
        self.run_always(play);
    }

    /// Runs it in each mode, one scenario at a time; what it observed must be the same in all.
    pub fn run_always(&self, play: impl Fn(&Stage) -> Observed) {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        // A scenario that failed has poisoned it; the others go on.
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if figures::rounds() > 0 {
            return self.measure(figures::rounds(), &play);
        }
        let mut first: Option<(Mode, Observed)> = None;
        for &mode in self.modes.iter().filter(|mode| mode.is_wanted()) {
            let started = Instant::now();
            let (observed, _) = self.run_in(mode, &play);
            let took = started.elapsed();
            println!(
                "{}: {}: {:.1} s",
                self.name,
                mode.name(),
                took.as_secs_f64()
            );
            match &first {
                None => first = Some((mode, observed)),
                Some((other, expected)) => {
                    assert!(
                        observed == *expected,
                        "{}: {} and {} differ:\n{}",
                        self.name,
                        other.name(),
                        mode.name(),
                        differences(expected, &observed)
                    );
                }
            }
        }
    }

    /// Runs it in turn without and with the library, and prints what was measured.
    fn measure(&self, rounds: u32, play: &impl Fn(&Stage) -> Observed) {
        let mut figures = Figures::default();
        for round in 0..rounds {
            let mut modes = [Mode::Plain, Mode::Preloaded];
            if round % 2 == 1 {
                modes.reverse();
            }
            for mode in modes {
                figures.add(mode, self.run_in(mode, play).1);
            }
        }
        for line in figures.lines() {
            println!("{}: {line}", self.name);
        }
    }

    /// What it observed in one mode, and what it measured.
    fn run_in(
        &self,
        mode: Mode,
        play: &impl Fn(&Stage) -> Observed,
    ) -> (Observed, Vec<(String, f64)>) {
        let library = match mode {
            Mode::Plain => None,
            _ => Some(library::find().unwrap_or_else(|e| panic!("{e}"))),
        };
        let stage = Stage::new(self.name, mode, library.as_deref(), self.unix);
        let stage = if self.explains {
            stage.explained()
        } else {
            stage
        };
        let result = catch_unwind(AssertUnwindSafe(|| play(&stage)));
        let left = leftovers::end(stage.folder(), &stage.groups(), Duration::from_secs(5));
        let observed = result.unwrap_or_else(|panic| {
            eprintln!(
                "{} ({}): logs: {}",
                self.name,
                mode.name(),
                stage.folder().display()
            );
            resume_unwind(panic)
        });
        assert!(
            left.is_empty(),
            "{} ({}): processes are left: {left:#?}",
            self.name,
            mode.name()
        );
        self.check_report(mode, &stage);
        if std::env::var_os("BAREWIRE_PROGRAMS_KEEP").is_none() {
            fs::remove_dir_all(stage.folder()).expect("the folder is ours");
        }
        (observed, stage.figures())
    }

    fn check_report(&self, mode: Mode, stage: &Stage) {
        let report = Report::of_folder(&stage.reports()).expect("reports can be read");
        println!("{}: {}: {report:?}", self.name, mode.name());
        for (why, count) in stage.whys() {
            println!("{}: {}: {count} ends: {why}", self.name, mode.name());
        }
        match mode {
            _ if self.never_upgraded => {
                assert_eq!(report.upgraded, 0, "{} ({})", self.name, mode.name());
            }
            Mode::Preloaded if self.upgrades => {
                assert!(
                    report.upgraded > 0,
                    "{}: no connection was upgraded",
                    self.name
                );
            }
            Mode::Preloaded => {}
            Mode::ServerOnly | Mode::ClientOnly if self.own_connections => {}
            // Nobody is at the other end, so nothing may be upgraded.
            _ => assert_eq!(report.upgraded, 0, "{} ({})", self.name, mode.name()),
        }
    }
}

/// The lines of two texts that are not in the other one.
fn differences(expected: &str, observed: &str) -> String {
    let only = |sign: char, one: &str, other: &str| -> String {
        let others: Vec<_> = other.lines().collect();
        let lines = one.lines().filter(|line| !others.contains(line));
        lines
            .take(60)
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    let lines = only('-', expected, observed) + &only('+', observed, expected);
    if lines.is_empty() {
        return format!("the order of the lines:\n{expected}\n--- and\n{observed}");
    }
    lines
}

/// Whether large amounts are asked for, by name or since a measurement needs them.
#[must_use]
pub fn is_long() -> bool {
    figures::rounds() > 0 || std::env::var("BAREWIRE_PROGRAMS_LONG").is_ok_and(|value| value == "1")
}

/// Says that a test did not run, where the test script counts it.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: programs/{test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = OpenOptions::new().create(true).append(true).open(path);
        log.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the skip log can be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a scenario in plain mode panics with.
    fn panics(name: &'static str, play: impl Fn(&Stage) -> Observed) -> String {
        let scenario = Scenario::new(name);
        let result = catch_unwind(AssertUnwindSafe(|| scenario.run_in(Mode::Plain, &play)));
        let panic = result.expect_err("this scenario is not good");
        let folder = format!("barewire-{}-{name}-p", std::process::id());
        fs::remove_dir_all(std::env::temp_dir().join(folder)).expect("it is kept");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_process_that_leaves_its_group_is_found() {
        let message = panics("left", |stage| {
            stage.tool("setsid").args(["-f", "sleep", "100"]).text(10);
            Observed::new()
        });
        assert!(message.contains("sleep 100"), "{message}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let message = panics("long", |stage| stage.tool("sleep").arg("100").text(1));
        assert!(message.contains("took longer than 1 s"), "{message}");
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_words() {
        let script = "echo said; echo cried >&2; exit 3";
        let message = panics("fails", |stage| {
            stage.tool("sh").args(["-c", script]).text(10)
        });
        for part in ["exit status: 3", "said", "cried"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn a_good_scenario_leaves_nothing() {
        let folder = Mutex::new(None);
        Scenario::new("good").run_in(Mode::Plain, &|stage: &Stage| {
            *folder.lock().unwrap() = Some(stage.folder().to_owned());
            stage.tool("echo").arg("said").text(10)
        });
        assert!(!folder.lock().unwrap().as_ref().unwrap().exists());
    }

    #[test]
    fn differences_are_shown() {
        assert_eq!(differences("a\nb\n", "a\nc\n"), "- b\n+ c\n");
        assert!(differences("a\nb\n", "b\na\n").contains("order"));
    }
}
