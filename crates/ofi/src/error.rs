//! What can go wrong, worded so that a user can act on it.

/// Why there is no fabric, no offer, or no carrier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfiError {
    /// libfabric can not be opened on this machine.
    #[error(
        "libfabric can not be used: {reason}; on Debian and Ubuntu, install the package `libfabric1`"
    )]
    Unavailable {
        /// What the loader says.
        reason: String,
    },
    /// libfabric is here, but has no provider that can do what is needed at this address.
    #[error(
        "libfabric {version} has no provider for connected endpoints at {address}: {tried}; `fi_info -t FI_EP_MSG` \
         lists those that there are (verbs needs a card, its drivers, and the packages `libfabric1` and \
         `ibverbs-providers`)"
    )]
    NoProvider {
        /// The library's version.
        version: String,
        /// Our address.
        address: String,
        /// Each provider that was tried, and what libfabric says.
        tried: String,
    },
    /// An address that can not be used for a link.
    #[error("{address} can not be the address of a link: {reason}")]
    Address {
        /// The address.
        address: String,
        /// Why not.
        reason: &'static str,
    },
    /// The other side's offer is not one, or asks for what is not allowed.
    #[error("the other host's offer of a libfabric connection is wrong: {reason}")]
    Offer {
        /// What is wrong with it.
        reason: String,
    },
    /// The other side uses another provider.
    #[error("the other host offers libfabric's provider `{offered}`, this one uses `{ours}`")]
    OtherProvider {
        /// The offered one.
        offered: String,
        /// The one of this fabric.
        ours: String,
    },
    /// More strangers have connected than are allowed.
    #[error("{count} connections came without the key of this link: the offer is withdrawn")]
    Strangers {
        /// How many.
        count: u32,
    },
    /// Whoever answered does not know the key of this link.
    #[error("who answered at {address} is not the host that made the offer")]
    Impostor {
        /// Where.
        address: String,
    },
    /// libfabric, its provider or the kernel reports a failure.
    #[error("{what}: {reason}")]
    Failed {
        /// What was attempted.
        what: &'static str,
        /// What was reported.
        reason: String,
    },
}

impl OfiError {
    /// A failure of the kernel.
    pub(crate) fn kernel(what: &'static str, errno: rustix::io::Errno) -> OfiError {
        OfiError::Failed {
            what,
            reason: errno.to_string(),
        }
    }
}
