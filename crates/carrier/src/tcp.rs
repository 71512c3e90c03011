//! The carrier that is always there: a TCP connection. What it carries is not encrypted.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::carrier::{Arrival, Broken, Carrier, Properties, Sleep};
use crate::socket::Quiet;

/// Parts that are given to the kernel in one call; whatever comes behind them goes in the next.
const PARTS_MAX: usize = 8;

/// A carrier over a TCP connection.
#[derive(Debug)]
pub struct TcpCarrier {
    stream: TcpStream,
    own_address: String,
    peer_address: String,
    /// Received, and not yet read.
    received: Vec<u8>,
    /// The kernel's buffer was full at the last attempt to write.
    is_full: bool,
}

impl TcpCarrier {
    /// Over an established connection, which becomes non-blocking. Small writes are sent at once.
    ///
    /// # Errors
    /// If the connection is down already.
    pub fn new(stream: TcpStream) -> Result<TcpCarrier, Broken> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(TcpCarrier {
            own_address: stream.local_addr()?.to_string(),
            peer_address: stream.peer_addr()?.to_string(),
            stream,
            received: Vec::new(),
            is_full: false,
        })
    }

    /// The same, over a connection from which `received` was taken already.
    #[cfg(feature = "tls")]
    pub(crate) fn behind(stream: TcpStream, received: &[u8]) -> Result<TcpCarrier, Broken> {
        let mut carrier = TcpCarrier::new(stream)?;
        carrier.received = received.to_vec();
        Ok(carrier)
    }

    /// Receives by `read`, which has room for something.
    fn receive(
        &self,
        mut read: impl FnMut(Quiet<'_>) -> io::Result<usize>,
    ) -> Result<Arrival, Broken> {
        loop {
            match read(Quiet(&self.stream)) {
                Ok(0) => return Ok(Arrival::End),
                Ok(count) => return Ok(Arrival::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Arrival::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends by `write`, and notes whether the kernel takes more.
    fn send(&mut self, write: impl Fn(Quiet<'_>) -> io::Result<usize>) -> Result<usize, Broken> {
        self.is_full = false;
        loop {
            match write(Quiet(&self.stream)) {
                Ok(taken) => return Ok(taken),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Ok(0);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Carrier for TcpCarrier {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if bytes.is_empty() {
            self.is_full = false;
            return Ok(0);
        }
        self.send(|mut stream| stream.write(bytes))
    }

    fn write_parts(&mut self, parts: &[&[u8]]) -> Result<usize, Broken> {
        let mut slices = [IoSlice::new(&[]); PARTS_MAX];
        let mut count = 0;
        for part in parts.iter().filter(|part| !part.is_empty()).take(PARTS_MAX) {
            slices[count] = IoSlice::new(part);
            count += 1;
        }
        match count {
            0 => self.write(&[]),
            _ => self.send(|mut stream| stream.write_vectored(&slices[..count])),
        }
    }

    fn flush(&mut self) -> Result<bool, Broken> {
        // The kernel sends what it has taken.
        Ok(true)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<Arrival, Broken> {
        if into.is_empty() {
            return Ok(Arrival::Nothing);
        }
        if !self.received.is_empty() {
            let count = into.len().min(self.received.len());
            into[..count].copy_from_slice(&self.received[..count]);
            self.received.drain(..count);
            return Ok(Arrival::Bytes(count));
        }
        self.receive(|mut stream| stream.read(into))
    }

    fn read_parts(&mut self, parts: [&mut [u8]; 3]) -> Result<Arrival, Broken> {
        if !self.received.is_empty() || parts.iter().all(|part| part.is_empty()) {
            let mut parts = parts.into_iter();
            let first = parts.find(|part| !part.is_empty());
            return first.map_or(Ok(Arrival::Nothing), |part| self.read(part));
        }
        let mut slices = parts.map(IoSliceMut::new);
        self.receive(|mut stream| stream.read_vectored(&mut slices))
    }

    fn finish(&mut self) -> Result<(), Broken> {
        match self.stream.shutdown(Shutdown::Write) {
            // The other side was faster.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            other => Ok(other?),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn before_sleep(&mut self) -> Sleep {
        if !self.received.is_empty() {
            return Sleep::NotYet;
        }
        match self.is_full {
            true => Sleep::UntilReadableOrWritable,
            false => Sleep::UntilReadable,
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            transport: "tcp".to_owned(),
            is_encrypted: false,
            own_address: self.own_address.clone(),
            peer_address: self.peer_address.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn pair() -> (TcpCarrier, TcpCarrier) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        (
            TcpCarrier::new(one).unwrap(),
            TcpCarrier::new(other).unwrap(),
        )
    }

    #[test]
    fn bytes_arrive_in_order_and_memory_is_bounded() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..64 << 20).map(|i: u32| (i % 251) as u8).collect();
        let mut taken = 0;
        while taken < sent.len() {
            match one.write(&sent[taken..]).unwrap() {
                0 => break,
                count => taken += count,
            }
        }
        assert!(
            taken < sent.len(),
            "the kernel took 64 MiB that nobody reads"
        );
        assert_eq!(one.before_sleep(), Sleep::UntilReadableOrWritable);
        one.finish().unwrap();
        let mut received = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match other.read(&mut buffer).unwrap() {
                Arrival::Bytes(count) => received.extend_from_slice(&buffer[..count]),
                Arrival::Nothing => std::thread::yield_now(),
                Arrival::End => break,
            }
        }
        assert!(
            received == sent[..taken],
            "{} of {taken} bytes",
            received.len()
        );
    }

    #[test]
    fn a_reset_is_an_error_that_stays() {
        let (mut one, other) = pair();
        assert_eq!(one.write(b"unread").unwrap(), 6);
        // Closing with unread bytes resets the connection.
        while other.stream.peek(&mut [0]).is_err() {
            std::thread::yield_now();
        }
        drop(other);
        let mut buffer = [0; 8];
        let error = loop {
            match one.read(&mut buffer) {
                Ok(Arrival::Nothing) => std::thread::yield_now(),
                Ok(found) => panic!("{found:?}"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("reset"), "{error}");
        assert!(one.write(b"more").is_err());
    }

    #[test]
    fn a_broken_connection_is_an_error_and_no_signal() {
        let signalled = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&signalled);
        signal_hook::flag::register(signal_hook::consts::SIGPIPE, flag).unwrap();
        let (mut one, other) = pair();
        drop(other);
        // Until the other side has said that nobody reads.
        while one.write_parts(&[b"in ", b"parts"]).is_ok() {
            std::thread::yield_now();
        }
        assert!(one.write_parts(&[b"in ", b"parts"]).is_err());
        assert!(one.write(b"whole").is_err());
        // Relaxed: the handler runs in this thread.
        assert!(!signalled.load(Ordering::Relaxed));
    }
}
