//! The runs of an experiment: one for each point, on all processors.

use crate::error::SystemError;
use crate::experiment::Setting;
use crate::replicate::replicate;

/// Runs `run` for each of `points`, says how far it is, and gives what they found in the order
/// of the points. `run` is also told how many packets to record of each link: only the first
/// point is recorded.
pub(crate) fn sweep<P: Sync, T: Send>(
    setting: &Setting<'_>,
    points: &[P],
    run: impl Fn(&P, usize) -> T + Sync,
) -> Vec<T> {
    setting.progress.announce(points.len() as u64);
    replicate(points.len(), |index| {
        let packets = match index {
            0 => setting.packets_per_link,
            _ => 0,
        };
        let found = run(&points[index], packets);
        setting.progress.step();
        found
    })
}

/// The same for runs that may fail; the error is that of the first point that did.
pub(crate) fn try_sweep<P: Sync, T: Send>(
    setting: &Setting<'_>,
    points: &[P],
    run: impl Fn(&P, usize) -> Result<T, SystemError> + Sync,
) -> Result<Vec<T>, SystemError> {
    sweep(setting, points, run).into_iter().collect()
}
