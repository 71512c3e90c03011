//! The border to C: no panic crosses it, and what a pointer leads to is checked as far as it can be.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::failure::{BwE, Failure, Result};
use crate::handles::{Handle, InUse, enter, open};

/// Wait as long as it takes.
pub const BW_FOREVER: i64 = -1;
/// Do not wait.
pub const BW_NO_WAIT: i64 = 0;

/// Runs a call: its count, or the code of the failure, which is kept for `bw_last_error`.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Result<i64>) -> i64 {
    // What a panic leaves behind is used no more than after an error.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(count)) => count,
        Ok(Err(failure)) => i64::from(failure.keep()),
        Err(panic) => i64::from(Failure::panicked(&*panic).keep()),
    }
}

/// The same, for what returns 0 or a small number.
#[inline(always)]
pub(crate) fn status(body: impl FnOnce() -> Result<i32>) -> i32 {
    call(|| body().map(i64::from)) as i32
}

/// A call with one object.
#[inline(always)]
pub(crate) fn call_on<H: Handle>(
    handle: H,
    body: impl FnOnce(&mut InUse<H::Object>) -> Result<i64>,
) -> i64 {
    call(|| body(&mut enter(handle)?))
}

/// The same, for what returns 0 or a small number.
#[inline(always)]
pub(crate) fn status_on<H: Handle>(
    handle: H,
    body: impl FnOnce(&mut InUse<H::Object>) -> Result<i32>,
) -> i32 {
    status(|| body(&mut enter(handle)?))
}

/// Closes a handle. What that does is done when the table has forgotten the object.
pub(crate) fn close<H: Handle>(handle: H) -> i32 {
    status(|| {
        drop(crate::handles::take(handle)?);
        Ok(0)
    })
}

/// Where a result goes.
///
/// # Safety
/// `out` is null, or a `T` can be stored there.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<i32> {
    if out.is_null() {
        return Err(null("where the result is to go"));
    }
    // SAFETY: the caller promises it. It need not be aligned: nobody says so to C programs that pack structs.
    unsafe { out.write_unaligned(value) };
    Ok(0)
}

/// Makes an object and stores its handle. If it fails, the handle there is zero.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn make<H: Handle>(
    out: *mut H,
    object: impl FnOnce() -> Result<H::Object>,
) -> Result<i32> {
    // Before anything is made that nobody could close.
    // SAFETY: the caller promises it.
    unsafe { put(out, H::from_number(0))? };
    let handle = open::<H>(object()?)?;
    // SAFETY: the caller promises it.
    unsafe { put(out, handle) }
}

#[cold]
pub(crate) fn null(what: &str) -> Failure {
    Failure::caller(BwE::Null, format!("{what} is null"))
}

#[cold]
fn bad_bytes(data: *const c_void, bytes: usize) -> Failure {
    if data.is_null() {
        return null(&format!("the pointer to {bytes} bytes"));
    }
    Failure::caller(
        BwE::Argument,
        format!("a length of {bytes} bytes: no memory is that large"),
    )
}

/// Bytes that a program passes.
///
/// # Safety
/// `data` is null, or leads to so many bytes, which stay until the call ends.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(data: *const c_void, bytes: usize) -> Result<&'a [u8]> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if data.is_null() || bytes > isize::MAX as usize {
        return Err(bad_bytes(data, bytes));
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), bytes) })
}

/// A buffer to be filled.
///
/// # Safety
/// `buffer` is null, or leads to room for so many bytes, which nobody else uses until the call ends.
#[inline(always)]
pub(crate) unsafe fn buffer<'a>(buffer: *mut c_void, bytes: usize) -> Result<&'a mut [u8]> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() || bytes > isize::MAX as usize {
        return Err(bad_bytes(buffer, bytes));
    }
    // SAFETY: the caller promises it. What is in it is only written.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), bytes) })
}

/// A text that a program passes.
///
/// # Safety
/// `text` is null, or leads to a string that ends with a zero byte, and stays until the call ends.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Failure::caller(BwE::Argument, format!("{what} is not UTF-8: {text:?}")))
}

