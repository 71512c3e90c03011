//! Who is at the other end of a carrier.

use std::fmt;

/// How a peer has proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the key of a certificate that this host trusts.
    Certificate,
    /// By the secret that this host has, too. So it is any of the hosts that have it.
    Secret,
    /// Not at all.
    Nobody,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            How::Certificate => "certificate",
            How::Secret => "secret",
            How::Nobody => "nobody",
        })
    }
}

/// Who is at the other end of a carrier, and how that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Of [`How::Certificate`] the name under which this host trusts it; otherwise the same word
    /// for all: `secret` or `nobody`.
    pub name: String,
    /// How it was proved. Without it the name means nothing.
    pub how: How,
}

impl PeerIdentity {
    /// Of a peer that has proved to have this host's secret.
    pub fn secret() -> PeerIdentity {
        PeerIdentity {
            name: How::Secret.to_string(),
            how: How::Secret,
        }
    }

    /// Of a peer that has proved nothing.
    pub fn nobody() -> PeerIdentity {
        PeerIdentity {
            name: How::Nobody.to_string(),
            how: How::Nobody,
        }
    }
}
