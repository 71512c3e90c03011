//! The live view of `barewire daq run`: the whole terminal, while the run runs.
//!
//! A thread looks at the run as an operator does, five times a second; what the processes
//! write to standard error goes into the log of the view. The terminal is given back when the
//! view ends, whichever way: by the end of the run, an error, or a panic.

mod screen;
mod terminal;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barewire_daq::config::Config;
use barewire_daq::launch::{Role, Watcher};
use barewire_daq::monitor::{View, unix_s};
use barewire_daq::part::{Operator, PartError};
use barewire_daq::signals;
use barewire_daq::wire::Control;
use barewire_proto::evb::{Command, RunState};
use barewire_report::terminal::may_redraw;

use screen::Screen;
use terminal::{Key, Terminal};

/// How often the run is looked at, and drawn.
const PERIOD: Duration = Duration::from_millis(200);
/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Lines of the log that are kept.
const LINES_KEPT: usize = 500;
/// Lines that are left on the terminal at the end.
const LINES_LEFT: usize = 20;

/// What the threads have found out.
#[derive(Default)]
struct Found {
    view: Option<View>,
    log: VecDeque<String>,
    answer: String,
}

impl Found {
    fn say(&mut self, line: String) {
        self.log.push_back(line);
        if self.log.len() > LINES_KEPT {
            self.log.pop_front();
        }
    }
}

type Shared = Arc<Mutex<Found>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Found> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is a terminal to draw on and to read keys from.
pub fn is_possible() -> bool {
    may_redraw(&io::stdout()) && io::stdin().is_terminal()
}

/// The view, while it has the terminal.
pub struct Live {
    terminal: Terminal,
    screen: Screen,
    shared: Shared,
    orders: Sender<Control>,
    /// The end of the pipe that processes write their errors to.
    errors: OwnedFd,
    reader: JoinHandle<()>,
    next_draw: Instant,
    drains: bool,
    /// Signals that were passed on.
    passed_on: u32,
}

impl Live {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// The terminal or the system refuses something.
    pub fn start(config: &Config) -> io::Result<Self> {
        let shared = Shared::default();
        let (from, errors) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (orders, wanted) = channel();
        let own = (config.clone(), Arc::clone(&shared));
        std::thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || look(&own.0, &own.1, &wanted))?;
        let own = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("errors".to_owned())
            .spawn(move || {
                let lines = BufReader::new(File::from(from)).lines();
                for line in lines.map_while(Result::ok) {
                    lock(&own).say(line);
                }
            })?;
        Ok(Self {
            terminal: Terminal::take()?,
            screen: Screen::new(config),
            shared,
            orders,
            errors,
            reader,
            next_draw: Instant::now(),
            drains: false,
            passed_on: signals::asked(),
        })
    }

    /// Gives each process a place to write its errors to.
    ///
    /// # Errors
    ///
    /// There are no more descriptors.
    pub fn errors(&self) -> io::Result<impl Fn() -> Stdio + use<>> {
        let errors = self.errors.try_clone()?;
        // Without a descriptor its errors are not seen.
        Ok(move || {
            errors
                .try_clone()
                .map_or_else(|_| Stdio::null(), Stdio::from)
        })
    }

    /// Gives the terminal back; what the log said last.
    pub fn end(self) -> Vec<String> {
        drop(self.terminal);
        drop(self.errors);
        // All that could write have ended.
        let _ = self.reader.join();
        let log = &lock(&self.shared).log;
        let skipped = log.len().saturating_sub(LINES_LEFT);
        log.iter().skip(skipped).cloned().collect()
    }

    /// Does what a key asks for; whether that is the end of the run.
    fn obey(&mut self, key: Key) -> bool {
        let paused = |view: &View| view.picture.state == RunState::Paused;
        match key {
            Key::End => return true,
            // The second time does not abort: that takes a Ctrl-C.
            Key::Drain => return !core::mem::replace(&mut self.drains, true),
            Key::Pause => {
                let command = match lock(&self.shared).view.as_ref().is_some_and(paused) {
                    true => Command::Resume,
                    false => Command::Pause,
                };
                // The other end goes with the process.
                let _ = self.orders.send(Control::Order { command });
            }
            Key::Redraw => self.terminal.forget(),
        }
        self.next_draw = Instant::now();
        false
    }

    fn draw(&mut self) {
        let (width, height) = self.terminal.size();
        let found = lock(&self.shared);
        let log = found.log.iter().map(String::as_str);
        let view = found.view.as_ref();
        let lines = self
            .screen
            .lines(view, log, &found.answer, (width, height), unix_s());
        drop(found);
        // A terminal that has gone has nobody before it.
        let _ = self.terminal.draw(&lines);
    }
}

impl Watcher for Live {
    fn said(&mut self, role: Role, what: &str, pid: u32) {
        lock(&self.shared).say(format!("{} {what}: process {pid}", role.name()));
    }

    fn turn(&mut self) -> u32 {
        let asked = signals::asked();
        let mut ends = asked - self.passed_on;
        self.passed_on = asked;
        while let Some(key) = self.terminal.key() {
            ends += u32::from(self.obey(key));
        }
        if Instant::now() >= self.next_draw {
            self.next_draw = Instant::now() + PERIOD;
            self.draw();
        }
        ends
    }
}

/// Looks at the run as long as the process lives, and gives it orders.
fn look(config: &Config, shared: &Shared, orders: &Receiver<Control>) {
    let mut log_from = 0;
    loop {
        let Ok(mut operator) = Operator::connect(config) else {
            // The manager is not there yet, or no more.
            std::thread::sleep(PERIOD);
            continue;
        };
        while let Ok(view) = operator.look(log_from, PATIENCE) {
            log_from = view.log_from + view.log.len() as u64;
            let mut found = lock(shared);
            view.log.iter().for_each(|line| found.say(line.clone()));
            found.view = Some(view);
            drop(found);
            let Ok(order) = orders.recv_timeout(PERIOD) else {
                continue;
            };
            match operator.order(&order, PATIENCE) {
                Ok(answer) | Err(PartError::Refused(answer)) => lock(shared).answer = answer,
                Err(_) => break,
            }
        }
    }
}
