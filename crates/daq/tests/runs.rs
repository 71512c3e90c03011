//! Whole runs in processes of their own, over both transports: with every way of flow control,
//! with parts that are killed, with files, also with parts on two hosts. The processes are this test program, started
//! again.

#[path = "stage/mod.rs"]
mod stage;

use std::path::PathBuf;

use barewire_daq::generate::Generator;
use barewire_daq::launch::{self, Outcome, Role, Watcher};
use barewire_daq::record::{self, IndexState};
use barewire_proto::evb::{BuilderId, Part, SourceId};
use barewire_sys::lan::Lan;
use barewire_sys::process::{Signal, send_signal};
use barewire_units::Rng;
use stage::{Place, Started, await_log, files_in};

/// How many kills there are in a run; unset: as many as fit a short test.
const KILLS: &str = "BAREWIRE_DAQ_KILLS";
const KILLS_SHORT: usize = 10;

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    if let Some((config, role, number)) = stage::role() {
        stage::play(&config, &role, number);
    }
}

fn kill(pid: u32) {
    let _ = send_signal(i32::try_from(pid).expect("small"), Signal::Kill);
}

fn source(id: u16) -> Role {
    Role::Part(Part::Source(SourceId(id)))
}

fn builder(id: u16) -> Role {
    Role::Part(Part::Builder(BuilderId(id)))
}

const TWO_BY_TWO: &str = "[parts]\nsources = 2\nbuilders = 2\n";
/// Until somebody asks for the end.
const STEADY: &str = "events = 0\n";
const CLOCKED: &str =
    "[trigger]\nmode = \"poisson\"\nperiod = \"200 us\"\n[builder]\ntimeout = \"300 ms\"\n";
const LOGGED: &str = "[monitor]\nlog = \"FOLDER/log\"\n";
/// Where it is not the question how long a machine with other work makes somebody wait.
const PATIENT: &str = "[builder]\ntimeout = \"20 s\"\n";

/// Kills parts one after the other, each once the one before is back and takes part, and then
/// asks for the end. What happens is in the event log.
struct Killer {
    log: PathBuf,
    /// Who is to be killed, and how many turns after everybody was there.
    victims: Vec<(Role, u32)>,
    /// The processes.
    pids: Vec<(Role, u32)>,
    /// Its process has to be named in the log before anything else happens.
    awaited: Option<u32>,
    killed: usize,
    turns: u32,
}

