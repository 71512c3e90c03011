//! Sources that send faulty fragments on purpose: what builders make of each kind, and that the run balances.
//! The processes are this test program, started again.

#[path = "stage/mod.rs"]
mod stage;

use barewire_daq::faults::{Fault, FaultCounts};
use barewire_daq::generate::Generator;
use barewire_daq::launch::Outcome;
use barewire_daq::record;
use stage::{Place, files_in};

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    if let Some((config, role, number)) = stage::role() {
        stage::play(&config, &role, number);
    }
}

const EVENTS: u64 = 200;
const SOURCES: u16 = 2;

/// Nothing waits for credits that faulty fragments hold, and nothing else is late.
const PATIENT: &str = "[flow]\ncredits = 4096\n[builder]\ntimeout = \"2 s\"\n";
/// Longer than a run: what is late comes at its end.
const DELAY: &str = "delay = \"60 s\"\n";

struct Run {
    outcome: Outcome,
    faults: FaultCounts,
    /// Events with a faulty fragment that is missing there.
    events: u64,
}

impl Run {
    fn new(transport: &str, settings: &str) -> Self {
        let place = Place::new(
            transport,
            &format!("events = {EVENTS}\nseed = 11\n{PATIENT}{settings}"),
        );
        let config = place.config();
        let mut faults = FaultCounts::default();
        let mut events = 0;
        for event in 0..EVENTS {
            let of = |source| config.faults.of(config.seed, source, event);
            let some: Vec<_> = (0..SOURCES).filter_map(of).collect();
            some.iter().for_each(|it| faults.note(*it));
            events += u64::from(some.iter().any(|it| *it != Fault::Twice));
        }
        Self {
            outcome: place.run(|_, _| {}),
            faults,
            events,
        }
    }

    /// The number behind a word, summed over all lines with it that begin so.
    fn sum(&self, line: &str, word: &str) -> u64 {
        let lines = self.outcome.ledger.lines();
        let lines = lines.filter(|it| it.trim_start().starts_with(line));
        let number = |text: &str| {
            let (_, behind) = text.split_once(word)?;
            let digits = behind.trim_start();
            let end = digits.find(|it: char| !it.is_ascii_digit());
            digits[..end.unwrap_or(digits.len())].parse::<u64>().ok()
        };
        lines.filter_map(number).sum()
    }

    fn on_purpose(&self) -> Vec<String> {
        let lines = self.outcome.ledger.lines();
        let of = lines.filter(|it| it.contains("faulty on purpose"));
        of.map(str::to_owned).collect()
    }

    fn of_builders(&self, word: &str) -> u64 {
        self.sum("builder ", word) + self.sum("events given", word)
    }

    /// It balances, all that was lost was asked for, and is told.
    fn check(&self) {
        let ledger = &self.outcome.ledger;
        assert_eq!(self.outcome.code, 0, "{ledger}{:?}", self.outcome.deaths);
        assert!(ledger.contains("the ledger balances"), "{ledger}");
        let faults = &self.faults;
        assert!(
            faults.in_words().len() > 4,
            "the seed gives none: {faults:?}"
        );
        let missing = faults.late + faults.number + faults.corrupt();
        assert_eq!(self.of_builders(" late "), faults.late, "{ledger}");
        assert_eq!(self.of_builders(" duplicate "), faults.twice, "{ledger}");
        assert_eq!(self.of_builders(" unassigned "), faults.number, "{ledger}");
        assert_eq!(self.of_builders(" corrupt "), faults.corrupt(), "{ledger}");
        assert_eq!(self.of_builders("wrong size "), faults.size, "{ledger}");
        assert_eq!(self.of_builders("wrong content "), 0, "{ledger}");
        assert_eq!(self.of_builders("; missing "), missing, "{ledger}");
        assert_eq!(
            self.sum("events given", "+ incomplete "),
            self.events,
            "{ledger}"
        );
        assert_eq!(
            self.sum("events given", "= built "),
            EVENTS - self.events,
            "{ledger}"
        );
        assert!(ledger.contains("faulty on purpose: "), "{ledger}");
        let told = format!(
            "by [faults] of the configuration: fragments {}; builders found {} late",
            faults.in_words(),
            faults.late
        );
        assert!(ledger.contains(&told), "{told}\n{ledger}");
    }
}

#[test]
fn every_kind_is_counted_as_what_it_is() {
    for kind in ["late", "twice", "number", "size", "check"] {
        let run = Run::new("ring", &format!("[faults]\n{kind} = 0.15\n{DELAY}"));
        run.check();
    }
}

const ALL: &str = "late = 0.04\ntwice = 0.04\nnumber = 0.04\nsize = 0.04\ncheck = 0.04\n";

#[test]
fn all_kinds_together_balance_over_both_transports_and_repeat() {
    let sized =
        "[fragments]\nsizes = \"exponential\"\nsize = \"9 KiB\"\n[source]\npiece = \"1 KiB\"\n";
    for (transport, more) in [
        ("ring", ""),
        ("tcp", ""),
        ("ring", sized),
        ("tcp", "[fragments]\nsize = \"0 B\"\n"),
        ("ring", "[fragments]\nsize = \"100 KiB\"\n"),
    ] {
        let settings = format!("[parts]\nbuilders = 2\n{more}[faults]\n{ALL}{DELAY}");
        let run = Run::new(transport, &settings);
        run.check();
        if transport == "ring" && more.is_empty() {
            assert_eq!(
                run.on_purpose(),
                Run::new(transport, &settings).on_purpose()
            );
        }
    }
}

/// What is recorded is what the ledger says, and holds nothing faulty.
#[test]
fn faulty_fragments_do_not_reach_a_recording() {
    let settings = format!(
        "events = {EVENTS}\n{PATIENT}[sink]\nkind = \"file\"\ndirectory = \"FOLDER\"\n[faults]\n{ALL}{DELAY}"
    );
    let place = Place::new("ring", &settings);
    let config = place.config();
    let outcome = place.run(|_, _| {});
    assert_eq!(outcome.code, 0, "{}", outcome.ledger);
    let files = files_in(&place.folder, "evb");
    assert_eq!(files.len(), 1);
    let generator = Generator::new(config.sizes, config.seed);
    let checked = record::check(&files[0], Some(&generator)).expect("a file of events");
    assert!(checked.is_good(), "{checked:?}");
    let all = format!(
        "built {} + incomplete {} + ",
        checked.built, checked.incomplete
    );
    assert!(outcome.ledger.contains(&all), "{all}\n{}", outcome.ledger);
    assert_eq!(checked.built + checked.incomplete, EVENTS);
    assert!(checked.incomplete > 0);
}

#[test]
fn what_comes_late_within_the_time_is_built() {
    let settings = format!("events = {EVENTS}\n{PATIENT}[faults]\nlate = 0.2\ndelay = \"20 ms\"\n");
    let place = Place::new("ring", &settings);
    let outcome = place.run(|_, _| {});
    assert_eq!(outcome.code, 0, "{}", outcome.ledger);
    let all = format!("triggered {EVENTS} = built {EVENTS} ");
    assert!(outcome.ledger.contains(&all), "{}", outcome.ledger);
    assert!(
        outcome.ledger.contains("faulty on purpose: "),
        "{}",
        outcome.ledger
    );
}
