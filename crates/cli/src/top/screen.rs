//! What the live view draws.

use barewire_report::number::prefixed;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};

use super::delays::large;
use super::tables::{KINDS, Kind, Row as Shown, Tables};
use super::view::{KEYS, View};

/// Lines of the field with the delays of one line, with its border.
const DELAYS_LINES: u16 = 18;

/// The whole screen.
pub fn draw(frame: &mut Frame<'_>, tables: &Tables, view: &mut View, has_colours: bool) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .split(frame.area());
    frame.render_widget(Paragraph::new(summary(tables)), areas[0]);
    frame.render_widget(Paragraph::new(tabs(tables, view)), areas[1]);
    let of_delays = match view.line() {
        Some(_) => areas[2].height.saturating_sub(3).min(DELAYS_LINES),
        None => 0,
    };
    let halves = Layout::vertical([Constraint::Min(0), Constraint::Length(of_delays)]);
    let halves = halves.split(areas[2]);
    table(frame, halves[0], tables, view, has_colours);
    if let Some(line) = view.line() {
        delays(frame, halves[1], tables, view, line);
    }
    frame.render_widget(Paragraph::new(last_line(view)), areas[3]);
    if view.has_help() {
        help(frame, areas[2]);
    }
}

/// What all of it comes to.
fn summary(tables: &Tables) -> Line<'static> {
    let rate = |kind, key| prefixed(tables.sum(kind, key));
    let sockets = tables.of(Kind::Sockets);
    let accelerated = sockets.iter().filter(|row| {
        let mut cells = row.cells.iter();
        cells.any(|cell| cell.text == "accelerated")
    });
    let text = match tables.seconds {
        None => "barewire top".to_owned(),
        Some(_) => format!(
            "barewire top  messages {}/s  bytes {}B/s  sockets {} of {} accelerated, {}B/s",
            rate(Kind::Connections, "messages_out_per_second"),
            rate(Kind::Connections, "bytes_out_per_second"),
            accelerated.count(),
            sockets.len(),
            rate(Kind::Sockets, "ring_bytes_out_per_second"),
        ),
    };
    Line::styled(text, Modifier::BOLD)
}

fn tabs(tables: &Tables, view: &View) -> Line<'static> {
    let mut spans = Vec::new();
    for (nth, kind) in KINDS.into_iter().enumerate() {
        let text = format!(" {} {} ({}) ", nth + 1, kind.name(), tables.of(kind).len());
        let style = match kind == view.kind() {
            true => Style::from(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(text, style));
        spans.push(Span::raw(" "));
    }
    if view.is_paused() {
        spans.push(Span::styled("paused", Modifier::BOLD));
    }
    Line::from(spans)
}

/// The last line: the filter if there is one, else the most important keys.
fn last_line(view: &View) -> Line<'static> {
    let (filter, is_typing) = view.filter();
    if is_typing || !filter.is_empty() {
        let cursor = if is_typing { "_" } else { "" };
        return Line::raw(format!("only lines with: {filter}{cursor}  (Esc: all)"));
    }
    Line::raw(format!(
        "q quit  Tab table  < > sort  r reverse  / filter  p pause  + - every {:?}  ? help",
        view.interval()
    ))
}

