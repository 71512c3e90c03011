//! Tables, combinations, room for runs, and files of a scan.

use super::super::report::Figures;
use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("barewire-scan-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn points(&self, text: &str, over: &[&str]) -> (Vec<Over>, Result<Vec<Point>, DaqError>) {
        let file = self.0.join("a.toml");
        std::fs::write(&file, text).expect("written");
        let over: Vec<Over> = over.iter().map(|it| it.parse().expect("values")).collect();
        let points = points(&file, &over);
        (over, points)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn figures(events: u64) -> Figures {
    Figures {
        events_triggered: events,
        events_built: events,
        bytes: events * 1_000,
        run_ns: 2_000_000_000,
        processor_ns: 1_000_000_000,
        building_ns: [1, 2, 3, 4, 5],
        event_bytes: [0; 5],
        fragment_bytes: [0; 5],
        good: true,
    }
}

#[test]
fn a_table_has_its_plots_and_is_read_again() {
    let folder = Folder::new("table");
    let (over, points) = folder.points("", &["fragment_size=1 KiB, 1 MiB"]);
    let points = points.expect("good");
    let jobs = Jobs::one_at_a_time();
    let single = |at: usize, events| Single::new(points[at].identity(None), &figures(events));
    let mut scan = Scan {
        name: "a".to_owned(),
        over: &over,
        points: &points,
        runs: 2,
        line: Some(Rate::from_mbps(8)),
        jobs: &jobs,
        singles: vec![single(0, 1_000), single(1, 3_000), single(0, 1_200)],
    };
    let page = scan.page();
    assert!(
        page.notes[2].contains("Not whole: 3 of 4 runs"),
        "{:?}",
        page.notes
    );
    scan.singles.push(single(1, 3_200));
    // More than are asked for do not count.
    scan.singles.push(single(1, 9_000));
    let page = scan.page();
    assert_eq!(page.notes.len(), 2);
    let csv = page.tables[0].to_csv(false);
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows[1], "1,0.55,550,0.5,0.001,0.004,55");
    assert!(rows[2].starts_with("1024,1.55,1550,"), "{csv}");
    let svg = page.to_svg().expect("plots");
    for part in ["MB/s", "1/s", "processors", "us", "share of the line, %"] {
        assert!(svg.contains(part), "{part}");
    }
    let file = folder.0.join("a.json");
    let outputs = Outputs::check(core::slice::from_ref(&file), 2).expect("it can be written");
    outputs.write(&page, scan.singles()).expect("written");
    let json = std::fs::read_to_string(&file).expect("there");
    let read: Vec<ResultTable> = serde_json::from_str(&json).expect("read");
    assert_eq!(read[..1], page.tables);
    assert_eq!(outputs.measured().expect("read"), scan.singles);
}

#[test]
fn several_axes_are_every_combination() {
    let folder = Folder::new("axes");
    let axes = ["parts.sources=1, 2", "fragment_size=1 KiB, 2 KiB, 4 KiB"];
    let (over, points) = folder.points("", &axes);
    let points = points.expect("good");
    let found: Vec<_> = points
        .iter()
        .map(|it| (it.config.manager.sources, it.config.sizes.mean_bytes >> 10))
        .collect();
    assert_eq!(found, [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]);
    assert_eq!(
        points[5].place(&over),
        "parts.sources = 2, fragment_size = 4 KiB"
    );
    let mut identities: Vec<_> = points.iter().map(|it| it.identity(None)).collect();
    identities.push(points[0].identity(Some(3)));
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), 7, "each is its own");
    let (_, again) = folder.points("# a comment\n", &axes);
    assert_eq!(
        again.expect("good")[3].identity(None),
        points[3].identity(None)
    );
    let (_, other) = folder.points("[run]\nseed = 2\n", &axes);
    assert_ne!(
        other.expect("good")[3].identity(None),
        points[3].identity(None)
    );
    let rows = points
        .iter()
        .map(|it| (it, row(&[&Single::new(String::new(), &figures(5))], None)));
    let table = table(&over, rows, false);
    assert_eq!((table.keys, table.rows.len()), (2, 6));
    let text = table.to_csv(false);
    assert_eq!(
        text.lines().nth(5).map(|it| &it[..4]),
        Some("2,2,"),
        "{text}"
    );
    let twice = folder
        .points("", &["fragment_size=1 KiB", "fragments.size=2 KiB"])
        .1;
    let twice = twice.err().map(|it| it.to_string()).unwrap_or_default();
    assert!(twice.contains("named twice"), "{twice}");
    let many = folder
        .points("", &["run.seed=1..200", "run.number=1..200"])
        .1;
    let many = many.err().map(|it| it.to_string()).unwrap_or_default();
    assert!(many.contains("40000 combinations"), "{many}");
}

