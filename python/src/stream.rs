//! Byte streams, below what `barewire/stream.py` makes of them.

use std::time::Instant;

use barewire::{Error, Stream, StreamReader, StreamWriter};
use pyo3::prelude::*;

use crate::calls::{Data, Room, Slot, timeout as seconds, wait};
use crate::errors::Outcome;
use crate::ids::number;
use crate::peer::Credentials;

/// Read at most at a time.
const READ_BYTES_MAX: usize = 1 << 20;

/// The two directions of a byte stream; one thread at a time uses each.
#[pyclass(frozen, module = "barewire._native")]
pub struct RawStream {
    reader: Slot<(StreamReader, Vec<u8>)>,
    writer: Slot<StreamWriter>,
    #[pyo3(get)]
    id: u32,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    peer: Credentials,
}

impl RawStream {
    pub fn new(stream: Stream, name: String) -> RawStream {
        let (id, peer) = (number(stream.id()), stream.peer().into());
        let (reader, writer) = stream.split();
        RawStream {
            reader: Slot::new((reader, Vec::new()), "another thread is reading"),
            writer: Slot::new(writer, "another thread is writing"),
            id,
            name,
            peer,
        }
    }
}

#[pymethods]
impl RawStream {
    /// Reads at least one byte into a buffer, unless at the end: then 0. Waits at most `timeout` seconds.
    fn readinto(&self, py: Python<'_>, buffer: Room<'_>, timeout: Option<f64>) -> Outcome<usize> {
        let timeout = seconds(timeout)?;
        let mut used = self.reader.lock()?;
        let (reader, scratch) = &mut *used;
        let most = buffer.len_bytes.min(READ_BYTES_MAX);
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        let into = &mut scratch[..most];
        let read = match reader.try_read(into)? {
            Some(read) => read,
            None => wait(py, timeout, self.reader.closing(), |slice| {
                reader.read_timeout(into, slice)
            })?
            .ok_or(Error::Timeout)?,
        };
        buffer.fill(&scratch[..read])?;
        Ok(read)
    }

    /// Reads what is there into a buffer; `None` if nothing is there yet, 0 at the end.
    fn try_readinto(&self, buffer: Room<'_>) -> Outcome<Option<usize>> {
        let mut used = self.reader.lock()?;
        let (reader, scratch) = &mut *used;
        let most = buffer.len_bytes.min(READ_BYTES_MAX);
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        let Some(read) = reader.try_read(&mut scratch[..most])? else {
            return Ok(None);
        };
        buffer.fill(&scratch[..read])?;
        Ok(Some(read))
    }

    /// Writes all of it; waits while the ring is full, at most `timeout` seconds. How much was written, if the time has
    /// passed before all was.
    fn write(&self, py: Python<'_>, data: Data<'_>, timeout: Option<f64>) -> Outcome<usize> {
        let timeout = seconds(timeout)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut used = self.writer.lock()?;
        let writer: &mut StreamWriter = &mut used;
        let bytes = data.get();
        let mut written = writer.try_write(bytes)?;
        while written < bytes.len() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let more = wait(py, left, self.writer.closing(), |slice| {
                let more = writer.write_timeout(&bytes[written..], slice)?;
                Ok((more > 0).then_some(more))
            })?;
            match more {
                Some(more) => written += more,
                None => break,
            }
        }
        Ok(written)
    }

    /// Writes as much as there is room for; how much that was.
    fn try_write(&self, data: Data<'_>) -> Outcome<usize> {
        Ok(self.writer.lock()?.try_write(data.get())?)
    }

    /// Says that nothing more will be written.
    fn finish(&self) -> Outcome {
        self.writer.lock()?.finish();
        Ok(())
    }

    /// Stops reading: what the peer writes from now on is refused.
    fn close_reader(&self, py: Python<'_>) {
        self.reader.close(py);
    }

    /// Closes both directions.
    fn close(&self, py: Python<'_>) {
        self.reader.close(py);
        self.writer.close(py);
    }
}
