//! The sections `[hosts]` and `[start]`: how links to other hosts are made, and by which commands parts are started
//! there.

use std::path::{Path, PathBuf};
use std::process::Command;

use barewire::{HostsConfig, Policy, Security, Transport};
use barewire_proto::evb::{BuilderId, Part, SourceId};

use super::read::Reader;
use crate::handed;

/// Links to other hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Of each part's node.
    pub node: HostsConfig,
    /// Who may connect to a part.
    pub policy: Policy,
}

/// A command before that of a part, word by word; empty: the part is started here.
type Prefix = Vec<String>;

/// By which commands parts are started on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    manager: Prefix,
    builders: Vec<Prefix>,
    sources: Vec<Prefix>,
    /// The program `barewire` there; `None`: it has the path that it has here.
    program: Option<PathBuf>,
}

impl Start {
    /// The command before that of a part; empty: there is none.
    fn before(&self, part: Option<Part>) -> &[String] {
        let (all, id) = match part {
            None => return &self.manager,
            Some(Part::Builder(BuilderId(id))) => (&self.builders, id),
            Some(Part::Source(SourceId(id))) => (&self.sources, id),
        };
        let at = if all.len() == 1 { 0 } else { usize::from(id) };
        all.get(at).map_or(&[], Vec::as_slice)
    }

    /// Whether a part, `None` for the manager, is started without such a command.
    #[must_use]
    pub fn is_here(&self, part: Option<Part>) -> bool {
        self.before(part).is_empty()
    }

    /// The path of `barewire` where a part is started, which is `here` on this host.
    #[must_use]
    pub fn program<'a>(&'a self, part: Option<Part>, here: &'a Path) -> &'a Path {
        match &self.program {
            Some(there) if !self.is_here(part) => there,
            _ => here,
        }
    }

    /// What runs a program as a part, `None` for the manager, and what it is to be told in place of the path of the
    /// configuration.
    #[must_use]
    pub fn command<'a>(
        &self,
        part: Option<Part>,
        program: &Path,
        config: &'a Path,
    ) -> (Command, &'a Path) {
        match self.before(part) {
            [] => (Command::new(program), config),
            [first, words @ ..] => {
                let mut command = Command::new(first);
                command.args(words);
                command.arg(program);
                (command, Path::new(handed::STANDARD_INPUT))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Proof {
    Keys,
    Insecure,
    InsecureAnywhere,
}

#[derive(Clone, Copy)]
enum Carrier {
    Stream,
    Libfabric,
}

/// Reads `[hosts]`.
pub(super) fn read_hosts(r: &mut Reader, ring_bytes: usize) -> Hosts {
    let folder = Some(r.text("hosts", "keys")).filter(|it| !it.is_empty());
    let proofs = [
        ("keys", Proof::Keys),
        ("insecure", Proof::Insecure),
        ("insecure-anywhere", Proof::InsecureAnywhere),
    ];
    let security = match r.choice("hosts", "security", &proofs) {
        Proof::Keys => Security::Keys {
            folder: folder.map(PathBuf::from),
        },
        Proof::Insecure => Security::Insecure,
        Proof::InsecureAnywhere => Security::InsecureAnywhere,
    };
    let provider = Some(r.text("hosts", "provider")).filter(|it| !it.is_empty());
    let carriers = [
        ("stream", Carrier::Stream),
        ("libfabric", Carrier::Libfabric),
    ];
    let transport = match r.choice("hosts", "carrier", &carriers) {
        Carrier::Stream => Transport::Stream,
        Carrier::Libfabric => Transport::Libfabric { provider },
    };
    let trusted = r.list("hosts", "trusted");
    let policy = trusted.iter();
    Hosts {
        node: HostsConfig {
            security,
            transport,
            ring_bytes,
            ..HostsConfig::default()
        },
        policy: policy.fold(Policy::same_user(), |policy, name| {
            policy.and_certificate(name)
        }),
    }
}

/// Reads `[start]`.
pub(super) fn read_start(r: &mut Reader, sources: u16, builders: u16) -> Start {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let mut prefixes = |key, parts: u16| -> Vec<Prefix> {
        let all = r.list("start", key);
        if !matches!(all.len(), 0 | 1) && all.len() != usize::from(parts) {
            let wanted = format!("expected one command for all, or {parts}, one for each");
            r.fault("start", key, wanted);
        }
        all.iter().map(|it| words(it)).collect()
    };
    let (builders, sources) = (prefixes("builders", builders), prefixes("sources", sources));
    let program = Some(r.text("start", "program")).filter(|it| !it.is_empty());
    Start {
        manager: words(&r.text("start", "manager")),
        builders,
        sources,
        program: program.map(PathBuf::from),
    }
}
