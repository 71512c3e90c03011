//! What comes before the kind in any command: device, parent.

use alloc::string::String;

use super::super::handle::Handle;
use super::units;
use super::words::{Error, Fault, Word, Words};

/// What comes before the kind in any command.
#[derive(Default)]
pub(super) struct Head {
    device: Option<String>,
    pub(super) root: Option<()>,
    pub(super) parent: Option<Handle>,
}

impl Head {
    /// Takes `keyword` and its value, if it is one of these.
    pub(super) fn take(&mut self, words: &mut Words<'_>, keyword: Word<'_>) -> Result<bool, Error> {
        match keyword.text {
            "dev" => words.fill(&mut self.device, keyword, "a device", |text| {
                Some(text.into())
            })?,
            "root" => words.choice(&mut self.root, keyword, ())?,
            "parent" => words.fill(&mut self.parent, keyword, units::CLASS, units::handle)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn device(&mut self, words: &Words<'_>) -> Result<String, Error> {
        words.require(self.device.take(), "`dev DEVICE`")
    }

    /// The parent, where there must be one.
    pub(super) fn parent(&self, words: &Words<'_>) -> Result<Handle, Error> {
        match self.root {
            Some(()) => Err(words.fault(words.end(), Fault::Missing("`parent CLASS`, not `root`"))),
            None => words.require(self.parent, "`parent CLASS`"),
        }
    }
}