/// Copies a text out, with a zero byte behind it; its length without that.
///
/// # Safety
/// As [`buffer`].
pub(crate) unsafe fn copy_text(text: &str, into: *mut c_char, bytes: usize) -> Result<i64> {
    // SAFETY: the caller promises it.
    let into = unsafe { buffer(into.cast(), bytes)? };
    if into.len() <= text.len() {
        return Err(Failure::too_small(text.len() + 1, into.len()));
    }
    into[..text.len()].copy_from_slice(text.as_bytes());
    into[text.len()] = 0;
    Ok(text.len() as i64)
}

/// Copies bytes out; how many.
///
/// # Safety
/// As [`buffer`].
pub(crate) unsafe fn copy_bytes(data: &[u8], into: *mut c_void, bytes: usize) -> Result<i64> {
    // SAFETY: the caller promises it.
    let into = unsafe { buffer(into, bytes)? };
    if into.len() < data.len() {
        return Err(Failure::too_small(data.len(), into.len()));
    }
    into[..data.len()].copy_from_slice(data);
    Ok(data.len() as i64)
}

/// A time-out that is not 0: `None` is for ever.
#[inline]
pub(crate) fn timeout(timeout_ns: i64) -> Option<Duration> {
    match timeout_ns {
        ..=BW_FOREVER => None,
        _ => Some(Duration::from_nanos(timeout_ns as u64)),
    }
}

/// What nobody waited for, or not any more.
#[inline]
pub(crate) fn nothing(timeout_ns: i64) -> Failure {
    match timeout_ns {
        BW_NO_WAIT => Failure::WouldBlock,
        _ => Failure::TimedOut,
    }
}

/// A copy of a structure that a program passes with its size as the first field: what an older program does not know of
/// is zero, which means the default. `None` if there is none.
///
/// # Safety
/// `T` is a plain structure that may be all zero, with a `usize` as its first field. `from` is null, or leads to as many
/// bytes as its first field says.
pub(crate) unsafe fn versioned<T: Copy>(from: *const T, what: &str) -> Result<Option<T>> {
    if from.is_null() {
        return Ok(None);
    }
    let own = size_of::<T>();
    // SAFETY: the caller promises a first field.
    let given = unsafe { from.cast::<usize>().read_unaligned() };
    let wrong = || {
        Failure::caller(
            BwE::Argument,
            format!(
                "struct_bytes of {what} is {given}: set it to sizeof, and everything else to zero first"
            ),
        )
    };
    if !(size_of::<usize>()..=4096).contains(&given) {
        return Err(wrong());
    }
    // SAFETY: the caller promises so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), given) };
    if bytes.len() > own && bytes[own..].iter().any(|&byte| byte != 0) {
        return Err(Failure::caller(
            BwE::Argument,
            format!("{what} asks for something that this version of the library does not have"),
        ));
    }
    // SAFETY: the caller promises that it may be all zero.
    let mut copy: T = unsafe { std::mem::zeroed() };
    let common = bytes.len().min(own);
    // SAFETY: both have so many bytes, and a plain structure may have any.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut copy).cast::<u8>(), common) };
    Ok(Some(copy))
}

/// An entry of an array that a program passes.
///
/// # Safety
/// `array` is null, or leads to so many entries, which stay until the call ends.
pub(crate) unsafe fn array<'a, T>(array: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if array.is_null() {
        return Err(null(what));
    }
    if count > isize::MAX as usize / size_of::<T>() || array.align_offset(align_of::<T>()) != 0 {
        return Err(Failure::caller(
            BwE::Argument,
            format!("{what}: {count} entries at {array:?} are no array"),
        ));
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(array, count) })
}

/// Gives an enumeration of C a `from_c`, which turns the number that a program passes into one of its values.
macro_rules! from_c {
    ($type:ident, $name:literal, $($value:ident),+) => {
        impl $type {
            fn from_c(value: i32) -> $crate::failure::Result<$type> {
                let values = [$($type::$value),+];
                let found = values.into_iter().find(|&known| known as i32 == value);
                found.ok_or_else(|| {
                    let text = format!("{value} is no value of {}", $name);
                    $crate::failure::Failure::caller($crate::failure::BwE::Argument, text)
                })
            }
        }
    };
}
pub(crate) use from_c;
