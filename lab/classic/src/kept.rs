//! Cores that no model and no plan needs: kept for their own sake, with their tests and fuzz
//! targets.
//!
//! | module | core |
//! |---|---|
//! | [`msnl`] | signalling for the Cambridge Backbone |

pub mod msnl;
