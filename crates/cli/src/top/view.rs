//! What somebody has chosen to see: the table, its order, a filter, how far it is scrolled; and the keys for that.

use std::cmp::Ordering;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::tables::{Column, KINDS, Kind, Row, Tables};

/// The keys, for the help.
pub const KEYS: [(&str, &str); 12] = [
    ("Tab, 1 to 4", "the next table, or this one"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "the other way round"),
    ("/", "show only lines with a text; Esc shows all"),
    ("Up, Down, PgUp, PgDn", "scroll, also with j and k"),
    ("Home, End", "to the first line, to the last"),
    (
        "h",
        "how long what a line sends waits: Up and Down choose the line",
    ),
    ("p, Space", "pause, and go on"),
    ("+ -", "longer, shorter between two looks"),
    ("Ctrl-L", "draw the screen anew"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

const INTERVAL_LEAST: Duration = Duration::from_millis(125);
const INTERVAL_MOST: Duration = Duration::from_secs(60);
const FILTER_MOST: usize = 60;
/// Lines of PgUp and PgDn.
const PAGE: usize = 10;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeyed {
    /// It is shown.
    Shown,
    /// All of the screen is to be drawn anew.
    Redraw,
    /// The view is to end.
    Quit,
}

/// What is shown.
#[derive(Clone, Debug)]
pub struct View {
    kind: Kind,
    /// The column by which each table is sorted.
    sort: [usize; KINDS.len()],
    /// The smallest first.
    is_ascending: bool,
    filter: String,
    /// The filter is being typed.
    is_typing: bool,
    first: usize,
    is_paused: bool,
    has_help: bool,
    /// The delays of one line are shown large.
    has_delays: bool,
    /// Which line that is.
    line: usize,
    interval: Duration,
}

impl View {
    /// The beginning.
    pub fn new(kind: Option<Kind>, filter: &str, interval: Duration) -> View {
        View {
            kind: kind.unwrap_or(Kind::Nodes),
            sort: KINDS.map(Kind::busiest),
            is_ascending: false,
            filter: filter.to_owned(),
            is_typing: false,
            first: 0,
            is_paused: false,
            has_help: false,
            has_delays: false,
            line: 0,
            interval,
        }
    }

    /// Sorts each table that has it by this column, by its heading or its name in JSON. If none has it: those that
    /// there are.
    pub fn sort_by(&mut self, name: &str) -> Result<(), String> {
        let is_it = |column: &Column| [column.heading, column.key].contains(&name);
        let mut is_known = false;
        for kind in KINDS {
            if let Some(at) = kind.columns().iter().position(is_it) {
                self.sort[kind as usize] = at;
                is_known = true;
            }
        }
        if is_known {
            return Ok(());
        }
        let mut known: Vec<&str> = Vec::new();
        for column in KINDS.iter().flat_map(|kind| kind.columns()) {
            if !known.contains(&column.heading) {
                known.push(column.heading);
            }
        }
        Err(known.join(", "))
    }

    /// The table.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The column by which a table is sorted, and whether the smallest comes first.
    pub fn order(&self, kind: Kind) -> (usize, bool) {
        (self.sort[kind as usize], self.is_ascending)
    }

    /// The filter, and whether it is being typed.
    pub fn filter(&self) -> (&str, bool) {
        (&self.filter, self.is_typing)
    }

    /// Whether nothing new is shown.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the keys are shown.
    pub fn has_help(&self) -> bool {
        self.has_help
    }

    /// The line whose delays are shown large, if they are.
    pub fn line(&self) -> Option<usize> {
        self.has_delays.then_some(self.line)
    }

    /// The time between two looks.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The rows of a table that pass the filter, in their order.
    pub fn chosen<'a>(&self, tables: &'a Tables, kind: Kind) -> Vec<&'a Row> {
        let wanted = self.filter.to_lowercase();
        let passes = |row: &&Row| {
            let mut cells = row.cells.iter();
            wanted.is_empty() || cells.any(|cell| cell.text.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&Row> = tables.of(kind).iter().filter(passes).collect();
        let (column, is_ascending) = self.order(kind);
        rows.sort_by(|one, other| {
            let order = compare(&one.cells[column].value, &other.cells[column].value);
            if is_ascending { order } else { order.reverse() }
        });
        rows
    }

    /// The first of `count` rows that is shown where there is room for `room`.
    pub fn first(&mut self, count: usize, room: usize) -> usize {
        if self.has_delays {
            self.line = self.line.min(count.saturating_sub(1));
            let least = (self.line + 1).saturating_sub(room);
            self.first = self.first.clamp(least, self.line.max(least));
        }
        self.first = self.first.min(count.saturating_sub(room));
        self.first
    }

    fn show(&mut self, kind: Kind) {
        self.kind = kind;
        (self.first, self.line) = (0, 0);
    }

    fn move_sort(&mut self, by: isize) {
        let columns = self.kind.columns().len();
        let sort = &mut self.sort[self.kind as usize];
        *sort = sort.saturating_add_signed(by).min(columns - 1);
    }

    /// Does what a key asks for.
    pub fn obey(&mut self, key: &KeyEvent) -> Obeyed {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Obeyed::Quit,
            KeyCode::Char('l') if is_control => return Obeyed::Redraw,
            KeyCode::Char(_) if is_control => {}
            _ if self.is_typing => self.type_filter(key.code),
            KeyCode::Char('q') => return Obeyed::Quit,
            _ if self.has_help => self.has_help = false,
            KeyCode::Tab => self.show(KINDS[(self.kind as usize + 1) % KINDS.len()]),
            KeyCode::BackTab => {
                self.show(KINDS[(self.kind as usize + KINDS.len() - 1) % KINDS.len()]);
            }
            KeyCode::Char(digit @ '1'..='4') => self.show(KINDS[digit as usize - '1' as usize]),
            KeyCode::Char('<') | KeyCode::Left => self.move_sort(-1),
            KeyCode::Char('>') | KeyCode::Right => self.move_sort(1),
            KeyCode::Char('r') => self.is_ascending = !self.is_ascending,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('h') => {
                self.has_delays = !self.has_delays;
                self.line = self.first;
            }
            KeyCode::Esc if self.has_delays => self.has_delays = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MOST),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_LEAST),
            KeyCode::Char('?') => self.has_help = true,
            code => self.scroll(code),
        }
        Obeyed::Shown
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(one) if self.filter.chars().count() < FILTER_MOST => {
                self.filter.push(one)
            }
            _ => {}
        }
        self.first = 0;
    }

    fn scroll(&mut self, code: KeyCode) {
        let at = match self.has_delays {
            true => &mut self.line,
            false => &mut self.first,
        };
        *at = match code {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => at.saturating_add(1),
            KeyCode::PageUp => at.saturating_sub(PAGE),
            KeyCode::PageDown => at.saturating_add(PAGE),
            KeyCode::Home => 0,
            // As far as there is something: see `first`.
            KeyCode::End => usize::MAX - 1,
            _ => *at,
        };
    }
}

