//! Whether the addresses of a configuration can be listened at.

use std::io;

use barewire_proto::evb::{BuilderId, Part};

use super::address::HostPort;
use super::model::{Config, Transport};

/// Tries to listen for a moment at every address of the configuration whose part `daq run` starts on this host
/// itself. What is wrong, with key and value.
#[must_use]
pub fn unusable(config: &Config) -> Vec<String> {
    let mut all = Vec::new();
    if config.transport != Transport::Ring {
        let builders = (0..).map(|it| Some(Part::Builder(BuilderId(it))));
        let builders = config.tcp_builders.iter().zip(builders);
        let builders = builders.filter(|(_, part)| config.start.is_here(*part));
        let manager = config.start.is_here(None).then_some(&config.tcp_manager);
        all.extend(manager.map(|it| ("tcp.manager", it)));
        all.extend(builders.map(|(it, _)| ("tcp.builders", it)));
    }
    let prometheus = config.monitor.prometheus.iter();
    let prometheus = prometheus.filter(|_| config.start.is_here(None));
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
            "it is not an address of this host: the command in [start] says where `daq run` starts the part"
        }
        io::ErrorKind::PermissionDenied => "this user may not listen there",
        _ => "nobody can listen there",
    };
    format!("{key} = \"{address}\": {advice} ({error})")
}
