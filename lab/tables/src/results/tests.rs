//! Results in each of their forms, and back.

use super::*;
use crate::runs::{Watch, run};
use crate::sample;

fn number(value: f64, half_width: Option<f64>) -> Entry {
    Entry::Number { value, half_width }
}

fn column(name: &str, unit: &str) -> ResultColumn {
    ResultColumn {
        name: name.into(),
        unit: unit.into(),
    }
}

fn results(replications: usize) -> Results {
    let change = format!("replications={replications}");
    let plans = [sample::plan(&[&change, "block.setup=90 us"])];
    let found = run(&plans, 0, &Watch::new(&plans)).unwrap();
    let about = BTreeMap::from([("barewire".to_owned(), "0.0.0".to_owned())]);
    Results::of_plan(&plans[0], &found[0], about)
}

fn table() -> ResultTable {
    ResultTable {
        name: "Rate, by \"size\"".into(),
        keys: 1,
        columns: vec![
            column("size", "B"),
            column("rate", "Mbit/s"),
            column("what", ""),
        ],
        rows: vec![
            vec![
                number(1.0, Some(0.0)),
                number(7.25, Some(0.031)),
                Entry::Text("a,b".into()),
            ],
            vec![
                number(1024.0, Some(0.0)),
                number(700.0, Some(0.0)),
                Entry::Missing,
            ],
            vec![
                number(4096.0, Some(0.0)),
                Entry::Missing,
                Entry::Text("c".into()),
            ],
        ],
    }
}

#[test]
fn json_holds_all_of_it_and_is_read_back() {
    for replications in [1, 3] {
        let results = results(replications);
        let json = results.to_json().unwrap();
        assert_eq!(Results::from_json(&json).unwrap(), results);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["seed"], 1);
        assert_eq!(value["trace_hash"].as_str().unwrap().len(), 16);
        assert_eq!(value["tables"][0]["columns"][0]["name"], "block");
        assert_eq!(value["tables"][0]["rows"][2][0], 100.0);
        assert_eq!(value["tables"][0]["rows"][2][4], "long");
        assert!(value["tables"][0]["rows"][2][5].is_null());
        let widths = &value["tables"][0]["half_widths"];
        assert_eq!(widths.is_array(), replications > 1);
        assert_eq!(value["changes"][0]["key"], "parameters.block.setup");
        let plan = value["resolved_plan"].as_str().unwrap();
        assert!(
            plan.contains("setup = \"90 us\"  # changed, was \"100 us\""),
            "{plan}"
        );
    }
    assert_eq!(results(2).to_json().unwrap(), results(2).to_json().unwrap());
}

