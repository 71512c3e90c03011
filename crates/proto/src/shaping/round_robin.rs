//! Deficit round robin, shared by CBQ and HTB.
//!
//! Each member has a quantum in bytes, which counts as one where it is less. In a round each sends until it has used
//! up its deficit counter, then it is the next one's turn; the overshoot of its
//! last packet stays as a debt. A round begins when no member that could send has
//! anything left: each of those then gets its quantum. Where a quantum is smaller
//! than a debt, the rounds in which nobody sends are skipped in one step.

use alloc::vec::Vec;

/// The turn and the deficits of one ring of members, named by their index.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundRobin {
    turn: usize,
    deficits: Vec<i64>,
}

impl RoundRobin {
    /// The member of `ready` (in rising order) that sends next.
    pub(super) fn pick(
        &mut self,
        ready: &[usize],
        quantum: impl Fn(usize) -> i64,
    ) -> Option<usize> {
        let last = *ready.last()?;
        if self.deficits.len() <= last {
            self.deficits.resize(last + 1, 0);
        }
        self.begin_round(ready, quantum);
        let (before, from_turn) = ready.split_at(ready.partition_point(|&i| i < self.turn));
        let mut in_turn = from_turn.iter().chain(before).copied();
        let picked = in_turn.find(|&i| self.deficits[i] > 0)?;
        self.turn = picked;
        Some(picked)
    }

    /// Counts `len_bytes` sent by `member`.
    pub(super) fn charge(&mut self, member: usize, len_bytes: u32) {
        let Some(deficit) = self.deficits.get_mut(member) else {
            return;
        };
        *deficit = deficit.saturating_sub(i64::from(len_bytes));
        if *deficit <= 0 {
            self.turn = member + 1;
        }
    }

    fn begin_round(&mut self, ready: &[usize], quantum: impl Fn(usize) -> i64) {
        let rounds_to_send = |&i: &usize| {
            let debt = self.deficits[i].min(0).saturating_neg();
            match self.deficits[i] {
                1.. => 0,
                _ => (debt / quantum(i).max(1)).saturating_add(1),
            }
        };
        let rounds = ready.iter().map(rounds_to_send).min().unwrap_or(0);
        for &i in ready {
            let credit = quantum(i).max(1).saturating_mul(rounds);
            self.deficits[i] = self.deficits[i].saturating_add(credit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn sent_by(ring: &mut RoundRobin, ready: &[usize], quanta: &[i64], sends: usize) -> Vec<u64> {
        let mut bytes = vec![0; quanta.len()];
        for _ in 0..sends {
            let i = ring.pick(ready, |i| quanta[i]).expect("somebody is ready");
            ring.charge(i, 1_000);
            bytes[i] += 1_000;
        }
        bytes
    }

    #[test]
    fn shares_follow_the_quanta() {
        let mut ring = RoundRobin::default();
        let bytes = sent_by(&mut ring, &[0, 1, 2], &[1_500, 3_000, 1_500], 4_000);
        let shares = [1_000_000_u64, 2_000_000, 1_000_000];
        for (bytes, share) in bytes.into_iter().zip(shares) {
            // A packet more or less, as the last round is not over.
            assert!(share.abs_diff(bytes) <= 1_000, "{bytes} of {share}");
        }
    }

    #[test]
    fn a_quantum_of_one_byte_still_takes_turns() {
        let mut ring = RoundRobin::default();
        let bytes = sent_by(&mut ring, &[0, 1], &[1, 1], 1_000);
        assert_eq!(bytes, [500_000, 500_000]);
    }

    #[test]
    fn who_cannot_send_saves_nothing_up() {
        let mut ring = RoundRobin::default();
        sent_by(&mut ring, &[0], &[1_000, 1_000], 500);
        let bytes = sent_by(&mut ring, &[0, 1], &[1_000, 1_000], 100);
        assert_eq!(bytes, [50_000, 50_000]);
    }

    #[test]
    fn nobody_is_picked_from_nobody() {
        assert_eq!(RoundRobin::default().pick(&[], |_| 1), None);
    }
}
