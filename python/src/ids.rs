//! The numbers by which events name connections and apertures.

use barewire::{ApertureId, ConnectionId};

/// The number of a connection, as Python sees it.
pub fn number(id: ConnectionId) -> u32 {
    u32::try_from(id.index()).unwrap_or(u32::MAX)
}

/// The number of an aperture, as Python sees it.
pub fn aperture_number(id: ApertureId) -> String {
    id.to_string()
}
