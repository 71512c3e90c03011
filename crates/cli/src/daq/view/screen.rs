//! What the view shows: a picture of the run, and rates from the pictures before it, as lines.

use std::collections::VecDeque;

use barewire_daq::accounts::{drops, fates};
use barewire_daq::config::Config;
use barewire_daq::monitor::{Picture, Seen, View, event_sum};
use barewire_units::Rate;

use super::terminal::{Line, Look};

/// Rates are over this time.
const SPAN_NS: u64 = 2_000_000_000;
/// Lines of the log that are shown whatever else there is.
const LOG_LEAST: usize = 4;

/// What is kept from one drawing to the next.
pub struct Screen {
    name: String,
    line: Option<Rate>,
    /// Pictures of the last [`SPAN_NS`], and one before.
    past: VecDeque<Picture>,
}

impl Screen {
    /// Of a run.
    pub fn new(config: &Config) -> Self {
        Self {
            name: config.name.clone(),
            line: config.monitor.line,
            past: VecDeque::new(),
        }
    }

    /// The screen of `width` columns and `height` lines.
    pub fn lines<'a>(
        &mut self,
        view: Option<&View>,
        log: impl Iterator<Item = &'a str>,
        answer: &str,
        (width, height): (usize, usize),
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        match view {
            Some(view) => {
                self.remember(&view.picture);
                self.run(&mut lines, view);
                let room = height.saturating_sub(lines.len() + LOG_LEAST + 2);
                self.parts(&mut lines, &view.picture, room);
            }
            None => lines.push(head(format!(
                "barewire daq  {}  waits for its parts",
                self.name
            ))),
        }
        lines.push(head("log".to_owned()));
        let room = height.saturating_sub(lines.len() + 1);
        let log: Vec<_> = log.collect();
        let last = &log[log.len().saturating_sub(room)..];
        lines.extend(last.iter().map(|text| log_line(text)));
        lines.truncate(height.saturating_sub(1));
        let keys = "q drain and end   p pause, resume   Ctrl-C the same as q, twice: abort";
        lines.push(head(match answer {
            "" => keys.to_owned(),
            answer => format!("{keys}   [{answer}]"),
        }));
        lines.into_iter().map(|it| clipped(it, width)).collect()
    }

    fn remember(&mut self, picture: &Picture) {
        let is_new = self
            .past
            .back()
            .is_none_or(|it| it.age_ns != picture.age_ns);
        // Another run begins anew.
        if self
            .past
            .back()
            .is_some_and(|it| (it.run, it.age_ns) > (picture.run, picture.age_ns))
        {
            self.past.clear();
        }
        if is_new {
            self.past.push_back(picture.clone());
        }
        let from = picture.age_ns.saturating_sub(SPAN_NS);
        while self.past.len() > 2 && self.past[1].age_ns <= from {
            self.past.pop_front();
        }
    }

    /// How much of something there was in a second, lately.
    fn rate(&self, now: &Picture, of: impl Fn(&Picture) -> u64) -> f64 {
        let Some(before) = self.past.front() else {
            return 0.0;
        };
        let passed_ns = now.age_ns.saturating_sub(before.age_ns).max(1);
        of(now).saturating_sub(of(before)) as f64 * 1e9 / passed_ns as f64
    }

    fn share(&self, bytes_per_s: f64) -> String {
        self.line.map_or_else(String::new, |line| {
            format!("{:7.1} %", bytes_per_s * 800.0 / line.as_bps() as f64)
        })
    }

    fn run(&self, lines: &mut Vec<Line>, view: &View) {
        let picture = &view.picture;
        let events = &picture.events;
        lines.push(head(format!(
            "barewire daq  {}  run {}  {:?}  {:.1} s",
            self.name,
            picture.run,
            picture.state,
            picture.age_ns as f64 / 1e9
        )));
        let bytes = self.rate(picture, built_bytes);
        let processors = self.rate(picture, processor_ns) / 1e9;
        lines.push(plain(format!(
            "{:.0} events/s   {:.1} MB/s   {processors:.2} processors   in flight {}, waiting {}, queued {:.1} MB",
            self.rate(picture, |it| it.events.built),
            bytes / 1e6,
            events.in_flight,
            events.waiting,
            queued_bytes(picture) as f64 / 1e6
        )));
        let times = quantiles(&view.building_ns, |ns| format!("{:.1}", ns as f64 / 1e3));
        let sizes = quantiles(&view.event_bytes, |bytes| bytes.to_string());
        lines.push(plain(format!(
            "median, 90, 99, 99.9 %, largest: building time {times} us; event {sizes} B"
        )));
        let lost = events.incomplete + events.abandoned + events.aborted + events.refused;
        let text = format!("events: {}", event_sum(events));
        lines.push(warning_if(lost > 0, text));
    }

    /// A line for each part, in at most `room` lines.
    fn parts(&self, lines: &mut Vec<Line>, picture: &Picture, room: usize) {
        let of_line = if self.line.is_some() { "  of line" } else { "" };
        let mut all = vec![head(format!(
            "source    fragments/s      MB/s{of_line}   queued MB  processor  ledger"
        ))];
        let sources = picture.sources.iter().enumerate();
        all.extend(sources.map(|(at, seen)| self.source(picture, at, seen.live)));
        all.push(head(format!(
            "builder      events/s      MB/s{of_line}        open  processor  ledger"
        )));
        let builders = picture.builders.iter().enumerate();
        all.extend(builders.map(|(at, seen)| self.builder(picture, at, seen.live)));
        let left = all.len().saturating_sub(room);
        if left > 0 {
            all.truncate(room.saturating_sub(1));
            all.push(plain(format!("  and {} more lines", left + 1)));
        }
        lines.extend(all);
    }

    fn source(&self, picture: &Picture, at: usize, live: bool) -> Line {
        let report = &picture.sources[at].report;
        let of =
            |what: fn(&Seen<_>) -> u64| self.rate(picture, |it| it.sources.get(at).map_or(0, what));
        let bytes = of(|it| it.report.account.sent_bytes);
        let account = &report.account;
        let dropped = named(&drops(&account.dropped), |_| true);
        let text = format!(
            "{at:6} {:>14.0} {:9.1}{} {:11.1} {:8.0} %  offered {} = sent {} + queued {}{dropped}{}",
            of(|it| it.report.account.sent),
            bytes / 1e6,
            self.share(bytes),
            report.queued_bytes as f64 / 1e6,
            of(|it| it.report.processor_ns) / 1e7,
            account.offered,
            account.sent,
            account.queued,
            state(picture.sources[at].lives, live)
        );
        line(!live, !dropped.is_empty(), text)
    }

    fn builder(&self, picture: &Picture, at: usize, live: bool) -> Line {
        let report = &picture.builders[at].report;
        let of = |what: fn(&Seen<_>) -> u64| {
            self.rate(picture, |it| it.builders.get(at).map_or(0, what))
        };
        let bytes = of(|it| it.report.account.built_bytes);
        let account = &report.account;
        let lost = named(&fates(account), |fate| !matches!(fate, "built" | "open"));
        let text = format!(
            "{at:6} {:>14.0} {:9.1}{} {:11} {:8.0} %  came {} = built {} + open {}{lost}; events incomplete {}, wrong content {}{}",
            of(|it| it.report.account.events_built),
            bytes / 1e6,
            self.share(bytes),
            account.events_open,
            of(|it| it.report.processor_ns) / 1e7,
            account.copies,
            account.built,
            account.open,
            account.events_incomplete,
            report.mismatched,
            state(picture.builders[at].lives, live)
        );
        let bad = !lost.is_empty() || account.events_incomplete > 0;
        line(!live || report.mismatched > 0, bad, text)
    }
}

