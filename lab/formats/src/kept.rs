//! Formats that no model and no plan needs: kept for their own sake, for `barewire wire` and the
//! fuzz targets.
//!
//! | module | format |
//! |---|---|
//! | [`atmarp`] | ATMARP and `InATMARP` |
//! | [`mod@line`] | the line code of the Cambridge Backbone |
//! | [`llc`] | LLC/SNAP and VC multiplexing |
//! | [`msnl`] | the signalling messages of MSNL |
//! | [`sonet`] | STS-3c and STS-12c frames |

pub mod atmarp;
pub mod line;
pub mod llc;
pub mod msnl;
pub mod sonet;
