//! libfabric's objects. Each begins with what libfabric knows of it; the rest is this crate's.

pub(crate) mod atomic;
pub(crate) mod av;
pub(crate) mod cntr;
pub(crate) mod cq;
pub(crate) mod domain;
pub(crate) mod endpoint;
pub(crate) mod eq;
pub(crate) mod fabric;
pub(crate) mod kinds;
pub(crate) mod messages;
pub(crate) mod mr;
pub(crate) mod rma;
