//! The table of systems.

use crate::system::System;
use crate::{cbn, clan, jetstream, kek, penn, rdma, workbench};

/// Every system there is.
#[must_use]
pub fn systems() -> &'static [&'static dyn System] {
    &[
        &cbn::System,
        &clan::System,
        &jetstream::System,
        &kek::System,
        &penn::System,
        &rdma::System,
        &workbench::System,
    ]
}
