//! Bytes of an aperture or of a message in place, as a `memoryview`: the one file of this crate with unsafe code.
//!
//! The Rust API gives no reference to shared memory, because a peer may change what it refers to. Here no reference is made
//! either: Python gets an address and a length. What reads the bytes is the interpreter or NumPy, for which bytes that change
//! are nothing special.
//!
//! Invariants:
//!
//! 1. The address and the length are those of a mapping, or of private memory, which `keeps` holds. Both stay as they are as
//!    long as it lives: a revocation puts private memory at the same place, and no peer can shrink the memory, which is sealed.
//!    Of a message, `keeps` is the loan, which has nothing else use that memory, and nothing free it (`in_place.rs`).
//! 2. Each buffer holds a reference to its [`View`], so that `keeps` outlives it.
//! 3. A mapping that can not be written is told to Python as read-only.

use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Where bytes are.
pub struct Bytes {
    /// The first.
    pub base: NonNull<u8>,
    /// How many there are.
    pub len_bytes: usize,
    /// Whether they can not be written.
    pub readonly: bool,
}

impl Bytes {
    /// Those of a vector, which is not to be changed; not to be written.
    pub fn of(vector: &mut Vec<u8>) -> Bytes {
        Bytes {
            base: NonNull::from(vector.as_mut_slice()).cast(),
            len_bytes: vector.len(),
            readonly: true,
        }
    }
}

// SAFETY: an address and a length. Nothing is read or written through it but by the interpreter.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

/// What a `memoryview` is of.
#[pyclass(frozen, module = "barewire._native")]
struct View {
    bytes: Bytes,
    /// Has the bytes stay.
    _keeps: Box<dyn Any + Send + Sync>,
}

/// A view of `bytes`, which are there as long as `keeps` lives.
pub fn view<'py>(
    py: Python<'py>,
    bytes: Bytes,
    keeps: impl Any + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    let view = View {
        bytes,
        _keeps: Box::new(keeps),
    };
    let object = Bound::new(py, view)?;
    Ok(PyMemoryView::from(object.as_any())?.into_any())
}

#[pymethods]
impl View {
    /// # Safety
    ///
    /// `buffer` is what the interpreter wants filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        let len = ffi::Py_ssize_t::try_from(bytes.len_bytes)
            .map_err(|_| PyOverflowError::new_err("longer than a buffer can be"))?;
        let readonly = c_int::from(bytes.readonly);
        // SAFETY: the interpreter gave `buffer`; address and length are right by invariant 1; the call takes a reference to
        // `slf`, which keeps invariant 2, and refuses a writable buffer of what is read-only.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                buffer,
                slf.as_ptr(),
                bytes.base.as_ptr().cast(),
                len,
                readonly,
                flags,
            )
        };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
