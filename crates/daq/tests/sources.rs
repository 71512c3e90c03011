//! Runs whose sources are no generators: files that are replayed, and a UDP detector.

#[path = "stage/mod.rs"]
mod stage;
#[path = "../examples/udp_detector.rs"]
mod udp_detector;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use barewire_daq::config::Config;
use barewire_daq::detector::{Detector, Fragment, Number, Polled, Word};
use barewire_daq::launch::Role;
use barewire_daq::part;
use barewire_daq::record::{self, IndexState, Reading, Recorded};
use barewire_proto::evb::{Part, SourceId};
use barewire_sys::process::{Signal, send_signal};
use stage::{Place, await_events, files_in};

/// Where the detectors of a run are.
const DETECTOR: &str = "BAREWIRE_DAQ_STAGE_DETECTOR";

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    let Some((config, role, number)) = stage::role() else {
        return;
    };
    match std::env::var(DETECTOR).as_deref() {
        Err(_) => stage::play(&config, &role, number),
        Ok("sized") => {
            let log = config.with_file_name(format!("words-{number}"));
            let detector = Sized {
                triggered: 0,
                given: 0,
                log: std::fs::File::create(log).expect("a file"),
            };
            let config = Config::load(&config).expect("a good configuration");
            part::run_detector(&config, number, Box::new(detector)).expect("a whole run");
        }
        Ok(first) => udp_detector::detect(&config, number, first).expect("a whole run"),
    }
}

/// Gives a fragment for each trigger, and writes down what it is told.
struct Sized {
    triggered: u64,
    given: u64,
    log: std::fs::File,
}

/// From nothing to the largest that there may be: as large as the buffer.
const SIZES: [usize; 8] = [0, 1, 65_535, 65_536, 65_537, 64 << 20, 3, 0];

impl Detector for Sized {
    fn poll(&mut self) -> Polled {
        if self.given == self.triggered {
            return Polled::NotYet;
        }
        let data = vec![self.given as u8; SIZES[self.given as usize]];
        self.given += 1;
        Polled::Fragment(Fragment::new(Number::Next, None, data).expect("64 MiB at most"))
    }

    fn told(&mut self, word: Word) {
        if let Word::Triggered { first, count, .. } = word {
            self.triggered = first + u64::from(count);
            return;
        }
        writeln!(self.log, "{word:?}").expect("written");
    }
}

fn events_of(files: &[PathBuf]) -> BTreeMap<u64, Recorded> {
    let mut events = BTreeMap::new();
    for file in files {
        let mut reading = Reading::open(file).expect("a file of events");
        while let Some(mut event) = reading.next_event().expect("it can be read") {
            event.fragments.sort_by_key(|it| it.source);
            let before = events.insert(event.event, event);
            assert!(before.is_none(), "{before:?} twice");
        }
        assert!(reading.damage().is_none(), "{:?}", reading.damage());
    }
    events
}

fn contents_of(files: &[PathBuf]) -> u64 {
    let sums = files.iter().map(|file| {
        let checked = record::check(file, None).expect("a file of events");
        let is_whole = checked.is_good() && checked.index == IndexState::Right;
        assert!(is_whole, "{checked:?}");
        checked.contents
    });
    sums.fold(0, u64::wrapping_add)
}

const RECORD: &str = "[sink]\nkind = \"file\"\ndirectory = \"FOLDER\"\n";

fn list(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|it| format!("{it:?}")).collect();
    format!("[{}]", names.join(", "))
}

fn recorded(events: u64) -> Place {
    let settings = format!(
        "events = {events}\n[parts]\nsources = 2\nbuilders = 2\n{RECORD}\
         [trigger]\nmode = \"poisson\"\nperiod = \"300 us\"\n[builder]\ntimeout = \"20 s\"\n\
         [fragments]\nsizes = \"exponential\"\nsize = \"20 KiB\"\n[source]\npiece = \"16 KiB\"\n"
    );
    let place = Place::new("ring", &settings);
    let outcome = place.run(|_, _| {});
    assert_eq!(outcome.code, 0, "{outcome:?}");
    place
}

fn replay_of(files: &[PathBuf], transport: &str, more: &str, events: u64, run: &str) -> Place {
    let settings = format!(
        "events = {events}\n{run}[trigger]\nmode = \"sources\"\n[source]\nkind = \"replay\"\n{RECORD}\
         [replay]\nfiles = {}\n{more}",
        list(files)
    );
    Place::new(transport, &settings)
}

