//! The kernel's two ways to wake a process, bare: both sides sleep in turn.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use barewire_shm::bare::Line;
use barewire_shm::region::Region;
use barewire_sys::wake::{futex_wait, futex_wake};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::case::Waiting;
use crate::channel::control::{Command, Control, Reply};
use crate::channel::ends::{Channel, Side};
use crate::channel::loops::LAST;
use crate::error::{Error, Result, What};

/// An eventfd each way.
#[derive(Debug)]
pub struct EventPair {
    out: OwnedFd,
    into: OwnedFd,
}

impl EventPair {
    /// Makes both and sends them to the server.
    pub fn open_client(control: &Control) -> Result<EventPair> {
        let make = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC).what("making an eventfd");
        let (out, into) = (make()?, make()?);
        control.send_with(&Command::Descriptors, &[out.as_fd(), into.as_fd()])?;
        control.expect_ready()?;
        Ok(EventPair { out, into })
    }

    /// Takes them.
    pub fn open_server(control: &Control) -> Result<EventPair> {
        let mut fds = control.expect_descriptors()?.into_iter();
        let (Some(into), Some(out)) = (fds.next(), fds.next()) else {
            return Err(Error::Peer("it sent no eventfds".into()));
        };
        control.send(&Reply::Ready)?;
        Ok(EventPair { out, into })
    }
}

impl Channel for EventPair {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        // The count is the message: one, or two for the last.
        let count = 1 + u64::from(message[message.len() - 1] == LAST);
        rustix::io::retry_on_intr(|| rustix::io::write(&self.out, &count.to_ne_bytes()))
            .what("writing an eventfd")?;
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        let mut count = [0; 8];
        loop {
            match rustix::io::read(&self.into, &mut count) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).what("reading an eventfd"),
            }
        }
        let last = message.len() - 1;
        message[last] = if u64::from_ne_bytes(count) == 1 {
            0
        } else {
            LAST
        };
        Ok(())
    }
}

/// A futex each way, a line for each.
#[derive(Debug)]
pub struct FutexPair {
    out: Line,
    into: Line,
    sent: u32,
    received: u32,
}

impl FutexPair {
    /// Over the first two lines of the region.
    pub fn new(region: &Region, side: Side) -> Result<FutexPair> {
        let lines = (Line::new(region, 0), Line::new(region, 64));
        let (Some(there), Some(back)) = lines else {
            return Err(Error::Transport("the shared memory is too small".into()));
        };
        let (out, into) = match side {
            Side::Client => (there, back),
            Side::Server => (back, there),
        };
        Ok(FutexPair {
            out,
            into,
            sent: 0,
            received: 0,
        })
    }
}

impl Channel for FutexPair {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, _: Waiting) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let word = self.out.futex_word();
        self.sent = self.sent.wrapping_add(2);
        let mark = u32::from(message[message.len() - 1] == LAST);
        // Release pairs with the Acquire of `recv_exact` in the other process.
        word.store(self.sent | mark, Ordering::Release);
        futex_wake(word, 1).map_err(|error| Error::Transport(error.to_string()))?;
        Ok(())
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        let word = self.into.futex_word();
        self.received = self.received.wrapping_add(2);
        loop {
            // Acquire pairs with the Release of `send` in the other process.
            let value = word.load(Ordering::Acquire);
            if value & !1 == self.received {
                let last = message.len() - 1;
                message[last] = if value & 1 == 1 { LAST } else { 0 };
                return Ok(());
            }
            futex_wait(word, value, Some(Duration::from_secs(1)))
                .map_err(|error| Error::Transport(error.to_string()))?;
        }
    }
}
