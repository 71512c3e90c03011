//! What the view shows: a picture of the run, and rates from the pictures before it, as lines.

use std::collections::VecDeque;

use barewire_daq::config::Config;
use barewire_daq::monitor::{
    Picture, Seen, View, date_and_time, event_sum, in_words, losses, losses_of_builder,
    losses_of_source, share_held_up, share_of_buffer, waiting, with_time_of_day, wrapped,
};

use super::terminal::{Line, Look};

/// Rates are over this time.
const SPAN_NS: u64 = 2_000_000_000;
/// Lines of the log that are shown whatever else there is.
const LOG_LEAST: usize = 4;
/// Columns of the tables of parts, without a rate of the line: on less each part has a list.
const TABLE_WIDTH: usize = 62;

/// What is kept from one drawing to the next.
pub struct Screen {
    config: Config,
    /// Pictures of the last [`SPAN_NS`], and one before.
    past: VecDeque<Picture>,
}

/// What is shown of a part.
struct Row {
    /// `source 3`.
    name: String,
    live: bool,
    is_wrong: bool,
    /// Figures with the names of their columns.
    figures: Vec<(&'static str, String)>,
    /// Where there is room.
    sum: String,
    /// Whatever room there is.
    losses: Vec<String>,
}

impl Screen {
    /// Of a run.
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            past: VecDeque::new(),
        }
    }

    /// The screen of `width` columns and `height` lines, at `unix_s` seconds since 1970.
    pub fn lines<'a>(
        &mut self,
        view: Option<&View>,
        log: impl Iterator<Item = &'a str>,
        answer: &str,
        (width, height): (usize, usize),
        unix_s: u64,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        let keys = keys(answer, width);
        let name = &self.config.name;
        match view {
            Some(view) => {
                self.remember(&view.picture);
                self.run(&mut lines, view, width, unix_s);
                let room = height.saturating_sub(lines.len() + LOG_LEAST + 1 + keys.len());
                self.parts(&mut lines, &view.picture, room, width);
            }
            None => lines.push(head(format!("barewire daq  {name}  waits for its parts"))),
        }
        lines.push(head("log".to_owned()));
        let room = height.saturating_sub(lines.len() + keys.len());
        let mut last: Vec<Line> = Vec::new();
        for text in log.collect::<Vec<_>>().into_iter().rev() {
            if last.len() >= room {
                break;
            }
            last.extend(log_lines(text, width).into_iter().rev());
        }
        last.truncate(room);
        lines.extend(last.into_iter().rev());
        lines.truncate(height.saturating_sub(keys.len()));
        lines.extend(keys);
        lines.truncate(height.max(1));
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

    fn run(&self, lines: &mut Vec<Line>, view: &View, width: usize, unix_s: u64) {
        let picture = &view.picture;
        let title = vec![
            "barewire daq".to_owned(),
            self.config.name.clone(),
            format!("run {}", picture.run),
            format!("{:?}", picture.state),
            format!("{:.1} s", picture.age_ns as f64 / 1e9),
            format!("{} UTC", date_and_time(unix_s)),
        ];
        let mut put = |items: &[String], between: &str, look: Look| {
            let wrapped = wrapped(items, between, 2, width);
            lines.extend(wrapped.into_iter().map(|text| Line { look, text }));
        };
        put(&title, "  ", Look::Head);
        let losses = in_words(&losses(picture));
        match losses.is_empty() {
            true => put(&["nothing is lost".to_owned()], "", Look::Plain),
            false => put(&led_by("lost: ", losses), ", ", Look::Warning),
        }
        let rates = [
            format!("{:.0} events/s", self.rate(picture, |it| it.events.built)),
            format!("{:.1} MB/s", self.rate(picture, built_bytes) / 1e6),
            format!("{:.2} processors", self.rate(picture, processor_ns) / 1e9),
        ];
        put(&rates, "   ", Look::Plain);
        let mut waits = waiting(picture, &self.config);
        let share = self.rate(picture, held_up_ns) / 1e9 / picture.sources.len().max(1) as f64;
        waits.push(share_held_up(share));
        put(&waits, ", ", Look::Plain);
        let times = quantiles(&view.building_ns, |ns| format!("{:.1}", ns as f64 / 1e3));
        put(&led_by("building time in us: ", times), ", ", Look::Plain);
        let sizes = quantiles(&view.event_bytes, |bytes| bytes.to_string());
        put(&led_by("events in B: ", sizes), ", ", Look::Plain);
        let sum = event_sum(&picture.events);
        let sum: Vec<_> = sum.split(" + ").map(str::to_owned).collect();
        put(&led_by("events: ", sum), " + ", Look::Plain);
    }

    /// Lines for each part, in at most `room` lines; if that is too little, those that lost something
    /// come first.
    fn parts(&self, lines: &mut Vec<Line>, picture: &Picture, room: usize, width: usize) {
        let sources = 0..picture.sources.len();
        let sources: Vec<_> = sources.map(|at| self.source(picture, at)).collect();
        let builders = 0..picture.builders.len();
        let builders: Vec<_> = builders.map(|at| self.builder(picture, at)).collect();
        let is_bad = |row: &&Row| row.is_bad();
        let bad = || sources.iter().chain(&builders).filter(is_bad);
        let shown = |rows: &mut dyn Iterator<Item = &Row>| -> Vec<Vec<Line>> {
            rows.map(|row| row.lines(width)).collect()
        };
        let mut all = vec![header(&sources, width)];
        all.extend(shown(&mut sources.iter()));
        all.push(header(&builders, width));
        all.extend(shown(&mut builders.iter()));
        if all.iter().map(Vec::len).sum::<usize>() > room {
            let good = sources.iter().chain(&builders).filter(|row| !row.is_bad());
            all = shown(&mut bad().chain(good));
        }
        let mut left = room;
        let parts = all.len();
        for (at, part) in all.into_iter().enumerate() {
            let is_last = at + 1 == parts;
            if part.len() + usize::from(!is_last) > left {
                if left > 0 {
                    let more = format!("  and {} more: too few lines", parts - at);
                    lines.push(warning_if(at < bad().count(), more));
                }
                return;
            }
            left -= part.len();
            lines.extend(part);
        }
    }

    fn source(&self, picture: &Picture, at: usize) -> Row {
        let seen = &picture.sources[at];
        let report = &seen.report;
        let of =
            |what: fn(&Seen<_>) -> u64| self.rate(picture, |it| it.sources.get(at).map_or(0, what));
        let bytes = of(|it| it.report.account.sent_bytes);
        let mut figures = vec![
            (
                "fragments/s",
                format!("{:.0}", of(|it| it.report.account.sent)),
            ),
            ("MB/s", format!("{:.1}", bytes / 1e6)),
        ];
        figures.extend(self.share(bytes));
        let share = share_of_buffer(report.queued_bytes, &self.config);
        figures.extend([
            ("buffer", format!("{share:.0} %")),
            (
                "held up",
                format!("{:.0} %", of(|it| it.report.held_up_ns) / 1e7),
            ),
            (
                "processor",
                format!("{:.0} %", of(|it| it.report.processor_ns) / 1e7),
            ),
        ]);
        let account = &report.account;
        Row {
            name: format!("source {at}{}", life(seen.lives, seen.live)),
            live: seen.live,
            is_wrong: false,
            figures,
            sum: format!(
                "offered {} = sent {} + queued {}",
                account.offered, account.sent, account.queued
            ),
            losses: in_words(&losses_of_source(report)),
        }
    }

    fn builder(&self, picture: &Picture, at: usize) -> Row {
        let seen = &picture.builders[at];
        let report = &seen.report;
        let of = |what: fn(&Seen<_>) -> u64| {
            self.rate(picture, |it| it.builders.get(at).map_or(0, what))
        };
        let bytes = of(|it| it.report.account.built_bytes);
        let account = &report.account;
        let mut figures = vec![
            (
                "events/s",
                format!("{:.0}", of(|it| it.report.account.events_built)),
            ),
            ("MB/s", format!("{:.1}", bytes / 1e6)),
        ];
        figures.extend(self.share(bytes));
        let oldest = match account.events_open {
            0 => "-".to_owned(),
            _ => format!("{:.1} ms", report.oldest_age_ns as f64 / 1e6),
        };
        figures.extend([
            ("open", account.events_open.to_string()),
            ("oldest", oldest),
            (
                "processor",
                format!("{:.0} %", of(|it| it.report.processor_ns) / 1e7),
            ),
        ]);
        Row {
            name: format!("builder {at}{}", life(seen.lives, seen.live)),
            live: seen.live,
            is_wrong: report.mismatched > 0,
            figures,
            sum: format!(
                "came {} = built {} + open {} + others",
                account.copies, account.built, account.open
            ),
            losses: in_words(&losses_of_builder(report)),
        }
    }

    fn share(&self, bytes_per_s: f64) -> Option<(&'static str, String)> {
        let line = self.config.monitor.line?;
        let share = bytes_per_s * 800.0 / line.as_bps() as f64;
        Some(("of line", format!("{share:.1} %")))
    }
}

