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

passes!(network_spinning: Network<true, MEMORY> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(network_sleeping: Network<false, MEMORY> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(hosts_spinning: Network<true, TCP> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(hosts_sleeping: Network<false, TCP> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(hosts_over_tls: Network<false, TLS> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

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

passes_with_libfabric!(hosts_over_libfabric: Network<true, LIBFABRIC> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

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
