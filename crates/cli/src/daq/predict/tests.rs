//! Plans of configurations, and tables of predictions beside measurements.

use barewire_tables::{Entry, ResultColumn, ResultTable};

use super::compare::{OFF, OFF_OF_A_MB, cell, number};
use super::scan::BUILT;
use super::*;

#[test]
fn every_configuration_is_a_plan_that_runs() {
    let costs = Costs {
        fragment_out: 100.0,
        make_kib: 50.0,
        fragment_in: 100.0,
        verify_kib: 50.0,
        event: 100.0,
        message: 200.0,
        message_event: 5.0,
    };
    let laboratory = Laboratory {
        costs,
        with: "modern-pc",
        processors: 2,
        fragments: 2_000,
    };
    let slot = "slot = \"2 ms\"\nlead = \"1 ms\"\nburst = \"128 KiB\"";
    let texts = ["none", "credits", "barrel", "bucket", "schedule"].map(|control| {
        format!("[flow]\ncontrol = \"{control}\"\n{slot}\n[run]\ntransport = \"tcp\"\n[builder]\ntimeout = \"100 s\"\n[assignment]\nwindow = 32\n")
    });
    let policies = ["least-loaded", "pulled", "hash"].map(|policy| {
        format!("[assignment]\npolicy = \"{policy}\"\nwindow = 32\n[fragments]\nsizes = \"log-normal\"\n[trigger]\nmode = \"poisson\"\n")
    });
    let dir = std::env::temp_dir().join(format!("barewire-predict-{}.toml", std::process::id()));
    for text in texts.iter().chain(&policies) {
        std::fs::write(&dir, text).expect("written");
        let over: Over = "fragment_size=1 KiB, 100 KiB".parse().expect("sizes");
        let points = scan::points(&dir, core::slice::from_ref(&over)).expect("good");
        let table = laboratory.predicted(&points).expect(text);
        let shown = beside(core::slice::from_ref(&over), &points, &table, None);
        assert_eq!(shown.columns.len(), 6, "{text}");
        let built = |row: usize| cell(&shown, &shown.rows[row], "built, predicted").number();
        assert!(built(0) > Some(0.0) && built(1) > Some(0.0), "{text}");
        for row in &table.rows {
            assert_eq!(
                cell(&table, row, "events not built").number(),
                Some(0.0),
                "{text}"
            );
        }
    }
    let _ = std::fs::remove_file(dir);
}

#[test]
fn measurements_are_found_by_their_sizes() {
    let column = |name: &str, unit: &str| ResultColumn {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    let predicted = ResultTable {
        name: "rates".to_owned(),
        keys: 1,
        columns: vec![
            column("fragment", "B"),
            column(BUILT, "MB/s"),
            column("processor time", "processors"),
        ],
        rows: vec![
            vec![number(1024.0), number(90.0), number(2.0)],
            vec![number(4096.0), number(100.0), number(2.0)],
        ],
    };
    let measured = ResultTable {
        name: "scan".to_owned(),
        keys: 1,
        columns: vec![
            column("fragment_size", "KiB"),
            column(BUILT, "MB/s"),
            column("processor time", "processors"),
        ],
        rows: vec![vec![number(4.0), number(80.0), number(1.0)]],
    };
    let over: Over = "fragment_size=1024 B, 4096 B".parse().expect("sizes");
    let file = std::env::temp_dir().join(format!("barewire-beside-{}.toml", std::process::id()));
    std::fs::write(&file, "").expect("written");
    let points = scan::points(&file, core::slice::from_ref(&over)).expect("good");
    let _ = std::fs::remove_file(file);
    let measured = Measured::by_sizes(measured, &over);
    let table = beside(
        core::slice::from_ref(&over),
        &points,
        &predicted,
        Some(&measured),
    );
    let off = |row: usize| cell(&table, &table.rows[row], OFF);
    assert_eq!(off(0), Entry::Missing);
    assert_eq!(off(1).number(), Some(25.0));
    let cost = cell(&table, &table.rows[1], OFF_OF_A_MB).number();
    assert!((cost.expect("a number") - 60.0).abs() < 1e-9);
    let said = how_far_off(&table);
    assert!(
        said.contains("25 % at worst") && said.contains("60 % at worst"),
        "{said}"
    );
}
