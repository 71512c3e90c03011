//! A host in the handshake between hosts, and a stranger who says anything, or changes what an
//! honest peer says.
#![no_main]

use std::sync::OnceLock;

use barewire_carrier::tls::fuzzing::{Hosts, stranger};
use libfuzzer_sys::fuzz_target;

static HOSTS: OnceLock<Hosts> = OnceLock::new();

fn hosts() -> Hosts {
    let name = format!("barewire-fuzz-{}", std::process::id());
    Hosts::new(&std::env::temp_dir().join(name))
}

fuzz_target!(|data: &[u8]| stranger(HOSTS.get_or_init(hosts), data));