impl Killer {
    fn new(place: &Place, victims: Vec<(Role, u32)>) -> Self {
        Self {
            log: place.folder.join("log"),
            victims,
            pids: Vec::new(),
            awaited: None,
            killed: 0,
            turns: 0,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether the run goes on, with everybody.
    fn all_are_there(&self) -> bool {
        let log = self.log();
        let back = |pid: u32| log.contains(&format!(" joins again: process {pid}\n"));
        log.contains("Running, by Start") && self.awaited.is_none_or(back)
    }

    fn pid_of(&self, victim: Role) -> Option<u32> {
        let process = self.pids.iter().rev().find(|(role, _)| *role == victim);
        process.map(|&(_, pid)| pid)
    }
}

impl Watcher for Killer {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        if what != "started" {
            return;
        }
        self.pids.push((role, pid));
        let last = self.killed.checked_sub(1).map(|it| self.victims[it].0);
        if last == Some(role) {
            self.awaited = Some(pid);
        }
    }

    fn turn(&mut self) -> u32 {
        // After a kill, until it was started again.
        if self.killed > 0 && self.awaited.is_none() || !self.all_are_there() {
            return 0;
        }
        self.turns += 1;
        let Some(&(victim, turns)) = self.victims.get(self.killed) else {
            return u32::from(self.turns == 1);
        };
        if self.turns > turns {
            self.pid_of(victim).into_iter().for_each(kill);
            (self.killed, self.turns, self.awaited) = (self.killed + 1, 0, None);
        }
        0
    }
}

#[test]
fn every_way_of_flow_control_builds_all_events_over_all_transports() {
    let flows = ["none", "credits", "bucket", "barrel", "schedule"];
    let policies = ["round-robin", "least-loaded", "pulled", "hash", "pulled"];
    let lan =
        two_hosts("every_way_of_flow_control_builds_all_events_over_all_transports: over hosts");
    for transport in transports(lan.as_ref()) {
        for (flow, policy) in flows.iter().zip(policies) {
            let parts = if *flow == "barrel" { TWO_BY_TWO } else { "" };
            let settings = format!(
                "events = 300\n{parts}{PATIENT}[flow]\ncontrol = \"{flow}\"\nrate = \"4 Gbit/s\"\nslot = \"300 us\"\n\
                 [assignment]\npolicy = \"{policy}\"\n\
                 [fragments]\nsizes = \"log-normal\"\nsize = \"20 KiB\"\n[source]\npiece = \"32 KiB\"\n"
            );
            let place = place(transport, lan.as_ref(), &settings);
            let outcome = place.run(|_, _| {});
            assert_eq!(outcome.code, 0, "{transport}, {flow}: {outcome:?}");
            assert!(outcome.deaths.is_empty(), "{outcome:?}");
            let all = "triggered 300 = built 300 + incomplete 0";
            assert!(outcome.ledger.contains(all), "{}", outcome.ledger);
            assert!(outcome.ledger.contains("the ledger balances"));
        }
    }
}

#[test]
fn a_way_that_was_full_is_used_again() {
    let lan = two_hosts("a_way_that_was_full_is_used_again: over hosts");
    let tried = [
        ("ring", "256 B"),
        ("tcp", "256 B"),
        ("ring", "200 KiB"),
        ("hosts", "256 B"),
        ("hosts", "200 KiB"),
    ];
    for (transport, size) in tried {
        if transport == "hosts" && lan.is_none() {
            continue;
        }
        let events = if size == "256 B" { 12_000 } else { 100 };
        let settings = format!(
            "events = {events}\n[flow]\ncontrol = \"none\"\n[assignment]\nwindow = 4096\n\
             [network]\nring = \"256 KiB\"\n[source]\npiece = \"50 KiB\"\n\
             [fragments]\nsize = \"{size}\"\n{PATIENT}"
        );
        let place = place(transport, lan.as_ref(), &settings);
        let outcome = place.run(|_, _| {});
        assert_eq!(outcome.code, 0, "{transport}, {size}: {outcome:?}");
        let all = format!("triggered {events} = built {events}");
        assert!(outcome.ledger.contains(&all), "{}", outcome.ledger);
    }
}

#[test]
fn a_killed_part_is_named_and_joins_again_and_the_ledger_balances() {
    for transport in ["ring", "tcp"] {
        for (victim, name) in [(source(1), "source 1"), (builder(0), "builder 0")] {
            let place = Place::new(transport, &format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{LOGGED}"));
            let mut killer = Killer::new(&place, vec![(victim, 10); 2]);
            let outcome = place.run_watched(&mut killer);
            assert_losses_are_told(&outcome);
            // A source that died takes along what it had.
            assert!(outcome.code == 5 || name != "source 1", "{outcome:?}");
            assert_eq!(outcome.deaths, vec![format!("{name}: died of signal 9"); 2]);
            let log = killer.log();
            let count = |text: &str| log.lines().filter(|it| it.contains(text)).count();
            assert_eq!(count(&format!("{name} (process")), 2, "{log}");
            assert_eq!(count(&format!("{name} joins again")), 2, "{log}");
            assert!(outcome.ledger.contains("the ledger balances"));
            assert!(number_after(&outcome.ledger, " = built ") > 0);
        }
    }
}

/// Any one part but the manager, in one run: `BAREWIRE_DAQ_KILLS=100` for the long form.
#[test]
fn a_run_goes_on_through_many_kills_and_the_ledger_balances() {
    let settings = format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{LOGGED}");
    for transport in ["ring", "tcp"] {
        assert_goes_on(&Place::new(transport, &settings));
    }
}

/// The same with the parts on two hosts, which are started by commands, and reach each other over TLS.
#[test]
fn a_run_over_two_hosts_goes_on_through_kills_and_the_ledger_balances() {
    let Some(lan) = two_hosts("a_run_over_two_hosts_goes_on_through_kills_and_the_ledger_balances")
    else {
        return;
    };
    let settings = format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{LOGGED}");
    assert_goes_on(&Place::on_hosts(&lan, &settings));
}

#[test]
fn a_killed_manager_on_another_host_ends_the_run_with_the_reason() {
    let Some(lan) = two_hosts("a_killed_manager_on_another_host_ends_the_run_with_the_reason")
    else {
        return;
    };
    let settings = format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{LOGGED}");
    assert_ends_with_manager(&Place::on_hosts(&lan, &settings));
}

/// Those that can be tried.
fn transports(lan: Option<&Lan>) -> Vec<&'static str> {
    let over_hosts = lan.map(|_| "hosts");
    ["ring", "tcp"].into_iter().chain(over_hosts).collect()
}

fn place(transport: &str, lan: Option<&Lan>, settings: &str) -> Place {
    match (transport, lan) {
        ("hosts", Some(lan)) => Place::on_hosts(lan, settings),
        _ => Place::new(transport, settings),
    }
}

/// Two hosts; `None`: they cannot be made here, and the test is skipped.
fn two_hosts(test: &str) -> Option<Lan> {
    let problem = match Lan::pair() {
        Ok(lan) => return Some(lan),
        Err(problem) => problem,
    };
    let line = format!("SKIPPED: {test}: network namespaces need root: {problem}\n");
    eprint!("{line}");
    if let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log);
        std::io::Write::write_all(&mut log.expect("the log"), line.as_bytes()).expect("written");
    }
    None
}

