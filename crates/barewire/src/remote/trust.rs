//! What a node's settings say of other hosts, in the form in which it is used.

use std::sync::Arc;

use barewire_carrier::tls::Identity;

use crate::config::{HostsConfig, Security, Transport};

/// How a node makes sure of other hosts, and what carries its links.
#[derive(Clone)]
pub(crate) struct Trust {
    identity: Option<Arc<Identity>>,
    transport: Transport,
}

impl Trust {
    /// As these settings say. Reads the keys.
    ///
    /// # Errors
    /// Why not, for people: nothing is set, or keys or libfabric are missing.
    pub fn new(config: &HostsConfig) -> Result<Trust, String> {
        let identity = match &config.security {
            Security::None => {
                return Err(
                    "HostsConfig::security of this node is None: set it to say how nodes on \
                            other hosts are made sure of"
                        .to_owned(),
                );
            }
            Security::Insecure | Security::InsecureAnywhere => None,
            Security::Keys { folder } => {
                let folder = match folder {
                    Some(folder) => folder.clone(),
                    None => Identity::default_folder().map_err(|error| error.to_string())?,
                };
                let identity = Identity::load(&folder).map_err(|error| error.to_string())?;
                Some(Arc::new(identity))
            }
        };
        super::libfabric::check(&config.transport)?;
        Ok(Trust {
            identity,
            transport: config.transport.clone(),
        })
    }

    /// Who this host is; `None` where nobody proves anything.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    /// Whether links are to move to libfabric.
    pub fn wants_libfabric(&self) -> bool {
        matches!(self.transport, Transport::Libfabric { .. })
    }

    /// The provider of libfabric that is wanted; `None`: the best.
    pub fn provider(&self) -> Option<&str> {
        match &self.transport {
            Transport::Stream => None,
            Transport::Libfabric { provider } => provider.as_deref(),
        }
    }
}