/// Numbers by size, texts by alphabet, and what is not known below both.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        _ => {
            let figure = |value: &Value| value.as_f64().unwrap_or(f64::NEG_INFINITY);
            figure(one).total_cmp(&figure(other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::recorded_tables;
    use super::*;

    fn press(view: &mut View, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                other => KeyCode::Char(other),
            };
            let obeyed = view.obey(&KeyEvent::new(code, KeyModifiers::NONE));
            assert_eq!(obeyed, Obeyed::Shown, "{key:?}");
        }
    }

    fn names(view: &View, column: usize) -> Vec<String> {
        let tables = recorded_tables();
        let rows = view.chosen(&tables, view.kind());
        rows.iter()
            .map(|row| row.cells[column].text.clone())
            .collect()
    }

    #[test]
    fn keys_choose_table_order_and_filter() {
        let mut view = View::new(None, "", Duration::from_secs(1));
        press(&mut view, "\t");
        assert_eq!(view.kind(), Kind::Connections);
        view.sort_by("full/s").expect("a column");
        assert_eq!(names(&view, 3), ["slow", "events", "far"]);
        view.sort_by("name").expect("a column");
        press(&mut view, "r");
        assert_eq!(names(&view, 3), ["events", "far", "slow"]);
        press(&mut view, "/SLO\n");
        assert_eq!(names(&view, 3), ["slow"]);
        // What is typed are no keys.
        press(&mut view, "/q");
        assert!(names(&view, 3).is_empty());
        press(&mut view, "\u{1b}4");
        assert_eq!((view.kind(), view.filter().0), (Kind::Sockets, ""));
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(view.obey(&q), Obeyed::Quit);
        let known = view.sort_by("nonsense").expect_err("no column");
        assert!(known.starts_with("pid, command"), "{known}");
    }

    #[test]
    fn a_table_is_scrolled_no_further_than_it_goes() {
        let mut view = View::new(None, "", Duration::from_secs(1));
        let end = KeyEvent::new(KeyCode::End, KeyModifiers::NONE);
        view.obey(&end);
        assert_eq!(view.first(30, 10), 20);
        press(&mut view, "k");
        assert_eq!(view.first(30, 10), 19);
        assert_eq!(view.first(3, 10), 0);
        press(&mut view, "----------");
        assert_eq!(view.interval(), INTERVAL_LEAST);
    }
}
