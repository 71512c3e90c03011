//! Every suite over every fabric that stands.

use barewire_conformance::fabrics::broken::SOUND;
use barewire_conformance::fabrics::card::Card;
use barewire_conformance::fabrics::carriers::{OfiTcp, Tcp, Tls};
use barewire_conformance::fabrics::network::Network;
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

passes!(network_spinning: Network<true, false> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(network_sleeping: Network<false, false> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(hosts_spinning: Network<true, true> {
    memory_of_apertures: memory::cases,
    tripwires: tripwire::cases,
    tripwires_on_owners: waiting::cases,
    event_queues: events::cases,
    connections: transport::cases,
    streams: transport::stream_cases,
});

passes!(hosts_sleeping: Network<false, true> {
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

#[test]
fn carrier_over_libfabric() {
    if OfiTcp::is_there("carrier_over_libfabric") {
        check::<OfiTcp>(&carrier::cases::<OfiTcp>());
    }
}
