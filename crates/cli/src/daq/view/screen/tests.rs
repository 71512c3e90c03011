//! Screens of several sizes: nothing is wider than it may be, and nothing that was lost is hidden.

use barewire_daq::accounts::{BuilderReport, SourceReport};
use barewire_proto::evb::{EventAccount, RunState};

use super::*;

/// Of a second on 2026-11-23.
const NOW_S: u64 = 1_795_476_665;

fn view(age_s: u64, built: u64) -> View {
    let mut sent = SourceReport::default();
    sent.account.sent_bytes = built * 1_000;
    let mut took = BuilderReport::default();
    took.account.built_bytes = built * 2_000;
    took.account.late = built / 1_000;
    let source = Seen {
        live: true,
        report: sent,
        ..Seen::default()
    };
    let builder = Seen {
        live: true,
        report: took,
        ..Seen::default()
    };
    View {
        picture: Picture {
            run: 1,
            state: RunState::Running,
            events: EventAccount {
                built,
                ..EventAccount::default()
            },
            sources: vec![source; 2],
            builders: vec![builder],
            spreads: Vec::new(),
            age_ns: age_s * 1_000_000_000,
            processor_ns: 0,
        },
        building_ns: vec![1_000, 2_000, 3_000, 4_000, 5_000],
        event_bytes: vec![1; 5],
        log_from: 0,
        log: Vec::new(),
    }
}

/// With something of everything that can be shown.
fn full_view(age_s: u64) -> View {
    let mut view = view(age_s, 0);
    let picture = &mut view.picture;
    picture.events = EventAccount {
        triggered: 123_456_789,
        refused: 11,
        built: 123_000_000 + 1_000_000 * age_s,
        incomplete: 12,
        abandoned: 13,
        aborted: 14,
        waiting: 15,
        in_flight: 16,
        ..EventAccount::default()
    };
    let source = &mut picture.sources[1];
    source.lives = 3;
    source.report.queued_bytes = 16 << 20;
    source.report.held_up_ns = age_s * 500_000_000;
    source.report.account.dropped.full = 21;
    source.report.account.dropped.withdrawn = 22;
    source.report.intake.overflowed = 23;
    let builder = &mut picture.builders[0].report;
    builder.account.events_open = 31;
    builder.account.gaps = 32;
    builder.account.corrupt = 33;
    builder.account.duplicate = 34;
    builder.account.late = 35;
    builder.account.missing = 36;
    builder.cut = 37;
    builder.mismatched = 38;
    builder.untaken = 39;
    builder.to_be_taken = 40;
    builder.oldest_event = 4_242;
    builder.oldest_age_ns = 1_500_000_000;
    view
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|it| format!("{}\n", it.text)).collect()
}

