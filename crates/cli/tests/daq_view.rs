//! `barewire daq run` before a terminal, which is given back whatever happens, and ended by
//! signals.

#[path = "common/seat.rs"]
mod seat;
#[path = "common/wait.rs"]
mod wait;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::termios::LocalModes;
use seat::{ENTER, LEAVE, PATIENCE, Seat};

/// A run without an end of its own.
fn configuration(name: &str, settings: &str) -> PathBuf {
    let name = format!("daq-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(format!("{name}.toml"));
    let text = format!(
        "[run]\nname = \"{name}\"\nevents = 0\n\
         [trigger]\nmode = \"clock\"\nperiod = \"1 ms\"\n{settings}"
    );
    std::fs::write(&path, text).expect("written");
    path
}

fn run(config: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.args(["daq", "run"]).arg(config).args(arguments);
    command
}

fn ended(child: &mut Child) -> ExitStatus {
    wait::ended(child, PATIENCE)
}

#[test]
fn a_view_draws_obeys_keys_and_gives_the_terminal_back() {
    let config = configuration("view", "[monitor]\nline = \"1 Gbit/s\"\n");
    let mut seat = Seat::start(run(&config, &[]));
    let before = seat.modes();
    seat.wait_for(ENTER);
    let drawn = seat.wait_for("Running");
    assert!(!seat.modes().contains(LocalModes::ICANON));
    // Drawn once: before or after the state that comes with it.
    if !drawn.contains("of line") {
        seat.wait_for("of line");
    }
    seat.press("p");
    seat.wait_for("Paused");
    seat.press("p");
    seat.wait_for("Running");
    seat.press("q");
    seat.wait_for(LEAVE);
    let after = seat.wait_for("the ledger balances");
    assert!(after.contains("building time: median"), "{after}");
    assert_eq!(ended(&mut seat.child).code(), Some(0));
    assert_eq!(seat.modes(), before);
    let _ = std::fs::remove_file(config);
}

#[test]
fn the_terminal_is_given_back_when_the_manager_is_killed() {
    let config = configuration("killed", "");
    let mut seat = Seat::start(run(&config, &[]));
    let before = seat.modes();
    seat.wait_for("manager started: process ");
    let number = seat.wait_for("\u{1b}");
    let number = number.trim_end_matches('\u{1b}').trim();
    let pid = number.parse().ok().and_then(Pid::from_raw);
    seat.wait_for("Running");
    kill_process(pid.expect(number), Signal::KILL).expect("it lives");
    seat.wait_for(LEAVE);
    seat.wait_for("manager: died of signal 9");
    assert_eq!(ended(&mut seat.child).code(), Some(4));
    assert_eq!(seat.modes(), before);
    let _ = std::fs::remove_file(config);
}

/// All that is drawn in a run in which a source is killed.
fn drawn_of_a_death(no_color: Option<&str>) -> String {
    let config = configuration("colours", "");
    let mut command = run(&config, &[]);
    if let Some(text) = no_color {
        command.env("NO_COLOR", text);
    }
    let mut seat = Seat::start(command);
    let mut drawn = seat.wait_for("source 0 started: process ");
    let number = seat.wait_for("\u{1b}");
    let digits = number.chars().take_while(char::is_ascii_digit);
    let pid = digits.collect::<String>().parse().ok();
    drawn += &seat.wait_for("Running");
    kill_process(pid.and_then(Pid::from_raw).expect(&number), Signal::KILL).expect("it lives");
    drawn += &seat.wait_for(") is lost");
    seat.press("q");
    drawn += &seat.wait_for(LEAVE);
    assert_eq!(ended(&mut seat.child).code(), Some(5));
    let _ = std::fs::remove_file(config);
    drawn
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    // Foreground, as crossterm writes it.
    const COLOUR: &str = "\u{1b}[38;5;";
    const REVERSE: &str = "\u{1b}[7m";
    let with = drawn_of_a_death(None);
    assert!(with.contains(COLOUR) && !with.contains(REVERSE));
    let without = drawn_of_a_death(Some("1"));
    assert!(!without.contains(COLOUR), "{without:?}");
    assert!(
        without.contains(REVERSE),
        "errors still stand out: {without:?}"
    );
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let config = configuration("dumb", REPORTING);
    let mut command = run(&config, &[]);
    command.env("TERM", "dumb");
    let mut seat = Seat::start(command);
    let mut said = seat.wait_for(REPORT);
    said += &seat.wait_for("sources held up");
    kill_process(Pid::from_child(&seat.child), Signal::TERM).expect("it lives");
    said += &seat.wait_for("the ledger balances");
    assert_eq!(ended(&mut seat.child).code(), Some(0));
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let _ = std::fs::remove_file(config);
}

/// A run that reports often. With the first report some events are on their way.
const REPORTING: &str = "[monitor]\nperiod = \"100 ms\"\n";
const REPORT: &str = "s Running: ";

/// Starts a run, and gives its group each signal as soon as what stands before it was said.
fn signalled(config: &PathBuf, signals: &[(&str, Signal)]) -> (ExitStatus, String) {
    let mut command = run(config, &["--plain"]);
    command.process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let group = Pid::from_child(&child);
    let said = BufReader::new(child.stderr.take().expect("piped"));
    let mut signals = signals.iter();
    let mut next = signals.next();
    for line in said.lines().map_while(Result::ok) {
        if let Some((_, signal)) = next.filter(|(text, _)| line.contains(text)) {
            kill_process_group(group, *signal).expect("it lives");
            next = signals.next();
        }
    }
    assert!(next.is_none(), "{next:?} never came");
    let mut ledger = String::new();
    let mut output = child.stdout.take().expect("piped");
    output.read_to_string(&mut ledger).expect("text");
    (ended(&mut child), ledger)
}

#[test]
fn a_signal_to_all_drains_the_run() {
    let config = configuration("drained", REPORTING);
    for signal in [Signal::INT, Signal::TERM] {
        let (status, ledger) = signalled(&config, &[(REPORT, signal)]);
        assert_eq!(status.code(), Some(0), "{ledger}");
        assert!(ledger.contains("the ledger balances"), "{ledger}");
        assert!(!ledger.contains("died"), "{ledger}");
    }
    let _ = std::fs::remove_file(config);
}

#[test]
fn a_second_signal_aborts_what_does_not_drain() {
    let never = "[fragments]\nsize = \"64 KiB\"\n[source]\npiece = \"64 B\"\n\
                 [flow]\ncontrol = \"bucket\"\nrate = \"1 kbit/s\"\nburst = \"256 B\"\n\
                 [builder]\ntimeout = \"100 s\"\n";
    let config = configuration("aborted", &format!("{REPORTING}{never}"));
    let signals = [(REPORT, Signal::INT), ("1: Draining", Signal::INT)];
    let (status, ledger) = signalled(&config, &signals);
    assert_eq!(status.code(), Some(4), "{ledger}");
    assert!(ledger.contains("the ledger balances"), "{ledger}");
    assert!(ledger.contains("asked to end a second time"), "{ledger}");
    let _ = std::fs::remove_file(config);
}
