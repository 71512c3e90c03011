//! The fabrics that stand, as the suites see them, and broken ones that they must reject.

pub mod broken;
pub mod card;
pub mod carriers;
pub mod network;
pub mod private;
pub mod rdma;
pub mod shared;
