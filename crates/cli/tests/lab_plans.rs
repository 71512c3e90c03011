//! `barewire lab` with plans, as people use it: from the list to a plan of one's own, its result
//! and the result's plots.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use barewire_tables::Results;
use barewire_tables::plan::PlanSource;
use barewire_wire::capture::Reader;

/// The plan that others begin from.
const PLAN: &str = "workbench-ping";

/// A folder that goes away with the test, and in which its commands run.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_barewire"))
            .arg("lab")
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("barewire starts")
    }

    /// What it prints, and what it says besides.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> (String, String) {
        let output = self.lab(arguments);
        let besides = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {besides}");
        (text(&output.stdout), besides)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        text(&output.stderr)
    }

    fn read(&self, name: &str) -> String {
        let path = self.0.join(name);
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn results(&self, name: &str) -> Results {
        Results::from_json(&self.read(&format!("{name}/result.json"))).expect("a result")
    }

    /// Names in a folder, in their order.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_plan_is_listed_with_its_question_and_shown_whole() {
    let folder = Folder::new("lab-plans-list");
    let (listed, _) = folder.done(&["list"]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let plans = PlanSource::default().plans();
    assert!(!plans.is_empty());
    for plan in plans {
        let line = format!("{} {}", plan.name(), words(&plan.question()));
        assert!(
            words(&listed).contains(&line),
            "{line} is missing: {listed}"
        );
        let (shown, _) = folder.done(&["show", &plan.name()]);
        let file = format!("{}.toml", plan.name());
        folder.write(&file, &shown);
        assert_eq!(folder.done(&["show", &file]).0, shown);
    }
    for system in PlanSource::default().systems() {
        for (fragment, text) in system.fragments() {
            assert!(listed.contains(&format!("\n{fragment} ")), "{listed}");
            assert_eq!(folder.done(&["show", fragment]).0, *text);
        }
    }
}

/// After a change that is meant: `barewire lab draw network-five -o docs/pictures/network-five.svg`.
#[test]
fn a_network_is_drawn_as_text_and_as_the_picture_in_the_book() {
    const PICTURE: &str = include_str!("../../../docs/pictures/network-five.svg");
    let folder = Folder::new("lab-plans-draw");
    let (drawn, _) = folder.done(&["draw", "network-five"]);
    assert!(
        drawn.starts_with("host backbone (mvme147, card-v1s)\n└─ ring backbone-ring "),
        "{drawn}"
    );
    assert_eq!(drawn.matches("unit ").count(), 4, "{drawn}");
    let (_, besides) = folder.done(&["draw", "network-five", "-o", "five.svg"]);
    assert_eq!(besides, "wrote five.svg\n");
    assert_eq!(folder.read("five.svg"), PICTURE);
    let said = folder.refused(&["draw", PLAN]);
    assert!(
        said.contains("has one network and no picture of it"),
        "{said}"
    );
}

#[test]
fn a_host_with_several_cards_is_drawn_with_each_and_mistakes_name_their_lines() {
    let folder = Folder::new("lab-plans-gateway");
    let (drawn, _) = folder.done(&["draw", "network-gateway"]);
    let head = "host gate (hp9000-730, gate-ether card-acenic, gate-ring card-afterburner, forwards)\n\
                ├─ [gate-ring] ring ring-a ";
    assert!(drawn.starts_with(head), "{drawn}");
    assert!(
        drawn.contains("└─ [ether-a, 1Gbit/s, gate-ether] host new-a "),
        "{drawn}"
    );
    folder.done(&["draw", "network-gateway", "-o", "gateway.svg"]);
    assert!(folder.read("gateway.svg").contains("gate-ether"));

    folder.done(&["new", "mine", "--from", "network-gateway"]);
    let right = folder.read("mine.toml");
    let line_of = |text: &str, of: &str| {
        let at = text.lines().position(|line| line == of);
        1 + at.unwrap_or_else(|| panic!("{of}: {text}"))
    };
    for (from, to, line, problem) in [
        (
            "forward_buffer = \"256 KiB\"\nforwards = true\n",
            "",
            "[programs.ping-a]",
            "no way leads from `new-a` to `old-a`; `gate` passes nothing on without `forwards = true`",
        ),
        (
            "ends = [\"gate-ether\", \"new-a\"]",
            "ends = [\"gate-ethr\", \"new-a\"]",
            "ends = [\"gate-ethr\", \"new-a\"]",
            "no such port `gate-ethr`; did you mean `gate-ether`?",
        ),
        (
            "stations = [\"old-a\", \"gate-ring\"]",
            "stations = [\"old-a\", \"gate-ring\", \"gate-ring\"]",
            "stations = [\"old-a\", \"gate-ring\", \"gate-ring\"]",
            "port `gate-ring` is in use",
        ),
        (
            "to = \"old-a\"\n",
            "to = \"old-a\"\ncard = \"gate-ring\"\n",
            "card = \"gate-ring\"",
            "`gate-ring` is a card of `gate`, where this program does not run",
        ),
    ] {
        let wrong = right.replacen(from, to, 1);
        assert_ne!(wrong, right, "{from}");
        folder.write("wrong.toml", &wrong);
        let said = folder.refused(&["run", "wrong.toml"]);
        let place = format!("wrong.toml:{}: ", line_of(&wrong, line));
        assert!(said.contains(&place), "{place}: {said}");
        assert!(said.contains(problem), "{said}");
    }
}

/// A network of one's own, from the first line to a sweep and its plots.
#[test]
fn a_network_is_begun_run_swept_kept_and_plotted() {
    let folder = Folder::new("lab-plans-network");
    folder.done(&["new", "mine", "--from", "network-ping"]);
    let (first, _) = folder.done(&["run", "mine.toml", "-o", "kept"]);
    assert_eq!(
        folder.done(&["run", "kept"]).0.lines().last(),
        first.lines().last()
    );
    let sweep = [
        "sweep",
        "mine.toml",
        "--over",
        "links.cable.length=10 m, 1 km",
        "-o",
        "swept",
    ];
    let (swept, _) = folder.done(&sweep);
    assert!(swept.contains("links.cable.length"), "{swept}");
    folder.done(&["plot", "swept"]);
    folder.done(&["run", "mine.toml", "--replications", "3"]);
    let wrong = folder
        .read("mine.toml")
        .replace("\"server\"]", "\"sever\"]");
    folder.write("wrong.toml", &wrong);
    let said = folder.refused(&["run", "wrong.toml"]);
    assert!(said.contains("did you mean `server`?"), "{said}");
    assert!(said.contains("wrong.toml:"), "{said}");
}

#[test]
fn a_result_is_kept_whole_and_its_plan_gives_it_again() {
    let folder = Folder::new("lab-plans-run");
    let run = [
        "run",
        PLAN,
        "--seed",
        "5",
        "--replications",
        "2",
        "-o",
        "first",
    ];
    let (shown, besides) = folder.done(&run);
    // No progress where nobody looks.
    assert!(
        besides.starts_with("wrote first: result, plan and "),
        "{besides}"
    );
    assert_eq!(besides.lines().count(), 1, "{besides}");
    let first = folder.results("first");
    assert!(shown.contains(&first.trace_hash), "{shown}");
    assert_eq!((first.seed, first.replications), (5, 2));
    assert_eq!(first.resolved_plan, folder.read("first/plan.toml"));
    assert_eq!(first.about["barewire"], env!("CARGO_PKG_VERSION"));
    for (name, csv) in first.to_csvs() {
        assert_eq!(folder.read(&format!("first/{name}")), csv);
        assert!(csv.lines().count() > 1, "{csv}");
    }
    for again in ["first", "first/plan.toml", "first/result.json"] {
        folder.done(&["run", again, "-o", "second"]);
        let second = folder.results("second");
        assert_eq!(second.trace_hash, first.trace_hash);
        assert_eq!(second.tables, first.tables);
    }
    folder.done(&["run", "first", "--seed", "6", "-o", "second"]);
    assert_eq!(folder.results("second").seed, 6);
    assert_eq!(folder.names("."), ["first", "second"]);
}

#[test]
fn what_is_in_the_way_is_not_overwritten() {
    let folder = Folder::new("lab-plans-in-the-way");
    folder.write("file", "mine");
    std::fs::create_dir(folder.0.join("full")).expect("a folder");
    folder.write("full/thing", "mine");
    for there in ["file", "full"] {
        let error = folder.refused(&["run", PLAN, "-o", there]);
        assert!(error.contains(&format!("{there}: is there")), "{error}");
    }
    // Before it runs: nothing is printed.
    let error = folder.refused(&["run", PLAN, "-o", "file/below"]);
    assert!(error.contains("writing file/below: "), "{error}");
    assert_eq!(
        (folder.read("file"), folder.read("full/thing")),
        ("mine".into(), "mine".into())
    );
    folder.done(&["run", PLAN, "-o", "kept"]);
    folder.write("kept/notes.txt", "mine");
    let (_, besides) = folder.done(&["run", PLAN, "-o", "kept"]);
    assert!(besides.starts_with("replaced kept: "), "{besides}");
    assert_eq!(folder.read("kept/notes.txt"), "mine");
    assert_eq!(folder.names("."), ["file", "full", "kept"]);
}

#[test]
fn a_plan_of_one_s_own_is_begun_changed_and_run() {
    let folder = Folder::new("lab-plans-new");
    let (_, besides) = folder.done(&["new", "mine"]);
    assert!(besides.contains("wrote mine.toml"), "{besides}");
    let text = folder.read("mine.toml");
    assert!(text.contains("begun from workbench-ping."), "{text}");
    let error = folder.refused(&["new", "mine.toml"]);
    assert!(error.contains("mine.toml: is there already"), "{error}");
    let error = folder.refused(&["run", "mine"]);
    assert!(
        error.contains("there is a file `mine.toml`, did you mean that?"),
        "{error}"
    );
    let (of_plan, _) = folder.done(&["run", PLAN]);
    let (of_mine, _) = folder.done(&["run", "mine.toml"]);
    let last = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(last(&of_mine), last(&of_plan));
    assert!(of_mine.starts_with("mine\n"), "{of_mine}");

    folder.write("mine.toml", &text.replace("seed = 1", "seed = 8"));
    folder.done(&["new", "other", "--from", "mine.toml"]);
    assert!(folder.read("other.toml").contains("\nseed = 8\n"));
}

#[test]
fn nothing_runs_before_all_of_a_plan_is_checked() {
    let folder = Folder::new("lab-plans-faults");
    folder.write(
        "mine.toml",
        "system = \"workbench\"\nexperiment = \"ping\"\n\n[inputs]\npause = \"22.7 parsecs\"\n",
    );
    let error = folder.refused(&["run", "mine.toml", "-o", "result"]);
    let expected = "barewire: mine.toml:5: inputs.pause = \"22.7 parsecs\": unknown unit, expected";
    assert!(error.starts_with(expected), "{error}");
    let error = folder.refused(&["run", PLAN, "--set", "inputs.pauze=1 ms", "-o", "result"]);
    assert!(error.contains("--set: inputs.pauze = 1 ms: no such input; did you mean `pause`?"));
    let error = folder.refused(&["run", PLAN, "--with", "nosuch.toml", "-o", "result"]);
    assert!(
        error.contains("--with: with = \"nosuch.toml\": "),
        "{error}"
    );
    let over = "inputs.pause=1 ms, 2 parsecs";
    let error = folder.refused(&["sweep", PLAN, "--over", over, "-o", "result"]);
    assert!(
        error.contains("--over: inputs.pause = 2 parsecs: unknown unit"),
        "{error}"
    );
    assert_eq!(folder.names("."), ["mine.toml"]);
}

/// The pairs of the paper's table go in step; another key takes each of its values with each.
#[test]
fn a_sweep_takes_pairs_and_several_axes() {
    let folder = Folder::new("lab-plans-sweep-axes");
    let pairs = "(inputs.tx_coal, inputs.rx_coal)=(400 us, 120 us), (996 us, 1000 us)";
    let hosts = "inputs.host=pc500, pc733";
    let short = [
        "inputs.mtu=1500 B",
        "inputs.time=20 ms",
        "inputs.warm_up=20 ms",
    ];
    let mut arguments = vec!["sweep", "kek-stream", "--over", pairs, "--over", hosts];
    for change in short {
        arguments.extend(["--set", change]);
    }
    arguments.extend(["-o", "swept"]);
    folder.done(&arguments);
    let results = folder.results("swept");
    let of = |row: &Vec<barewire_tables::Entry>| [0, 1, 2].map(|at| row[at].shown());
    let points: Vec<_> = results.tables[0].rows.iter().map(of).collect();
    assert_eq!(
        points,
        [
            ["400", "120", "pc500"],
            ["400", "120", "pc733"],
            ["996", "1000", "pc500"],
            ["996", "1000", "pc733"]
        ]
    );
    folder.done(&["plot", "swept"]);
    let twice = ["sweep", "kek-stream", "--over", hosts, "--over", hosts];
    let error = folder.refused(&twice);
    assert!(error.contains("`inputs.host` is swept twice"), "{error}");
    let torn = ["sweep", "kek-stream", "--over", "(a, b)=(1)"];
    let error = folder.refused(&torn);
    assert!(
        error.contains("(1) has 1 values, and there are 2 keys"),
        "{error}"
    );
}

/// A value from a file, here a script of `tc` commands; the kept plan has its text, and runs without
/// the file.
#[test]
fn a_value_can_be_the_text_of_a_file() {
    let folder = Folder::new("lab-plans-file-value");
    let script = "# half of what the other would get\n\
                  tc qdisc add dev eth0 root handle 1: htb default 10\n\
                  tc class add dev eth0 parent 1: classid 1:10 htb rate 50mbit burst 64k\n";
    folder.write("script.tc", script);
    let mut arguments = vec!["run", "kek-stream", "--set", "inputs.tc=@script.tc"];
    for change in ["inputs.time=500 ms", "inputs.warm_up=500 ms"] {
        arguments.extend(["--set", change]);
    }
    let (shown, _) = folder.done(&[&arguments[..], &["-o", "shaped"]].concat());
    let results = folder.results("shaped");
    let rate = results.tables[0].rows[0][1].number().expect("a rate");
    assert!(rate > 45.0 && rate < 51.0, "{shown}");
    std::fs::remove_file(folder.0.join("script.tc")).expect("removed");
    folder.done(&["run", "shaped", "-o", "again"]);
    assert_eq!(folder.results("again").trace_hash, results.trace_hash);

    let plan = format!(
        "system = \"kek\"\nexperiment = \"stream\"\n[inputs]\n\
         time = \"500 ms\"\nwarm_up = \"500 ms\"\ntc = \"\"\"\n{script}\"\"\"\n"
    );
    folder.write("mine.toml", &plan);
    folder.done(&["run", "mine.toml", "-o", "mine"]);
    let mine = folder.results("mine").tables[0].rows[0][1].number();
    assert_eq!(mine, Some(rate));
    let error = folder.refused(&["run", "kek-stream", "--set", "inputs.tc=@nosuch.tc"]);
    assert!(error.contains("nosuch.tc"), "{error}");
    folder.write(
        "bad.tc",
        "tc qdisc add dev eth0 root handle 1: htb\ntc oops\n",
    );
    let error = folder.refused(&["run", "kek-stream", "--set", "inputs.tc=@bad.tc"]);
    assert!(error.contains("tc: line 2"), "{error}");
}

#[test]
fn a_sweep_has_its_value_in_the_first_column_and_is_drawn() {
    let folder = Folder::new("lab-plans-sweep");
    let over = "host.costs.interrupt=1 us..100 us times 10";
    let sizes = "inputs.sizes=64 B, 4 KiB";
    let (shown, _) = folder.done(&["sweep", PLAN, "--over", over, "--set", sizes, "-o", "swept"]);
    assert!(shown.contains("host.costs.interrupt, us  "), "{shown}");
    let results = folder.results("swept");
    let values: Vec<f64> = results.tables[0]
        .rows
        .iter()
        .filter_map(|row| row[0].number())
        .collect();
    assert_eq!(values, [1.0, 1.0, 10.0, 10.0, 100.0, 100.0]);
    let times: Vec<f64> = results.tables[0]
        .rows
        .iter()
        .filter_map(|row| row[2].number())
        .collect();
    assert!(times[0] < times[2] && times[2] < times[4], "{times:?}");

    folder.done(&["plot", "swept"]);
    assert!(
        folder
            .read("swept/plot.html")
            .starts_with("<!DOCTYPE html>")
    );
    folder.done(&["plot", "swept/result.json", "--svg", "-o", "page.html"]);
    let drawn = folder
        .names(".")
        .into_iter()
        .filter(|name| name.ends_with(".svg"));
    assert_eq!(drawn.count(), results.to_svgs().len());
    // A new result takes the old one's plots away.
    folder.done(&["sweep", PLAN, "--over", over, "--set", sizes, "-o", "swept"]);
    assert!(!folder.0.join("swept/plot.html").exists());
    let error = folder.refused(&["plot", "nosuch"]);
    assert!(error.contains("nosuch: no such result"), "{error}");
}

#[test]
fn what_goes_over_the_links_is_kept_as_a_capture() {
    let folder = Folder::new("lab-plans-pcap");
    let error = folder.refused(&["run", PLAN, "--pcap"]);
    assert!(error.contains("--out"), "{error}");
    let error = folder.refused(&["run", PLAN, "--pcap=0", "-o", "result"]);
    assert!(error.contains("0 is not in 1.."), "{error}");
    let (_, besides) = folder.done(&["run", PLAN, "--pcap=7", "-o", "result"]);
    let file = std::fs::read(folder.0.join("result/links.pcapng")).expect("a capture");
    let mut times = Vec::new();
    for packet in Reader::new(&file) {
        times.push(packet.expect("a packet").time_ns);
    }
    let links = folder.results("result").links;
    assert!(!links.is_empty());
    assert!(links.iter().all(|link| link.packets == 7), "{links:?}");
    assert_eq!(times.len(), 7 * links.len());
    assert!(times.is_sorted(), "{times:?}");
    for link in &links {
        assert!(
            besides.contains(&format!("  {}: 7 packets, ", link.link)),
            "{besides}"
        );
    }
}
