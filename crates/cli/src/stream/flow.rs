//! The data of a test: written for a time, read to the end.

use std::time::Instant;

use super::common::{PATIENCE, Result, StreamError, doing};
use super::order::{Order, Tally};
use super::transport::Transport;

/// What a call reads at least, so that small messages are not measured by the reader's calls.
const READ_BYTES_MIN: usize = 64 << 10;

/// Writes for the time of the order, then says that this was all.
pub fn produce(transport: &mut dyn Transport, order: &Order) -> Result<u64> {
    let message = vec![0x55_u8; order.message_bytes as usize];
    let end = Instant::now() + order.time();
    let mut written = 0;
    while Instant::now() < end {
        let mut rest = &message[..];
        // A message that was begun is written whole, or Nagle's rule would see its parts.
        while !rest.is_empty() {
            let bytes = transport.write(rest).map_err(doing("sending"))?;
            rest = &rest[bytes..];
            written += bytes as u64;
        }
    }
    transport.finish().map_err(doing("ending the stream"))?;
    Ok(written)
}

/// Reads to the end; the clock runs from the first byte to the last.
pub fn consume(transport: &mut dyn Transport, order: &Order) -> Result<Tally> {
    let mut buffer = vec![0_u8; (order.message_bytes as usize).max(READ_BYTES_MIN)];
    let latest = Instant::now() + order.time() + PATIENCE;
    let mut first = None;
    let mut tally = Tally::default();
    loop {
        let bytes = transport.read(&mut buffer).map_err(doing("receiving"))?;
        let now = Instant::now();
        if bytes == 0 {
            return Ok(tally);
        }
        if now > latest {
            return Err(StreamError::Peer("sends for longer than was asked".into()));
        }
        let first = *first.get_or_insert(now);
        tally.bytes += bytes as u64;
        tally.nanoseconds = (now - first).as_nanos() as u64;
    }
}
