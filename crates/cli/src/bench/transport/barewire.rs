//! Barewire itself. The one place of the benchmark that knows its API.

use super::{ClientEnd, ServerEnd};
use crate::bench::control::Control;
use crate::bench::error::{Error, Result};
use crate::bench::plan::ChannelSpec;

/// Why barewire can not be measured; `None` if it can.
pub fn unavailable() -> Option<String> {
    Some("not plugged into the benchmark yet".to_owned())
}

/// Opens the client's end.
pub fn open_client(_: &ChannelSpec, _: &Control) -> Result<Box<dyn ClientEnd>> {
    Err(Error::Transport("barewire is not plugged in yet".into()))
}

/// Opens the server's end.
pub fn open_server(_: &ChannelSpec, _: &Control) -> Result<Box<dyn ServerEnd>> {
    Err(Error::Transport("barewire is not plugged in yet".into()))
}
