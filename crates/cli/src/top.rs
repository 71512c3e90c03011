//! `barewire top`: a live view of all nodes, connections, links to other hosts and sockets of unmodified programs, with
//! rates. On what is no terminal: the same as text, or as JSON.
//!
//! Nothing in the network takes the time of a message. How long what a connection sends waits is found out from outside,
//! by probes of its counters (`delay.rs`), while this command runs. The round trip of a link to another host is measured
//! by signs of life.

pub mod backend;
mod cell;
mod delays;
mod plain;
mod screen;
mod tables;
mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use barewire_daq::signals;
use barewire_report::columns::PrintError;
use barewire_report::terminal::{may_colour, may_redraw};
use clap::Args;
use crossterm::event::{Event, KeyEventKind, poll, read};
use ratatui::Terminal;

use crate::delay::Prober;
use crate::sample::Sample;
use crate::stat::seconds;
use crate::terminal::TakenTerminal;
use backend::Screen;
use tables::{Kind, Tables};
use view::{Obeyed, View};

/// Show all nodes, connections, links to other hosts and accelerated sockets, live
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  barewire top                            the live view; ? shows its keys
  barewire top --table sockets            begin with the sockets of programs under `run`
  barewire top --filter redis --sort 'bytes out/s'
  barewire top --once                     one snapshot as text
  barewire top --json --count 60          a minute, one JSON object a line
On what is no terminal, snapshots are printed as text, with --json as JSON. Run it as
root to see the processes of all users.")]
pub struct TopArgs {
    /// Begin with this table; as text or JSON: only this table
    #[arg(long, value_enum)]
    pub table: Option<Kind>,
    /// Sort by this column, the largest first [default: what is busiest]
    #[arg(long, value_name = "COLUMN")]
    pub sort: Option<String>,
    /// Show only lines that have this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Seconds between two snapshots
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    pub interval: Duration,
    /// Print one snapshot as text, or with --json as JSON
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// Print N snapshots as text, or with --json as JSON
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print JSON: one object a line for each snapshot
    #[arg(long)]
    pub json: bool,
}

/// Why nothing is shown.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// No table has this column.
    #[error("no column `{name}`; there are: {known}")]
    NoColumn {
        /// The column.
        name: String,
        /// Those of the table.
        known: String,
    },
    /// The terminal refuses something.
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// There is no thread that probes.
    #[error("start a thread: {0}")]
    Prober(io::Error),
    /// Standard output takes no more.
    #[error(transparent)]
    Print(#[from] PrintError),
}

impl TopError {
    /// Whether an option is to blame.
    pub fn is_usage(&self) -> bool {
        matches!(self, TopError::NoColumn { .. })
    }
}

/// How often the keys and signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Between the first two samples, so that there are rates soon.
const FIRST: Duration = Duration::from_millis(200);

/// Two samples, what has changed between them, and how long what was sent meanwhile waited.
struct Watch {
    before: Option<(Instant, Sample)>,
    prober: Prober,
}

impl Watch {
    fn start() -> Result<Watch, TopError> {
        Ok(Watch {
            before: None,
            prober: Prober::start().map_err(TopError::Prober)?,
        })
    }

    /// Looks now, and says what has changed since the last time.
    fn tables(&mut self) -> Tables {
        let (at, now) = (Instant::now(), Sample::take());
        let before = self.before.as_ref();
        let before = before.map(|(then, sample)| (sample, (at - *then).as_secs_f64().max(1e-6)));
        let tables = Tables::new(&now, before, &self.prober.follow(&now));
        self.before = Some((at, now));
        tables
    }
}

/// Shows them.
///
/// # Errors
/// There is no such column or no thread, the terminal refuses something, or standard output takes no more.
pub fn run(args: &TopArgs) -> Result<(), TopError> {
    let mut view = View::new(args.table, &args.filter, args.interval);
    if let Some(name) = &args.sort {
        let known = view.sort_by(name);
        known.map_err(|known| TopError::NoColumn {
            name: name.clone(),
            known,
        })?;
    }
    let mut watch = Watch::start()?;
    let count = if args.once { Some(1) } else { args.count };
    let is_live = may_redraw(&io::stdout()) && io::stdin().is_terminal();
    if !is_live || args.json || count.is_some() {
        watch.tables();
        for _ in 0..count.unwrap_or(u64::MAX) {
            std::thread::sleep(args.interval);
            plain::print_tables(&watch.tables(), &view, args.table, args.json)?;
        }
        return Ok(());
    }
    live(&mut watch, &mut view)
}

fn live(watch: &mut Watch, view: &mut View) -> Result<(), TopError> {
    signals::listen()?;
    let has_colours = may_colour();
    let taken = TakenTerminal::take()?;
    let mut terminal = Terminal::new(Screen::new())?;
    let mut tables = watch.tables();
    let mut next = Instant::now() + FIRST;
    while signals::asked() == 0 {
        terminal.draw(|frame| screen::draw(frame, &tables, view, has_colours))?;
        let left = next.saturating_duration_since(Instant::now());
        if poll(left.min(LOOK))? {
            match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match view.obey(&key) {
                    Obeyed::Shown => {}
                    Obeyed::Redraw => terminal.clear()?,
                    Obeyed::Quit => break,
                },
                Event::Resize(..) => terminal.autoresize()?,
                _ => {}
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + view.interval();
            if !view.is_paused() {
                tables = watch.tables();
            }
        }
    }
    drop(taken);
    Ok(())
}
