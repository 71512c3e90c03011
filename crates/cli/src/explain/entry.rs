//! What there is to say about one code: what it means, whose fault it is, what to do next.

use serde::Serialize;

/// What a code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The name of an error.
    Error,
    /// The state of a socket.
    State,
    /// Why a socket is not upgraded.
    Reason,
    /// With what a command ends.
    ExitCode,
}

impl Kind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::State => "state",
            Kind::Reason => "reason",
            Kind::ExitCode => "exit code",
        }
    }
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing is wrong.
    Nobody,
    /// Whoever made the call, or gave the command.
    Caller,
    /// The other end.
    Peer,
    /// The machine: a limit, memory, the kernel, a sandbox.
    Environment,
    /// One of these; the message says which.
    Various,
}

impl Fault {
    /// A sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Fault::Nobody => "Nobody's.",
            Fault::Caller => "The caller's: the program that made the call, or the command line.",
            Fault::Peer => "The other end's.",
            Fault::Environment => "The machine's: a limit, memory, the kernel or a sandbox.",
            Fault::Various => "The message says whose.",
        }
    }
}

/// What there is to say about a code.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// As people see and type it.
    pub code: &'static str,
    /// What it means.
    pub means: &'static str,
    /// Whose fault it is.
    pub fault: Fault,
    /// What to do next; empty: nothing.
    pub next: &'static str,
    /// The page of the book that says more, with its heading; empty: none.
    pub page: &'static str,
}

/// An entry without a page.
pub const fn entry(
    code: &'static str,
    fault: Fault,
    means: &'static str,
    next: &'static str,
) -> Entry {
    Entry {
        code,
        means,
        fault,
        next,
        page: "",
    }
}

impl Entry {
    /// With the page that says more.
    pub const fn on(mut self, page: &'static str) -> Entry {
        self.page = page;
        self
    }
}

/// Codes of one place.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are.
    pub kind: Kind,
    /// Where they come from, such as `barewire::Error` or `barewire run`.
    pub of: &'static str,
    /// The codes.
    pub entries: &'static [Entry],
}
