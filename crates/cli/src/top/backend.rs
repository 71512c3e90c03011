//! What ratatui draws, to a terminal by crossterm. Its own backend is for an older crossterm than ours.

use std::io::{self, BufWriter, Stdout, Write, stdout};

use crossterm::cursor::{Hide, MoveTo, Show, position};
use crossterm::style::{
    Attribute, Color as TerminalColor, Print, SetAttribute, SetForegroundColor,
};
use crossterm::terminal::{Clear, ClearType};
use crossterm::{execute, queue};
use ratatui::backend::{Backend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

use crate::terminal::terminal_size;

/// Standard output, as ratatui draws on it.
pub struct Screen(BufWriter<Stdout>);

impl Screen {
    /// Standard output, which is a terminal.
    pub fn new() -> Screen {
        Screen(BufWriter::new(stdout()))
    }
}

/// The looks that `screen.rs` uses, and no others.
const MODIFIERS: [(Modifier, Attribute); 3] = [
    (Modifier::BOLD, Attribute::Bold),
    (Modifier::REVERSED, Attribute::Reverse),
    (Modifier::UNDERLINED, Attribute::Underlined),
];

fn colour(colour: Color) -> TerminalColor {
    match colour {
        Color::Red => TerminalColor::Red,
        Color::Yellow => TerminalColor::Yellow,
        Color::Green => TerminalColor::Green,
        _ => TerminalColor::Reset,
    }
}

impl Backend for Screen {
    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut look = (Color::Reset, Modifier::empty());
        let mut next = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                queue!(self.0, MoveTo(x, y))?;
            }
            next = Some((x + 1, y));
            if look != (cell.fg, cell.modifier) {
                look = (cell.fg, cell.modifier);
                queue!(self.0, SetAttribute(Attribute::Reset))?;
                if colour(cell.fg) != TerminalColor::Reset {
                    queue!(self.0, SetForegroundColor(colour(cell.fg)))?;
                }
                let wanted = MODIFIERS.iter().filter(|it| cell.modifier.contains(it.0));
                for (_, attribute) in wanted {
                    queue!(self.0, SetAttribute(*attribute))?;
                }
            }
            queue!(self.0, Print(cell.symbol()))?;
        }
        queue!(self.0, SetAttribute(Attribute::Reset))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        execute!(self.0, Hide)
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        execute!(self.0, Show)
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        position().map(Position::from)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        execute!(self.0, MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        execute!(self.0, Clear(ClearType::All))
    }

    fn size(&self) -> io::Result<Size> {
        Ok(Size::from(terminal_size()))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size()?,
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
