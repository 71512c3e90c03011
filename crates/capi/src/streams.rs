//! Byte streams, whole and split.

use std::ffi::c_void;

use barewire::{StreamReader, StreamWriter};

use crate::border::{
    BW_NO_WAIT, buffer, bytes, call_on, close, make, nothing, put, status, status_on, timeout,
};
use crate::failure::{Failure, Result};
use crate::handles::take;
use crate::kinds::{BwStream, BwStreamReader, BwStreamWriter};
use crate::messages::length;
use crate::peers::BwCredentials;

fn read(reader: &mut StreamReader, into: &mut [u8], timeout_ns: i64) -> Result<i64> {
    let read = match timeout_ns {
        BW_NO_WAIT => reader.try_read(into)?,
        _ => reader.read_timeout(into, timeout(timeout_ns))?,
    };
    read.map(length).ok_or_else(|| nothing(timeout_ns))
}

fn write(writer: &mut StreamWriter, data: &[u8], timeout_ns: i64) -> Result<i64> {
    let written = match timeout_ns {
        BW_NO_WAIT => writer.try_write(data)?,
        _ => writer.write_timeout(data, timeout(timeout_ns))?,
    };
    match written {
        0 if !data.is_empty() => Err(nothing(timeout_ns)),
        written => Ok(length(written)),
    }
}

fn write_all(writer: &mut StreamWriter, mut data: &[u8]) -> Result<i32> {
    while !data.is_empty() {
        let written = writer.write_timeout(data, None)?;
        if written == 0 {
            return Err(Failure::TimedOut);
        }
        data = &data[written..];
    }
    Ok(0)
}

/// Reads what is there, at most so many bytes; waits for the first one. Returns how many, 0 at the end of what the
/// peer writes. timeout_ns: BW_FOREVER, or BW_NO_WAIT.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_read(
    stream: BwStream,
    into: *mut c_void,
    into_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(stream, |s| {
        // SAFETY: the caller promises it.
        let into = unsafe { buffer(into, into_bytes)? };
        read(s.reader(), into, timeout_ns)
    })
}

/// Writes as much as there is room for; waits for room for the first byte. Returns how many bytes, of which the peer
/// sees all at once. timeout_ns: BW_FOREVER, or BW_NO_WAIT.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_write(
    stream: BwStream,
    data: *const c_void,
    data_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(stream, |s| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        write(s.writer(), data, timeout_ns)
    })
}

/// Writes all of it, however long that takes. Returns 0.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_write_all(
    stream: BwStream,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status_on(stream, |s| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        write_all(s.writer(), data)
    })
}

/// Says that nothing more will be written: the peer reads what was, and then the end. Reading goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_finish(stream: BwStream) -> i32 {
    status_on(stream, |s| {
        s.finish();
        Ok(0)
    })
}

/// The number of its connection, as events name it.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_number(stream: BwStream) -> i64 {
    call_on(stream, |s| Ok(length(s.id().index())))
}

/// As bw_connection_peer.
///
/// # Safety
/// `out` leads to room for the structure. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_peer(stream: BwStream, out: *mut BwCredentials) -> i32 {
    // SAFETY: the caller promises it.
    status_on(stream, |s| unsafe { put(out, s.peer().into()) })
}

/// The two directions, for two threads. The handle of the stream is closed.
///
/// # Safety
/// Both lead to room for a handle. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_split(
    stream: BwStream,
    reader: *mut BwStreamReader,
    writer: *mut BwStreamWriter,
) -> i32 {
    // SAFETY: the caller promises it.
    status(|| unsafe {
        put(reader, BwStreamReader { id: 0 })?;
        put(writer, BwStreamWriter { id: 0 })?;
        let (reading, writing) = take(stream)?.split();
        make(reader, || Ok(reading))?;
        make(writer, || Ok(writing))
    })
}

/// Closes the stream. What was written before stays readable.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_close(stream: BwStream) -> i32 {
    close(stream)
}

/// As bw_stream_read.
///
/// # Safety
/// `into` leads to room for so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_reader_read(
    reader: BwStreamReader,
    into: *mut c_void,
    into_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(reader, |r| {
        // SAFETY: the caller promises it.
        let into = unsafe { buffer(into, into_bytes)? };
        read(r, into, timeout_ns)
    })
}

/// Closes the reading direction.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_reader_close(reader: BwStreamReader) -> i32 {
    close(reader)
}

/// As bw_stream_write.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_writer_write(
    writer: BwStreamWriter,
    data: *const c_void,
    data_bytes: usize,
    timeout_ns: i64,
) -> i64 {
    call_on(writer, |w| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        write(w, data, timeout_ns)
    })
}

/// As bw_stream_write_all.
///
/// # Safety
/// `data` leads to so many bytes. One thread at a time uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_stream_writer_write_all(
    writer: BwStreamWriter,
    data: *const c_void,
    data_bytes: usize,
) -> i32 {
    status_on(writer, |w| {
        // SAFETY: the caller promises it.
        let data = unsafe { bytes(data, data_bytes)? };
        write_all(w, data)
    })
}

/// As bw_stream_finish.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_writer_finish(writer: BwStreamWriter) -> i32 {
    status_on(writer, |w| {
        w.finish();
        Ok(0)
    })
}

/// Closes the writing direction.
#[unsafe(no_mangle)]
pub extern "C" fn bw_stream_writer_close(writer: BwStreamWriter) -> i32 {
    close(writer)
}