/// Kills many parts in a run, one after the other.
fn assert_goes_on(place: &Place) {
    let kills = std::env::var(KILLS).ok();
    let kills = kills.map_or(KILLS_SHORT, |it| it.parse().expect("a number"));
    let parts = [source(0), source(1), builder(0), builder(1)];
    let mut random = Rng::from_seed(7);
    let victims: Vec<_> = (0..kills)
        .map(|_| (parts[random.below(4) as usize], random.below(12) as u32))
        .collect();
    let mut killer = Killer::new(place, victims.clone());
    let outcome = place.run_watched(&mut killer);
    assert_losses_are_told(&outcome);
    let named = |victim: &(Role, u32)| format!("{}: died of signal 9", victim.0.name());
    assert_eq!(
        outcome.deaths,
        victims.iter().map(named).collect::<Vec<_>>()
    );
    let log = killer.log();
    let count = |text: &str| log.lines().filter(|it| it.contains(text)).count();
    assert_eq!(count(") is lost: "), kills, "{log}");
    assert_eq!(count(" joins again: "), kills, "{log}");
    assert!(outcome.ledger.contains("the ledger balances"));
    let built = number_after(&outcome.ledger, " = built ");
    assert!(built > kills as u64, "{}", outcome.ledger);
}

#[test]
fn a_second_run_and_a_stray_part_do_not_disturb_the_first() {
    for transport in ["ring", "tcp"] {
        let place = Place::new(transport, &format!("{STEADY}{TWO_BY_TWO}{CLOCKED}{LOGGED}"));
        let (config, command) = (place.config(), |role: Role| {
            place.command(&format!("{} {}", role.command(), role.number()))
        });
        let mut first = Killer::new(&place, Vec::new());
        let asks = std::sync::atomic::AtomicBool::new(false);
        let (outcome, second, stray) = std::thread::scope(|scope| {
            let run = scope.spawn(|| place.run_watched(&mut Until(&mut first, &asks)));
            await_log(&place, "Running, by Start");
            let mut nobody = Started(|_, _| {});
            let second = launch::run_here(&config, command, &mut nobody).expect("processes start");
            let stray = command(source(0)).output().expect("it starts");
            asks.store(true, std::sync::atomic::Ordering::Relaxed);
            (run.join().expect("a run"), second, stray)
        });
        assert_eq!(second.code, 2, "{transport}: {second:?}");
        let problem = String::from_utf8_lossy(&stray.stderr);
        assert!(
            problem.contains("the manager refuses: it belongs to another run"),
            "{problem}"
        );
        assert_eq!(
            (outcome.code, outcome.deaths.len()),
            (0, 0),
            "{transport}: {outcome:?}"
        );
        let whole = outcome
            .ledger
            .contains(" + incomplete 0 + abandoned 0 + aborted 0 ");
        assert!(whole, "{}", outcome.ledger);
    }
}