fn built_bytes(picture: &Picture) -> u64 {
    let builders = picture.builders.iter();
    builders.map(|it| it.report.account.built_bytes).sum()
}

fn queued_bytes(picture: &Picture) -> u64 {
    picture
        .sources
        .iter()
        .map(|it| it.report.queued_bytes)
        .sum()
}

fn processor_ns(picture: &Picture) -> u64 {
    let sources = picture.sources.iter().map(|it| it.report.processor_ns);
    let builders = picture.builders.iter().map(|it| it.report.processor_ns);
    sources.chain(builders).sum::<u64>() + picture.processor_ns
}

fn quantiles(of: &[u64], shown: impl Fn(u64) -> String) -> String {
    let all: Vec<_> = of.iter().map(|it| shown(*it)).collect();
    all.join(", ")
}

/// Those of `counts` that are not zero, as terms of a sum.
fn named(counts: &[(&str, u64)], is_wanted: impl Fn(&str) -> bool) -> String {
    let some = counts
        .iter()
        .filter(|(name, count)| *count > 0 && is_wanted(name));
    some.map(|(name, count)| format!(" + {name} {count}"))
        .collect()
}

fn state(lives: u32, live: bool) -> String {
    match (live, lives) {
        (false, _) => "; LOST".to_owned(),
        (true, 0 | 1) => String::new(),
        (true, lives) => format!("; life {lives}"),
    }
}

