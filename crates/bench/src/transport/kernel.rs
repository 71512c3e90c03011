//! What the three kernel transports share: file descriptors that carry bytes.
//!
//! One connection spins non-blocking or sleeps blocking; many connections are served by
//! epoll, without sleeping (zero timeout) or with it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::case::REQUEST_BYTES;
use crate::case::{Test, Waiting, Work};
use crate::channel::control::Served;
use crate::channel::ends::{
    Channel, ClientEnd, Context, ManyClient, ManyServer, Measured, ServerEnd,
};
use crate::channel::loops::{self, LAST};
use crate::error::{Error, Result, What};
use crate::measure::spin::BoundedSpin;

/// A socket, or the two ends of two pipes.
#[derive(Debug)]
pub struct Duplex {
    read: OwnedFd,
    write: Option<OwnedFd>,
}

impl Duplex {
    /// One descriptor for both directions.
    pub fn socket(socket: OwnedFd) -> Duplex {
        Duplex {
            read: socket,
            write: None,
        }
    }

    /// A descriptor for each direction.
    pub fn pipes(read: OwnedFd, write: OwnedFd) -> Duplex {
        Duplex {
            read,
            write: Some(write),
        }
    }

    #[inline(always)]
    fn read(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    #[inline(always)]
    fn write(&self) -> BorrowedFd<'_> {
        self.write.as_ref().unwrap_or(&self.read).as_fd()
    }

    fn set_non_blocking(&self, non_blocking: bool) -> Result<()> {
        for fd in [self.read(), self.write()] {
            let mut flags = rustix::fs::fcntl_getfl(fd).what("reading descriptor flags")?;
            flags.set(OFlags::NONBLOCK, non_blocking);
            rustix::fs::fcntl_setfl(fd, flags).what("setting descriptor flags")?;
        }
        Ok(())
    }

    /// Writes everything, spinning where it would block.
    #[inline(always)]
    fn write_all(&self, mut bytes: &[u8], spin: &mut BoundedSpin) -> Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(self.write(), bytes) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    spin.reset();
                }
                Err(Errno::AGAIN) => spin.turn()?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).what("writing to the other process"),
            }
        }
        Ok(())
    }

    /// Reads what there is, spinning where it would block.
    #[inline(always)]
    fn read_some(&self, into: &mut [u8], spin: &mut BoundedSpin) -> Result<usize> {
        loop {
            match rustix::io::read(self.read(), &mut *into) {
                Ok(0) => return Err(closed()),
                Ok(got) => {
                    spin.reset();
                    return Ok(got);
                }
                Err(Errno::AGAIN) => spin.turn()?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).what("reading from the other process"),
            }
        }
    }
}

fn closed() -> Error {
    Error::Peer("it closed the connection".into())
}

/// One connection.
#[derive(Debug)]
pub struct One {
    duplex: Duplex,
    spin: BoundedSpin,
}

impl One {
    /// A channel over the connection.
    pub fn new(duplex: Duplex) -> One {
        One {
            duplex,
            spin: BoundedSpin::new("a kernel transport"),
        }
    }
}

impl Channel for One {
    const BYTES_PER_LOOK: usize = 0;

    fn set_waiting(&mut self, waiting: Waiting) -> Result<()> {
        self.duplex.set_non_blocking(waiting == Waiting::Polling)
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.duplex.write_all(message, &mut self.spin)
    }

    #[inline(always)]
    fn recv_exact(&mut self, message: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < message.len() {
            filled += self
                .duplex
                .read_some(&mut message[filled..], &mut self.spin)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_some(&mut self, buffer: &mut [u8], _size: usize) -> Result<usize> {
        self.duplex.read_some(buffer, &mut self.spin)
    }
}

impl ClientEnd for One {
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured> {
        match work.test {
            Test::Rtt | Test::Wake => loops::rtt_client(self, work, context),
            Test::Stream => loops::stream_client(self, work, context),
            Test::Transactions => Err(Error::Transport("a single connection".into())),
        }
    }
}

impl ServerEnd for One {
    fn serve(&mut self, work: &Work, context: &mut Context) -> Result<Served> {
        match work.test {
            Test::Rtt | Test::Wake => loops::rtt_server(self, work, context),
            Test::Stream => loops::stream_server(self, work, context),
            Test::Transactions => Err(Error::Transport("a single connection".into())),
        }
    }
}

/// How many events one epoll_wait may return.
const EVENTS: usize = 256;

/// Many connections in an epoll set.
pub struct Many {
    epoll: OwnedFd,
    connections: Vec<(Duplex, usize)>,
    events: Vec<epoll::Event>,
    timeout: Option<rustix::event::Timespec>,
    buffer: Vec<u8>,
    outgoing: Vec<u8>,
    spin: BoundedSpin,
}

impl Many {
    /// Puts the connections into a new epoll set.
    pub fn new(connections: Vec<Duplex>) -> Result<Many> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).what("making an epoll set")?;
        for (index, duplex) in connections.iter().enumerate() {
            duplex.set_non_blocking(true)?;
            epoll::add(
                &epoll,
                duplex.read(),
                epoll::EventData::new_u64(index as u64),
                epoll::EventFlags::IN,
            )
            .what("adding a connection to the epoll set")?;
        }
        Ok(Many {
            epoll,
            connections: connections.into_iter().map(|duplex| (duplex, 0)).collect(),
            events: Vec::with_capacity(EVENTS),
            timeout: None,
            buffer: vec![0; 64 * 1024],
            outgoing: Vec::with_capacity(64 * 1024),
            spin: BoundedSpin::new("transactions over a kernel transport"),
        })
    }

