//! Why the kernel cannot shape.

/// Why the kernel cannot shape.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// Not root.
    #[error(
        "{0} cannot be shaped without CAP_NET_ADMIN: run as root, or take flow.control = \"bucket\", \
         which needs nothing of the kernel"
    )]
    NotAllowed(String),
    /// No HTB.
    #[error(
        "this kernel has no HTB: load it (modprobe sch_htb), or take flow.control = \"bucket\", \
         which needs nothing of the kernel"
    )]
    NoHtb,
    /// Somebody else's queue is there.
    #[error(
        "{interface} already has a queue `{kind}` with handle {handle:x}:, which is not ours: remove it \
         (tc qdisc del dev {interface} root), or take flow.control = \"bucket\""
    )]
    Taken {
        /// Where.
        interface: String,
        /// What it is.
        kind: String,
        /// Its number.
        handle: u16,
    },
    /// Another run shapes there.
    #[error("{interface} is shaped for the run `{run}` now: wait for its end")]
    OtherRun {
        /// Where.
        interface: String,
        /// Its name.
        run: String,
    },
    /// The system says no.
    #[error("{what}: {error}")]
    System {
        /// What was done.
        what: String,
        /// What it said.
        error: std::io::Error,
    },
}

/// An error of the system, with what was done.
pub(super) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> ShapeError {
    let what = what.into();
    move |error| ShapeError::System { what, error }
}
