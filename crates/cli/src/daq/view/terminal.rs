//! Lines on the terminal, and keys from it.

use std::io::{self, Stdout, Write, stdout};
use std::time::Duration;

use barewire_report::terminal::may_colour;
use crossterm::cursor::MoveTo;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType};

use crate::terminal::{TakenTerminal, terminal_size};

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The run is to be drained.
    Drain,
    /// The same, and if that was asked for before, at once.
    End,
    /// It is to pause, or to go on.
    Pause,
    /// The screen is another one.
    Redraw,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As any text.
    Plain,
    /// A heading.
    Head,
    /// Something is lost.
    Warning,
    /// Something is wrong.
    Error,
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How it looks.
    pub look: Look,
    /// What it says: no control characters, no longer than the screen is wide.
    pub text: String,
}

/// The terminal, while we have it.
pub struct Terminal {
    _taken: TakenTerminal,
    out: Stdout,
    has_colours: bool,
    drawn: Vec<Line>,
}

impl Terminal {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// It is none, or refuses.
    pub fn take() -> io::Result<Self> {
        Ok(Self {
            _taken: TakenTerminal::take()?,
            out: stdout(),
            has_colours: may_colour(),
            drawn: Vec::new(),
        })
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let (columns, lines) = terminal_size();
        (columns.into(), lines.into())
    }

    /// The next key that means something, if one was pressed.
    pub fn key(&mut self) -> Option<Key> {
        while poll(Duration::ZERO).ok()? {
            let meant = match read().ok()? {
                Event::Key(key) => meant(&key),
                Event::Resize(..) => Some(Key::Redraw),
                _ => None,
            };
            if meant.is_some() {
                return meant;
            }
        }
        None
    }

    /// Draws all lines anew the next time.
    pub fn forget(&mut self) {
        self.drawn.clear();
    }

    /// Draws what differs from before.
    ///
    /// # Errors
    ///
    /// The terminal has gone.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.drawn.is_empty() {
            queue!(self.out, Clear(ClearType::All))?;
        }
        for (at, line) in lines.iter().enumerate() {
            if self.drawn.get(at) != Some(line) {
                queue!(self.out, MoveTo(0, u16::try_from(at).unwrap_or(u16::MAX)))?;
                self.put(line)?;
                queue!(self.out, Clear(ClearType::UntilNewLine))?;
            }
        }
        if lines.len() < self.drawn.len() {
            let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(self.out, MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
        }
        self.drawn = lines.to_vec();
        self.out.flush()
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        match (line.look, self.has_colours) {
            (Look::Plain, _) => {}
            (Look::Head, _) => queue!(self.out, SetAttribute(Attribute::Bold))?,
            (Look::Warning, true) => queue!(self.out, SetForegroundColor(Color::Yellow))?,
            (Look::Error, true) => queue!(self.out, SetForegroundColor(Color::Red))?,
            (Look::Warning, false) => queue!(self.out, SetAttribute(Attribute::Underlined))?,
            (Look::Error, false) => queue!(self.out, SetAttribute(Attribute::Reverse))?,
        }
        queue!(self.out, Print(&line.text), SetAttribute(Attribute::Reset))
    }
}

fn meant(key: &KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => Some(Key::End),
        KeyCode::Char('l') if control => Some(Key::Redraw),
        KeyCode::Char('q') => Some(Key::Drain),
        KeyCode::Char('p') => Some(Key::Pause),
        _ => None,
    }
}