fn plain(text: String) -> Line {
    let look = Look::Plain;
    Line { look, text }
}

fn head(text: String) -> Line {
    let look = Look::Head;
    Line { look, text }
}

fn warning_if(bad: bool, text: String) -> Line {
    line(false, bad, text)
}

fn line(wrong: bool, bad: bool, text: String) -> Line {
    let look = match (wrong, bad) {
        (true, _) => Look::Error,
        (false, true) => Look::Warning,
        (false, false) => Look::Plain,
    };
    Line { look, text }
}

fn log_line(text: &str) -> Line {
    line(
        text.contains(" error: "),
        text.contains(" warning: "),
        text.to_owned(),
    )
}

/// What comes from other processes must not command the terminal.
fn clipped(line: Line, width: usize) -> Line {
    let harmless = |it: char| if it.is_control() { ' ' } else { it };
    let text = line.text.chars().map(harmless).take(width).collect();
    Line { text, ..line }
}

#[cfg(test)]
mod tests {
    use barewire_daq::accounts::{BuilderReport, SourceReport};
    use barewire_proto::evb::{EventAccount, RunState};

    use super::*;

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

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|it| format!("{}\n", it.text)).collect()
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let settings = "[monitor]\nline = \"80 Mbit/s\"\n";
        let config = Config::parse(settings, "a.toml").expect("good");
        let mut screen = Screen::new(&config);
        let size = (200, 24);
        for (age_s, built) in [(0, 0), (10, 0), (12, 0), (14, 10_000)] {
            let lines = screen.lines(Some(&view(age_s, built)), ["a"].into_iter(), "", size);
            assert!(lines.len() <= 24);
        }
        let log = ["1.0 error: \u{1b}[2Jgone"].into_iter();
        let lines = screen.lines(Some(&view(14, 10_000)), log, "Paused", size);
        let shown = text(&lines);
        assert!(shown.contains("5000 events/s   10.0 MB/s"), "{shown}");
        assert!(shown.contains("  50.0 %"), "{shown}");
        assert!(shown.contains("late 10"), "{shown}");
        assert!(shown.contains("[Paused]"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
        let last = &lines[lines.len() - 2];
        assert_eq!(last.look, Look::Error);
    }

    #[test]
    fn every_screen_is_no_larger_than_it_may_be() {
        let config = Config::parse("", "a.toml").expect("good");
        for height in 0..40 {
            for width in [0, 1, 30, 300] {
                let mut screen = Screen::new(&config);
                let log = ["a line of the log"; 50];
                for view in [None, Some(view(3, 5))] {
                    let log = log.into_iter();
                    let lines = screen.lines(view.as_ref(), log, "", (width, height));
                    assert!(lines.len() <= height.max(1), "{width} x {height}");
                    assert!(lines.iter().all(|it| it.text.chars().count() <= width));
                }
            }
        }
    }
}
