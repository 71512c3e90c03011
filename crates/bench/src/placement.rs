//! On which processors the two processes run.

use barewire_sys::process::allowed_cpus;

use crate::error::{Error, Result};

/// Where the two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each on its own processor: client, server.
    Pinned(usize, usize),
    /// Where the system puts them.
    Free,
    /// There is only one processor.
    OneProcessor,
}

impl Placement {
    /// Chooses two processors, or takes those that were asked for.
    pub fn choose(asked_for: &[usize], no_pin: bool) -> Result<Placement> {
        let allowed = allowed_cpus();
        if !matches!(asked_for.len(), 0 | 2) {
            return Err(Error::Usage("--cpus: two processors, such as 0,1".into()));
        }
        if let &[client, server] = asked_for {
            if client == server {
                return Err(Error::Usage("--cpus: two different processors".into()));
            }
            if let Some(bad) = [client, server].iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(Error::Usage(format!(
                    "--cpus: processor {bad} is not among those this process may use: {allowed:?}"
                )));
            }
            return Ok(Placement::Pinned(client, server));
        }
        Ok(match allowed.as_slice() {
            [] | [_] => Placement::OneProcessor,
            _ if no_pin => Placement::Free,
            &[client, server, ..] => Placement::Pinned(client, server),
        })
    }

    /// In words, for the environment record.
    pub fn describe(self) -> String {
        match self {
            Placement::Pinned(client, server) => {
                format!("client pinned to processor {client}, server to processor {server}")
            }
            Placement::Free => "not pinned (as asked)".to_owned(),
            Placement::OneProcessor => {
                "not pinned: there is only one processor, so every figure includes \
                 switching between the two processes"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements() {
        let allowed = allowed_cpus();
        let error = Placement::choose(&[0, 0], false).unwrap_err();
        assert!(error.to_string().contains("different"));
        let error = Placement::choose(&[allowed[0], 99_999], false).unwrap_err();
        assert!(error.to_string().contains("99999"));
        if allowed.len() >= 2 {
            assert_eq!(
                Placement::choose(&[], false).unwrap(),
                Placement::Pinned(allowed[0], allowed[1])
            );
            assert_eq!(Placement::choose(&[], true).unwrap(), Placement::Free);
        }
    }
}
