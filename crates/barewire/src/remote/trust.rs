//! What a node's settings say of other hosts, in the form in which it is used.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire_carrier::tls::Identity;

use crate::config::{HostsConfig, Security, Transport};

/// How long keys that were read are used for further links. A stranger who connects over and over again must not have
/// us read files over and over again.
const KEYS_TIME: Duration = Duration::from_secs(1);

/// Keys in a folder. They are read again from time to time, so that a certificate that was added counts, and one that was
/// taken away does not.
struct Keys {
    folder: PathBuf,
    read: Mutex<(Instant, Result<Identity, String>)>,
}

impl Keys {
    fn new(folder: PathBuf) -> Result<Keys, String> {
        let identity = load(&folder)?;
        let read = Mutex::new((Instant::now(), Ok(identity)));
        Ok(Keys { folder, read })
    }

    /// The keys as they are now. An error if they can not be read any more: what they were may have been taken back.
    fn identity(&self) -> Result<Identity, String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.0.elapsed() > KEYS_TIME {
            *read = (Instant::now(), load(&self.folder));
        }
        read.1.clone()
    }
}

fn load(folder: &Path) -> Result<Identity, String> {
    Identity::load(folder).map_err(|error| error.to_string())
}

/// How a node makes sure of other hosts, and what carries its links.
#[derive(Clone)]
pub(crate) struct Trust {
    keys: Option<Arc<Keys>>,
    transport: Transport,
}

impl Trust {
    /// As these settings say. Reads the keys.
    ///
    /// # Errors
    /// Why not, for people: nothing is set, or keys or libfabric are missing.
    pub fn new(config: &HostsConfig) -> Result<Trust, String> {
        let keys = match &config.security {
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
                Some(Arc::new(Keys::new(folder)?))
            }
        };
        super::libfabric::check(&config.transport)?;
        Ok(Trust {
            keys,
            transport: config.transport.clone(),
        })
    }

    /// Who this host is, and whom it trusts; `None` where nobody proves anything.
    ///
    /// # Errors
    /// The keys can not be read any more.
    pub fn identity(&self) -> Result<Option<Identity>, String> {
        self.keys.as_deref().map(Keys::identity).transpose()
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
