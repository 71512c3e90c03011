//! The table of systems.

use crate::system::System;
use crate::{cbn, clan, jetstream, kek, network, penn, rdma, workbench};

/// Networks that plans describe.
static NETWORK: network::System = network::System::new();

static ALL: &[&dyn System] = &[
    &cbn::System,
    &clan::System,
    &jetstream::System,
    &kek::System,
    &penn::System,
    &rdma::System,
    &workbench::System,
    &NETWORK,
];

/// Every system there is.
#[must_use]
pub fn systems() -> &'static [&'static dyn System] {
    ALL
}
