//! What the experiments have in common: how runs are put together.

use barewire_units::Duration;

use crate::cbn::runs::Observed;
use crate::experiment::Outcome;
use crate::figures::{mean, p99, us};

/// Takes in a run.
pub(super) fn take(outcome: &mut Outcome, observed: &mut Observed) {
    outcome.add_run(observed.trace_hash, observed.links.drain(..));
}

/// Mean and 99th percentile in microseconds; of nothing there is none.
pub(super) fn mean_and_p99(times: &[Duration]) -> (Option<f64>, Option<f64>) {
    let mut times: Vec<f64> = times.iter().map(|&time| us(time)).collect();
    let p99 = p99(&mut times);
    (mean(&times), p99)
}