/// Widths of the columns of figures, after that of names.
const NAME_WIDTH: usize = 11;
const FIGURE_WIDTHS: [usize; 6] = [12, 9, 9, 9, 10, 10];

/// Whether a table of so many figures fits.
fn is_table(figures: usize, width: usize) -> bool {
    let more = figures.saturating_sub(FIGURE_WIDTHS.len() - 1) * 9;
    width >= TABLE_WIDTH + more
}

/// The columns of `figures` in a line.
fn in_columns(first: &str, figures: &[String]) -> String {
    let mut text = format!("{first:<NAME_WIDTH$}");
    for (figure, width) in figures.iter().zip(FIGURE_WIDTHS) {
        // A figure that is too long takes some of the blanks before it, and moves the others.
        text += &format!(" {figure:>0$}", width - 1);
    }
    text
}

fn header(rows: &[Row], width: usize) -> Vec<Line> {
    let Some(row) = rows.first() else {
        return Vec::new();
    };
    if !is_table(row.figures.len(), width) {
        return Vec::new();
    }
    let names: Vec<_> = row.figures.iter().map(|it| it.0.to_owned()).collect();
    vec![head(in_columns("", &names))]
}

impl Row {
    fn is_bad(&self) -> bool {
        !self.live || self.is_wrong || !self.losses.is_empty()
    }