fn screen(settings: &str) -> Screen {
    Screen::new(&Config::parse(settings, "a.toml").expect("good"))
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let mut screen = screen("[monitor]\nline = \"80 Mbit/s\"\n");
    let size = (200, 24);
    for (age_s, built) in [(0, 0), (10, 0), (12, 0), (14, 10_000)] {
        let view = view(age_s, built);
        let lines = screen.lines(Some(&view), ["a"].into_iter(), "", size, NOW_S);
        assert!(lines.len() <= 24);
    }
    let log = ["1.000 error: \u{1b}[2Jgone"].into_iter();
    let lines = screen.lines(Some(&view(14, 10_000)), log, "Paused", size, NOW_S);
    let shown = text(&lines);
    assert!(shown.contains("5000 events/s   10.0 MB/s"), "{shown}");
    assert!(shown.contains("  50.0 %"), "{shown}");
    assert!(shown.contains("late 10"), "{shown}");
    assert!(shown.contains("[Paused]"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    let last = &lines[lines.len() - 2];
    assert_eq!(last.look, Look::Error);
    assert!(last.text.starts_with("00:00:01.000 error: "), "{shown}");
}

/// What must stand on every screen that is high enough, however narrow.
const FIELDS: &[&str] = &[
    "daq",
    "run 1",
    "Running",
    "2026-11-23 ",
    "UTC",
    "events incomplete 12",
    "events abandoned 13",
    "events aborted 14",
    "triggers refused 11",
    "dropped (buffer full) 21",
    "dropped (withdrawn) 22",
    "detector's dropped (full) 23",
    "gaps 32",
    "corrupt 33",
    "duplicate 34",
    "late 35",
    "missing 36",
    "cut 37",
    "wrong content 38",
    "events not recorded or taken 39",
    "for file or consumer 40 events",
    "in flight 16 of 1024",
    "waiting 15",
    "oldest open event 4242 for 1500.0 ms (builder 0)",
    "fullest: 25 %, source 1",
    "sources held up 25 % of the time",
    "1000000 events/s",
    "MB/s",
    "processors",
    "building time in us: median 1.0",
    "99.9 % 4.0",
    "events in B: median 1",
    "triggered 123456789 = built 12",
    "source 0",
    "source 1 life 3",
    "builder 0",
    "held up",
    "25 %",
    "50 %",
    "open",
    "31",
    "q drain and end",
    "p pause, resume",
    "twice: abort",
    "[refused: not now]",
    "source 7 is lost",
];

#[test]
fn every_field_is_there_at_80_columns_and_at_less() {
    for (settings, width) in [
        ("", 200),
        ("", 80),
        ("[monitor]\nline = \"80 Mbit/s\"\n", 80),
        ("", 60),
        ("", 40),
        ("", 24),
    ] {
        let mut screen = screen(settings);
        let log = ["1795476660.250 error: source 7 is lost: its process has ended"];
        let size = (width, 200);
        screen.lines(Some(&full_view(2)), log.into_iter(), "", size, NOW_S);
        let answer = "refused: not now";
        let view = full_view(4);
        let lines = screen.lines(Some(&view), log.into_iter(), answer, size, NOW_S);
        let shown = text(&lines);
        assert!(lines.iter().all(|it| it.text.chars().count() <= width));
        // Where lines are broken does not matter here.
        let joined = |text: &str| -> String { text.split_whitespace().collect() };
        for field in FIELDS {
            assert!(
                joined(&shown).contains(&joined(field)),
                "{width} columns, no {field:?} in\n{shown}"
            );
        }
        if !settings.is_empty() {
            assert!(shown.contains("of line"), "{shown}");
        }
        let lost = lines.iter().find(|it| it.text.starts_with("lost: "));
        assert_eq!(lost.map(|it| it.look), Some(Look::Warning));
    }
}

#[test]
fn a_usual_terminal_shows_what_was_lost_and_one_with_many_parts_too() {
    let mut screen = screen("[parts]\nsources = 40\n");
    let mut view = full_view(2);
    let good = Seen {
        live: true,
        ..Seen::default()
    };
    view.picture.sources.extend(vec![good; 38]);
    // The one that lost something stands behind many that did not.
    view.picture.sources.swap(1, 39);
    let lines = screen.lines(Some(&view), ["a"; 9].into_iter(), "", (80, 30), NOW_S);
    let shown = text(&lines);
    assert!(shown.contains("source 39 life 3"), "{shown}");
    assert!(shown.contains("dropped (buffer full) 21"), "{shown}");
    assert!(shown.contains("gaps 32"), "{shown}");
    assert!(shown.contains(" more: too few lines"), "{shown}");
    assert_eq!(lines.len(), 30, "{shown}");
    let quiet = screen.lines(
        Some(&self::view(3, 0)),
        ["a"].into_iter(),
        "",
        (80, 24),
        NOW_S,
    );
    assert!(text(&quiet).contains("nothing is lost"), "{}", text(&quiet));
    assert!(text(&quiet).contains("no event open"));
}

#[test]
fn every_screen_is_no_larger_than_it_may_be() {
    for height in 0..40 {
        for width in [0, 1, 30, 80, 300] {
            let mut screen = screen("");
            let log = ["a line of the log"; 50];
            for view in [None, Some(view(3, 5)), Some(full_view(3))] {
                let log = log.into_iter();
                let lines = screen.lines(view.as_ref(), log, "", (width, height), NOW_S);
                assert!(lines.len() <= height.max(1), "{width} x {height}");
                assert!(lines.iter().all(|it| it.text.chars().count() <= width));
            }
        }
    }
}