#[test]
fn runs_go_at_a_time_only_where_each_has_its_processors() {
    let folder = Folder::new("room");
    let plan = |text: &str, cpus: usize, parallel, each| {
        let points = folder
            .points(text, &["parts.sources=1, 2"])
            .1
            .expect("good");
        let cpus: Vec<usize> = (10..10 + cpus).collect();
        Jobs::plan_on(&cpus, &points, parallel, each)
            .map(|it| (it.count(), it.processors_each(), it.in_words()))
            .map_err(|it| it.to_string())
    };
    // The largest has two sources, a builder and the manager.
    let (count, each, words) = plan("", 9, Some(0), None).expect("room");
    assert_eq!((count, each), (2, Some(4)), "{words}");
    let (count, each, words) = plan("", 9, None, None).expect("room");
    assert_eq!((count, each), (1, None));
    assert!(words.contains("room for 2 at a time"), "{words}");
    let (count, _, words) = plan("", 3, Some(0), None).expect("one after the other");
    assert_eq!(count, 1);
    assert!(
        words.contains("4 processes and needs 4 processors"),
        "{words}"
    );
    let refused = plan("", 9, Some(3), None).expect_err("no room");
    assert!(refused.contains("expected at most 2"), "{refused}");
    let (count, each, _) = plan("", 3, Some(3), Some(1)).expect("room");
    assert_eq!((count, each), (3, Some(1)));
    for (text, why) in [
        ("[run]\ntransport = \"tcp\"\n", "share addresses"),
        ("[run]\ntransport = \"hosts\"\n", "share addresses"),
        ("[sink]\nkind = \"file\"\n", "share the file system"),
        ("[sink]\nkind = \"hand-over\"\n", "share the consumer"),
        (
            "[monitor]\nprometheus = \"127.0.0.1:0\"\n",
            "share the address",
        ),
        ("[source]\nkind = \"own\"\n", "share the detector"),
    ] {
        let (count, _, words) = plan(text, 9, Some(0), None).expect("one after the other");
        assert!(count == 1 && words.contains(why), "{words}");
        let refused = plan(text, 9, Some(2), None).expect_err("they are not to");
        assert!(refused.contains(why), "{refused}");
    }
    let own = folder.points("", &["run.seed=1"]).1.expect("good");
    let names: Vec<_> = [0, 1, 12]
        .map(|slot| own[0].in_slot(slot).expect("a configuration").1.name)
        .into();
    assert_eq!(names, ["daq", "daq-1", "daq-12"]);
}

#[test]
fn outputs_are_checked_before_anything_is_measured() {
    let folder = Folder::new("outputs");
    let check = |name: &str, rows| {
        let file = folder.0.join(name);
        Outputs::check(&[file], rows)
            .map(drop)
            .map_err(|it| it.to_string())
    };
    assert_eq!(check("a.svg", 2), Ok(()));
    assert_eq!(std::fs::read_dir(&folder.0).expect("there").count(), 0);
    std::fs::create_dir(folder.0.join("b.csv")).expect("a folder");
    for (name, rows, why) in [
        (
            "a.txt",
            2,
            "expected a name that ends with .csv, .json, .html or .svg",
        ),
        ("a.svg", 1, "one row is no plot"),
        ("b.csv", 2, "is a folder"),
        ("none/a.csv", 2, "No such file or directory"),
    ] {
        let refused = check(name, rows).expect_err(name);
        assert!(refused.contains(why), "{refused}");
    }
    let outputs = |name: &str| Outputs::check(&[folder.0.join(name)], 2).expect("good");
    assert_eq!(outputs("new.json").measured().expect("nothing yet"), []);
    assert!(
        outputs("new.csv").measured().is_err(),
        "no single runs in it"
    );
    for text in [
        "[]",
        "no JSON",
        "[{\"name\": \"runs\", \"keys\": 0, \"columns\": [], \"rows\": [[]]}]",
    ] {
        std::fs::write(folder.0.join("old.json"), text).expect("written");
        let refused = outputs("old.json").measured().expect_err(text).to_string();
        assert!(
            refused.contains("no file of `barewire daq scan`"),
            "{refused}"
        );
    }
}