    fn lines(&self, width: usize) -> Vec<Line> {
        let mut texts = Vec::new();
        if is_table(self.figures.len(), width) {
            let figures: Vec<_> = self.figures.iter().map(|it| it.1.clone()).collect();
            let row = in_columns(&self.name, &figures);
            let with_sum = format!("{row}  {}", self.sum);
            texts.push(match with_sum.chars().count() <= width {
                true => with_sum,
                false => row,
            });
        } else {
            let figures = self.figures.iter().map(|(name, it)| format!("{name} {it}"));
            let items = led_by(&format!("{}: ", self.name), figures.collect());
            texts.extend(wrapped(&items, ", ", 4, width));
        }
        if !self.losses.is_empty() {
            let items = led_by("    ", self.losses.clone());
            texts.extend(wrapped(&items, ", ", 4, width));
        }
        let is_wrong = !self.live || self.is_wrong;
        let look = |text| line(is_wrong, self.is_bad(), text);
        texts.into_iter().map(look).collect()
    }
}

/// With `word` before the first.
fn led_by(word: &str, mut items: Vec<String>) -> Vec<String> {
    if let Some(first) = items.first_mut() {
        first.insert_str(0, word);
    }
    items
}

fn keys(answer: &str, width: usize) -> Vec<Line> {
    let mut items = vec![
        "q drain and end".to_owned(),
        "p pause, resume".to_owned(),
        "Ctrl-C the same as q, twice: abort".to_owned(),
    ];
    if !answer.is_empty() {
        items.push(format!("[{answer}]"));
    }
    let lines = wrapped(&items, "   ", 0, width);
    lines.into_iter().map(head).collect()
}

fn built_bytes(picture: &Picture) -> u64 {
    let builders = picture.builders.iter();
    builders.map(|it| it.report.account.built_bytes).sum()
}

fn held_up_ns(picture: &Picture) -> u64 {
    picture.sources.iter().map(|it| it.report.held_up_ns).sum()
}

fn processor_ns(picture: &Picture) -> u64 {
    let sources = picture.sources.iter().map(|it| it.report.processor_ns);
    let builders = picture.builders.iter().map(|it| it.report.processor_ns);
    sources.chain(builders).sum::<u64>() + picture.processor_ns
}

/// Median, 90 %, 99 %, 99.9 % and the largest, by their names.
fn quantiles(of: &[u64], shown: impl Fn(u64) -> String) -> Vec<String> {
    let names = ["median", "90 %", "99 %", "99.9 %", "largest"];
    let named = names.into_iter().zip(of);
    named
        .map(|(name, it)| format!("{name} {}", shown(*it)))
        .collect()
}

fn life(lives: u32, live: bool) -> String {
    match (live, lives) {
        (false, _) => " LOST".to_owned(),
        (true, 0 | 1) => String::new(),
        (true, lives) => format!(" life {lives}"),
    }
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

/// A line of the log, with the time of day, as lines of the screen.
fn log_lines(text: &str, width: usize) -> Vec<Line> {
    let words: Vec<_> = with_time_of_day(text)
        .split(' ')
        .map(str::to_owned)
        .collect();
    let (wrong, bad) = (text.contains(" error: "), text.contains(" warning: "));
    let lines = wrapped(&words, " ", 4, width);
    lines.into_iter().map(|it| line(wrong, bad, it)).collect()
}

/// What comes from other processes must not command the terminal.
fn clipped(line: Line, width: usize) -> Line {
    let harmless = |it: char| if it.is_control() { ' ' } else { it };
    let text = line.text.chars().map(harmless).take(width).collect();
    Line { text, ..line }
}

#[cfg(test)]
mod tests;
