//! Tables of every kind, and the plots that they give.

use super::*;
use crate::result_table::ResultColumn;
use barewire_report::markup::check_well_formed;

fn table(keys: usize, columns: &[(&str, &str)], rows: &[&[&str]]) -> ResultTable {
    let column = |&(name, unit): &(&str, &str)| ResultColumn {
        name: name.into(),
        unit: unit.into(),
    };
    // `7~2` is 7 with half a width of 2.
    let entry = |text: &&str| {
        let (value, width) = text.split_once('~').unwrap_or((text, ""));
        match (value.parse(), *text) {
            (_, "-") => Entry::Missing,
            (Ok(value), _) => Entry::Number {
                value,
                half_width: width.parse().ok(),
            },
            (Err(_), text) => Entry::Text(text.to_owned()),
        }
    };
    ResultTable {
        name: "t".into(),
        keys,
        columns: columns.iter().map(column).collect(),
        rows: rows
            .iter()
            .map(|row| row.iter().map(entry).collect())
            .collect(),
    }
}

/// Titles, lines and bars of each plot.
fn seen(table: &ResultTable) -> Vec<(String, Vec<String>, usize)> {
    let charts = charts(table);
    for chart in &charts {
        let svg = chart.svg();
        check_well_formed(&svg, &[]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let marks = chart.points().count();
        let drawn = svg.matches("<title>").count();
        assert_eq!(drawn, marks, "{svg}");
    }
    let names = |chart: &Chart| chart.series.iter().map(|it| it.name.clone()).collect();
    charts
        .iter()
        .map(|chart| (chart.title.clone(), names(chart), chart.names.len()))
        .collect()
}

fn of(title: &str, series: &[&str], names: usize) -> (String, Vec<String>, usize) {
    let series = series.iter().map(|name| (*name).to_owned()).collect();
    (title.to_owned(), series, names)
}

#[test]
fn a_count_that_never_changes_is_not_drawn() {
    let columns = [("load", "%"), ("stage", ""), ("sent", ""), ("rate", "1/s")];
    let rows: [&[&str]; 2] = [&["10", "3", "5", "7"], &["50", "3", "6", "7"]];
    let table = table(1, &columns, &rows);
    assert_eq!(
        seen(&table),
        [of("sent", &["sent"], 0), of("rate", &["rate"], 0)]
    );
}

#[test]
fn one_plot_for_each_unit_and_a_line_for_each_quantity() {
    let columns = [("load", "%"), ("mean", "us"), ("99th", "us"), ("lost", "")];
    let rows: [&[&str]; 3] = [
        &["10", "5~1", "9", "0"],
        &["50", "6", "-", "0"],
        &["90", "70~80", "99", "3"],
    ];
    let table = table(1, &columns, &rows);
    assert_eq!(
        seen(&table),
        [
            of("mean, 99th", &["mean", "99th"], 0),
            of("lost", &["lost"], 0)
        ]
    );
    let svg = charts(&table)[0].svg();
    assert_eq!(svg.matches("class=\"spread").count(), 2);
    assert!(
        svg.contains("<title>load, % 10: mean: us 5.0 ± 1.0</title>"),
        "{svg}"
    );
}

#[test]
fn names_are_bars() {
    let columns = [("policy", ""), ("rate", "Mbit/s"), ("waits", "%")];
    let rows: [&[&str]; 2] = [&["block <1>", "77", "0"], &["trust", "105~3", "4"]];
    let table = table(1, &columns, &rows);
    assert_eq!(
        seen(&table),
        [of("rate", &["rate"], 2), of("waits", &["waits"], 2)]
    );
    let svg = charts(&table)[0].svg();
    assert!(
        svg.contains("block &lt;1&gt;") && svg.contains(">105</text>"),
        "{svg}"
    );
}

#[test]
fn a_second_key_gives_a_line_for_each_of_its_values() {
    let columns = [
        ("wake", "us"),
        ("size", "B"),
        ("rate", "Mbit/s"),
        ("time", "us"),
    ];
    let rows: [&[&str]; 6] = [
        &["1", "10", "3", "1"],
        &["1", "20", "4", "1"],
        &["1", "40", "4", "1"],
        &["9", "10", "2", "1"],
        &["9", "20", "3", "1"],
        &["9", "40", "5", "1"],
    ];
    let lines = ["wake 1 us", "wake 9 us"];
    assert_eq!(
        seen(&table(2, &columns, &rows)),
        [of("rate", &lines, 0), of("time", &lines, 0)]
    );
    // A column of names is a key, too.
    let columns = [("size", "B"), ("policy", ""), ("rate", "Mbit/s")];
    let rows: [&[&str]; 4] = [
        &["1", "a", "3"],
        &["1", "b", "4"],
        &["2", "a", "5"],
        &["2", "b", "5"],
    ];
    assert_eq!(
        seen(&table(1, &columns, &rows)),
        [of("rate", &["a", "b"], 0)]
    );
    // A swept value that the table has one row for is what goes along x.
    let columns = [("wake", "us"), ("size", "B"), ("rate", "Mbit/s")];
    let rows: [&[&str]; 2] = [&["1", "10", "3"], &["2", "10", "4"]];
    assert_eq!(seen(&table(2, &columns, &rows)), [of("rate", &["rate"], 0)]);
}

#[test]
fn columns_from_the_left_are_keys_until_rows_are_told_apart() {
    let columns = [
        ("line", "Mbit/s"),
        ("clock", "ns"),
        ("managers", ""),
        ("rate", "Mbit/s"),
    ];
    let rows: [&[&str]; 4] = [
        &["150", "50", "1", "130"],
        &["150", "50", "2", "140"],
        &["150", "100", "1", "70"],
        &["150", "100", "2", "130"],
    ];
    let lines = ["managers 1", "managers 2"];
    assert_eq!(seen(&table(1, &columns, &rows)), [of("rate", &lines, 0)]);
    // The same row twice is nobody's key.
    let rows: [&[&str]; 3] = [
        &["1", "5", "1", "130"],
        &["1", "5", "1", "130"],
        &["2", "5", "1", "140"],
    ];
    assert_eq!(seen(&table(1, &columns, &rows)).len(), 2);
}

#[test]
fn names_of_every_row_are_no_key() {
    let columns = [("n", ""), ("rate", "Mbit/s"), ("because", "")];
    let numbers: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let reasons: Vec<String> = (0..20).map(|n| format!("reason {n}")).collect();
    let rows: Vec<Vec<&str>> = (0..20)
        .map(|n| vec![numbers[n].as_str(), "7", reasons[n].as_str()])
        .collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    assert_eq!(seen(&table(1, &columns, &rows)), [of("rate", &["rate"], 0)]);
}

#[test]
fn nothing_to_draw_is_no_plot_and_odd_values_are_drawn() {
    let columns = [("n", ""), ("rate", "Mbit/s")];
    assert!(seen(&table(1, &columns, &[&["1", "2"]])).is_empty());
    assert!(seen(&table(1, &columns, &[&["1", "-"], &["2", "-"]])).is_empty());
    assert!(seen(&table(1, &columns, &[&["1", "0"], &["2", "0"]])).is_empty());
    for rows in [
        [&["1", "0"][..], &["2", "1"]],
        [&["1", "-5"][..], &["2", "7~20"]],
        [&["0", "1e-9"][..], &["1e12", "1e12~1e13"]],
        [&["-3", "4"][..], &["-3", "5"]],
        [&["1", "1e300"][..], &["2", "1e301"]],
        [&["a", "-4~1"][..], &["b", "0"]],
        [&["5", "5"][..], &["5", "5"]],
    ] {
        assert_eq!(seen(&table(1, &columns, &rows)).len(), 1, "{rows:?}");
    }
}

#[test]
fn more_than_two_decades_are_logarithmic() {
    let axis = |low, high| axis(low, high, true, Axis::along_x);
    assert!(!axis(1.0, 100.0).0.logarithmic);
    let (wide, marks) = axis(1.0, 5000.0);
    assert!(wide.logarithmic);
    assert_eq!(marks, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
    assert!(!axis(0.0, 5000.0).0.logarithmic);
    assert_eq!(axis(3.0, 38.0).1, [0.0, 10.0, 20.0, 30.0, 40.0]);
    assert_eq!(linear_marks(98.0, 99.2), [98.0, 98.5, 99.0, 99.5]);
}

#[test]
fn marks_of_large_and_small_numbers_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (2.5e6, "2.5e6"),
        (1e9, "1000e6"),
        (250.0, "250"),
        (1e-5, "1e-5"),
    ] {
        assert_eq!(mark_text(value), text);
    }
}