#[test]
fn replayed_files_are_the_same_events_byte_for_byte() {
    let first = recorded(400);
    let files = files_in(&first.folder, "evb");
    assert_eq!(files.len(), 2);
    let before = events_of(&files);
    assert_eq!(before.len(), 400);
    for (transport, pace) in [("ring", "max"), ("tcp", "max"), ("ring", "recorded")] {
        let again = replay_of(
            &files,
            transport,
            &format!("pace = \"{pace}\"\n[builder]\ntimeout = \"20 s\"\n"),
            0,
            "",
        );
        let outcome = again.run(|_, _| {});
        assert_eq!(outcome.code, 0, "{transport}, {pace}: {outcome:?}");
        let all = "triggered 400 = built 400 + incomplete 0";
        assert!(outcome.ledger.contains(all), "{}", outcome.ledger);
        let gave = "its detector gave 400 = offered 400";
        assert!(outcome.ledger.contains(gave), "{}", outcome.ledger);
        let copies = files_in(&again.folder, "evb");
        assert_eq!(copies.len(), 1);
        assert!(
            events_of(&copies) == before,
            "{transport}, {pace}: other events"
        );
        assert_eq!(contents_of(&copies), contents_of(&files));
    }
}

#[test]
fn what_was_recorded_without_a_fragment_is_built_without_it_and_rounds_go_on() {
    let first = recorded(40);
    let files = files_in(&first.folder, "evb");
    let short = first.folder.join("short.evb");
    // Every third event without source 1, and no index: as a killed builder leaves it.
    let mut bytes = std::fs::read(&files[0]).expect("a file")[..32].to_vec();
    let before = events_of(&files);
    for (number, event) in before.values().enumerate() {
        let lacks = number % 3 == 2;
        let kept = if lacks {
            &event.fragments[..1]
        } else {
            &event.fragments[..]
        };
        record::append(&mut bytes, event.event, u32::from(lacks), kept);
    }
    std::fs::write(&short, bytes).expect("written");
    // With credits, those of fragments that never come are missed until the timeout.
    let repeat = "repeat = true\n[builder]\ntimeout = \"2 s\"\n[flow]\ncontrol = \"none\"\n";
    let again = replay_of(&[short], "ring", repeat, 90, "");
    let outcome = again.run(|_, _| {});
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let after = events_of(&files_in(&again.folder, "evb"));
    assert_eq!(after.len(), 90, "{}", outcome.ledger);
    for (number, event) in after {
        let round = &before[&(number % 40)];
        let lacks = number % 40 % 3 == 2;
        assert_eq!(
            event.missing,
            u32::from(lacks),
            "event {number}: {}",
            outcome.ledger
        );
        assert_eq!(event.fragments.len(), 2 - usize::from(lacks));
        for (fragment, old) in event.fragments.iter().zip(&round.fragments) {
            assert!(fragment.data == old.data, "event {number}");
            assert!(number < 40 || fragment.at_ns > old.at_ns);
        }
    }
}

/// The events of a recording, of which `keeps` says which sources' fragments are kept; `None`: the
/// event is left out. Written as one file without an index.
fn holed(
    place: &Place,
    events: &BTreeMap<u64, Recorded>,
    keeps: impl Fn(u64) -> Option<[bool; 2]>,
) -> PathBuf {
    let head = std::fs::read(&files_in(&place.folder, "evb")[0]).expect("a file");
    let mut bytes = head[..32].to_vec();
    for (&number, event) in events {
        let Some(kept) = keeps(number) else {
            continue;
        };
        let fragments = event.fragments.iter();
        let fragments = fragments.filter(|it| kept[usize::from(it.source)]);
        let fragments: Vec<_> = fragments.cloned().collect();
        let missing = 2 - fragments.len() as u32;
        record::append(&mut bytes, number, missing, &fragments);
    }
    let file = place.folder.join("holed.evb");
    std::fs::write(&file, bytes).expect("written");
    file
}

