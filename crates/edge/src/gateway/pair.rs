//! A connection of the program: its socket's other end over the loopback device, and the stream through the bridge.
//!
//! Bytes go from each to the other through one buffer each way. While a buffer is full, nothing is read that would have
//! to go there, so each side's window closes when the other side does not read. The end of a stream is handed on when
//! all before it is. A reset on one side is one on the other.

use crate::gateway::known::Known;
use crate::stream::EdgeStream;
use barewire_sys::loopback;
use barewire_sys::wake::{Epoll, Interest};
use barewire_tcp::State;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

/// Bytes that are on their way from one to the other at most.
const BUFFER_BYTES: usize = 128 << 10;
/// How often both directions are tried, until others have their turn.
const ROUNDS_MAX: usize = 16;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// There is nothing to do until something happens.
    Waits,
    /// There is more to do.
    HasMore,
    /// It has ended.
    Over,
}

/// Bytes of one direction.
#[derive(Debug, Default)]
struct Way {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Nothing comes any more.
    has_ended: bool,
    /// And that was handed on.
    is_told: bool,
}

impl Way {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn waiting(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Room for bytes, if those before are all gone.
    fn room(&mut self) -> Option<&mut [u8]> {
        if self.has_ended || !self.is_empty() {
            return None;
        }
        // A connection on which nothing goes this way needs no memory for it.
        self.bytes.resize(BUFFER_BYTES, 0);
        Some(&mut self.bytes)
    }

    fn filled(&mut self, count: usize) {
        (self.from, self.to) = (0, count);
        self.has_ended = count == 0;
    }

    fn taken(&mut self, count: usize) {
        self.from += count;
    }

    /// Whether the end is to be handed on now.
    fn tells_end(&mut self) -> bool {
        let tells = self.has_ended && self.is_empty() && !self.is_told;
        self.is_told |= tells;
        tells
    }
}

/// Such a connection.
#[derive(Debug)]
pub(super) struct Pair {
    token: u64,
    cookie: Option<u64>,
    port: Option<u16>,
    from: Option<SocketAddr>,
    /// The program's socket, until it is connected.
    program: Option<OwnedFd>,
    /// Its other end.
    kernel: Option<TcpStream>,
    has_hung_up: bool,
    /// Whether the ends of its stream are known.
    has_ends: bool,
    out: Way,
    back: Way,
}

impl Pair {
    /// One whose stream is being opened for a socket that is on its way.
    pub(super) fn opening(token: u64, cookie: u64, from: SocketAddr, program: OwnedFd) -> Self {
        Self {
            cookie: Some(cookie),
            from: Some(from),
            program: Some(program),
            ..Self::accepted(token, 0)
        }
    }

    /// One that another host has opened. `port`: of the gateway's end.
    pub(super) fn accepted(token: u64, port: u16) -> Self {
        Self {
            token,
            cookie: None,
            port: (port != 0).then_some(port),
            from: None,
            program: None,
            kernel: None,
            has_hung_up: false,
            has_ends: false,
            out: Way::default(),
            back: Way::default(),
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn is_opening(&self) -> bool {
        self.program.is_some()
    }

    pub(super) fn is_opening_for(&self, cookie: u64) -> bool {
        self.is_opening() && self.cookie == Some(cookie)
    }

    /// Where the program's socket is.
    pub(super) fn from(&self) -> SocketAddr {
        self.from
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub(super) fn take_program(&mut self) -> Option<(u64, OwnedFd)> {
        self.cookie.zip(self.program.take())
    }

    /// The cookie of its socket, at the first call: from now on its ends are known.
    pub(super) fn takes_ends(&mut self) -> Option<u64> {
        match core::mem::replace(&mut self.has_ends, true) {
            true => None,
            false => self.cookie,
        }
    }

    /// It is over.
    pub(super) fn forget(self, known: &mut Known) {
        known.end(self.cookie, self.port);
    }

    /// Takes the other end of the program's socket.
    pub(super) fn attach(&mut self, kernel: TcpStream, epoll: &Epoll) -> io::Result<()> {
        // Whatever ends this process, the program does not take it for the end of the stream.
        loopback::reset_at_close(&kernel, true)?;
        let interest = Interest {
            edge: true,
            ..Interest::READ_WRITE
        };
        epoll
            .add(&kernel, self.token, interest)
            .map_err(io::Error::other)?;
        self.kernel = Some(kernel);
        Ok(())
    }

    /// Something has happened to the program's end.
    pub(super) fn note(&mut self, has_hung_up: bool) {
        self.has_hung_up |= has_hung_up;
    }

    /// Moves what can be moved. When it is over, what has not ended on either side is reset.
    pub(super) fn pump(&mut self, stream: &mut EdgeStream) -> Fate {
        let Some(kernel) = &mut self.kernel else {
            return Fate::Over;
        };
        if core::mem::take(&mut self.has_hung_up) {
            // A reset is found also while nothing is read.
            if let Ok(Some(_)) | Err(_) = kernel.take_error() {
                return Fate::Over;
            }
        }
        for _ in 0..ROUNDS_MAX {
            let moved = move_out(&mut self.out, kernel, stream)
                .and_then(|out| Ok(out | move_back(&mut self.back, kernel, stream)?));
            match moved {
                Ok(true) => {}
                Ok(false) if self.out.is_told && self.back.is_told => {
                    return end_if_acknowledged(kernel, stream);
                }
                Ok(false) => return Fate::Waits,
                Err(Broken) => return Fate::Over,
            }
        }
        Fate::HasMore
    }
}

/// One of the two sides has gone.
struct Broken;

/// From the program to the other host. Says whether something moved.
fn move_out(
    way: &mut Way,
    kernel: &mut TcpStream,
    stream: &mut EdgeStream,
) -> Result<bool, Broken> {
    let mut has_moved = false;
    if let Some(room) = way.room() {
        if let Some(count) = done(kernel.read(room))? {
            way.filled(count);
            has_moved = true;
        }
    }
    if !way.is_empty() {
        let count = stream.try_write(way.waiting()).map_err(|_| Broken)?;
        way.taken(count);
        has_moved |= count > 0;
    }
    if way.tells_end() {
        stream.shutdown().map_err(|_| Broken)?;
    }
    Ok(has_moved)
}

/// And back.
fn move_back(
    way: &mut Way,
    kernel: &mut TcpStream,
    stream: &mut EdgeStream,
) -> Result<bool, Broken> {
    let mut has_moved = false;
    if let Some(room) = way.room() {
        if let Some(count) = stream.try_read(room).map_err(|_| Broken)? {
            way.filled(count);
            has_moved = true;
        }
    }
    if !way.is_empty() {
        if let Some(count) = done(kernel.write(way.waiting()))? {
            way.taken(count);
            has_moved |= count > 0;
        }
    }
    if way.tells_end() {
        kernel.shutdown(Shutdown::Write).map_err(|_| Broken)?;
    }
    Ok(has_moved)
}

/// What a call has moved; `None`: it would have had to wait.
fn done(result: io::Result<usize>) -> Result<Option<usize>, Broken> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
            // Its last packet is still to come.
            ErrorKind::NotConnected => Ok(None),
            _ => Err(Broken),
        },
    }
}

/// Both streams have ended. Once the other host has all of it, the program's side ends in the usual way, too.
fn end_if_acknowledged(kernel: &TcpStream, stream: &EdgeStream) -> Fate {
    match stream.state() {
        State::TimeWait | State::Closed => {
            // If that fails, the program sees a reset after the end.
            let _ = loopback::reset_at_close(kernel, false);
            Fate::Over
        }
        State::Opening | State::Open => Fate::Waits,
    }
}
