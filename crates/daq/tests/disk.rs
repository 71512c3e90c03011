//! Runs whose events cannot be recorded for a while, or for good: the file system is full, over its quota,
//! read-only or faulty, or the directory has been removed.

#[path = "stage/mod.rs"]
mod stage;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use barewire_daq::launch::Outcome;
use barewire_daq::record::{self, Checked, IndexState};
use stage::{Place, await_events, await_log, files_in};

/// Not a test: what a process of a run is.
#[test]
fn child_process_entry() {
    if let Some((config, role, number)) = stage::role() {
        stage::play(&config, &role, number);
    }
}

const EVENTS: u64 = 3000;
/// Events come long enough for something to happen meanwhile; nothing is late.
const SETTINGS: &str = "events = 3000\n[trigger]\nmode = \"clock\"\nperiod = \"300 us\"\n\
    [builder]\ntimeout = \"20 s\"\n[monitor]\nlog = \"FOLDER/log\"\n";
const PATIENT: &str = "patience = \"60 s\"\n";
const IMPATIENT: &str = "patience = \"200 ms\"\n";

/// A run that records in this directory.
fn place(directory: &str, patience: &str) -> Place {
    let sink = format!("[sink]\nkind = \"file\"\ndirectory = \"{directory}\"\n{patience}");
    Place::new("ring", &format!("{SETTINGS}{sink}"))
}

/// Runs it, with something that happens meanwhile.
fn run_while(place: &Place, happens: impl FnOnce() + Send) -> Outcome {
    std::thread::scope(|scope| {
        scope.spawn(happens);
        place.run(|_, _| {})
    })
}

/// The one file of a run.
fn recorded(folder: &Path) -> Checked {
    let files = files_in(folder, "evb");
    assert_eq!(files.len(), 1, "{files:?}");
    let checked = record::check(&files[0], None).expect("a file of events");
    assert!(checked.is_good() && checked.cut_at.is_none(), "{checked:?}");
    checked
}

fn count_after(text: &str, mark: &str) -> u64 {
    let found = text.split_once(mark);
    let after = found.unwrap_or_else(|| panic!("{mark} in {text}")).1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// All events were recorded.
fn assert_whole(outcome: &Outcome, folder: &Path) {
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(count_after(&outcome.ledger, " = built "), EVENTS);
    let checked = recorded(folder);
    assert_eq!((checked.built, checked.index), (EVENTS, IndexState::Right));
}

/// The run ended before its time, with this reason, and the ledger says what is in the file.
fn assert_ended(outcome: &Outcome, reason: &str) {
    assert_eq!(outcome.code, 4, "{outcome:?}");
    let ledger = &outcome.ledger;
    assert!(outcome.deaths.is_empty(), "{outcome:?}");
    assert!(ledger.contains("the ledger balances"), "{ledger}");
    let failed = ledger
        .split_once("failed: builder 0: ")
        .expect("a reason")
        .1;
    assert!(failed.contains(reason), "{failed}");
}

fn assert_recorded_as_said(outcome: &Outcome, checked: &Checked) {
    let said = count_after(&outcome.ledger, "; recorded ");
    assert_eq!(
        checked.built + checked.incomplete,
        said,
        "{}",
        outcome.ledger
    );
    assert!(said > 0 && said < EVENTS, "{}", outcome.ledger);
    let dropped = count_after(&outcome.ledger, "for file or consumer: taken ");
    assert_eq!(dropped, said, "{}", outcome.ledger);
}

/// The errors that the injector gives, with how the C library calls them.
const FAULTS: [(i32, &str); 4] = [
    (28, "No space left on device"),
    (122, "Disk quota exceeded"),
    (30, "Read-only file system"),
    (5, "Input/output error"),
];

/// The injector, built; a note that the test is skipped where there is no C compiler.
fn injector(test: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faulty_disk/faulty_disk.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faulty-disk-{test}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    compiler.arg(&library).arg(source).arg("-ldl");
    match compiler.status() {
        Ok(status) => {
            assert!(status.success(), "cc: {status}");
            Some(library)
        }
        Err(error) => {
            skip(test, &format!("no C compiler: {error}"));
            None
        }
    }
}

fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: disk::{test}: {reason}");
    println!("{line}");
    if let Ok(log) = std::env::var("BAREWIRE_SKIP_LOG") {
        let log = std::fs::File::options().append(true).create(true).open(log);
        writeln!(log.expect("the log of skipped tests"), "{line}").expect("written");
    }
}

