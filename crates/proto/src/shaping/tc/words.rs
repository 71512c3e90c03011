//! The words of a command line, each with its column, and what can be wrong.

use alloc::string::String;
use alloc::vec::Vec;

use super::super::problem::Problem;

/// What is wrong with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Something else should stand there.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The command ends without something that it needs.
    #[error("the command needs {0}")]
    Missing(&'static str),
    /// The option, or one that excludes it, stood before.
    #[error("said twice, or excluded by what stood before")]
    Twice,
    /// Two matches demand different values of the same bits.
    #[error("no packet can match this and what stood before")]
    Contradiction,
    /// The command is well formed, and does not fit the tree.
    #[error("{0}")]
    Tree(Problem),
}

/// A word that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {}: {fault}", quoted(word))]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Column of the first character of the word, from 1.
    pub column: usize,
    /// The word; empty at the end of the line.
    pub word: String,
    /// What is wrong with it.
    pub fault: Fault,
}

fn quoted(word: &str) -> String {
    match word {
        "" => "end of line".into(),
        _ => alloc::format!("`{word}`"),
    }
}

/// A word and its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    column: usize,
}

/// The words of a line.
pub(super) struct Words<'a> {
    line: usize,
    words: Vec<Word<'a>>,
    at: usize,
    end_column: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: usize, text: &'a str) -> Self {
        let text = text.split('#').next().unwrap_or("").trim_end();
        let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        // Each character is counted once, however many words there are.
        let (mut byte, mut column) = (0, 1);
        let words = text.split_whitespace().map(|word| {
            column += text[byte..start(word)].chars().count();
            byte = start(word);
            Word { text: word, column }
        });
        let words = words.collect();
        Self {
            line,
            words,
            at: 0,
            end_column: text.chars().count() + 1,
        }
    }

    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.at).copied()
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// The place behind the last word.
    pub(super) fn end(&self) -> Word<'a> {
        Word {
            text: "",
            column: self.end_column,
        }
    }

    /// The next word; `expected` says what it should be.
    pub(super) fn next(&mut self, expected: &'static str) -> Result<Word<'a>, Error> {
        let Some(word) = self.peek() else {
            return Err(self.unexpected(self.end(), expected));
        };
        self.skip();
        Ok(word)
    }

    pub(super) fn expect(&mut self, text: &str, expected: &'static str) -> Result<(), Error> {
        let word = self.next(expected)?;
        match word.text == text {
            true => Ok(()),
            false => Err(self.unexpected(word, expected)),
        }
    }

    /// The next word, as a value.
    pub(super) fn value<T>(
        &mut self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let word = self.next(expected)?;
        parse(word.text).ok_or_else(|| self.unexpected(word, expected))
    }

    /// Reads the value of the option `keyword`.
    pub(super) fn fill<T>(
        &mut self,
        slot: &mut Option<T>,
        keyword: Word<'_>,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(), Error> {
        if slot.is_some() {
            return Err(self.fault(keyword, Fault::Twice));
        }
        *slot = Some(self.value(expected, parse)?);
        Ok(())
    }

    /// Notes the option `keyword`, which has no value and stands for `choice`.
    pub(super) fn choice<T>(
        &self,
        slot: &mut Option<T>,
        keyword: Word<'_>,
        choice: T,
    ) -> Result<(), Error> {
        match slot.replace(choice) {
            None => Ok(()),
            Some(_) => Err(self.fault(keyword, Fault::Twice)),
        }
    }

    /// The value of an option that must have been given.
    pub(super) fn require<T>(&self, slot: Option<T>, needed: &'static str) -> Result<T, Error> {
        slot.ok_or_else(|| self.fault(self.end(), Fault::Missing(needed)))
    }

    pub(super) fn unexpected(&self, word: Word<'_>, expected: &'static str) -> Error {
        self.fault(word, Fault::Expected(expected))
    }

    pub(super) fn fault(&self, word: Word<'_>, fault: Fault) -> Error {
        Error {
            line: self.line,
            column: word.column,
            word: word.text.into(),
            fault,
        }
    }
}
