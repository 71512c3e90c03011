//! Plans as people write them, right and wrong.

use std::path::{Path, PathBuf};

use barewire_testbed::Progress;

use super::*;
use crate::sample::{self, PLANS};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("barewire-plan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const HEAD: &str = "system = \"sample\"\nexperiment = \"wait\"\n";

fn open_with(text: &str, wanted: &Wanted) -> Result<Plan, PlanError> {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Folder::new(&format!("text-{number}"));
    let path = folder.write("mine.toml", text);
    PLANS.resolve(&PLANS.open(&path)?, wanted)
}

/// What is said of a plan, without the folder it is in.
fn refusal_with(text: &str, wanted: &Wanted) -> String {
    let text = open_with(text, wanted).unwrap_err().to_string();
    let mut out = String::new();
    for line in text.lines() {
        let at = line.find("mine.toml").unwrap_or(0);
        let indent = &line[..line.len() - line.trim_start().len()];
        let line = if at > 0 {
            &line[at..]
        } else {
            line.trim_start()
        };
        out += &format!("{indent}{line}\n");
    }
    out.trim_end().to_owned()
}

fn refusal(body: &str) -> String {
    refusal_with(&format!("{HEAD}{body}"), &Wanted::default())
}

fn wanted(changes: &[&str], with: &[&str]) -> Wanted {
    let set = changes.iter().map(|text| ("--set", text.parse().unwrap()));
    Wanted {
        with: with.iter().map(|name| (*name).to_owned()).collect(),
        set: set.collect(),
    }
}

#[test]
fn a_plan_takes_what_it_says_and_leaves_the_rest() {
    let text = format!(
        "title = \"Mine\"\n{HEAD}seed = 9\nreplications = 3\n\n[inputs]\nblocks = 7\n\
         [parameters]\nblock.setup = \"5 us\"\n[parameters.block.again]\n"
    );
    let plan = open_with(&text, &Wanted::default()).unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.title.as_deref()),
        ("mine", Some("Mine"))
    );
    assert_eq!((plan.seed, plan.replications), (9, 3));
    assert!(plan.inputs.contains("blocks = 7\n") && plan.inputs.contains("wait = \"2 us\""));
    assert!(
        plan.parameters
            .contains("setup = \"5 us\"  # sample section 1")
    );
    let changes: Vec<String> = plan.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "inputs.blocks = 7 (was 50)",
            "parameters.block.setup = \"5 us\" (was \"100 us\")"
        ]
    );
    assert!(
        plan.changes[0].from.ends_with("mine.toml:8"),
        "{:?}",
        plan.changes
    );
    // As nested tables it is the same.
    let nested = format!("{HEAD}[parameters.block]\nsetup = \"5 us\"\n");
    let nested = open_with(&nested, &Wanted::default()).unwrap();
    assert_eq!(nested.parameters, plan.parameters);
    assert_eq!((nested.seed, nested.replications), (1, 1));
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_is_expected() {
    for (body, expected) in [
        (
            "[inputs]\nwait = \"22.7 parsecs\"\n",
            "mine.toml:4: inputs.wait = \"22.7 parsecs\": unknown unit, expected one of: ps, ns, us, ms, s",
        ),
        (
            "[inputs]\nblocks = -1\n",
            "mine.toml:4: inputs.blocks = -1: invalid value: integer `-1`, expected a whole number, 0 or more",
        ),
        (
            "[inputs]\n\nwait = 22\n",
            "mine.toml:5: inputs.wait = 22: expected a text as in `\"2 us\"`",
        ),
        (
            "[inputs]\nblock = 3\n",
            "mine.toml:4: inputs.block = 3: no such input; did you mean `blocks`?",
        ),
        (
            "[inputs]\ncolour = 3\n",
            "mine.toml:4: inputs.colour = 3: no such input; expected one of: cells, wait, blocks",
        ),
        (
            "[inputs]\nblock.cell = \"1 us\"\n",
            "mine.toml:4: inputs.block.cell = \"1 us\": no such input; did you mean `parameters.block.cell`?",
        ),
        (
            "[parameters]\nblocks = 3\n",
            "mine.toml:4: parameters.blocks = 3: no such parameter; did you mean `inputs.blocks`?",
        ),
        (
            "[parameters]\nsetup = \"1 us\"\n",
            "mine.toml:4: parameters.setup = \"1 us\": no such parameter; did you mean `block.setup`?",
        ),
        (
            "[parameters]\nblock = 1\n",
            "mine.toml:4: parameters.block = 1: it is a table; expected a key in it: cell, cells, setup",
        ),
        (
            "blocks = 3\n",
            "mine.toml:3: blocks = 3: it is an input: write inputs.blocks, or put it below [inputs]",
        ),
        (
            "block.setup = \"1 us\"\n",
            "mine.toml:3: block: it is a parameter: write parameters.block, or put it below [parameters]",
        ),
        (
            "[block]\nsetup = \"1 us\"\n",
            "mine.toml:3: block: it is a parameter: write parameters.block, or put it below [parameters]",
        ),
        (
            "sead = 3\n",
            "mine.toml:3: sead = 3: no such key; did you mean `seed`?",
        ),
        (
            "seed = \"3\"\n",
            "mine.toml:3: seed = \"3\": expected a whole number from 0 to 9223372036854775807",
        ),
        (
            "replications = 0\n",
            "mine.toml:3: replications = 0: expected a whole number from 1 to 10000",
        ),
        (
            "title = 3\n",
            "mine.toml:3: title = 3: expected text in quotation marks",
        ),
        (
            "inputs = 3\n",
            "mine.toml:3: inputs = 3: expected a section: [inputs], and its keys below",
        ),
        (
            "with = [3]\n",
            "mine.toml:3: with = 3: expected files or fragments as text: [\"host.toml\"]",
        ),
        (
            "with = \"fast\"\n",
            "mine.toml:3: with = \"fast\": neither a file that ends in .toml nor a fragment of sample; expected one of: slow",
        ),
        ("[inputs]\nblocks = \n", "mine.toml:4: not TOML: "),
        ("seed = 1\nseed = 2\n", "mine.toml:4: not TOML: "),
    ] {
        let refusal = refusal(body);
        assert!(
            refusal.starts_with(expected),
            "{body}\nis:       {refusal}\nexpected: {expected}"
        );
    }
}

