//! Which programs of a scenario are given the library.

/// Which programs are given the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// None: what is right.
    Plain,
    /// All of them.
    Preloaded,
    /// Those that serve, and not their clients.
    ServerOnly,
    /// Those that connect, and not their servers.
    ClientOnly,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [
        Self::Plain,
        Self::Preloaded,
        Self::ServerOnly,
        Self::ClientOnly,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Preloaded => "preloaded",
            Self::ServerOnly => "server-only",
            Self::ClientOnly => "client-only",
        }
    }

    /// Its mark in the name of a folder.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Plain => 'p',
            Self::Preloaded => 'l',
            Self::ServerOnly => 's',
            Self::ClientOnly => 'c',
        }
    }

    /// Whether the environment asks for it.
    pub(crate) fn is_wanted(self) -> bool {
        std::env::var("BAREWIRE_PROGRAMS_MODES").map_or(true, |names| {
            names.split(',').any(|name| name == self.name())
        })
    }
}