#[test]
fn what_is_no_result_is_refused() {
    let json = results(1).to_json().unwrap();
    for (text, problem) in [
        ("{}".to_owned(), "no result of `barewire lab`"),
        (json.replace("\"format\": 1", "\"format\": 9"), "format 9"),
        (json.replace("\"keys\": 1", "\"keys\": 99"), "not as wide"),
    ] {
        let error = Results::from_json(&text).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn csv_has_half_widths_beside_what_was_found() {
    assert_eq!(
        table().to_csv(true),
        "\"size, B\",\"rate, Mbit/s\",\"half width of rate, Mbit/s\",what\n\
         1,7.25,0.031,\"a,b\"\n1024,700,0,\n4096,,,c\n"
    );
    assert_eq!(table().to_csv(false).lines().nth(1), Some("1,7.25,\"a,b\""));
    let mut results = results(1);
    results.tables = vec![
        table(),
        table(),
        ResultTable {
            name: "%".into(),
            ..table()
        },
    ];
    let names: Vec<String> = results
        .to_csvs()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        ["rate-by-size.csv", "rate-by-size-2.csv", "table.csv"]
    );
}

#[test]
fn text_has_names_to_the_left_and_numbers_to_the_right() {
    assert_eq!(
        table().to_text(),
        "  size, B   rate, Mbit/s  what
        1  7.250 ± 0.031  a,b
     1024            700  -
     4096              -  c
"
    );
    let text = results(3).to_text();
    assert!(
        text.starts_with("sample-wait\nhow long does a block wait"),
        "{text}"
    );
    assert!(text.contains("\n  changed: parameters.block.setup = \"90 us\" (was \"100 us\")\n"));
    assert!(text.contains("\nseed 1, 3 replications: mean ± half of the 95 % interval, trace "));
}

#[test]
fn many_changes_of_one_file_are_counted() {
    let change = |key: usize, from: &str| Changed {
        key: format!("k{key}"),
        value: "2".into(),
        was: "1".into(),
        from: from.into(),
    };
    let mut changes: Vec<Changed> = (1..=9)
        .map(|key| change(key, &format!("host.toml:{key}")))
        .collect();
    changes.push(change(10, "--set"));
    assert_eq!(
        changes_in_lines(&changes),
        "  changed: 9 keys (host.toml)\n  changed: k10 = 2 (was 1)\n"
    );
    changes.remove(0);
    assert_eq!(changes_in_lines(&changes).lines().count(), 9);
}

#[test]
fn a_sweep_has_its_value_in_front_of_each_row() {
    let over: Over = "block.setup=90 us,1 ms".parse().unwrap();
    let plans: Vec<Plan> = over
        .values
        .iter()
        .map(|value| sample::plan(&[&format!("block.setup={value}")]))
        .collect();
    let found = run(&plans, 0, &Watch::new(&plans)).unwrap();
    let base = sample::plan(&[]);
    let over = Axes::from(over);
    let results = Results::of_sweep(&base, over.clone(), &found, BTreeMap::new());
    assert_eq!(results.over, Some(over));
    let table = &results.tables[0];
    assert_eq!((table.keys, table.rows.len()), (2, 6));
    assert_eq!(table.columns[0], column("block.setup", "us"));
    let values: Vec<Option<f64>> = table.rows.iter().map(|row| row[0].number()).collect();
    assert_eq!(values, [90.0, 90.0, 90.0, 1000.0, 1000.0, 1000.0].map(Some));
    assert_eq!(table.rows[4][1..], found[1].tables[0].rows[1][..]);
    assert!(results.changes.is_empty());
}

#[test]
fn a_sweep_of_several_keys_has_a_column_for_each() {
    let axes: Vec<crate::Axis> = ["block.setup=90 us,1 ms", "block.cell=1 us, 2 us"]
        .map(|text| text.parse().unwrap())
        .into();
    let axes = Axes::cross(&axes).unwrap();
    let plan = |at| {
        let changes: Vec<String> = axes.point(at).map(|(k, v)| format!("{k}={v}")).collect();
        sample::plan(&changes.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let plans: Vec<Plan> = (0..axes.len()).map(plan).collect();
    let found = run(&plans, 0, &Watch::new(&plans)).unwrap();
    let base = sample::plan(&[]);
    let results = Results::of_sweep(&base, axes, &found, BTreeMap::new());
    let table = &results.tables[0];
    assert_eq!((table.keys, table.rows.len()), (3, 12));
    assert_eq!(table.columns[1], column("block.cell", "us"));
    let values = |column: usize| -> Vec<f64> {
        let rows = table.rows.iter().step_by(3);
        rows.filter_map(|row| row[column].number()).collect()
    };
    assert_eq!(values(0), [90.0, 90.0, 1000.0, 1000.0]);
    assert_eq!(values(1), [1.0, 2.0, 1.0, 2.0]);
    let json = results.to_json().unwrap();
    assert_eq!(Results::from_json(&json).unwrap(), results);
    assert!(
        results
            .to_html()
            .contains("Swept: (block.setup, block.cell)=")
    );
}

#[test]
fn values_of_a_sweep_without_a_common_unit_are_names() {
    let entries = |values: &[&str]| {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        super::entries(&values)
    };
    assert_eq!(
        entries(&["1 KiB", "1 MiB"]),
        ("KiB".into(), vec![number(1.0, None), number(1024.0, None)])
    );
    assert_eq!(entries(&["1", "x"]).1[0], Entry::Text("1".into()));
    assert_eq!(entries(&["1 us", "1 B"]).0, "");
}

#[test]
fn values_of_a_sweep_with_an_exponent_are_numbers() {
    let over: Over = "links.cable.loss=1e-4, 0, 0.001".parse().unwrap();
    let (column, entries) = over.column();
    assert_eq!(column.unit, "");
    let numbers: Vec<_> = entries.iter().map(Entry::number).collect();
    assert_eq!(numbers, [Some(1e-4), Some(0.0), Some(0.001)]);
}
