//! What the experiments have in common: what is refused, how runs are put together.

use crate::cbn::runs::{Observed, us};
use crate::error::SystemError;
use crate::experiment::{Outcome, Setting};
use crate::replicate::replicate;
use barewire_units::Duration;

/// Runs `run` for each of `points` on all processors, and says how far it is.
pub(super) fn run_all<P: Sync, T: Send>(
    setting: &Setting<'_>,
    points: &[P],
    run: impl Fn(&P) -> Result<T, SystemError> + Sync,
) -> Result<Vec<T>, SystemError> {
    setting.progress.announce(points.len() as u64);
    let results = replicate(points.len(), |index| {
        let result = run(&points[index]);
        setting.progress.step();
        result
    });
    results.into_iter().collect()
}

/// Takes in the hash of a run and, if there are none yet, what went over its links.
pub(super) fn take(outcome: &mut Outcome, observed: &mut Observed) {
    outcome.trace_hash = outcome.trace_hash.rotate_left(7) ^ observed.trace_hash;
    if outcome.links.is_empty() {
        outcome.links = std::mem::take(&mut observed.links);
    }
}

/// Mean and 99th percentile in microseconds; of nothing there is none.
pub(super) fn mean_and_p99(times: &[Duration]) -> (Option<f64>, Option<f64>) {
    if times.is_empty() {
        return (None, None);
    }
    let mut sorted: Vec<f64> = times.iter().map(|&time| us(time)).collect();
    sorted.sort_by(f64::total_cmp);
    let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
    let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
    (Some(mean), Some(p99))
}
