//! Runs whose events go somewhere: to a consumer that comes late, is killed, or never comes;
//! into HDF5 files, which are read by programs that are not ours.

#[path = "../examples/consumer.rs"]
mod consumer;
#[path = "stage/mod.rs"]
mod stage;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use barewire_daq::config::Config;
use barewire_daq::generate::Generator;
use barewire_daq::launch::Role;
use barewire_daq::record::{About, Reading, Recorder, Stored};
use barewire_daq::sink::hdf5;
use barewire_proto::evb::{BuilderId, Part};
use barewire_sys::process::{Signal, send_signal};
use crc_fast::{CrcAlgorithm, checksum};
use stage::{Place, await_events, await_log, eventually, files_in};

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    let Some((config, role, number)) = stage::role() else {
        return;
    };
    if role != "consumer" {
        stage::play(&config, &role, number);
    }
    let loaded = Config::load(&config).expect("a good configuration");
    let generator = Generator::new(loaded.sizes, loaded.seed);
    let mut log = std::fs::File::options()
        .append(true)
        .create(true)
        .open(taken(config.parent().expect("a folder")))
        .expect("a file");
    let done = consumer::consume(&loaded, number, |event| {
        let wrong = event
            .fragments
            .iter()
            .filter(|it| !generator.verify(it.source, event.event, 0, &it.data))
            .count();
        let line = format!("{} {} {wrong}\n", event.event, event.fragments.len());
        log.write_all(line.as_bytes()).expect("written");
    });
    if let Err(problem) = done {
        eprintln!("consumer: {problem}");
        std::process::exit(2);
    }
}

fn taken(folder: &Path) -> std::path::PathBuf {
    folder.join("taken")
}

/// Events as consumers took them; each was whole and right.
fn events_of(place: &Place) -> Vec<u64> {
    let text = std::fs::read_to_string(taken(&place.folder)).unwrap_or_default();
    let event = |line: &str| {
        let (event, rest) = line.split_once(' ').expect("three numbers");
        assert_eq!(rest, "2 0", "event {event}");
        event.parse().expect("a number")
    };
    // The last line of one that was killed may be cut.
    text.split_inclusive('\n')
        .filter(|it| it.ends_with('\n'))
        .map(|it| event(it.trim_end()))
        .collect()
}

fn consumer_of(place: &Place) -> Child {
    place.command("consumer 0").spawn().expect("a consumer")
}

