//! The tests of network libraries by their own authors, as Debian packs them: Tornado's and Twisted's.
//!
//! Each connection is upgraded before the test's first byte (`warm/warm.c`), and each test must end as
//! it does without the library. The bytes that upgrade a connection make some tests fail, in both modes
//! alike. A test that fails is run once more alone, in every mode: under load some need a second chance.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use barewire_programs::{Observed, Scenario, Stage, built_shared, skip};

const PYTHON: &str = "/usr/bin/python3";
const LIMIT_S: u64 = 400;

/// `RUNNER OUT WITHOUT NAME...` runs the tests of these names, but not those whose names contain a part
/// of WITHOUT (separated by commas), and writes `name outcome` lines to OUT.
const RUNNER: &str = r#"
import sys, unittest
out, without, names = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]

def each(suite):
    if isinstance(suite, unittest.TestCase) or not hasattr(suite, "__iter__"): return [suite]
    return [test for part in suite for test in each(part)]

class Outcomes(unittest.TestResult):
    seen = {}
    def note(self, test, outcome, error=None):
        self.seen.setdefault(test.id(), outcome)
        if error: print(test.id(), outcome, error, file=sys.stderr, flush=True)
    def addSuccess(self, test): self.note(test, "ok")
    def addSkip(self, test, why): self.note(test, "skipped")
    def addError(self, test, error): self.note(test, "fails", error)
    def addFailure(self, test, error): self.note(test, "fails", error)
    def addExpectedFailure(self, test, *more): self.note(test, "skipped")
    def addUnexpectedSuccess(self, test, *more): self.note(test, "ok")

result = Outcomes()
for test in each(unittest.defaultTestLoader.loadTestsFromNames(names)):
    if not any(part and part in test.id() for part in without): test.run(result)
with open(out, "w") as file:
    for name, outcome in result.seen.items(): print(name, outcome, file=file)
"#;

/// Tests of one library.
struct Suite {
    name: &'static str,
    modules: &'static [&'static str],
    /// Parts of the names of tests that are left out: of time alone, or with a client in another thread.
    without: &'static str,
    /// There are more tests than this.
    least: usize,
}

const TORNADO: Suite = Suite {
    name: "tornado",
    modules: &[
        "tornado.test.http1connection_test",
        "tornado.test.httpserver_test",
        "tornado.test.iostream_test",
        "tornado.test.netutil_test",
        "tornado.test.process_test",
        "tornado.test.simple_httpclient_test",
        "tornado.test.tcpclient_test",
        "tornado.test.tcpserver_test",
        "tornado.test.web_test",
        "tornado.test.websocket_test",
    ],
    without: "SyncHTTPClient,test_request_timeout,ConnectionCloseTest,StreamingRequestBodyTest",
    least: 500,
};

const TWISTED: Suite = Suite {
    name: "twisted",
    modules: &["twisted.test.test_tcp", "twisted.internet.test.test_tcp"],
    without: "",
    least: 500,
};

fn outcomes(
    stage: &Stage,
    warm: &Path,
    suite: &Suite,
    file: &str,
    names: &[&str],
) -> BTreeMap<String, String> {
    let script = stage.write("runner.py", RUNNER);
    let file = stage.path(file);
    // Tests end processes in their own ways.
    let tests = stage
        .client(PYTHON)
        .preloaded_first(warm)
        .env("BAREWIRE_CALLS_BEFORE", "1")
        .without_report();
    let tests = tests
        .arg(script)
        .arg(&file)
        .arg(suite.without)
        .args(names.iter().copied());
    // Whether tests failed is seen one by one.
    let output = tests.run(LIMIT_S);
    let text = std::fs::read_to_string(file);
    let text = text.unwrap_or_else(|error| panic!("{error}: {}", output.stderr));
    let pairs = text.lines().filter_map(|line| line.rsplit_once(' '));
    pairs
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect()
}

fn play(stage: &Stage, suite: &Suite) -> Observed {
    let warm = built_shared("warm", env!("CARGO_TARGET_TMPDIR"));
    let mut seen = outcomes(stage, &warm, suite, "outcomes", suite.modules);
    let failed = seen.iter().filter(|(_, outcome)| *outcome == "fails");
    let failed: Vec<_> = failed.map(|(name, _)| name.clone()).collect();
    for (nth, name) in failed.iter().enumerate() {
        println!("once more: {name}");
        let file = format!("again-{nth}");
        seen.extend(outcomes(stage, &warm, suite, &file, &[name]));
    }
    assert!(seen.len() > suite.least, "only {} tests", seen.len());
    let count = |wanted: &str| seen.values().filter(|outcome| *outcome == wanted).count();
    println!(
        "{}: {} tests, of which {} fail and {} are skipped",
        suite.name,
        seen.len(),
        count("fails"),
        count("skipped")
    );
    seen.into_iter()
        .map(|(name, outcome)| format!("{name} {outcome}\n"))
        .collect()
}

fn run(suite: &Suite) {
    let import = format!("import {}", suite.modules[0]);
    let check = Command::new(PYTHON).args(["-c", &import]).output();
    if !check.is_ok_and(|output| output.status.success()) {
        return skip(suite.name, "its Debian package is not installed");
    }
    Scenario::new(suite.name).run(&["cc"], |stage| play(stage, suite));
}

#[test]
fn tornado_tests_of_its_own() {
    run(&TORNADO);
}

#[test]
fn twisted_tests_of_its_own() {
    run(&TWISTED);
}