/// A run whose file system can be made faulty by writing an error number into the second.
fn faulty(patience: &str, library: PathBuf) -> (Place, PathBuf) {
    let mut place = place("FOLDER", patience);
    let control = place.folder.join("fault");
    place.variables.push(("LD_PRELOAD", library));
    place.variables.push(("FAULTY_DISK", control.clone()));
    (place, control)
}

#[test]
fn a_run_waits_for_a_file_system_that_takes_no_more_for_a_while() {
    let Some(library) = injector("waits") else {
        return;
    };
    for (number, name) in FAULTS {
        let (place, control) = faulty(PATIENT, library.clone());
        let outcome = run_while(&place, || {
            await_log(&place, "Running, by Start");
            std::fs::write(&control, number.to_string()).expect("written");
            await_log(&place, &format!(".evb: {name}"));
            std::fs::remove_file(&control).expect("removed");
            await_log(&place, "builder 0 records again");
        });
        assert_whole(&outcome, &place.folder);
    }
}

#[test]
fn a_run_ends_with_account_if_the_file_system_takes_no_more() {
    let Some(library) = injector("ends") else {
        return;
    };
    for (number, name) in FAULTS {
        let (place, control) = faulty(IMPATIENT, library.clone());
        let outcome = run_while(&place, || {
            await_log(&place, "Running, by Start");
            await_events(&place.folder);
            std::fs::write(&control, number.to_string()).expect("written");
        });
        assert_ends_without_index(&outcome, name);
        assert_recorded_as_said(&outcome, &recorded(&place.folder));
    }
}

/// As [`assert_ended`], where the index could not be written either: the builder says so.
fn assert_ends_without_index(outcome: &Outcome, reason: &str) {
    assert_eq!(outcome.deaths, ["builder 0: ended with 2"], "{outcome:?}");
    let without_deaths = Outcome {
        deaths: Vec::new(),
        ..outcome.clone()
    };
    assert_ended(&without_deaths, reason);
}

#[test]
fn a_run_does_not_start_before_its_file_can_be_made() {
    let Some(library) = injector("begins") else {
        return;
    };
    let (place, control) = faulty(IMPATIENT, library.clone());
    std::fs::write(&control, "28").expect("written");
    let outcome = place.run(|_, _| {});
    assert_ends_without_index(&outcome, "No space left on device");
    assert_eq!(count_after(&outcome.ledger, "triggered "), 0);
    assert!(
        files_in(&place.folder, "evb").is_empty(),
        "empty files are left"
    );

    let (place, control) = faulty(PATIENT, library);
    std::fs::write(&control, "28").expect("written");
    let outcome = run_while(&place, || {
        await_log(&place, "builder 0 cannot record");
        std::fs::remove_file(&control).expect("removed");
    });
    assert_whole(&outcome, &place.folder);
}

/// A file system of its own in a folder, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(folder: PathBuf, size: &str) -> Result<Self, String> {
        std::fs::create_dir(&folder).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        match mount.arg(&folder).output() {
            Ok(output) if output.status.success() => Ok(Self(folder)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn on_a_full_file_system_what_was_written_is_whole_and_indexed() {
    // The configuration is read when the folder is there.
    let place = place("FOLDER/small", IMPATIENT);
    let small = match Small::mount(place.folder.join("small"), "2m") {
        Ok(small) => small,
        Err(reason) => return skip("on_a_full_file_system", &reason),
    };
    let outcome = place.run(|_, _| {});
    assert_ended(&outcome, "No space left on device");
    let named = format!("file system {} (tmpfs)", small.0.display());
    assert!(outcome.ledger.contains(&named), "{}", outcome.ledger);
    let checked = recorded(&small.0);
    assert_eq!(checked.index, IndexState::Right);
    assert_recorded_as_said(&outcome, &checked);
}

#[test]
fn a_directory_that_was_removed_and_comes_again_has_all_events() {
    let place = place("FOLDER/data", PATIENT);
    let data = place.folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    let outcome = run_while(&place, || {
        await_log(&place, "Running, by Start");
        await_events(&data);
        std::fs::remove_dir_all(&data).expect("removed");
        await_log(&place, "builder 0 cannot record");
        std::fs::create_dir(&data).expect("a folder");
    });
    assert_whole(&outcome, &data);
}

#[test]
fn a_run_whose_directory_was_removed_ends_with_the_reason() {
    let place = place("FOLDER/data", IMPATIENT);
    let data = place.folder.join("data");
    std::fs::create_dir(&data).expect("a folder");
    let outcome = run_while(&place, || {
        await_log(&place, "Running, by Start");
        std::fs::remove_dir_all(&data).expect("removed");
    });
    assert_ends_without_index(&outcome, "cannot be reached");
}