/// Asks for the end when it is told to.
struct Until<'a>(&'a mut Killer, &'a std::sync::atomic::AtomicBool);

impl Watcher for Until<'_> {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        self.0.said(role, what, pid);
    }

    fn turn(&mut self) -> u32 {
        u32::from(self.1.swap(false, std::sync::atomic::Ordering::Relaxed))
    }
}

#[test]
fn a_killed_manager_ends_the_run_with_the_reason() {
    for transport in ["ring", "tcp"] {
        let place = Place::new(transport, &format!("{STEADY}{CLOCKED}{LOGGED}"));
        assert_ends_with_manager(&place);
    }
}

fn assert_ends_with_manager(place: &Place) {
    let mut killer = Killer::new(place, vec![(Role::Manager, 10)]);
    let outcome = place.run_watched(&mut killer);
    assert_eq!(outcome.code, 4);
    let deaths = &outcome.deaths;
    assert!(
        deaths.contains(&"manager: died of signal 9".to_owned()),
        "{deaths:?}"
    );
}

#[test]
fn a_run_that_must_not_go_on_ends_with_the_reason() {
    let settings = format!("{STEADY}goes_on = false\n{CLOCKED}{LOGGED}");
    let place = Place::new("ring", &settings);
    let mut killer = Killer::new(&place, vec![(source(0), 10)]);
    let outcome = place.run_watched(&mut killer);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(
        outcome.ledger.contains("failed: source 0 was lost"),
        "{}",
        outcome.ledger
    );
    assert!(outcome.ledger.contains("the ledger balances"));
}

#[test]
fn what_was_acknowledged_before_a_builder_was_killed_is_in_its_file() {
    let settings = format!(
        "{STEADY}{CLOCKED}{LOGGED}[sink]\nkind = \"file\"\ndirectory = \"FOLDER\"\n\
         [fragments]\nsizes = \"exponential\"\nsize = \"3 KiB\"\n"
    );
    let place = Place::new("ring", &settings);
    let mut killer = Killer::new(&place, vec![(builder(0), 60)]);
    let outcome = place.run_watched(&mut killer);
    assert_losses_are_told(&outcome);
    let config = place.config();
    let generator = Generator::new(config.sizes, config.seed);
    let (mut built, mut indexed) = (0, 0);
    let files = files_in(&place.folder, "evb");
    assert_eq!(files.len(), 2, "one for each life");
    for file in files {
        let checked = record::check(&file, Some(&generator)).expect("a file of events");
        assert_eq!(checked.mismatched, 0);
        built += checked.built;
        indexed += usize::from(checked.index == IndexState::Right);
        assert!(checked.is_good(), "{checked:?}");
    }
    assert_eq!(indexed, 1, "the second one ended as it should");
    let triggered = number_after(&outcome.ledger, " = built ");
    assert!(
        built >= triggered && triggered > 0,
        "{built} in files, {triggered} acknowledged"
    );
}

/// The exit status is that of a loss if something was lost, and then the run says what.
fn assert_losses_are_told(outcome: &Outcome) {
    let lost = outcome
        .ledger
        .lines()
        .find_map(|it| it.strip_prefix("lost: "));
    let code = if lost.is_some() { 5 } else { 0 };
    assert_eq!(outcome.code, code, "{outcome:?}");
    let abandoned = number_after(&outcome.ledger, " + abandoned ");
    let said =
        lost.is_some_and(|it| it.contains(&format!("{abandoned} events with a builder that died")));
    assert_eq!(said, abandoned > 0, "{}", outcome.ledger);
    let source_died = outcome.deaths.iter().any(|it| it.starts_with("source"));
    let said = lost.is_some_and(|it| it.contains(" died: "));
    assert_eq!(said, source_died, "{}", outcome.ledger);
}

fn number_after(text: &str, mark: &str) -> u64 {
    let after = text.split_once(mark).expect("the mark").1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