#[test]
fn what_is_missing_or_unknown_above_the_sections_is_named() {
    for (text, expected) in [
        (
            "experiment = \"wait\"\n",
            "mine.toml: no `system`; expected system = one of: sample",
        ),
        (
            "system = \"sample\"\n",
            "mine.toml: no `experiment`; expected experiment = one of: wait, names",
        ),
        (
            "system = \"simple\"\n",
            "mine.toml:1: system = \"simple\": no such system; did you mean `sample`?",
        ),
        (
            "system = \"sample\"\nexperiment = \"wiat\"\n",
            "mine.toml:2: experiment = \"wiat\": sample has no such experiment; did you mean `wait`?",
        ),
    ] {
        let refusal = refusal_with(text, &Wanted::default());
        assert_eq!(refusal, expected);
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    assert_eq!(
        refusal(
            "[inputs]\nwait = 3\nblcks = 2\n[parameters]\nblock.cells = 1\nblock.cell = \"1 B\"\n"
        ),
        "4 things are wrong:\n  \
         mine.toml:4: inputs.wait = 3: expected a text as in `\"2 us\"`\n  \
         mine.toml:5: inputs.blcks = 2: no such input; did you mean `blocks`?\n  \
         mine.toml:7: parameters.block.cells = 1: expected an array as in `[1, 10, 20]`\n  \
         mine.toml:8: parameters.block.cell = \"1 B\": unknown unit, expected one of: ps, ns, us, ms, s, min, h"
    );
    assert_eq!(
        refusal("seed = -1\nlength = 3\ntitle = 3\n[inputs]\nblcks = 2\n"),
        "4 things are wrong:\n  \
         mine.toml:3: seed = -1: expected a whole number from 0 to 9223372036854775807\n  \
         mine.toml:4: length = 3: no such key; expected one of: title, system, experiment, seed, replications, with, [inputs], [parameters]\n  \
         mine.toml:5: title = 3: expected text in quotation marks\n  \
         mine.toml:7: inputs.blcks = 2: no such input; did you mean `blocks`?"
    );
    // Without what was meant nothing is known of the rest.
    assert!(refusal("with = \"fast\"\n[inputs]\nblcks = 2\n").starts_with("mine.toml:3: with = "));
    let units = refusal("[inputs]\nwait = \"3 B\"\n[parameters]\nblock.setup = \"1 furlong\"\n");
    assert!(
        units.starts_with("2 things are wrong:\n  mine.toml:4: inputs.wait"),
        "{units}"
    );
    assert!(
        units.contains("\n  mine.toml:6: parameters.block.setup"),
        "{units}"
    );
}

#[test]
fn a_contradiction_is_blamed_on_the_entry_that_brought_it() {
    let too_long = "wait: expected no more than the setup of a block";
    let body = "[inputs]\nblocks = 3\nwait = \"200 us\"\ncells = [7]\n";
    let expected = format!("mine.toml:5: inputs.wait = \"200 us\": {too_long}");
    assert_eq!(refusal(body), expected);
    // Alone it would be wrong; with the setup it is right.
    let text = format!("{HEAD}{body}[parameters]\nblock.setup = \"300 us\"\n");
    assert!(open_with(&text, &Wanted::default()).is_ok());
    // The setup is too short for what was said before.
    let body = "[inputs]\nwait = \"50 us\"\n[parameters]\nblock.setup = \"20 us\"\n";
    let expected = format!("mine.toml:6: parameters.block.setup = \"20 us\": {too_long}");
    assert_eq!(refusal(body), expected);
    let refused = refusal_with(HEAD, &wanted(&["inputs.blocks=0"], &[]));
    assert_eq!(
        refused,
        "--set: inputs.blocks = 0: blocks: expected 1 to 10000"
    );
}

#[test]
fn later_layers_win() {
    let folder = Folder::new("layers");
    folder.write(
        "parts/a.toml",
        "[parameters]\nblock.setup = \"11 us\"\nblock.cell = \"1 us\"\n",
    );
    let b = folder.write(
        "b.toml",
        "[inputs]\nblocks = 22\n[parameters]\nblock.setup = \"33 us\"\n",
    );
    let text = format!("with = [\"slow\", \"parts/a.toml\"]\n{HEAD}[inputs]\nblocks = 5\n");
    let path = folder.write("mine.toml", &text);
    let plan = |wanted: &Wanted| PLANS.resolve(&PLANS.open(&path).unwrap(), wanted).unwrap();
    let values = |plan: &Plan| {
        let changes = plan.changes.iter();
        changes
            .map(|change| change.value.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let of_plan = plan(&Wanted::default());
    assert_eq!(values(&of_plan), "\"11 us\" \"1 us\" 5");
    assert!(of_plan.changes[0].from.ends_with("parts/a.toml:2"));
    let with = plan(&wanted(&[], &[&b]));
    assert_eq!(values(&with), "\"33 us\" \"1 us\" 22");
    let set = plan(&wanted(
        &[
            "inputs.blocks=50",
            "block.setup=44 us",
            "parameters.block.cell=9 us",
            "seed=4",
        ],
        &[&b],
    ));
    // 50 is the default.
    assert_eq!(values(&set), "\"44 us\" \"9 us\"");
    assert_eq!((set.seed, set.changes[0].from.as_str()), (4, "--set"));
}

#[test]
fn a_fragment_holds_inputs_and_parameters_only() {
    let folder = Folder::new("fragment");
    let path = folder.write("mine.toml", &format!("with = [\"f.toml\"]\n{HEAD}"));
    let refusal = || {
        let error = PLANS.resolve(&PLANS.open(&path).unwrap(), &Wanted::default());
        error.unwrap_err().to_string()
    };
    assert!(
        refusal().contains("mine.toml:1: with = \"f.toml\": "),
        "{}",
        refusal()
    );
    for text in ["seed = 3", "with = [\"g.toml\"]", "colour = 3"] {
        folder.write("f.toml", text);
        let refusal = refusal();
        assert!(
            refusal.contains("f.toml:1: ") && refusal.contains("nothing else"),
            "{refusal}"
        );
    }
    folder.write("f.toml", "[inputs]\n\nblocks = \"x\"\n");
    assert!(refusal().contains("f.toml:3: inputs.blocks = \"x\": expected an integer"));
}

#[test]
fn changes_of_the_command_line_are_checked_as_lines_are() {
    let refused = |change: &str| refusal_with(HEAD, &wanted(&[change], &[]));
    for (change, expected) in [
        (
            "blocks=3",
            "--set: parameters.blocks = 3: no such parameter; did you mean `inputs.blocks`?",
        ),
        (
            "inputs.wait=3",
            "--set: inputs.wait = 3: expected a unit after the number",
        ),
        (
            "with=x.toml",
            "--set: with = x.toml: fragments are named with --with",
        ),
        (
            "inputs=3",
            "--set: inputs = 3: expected a key, as in inputs.KEY",
        ),
        ("seed=-1", "--set: seed = -1: expected a whole number"),
        (
            "experiment=nosuch",
            "--set: experiment = nosuch: sample has no such experiment",
        ),
    ] {
        let refused = refused(change);
        assert!(refused.starts_with(expected), "{refused}");
    }
    let refused = refusal_with(HEAD, &wanted(&[], &["nosuch.toml"]));
    assert!(
        refused.starts_with("--with: with = \"nosuch.toml\": nosuch.toml: "),
        "{refused}"
    );
}

#[test]
fn names_lead_to_plans_or_to_advice() {
    let refused = |name: &str| PLANS.open(name).unwrap_err().to_string();
    assert_eq!(PLANS.built_in("sample-wait").unwrap().name(), "sample-wait");
    assert_eq!(
        refused("sample-wiat"),
        "no plan `sample-wiat`: did you mean `sample-wait`?"
    );
    assert_eq!(
        refused("sample"),
        "no plan `sample`: that is a system; its plans are sample-wait, sample-names"
    );
    assert!(refused("nothing").contains("`barewire lab list` shows the built-in ones"));
    assert!(refused("nosuch.toml").starts_with("reading nosuch.toml: "));
    assert!(refused("/").contains("that is a folder, and has no result in it"));
}

#[test]
fn a_whole_plan_gives_the_same_again() {
    let folder = Folder::new("whole");
    let plan = sample::plan(&[
        "inputs.cells=[3, 5]",
        "block.cell=11 us",
        "title=A \"b\"",
        "seed=12",
        "replications=2",
    ]);
    let text = plan.to_toml();
    assert!(
        text.contains("cells = [3, 5]  # changed, was [1, 10, 100]\n"),
        "{text}"
    );
    assert!(
        text.contains("cell = \"11 us\"  # changed, was \"10 us\"; fitted on table-1, 10 cells\n"),
        "{text}"
    );
    assert!(text.contains("\n# Cells of each block, a point each; 1 or more.\ncells"));
    assert!(text.contains("\n[parameters]\n# A block of cells.\n[parameters.block]\n"));
    let path = folder.write("again.toml", &text);
    let again = PLANS
        .resolve(&PLANS.open(&path).unwrap(), &Wanted::default())
        .unwrap();
    assert_eq!(
        (&again.inputs, &again.parameters),
        (&plan.inputs, &plan.parameters)
    );
    assert_eq!(
        (again.seed, again.replications, &again.title),
        (12, 2, &plan.title)
    );
    assert_eq!(again.changes.len(), plan.changes.len());
    // But for the name at its head, its text is the same too.
    assert_eq!(again.to_toml().replacen("again", "sample-wait", 1), text);
}

#[test]
fn a_plan_to_begin_with_runs_as_it_is_and_once_its_marks_are_taken_away() {
    let folder = Folder::new("starter");
    let plan = sample::plan(&[]);
    let text = plan.starter("mine.toml");
    assert!(text.starts_with("# mine.toml: a plan for `barewire lab`, begun from sample-wait."));
    assert!(text.contains("# with = [\"slow\"]\n"), "{text}");
    assert!(text.contains("\n# block.setup = \"100 us\"\n"), "{text}");
    let own = text.replace("# block.setup = \"100 us\"", "block.setup = \"90 us\"");
    let own = own.replace("# with = ", "with = ");
    for (text, changes) in [(&text, 0), (&own, 1)] {
        let path = folder.write("mine.toml", text);
        let plan = PLANS
            .resolve(&PLANS.open(&path).unwrap(), &Wanted::default())
            .unwrap();
        assert_eq!(plan.changes.len(), changes);
    }
    // What was changed before stays so.
    let changed = sample::plan(&["block.setup=90 us", "inputs.blocks=3"]).starter("m.toml");
    assert!(changed.contains("\nblock.setup = \"90 us\"\n"), "{changed}");
    assert!(
        changed.contains("\nblocks = 3  # changed, was 50\n"),
        "{changed}"
    );
}

/// Every plan that there is passes its own check, is shown whole, and begins a plan.
#[test]
fn built_in_plans_are_good_and_their_texts_read_back() {
    let lab = PlanSource::default();
    let folder = Folder::new("built-in");
    let read = |name: &str, text: &str| {
        let path = folder.write(&format!("{name}.toml"), text);
        let draft = lab.open(&path).unwrap();
        let plan = lab.resolve(&draft, &Wanted::default());
        plan.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for built_in in lab.plans() {
        let name = built_in.name();
        let draft = lab.open(&name).unwrap();
        let plan = lab.resolve(&draft, &Wanted::default());
        let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(plan.changes.is_empty(), "{name}: {:?}", plan.changes);
        for text in [plan.to_toml(), plan.starter("mine.toml")] {
            let again = read(&name, &text);
            assert_eq!(again.inputs, plan.inputs, "{name}");
            assert_eq!(again.parameters, plan.parameters, "{name}");
        }
        let comments = plan
            .inputs
            .lines()
            .filter(|line| line.starts_with('#'))
            .count();
        assert_eq!(
            comments == 0,
            plan.inputs.trim().is_empty(),
            "{name} has no comments"
        );
        for (fragment, _) in built_in.system.fragments() {
            let with = wanted(&[], &[fragment]);
            let plan = lab.resolve(&draft, &with);
            plan.unwrap_or_else(|error| panic!("{name} with {fragment}: {error}"));
        }
    }
    // Whatever a system's parameters look like, they read back below [parameters].
    let given = |system: &&&'static dyn System| system.sections().is_empty();
    for system in lab.systems().iter().filter(given) {
        let experiment = sample::PLANS.built_in("sample-names").unwrap().experiment;
        let plan = Plan {
            name: system.name().to_owned(),
            title: None,
            system: *system,
            experiment,
            seed: 1,
            replications: 1,
            inputs: String::new(),
            parameters: system.parameters().to_owned(),
            changes: Vec::new(),
        };
        let whole: toml::Table = toml::from_str(&plan.to_toml()).unwrap();
        let own: toml::Table = toml::from_str(system.parameters()).unwrap();
        assert_eq!(
            whole["parameters"].as_table(),
            Some(&own),
            "{}",
            system.name()
        );
        let comments = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
        assert!(comments(&plan.to_toml()) >= comments(system.parameters()));
    }
}

#[test]
fn nothing_runs_in_a_check() {
    let progress = Progress::default();
    let plan = sample::plan(&[]);
    (plan.experiment.check)(&barewire_testbed::Setting {
        parameters: &plan.parameters,
        inputs: &plan.inputs,
        seed: 1,
        packets_per_link: 0,
        progress: &progress,
    })
    .unwrap();
    assert_eq!(progress.look(), (0, 0));
    assert!(!Path::new("mine.toml").exists());
}

/// A network whose mistakes stand at known lines.
const NETWORK: &str = "\
system = \"network\"

[hosts.client]
like = \"pc733\"
[hosts.server]

[cards.client]
host = \"client\"
[cards.server]
host = \"server\"

[links.cable]
ends = [\"client\", \"server\"]

[programs.ping]
kind = \"ping\"
from = \"client\"
to = \"server\"
size = \"64 B\"
";

fn described(text: &str, wanted: &Wanted) -> Result<Plan, PlanError> {
    let folder = Folder::new(&format!("described-{}", text.len()));
    let path = folder.write("mine.toml", text);
    let lab = PlanSource::default();
    lab.resolve(&lab.open(&path)?, wanted)
}

fn said(text: &str, wanted: &Wanted) -> Vec<String> {
    match described(text, wanted) {
        Ok(_) => Vec::new(),
        Err(PlanError::Faults(faults)) => faults
            .iter()
            .map(|fault| {
                let text = fault.to_string();
                match text.split_once("mine.toml") {
                    Some((_, rest)) => format!("mine.toml{rest}"),
                    None => text,
                }
            })
            .collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn a_plan_may_describe_its_network_and_mistakes_are_found_at_their_lines() {
    let plain = Wanted::default();
    assert_eq!(said(NETWORK, &plain), Vec::<String>::new());
    let wrong = NETWORK
        .replace("\"pc733\"", "\"pc773\"")
        .replace("\"server\"]", "\"sever\"]")
        .replace("host = \"server\"", "hots = \"server\"")
        .replace(
            "size = \"64 B\"",
            "size = \"64 parsecs\"\n[hosts.third]\n[swiches.s]",
        );
    let found = said(&wrong, &plain);
    for line in [
        "mine.toml:4: hosts.client.like = \"pc773\": no such host; did you mean `pc733`?",
        "mine.toml:9: cards.server: no `host`; expected the name of a host",
        "mine.toml:13: links.cable.ends = [\"client\", \"sever\"]: no such port `sever`; did you mean `server`?",
        "mine.toml:20: hosts.third: it has no card: expected [cards.NAME] with host = \"third\"",
    ] {
        assert!(found.iter().any(|one| one == line), "{line}: {found:#?}");
    }
    let starts = [
        "mine.toml:5: hosts.server: it has no card",
        "mine.toml:19: programs.ping.size = \"64 parsecs\": ",
        "mine.toml:21: swiches: no such key; did you mean `[switches]`?",
    ];
    for start in starts {
        assert!(
            found.iter().any(|one| one.starts_with(start)),
            "{start}: {found:#?}"
        );
    }
}

#[test]
fn a_network_takes_changes_and_tells_them() {
    let set = |changes: &[&str]| wanted(changes, &[]);
    let plan = described(
        NETWORK,
        &set(&["programs.ping.size=1 KiB", "hosts.server.processors=2"]),
    )
    .unwrap();
    let told: Vec<String> = plan.changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "programs.ping.size = \"1 KiB\" (was \"64 B\")",
            "hosts.server.processors = 2 (was not given)",
        ]
    );
    let wrong = said(NETWORK, &set(&["hosts.server.processors=3"]));
    assert_eq!(
        wrong,
        ["--set: hosts.server.processors = 3: host.processors: found 3, expected 1 to 2"]
    );
    // The whole plan, read again, is the same.
    let again = described(&plan.to_toml(), &Wanted::default()).unwrap();
    assert_eq!(again.parameters, plan.parameters);
}

proptest::proptest! {
    /// Whatever stands in the description of a network, it is read or refused, at a line.
    #[test]
    fn no_description_of_a_network_panics(body in "(\\[[a-z]{0,8}s\\.[a-z]{1,3}\\]\n([a-z]{1,6} = [a-z0-9\"{}\\[\\]]{0,8}\n){0,3}){0,3}") {
        let text = format!("{NETWORK}{body}");
        if let Err(PlanError::Faults(faults)) = described(&text, &Wanted::default()) {
            for fault in faults {
                proptest::prop_assert!(fault.place.line.is_some(), "{fault}");
            }
        }
    }

    /// Whatever stands in a plan, it is read or refused.
    #[test]
    fn nothing_that_people_write_panics(body in "[a-z.=\"\\[\\]0-9 \n{},#]{0,80}") {
        let text = format!("{HEAD}{body}");
        let document = super::document::Document::read(&text, "t", Path::new(""));
        if let Ok(document) = document {
            let _ = document.faults_of_fragment(&[]);
        }
        let _ = open_with(&text, &Wanted::default());
    }
}
