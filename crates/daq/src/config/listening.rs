//! Whether the addresses of a configuration can be listened at.

use std::io;

use super::address::HostPort;
use super::model::{Config, Transport};

/// Tries to listen at every address of the configuration for a moment: `daq run` has all parts on
/// this host. What is wrong, with key and value.
#[must_use]
pub fn unusable(config: &Config) -> Vec<String> {
    let mut all = Vec::new();
    if config.transport == Transport::Tcp {
        all.push(("tcp.manager", &config.tcp_manager));
        all.extend(config.tcp_builders.iter().map(|it| ("tcp.builders", it)));
    }
    let prometheus = config.monitor.prometheus.iter();
    all.extend(prometheus.map(|it| ("monitor.prometheus", it)));
    // All at once: two keys may name the same address in two ways.
    let tried: Vec<_> = all.iter().map(|(key, it)| (key, it, it.listen())).collect();
    tried
        .iter()
        .filter_map(|(key, address, listener)| {
            let error = listener.as_ref().err()?;
            Some(fault(key, address, error))
        })
        .collect()
}

/// That nobody can listen at an address, and what to do.
#[must_use]
pub fn fault(key: &str, address: &HostPort, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another run or another program listens there: choose another port"
        }
        io::ErrorKind::AddrNotAvailable => {
            "it is not an address of this host: `daq run` starts all parts here"
        }
        io::ErrorKind::PermissionDenied => "this user may not listen there",
        _ => "nobody can listen there",
    };
    format!("{key} = \"{address}\": {advice} ({error})")
}
