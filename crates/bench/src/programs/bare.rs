//! What the bare machine does at this moment: the limits of `barewire bench`.

use std::thread;

use crate::case::{ChannelSpec, Habits, Test, Transport, Variant, Waiting, Work};
use crate::error::{Error, Result};
use crate::placement::Placement;
use crate::session::Session;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// One cache line to and fro; nanoseconds.
    PingPong,
    /// A message of so many bytes, copied in and out, to and fro; nanoseconds.
    Exchange(usize),
    /// Messages of so many bytes through a ring, one way; bytes per second.
    Ring(usize),
}

/// Bytes up to which the smaller ring is the better one.
const SMALL_BYTES: usize = 4096;

impl Limit {
    fn spec(self) -> ChannelSpec {
        let (variant, size) = match self {
            Limit::PingPong => (Variant::PingPong, 64),
            Limit::Exchange(size) => (Variant::Exchange, size),
            Limit::Ring(size) if size <= SMALL_BYTES => (Variant::Ring64k, size),
            Limit::Ring(size) => (Variant::Ring1m, size),
        };
        ChannelSpec {
            transport: Transport::Limit,
            variant,
            size,
            many: None,
            ring_bytes: 0,
            waiting: Waiting::Polling,
        }
    }
}

/// Measures each limit for so long.
///
/// In a thread of its own, since what measures is tied to its processor, and programs that
/// are started later must not be.
pub fn measure(placement: Placement, limits: &[Limit], ms: u64) -> Result<Vec<f64>> {
    let all = || -> Result<Vec<f64>> {
        let mut session = Session::start(placement, 1_000_000)?;
        let mut found = Vec::new();
        for (id, &limit) in limits.iter().enumerate() {
            found.push(one(&mut session, id, limit, ms)?);
        }
        Ok(found)
    };
    thread::scope(|scope| {
        let found = scope.spawn(all).join();
        found.unwrap_or_else(|_| Err(Error::Transport("the limit was not measured".into())))
    })
}

fn one(session: &mut Session, id: usize, limit: Limit, ms: u64) -> Result<f64> {
    let spec = limit.spec();
    let is_rate = matches!(limit, Limit::Ring(_));
    let work = Work {
        test: if is_rate { Test::Stream } else { Test::Rtt },
        size: spec.size,
        connections: 1,
        outstanding: 1,
        waiting: Waiting::Polling,
        duration_ns: ms * 1_000_000,
        habits: Habits::default(),
    };
    session.open(id, &spec)?;
    let sample = session.sample(id, &work, "a limit of the machine")?;
    session.close(id)?;
    Ok(match is_rate {
        true => spec.size as f64 * 1e9 / sample.per_operation_ns,
        false => sample.per_operation_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_fit_their_messages() {
        assert_eq!(Limit::Ring(64).spec().variant, Variant::Ring64k);
        assert_eq!(Limit::Ring(1 << 20).spec().variant, Variant::Ring1m);
        assert_eq!(Limit::Exchange(100).spec().size, 100);
    }
}
