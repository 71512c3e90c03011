//! The full-screen view: stations, what goes round the ring, packets and lateness. A thread of its own
//! draws, so that drawing makes no packet late.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use barewire_report::number::time;
use barewire_testbed::emulation::{Account, View};
use crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use ratatui::Terminal;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::taps::Tap;
use crate::lab::error::{LabError, Result};
use crate::terminal::TakenTerminal;
use crate::top::backend::Screen;

/// How often it looks at keys, and draws.
const PERIOD: Duration = Duration::from_millis(100);
/// A ring is drawn no narrower.
const COLUMNS_MIN: usize = 20;

/// What is drawn.
struct Moment {
    view: View,
    account: Account,
    lateness_ns: [u64; 3],
}

/// The view, while it has the terminal.
pub struct Live {
    moments: Option<SyncSender<Moment>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    pub fn start(plan: &str, taps: &[Tap]) -> Result<Self> {
        let taken = TakenTerminal::take().map_err(LabError::Terminal)?;
        let mut terminal = Terminal::new(Screen::new()).map_err(LabError::Terminal)?;
        let (moments, coming) = sync_channel::<Moment>(1);
        let is_over = Arc::new(AtomicBool::new(false));
        let says_over = Arc::clone(&is_over);
        let stations: Vec<_> = taps
            .iter()
            .map(|tap| (tap.station(), format!("{} {}", tap.name(), tap.address())))
            .collect();
        let plan = plan.to_owned();
        let draw = move || {
            let _taken = taken;
            loop {
                match coming.recv_timeout(PERIOD) {
                    Ok(moment) => {
                        let drawn = terminal.draw(|frame| {
                            let lines = lines(&plan, &stations, &moment, frame.area().width.into());
                            let lines: Vec<_> = lines.into_iter().map(Line::from).collect();
                            frame.render_widget(Paragraph::new(lines), frame.area());
                        });
                        if drawn.is_err() {
                            break;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if wants_end().unwrap_or(true) {
                    // Relaxed, partner `is_over`: nothing else is ordered with it.
                    says_over.store(true, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().spawn(draw);
        Ok(Self {
            moments: Some(moments),
            is_over,
            thread: Some(thread.map_err(LabError::Terminal)?),
        })
    }

    /// Shows this, unless it is still drawing.
    pub fn show(&self, view: View, account: Account, lateness_ns: [u64; 3]) {
        let moment = Moment {
            view,
            account,
            lateness_ns,
        };
        if let Some(moments) = &self.moments {
            // What finds no room is old soon.
            let _ = moments.try_send(moment);
        }
    }

    /// Whether the user wants it to end.
    pub fn is_over(&self) -> bool {
        // Relaxed, partner the thread that draws.
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.moments = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told.
            let _ = thread.join();
        }
    }
}

fn wants_end() -> io::Result<bool> {
    while poll(Duration::ZERO)? {
        if let Event::Key(key) = read()? {
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The lines of the view.
fn lines(plan: &str, stations: &[(u16, String)], moment: &Moment, width: usize) -> Vec<String> {
    let view = &moment.view;
    let account = &moment.account;
    let columns = width.saturating_sub(4).max(COLUMNS_MIN);
    let column = |place: f64| ((place * columns as f64) as usize).min(columns - 1);
    let row = |marks: &[(usize, char)], empty: char| {
        let mut row = vec![empty; columns];
        for (at, mark) in marks {
            row[*at] = *mark;
        }
        format!("  {}", row.into_iter().collect::<String>())
    };
    let mut lines = vec![format!("{plan}: {}; q ends it", view.what), String::new()];
    let places: Vec<_> = (0..)
        .zip(&view.stations)
        .map(|(number, place)| {
            let digit = char::from_digit(number % 36, 36).unwrap_or('?');
            (column(*place), digit)
        })
        .collect();
    lines.push(row(&places, '─'));
    let slots = view.carriers.iter().map(|(_, slots)| slots.len()).max();
    for slot in 0..slots.unwrap_or(0) {
        let marks: Vec<_> = view
            .carriers
            .iter()
            .filter_map(|(place, slots)| {
                let mark = if *slots.get(slot)? { '█' } else { '·' };
                Some((column(*place), mark))
            })
            .collect();
        lines.push(row(&marks, ' '));
    }
    lines.push(String::new());
    for (number, name) in stations {
        lines.push(format!("  station {number}: {name}"));
    }
    lines.push(String::new());
    for (name, count) in &view.counts {
        lines.push(format!("  {count:>12} {name}"));
    }
    let lost = account.lost_queue_full + account.lost_too_long + account.lost_under_way;
    lines.push(String::new());
    lines.push(format!(
        "  packets: {} taken, {} given out, {lost} lost, {} inside",
        account.taken, account.given, account.inside
    ));
    let [p50, p99, max] = moment.lateness_ns.map(|ns| time(ns as f64));
    lines.push(format!("  lateness: p50 {p50}, p99 {p99}, max {max}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_and_empty_slots_stand_where_they_are() {
        let moment = Moment {
            view: View {
                what: "frames",
                stations: vec![0.0, 0.5],
                carriers: vec![(0.25, vec![true, false]), (0.999, vec![false, false])],
                counts: vec![("cells sent", 12)],
            },
            account: Account::default(),
            lateness_ns: [1000, 2000, 3000],
        };
        let lines = lines("cbn-ping", &[(1, "b".into())], &moment, 24);
        let at = |line: usize, column: usize| lines[line].chars().nth(2 + column);
        assert_eq!((at(2, 0), at(2, 10)), (Some('0'), Some('1')));
        assert_eq!(
            (at(3, 5), at(4, 5), at(3, 19)),
            (Some('█'), Some('·'), Some('·'))
        );
        let text = lines.join("\n");
        assert!(
            text.contains("station 1: b") && text.contains("12 cells sent"),
            "{text}"
        );
        // However narrow.
        assert!(!super::lines("x", &[], &moment, 0).is_empty());
    }
}
