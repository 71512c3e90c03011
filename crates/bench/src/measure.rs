//! What every measurement needs: a clock, statistics, bands of the machine's own speed, and
//! waits that give up.

pub mod bands;
pub mod clock;
pub mod spin;
pub mod stats;
