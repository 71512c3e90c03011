//! The tests of Python itself that use sockets, one by one the same as without the library.
//!
//! They are of the Python installation on the machine, in Debian's package of its tests. By
//! default some of the slow modules run in part. A test that fails is run once more alone,
//! in every mode alike: under load some need a second chance.

use std::collections::BTreeMap;
use std::process::Command;

use barewire_programs::{Observed, Running, Scenario, Stage, is_long, skip};

const PYTHON: &str = "/usr/bin/python3";

/// Prints `name outcome` for each test in files of regrtest's JUnit form.
const OUTCOMES: &str = "
import sys, xml.etree.ElementTree as tree
for file in sys.argv[1:]:
    for case in tree.parse(file).iter('testcase'):
        kinds = [child.tag for child in case if child.tag in ('failure', 'error', 'skipped')]
        if case.get('result') == 'skipped': kinds = ['skipped']
        print(case.get('name'), kinds[0] if kinds else 'ok')
";

/// Tests that run at once in one process: modules, and patterns of names (none: all).
type Group = (&'static [&'static str], &'static [&'static str]);

const DEFAULT: [Group; 4] = [
    (
        &[
            "test_socket",
            "test_selectors",
            "test_select",
            "test_epoll",
            "test_poll",
            "test_socketserver",
            "test_httpservers",
            "test_asyncore",
            "test_ftplib",
        ],
        &[],
    ),
    (
        &["test_asyncio"],
        &[
            "*test_streams*",
            "*test_server*",
            "*test_sendfile*",
            "*test_sock_lowlevel*",
            "*test_transports*",
            "*SelectEventLoopTests*",
            "*EPollEventLoopTests*",
            "*test_ssl*",
        ],
    ),
    (&["test_multiprocessing_fork"], MULTIPROCESSING),
    (&["test_multiprocessing_spawn"], MULTIPROCESSING),
];

const MULTIPROCESSING: &[&str] = &[
    "*Connection*",
    "*Listener*",
    "*RemoteManager*",
    "*TestPoll*",
    "*TestWait*",
    "*Reduction*",
    "*AuthenticationKey*",
];

const LONG: [Group; 4] = [
    DEFAULT[0],
    (&["test_asyncio"], &[]),
    (
        &[
            "test_multiprocessing_fork",
            "test_multiprocessing_forkserver",
        ],
        &[],
    ),
    (&["test_multiprocessing_spawn"], &[]),
];

/// Sockets to virtual machines: where these can be made, nobody may be there to answer.
const NOT_OURS: &str = "*VSOCK*";

fn limit_s() -> u64 {
    if is_long() { 1800 } else { 240 }
}

/// Starts regrtest; what it finds goes to the file.
fn start<'stage>(
    stage: &'stage Stage,
    file: &str,
    modules: &[&str],
    patterns: &[&str],
) -> Running<'stage> {
    let mut tests = stage
        .client(PYTHON)
        // Its workers are killed at their end.
        .without_report()
        .args(["-m", "test", "-j4", "-i", NOT_OURS, "--junit-xml", file]);
    for pattern in patterns {
        tests = tests.args(["-m", pattern]);
    }
    tests.args(modules).start()
}

fn outcomes(stage: &Stage, files: &[String]) -> BTreeMap<String, String> {
    let script = stage.write("outcomes.py", OUTCOMES);
    let text = stage.tool(PYTHON).arg(script).args(files).text(60);
    let pairs = text.lines().filter_map(|line| line.rsplit_once(' '));
    pairs
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect()
}

fn run(stage: &Stage) -> Observed {
    let groups = if is_long() { LONG } else { DEFAULT };
    let file = |i: usize| stage.path(&format!("group-{i}.xml")).display().to_string();
    let started: Vec<_> = groups
        .iter()
        .enumerate()
        .map(|(i, (modules, patterns))| start(stage, &file(i), modules, patterns))
        .collect();
    for tests in started {
        // Whether tests failed is seen below, one by one.
        tests.wait(limit_s());
    }
    let files: Vec<_> = (0..groups.len()).map(file).collect();
    let mut seen = outcomes(stage, &files);
    let failed = |seen: &BTreeMap<String, String>| -> Vec<String> {
        let bad = seen
            .iter()
            .filter(|(_, outcome)| ["failure", "error"].contains(&outcome.as_str()));
        bad.map(|(name, _)| name.clone()).collect()
    };
    for (i, name) in failed(&seen).iter().enumerate() {
        println!("once more: {name}");
        let module = name
            .split('.')
            .nth(1)
            .expect("test.module.class.name")
            .to_owned();
        let file = stage.path(&format!("again-{i}.xml")).display().to_string();
        start(stage, &file, &[&module], &[name]).wait(limit_s());
        seen.extend(outcomes(stage, &[file]));
    }
    println!(
        "{} tests of Python, of which fail: {:?}",
        seen.len(),
        failed(&seen)
    );
    assert!(seen.len() > 500, "only {} tests", seen.len());
    seen.into_iter()
        .map(|(name, outcome)| format!("{name} {outcome}\n"))
        .collect()
}

#[test]
fn cpython() {
    let check = Command::new(PYTHON)
        .args(["-c", "import test.test_socket"])
        .output();
    if !check.is_ok_and(|output| output.status.success()) {
        return skip("cpython", "Python's own tests are not installed");
    }
    Scenario::new("cpython").without_upgrades().run_always(run);
}
