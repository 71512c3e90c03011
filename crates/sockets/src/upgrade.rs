//! How the two ends of a connection find each other, prove who they are, and set up a hybrid stream.

pub mod capability_mark;
pub mod enrol;
pub mod patience;
pub mod rendezvous;
pub mod steps;
pub mod unix_streams;
pub mod worth;
