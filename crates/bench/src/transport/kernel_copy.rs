//! The limit `kernel-copy`: a message stays where it is; its address goes through a shared line, and the receiver has
//! the kernel copy it from the sender's memory into its own (`process_vm_readv`).
//!
//! Four lines of shared memory for each direction, each with one word:
//!
//! | offset | word | stored by |
//! |---|---|---|
//! | 0 | how many messages were announced | sender |
//! | 64 | address of the last one | sender |
//! | 128 | how many were taken | receiver |
//! | 192 | the sender's process id | sender |

use barewire_shm::bare::Line;
use barewire_shm::region::Region;
use barewire_sys::process::{getpid, read_process};

use crate::case::Waiting;
use crate::channel::ends::{Channel, Side};
use crate::error::{Error, Result};
use crate::measure::spin::BoundedSpin;

/// Bytes of one direction.
const DIRECTION_BYTES: usize = 4 * 64;

#[derive(Debug)]
struct Direction {
    announced: Line,
    address: Line,
    taken: Line,
    sender: Line,
}

impl Direction {
    fn new(region: &Region, begin: usize) -> Option<Direction> {
        let line = |number: usize| Line::new(region, begin + number * 64);
        Some(Direction {
            announced: line(0)?,
            address: line(1)?,
            taken: line(2)?,
            sender: line(3)?,
        })
    }
}

/// One end.
#[derive(Debug)]
pub struct KernelCopy {
    out: Direction,
    into: Direction,
    sent: u64,
    received: u64,
    spin: BoundedSpin,
}

impl KernelCopy {
    /// Over the first lines of the region.
    pub fn new(region: &Region, side: Side) -> Result<KernelCopy> {
        let directions = (
            Direction::new(region, 0),
            Direction::new(region, DIRECTION_BYTES),
        );
        let (Some(there), Some(back)) = directions else {
            return Err(Error::Transport("the shared memory is too small".into()));
        };
        let (out, into) = match side {
            Side::Client => (there, back),
            Side::Server => (back, there),
        };
        out.sender.store(getpid() as u64);
        Ok(KernelCopy {
            out,
            into,
            sent: 0,
            received: 0,
            spin: BoundedSpin::new("the bare copy by the kernel"),
        })
    }

    #[inline(always)]
    fn wait_for(&mut self, count: u64, line: fn(&KernelCopy) -> &Line) -> Result<()> {
        while line(self).load() != count {
            self.spin.turn()?;
        }
        self.spin.reset();
        Ok(())
    }
}

impl Channel for KernelCopy {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    /// Waits until the receiver has it: the caller may change the message then.
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.sent += 1;
        self.out.address.store(message.as_ptr() as u64);
        self.out.announced.store(self.sent);
        self.wait_for(self.sent, |end| &end.out.taken)
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        self.received += 1;
        self.wait_for(self.received, |end| &end.into.announced)?;
        let sender = i32::try_from(self.into.sender.load()).unwrap_or(0);
        read_process(sender, self.into.address.load(), message)
            .map_err(|error| Error::Transport(error.to_string()))?;
        self.into.taken.store(self.received);
        Ok(())
    }
}