fn count_after(text: &str, mark: &str) -> u64 {
    let after = text
        .split_once(mark)
        .unwrap_or_else(|| panic!("{mark} in {text}"))
        .1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn a_run_waits_for_its_consumer_which_may_be_killed() {
    for transport in ["ring", "tcp"] {
        let settings = "events = 3000\n[sink]\nkind = \"hand-over\"\n[builder]\ntimeout = \"20 s\"\n\
                        [fragments]\nsizes = \"exponential\"\nsize = \"3 KiB\"\n\
                        [monitor]\nlog = \"FOLDER/log\"\n";
        let place = Place::new(transport, settings);
        let (outcome, first_took) = std::thread::scope(|scope| {
            let run = scope.spawn(|| place.run(|_, _| {}));
            // It comes when the run has begun.
            await_log(&place, "Running, by Start");
            let mut first = consumer_of(&place);
            let taken = || events_of(&place).len();
            eventually(|| format!("{} taken", taken()), || taken() >= 500);
            first.kill().expect("it lives");
            first.wait().expect("a child");
            let took = events_of(&place).len();
            let mut second = consumer_of(&place);
            let outcome = run.join().expect("a run");
            assert!(second.wait().expect("a child").success());
            (outcome, took)
        });
        assert_eq!(outcome.code, 0, "{transport}: {outcome:?}");
        assert!((500..3000).contains(&first_took), "{first_took}");
        let all = "triggered 3000 = built 3000 + incomplete 0";
        assert!(outcome.ledger.contains(all), "{}", outcome.ledger);
        assert_eq!(count_after(&outcome.ledger, "recorded "), 3000);
        let mut events = events_of(&place);
        let took = events.len();
        events.sort_unstable();
        events.dedup();
        assert_eq!(events.len(), 3000, "every event was taken");
        // Only the one that the first had in its hands came twice.
        assert!(took <= 3001, "{took}");
    }
}

#[test]
fn a_run_that_does_not_wait_accounts_for_what_was_dropped() {
    let settings = "events = 0\nduration = \"900 ms\"\n[trigger]\nmode = \"clock\"\nperiod = \"1 ms\"\n\
                    [sink]\nkind = \"hand-over\"\nconsumer = \"drop\"\nbuffer = \"20 KiB\"\n\
                    [builder]\ntimeout = \"20 s\"\n";
    let place = Place::new("ring", settings);
    let outcome = std::thread::scope(|scope| {
        let run = scope.spawn(|| place.run(|_, _| {}));
        std::thread::sleep(Duration::from_millis(500));
        let mut consumer = consumer_of(&place);
        let outcome = run.join().expect("a run");
        assert!(consumer.wait().expect("a child").success());
        outcome
    });
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let ledger = &outcome.ledger;
    let (_, for_consumer) = ledger
        .split_once("for file or consumer: ")
        .expect("an account");
    let (taken, dropped) = (
        count_after(for_consumer, "taken "),
        count_after(for_consumer, "+ dropped "),
    );
    assert!(taken > 0 && dropped > 0, "{ledger}");
    assert_eq!(
        count_after(ledger, " = built "),
        taken + dropped,
        "{ledger}"
    );
    assert_eq!(events_of(&place).len() as u64, taken);
}

#[test]
fn without_a_consumer_a_run_that_waits_ends_with_the_reason() {
    let settings = "events = 2000\nduration = \"300 ms\"\n[sink]\nkind = \"hand-over\"\n\
                    [parts]\npatience = \"700 ms\"\n[builder]\ntimeout = \"300 ms\"\n";
    let place = Place::new("ring", settings);
    let outcome = place.run(|role, _| assert!(matches!(role, Role::Manager | Role::Part(_))));
    assert_eq!(outcome.code, 4, "{outcome:?}");
    assert!(
        outcome.ledger.contains("failed: not drained"),
        "{}",
        outcome.ledger
    );
    assert!(
        outcome.ledger.contains("the ledger balances"),
        "{}",
        outcome.ledger
    );
    assert!(
        outcome
            .ledger
            .contains("for file or consumer: taken 0 + dropped ")
    );
}

/// Whether HDF5 is read here by others' programs; says so if not.
fn judges(test: &str) -> bool {
    let python = Command::new("/usr/bin/python3")
        .args(["-c", "import h5py"])
        .output();
    let dump = Command::new("h5dump").arg("--version").output();
    let there = |it: &std::io::Result<std::process::Output>| {
        it.as_ref().is_ok_and(|it| it.status.success())
    };
    if there(&python) && there(&dump) {
        return true;
    }
    let line = format!(
        "SKIPPED: {test}: no h5dump (package hdf5-tools) or no h5py (package python3-h5py)\n"
    );
    eprint!("{line}");
    if let Some(log) = std::env::var_os("BAREWIRE_SKIP_LOG") {
        let file = std::fs::File::options().append(true).create(true).open(log);
        file.and_then(|mut it| it.write_all(line.as_bytes()))
            .expect("the log of skipped tests");
    }
    false
}

/// What h5py finds in a file: a line for each event, and of every so many events what is in them.
const READER: &str = r#"
import sys, zlib, h5py
with h5py.File(sys.argv[1], "r") as file:
    print("file", file.attrs["run"], file.attrs["builder"], file.attrs["events"], len(file["events"]))
    a = file.attrs
    config = file["config"][()]
    print("about", a["seed"], a["made_unix_ns"], a["clock_unix_ns"], a["version"].decode(), len(config), zlib.crc32(config))
    assert all(a[it].dtype == "uint64" for it in ("seed", "made_unix_ns", "clock_unix_ns"))
    assert file["config"].asstr()[()] == config.decode()
    for at, name in enumerate(file["events"]):
        print(name)
        if at % int(sys.argv[2]):
            continue
        event = file["events"][name]
        a = event.attrs
        assert a["event"] == int(name)
        print("event", a["event"], a["run"], a["complete"], a["missing"], a["time_ns"], *a["sources"])
        for number in a["sources"]:
            data = event["source-%d" % number]
            assert data.dtype == "uint8" and data.attrs["source"] == number
            print("fragment", number, data.attrs["time_ns"], data.shape[0], zlib.crc32(data[()].tobytes()), data.attrs["crc32c"])
        assert len(event) == len(a["sources"])
"#;

fn read_by_others(file: &Path, every: usize) -> String {
    let read = Command::new("/usr/bin/python3")
        .args(["-c", READER])
        .arg(file)
        .arg(every.to_string())
        .output();
    let read = read.expect("python");
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    String::from_utf8(read.stdout).expect("text")
}

/// What [`READER`] should find, of a file of events.
fn as_recorded(file: &Path, every: usize) -> String {
    let mut reading = Reading::open(file).expect("a file of events");
    let mut events = BTreeMap::new();
    while let Ok(Some(event)) = reading.next_event() {
        events.insert(event.event, event);
    }
    let count = events.len();
    let mut text = format!("file {} {} {count} {count}\n", reading.run, reading.builder);
    let about = reading.about.as_ref().expect("it is good");
    let _ = writeln!(
        text,
        "about {} {} {} {} {} {}",
        about.seed,
        about.made_unix_ns,
        about.clock_unix_ns,
        about.version,
        about.config.len(),
        checksum(CrcAlgorithm::Crc32IsoHdlc, about.config.as_bytes())
    );
    for (at, event) in events.values().enumerate() {
        let _ = writeln!(text, "{:012}", event.event);
        if at % every > 0 {
            continue;
        }
        let whole = u8::from(event.missing == 0);
        let at_ns = event.fragments.first().map_or(0, |it| it.at_ns);
        let (number, run, missing) = (event.event, reading.run, event.missing);
        let _ = write!(text, "event {number} {run} {whole} {missing} {at_ns}");
        event
            .fragments
            .iter()
            .for_each(|it| text += &format!(" {}", it.source));
        text.push('\n');
        for it in &event.fragments {
            let _ = writeln!(
                text,
                "fragment {} {} {} {} {}",
                it.source,
                it.at_ns,
                it.data.len(),
                checksum(CrcAlgorithm::Crc32IsoHdlc, &it.data),
                checksum(CrcAlgorithm::Crc32Iscsi, &it.data)
            );
        }
    }
    text
}

fn read_by_h5dump(file: &Path, about: &About) {
    let dump = |arguments: &[&str]| {
        let dump = Command::new("h5dump").args(arguments).arg(file).output();
        let dump = dump.expect("h5dump");
        assert!(dump.status.success(), "{}", file.display());
        String::from_utf8_lossy(&dump.stdout).into_owned()
    };
    dump(&["--header"]);
    let seed = dump(&["--attribute", "/seed"]);
    assert!(seed.contains(&format!("(0): {}\n", about.seed)), "{seed}");
    let version = dump(&["--attribute", "/version"]);
    assert!(
        version.contains(&format!("(0): \"{}\"", about.version)),
        "{version}"
    );
    let config = dump(&["--dataset", "/config"]);
    let bytes = about.config.len();
    assert!(config.contains(&format!("STRSIZE {bytes};")), "{bytes}");
}

/// The library's own reader finds what was recorded, too.
fn read_by_us(file: &Path, raw: &Path) {
    let mut recorded = Reading::open(raw).expect("a file of events");
    let mut events = BTreeMap::new();
    while let Some(event) = recorded.next_event().expect("it can be read") {
        events.insert(event.event, event);
    }
    let mut reading = hdf5::Hdf5Reading::open(file).expect("a good file");
    assert_eq!(reading.about, recorded.about);
    assert_eq!(
        (reading.run, reading.builder),
        (recorded.run, recorded.builder)
    );
    for event in events.values() {
        let next = reading.next_event().expect("a good file");
        assert_eq!(next.as_ref(), Some(event));
    }
    assert_eq!(reading.next_event().expect("a good file"), None);
}

#[test]
fn hdf5_files_are_read_by_others_and_those_of_killed_builders_are_made_again() {
    if !judges("hdf5_files_are_read_by_others_and_those_of_killed_builders_are_made_again") {
        return;
    }
    let settings = "events = 0\nduration = \"1200 ms\"\n[trigger]\nmode = \"poisson\"\nperiod = \"300 us\"\n\
                    [sink]\nkind = \"hdf5\"\ndirectory = \"FOLDER\"\n[builder]\ntimeout = \"300 ms\"\n\
                    [fragments]\nsizes = \"exponential\"\nsize = \"2 KiB\"\n";
    let place = Place::new("ring", settings);
    let (mut lives, builder) = (0, Role::Part(Part::Builder(BuilderId(0))));
    let outcome = place.run(|role, pid| {
        if role == builder {
            lives += 1;
        }
        if role == builder && lives == 1 {
            let folder = place.folder.clone();
            std::thread::spawn(move || {
                await_events(&folder);
                let _ = send_signal(i32::try_from(pid).expect("small"), Signal::Kill);
            });
        }
    });
    // Events were with the builder when it died.
    assert_eq!(outcome.code, 5, "{outcome:?}");
    assert!(
        outcome.ledger.contains("with a builder that died"),
        "{}",
        outcome.ledger
    );
    let raw = files_in(&place.folder, "evb");
    assert_eq!(raw.len(), 2, "one for each life");
    assert_eq!(
        files_in(&place.folder, "h5"),
        [raw[1].with_extension("h5")],
        "the first was killed"
    );
    let again = raw[0].with_extension("h5");
    let converted = hdf5::convert(&raw[0], &again).expect("a file of events");
    assert!(converted.events > 0, "{converted:?}");
    for raw in raw {
        let file = raw.with_extension("h5");
        assert!(
            read_by_others(&file, 5) == as_recorded(&raw, 5),
            "{}",
            file.display()
        );
        let reading = Reading::open(&raw).expect("a file of events");
        let about = reading.about.as_ref().expect("it is good");
        let settings = std::fs::read_to_string(&place.config).expect("the settings");
        assert_eq!(about.config, settings);
        read_by_h5dump(&file, about);
        read_by_us(&file, &raw);
    }
}

#[test]
fn hdf5_files_of_any_shape_are_read_by_others() {
    if !judges("hdf5_files_of_any_shape_are_read_by_others") {
        return;
    }
    let place = Place::new("ring", "[sink]\nkind = \"discard\"\n");
    let fragment = |source: u16, bytes: usize| Stored {
        source,
        at_ns: u64::MAX - u64::from(source),
        data: (0..bytes).map(|it| (it * 7) as u8).collect(),
    };
    // Trees of one, two and three levels; events that lack all; empty fragments; many sources.
    for (count, every) in [
        (0, 1),
        (1, 1),
        (8, 1),
        (9, 1),
        (256, 10),
        (257, 10),
        (9_000, 97),
    ] {
        // A configuration that no attribute could hold.
        let about = About {
            seed: u64::MAX - count,
            made_unix_ns: 5,
            clock_unix_ns: 3,
            version: "1.2".to_owned(),
            config: "# text é\n".repeat(8_000 * (count as usize % 2)) + "x",
        };
        let mut raw = Recorder::create(&place.folder, 7, 3, &about).expect("a file");
        for number in (0..count).rev() {
            let fragments: Vec<_> = match number % 5 {
                0 => vec![fragment(0, 0), fragment(40_000, 3)],
                1 => Vec::new(),
                2 if number < 20 => (0..1024).map(|it| fragment(it, 1)).collect(),
                _ => vec![fragment(1, number as usize % 100)],
            };
            raw.add(
                number * number * 1_000,
                u32::from(fragments.len() < 2),
                &fragments,
            );
        }
        let path = raw.path().to_owned();
        raw.finish().expect("room");
        let file = path.with_extension("h5");
        hdf5::convert(&path, &file).expect("a file of events");
        assert!(
            hdf5::convert(&path, &file).is_err(),
            "an existing file is not touched"
        );
        assert!(
            read_by_others(&file, every) == as_recorded(&path, every),
            "{count} events"
        );
        read_by_h5dump(&file, &about);
        read_by_us(&file, &path);
    }
}
