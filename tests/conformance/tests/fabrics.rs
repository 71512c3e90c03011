//! Every suite over every fabric that stands.

use barewire_conformance::fabrics::broken::SOUND;
use barewire_conformance::fabrics::card::Card;
use barewire_conformance::fabrics::carriers::{OfiTcp, Tcp, Tls};
use barewire_conformance::fabrics::network::{LIBFABRIC, MEMORY, Network, TCP, TLS};
use barewire_conformance::fabrics::private::Private;
use barewire_conformance::fabrics::rdma::Rdma;
use barewire_conformance::fabrics::shared::Shared;
use barewire_conformance::{
    carrier, check, doorbell, events, memory, queue, transport, tripwire, waiting, window,
};

/// A module of tests for a fabric: one per suite that it has to pass.
macro_rules! passes {
    ($name:ident: $fabric:ty { $($test:ident: $suite:ident::$cases:ident),* $(,)? }) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() { check::<$fabric>(&$suite::$cases::<$fabric>()); })*
        }
    };
}

/// As `passes!`, if libfabric is installed.
macro_rules! passes_with_libfabric {
    ($name:ident: $fabric:ty { $($test:ident: $suite:ident::$cases:ident),* $(,)? }) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() {
                if OfiTcp::is_there(concat!(stringify!($name), "::", stringify!($test))) {
                    check::<$fabric>(&$suite::$cases::<$fabric>());
                }
            })*
        }
    };
}

/// What two nodes of crate `barewire` have to pass, whatever lies between them.
macro_rules! nodes_pass {
    ($passes:ident, $name:ident: $fabric:ty) => {
        $passes!($name: $fabric {
            memory_of_apertures: memory::cases,
            tripwires: tripwire::cases,
            tripwires_on_owners: waiting::cases,
            event_queues: events::cases,
            connections: transport::cases,
            streams: transport::stream_cases,
        });
    };
}

passes!(private: Private<SOUND> {
    windows: window::cases,
    queues: queue::cases,
    doorbells: doorbell::cases,
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(shared_memory: Shared {
    windows: window::cases,
    queues: queue::cases,
    doorbells: doorbell::cases,
});

nodes_pass!(passes, network_spinning: Network<true, MEMORY>);
nodes_pass!(passes, network_sleeping: Network<false, MEMORY>);
nodes_pass!(passes, hosts_spinning: Network<true, TCP>);
nodes_pass!(passes, hosts_sleeping: Network<false, TCP>);
nodes_pass!(passes, hosts_over_tls: Network<false, TLS>);
nodes_pass!(passes_with_libfabric, hosts_over_libfabric: Network<true, LIBFABRIC>);

passes!(simulated_card: Card {
    windows: window::cases,
    queues: queue::cases,
    doorbells: doorbell::cases,
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(simulated_rdma_card: Rdma {
    windows: window::cases,
    queues: queue::cases,
});

passes!(carrier_over_tcp: Tcp {
    carriers: carrier::cases,
});

passes!(carrier_over_tls: Tls {
    carriers: carrier::cases,
});

passes_with_libfabric!(carrier_over_libfabric: OfiTcp {
    carriers: carrier::cases,
});