#[test]
fn every_fragment_of_a_recording_with_gaps_is_built_again() {
    let first = recorded(400);
    let before = events_of(&files_in(&first.folder, "evb"));
    // More numbers that nobody has, and more fragments that one source has not, than there are
    // credits (64) and than may be in flight (256).
    let keeps = |event: u64| match event {
        50..350 => None,
        _ if event % 3 == 1 => Some([true, false]),
        _ if event % 5 == 1 => Some([false, true]),
        _ => Some([true, true]),
    };
    let file = holed(&first, &before, keeps);
    let patient = "[builder]\ntimeout = \"20 s\"\n[monitor]\nlog = \"FOLDER/log\"\n";
    for transport in ["ring", "tcp"] {
        let again = replay_of(std::slice::from_ref(&file), transport, patient, 0, "");
        let started = std::time::Instant::now();
        let outcome = again.run(|_, _| {});
        assert_eq!(outcome.code, 0, "{transport}: {outcome:?}");
        // Nobody waits for what will not come.
        assert!(started.elapsed() < Duration::from_secs(20), "{transport}");
        let after = events_of(&files_in(&again.folder, "evb"));
        assert_eq!(after.len(), 400, "{transport}: {}", outcome.ledger);
        for (number, event) in &after {
            let kept = keeps(*number).unwrap_or([false, false]);
            let fragments = before[number].fragments.iter();
            let fragments = fragments.filter(|it| kept[usize::from(it.source)]);
            let expected: Vec<_> = fragments.cloned().collect();
            assert_eq!(event.missing as usize, 2 - expected.len(), "event {number}");
            assert!(event.fragments == expected, "{transport}: event {number}");
        }
        let log = std::fs::read_to_string(again.folder.join("log")).expect("a log");
        assert!(log.contains("the files lack 300 events"), "{log}");
    }
}

#[test]
fn a_damaged_recording_is_replayed_without_what_is_damaged() {
    let first = recorded(60);
    let before = events_of(&files_in(&first.folder, "evb"));
    let all = |event: u64| (event < 60).then_some([true, true]);
    let file = holed(&first, &before, all);
    let mut bytes = std::fs::read(&file).expect("a file");
    let mut reading = Reading::open(&file).expect("a file of events");
    let mut places = BTreeMap::new();
    while let Some(event) = reading.next_event().expect("it can be read") {
        places.insert(event.event, reading.last_at() as usize);
    }
    // The head of event 20, and the first byte of the first fragment's data of event 40.
    bytes[places[&20] + 17] ^= 1;
    bytes[places[&40] + 32 + 24] ^= 1;
    let damaged_source = u16::from_le_bytes([bytes[places[&40] + 32], bytes[places[&40] + 33]]);
    std::fs::write(&file, bytes).expect("written");
    let log = "[builder]\ntimeout = \"20 s\"\n[monitor]\nlog = \"FOLDER/log\"\n";
    let again = replay_of(&[file], "ring", log, 0, "");
    let outcome = again.run(|_, _| {});
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let after = events_of(&files_in(&again.folder, "evb"));
    assert_eq!(after.len(), 60, "{}", outcome.ledger);
    for (number, event) in &after {
        let originals = before[number].fragments.iter();
        let is_kept = |source: u16| match number {
            20 => false,
            40 => source != damaged_source,
            _ => true,
        };
        let expected: Vec<_> = originals.filter(|it| is_kept(it.source)).cloned().collect();
        assert_eq!(event.missing as usize, 2 - expected.len(), "event {number}");
        assert!(event.fragments == expected, "event {number}");
    }
    let log = std::fs::read_to_string(again.folder.join("log")).expect("a log");
    assert!(log.contains("2 damaged stretches"), "{log}");
    assert!(log.contains("the files lack 1 events"), "{log}");
    assert!(log.contains("event 40: the record at byte"), "{log}");
}

#[test]
fn a_killed_replay_joins_again_and_everything_is_accounted_for() {
    let first = recorded(600);
    let pace = "pace = \"recorded\"\nrepeat = true\n[builder]\ntimeout = \"200 ms\"\n";
    let run = "duration = \"3 s\"\n";
    let again = replay_of(&files_in(&first.folder, "evb"), "ring", pace, 0, run);
    let victim = Role::Part(Part::Source(SourceId(1)));
    let mut lives = 0;
    let outcome = again.run(|role, pid| {
        if role == victim {
            lives += 1;
        }
        if role == victim && lives == 1 {
            let folder = again.folder.clone();
            std::thread::spawn(move || {
                await_events(&folder);
                let _ = send_signal(i32::try_from(pid).expect("small"), Signal::Kill);
            });
        }
    });
    assert_eq!(outcome.code, 5, "what it had is lost: {outcome:?}");
    assert_eq!((lives, outcome.deaths.len()), (2, 1));
    assert!(
        outcome.ledger.contains("the ledger balances"),
        "{}",
        outcome.ledger
    );
    // On a busy machine it is killed before its first report: then its life is named all the same.
    let died = [
        "source 1, died, life 1",
        "source 1, died before its first report, life 1",
    ];
    assert!(
        died.iter().any(|it| outcome.ledger.contains(it)),
        "{}",
        outcome.ledger
    );
}