/// How a row that is marked looks.
fn mark(has_colours: bool) -> Style {
    match has_colours {
        true => Style::new().fg(Color::Yellow),
        false => Style::from(Modifier::UNDERLINED),
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, tables: &Tables, view: &mut View, has_colours: bool) {
    let kind = view.kind();
    let chosen = view.chosen(tables, kind);
    let room = usize::from(area.height.saturating_sub(1));
    let first = view.first(chosen.len(), room);
    let visible: Vec<&Shown> = chosen.into_iter().skip(first).take(room).collect();
    if visible.is_empty() {
        frame.render_widget(Paragraph::new(nothing(kind, tables)), area);
        return;
    }
    let (sorted, is_ascending) = view.order(kind);
    let heading = |at: usize| {
        let mark = match (at == sorted, is_ascending) {
            (false, _) => "",
            (true, false) => "\u{25bc}",
            (true, true) => "\u{25b2}",
        };
        format!("{}{mark}", kind.columns()[at].heading)
    };
    let aligned = |at: usize, text: String| {
        let line = Line::raw(text);
        Cell::from(match kind.columns()[at].is_text {
            true => line,
            false => line.right_aligned(),
        })
    };
    let wanted = |at: usize| {
        let cells = visible.iter().map(|row| row.cells[at].text.chars().count());
        cells.max().unwrap_or(0).max(heading(at).chars().count())
    };
    let widths = widths((0..kind.columns().len()).map(wanted), area.width.into());
    let columns = widths.len();
    let line = view.line();
    let rows = visible.iter().enumerate().map(|(nth, row)| {
        let cells = row.cells[..columns].iter().enumerate();
        let cells = cells.map(|(at, cell)| aligned(at, cell.text.clone()));
        let mut style = if row.is_marked {
            mark(has_colours)
        } else {
            Style::new()
        };
        if line == Some(first + nth) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Row::new(cells).style(style)
    });
    let head = Row::new((0..columns).map(|at| aligned(at, heading(at))));
    let table = Table::new(rows, widths)
        .column_spacing(GAP)
        .header(head.style(Modifier::BOLD));
    frame.render_widget(table, area);
}

/// Columns between two columns.
const GAP: u16 = 2;

/// As wide as the columns want to be, as far as there is room. The last one that fits in part gets the rest.
fn widths(wanted: impl Iterator<Item = usize>, room: usize) -> Vec<Constraint> {
    let mut left = room;
    let mut widths = Vec::new();
    for wanted in wanted {
        if left == 0 {
            break;
        }
        let width = wanted.min(left);
        widths.push(Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
        left = left.saturating_sub(width + usize::from(GAP));
    }
    widths
}

/// What is said of an empty table.
fn nothing(kind: Kind, tables: &Tables) -> &'static str {
    if !tables.of(kind).is_empty() {
        return "no line has that text";
    }
    match kind {
        Kind::Nodes => "no nodes (those of other users are shown to root only)",
        Kind::Connections => "no connections",
        Kind::Hosts => "no links to other hosts",
        Kind::Sockets => "no sockets of programs under `barewire run`",
    }
}

/// The delays of the line that is chosen.
fn delays(frame: &mut Frame<'_>, area: Rect, tables: &Tables, view: &View, line: usize) {
    let kind = view.kind();
    let chosen = view.chosen(tables, kind);
    let Some(row) = chosen.get(line) else {
        return;
    };
    let named = |key: &str| {
        let at = kind.columns().iter().position(|column| column.key == key);
        at.map_or("", |at| &row.cells[at].text)
    };
    let name = [named("name"), named("remote")].concat();
    let title = format!(" what {} sends to {name}: delays of 10 s ", named("pid"));
    let columns = usize::from(area.width.saturating_sub(2));
    let some = row.delays.as_ref().filter(|delays| delays.count() > 0);
    let lines = some.map_or_else(
        || vec![" nothing was sent lately, or the other end cannot be seen".to_owned()],
        |delays| large(delays, columns),
    );
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
    let block = Block::bordered().title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, does)| Line::raw(format!(" {key:<22}{does}")))
        .collect();
    let wanted = Rect {
        height: u16::try_from(lines.len() + 2).unwrap_or(u16::MAX),
        width: 72,
        ..area
    };
    let place = wanted.intersection(area);
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::tables::tests::recorded_tables;
    use super::*;

    /// The screen after some keys: its lines, and the lines that are marked.
    fn drawn(keys: &str, size: (u16, u16), tables: &Tables) -> (Vec<String>, Vec<usize>) {
        let mut view = View::new(None, "", Duration::from_secs(1));
        for key in keys.chars() {
            view.obey(&KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        }
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("no terminal");
        let frame = terminal.draw(|frame| draw(frame, tables, &mut view, true));
        let buffer = frame.expect("drawn").buffer;
        let line = |y: u16| {
            let symbols = (0..size.0).map(|x| buffer[(x, y)].symbol());
            symbols.collect::<String>().trim_end().to_owned()
        };
        let is_marked = |y: &u16| (0..size.0).any(|x| buffer[(x, *y)].fg == Color::Yellow);
        let marked = (0..size.1).filter(is_marked).map(usize::from);
        ((0..size.1).map(line).collect(), marked.collect())
    }

    #[test]
    fn connections_are_drawn_with_rates_and_the_slow_one_marked() {
        let (lines, marked) = drawn("2>>", (190, 8), &recorded_tables());
        let expected = [
            "barewire top  messages 3.00 k/s  bytes 192 kB/s  sockets 2 of 2 accelerated, 2.00 MB/s",
            " 1 nodes (1)   2 connections (3)   3 hosts (1)   4 sockets (2)",
        ];
        assert_eq!(lines[..2], expected, "{lines:#?}");
        assert!(lines[2].contains("full/s▼"), "{lines:#?}");
        assert!(
            lines[3].contains("slow") && lines[3].ends_with("the peer is slow"),
            "{lines:#?}"
        );
        assert_eq!(marked, [3]);
        assert!(
            lines[4].contains("64.0 k") && lines[5].contains("10.0.0.7:7400"),
            "{lines:#?}"
        );
        assert!(lines[7].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn every_table_the_help_and_an_empty_host_are_drawn() {
        let tables = recorded_tables();
        for (keys, text) in [
            ("1", "2.00 k"),
            ("3", "builder-3"),
            ("4", "redis-server"),
            ("?", "the other way round"),
            ("/nonsense", "no line has that text"),
            ("p", "paused"),
            ("2h", "what 4711 sends to events"),
            ("2h", "up to 16.0 us"),
            ("2hj", "nothing was sent lately"),
            ("3h", "nothing was sent lately"),
        ] {
            let (lines, _) = drawn(keys, (160, 20), &tables);
            assert!(
                lines.iter().any(|line| line.contains(text)),
                "{keys}: {lines:#?}"
            );
        }
        let (lines, _) = drawn("4", (80, 10), &Tables::default());
        assert_eq!(lines[2], "no sockets of programs under `barewire run`");
        // Whatever the size.
        for size in [(1, 1), (3, 2), (20, 4), (20, 7), (500, 100)] {
            drawn("?", size, &tables);
            drawn("2hj", size, &tables);
            drawn("4", size, &tables);
        }
    }
}