    fn wait_mode(&mut self, waiting: Waiting) {
        self.timeout = match waiting {
            Waiting::Polling => Some(rustix::event::Timespec::default()),
            Waiting::Blocking => None,
        };
    }

    fn wait(&mut self) -> Result<()> {
        self.events.clear();
        loop {
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut self.events),
                self.timeout.as_ref(),
            );
            match waited {
                Ok(0) => self.spin.turn()?,
                Ok(_) => {
                    self.spin.reset();
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).what("waiting in epoll"),
            }
        }
    }

    /// Reads from a connection that is ready: how many whole messages, and whether the
    /// last of them ends the sample.
    fn take(&mut self, index: usize) -> Result<(usize, bool)> {
        let (duplex, carried) = &mut self.connections[index];
        let got = match rustix::io::read(duplex.read(), &mut self.buffer[..]) {
            Ok(0) => return Err(closed()),
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok((0, false)),
            Err(error) => return Err(error).what("reading from the other process"),
        };
        let whole = *carried + got;
        *carried = whole % REQUEST_BYTES;
        let last = *carried == 0 && self.buffer[got - 1] == LAST;
        Ok((whole / REQUEST_BYTES, last))
    }

    fn put(&mut self, index: usize, message: &[u8], count: usize) -> Result<()> {
        self.outgoing.clear();
        for _ in 0..count {
            self.outgoing.extend_from_slice(message);
        }
        self.connections[index]
            .0
            .write_all(&self.outgoing, &mut self.spin)
    }
}

impl ManyClient for Many {
    fn set_waiting(&mut self, waiting: Waiting) -> Result<()> {
        self.wait_mode(waiting);
        Ok(())
    }

    fn send(&mut self, connection: u32, request: &[u8], count: u32) -> Result<()> {
        self.put(connection as usize, request, count as usize)
    }

    fn replies(&mut self, ready: &mut Vec<(u32, u32)>) -> Result<()> {
        self.wait()?;
        for event in 0..self.events.len() {
            let index = self.events[event].data.u64() as usize;
            let (count, _) = self.take(index)?;
            if count > 0 {
                ready.push((index as u32, count as u32));
            }
        }
        Ok(())
    }
}

impl ManyServer for Many {
    fn set_waiting(&mut self, waiting: Waiting) -> Result<()> {
        self.wait_mode(waiting);
        Ok(())
    }

    fn turn(&mut self) -> Result<bool> {
        self.wait()?;
        let mut finished = false;
        for event in 0..self.events.len() {
            let index = self.events[event].data.u64() as usize;
            let (count, last) = self.take(index)?;
            if count > 0 {
                self.put(index, &[0; REQUEST_BYTES], count)?;
            }
            finished |= last;
        }
        Ok(finished)
    }
}

impl ClientEnd for Many {
    fn measure(&mut self, work: &Work, context: &mut Context) -> Result<Measured> {
        loops::transactions_client(self, work, context)
    }
}

impl ServerEnd for Many {
    fn serve(&mut self, work: &Work, _: &mut Context) -> Result<Served> {
        loops::transactions_server(self, work)
    }
}

/// The client's end over these connections: one alone, or all in an epoll set.
pub fn client_over(connections: Vec<Duplex>, many: bool) -> Result<Box<dyn ClientEnd>> {
    if many {
        return Ok(Box::new(Many::new(connections)?));
    }
    Ok(Box::new(One::new(only(connections)?)))
}

/// The server's end over these connections.
pub fn server_over(connections: Vec<Duplex>, many: bool) -> Result<Box<dyn ServerEnd>> {
    if many {
        return Ok(Box::new(Many::new(connections)?));
    }
    Ok(Box::new(One::new(only(connections)?)))
}

fn only(mut connections: Vec<Duplex>) -> Result<Duplex> {
    connections
        .pop()
        .ok_or_else(|| Error::Transport("no connection was made".into()))
}