#[test]
fn udp_detectors_are_sources_of_a_whole_run() {
    for transport in ["ring", "tcp"] {
        let settings = format!(
            "events = 0\nduration = \"20 s\"\n[trigger]\nmode = \"sources\"\n[source]\nkind = \"own\"\n{RECORD}\
             [builder]\ntimeout = \"500 ms\"\n[monitor]\nlog = \"FOLDER/log\"\n"
        );
        let place = Place::new(transport, &settings);
        let (first, sockets) = two_ports();
        let detectors: Vec<_> = (0..)
            .zip(sockets)
            .map(|(number, socket)| {
                std::thread::spawn(move || udp_detector::generate(&socket, number, 200, 20_000))
            })
            .collect();
        // `source.program` is empty: sources are started by hand.
        let mut sources = Vec::new();
        let outcome = place.run(|role, _| {
            if role == Role::Manager {
                sources.extend(sources_of(&place, &first));
            }
        });
        for mut source in sources {
            assert!(source.wait().expect("a source").success());
        }
        for detector in detectors {
            detector.join().expect("a detector").expect("a socket");
        }
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let events = events_of(&files_in(&place.folder, "evb"));
        // A busy machine may lose datagrams; then the log tells, and all others are there.
        let triggered = format!("triggered {} = built ", events.len());
        assert!(outcome.ledger.contains(&triggered), "{}", outcome.ledger);
        let whole = events.values().filter(|it| it.missing == 0).count();
        let log = std::fs::read_to_string(place.folder.join("log")).expect("a log");
        assert!(
            whole == 200 || log.contains("lost"),
            "{log}{}",
            outcome.ledger
        );
        assert!((20..=200).contains(&whole), "{log}{}", outcome.ledger);
        for (number, event) in &events {
            for fragment in &event.fragments {
                let right = |(at, &byte): (usize, &u8)| {
                    byte == udp_detector::byte_of(fragment.source, *number, at)
                };
                assert!(fragment.data.iter().enumerate().all(right));
                assert_eq!(
                    (fragment.data.len(), fragment.at_ns),
                    (20_000, number * 1_000_000)
                );
            }
        }
    }
}

#[test]
fn fragments_of_any_size_are_given_for_the_managers_triggers() {
    let settings = format!(
        "events = 8\n[trigger]\nmode = \"clock\"\nperiod = \"5 ms\"\n[source]\nkind = \"own\"\n{RECORD}\
         [builder]\ntimeout = \"20 s\"\n[parts]\nliveness = \"2 s\"\n[monitor]\nlog = \"FOLDER/log\"\n"
    );
    let place = Place::new("ring", &settings);
    let mut sources = Vec::new();
    let outcome = place.run(|role, _| {
        if role == Role::Manager {
            sources.extend(sources_of(&place, "sized"));
        }
    });
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for mut source in sources {
        assert!(source.wait().expect("a source").success());
    }
    // A builder that verifies and writes 128 MiB has said that it is busy.
    let log = std::fs::read_to_string(place.folder.join("log")).expect("a log");
    assert!(!log.contains("silent"), "{log}");
    let events = events_of(&files_in(&place.folder, "evb"));
    assert_eq!(events.len(), 8, "{}", outcome.ledger);
    for (number, event) in &events {
        assert_eq!(event.fragments.len(), 2, "{number}: {}", outcome.ledger);
        let at_ns = event.fragments[0].at_ns;
        for fragment in &event.fragments {
            assert_eq!(fragment.data.len(), SIZES[*number as usize]);
            assert!(fragment.data.iter().all(|&it| u64::from(it) == *number));
            assert_eq!(fragment.at_ns, at_ns, "the time of the trigger");
        }
    }
    for number in 0..2 {
        let words = std::fs::read_to_string(place.folder.join(format!("words-{number}")));
        assert_eq!(
            words.expect("told"),
            "Configure { run: 1 }\nStart\nDrain\nStop\n"
        );
    }
    assert!(Fragment::new(Number::Next, None, vec![0; (64 << 20) + 1]).is_err());
}

/// Two sources, started by hand.
fn sources_of(place: &Place, detector: &str) -> Vec<Child> {
    let source = |number: u16| {
        let mut command = place.command(&format!("source {number}"));
        command.env(DETECTOR, detector);
        command.spawn().expect("a source")
    };
    (0..2).map(source).collect()
}

/// Two UDP ports, one after the other, and the address of the first.
fn two_ports() -> (String, [UdpSocket; 2]) {
    for _ in 0..100 {
        let first = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = first.local_addr().expect("bound").to_string();
        let next = udp_detector::address_of(&address, 1)
            .and_then(|it| UdpSocket::bind(it).map_err(|it| it.to_string()));
        if let Ok(next) = next {
            return (address, [first, next]);
        }
    }
    panic!("no two ports are free");
}
